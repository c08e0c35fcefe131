//! seccomp(2): strict mode, filters and their answers, chains of filters, threads that get them, and the right to
//! add them.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{identity::become_user, seccomp::*, *};
use std::{
    fs,
    process::Command,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::Duration,
};

const SET_MODE_STRICT: u32 = 0;
const SET_MODE_FILTER: u32 = 1;
const GET_ACTION_AVAIL: u32 = 2;
const TSYNC: u32 = 1;
const LOG_FLAG: u32 = 2;
const SPEC_ALLOW: u32 = 4;
const TSYNC_ESRCH: u32 = 16;

fn prctl(option: i32, second: u64, third: u64) -> Result<i64, i32> {
    check(unsafe { libc::prctl(option, second, third, 0, 0) })
}

fn gain_nothing_more() {
    assert_eq!(prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0), Ok(0));
}

fn exit_thread(code: u64) -> ! {
    raw(libc::SYS_exit, [code, 0, 0, 0, 0, 0]);
    unreachable!("exit returned");
}

/// Returns the mode and the number of filters, as `/proc` shows them for the calling thread.
fn told() -> (String, String) {
    let text = fs::read_to_string("/proc/thread-self/status").unwrap();
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
    (field("Seccomp:").to_owned(), field("Seccomp_filters:").to_owned())
}

fn is_told(mode: u32, filters: u32) -> bool {
    told() == (mode.to_string(), filters.to_string())
}

#[test]
fn nobody_has_a_filter_to_begin_with() {
    isolated(|| {
        assert_eq!(prctl(libc::PR_GET_SECCOMP, 0, 0), Ok(0));
        assert!(is_told(0, 0));
    });
}

#[test]
fn strict_mode_leaves_four_calls() {
    isolated(|| {
        let (reader, writer) = pipe();
        let child = fork(|| {
            assert_eq!(seccomp(SET_MODE_STRICT, 0, 0), Ok(0));
            let _ = write(writer, b"x");
            let mut byte = 0_u8;
            raw(libc::SYS_read, [reader as u64, &raw mut byte as u64, 1, 0, 0, 0]);
            exit_thread(u64::from(byte));
        });
        assert_eq!(wait(child), Ended::Exited(i32::from(b'x')));
        let others = [SUBJECT, libc::SYS_exit_group, libc::SYS_prctl, 600, -1];
        for number in others {
            for is_old in [false, true] {
                let child = fork(|| {
                    match is_old {
                        true => assert_eq!(prctl(libc::PR_SET_SECCOMP, 1, 7), Ok(0)),
                        false => assert_eq!(seccomp(SET_MODE_STRICT, 0, 0), Ok(0)),
                    }
                    call(number);
                    exit_thread(0);
                });
                assert_eq!(wait(child), Ended::Signalled(libc::SIGKILL), "{number}");
            }
        }
    });
}

static WAS_HANDLED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_: i32) {
    WAS_HANDLED.store(true, SeqCst);
}

#[test]
fn strict_mode_lets_handlers_return() {
    isolated(|| {
        let child = fork(|| {
            handle(libc::SIGALRM, note, 0);
            let soon = libc::timeval { tv_sec: 0, tv_usec: 20_000 };
            let never = libc::timeval { tv_sec: 0, tv_usec: 0 };
            let timer = libc::itimerval { it_interval: never, it_value: soon };
            must(unsafe { libc::syscall(libc::SYS_setitimer, libc::ITIMER_REAL, &timer, 0) });
            assert_eq!(seccomp(SET_MODE_STRICT, 0, 0), Ok(0));
            while !WAS_HANDLED.load(SeqCst) {
                std::hint::spin_loop();
            }
            exit_thread(4);
        });
        assert_eq!(wait(child), Ended::Exited(4));
    });
}

#[test]
fn strict_mode_ends_the_thread_alone() {
    isolated(|| {
        let child = fork(|| {
            // The thread is not joined: the calls of the library at a thread's end are not made.
            thread::spawn(|| {
                assert_eq!(seccomp(SET_MODE_STRICT, 0, 0), Ok(0));
                call(SUBJECT);
            });
            while fs::read_dir("/proc/self/task").unwrap().count() > 1 {
                thread::sleep(Duration::from_millis(2));
            }
            exit_thread(5);
        });
        assert_eq!(wait(child), Ended::Exited(5));
    });
}

