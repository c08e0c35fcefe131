//! Processes: `docs/mls-processes.md`.
use crate::{
    Row,
    place::{self, Actor, Attempt, Place, file, nothing},
    policy::{Cell, Grade, Relation},
    row,
    rule::{Errors, LEFT_OUT, Rule},
};
use abi::{
    Ended, check, close, fork,
    mls::{self, Stage},
    must, wait,
};
use libc::*;
use std::{fs, ptr};

const LOOK_UP: &str = "look-up of a process or thread by number: kill, tgkill, tkill, sigqueue, pidfd_open, `sched_*`, getpriority, setpriority, `ioprio_*`, prlimit, getpgid, getsid, setpgid, `process_vm_*`, get_robust_list, capget, clock_gettime of a process, F_SETOWN, SCM_CREDENTIALS, PR_SET_PTRACER, TIOCSPGRP";
const GROUPS: &str =
    "groups, users and all processes, in kill, getpriority, setpriority, `ioprio_*`";
const LISTING: &str = "`/proc/PID`: look-up and listing, `children`";
const FILES: &str = "files and directories of `/proc/PID`: open, each read and stat";
const SIGNALS: &str = "signals: kill and its relatives, pidfd_send_signal, SIGIO and SIGURG of an owner, PR_SET_PDEATHSIG";
const REPORTS: &str = "SIGCHLD, wait4, waitid";
const INSPECTION: &str = "`/proc/PID/{environ,maps,mem,fd,cwd,exe,root,io}`, process_vm_readv, pidfd_getfd, get_robust_list";
const CHANGES: &str = "process_vm_writev, setpriority, sched_set*, ioprio_set, prlimit with new limits, writes to `/proc/PID/*`";
const ARRIVALS: &str = "descriptors that arrive: SCM_RIGHTS, pidfd_getfd, SECCOMP_ADDFD";
const KEPT: &str = "descriptors over an exec that changes the subject";

const SEEN: Rule = Rule::With("see-all", &Rule::Everybody, &Rule::Read);
const SIGNALLED: Rule = Rule::With("see-all", &Rule::Grade, &Rule::Write);
const ABSENT: Errors = Errors::all(ESRCH);
const REFUSED: Errors = Errors::hidden(ESRCH, EPERM);

/// Starts the actors.
pub fn start(stage: Stage) -> (Stage, Vec<Actor>) {
    let (stage, mut actors) = place::actors(stage, "hold");
    actors.push(place::helper(|| serve()));
    (stage, actors)
}

/// Does a system call with the number of the actor.
fn call(it: &Attempt<'_>, number: c_long, rest: [u64; 5]) -> Result<(), i32> {
    let [b, c, d, e, f] = rest;
    check(unsafe { syscall(number, it.process as u64, b, c, d, e, f) }).map(drop)
}

/// A look-up without further checks.
fn seen(name: &'static str, attempt: fn(&Attempt<'_>) -> Result<(), i32>) -> Row {
    row(LOOK_UP, name, SEEN, ABSENT, attempt)
}

fn changed(name: &'static str, attempt: fn(&Attempt<'_>) -> Result<(), i32>) -> Row {
    row(CHANGES, name, Rule::Write, REFUSED, attempt)
}

/// The address may be none in the other program.
fn unless_fault(result: Result<(), i32>) -> Result<(), i32> {
    if result == Err(EFAULT) { Ok(()) } else { result }
}

fn address<T>(of: &mut T) -> u64 {
    ptr::from_mut(of) as u64
}

/// Opens a file of the actor, and reads it.
fn shown(it: &Attempt<'_>, name: &str) -> Result<(), i32> {
    let path = format!("/proc/{}/{name}", it.process);
    match name {
        "fd" => fs::read_dir(path).and_then(|mut names| match names.next() {
            Some(name) => name.map(drop),
            None => Err(std::io::ErrorKind::PermissionDenied.into()),
        }),
        "cwd" | "exe" | "root" => fs::read_link(path).map(drop),
        "mem" => fs::File::open(path).map(drop),
        _ => fs::read(path).map(drop),
    }
    .map_err(|error| error.raw_os_error().unwrap_or(EACCES))
}

