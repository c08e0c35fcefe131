//! Settings of the scheduler, of memory and of the machine that a process makes and reads back.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    identity::{NOBODY, as_user},
    jobs::nothing,
    *,
};
use std::{
    ffi::CStr,
    fs,
    ptr::{null, null_mut},
};

const PAGE: usize = 4096;

/// The number of processes that race with their creator.
const CHILDREN: usize = 300;
/// A number that no process has.
const NOBODYS_ID: i32 = 0x3fff_fff0;

#[test]
fn a_priority_belongs_to_its_policy() {
    isolated(|| {
        let get = |id: i32| {
            let mut priority = -1i32;
            check(unsafe { libc::syscall(libc::SYS_sched_getparam, id, &mut priority) })
                .map(|_| priority)
        };
        let set = |id: i32, priority: i32| {
            check(unsafe { libc::syscall(libc::SYS_sched_setparam, id, &priority) })
        };
        assert_eq!(get(0), Ok(0));
        assert_eq!(set(0, 0), Ok(0));
        assert_eq!(set(0, 1), Err(libc::EINVAL), "who is fair has none");
        let call = libc::SYS_sched_setscheduler;
        must(unsafe { libc::syscall(call, 0, libc::SCHED_FIFO, &10i32) });
        assert_eq!(get(0), Ok(10));
        assert_eq!(set(0, 30), Ok(0));
        assert_eq!(get(0), Ok(30));
        let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
        assert_eq!(must(policy), libc::SCHED_FIFO.into(), "the policy stays");
        for bad in [0, 100, -1] {
            assert_eq!(set(0, bad), Err(libc::EINVAL), "{bad}");
        }
        assert_eq!((get(-1), set(-1, 1)), (Err(libc::EINVAL), Err(libc::EINVAL)));
        assert_eq!((get(NOBODYS_ID), set(NOBODYS_ID, 1)), (Err(libc::ESRCH), Err(libc::ESRCH)));
        assert_eq!(
            check(unsafe { libc::syscall(libc::SYS_sched_getparam, 0, 0usize) }),
            Err(libc::EINVAL)
        );
        let parent = std::process::id() as i32;
        as_user(NOBODY, &[], || {
            assert_eq!(set(0, 20), Ok(0), "downwards everybody may");
            assert_eq!(set(0, 40), Err(libc::EPERM));
            let policy = |policy: i32, priority: i32| {
                check(unsafe { libc::syscall(call, 0, policy, &priority) })
            };
            assert_eq!(policy(libc::SCHED_RR, 20), Err(libc::EPERM), "another policy");
            assert_eq!(policy(libc::SCHED_IDLE, 0), Ok(0));
            assert_eq!(
                policy(libc::SCHED_OTHER, 0),
                Err(libc::EPERM),
                "as from a nice value of 20"
            );
            assert_eq!(policy(libc::SCHED_FIFO, 1), Err(libc::EPERM));
            assert_eq!(set(parent, 1), Err(libc::EPERM));
            assert_eq!(get(parent), Ok(30));
        });
    });
}

#[test]
fn the_interval_of_a_policy_is_told() {
    isolated(|| {
        let interval = |id: i32| {
            let mut time: libc::timespec = unsafe { zeroed() };
            let call = libc::SYS_sched_rr_get_interval;
            check(unsafe { libc::syscall(call, id, &mut time) })
                .map(|_| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
        };
        assert!(interval(0).unwrap() < 1_000_000_000, "a slice of who is fair, or none");
        let policy = |policy: i32| {
            must(unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &10i32) })
        };
        policy(libc::SCHED_FIFO);
        assert_eq!(interval(0), Ok(0), "there is no end to it");
        policy(libc::SCHED_RR);
        let slice = interval(0).unwrap();
        assert!((1_000_000..=1_000_000_000).contains(&slice), "{slice}");
        assert_eq!(interval(-1), Err(libc::EINVAL));
        assert_eq!(interval(NOBODYS_ID), Err(libc::ESRCH));
    });
}

/// Binds the caller to `processor`, and checks that it runs there.
fn bind(processor: usize) {
    let mask = 1u64 << processor;
    let call = libc::SYS_sched_setaffinity;
    must(unsafe { libc::syscall(call, 0, size_of_val(&mask), &mask) });
    let (mut told, mut node) = (u32::MAX, u32::MAX);
    must(unsafe { libc::syscall(libc::SYS_getcpu, &mut told, &mut node, 0usize) });
    assert_eq!((told as usize, node), (processor, 0));
}

#[test]
fn getcpu_tells_the_processor_one_is_bound_to() {
    isolated(|| {
        (0..std::thread::available_parallelism().unwrap().get()).for_each(bind);
        must(unsafe { libc::syscall(libc::SYS_getcpu, 0usize, 0usize, 0usize) });
        let lost = unsafe { libc::syscall(libc::SYS_getcpu, 8usize, 0usize, 0usize) };
        assert_eq!(check(lost), Err(libc::EFAULT));
    });
}

