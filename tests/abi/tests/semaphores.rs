//! System V semaphores: semget, semop, semtimedop, semctl.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    identity::{NOBODY, as_user},
    ipc::*,
    jobs::{nothing, send, stopped_by},
    tasks::{self, Stack},
    *,
};
use libc::{
    GETNCNT, GETPID, GETVAL, GETZCNT, IPC_CREAT, IPC_EXCL, IPC_NOWAIT, IPC_PRIVATE, IPC_RMID,
    IPC_SET, SEM_UNDO, SETALL, SETVAL,
};
use std::{
    fs,
    ptr::null_mut,
    sync::atomic::{AtomicI32, Ordering},
};

const SEM_STAT: i32 = 18;
const SEM_INFO: i32 = 19;
const SEM_STAT_ANY: i32 = 20;
const MAX: i16 = 32767;

fn set(count: i32) -> i32 {
    semget(IPC_PRIVATE, count, OWN).unwrap()
}

fn remove(id: i32) {
    assert_eq!(sem(id, 0, IPC_RMID, 0), Ok(0));
}

fn value(id: i32, number: i32) -> i64 {
    sem(id, number, GETVAL, 0).unwrap()
}

fn set_value(id: i32, number: i32, value: i32) {
    assert_eq!(sem(id, number, SETVAL, value), Ok(0));
}

/// Makes a child that does operations and must succeed.
fn sleeper(id: i32, operations: &[libc::sembuf]) -> i32 {
    fork(|| assert_eq!(semop(id, operations), Ok(0)))
}

fn must_end(children: &[i32]) {
    for child in children {
        assert_eq!(wait(*child), Ended::Exited(0));
    }
}

#[test]
fn a_key_finds_its_set() {
    alone(|| {
        let key = key(1);
        assert_eq!(semget(key, 3, OWN), Err(libc::ENOENT));
        let id = semget(key, 3, IPC_CREAT | OWN).unwrap();
        assert_eq!(semget(key, 3, IPC_CREAT | OWN), Ok(id));
        assert_eq!(semget(key, 0, 0), Ok(id));
        assert_eq!(semget(key, 4, 0), Err(libc::EINVAL), "more than it has");
        assert_eq!(semget(key, 3, IPC_CREAT | IPC_EXCL | OWN), Err(libc::EEXIST));
        remove(id);
        assert_eq!(semget(key, 3, 0), Err(libc::ENOENT));
        assert_eq!(semget(IPC_PRIVATE, 0, OWN), Err(libc::EINVAL));
        assert_eq!(semget(IPC_PRIVATE, -1, OWN), Err(libc::EINVAL));
        assert_eq!(semget(IPC_PRIVATE, 32_001, OWN), Err(libc::EINVAL));
    });
}

#[test]
fn values_are_set_and_told() {
    alone(|| {
        let id = set(3);
        assert_eq!(sem_values(id), [0, 0, 0]);
        set_value(id, 1, 7);
        assert_eq!((value(id, 1), sem(id, 1, GETPID, 0)), (7, Ok(std::process::id().into())));
        assert_eq!(sem(id, 0, GETPID, 0), Ok(0), "nobody");
        let mut values = [1u16, 2, 3];
        assert_eq!(sem_with(id, SETALL, values.as_mut_ptr()), Ok(0));
        assert_eq!(sem_values(id), [1, 2, 3]);
        values[2] = 32768;
        assert_eq!(sem_with(id, SETALL, values.as_mut_ptr()), Err(libc::ERANGE));
        assert_eq!(sem(id, 0, SETVAL, 32768), Err(libc::ERANGE));
        assert_eq!(sem(id, 0, SETVAL, -1), Err(libc::ERANGE));
        for number in [-1, 3] {
            assert_eq!(sem(id, number, GETVAL, 0), Err(libc::EINVAL));
            assert_eq!(sem(id, number, SETVAL, 0), Err(libc::EINVAL));
        }
        assert_eq!(sem(id, 0, SETALL, 8), Err(libc::EFAULT));
        assert_eq!(sem(id, 0, libc::GETALL, 8), Err(libc::EFAULT));
        assert_eq!(sem(id, 0, 99, 0), Err(libc::EINVAL));
        assert_eq!(sem(-1, 0, GETVAL, 0), Err(libc::EINVAL));
        remove(id);
        assert_eq!(sem(id, 0, GETVAL, 0), Err(libc::EINVAL));
    });
}

