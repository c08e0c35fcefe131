//! Timers of processes: timer_create(2) and related calls, intervals (setitimer(2)) and alarms; clocks that few may set.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    identity::{NOBODY, as_user},
    *,
};
use std::{
    ptr::{null, null_mut},
    sync::atomic::{AtomicU32, Ordering::SeqCst},
    thread::sleep,
    time::Duration,
};

const SECOND_NS: u64 = 1_000_000_000;
const MILLISECOND_NS: u64 = 1_000_000;
const SI_TIMER: i32 = -2;

fn spec(ns: u64) -> libc::timespec {
    libc::timespec { tv_sec: (ns / SECOND_NS) as i64, tv_nsec: (ns % SECOND_NS) as i64 }
}

fn ns(time: libc::timespec) -> u64 {
    time.tv_sec as u64 * SECOND_NS + time.tv_nsec as u64
}

/// Makes a timer that sends SIGUSR1 with the value 42, or nothing.
fn create(clock: i32, notify: i32, signal: i32) -> Result<i32, i32> {
    let mut event: libc::sigevent = unsafe { zeroed() };
    event.sigev_notify = notify;
    event.sigev_signo = signal;
    event.sigev_value.sival_ptr = std::ptr::without_provenance_mut(42);
    let mut id = -1;
    check(unsafe { libc::syscall(libc::SYS_timer_create, clock, &event, &mut id) }).map(|_| id)
}

/// Sets the timer to `first` nanoseconds and `interval` after that. Returns the time that was left before.
fn set(id: i32, flags: i32, first: u64, interval: u64) -> Result<u64, i32> {
    let new = libc::itimerspec { it_interval: spec(interval), it_value: spec(first) };
    set_to(id, flags, &new)
}

fn set_to(id: i32, flags: i32, new: &libc::itimerspec) -> Result<u64, i32> {
    let mut old: libc::itimerspec = unsafe { zeroed() };
    check(unsafe { libc::syscall(libc::SYS_timer_settime, id, flags, new, &mut old) })
        .map(|_| ns(old.it_value))
}

/// Returns the rest of its time, and its interval.
fn left(id: i32) -> Result<(u64, u64), i32> {
    let mut now: libc::itimerspec = unsafe { zeroed() };
    check(unsafe { libc::syscall(libc::SYS_timer_gettime, id, &mut now) })
        .map(|_| (ns(now.it_value), ns(now.it_interval)))
}

fn overrun(id: i32) -> Result<i64, i32> {
    check(unsafe { libc::syscall(libc::SYS_timer_getoverrun, id) })
}

fn delete(id: i32) -> Result<i64, i32> {
    check(unsafe { libc::syscall(libc::SYS_timer_delete, id) })
}

fn block(signal: i32) -> libc::sigset_t {
    let mut set: libc::sigset_t = unsafe { zeroed() };
    unsafe { libc::sigaddset(&mut set, signal) };
    must(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &set, null_mut()) });
    set
}

/// Takes a signal of `set` that comes within `within_ns`.
fn take(set: &libc::sigset_t, within_ns: u64) -> Result<libc::siginfo_t, i32> {
    let mut info: libc::siginfo_t = unsafe { zeroed() };
    check(unsafe { libc::sigtimedwait(set, &mut info, &spec(within_ns)) }).map(|_| info)
}

#[test]
fn a_timer_sends_its_signal_once_with_its_value() {
    isolated(|| {
        let signals = block(libc::SIGUSR1);
        let id = create(libc::CLOCK_MONOTONIC, libc::SIGEV_SIGNAL, libc::SIGUSR1).unwrap();
        assert_eq!(left(id), Ok((0, 0)), "it is not set yet");
        let start = clock_ns(libc::CLOCK_MONOTONIC);
        assert_eq!(set(id, 0, 30 * MILLISECOND_NS, 0), Ok(0));
        let (now, interval) = left(id).unwrap();
        assert!(now > 0 && now <= 30 * MILLISECOND_NS && interval == 0, "{now} {interval}");
        let info = take(&signals, 20 * SECOND_NS).unwrap();
        assert!(clock_ns(libc::CLOCK_MONOTONIC) - start >= 30 * MILLISECOND_NS);
        assert_eq!((info.si_signo, info.si_code), (libc::SIGUSR1, SI_TIMER));
        assert_eq!(unsafe { info.si_value() }.sival_ptr.addr(), 42);
        assert_eq!((left(id), overrun(id)), (Ok((0, 0)), Ok(0)));
        assert_eq!(take(&signals, 0).map(|_| ()), Err(libc::EAGAIN), "once");
        // Set to a past time it sends at once; set to 0 it is disarmed.
        assert_eq!(set(id, libc::TIMER_ABSTIME, start, 0), Ok(0));
        assert!(take(&signals, 20 * SECOND_NS).is_ok());
        assert_eq!(set(id, 0, 100 * SECOND_NS, 7), Ok(0));
        let before = set(id, 0, 0, 0).unwrap();
        assert!(before > 90 * SECOND_NS && before <= 100 * SECOND_NS, "{before}");
        assert_eq!(left(id).unwrap().0, 0);
        assert_eq!(delete(id), Ok(0));
    });
}

