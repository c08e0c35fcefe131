//! Files that are events: timerfd, signalfd and their reports in `/proc/self/fdinfo`.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use std::time::{Duration, Instant};

const MS: i64 = 1_000_000;

fn timerfd(clock: i32, flags: i32) -> i32 {
    must(unsafe { libc::timerfd_create(clock, flags) }) as i32
}

fn spec(value_ns: i64, interval_ns: i64) -> libc::itimerspec {
    let time = |ns: i64| libc::timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 };
    libc::itimerspec { it_value: time(value_ns), it_interval: time(interval_ns) }
}

fn settime(fd: i32, flags: i32, value: libc::itimerspec) -> Result<libc::itimerspec, i32> {
    let mut old = spec(0, 0);
    check(unsafe { libc::timerfd_settime(fd, flags, &value, &mut old) })?;
    Ok(old)
}

fn gettime(fd: i32) -> libc::itimerspec {
    let mut now = spec(0, 0);
    must(unsafe { libc::timerfd_gettime(fd, &mut now) });
    now
}

fn count(fd: i32) -> Result<u64, i32> {
    read(fd, 8).map(|bytes| u64::from_ne_bytes(bytes.try_into().unwrap()))
}

fn is_readable(fd: i32, timeout_ms: i32) -> bool {
    let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    must(unsafe { libc::poll(&mut entry, 1, timeout_ms) }) == 1
}

fn sleep_ms(count: u64) {
    std::thread::sleep(Duration::from_millis(count));
}

#[test]
fn timers_expire_once_or_again_and_again() {
    isolated(|| {
        let once = timerfd(libc::CLOCK_MONOTONIC, 0);
        let start = Instant::now();
        settime(once, 0, spec(30 * MS, 0)).unwrap();
        assert_eq!(count(once), Ok(1));
        assert!(start.elapsed() >= Duration::from_millis(30));
        let now = gettime(once);
        assert_eq!((now.it_value.tv_sec, now.it_value.tv_nsec), (0, 0));
        let again = timerfd(libc::CLOCK_BOOTTIME, libc::TFD_NONBLOCK);
        settime(again, 0, spec(10 * MS, 10 * MS)).unwrap();
        sleep_ms(55);
        let seen = count(again).unwrap();
        assert!(seen >= 5, "{seen} expiries");
        assert_eq!(count(again), Err(libc::EAGAIN));
    });
}

#[test]
fn timers_tell_what_is_left_and_what_was_set() {
    isolated(|| {
        let fd = timerfd(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK);
        settime(fd, 0, spec(100_000 * MS, 7_000 * MS)).unwrap();
        let now = gettime(fd);
        assert_eq!(now.it_interval.tv_sec, 7);
        assert!((98..=100).contains(&now.it_value.tv_sec));
        let old = settime(fd, 0, spec(0, 0)).unwrap();
        assert_eq!(old.it_interval.tv_sec, 7);
        assert_eq!(gettime(fd).it_value.tv_sec, 0);
        assert!(!is_readable(fd, 0));
    });
}

#[test]
fn absolute_times_that_have_passed_expire_at_once() {
    isolated(|| {
        for clock in [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC] {
            let fd = timerfd(clock, libc::TFD_NONBLOCK);
            settime(fd, libc::TFD_TIMER_ABSTIME, spec(1, 0)).unwrap();
            assert_eq!(count(fd), Ok(1));
            let soon = clock_ns(clock) as i64 + 20 * MS;
            settime(fd, libc::TFD_TIMER_ABSTIME, spec(soon, 0)).unwrap();
            assert_eq!(count(fd), Err(libc::EAGAIN));
            assert!(is_readable(fd, 1000));
            assert!(clock_ns(clock) as i64 >= soon);
        }
    });
}

#[test]
fn setting_a_timer_forgets_expiries_not_read() {
    isolated(|| {
        let fd = timerfd(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK);
        settime(fd, 0, spec(1, 0)).unwrap();
        assert!(is_readable(fd, 1000));
        settime(fd, 0, spec(1_000_000 * MS, 0)).unwrap();
        assert!(!is_readable(fd, 0));
        assert_eq!(count(fd), Err(libc::EAGAIN));
    });
}