#[test]
fn operations_are_done_all_or_none() {
    alone(|| {
        let id = set(2);
        let no_wait = IPC_NOWAIT;
        assert_eq!(semop(id, &[op(0, 2, 0), op(1, 1, 0)]), Ok(0));
        assert_eq!(semop(id, &[op(0, -1, 0), op(1, -2, no_wait)]), Err(libc::EAGAIN));
        assert_eq!(sem_values(id), [2, 1]);
        assert_eq!(semop(id, &[op(0, -2, 0), op(0, 0, no_wait), op(1, -1, 0)]), Ok(0));
        assert_eq!(sem_values(id), [0, 0]);
        assert_eq!(semop(id, &[op(0, 1, 0), op(0, 0, no_wait)]), Err(libc::EAGAIN));
        assert_eq!(semop(id, &[op(0, 1, 0), op(0, -1, no_wait), op(0, 0, no_wait)]), Ok(0));
        assert_eq!(sem_values(id), [0, 0]);
        remove(id);
    });
}

#[test]
fn arguments_of_operations_are_checked_in_order() {
    alone(|| {
        let id = set(2);
        let many = vec![op(0, 0, 0); 501];
        assert_eq!(semop(-1, &many), Err(libc::E2BIG));
        assert_eq!(semop(id, &many[..500]), Ok(0));
        assert_eq!(semop(id, &[]), Err(libc::EINVAL));
        assert_eq!(semop(id + 1, &[op(9, 0, 0)]), Err(libc::EINVAL));
        assert_eq!(semop(id, &[op(0, 0, 0), op(2, 0, 0)]), Err(libc::EFBIG));
        let at = |address: usize| check(unsafe { libc::syscall(libc::SYS_semop, id, address, 1) });
        assert_eq!(at(8), Err(libc::EFAULT));
        set_value(id, 0, MAX.into());
        assert_eq!(semop(id, &[op(0, 1, 0)]), Err(libc::ERANGE));
        assert_eq!(semop(id, &[op(1, 1, 0), op(0, 1, IPC_NOWAIT)]), Err(libc::ERANGE));
        assert_eq!(value(id, 1), 0);
        let time = |at: usize| {
            let one = op(1, 0, 0);
            check(unsafe { libc::syscall(libc::SYS_semtimedop, id, &one, 1, at) })
        };
        let odd = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000_000 };
        assert_eq!(time(8), Err(libc::EFAULT));
        assert_eq!(time((&raw const odd).addr()), Err(libc::EINVAL));
        remove(id);
    });
}

#[test]
fn takers_and_those_who_wait_for_zero_sleep_and_are_counted() {
    alone(|| {
        let id = set(2);
        let taker = sleeper(id, &[op(0, -2, 0)]);
        until_waiting(id, 0, GETNCNT, 1);
        assert_eq!(sem(id, 0, GETZCNT, 0), Ok(0));
        assert_eq!(semop(id, &[op(0, 1, 0)]), Ok(0));
        assert_eq!(value(id, 0), 1, "not enough");
        let zero = sleeper(id, &[op(0, 0, 0)]);
        until_waiting(id, 0, GETZCNT, 1);
        assert_eq!(semop(id, &[op(0, 1, 0)]), Ok(0));
        must_end(&[taker, zero]);
        assert_eq!((value(id, 0), sem(id, 0, GETPID, 0)), (0, Ok(zero.into())));
        assert_eq!((sem(id, 0, GETNCNT, 0), sem(id, 0, GETZCNT, 0)), (Ok(0), Ok(0)));
        assert_eq!(sem(id, 2, GETNCNT, 0), Err(libc::EINVAL));
        remove(id);
    });
}

