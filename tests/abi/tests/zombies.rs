//! The scheduler's answers about a process that has ended and was not waited for, and its settings.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    identity::{NOBODY, as_user},
    jobs::limited,
    tasks::own_id,
    *,
};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

const BATCH: i64 = libc::SCHED_BATCH as i64;
const IO_IDLE: i64 = 3 << 13;
const IO_PROCESS: i32 = 1;
const PERMITTED: u32 = 0x2008_0522;

fn call<const N: usize>(number: i64, arguments: [usize; N]) -> Result<i64, i32> {
    let at = |index: usize| arguments.get(index).copied().unwrap_or(0);
    check(unsafe { libc::syscall(number, at(0), at(1), at(2), at(3)) })
}

/// Makes a child that ran `body`, ended, and is a zombie until it is waited for.
fn zombie(body: impl FnOnce()) -> i32 {
    let child = fork(body);
    let mut info: libc::siginfo_t = unsafe { zeroed() };
    let how = libc::WEXITED | libc::WNOWAIT;
    must(unsafe { libc::waitid(libc::P_PID, child as u32, &mut info, how) });
    child
}

/// Returns the scheduler's data of a process: policy, priority, nice value as reported, affinity, priority of its
/// I/O requests.
fn known(id: i32) -> [Result<i64, i32>; 5] {
    let id = id as usize;
    let (mut priority, mut mask) = (-1i32, [0u8; 128]);
    let priority_at = std::ptr::from_mut(&mut priority) as usize;
    let parameter = call(libc::SYS_sched_getparam, [id, priority_at]).map(|_| priority.into());
    let mask_at = mask.as_mut_ptr() as usize;
    let affinity = call(libc::SYS_sched_getaffinity, [id, mask.len(), mask_at])
        .map(|_| i64::from(mask[0] & 1));
    [
        call(libc::SYS_sched_getscheduler, [id]),
        parameter,
        call(libc::SYS_getpriority, [libc::PRIO_PROCESS as usize, id]),
        affinity,
        call(libc::SYS_ioprio_get, [IO_PROCESS as usize, id]),
    ]
}

#[test]
fn a_zombie_has_the_schedule_it_ended_with() {
    limited(|| {
        must(unsafe { libc::setpgid(0, 0) });
        let plain = zombie(|| {});
        assert_eq!(known(plain)[..4], [Ok(0), Ok(0), Ok(20), Ok(1)]);
        let other = zombie(|| {
            let priority = 0i32;
            let at = std::ptr::from_ref(&priority) as usize;
            must(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 7) });
            assert_eq!(call(libc::SYS_sched_setscheduler, [0, BATCH as usize, at]), Ok(0));
            assert_eq!(
                call(libc::SYS_ioprio_set, [IO_PROCESS as usize, 0, IO_IDLE as usize]),
                Ok(0)
            );
        });
        assert_eq!(known(other), [Ok(BATCH), Ok(0), Ok(13), Ok(1), Ok(0)], "it requests no more");
        let mut attributes = [0u32; 12];
        let at = attributes.as_mut_ptr() as usize;
        assert_eq!(call(libc::SYS_sched_getattr, [other as usize, at, 48, 0]), Ok(0));
        assert_eq!((attributes[1], attributes[4]), (BATCH as u32, 7), "policy and nice value");
        let mut slice = [0u64; 2];
        let at = slice.as_mut_ptr() as usize;
        assert_eq!(call(libc::SYS_sched_rr_get_interval, [other as usize, at]), Ok(0));
        let mut header = [PERMITTED, other as u32];
        let mut sets = [0u32; 6];
        let (head, at) = (header.as_mut_ptr() as usize, sets.as_mut_ptr() as usize);
        assert_eq!(call(libc::SYS_capget, [head, at]), Ok(0));
        assert_ne!(sets[1], 0, "root's capabilities");
        let number = libc::PRIO_PGRP as usize;
        assert_eq!(call(libc::SYS_getpriority, [number, 0]), Ok(20), "the best of the group");
        for child in [plain, other] {
            assert_eq!(wait(child), Ended::Exited(0));
            assert_eq!(known(child), [const { Err(libc::ESRCH) }; 5]);
        }
    });
}

