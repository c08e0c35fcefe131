//! Signals: handlers, masks, restarting, stopping, faults, frames.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use std::{
    sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering::SeqCst},
    time::{Duration, Instant},
};

static COUNT: AtomicUsize = AtomicUsize::new(0);
static LAST: AtomicI32 = AtomicI32::new(0);
static ADDRESS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count(signal: i32) {
    COUNT.fetch_add(1, SeqCst);
    LAST.store(signal, SeqCst);
}

extern "C" fn with_info(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    LAST.store(signal, SeqCst);
    // SAFETY: the kernel passed a whole siginfo.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr()) };
    COUNT.store(code as usize, SeqCst);
    ADDRESS.store(address as u64, SeqCst);
}

fn handle_info(
    signal: i32,
    handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void),
    flags: i32,
) {
    // SAFETY: plain numbers and an empty mask.
    let mut action: libc::sigaction = unsafe { zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = flags | libc::SA_SIGINFO;
    // SAFETY: a whole sigaction.
    must(unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) });
}

fn raise(signal: i32) {
    // SAFETY: plain numbers.
    must(unsafe { libc::kill(libc::getpid(), signal) });
}

fn mask(how: i32, signals: &[i32]) -> libc::sigset_t {
    // SAFETY: signal sets are plain bits.
    unsafe {
        let (mut set, mut old): (libc::sigset_t, libc::sigset_t) = (zeroed(), zeroed());
        libc::sigemptyset(&mut set);
        for &signal in signals {
            libc::sigaddset(&mut set, signal);
        }
        must(libc::sigprocmask(how, &set, &mut old));
        old
    }
}

#[test]
fn a_handler_runs_before_kill_returns() {
    isolated(|| {
        handle(libc::SIGUSR1, count, 0);
        raise(libc::SIGUSR1);
        assert_eq!((COUNT.load(SeqCst), LAST.load(SeqCst)), (1, libc::SIGUSR1));
    });
}

#[test]
fn default_actions_kill_or_ignore() {
    isolated(|| {
        for signal in [
            libc::SIGTERM,
            libc::SIGKILL,
            libc::SIGINT,
            libc::SIGUSR2,
            libc::SIGALRM,
            libc::SIGABRT,
            libc::SIGQUIT,
        ] {
            let by_default = || {
                // Some shells start programs with SIGQUIT ignored.
                // SAFETY: the default action.
                unsafe { libc::signal(signal, libc::SIG_DFL) };
                raise(signal);
            };
            assert_eq!(wait(fork(by_default)), Ended::Signalled(signal));
        }
        for signal in [libc::SIGCHLD, libc::SIGURG, libc::SIGWINCH, libc::SIGCONT] {
            assert_eq!(wait(fork(|| raise(signal))), Ended::Exited(0));
        }
    });
}

#[test]
fn kill_and_stop_cannot_be_caught() {
    isolated(|| {
        for signal in [libc::SIGKILL, libc::SIGSTOP, 0, 65, -1] {
            // SAFETY: plain numbers.
            let action: libc::sigaction = unsafe { zeroed() };
            // The raw call, for the C library refuses some numbers itself.
            // SAFETY: a readable structure; the kernel must refuse.
            let result = unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, &action, 0, 8) };
            assert_eq!(check(result), Err(libc::EINVAL), "{signal}");
        }
    });
}

#[test]
fn a_blocked_signal_waits_and_comes_once() {
    isolated(|| {
        handle(libc::SIGUSR1, count, 0);
        mask(libc::SIG_BLOCK, &[libc::SIGUSR1]);
        raise(libc::SIGUSR1);
        raise(libc::SIGUSR1);
        assert_eq!(COUNT.load(SeqCst), 0);
        // SAFETY: signal sets are plain bits.
        unsafe {
            let mut pending: libc::sigset_t = zeroed();
            must(libc::sigpending(&mut pending));
            assert_eq!(libc::sigismember(&pending, libc::SIGUSR1), 1);
        }
        mask(libc::SIG_UNBLOCK, &[libc::SIGUSR1]);
        assert_eq!(COUNT.load(SeqCst), 1);
    });
}