#[test]
fn a_call_with_several_operations_is_counted_where_it_sleeps() {
    alone(|| {
        let id = set(3);
        let all = sleeper(id, &[op(0, 1, 0), op(1, -1, 0), op(2, 0, 0)]);
        until_waiting(id, 1, GETNCNT, 1);
        assert_eq!((sem(id, 0, GETNCNT, 0), sem(id, 2, GETZCNT, 0)), (Ok(0), Ok(0)));
        set_value(id, 2, 1);
        assert_eq!(semop(id, &[op(1, 1, 0)]), Ok(0));
        assert_eq!((sem(id, 1, GETNCNT, 0), sem(id, 2, GETZCNT, 0)), (Ok(0), Ok(1)));
        assert_eq!(sem_values(id), [0, 1, 1]);
        assert_eq!(semop(id, &[op(2, -1, 0)]), Ok(0));
        must_end(&[all]);
        assert_eq!(sem_values(id), [1, 0, 0]);
        remove(id);
    });
}

#[test]
fn sleepers_are_served_in_the_order_in_which_they_came() {
    alone(|| {
        let id = set(2);
        let mut children = Vec::new();
        // Each operation adds to the second semaphore only if those before it did.
        for place in 0..4 {
            let child = fork(|| {
                assert_eq!(semop(id, &[op(0, -1, 0)]), Ok(0));
                assert_eq!(value(id, 1), place);
                set_value(id, 1, place as i32 + 1);
            });
            until_waiting(id, 0, GETNCNT, place + 1);
            children.push(child);
        }
        for child in children {
            assert_eq!(semop(id, &[op(0, 1, 0)]), Ok(0));
            assert_eq!(wait(child), Ended::Exited(0));
        }
        remove(id);
    });
}

#[test]
fn a_small_taker_passes_a_large_one() {
    alone(|| {
        let id = set(1);
        let large = sleeper(id, &[op(0, -3, 0)]);
        until_waiting(id, 0, GETNCNT, 1);
        let small = sleeper(id, &[op(0, -1, 0)]);
        until_waiting(id, 0, GETNCNT, 2);
        assert_eq!(semop(id, &[op(0, 2, 0)]), Ok(0));
        must_end(&[small]);
        assert_eq!((value(id, 0), sem(id, 0, GETNCNT, 0)), (1, Ok(1)));
        set_value(id, 0, 3);
        must_end(&[large]);
        remove(id);
    });
}

#[test]
fn a_served_call_serves_the_next() {
    alone(|| {
        let id = set(3);
        let chain = [
            sleeper(id, &[op(2, -1, 0)]),
            sleeper(id, &[op(1, -1, 0), op(2, 1, 0)]),
            sleeper(id, &[op(0, -1, 0), op(1, 1, 0)]),
        ];
        (0..3).for_each(|number| until_waiting(id, number, GETNCNT, 1));
        assert_eq!(semop(id, &[op(0, 1, 0)]), Ok(0));
        must_end(&chain);
        assert_eq!(sem_values(id), [0, 0, 0]);
        remove(id);
    });
}

#[test]
fn setall_serves_whom_it_can() {
    alone(|| {
        let id = set(2);
        let one = sleeper(id, &[op(0, -2, 0)]);
        let both = sleeper(id, &[op(0, -1, 0), op(1, -1, 0)]);
        until_waiting(id, 0, GETNCNT, 2);
        let mut values = [3u16, 1];
        assert_eq!(sem_with(id, SETALL, values.as_mut_ptr()), Ok(0));
        must_end(&[one, both]);
        assert_eq!(sem_values(id), [0, 0]);
        remove(id);
    });
}

#[test]
fn a_time_ends_the_wait() {
    alone(|| {
        let id = set(1);
        let start = clock_ns(libc::CLOCK_MONOTONIC);
        assert_eq!(semtimedop(id, &[op(0, -1, 0)], 30), Err(libc::EAGAIN));
        assert!(clock_ns(libc::CLOCK_MONOTONIC) - start >= 30_000_000);
        assert_eq!(semtimedop(id, &[op(0, -1, 0)], 0), Err(libc::EAGAIN));
        assert_eq!(sem(id, 0, GETNCNT, 0), Ok(0));
        let child = fork(|| assert_eq!(semtimedop(id, &[op(0, -1, 0)], 20_000), Ok(0)));
        until_waiting(id, 0, GETNCNT, 1);
        assert_eq!(semop(id, &[op(0, 1, 0)]), Ok(0));
        must_end(&[child]);
        remove(id);
    });
}

