//! Waiting for children, times and files.
use super::{
    Cases,
    setting::{self, KINDS, Kind, at, made, ms, open, raw, siginfo, sleep_ms, soon, subsets, tick},
};
use crate::{close, fork, must};

/// The state of a child when it is waited for. A living child ends in a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Child {
    None,
    Zombie,
    Ending,
    Stopped,
    Continued,
}

const CHILDREN: [Child; 5] =
    [Child::None, Child::Zombie, Child::Ending, Child::Stopped, Child::Continued];

/// Waits until `child` has reported `event`, which it keeps.
fn await_event(child: i64, event: i32) {
    let keep = i64::from(event | libc::WNOWAIT);
    must(raw(libc::SYS_waitid, [libc::P_PID.into(), child, at(&siginfo()), keep, 0, 0]));
}

fn kill(process: i64, signal: i32) {
    raw(libc::SYS_kill, [process, signal.into(), 0, 0, 0, 0]);
}

/// Makes a child in this state. Returns its id; 0 for none.
fn child(state: Child) -> i64 {
    let pause = || loop {
        raw(libc::SYS_pause, [0; 6]);
    };
    let child = match state {
        Child::None => return 0,
        Child::Zombie => i64::from(fork(|| ())),
        Child::Ending => i64::from(soon(|| ())),
        Child::Stopped | Child::Continued => i64::from(fork(pause)),
    };
    match state {
        Child::Zombie => await_event(child, libc::WEXITED),
        Child::Stopped | Child::Continued => {
            kill(child, libc::SIGSTOP);
            await_event(child, libc::WSTOPPED);
        }
        Child::None | Child::Ending => {}
    }
    if state == Child::Continued {
        kill(child, libc::SIGCONT);
        await_event(child, libc::WCONTINUED);
    }
    if matches!(state, Child::Stopped | Child::Continued) {
        // The process that ends it is no child of this one.
        let helper = fork(|| {
            soon(|| kill(child, libc::SIGKILL));
        });
        crate::wait(helper);
    }
    child
}

/// Adds cases of waitid and wait4 in every combination, on a child in every state.
pub fn wait(cases: &mut Cases) {
    let events = [libc::WEXITED, libc::WSTOPPED, libc::WCONTINUED].map(i64::from);
    let hows = subsets(&[libc::WNOHANG, libc::WNOWAIT].map(i64::from));
    let whose =
        [0, libc::__WALL, libc::__WCLONE, libc::__WNOTHREAD].map(|flag| i64::from(flag as u32));
    for state in CHILDREN {
        for kind in 0..4 {
            for flags in subsets(&events) {
                for (how, whose) in hows.iter().flat_map(|how| whose.map(|whose| (how, whose))) {
                    let flags = flags | how | whose;
                    let name = format!("waitid({kind}, {state:?}, {flags:#x})");
                    cases.add(name, move || waitid(kind, state, flags));
                }
            }
        }
        for target in ["any", "group", "child", "its group"] {
            let events =
                subsets(&[libc::WNOHANG, libc::WUNTRACED, libc::WCONTINUED].map(i64::from));
            for (events, whose) in events.iter().flat_map(|event| whose.map(|whose| (event, whose)))
            {
                let flags = events | whose;
                let name = format!("wait4({target}, {state:?}, {flags:#x})");
                cases.add(name, move || wait4(target, state, flags));
            }
        }
    }
}

fn waitid(kind: i64, state: Child, flags: i64) -> i64 {
    let child = child(state);
    let id = match kind {
        0 => 0,
        1 => child.max(1),
        2 => 0,
        _ => raw(libc::SYS_pidfd_open, [child, 0, 0, 0, 0, 0]),
    };
    made(libc::SYS_waitid, [kind, id, at(&siginfo()), flags, 0, 0])
}

fn wait4(target: &str, state: Child, flags: i64) -> i64 {
    let child = child(state);
    let id = match target {
        "any" => -1,
        "group" => 0,
        "child" => child.max(1),
        _ => -i64::from(std::process::id()),
    };
    made(libc::SYS_wait4, [id, at(&0i32), flags, 0, 0, 0])
}

/// Adds the cases of sleeps, timers and waits for signals.
pub fn sleep(cases: &mut Cases) {
    for clock in 0..16 {
        for flags in [0, 1, 2] {
            for (what, time) in [("now", ms(0)), ("soon", ms(2)), ("wrong", [0, -1])] {
                let name = format!("clock_nanosleep({clock}, {flags}, {what})");
                let call = libc::SYS_clock_nanosleep;
                cases.add(name, move || {
                    // A clock of processor time stands still during a sleep.
                    if clock == libc::CLOCK_PROCESS_CPUTIME_ID.into() {
                        tick();
                    }
                    made(call, [clock, flags, at(&time), 0, 0, 0])
                });
            }
        }
    }
    cases.add("nanosleep(soon)".into(), || made(libc::SYS_nanosleep, [at(&ms(2)), 0, 0, 0, 0, 0]));
    cases.add("pause(alarm)".into(), || {
        tick();
        made(libc::SYS_pause, [0; 6])
    });
    cases.add("rt_sigsuspend(alarm)".into(), || {
        tick();
        made(libc::SYS_rt_sigsuspend, [at(&0u64), 8, 0, 0, 0, 0])
    });
    let set = 1u64 << (libc::SIGUSR1 - 1);
    for is_pending in [false, true] {
        for (what, time) in [("now", Some(ms(0))), ("soon", Some(ms(2))), ("for ever", None)] {
            let name = format!("rt_sigtimedwait(pending: {is_pending}, {what})");
            cases.add(name, move || {
                raw(libc::SYS_rt_sigprocmask, [0, at(&set), 0, 8, 0, 0]);
                if is_pending {
                    kill(std::process::id().into(), libc::SIGUSR1);
                }
                if time.is_none() {
                    tick();
                }
                let time = time.as_ref().map_or(0, at);
                made(libc::SYS_rt_sigtimedwait, [at(&set), 0, time, 8, 0, 0])
            });
        }
    }
    cases.add("rt_sigtimedwait(sent by another)".into(), move || {
        raw(libc::SYS_rt_sigprocmask, [0, at(&set), 0, 8, 0, 0]);
        let me = i64::from(std::process::id());
        soon(|| kill(me, libc::SIGUSR1));
        made(libc::SYS_rt_sigtimedwait, [at(&set), 0, 0, 8, 0, 0])
    });
}

