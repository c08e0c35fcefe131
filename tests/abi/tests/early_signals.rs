//! Signals that reach a task before it has run: a child or thread that was just made takes them like any other.
//!
//! Each test makes many tasks and has a signal sent to each at once, by its creator or by another process that learns the
//! id from memory that both share (CLONE_PARENT_SETTID stores it before the task runs).
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    tasks::{self, Stack},
    *,
};
use std::{
    arch::asm,
    sync::atomic::{AtomicI32, AtomicUsize, Ordering::SeqCst},
};

const ROUNDS: usize = 200;
const PAGE: usize = 4096;
const STACK_BYTES: usize = 64 * 1024;

/// Words that all processes of a test share.
struct Shared {
    /// The task to which the other process sends a signal; 0 for none, negative to end.
    target: AtomicI32,
    taken: AtomicUsize,
}

static TAKEN: AtomicUsize = AtomicUsize::new(0);
static SUM: AtomicUsize = AtomicUsize::new(0);
static STACK_AT: AtomicUsize = AtomicUsize::new(0);
static SHARED_AT: AtomicUsize = AtomicUsize::new(0);

fn map(bytes: usize, sharing: i32) -> *mut u8 {
    const BOTH: i32 = libc::PROT_READ | libc::PROT_WRITE;
    let flags = sharing | libc::MAP_ANONYMOUS;
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, BOTH, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    at.cast()
}

fn shared() -> &'static Shared {
    if SHARED_AT.load(SeqCst) == 0 {
        SHARED_AT.store(map(PAGE, libc::MAP_SHARED) as usize, SeqCst);
    }
    unsafe { &*(SHARED_AT.load(SeqCst) as *const Shared) }
}

extern "C" fn count(_: i32) {
    TAKEN.fetch_add(1, SeqCst);
}

extern "C" fn count_shared(_: i32) {
    shared().taken.fetch_add(1, SeqCst);
}

extern "C" fn sum(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let value = unsafe { (*info).si_value().sival_ptr as usize };
    SUM.store(SUM.load(SeqCst) * 10 + value, SeqCst);
    TAKEN.fetch_add(1, SeqCst);
}

extern "C" fn count_on_stack(_: i32) {
    let local = std::hint::black_box(0);
    let here = std::ptr::from_ref(&local).addr();
    let base = STACK_AT.load(SeqCst);
    if (base..base + STACK_BYTES).contains(&here) {
        TAKEN.fetch_add(1, SeqCst);
    }
}

fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        unsafe { libc::sched_yield() };
    }
}

/// Makes a child that exits with success once it has taken `count` signals.
fn child_that_takes(count: usize) -> libc::pid_t {
    match unsafe { libc::fork() } {
        0 => {
            until(|| TAKEN.load(SeqCst) >= count);
            unsafe { libc::_exit(0) }
        }
        child => must(child) as libc::pid_t,
    }
}

fn kill(process: i32, signal: i32) {
    must(unsafe { libc::kill(process, signal) });
}

/// Makes a process that sends SIGUSR1 to each target as soon as it is named.
fn sender() -> libc::pid_t {
    let shared = shared();
    fork(|| {
        loop {
            match shared.target.load(SeqCst) {
                0 => unsafe {
                    libc::sched_yield();
                },
                1.. => {
                    kill(shared.target.load(SeqCst), libc::SIGUSR1);
                    shared.target.store(0, SeqCst);
                }
                _ => return,
            }
        }
    })
}

fn end_sender(sender: libc::pid_t) {
    shared().target.store(-1, SeqCst);
    assert_eq!(wait(sender), Ended::Exited(0));
}

/// Calls clone(2) without a stack of its own; the child's id is stored in the shared word.
fn clone_named(flags: i32) -> libc::pid_t {
    let flags = flags | libc::CLONE_PARENT_SETTID | libc::SIGCHLD;
    let word = shared().target.as_ptr();
    let made = unsafe { libc::syscall(libc::SYS_clone, flags, 0, word, 0, 0) };
    must(made) as libc::pid_t
}

