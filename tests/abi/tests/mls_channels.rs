//! Covert channels that are closed (`docs/mls-channels.md`): tests for systems with a monitor. They do nothing elsewhere.
use abi::{
    Ended, c, close, fork, isolated,
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

#[test]
fn descriptions_from_below_are_used_unseen() {
    if !mls::is_here() {
        return;
    }
    const FILE: &str = "/used-from-above";
    // SAFETY: takes no pointers.
    let offset = |file| must(unsafe { lseek(file, 0, SEEK_CUR) });
    match mls::part().as_deref() {
        Some("read") => {
            let file = mls::given("FILE");
            assert_eq!(abi::read(file, 4), Ok(b"text".to_vec()));
            assert_eq!(
                offset(mls::given("SAME")),
                4,
                "its descriptors still share one description"
            );
            // SAFETY: takes no pointers.
            unsafe { raise(SIGSTOP) };
        }
        _ => isolated(|| {
            fs::write(FILE, "text to read").expect("writing a file");
            label(Path::new(FILE), "system_u:object_r:tmp_t:s0");
            let file = abi::open(FILE, O_RDONLY, 0).expect("opening the file");
            // SAFETY: takes no pointers.
            let same = must(unsafe { dup(file) }) as i32;
            // SAFETY: takes no pointers.
            let watcher = must(unsafe { inotify_init1(IN_NONBLOCK) }) as i32;
            let stage = Stage::new("descriptions_from_below_are_used_unseen");
            let stage = stage.give("FILE", file).give("SAME", same);
            // SAFETY: the path ends with NUL.
            must(unsafe { inotify_add_watch(watcher, c(FILE).as_ptr(), IN_ALL_EVENTS) });
            let reader = stage.start(HIGH, "read");
            wait_for_stop(reader);
            assert_eq!(offset(file), 0);
            let program = fs::read_link(format!("/proc/{reader}/exe")).expect("its program");
            fs::File::options().append(true).open(program).expect("nobody sees that it runs");
            assert_eq!(abi::read(watcher, 256), Err(EAGAIN), "no event");
            [file, same].into_iter().for_each(close);
            fs::remove_file(FILE).expect("removing the file");
            let events = abi::read(watcher, 256).expect("events of the removal");
            let masks: Vec<u32> = events
                .chunks_exact(size_of::<inotify_event>())
                .map(|event| u32::from_ne_bytes(std::array::from_fn(|byte| event[4 + byte])))
                .collect();
            let ended = [IN_DELETE_SELF, IN_IGNORED];
            assert!(masks.ends_with(&ended), "{masks:x?}: nobody sees that it is still open above");
            // SAFETY: takes no pointers.
            must(unsafe { kill(reader, SIGKILL) });
            wait(reader);
        }),
    }
}