#[test]
fn each_answer_has_its_effect() {
    isolated(|| {
        let parent = call(SUBJECT);
        for (value, result) in [
            (ERRNO, 0),
            (ERRNO | 1, refused(1)),
            (ERRNO | 4095, refused(4095)),
            (ERRNO | 0xffff, refused(4095)),
            (TRACE, refused(libc::ENOSYS)),
            (TRACE | 7, refused(libc::ENOSYS)),
            (USER_NOTIF, refused(libc::ENOSYS)),
            (LOG, parent),
            (ALLOW, parent),
            (ALLOW | 0x1234, parent),
        ] {
            let child = fork(|| {
                // The child's parent is this process; the parent asks for its own parent.
                let expected = if result == parent { call(SUBJECT) } else { result };
                install(&only(SUBJECT, value));
                assert_eq!(call(SUBJECT), expected, "{value:#x}");
                assert!(call(libc::SYS_getpid) > 0);
            });
            assert_eq!(wait(child), Ended::Exited(0), "{value:#x}");
        }
    });
}

#[test]
fn a_killed_process_dies_as_by_sigsys() {
    isolated(|| {
        // Blocking or catching it has no effect; a value that is not an action kills, too.
        for value in [KILL_PROCESS, KILL_THREAD, KILL_PROCESS | 7, 0x1_0000, 0x7ffe_0000, !0] {
            let child = fork(|| {
                handle(libc::SIGSYS, note, 0);
                install(&only(SUBJECT, value));
                call(SUBJECT);
            });
            assert_eq!(wait(child), Ended::Signalled(libc::SIGSYS), "{value:#x}");
        }
    });
}

#[test]
fn a_thread_is_killed_alone_and_a_process_whole() {
    isolated(|| {
        let after = |value: u32| {
            wait(fork(move || {
                thread::spawn(move || {
                    install(&only(SUBJECT, value));
                    call(SUBJECT);
                });
                while fs::read_dir("/proc/self/task").unwrap().count() > 1 {
                    thread::sleep(Duration::from_millis(2));
                }
                exit_thread(6);
            }))
        };
        assert_eq!(after(KILL_THREAD), Ended::Exited(6));
        assert_eq!(after(KILL_PROCESS), Ended::Signalled(libc::SIGSYS));
    });
}

#[test]
fn the_last_thread_says_how_the_process_ended() {
    isolated(|| {
        let after = |leader: fn()| {
            wait(fork(move || {
                let id = thread_id();
                thread::spawn(move || {
                    // The leader stays as a zombie.
                    let state = || fs::read_to_string(format!("/proc/self/task/{id}/stat"));
                    while state().is_ok_and(|text| !text.contains(") Z")) {
                        thread::sleep(Duration::from_millis(2));
                    }
                    exit_thread(5);
                });
                leader();
            }))
        };
        assert_eq!(after(|| exit_thread(3)), Ended::Exited(5));
        let killed = || {
            install(&only(SUBJECT, KILL_THREAD));
            call(SUBJECT);
        };
        assert_eq!(after(killed), Ended::Exited(5));
    });
}

static SEEN: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];
const REPLACED: i64 = 4321;

/// A handler that records its arguments, and makes the call return another value.
extern "C" fn answer_otherwise(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let words: [u32; 8] = unsafe { info.cast::<[u32; 8]>().read() };
    let context = context.cast::<libc::ucontext_t>();
    let registers = unsafe { &mut (*context).uc_mcontext.gregs };
    let address = u64::from(words[4]) | u64::from(words[5]) << 32;
    let seen = [
        signal as u64,
        u64::from(words[1]),
        u64::from(words[2]),
        address,
        u64::from(words[6]),
        u64::from(words[7]),
        registers[libc::REG_RIP as usize] as u64,
        registers[libc::REG_RAX as usize] as u64,
    ];
    for (place, value) in SEEN.iter().zip(seen) {
        place.store(value, SeqCst);
    }
    registers[libc::REG_RAX as usize] = REPLACED;
}

fn answer_traps() {
    let mut action: libc::sigaction = unsafe { zeroed() };
    action.sa_sigaction = answer_otherwise as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    must(unsafe { libc::sigaction(libc::SIGSYS, &action, std::ptr::null_mut()) });
}

