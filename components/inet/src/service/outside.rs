//! [`Outside`]: the world around the stack during one call. It collects what leaves the stack, to be dealt with afterwards.
use super::{
    passage::LIST_ROOM,
    streams::{Streams, arrival::TcpArrival, socket::TcpSocket},
    taps::Taps,
};
use crate::{
    base::packets::Departure,
    ip::stack::{Claim, Delivery, PacketOrigin, Surroundings},
    sockets::errors::{Quoted, RemoteError},
    tables::interface::InterfaceIndex,
};
use alloc::{boxed::Box, collections::VecDeque, sync::Arc, vec::Vec};
use interfaces::nic::PacketSegment;
use packet::protocol;

/// The world around the stack during one call.
pub(crate) struct Outside {
    /// The streams, which hear of errors.
    pub(crate) streams: Arc<Streams>,
    /// Packets for cards.
    pub(crate) departures: Vec<(InterfaceIndex, Departure<PacketSegment>)>,
    /// Segments of TCP for this host.
    pub(crate) segments: VecDeque<Box<TcpArrival>>,
    /// Errors about segments that sockets sent, with the sequence numbers of these.
    pub(crate) errors: Vec<(Arc<TcpSocket>, RemoteError, u32)>,
    /// The taps, which see all packets.
    pub(crate) taps: Arc<Taps>,
    /// Sockets whose backlog is to be taken.
    pub(crate) awaited: Vec<Arc<TcpSocket>>,
}

impl Outside {
    pub(crate) fn new(streams: Arc<Streams>, taps: Arc<Taps>) -> Outside {
        Outside {
            streams,
            departures: Vec::with_capacity(LIST_ROOM),
            segments: VecDeque::with_capacity(LIST_ROOM),
            errors: Vec::new(),
            taps,
            awaited: Vec::new(),
        }
    }
    /// Gives back the memory that a burst took for packets.
    pub(super) fn trim(&mut self) {
        self.departures.shrink_to(LIST_ROOM);
        self.segments.shrink_to(LIST_ROOM);
        self.errors.shrink_to(LIST_ROOM);
        self.awaited.shrink_to(LIST_ROOM);
    }
}

impl Surroundings<PacketSegment> for Outside {
    fn transmit(&mut self, interface: InterfaceIndex, packet: Departure<PacketSegment>) {
        if self.taps.are_watching() {
            self.taps.sent(interface, &packet, None);
        }
        self.departures.push((interface, packet));
    }
    fn pass_by(&mut self, origin: PacketOrigin, packet: &Departure<PacketSegment>) {
        if origin.interface == InterfaceIndex::LOOPBACK && self.taps.are_watching() {
            self.taps.looped(packet, origin.label);
        }
    }
    fn sees_passing(&self) -> bool {
        self.taps.are_watching()
    }
    fn deliver(&mut self, delivery: &Delivery<'_, PacketSegment>) -> Claim {
        if delivery.protocol == protocol::TCP {
            let arrival = TcpArrival::parse(delivery, self.streams.syn_saving());
            self.segments.extend(arrival.map(Box::new));
            return Claim::Taken;
        }
        Claim::Unknown
    }
    fn hear_error(&mut self, quoted: &Quoted<'_, PacketSegment>, error: &RemoteError) -> Claim {
        if quoted.protocol != protocol::TCP {
            return Claim::Unknown;
        }
        let found = self.streams.sender(quoted, &mut self.awaited);
        let Some((socket, seq)) = found else { return Claim::Unknown };
        self.errors.push((socket, *error, seq));
        Claim::Taken
    }
}