/// Adds cases of poll, ppoll, select and pselect6 for every type of file.
pub fn poll(cases: &mut Cases) {
    let events: Vec<i64> = [0, 0xffff].into_iter().chain((0..16).map(|bit| 1 << bit)).collect();
    for kind in KINDS {
        for &events in &events {
            for timeout in [0, 2] {
                let name = format!("poll({kind:?}, {events:#x}, {timeout})");
                cases.add(name, move || {
                    let entry = libc::pollfd { fd: open(kind), events: events as i16, revents: 0 };
                    made(libc::SYS_poll, [at(&entry), 1, timeout, 0, 0, 0])
                });
            }
        }
        for set in 0..8 {
            for (call, number) in [("select", libc::SYS_select), ("pselect6", libc::SYS_pselect6)] {
                let name = format!("{call}({kind:?}, sets {set:#x})");
                cases.add(name, move || {
                    let fd = open(kind);
                    let mut bits = [[0u64; 16]; 3];
                    bits.iter_mut().for_each(|bits| bits[fd as usize / 64] |= 1 << (fd % 64));
                    let [read, write, except] =
                        [0, 1, 2].map(|of| if set >> of & 1 != 0 { at(&bits[of]) } else { 0 });
                    made(number, [i64::from(fd) + 1, read, write, except, at(&[0i64, 2000]), 0])
                });
            }
        }
    }
}

/// Adds cases of every combination of an epoll entry's events: added, changed, and waited for.
pub fn epoll(cases: &mut Cases) {
    let flags = [
        libc::EPOLLIN,
        libc::EPOLLOUT,
        libc::EPOLLRDHUP,
        libc::EPOLLPRI,
        libc::EPOLLET,
        libc::EPOLLONESHOT,
        libc::EPOLLEXCLUSIVE,
    ];
    for events in subsets(&flags.map(|flag| i64::from(flag as u32))) {
        for kind in [Kind::PipeEnded, Kind::Event, Kind::PipeEmpty, Kind::Stream, Kind::Timer] {
            cases.add(format!("epoll_wait({kind:?}, {events:#x})"), move || {
                let epoll = added(open(kind), events);
                let room = [0u64; 4];
                made(libc::SYS_epoll_wait, [epoll, at(&room), 1, 2, 0, 0])
            });
        }
        let is_heard =
            events & i64::from(libc::EPOLLEXCLUSIVE as u32 | libc::EPOLLRDHUP as u32) == 0;
        if !is_heard {
            continue;
        }
        // Hang-up is always of interest: the wait needs no timeout.
        cases.add(format!("epoll_pwait(hang-up soon, {events:#x})"), move || {
            let [reader, writer] = setting::pipe(0);
            let epoll = added(reader, events);
            soon(|| sleep_ms(1));
            close(writer);
            made(libc::SYS_epoll_pwait, [epoll, at(&[0u64; 4]), 1, -1, 0, 8])
        });
        cases.add(format!("epoll_wait(changed to IN, {events:#x})"), move || {
            let [reader, writer] = setting::pipe(0);
            let epoll = added(reader, events);
            let event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 1 };
            must(raw(libc::SYS_epoll_ctl, [epoll, 3, reader.into(), at(&event), 0, 0]));
            soon(|| {
                let _ = crate::write(writer, b"x");
            });
            made(libc::SYS_epoll_wait, [epoll, at(&[0u64; 4]), 1, -1, 0, 0])
        });
    }
    cases.add("epoll_pwait2(soon)".into(), || {
        let epoll = added(open(Kind::EventEmpty), libc::EPOLLIN.into());
        made(libc::SYS_epoll_pwait2, [epoll, at(&[0u64; 4]), 1, at(&ms(2)), 0, 8])
    });
}

/// Makes an epoll that watches `fd`, if that is accepted.
fn added(fd: i32, events: i64) -> i64 {
    let epoll = must(raw(libc::SYS_epoll_create1, [0; 6]));
    let event = libc::epoll_event { events: events as u32, u64: 1 };
    raw(libc::SYS_epoll_ctl, [epoll, 1, fd.into(), at(&event), 0, 0]);
    epoll
}
