//! The description of an interface, its settings and its counts.
use crate::{marshal::Marshal, marshal_flags, wire::Wire};
use alloc::{string::String, vec::Vec};

/// An address of Ethernet.
pub type MacAddress = [u8; 6];

/// The least MTU of an interface (RFC 791).
pub const MTU_MIN: u16 = 68;
/// The greatest number of addresses of a [`Filter`].
pub const ADDRESSES_MAX: usize = 64;

bitflags::bitflags! {
    /// Work that the device does.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Offloads: u32 {
        /// Completes partial checksums of sent packets.
        const SEND_CHECKSUM = 1 << 0;
        /// Cuts TCP over IPv4.
        const SEND_TCP4 = 1 << 1;
        /// Cuts TCP over IPv6.
        const SEND_TCP6 = 1 << 2;
        /// Cuts TCP with ECN.
        const SEND_ECN = 1 << 3;
        /// Cuts UDP.
        const SEND_UDP = 1 << 4;
        /// Checks received packets, or leaves checksums partial.
        const RECEIVE_CHECKSUM = 1 << 8;
        /// Merges TCP over IPv4.
        const RECEIVE_TCP4 = 1 << 9;
        /// Merges TCP over IPv6.
        const RECEIVE_TCP6 = 1 << 10;
        /// Merges TCP with ECN.
        const RECEIVE_ECN = 1 << 11;
        /// Merges UDP.
        const RECEIVE_UDP = 1 << 12;
    }
}

marshal_flags!(Offloads);

impl Offloads {
    /// The offloads of reception.
    pub const RECEIVE: Offloads = Offloads::RECEIVE_CHECKSUM
        .union(Offloads::RECEIVE_TCP4)
        .union(Offloads::RECEIVE_TCP6)
        .union(Offloads::RECEIVE_ECN)
        .union(Offloads::RECEIVE_UDP);
}

/// The state of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub enum LinkState {
    /// No carrier.
    Down,
    /// Packets can be sent and received.
    Up,
}

impl LinkState {
    /// Returns the state of a link that has a carrier, or none.
    pub fn of(has_carrier: bool) -> LinkState {
        if has_carrier { LinkState::Up } else { LinkState::Down }
    }
}

/// The description of an interface.
#[derive(Clone, Debug, PartialEq, Eq, Marshal)]
pub struct NicInfo {
    /// Name: `eth0`.
    pub name: String,
    /// The present address.
    pub mac: MacAddress,
    /// The greatest length of a packet without its Ethernet header.
    pub mtu: u16,
    /// The state of the link.
    pub link: LinkState,
    /// Megabits a second, if the device says so.
    pub speed: Option<u32>,
    /// The offloads that the device has.
    pub offloads: Offloads,
    /// Queue pairs in use.
    pub pairs: u16,
    /// The greatest number of queue pairs.
    pub pairs_max: u16,
    /// The greatest number of segments of a packet.
    pub max_segments: usize,
    /// Bytes before a received packet in its first frame, which are the client's.
    pub headroom: u16,
    /// Packets that the device holds at once, over all queues.
    pub depth: usize,
    /// Buffers that the device holds at once, over all queues.
    pub buffers: usize,
}

/// The packets that an interface receives beside those to its own address and to all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Marshal)]
pub struct Filter {
    /// All packets.
    pub is_promiscuous: bool,
    /// All packets to groups.
    pub is_all_multicast: bool,
    /// Packets to these further addresses. With those of groups at most [`ADDRESSES_MAX`].
    pub unicast: Vec<MacAddress>,
    /// Packets to these groups.
    pub multicast: Vec<MacAddress>,
}

/// The counts of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire, Marshal)]
pub struct NicStatistics {
    /// Packets that the device took.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that were refused or failed.
    pub send_errors: u64,
    /// Packets that were given to the sink.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Received packets that made no sense, and were dropped.
    pub receive_errors: u64,
    /// Received packets that no sink took.
    pub receive_dropped: u64,
}

/// The reason why a packet was not sent or a command not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire, Marshal)]
pub enum NicError {
    /// The packet or the setting makes no sense: too long, too short, too many segments, a checksum's field outside.
    Invalid,
    /// The device has no such ability.
    Unsupported,
    /// The device refused the command.
    Refused,
    /// The device did not answer the command in time.
    TimedOut,
    /// The device failed.
    Device,
    /// The driver died; the packet may or may not have been sent, the command may or may not have been done.
    Restarted,
    /// Memory was refused.
    NoMemory,
}
