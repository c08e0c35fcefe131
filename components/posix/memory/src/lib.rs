//! Memory of programs: [`AddressSpace`], a map of regions over objects above rt's `Space` (B4, B5).
//!
//! The [`map::Map`] says which pages may be present; `rt::user::Space` says which are present now. A fault looks a region up
//! and makes pages present: zeroes, an object's frames, or a private copy. Every other operation works by range on both.
//!
//! | file | what |
//! | --- | --- |
//! | `space` | the address space itself |
//! | `region`, `map` | regions, and their ordered map |
//! | `fault` | answering page faults, growing the stack |
//! | `access`, `transfer` | the personality's own access to user memory |
//! | `mapping`, `protect`, `remap`, `heap` | mmap and munmap, mprotect, mremap, brk |
//! | `advice`, `lock` | madvise, mincore, msync; mlock |
//! | `anonymous` | shared memory without a file |
//! | `segments` | segments of System V shared memory |
//! | `large` | where large pages are entered |
//! | `commit` | what programs are promised |
//! | `fork`, `report` | fork by range; what /proc shows |
//!
//! Locks: `memory.map` is a reader/writer lock. A fault holds it to read while it makes pages present and never while an
//! object reads from storage; an operation that changes regions holds it to write *and removes the pages from the space
//! before it releases the lock*. So a fault that races an munmap either comes first and its page is removed, or looks the
//! region up again and does not find it. A page fetched without the lock is discarded if a truncation came between, or the
//! writing of pages to storage: that removes write access from the mapping, so that the next store is noticed. Under
//! `memory.map` only objects' `resident` (page cache locks), the rights of the space's owner (`process.signals`) and rt are
//! called; user memory is never accessed with it held. Removed regions are dropped after it (they may close files). Source:
//! POSIX.1-2017, Linux's manual pages; Mach's vm_map/vm_object split.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

pub mod access;
pub mod advice;
pub mod anonymous;
pub mod commit;
mod fault;
pub mod fault_counts;
mod fork;
mod heap;
pub mod large;
pub mod lock;
pub mod map;
pub mod mapping;
mod protect;
pub mod region;
mod remap;
pub mod report;
pub mod segments;
pub mod setting;
mod space;
pub mod transfer;

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;

pub use access::Text;
pub use advice::Advice;
pub use anonymous::Anonymous;
pub use fault::FaultError;
pub use fault_counts::{FaultCounts, FaultKind, Faults};
pub use mapping::{MapFlags, MapRequest, MappingPlace, MappingSource};
pub use region::{Flags, Label, Origin, PAGE, Region};
pub use remap::RemapFlags;
pub use space::{AddressSpace, Dumpable, LimitValues, MemoryLimits, ProgramLayout};
pub use transfer::{IoVec, Room, UserSink, UserSource};
