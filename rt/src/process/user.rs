//! Programs of the process world: spaces by kernel calls, and a program's memory in place.
//!
//! While a thread works for a program, the program's memory is in the lower half, so that it is read and written by plain
//! instructions. A fault there is fixed up: the nucleus lets the thread go on where the table says that was registered before the first space. The
//! memory of another space is copied by the nucleus.
use super::{
    answers::{page_of, trap_of, unshared_of},
    call::{Handle, ask, ask_with_memory},
    extended, memory, pools, thread,
};
use crate::{
    NoMemory, PAGE_BYTES,
    memory::Frame,
    user::{Access, CloneMode, Context, Fault, PAGES_MAX, Protection, Trap, USER_END, Unshared},
};
use calls::{
    Call, NO_HANDLE, RUN, Status,
    space::{PAGE_LIST_MAX, RUN_SYSCALL, number},
};
use core::{
    arch::{asm, global_asm},
    ops::Range,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};
use program::{Page, Registers};
use x86::usercopy::FIXUPS;

pub(crate) use extended::{extended, extended_bytes, extended_mask};

global_asm!(x86::usercopy_text!());

unsafe extern "sysv64" {
    fn skerry_copy(to: *mut u8, from: *const u8, length: usize) -> usize;
    fn skerry_copy_wide(to: *mut u8, from: *const u8, length: usize) -> usize;
    fn skerry_copy_wider(to: *mut u8, from: *const u8, length: usize) -> usize;
    fn skerry_zero(to: *mut u8, length_in_rsi: usize, length: usize) -> usize;
    fn skerry_exchange(word: u64, old: u32, new: u32) -> u64;
    fn skerry_load_word(word: u64) -> u64;
    static skerry_fixups: [[u64; 3]; FIXUPS];
}

/// Length from which copies use vector registers.
const WIDE_BYTES: usize = 256;

/// A program's address space.
#[derive(Debug)]
pub(crate) struct SpaceHandle(Handle);

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

type Accessed = Result<(), Fault>;

/// An access to a program's memory in place. Returns the number of bytes not done.
type InPlace<'a> = &'a dyn Fn(*mut u8, usize) -> usize;

impl SpaceHandle {
    pub(crate) fn new() -> Result<SpaceHandle, NoMemory> {
        static IS_READY: AtomicBool = AtomicBool::new(false);
        if !IS_READY.load(Relaxed) {
            let table = (&raw const skerry_fixups) as u64;
            ask(Call::Fixups, &[table, FIXUPS as u64]).map_err(|_| NoMemory)?;
            IS_READY.store(true, Relaxed);
        }
        let [space, ..] = ask(Call::SpaceNew, &[]).map_err(|_| NoMemory)?;
        Ok(SpaceHandle(Handle(space)))
    }

    /// Does an operation. Only `COPY`, `PRESENT` and `PAGES` change memory of this component: that of which the
    /// caller gave the address.
    #[inline]
    fn ask(&self, operation: u64, arguments: [u64; 4]) -> Result<[u64; 3], Status> {
        let [first, second, third, fourth] = arguments;
        let all = [self.0.0, operation, first, second, third, fourth];
        // SAFETY: the nucleus reads and writes lists that are borrowed here; the memory that `access_remotely` gives is its callers'.
        unsafe { ask_with_memory(Call::Space, &all) }
    }

    /// Does an operation of which only memory can be refused, and notes the memory that the component has then.
    fn change(&self, operation: u64, arguments: [u64; 4]) -> Result<u64, NoMemory> {
        let [value, _, used] = self.ask(operation, arguments).map_err(|_| NoMemory)?;
        memory::note_used(used as usize);
        Ok(value)
    }

    /// Does an operation that takes up to `pages` new pages.
    fn grow(&self, operation: u64, pages: usize, arguments: [u64; 4]) -> Result<u64, NoMemory> {
        memory::may_take(pages.checked_mul(PAGE_BYTES).ok_or(NoMemory)?)?;
        self.change(operation, arguments)
    }

    pub(crate) fn map_zeroed(
        &self,
        start: u64,
        pages: usize,
        protection: Protection,
    ) -> Result<usize, NoMemory> {
        let arguments = [start, start + (pages * PAGE_BYTES) as u64, protection.bits().into(), 0];
        self.grow(number::MAP_ZEROED, pages, arguments).map(|pages| pages as usize)
    }

    pub(crate) fn map_large(&self, start: u64, protection: Protection) -> Result<bool, NoMemory> {
        let arguments = [start, 0, protection.bits().into(), 0];
        let pages = crate::user::LARGE_BYTES / PAGE_BYTES;
        self.grow(number::MAP_LARGE, pages, arguments).map(|is_mapped| is_mapped != 0)
    }

