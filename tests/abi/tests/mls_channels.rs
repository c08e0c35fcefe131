//! Covert channels that are closed (`docs/mls-channels.md`): tests for systems with a monitor. They do nothing elsewhere.
use abi::{
    Ended, c, fork, isolated,
    mls::{self, HIGH, LOW, Stage, label},
    must, wait,
};
use libc::*;
use std::{fs, mem::MaybeUninit, os::unix::process::CommandExt, path::Path, process::Command, ptr};

/// Returns space and inodes of the file system at `path`.
fn usage(path: &str) -> statfs {
    let (path, mut found) = (c(path), MaybeUninit::zeroed());
    // SAFETY: a path, and room for the answer.
    must(unsafe { statfs(path.as_ptr(), found.as_mut_ptr()) });
    // SAFETY: the call has filled it, and all values are valid.
    unsafe { found.assume_init() }
}

/// Waits until a child has stopped.
fn wait_for_stop(child: pid_t) {
    let mut status = 0;
    // SAFETY: the address is that of a word.
    must(unsafe { waitpid(child, &mut status, WUNTRACED) });
    assert!(WIFSTOPPED(status), "{status:#x}");
}

/// Takes inotify instances until there are no more, and returns their number.
fn take_instances() -> usize {
    // SAFETY: takes no pointers.
    std::iter::from_fn(|| (unsafe { inotify_init1(0) } >= 0).then_some(())).count()
}

#[test]
fn limits_of_a_user_hold_for_each_level_alone() {
    if !mls::is_here() {
        return;
    }
    match mls::part().as_deref() {
        Some("take") => {
            assert!(take_instances() > 0);
            // SAFETY: takes no pointers.
            unsafe { raise(SIGSTOP) };
        }
        Some("use") => assert!(take_instances() > 1, "another level has taken none of these"),
        _ => isolated(|| {
            let stage = Stage::new("limits_of_a_user_hold_for_each_level_alone");
            let holder = stage.start(HIGH, "take");
            wait_for_stop(holder);
            assert_eq!(stage.run(LOW, "use"), Ended::Exited(0));
            // SAFETY: takes no pointers.
            must(unsafe { kill(holder, SIGKILL) });
            wait(holder);
        }),
    }
}

#[test]
fn totals_of_all_levels_are_rough_or_none() {
    if !mls::is_here() {
        return;
    }
    match mls::part().as_deref() {
        Some("look") => {
            let before = usage("/tmp");
            let step = (before.f_blocks / 64).max(1);
            assert_eq!(before.f_bfree % step, 0);
            let lines = fs::read_to_string("/proc/net/dev").expect("the counts");
            let counts = lines.lines().skip(2).filter_map(|line| line.split_once(':'));
            for (name, counts) in counts {
                assert!(counts.split_whitespace().all(|count| count == "0"), "{name}: {counts}");
            }
            assert!(fs::read("/sys/class/net/lo/statistics/rx_packets").is_err());
            all_pages_are_in_memory();
        }
        _ => isolated(|| {
            let stage = Stage::new("totals_of_all_levels_are_rough_or_none");
            assert_eq!(stage.run(LOW, "look"), Ended::Exited(0));
        }),
    }
}

/// Maps a file without reading it: mincore tells nothing of its pages.
fn all_pages_are_in_memory() {
    const BYTES: usize = 16 * 4096;
    let program = c("/proc/self/exe");
    // SAFETY: a path.
    let file = must(unsafe { open(program.as_ptr(), O_RDONLY) });
    // SAFETY: a new mapping of an open file.
    let start = unsafe { mmap(ptr::null_mut(), BYTES, PROT_READ, MAP_SHARED, file as i32, 0) };
    assert_ne!(start, MAP_FAILED);
    let mut pages = [0u8; 16];
    // SAFETY: a byte for each page of the mapping.
    must(unsafe { mincore(start, BYTES, pages.as_mut_ptr()) });
    assert_eq!(pages, [1; 16]);
}

#[test]
fn a_program_that_is_executed_from_above_can_be_written() {
    if !mls::is_here() {
        return;
    }
    const PROGRAM: &str = "/executed-from-above";
    match mls::part().as_deref() {
        Some("execute") => {
            let child = fork(|| {
                // SAFETY: takes no pointers.
                must(unsafe { prctl(PR_SET_PDEATHSIG, SIGKILL) });
                let why = Command::new(PROGRAM).arg0("sh").args(["-c", "kill -STOP $$"]).exec();
                panic!("{why}");
            });
            wait_for_stop(child);
            // SAFETY: takes no pointers.
            unsafe { raise(SIGSTOP) };
        }
        _ => isolated(|| {
            fs::copy("/bin/sh", PROGRAM).expect("copying a program");
            label(Path::new(PROGRAM), "system_u:object_r:shell_exec_t:s0");
            let stage = Stage::new("a_program_that_is_executed_from_above_can_be_written");
            let holder = stage.start(HIGH, "execute");
            wait_for_stop(holder);
            fs::File::options().append(true).open(PROGRAM).expect("nobody below sees that it runs");
            // SAFETY: takes no pointers.
            must(unsafe { kill(holder, SIGKILL) });
            wait(holder);
            fs::remove_file(PROGRAM).expect("removing the program");
        }),
    }
}