#[test]
fn real_time_signals_queue_in_order() {
    isolated(|| {
        let signal = libc::SIGRTMIN() + 3;
        handle(signal, count, 0);
        mask(libc::SIG_BLOCK, &[signal]);
        (0..5).for_each(|_| raise(signal));
        mask(libc::SIG_UNBLOCK, &[signal]);
        assert_eq!(COUNT.load(SeqCst), 5);
    });
}

#[test]
fn the_mask_survives_fork_and_the_handler_too() {
    isolated(|| {
        handle(libc::SIGUSR1, count, 0);
        mask(libc::SIG_BLOCK, &[libc::SIGUSR1]);
        raise(libc::SIGUSR1);
        let child = fork(|| {
            mask(libc::SIG_UNBLOCK, &[libc::SIGUSR1]);
            assert_eq!(COUNT.load(SeqCst), 0, "pending signals are not inherited");
            raise(libc::SIGUSR1);
            assert_eq!(COUNT.load(SeqCst), 1);
        });
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn a_signal_is_blocked_in_its_own_handler() {
    extern "C" fn again(_: i32) {
        if COUNT.fetch_add(1, SeqCst) == 0 {
            raise(libc::SIGUSR1);
            assert_eq!(COUNT.load(SeqCst), 1);
        }
    }
    isolated(|| {
        handle(libc::SIGUSR1, again, 0);
        raise(libc::SIGUSR1);
        assert_eq!(COUNT.load(SeqCst), 2);
    });
}

#[test]
fn a_reset_handler_runs_once() {
    isolated(|| {
        assert_eq!(
            wait(fork(|| {
                handle(libc::SIGUSR1, count, libc::SA_RESETHAND);
                raise(libc::SIGUSR1);
                assert_eq!(COUNT.load(SeqCst), 1);
                raise(libc::SIGUSR1);
            })),
            Ended::Signalled(libc::SIGUSR1)
        );
    });
}

fn alarm_after_ms(milliseconds: i64) {
    let timer = libc::itimerval {
        it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 },
        it_value: libc::timeval { tv_sec: 0, tv_usec: milliseconds * 1000 },
    };
    // SAFETY: a whole itimerval.
    must(unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) });
}

#[test]
fn a_read_is_interrupted_without_sa_restart() {
    isolated(|| {
        let (reader, _writer) = pipe();
        handle(libc::SIGALRM, count, 0);
        alarm_after_ms(20);
        assert_eq!(read(reader, 1), Err(libc::EINTR));
        assert_eq!(COUNT.load(SeqCst), 1);
    });
}

#[test]
fn a_read_is_restarted_with_sa_restart() {
    static WRITER: AtomicI32 = AtomicI32::new(-1);
    extern "C" fn feed(_: i32) {
        let _ = write(WRITER.load(SeqCst), b"fed");
    }
    isolated(|| {
        let (reader, writer) = pipe();
        WRITER.store(writer, SeqCst);
        handle(libc::SIGALRM, feed, libc::SA_RESTART);
        alarm_after_ms(20);
        assert_eq!(read(reader, 10), Ok(b"fed".to_vec()));
    });
}

#[test]
fn nanosleep_tells_what_was_left() {
    isolated(|| {
        handle(libc::SIGALRM, count, libc::SA_RESTART);
        alarm_after_ms(20);
        let wanted = libc::timespec { tv_sec: 10, tv_nsec: 0 };
        let mut left = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: whole timespecs.
        assert_eq!(check(unsafe { libc::nanosleep(&wanted, &mut left) }), Err(libc::EINTR));
        assert!(left.tv_sec == 9 && left.tv_nsec > 0, "{} {}", left.tv_sec, left.tv_nsec);
    });
}

