//! ICMP (RFC 792, RFC 1122 section 3.2.2, RFC 1191).
use crate::{PacketError, split};
use core::net::Ipv4Addr;
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, byteorder::network_endian::U16,
};

/// Bytes of a header.
pub const HEADER_LENGTH: usize = size_of::<IcmpHeader>();

const ECHO_REPLY: u8 = 0;
const UNREACHABLE: u8 = 3;
const SOURCE_QUENCH: u8 = 4;
const REDIRECT: u8 = 5;
const ECHO_REQUEST: u8 = 8;
const TIME_EXCEEDED: u8 = 11;
const PARAMETER_PROBLEM: u8 = 12;

/// The header of ICMP, and of ICMPv6.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct IcmpHeader {
    /// The type.
    pub kind: u8,
    /// The code.
    pub code: u8,
    /// The checksum, over header and payload.
    pub checksum: U16,
    /// Four bytes that depend on the type.
    pub rest: [u8; 4],
}

/// Codes of "destination unreachable".
pub mod unreachable {
    /// No route to the network.
    pub const NETWORK: u8 = 0;
    /// The host does not answer.
    pub const HOST: u8 = 1;
    /// The host has no such protocol.
    pub const PROTOCOL: u8 = 2;
    /// The port has no socket.
    pub const PORT: u8 = 3;
    /// The packet is too long and may not be cut.
    pub const TOO_BIG: u8 = 4;
    /// The source route failed.
    pub const SOURCE_ROUTE: u8 = 5;
    /// A filter forbids it.
    pub const PROHIBITED: u8 = 13;
}

/// Codes of "time exceeded", in both families.
pub mod exceeded {
    /// The packet had no hops left.
    pub const HOPS: u8 = 0;
    /// Fragments of the packet did not come.
    pub const REASSEMBLY: u8 = 1;
}

/// A message, without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpMessage {
    /// Asks for an [`IcmpMessage::EchoReply`].
    EchoRequest {
        /// The sender's number of the conversation.
        identifier: u16,
        /// The number of the message.
        sequence: u16,
    },
    /// Answers an [`IcmpMessage::EchoRequest`], with its numbers and payload.
    EchoReply {
        /// The sender's number of the conversation.
        identifier: u16,
        /// The number of the message.
        sequence: u16,
    },
    /// The quoted packet did not arrive.
    Unreachable {
        /// The reason ([`unreachable`]).
        code: u8,
        /// MTU of the next hop, with [`unreachable::TOO_BIG`]. Zero from routers older than RFC 1191.
        mtu: u16,
    },
    /// The quoted packet lived too long.
    TimeExceeded {
        /// The reason ([`exceeded`]).
        code: u8,
    },
    /// The quoted packet has a faulty header.
    ParameterProblem {
        /// The reason.
        code: u8,
        /// The place of the fault.
        pointer: u8,
    },
    /// The quoted packet should go through another gateway.
    Redirect {
        /// The packets concerned.
        code: u8,
        /// The better gateway.
        gateway: Ipv4Addr,
    },
    /// A congested router's cry, to be ignored (RFC 6633).
    SourceQuench,
    /// Another message.
    Other {
        /// The type.
        kind: u8,
        /// The code.
        code: u8,
    },
}

impl IcmpMessage {
    /// Parses the header at the front of `head`. The checksum is the caller's task, who has the payload.
    ///
    /// # Errors
    /// [`PacketError::Short`].
    pub fn parse(head: &[u8]) -> Result<IcmpMessage, PacketError> {
        let (header, _) = split::<IcmpHeader>(head)?;
        let [a, b, c, d] = header.rest;
        let (first, second) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let code = header.code;
        Ok(match header.kind {
            ECHO_REQUEST => IcmpMessage::EchoRequest { identifier: first, sequence: second },
            ECHO_REPLY => IcmpMessage::EchoReply { identifier: first, sequence: second },
            UNREACHABLE => IcmpMessage::Unreachable { code, mtu: second },
            TIME_EXCEEDED => IcmpMessage::TimeExceeded { code },
            PARAMETER_PROBLEM => IcmpMessage::ParameterProblem { code, pointer: a },
            REDIRECT => IcmpMessage::Redirect { code, gateway: header.rest.into() },
            SOURCE_QUENCH => IcmpMessage::SourceQuench,
            kind => IcmpMessage::Other { kind, code },
        })
    }
    /// Returns the header, with an empty checksum.
    pub fn header(&self) -> IcmpHeader {
        let pair = |first: u16, second: u16| {
            let ([a, b], [c, d]) = (first.to_be_bytes(), second.to_be_bytes());
            [a, b, c, d]
        };
        let (kind, code, rest) = match *self {
            IcmpMessage::EchoRequest { identifier, sequence } => {
                (ECHO_REQUEST, 0, pair(identifier, sequence))
            }
            IcmpMessage::EchoReply { identifier, sequence } => {
                (ECHO_REPLY, 0, pair(identifier, sequence))
            }
            IcmpMessage::Unreachable { code, mtu } => (UNREACHABLE, code, pair(0, mtu)),
            IcmpMessage::TimeExceeded { code } => (TIME_EXCEEDED, code, [0; 4]),
            IcmpMessage::ParameterProblem { code, pointer } => {
                (PARAMETER_PROBLEM, code, [pointer, 0, 0, 0])
            }
            IcmpMessage::Redirect { code, gateway } => (REDIRECT, code, gateway.octets()),
            IcmpMessage::SourceQuench => (SOURCE_QUENCH, 0, [0; 4]),
            IcmpMessage::Other { kind, code } => (kind, code, [0; 4]),
        };
        IcmpHeader { kind, code, checksum: U16::ZERO, rest }
    }
    /// Returns whether the message tells of an error. No error is ever told about one (RFC 1122, section 3.2.2).
    pub fn is_error(&self) -> bool {
        matches!(
            self,
            IcmpMessage::Unreachable { .. }
                | IcmpMessage::TimeExceeded { .. }
                | IcmpMessage::ParameterProblem { .. }
                | IcmpMessage::Redirect { .. }
                | IcmpMessage::SourceQuench
        )
    }
}
