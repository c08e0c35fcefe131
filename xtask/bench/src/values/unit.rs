//! The units of figures.
use serde::{Deserialize, Serialize};

/// The unit of the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Nanoseconds, by the time stamp counter.
    Clock,
    /// Executed instructions, by a plugin of QEMU.
    Instructions,
    /// KiB; not a unit of probes.
    Kib,
}