pub fn rows() -> Vec<Row> {
    [look_ups(), listings(), signals(), inspections(), changes(), descriptors(), children()]
        .into_iter()
        .flatten()
        .collect()
}

fn look_ups() -> Vec<Row> {
    vec![
        seen("pidfd_open", |it| {
            check(unsafe { syscall(SYS_pidfd_open, it.process, 0) }).map(|fd| close(fd as i32))
        }),
        seen("getpgid", |it| call(it, SYS_getpgid, [0; 5])),
        seen("getsid", |it| call(it, SYS_getsid, [0; 5])),
        seen("sched_getscheduler", |it| call(it, SYS_sched_getscheduler, [0; 5])),
        seen("sched_getparam", |it| {
            let mut word = [0u64; 8];
            call(it, SYS_sched_getparam, [address(&mut word), 0, 0, 0, 0])
        }),
        seen("sched_getaffinity", |it| {
            let mut words = [0u64; 8];
            call(it, SYS_sched_getaffinity, [64, address(&mut words), 0, 0, 0])
        }),
        seen("sched_getattr", |it| {
            let mut words = [0u64; 16];
            call(it, SYS_sched_getattr, [address(&mut words), 128, 0, 0, 0])
        }),
        seen("sched_rr_get_interval", |it| {
            let mut words = [0u64; 2];
            call(it, SYS_sched_rr_get_interval, [address(&mut words), 0, 0, 0, 0])
        }),
        seen("getpriority", |it| {
            check(unsafe { syscall(SYS_getpriority, PRIO_PROCESS, it.process) }).map(drop)
        }),
        seen("ioprio_get", |it| check(unsafe { syscall(SYS_ioprio_get, 1, it.process) }).map(drop)),
        seen("prlimit", |it| {
            let mut words = [0u64; 2];
            call(it, SYS_prlimit64, [RLIMIT_NOFILE as u64, 0, address(&mut words), 0, 0])
        }),
        seen("capget", |it| {
            let mut header = [0x2008_0522u32, it.process as u32];
            let mut sets = [0u32; 6];
            let sets = sets.as_mut_ptr();
            check(unsafe { syscall(SYS_capget, header.as_mut_ptr(), sets) }).map(drop)
        }),
        Row {
            errors: Errors::all(EINVAL),
            ..seen("clock_gettime", |it| {
                let clock = !it.process << 3 | 2;
                let mut time = [0u64; 2];
                check(unsafe { syscall(SYS_clock_gettime, clock, time.as_mut_ptr()) }).map(drop)
            })
        },
        seen("F_SETOWN", |it| {
            let (reader, writer) = abi::pipe();
            let found = check(unsafe { fcntl(reader, F_SETOWN, it.process) });
            [reader, writer].into_iter().for_each(close);
            found.map(drop)
        }),
        row(GROUPS, "getpriority of a group", SEEN, ABSENT, |it| {
            check(unsafe { syscall(SYS_getpriority, PRIO_PGRP, it.process) }).map(drop)
        }),
        row(GROUPS, "ioprio_get of a group", SEEN, ABSENT, |it| {
            check(unsafe { syscall(SYS_ioprio_get, 2, it.process) }).map(drop)
        }),
    ]
}

fn is_listed(process: pid_t) -> bool {
    let names = fs::read_dir("/proc").expect("reading /proc");
    names.flatten().any(|name| name.file_name().to_str() == Some(&process.to_string()))
}

fn listings() -> Vec<Row> {
    const NONE: Errors = Errors::all(ENOENT);
    vec![
        row(LISTING, "stat", SEEN, NONE, |it| {
            // A refusal tells that it is there.
            match abi::stat(format!("/proc/{}", it.process)) {
                Err(EACCES) => Ok(()),
                found => found.map(drop),
            }
        }),
        row(LISTING, "listing", SEEN, Errors::all(LEFT_OUT), |it| {
            if is_listed(it.process) { Ok(()) } else { Err(LEFT_OUT) }
        }),
        row(FILES, "status", Rule::Read, NONE, |it| shown(it, "status")),
        row(FILES, "stat", Rule::Read, NONE, |it| shown(it, "stat")),
        row(FILES, "cmdline", Rule::Read, NONE, |it| shown(it, "cmdline")),
        row(FILES, "task", Rule::Read, NONE, |it| {
            abi::stat(format!("/proc/{}/task/{}/stat", it.process, it.process)).map(drop)
        }),
    ]
}