#[test]
fn a_signal_ends_the_wait_whatever_its_handler_says() {
    alone(|| {
        let id = set(2);
        let child = fork(|| {
            handle(libc::SIGUSR1, nothing, libc::SA_RESTART);
            assert_eq!(semop(id, &[op(0, -1, 0)]), Err(libc::EINTR));
            assert_eq!(semop(id, &[op(1, -1, 0)]), Ok(0));
        });
        until_waiting(id, 0, GETNCNT, 1);
        must(unsafe { libc::kill(child, libc::SIGUSR1) });
        until_waiting(id, 1, GETNCNT, 1);
        assert_eq!(semop(id, &[op(1, 1, 0)]), Ok(0));
        must_end(&[child]);
        let child = sleeper(id, &[op(0, -1, 0)]);
        until_waiting(id, 0, GETNCNT, 1);
        must(unsafe { libc::kill(child, libc::SIGKILL) });
        assert_eq!(wait(child), Ended::Signalled(libc::SIGKILL));
        assert_eq!(sem(id, 0, GETNCNT, 0), Ok(0));
        remove(id);
    });
}

#[test]
fn a_stop_ends_the_wait() {
    alone(|| {
        let id = set(1);
        let child = fork(|| assert_eq!(semop(id, &[op(0, -1, 0)]), Err(libc::EINTR)));
        until_waiting(id, 0, GETNCNT, 1);
        send(child, libc::SIGSTOP);
        assert_eq!(stopped_by(child), libc::SIGSTOP);
        send(child, libc::SIGCONT);
        must_end(&[child]);
        remove(id);
    });
}

#[test]
fn removal_wakes_all_sleepers() {
    alone(|| {
        let id = set(2);
        set_value(id, 1, 1);
        let lists = [vec![op(0, -1, 0)], vec![op(1, 0, 0)], vec![op(1, 0, 0), op(0, -1, 0)]];
        let children =
            lists.map(|list| fork(move || assert_eq!(semop(id, &list), Err(libc::EIDRM))));
        until_waiting(id, 0, GETNCNT, 1);
        until_waiting(id, 1, GETZCNT, 2);
        remove(id);
        must_end(&children);
        assert_eq!(semop(id, &[op(0, 0, 0)]), Err(libc::EINVAL));
    });
}

#[test]
fn what_a_process_did_is_undone_at_its_end() {
    alone(|| {
        let id = set(3);
        set_value(id, 1, 5);
        let child = fork(|| {
            assert_eq!(semop(id, &[op(0, 3, SEM_UNDO), op(1, -2, SEM_UNDO), op(2, 1, 0)]), Ok(0));
            assert_eq!(semop(id, &[op(0, -1, SEM_UNDO)]), Ok(0));
            assert_eq!(sem_values(id), [2, 3, 1]);
        });
        must_end(&[child]);
        assert_eq!(sem_values(id), [0, 5, 1]);
        assert_eq!(sem(id, 1, GETPID, 0), Ok(child.into()));
        let killed = fork(|| {
            assert_eq!(semop(id, &[op(1, -5, SEM_UNDO)]), Ok(0));
            loop {
                unsafe { libc::pause() };
            }
        });
        while value(id, 1) != 0 {
            std::thread::yield_now();
        }
        let waits = sleeper(id, &[op(1, -4, 0)]);
        until_waiting(id, 1, GETNCNT, 1);
        send(killed, libc::SIGKILL);
        assert_eq!(wait(killed), Ended::Signalled(libc::SIGKILL));
        must_end(&[waits]);
        assert_eq!(sem_values(id), [0, 1, 1], "the end served who slept");
        remove(id);
    });
}

