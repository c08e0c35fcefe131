//! The errors that ICMP tells of.
use crate::{base::packets::Arrival, tables::interface::InterfaceIndex};
use core::net::IpAddr;
pub use interfaces::sockets::{ErrorCarrier, SocketError};
use labels::SecrecyId;
use packet::{icmp, icmpv6};

/// An error about a packet that this host sent, from a router or the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteError {
    /// The error.
    pub error: SocketError,
    /// It will last.
    pub is_hard: bool,
    /// Type of the ICMP message.
    pub kind: u8,
    /// Code of the ICMP message.
    pub code: u8,
    /// The packet of the message.
    pub carrier: ErrorCarrier,
    /// The MTU that it tells; zero if it does not.
    pub mtu: u32,
}

/// The packet that an error quotes.
#[derive(Debug)]
pub struct Quoted<'p, B> {
    /// The protocol above IP.
    pub protocol: u8,
    /// The sender: this host.
    pub source: IpAddr,
    /// The receiver.
    pub destination: IpAddr,
    /// Length of the whole packet.
    pub length: u32,
    /// The bytes behind IP, as far as they are quoted.
    pub payload: Arrival<'p, B>,
    /// The interface by which the error came.
    pub interface: InterfaceIndex,
    /// The secrecy of the error.
    pub label: SecrecyId,
}

/// Returns what a message of ICMP means, as in Linux (`icmp_err_convert`); `None` for messages that are no error of a socket.
pub fn of_icmp(message: icmp::IcmpMessage) -> Option<(SocketError, bool)> {
    use icmp::{IcmpMessage, unreachable};
    match message {
        IcmpMessage::Unreachable { code, .. } => Some(match code {
            unreachable::PROTOCOL => (SocketError::NoProtocol, true),
            unreachable::PORT => (SocketError::Refused, true),
            unreachable::TOO_BIG => (SocketError::MessageSize, false),
            unreachable::SOURCE_ROUTE => (SocketError::Unsupported, false),
            0 | 6 | 9 | 11 => (SocketError::NetworkUnreachable, code == 6 || code == 9),
            7 => (SocketError::HostDown, true),
            8 => (SocketError::Isolated, true),
            1 | 10 | 12..=15 => (SocketError::HostUnreachable, matches!(code, 10 | 13..=15)),
            _ => return None,
        }),
        IcmpMessage::TimeExceeded { .. } => Some((SocketError::HostUnreachable, false)),
        IcmpMessage::ParameterProblem { .. } => Some((SocketError::Protocol, true)),
        _ => None,
    }
}

/// Returns what a message of ICMPv6 means, as in Linux (`icmpv6_err_convert`).
pub fn of_icmpv6(message: icmpv6::Icmpv6Message) -> Option<(SocketError, bool)> {
    use icmpv6::{Icmpv6Message, unreachable};
    match message {
        Icmpv6Message::Unreachable { code } => Some(match code {
            unreachable::ROUTE => (SocketError::NetworkUnreachable, false),
            unreachable::PROHIBITED => (SocketError::Forbidden, true),
            unreachable::PORT => (SocketError::Refused, true),
            unreachable::SCOPE | unreachable::ADDRESS => (SocketError::HostUnreachable, false),
            // The source's policy failed, or a route rejects the packet.
            5 | 6 => (SocketError::Forbidden, true),
            _ => (SocketError::Protocol, true),
        }),
        Icmpv6Message::TooBig { .. } => Some((SocketError::MessageSize, false)),
        Icmpv6Message::TimeExceeded { .. } => Some((SocketError::HostUnreachable, false)),
        Icmpv6Message::ParameterProblem { .. } => Some((SocketError::Protocol, true)),
        _ => None,
    }
}