fn signals() -> Vec<Row> {
    let signal = |name, attempt| row(SIGNALS, name, SIGNALLED, REFUSED.seen(), attempt);
    vec![
        signal("kill, none", |it| check(unsafe { kill(it.process, 0) }).map(drop)),
        signal("kill", |it| check(unsafe { kill(it.process, SIGURG) }).map(drop)),
        signal("kill of the group", |it| check(unsafe { kill(-it.process, SIGURG) }).map(drop)),
        signal("tkill", |it| call(it, SYS_tkill, [SIGURG as u64, 0, 0, 0, 0])),
        signal("tgkill", |it| call(it, SYS_tgkill, [it.process as u64, SIGURG as u64, 0, 0, 0])),
        signal("rt_sigqueueinfo", |it| {
            let mut info = [0u32; 32];
            (info[0], info[2]) = (SIGURG as u32, SI_QUEUE as u32);
            call(it, SYS_rt_sigqueueinfo, [SIGURG as u64, address(&mut info), 0, 0, 0])
        }),
        signal("pidfd_send_signal", |it| {
            let fd = check(unsafe { syscall(SYS_pidfd_open, it.process, 0) })? as i32;
            let found = check(unsafe { syscall(SYS_pidfd_send_signal, fd, SIGURG, 0, 0) });
            close(fd);
            found.map(drop)
        }),
    ]
}

fn inspections() -> Vec<Row> {
    let file = |name, attempt| {
        row(INSPECTION, name, Rule::Inspect, Errors::hidden(ENOENT, EACCES), attempt)
    };
    let call_of = |name, attempt| row(INSPECTION, name, Rule::Inspect, REFUSED, attempt);
    vec![
        file("environ", |it| shown(it, "environ")),
        file("maps", |it| shown(it, "maps")),
        file("mem", |it| shown(it, "mem")),
        file("fd", |it| shown(it, "fd")),
        file("cwd", |it| shown(it, "cwd")),
        file("exe", |it| shown(it, "exe")),
        file("root", |it| shown(it, "root")),
        file("io", |it| shown(it, "io")),
        call_of("process_vm_readv", |it| {
            let mut byte = 0u64;
            let (mut own, mut their) = ([address(&mut byte), 8], [0x1000u64, 8]);
            let (own, their) = (address(&mut own), address(&mut their));
            unless_fault(call(it, SYS_process_vm_readv, [own, 1, their, 1, 0]))
        }),
        call_of("get_robust_list", |it| {
            let mut words = [0u64; 2];
            let at = address(&mut words);
            call(it, SYS_get_robust_list, [at, at + 8, 0, 0, 0])
        }),
        call_of("pidfd_getfd", |it| {
            let fd = check(unsafe { syscall(SYS_pidfd_open, it.process, 0) })? as i32;
            // Descriptor 0 is the host's stream, which everybody may have.
            let found = check(unsafe { syscall(SYS_pidfd_getfd, fd, 0, 0) });
            close(fd);
            found.map(|fd| close(fd as i32))
        }),
    ]
}