#[test]
fn sigsuspend_waits_with_another_mask() {
    isolated(|| {
        handle(libc::SIGUSR1, count, 0);
        mask(libc::SIG_BLOCK, &[libc::SIGUSR1]);
        raise(libc::SIGUSR1);
        // SAFETY: an empty set.
        unsafe {
            let empty: libc::sigset_t = zeroed();
            assert_eq!(check(libc::sigsuspend(&empty)), Err(libc::EINTR));
        }
        assert_eq!(COUNT.load(SeqCst), 1);
        let now = mask(libc::SIG_BLOCK, &[]);
        // SAFETY: a whole set.
        assert_eq!(unsafe { libc::sigismember(&now, libc::SIGUSR1) }, 1);
    });
}

#[test]
fn sigtimedwait_takes_a_pending_signal() {
    isolated(|| {
        mask(libc::SIG_BLOCK, &[libc::SIGUSR2]);
        raise(libc::SIGUSR2);
        // SAFETY: whole structures.
        unsafe {
            let mut set: libc::sigset_t = zeroed();
            libc::sigaddset(&mut set, libc::SIGUSR2);
            let mut info: libc::siginfo_t = zeroed();
            let soon = libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 };
            assert_eq!(check(libc::sigtimedwait(&set, &mut info, &soon)), Ok(libc::SIGUSR2.into()));
            assert_eq!(
                (info.si_signo, info.si_code, info.si_pid()),
                (libc::SIGUSR2, libc::SI_USER, libc::getpid())
            );
            assert_eq!(check(libc::sigtimedwait(&set, &mut info, &soon)), Err(libc::EAGAIN));
        }
    });
}

extern "C" fn leave(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    with_info(signal, info, context);
    // SAFETY: ends the child, telling the code.
    unsafe { libc::_exit(COUNT.load(SeqCst) as i32) }
}

#[test]
fn a_wild_access_is_sigsegv_with_its_address() {
    extern "C" fn check_address(
        signal: i32,
        info: *mut libc::siginfo_t,
        context: *mut libc::c_void,
    ) {
        with_info(signal, info, context);
        let is_right = ADDRESS.load(SeqCst) == 0x1234_5000 && COUNT.load(SeqCst) == 1;
        // SAFETY: ends the child.
        unsafe { libc::_exit(if is_right { 0 } else { 1 }) }
    }
    isolated(|| {
        assert_eq!(
            wait(fork(|| {
                handle_info(libc::SIGSEGV, check_address, 0);
                // SAFETY: meant to fault.
                unsafe { std::ptr::write_volatile(0x1234_5000 as *mut u8, 1) };
            })),
            Ended::Exited(0)
        );
    });
}

#[test]
fn a_write_to_read_only_memory_is_accerr() {
    isolated(|| {
        assert_eq!(
            wait(fork(|| {
                handle_info(libc::SIGSEGV, leave, 0);
                // SAFETY: a fresh mapping, meant to fault.
                unsafe {
                    let memory = libc::mmap(
                        std::ptr::null_mut(),
                        4096,
                        libc::PROT_READ,
                        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                        -1,
                        0,
                    );
                    std::ptr::write_volatile(memory.cast::<u8>(), 1);
                }
            })),
            Ended::Exited(2)
        );
    });
}

#[test]
fn kernel_and_non_canonical_addresses_fault() {
    isolated(|| {
        for address in [
            0xffff_8000_0000_0000u64,
            0x8000_0000_0000_0000,
            0xffff_ffff_8000_0000,
            0x7fff_ffff_f000,
        ] {
            assert_eq!(
                wait(fork(|| {
                    // SAFETY: meant to fault.
                    unsafe { std::ptr::read_volatile(address as *const u8) };
                })),
                Ended::Signalled(libc::SIGSEGV),
                "{address:x}"
            );
        }
    });
}

