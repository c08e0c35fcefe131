//! Threads of the process world.
//!
//! A thread has one mapping at a multiple of [`ALIGNMENT`]. It holds its stack, below which nothing is mapped, and above the
//! stack its [`Block`], which is found by the stack pointer: segment bases are left to programs. Blocks are never given back: a thread that ends leaves its block to the next thread. The
//! only shared structure is a list of all blocks, to whose head new ones are added. A block is free when both the
//! thread and its spawner have let go of it. For the thread this is its last store, after which it uses no memory of
//! its own.
use super::{
    answers::time_of,
    call::{ask, ask_with_memory, until},
    memory::Taken,
    time,
};
pub(crate) use crate::ring::handle_by_thread as set_handler;
use crate::{
    NoMemory, PAGE_BYTES,
    thread::{CpuTime, Policy, Woken},
};
use alloc::boxed::Box;
use calls::{Call, GRANTED, SharedWord, Status};
use core::{
    arch::{
        asm, naked_asm,
        x86_64::{__cpuid, __rdtscp},
    },
    cell::UnsafeCell,
    ptr,
    sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU32, AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};
use ipc::MESSAGE_WORDS;

/// Bytes of a stack.
const STACK_BYTES: usize = 8 * PAGE_BYTES;
/// Alignment of a stack, which has a block behind it.
const ALIGNMENT: usize = 16 * PAGE_BYTES;
/// The users of a block when its thread starts: the thread and its spawner.
const USERS: u32 = 2;

/// The body of a thread.
pub(super) type Body = Box<Box<dyn FnOnce() + Send>>;

/// A thread's own memory: one page.
#[repr(C, align(4096))]
pub(super) struct Block {
    /// The thread's number; 0 while it is not known and when there is no thread.
    number: AtomicU64,
    /// Number of users; 0 if the block is free.
    users: AtomicU32,
    /// 1 if an unpark came before its park.
    token: AtomicU32,
    /// The thread may use the reserve of memory.
    may_use_reserve: AtomicBool,
    /// The nucleus keeps extended state for the thread.
    has_state: AtomicBool,
    /// Handle of the space of the program for which the thread works; 0 for none.
    space: AtomicU64,
    /// The next older block of the list; set before this block is in the list.
    next: *const Block,
    /// The body to run. It belongs to the spawner until the thread starts, then to the thread. The main thread has
    /// none.
    body: UnsafeCell<Option<Body>>,
    /// The locks that the thread holds; only the thread uses this.
    #[cfg(feature = "check")]
    held: UnsafeCell<sync::check::HeldLocks>,
    /// Words of messages that do not travel in registers.
    area: [AtomicU64; MESSAGE_WORDS],
}

const _: () = assert!(size_of::<Block>() == PAGE_BYTES && STACK_BYTES < ALIGNMENT);

/// Head of the list of all blocks, newest first.
static BLOCKS: AtomicPtr<Block> = AtomicPtr::new(ptr::null_mut());

impl Block {
    const fn new(next: *const Block) -> Block {
        Block {
            number: AtomicU64::new(0),
            users: AtomicU32::new(USERS),
            token: AtomicU32::new(0),
            may_use_reserve: AtomicBool::new(false),
            has_state: AtomicBool::new(false),
            space: AtomicU64::new(0),
            next,
            body: UnsafeCell::new(None),
            #[cfg(feature = "check")]
            held: UnsafeCell::new(sync::check::HeldLocks::new()),
            area: [const { AtomicU64::new(0) }; MESSAGE_WORDS],
        }
    }

    /// Iterates over all blocks.
    fn all() -> impl Iterator<Item = &'static Block> {
        let first = BLOCKS.load(Acquire).cast_const();
        // SAFETY: null or a block in the list; they live for ever and are shared as their fields allow.
        core::iter::successors(unsafe { first.as_ref() }, |block| unsafe { block.next.as_ref() })
    }

    /// Takes a free block and sets its users; its other fields are as the last thread left them.
    fn take_free() -> Option<&'static Block> {
        let take = |block: &&Block| block.users.compare_exchange(0, USERS, AcqRel, Relaxed).is_ok();
        let block = Block::all().find(take)?;
        block.number.store(0, Relaxed);
        block.token.store(0, Relaxed);
        block.may_use_reserve.store(false, Relaxed);
        block.has_state.store(false, Relaxed);
        block.space.store(0, Relaxed);
        Some(block)
    }

    /// Maps a new block with its stack and adds it to the list.
    fn map_new() -> Result<&'static Block, NoMemory> {
        let bytes = (STACK_BYTES + PAGE_BYTES) as u64;
        let [address, ..] = ask(Call::Map, &[bytes, ALIGNMENT as u64]).map_err(|_| NoMemory)?;
        // Blocks are kept for ever.
        core::mem::forget(Taken::new(bytes as usize));
        let at: *mut Block = ptr::with_exposed_provenance_mut(address as usize + STACK_BYTES);
        let mut head = BLOCKS.load(Acquire);
        loop {
            // SAFETY: the last page of the new mapping, which nobody knows of yet.
            unsafe { at.write(Block::new(head)) };
            match BLOCKS.compare_exchange_weak(head, at, AcqRel, Acquire) {
                // SAFETY: as in `all`.
                Ok(_) => return Ok(unsafe { &*at }),
                Err(now) => head = now,
            }
        }
    }
}