fn changes() -> Vec<Row> {
    vec![
        changed("setpriority", |it| {
            check(unsafe { syscall(SYS_setpriority, PRIO_PROCESS, it.process, 5) }).map(drop)
        }),
        changed("sched_setscheduler", |it| {
            let mut word = [0u64; 4];
            call(it, SYS_sched_setscheduler, [0, address(&mut word), 0, 0, 0])
        }),
        changed("sched_setparam", |it| {
            let mut word = [0u64; 4];
            call(it, SYS_sched_setparam, [address(&mut word), 0, 0, 0, 0])
        }),
        changed("sched_setaffinity", |it| {
            let mut word = [1u64; 1];
            call(it, SYS_sched_setaffinity, [8, address(&mut word), 0, 0, 0])
        }),
        changed("ioprio_set", |it| {
            check(unsafe { syscall(SYS_ioprio_set, 1, it.process, 2 << 13 | 4) }).map(drop)
        }),
        changed("prlimit", |it| {
            let mut words = [64u64, 64];
            call(it, SYS_prlimit64, [RLIMIT_CORE as u64, address(&mut words), 0, 0, 0])
        }),
        changed("setpriority of the group", |it| {
            check(unsafe { syscall(SYS_setpriority, PRIO_PGRP, it.process, 5) }).map(drop)
        }),
        Row {
            errors: Errors::hidden(ESRCH, EPERM),
            ..changed("process_vm_writev", |it| {
                let mut byte = 0u64;
                let (mut own, mut their) = ([address(&mut byte), 8], [0x1000u64, 8]);
                let (own, their) = (address(&mut own), address(&mut their));
                unless_fault(call(it, SYS_process_vm_writev, [own, 1, their, 1, 0]))
            })
        },
        row(CHANGES, "oom_score_adj", Rule::Write, Errors::hidden(ENOENT, EACCES), |it| {
            let path = format!("/proc/{}/oom_score_adj", it.process);
            abi::open(path, O_WRONLY, 0).map(close)
        }),
    ]
}

/// The name of the server that sends descriptions.
const SERVER: &[u8] = b"matrix descriptions";
/// The greatest length of a request to it.
const REQUEST_MAX: usize = 256;

/// Serves requests, each a path and a way to open it, with descriptions: it has all rights, and a socket that each subject of the matrix may
/// write to.
fn serve() -> ! {
    let listener = place::socket_with(
        &Cell { relation: Relation::Equal, grade: Grade::Untrusted }.object(),
        SOCK_STREAM,
    );
    place::bind_abstract(listener, SERVER).expect("the name is free");
    must(unsafe { listen(listener, 64) });
    unsafe { raise(SIGSTOP) };
    loop {
        let end = must(unsafe { accept(listener, ptr::null_mut(), ptr::null_mut()) }) as i32;
        let request = abi::read(end, REQUEST_MAX).expect("a request");
        let request = String::from_utf8(request).expect("text");
        let (flags, path) = request.split_once(' ').expect("two words");
        let fd = abi::open(path, flags.parse().expect("a number"), 0).expect(path);
        place::pass(end, fd);
        close(fd);
        close(end);
    }
}

/// Asks the server for a description. The file was prepared.
fn received(it: &Attempt<'_>, flags: i32) -> Result<(), i32> {
    let end = place::connect_abstract(SOCK_STREAM, SERVER).expect("the server");
    let request = format!("{flags} {}", it.place.path.display());
    assert_eq!(abi::write(end, request.as_bytes()), Ok(request.len()));
    let found = place::receive_passed(end);
    close(end);
    match found {
        Some(fd) => {
            close(fd);
            Ok(())
        }
        None => Err(LEFT_OUT),
    }
}

/// The first number of descriptors that are kept over an exec.
const FIRST_KEPT: i32 = 200;

/// Makes a file with the label, and holds it open.
fn hold_open(place: &Place, flags: i32, first: i32) {
    file(place);
    let fd = abi::open(&place.path, flags, 0).expect("a file");
    must(unsafe { dup2(fd, first + place.number as i32) });
    close(fd);
}

/// Tells whether a description was kept: another one is the null device now.
fn kept(it: &Attempt<'_>, first: i32) -> Result<(), i32> {
    let mut found: stat = unsafe { abi::zeroed() };
    must(unsafe { fstat(first + it.place.number as i32, &mut found) });
    match found.st_mode & S_IFMT {
        S_IFREG => Ok(()),
        _ => {
            assert_eq!(found.st_rdev, makedev(1, 3));
            Err(LEFT_OUT)
        }
    }
}

