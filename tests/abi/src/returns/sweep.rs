//! Cases of every call number with simple arguments, and of the calls that make descriptors with every flag. A timer
//! interrupts a call that waits.
use super::{
    Cases,
    setting::{at, made, raw, subsets, tick},
};

/// The last number that the sweep tries.
const LAST: i64 = 470;

/// Ends a process that is not in a probe's trampoline.
const URETPROBE: i64 = 335;

/// Calls that by their nature do not return, or that leave a process which the watchdog does not know.
const LEFT_OUT: [i64; 9] = [
    URETPROBE,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_rt_sigreturn,
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_clone,
    libc::SYS_ptrace,
    libc::SYS_sync,
];

/// Adds the cases of the family.
pub fn sweep(cases: &mut Cases) {
    for number in (0..=LAST).filter(|number| !LEFT_OUT.contains(number)) {
        for word in [0, -1, 1] {
            cases.add(format!("call {number}({word} six times)"), move || {
                tick();
                made(number, [word; 6])
            });
        }
    }
    let makers: [(&str, i64, [i64; 6]); 9] = [
        ("eventfd2", libc::SYS_eventfd2, [0, 0, 0, 0, 0, 0]),
        ("epoll_create1", libc::SYS_epoll_create1, [0; 6]),
        ("inotify_init1", libc::SYS_inotify_init1, [0; 6]),
        ("timerfd_create", libc::SYS_timerfd_create, [1, 0, 0, 0, 0, 0]),
        ("pipe2", libc::SYS_pipe2, [0; 6]),
        ("memfd_create", libc::SYS_memfd_create, [0; 6]),
        ("getrandom", libc::SYS_getrandom, [0, 16, 0, 0, 0, 0]),
        ("pidfd_open", libc::SYS_pidfd_open, [0; 6]),
        ("signalfd4", libc::SYS_signalfd4, [-1, 0, 8, 0, 0, 0]),
    ];
    // Indices of the arguments that hold their flags.
    let places = [1, 0, 0, 1, 1, 1, 2, 1, 3];
    for ((call, number, args), place) in makers.into_iter().zip(places) {
        for flags in subsets(&[1, 2, 4, 8, 0o4000, 0o2_000_000, 0o40_000]) {
            cases.add(format!("{call}({flags:#x})"), move || {
                let room = [0u64; 4];
                let mut args = args;
                if matches!(number, libc::SYS_pipe2 | libc::SYS_memfd_create | libc::SYS_getrandom)
                {
                    args[0] = at(&room);
                }
                match number {
                    libc::SYS_pidfd_open => args[0] = raw(libc::SYS_getpid, [0; 6]),
                    libc::SYS_signalfd4 => args[1] = at(&room),
                    _ => {}
                }
                args[place] = flags;
                made(number, args)
            });
        }
    }
}
