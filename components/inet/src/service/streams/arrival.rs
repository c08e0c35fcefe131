//! [`TcpArrival`]: a segment for this host.
use super::{
    ends::octets,
    header::{self, CongestionMark},
};
use crate::{
    ip::stack::{Cast, Delivery},
    tables::interface::InterfaceIndex,
};
use alloc::vec::Vec;
use interfaces::nic::PacketSegment;
use packet::tcp::TcpHeader;
use tcp::{Flow, TcpSegment};

/// A segment for this host.
pub(crate) struct TcpArrival {
    pub(crate) flow: Flow,
    pub(crate) segment: TcpSegment,
    pub(crate) payload: Vec<PacketSegment>,
    /// The interface by which it came.
    pub(crate) interface: InterfaceIndex,
    /// It never was a packet.
    pub(crate) is_local: bool,
}

impl TcpArrival {
    /// Parses a segment; `None` if it is none, is damaged, or is not for one host.
    pub(crate) fn parse(delivery: &Delivery<'_, PacketSegment>) -> Option<TcpArrival> {
        let origin = delivery.origin;
        let is_for_one =
            delivery.cast == Cast::Unicast && (origin.cast == Cast::Unicast || origin.is_looped);
        if !is_for_one {
            return None;
        }
        let whole = &delivery.payload;
        let (header, options) = TcpHeader::parse(whole.head(), whole.length()).ok()?;
        let (source, destination) = (delivery.source, delivery.destination);
        if !delivery.is_intact() {
            return None;
        }
        let length = whole.length() - header.length();
        let payload = match length {
            0 => Vec::new(),
            _ => whole.part(header.length()..usize::MAX).to_chain()?.into_pieces(),
        };
        let mark = match delivery.traffic_class & 3 {
            3 => CongestionMark::Experienced,
            _ => CongestionMark::Absent,
        };
        let flow = Flow {
            local: octets(destination),
            remote: octets(source),
            local_port: header.destination.get(),
            remote_port: header.source.get(),
        };
        let segment = header::parse(header, options, length, mark);
        let interface = origin.interface;
        Some(TcpArrival { flow, segment, payload, interface, is_local: false })
    }
}
