//! Waiting: epoll, event counters, masks of ppoll, record locks and flock, pipe sizes.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use std::time::{Duration, Instant};

fn eventfd(count: u32, flags: i32) -> i32 {
    // SAFETY: plain numbers.
    must(unsafe { libc::eventfd(count, flags) }) as i32
}

fn epoll() -> i32 {
    // SAFETY: plain numbers.
    must(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }) as i32
}

fn control(epoll: i32, operation: i32, fd: i32, events: i32) -> Result<i64, i32> {
    let mut event = libc::epoll_event { events: events as u32, u64: fd as u64 };
    // SAFETY: `event` outlives the call.
    check(unsafe { libc::epoll_ctl(epoll, operation, fd, &mut event) })
}

fn ready(epoll: i32, timeout_ms: i32) -> Vec<(i32, u32)> {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 8];
    // SAFETY: `events` has room for eight.
    let count = must(unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), 8, timeout_ms) });
    events[..count as usize].iter().map(|event| (event.u64 as i32, event.events)).collect()
}

#[test]
fn epoll_reports_levels_until_they_are_gone() {
    isolated(|| {
        let (reader, writer) = pipe();
        let epoll = epoll();
        control(epoll, libc::EPOLL_CTL_ADD, reader, libc::EPOLLIN).unwrap();
        assert!(ready(epoll, 0).is_empty());
        write(writer, b"x").unwrap();
        assert_eq!(ready(epoll, -1), [(reader, libc::EPOLLIN as u32)]);
        assert_eq!(ready(epoll, -1), [(reader, libc::EPOLLIN as u32)]);
        read(reader, 1).unwrap();
        assert!(ready(epoll, 0).is_empty());
        close(writer);
        assert_eq!(ready(epoll, -1), [(reader, libc::EPOLLHUP as u32)]);
    });
}

#[test]
fn epoll_reports_edges_once() {
    isolated(|| {
        let (reader, writer) = pipe();
        let epoll = epoll();
        control(epoll, libc::EPOLL_CTL_ADD, reader, libc::EPOLLIN | libc::EPOLLET).unwrap();
        write(writer, b"x").unwrap();
        assert_eq!(ready(epoll, -1).len(), 1);
        assert!(ready(epoll, 0).is_empty());
        write(writer, b"y").unwrap();
        assert_eq!(ready(epoll, -1).len(), 1);
    });
}

#[test]
fn epoll_one_shots_are_armed_again_by_mod() {
    isolated(|| {
        let event = eventfd(1, 0);
        let epoll = epoll();
        let once = libc::EPOLLIN | libc::EPOLLONESHOT;
        control(epoll, libc::EPOLL_CTL_ADD, event, once).unwrap();
        assert_eq!(ready(epoll, -1).len(), 1);
        assert!(ready(epoll, 0).is_empty());
        control(epoll, libc::EPOLL_CTL_MOD, event, once).unwrap();
        assert_eq!(ready(epoll, -1).len(), 1);
    });
}

#[test]
fn epoll_remembers_a_file_added_without_events() {
    isolated(|| {
        for bare in [0, libc::EPOLLET, libc::EPOLLONESHOT] {
            let (reader, writer) = pipe();
            let epoll = epoll();
            control(epoll, libc::EPOLL_CTL_ADD, reader, bare).unwrap();
            write(writer, b"x").unwrap();
            assert!(ready(epoll, 0).is_empty(), "{bare:x}: bytes are not asked for");
            control(epoll, libc::EPOLL_CTL_MOD, reader, bare | libc::EPOLLIN).unwrap();
            assert_eq!(ready(epoll, 1000), [(reader, libc::EPOLLIN as u32)], "{bare:x}");
            read(reader, 1).unwrap();
            assert!(ready(epoll, 0).is_empty());
            control(epoll, libc::EPOLL_CTL_MOD, reader, bare | libc::EPOLLIN).unwrap();
            let child = fork(|| {
                std::thread::sleep(Duration::from_millis(20));
                write(writer, b"y").unwrap();
            });
            assert_eq!(ready(epoll, 5000), [(reader, libc::EPOLLIN as u32)], "{bare:x}: later");
            assert_eq!(wait(child), Ended::Exited(0));
        }
    });
}

