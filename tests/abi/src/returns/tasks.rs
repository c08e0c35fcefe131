//! New tasks by every combination of flags, and futexes by every operation.
use super::{
    CALLING, Cases, RETURNED, note,
    setting::{at, made, map_shared, ms, raw, soon, subsets},
};
use crate::tasks::{Stack, fork_briefly, start, start3};

extern "C" fn ends() -> i32 {
    0
}

/// Adds cases of clone and clone3 with every combination of flags that shares or waits, and a task that ends at
/// once.
pub fn clone(cases: &mut Cases) {
    let flags = [
        libc::CLONE_VM,
        libc::CLONE_FS,
        libc::CLONE_FILES,
        libc::CLONE_SIGHAND,
        libc::CLONE_VFORK,
        libc::CLONE_THREAD,
        libc::CLONE_PARENT,
        libc::CLONE_PARENT_SETTID,
        libc::CLONE_CHILD_CLEARTID,
        libc::CLONE_PIDFD,
    ];
    for flags in subsets(&flags.map(i64::from)) {
        cases.add(format!("clone({flags:#x})"), move || {
            let words = words();
            note(CALLING, 0);
            // SAFETY: a new stack, and a body that uses nothing.
            let made = unsafe { start(flags as i32 | libc::SIGCHLD, Stack::new(), words, ends) };
            note(RETURNED, made);
            made
        });
        cases.add(format!("clone3({flags:#x})"), move || {
            let words = words();
            note(CALLING, 0);
            // SAFETY: as above.
            let made = unsafe { start3(flags as u64, Stack::new(), words, ends) };
            note(RETURNED, made);
            made
        });
    }
    for (name, number) in [("fork", libc::SYS_fork), ("vfork", libc::SYS_vfork)] {
        cases.add(name.into(), move || {
            note(CALLING, 0);
            let answer = fork_briefly(number);
            note(RETURNED, answer);
            answer
        });
    }
    for flags in subsets(
        &[libc::CLONE_FS, libc::CLONE_FILES, libc::CLONE_SYSVSEM, libc::CLONE_VM].map(i64::from),
    ) {
        cases.add(format!("unshare({flags:#x})"), move || {
            made(libc::SYS_unshare, [flags, 0, 0, 0, 0, 0])
        });
    }
}

fn words() -> [*mut i32; 2] {
    let words = map_shared(4096).cast::<i32>();
    [words, words.wrapping_add(1)]
}

/// Adds cases of every futex operation, with the present value and with another one, and with a time that comes.
pub fn futex(cases: &mut Cases) {
    const CLOCK_REALTIME: i64 = 256;
    let hows = subsets(&[128, CLOCK_REALTIME]);
    for operation in 0..14 {
        for &how in &hows {
            for value in [0, 1] {
                let name = format!("futex(op {operation}, {how:#x}, value {value})");
                cases.add(name, move || {
                    let words = map_shared(4096) as i64;
                    // The time is relative for FUTEX_WAIT, and in the past for the others; it is a count for those
                    // that requeue.
                    let soon = ms(2);
                    let time = if matches!(operation, 3..=5 | 12) { 1 } else { at(&soon) };
                    made(libc::SYS_futex, [words, operation | how, value, time, words + 64, -1])
                });
            }
        }
    }
    for (operation, comparison) in
        (0..16).flat_map(|operation| (0..8).map(move |compare| (operation, compare)))
    {
        let packed = operation << 28 | comparison << 24 | 3 << 12 | 5;
        cases.add(format!("futex(FUTEX_WAKE_OP, {packed:#x})"), move || {
            let words = map_shared(4096) as i64;
            made(libc::SYS_futex, [words, 5, 1, 1, words + 64, packed])
        });
    }
    for is_private in [0i64, 128] {
        cases.add(format!("futex(FUTEX_WAIT | {is_private}, woken by another)"), move || {
            let words = map_shared(4096) as i64;
            soon(|| {
                // This ends once there was a waiter to wake.
                while raw(libc::SYS_futex, [words, 1, 1, 0, 0, 0]) == 0 {
                    std::thread::yield_now();
                }
            });
            // Another process cannot wake a private wait, so a timeout ends it.
            let later = ms(5);
            let time = if is_private == 0 { 0 } else { at(&later) };
            made(libc::SYS_futex, [words, is_private, 0, time, 0, 0])
        });
    }
    cases.add("futex(FUTEX_LOCK_PI, its own)".into(), || {
        let words = map_shared(4096).cast::<i32>();
        let me = raw(libc::SYS_gettid, [0; 6]);
        // SAFETY: a word of the mapping.
        unsafe { words.write(me as i32) };
        made(libc::SYS_futex, [words as i64, 6, 0, 0, 0, 0])
    });
    for flags in [0x2i64, 0x82, 0x0] {
        cases.add(format!("futex_waitv(flags {flags:#x})"), move || {
            const FUTEX_WAITV: i64 = 449;
            let words = map_shared(4096) as i64;
            let waiters = [[0, words, flags], [0, words + 64, flags]];
            made(FUTEX_WAITV, [at(&waiters), 2, 0, at(&ms(2)), 1, 0])
        });
    }
}