#[test]
fn what_is_undone_stays_in_range() {
    alone(|| {
        let id = set(2);
        let child = fork(|| {
            assert_eq!(semop(id, &[op(0, 4, SEM_UNDO)]), Ok(0));
            assert_eq!(semop(id, &[op(0, -3, 0)]), Ok(0));
            set_value(id, 1, 10);
            assert_eq!(semop(id, &[op(1, -10, SEM_UNDO)]), Ok(0));
            assert_eq!(semop(id, &[op(1, MAX, 0)]), Ok(0));
        });
        must_end(&[child]);
        assert_eq!(sem_values(id), [0, 32767]);
        assert_eq!(semop(id, &[op(1, -MAX, SEM_UNDO)]), Ok(0));
        assert_eq!(semop(id, &[op(1, 1, 0)]), Ok(0));
        let beyond = semop(id, &[op(1, -1, SEM_UNDO)]);
        assert_eq!((beyond, value(id, 1)), (Err(libc::ERANGE), 1), "more than can be undone");
        remove(id);
    });
}

#[test]
fn set_values_are_not_undone() {
    alone(|| {
        let id = set(2);
        let child = fork(|| {
            assert_eq!(semop(id, &[op(0, 4, SEM_UNDO), op(1, 4, SEM_UNDO)]), Ok(0));
            set_value(id, 0, 9);
            assert_eq!(semop(id, &[op(0, 1, SEM_UNDO)]), Ok(0));
        });
        must_end(&[child]);
        assert_eq!(sem_values(id), [9, 0]);
        let child = fork(|| {
            assert_eq!(semop(id, &[op(0, 4, SEM_UNDO), op(1, 4, SEM_UNDO)]), Ok(0));
            assert_eq!(sem_with(id, SETALL, [5u16, 6].as_mut_ptr()), Ok(0));
        });
        must_end(&[child]);
        assert_eq!(sem_values(id), [5, 6]);
        remove(id);
    });
}

#[test]
fn exec_keeps_what_is_to_be_undone_and_fork_gives_none() {
    alone(|| {
        let id = set(1);
        let ((input, to), (from, output)) = (pipe(), pipe());
        let child = fork(|| {
            assert_eq!(semop(id, &[op(0, 1, SEM_UNDO)]), Ok(0));
            must_end(&[fork(|| {})]);
            assert_eq!(value(id, 0), 1, "the child had nothing to be undone");
            for (end, fd) in [(input, 0), (output, 1)] {
                must(unsafe { libc::dup2(end, fd) });
            }
            [input, to, from, output].into_iter().for_each(close);
            let cat = c"/bin/cat".as_ptr();
            unsafe { libc::execl(cat, cat, 0usize) };
        });
        assert_eq!(write(to, b"x"), Ok(1));
        assert_eq!(read(from, 1), Ok(b"x".to_vec()), "the other program runs");
        assert_eq!(value(id, 0), 1);
        close(to);
        must_end(&[child]);
        assert_eq!(value(id, 0), 0);
        remove(id);
    });
}

static SET: AtomicI32 = AtomicI32::new(0);

extern "C" fn add_one_to_be_undone() -> i32 {
    let one = op(0, 1, SEM_UNDO);
    let id = SET.load(Ordering::SeqCst);
    unsafe { libc::syscall(libc::SYS_semop, id, &raw const one, 1) as i32 }
}

#[test]
fn tasks_that_share_what_is_undone_undo_it_with_the_last_of_them() {
    alone(|| {
        let id = set(1);
        SET.store(id, Ordering::SeqCst);
        let no_words = [null_mut(), null_mut()];
        let start = |flags: i32| {
            let flags = flags | libc::SIGCHLD;
            unsafe { tasks::start(flags, Stack::new(), no_words, add_one_to_be_undone) as i32 }
        };
        must_end(&[start(0)]);
        assert_eq!(value(id, 0), 0, "its own list");
        let child = fork(|| {
            must_end(&[start(libc::CLONE_SYSVSEM)]);
            assert_eq!(value(id, 0), 1, "the creator has it, too");
            std::thread::spawn(|| assert_eq!(add_one_to_be_undone(), 0)).join().unwrap();
            assert_eq!(value(id, 0), 2, "threads share it");
        });
        must_end(&[child]);
        assert_eq!(value(id, 0), 0);
        assert_eq!(add_one_to_be_undone(), 0);
        must(unsafe { libc::unshare(libc::CLONE_SYSVSEM) });
        assert_eq!(value(id, 0), 0, "to share it no more is as an end");
        remove(id);
    });
}