#[test]
fn what_a_repeated_timer_could_not_send_is_its_overrun() {
    isolated(|| {
        let signals = block(libc::SIGUSR1);
        let id = create(libc::CLOCK_MONOTONIC, libc::SIGEV_SIGNAL, libc::SIGUSR1).unwrap();
        let interval = 2 * MILLISECOND_NS;
        let start = clock_ns(libc::CLOCK_MONOTONIC);
        assert_eq!(set(id, 0, interval, interval), Ok(0));
        sleep(Duration::from_millis(50));
        take(&signals, 20 * SECOND_NS).unwrap();
        let passed = (clock_ns(libc::CLOCK_MONOTONIC) - start) / interval;
        let lost = overrun(id).unwrap() as u64;
        assert!(lost >= 20 && lost < passed, "{lost} of {passed}");
        let (now, again) = left(id).unwrap();
        assert!(now <= interval && again == interval, "{now} {again}");
        assert!(take(&signals, 20 * SECOND_NS).is_ok(), "it goes on");
        assert_eq!(delete(id), Ok(0));
        let _ = take(&signals, 0);
        assert_eq!(
            take(&signals, 10 * MILLISECOND_NS).map(|_| ()),
            Err(libc::EAGAIN),
            "it is gone"
        );
    });
}

#[test]
fn a_timer_may_count_down_in_silence_on_any_clock() {
    isolated(|| {
        for clock in [
            libc::CLOCK_REALTIME,
            libc::CLOCK_MONOTONIC,
            libc::CLOCK_BOOTTIME,
            libc::CLOCK_PROCESS_CPUTIME_ID,
            libc::CLOCK_THREAD_CPUTIME_ID,
        ] {
            let id = create(clock, libc::SIGEV_NONE, 0).unwrap();
            assert_eq!(set(id, 0, 500 * SECOND_NS, 3 * SECOND_NS), Ok(0), "{clock}");
            let (now, interval) = left(id).unwrap();
            assert!(now > 400 * SECOND_NS && now <= 500 * SECOND_NS, "{clock}: {now}");
            assert_eq!(interval, 3 * SECOND_NS, "{clock}");
            assert_eq!(delete(id), Ok(0), "{clock}");
        }
    });
}

#[test]
fn timers_that_make_no_sense_are_refused() {
    isolated(|| {
        let signal = libc::SIGEV_SIGNAL;
        assert_eq!(create(1000, signal, libc::SIGUSR1), Err(libc::EINVAL));
        // These clocks can only be read.
        let now: libc::timespec = unsafe { zeroed() };
        let sleep = |clock: i32| {
            let call = libc::SYS_clock_nanosleep;
            check(unsafe { libc::syscall(call, clock, 0, &now, null_mut::<u8>()) })
        };
        for clock in
            [libc::CLOCK_MONOTONIC_RAW, libc::CLOCK_MONOTONIC_COARSE, libc::CLOCK_REALTIME_COARSE]
        {
            assert_eq!(create(clock, signal, libc::SIGUSR1), Err(libc::EOPNOTSUPP), "{clock}");
            assert_eq!(sleep(clock), Err(libc::EOPNOTSUPP), "{clock}");
        }
        assert_eq!(sleep(libc::CLOCK_THREAD_CPUTIME_ID), Err(libc::EOPNOTSUPP));
        assert_eq!(create(libc::CLOCK_MONOTONIC, signal, 0), Err(libc::EINVAL));
        assert_eq!(create(libc::CLOCK_MONOTONIC, signal, 65), Err(libc::EINVAL));
        assert_eq!(create(libc::CLOCK_MONOTONIC, 77, libc::SIGUSR1), Err(libc::EINVAL));
        let call = libc::SYS_timer_create;
        let lost = unsafe { libc::syscall(call, libc::CLOCK_MONOTONIC, null::<u8>(), 8usize) };
        assert_eq!(check(lost), Err(libc::EFAULT));
        let id = create(libc::CLOCK_MONOTONIC, libc::SIGEV_NONE, 0).unwrap();
        for (seconds, nanoseconds) in [(-1, 0), (0, -1), (0, 1_000_000_000)] {
            let time = libc::timespec { tv_sec: seconds, tv_nsec: nanoseconds };
            let new = libc::itimerspec { it_interval: spec(0), it_value: time };
            assert_eq!(set_to(id, 0, &new), Err(libc::EINVAL), "{seconds} {nanoseconds}");
        }
        let none =
            unsafe { libc::syscall(libc::SYS_timer_settime, id, 0, null::<u8>(), null::<u8>()) };
        assert_eq!(check(none), Err(libc::EINVAL));
        // A child inherits no timers.
        let child = fork(|| {
            assert_eq!(left(id), Err(libc::EINVAL));
            assert_eq!(delete(id), Err(libc::EINVAL));
        });
        assert_eq!(wait(child), Ended::Exited(0));
        assert_eq!(delete(id), Ok(0));
        for gone in [delete(id), overrun(id), set(id, 0, 1, 0).map(|_| 0), left(id).map(|_| 0)] {
            assert_eq!(gone, Err(libc::EINVAL));
        }
    });
}

