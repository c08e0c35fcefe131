//! Operations that isolated components do not have yet: programs, statistics of the system, its log, its clock and its power.
//!
//! No kernel call does them. They are declared, so that the sources of every component compile for this world, and defined
//! nowhere: a component that uses one does not link, and the linker names the operation.
use super::memory::RegionHandle;
use crate::{
    NoMemory,
    memory::Frame,
    power::Action,
    system::{ObjectCount, ProcessorTime},
    trace::TraceRecord,
    user::{Bases, CloneMode, Context, Fault, Protection, Trap, Unshared},
};
use alloc::{string::String, vec::Vec};
use program::Page;

/// Declares operations under the names by which the linker reports them.
macro_rules! absent {
    ($($symbol:ident: $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        unsafe extern "Rust" {
            $(safe fn $symbol($($argument: $type),*) $(-> $result)?;)*
        }
        $(pub(crate) fn $name($($argument: $type),*) $(-> $result)? {
            $symbol($($argument),*)
        })*
    };
}

/// As [`absent`], for methods.
macro_rules! absent_methods {
    ($of:ty: $($symbol:ident: $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        unsafe extern "Rust" {
            $(safe fn $symbol(this: &$of, $($argument: $type),*) $(-> $result)?;)*
        }
        impl $of {
            $(pub(crate) fn $name(&self, $($argument: $type),*) $(-> $result)? {
                $symbol(self, $($argument),*)
            })*
        }
    };
}

absent! {
    process_world_lacks_entropy_add: entropy_add(seed: [u64; 4]);
    process_world_lacks_frame_claim: frame_claim(frame: u32) -> bool;
    process_world_lacks_interrupts: interrupts() -> Vec<(String, Vec<u64>)>;
    process_world_lacks_log: log() -> (u64, Vec<u8>);
    process_world_lacks_objects: objects() -> Vec<ObjectCount>;
    process_world_lacks_pool_new: pool_new(pages: usize) -> Result<(RegionHandle, u32), NoMemory>;
    process_world_lacks_power_down: power_down(action: Action) -> !;
    process_world_lacks_processor_times: processor_times() -> Vec<ProcessorTime>;
    process_world_lacks_sampling: sample_every(period_ns: u64, rings: Vec<RegionHandle>);
    process_world_lacks_runnable_threads: runnable_threads() -> usize;
    process_world_lacks_set_wall_ns: set_wall_ns(ns: u64);
    process_world_lacks_threads_log: log_threads(why: core::fmt::Arguments<'_>);
    process_world_lacks_trace_last: trace_last(count: usize) -> Vec<TraceRecord>;
    process_world_lacks_user_extended_bytes: extended_bytes() -> usize;
    process_world_lacks_user_extended_mask: extended_mask() -> u64;
    process_world_lacks_user_report_moves: report_moves(is_wanted: bool);
    process_world_lacks_user_run: run(context: &mut Context, space: &SpaceHandle) -> Trap;
    process_world_lacks_user_space_map:
        space_map(space: &SpaceHandle, start: u64, frames: &[Frame], protection: Protection) -> Result<usize, NoMemory>;
    process_world_lacks_user_space_new: space_new() -> Result<SpaceHandle, NoMemory>;
    process_world_lacks_user_space_drop: space_drop(space: &mut SpaceHandle);
    process_world_lacks_user_each_present:
        each_present(space: &SpaceHandle, start: u64, end: u64, visit: &mut dyn FnMut(u64) -> bool);
}

/// A program's address space: a capability.
#[derive(Debug)]
pub(crate) struct SpaceHandle(#[expect(dead_code, reason = "no operation exists")] u64);

/// The calling thread's extended state.
#[derive(Debug)]
pub(crate) struct Extended;

/// The counts of a space.
#[derive(Debug)]
pub(crate) struct Counts {
    resident: usize,
    tables: usize,
    tables_max: usize,
}

impl Counts {
    pub(crate) fn resident(&self) -> usize {
        self.resident
    }
    pub(crate) fn tables(&self) -> usize {
        self.tables
    }
    pub(crate) fn tables_max(&self) -> usize {
        self.tables_max
    }
}

impl SpaceHandle {
    pub(crate) fn new() -> Result<SpaceHandle, NoMemory> {
        space_new()
    }
    pub(crate) fn each_present(&self, start: u64, end: u64, mut visit: impl FnMut(u64) -> bool) {
        each_present(self, start, end, &mut visit);
    }
}

impl Drop for SpaceHandle {
    fn drop(&mut self) {
        space_drop(self);
    }
}

absent_methods! { SpaceHandle:
    process_world_lacks_user_atomic_load: atomic_load(address: u64) -> Result<u32, Fault>;
    process_world_lacks_user_clone: clone_to(to: &SpaceHandle, start: u64, end: u64, mode: CloneMode) -> Result<usize, NoMemory>;
    process_world_lacks_user_compare_exchange: compare_exchange(address: u64, old: u32, new: u32) -> Result<u32, Fault>;
    process_world_lacks_user_counts: counts() -> Counts;
    process_world_lacks_user_load_extended: load_extended(address: u64) -> bool;
    process_world_lacks_user_make_writable: make_writable(address: u64, protection: Protection) -> Result<Unshared, NoMemory>;
    process_world_lacks_user_map_large: map_large(start: u64, protection: Protection) -> Result<bool, NoMemory>;
    process_world_lacks_user_map_zeroed: map_zeroed(start: u64, pages: usize, protection: Protection) -> Result<usize, NoMemory>;
    process_world_lacks_user_move: move_to(start: u64, end: u64, to: u64) -> Result<usize, NoMemory>;
    process_world_lacks_user_protect: protect(start: u64, end: u64, protection: Protection) -> Result<(), NoMemory>;
    process_world_lacks_user_query: query(address: u64) -> Option<Page>;
    process_world_lacks_user_read: read(address: u64, out: &mut [u8]) -> Result<(), Fault>;
    process_world_lacks_user_read_into_frames:
        read_into_frames(address: u64, frames: &[u32], bytes: core::ops::Range<usize>) -> Result<(), Fault>;
    process_world_lacks_user_read_string: copy_in_string(address: u64, out: &mut [u8]) -> Result<usize, Fault>;
    process_world_lacks_user_take_extended: take_extended(address: u64) -> bool;
    process_world_lacks_user_unmap: unmap(start: u64, end: u64) -> Result<usize, NoMemory>;
    process_world_lacks_user_write: write(address: u64, data: &[u8]) -> Result<(), Fault>;
    process_world_lacks_user_write_from_frames:
        write_from_frames(address: u64, frames: &[u32], bytes: core::ops::Range<usize>) -> Result<(), Fault>;
    process_world_lacks_user_zero: zero(address: u64, length: usize) -> Result<(), Fault>;
}

absent_methods! { Extended:
    process_world_lacks_user_bases: bases() -> Bases;
    process_world_lacks_user_extended_in: copy_in(image: &[u8]) -> bool;
    process_world_lacks_user_extended_out: copy_out(out: &mut [u8]) -> bool;
    process_world_lacks_user_extended_reset: reset();
    process_world_lacks_user_set_bases: set_bases(bases: Bases);
}

pub(crate) fn extended() -> Extended {
    Extended
}