#[test]
fn a_child_takes_the_signal_that_its_parent_sends_at_once() {
    isolated(|| {
        handle(libc::SIGUSR1, count, 0);
        for round in 0..ROUNDS {
            let child = child_that_takes(1);
            kill(child, libc::SIGUSR1);
            assert_eq!(wait(child), Ended::Exited(0), "round {round}");
        }
    });
}

#[test]
fn a_child_takes_the_signal_that_another_process_sends_at_once() {
    isolated(|| {
        handle(libc::SIGUSR1, count, 0);
        let sender = sender();
        for round in 0..ROUNDS {
            let child = clone_named(0);
            if child == 0 {
                until(|| TAKEN.load(SeqCst) > 0);
                unsafe { libc::_exit(0) }
            }
            assert_eq!(wait(child), Ended::Exited(0), "round {round}");
            until(|| shared().target.load(SeqCst) == 0);
        }
        end_sender(sender);
    });
}

#[test]
fn a_child_that_borrows_its_parents_memory_takes_a_signal_before_it_has_run() {
    isolated(|| {
        handle(libc::SIGUSR1, count_shared, 0);
        let sender = sender();
        let stack = Stack::new();
        let words = [shared().target.as_ptr(), std::ptr::null_mut()];
        for round in 0..ROUNDS {
            shared().taken.store(0, SeqCst);
            const FLAGS: i32 =
                libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PARENT_SETTID | libc::SIGCHLD;
            let child = unsafe { tasks::start(FLAGS, stack, words, takes_one) };
            assert!(child > 0, "{child}");
            assert_eq!(wait(child as libc::pid_t), Ended::Exited(0), "round {round}");
            until(|| shared().target.load(SeqCst) == 0);
        }
        end_sender(sender);
    });
}

extern "C" fn takes_one() -> i32 {
    until(|| shared().taken.load(SeqCst) > 0);
    0
}

#[test]
fn a_thread_takes_the_signal_that_its_creator_sends_at_once() {
    isolated(|| {
        handle(libc::SIGUSR1, count_shared, 0);
        let stack = Stack::new();
        let words = [shared().target.as_ptr(); 2];
        for round in 0..ROUNDS {
            shared().taken.store(0, SeqCst);
            const FLAGS: i32 = libc::CLONE_VM
                | libc::CLONE_FS
                | libc::CLONE_FILES
                | libc::CLONE_SIGHAND
                | libc::CLONE_THREAD
                | libc::CLONE_PARENT_SETTID
                | libc::CLONE_CHILD_CLEARTID;
            let thread = unsafe { tasks::start(FLAGS, stack, words, takes_one) };
            assert!(thread > 0, "{thread}");
            let process = unsafe { libc::getpid() };
            let sent = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGUSR1) };
            assert_eq!(sent, 0, "round {round}");
            until(|| shared().target.load(SeqCst) == 0);
            assert_eq!(shared().taken.load(SeqCst), 1, "round {round}");
        }
    });
}

#[test]
fn a_child_takes_queued_signals_in_order_before_it_has_run() {
    isolated(|| {
        let signal = libc::SIGRTMIN() + 1;
        let mut action: libc::sigaction = unsafe { zeroed() };
        action.sa_sigaction = sum as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        must(unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) });
        for round in 0..ROUNDS {
            let child = match unsafe { libc::fork() } {
                0 => {
                    until(|| TAKEN.load(SeqCst) >= 3);
                    unsafe { libc::_exit(i32::from(SUM.load(SeqCst) != 123)) }
                }
                child => must(child) as libc::pid_t,
            };
            for value in 1..=3 {
                let value = libc::sigval { sival_ptr: value as *mut libc::c_void };
                must(unsafe { libc::sigqueue(child, signal, value) });
            }
            assert_eq!(wait(child), Ended::Exited(0), "round {round}");
        }
    });
}

