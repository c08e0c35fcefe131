//! Counts of packets that were dropped, by reason.
use core::sync::atomic::{AtomicU64, Ordering};

macro_rules! reasons {
    ($($(#[$doc:meta])+ $reason:ident $name:literal)+) => {
        /// The reason why a packet was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum DropReason {
            $($(#[$doc])+ $reason,)+
        }
        /// All reasons, with the words that `/proc/skerry/net` has for them.
        pub const DROP_REASONS: &[(DropReason, &str)] = &[$((DropReason::$reason, $name)),+];
    };
}
reasons! {
    /// A malformed header of the link or of IP.
    Malformed "malformed"
    /// A protocol of the link that the stack does not know.
    UnknownEthertype "unknown-ethertype"
    /// An impossible source or destination.
    Martian "martian"
    /// The packet is for another host.
    NotForUs "not-for-us"
    /// The interface is down, or gone.
    InterfaceDown "interface-down"
    /// A malformed or forbidden option.
    Option "option"
    /// A wrong checksum of a transport.
    Checksum "checksum"
    /// A malformed header of a transport.
    Transport "transport-header"
    /// No socket.
    NoSocket "no-socket"
    /// The queue of a socket is full.
    QueueFull "queue-full"
    /// The filter of a socket refused it.
    Filter "filter"
    /// Memory was refused.
    NoMemory "no-memory"
    /// The neighbour does not answer, or the table of neighbours is full.
    NoNeighbour "no-neighbour"
    /// A fragment that overlaps another, is malformed or one too many.
    Fragment "fragment"
    /// Fragments of a packet did not come in time.
    ReassemblyTimeout "reassembly-timeout"
    /// An error was not sent, because of the limit.
    ErrorLimit "error-limit"
    /// A neighbour discovery message that breaks a rule.
    Discovery "discovery"
    /// On an interface where packets tell their secrecy, one that tells none.
    LabelMissing "label-missing"
    /// One that tells its secrecy by another domain of interpretation.
    LabelDomain "label-domain"
    /// One with a malformed label, or one that this host cannot have.
    LabelMalformed "label-malformed"
    /// A secrecy that the interface may not carry.
    LabelRange "label-range"
    /// A packet was to be sent by an interface that may not carry its secrecy, or cannot tell it.
    LabelSent "label-sent"
}

/// The counts.
#[derive(Debug, Default)]
pub struct DropCounts([AtomicU64; DROP_REASONS.len()]);

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