#[test]
fn permissions_are_checked() {
    alone(|| {
        let key = key(2);
        let id = semget(key, 1, IPC_CREAT | 0o604).unwrap();
        as_user(NOBODY, &[], || {
            assert_eq!(semget(key, 1, 0o400), Ok(id));
            assert_eq!(semget(key, 1, 0o200), Err(libc::EACCES));
            assert_eq!(semop(id, &[op(0, 0, 0)]), Ok(0), "to wait for zero is to read");
            assert_eq!(semop(id, &[op(0, 1, 0)]), Err(libc::EACCES));
            assert_eq!(semop(id, &[op(1, 1, 0)]), Err(libc::EFBIG));
            assert_eq!(value(id, 0), 0);
            assert_eq!(sem(id, 0, SETVAL, 1), Err(libc::EACCES));
            assert_eq!(sem(id, 0, SETALL, 8), Err(libc::EACCES));
            assert_eq!(sem(id, 0, IPC_RMID, 0), Err(libc::EPERM));
            let mut status = sem_status(id).unwrap();
            assert_eq!(sem_with(id, IPC_SET, &raw mut status), Err(libc::EPERM));
        });
        let mut status = sem_status(id).unwrap();
        (status.sem_perm.uid, status.sem_perm.mode) = (NOBODY, 0o200);
        assert_eq!(sem_with(id, IPC_SET, &raw mut status), Ok(0));
        as_user(NOBODY, &[], || {
            assert_eq!(semop(id, &[op(0, 1, 0)]), Ok(0));
            assert_eq!(sem(id, 0, GETVAL, 0), Err(libc::EACCES));
            assert_eq!(sem_status(id).err(), Some(libc::EACCES));
            remove(id);
        });
    });
}

#[test]
fn the_status_tells_times_and_owners() {
    alone(|| {
        // Linux uses the seconds of its last tick.
        let start = unsafe { libc::time(null_mut()) } - 1;
        let id = semget(key(3), 4, IPC_CREAT | 0o640).unwrap();
        let status = sem_status(id).unwrap();
        assert_eq!((status.sem_nsems, status.sem_otime), (4, 0));
        assert!(status.sem_ctime >= start);
        assert_eq!((key_of(&status.sem_perm), status.sem_perm.mode), (key(3), 0o640));
        assert_eq!(semop(id, &[op(0, 0, 0)]), Ok(0));
        assert!(sem_status(id).unwrap().sem_otime >= start);
        let mut found = status;
        assert_eq!(sem_with(id & 0x7fff, SEM_STAT, &raw mut found), Ok(id.into()));
        assert_eq!(found.sem_nsems, 4);
        let mut closed = status;
        closed.sem_perm.mode = 0;
        assert_eq!(sem_with(id, IPC_SET, &raw mut closed), Ok(0));
        as_user(NOBODY, &[], || {
            let mut found = status;
            let index = id & 0x7fff;
            assert_eq!(sem_with(index, SEM_STAT, &raw mut found), Err(libc::EACCES));
            assert_eq!(sem_with(index, SEM_STAT_ANY, &raw mut found), Ok(id.into()));
        });
        assert_eq!(sem(id, 0, IPC_SET, 8), Err(libc::EFAULT));
        remove(id);
    });
}

