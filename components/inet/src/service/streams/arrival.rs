//! [`TcpArrival`]: a segment for this host.
use super::{
    ends::octets,
    header::{self, CongestionMark},
    socket::TcpSocket,
};
use crate::{
    ip::{
        options::options_of,
        stack::{Cast, Delivery},
    },
    tables::interface::InterfaceIndex,
};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::num::NonZeroU16;
use interfaces::nic::PacketSegment;
use labels::SecrecyId;
use packet::tcp::TcpHeader;
use tcp::{Flow, TcpFlags, TcpSegment};

/// Whether a listener of the stack keeps the headers of SYNs (TCP_SAVE_SYN).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SynSaving {
    Off,
    On,
}

/// A segment for this host. It goes from hand to hand in a box that a passage keeps for the next one.
pub(crate) struct TcpArrival {
    pub(crate) flow: Flow,
    /// The hash of `flow`, if it is known.
    pub(crate) hash: Option<u64>,
    /// The socket that had `flow` when it was last looked up. It may have lost it since.
    pub(crate) likely_owner: Option<Arc<TcpSocket>>,
    pub(crate) segment: TcpSegment,
    pub(crate) payload: Vec<PacketSegment>,
    /// The interface by which it came.
    pub(crate) interface: InterfaceIndex,
    /// It never was a packet.
    pub(crate) is_local: bool,
    /// Hops that were left.
    pub(crate) hop_limit: u8,
    /// Differentiated services and ECN.
    pub(crate) traffic_class: u8,
    /// Segments beside it that came as a part of it: of its payload, or acknowledgements before it.
    pub(crate) more: u32,
    /// The headers of IP and TCP of a SYN, if a listener keeps them (TCP_SAVE_SYN).
    pub(crate) headers: Option<Box<[u8]>>,
}

impl TcpArrival {
    /// Returns one to be filled.
    pub(crate) fn blank() -> TcpArrival {
        TcpArrival {
            flow: Flow {
                local: [0; 16],
                remote: [0; 16],
                local_port: 0,
                remote_port: 0,
                label: SecrecyId::NONE,
            },
            hash: None,
            likely_owner: None,
            segment: TcpSegment::default(),
            payload: Vec::new(),
            interface: InterfaceIndex::LOOPBACK,
            is_local: false,
            hop_limit: 0,
            traffic_class: 0,
            more: 0,
            headers: None,
        }
    }
    /// Parses a segment; `None` if it is none, is damaged, or is not for one host.
    pub(crate) fn parse(
        delivery: &Delivery<'_, PacketSegment>,
        saving: SynSaving,
    ) -> Option<TcpArrival> {
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
            label: origin.label,
        };
        let merged_of = whole.segment().and_then(NonZeroU16::new);
        let segment = TcpSegment { merged_of, ..header::parse(header, options, length, mark) };
        // A listener answers the options of a SYN.
        let is_kept = segment.flags.contains(TcpFlags::SYN)
            && (saving == SynSaving::On || options_of(delivery).is_some());
        let headers = is_kept.then(|| {
            let all = delivery.network.length().saturating_sub(length);
            let head = delivery.network.head();
            head.get(..all).unwrap_or(head).into()
        });
        Some(TcpArrival {
            flow,
            hash: None,
            likely_owner: None,
            segment,
            payload,
            interface: origin.interface,
            is_local: false,
            hop_limit: delivery.hop_limit,
            traffic_class: delivery.traffic_class,
            more: segment.more_parts() + u32::from(whole.acks()),
            headers,
        })
    }
}
