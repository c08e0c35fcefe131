//! Filters of sockets of datagrams (`SO_ATTACH_FILTER`): what their programs see of a packet, and what is left of it.
use crate::{
    base::{address::Family, buffer::Buffer, packets::Arrival, payloads},
    ip::stack::{Cast, Delivery},
};
use bpf::{PacketBytes, PacketFacts, PacketProgram};
use interfaces::sockets::{DatagramProtocol, Payload, packet_kind};
use packet::{ethernet::HEADER_LENGTH, udp};

/// A received packet as a program sees it, which counts from the header of UDP, from that of an echo message, or from the first
/// byte that a raw socket gets.
struct SeenPacket<'p, 'a, B> {
    arrival: &'p Arrival<'a, B>,
    /// Offset in the packet of the program's byte 0.
    base: usize,
}

impl<B: Buffer> PacketBytes for SeenPacket<'_, '_, B> {
    fn length(&self) -> usize {
        (self.arrival.start() + self.arrival.length()).saturating_sub(self.base)
    }
    fn read(&self, offset: i64, out: &mut [u8]) -> bool {
        let at = i64::try_from(self.base).ok().and_then(|base| base.checked_add(offset));
        let at = at.and_then(|at| usize::try_from(at).ok());
        at.is_some_and(|at| self.arrival.read_packet(at, out))
    }
}

/// Returns what the filter of a socket leaves of `payload`; `None` if it drops the packet, or if memory is refused.
pub(crate) fn pass<B: Buffer>(
    program: &PacketProgram,
    protocol: DatagramProtocol,
    delivery: &Delivery<'_, B>,
    payload: &Arrival<'_, B>,
) -> Option<Payload> {
    // Programs for UDP see its header, which is never cut.
    let header = if protocol.has_ports() { udp::HEADER_LENGTH } else { 0 };
    let base = payload.start().saturating_sub(header);
    let kept = program.admit(&SeenPacket { arrival: payload, base }, &facts(delivery, base))?;
    payloads::received(&payload.part(0..kept.saturating_sub(header)))
}

/// Returns the properties of a packet of which a program counts the byte at `base` as byte 0.
fn facts<B: Buffer>(delivery: &Delivery<'_, B>, base: usize) -> PacketFacts {
    let origin = &delivery.origin;
    let relative = |at: usize| {
        let distance = i64::try_from(at).ok()?.checked_sub(i64::try_from(base).ok()?)?;
        i32::try_from(distance).ok()
    };
    let network = delivery.network.start();
    let kind = match origin.cast {
        Cast::Unicast => packet_kind::HOST,
        Cast::Broadcast => packet_kind::BROADCAST,
        Cast::Multicast => packet_kind::MULTICAST,
    };
    PacketFacts {
        protocol: Family::of(delivery.source).ethertype(),
        kind,
        interface: Some((origin.interface.0, origin.interface.hardware())),
        network: relative(network).unwrap_or(0),
        link: network.checked_sub(HEADER_LENGTH).and_then(relative),
        ..PacketFacts::default()
    }
}
