//! User mode: address spaces for programs, their registers, and entering them (architecture.md,
//! "Memory of programs").
//!
//! [`Space`] is Mach's pmap (B4): it holds what is mapped *now*. The personality's map of entries
//! over objects stands above it and answers faults. Every operation covers a range (B5), and the
//! TLBs of the processors that run the space are told once per operation.
//!
//! An isolated component may run programs if its system says so ([`calls::Grants::can_run`]).
use crate::{
    NoMemory, PAGE_BYTES,
    memory::{self, Frame, FrameId},
    world,
};
use core::ops::Range;
use program::Page;
pub use program::{
    Access, Bases, CloneMode, Fault, Protection, Registers, Trap, USER_END, Unshared,
};

#[cfg(all(target_os = "none", skerry_process))]
use world::user::each_page;

/// Page tables that mapping one page may need besides the root.
const TABLES_OF_A_PAGE: usize = 3;

/// Bytes of a large page.
pub const LARGE_BYTES: usize = 2 << 20;

/// A run of pages: `start` is page-aligned, the end does not pass [`USER_END`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRange {
    start: u64,
    pages: usize,
}

impl PageRange {
    /// Makes the range, if it is aligned and lies in the lower half.
    pub fn new(start: u64, pages: usize) -> Option<PageRange> {
        let bytes = (pages as u64).checked_mul(PAGE_BYTES as u64)?;
        let end = start.checked_add(bytes)?;
        (start.is_multiple_of(PAGE_BYTES as u64) && end <= USER_END)
            .then_some(PageRange { start, pages })
    }
    /// Returns the first address.
    pub fn start(&self) -> u64 {
        self.start
    }
    /// Returns the first address after it.
    pub fn end(&self) -> u64 {
        self.start + (self.pages * PAGE_BYTES) as u64
    }
    /// Returns the length in pages.
    pub fn pages(&self) -> usize {
        self.pages
    }
}

/// A page that is present.
#[derive(Debug)]
pub struct Mapping {
    /// The number of its frame, which may be free a moment later.
    pub id: FrameId,
    /// The number of references to the frame: those of spaces, and others.
    pub references: u32,
    /// The accesses that the program has now.
    pub protection: Protection,
    /// The page was accessed since it was mapped.
    pub is_accessed: bool,
    /// The page was written since it was mapped.
    pub is_dirty: bool,
    /// The page is a part of a large page.
    pub is_large: bool,
}

impl Mapping {
    fn of((page, references): (Page, u32)) -> Mapping {
        Mapping {
            id: FrameId(page.frame),
            references,
            protection: page.protection,
            is_accessed: page.is_accessed,
            is_dirty: page.is_dirty,
            is_large: page.is_large,
        }
    }
}

/// Pages that [`Space::each_page`] looks at in one step.
pub const PAGES_MAX: usize = 16;

/// Calls `visit` with the address of each present page, the page, and the number of references to its frame. In these worlds a
/// look at a page is a plain call.
#[cfg(not(all(target_os = "none", skerry_process)))]
fn each_page(
    space: &world::user::SpaceHandle,
    start: u64,
    end: u64,
    visit: &mut dyn FnMut(u64, (Page, u32)) -> bool,
) {
    let mut at = start;
    while at < end {
        let (mut found, mut count) = ([0; PAGES_MAX], 0);
        space.each_present(at, end, |address| {
            found[count] = address;
            count += 1;
            count < PAGES_MAX
        });
        for &address in &found[..count] {
            let page = world::user::space_query(space, address);
            if page.is_some_and(|page| !visit(address, page)) {
                return;
            }
        }
        at = found
            .last()
            .filter(|_| count == PAGES_MAX)
            .map_or(end, |last| last + PAGE_BYTES as u64);
    }
}

/// An address space for a program; destroyed (every page unmapped) when dropped.
#[derive(Debug)]
pub struct Space(pub(crate) world::user::SpaceHandle);