#[test]
fn a_zombie_is_scheduled_anew_in_vain() {
    limited(|| {
        let child = zombie(|| {});
        let id = child as usize;
        let (none, some, mask) = (0i32, 5i32, 1u64);
        let at = |value: &i32| std::ptr::from_ref(value) as usize;
        let fifo = libc::SCHED_FIFO as usize;
        assert_eq!(call(libc::SYS_sched_setscheduler, [id, fifo, at(&some)]), Ok(0));
        assert_eq!(known(child)[..2], [Ok(i64::from(libc::SCHED_FIFO)), Ok(5)]);
        assert_eq!(call(libc::SYS_sched_setparam, [id, at(&none)]), Err(libc::EINVAL));
        assert_eq!(call(libc::SYS_sched_setscheduler, [id, 0, at(&none)]), Ok(0));
        assert_eq!(call(libc::SYS_setpriority, [libc::PRIO_PROCESS as usize, id, 9]), Ok(0));
        assert_eq!(known(child)[2], Ok(11));
        let mask_at = std::ptr::from_ref(&mask) as usize;
        assert_eq!(call(libc::SYS_sched_setaffinity, [id, 8, mask_at]), Ok(0));
        let set = [IO_PROCESS as usize, id, IO_IDLE as usize];
        assert_eq!(call(libc::SYS_ioprio_set, set), Ok(0));
        assert_eq!(known(child)[4], Ok(0), "it requests no more");
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn a_zombie_of_another_user_is_only_looked_at() {
    limited(|| {
        let child = zombie(|| {});
        let id = child as usize;
        as_user(NOBODY, &[], || {
            assert_eq!(known(child)[..4], [Ok(0), Ok(0), Ok(20), Ok(1)]);
            let (none, mask) = (0i32, 1u64);
            let at = std::ptr::from_ref(&none) as usize;
            let mask_at = std::ptr::from_ref(&mask) as usize;
            let set = call(libc::SYS_sched_setscheduler, [id, BATCH as usize, at]);
            assert_eq!(set, Err(libc::EPERM));
            assert_eq!(call(libc::SYS_sched_setaffinity, [id, 8, mask_at]), Err(libc::EPERM));
            let set = call(libc::SYS_setpriority, [libc::PRIO_PROCESS as usize, id, 9]);
            assert_eq!(set, Err(libc::EPERM));
            let set = call(libc::SYS_ioprio_set, [IO_PROCESS as usize, id, IO_IDLE as usize]);
            assert_eq!(set, Err(libc::EPERM));
            assert_eq!(call(libc::SYS_kill, [id, 0]), Err(libc::EPERM));
            assert_eq!(call(libc::SYS_tkill, [id, 0]), Err(libc::EPERM));
        });
        for signal in [0, libc::SIGTERM as usize, libc::SIGKILL as usize] {
            assert_eq!(call(libc::SYS_kill, [id, signal]), Ok(0));
            assert_eq!(call(libc::SYS_tkill, [id, signal]), Ok(0));
            assert_eq!(call(libc::SYS_tgkill, [id, id, signal]), Ok(0));
        }
        assert_eq!(wait(child), Ended::Exited(0));
        assert_eq!(call(libc::SYS_tkill, [id, 0]), Err(libc::ESRCH));
    });
}

#[test]
fn a_leader_that_ended_before_its_threads_is_known() {
    static OTHER: AtomicU32 = AtomicU32::new(0);
    limited(|| {
        let (tell, told) = pipe();
        let child = fork(|| {
            let leader = own_id();
            std::thread::spawn(move || {
                OTHER.store(own_id(), SeqCst);
                // Until the leader has ended it has its directory with a state of its own.
                let stat = format!("/proc/self/task/{leader}/stat");
                while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
                    std::thread::yield_now();
                }
                write(told, b"x").unwrap();
                loop {
                    std::thread::park();
                }
            });
            while OTHER.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            must(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 3) });
            must(unsafe { libc::syscall(libc::SYS_exit, 0) });
        });
        assert_eq!(read(tell, 1).unwrap(), b"x");
        assert_eq!(known(child)[..4], [Ok(0), Ok(0), Ok(17), Ok(1)]);
        let process = libc::PRIO_PROCESS as usize;
        assert_eq!(call(libc::SYS_setpriority, [process, child as usize, 4]), Ok(0));
        assert_eq!(known(child)[2], Ok(16));
        assert_eq!(call(libc::SYS_tgkill, [child as usize, child as usize, 0]), Ok(0));
        must(unsafe { libc::kill(child, libc::SIGKILL) });
        assert_eq!(wait(child), Ended::Signalled(libc::SIGKILL));
        assert_eq!(known(child), [const { Err(libc::ESRCH) }; 5]);
    });
}
