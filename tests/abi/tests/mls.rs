//! Mandatory access control of processes (`docs/mls-processes.md`): tests for systems with a monitor. They do nothing elsewhere.
use abi::{
    Ended, check, fork, isolated,
    mls::{self, ENTRANCE, HIGH, LOW, Stage},
    must, wait,
};
use libc::*;
use std::fs;

/// Ends an actor when the test ends.
struct Actor(pid_t);

impl Drop for Actor {
    fn drop(&mut self) {
        // SAFETY: takes no pointers.
        unsafe { kill(self.0, SIGKILL) };
        wait(self.0);
    }
}

fn sleep_for_ever() -> ! {
    loop {
        // SAFETY: takes no pointers.
        unsafe { pause() };
    }
}

/// Runs a system call with the number of a process, or with addresses of local data.
fn call(number: c_long, arguments: [u64; 6]) -> Result<i64, i32> {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: callers pass addresses of data that is large enough.
    check(unsafe { syscall(number, a, b, c, d, e, f) })
}

/// Returns the results of calls that look process `id` up.
fn look_ups(id: pid_t) -> Vec<(&'static str, Result<i64, i32>)> {
    let target = id as u64;
    let words = [0u64; 8];
    let at = words.as_ptr() as u64;
    let mut buffer = [0u8; 8];
    let mut own = [at, 8];
    let their = [buffer.as_mut_ptr() as u64, 8];
    let (own, their) = (own.as_mut_ptr() as u64, their.as_ptr() as u64);
    let group = u64::from_le_bytes((-i64::from(id)).to_le_bytes());
    vec![
        ("kill", call(SYS_kill, [target, 0, 0, 0, 0, 0])),
        ("kill of the group", call(SYS_kill, [group, 0, 0, 0, 0, 0])),
        ("tkill", call(SYS_tkill, [target, 0, 0, 0, 0, 0])),
        ("tgkill", call(SYS_tgkill, [target, target, 0, 0, 0, 0])),
        ("pidfd_open", call(SYS_pidfd_open, [target, 0, 0, 0, 0, 0])),
        ("getpgid", call(SYS_getpgid, [target, 0, 0, 0, 0, 0])),
        ("getsid", call(SYS_getsid, [target, 0, 0, 0, 0, 0])),
        ("sched_getscheduler", call(SYS_sched_getscheduler, [target, 0, 0, 0, 0, 0])),
        ("sched_setscheduler", call(SYS_sched_setscheduler, [target, 0, at, 0, 0, 0])),
        ("sched_getaffinity", call(SYS_sched_getaffinity, [target, 8, at, 0, 0, 0])),
        ("getpriority", call(SYS_getpriority, [0, target, 0, 0, 0, 0])),
        ("getpriority of the group", call(SYS_getpriority, [1, target, 0, 0, 0, 0])),
        ("setpriority", call(SYS_setpriority, [0, target, 5, 0, 0, 0])),
        ("ioprio_get", call(SYS_ioprio_get, [1, target, 0, 0, 0, 0])),
        ("prlimit", call(SYS_prlimit64, [target, 7, 0, at, 0, 0])),
        ("process_vm_readv", call(SYS_process_vm_readv, [target, own, 1, their, 1, 0])),
        ("process_vm_writev", call(SYS_process_vm_writev, [target, own, 1, their, 1, 0])),
        ("get_robust_list", call(SYS_get_robust_list, [target, at, at + 8, 0, 0, 0])),
    ]
}

fn is_listed(id: pid_t) -> bool {
    let names = fs::read_dir("/proc").expect("reading /proc");
    names.flatten().any(|name| name.file_name().to_str() == Some(&id.to_string()))
}