impl Space {
    /// Makes an empty space.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn new() -> Result<Space, NoMemory> {
        world::user::SpaceHandle::new().map(Space)
    }
    /// Maps `frames` at consecutive pages from `start`; pages already present stay as they are. Returns the number of newly
    /// mapped pages. Frames whose number beyond the range's end are ignored.
    ///
    /// # Errors
    /// [`NoMemory`] for page tables; pages before that stay mapped.
    pub fn map(
        &self,
        range: PageRange,
        frames: &[Frame],
        protection: Protection,
    ) -> Result<usize, NoMemory> {
        world::user::space_map(
            &self.0,
            range.start,
            frames.get(..range.pages).unwrap_or(frames),
            protection,
        )
    }
    /// Maps new zeroed frames at all pages of the range that are not present. Returns how many it mapped.
    ///
    /// # Errors
    /// [`NoMemory`]; pages before that stay mapped.
    pub fn map_zeroed(&self, range: PageRange, protection: Protection) -> Result<usize, NoMemory> {
        self.0.map_zeroed(range.start, range.pages, protection)
    }
    /// Maps one new zeroed large page at `start`, if no page is present there, or was since all of its range was unmapped.
    /// Returns `false`, and maps nothing, if there is or was such a page, if memory has no free [`LARGE_BYTES`] in one piece,
    /// or if `start` is not a multiple of that. Every other operation treats a part of a large page as the pages that it
    /// stands for, and may then need memory for a page table.
    ///
    /// # Errors
    /// [`NoMemory`] for page tables.
    pub fn map_large(&self, start: u64, protection: Protection) -> Result<bool, NoMemory> {
        let is_possible = start.is_multiple_of(LARGE_BYTES as u64)
            && PageRange::new(start, LARGE_BYTES / PAGE_BYTES).is_some();
        if is_possible { self.0.map_large(start, protection) } else { Ok(false) }
    }
    /// Removes every page of the range. Returns how many were present.
    ///
    /// # Errors
    /// [`NoMemory`] if the range ends within a page table that is shared since a fork, or within a large page, and pages
    /// there stay; nothing was removed.
    pub fn unmap(&self, range: PageRange) -> Result<usize, NoMemory> {
        self.0.unmap(range.start, range.end())
    }
    /// Sets the protection of every present page of the range.
    ///
    /// # Errors
    /// [`NoMemory`] if a page table is shared since a fork or a large page is mapped; nothing has changed.
    pub fn protect(&self, range: PageRange, protection: Protection) -> Result<(), NoMemory> {
        self.0.protect(range.start, range.end(), protection)
    }
    /// Copies the range's present pages into `to` at the same addresses, sharing the frames until a store.
    ///
    /// # Errors
    /// [`NoMemory`]; `to` then holds a part.
    pub fn clone_range(
        &self,
        to: &Space,
        range: PageRange,
        mode: CloneMode,
    ) -> Result<usize, NoMemory> {
        self.0.clone_to(&to.0, range.start, range.end(), mode)
    }
    /// Moves the range's present pages to `to` (same length, not overlapping), for mremap.
    ///
    /// # Errors
    /// [`NoMemory`]; pages not yet moved stay.
    pub fn move_range(&self, from: PageRange, to: u64) -> Result<usize, NoMemory> {
        self.0.move_to(from.start, from.end(), to)
    }
    /// Gives the present page at `address` (page-aligned down) `protection` with write access. Copies the frame first if
    /// there are other references to it: the copy-on-write step as one operation.
    ///
    /// # Errors
    /// [`NoMemory`] for the copy.
    pub fn make_writable(
        &self,
        address: u64,
        protection: Protection,
    ) -> Result<Unshared, NoMemory> {
        self.0.make_writable(address, protection | Protection::WRITE)
    }
    /// Returns the present page at `address`, if there is one.
    pub fn query(&self, address: u64) -> Option<Mapping> {
        world::user::space_query(&self.0, address).map(Mapping::of)
    }
    /// Calls `visit` with the address of each page present from `start` on, before `end`, and the page, as long as it returns
    /// `true`. Up to [`PAGES_MAX`] are looked at in one step.
    pub fn each_page(&self, start: u64, end: u64, mut visit: impl FnMut(u64, Mapping) -> bool) {
        let visit = &mut |address, found| visit(address, Mapping::of(found));
        each_page(&self.0, start, end, visit);
    }
    /// Calls `visit` with the address of each page present from `start` on, before `end`, as long as it returns `true`.
    ///
    /// # Locks
    /// Holds the lock of the space during `visit`, which must not use a space.
    pub fn each_present(&self, start: u64, end: u64, visit: impl FnMut(u64) -> bool) {
        self.0.each_present(start, end, visit);
    }
    /// Returns the number of pages present now.
    pub fn resident_pages(&self) -> usize {
        self.0.counts().resident()
    }
    /// Returns the number of page tables now, a page each. A table that spaces share after a fork counts in each of them.
    pub fn table_pages(&self) -> usize {
        self.0.counts().tables()
    }
    /// Returns whether the space has as many page tables as it may have, so that only this limit is the reason of a
    /// [`NoMemory`].
    pub fn is_out_of_tables(&self) -> bool {
        let counts = self.0.counts();
        counts.tables() + TABLES_OF_A_PAGE > counts.tables_max()
    }

    /// Copies user memory at `address` to `out`.
    ///
    /// # Errors
    /// [`Fault`] at the first byte that cannot be read now; the caller may answer the fault and continue.
    #[inline]
    pub fn read(&self, address: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.0.read(address, out)
    }
    /// Copies `data` to user memory at `address`.
    ///
    /// # Errors
    /// [`Fault`] at the first byte that cannot be written now.
    #[inline]
    pub fn write(&self, address: u64, data: &[u8]) -> Result<(), Fault> {
        self.0.write(address, data)
    }
    /// Copies `length` bytes of `frames`, which follow each other, from `offset` to user memory, at most to their end: one copy
    /// from page cache to program (B4).
    ///
    /// # Errors
    /// [`Fault`] as for [`Space::write`].
    pub fn write_from_frames(
        &self,
        address: u64,
        frames: &[Frame],
        offset: usize,
        length: usize,
    ) -> Result<(), Fault> {
        match within(frames, offset, length) {
            bytes if bytes.is_empty() => Ok(()),
            bytes => self.0.write_from_frames(address, memory::numbers(frames), bytes),
        }
    }
    /// Copies `length` bytes of user memory into `frames` at `offset`, at most to their end.
    ///
    /// # Errors
    /// [`Fault`] as for [`Space::read`].
    pub fn read_into_frames(
        &self,
        address: u64,
        frames: &[Frame],
        offset: usize,
        length: usize,
    ) -> Result<(), Fault> {
        match within(frames, offset, length) {
            bytes if bytes.is_empty() => Ok(()),
            bytes => self.0.read_into_frames(address, memory::numbers(frames), bytes),
        }
    }
    /// Moves the calling thread's extended state to user memory at `address`, a multiple of 64. The thread then has the state
    /// that a program starts with. The space must be that of the thread's program, which need not have run yet. The image's
    /// header must be all zeros; the software bytes stay. Returns `false` if some of the memory cannot be stored to now; the
    /// thread then keeps its state.
    #[must_use]
    #[inline]
    pub fn take_extended(&self, address: u64) -> bool {
        self.0.take_extended(address)
    }
    /// Loads the calling thread's extended state from user memory at `address`, in the space of the thread's program. Returns
    /// `false` if some of the memory cannot be read now or the processor refuses the state, which is then a mixture of both.
    #[must_use]
    #[inline]
    pub fn load_extended(&self, address: u64) -> bool {
        self.0.load_extended(address)
    }
    /// Zeroes user memory.
    ///
    /// # Errors
    /// [`Fault`] as for [`Space::write`].
    pub fn zero(&self, address: u64, length: usize) -> Result<(), Fault> {
        self.0.zero(address, length)
    }
    /// Reads a NUL-terminated string into `out`; returns its length without the NUL, or
    /// `out.len()` if there was no NUL in that many bytes.
    ///
    /// # Errors
    /// [`Fault`] if memory ended before the NUL.
    #[inline]
    pub fn read_string(&self, address: u64, out: &mut [u8]) -> Result<usize, Fault> {
        self.0.copy_in_string(address, out)
    }
    /// Atomically loads the aligned 32-bit user word at `address`. A misaligned address faults.
    ///
    /// # Errors
    /// [`Fault`].
    #[inline]
    pub fn atomic_load(&self, address: u64) -> Result<u32, Fault> {
        self.0.atomic_load(address)
    }
    /// Compares and exchanges a user word atomically. Returns the value found, which is `old` if it was exchanged.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn compare_exchange(&self, address: u64, old: u32, new: u32) -> Result<u32, Fault> {
        self.0.compare_exchange(address, old, new)
    }
}

