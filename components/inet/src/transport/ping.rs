//! Sockets of echo requests (icmp(7)): programs write the message of ICMP without its checksum and identifier, which is the port.
use super::{
    datagram_control::DatagramHandle, datagram_input::ends_of, datagram_output::packet_of,
};
use crate::{
    base::{address::Family, buffer::Buffer},
    ip::{
        icmp::CHECKSUM_OFFSET,
        stack::{Cast, Delivery, Stack, StackRun},
    },
    sockets::{bindings::PacketEnds, errors::SocketError},
};
use core::net::SocketAddr;
use interfaces::sockets::{SentDatagram, SocketFamilies};
use packet::{
    Sum,
    icmp::{HEADER_LENGTH, IcmpMessage},
    icmpv6::Icmpv6Message,
    protocol,
};
use zerocopy::IntoBytes;

/// Returns the number of the echo request of a family, if `head` is one that a program may send or have sent: identifier, sequence.
pub(crate) fn echo_request(family: Family, head: &[u8]) -> Option<(u16, u16)> {
    // The code is zero.
    if head.get(1) != Some(&0) {
        return None;
    }
    match family {
        Family::V4 => match IcmpMessage::parse(head) {
            Ok(IcmpMessage::EchoRequest { identifier, sequence }) => Some((identifier, sequence)),
            _ => None,
        },
        Family::V6 => match Icmpv6Message::parse(head) {
            Ok(Icmpv6Message::EchoRequest { identifier, sequence }) => Some((identifier, sequence)),
            _ => None,
        },
    }
}

impl<B: Buffer> Stack<B> {
    /// Sends an echo request. Other messages are refused (`ping_supported`).
    pub(crate) fn send_ping(
        &self,
        run: &mut StackRun<'_, B>,
        socket: &DatagramHandle,
        datagram: &mut SentDatagram,
    ) -> Result<(), SocketError> {
        let is_v4 = socket.families == SocketFamilies::V4;
        let family = if is_v4 { Family::V4 } else { Family::V6 };
        let mut head = [0; HEADER_LENGTH];
        let count = datagram.payload.read(0, &mut head);
        let head = head.get(..count).unwrap_or_default();
        let (_, sequence) = echo_request(family, head).ok_or(SocketError::Invalid)?;
        // Of an echo request Linux checks them, and sends none (`ping_v6_sendmsg`).
        datagram.extensions = None;
        let dispatch = self.dispatch(run, socket, datagram)?;
        self.admit(socket, &dispatch, datagram.payload.length())?;
        let (path, request) = (&dispatch.path, &dispatch.request);
        let identifier = dispatch.port;
        let header = match family {
            Family::V4 => IcmpMessage::EchoRequest { identifier, sequence }.header(),
            Family::V6 => Icmpv6Message::EchoRequest { identifier, sequence }.header(),
        };
        let mut packet = packet_of::<B>(&dispatch, &datagram.payload, HEADER_LENGTH)?;
        packet.headers.prepend(header.as_bytes()).map_err(|_| SocketError::NoMemory)?;
        let (ends, length) = ((path.source, request.destination), packet.length() as u32);
        let mut sum = match family {
            Family::V4 => Sum::new(),
            Family::V6 => Sum::pseudo_header(ends.0, ends.1, protocol::ICMPV6, length),
        };
        sum.append(packet.sum());
        packet.patch(CHECKSUM_OFFSET, sum.checksum());
        Ok(self.send_dispatched(run, &dispatch, packet)?)
    }
    /// Takes an echo reply, from the header of ICMP on. Nobody is told if no socket has sent the request.
    pub(crate) fn input_ping(
        &self,
        run: &mut StackRun<'_, B>,
        delivery: &Delivery<'_, B>,
        identifier: u16,
    ) {
        let ends = ends_of(delivery);
        let numbered =
            PacketEnds { local: SocketAddr::new(delivery.destination, identifier), ..ends };
        // A reply to a group is nobody's.
        let found = self.datagrams.ping.find(&numbered, || 0);
        if let Some(socket) = found.filter(|_| delivery.cast == Cast::Unicast) {
            self.queue_for(run, &[socket], (delivery, &ends), &delivery.payload);
        }
    }
}