#[test]
fn a_process_above_does_not_exist() {
    if !mls::is_here() {
        return;
    }
    match mls::part().as_deref() {
        Some("sleep") => sleep_for_ever(),
        Some("look") => {
            let id = mls::given("ABOVE");
            for (name, found) in look_ups(id) {
                assert_eq!(found, Err(ESRCH), "{name}");
            }
            let found = fs::metadata(format!("/proc/{id}/status"));
            assert_eq!(found.map(drop).map_err(|error| error.raw_os_error()), Err(Some(ENOENT)));
            assert!(!is_listed(id));
        }
        Some("look down") => {
            let id = mls::given("BELOW");
            assert!(is_listed(id) && fs::metadata(format!("/proc/{id}/status")).is_ok());
            let changes = [
                "kill",
                "kill of the group",
                "tkill",
                "tgkill",
                "sched_setscheduler",
                "setpriority",
                "process_vm_writev",
            ];
            for (name, found) in look_ups(id) {
                match changes.contains(&name) {
                    true => assert_eq!(found, Err(EPERM), "{name}"),
                    // The address is that of another program, which may have nothing there.
                    false if found == Err(EFAULT) => assert_eq!(name, "process_vm_readv"),
                    false => assert!(found.is_ok(), "{name}: {found:?}"),
                }
            }
        }
        _ => isolated(|| {
            let name = "a_process_above_does_not_exist";
            let above = Actor(Stage::new(name).start(HIGH, "sleep"));
            let below = Actor(Stage::new(name).start(LOW, "sleep"));
            let stage = Stage::new(name).give("ABOVE", above.0).give("BELOW", below.0);
            assert_eq!(mls::context_of(&above.0.to_string()).as_deref(), Some(HIGH));
            let mut gets = look_ups(above.0);
            gets.retain(|(name, _)| name.starts_with("get"));
            assert!(gets.len() > 3 && gets.iter().all(|(_, found)| found.is_ok()));
            assert_eq!(stage.run(LOW, "look"), Ended::Exited(0));
            assert_eq!(stage.run(HIGH, "look down"), Ended::Exited(0));
        }),
    }
}

#[test]
fn a_process_of_a_stronger_domain_is_not_inspected_by_its_user() {
    if !mls::is_here() {
        return;
    }
    const INSPECTIONS: [&str; 3] = ["process_vm_readv", "process_vm_writev", "get_robust_list"];
    match mls::part().as_deref() {
        Some("sleep") => sleep_for_ever(),
        Some("look") => {
            let [stronger, equal] = ["STRONGER", "EQUAL"].map(mls::given);
            for (name, found) in look_ups(stronger) {
                if INSPECTIONS.contains(&name) {
                    assert_eq!(found, Err(EPERM), "{name}");
                }
            }
            assert!(fs::read(format!("/proc/{stronger}/environ")).is_err());
            assert!(fs::read_link(format!("/proc/{stronger}/cwd")).is_err());
            assert!(fs::metadata(format!("/proc/{stronger}/status")).is_ok(), "it exists");
            for (name, found) in look_ups(equal) {
                if INSPECTIONS.contains(&name) && found != Err(EFAULT) {
                    assert!(found.is_ok(), "{name}: {found:?}");
                }
            }
            fs::read(format!("/proc/{equal}/environ")).expect("an equal process shows it");
        }
        _ => isolated(|| {
            let name = "a_process_of_a_stronger_domain_is_not_inspected_by_its_user";
            let stronger = Actor(Stage::new(name).start(ENTRANCE, "sleep"));
            let equal = Actor(Stage::new(name).start(LOW, "sleep"));
            let stage = Stage::new(name).give("STRONGER", stronger.0).give("EQUAL", equal.0);
            assert_eq!(stage.run(LOW, "look"), Ended::Exited(0));
        }),
    }
}

#[test]
fn a_process_that_raises_its_range_is_not_found_from_below() {
    match mls::part().as_deref() {
        Some(_) => {
            let found = call(SYS_kill, [mls::given("RAISED") as u64, 0, 0, 0, 0, 0]);
            assert_eq!(found, Err(ESRCH));
        }
        None if mls::is_here() => isolated(|| {
            let (reader, writer) = abi::pipe();
            let raised = fork(|| {
                let context = "system_u:system_r:kernel_t:s2-s5:c1";
                fs::write("/proc/self/attr/current", context).expect("a range above");
                abi::close(reader);
                abi::close(writer);
                sleep_for_ever();
            });
            abi::close(writer);
            assert_eq!(abi::read(reader, 1), Ok(Vec::new()), "it has raised its range");
            let raised = Actor(raised);
            let stage = Stage::new("a_process_that_raises_its_range_is_not_found_from_below");
            let stage = stage.give("RAISED", raised.0);
            assert_eq!(stage.run(LOW, "looker"), Ended::Exited(0));
        }),
        None => {}
    }
}