    pub(crate) fn unmap(&self, start: u64, end: u64) -> Result<usize, NoMemory> {
        self.change(number::UNMAP, [start, end, 0, 0]).map(|pages| pages as usize)
    }

    pub(crate) fn protect(
        &self,
        start: u64,
        end: u64,
        protection: Protection,
    ) -> Result<(), NoMemory> {
        let arguments = [start, end, protection.bits().into(), 0];
        self.change(number::PROTECT, arguments).map(|_| ())
    }

    pub(crate) fn clone_to(
        &self,
        to: &SpaceHandle,
        start: u64,
        end: u64,
        mode: CloneMode,
    ) -> Result<usize, NoMemory> {
        let arguments = [start, end, to.0.0, u64::from(mode == CloneMode::Tables)];
        self.change(number::CLONE, arguments).map(|pages| pages as usize)
    }

    pub(crate) fn move_to(&self, start: u64, end: u64, to: u64) -> Result<usize, NoMemory> {
        self.change(number::MOVE, [start, end, to, 0]).map(|pages| pages as usize)
    }

    pub(crate) fn make_writable(
        &self,
        address: u64,
        protection: Protection,
    ) -> Result<Unshared, NoMemory> {
        let arguments = [address, protection.bits().into(), 0, 0];
        self.grow(number::MAKE_WRITABLE, 1, arguments).map(unshared_of)
    }

    pub(crate) fn each_present(&self, start: u64, end: u64, mut visit: impl FnMut(u64) -> bool) {
        let mut list = [0u64; PAGE_LIST_MAX];
        let mut at = start;
        while at < end {
            let arguments = [at, end, list.as_mut_ptr() as u64, list.len() as u64];
            let Ok([found, ..]) = self.ask(number::PRESENT, arguments) else { return };
            let found = list.get(..found as usize).unwrap_or_default();
            if !found.iter().all(|&address| visit(address)) || found.len() < PAGE_LIST_MAX {
                return;
            }
            at = found.last().map_or(end, |last| last + PAGE_BYTES as u64);
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let [resident, tables, tables_max] =
            self.ask(number::COUNTS, [0; 4]).unwrap_or_default().map(|word| word as usize);
        Counts { resident, tables, tables_max }
    }

    /// Returns whether this is the space that the calling thread works for, whose memory is in place.
    #[inline]
    fn is_current(&self) -> bool {
        thread::program_space() == self.0.0
    }

    /// Makes this the space that the calling thread works for.
    fn enter(&self) -> bool {
        let is_in = self.is_current() || self.ask(number::ENTER, [0; 4]).is_ok();
        if is_in {
            thread::set_program_space(self.0.0);
        }
        is_in
    }

    pub(crate) fn take_extended(&self, address: u64) -> bool {
        self.enter() && extended::take(address)
    }

    pub(crate) fn load_extended(&self, address: u64) -> bool {
        self.enter() && extended::load(address)
    }

    /// Does an access of `length` bytes at `address`: `in_place`, or through `remote` memory, of which the function returns the
    /// own address and the length that follow after so many bytes.
    #[inline]
    fn access(
        &self,
        address: u64,
        length: usize,
        access: Access,
        in_place: InPlace<'_>,
        remote: impl Fn(usize) -> (u64, usize),
    ) -> Accessed {
        let done = if address >= USER_END.saturating_sub(length as u64) {
            0
        } else if self.is_current() {
            length - in_place(address as *mut u8, length)
        } else {
            self.access_remotely(address, length, access, remote)
        };
        if done == length {
            return Ok(());
        }
        Err(Fault { address: address.wrapping_add(done as u64), access, done })
    }

    #[cold]
    fn access_remotely(
        &self,
        address: u64,
        length: usize,
        access: Access,
        remote: impl Fn(usize) -> (u64, usize),
    ) -> usize {
        let mut done = 0;
        while done < length {
            let (own, room) = remote(done);
            let piece = room.min(length - done) as u64;
            let is_write = u64::from(access == Access::Write);
            let arguments = [address + done as u64, own, piece, is_write];
            let copied = self.ask(number::COPY, arguments).map_or(0, |[copied, ..]| copied);
            done += copied as usize;
            if copied < piece {
                break;
            }
        }
        done
    }

    #[inline]
    pub(crate) fn read(&self, address: u64, out: &mut [u8]) -> Accessed {
        let own = out.as_mut_ptr();
        let in_place = |user: *mut u8, length| {
            // SAFETY: `out` has that length; faults at the program's memory are fixed up.
            unsafe { copy(own, user, length) }
        };
        let remote = |done| (own.wrapping_add(done) as u64, usize::MAX);
        self.access(address, out.len(), Access::Read, &in_place, remote)
    }

    #[inline]
    pub(crate) fn write(&self, address: u64, data: &[u8]) -> Accessed {
        let own = data.as_ptr();
        let in_place = |user: *mut u8, length| {
            // SAFETY: as in `read`.
            unsafe { copy(user, own, length) }
        };
        let remote = |done| (own.wrapping_add(done) as u64, usize::MAX);
        self.access(address, data.len(), Access::Write, &in_place, remote)
    }

    pub(crate) fn write_from_frames(
        &self,
        address: u64,
        frames: &[u32],
        bytes: Range<usize>,
    ) -> Accessed {
        self.access_frames(address, frames, bytes, Access::Write)
    }

    pub(crate) fn read_into_frames(
        &self,
        address: u64,
        frames: &[u32],
        bytes: Range<usize>,
    ) -> Accessed {
        self.access_frames(address, frames, bytes, Access::Read)
    }

    fn access_frames(
        &self,
        address: u64,
        frames: &[u32],
        bytes: Range<usize>,
        access: Access,
    ) -> Accessed {
        let at = |done: usize| {
            let (index, offset) =
                ((bytes.start + done) / PAGE_BYTES, (bytes.start + done) % PAGE_BYTES);
            let page = frames.get(index).and_then(|&frame| pools::words(frame));
            page.map(|words| {
                (words.as_ptr().cast::<u8>().cast_mut().wrapping_add(offset), PAGE_BYTES - offset)
            })
        };
        let in_place = |user: *mut u8, length: usize| {
            let mut done = 0;
            while done < length {
                let Some((own, room)) = at(done) else { break };
                let (user, piece) = (user.wrapping_add(done), room.min(length - done));
                let (to, from) = if access == Access::Write { (user, own) } else { (own, user) };
                // SAFETY: a piece of a frame of which the caller has a reference; faults at the program's memory are fixed up.
                // Others that write the frame use atomics or copies, too.
                let left = unsafe { copy(to, from, piece) };
                done += piece - left;
                if left > 0 {
                    break;
                }
            }
            length - done
        };
        let remote = |done| at(done).map_or((0, usize::MAX), |(own, room)| (own as u64, room));
        self.access(address, bytes.len(), access, &in_place, remote)
    }

    pub(crate) fn zero(&self, address: u64, length: usize) -> Accessed {
        static ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];
        let in_place = |user: *mut u8, length| {
            // SAFETY: faults at the program's memory are fixed up.
            unsafe { skerry_zero(user, 0, length) }
        };
        let remote = |_| (ZEROS.as_ptr() as u64, PAGE_BYTES);
        self.access(address, length, Access::Write, &in_place, remote)
    }