#[test]
fn an_alarm_is_the_real_interval_and_tells_what_was_left_of_the_last() {
    isolated(|| {
        let alarm = |seconds: u32| must(unsafe { libc::syscall(libc::SYS_alarm, seconds) });
        let get = |which: i32| {
            let mut left = [0i64; 4];
            let result = unsafe { libc::syscall(libc::SYS_getitimer, which, &mut left) };
            check(result).map(|_| left)
        };
        let set = |which: i32, value: [i64; 4]| {
            let mut old = [0i64; 4];
            let result = unsafe { libc::syscall(libc::SYS_setitimer, which, &value, &mut old) };
            check(result).map(|_| old)
        };
        assert_eq!((alarm(100), get(libc::ITIMER_REAL).unwrap()[..2].to_vec()), (0, vec![0, 0]));
        let left = get(libc::ITIMER_REAL).unwrap();
        assert!(left[2] >= 90 && left[2] <= 100, "{left:?}");
        assert!((91..=100).contains(&alarm(0)), "rounded to whole seconds");
        assert_eq!(get(libc::ITIMER_REAL), Ok([0; 4]));
        assert_eq!(set(libc::ITIMER_REAL, [5, 6, 300, 0]), Ok([0; 4]));
        let left = get(libc::ITIMER_REAL).unwrap();
        assert_eq!(left[..2], [5, 6]);
        assert!(left[2] >= 290 && left[2] <= 300, "{left:?}");
        // A child starts without interval timers.
        let child = fork(|| assert_eq!(get(libc::ITIMER_REAL), Ok([0; 4])));
        assert_eq!(wait(child), Ended::Exited(0));
        for which in [libc::ITIMER_VIRTUAL, libc::ITIMER_PROF] {
            assert_eq!(set(which, [0, 0, 300, 0]), Ok([0; 4]));
            assert!(get(which).unwrap()[2] >= 290);
        }
        assert_eq!(get(3), Err(libc::EINVAL));
        assert_eq!(set(libc::ITIMER_REAL, [0, 0, 0, 1_000_000]), Err(libc::EINVAL));
        assert_eq!(set(libc::ITIMER_REAL, [0, -1, 1, 0]), Err(libc::EINVAL));
        let signals = block(libc::SIGALRM);
        set(libc::ITIMER_REAL, [0, 0, 0, 10_000]).unwrap();
        assert_eq!(take(&signals, 20 * SECOND_NS).unwrap().si_signo, libc::SIGALRM);
        assert_eq!(alarm(0), 0);
    });
}

#[test]
fn old_calls_tell_the_time_of_the_new_one() {
    isolated(|| {
        let now = || clock_ns(libc::CLOCK_REALTIME);
        let mut told = [0i64; 2];
        let mut zone = [7i32; 2];
        let before = now();
        must(unsafe { libc::syscall(libc::SYS_gettimeofday, &mut told, &mut zone) });
        let after = now();
        let told = told[0] as u64 * SECOND_NS + told[1] as u64 * 1000;
        assert!(before / 1000 <= told / 1000 && told <= after, "{before} {told} {after}");
        assert_eq!(zone, [0, 0]);
        let mut stored = 0i64;
        let told = must(unsafe { libc::syscall(libc::SYS_time, &mut stored) });
        assert_eq!(told, stored);
        // The reported second is that of the last tick.
        assert!((told as u64).abs_diff(now() / SECOND_NS) <= 1);
        let bad = unsafe { libc::syscall(libc::SYS_time, 8usize) };
        assert_eq!(check(bad), Err(libc::EFAULT));
    });
}

