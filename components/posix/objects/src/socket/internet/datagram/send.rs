//! Sending datagrams.
use super::{InternetDatagram, control, names::errno_of_use};
use crate::socket::{
    interface::{Outgoing, Send, Shut},
    internet::{
        address::{self, AddressFamily, AddressUse},
        settings::Flags,
    },
};
use alloc::{vec, vec::Vec};
use core::sync::atomic::Ordering;
use interfaces::{
    nic::PacketSegment,
    sockets::{DatagramProtocol, OptionSide, Payload, SentDatagram},
};
use rt::{PAGE_BYTES, memory::Frame};
use vfs::{Errno, io::Source};

/// Bytes of a payload that are kept on the heap, as the stack puts them beside the headers; longer ones are kept in frames.
const HEAP_MAX: usize = 64;
/// Bytes that no datagram exceeds: the length field of IP has 16 bits.
const LENGTH_MAX: usize = 0xffff;

/// A datagram of which more parts follow (MSG_MORE, UDP_CORK).
pub(super) struct Corked {
    first: SentDatagram,
    bytes: Vec<u8>,
}

/// Copies `length` bytes of `source`.
fn read_payload(source: &mut dyn Source, length: usize) -> Result<Payload, Errno> {
    if length <= HEAP_MAX {
        let mut bytes = vec![0; length];
        if length > 0 {
            source.take_whole(&mut bytes)?;
        }
        return Ok(Payload::Bytes(bytes.into_boxed_slice()));
    }
    let mut frames = Vec::new();
    Frame::allocate_unfilled(length.div_ceil(PAGE_BYTES), &mut frames)?;
    if source.take_into_frames(&frames, 0, length)? < length {
        return Err(Errno::EFAULT);
    }
    let mut left = length;
    let part = |frame| {
        let length = left.min(PAGE_BYTES) as u32;
        left -= length as usize;
        PacketSegment { frame, offset: 0, length }
    };
    Ok(Payload::Segments(frames.into_iter().map(part).collect()))
}

impl InternetDatagram {
    /// Sends the bytes of `source` as a datagram, or a part of one. Returns their number.
    ///
    /// # Errors
    /// `EMSGSIZE`, `EOPNOTSUPP` for urgent data except of UDP over IPv6, `EDESTADDRREQ` without a destination, `EINVAL`, `EPIPE` after a shutdown,
    /// `EFAULT`, those of the address, of the control messages and of the stack.
    pub(super) fn send_datagram(
        &self,
        source: &mut dyn Source,
        message: &Outgoing<'_>,
        how: Send,
    ) -> Result<usize, Errno> {
        let length = self.readable(source.remaining())?;
        // UDP over IPv6 does not look at MSG_OOB (`udpv6_sendmsg`).
        let ignores_urgent = self.family == AddressFamily::V6 && self.protocol.has_ports();
        if how.is_urgent && !ignores_urgent {
            return Err(Errno::EOPNOTSUPP);
        }
        let mut datagram = self.prepare(message)?;
        if how.is_urgent && self.goes_to_version4(&datagram) {
            return Err(Errno::EOPNOTSUPP);
        }
        if self.shut().contains(Shut::SEND) {
            return Err(Errno::EPIPE);
        }
        let is_udp = self.protocol.has_ports();
        let is_corked = is_udp && (how.is_more || self.flags().contains(Flags::CORK));
        let mut cork = self.cork.lock();
        if is_corked || cork.is_some() {
            drop(cork);
            let mut bytes = vec![0; length];
            if length > 0 {
                source.take_whole(&mut bytes)?;
            }
            cork = self.cork.lock();
            let corked = cork.get_or_insert(Corked { first: datagram, bytes: Vec::new() });
            if corked.bytes.len() + length > LENGTH_MAX {
                // The parts before it are lost (`udp_flush_pending_frames`).
                *cork = None;
                return Err(Errno::EMSGSIZE);
            }
            corked.bytes.append(&mut bytes);
            if is_corked {
                return Ok(length);
            }
            let whole = cork.take();
            drop(cork);
            self.send_corked(whole)?;
            return Ok(length);
        }
        drop(cork);
        datagram.payload = read_payload(source, length)?;
        self.socket().send(datagram).map_err(errno_of_use)?;
        Ok(length)
    }
    /// Returns whether a datagram goes to an address of IPv4.
    fn goes_to_version4(&self, datagram: &SentDatagram) -> bool {
        let to = datagram.destination.or_else(|| self.socket().peer());
        to.is_some_and(|to| to.is_ipv4())
    }
    /// Returns the bytes of a payload of `length` that are read. The stack measures a packet of IPv6 against its path and tells the
    /// error queue of one that is too long: one byte too many is enough for that.
    ///
    /// # Errors
    /// `EMSGSIZE` for a payload that no packet holds, if the stack tells nothing more of it.
    fn readable(&self, length: usize) -> Result<usize, Errno> {
        let is_measured =
            self.family == AddressFamily::V6 && self.protocol != DatagramProtocol::Ping;
        match length {
            ..=LENGTH_MAX => Ok(length),
            _ if is_measured => Ok(LENGTH_MAX + 1),
            _ => Err(Errno::EMSGSIZE),
        }
    }
    /// Sends the parts that were kept, if there are any (UDP_CORK was turned off).
    pub(super) fn uncork(&self) -> Result<(), Errno> {
        let whole = self.cork.lock().take();
        self.send_corked(whole)
    }
    fn send_corked(&self, whole: Option<Corked>) -> Result<(), Errno> {
        let Some(Corked { mut first, bytes }) = whole else { return Ok(()) };
        first.payload = match bytes.len() {
            ..=HEAP_MAX => Payload::Bytes(bytes.into_boxed_slice()),
            length => read_payload(&mut vfs::io::SliceSource::new(&bytes), length)?,
        };
        self.socket().send(first).map_err(errno_of_use)
    }
    /// Makes the datagram without its bytes.
    fn prepare(&self, message: &Outgoing<'_>) -> Result<SentDatagram, Errno> {
        let mut datagram = SentDatagram {
            destination: None,
            source: None,
            interface: None,
            hop_limit: None,
            traffic_class: None,
            header_options: None,
            extensions: None,
            segment: match self.segment.load(Ordering::Relaxed) {
                0 => None,
                bytes => u16::try_from(bytes).ok(),
            },
            payload: Payload::Bytes(Vec::new().into_boxed_slice()),
        };
        let given = match message.to {
            Some(to) => address::parse(self.family, to, AddressUse::Send)?,
            None => None,
        };
        if let Some(given) = given {
            let needs_port = self.protocol.has_ports();
            if needs_port && given.address.port() == 0 {
                return Err(Errno::EINVAL);
            }
            datagram.destination = Some(self.destination(given, Errno::ENETUNREACH)?);
        }
        if !message.control.is_empty() {
            let side = match message.may_send_raw {
                true => OptionSide::Privileged,
                false => OptionSide::Plain,
            };
            let socket = (self.family, self.protocol);
            control::read(message.control, socket, side, &mut datagram)?;
        }
        // Those of the message stand for all of the socket.
        if self.flags().contains(Flags::EXTENSIONS) && datagram.extensions.is_none() {
            datagram.extensions = self.settings.lock().extensions.clone();
        }
        // The checksum of UDP-Lite cannot be left to the part that cuts.
        if datagram.segment.is_some() && self.protocol == DatagramProtocol::UdpLite {
            return Err(Errno::EIO);
        }
        Ok(datagram)
    }
}