#[test]
fn timerfd_refuses_what_makes_no_sense() {
    isolated(|| {
        let create = |clock, flags| check(unsafe { libc::timerfd_create(clock, flags) });
        assert_eq!(create(libc::CLOCK_PROCESS_CPUTIME_ID, 0), Err(libc::EINVAL));
        assert_eq!(create(libc::CLOCK_MONOTONIC, 1), Err(libc::EINVAL));
        let fd = timerfd(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC);
        assert_eq!(must(unsafe { libc::fcntl(fd, libc::F_GETFD) }), 1);
        assert_eq!(settime(fd, 8, spec(1, 0)).map(|_| ()), Err(libc::EINVAL));
        let mut wrong = spec(1, 0);
        wrong.it_value.tv_nsec = 1_000_000_000;
        assert_eq!(settime(fd, 0, wrong).map(|_| ()), Err(libc::EINVAL));
        let event = must(unsafe { libc::eventfd(0, 0) }) as i32;
        assert_eq!(settime(event, 0, spec(1, 0)).map(|_| ()), Err(libc::EINVAL));
        settime(fd, 0, spec(1, 0)).unwrap();
        assert_eq!(read(fd, 7), Err(libc::EINVAL));
        assert_eq!(write(fd, b"12345678"), Err(libc::EINVAL));
    });
}

#[test]
fn a_watched_timer_gives_one_edge_a_read() {
    isolated(|| {
        let fd = timerfd(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK);
        let epoll = must(unsafe { libc::epoll_create1(0) }) as i32;
        let mut event =
            libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: 1 };
        must(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &mut event) });
        settime(fd, 0, spec(10 * MS, 10 * MS)).unwrap();
        let mut wait = |ms| must(unsafe { libc::epoll_wait(epoll, &mut event, 1, ms) });
        assert_eq!(wait(1000), 1);
        assert_eq!(wait(60), 0);
        assert!(count(fd).unwrap() >= 5);
        assert_eq!(wait(1000), 1);
    });
}

#[test]
fn timers_show_themselves_in_fdinfo() {
    isolated(|| {
        let fd = timerfd(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK);
        settime(fd, 0, spec(100_000 * MS, 3_000 * MS)).unwrap();
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap();
        let find = |name: &str| text.lines().find(|line| line.starts_with(name)).map(str::to_owned);
        assert_eq!(find("pos:").as_deref(), Some("pos:\t0"));
        assert_eq!(find("flags:").as_deref(), Some("flags:\t04002"));
        assert_eq!(find("clockid:").as_deref(), Some("clockid: 1"));
        assert_eq!(find("ticks:").as_deref(), Some("ticks: 0"));
        assert_eq!(find("it_interval:").as_deref(), Some("it_interval: (3, 0)"));
        let name = std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap();
        assert_eq!(name.to_str(), Some("anon_inode:[timerfd]"));
    });
}

/// Blocks `signals` and opens a file that takes them.
fn signalfd(signals: &[i32], flags: i32) -> i32 {
    let set = set_of(signals);
    must(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) });
    must(unsafe { libc::signalfd(-1, &set, flags) }) as i32
}

fn set_of(signals: &[i32]) -> libc::sigset_t {
    let mut set: libc::sigset_t = unsafe { zeroed() };
    unsafe { libc::sigemptyset(&mut set) };
    for signal in signals {
        unsafe { libc::sigaddset(&mut set, *signal) };
    }
    set
}

fn records(fd: i32, most: usize) -> Result<Vec<libc::signalfd_siginfo>, i32> {
    const BYTES: usize = std::mem::size_of::<libc::signalfd_siginfo>();
    let bytes = read(fd, most * BYTES)?;
    assert_eq!(bytes.len() % BYTES, 0);
    let record =
        |bytes: &[u8]| unsafe { bytes.as_ptr().cast::<libc::signalfd_siginfo>().read_unaligned() };
    Ok(bytes.chunks(BYTES).map(record).collect())
}

#[test]
fn signals_can_be_read_in_their_order() {
    isolated(|| {
        let low = libc::SIGRTMIN();
        let fd = signalfd(&[libc::SIGUSR1, libc::SIGTERM, low], libc::SFD_NONBLOCK);
        assert_eq!(records(fd, 1).map(|_| ()), Err(libc::EAGAIN));
        let own = unsafe { libc::getpid() };
        for value in [5, 6] {
            let value = libc::sigval { sival_ptr: value as *mut libc::c_void };
            must(unsafe { libc::sigqueue(own, low, value) });
        }
        must(unsafe { libc::kill(own, libc::SIGTERM) });
        must(unsafe { libc::kill(own, libc::SIGUSR1) });
        assert!(is_readable(fd, 0));
        let all = records(fd, 8).unwrap();
        let seen: Vec<_> = all.iter().map(|one| (one.ssi_signo as i32, one.ssi_int)).collect();
        assert_eq!(seen, [(libc::SIGUSR1, 0), (libc::SIGTERM, 0), (low, 5), (low, 6)]);
        assert_eq!(all[0].ssi_pid as i32, own);
        assert_eq!(all[2].ssi_code, libc::SI_QUEUE);
        assert!(!is_readable(fd, 0));
    });
}