#[test]
fn a_trap_tells_of_the_call_and_its_handler_answers() {
    isolated(|| {
        answer_traps();
        install(&[
            load(0),
            if_equal(SUBJECT as u32, 1, 0),
            if_equal(-7_i32 as u32, 0, 1),
            answer(TRAP | 0xabcd),
            answer(ALLOW),
        ]);
        for number in [SUBJECT, -7] {
            let (result, after) = raw(number, [1, 2, 3, 4, 5, 6]);
            assert_eq!(result, REPLACED);
            let seen = SEEN.each_ref().map(|place| place.load(SeqCst));
            let call = u64::from(number as u32);
            let expected = [
                libc::SIGSYS as u64,
                0xabcd,
                1,
                after,
                call,
                u64::from(ARCHITECTURE),
                after,
                number as u64,
            ];
            assert_eq!(seen, expected);
        }
    });
}

#[test]
fn a_trap_that_is_blocked_or_ignored_kills() {
    isolated(|| {
        for is_blocked in [true, false] {
            let child = fork(|| {
                if is_blocked {
                    handle(libc::SIGSYS, note, 0);
                    let set = 1_u64 << (libc::SIGSYS - 1);
                    let how = libc::SIG_BLOCK as u64;
                    let arguments = [how, &raw const set as u64, 0, 8, 0, 0];
                    assert_eq!(raw(libc::SYS_rt_sigprocmask, arguments).0, 0);
                } else {
                    unsafe { libc::signal(libc::SIGSYS, libc::SIG_IGN) };
                }
                install(&only(SUBJECT, TRAP));
                call(SUBJECT);
            });
            assert_eq!(wait(child), Ended::Signalled(libc::SIGSYS));
        }
    });
}

#[test]
fn of_several_filters_the_strictest_counts() {
    isolated(|| {
        let after = |values: &[u32]| {
            let values = values.to_vec();
            wait(fork(move || {
                answer_traps();
                for value in &values {
                    install(&only(SUBJECT, *value));
                }
                let result = call(SUBJECT);
                exit_thread(if result < 0 {
                    -result as u64
                } else {
                    u64::from(result == REPLACED)
                });
            }))
        };
        for (both, ended) in [
            ([KILL_PROCESS, KILL_THREAD], Ended::Signalled(libc::SIGSYS)),
            ([KILL_THREAD, TRAP], Ended::Signalled(libc::SIGSYS)),
            ([TRAP, ERRNO | 9], Ended::Exited(1)),
            ([ERRNO | 9, TRACE], Ended::Exited(9)),
            ([ERRNO | 9, LOG], Ended::Exited(9)),
            ([TRACE, LOG], Ended::Exited(libc::ENOSYS)),
            ([TRACE, ALLOW], Ended::Exited(libc::ENOSYS)),
        ] {
            let [first, second] = both;
            assert_eq!(after(&[first, second]), ended, "{both:x?}");
            assert_eq!(after(&[second, first]), ended, "{both:x?}");
        }
        // Among equal actions the newest filter's data counts.
        assert_eq!(after(&[ERRNO | 1, ERRNO | 2, ALLOW]), Ended::Exited(2));
    });
}

#[test]
fn filters_see_every_argument_whole() {
    isolated(|| {
        const VALUE: u64 = 0x1234_5678_9abc_def0;
        for at in 0..6_u32 {
            let child = fork(|| {
                install(&[
                    load(0),
                    if_equal(SUBJECT as u32, 0, 4),
                    load(16 + 8 * at),
                    if_equal(VALUE as u32, 0, 2),
                    load(20 + 8 * at),
                    if_equal((VALUE >> 32) as u32, 1, 0),
                    answer(ALLOW),
                    answer(ERRNO | 77),
                ]);
                let with = |value| {
                    let mut arguments = [1, 2, 3, 4, 5, 6];
                    arguments[at as usize] = value;
                    raw(SUBJECT, arguments).0
                };
                assert_eq!(with(VALUE), refused(77));
                for other in [VALUE ^ 1, VALUE ^ 1 << 63, VALUE & 0xffff_ffff, 0] {
                    assert!(with(other) > 0, "{other:#x}");
                }
            });
            assert_eq!(wait(child), Ended::Exited(0), "argument {at}");
        }
    });
}

