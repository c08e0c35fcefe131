//! Datagrams of UDP between sockets of this host. They never are packets: no header is made, and no checksum.
use super::datagram_control::{DatagramHandle, scoped};
use crate::{
    base::{address::Family, buffer::Buffer, payloads},
    ip::{
        events::PacketEvent,
        path::Path,
        stack::{Stack, StackRun},
        statistics::DropReason,
    },
    sockets::{
        bindings::PacketEnds,
        datagram_end::{DatagramState, PeerSocket},
        errors::SocketError,
    },
    tables::interface::InterfaceIndex,
};
use alloc::sync::Arc;
use core::net::SocketAddr;
use interfaces::sockets::{Payload, ReceivedDatagram, SentDatagram};
use packet::{ipv4, ipv6, protocol, udp::HEADER_LENGTH};

/// The fields of the header of IP that a receiver is told of.
#[derive(Clone, Copy, Debug)]
pub(super) struct ToldFields {
    /// Hops that are left.
    pub(super) hop_limit: u8,
    /// Differentiated services and ECN.
    pub(super) traffic_class: u8,
}

impl<B: Buffer> Stack<B> {
    /// Returns whether nobody looks at datagrams of UDP on their way through this host: neither a tap nor a raw socket.
    #[inline]
    pub(super) fn is_udp_unwatched(&self, run: &StackRun<'_, B>) -> bool {
        !self.datagrams.raw.has_any(protocol::UDP) && !run.surroundings.sees_passing()
    }
    /// Sends a datagram without wishes to the peer, if that is a socket of this host, and takes its payload. Returns `None`, and does
    /// nothing, if it has to be sent as a packet.
    #[inline]
    pub(super) fn send_to_peer(
        &self,
        run: &StackRun<'_, B>,
        socket: &DatagramHandle,
        datagram: &mut SentDatagram,
    ) -> Option<Result<(), SocketError>> {
        if !has_no_wishes(datagram) || !self.is_udp_unwatched(run) {
            return None;
        }
        let length = datagram.payload.length();
        let (receiver, ends, told) = {
            let mut state = socket.state.lock();
            let versions = self.versions(run);
            let path = state.path.as_ref().filter(|cached| cached.versions == versions)?.path;
            let is_here = path.is_local && path.fits(HEADER_LENGTH + length);
            if !is_here || state.is_closed || state.options.header_options.is_some() {
                return None;
            }
            let (receiver, ends) = self.peer_socket(&mut state, &path)?;
            let traffic_class = state.traffic_class(Family::of(path.source));
            (receiver, ends, ToldFields { hop_limit: path.hop_limit, traffic_class })
        };
        if receiver.queue.filter().get().is_some() {
            return None;
        }
        if let Some(error) = socket.queue.take_error() {
            return Some(Err(error));
        }
        let payload = core::mem::take(&mut datagram.payload);
        self.hand_over(run, &receiver, (&ends, told), payload);
        Some(Ok(()))
    }
    /// Returns the socket of this host that gets what a socket sends to its peer by `path`, and the ends of such a packet.
    #[inline]
    fn peer_socket(
        &self,
        state: &mut DatagramState<Path>,
        path: &Path,
    ) -> Option<(DatagramHandle, PacketEnds)> {
        let cached = state.path.as_mut()?;
        // Loaded before the look-up: a change that comes between them makes what is found old.
        let version = self.datagrams.udp.version();
        if let Some(known) = cached.peer_socket.as_ref().filter(|known| known.version == version) {
            return Some((known.socket.upgrade()?, known.ends));
        }
        let (peer, port) = (state.binding.peer?, state.binding.port);
        let ends = PacketEnds {
            remote: SocketAddr::new(path.source, port),
            local: peer,
            interface: path.interface,
            label: state.binding.label,
        };
        if port == 0 {
            return None;
        }
        let receiver = self.datagrams.udp.find(&ends, || self.flow(&ends))?;
        let socket = Arc::downgrade(&receiver);
        cached.peer_socket = Some(PeerSocket { version, socket, ends });
        Some((receiver, ends))
    }
    /// Queues the payload of a datagram for the receiver, a socket of this host without a filter.
    #[inline]
    pub(super) fn hand_over(
        &self,
        run: &StackRun<'_, B>,
        receiver: &DatagramHandle,
        (ends, told): (&PacketEnds, ToldFields),
        payload: Payload,
    ) {
        let (packets, octets, queued, full, header) = match ends.local {
            SocketAddr::V4(_) => (
                PacketEvent::LocalDatagrams4,
                PacketEvent::LocalOctets4,
                PacketEvent::UdpIn4,
                PacketEvent::UdpFull4,
                ipv4::HEADER_LENGTH,
            ),
            SocketAddr::V6(_) => (
                PacketEvent::LocalDatagrams6,
                PacketEvent::LocalOctets6,
                PacketEvent::UdpIn6,
                PacketEvent::UdpFull6,
                ipv6::HEADER_LENGTH,
            ),
        };
        run.events.add(packets, 1);
        run.events.add(octets, (header + HEADER_LENGTH + payload.length()) as u64);
        run.events.ecn(Family::of(ends.local.ip()), told.traffic_class);
        let is_queued = receiver.queue.push(ReceivedDatagram {
            source: scoped(ends.remote, Some(InterfaceIndex::LOOPBACK)),
            destination: scoped(ends.local, Some(InterfaceIndex::LOOPBACK)),
            interface: ends.interface.0,
            hop_limit: told.hop_limit,
            traffic_class: told.traffic_class,
            received_ns: run.now_ns,
            dropped: 0,
            segment: None,
            header_options: None,
            extensions: None,
            payload: payloads::handed_over(payload),
        });
        if is_queued {
            run.events.add(queued, 1);
        } else {
            run.events.add(full, 1);
            self.dropped(DropReason::QueueFull);
        }
    }
}

/// Returns whether a datagram is to be sent as the options of its socket say.
#[inline]
fn has_no_wishes(datagram: &SentDatagram) -> bool {
    let SentDatagram {
        destination,
        source,
        interface,
        hop_limit,
        traffic_class,
        segment,
        header_options,
        extensions,
        payload: _,
    } = datagram;
    destination.is_none()
        && source.is_none()
        && interface.is_none()
        && hop_limit.is_none()
        && traffic_class.is_none()
        && segment.is_none()
        && header_options.is_none()
        && extensions.is_none()
}
