//! Raw sockets (raw(7)): all packets of a protocol, before the protocol itself gets them.
use super::{
    datagram_control::DatagramHandle,
    datagram_input::ends_of,
    datagram_output::{BESIDE_MAX, BESIDE_MTU_MIN, Dispatch, packet_of},
};
use crate::{
    base::{
        address::Family,
        buffer::{Buffer, BufferChain},
        packets::Departure,
        payloads,
    },
    ip::{
        path::Path,
        stack::{Cast, Claim, Delivery, Stack, StackRun},
        statistics::DropReason,
    },
    sockets::{datagram_end::DatagramEnd, errors::SocketError},
};
use alloc::vec::Vec;
use core::net::IpAddr;
use interfaces::sockets::{DatagramProtocol, Payload, SentDatagram, SocketFamilies};
use packet::{Sum, ipv4, ipv6, protocol};

/// The protocol whose sockets always write the header of IP (`IPPROTO_RAW`).
const RAW: u8 = 255;
/// Bytes of a packet with its header that stand contiguous: IP and the header above.
const HEAD_MAX: usize = 120;

/// Returns the place of the checksum in the packets of a socket of IPv6, if the stack sums them.
fn checksum_at(socket: &DatagramEnd<Path>) -> Option<usize> {
    match socket.families {
        SocketFamilies::V4 => None,
        _ => socket.state.lock().options.checksum_at.map(usize::from),
    }
}

impl<B: Buffer> Stack<B> {
    /// Returns whether there are raw sockets of TCP.
    #[inline]
    pub(crate) fn hears_tcp(&self) -> bool {
        self.datagrams.raw.has_any(protocol::TCP)
    }
    /// Gives a packet to all raw sockets that it is for. Returns whether there was one.
    pub(crate) fn input_raw(&self, run: &mut StackRun<'_, B>, delivery: &Delivery<'_, B>) -> Claim {
        let ends = ends_of(delivery);
        let configuration = run.configuration;
        let sees = |label| configuration.dominates(label, ends.label);
        let mut receivers = self.datagrams.raw.find_all(delivery.protocol, &ends, sees);
        if receivers.is_empty() {
            return Claim::Unknown;
        }
        if delivery.cast == Cast::Multicast {
            let (group, interface) = (delivery.destination, ends.interface.0);
            receivers.retain(|socket| socket.state.lock().takes_group(group, interface));
        }
        if matches!(delivery.protocol, protocol::ICMP | protocol::ICMPV6)
            && let Some(kind) = delivery.payload.head().first()
        {
            receivers.retain(|socket| !socket.state.lock().options.drops_icmp(*kind));
        }
        let payload = if delivery.source.is_ipv4() { &delivery.network } else { &delivery.payload };
        if delivery.source.is_ipv6() {
            receivers.retain(|socket| {
                let is_summed = checksum_at(socket).is_some();
                let is_good = !is_summed || delivery.is_intact();
                if !is_good {
                    self.dropped(DropReason::Checksum);
                }
                is_good
            });
        }
        self.queue_for(run, &receivers, (delivery, &ends), payload);
        Claim::Taken
    }
    /// Sends a packet of a raw socket.
    pub(crate) fn send_raw(
        &self,
        run: &mut StackRun<'_, B>,
        socket: &DatagramHandle,
        datagram: &mut SentDatagram,
    ) -> Result<(), SocketError> {
        let DatagramProtocol::Raw(number) = socket.protocol else {
            return Err(SocketError::Invalid);
        };
        self.check_protocol(socket, number, datagram)?;
        let has_header = number == RAW || socket.state.lock().options.has_header;
        if has_header {
            datagram.extensions = None;
        }
        let dispatch = self.dispatch(run, socket, datagram)?;
        if has_header {
            // A header of the program's own has its own options. Linux refuses even an empty list.
            let given = datagram.header_options.is_some();
            if given || socket.state.lock().options.header_options.is_some() {
                return Err(SocketError::Invalid);
            }
            return self.send_with_header(run, socket, &dispatch, &datagram.payload);
        }
        let path = &dispatch.path;
        self.admit(socket, &dispatch, datagram.payload.length())?;
        let packet = match checksum_at(socket) {
            Some(at) => summed(&dispatch, &datagram.payload, at)?,
            None if path.mtu >= BESIDE_MTU_MIN => contiguous(&datagram.payload, BESIDE_MAX)?,
            None => packet_of(&dispatch, &datagram.payload, 0)?,
        };
        Ok(self.send_dispatched(run, &dispatch, packet)?)
    }
    /// Checks the port of a destination of IPv6, which is the protocol or zero (`rawv6_sendmsg`).
    fn check_protocol(
        &self,
        socket: &DatagramHandle,
        number: u8,
        datagram: &SentDatagram,
    ) -> Result<(), SocketError> {
        let port = datagram.destination.map_or(0, |end| end.port());
        let is_right = port == 0 || port == u16::from(number) || number == RAW && port < 256;
        if socket.families == SocketFamilies::V4 || is_right {
            Ok(())
        } else {
            Err(SocketError::Invalid)
        }
    }
    /// Sends a packet that begins with its header of IP (`IP_HDRINCL`). It is never cut.
    fn send_with_header(
        &self,
        run: &mut StackRun<'_, B>,
        socket: &DatagramHandle,
        dispatch: &Dispatch,
        payload: &Payload,
    ) -> Result<(), SocketError> {
        let (path, length) = (&dispatch.path, payload.length());
        if length > path.mtu as usize {
            self.report_size(socket, dispatch);
            return Err(SocketError::MessageSize);
        }
        if path.label_length > 0 {
            // The stack does not write into a header of the program's own.
            return Err(SocketError::Forbidden);
        }
        let mut packet: Departure<B> = contiguous(payload, HEAD_MAX)?;
        match Family::of(dispatch.request.destination) {
            Family::V4 => self.complete_header(&mut packet, dispatch)?,
            Family::V6 if length < ipv6::HEADER_LENGTH => return Err(SocketError::Invalid),
            Family::V6 => {}
        }
        socket.queue.take_error().map_or(Ok(()), Err)?;
        self.transmit(run, path, &dispatch.request, packet);
        Ok(())
    }
    /// Fills in the fields that a program leaves to the stack: the length and the checksum always, identification and source if they
    /// are zero (raw(7)).
    fn complete_header(
        &self,
        packet: &mut Departure<B>,
        dispatch: &Dispatch,
    ) -> Result<(), SocketError> {
        const LENGTH_AT: usize = 2;
        const IDENTIFICATION_AT: usize = 4;
        const CHECKSUM_AT: usize = 10;
        const SOURCE_AT: usize = 12;
        let (length, destination) = (packet.length(), dispatch.request.destination);
        let head = packet.headers.as_slice();
        let of_header = usize::from(head.first().map_or(0, |byte| byte & 0xf)) * 4;
        if of_header < ipv4::HEADER_LENGTH || of_header > length {
            return Err(SocketError::Invalid);
        }
        let is_zero = |at: usize, bytes: usize| {
            head.get(at..at + bytes).is_some_and(|field| field.iter().all(|byte| *byte == 0))
        };
        let (needs_number, needs_source) = (is_zero(IDENTIFICATION_AT, 2), is_zero(SOURCE_AT, 4));
        packet.patch(LENGTH_AT, length as u16);
        if needs_number {
            let source = dispatch.path.source;
            let number = self.identifications((source, destination), dispatch.request.protocol, 1);
            packet.patch(IDENTIFICATION_AT, number as u16);
        }
        if let IpAddr::V4(source) = dispatch.path.source
            && needs_source
        {
            let [a, b, c, d] = source.octets();
            packet.patch(SOURCE_AT, u16::from_be_bytes([a, b]));
            packet.patch(SOURCE_AT + 2, u16::from_be_bytes([c, d]));
        }
        packet.patch(CHECKSUM_AT, 0);
        let header = packet.headers.as_slice().get(..of_header).unwrap_or_default();
        packet.patch(CHECKSUM_AT, Sum::of(header).checksum());
        Ok(())
    }
}

