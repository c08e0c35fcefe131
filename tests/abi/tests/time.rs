//! Time: clocks, sleeping, timers.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{identity::become_user, *};
use std::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::{Duration, Instant, SystemTime},
};

#[test]
fn clocks_do_not_run_backwards() {
    isolated(|| {
        for clock in [
            libc::CLOCK_MONOTONIC,
            libc::CLOCK_REALTIME,
            libc::CLOCK_BOOTTIME,
            libc::CLOCK_MONOTONIC_RAW,
            libc::CLOCK_MONOTONIC_COARSE,
        ] {
            let mut last = clock_ns(clock);
            for _ in 0..2000 {
                let now = clock_ns(clock);
                assert!(now >= last, "{clock}");
                last = now;
            }
        }
    });
}

#[test]
fn the_vdso_and_the_system_call_agree() {
    isolated(|| {
        for _ in 0..200 {
            let before = clock_ns(libc::CLOCK_MONOTONIC);
            let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: room for the answer.
            must(unsafe {
                libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &mut time)
            });
            let called = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
            let after = clock_ns(libc::CLOCK_MONOTONIC);
            assert!(before <= called && called <= after, "{before} {called} {after}");
        }
    });
}

#[test]
fn the_wall_clock_is_in_this_century() {
    isolated(|| {
        let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        assert!((1_700_000_000..4_000_000_000).contains(&seconds), "{seconds}");
        // SAFETY: no answer is stored.
        let time = unsafe { libc::time(std::ptr::null_mut()) } as u64;
        assert!(time.abs_diff(seconds) <= 1);
    });
}

#[test]
fn sleep_lasts_at_least_as_long_as_asked() {
    isolated(|| {
        for milliseconds in [0, 1, 5, 25] {
            let start = Instant::now();
            std::thread::sleep(Duration::from_millis(milliseconds));
            assert!(start.elapsed() >= Duration::from_millis(milliseconds));
        }
    });
}

#[test]
fn an_absolute_sleep_ends_at_its_time() {
    isolated(|| {
        let until = clock_ns(libc::CLOCK_MONOTONIC) + 20_000_000;
        let time = libc::timespec {
            tv_sec: (until / 1_000_000_000) as i64,
            tv_nsec: (until % 1_000_000_000) as i64,
        };
        // SAFETY: a whole timespec.
        assert_eq!(
            unsafe {
                libc::clock_nanosleep(
                    libc::CLOCK_MONOTONIC,
                    libc::TIMER_ABSTIME,
                    &time,
                    std::ptr::null_mut(),
                )
            },
            0
        );
        assert!(clock_ns(libc::CLOCK_MONOTONIC) >= until);
        let past = libc::timespec { tv_sec: 0, tv_nsec: 1 };
        // SAFETY: a whole timespec.
        assert_eq!(
            unsafe {
                libc::clock_nanosleep(
                    libc::CLOCK_MONOTONIC,
                    libc::TIMER_ABSTIME,
                    &past,
                    std::ptr::null_mut(),
                )
            },
            0
        );
    });
}

#[test]
fn absurd_times_are_refused() {
    isolated(|| {
        for bad in [
            libc::timespec { tv_sec: 0, tv_nsec: 1_000_000_000 },
            libc::timespec { tv_sec: -1, tv_nsec: 0 },
            libc::timespec { tv_sec: 0, tv_nsec: -1 },
        ] {
            // SAFETY: a whole timespec.
            assert_eq!(
                check(unsafe { libc::nanosleep(&bad, std::ptr::null_mut()) }),
                Err(libc::EINVAL)
            );
        }
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: room for the answer.
        assert_eq!(
            check(unsafe { libc::syscall(libc::SYS_clock_gettime, 9999, &mut time) }),
            Err(libc::EINVAL)
        );
    });
}