#[test]
fn clocks_are_set_by_few_and_to_times_that_are_some() {
    isolated(|| {
        let set = |clock: i32, time: libc::timespec| {
            check(unsafe { libc::syscall(libc::SYS_clock_settime, clock, &time) })
        };
        let now = spec(clock_ns(libc::CLOCK_REALTIME));
        assert_eq!(set(libc::CLOCK_MONOTONIC, now), Err(libc::EINVAL));
        assert_eq!(set(libc::CLOCK_BOOTTIME, now), Err(libc::EINVAL));
        assert_eq!(set(1000, now), Err(libc::EINVAL));
        let odd = libc::timespec { tv_nsec: 1_000_000_000, ..now };
        assert_eq!(set(libc::CLOCK_REALTIME, odd), Err(libc::EINVAL));
        let negative = libc::timespec { tv_sec: -1, tv_nsec: 0 };
        assert_eq!(set(libc::CLOCK_REALTIME, negative), Err(libc::EINVAL));
        let lost = unsafe { libc::syscall(libc::SYS_clock_settime, libc::CLOCK_REALTIME, 8usize) };
        assert_eq!(check(lost), Err(libc::EFAULT));
        as_user(NOBODY, &[], || {
            assert_eq!(set(libc::CLOCK_REALTIME, now), Err(libc::EPERM));
        });
    });
}

/// Number of signals by the thread that took them: the main one, and the others.
static TAKEN: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(0)];

extern "C" fn count_thread(_: i32) {
    let is_main = unsafe { libc::syscall(libc::SYS_gettid) } == unsafe { libc::getpid() }.into();
    TAKEN[usize::from(!is_main)].fetch_add(1, SeqCst);
}

fn processor_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

#[test]
fn threads_that_share_the_load_share_its_signals() {
    isolated(|| {
        const EACH: u32 = 5;
        const MOST: u32 = 1000;
        for (timer, signal) in
            [(libc::ITIMER_PROF, libc::SIGPROF), (libc::ITIMER_VIRTUAL, libc::SIGVTALRM)]
        {
            TAKEN.iter().for_each(|taken| taken.store(0, SeqCst));
            handle(signal, count_thread, libc::SA_RESTART);
            let counts = || [0, 1].map(|index| TAKEN[index].load(SeqCst));
            let is_over = move || {
                let [main, other] = counts();
                main.min(other) >= EACH || main + other >= MOST
            };
            let worker = std::thread::spawn(move || {
                while !is_over() {
                    std::hint::spin_loop();
                }
            });
            let every = libc::timeval { tv_sec: 0, tv_usec: 10_000 };
            let new = libc::itimerval { it_interval: every, it_value: every };
            must(unsafe { libc::setitimer(timer, &new, null_mut()) });
            while !is_over() {
                std::hint::spin_loop();
            }
            worker.join().unwrap();
            let never = libc::timeval { tv_sec: 0, tv_usec: 0 };
            let off = libc::itimerval { it_interval: never, it_value: never };
            must(unsafe { libc::setitimer(timer, &off, null_mut()) });
            let [main, other] = counts();
            assert!(main.min(other) >= EACH, "{main} and {other}");
        }
    });
}

#[test]
fn a_thread_that_waits_takes_no_signal_of_the_load() {
    isolated(|| {
        TAKEN.iter().for_each(|taken| taken.store(0, SeqCst));
        handle(libc::SIGPROF, count_thread, libc::SA_RESTART);
        let every = libc::timeval { tv_sec: 0, tv_usec: 10_000 };
        let new = libc::itimerval { it_interval: every, it_value: every };
        let worker = std::thread::spawn(move || {
            must(unsafe { libc::setitimer(libc::ITIMER_PROF, &new, null_mut()) });
            while TAKEN[1].load(SeqCst) < 20 {
                std::hint::spin_loop();
            }
        });
        worker.join().unwrap();
        // The main thread gets those of the time that it used itself, which a host that is busy makes longer: 4 at a load of 7.
        let own = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) / (10 * MILLISECOND_NS);
        assert!(u64::from(TAKEN[0].load(SeqCst)) <= own + 10, "{TAKEN:?} in {own} intervals");
    });
}

#[test]
fn a_timer_on_processor_time_counts_that_of_all_threads() {
    isolated(|| {
        const SPAN_NS: u64 = 200 * MILLISECOND_NS;
        let set_of = block(libc::SIGUSR1);
        let id = create(libc::CLOCK_PROCESS_CPUTIME_ID, libc::SIGEV_SIGNAL, libc::SIGUSR1).unwrap();
        let before = processor_ns();
        set(id, 0, SPAN_NS, 0).unwrap();
        let workers: Vec<_> = (0..3)
            .map(|_| {
                std::thread::spawn(move || {
                    while processor_ns() < before + 2 * SPAN_NS {
                        std::hint::spin_loop();
                    }
                })
            })
            .collect();
        take(&set_of, 60 * SECOND_NS).unwrap();
        assert!(processor_ns() - before >= SPAN_NS);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}