/// Returns the packet of a payload. Its first bytes, up to `most` or [`HEAD_MAX`], are contiguous: receivers look for headers there.
fn contiguous<B: Buffer>(payload: &Payload, most: usize) -> Result<Departure<B>, SocketError> {
    let mut head = [0; HEAD_MAX];
    let count = payload.read(0, head.get_mut(..most.min(HEAD_MAX)).unwrap_or_default());
    let head = head.get(..count).unwrap_or_default();
    let rest = payloads::sent(payload, count).ok_or(SocketError::NoMemory)?;
    Departure::new(head, rest).ok_or(SocketError::NoMemory)
}

/// Returns the packet of a payload with its checksum at `at` (`IPV6_CHECKSUM`).
fn summed<B: Buffer>(
    dispatch: &Dispatch,
    payload: &Payload,
    at: usize,
) -> Result<Departure<B>, SocketError> {
    let mut bytes: Vec<u8> = alloc::vec![0; payload.length()];
    payload.read(0, &mut bytes);
    let (length, number) = (bytes.len() as u32, dispatch.request.protocol);
    bytes.get_mut(at..at.saturating_add(2)).ok_or(SocketError::Invalid)?.fill(0);
    let ends = dispatch.summed_ends();
    let mut sum = Sum::pseudo_header(ends.0, ends.1, number, length);
    sum.add(&bytes);
    let value = if number == protocol::UDP { sum.checksum_of_udp() } else { sum.checksum() };
    for (to, from) in bytes.iter_mut().skip(at).zip(value.to_be_bytes()) {
        *to = from;
    }
    // The header above IP stays contiguous.
    let head = bytes.get(..bytes.len().min(64)).unwrap_or_default();
    let rest = Payload::Bytes(bytes.as_slice().into());
    let rest: BufferChain<B> = payloads::sent(&rest, head.len()).ok_or(SocketError::NoMemory)?;
    Departure::new(head, rest).ok_or(SocketError::NoMemory)
}