#[test]
fn a_new_process_binds_itself_while_its_creator_returns() {
    let processors = std::thread::available_parallelism().unwrap().get();
    for _ in 0..CHILDREN {
        isolated(|| (0..processors).cycle().take(4 * processors).for_each(bind));
    }
}

/// Returns the locked memory in KiB.
fn locked() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn reserve(pages: usize) -> *mut libc::c_void {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let at = unsafe { libc::mmap(null_mut(), pages * PAGE, protection, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    at
}

fn is_resident(at: *mut libc::c_void) -> bool {
    let mut state = 0u8;
    must(unsafe { libc::mincore(at, PAGE, &mut state) });
    state & 1 != 0
}

#[test]
fn memory_is_locked_at_once_or_as_it_is_touched_and_let_go() {
    isolated(|| {
        let at = reserve(64);
        assert_eq!(locked(), 0);
        let mlock2 = |pages: usize, flags: i32| {
            check(unsafe { libc::syscall(libc::SYS_mlock2, at, pages * PAGE, flags) })
        };
        const MLOCK_ONFAULT: i32 = 1;
        assert_eq!(mlock2(64, MLOCK_ONFAULT), Ok(0));
        assert_eq!(locked(), 256);
        assert!(!is_resident(at), "it comes as it is touched");
        assert_eq!(mlock2(16, 0), Ok(0));
        assert!(is_resident(at.wrapping_byte_add(15 * PAGE)));
        assert!(!is_resident(at.wrapping_byte_add(63 * PAGE)));
        assert_eq!(locked(), 256);
        assert_eq!(mlock2(1, 2), Err(libc::EINVAL));
        let munlock =
            |pages: usize| check(unsafe { libc::syscall(libc::SYS_munlock, at, pages * PAGE) });
        assert_eq!(munlock(32), Ok(0));
        assert_eq!(locked(), 128);
        must(unsafe { libc::munmap(at.wrapping_byte_add(32 * PAGE), 32 * PAGE) });
        assert_eq!(locked(), 0);
        assert_eq!(munlock(64), Err(libc::ENOMEM), "half of it is no memory");
        assert_eq!(mlock2(64, 0), Err(libc::ENOMEM));
    });
}

#[test]
fn all_memory_is_locked_what_is_and_what_comes() {
    isolated(|| {
        let mlockall = |flags: i32| check(unsafe { libc::syscall(libc::SYS_mlockall, flags) });
        let munlockall = || check(unsafe { libc::syscall(libc::SYS_munlockall) });
        assert_eq!(mlockall(0), Err(libc::EINVAL));
        assert_eq!(mlockall(8), Err(libc::EINVAL));
        assert_eq!(mlockall(libc::MCL_ONFAULT), Err(libc::EINVAL), "of what?");
        let at = reserve(16);
        assert_eq!(mlockall(libc::MCL_CURRENT), Ok(0));
        assert!(locked() >= 64 && is_resident(at.wrapping_byte_add(15 * PAGE)));
        let later = reserve(16);
        assert!(!is_resident(later));
        assert_eq!(munlockall(), Ok(0));
        assert_eq!(locked(), 0);
        assert_eq!(mlockall(libc::MCL_FUTURE), Ok(0));
        assert_eq!(locked(), 0);
        let later = reserve(16);
        assert_eq!(locked(), 64);
        assert!(is_resident(later.wrapping_byte_add(15 * PAGE)));
        assert_eq!(munlockall(), Ok(0));
        reserve(16);
        assert_eq!(locked(), 0, "what comes is as before");
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        must(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &none) });
        as_user(NOBODY, &[], || {
            assert_eq!(mlockall(libc::MCL_CURRENT), Err(libc::EPERM));
            assert_eq!(munlockall(), Ok(0));
        });
    });
}

