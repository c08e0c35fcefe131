//! Filters of streams (`SO_ATTACH_FILTER`). A program sees the segment from its header on; of one that never was a packet the header
//! is made for it.
use super::{
    arrival::TcpArrival,
    ends::{address, reversed},
    header::{self, HEADER_MAX},
    held::trim,
};
use crate::base::{address::Family, buffer::BufferChain, packets::PacketParts};
use bpf::{PacketFacts, PacketProgram};
use interfaces::sockets::packet_kind;

/// Cuts a segment as the program says. Returns whether anything is left; the header always is, if the program keeps a byte.
pub(super) fn admit(program: &PacketProgram, arrival: &mut TcpArrival) -> bool {
    let mut bytes = [0; HEADER_MAX];
    let Some(length) = header::write(&reversed(&arrival.flow), &arrival.segment, &mut bytes) else {
        return true;
    };
    let payload = BufferChain::from_pieces(core::mem::take(&mut arrival.payload));
    let seen =
        PacketParts { headers: [bytes.get(..length).unwrap_or_default(), &[]], payload: &payload };
    let facts = PacketFacts {
        protocol: Family::of(address(arrival.flow.local)).ethertype(),
        kind: packet_kind::HOST,
        interface: Some((arrival.interface.0, arrival.interface.hardware())),
        ..PacketFacts::default()
    };
    let kept = program.admit(&seen, &facts);
    arrival.payload = payload.into_pieces();
    let Some(kept) = kept else { return false };
    let kept_payload = u32::try_from(kept.saturating_sub(length)).unwrap_or(u32::MAX);
    if kept_payload < arrival.segment.length {
        trim(&mut arrival.payload, 0, kept_payload);
        arrival.segment.length = kept_payload;
    }
    true
}
