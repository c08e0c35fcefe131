//! The present, as files note it.
use interfaces::file_system::FileTime;

pub(crate) const NS_A_SECOND: u64 = 1_000_000_000;

/// Returns the wall clock as a file time.
pub fn now() -> FileTime {
    let ns = rt::time::wall_ns();
    FileTime { seconds: (ns / NS_A_SECOND) as i64, nanoseconds: (ns % NS_A_SECOND) as u32 }
}
