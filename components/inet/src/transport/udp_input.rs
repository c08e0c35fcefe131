//! Input of UDP.
use crate::{
    base::{address::Family, buffer::Buffer, packets::Arrival},
    ip::{
        events::PacketEvent,
        path::Path,
        stack::{Cast, Delivery, Stack, StackRun},
        statistics::DropReason,
    },
    sockets::{bindings::PacketEnds, bound::Bindings, datagram_end::DatagramEnd},
};
use core::net::SocketAddr;
use packet::{
    Sum, protocol,
    udp::{HEADER_LENGTH, UdpHeader},
};

impl<B: Buffer> Stack<B> {
    /// Takes a datagram.
    pub(crate) fn input_udp(&self, run: &mut StackRun<'_, B>, delivery: &Delivery<'_, B>) {
        let (payload, family) = (&delivery.payload, Family::of(delivery.destination));
        let Ok(header) = UdpHeader::parse(payload.head(), payload.length()) else {
            return self.dropped(DropReason::Transport);
        };
        let whole = payload.part(0..header.length());
        if !is_intact(delivery, header, || whole.sum()) {
            run.events.note(family, [PacketEvent::UdpChecksum4, PacketEvent::UdpChecksum6]);
            return self.dropped(DropReason::Checksum);
        }
        let ends = PacketEnds {
            remote: SocketAddr::new(delivery.source, header.source.get()),
            local: SocketAddr::new(delivery.destination, header.destination.get()),
            interface: delivery.origin.interface,
            label: delivery.origin.label,
        };
        let data = whole.part(HEADER_LENGTH..usize::MAX);
        self.give(run, (delivery, &ends), &data, &self.datagrams.udp);
    }
    /// Gives a datagram to the sockets of a table that it is for.
    pub(super) fn give(
        &self,
        run: &mut StackRun<'_, B>,
        (delivery, ends): (&Delivery<'_, B>, &PacketEnds),
        data: &Arrival<'_, B>,
        table: &Bindings<DatagramEnd<Path>>,
    ) {
        if delivery.cast == Cast::Unicast {
            return match table.find(ends, || self.flow(ends)) {
                Some(socket) => self.queue_for(run, &[socket], (delivery, ends), data),
                None if self.lacks_sockets() => self.dropped(DropReason::NoSocket),
                None => {
                    let event = match delivery.protocol {
                        protocol::UDP_LITE => [PacketEvent::LiteNoPort4, PacketEvent::LiteNoPort6],
                        _ => [PacketEvent::UdpNoPort4, PacketEvent::UdpNoPort6],
                    };
                    run.events.note(Family::of(delivery.destination), event);
                    self.dropped(DropReason::NoSocket);
                    self.refuse_port(run, delivery);
                }
            };
        }
        let mut receivers = table.find_all(ends);
        if delivery.cast == Cast::Multicast {
            let (group, interface) = (delivery.destination, ends.interface.0);
            receivers.retain(|socket| socket.state.lock().takes_group(group, interface));
        }
        if receivers.is_empty() {
            return self.dropped(DropReason::NoSocket);
        }
        self.queue_for(run, &receivers, (delivery, ends), data);
    }
    /// Returns the keyed hash of a flow.
    pub(super) fn flow(&self, ends: &PacketEnds) -> u64 {
        let mut bytes = [0; 36];
        let addresses = [ends.remote, ends.local].map(|end| {
            (crate::base::address::bits(end.ip()).to_be_bytes(), end.port().to_be_bytes())
        });
        let octets = addresses.iter().flat_map(|(bits, port)| bits.iter().chain(port));
        for (to, from) in bytes.iter_mut().zip(octets) {
            *to = *from;
        }
        self.random.hash(&bytes)
    }
}

/// Returns whether the checksum is right, or allowed to be absent.
fn is_intact<B: Buffer>(
    delivery: &Delivery<'_, B>,
    header: &UdpHeader,
    sum: impl FnOnce() -> Sum,
) -> bool {
    if delivery.payload.checksum().is_good() {
        return true;
    }
    if header.checksum.get() == 0 {
        return delivery.destination.is_ipv4();
    }
    let length = header.length() as u32;
    let ends = (delivery.source, delivery.destination);
    let mut whole = Sum::pseudo_header(ends.0, ends.1, protocol::UDP, length);
    whole.append(sum());
    whole.is_valid()
}
