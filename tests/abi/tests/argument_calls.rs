//! Calls on signals, clocks and scheduling with several wrong arguments: the error that comes first, and the values returned,
//! case by case (`./x campaign arguments` found these). Run as root.
use abi::{
    cases::{ABSENT, KERNEL, all, at, map, no, of, raw, room},
    fork,
    identity::as_user,
    isolated, wait,
};
use libc::*;

const USER: u32 = 1000;

/// Returns the caller's number.
fn own() -> i64 {
    i64::from(std::process::id())
}

#[test]
fn a_signal_looks_for_its_target_before_its_number() {
    let words = [0i64; 16];
    let info = at(&words);
    let minimum = i64::from(i32::MIN);
    all(&[
        (SYS_kill, of([ABSENT, 65]), no(ESRCH)),
        (SYS_kill, of([ABSENT, -1]), no(ESRCH)),
        (SYS_kill, of([-ABSENT, 65]), no(ESRCH)),
        (SYS_kill, of([minimum, 65]), no(ESRCH)),
        (SYS_kill, of([own(), 65]), no(EINVAL)),
        (SYS_kill, of([0, 65]), no(EINVAL)),
        (SYS_tkill, of([ABSENT, 65]), no(ESRCH)),
        (SYS_tkill, of([0, 65]), no(EINVAL)),
        (SYS_tkill, of([own(), 65]), no(EINVAL)),
        (SYS_tgkill, of([ABSENT, own(), 65]), no(ESRCH)),
        (SYS_tgkill, of([own(), ABSENT, 65]), no(ESRCH)),
        (SYS_tgkill, of([own(), own(), 65]), no(EINVAL)),
        (SYS_rt_sigqueueinfo, of([ABSENT, 65, info]), no(EPERM)),
        (SYS_rt_sigqueueinfo, of([0, 65, info]), no(EPERM)),
        (SYS_rt_tgsigqueueinfo, of([own(), ABSENT, 65, info]), no(EPERM)),
        (SYS_rt_tgsigqueueinfo, of([-1, 0, 65, info]), no(EINVAL)),
        (SYS_rt_tgsigqueueinfo, of([-1, 0, 65, KERNEL]), no(EFAULT)),
    ]);
    let mut queued = [0i32; 32];
    queued[2] = SI_QUEUE;
    let info = at(&queued);
    all(&[
        (SYS_rt_sigqueueinfo, of([ABSENT, 65, info]), no(ESRCH)),
        (SYS_rt_sigqueueinfo, of([own(), 65, info]), no(EINVAL)),
        (SYS_rt_tgsigqueueinfo, of([own(), ABSENT, 65, info]), no(ESRCH)),
    ]);
}

#[test]
fn a_wrong_signal_is_found_before_the_right_to_send_it() {
    as_user(USER, &[], || {
        all(&[(SYS_kill, of([1, 65]), no(EINVAL)), (SYS_kill, of([1, 0]), no(EPERM))])
    });
}

#[test]
fn only_a_thread_itself_may_get_what_looks_like_the_kernels() {
    isolated(|| {
        let info = siginfo_of(SI_USER);
        let from_thread =
            std::thread::spawn(move || raw(SYS_rt_sigqueueinfo, of([own(), 0, at(&info)])));
        assert_eq!(from_thread.join().expect("the thread ends"), no(EPERM));
        assert_eq!(raw(SYS_rt_sigqueueinfo, of([own(), 0, at(&info)])), 0);
    });
}

fn siginfo_of(code: i32) -> [i32; 32] {
    let mut info = [0; 32];
    info[2] = code;
    info
}

/// Returns the number of a process's clock.
fn clock_of(process: i64, kind: i64) -> i64 {
    !process << 3 | kind
}

#[test]
fn the_time_of_a_clock_is_read_before_the_clock_is_looked_for() {
    let mut timex = [0i64; 26];
    let timex = room(&mut timex);
    let time = at(&[0i64, 1]);
    let wrong = at(&[0i64, 1_000_000_000]);
    for clock in [1, 5, 10, 12, -1, -2, -5, -6] {
        all(&[(SYS_clock_adjtime, of([clock, KERNEL]), no(EFAULT))]);
    }
    all(&[
        (SYS_clock_adjtime, of([1, timex]), no(EOPNOTSUPP)),
        (SYS_clock_adjtime, of([10, timex]), no(EINVAL)),
        (SYS_clock_adjtime, of([12, timex]), no(EINVAL)),
        (SYS_clock_adjtime, of([-1, timex]), no(EOPNOTSUPP)),
        (SYS_clock_adjtime, of([-5, timex]), no(EINVAL)),
        (SYS_clock_adjtime, of([-6, timex]), no(EOPNOTSUPP)),
        (SYS_clock_settime, of([-6, KERNEL]), no(EFAULT)),
        (SYS_clock_settime, of([-6, time]), no(EPERM)),
        (SYS_clock_settime, of([-6, wrong]), no(EPERM)),
        (SYS_clock_settime, of([-1, time]), no(EINVAL)),
        (SYS_clock_settime, of([clock_of(ABSENT, 2), time]), no(EINVAL)),
        (SYS_clock_settime, of([1, KERNEL]), no(EINVAL)),
        (SYS_clock_settime, of([2, time]), no(EINVAL)),
    ]);
}