#[test]
fn filters_see_where_the_call_is_and_of_which_architecture() {
    isolated(|| {
        install(&[
            load(4),
            if_equal(ARCHITECTURE, 1, 0),
            answer(KILL_PROCESS),
            load(0),
            if_equal(SUBJECT as u32, 0, 4),
            load(8),
            instruction(0x54, 0, 0, 0x7ff),
            instruction(0x44, 0, 0, ERRNO),
            ANSWER_A,
            answer(ALLOW),
        ]);
        let (result, after) = raw(SUBJECT, [0; 6]);
        assert_eq!(-result as u64, after & 0x7ff);
    });
}

#[test]
fn programs_compute_and_keep_numbers() {
    isolated(|| {
        // ((argument * 3 - 5) >> 2 ^ length of a call) as an error, by way of memory and the index register.
        install(&[
            load(0),
            if_equal(SUBJECT as u32, 0, 12),
            load(16),
            instruction(0x24, 0, 0, 3),
            instruction(0x02, 0, 0, 15),
            instruction(0x01, 0, 0, 5),
            instruction(0x60, 0, 0, 15),
            instruction(0x1c, 0, 0, 0),
            instruction(0x74, 0, 0, 2),
            instruction(0x81, 0, 0, 0),
            instruction(0xac, 0, 0, 0),
            instruction(0x44, 0, 0, ERRNO),
            ANSWER_A,
            answer(0),
            answer(ALLOW),
        ]);
        for value in [100_u32, 40, 2] {
            let wanted = (value * 3 - 5) >> 2 ^ 64;
            let result = raw(SUBJECT, [u64::from(value), 0, 0, 0, 0, 0]).0;
            assert_eq!(result, -i64::from(wanted));
        }
        // The program loads by an index of 0: the thread is killed.
        let child = fork(|| {
            install(&[
                load(0),
                if_equal(libc::SYS_getuid as u32, 0, 2),
                instruction(0x3c, 0, 0, 0),
                answer(ERRNO | 1),
                answer(ALLOW),
            ]);
            call(libc::SYS_getuid);
        });
        assert_eq!(wait(child), Ended::Signalled(libc::SIGSYS));
    });
}

#[test]
fn calls_that_are_not_there_are_filtered_too() {
    isolated(|| {
        let numbers = [600, 0x4000_0000 | SUBJECT, -1, i64::from(i32::MIN)];
        for number in numbers {
            assert_eq!(call(number), refused(libc::ENOSYS), "{number:#x}");
        }
        assert_eq!(call(1 << 32 | SUBJECT), call(SUBJECT), "the low half is the number");
        for number in numbers {
            install(&only(number, ERRNO | 55));
        }
        for number in numbers {
            assert_eq!(call(number), refused(55), "{number:#x}");
        }
        assert_eq!(call(-2), refused(libc::ENOSYS));
        install(&only(SUBJECT, ERRNO | 56));
        assert_eq!(call(0x55 << 32 | SUBJECT), refused(56));
    });
}

/// Starts a thread that runs `first` and then waits until the answer is dropped.
fn waiting_thread(
    first: impl FnOnce() + Send + 'static,
) -> (i64, mpsc::Sender<()>, thread::JoinHandle<()>) {
    let (ready, is_ready) = mpsc::channel();
    let (stay, leave) = mpsc::channel();
    let handle = thread::spawn(move || {
        first();
        ready.send(thread_id()).unwrap();
        let _ = leave.recv();
    });
    (is_ready.recv().unwrap(), stay, handle)
}