#[test]
fn epoll_reports_errors_and_hang_up_to_who_asked_for_nothing() {
    isolated(|| {
        for bare in [0, libc::EPOLLET, libc::EPOLLONESHOT] {
            let (reader, writer) = pipe();
            let (other_reader, other_writer) = pipe();
            let epoll = epoll();
            control(epoll, libc::EPOLL_CTL_ADD, reader, bare).unwrap();
            control(epoll, libc::EPOLL_CTL_ADD, other_writer, bare).unwrap();
            assert!(ready(epoll, 0).is_empty());
            close(writer);
            assert_eq!(ready(epoll, 1000), [(reader, libc::EPOLLHUP as u32)], "{bare:x}");
            control(epoll, libc::EPOLL_CTL_DEL, reader, 0).unwrap();
            close(other_reader);
            assert_eq!(ready(epoll, 1000), [(other_writer, libc::EPOLLERR as u32)], "{bare:x}");
            let again = ready(epoll, 0).len();
            assert_eq!(again, usize::from(bare == 0), "{bare:x}: only a level is told again");
        }
    });
}

#[test]
fn epoll_one_shots_that_fired_hear_of_nothing_until_mod() {
    isolated(|| {
        let (reader, writer) = pipe();
        let epoll = epoll();
        let once = libc::EPOLLIN | libc::EPOLLONESHOT;
        control(epoll, libc::EPOLL_CTL_ADD, reader, once).unwrap();
        write(writer, b"x").unwrap();
        assert_eq!(ready(epoll, -1), [(reader, libc::EPOLLIN as u32)]);
        write(writer, b"y").unwrap();
        close(writer);
        assert!(ready(epoll, 0).is_empty(), "not even of the hang-up");
        control(epoll, libc::EPOLL_CTL_MOD, reader, libc::EPOLLONESHOT).unwrap();
        assert_eq!(ready(epoll, -1), [(reader, libc::EPOLLHUP as u32)]);
        assert!(ready(epoll, 0).is_empty());
        control(epoll, libc::EPOLL_CTL_MOD, reader, once).unwrap();
        let both = (libc::EPOLLIN | libc::EPOLLHUP) as u32;
        assert_eq!(ready(epoll, -1), [(reader, both)]);
    });
}

#[test]
fn an_epoll_one_shot_is_told_to_one_of_many_waits() {
    isolated(|| {
        const WAITS: usize = 4;
        const ROUNDS: usize = 200;
        let (reader, writer) = pipe();
        let epoll = epoll();
        let once = libc::EPOLLIN | libc::EPOLLONESHOT;
        control(epoll, libc::EPOLL_CTL_ADD, reader, libc::EPOLLONESHOT).unwrap();
        let told = std::sync::atomic::AtomicUsize::new(0);
        let order = std::sync::atomic::Ordering::SeqCst;
        std::thread::scope(|scope| {
            for _ in 0..WAITS {
                scope.spawn(|| {
                    while told.load(order) < ROUNDS {
                        told.fetch_add(ready(epoll, 1).len(), order);
                    }
                });
            }
            for round in 1..=ROUNDS {
                write(writer, b"x").unwrap();
                control(epoll, libc::EPOLL_CTL_MOD, reader, once).unwrap();
                // Further changes while it is being read put it on the ready list again.
                write(writer, b"yz").unwrap();
                while told.load(order) < round {
                    std::thread::yield_now();
                }
                std::thread::yield_now();
                assert_eq!(told.load(order), round);
                read(reader, 3).unwrap();
            }
        });
    });
}