/// Returns the number of pages of all stacks and blocks, in use or not.
pub(super) fn stack_frames() -> u64 {
    (Block::all().count() * (STACK_BYTES / PAGE_BYTES + 1)) as u64
}

/// Returns the calling thread's block. Must not be called on the very first thread, which has none.
fn block() -> &'static Block {
    let stack: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) stack, options(nostack, nomem, preserves_flags)) };
    let at = (stack & !(ALIGNMENT - 1)) + STACK_BYTES;
    // SAFETY: behind the thread's stack, which is aligned so; blocks live for ever and are shared as their fields allow.
    unsafe { &*ptr::with_exposed_provenance(at) }
}

/// Returns the handle of the space of the program for which the calling thread works; 0 for none.
#[inline]
pub(super) fn program_space() -> u64 {
    block().space.load(Relaxed)
}

/// Notes the space of the program for which the calling thread works.
#[inline]
pub(super) fn set_program_space(handle: u64) {
    block().space.store(handle, Relaxed);
}

/// Returns whether the nucleus keeps extended state for the calling thread.
pub(super) fn has_state() -> bool {
    block().has_state.load(Relaxed) || program_space() != 0
}

/// Notes that it does.
pub(super) fn set_has_state() {
    block().has_state.store(true, Relaxed);
}

/// Returns the calling thread's message area.
pub(super) fn area() -> &'static [AtomicU64; MESSAGE_WORDS] {
    &block().area
}

/// The entry at which the nucleus starts a thread: rdi is its block, the stack is empty.
#[unsafe(naked)]
unsafe extern "C" fn enter() -> ! {
    naked_asm!("xor ebp, ebp", "call {}", "ud2", sym run)
}

extern "C" fn run(block: &'static Block) -> ! {
    let number = ask(Call::Current, &[]).map_or(0, |[number, ..]| number);
    block.number.store(number, Release);
    // SAFETY: the body is the thread's from its start on.
    let body = unsafe { (*block.body.get()).take() };
    match body {
        Some(body) => body(),
        None => super::start::main(),
    }
    block.number.store(0, Release);
    // SAFETY: once its count is down the block and the stack may be the next thread's; nothing of
    // them is used after that.
    unsafe {
        asm!(
            "lock dec dword ptr [{users}]",
            "syscall",
            "ud2",
            users = in(reg) block.users.as_ptr(),
            in("rax") Call::Exit as u64,
            options(noreturn, nostack),
        )
    }
}

/// Starts a thread that runs `body`, or the component's main function if there is none. Without `policy` it has the
/// granted policy.
pub(super) fn start(policy: Option<Policy>, body: Option<Body>) -> Result<u64, NoMemory> {
    let block = Block::take_free().map_or_else(Block::map_new, Ok)?;
    // SAFETY: the block is ours alone until its thread starts.
    unsafe { *block.body.get() = body };
    let entry = enter as unsafe extern "C" fn() -> !;
    let at = ptr::from_ref(block) as u64;
    let area = block.area.as_ptr() as u64;
    let policy = policy.map_or(GRANTED, |policy| u64::from(policy.pack()));
    let arguments = [entry as usize as u64, at, at, 0, area, policy];
    // SAFETY: `enter` may run once for each block that is not free; the stack ends where the block begins.
    match unsafe { ask_with_memory(Call::Spawn, &arguments) } {
        Ok([number, ..]) => {
            block.number.store(number, Release);
            block.users.fetch_sub(1, AcqRel);
            Ok(number)
        }
        Err(_) => {
            // SAFETY: as above; no thread started.
            drop(unsafe { (*block.body.get()).take() });
            block.users.store(0, Release);
            Err(NoMemory)
        }
    }
}

