//! Packets and datagrams in the bodies of records: the stack puts them, the client takes them.
#[cfg(any(not(target_os = "none"), skerry_process))]
mod stack {
    use super::{super::cells::put_parts, put_payload};
    use crate::{
        marshal::{Marshal, put_bytes},
        nic::Packet,
        sockets::{ErrorReport, ReceivedDatagram},
    };
    use alloc::vec::Vec;
    use rt::memory::Frame;

    /// Appends a packet but its tag. It ends with the parts.
    pub(crate) fn put_packet(packet: &Packet, body: &mut Vec<u8>, is_reached: fn(&Frame) -> bool) {
        put_bytes(packet.header.as_slice(), body);
        packet.checksum.put(body);
        packet.segmentation.put(body);
        packet.flow.put(body);
        put_parts(body, &packet.segments, is_reached);
    }

    /// Appends a datagram that came.
    pub(crate) fn put_datagram(
        datagram: &ReceivedDatagram,
        body: &mut Vec<u8>,
        is_reached: fn(&Frame) -> bool,
    ) {
        datagram.put_head(body);
        put_payload(&datagram.payload, body, is_reached);
    }

    /// Appends a report of an error.
    pub(crate) fn put_report(
        report: &ErrorReport,
        body: &mut Vec<u8>,
        is_reached: fn(&Frame) -> bool,
    ) {
        report.put_head(body);
        put_payload(&report.payload, body, is_reached);
    }
}

mod client {
    use super::{
        super::cells::{PartBytes, take_parts},
        take_payload,
    };
    use crate::{
        marshal::{Marshal, take_bytes},
        nic::{HeaderBytes, Packet, PacketSegment},
        sockets::{ErrorReport, Payload, ReceivedDatagram},
    };
    use alloc::{boxed::Box, vec::Vec};
    use rt::ring::Corrupt;

    /// Takes a packet with the tag `tag`. `part` makes a segment of each part.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub(crate) fn take_packet(
        tag: u64,
        mut body: &[u8],
        mut part: impl FnMut(PartBytes<'_>) -> Result<PacketSegment, Corrupt>,
    ) -> Result<Packet, Corrupt> {
        let header = take_bytes(&mut body).and_then(HeaderBytes::new).ok_or(Corrupt)?;
        let checksum = Marshal::take(&mut body).ok_or(Corrupt)?;
        let segmentation = Marshal::take(&mut body).ok_or(Corrupt)?;
        let flow = Marshal::take(&mut body).ok_or(Corrupt)?;
        let mut segments = Vec::new();
        take_parts(body, |one| {
            segments.push(part(one)?);
            Ok(())
        })?;
        Ok(Packet { tag, header, segments, checksum, segmentation, flow })
    }

    /// Takes a datagram that came.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub(crate) fn take_datagram(
        mut body: &[u8],
        part: impl FnMut(PartBytes<'_>) -> Result<PacketSegment, Corrupt>,
    ) -> Result<ReceivedDatagram, Corrupt> {
        let nothing = Payload::Bytes(Box::default());
        let mut datagram = ReceivedDatagram::take_head(&mut body, nothing).ok_or(Corrupt)?;
        datagram.payload = take_payload(body, part)?;
        Ok(datagram)
    }

    /// Takes a report of an error.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub(crate) fn take_report(
        mut body: &[u8],
        part: impl FnMut(PartBytes<'_>) -> Result<PacketSegment, Corrupt>,
    ) -> Result<ErrorReport, Corrupt> {
        let nothing = Payload::Bytes(Box::default());
        let mut report = ErrorReport::take_head(&mut body, nothing).ok_or(Corrupt)?;
        report.payload = take_payload(body, part)?;
        Ok(report)
    }
}

use super::cells::{PartBytes, put_parts, take_parts};
use crate::{nic::PacketSegment, sockets::Payload};
use alloc::{boxed::Box, vec::Vec};
pub(crate) use client::{take_datagram, take_packet, take_report};
use rt::{memory::Frame, ring::Corrupt};
#[cfg(any(not(target_os = "none"), skerry_process))]
pub(crate) use stack::{put_datagram, put_packet, put_report};

/// Appends a payload: bytes, or parts.
pub(crate) fn put_payload(payload: &Payload, body: &mut Vec<u8>, is_reached: fn(&Frame) -> bool) {
    match payload {
        Payload::Bytes(bytes) => {
            body.push(0);
            body.extend_from_slice(bytes);
        }
        Payload::Segments(parts) => {
            body.push(1);
            put_parts(body, parts, is_reached);
        }
    }
}

/// Takes a payload, with which the body ends. `part` makes a segment of each part.
///
/// # Errors
/// [`Corrupt`].
pub(crate) fn take_payload(
    body: &[u8],
    mut part: impl FnMut(PartBytes<'_>) -> Result<PacketSegment, Corrupt>,
) -> Result<Payload, Corrupt> {
    match body.split_first() {
        Some((0, bytes)) => Ok(Payload::Bytes(Box::from(bytes))),
        Some((1, parts)) => {
            let mut segments = Vec::new();
            take_parts(parts, |one| {
                segments.push(part(one)?);
                Ok(())
            })?;
            Ok(Payload::Segments(segments))
        }
        _ => Err(Corrupt),
    }
}