    pub(crate) fn copy_in_string(&self, address: u64, out: &mut [u8]) -> Result<usize, Fault> {
        const PIECE: usize = 64;
        let mut done = 0;
        while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = address.wrapping_add(done as u64);
            let piece = (PIECE - at as usize % PIECE).min(rest.len());
            let rest = rest.get_mut(..piece).unwrap_or_default();
            // A piece never crosses a page, so it is present as a whole or not at all.
            self.read(at, rest).map_err(|fault| Fault { done: done + fault.done, ..fault })?;
            if let Some(length) = rest.iter().position(|&byte| byte == 0) {
                return Ok(done + length);
            }
            done += piece;
        }
        Ok(done)
    }

    pub(crate) fn atomic_load(&self, address: u64) -> Result<u32, Fault> {
        let fault = Fault { address, access: Access::Read, done: 0 };
        let mut word = [0; 4];
        if !address.is_multiple_of(4) {
            return Err(fault);
        }
        if !self.is_current() {
            // The nucleus copies an aligned word in one step.
            return self.read(address, &mut word).map(|()| u32::from_le_bytes(word));
        }
        if address >= USER_END {
            return Err(fault);
        }
        // SAFETY: faults at the program's memory are fixed up.
        u32::try_from(unsafe { skerry_load_word(address) }).map_err(|_| fault)
    }

    pub(crate) fn compare_exchange(&self, address: u64, old: u32, new: u32) -> Result<u32, Fault> {
        let fault = Fault { address, access: Access::Write, done: 0 };
        if !address.is_multiple_of(4) || address >= USER_END {
            return Err(fault);
        }
        if !self.is_current() {
            let arguments = [address, old.into(), new.into(), 0];
            let found = self.ask(number::EXCHANGE, arguments);
            return found.map(|[found, ..]| found as u32).map_err(|_| fault);
        }
        // SAFETY: as above.
        u32::try_from(unsafe { skerry_exchange(address, old, new) }).map_err(|_| fault)
    }
}