#[test]
fn poll_reports_errors_hang_up_and_bad_descriptors_to_who_asked_for_nothing() {
    isolated(|| {
        let (reader, writer) = pipe();
        let (other_reader, other_writer) = pipe();
        close(writer);
        close(other_reader);
        let entry = |fd| libc::pollfd { fd, events: 0, revents: 0x7fff };
        let mut entries = [entry(reader), entry(other_writer), entry(99), entry(-1)];
        assert_eq!(must(unsafe { libc::poll(entries.as_mut_ptr(), 4, 1000) }), 3);
        let found = entries.map(|entry| entry.revents);
        assert_eq!(found, [libc::POLLHUP, libc::POLLERR, libc::POLLNVAL, 0]);
    });
}

#[test]
fn an_epolls_descriptor_says_that_errors_are_of_interest() {
    isolated(|| {
        let (reader, _writer) = pipe();
        let epoll = epoll();
        control(epoll, libc::EPOLL_CTL_ADD, reader, libc::EPOLLIN | libc::EPOLLET).unwrap();
        let said = std::fs::read_to_string(format!("/proc/self/fdinfo/{epoll}")).unwrap();
        assert!(said.contains("events: 80000019"), "{said}");
    });
}

#[test]
fn epoll_refuses_what_makes_no_sense() {
    isolated(|| {
        let (reader, _writer) = pipe();
        let epoll = epoll();
        let file = open("/proc/self/exe", libc::O_RDONLY, 0).unwrap();
        assert_eq!(control(epoll, libc::EPOLL_CTL_ADD, file, libc::EPOLLIN), Err(libc::EPERM));
        assert_eq!(control(epoll, libc::EPOLL_CTL_ADD, 99, libc::EPOLLIN), Err(libc::EBADF));
        assert_eq!(control(epoll, libc::EPOLL_CTL_ADD, epoll, libc::EPOLLIN), Err(libc::EINVAL));
        assert_eq!(control(epoll, libc::EPOLL_CTL_MOD, reader, libc::EPOLLIN), Err(libc::ENOENT));
        control(epoll, libc::EPOLL_CTL_ADD, reader, libc::EPOLLIN).unwrap();
        assert_eq!(control(epoll, libc::EPOLL_CTL_ADD, reader, libc::EPOLLIN), Err(libc::EEXIST));
        assert_eq!(control(reader, libc::EPOLL_CTL_ADD, epoll, libc::EPOLLIN), Err(libc::EINVAL));
    });
}

#[test]
fn an_event_counter_adds_and_gives_its_sum() {
    isolated(|| {
        let event = eventfd(2, libc::EFD_NONBLOCK);
        write(event, &3u64.to_ne_bytes()).unwrap();
        assert_eq!(read(event, 8).unwrap(), 5u64.to_ne_bytes());
        assert_eq!(read(event, 8), Err(libc::EAGAIN));
        assert_eq!(read(event, 7), Err(libc::EINVAL));
        assert_eq!(write(event, &u64::MAX.to_ne_bytes()), Err(libc::EINVAL));
    });
}

#[test]
fn an_event_semaphore_gives_one_at_a_time() {
    isolated(|| {
        let event = eventfd(2, libc::EFD_NONBLOCK | libc::EFD_SEMAPHORE);
        assert_eq!(read(event, 8).unwrap(), 1u64.to_ne_bytes());
        assert_eq!(read(event, 8).unwrap(), 1u64.to_ne_bytes());
        assert_eq!(read(event, 8), Err(libc::EAGAIN));
    });
}