#[test]
fn a_child_takes_its_first_signal_on_the_alternate_stack_it_inherits() {
    isolated(|| {
        let memory = map(STACK_BYTES, libc::MAP_PRIVATE);
        STACK_AT.store(memory as usize, SeqCst);
        let stack = libc::stack_t { ss_sp: memory.cast(), ss_flags: 0, ss_size: STACK_BYTES };
        must(unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) });
        handle(libc::SIGUSR1, count_on_stack, libc::SA_ONSTACK);
        for round in 0..ROUNDS {
            let child = child_that_takes(1);
            kill(child, libc::SIGUSR1);
            assert_eq!(wait(child), Ended::Exited(0), "round {round}");
        }
    });
}

#[test]
fn a_child_that_was_stopped_before_it_has_run_takes_its_signals_when_it_goes_on() {
    isolated(|| {
        handle(libc::SIGUSR1, count, 0);
        handle(libc::SIGCONT, count, 0);
        for round in 0..ROUNDS {
            let child = child_that_takes(2);
            kill(child, libc::SIGSTOP);
            kill(child, libc::SIGUSR1);
            kill(child, libc::SIGCONT);
            assert_eq!(wait(child), Ended::Exited(0), "round {round}");
        }
    });
}

#[test]
fn signals_around_an_exec_are_taken_by_the_handler_or_by_default() {
    isolated(|| {
        handle(libc::SIGUSR1, count, 0);
        let name = c"/bin/true";
        for round in 0..ROUNDS / 2 {
            let child = match unsafe { libc::fork() } {
                0 => unsafe {
                    libc::execl(name.as_ptr(), name.as_ptr(), std::ptr::null::<libc::c_char>());
                    libc::_exit(1)
                },
                child => must(child) as libc::pid_t,
            };
            for _ in 0..round {
                kill(child, libc::SIGUSR1);
            }
            let ended = wait(child);
            let is_right = matches!(ended, Ended::Exited(0) | Ended::Signalled(libc::SIGUSR1));
            assert!(is_right, "round {round}: {ended:?}");
        }
    });
}

#[test]
fn a_child_that_ends_at_once_is_not_harmed_by_signals() {
    isolated(|| {
        handle(libc::SIGUSR1, count, 0);
        for round in 0..ROUNDS {
            let child = match unsafe { libc::fork() } {
                0 => unsafe { libc::_exit(7) },
                child => must(child) as libc::pid_t,
            };
            for _ in 0..3 {
                kill(child, libc::SIGUSR1);
            }
            assert_eq!(wait(child), Ended::Exited(7), "round {round}");
        }
    });
}

#[test]
fn a_childs_first_handler_leaves_it_the_registers_of_its_parent() {
    isolated(|| {
        handle(libc::SIGUSR1, count, 0);
        let sender = sender();
        let flags = libc::CLONE_PARENT_SETTID | libc::SIGCHLD;
        for round in 0..ROUNDS {
            let seed = 0x0123_4567_89ab_cdef ^ round as u64;
            let (made, found): (i64, u64);
            unsafe {
                asm!(
                    "movq xmm9, {seed}", "syscall", "movq {found}, xmm9",
                    seed = in(reg) seed, found = lateout(reg) found,
                    inlateout("rax") libc::SYS_clone => made,
                    in("rdi") flags, in("rsi") 0, in("rdx") shared().target.as_ptr(),
                    in("r10") 0, in("r8") 0, out("rcx") _, out("r11") _, out("xmm9") _,
                );
            }
            if made == 0 {
                until(|| TAKEN.load(SeqCst) > 0);
                unsafe { libc::_exit(i32::from(found != seed)) }
            }
            assert_eq!(wait(must(made) as libc::pid_t), Ended::Exited(0), "round {round}");
            until(|| shared().target.load(SeqCst) == 0);
        }
        end_sender(sender);
    });
}
