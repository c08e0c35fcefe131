//! [`RuleRecord`]: the rules that choose the routing table of a packet (ip-rule(8)).
use super::records::number;
use crate::marshal::Marshal;
use alloc::string::String;
use core::net::IpAddr;

/// A rule that chooses the table of a packet, or its fate. A property that is zero, empty or `None` matches any packet.
#[derive(Clone, Debug, PartialEq, Eq, Marshal)]
pub struct RuleRecord {
    /// It is about IPv6.
    pub is_version6: bool,
    /// Its place: smaller ones are looked at first. Entries of a list have one; in a change `None` leaves the choice to the stack.
    pub priority: Option<u32>,
    /// The action (`FR_ACT_*`).
    pub action: u8,
    /// The table of `FR_ACT_TO_TBL`.
    pub table: u32,
    /// The priority of the rule that `FR_ACT_GOTO` goes on with; zero for none.
    pub target: u32,
    /// `FIB_RULE_*`.
    pub flags: u32,
    /// Maker (`RTPROT_*`).
    pub protocol: u8,
    /// Network of the source, and its bits.
    pub source: Option<(IpAddr, u8)>,
    /// Network of the destination, and its bits.
    pub destination: Option<(IpAddr, u8)>,
    /// Type of service.
    pub type_of_service: u8,
    /// Mark of the packet (`SO_MARK`).
    pub mark: u32,
    /// Bits of the mark that count.
    pub mark_mask: u32,
    /// Name of the interface by which the packet came: `lo` for those of this host.
    pub input: String,
    /// Name of the interface that the socket is bound to.
    pub output: String,
    /// First and last user id of the sender.
    pub users: Option<(u32, u32)>,
    /// Number of the protocol above IP.
    pub ip_protocol: u8,
    /// First and last port of the source.
    pub source_ports: Option<(u16, u16)>,
    /// First and last port of the destination.
    pub destination_ports: Option<(u16, u16)>,
    /// A route whose network has no more bits than this does not count.
    pub suppress_prefix: Option<u32>,
    /// A route through an interface of this group does not count.
    pub suppress_group: Option<u32>,
}

impl RuleRecord {
    /// Returns the rule by which all packets of IPv4 are looked up in `table`.
    pub fn of_table(priority: u32, table: u32) -> RuleRecord {
        RuleRecord {
            is_version6: false,
            priority: Some(priority),
            action: number::RULE_LOOK_UP,
            table,
            target: 0,
            flags: 0,
            protocol: number::PROTOCOL_KERNEL,
            source: None,
            destination: None,
            type_of_service: 0,
            mark: 0,
            mark_mask: 0,
            input: String::new(),
            output: String::new(),
            users: None,
            ip_protocol: 0,
            source_ports: None,
            destination_ports: None,
            suppress_prefix: None,
            suppress_group: None,
        }
    }
}
