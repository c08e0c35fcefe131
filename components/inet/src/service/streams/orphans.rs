//! [`OrphanTable`]: connections in FIN-WAIT-2 that no program holds, by the time of their end.
//!
//! The FIN of most comes soon. So an entry stays when its connection ends: when its time comes, the connection is looked up. That is
//! cheaper than a timer that is armed and ended again.
use super::by_time::ByTime;
use rt::lock_class;
use tcp::Flow;

lock_class! {
    pub(super) static ORPHANS = "inet.tcp.orphans";
}

/// Entries at most. Further connections have a timer of their own.
pub(super) const ORPHANS_MAX: usize = 16_384;

/// The connections in FIN-WAIT-2 that no program holds, and those that were: their flows, and the hashes of these.
pub(super) type OrphanTable = ByTime<(Flow, u64)>;