#[test]
fn a_parent_below_learns_of_the_end_alone() {
    if !mls::is_here() {
        return;
    }
    match mls::part().as_deref() {
        Some("stop and fail") => {
            // The thread itself stops, before the call returns.
            // SAFETY: takes no pointers.
            must(unsafe { raise(SIGSTOP) });
            // SAFETY: ends the process without running the harness's exit handlers.
            unsafe { _exit(7) }
        }
        Some("parent") => {
            let child = fork(|| mls::become_other(HIGH, "stop and fail"));
            let mut status = -1;
            // The child is above: its stop is not reported, but SIGCONT from the test lets it end.
            // SAFETY: the status is ours.
            must(unsafe { waitpid(child, &mut status, WUNTRACED) });
            assert_eq!((WIFEXITED(status), WEXITSTATUS(status)), (true, 0));
            let child = fork(|| mls::become_other(LOW, "stop and fail"));
            // SAFETY: as above.
            must(unsafe { waitpid(child, &mut status, WUNTRACED) });
            assert!(WIFSTOPPED(status), "a child that may be read tells all: {status:x}");
            // SAFETY: takes no pointers.
            unsafe { kill(child, SIGKILL) };
            assert_eq!(wait(child), Ended::Signalled(SIGKILL));
        }
        _ => isolated(|| {
            let stage = Stage::new("a_parent_below_learns_of_the_end_alone");
            let parent = stage.start(ENTRANCE, "parent");
            let child = loop {
                let stat = fs::read_to_string(format!("/proc/{parent}/stat"));
                assert!(stat.is_ok_and(|stat| !stat.contains(") Z ")), "the parent has ended");
                let threads = fs::read_dir(format!("/proc/{parent}/task")).expect("the parent");
                let children = |thread: fs::DirEntry| {
                    fs::read_to_string(thread.path().join("children")).unwrap_or_default()
                };
                let text: String = threads.flatten().map(children).collect();
                let child = text.split_whitespace().next().map(str::to_string);
                let is_stopped = |child: &String| {
                    let stat = fs::read_to_string(format!("/proc/{child}/stat"));
                    stat.is_ok_and(|stat| stat.contains(") T "))
                };
                if let Some(child) = child.filter(is_stopped) {
                    break child;
                }
                std::thread::yield_now();
            };
            assert_eq!(mls::context_of(&child).as_deref(), Some(HIGH));
            // SAFETY: takes no pointers.
            must(unsafe { kill(child.parse().expect("a number"), SIGCONT) });
            assert_eq!(wait(parent), Ended::Exited(0));
        }),
    }
}

#[test]
fn a_terminal_of_another_level_is_reached_by_no_other_name() {
    if !mls::is_here() {
        return;
    }
    let terminal = || abi::open("/dev/tty", O_RDWR, 0);
    match mls::part().as_deref() {
        Some("above") => {
            assert_eq!(terminal(), Err(ENXIO));
            let mut number = 0u32;
            // The master's name lets every level in, but this one belongs to another.
            let found = abi::pty::ioctl(mls::given("MASTER"), TIOCGPTN, &mut number);
            assert_eq!(found, Err(ENOTTY), "it is /dev/null");
        }
        Some("own") => assert!(terminal().is_ok()),
        _ => isolated(|| {
            // SAFETY: takes no pointers.
            must(unsafe { setsid() });
            let master = abi::pty::master(0);
            abi::open(abi::pty::path(master), O_RDWR, 0).expect("it gets the terminal");
            assert!(terminal().is_ok());
            let stage = Stage::new("a_terminal_of_another_level_is_reached_by_no_other_name");
            let stage = stage.give("MASTER", master);
            assert_eq!(stage.run(HIGH, "above"), Ended::Exited(0));
            assert_eq!(stage.run(LOW, "own"), Ended::Exited(0));
        }),
    }
}