#[test]
fn programs_are_checked_as_linux_checks_them() {
    isolated(|| {
        // If another thread cannot get the filter, even a valid program is not installed.
        let (_, stay, handle) = waiting_thread(|| install(&[answer(ALLOW)]));
        let is_good = |program: &[Instruction]| match install_with(program, TSYNC | TSYNC_ESRCH) {
            Err(libc::ESRCH) => true,
            Err(libc::EINVAL) => false,
            other => panic!("{other:?}"),
        };
        let known = [
            0x00, 0x01, 0x02, 0x03, 0x04, 0x06, 0x07, 0x0c, 0x14, 0x15, 0x16, 0x1c, 0x1d, 0x20,
            0x24, 0x25, 0x2c, 0x2d, 0x34, 0x35, 0x3c, 0x3d, 0x44, 0x45, 0x4c, 0x4d, 0x54, 0x5c,
            0x60, 0x61, 0x64, 0x6c, 0x74, 0x7c, 0x80, 0x81, 0x84, 0x87, 0xa4, 0xac,
        ];
        let stores = [instruction(0x02, 0, 0, 1), instruction(0x03, 0, 0, 1)];
        for code in (0..0x300).chain([0x8020, 0xff15, 0xffff]) {
            let operand = if code == 0x20 { 4 } else { 1 };
            let program = [stores[0], stores[1], instruction(code, 0, 0, operand), answer(ALLOW)];
            assert_eq!(is_good(&program), known.contains(&code), "{code:#x}");
        }
        for (code, then, otherwise, constant, is_right) in [
            (0x20, 0, 0, 60, true),
            (0x20, 0, 0, 64, false),
            (0x20, 0, 0, 62, false),
            (0x20, 0, 0, 0xffff_f000, false),
            (0x34, 0, 0, 0, false),
            (0x34, 0, 0, 1, true),
            (0x64, 0, 0, 31, true),
            (0x64, 0, 0, 32, false),
            (0x74, 0, 0, 32, false),
            (0x02, 0, 0, 15, true),
            (0x02, 0, 0, 16, false),
            (0x60, 0, 0, 0, false),
            (0x61, 0, 0, 16, false),
            (0x05, 0, 0, 0, true),
            (0x05, 0, 0, 1, false),
            (0x05, 0, 0, u32::MAX, false),
            (0x15, 0, 0, 9, true),
            (0x15, 1, 0, 9, false),
            (0x15, 0, 1, 9, false),
            (0x06, 9, 9, 9, true),
        ] {
            let program = [instruction(code, then, otherwise, constant), answer(ALLOW)];
            assert_eq!(is_good(&program), is_right, "{code:#x} {then} {otherwise} {constant:#x}");
        }
        // A memory cell is stored to on one path only; there is no end.
        let one_way = |otherwise| {
            [
                load(0),
                if_equal(1, 0, otherwise),
                instruction(0x02, 0, 0, 3),
                instruction(0x60, 0, 0, 3),
                ANSWER_A,
            ]
        };
        assert!(is_good(&one_way(0)) && !is_good(&one_way(1)));
        assert!(!is_good(&[load(0)]));
        assert!(is_good(&vec![answer(ALLOW); 4096]) && !is_good(&vec![answer(ALLOW); 4097]));
        assert!(is_told(0, 0));
        drop(stay);
        handle.join().unwrap();
    });
}

#[test]
fn what_makes_no_sense_is_refused() {
    isolated(|| {
        let good = answer(ALLOW);
        let program =
            |length: u16, instructions: *const Instruction| Program { length, instructions };
        let with = |program: &Program| seccomp(SET_MODE_FILTER, 0, &raw const *program as u64);
        let nowhere = std::ptr::without_provenance(8);
        assert_eq!(seccomp(SET_MODE_STRICT, 1, 0), Err(libc::EINVAL));
        assert_eq!(seccomp(SET_MODE_STRICT, 0, 8), Err(libc::EINVAL));
        assert_eq!(seccomp(7, 0, 0), Err(libc::EINVAL));
        assert_eq!(seccomp(SET_MODE_FILTER, 1 << 31, 0), Err(libc::EINVAL));
        assert_eq!(seccomp(SET_MODE_FILTER, 0, 0), Err(libc::EFAULT));
        assert_eq!(seccomp(SET_MODE_FILTER, 0, 8), Err(libc::EFAULT));
        assert_eq!(with(&program(0, &good)), Err(libc::EINVAL));
        assert_eq!(with(&program(4097, nowhere)), Err(libc::EINVAL));
        assert_eq!(with(&program(1, std::ptr::null())), Err(libc::EINVAL));
        assert_eq!(with(&program(1, nowhere)), Err(libc::EFAULT));
        for mode in [0, 3, 1 << 32 | 1] {
            assert_eq!(prctl(libc::PR_SET_SECCOMP, mode, 0), Err(libc::EINVAL));
        }
        assert_eq!(prctl(libc::PR_SET_SECCOMP, 2, 8), Err(libc::EFAULT));
        assert!(is_told(0, 0));
        // The older call does the same, and one mode cannot follow the other.
        let one = program(1, &good);
        assert_eq!(prctl(libc::PR_SET_SECCOMP, 2, &raw const one as u64), Ok(0));
        assert_eq!(prctl(libc::PR_GET_SECCOMP, 0, 0), Ok(2));
        assert_eq!(seccomp(SET_MODE_STRICT, 0, 0), Err(libc::EINVAL));
        assert_eq!(prctl(libc::PR_SET_SECCOMP, 1, 0), Err(libc::EINVAL));
        for flags in [LOG_FLAG, SPEC_ALLOW, TSYNC, TSYNC_ESRCH, LOG_FLAG | TSYNC | TSYNC_ESRCH] {
            assert_eq!(install_with(&[good], flags), Ok(0));
        }
        assert!(is_told(2, 6));
    });
}