#[test]
fn limits_are_told_and_hold() {
    alone(|| {
        let id = set(3);
        let mut info = [0i32; 10];
        let highest = sem_with(0, libc::IPC_INFO, info.as_mut_ptr()).unwrap();
        assert!(highest >= i64::from(id & 0x7fff));
        let text = fs::read_to_string("/proc/sys/kernel/sem").unwrap();
        let [_, sets, all, _, each, operations, _, size, max, undo] = info;
        assert_eq!(text, format!("{each}\t{all}\t{operations}\t{sets}\n"));
        assert_eq!((size, max, undo), (20, 32767, 32767));
        let mut sums = [0i32; 10];
        assert_eq!(sem_with(0, SEM_INFO, sums.as_mut_ptr()), Ok(highest));
        let (used, semaphores) = (sums[7], sums[9]);
        assert!(used >= 1 && semaphores >= 3);
        let limits = format!("10 {} 5 {}", semaphores + 8, used + 2);
        let Some(setting) = Setting::set("kernel/sem", &limits) else { return };
        assert_eq!(semget(IPC_PRIVATE, 11, OWN), Err(libc::EINVAL));
        assert_eq!(semget(IPC_PRIVATE, 9, OWN), Err(libc::ENOSPC), "semaphores of all sets");
        assert_eq!(semop(id, &[op(0, 0, 0); 6]), Err(libc::E2BIG));
        let (one, other) = (set(1), set(1));
        assert_eq!(semget(IPC_PRIVATE, 1, OWN), Err(libc::ENOSPC), "sets");
        setting.change("20").unwrap();
        assert!(setting.text().starts_with("20\t"), "the others stay");
        assert_eq!(setting.change("1 2 3 40000"), Err(libc::ERANGE));
        [id, one, other].into_iter().for_each(remove);
    });
}

#[test]
fn proc_lists_sets() {
    alone(|| {
        let id = semget(key(4), 5, IPC_CREAT | 0o640).unwrap();
        assert_eq!(semop(id, &[op(4, 1, 0)]), Ok(0));
        let status = sem_status(id).unwrap();
        let text = fs::read_to_string("/proc/sysvipc/sem").unwrap();
        let mut lines = text.lines();
        assert_eq!(
            lines.next().unwrap(),
            "       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime"
        );
        let wanted = format!(
            "{:>10} {id:>10}   640 {:>10} {:>5} {:>5} {:>5} {:>5} {:>10} {:>10}",
            key(4),
            5,
            0,
            0,
            0,
            0,
            status.sem_otime,
            status.sem_ctime
        );
        assert_eq!(lines.find(|line| line.contains(&id.to_string())).unwrap(), wanted);
        remove(id);
    });
}

#[test]
fn two_processes_take_turns() {
    alone(|| {
        const TURNS: i32 = 2000;
        let id = set(3);
        set_value(id, 0, 1);
        let turns = |own: u16, others: u16| {
            for _ in 0..TURNS {
                assert_eq!(semop(id, &[op(own, -1, SEM_UNDO)]), Ok(0));
                assert_eq!(semop(id, &[op(2, 1, 0), op(others, 1, 0)]), Ok(0));
            }
        };
        let child = fork(|| turns(1, 0));
        turns(0, 1);
        let left = wait(child);
        assert_eq!(left, Ended::Exited(0));
        assert_eq!(value(id, 2), i64::from(2 * TURNS));
        remove(id);
    });
}

#[test]
fn many_processes_keep_each_other_out() {
    alone(|| {
        const ROUNDS: usize = 300;
        let id = set(1);
        set_value(id, 0, 1);
        let memory = shmget(IPC_PRIVATE, 4096, OWN).unwrap();
        let counter = shmat(memory, 0, 0).unwrap().cast::<usize>();
        let children: Vec<i32> = (0..4)
            .map(|_| {
                fork(|| {
                    for _ in 0..ROUNDS {
                        assert_eq!(semop(id, &[op(0, -1, SEM_UNDO)]), Ok(0));
                        let seen = unsafe { counter.read_volatile() };
                        std::thread::yield_now();
                        unsafe { counter.write_volatile(seen + 1) };
                        assert_eq!(semop(id, &[op(0, 1, SEM_UNDO)]), Ok(0));
                    }
                })
            })
            .collect();
        must_end(&children);
        assert_eq!(unsafe { counter.read_volatile() }, 4 * ROUNDS);
        assert_eq!(shm_command(memory, IPC_RMID), Ok(0));
        remove(id);
    });
}