#[test]
fn processor_time_grows_with_work_not_with_sleep() {
    isolated(|| {
        let before = clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID);
        std::thread::sleep(Duration::from_millis(80));
        let slept = clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID) - before;
        assert!(slept < 60_000_000, "{slept}");
        let (start, mut sum) = (clock_ns(libc::CLOCK_THREAD_CPUTIME_ID), 0u64);
        while clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) - start < 10_000_000 {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID) - before >= 10_000_000);
    });
}

#[test]
fn an_interval_timer_repeats() {
    static TICKS: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn tick(_: i32) {
        TICKS.fetch_add(1, SeqCst);
    }
    isolated(|| {
        handle(libc::SIGALRM, tick, libc::SA_RESTART);
        let period = libc::timeval { tv_sec: 0, tv_usec: 5000 };
        let timer = libc::itimerval { it_interval: period, it_value: period };
        let start = Instant::now();
        // SAFETY: a whole itimerval.
        must(unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) });
        while TICKS.load(SeqCst) < 5 {
            std::thread::yield_now();
        }
        assert!(start.elapsed() >= Duration::from_millis(25));
    });
}

#[test]
fn times_and_sysinfo_tell_something() {
    isolated(|| {
        // SAFETY: plain numbers and room for the answers.
        unsafe {
            let mut times: libc::tms = zeroed();
            assert!(libc::times(&mut times) >= 0);
            let mut info: libc::sysinfo = zeroed();
            must(libc::sysinfo(&mut info));
            assert!(info.totalram > 0 && info.procs > 0 && info.mem_unit > 0);
            let mut resolution = libc::timespec { tv_sec: 9, tv_nsec: 9 };
            must(libc::clock_getres(libc::CLOCK_MONOTONIC, &mut resolution));
            assert_eq!((resolution.tv_sec, resolution.tv_nsec), (0, 1));
        }
    });
}

fn adjust(change: impl FnOnce(&mut libc::timex)) -> Result<libc::timex, i32> {
    // SAFETY: all zeros ask for nothing.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    change(&mut timex);
    // SAFETY: a struct of ours.
    let state = check(unsafe { libc::adjtimex(&mut timex) } as i64)?;
    let is_unsynchronised = timex.status & libc::STA_UNSYNC != 0;
    assert_eq!(state == i64::from(libc::TIME_ERROR), is_unsynchronised);
    Ok(timex)
}

#[test]
fn the_clocks_discipline_is_told_to_everybody_and_changed_by_few() {
    isolated(|| {
        become_user(1000);
        let before = clock_ns(libc::CLOCK_REALTIME) / 1_000_000_000;
        let told = adjust(|_| {}).unwrap();
        assert!((before..before + 60).contains(&(told.time.tv_sec as u64)));
        assert!((9_000..=11_000).contains(&told.tick));
        assert_eq!((told.tolerance, told.precision), (500 << 16, 1));
        let adjtime = adjust(|timex| timex.modes = libc::ADJ_OFFSET_SS_READ).unwrap();
        assert_eq!(adjtime.offset, 0);
        for modes in [libc::ADJ_STATUS, libc::ADJ_SETOFFSET, libc::ADJ_OFFSET_SINGLESHOT] {
            assert_eq!(adjust(|timex| timex.modes = modes).err(), Some(libc::EPERM));
        }
        assert_eq!(adjust(|timex| timex.modes = 0x8000).err(), Some(libc::EINVAL));
        // SAFETY: no memory of ours.
        let result = unsafe { libc::syscall(libc::SYS_adjtimex, 8) };
        assert_eq!(check(result), Err(libc::EFAULT));
        // SAFETY: all zeros ask for nothing.
        let mut timex: libc::timex = unsafe { std::mem::zeroed() };
        for (clock, error) in [(libc::CLOCK_MONOTONIC, libc::EOPNOTSUPP), (99, libc::EINVAL)] {
            // SAFETY: a struct of ours.
            let result = unsafe { libc::syscall(libc::SYS_clock_adjtime, clock, &raw mut timex) };
            assert_eq!(check(result), Err(error));
        }
    });
}