#[test]
fn an_unprivileged_filter_gives_new_privileges_up_first() {
    isolated(|| {
        become_user(1000);
        let good = [answer(ALLOW)];
        assert_eq!(install_with(&good, 0), Err(libc::EACCES));
        assert_eq!(install_with(&[instruction(0x99, 0, 0, 0)], 0), Err(libc::EACCES));
        assert_eq!(seccomp(SET_MODE_FILTER, 0, 8), Err(libc::EFAULT), "looked at first");
        let nowhere = Program { length: 1, instructions: std::ptr::null() };
        let with_nothing = || seccomp(SET_MODE_FILTER, 0, &raw const nowhere as u64);
        assert_eq!(with_nothing(), Err(libc::EACCES));
        gain_nothing_more();
        assert_eq!(with_nothing(), Err(libc::EINVAL));
        assert_eq!(install_with(&good, 0), Ok(0));
        // Strict mode needs no rights.
        let child = fork(|| {
            assert_eq!(seccomp(SET_MODE_STRICT, 0, 0), Err(libc::EINVAL));
        });
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn no_new_privileges_is_a_thread_s_own() {
    isolated(|| {
        let has = || prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0);
        let thread = thread::spawn(move || {
            gain_nothing_more();
            assert_eq!(thread::spawn(has).join().unwrap(), Ok(1), "inherited");
            has()
        });
        assert_eq!(thread.join().unwrap(), Ok(1));
        assert_eq!(has(), Ok(0));
    });
}

#[test]
fn a_chain_has_an_end() {
    isolated(|| {
        let mut count = 0;
        let refused = loop {
            match install_with(&[answer(ALLOW)], 0) {
                Ok(_) => count += 1,
                Err(error) => break error,
            }
        };
        // As many are accepted as by Linux, which counts 5 for this program, and 4 for each earlier filter.
        assert_eq!((refused, count), (libc::ENOMEM, 3641));
        assert_eq!(prctl(libc::PR_GET_SECCOMP, 0, 0), Ok(2));
        assert!(is_told(2, count));
        assert_eq!(wait(fork(|| assert!(is_told(2, 3641)))), Ended::Exited(0));
    });
}

#[test]
fn filters_are_inherited() {
    isolated(|| {
        install(&only(SUBJECT, ERRNO | 33));
        install(&[answer(ALLOW)]);
        let check_it = || {
            assert_eq!(call(SUBJECT), refused(33));
            assert!(is_told(2, 2));
        };
        check_it();
        thread::spawn(check_it).join().unwrap();
        let child = fork(|| {
            check_it();
            install(&[answer(ALLOW)]);
            assert!(is_told(2, 3));
        });
        assert_eq!(wait(child), Ended::Exited(0));
        assert!(is_told(2, 2));
        let script = "cat /proc/self/status";
        let output = Command::new("/bin/sh").args(["-c", script]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("Seccomp:\t2\nSeccomp_filters:\t2\n"), "{text}");
    });
}

#[test]
fn a_thread_s_filter_is_its_own() {
    isolated(|| {
        let (id, stay, handle) = waiting_thread(|| install(&only(SUBJECT, ERRNO | 34)));
        assert!(call(SUBJECT) > 0 && is_told(0, 0));
        let text = fs::read_to_string(format!("/proc/self/task/{id}/status")).unwrap();
        assert!(text.contains("Seccomp:\t2\nSeccomp_filters:\t1\n"), "{text}");
        drop(stay);
        handle.join().unwrap();
    });
}

#[test]
fn a_synchronised_filter_is_every_thread_s_at_once() {
    isolated(|| {
        static IS_FILTERED: AtomicBool = AtomicBool::new(false);
        let barrier = Arc::new(Barrier::new(5));
        let threads: Vec<_> = (0..4)
            .map(|number| {
                let barrier = barrier.clone();
                thread::spawn(move || {
                    barrier.wait();
                    loop {
                        let must_be = IS_FILTERED.load(SeqCst);
                        let result = call(SUBJECT);
                        if result == refused(35) {
                            return is_told(2, 2);
                        }
                        assert!(!must_be, "thread {number} called after all had the filter");
                        // Some threads are in their program most of the time.
                        (0..number * 1000).for_each(|_| std::hint::spin_loop());
                    }
                })
            })
            .collect();
        barrier.wait();
        thread::sleep(Duration::from_millis(20));
        install(&[answer(ALLOW)]);
        assert_eq!(install_with(&only(SUBJECT, ERRNO | 35), TSYNC), Ok(0));
        IS_FILTERED.store(true, SeqCst);
        assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
        assert_eq!(call(SUBJECT), refused(35));
    });
}

#[test]
fn synchronising_interrupts_no_call() {
    isolated(|| {
        let (reader, writer) = pipe();
        static ID: AtomicI64 = AtomicI64::new(0);
        let thread = thread::spawn(move || {
            ID.store(thread_id(), SeqCst);
            (read(reader, 1), read(reader, 1))
        });
        let is_reading = || {
            let path = format!("/proc/self/task/{}/stat", ID.load(SeqCst));
            fs::read_to_string(path).is_ok_and(|text| text.contains(") S "))
        };
        while !is_reading() {
            thread::sleep(Duration::from_millis(2));
        }
        thread::sleep(Duration::from_millis(20));
        assert_eq!(install_with(&only(libc::SYS_read, ERRNO | 36), TSYNC), Ok(0));
        thread::sleep(Duration::from_millis(20));
        assert_eq!(write(writer, b"ab"), Ok(2));
        assert_eq!(thread.join().unwrap(), (Ok(vec![b'a']), Err(36)));
    });
}

#[test]
fn a_thread_that_cannot_follow_is_named() {
    isolated(|| {
        install(&[answer(ALLOW)]);
        // One thread has the caller's filters, and one has more.
        let (_, stay, follower) = waiting_thread(|| ());
        let (apart, go_on, handle) = waiting_thread(|| install(&[answer(ALLOW)]));
        let program = only(SUBJECT, ERRNO | 37);
        assert_eq!(install_with(&program, TSYNC), Ok(apart));
        assert_eq!(install_with(&program, TSYNC | TSYNC_ESRCH), Err(libc::ESRCH));
        assert!(is_told(2, 1) && call(SUBJECT) > 0);
        drop(go_on);
        handle.join().unwrap();
        let of_all = || fs::read_dir("/proc/self/task").unwrap().count();
        while of_all() > 2 {
            thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(install_with(&program, TSYNC | TSYNC_ESRCH), Ok(0));
        assert!(is_told(2, 2));
        drop(stay);
        follower.join().unwrap();
    });
}

#[test]
fn a_strict_thread_cannot_follow() {
    isolated(|| {
        let (reader, _writer) = pipe();
        let (ready, is_ready) = mpsc::channel();
        thread::spawn(move || {
            ready.send(thread_id()).unwrap();
            thread::sleep(Duration::from_millis(50));
            assert_eq!(seccomp(SET_MODE_STRICT, 0, 0), Ok(0));
            let mut byte = 0_u8;
            raw(libc::SYS_read, [reader as u64, &raw mut byte as u64, 1, 0, 0, 0]);
        });
        let id = is_ready.recv().unwrap();
        let status = || fs::read_to_string(format!("/proc/self/task/{id}/status")).unwrap();
        while !status().contains("Seccomp:\t1\n") {
            thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(install_with(&[answer(ALLOW)], TSYNC), Ok(id));
        assert!(is_told(0, 0));
    });
}

#[test]
fn a_synchronised_filter_takes_new_privileges_along() {
    isolated(|| {
        let has = || prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0);
        let (turn, my_turn) = mpsc::channel();
        let (ready, is_ready) = mpsc::channel();
        let thread = thread::spawn(move || {
            let before = has();
            ready.send(()).unwrap();
            my_turn.recv().unwrap();
            (before, has(), is_told(2, 1))
        });
        is_ready.recv().unwrap();
        gain_nothing_more();
        assert_eq!(install_with(&[answer(ALLOW)], TSYNC), Ok(0));
        turn.send(()).unwrap();
        assert_eq!(thread.join().unwrap(), (Ok(0), Ok(1), true));
    });
}

#[test]
fn actions_are_asked_for_and_listed() {
    isolated(|| {
        let is_there = |action: u32| seccomp(GET_ACTION_AVAIL, 0, &raw const action as u64);
        for action in [KILL_PROCESS, KILL_THREAD, TRAP, ERRNO, USER_NOTIF, TRACE, LOG, ALLOW] {
            assert_eq!(is_there(action), Ok(0));
        }
        for action in [1, TRAP | 1, 0x7ffe_0000, ALLOW | 1] {
            assert_eq!(is_there(action), Err(libc::EOPNOTSUPP));
        }
        assert_eq!(seccomp(GET_ACTION_AVAIL, 1, 0), Err(libc::EINVAL));
        assert_eq!(seccomp(GET_ACTION_AVAIL, 0, 0), Err(libc::EFAULT));
        let text = fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap();
        assert_eq!(text, "kill_process kill_thread trap errno user_notif trace log allow\n");
    });
}

#[test]
fn what_is_logged_is_a_setting() {
    isolated(|| {
        const PATH: &str = "/proc/sys/kernel/seccomp/actions_logged";
        let before = fs::read_to_string(PATH).unwrap();
        let set = |text: &str| fs::write(PATH, text).map_err(|error| error.raw_os_error());
        assert_eq!(set("log trap\n"), Ok(()));
        assert_eq!(fs::read_to_string(PATH).unwrap(), "trap log\n", "in an order of their own");
        for wrong in ["allow", "trap allow", "none"] {
            assert_eq!(set(wrong), Err(Some(libc::EINVAL)), "{wrong}");
        }
        assert_eq!(fs::read_to_string(PATH).unwrap(), "trap log\n");
        assert_eq!(set(&before), Ok(()));
        assert_eq!(fs::read_to_string(PATH).unwrap(), before);
        become_user(1000);
        assert_eq!(set("trap"), Err(Some(libc::EACCES)));
    });
}

#[test]
fn a_call_that_goes_on_passes_the_filter_again() {
    isolated(|| {
        let child = fork(|| {
            install(&only(libc::SYS_restart_syscall, ERRNO | 38));
            let time = libc::timespec { tv_sec: 20, tv_nsec: 0 };
            let arguments = [&raw const time as u64, 0, 0, 0, 0, 0];
            let result = raw(libc::SYS_nanosleep, arguments).0;
            assert_eq!(result, refused(38));
        });
        let state = || fs::read_to_string(format!("/proc/{child}/stat")).unwrap();
        let wait_for = |letter: &str| {
            while !state().contains(letter) {
                thread::sleep(Duration::from_millis(2));
            }
        };
        wait_for(") S ");
        thread::sleep(Duration::from_millis(50));
        must(unsafe { libc::kill(child, libc::SIGSTOP) });
        wait_for(") T ");
        must(unsafe { libc::kill(child, libc::SIGCONT) });
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn the_clock_of_the_vdso_is_read_without_a_call() {
    isolated(|| {
        let child = fork(|| {
            install(&only(libc::SYS_clock_gettime, KILL_PROCESS));
            assert!(clock_ns(libc::CLOCK_MONOTONIC) > 0);
        });
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn a_filter_may_refuse_what_ends_a_thread_but_not_an_end_by_a_signal() {
    isolated(|| {
        let child = fork(|| {
            install(&[answer(ERRNO | 39)]);
            assert_eq!(call(libc::SYS_exit), refused(39));
            assert_eq!(call(libc::SYS_kill), refused(39));
            loop {
                std::hint::spin_loop();
            }
        });
        thread::sleep(Duration::from_millis(30));
        must(unsafe { libc::kill(child, libc::SIGKILL) });
        assert_eq!(wait(child), Ended::Signalled(libc::SIGKILL));
    });
}