/// The processor state of a program that is not running. Extended state (XSAVE) and the segment bases of the calling thread
/// stay in the processor between runs; [`save_extended`] and [`bases`] fetch them.
#[derive(Clone, Debug, Default)]
#[repr(C, align(256))]
pub struct Context {
    /// The general registers; valid except during `run`.
    pub registers: Registers,
}

impl Context {
    /// Enters user mode in `space` and returns at the next trap. Interrupts and preemption are
    /// handled inside. In the kernel world this is `sysret` or `iret` and back on the same stack;
    /// non-canonical or kernel addresses in rip or rsp are made to fault, never obeyed.
    /// The nucleus forces reserved and privileged bits of rflags.
    #[inline(always)]
    pub fn run(&mut self, space: &Space) -> Trap {
        world::user::run(self, &space.0)
    }
}

/// Returns the size of extended state on this machine (XSAVE standard format), in bytes; at least 512.
#[inline]
pub fn extended_bytes() -> usize {
    world::user::extended_bytes()
}

/// Returns the XCR0 mask whose state [`save_extended`] saves.
#[inline]
pub fn extended_mask() -> u64 {
    world::user::extended_mask()
}

/// Saves the calling thread's user extended state into `out`, which must be at least `extended_bytes()` long. Returns `false`
/// if it is shorter.
pub fn save_extended(out: &mut [u8]) -> bool {
    world::user::extended().copy_out(out)
}

/// Loads user extended state for the calling thread. The image is checked (reserved bits, XCOMP, MXCSR). Returns `false`,
/// without a change of the state, if the image is invalid.
#[must_use]
pub fn load_extended(image: &[u8]) -> bool {
    world::user::extended().copy_in(image)
}

/// Makes [`Context::run`] of the calling thread return [`Trap::Kicked`] also after the thread was moved to another processor
/// or preempted, before its program continues; or ends this. Costs a load at each switch of threads.
pub fn report_moves(is_wanted: bool) {
    world::user::report_moves(is_wanted);
}

/// Sets the calling thread's extended state to the initial state of a new program.
pub fn reset_extended() {
    world::user::extended().reset();
}

/// Returns the segment bases of the calling thread's program.
pub fn bases() -> Bases {
    world::user::extended().bases()
}

/// Sets the segment bases of the calling thread's program. A base that the processor would refuse is replaced by an address
/// that faults when used.
pub fn set_bases(bases: Bases) {
    world::user::extended().set_bases(bases);
}

/// Returns the bytes of `frames` from `offset` on, at most `length`.
fn within(frames: &[Frame], offset: usize, length: usize) -> Range<usize> {
    offset..offset.saturating_add(length).min(frames.len() * PAGE_BYTES)
}