/// Copies between a program's memory, on one side, and this component's. Returns the number of bytes not copied.
///
/// # Safety
/// This component's side is valid for `length` bytes; the other is below [`USER_END`], and its space is that of the thread.
#[inline]
unsafe fn copy(to: *mut u8, from: *const u8, length: usize) -> usize {
    if length < WIDE_BYTES {
        // SAFETY: as the caller says.
        return unsafe { skerry_copy(to, from, length) };
    }
    // The thread works for a program, so these registers are saved when another thread runs.
    let wide = if extended::has_avx() { skerry_copy_wider } else { skerry_copy_wide };
    // SAFETY: as the caller says.
    unsafe { wide(to, from, length) }
}

pub(crate) fn space_map(
    space: &SpaceHandle,
    start: u64,
    frames: &[Frame],
    protection: Protection,
) -> Result<usize, NoMemory> {
    let mut list = [0; PAGE_LIST_MAX];
    let mut mapped = 0;
    let starts = (start..).step_by(PAGE_LIST_MAX * PAGE_BYTES);
    for (frames, start) in frames.chunks(PAGE_LIST_MAX).zip(starts) {
        for (place, frame) in list.iter_mut().zip(frames) {
            *place = pools::show(frame.id().0).ok_or(NoMemory)?;
        }
        let arguments =
            [start, list.as_ptr() as u64, frames.len() as u64, protection.bits().into()];
        mapped += space.change(number::MAP, arguments)? as usize;
    }
    Ok(mapped)
}

/// Looks at the page at `address`. Returns it, with the number by which this component knows its frame, and the number of
/// references to the frame.
pub(crate) fn space_query(space: &SpaceHandle, address: u64) -> Option<(Page, u32)> {
    let [word, references, _] = space.ask(number::QUERY, [address, 0, 0, 0]).ok()?;
    Some(known_page(word, references))
}

/// Returns the page of the word that the nucleus gave, with the number by which this component knows its frame.
fn known_page(word: u64, references: u64) -> (Page, u32) {
    let (page, references) = (page_of(word), references as u32);
    match pools::shown_as(page.frame) {
        Some(frame) => (Page { frame, ..page }, pools::references_beside(frame, references)),
        None => (page, references),
    }
}

pub(crate) fn each_page(
    space: &SpaceHandle,
    start: u64,
    end: u64,
    visit: &mut dyn FnMut(u64, (Page, u32)) -> bool,
) {
    let mut list = [[0u64; 3]; PAGES_MAX];
    let mut at = start;
    while at < end {
        let arguments = [at, end, list.as_mut_ptr() as u64, list.len() as u64];
        let Ok([found, ..]) = space.ask(number::PAGES, arguments) else { return };
        let found = list.get(..found as usize).unwrap_or_default();
        // Of a page that was unmapped meanwhile, the other words are zero.
        let mut present = found.iter().filter(|[_, word, _]| *word != 0);
        let goes_on = present
            .all(|&[address, word, references]| visit(address, known_page(word, references)));
        if !goes_on || found.len() < PAGES_MAX {
            return;
        }
        at = found.last().map_or(end, |[last, ..]| last + PAGE_BYTES as u64);
    }
}

/// Returns the number of the page of this component's memory at `address`, and the number of references to it.
pub(super) fn own_page(address: usize) -> Option<(u32, u32)> {
    let all = [NO_HANDLE, number::OWN_PAGE, address as u64];
    // SAFETY: the call only looks.
    let [word, references, _] = unsafe { ask_with_memory(Call::Space, &all) }.ok()?;
    Some((page_of(word).frame, references as u32))
}

/// Enters the program and returns at its next trap.
#[inline]
pub(crate) fn run(context: &mut Context, space: &SpaceHandle) -> Trap {
    let registers: *mut Registers = &raw mut context.registers;
    let (status, first, second, third): (u64, u64, u64, u64);
    // SAFETY: the nucleus loads and stores the context. All registers but those given are said to change; rbx and rbp, which the
    // compiler keeps for itself, are as they were afterwards.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "syscall",
            "pop rbp",
            "pop rbx",
            inlateout("rax") RUN => status,
            inlateout("rdi") registers => first,
            inlateout("rsi") space.0.0 => second,
            lateout("rdx") third,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
            clobber_abi("sysv64"),
        );
    }
    thread::set_program_space(space.0.0);
    if status == RUN_SYSCALL {
        return Trap::Syscall;
    }
    assert!(status == Status::Ok as u64, "a program cannot be run: {:?}", Status::of(status));
    trap_of([first, second, third])
}

pub(crate) fn report_moves(is_wanted: bool) {
    // The call cannot fail.
    let _ = ask(Call::ReportMoves, &[is_wanted.into()]);
}
