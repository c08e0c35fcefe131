//! Tasks made by clone(2) itself: the C library refuses CLONE_THREAD to its callers.
use std::arch::asm;

/// Bytes of a stack of [`Stack`].
const BYTES: usize = 64 * 1024;

/// Memory for a task's stack, which is never freed.
#[derive(Clone, Copy)]
pub struct Stack(*mut u8);

impl Stack {
    /// Maps a stack.
    ///
    /// # Panics
    /// If mmap refuses the memory.
    #[allow(clippy::new_without_default, reason = "maps memory; a default should do nothing")]
    pub fn new() -> Stack {
        const BOTH: i32 = libc::PROT_READ | libc::PROT_WRITE;
        const FLAGS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new memory at a place that the kernel chooses.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, BOTH, FLAGS, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED, "mmap: {}", crate::errno());
        Stack(at.cast())
    }
    /// Returns the stack's highest address.
    fn top(&self) -> *mut u8 {
        self.0.wrapping_add(BYTES)
    }
}

/// Makes a task with `flags` that runs `body` on `stack` and ends by exit(2) with its result. `words` are the addresses for
/// the ids of CLONE_PARENT_SETTID and of CLONE_CHILD_SETTID and CLONE_CHILD_CLEARTID. Returns the id, or the negated error
/// number.
///
/// # Safety
/// With CLONE_VM nothing else uses the stack until the task has ended, and `body` uses nothing of the C library's that
/// belongs to a thread.
pub unsafe fn start(
    flags: i32,
    stack: Stack,
    words: [*mut i32; 2],
    body: extern "C" fn() -> i32,
) -> i64 {
    let made: i64;
    // SAFETY: the new task never leaves the call of `body`; for the caller this is one system call.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "call {body}",
            "mov edi, eax",
            "mov eax, 60",
            "syscall",
            "2:",
            body = in(reg) body,
            inlateout("rax") libc::SYS_clone => made,
            in("rdi") i64::from(flags), in("rsi") stack.top(), in("rdx") words[0],
            in("r10") words[1], in("r8") 0, out("rcx") _, out("r11") _,
        );
    }
    made
}

/// Makes a task as [`start`] does, by clone3(2), with the address for CLONE_PIDFD beside those for the ids. The exit signal
/// is SIGCHLD if one may be given.
///
/// # Safety
/// The same as for [`start`].
pub unsafe fn start3(
    flags: u64,
    stack: Stack,
    words: [*mut i32; 2],
    body: extern "C" fn() -> i32,
) -> i64 {
    const NO_SIGNAL: u64 = (libc::CLONE_THREAD | libc::CLONE_PARENT) as u64;
    let signal = if flags & NO_SIGNAL != 0 { 0 } else { libc::SIGCHLD as u64 };
    let [parent, child] = words.map(|word| word as u64);
    let arguments =
        [flags, parent + 64, child, parent, signal, stack.0 as u64, BYTES as u64, 0, 0, 0, 0];
    let made: i64;
    // SAFETY: as in `start`.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "call {body}",
            "mov edi, eax",
            "mov eax, 60",
            "syscall",
            "2:",
            body = in(reg) body,
            inlateout("rax") libc::SYS_clone3 => made,
            in("rdi") arguments.as_ptr(), in("rsi") size_of_val(&arguments),
            out("rcx") _, out("r11") _,
        );
    }
    made
}

/// Calls fork(2) or vfork(2), by its number, with a child that ends at once. Returns the id, or the negated error number.
pub fn fork_briefly(number: i64) -> i64 {
    let made: i64;
    // SAFETY: the child ends without using the stack; for the caller this is one system call.
    unsafe {
        asm!(
            "syscall", "test rax, rax", "jnz 2f", "mov eax, 60", "xor edi, edi", "syscall", "2:",
            inlateout("rax") number => made, out("rdi") _, out("rcx") _, out("r11") _,
        );
    }
    made
}

/// Returns whether the thread `id` of this process sleeps.
///
/// # Panics
/// Panics if there is no such thread.
pub fn is_asleep(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{id}/stat")).expect("a thread");
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'))
}

/// Returns the calling thread's id.
pub fn own_id() -> u32 {
    // SAFETY: no conditions.
    crate::must(unsafe { libc::syscall(libc::SYS_gettid) }) as u32
}