#[test]
fn a_child_that_ends_is_told_of_by_a_signal_file() {
    isolated(|| {
        let fd = signalfd(&[libc::SIGCHLD], libc::SFD_CLOEXEC);
        let child = fork(|| unsafe { libc::_exit(7) });
        let told = records(fd, 1).unwrap()[0];
        assert_eq!(told.ssi_signo as i32, libc::SIGCHLD);
        assert_eq!(
            (told.ssi_code, told.ssi_pid as i32, told.ssi_status),
            (libc::CLD_EXITED, child, 7)
        );
        assert_eq!(wait(child), Ended::Exited(7));
    });
}

#[test]
fn a_signal_wakes_who_waits_for_a_signal_file() {
    isolated(|| {
        let fd = signalfd(&[libc::SIGUSR2], 0);
        let own = unsafe { libc::getpid() };
        let child = fork(|| {
            sleep_ms(30);
            must(unsafe { libc::kill(own, libc::SIGUSR2) });
        });
        let epoll = must(unsafe { libc::epoll_create1(0) }) as i32;
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 9 };
        must(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &mut event) });
        assert_eq!(must(unsafe { libc::epoll_wait(epoll, &mut event, 1, 5000) }), 1);
        assert_eq!(records(fd, 1).unwrap()[0].ssi_signo as i32, libc::SIGUSR2);
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn a_signal_file_takes_another_set() {
    isolated(|| {
        let fd = signalfd(&[libc::SIGUSR1, libc::SIGUSR2], libc::SFD_NONBLOCK);
        let other = set_of(&[libc::SIGUSR2, libc::SIGKILL]);
        assert_eq!(must(unsafe { libc::signalfd(fd, &other, 0) }) as i32, fd);
        let own = unsafe { libc::getpid() };
        must(unsafe { libc::kill(own, libc::SIGUSR1) });
        assert_eq!(records(fd, 1).map(|_| ()), Err(libc::EAGAIN));
        must(unsafe { libc::kill(own, libc::SIGUSR2) });
        assert_eq!(records(fd, 4).unwrap().len(), 1);
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap();
        assert!(text.contains("sigmask:\t0000000000000800\n"), "{text}");
    });
}

#[test]
fn signalfd_refuses_what_makes_no_sense() {
    isolated(|| {
        let set = set_of(&[libc::SIGUSR1]);
        let call = |fd, flags| check(unsafe { libc::signalfd(fd, &set, flags) });
        assert_eq!(call(-1, 1), Err(libc::EINVAL));
        assert_eq!(call(99, 0), Err(libc::EBADF));
        assert_eq!(call(pipe().0, 0), Err(libc::EINVAL));
        let fd = signalfd(&[libc::SIGUSR1], 0);
        assert_eq!(read(fd, 127), Err(libc::EINVAL));
        let raw = unsafe { libc::syscall(libc::SYS_signalfd4, -1, &set, 4usize, 0) };
        assert_eq!(check(raw), Err(libc::EINVAL));
    });
}

#[test]
fn event_files_have_no_type() {
    isolated(|| {
        let fd = must(unsafe { libc::eventfd(0, 0) }) as i32;
        let mut stat: libc::stat = unsafe { zeroed() };
        must(unsafe { libc::fstat(fd, &mut stat) });
        assert_eq!(stat.st_mode, 0o600);
        assert_eq!(must(unsafe { libc::fcntl(fd, libc::F_GETFL) }), i64::from(libc::O_RDWR));
    });
}

#[test]
fn event_counters_show_themselves_in_fdinfo() {
    isolated(|| {
        let fd = must(unsafe { libc::eventfd(17, libc::EFD_SEMAPHORE) }) as i32;
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap();
        assert!(text.contains("eventfd-count:               11\n"), "{text}");
        assert!(text.contains("eventfd-semaphore: 1\n"), "{text}");
    });
}