#[test]
fn setting_the_time_reads_the_zone_before_it_looks_at_rights() {
    let (now, negative) = ([0i64, 1], [-1i64, 0]);
    let (late, wrong) = ([0i64, 1_000_000], [0i64, 1_000_001]);
    let zone = [0i32; 2];
    let cases = [
        (SYS_settimeofday, of([0, 0]), no(EPERM)),
        (SYS_settimeofday, of([0, at(&zone)]), no(EPERM)),
        (SYS_settimeofday, of([0, KERNEL]), no(EFAULT)),
        (SYS_settimeofday, of([at(&now), KERNEL]), no(EFAULT)),
        (SYS_settimeofday, of([at(&negative), KERNEL]), no(EFAULT)),
        (SYS_settimeofday, of([at(&wrong), KERNEL]), no(EINVAL)),
        (SYS_settimeofday, of([at(&late), 0]), no(EINVAL)),
        (SYS_settimeofday, of([at(&negative), 0]), no(EINVAL)),
    ];
    as_user(USER, &[], || all(&cases));
}

#[test]
fn a_clock_that_wakes_the_machine_is_a_privilege() {
    let (now, mut timer) = ([0i64, 0], 0i32);
    let (now, timer) = (at(&now), room(&mut timer));
    as_user(USER, &[], || {
        // A machine that nothing wakes has no such clocks.
        let refusal = raw(SYS_clock_nanosleep, of([8, 0, now, 0]));
        assert!([no(EPERM), no(EOPNOTSUPP)].contains(&refusal), "{refusal}");
        all(&[
            (SYS_clock_nanosleep, of([9, TIMER_ABSTIME.into(), now, 0]), refusal),
            (SYS_clock_nanosleep, of([8, 0, KERNEL, 0]), no(EFAULT)),
            (SYS_timer_create, of([8, 0, timer]), refusal),
            (SYS_timer_create, of([9, 0, timer]), refusal),
            (SYS_timerfd_create, of([8, 0]), no(EPERM)),
        ]);
        if refusal == no(EPERM) {
            all(&[(SYS_clock_nanosleep, of([8, 2, now, 0]), no(EINVAL))]);
        }
    });
}

#[test]
fn a_timer_is_told_its_number_before_its_clock_is_looked_for() {
    isolated(|| {
        let event = [0i64, 99 << 32, 0, 0, 0, 0, 0, 0];
        let mut number = [0x1111_1111i32; 2];
        let place = room(&mut number);
        all(&[
            (SYS_timer_create, of([-1, 0, KERNEL]), no(EFAULT)),
            (SYS_timer_create, of([-1, KERNEL, KERNEL]), no(EFAULT)),
            (SYS_timer_create, of([-1, at(&event), KERNEL]), no(EINVAL)),
            (SYS_timer_create, of([-5, 0, KERNEL]), no(EOPNOTSUPP)),
            (SYS_clock_nanosleep, of([-5, 0, KERNEL]), no(EOPNOTSUPP)),
            (SYS_timer_create, of([4, 0, KERNEL]), no(EOPNOTSUPP)),
            (SYS_timer_create, of([-1, 0, place]), no(EINVAL)),
        ]);
        assert!(number[0] < 16 && number[1] == 0x1111_1111, "{number:x?}");
        let value = [0i64; 4];
        all(&[
            (SYS_timer_gettime, of([number[0].into(), at(&value)]), no(EINVAL)),
            (SYS_setitimer, of([3, KERNEL, 0]), no(EFAULT)),
            (SYS_setitimer, of([3, at(&value), 0]), no(EINVAL)),
        ]);
    });
}

