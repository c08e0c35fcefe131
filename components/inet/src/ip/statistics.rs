//! Counts of packets that were dropped, by reason.
use core::sync::atomic::{AtomicU64, Ordering};

/// The reason why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum DropReason {
    /// A malformed header of the link or of IP.
    Malformed,
    /// A protocol of the link that the stack does not know.
    UnknownEthertype,
    /// An impossible source or destination.
    Martian,
    /// The packet is for another host.
    NotForUs,
    /// The interface is down, or gone.
    InterfaceDown,
    /// A malformed or forbidden option.
    Option,
    /// A wrong checksum of a transport.
    Checksum,
    /// A malformed header of a transport.
    Transport,
    /// No socket.
    NoSocket,
    /// The queue of a socket is full.
    QueueFull,
    /// Memory was refused.
    NoMemory,
    /// The neighbour does not answer, or the table of neighbours is full.
    NoNeighbour,
    /// A fragment that overlaps another, is malformed or one too many.
    Fragment,
    /// Fragments of a packet did not come in time.
    ReassemblyTimeout,
    /// An error was not sent, because of the limit.
    ErrorLimit,
    /// A neighbour discovery message that breaks a rule.
    Discovery,
}

/// The number of reasons.
const REASONS: usize = DropReason::Discovery as usize + 1;

/// The counts.
#[derive(Debug, Default)]
pub struct DropCounts([AtomicU64; REASONS]);

impl DropCounts {
    /// Counts a packet.
    pub fn add(&self, reason: DropReason) {
        if let Some(count) = self.0.get(reason as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
    /// Returns the count of a reason.
    pub fn get(&self, reason: DropReason) -> u64 {
        self.0.get(reason as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }
    /// Returns the sum of all counts.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}