pub(crate) fn spawn(_name: &str, policy: Policy, body: Body) -> Result<u64, NoMemory> {
    start(Some(policy), Some(body))
}

/// Lets the calling thread use the reserve of memory. Returns whether it could already.
pub(crate) fn use_reserve() -> bool {
    block().may_use_reserve.swap(true, Relaxed)
}

pub(crate) fn leave_reserve() {
    block().may_use_reserve.store(false, Relaxed);
}

/// Returns whether the calling thread may use the reserve of memory.
pub(super) fn uses_reserve() -> bool {
    block().may_use_reserve.load(Relaxed)
}

pub(crate) fn current() -> u64 {
    block().number.load(Relaxed)
}

pub(crate) fn yield_now() {
    // The call cannot fail.
    let _ = ask(Call::Yield, &[]);
}

pub(crate) fn park(deadline_ns: Option<u64>, sleep: sync::Sleep) -> Woken {
    let token = &block().token;
    while token.swap(0, Acquire) == 0 {
        let woken = wait_on(token, 0, deadline_ns, sleep);
        if woken != Woken::Signalled {
            return woken;
        }
    }
    Woken::Signalled
}

/// The thread may end meanwhile. Then the token goes nowhere, or to a later thread that finds nothing to do.
pub(crate) fn unpark(thread: u64) {
    let is_it = |block: &&Block| block.number.load(Acquire) == thread && thread != 0;
    if let Some(block) = Block::all().find(is_it)
        && block.token.swap(1, Release) == 0
    {
        wake(&block.token, 1);
    }
}

pub(crate) fn kick(thread: u64) {
    // The call fails only for a thread that has ended, which needs no kick.
    let _ = ask(Call::Kick, &[thread]);
}

pub(crate) fn take_kick() -> bool {
    matches!(ask(Call::TakeKick, &[]), Ok([1, ..]))
}

pub(crate) fn wait_on(
    word: &AtomicU32,
    expected: u32,
    deadline_ns: Option<u64>,
    sleep: sync::Sleep,
) -> Woken {
    let address = word.as_ptr() as u64;
    let is_interruptible = sleep == sync::Sleep::Interruptible;
    let arguments = [address, u64::from(expected), until(deadline_ns), is_interruptible.into()];
    match ask(Call::Wait, &arguments) {
        Ok(_) => Woken::Signalled,
        Err(Status::TimedOut) => Woken::TimedOut,
        Err(Status::Cancelled) => Woken::Kicked,
        Err(other) => panic!("waiting on a word: {other:?}"),
    }
}

pub(crate) fn wake(word: &AtomicU32, count: u32) -> u32 {
    let woken = ask(Call::Wake, &[word.as_ptr() as u64, u64::from(count)]);
    // No thread waits for a word whose memory is gone.
    woken.map_or(0, |[woken, ..]| woken as u32)
}

pub(crate) fn set_policy(thread: u64, policy: Policy) {
    if let Err(why @ (Status::Refused | Status::Invalid)) =
        ask(Call::SetPolicy, &[thread, u64::from(policy.pack())])
    {
        log::warn!("{policy:?} is more than was granted: {why:?}");
    }
}

pub(crate) fn set_affinity(thread: u64, affinity: u64) -> bool {
    matches!(ask(Call::SetAffinity, &[thread, affinity]), Ok([1, ..]))
}

pub(crate) fn cpu_time(thread: u64) -> Option<CpuTime> {
    ask(Call::CpuTime, &[thread]).ok().map(time_of)
}

/// Whether the processor tells its number in user mode (`rdtscp`).
static TELLS_NUMBER: AtomicBool = AtomicBool::new(false);

/// Asks the processor for what threads use of it.
pub(super) fn init() {
    const RDTSCP: u32 = 1 << 27;
    let is_told = __cpuid(0x8000_0001).edx & RDTSCP != 0;
    TELLS_NUMBER.store(is_told, Relaxed);
}

/// Returns the number of processors, and that of the present one; 0 if the processor does not tell it.
pub(crate) fn processors() -> (usize, usize) {
    let mut now = 0;
    if TELLS_NUMBER.load(Relaxed) {
        // SAFETY: the processor has the instruction, and writes one word.
        let _ = unsafe { __rdtscp(&raw mut now) };
    }
    (time::shared(SharedWord::Processors) as usize, now as usize)
}

#[cfg(feature = "check")]
pub(crate) fn held_locks(visit: &mut dyn FnMut(&mut sync::check::HeldLocks)) {
    // SAFETY: the list is the calling thread's own, and nothing that visits it takes a lock.
    visit(unsafe { &mut *block().held.get() });
}