#[test]
fn waits_look_at_addresses_although_they_store_nothing() {
    let wrong = [0i64, 1_000_000_000];
    let epoll = raw(SYS_epoll_create1, of([0]));
    all(&[
        (SYS_epoll_wait, of([epoll, KERNEL, 1, 0]), no(EFAULT)),
        (SYS_epoll_wait, of([epoll, KERNEL, 0, 0]), no(EINVAL)),
        (SYS_epoll_wait, of([epoll, 0, 1, 0]), 0),
        (SYS_poll, of([KERNEL, 0, 0]), no(EFAULT)),
        (SYS_poll, of([0, 0, 0]), 0),
        (SYS_pselect6, [0, 0, 0, 0, at(&wrong), KERNEL], no(EFAULT)),
        (SYS_pselect6, [0, 0, 0, 0, at(&wrong), 0], no(EINVAL)),
        (SYS_close, of([epoll]), 0),
    ]);
}

#[test]
fn random_bytes_fill_what_there_is() {
    const PAGE: usize = 4096;
    let pages = map(2 * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1) as i64;
    let second = pages + PAGE as i64;
    all(&[
        (SYS_mprotect, of([second, PAGE as i64, 0]), 0),
        (SYS_getrandom, of([second - 4, 8, 0]), 4),
        (SYS_getrandom, of([second - 4, -1, 0]), 4),
        (SYS_getrandom, of([second, 8, 0]), no(EFAULT)),
        (SYS_getrandom, of([KERNEL, 0, 0]), no(EFAULT)),
        (SYS_getrandom, of([pages, 0, 0]), 0),
        (SYS_munmap, of([pages, 2 * PAGE as i64]), 0),
    ]);
}

#[test]
fn the_memory_of_another_is_not_looked_for_to_move_nothing() {
    let mut bytes = [0u8; 16];
    let (some, none) = ([room(&mut bytes), 16], [room(&mut bytes), 0]);
    let child = fork(|| {});
    wait(child);
    for call in [SYS_process_vm_readv, SYS_process_vm_writev] {
        let (some, none) = (at(&some), at(&none));
        all(&[
            (call, [ABSENT, some, 0, some, 1, 0], 0),
            (call, [ABSENT, some, 0, KERNEL, 1, 0], 0),
            (call, [ABSENT, some, 0, some, 1025, 0], 0),
            (call, [ABSENT, none, 1, some, 1, 0], 0),
            (call, [ABSENT, some, 1, some, 0, 0], 0),
            (call, [ABSENT, some, 1, none, 1, 0], 0),
            (call, [ABSENT, some, 1, some, 1, 0], no(ESRCH)),
            (call, [ABSENT, some, 0, some, 0, 1], no(EINVAL)),
            (call, [ABSENT, some, 1, KERNEL, 1, 0], no(EFAULT)),
        ]);
    }
}

#[test]
fn a_lock_of_no_thread_says_that_somebody_waits() {
    const PAGE: usize = 4096;
    const OWNER: u32 = 0x1111_1111;
    const WAITERS: u32 = 0x8000_0000;
    let word = map(PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1).cast::<u32>();
    let (place, late) = (word as i64, [1i64, 0]);
    let read = || {
        // SAFETY: in the page that was just mapped.
        unsafe { word.read_volatile() }
    };
    for call in [FUTEX_LOCK_PI, FUTEX_TRYLOCK_PI] {
        // SAFETY: as above.
        unsafe { word.write_volatile(OWNER) };
        all(&[(SYS_futex, [place, call.into(), 0, at(&late), 0, 0], no(ESRCH))]);
        assert_eq!(read(), OWNER | WAITERS);
    }
    all(&[
        (SYS_mprotect, of([place, PAGE as i64, PROT_READ.into()]), 0),
        (SYS_futex, of([place, FUTEX_UNLOCK_PI.into()]), no(EPERM)),
        (SYS_futex, of([KERNEL, FUTEX_UNLOCK_PI.into()]), no(EFAULT)),
        (SYS_munmap, of([place, PAGE as i64]), 0),
    ]);
}

#[test]
fn a_copy_of_a_message_reads_its_place_first() {
    const COPY: i64 = 0o40000;
    let flags = COPY | i64::from(IPC_NOWAIT);
    let mut message = [0u64; 2];
    let place = room(&mut message);
    all(&[
        (SYS_msgrcv, of([0x7fff_0000, KERNEL, 8, 0, flags]), no(EFAULT)),
        (SYS_msgrcv, of([0x7fff_0000, place, 8, 0, flags]), no(EINVAL)),
        (SYS_msgrcv, of([0x7fff_0000, KERNEL, 8, 0, COPY]), no(EINVAL)),
    ]);
}
