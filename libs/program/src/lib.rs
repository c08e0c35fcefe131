//! The vocabulary of the nucleus and the runtime: registers, traps and faults of programs, policies
//! and times of threads, memory, refusals.
//!
//! These types are plain data, so they pass between the two (and, in the process world, through the system call) unchanged.
//! [`Registers`] is written by the trap entry of the nucleus, which asserts its layout. `rt` shows these types to components.
#![no_std]
#![forbid(unsafe_code)]

pub mod objects;
mod world;

use bitflags::bitflags;
pub use world::{
    CpuTime, DeviceError, MmioDevice, NoMemory, ObjectCount, PciAddress, PciFunction, Policy,
    PortStep, ProcessorTime, SCALE_SHIFT, Statistics, TraceRecord, Turn, user_ns,
};

/// End of the addresses for programs: the lower half's end less a guard page, as on Linux.
pub const USER_END: u64 = 0x7fff_ffff_f000;

/// General registers of a program. Its segment bases are kept with its extended state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[allow(missing_docs, reason = "the processor's names")]
pub struct Registers {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rip: u64,
    pub rflags: u64,
    pub rsp: u64,
}

/// Segment bases of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bases {
    /// Base of FS, which points to the program's thread-local storage.
    pub fs: u64,
    /// Base of GS.
    pub gs: u64,
}

bitflags! {
    /// The accesses to a page that are allowed to a program.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Protection: u8 {
        /// Loads are allowed.
        const READ = 1;
        /// Stores are allowed.
        const WRITE = 2;
        /// Instruction fetches are allowed.
        const EXECUTE = 4;
    }
}

/// A present page of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its frame, with a reference for the caller.
    pub frame: u32,
    /// The accesses that are allowed to the program.
    pub protection: Protection,
    /// The page was accessed since it was last harvested.
    pub is_accessed: bool,
    /// The page was written since it was last harvested.
    pub is_dirty: bool,
    /// The page is a part of a large page.
    pub is_large: bool,
}

/// The kind of an access that faulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A load.
    Read,
    /// A store.
    Write,
    /// An instruction fetch.
    Execute,
}

/// A user address could not be accessed. `done` bytes before it were copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// First address that could not be accessed.
    pub address: u64,
    /// The access that was tried there.
    pub access: Access,
    /// Bytes copied before it.
    pub done: usize,
}

/// The reason why user mode was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trap {
    /// The `syscall` instruction; the number is in rax, rip is past the instruction.
    Syscall,
    /// A page fault.
    PageFault {
        /// The address of the access.
        address: u64,
        /// The kind of the access.
        access: Access,
        /// A page was present (a protection fault).
        is_present: bool,
    },
    /// Another processor exception, by vector (0 divide error, 6 invalid opcode, 13 general protection ...).
    Exception {
        /// Vector number.
        vector: u8,
        /// Error code; zero if the vector has none.
        error_code: u64,
    },
    /// A kick.
    Kicked,
}

/// The way in which the pages of a range are cloned. Write access is removed from both sides; the first store faults and
/// copies (K5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloneMode {
    /// Pages are shared one by one.
    Pages,
    /// Whole page tables in the range are shared if that is less work.
    Tables,
}

/// The result of making a page writable. Kernel calls return its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unshared {
    /// The page had no other user and is writable now.
    Reused,
    /// The page was shared, and a writable copy replaced it.
    Copied,
    /// The page is not present.
    Absent,
}
