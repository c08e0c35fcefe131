//! `/proc`: the state of the system and its processes, as text in Linux's formats.
//!
//! | file | what |
//! | --- | --- |
//! | `tree` | the fixed part: directories, files and links from tables |
//! | `items` | the items of those tables |
//! | `system` | contents of the fixed files |
//! | `registry` | what the machine was started with |
//! | `components` | `/proc/skerry`: components and their supervisor; `/proc/driver/rtc` |
//! | `sysrq` | `/proc/sysrq-trigger` |
//! | `cpuinfo` | the properties of the processors from CPUID |
//! | `process` | `/proc/PID` and `/proc/PID/task/TID` |
//! | `report`, `status` | contents of a process's files |
//! | `attributes` | `attr`: contexts of mandatory access control |
//! | `login` | `loginuid` and `sessionid` |
//! | `security` | `attr` |
//! | `maps` | its memory: `maps`, `smaps`, `smaps_rollup` |
//! | `descriptors` | `/proc/PID/fd` and `fdinfo` |
//! | `memory_text` | files that show memory as it was at open |
//! | `network`, `network_settings` | `/proc/net`, `/proc/sys/net` |
//! | `disks`, `settings` | disks; `/proc/sys` |
//!
//! Inode numbers: the fixed part counts from 1; the numbers of a process are its id shifted left by
//! 32, plus the task's id shifted by 8 within `task`, plus the index in the table. Source: proc(5),
//! Linux `Documentation/filesystems/proc.rst`.
mod attributes;
mod components;
mod cpuinfo;
mod descriptors;
mod disks;
mod frames;
mod ipc;
mod items;
mod login;
mod maps;
mod memory_text;
mod network;
mod network_settings;
mod process;
pub mod registry;
mod report;
mod settings;
mod status;
mod sysrq;
mod system;
mod tree;

pub use settings::{SLICE_MS, parsed};

use ::process::Process;
use alloc::sync::Arc;
use vfs::{Active, Errno, generated::Node};

/// Returns the process whose directory `/proc/PID` is `node`.
pub fn process_of(node: &dyn Node) -> Option<Arc<Process>> {
    let subject = node.subject()?.downcast_ref::<process::Subject>()?;
    subject.thread.is_none().then(|| subject.process.clone())
}

/// A new mount of procfs, which knows no options.
///
/// # Errors
/// `ENOMEM`.
pub fn mount(_: &[u8]) -> Result<Arc<Active>, Errno> {
    Active::generated("proc", Arc::new(tree::Root))
}