/// Starts a child that becomes a program with the label of the cell and plays `part`. Between `before` runs, with its number.
fn start_child<T>(it: &Attempt<'_>, part: &str, before: impl FnOnce(pid_t) -> T) -> (pid_t, T) {
    // The child waits for the first pipe, and the second ends when its program runs.
    let (start, started) = abi::pipe();
    let (run, running) = abi::pipe();
    for end in [start, started, run, running] {
        must(unsafe { fcntl(end, F_SETFD, FD_CLOEXEC) });
    }
    let child = fork(|| {
        close(started);
        close(run);
        assert_eq!(abi::read(start, 1), Ok(Vec::new()));
        // SAFETY: the process has one thread.
        unsafe { std::env::set_var("MLS_PROGRAM", place::program_of(it.place)) };
        mls::become_other(&it.cell.process(), part);
    });
    close(running);
    close(start);
    let found = before(child);
    close(started);
    assert_eq!(abi::read(run, 1), Ok(Vec::new()));
    close(run);
    (child, found)
}

/// Plays the part of a child, if this process is one.
pub fn play_child() {
    match mls::part().as_deref() {
        Some("end") => unsafe { _exit(7) },
        Some("linger") => {
            // Its parent may not be allowed to end it.
            unsafe { alarm(30) };
            unsafe { pause() };
        }
        _ if place::actor_of("hold").is_some() => place::hold(),
        _ => {}
    }
}

fn descriptors() -> Vec<Row> {
    let out = Errors::all(LEFT_OUT);
    vec![
        Row {
            prepare: file,
            ..row(ARRIVALS, "to read", Rule::Read, out, |it| received(it, O_RDONLY))
        },
        Row {
            prepare: file,
            ..row(ARRIVALS, "to write", Rule::Write, out, |it| received(it, O_WRONLY))
        },
        Row {
            prepare: file,
            ..row(ARRIVALS, "a place", Rule::Read, out, |it| received(it, O_PATH))
        },
        Row {
            prepare: place::fifo,
            ..row(ARRIVALS, "a FIFO to read", Rule::Write, out, |it| {
                received(it, O_RDONLY | O_NONBLOCK)
            })
        },
        Row {
            prepare: |place| hold_open(place, O_RDONLY, FIRST_KEPT),
            ..row(KEPT, "to read", Rule::Read, out, |it| kept(it, FIRST_KEPT))
        },
        Row {
            prepare: |place| hold_open(place, O_RDWR, FIRST_KEPT + 16),
            ..row(KEPT, "to read and write", Rule::Write, out, |it| kept(it, FIRST_KEPT + 16))
        },
    ]
}

fn children() -> Vec<Row> {
    const CHILDREN: Rule = Rule::As("set-range", &Rule::Read);
    let out = Errors::all(LEFT_OUT);
    let held = |name, error, attempt| Row {
        doc: FILES,
        name,
        rule: CHILDREN,
        errors: Errors::all(error),
        prepare: nothing,
        attempt,
    };
    vec![
        row(REPORTS, "status", CHILDREN, out, |it| {
            let (child, ()) = start_child(it, "end", |_| ());
            match wait(child) {
                Ended::Exited(7) => Ok(()),
                Ended::Exited(0) => Err(LEFT_OUT),
                other => panic!("{other:?}"),
            }
        }),
        held("a file that was open before", ESRCH, |it| {
            let open = |id| abi::open(format!("/proc/{id}/status"), O_RDONLY, 0).expect("a child");
            let (_, fd) = start_child(it, "linger", open);
            let found = abi::read(fd, 10);
            close(fd);
            found.map(drop)
        }),
        held("a folder that was open before", EACCES, |it| {
            let open = |id| abi::open(format!("/proc/{id}"), O_PATH, 0).expect("a child");
            let (_, fd) = start_child(it, "linger", open);
            let mut found: stat = unsafe { abi::zeroed() };
            let found = check(unsafe { fstatat(fd, c"status".as_ptr(), &mut found, 0) });
            close(fd);
            found.map(drop)
        }),
    ]
}