#[test]
fn the_machine_has_names_that_few_may_change() {
    isolated(|| {
        // On Linux as root, the test has a UTS namespace of its own, and only the names in it change.
        unsafe { libc::unshare(libc::CLONE_NEWUTS) };
        let names = || {
            let mut names: libc::utsname = unsafe { zeroed() };
            must(unsafe { libc::uname(&mut names) });
            let text = |of: &[libc::c_char]| {
                unsafe { CStr::from_ptr(of.as_ptr()) }.to_str().unwrap().to_string()
            };
            [text(&names.nodename), text(&names.domainname)]
        };
        let set = |call: i64, name: &str, length: i32| {
            check(unsafe { libc::syscall(call, name.as_ptr(), length) })
        };
        let (host, domain) = (libc::SYS_sethostname, libc::SYS_setdomainname);
        let before = names();
        assert_eq!(set(host, "skerry-test-and-more", 11), Ok(0));
        assert_eq!(set(domain, "example.org", 11), Ok(0));
        assert_eq!(names(), ["skerry-test", "example.org"]);
        let told = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!(told, "skerry-test\n");
        let long = "x".repeat(65);
        for call in [host, domain] {
            assert_eq!(set(call, &long, 65), Err(libc::EINVAL));
            assert_eq!(set(call, &long, -1), Err(libc::EINVAL));
            assert_eq!(set(call, &long, 64), Ok(0));
        }
        assert_eq!(names(), [&long[..64], &long[..64]]);
        as_user(NOBODY, &[], || {
            assert_eq!(set(host, "x", 1), Err(libc::EPERM));
            assert_eq!(set(domain, "x", 1), Err(libc::EPERM));
        });
        assert_eq!(set(host, &before[0], before[0].len() as i32), Ok(0));
        assert_eq!(set(domain, &before[1], before[1].len() as i32), Ok(0));
        assert_eq!(names(), before);
    });
}

#[test]
fn a_list_of_robust_futexes_reads_back() {
    isolated(|| {
        let get = |id: i32| {
            let (mut head, mut length) = (0usize, 0usize);
            let call = libc::SYS_get_robust_list;
            check(unsafe { libc::syscall(call, id, &mut head, &mut length) })
                .map(|_| (head, length))
        };
        let mut head = [0usize; 3];
        head[0] = head.as_ptr().addr();
        let set = |length: usize| {
            check(unsafe { libc::syscall(libc::SYS_set_robust_list, head.as_ptr(), length) })
        };
        assert_eq!(set(16), Err(libc::EINVAL));
        assert_eq!(set(24), Ok(0));
        let own = Ok((head.as_ptr().addr(), 24));
        assert_eq!(get(0), own);
        assert_eq!(get(std::process::id() as i32), own);
        assert_eq!(get(NOBODYS_ID), Err(libc::ESRCH));
        let parent = std::process::id() as i32;
        let child = fork(|| {
            assert_eq!(get(0), Ok((0, 24)), "a child's list is its own");
            assert_eq!(get(parent), own);
        });
        assert_eq!(wait(child), Ended::Exited(0));
        as_user(NOBODY, &[], || assert_eq!(get(parent), Err(libc::EPERM)));
        assert_eq!(unsafe { libc::syscall(libc::SYS_set_robust_list, null::<u8>(), 24usize) }, 0);
    });
}

#[test]
fn reading_ahead_and_writing_everything_back_can_be_asked_for() {
    isolated(|| {
        let scratch = Scratch::on_disk();
        let file = scratch.file("file", &[1; 100_000]);
        let ahead = |fd: i32, at: i64, length: usize| {
            check(unsafe { libc::syscall(libc::SYS_readahead, fd, at, length) })
        };
        let fd = open(&file, libc::O_RDONLY, 0).unwrap();
        assert_eq!(ahead(fd, 0, 100_000), Ok(0));
        assert_eq!(ahead(fd, 1 << 40, 100_000), Ok(0), "there is nothing");
        assert_eq!(ahead(-1, 0, 1), Err(libc::EBADF));
        let writing = open(&file, libc::O_WRONLY, 0).unwrap();
        assert_eq!(ahead(writing, 0, 1), Err(libc::EBADF));
        assert_eq!(ahead(pipe().0, 0, 1), Err(libc::EINVAL));
        let advise = |fd: i32, at: i64, length: i64, advice: i32| {
            check(unsafe { libc::syscall(libc::SYS_fadvise64, fd, at, length, advice) })
        };
        for advice in 0..6 {
            assert_eq!(advise(fd, 0, 0, advice), Ok(0), "{advice}");
        }
        assert_eq!(advise(fd, 0, 0, 6), Err(libc::EINVAL));
        assert_eq!(advise(fd, 0, -1, libc::POSIX_FADV_NORMAL), Err(libc::EINVAL));
        assert_eq!(advise(-1, 0, 0, libc::POSIX_FADV_NORMAL), Err(libc::EBADF));
        assert_eq!(advise(pipe().0, 0, 0, libc::POSIX_FADV_NORMAL), Err(libc::ESPIPE));
        write(writing, b"written").unwrap();
        assert_eq!(unsafe { libc::syscall(libc::SYS_sync) }, 0);
        assert_eq!(&fs::read(&file).unwrap()[..7], b"written");
    });
}

/// Returns the pending signals, as a mask of this many bytes.
fn pending(bytes: usize) -> Result<u64, i32> {
    let mut mask = 0u64;
    check(unsafe { libc::syscall(libc::SYS_rt_sigpending, &mut mask, bytes) }).map(|_| mask)
}

