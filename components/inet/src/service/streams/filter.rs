//! Filters of streams (`SO_ATTACH_FILTER`). A program sees the segment from its header on; of one that never was a packet the header
//! is made for it.
use super::{
    arrival::TcpArrival,
    ends::{address, reversed},
    header::{self, HEADER_MAX},
    held::trim,
};
use crate::base::buffer::BufferChain;
use crate::tables::interface::InterfaceIndex;
use bpf::{PacketBytes, PacketFacts, PacketProgram};
use interfaces::{
    nic::PacketSegment,
    sockets::{hardware, packet_kind},
};
use packet::ethernet::ethertype;

/// A segment: its header, and its payload.
struct SeenSegment<'s> {
    header: &'s [u8],
    payload: &'s BufferChain<PacketSegment>,
}

impl PacketBytes for SeenSegment<'_> {
    fn length(&self) -> usize {
        self.header.len() + self.payload.length()
    }
    fn read(&self, offset: i64, out: &mut [u8]) -> bool {
        let Ok(at) = usize::try_from(offset) else { return false };
        let of_header = self.header.get(at..).unwrap_or_default();
        let (front, rest) = out.split_at_mut(of_header.len().min(out.len()));
        front.copy_from_slice(of_header.get(..front.len()).unwrap_or_default());
        let from = at.saturating_add(front.len()).saturating_sub(self.header.len());
        self.payload.read(from, rest) == rest.len()
    }
}

/// Cuts a segment as the program says. Returns whether anything is left; the header always is, if the program keeps a byte.
pub(super) fn admit(program: &PacketProgram, arrival: &mut TcpArrival) -> bool {
    let mut bytes = [0; HEADER_MAX];
    let Some(length) = header::write(&reversed(&arrival.flow), &arrival.segment, &mut bytes) else {
        return true;
    };
    let payload = BufferChain::from_pieces(core::mem::take(&mut arrival.payload));
    let seen = SeenSegment { header: bytes.get(..length).unwrap_or_default(), payload: &payload };
    let hardware = match arrival.interface {
        InterfaceIndex::LOOPBACK => hardware::LOOPBACK,
        _ => hardware::ETHERNET,
    };
    let is_version4 = address(arrival.flow.local).is_ipv4();
    let facts = PacketFacts {
        protocol: if is_version4 { ethertype::IPV4 } else { ethertype::IPV6 },
        kind: packet_kind::HOST,
        interface: Some((arrival.interface.0, hardware)),
        ..PacketFacts::default()
    };
    let kept = program.run(&seen, &facts) as usize;
    arrival.payload = payload.into_pieces();
    let kept_payload = u32::try_from(kept.saturating_sub(length)).unwrap_or(u32::MAX);
    if kept_payload < arrival.segment.length {
        trim(&mut arrival.payload, 0, kept_payload);
        arrival.segment.length = kept_payload;
    }
    kept > 0
}