#[test]
fn ppoll_takes_a_signal_that_is_blocked_outside_it() {
    extern "C" fn nothing(_: i32) {}
    isolated(|| {
        let handler = nothing as extern "C" fn(i32);
        // SAFETY: zeroes are an empty set.
        let mut set: libc::sigset_t = unsafe { zeroed() };
        // SAFETY: the set and the handler outlive the calls.
        unsafe {
            libc::signal(libc::SIGUSR1, handler as libc::sighandler_t);
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGUSR1);
            libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            libc::raise(libc::SIGUSR1);
            libc::sigemptyset(&mut set);
        }
        let start = Instant::now();
        // SAFETY: no descriptors, no timeout, a set that lives.
        let result = unsafe { libc::ppoll(std::ptr::null_mut(), 0, std::ptr::null(), &set) };
        assert_eq!(check(result), Err(libc::EINTR));
        assert!(start.elapsed() < Duration::from_secs(5));
    });
}

fn lock(kind: i32, start: i64, length: i64) -> libc::flock {
    // SAFETY: zeroes are a lock of nothing.
    let mut lock: libc::flock = unsafe { zeroed() };
    lock.l_type = kind as i16;
    lock.l_whence = libc::SEEK_SET as i16;
    lock.l_start = start;
    lock.l_len = length;
    lock
}

fn set_lock(fd: i32, command: i32, mut lock: libc::flock) -> Result<libc::flock, i32> {
    // SAFETY: `lock` outlives the call.
    check(unsafe { libc::fcntl(fd, command, &mut lock) }).map(|_| lock)
}

#[test]
fn record_locks_keep_other_processes_out() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("a", b"0123456789");
        let fd = open(&path, libc::O_RDWR, 0).unwrap();
        set_lock(fd, libc::F_SETLK, lock(libc::F_WRLCK, 2, 3)).unwrap();
        // SAFETY: always succeeds.
        let owner = unsafe { libc::getpid() };
        isolated(|| {
            let found = set_lock(fd, libc::F_GETLK, lock(libc::F_RDLCK, 0, 0)).unwrap();
            assert_eq!((found.l_start, found.l_len, found.l_pid), (2, 3, owner));
            let taken = set_lock(fd, libc::F_SETLK, lock(libc::F_RDLCK, 4, 1));
            assert_eq!(taken.err(), Some(libc::EAGAIN));
            set_lock(fd, libc::F_SETLK, lock(libc::F_RDLCK, 5, 1)).unwrap();
        });
        close(open(&path, libc::O_RDONLY, 0).unwrap());
        isolated(|| {
            set_lock(fd, libc::F_SETLK, lock(libc::F_WRLCK, 0, 0)).unwrap();
        });
    });
}

#[test]
fn a_process_that_ends_lets_its_locks_go() {
    isolated(|| {
        let scratch = Scratch::new();
        let fd = open(scratch.file("a", b"0123456789"), libc::O_RDWR, 0).unwrap();
        let (reader, writer) = pipe();
        let child = fork(|| {
            set_lock(fd, libc::F_SETLK, lock(libc::F_WRLCK, 0, 0)).unwrap();
            write(writer, b"x").unwrap();
            std::thread::sleep(Duration::from_millis(50));
        });
        read(reader, 1).unwrap();
        set_lock(fd, libc::F_SETLKW, lock(libc::F_WRLCK, 0, 0)).unwrap();
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn flock_belongs_to_the_description() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("a", b"");
        let (one, other) =
            (open(&path, libc::O_RDONLY, 0).unwrap(), open(&path, libc::O_RDONLY, 0).unwrap());
        // SAFETY: plain numbers.
        let flock = |fd, how| check(unsafe { libc::flock(fd, how) });
        // SAFETY: plain numbers.
        let copy = must(unsafe { libc::dup(one) }) as i32;
        assert_eq!(flock(one, libc::LOCK_EX), Ok(0));
        assert_eq!(flock(copy, libc::LOCK_EX | libc::LOCK_NB), Ok(0));
        assert_eq!(flock(other, libc::LOCK_SH | libc::LOCK_NB), Err(libc::EAGAIN));
        close(one);
        assert_eq!(flock(other, libc::LOCK_SH | libc::LOCK_NB), Err(libc::EAGAIN));
        close(copy);
        assert_eq!(flock(other, libc::LOCK_EX | libc::LOCK_NB), Ok(0));
    });
}