#[test]
fn pselect6_waits_with_a_mask_of_its_own_and_leaves_what_is_left() {
    isolated(|| {
        let (reader, writer) = pipe();
        let select = |read: &mut u64, time: Option<&mut libc::timespec>, mask: Option<&u64>| {
            let mask = [mask.map_or(0, |mask| std::ptr::from_ref(mask).addr()), 8];
            let time = time.map_or(null_mut(), std::ptr::from_mut);
            let call = libc::SYS_pselect6;
            check(unsafe { libc::syscall(call, reader + 1, read, 0usize, 0usize, time, &mask) })
        };
        let (none, bit) = (0u64, 1u64 << reader);
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 5_000_000 };
        let mut set = bit;
        assert_eq!(select(&mut set, Some(&mut time), None), Ok(0));
        assert_eq!((set, time.tv_sec, time.tv_nsec), (0, 0, 0), "no time is left");
        write(writer, b"x").unwrap();
        let mut time = libc::timespec { tv_sec: 500, tv_nsec: 0 };
        let mut set = bit;
        assert_eq!(select(&mut set, Some(&mut time), Some(&none)), Ok(1));
        assert!(set == bit && time.tv_sec >= 400, "{} s are left", time.tv_sec);
        read(reader, 1).unwrap();
        // A signal that is blocked outside ends it.
        handle(libc::SIGUSR1, nothing, libc::SA_RESTART);
        let blocked = 1u64 << (libc::SIGUSR1 - 1);
        must(unsafe {
            libc::sigprocmask(libc::SIG_BLOCK, (&raw const blocked).cast(), null_mut())
        });
        must(unsafe { libc::raise(libc::SIGUSR1) });
        assert_eq!(pending(8), Ok(blocked));
        assert_eq!(pending(4), Ok(blocked), "half of it, as small signals are in that");
        assert_eq!(pending(9), Err(libc::EINVAL));
        let mut set = bit;
        assert_eq!(select(&mut set, None, Some(&none)), Err(libc::EINTR));
        assert_eq!(pending(8), Ok(0), "it was delivered");
        let mut odd = libc::timespec { tv_sec: 0, tv_nsec: -1 };
        assert_eq!(select(&mut set, Some(&mut odd), None), Err(libc::EINVAL));
        let short = [std::ptr::from_ref(&none).addr(), 4];
        let call = libc::SYS_pselect6;
        let result = unsafe { libc::syscall(call, 0, 0usize, 0usize, 0usize, 0usize, &short) };
        assert_eq!(check(result), Err(libc::EINVAL), "a mask is eight bytes");
    });
}

#[test]
fn a_signal_queued_for_a_thread_brings_what_it_was_given() {
    isolated(|| {
        let process = std::process::id() as i32;
        let queue = |process: i32, thread: i32, code: i32| {
            // si_signo, si_errno, si_code, then the sender and the value.
            let mut info = [0u32; 32];
            (info[0], info[2], info[6]) = (libc::SIGUSR1 as u32, code as u32, 1234);
            let call = libc::SYS_rt_tgsigqueueinfo;
            check(unsafe { libc::syscall(call, process, thread, libc::SIGUSR1, &info) })
        };
        let mut set: libc::sigset_t = unsafe { zeroed() };
        unsafe { libc::sigaddset(&mut set, libc::SIGUSR1) };
        must(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &set, null_mut()) });
        const SI_QUEUE: i32 = -1;
        assert_eq!(queue(process, process, SI_QUEUE), Ok(0));
        let mut info: libc::siginfo_t = unsafe { zeroed() };
        let now: libc::timespec = unsafe { zeroed() };
        must(unsafe { libc::sigtimedwait(&set, &mut info, &now) });
        assert_eq!((info.si_code, unsafe { info.si_value() }.sival_ptr.addr()), (SI_QUEUE, 1234));
        assert_eq!(queue(process, process, libc::SI_USER), Ok(0), "to oneself all may be said");
        must(unsafe { libc::sigtimedwait(&set, &mut info, &now) });
        assert_eq!(queue(process, NOBODYS_ID, SI_QUEUE), Err(libc::ESRCH));
        assert_eq!(queue(0, process, SI_QUEUE), Err(libc::EINVAL));
        let child = fork(|| {
            loop {
                unsafe { libc::pause() };
            }
        });
        assert_eq!(
            queue(child, child, libc::SI_USER),
            Err(libc::EPERM),
            "that is the kernel's to say"
        );
        assert_eq!(queue(process, child, SI_QUEUE), Err(libc::ESRCH), "no thread of that process");
        must(unsafe { libc::kill(child, libc::SIGKILL) });
        assert_eq!(wait(child), Ended::Signalled(libc::SIGKILL));
    });
}