#[test]
fn processor_exceptions_have_their_signals() {
    isolated(|| {
        // SAFETY: meant to fault.
        unsafe {
            assert_eq!(wait(fork(|| std::arch::asm!("ud2"))), Ended::Signalled(libc::SIGILL));
            assert_eq!(
                wait(fork(
                    || std::arch::asm!("xor ecx, ecx", "xor edx, edx", "mov eax, 1", "div ecx", out("eax") _, out("ecx") _, out("edx") _)
                )),
                Ended::Signalled(libc::SIGFPE)
            );
            assert_eq!(wait(fork(|| std::arch::asm!("int3"))), Ended::Signalled(libc::SIGTRAP));
            assert_eq!(wait(fork(|| std::arch::asm!("hlt"))), Ended::Signalled(libc::SIGSEGV));
            assert_eq!(
                wait(fork(|| std::arch::asm!("out dx, al", in("dx") 0xf4u16, in("al") 0u8))),
                Ended::Signalled(libc::SIGSEGV)
            );
        }
    });
}

#[test]
fn beyond_a_mapped_files_end_is_sigbus() {
    isolated(|| {
        let scratch = Scratch::new();
        let fd = open(scratch.file("a", b"x"), libc::O_RDONLY, 0).unwrap();
        assert_eq!(
            wait(fork(|| {
                // SAFETY: a fresh mapping, meant to fault.
                unsafe {
                    let memory = libc::mmap(
                        std::ptr::null_mut(),
                        8192,
                        libc::PROT_READ,
                        libc::MAP_PRIVATE,
                        fd,
                        0,
                    );
                    std::ptr::read_volatile(memory.cast::<u8>().add(5000));
                }
            })),
            Ended::Signalled(libc::SIGBUS)
        );
    });
}

#[test]
fn an_alternate_stack_serves_an_overflow() {
    fn deep(n: u64) -> u64 {
        let block = std::hint::black_box([n; 500]);
        if n == 0 { 0 } else { deep(n + 1) + block[3] }
    }
    isolated(|| {
        assert_eq!(
            wait(fork(|| {
                let memory = vec![0u8; 65536].leak();
                let stack = libc::stack_t {
                    ss_sp: memory.as_mut_ptr().cast(),
                    ss_flags: 0,
                    ss_size: memory.len(),
                };
                // SAFETY: the stack lives for ever.
                must(unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) });
                handle_info(libc::SIGSEGV, leave, libc::SA_ONSTACK);
                std::hint::black_box(deep(1));
            })),
            Ended::Exited(2),
            "SEGV_ACCERR or MAPERR of the guard"
        );
    });
}

#[test]
fn registers_survive_a_handler() {
    isolated(|| {
        handle(libc::SIGALRM, count, libc::SA_RESTART);
        let timer = libc::timeval { tv_sec: 0, tv_usec: 2000 };
        let timer = libc::itimerval { it_interval: timer, it_value: timer };
        // SAFETY: a whole itimerval.
        must(unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) });
        let (mut whole, mut floating) = (1u64, 1.0f64);
        let mut rounds = 0u64;
        while COUNT.load(SeqCst) < 20 {
            whole = 1;
            floating = 1.0;
            for n in 1..2000u64 {
                whole = whole.wrapping_mul(n | 1);
                floating = floating * 1.000001 + 0.5;
            }
            rounds += 1;
            let (mut whole2, mut floating2) = (1u64, 1.0f64);
            for n in 1..2000u64 {
                whole2 = whole2.wrapping_mul(n | 1);
                floating2 = floating2 * 1.000001 + 0.5;
            }
            assert_eq!((whole, floating.to_bits()), (whole2, floating2.to_bits()));
        }
        assert!(rounds > 0 && whole != 0 && floating > 0.0);
    });
}