#[test]
fn a_pipe_can_be_made_larger_and_smaller() {
    isolated(|| {
        let (_reader, writer) = pipe();
        // SAFETY: plain numbers.
        let size = || must(unsafe { libc::fcntl(writer, libc::F_GETPIPE_SZ) });
        // SAFETY: plain numbers.
        let resize = |bytes: i32| check(unsafe { libc::fcntl(writer, libc::F_SETPIPE_SZ, bytes) });
        assert_eq!(size(), 65536);
        assert_eq!(resize(5000), Ok(8192));
        assert_eq!(size(), 8192);
        write(writer, &[0; 8192]).unwrap();
        assert_eq!(resize(4096), Err(libc::EBUSY));
    });
}

#[test]
fn packets_keep_their_bounds() {
    isolated(|| {
        let mut ends = [0; 2];
        // SAFETY: `ends` has room for two descriptors.
        must(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_DIRECT) });
        write(ends[1], b"first").unwrap();
        write(ends[1], b"second").unwrap();
        assert_eq!(read(ends[0], 3).unwrap(), b"fir");
        assert_eq!(read(ends[0], 100).unwrap(), b"second");
    });
}

#[test]
fn opposite_dup2_calls_of_two_threads_lose_nothing() {
    isolated(|| {
        let one = open("/dev/null", libc::O_RDONLY, 0).unwrap();
        let other = open("/dev/zero", libc::O_RDONLY, 0).unwrap();
        // SAFETY: plain numbers.
        let swap = |from, to| {
            move || {
                for _ in 0..10_000 {
                    must(unsafe { libc::dup2(from, to) });
                }
            }
        };
        let threads = [std::thread::spawn(swap(one, other)), std::thread::spawn(swap(other, one))];
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(read(one, 1).is_ok() && read(other, 1).is_ok());
    });
}

#[test]
fn a_pipe_can_be_opened_again_through_proc() {
    isolated(|| {
        let (reader, writer) = pipe();
        let again = open(format!("/proc/self/fd/{writer}"), libc::O_WRONLY, 0).unwrap();
        write(again, b"through").unwrap();
        assert_eq!(read(reader, 100).unwrap(), b"through");
        let link = std::fs::read_link(format!("/proc/self/fd/{reader}")).unwrap();
        assert!(link.to_str().unwrap().starts_with("pipe:["));
    });
}

#[test]
fn mandatory_locks_of_flock_do_nothing() {
    isolated(|| {
        const MANDATORY: i32 = 32;
        let flock = |fd: i32, how: i32| check(unsafe { libc::flock(fd, how) });
        for how in [MANDATORY, MANDATORY | libc::LOCK_EX, MANDATORY | 64, MANDATORY | 3] {
            assert_eq!(flock(-1, how), Ok(0), "{how}: before the descriptor");
        }
        let scratch = Scratch::new();
        let path = scratch.file("f", b"");
        let (one, two) = (open(&path, libc::O_RDWR, 0).unwrap(), open(&path, 0, 0).unwrap());
        assert_eq!(flock(one, MANDATORY | libc::LOCK_EX), Ok(0));
        assert_eq!(flock(two, libc::LOCK_EX | libc::LOCK_NB), Ok(0), "nothing is locked");
        assert_eq!(flock(one, MANDATORY | libc::LOCK_EX), Ok(0));
        // For other operations the operation is checked before the descriptor.
        for how in [0, 3, 16, 64, libc::LOCK_NB] {
            assert_eq!(flock(-1, how), Err(libc::EINVAL), "{how}");
        }
        assert_eq!(flock(-1, libc::LOCK_UN), Err(libc::EBADF));
        let place = open(&path, libc::O_PATH, 0).unwrap();
        assert_eq!(flock(place, libc::LOCK_SH), Err(libc::EBADF));
    });
}
