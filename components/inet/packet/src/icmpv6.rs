//! ICMPv6 (RFC 4443): errors and echo. [`crate::ndp`] and [`crate::mld`] have its other messages.
use crate::{PacketError, icmp::IcmpHeader, split};
use zerocopy::byteorder::network_endian::U16;

const UNREACHABLE: u8 = 1;
const TOO_BIG: u8 = 2;
const TIME_EXCEEDED: u8 = 3;
const PARAMETER_PROBLEM: u8 = 4;
const ECHO_REQUEST: u8 = 128;
const ECHO_REPLY: u8 = 129;
/// Types below this are errors.
const INFORMATION: u8 = 128;

/// Codes of "destination unreachable".
pub mod unreachable {
    /// No route.
    pub const ROUTE: u8 = 0;
    /// A filter forbids it.
    pub const PROHIBITED: u8 = 1;
    /// The destination is beyond the scope of the source.
    pub const SCOPE: u8 = 2;
    /// The host does not answer.
    pub const ADDRESS: u8 = 3;
    /// The port has no socket.
    pub const PORT: u8 = 4;
}

/// A message, without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icmpv6Message {
    /// The quoted packet did not arrive.
    Unreachable {
        /// The reason ([`unreachable`]).
        code: u8,
    },
    /// The quoted packet does not fit a link.
    TooBig {
        /// MTU of that link.
        mtu: u32,
    },
    /// The quoted packet lived too long.
    TimeExceeded {
        /// The reason ([`crate::icmp::exceeded`]).
        code: u8,
    },
    /// The quoted packet has a faulty header.
    ParameterProblem {
        /// The reason ([`crate::ipv6::problem`]).
        code: u8,
        /// The place of the fault.
        pointer: u32,
    },
    /// Asks for an [`Icmpv6Message::EchoReply`].
    EchoRequest {
        /// The sender's number of the conversation.
        identifier: u16,
        /// The number of the message.
        sequence: u16,
    },
    /// Answers an [`Icmpv6Message::EchoRequest`], with its numbers and payload.
    EchoReply {
        /// The sender's number of the conversation.
        identifier: u16,
        /// The number of the message.
        sequence: u16,
    },
    /// Another message.
    Other {
        /// The type.
        kind: u8,
        /// The code.
        code: u8,
    },
}

impl Icmpv6Message {
    /// Parses the header at the front of `head`. The checksum is the caller's task, who has the payload.
    ///
    /// # Errors
    /// [`PacketError::Short`].
    pub fn parse(head: &[u8]) -> Result<Icmpv6Message, PacketError> {
        let (header, _) = split::<IcmpHeader>(head)?;
        let [a, b, c, d] = header.rest;
        let (identifier, sequence) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let (code, number) = (header.code, u32::from_be_bytes(header.rest));
        Ok(match header.kind {
            UNREACHABLE => Icmpv6Message::Unreachable { code },
            TOO_BIG => Icmpv6Message::TooBig { mtu: number },
            TIME_EXCEEDED => Icmpv6Message::TimeExceeded { code },
            PARAMETER_PROBLEM => Icmpv6Message::ParameterProblem { code, pointer: number },
            ECHO_REQUEST => Icmpv6Message::EchoRequest { identifier, sequence },
            ECHO_REPLY => Icmpv6Message::EchoReply { identifier, sequence },
            kind => Icmpv6Message::Other { kind, code },
        })
    }
    /// Returns the header, with an empty checksum.
    pub fn header(&self) -> IcmpHeader {
        let pair = |first: u16, second: u16| u32::from(first) << 16 | u32::from(second);
        let (kind, code, rest) = match *self {
            Icmpv6Message::Unreachable { code } => (UNREACHABLE, code, 0),
            Icmpv6Message::TooBig { mtu } => (TOO_BIG, 0, mtu),
            Icmpv6Message::TimeExceeded { code } => (TIME_EXCEEDED, code, 0),
            Icmpv6Message::ParameterProblem { code, pointer } => (PARAMETER_PROBLEM, code, pointer),
            Icmpv6Message::EchoRequest { identifier, sequence } => {
                (ECHO_REQUEST, 0, pair(identifier, sequence))
            }
            Icmpv6Message::EchoReply { identifier, sequence } => {
                (ECHO_REPLY, 0, pair(identifier, sequence))
            }
            Icmpv6Message::Other { kind, code } => (kind, code, 0),
        };
        IcmpHeader { kind, code, checksum: U16::ZERO, rest: rest.to_be_bytes() }
    }
    /// Returns whether the message tells of an error. No error is ever told about one.
    pub fn is_error(&self) -> bool {
        self.header().kind < INFORMATION
    }
}