#[test]
fn a_stopped_child_is_seen_and_continues() {
    isolated(|| {
        let (reader, writer) = pipe();
        let child = fork(|| {
            close(writer);
            let _ = read(reader, 1);
        });
        let mut status = 0;
        // SAFETY: room for the status.
        unsafe {
            must(libc::kill(child, libc::SIGSTOP));
            assert_eq!(must(libc::waitpid(child, &mut status, libc::WUNTRACED)), child.into());
            assert!(libc::WIFSTOPPED(status) && libc::WSTOPSIG(status) == libc::SIGSTOP);
            must(libc::kill(child, libc::SIGCONT));
            assert_eq!(must(libc::waitpid(child, &mut status, libc::WCONTINUED)), child.into());
            assert!(libc::WIFCONTINUED(status));
        }
        close(writer);
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn a_stopped_child_can_be_killed() {
    isolated(|| {
        let child = fork(|| raise(libc::SIGSTOP));
        // SAFETY: no status is asked for.
        unsafe {
            must(libc::waitpid(child, std::ptr::null_mut(), libc::WUNTRACED));
            must(libc::kill(child, libc::SIGKILL));
        }
        assert_eq!(wait(child), Ended::Signalled(libc::SIGKILL));
    });
}

#[test]
fn children_are_reported_by_sigchld() {
    isolated(|| {
        handle_info(libc::SIGCHLD, with_info, libc::SA_RESTART);
        // SAFETY: ends the child.
        wait(fork(|| unsafe { libc::_exit(3) }));
        assert_eq!(
            (LAST.load(SeqCst), COUNT.load(SeqCst) as i32),
            (libc::SIGCHLD, libc::CLD_EXITED)
        );
    });
}

#[test]
fn ignoring_sigchld_reaps() {
    isolated(|| {
        // SAFETY: ignores the signal.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
        fork(|| {});
        // SAFETY: no status is asked for.
        assert_eq!(check(unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) }), Err(libc::ECHILD));
    });
}

#[test]
fn a_group_is_signalled_as_one() {
    isolated(|| {
        // SAFETY: plain numbers.
        unsafe { libc::setpgid(0, 0) };
        handle(libc::SIGUSR1, count, libc::SA_RESTART);
        let (reader, writer) = pipe();
        let children: Vec<i32> = (0..3)
            .map(|_| {
                fork(|| {
                    write(writer, b"r").unwrap();
                    // SAFETY: waits for a signal.
                    while COUNT.load(SeqCst) == 0 {
                        unsafe { libc::usleep(500) };
                    }
                })
            })
            .collect();
        let mut ready = 0;
        while ready < 3 {
            ready += read(reader, 3).unwrap().len();
        }
        // SAFETY: plain numbers.
        must(unsafe { libc::kill(0, libc::SIGUSR1) });
        children.into_iter().for_each(|child| assert_eq!(wait(child), Ended::Exited(0)));
        assert_eq!(COUNT.load(SeqCst), 1);
    });
}

#[test]
fn strangers_cannot_be_signalled() {
    isolated(|| {
        let parent = unsafe { libc::getpid() };
        isolated(|| {
            // SAFETY: plain numbers.
            unsafe {
                must(libc::setresuid(1000, 1000, 1000));
                assert_eq!(check(libc::kill(parent, libc::SIGTERM)), Err(libc::EPERM));
                assert_eq!(check(libc::kill(99_999_999, 0)), Err(libc::ESRCH));
                assert_eq!(check(libc::kill(libc::getpid(), 65)), Err(libc::EINVAL));
            }
        });
    });
}

#[test]
fn an_alarm_comes_in_time() {
    isolated(|| {
        handle(libc::SIGALRM, count, 0);
        let start = Instant::now();
        alarm_after_ms(50);
        // SAFETY: waits for a signal.
        unsafe { libc::pause() };
        assert!(COUNT.load(SeqCst) == 1 && start.elapsed() >= Duration::from_millis(50));
        // SAFETY: plain numbers.
        assert_eq!(unsafe { libc::alarm(100) }, 0);
        // SAFETY: plain numbers.
        assert!((99..=100).contains(&unsafe { libc::alarm(0) }));
    });
}

#[test]
fn a_forged_frame_kills_only_its_own_process() {
    isolated(|| {
        let ended = wait(fork(|| {
            // SAFETY: meant to fault: there is no frame.
            unsafe { std::arch::asm!("mov rsp, 64", "mov eax, 15", "syscall", options(noreturn)) }
        }));
        assert_eq!(ended, Ended::Signalled(libc::SIGSEGV));
    });
}
