//! Rights of programs and access to processes: the facts by which an exec decides do not change before it has ended,
//! and everything visible of a process is that of the program whose rights were checked (execve(2), ptrace(2), proc(5),
//! mincore(2)). Run as root.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    Ended, Scratch, c, check, fork,
    identity::{as_user, become_user},
    isolated, must, open, pipe, read,
    rights::*,
    seccomp::{ERRNO, SUBJECT, install_with, only},
    stat, wait,
};
use libc::*;
use std::{
    collections::HashMap,
    fs,
    io::Read,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};

const USER: u32 = 1000;
const OTHER: u32 = 2000;
const TSYNC: u32 = 1;
const PAGE: usize = 4096;
const SECRET: [u8; SECRET_BYTES] = *b"not for the user";
const PUBLIC: [u8; SECRET_BYTES] = *b"for anyone's eye";
const NO_RANDOMIZE: c_ulong = 0x004_0000;

/// The report of an executed copy of this binary about itself.
type Report = HashMap<String, u64>;

const ASKED: &str = "ABI_RIGHTS";
const LONG_WORDS: usize = 12;
const LONG_BYTES: usize = 100 << 10;

#[test]
fn an_executed_copy_reports_its_rights() {
    if std::env::var_os(ASKED).is_none() {
        return;
    }
    let mut stack = rlimit { rlim_cur: 0, rlim_max: 0 };
    unsafe {
        must(getrlimit(RLIMIT_STACK, &mut stack));
        println!(
            "\nrights user {} effective {} group {} secure {} dumpable {} seccomp {} stack {} personality {}",
            getuid(),
            geteuid(),
            getegid(),
            getauxval(AT_SECURE),
            prctl(PR_GET_DUMPABLE),
            prctl(PR_GET_SECCOMP),
            stack.rlim_cur,
            personality(0xffff_ffff),
        );
    }
}

/// Makes a copy of this binary with an owner and a mode.
fn copy(scratch: &Scratch, owner: (u32, u32), mode: u32) -> PathBuf {
    let path = scratch.path("program");
    install_program(&path, &fs::read("/proc/self/exe").unwrap(), owner, mode);
    path
}

/// Executes the copy.
fn become_copy(program: &Path) -> ! {
    let mut command = Command::new(program);
    command.args(["an_executed_copy_reports_its_rights", "--nocapture", "--test-threads=1"]);
    // A large environment, which must be copied, makes the exec long.
    for number in 0..LONG_WORDS {
        command.env(format!("LONG{number}"), "x".repeat(LONG_BYTES));
    }
    panic!("exec: {}", command.env(ASKED, "1").exec());
}

/// Runs `body` in a child, which becomes the copy at its end. Returns the copy's report.
#[track_caller]
fn report_of(body: impl FnOnce()) -> Report {
    let (from, to) = pipe();
    let child = fork(|| {
        must(unsafe { dup2(to, 1) });
        body();
    });
    abi::close(to);
    let mut said = String::new();
    let mut file = unsafe { <fs::File as std::os::fd::FromRawFd>::from_raw_fd(from) };
    file.read_to_string(&mut said).unwrap();
    wait(child);
    let line = said.lines().find_map(|line| line.strip_prefix("rights ")).expect(&said);
    let words: Vec<&str> = line.split(' ').collect();
    words.chunks(2).map(|pair| (pair[0].to_owned(), pair[1].parse().unwrap())).collect()
}

/// Makes a scratch folder that every user may enter.
fn open_scratch() -> Scratch {
    let scratch = Scratch::new();
    must(unsafe { chmod(c(scratch.path("")).as_ptr(), 0o755) });
    scratch
}

/// Makes a small program with the secret.
fn secret_program(scratch: &Scratch, owner: (u32, u32), mode: u32) -> PathBuf {
    let path = scratch.path("secret");
    install_program(&path, &small_program(&SECRET), owner, mode);
    path
}

/// Makes a child that has become `program`, which waits for ever. `before` runs while it is still a copy of the caller.
fn running<T>(program: &Path, before: impl FnOnce(pid_t) -> T) -> (pid_t, T) {
    let (done, is_done) = pipe();
    let (go, goes) = pipe();
    must(unsafe { fcntl(is_done, F_SETFD, FD_CLOEXEC) });
    let name = c(program);
    let child = fork(|| {
        abi::close(goes);
        must(unsafe { prctl(PR_SET_PDEATHSIG, SIGTERM) });
        read(go, 1).unwrap();
        panic!("exec: {:?}", execute(&name));
    });
    abi::close(is_done);
    let found = before(child);
    abi::close(go);
    abi::close(goes);
    assert_eq!(read(done, 1), Ok(Vec::new()), "the child has executed");
    abi::close(done);
    (child, found)
}

/// Runs `body` as a user whose processes may be inspected.
#[track_caller]
fn as_plain_user(body: impl FnOnce()) {
    as_user(USER, &[], || {
        must(unsafe { prctl(PR_SET_DUMPABLE, 1) });
        body();
    });
}

fn end(child: pid_t) {
    must(unsafe { kill(child, SIGKILL) });
    assert_eq!(wait(child), Ended::Signalled(SIGKILL));
}

#[test]
fn a_filter_that_comes_during_an_exec_is_not_over_a_program_with_more_rights() {
    isolated(|| {
        let scratch = open_scratch();
        let program = copy(&scratch, (0, 0), 0o4755);
        let run = |delay: Option<Duration>| {
            report_of(|| {
                become_user(USER);
                if let Some(delay) = delay {
                    let ready = Arc::new(Barrier::new(2));
                    let theirs = ready.clone();
                    thread::spawn(move || {
                        must(unsafe { prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) });
                        theirs.wait();
                        let start = Instant::now();
                        while start.elapsed() < delay {}
                        let _ = install_with(&only(SUBJECT, ERRNO), TSYNC);
                        unsafe { pause() };
                    });
                    ready.wait();
                }
                become_copy(&program);
            })
        };
        let start = Instant::now();
        assert_eq!(run(None)["effective"], 0, "alone it has its owner's rights");
        let whole = start.elapsed();
        const ROUNDS: u32 = 60;
        let mut filtered = 0;
        for round in 0..ROUNDS {
            let report = run(Some(whole * round / ROUNDS));
            let is_filtered = report["seccomp"] != 0;
            filtered += u32::from(is_filtered);
            assert!(!is_filtered || report["effective"] == u64::from(USER), "{round}: {report:?}");
        }
        assert!(filtered > 0, "no filter came in time");
    });
}

#[test]
fn memory_is_that_of_the_program_whose_rights_were_checked() {
    isolated(|| {
        let scratch = open_scratch();
        let program = secret_program(&scratch, (0, 0), 0o4755);
        as_plain_user(|| {
            let at = SMALL_AT as *mut c_void;
            let (both, own) = (PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED);
            let at = unsafe { mmap(at, PAGE, both, own, -1, 0) };
            assert_eq!(at as usize, SMALL_AT);
            let secret =
                unsafe { std::slice::from_raw_parts_mut(SECRET_AT as *mut u8, SECRET_BYTES) };
            secret.copy_from_slice(&PUBLIC);
            for _ in 0..100 {
                let name = c(&program);
                let child = fork(|| panic!("exec: {:?}", execute(&name)));
                let mut seen = 0;
                loop {
                    let mut found = [0; SECRET_BYTES];
                    match read_memory(child, SECRET_AT, &mut found) {
                        Ok(_) => assert_eq!(found, PUBLIC),
                        Err(EPERM) => break,
                        Err(EFAULT) => seen += 1,
                        Err(other) => panic!("{other}"),
                    }
                }
                assert_eq!(seen, 0, "memory of a program that is not yet there");
                unsafe { kill(child, SIGKILL) };
                wait(child);
            }
        });
    });
}

#[test]
fn files_of_proc_that_were_opened_before_an_exec_do_not_show_the_program_after_it() {
    isolated(|| {
        let scratch = open_scratch();
        let program = secret_program(&scratch, (0, 0), 0o4755);
        as_plain_user(|| {
            let (child, files) = running(&program, |child| {
                let names = ["maps", "smaps", "mem", "environ", "pagemap", "io", "personality"];
                names.map(|name| {
                    let path = format!("/proc/{child}/{name}");
                    (name, open(&path, O_RDONLY, 0).expect(&path))
                })
            });
            for (name, file) in files {
                if name == "mem" {
                    must(unsafe { lseek(file, SECRET_AT as off_t, SEEK_SET) });
                }
                match read(file, PAGE) {
                    Ok(seen) => {
                        assert!(seen.is_empty(), "{name}: {}", String::from_utf8_lossy(&seen))
                    }
                    Err(error) => assert!([EPERM, EACCES].contains(&error), "{name}: {error}"),
                }
            }
            end(child);
        });
    });
}

#[test]
fn directories_of_proc_that_were_opened_before_an_exec_lead_nowhere_after_it() {
    isolated(|| {
        let scratch = open_scratch();
        let program = secret_program(&scratch, (0, 0), 0o4755);
        as_plain_user(|| {
            let (child, place) = running(&program, |child| {
                open(format!("/proc/{child}"), O_RDONLY | O_DIRECTORY, 0).unwrap()
            });
            for name in [c"cwd", c"root", c"exe", c"fd/0"] {
                let mut text = [0u8; 100];
                let read =
                    unsafe { readlinkat(place, name.as_ptr(), text.as_mut_ptr().cast(), 100) };
                assert_eq!(check(read as i64), Err(EACCES), "{name:?}");
            }
            for name in [c"maps", c"mem", c"environ", c"auxv", c"fd"] {
                let opened = unsafe { openat(place, name.as_ptr(), O_RDONLY) };
                assert_eq!(check(opened), Err(EACCES), "{name:?}");
            }
            end(child);
        });
    });
}

#[test]
fn the_directory_of_a_process_that_may_not_be_looked_into_is_its_user_s_and_the_files_are_root_s() {
    isolated(|| {
        as_user(USER, &[], || {
            must(unsafe { prctl(PR_SET_DUMPABLE, 0) });
            let own = |name: &str| stat(format!("/proc/self/{name}")).unwrap().st_uid;
            assert_eq!((own(""), own("task")), (USER, USER));
            assert_eq!((own("maps"), own("fd"), own("stat")), (0, 0, 0));
            must(unsafe { prctl(PR_SET_DUMPABLE, 1) });
            assert_eq!((own("maps"), own("fd"), own("stat")), (USER, USER, USER));
        });
    });
}

/// Reads memory as [`read_memory`] does. An exec closes descriptors before it maps the program, so the address may not
/// be mapped yet.
fn read_mapped(process: pid_t, address: usize, into: &mut [u8]) -> Result<i64, i32> {
    loop {
        match read_memory(process, address, into) {
            Err(libc::EFAULT) => std::thread::yield_now(),
            result => return result,
        }
    }
}

#[test]
fn a_program_that_its_user_may_not_read_is_not_read_in_memory_either() {
    isolated(|| {
        let scratch = open_scratch();
        let hidden = secret_program(&scratch, (0, 0), 0o711);
        let plain = scratch.path("plain");
        install_program(&plain, &small_program(&SECRET), (0, 0), 0o755);
        as_user(USER, &[], || {
            assert_eq!(open(&hidden, O_RDONLY, 0), Err(EACCES));
            let look = |program: &Path| {
                let (child, ()) = running(program, |_| ());
                let mut found = [0; SECRET_BYTES];
                let read = read_mapped(child, SECRET_AT, &mut found);
                let opened = open(format!("/proc/{child}/mem"), O_RDONLY, 0).map(abi::close);
                end(child);
                (read, found == SECRET, opened)
            };
            assert_eq!(look(&hidden), (Err(EPERM), false, Err(EACCES)));
            assert_eq!(look(&plain), (Ok(SECRET_BYTES as i64), true, Ok(())));
        });
        // Root may read everything.
        let (child, ()) = running(&hidden, |_| ());
        let mut found = [0; SECRET_BYTES];
        assert_eq!(read_mapped(child, SECRET_AT, &mut found), Ok(SECRET_BYTES as i64));
        assert_eq!(found, SECRET);
        end(child);
    });
}

/// Makes a child that shares root, working directory and umask with the caller and waits for ever.
fn sharer() -> pid_t {
    let parent = unsafe { getpid() };
    let child = unsafe { syscall(SYS_clone, CLONE_FS | SIGCHLD, 0, 0, 0, 0) };
    if child == 0 {
        unsafe {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            // A parent that has ended before sends no signal.
            while getppid() == parent {
                pause();
            }
            _exit(0);
        }
    }
    must(child) as pid_t
}

#[test]
fn a_program_gains_no_rights_while_another_process_shares_its_directories() {
    isolated(|| {
        let scratch = open_scratch();
        let program = copy(&scratch, (0, OTHER), 0o6755);
        let report = report_of(|| {
            become_user(USER);
            sharer();
            become_copy(&program);
        });
        let own = u64::from(USER);
        assert_eq!((report["effective"], report["group"]), (own, own), "{report:?}");
        let report = report_of(|| {
            become_user(USER);
            end(sharer());
            become_copy(&program);
        });
        assert_eq!((report["effective"], report["group"]), (0, u64::from(OTHER)), "it has ended");
        let report = report_of(|| {
            become_user(USER);
            thread::spawn(|| {
                loop {
                    thread::park();
                }
            });
            become_copy(&program);
        });
        assert_eq!((report["effective"], report["group"]), (0, u64::from(OTHER)), "a thread");
        let report = report_of(|| {
            become_user(USER);
            sharer();
            must(unsafe { unshare(CLONE_FS) });
            become_copy(&program);
        });
        assert_eq!((report["effective"], report["group"]), (0, u64::from(OTHER)), "unshared");
    });
}

#[test]
fn a_program_with_more_rights_is_laid_out_as_its_caller_did_not_choose() {
    isolated(|| {
        let scratch = open_scratch();
        let program = copy(&scratch, (0, 0), 0o4755);
        let run = |program: &Path| {
            report_of(|| {
                become_user(USER);
                let wide = rlimit { rlim_cur: 64 << 20, rlim_max: 64 << 20 };
                must(unsafe { setrlimit(RLIMIT_STACK, &wide) });
                must(unsafe { personality(NO_RANDOMIZE) });
                become_copy(program);
            })
        };
        let report = run(&program);
        assert_eq!((report["stack"], report["personality"]), (8 << 20, 0));
        must(unsafe { chmod(c(&program).as_ptr(), 0o755) });
        let report = run(&program);
        assert_eq!((report["stack"], report["personality"]), (64 << 20, NO_RANDOMIZE));
    });
}

#[test]
fn the_end_of_its_parent_ends_a_program_unless_it_has_more_rights() {
    isolated(|| {
        must(unsafe { prctl(PR_SET_CHILD_SUBREAPER, 1) });
        // If nothing ends the program, the test fails.
        unsafe { alarm(20) };
        let scratch = open_scratch();
        let program = secret_program(&scratch, (0, 0), 0o755);
        // The child of a child that ends once the program runs; it becomes this process's.
        let orphan = || {
            let (from, to) = pipe();
            let parent = fork(|| {
                become_user(USER);
                let (child, ()) = running(&program, |_| ());
                abi::write(to, &child.to_le_bytes()).unwrap();
            });
            assert_eq!(wait(parent), Ended::Exited(0));
            pid_t::from_le_bytes(read(from, 4).unwrap().try_into().unwrap())
        };
        assert_eq!(wait(orphan()), Ended::Signalled(SIGTERM));
        must(unsafe { chmod(c(&program).as_ptr(), 0o4755) });
        let child = orphan();
        // The signal would have been sent before the parent was waited for.
        must(unsafe { kill(child, SIGKILL) });
        assert_eq!(wait(child), Ended::Signalled(SIGKILL));
    });
}

#[test]
fn a_change_of_mode_and_one_of_owner_do_not_make_a_program_of_the_owner() {
    isolated(|| {
        let scratch = open_scratch();
        let file = c(scratch.file("f", b"the user's own"));
        let both = |user: u32| must(unsafe { chown(file.as_ptr(), user, user) });
        both(USER);
        let child = fork(|| {
            become_user(USER);
            loop {
                unsafe { chmod(file.as_ptr(), 0o4755) };
            }
        });
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(2) {
            both(0);
            thread::yield_now();
            let found = stat(scratch.path("f")).unwrap();
            assert_eq!((found.st_uid, found.st_mode & 0o6000), (0, 0));
            both(USER);
        }
        end(child);
    });
}

#[test]
fn a_script_that_is_open_for_writing_is_not_executed() {
    isolated(|| {
        let scratch = open_scratch();
        let script = scratch.file("s", b"#!/bin/true\n");
        must(unsafe { chmod(c(&script).as_ptr(), 0o755) });
        let writer = open(&script, O_WRONLY, 0).unwrap();
        let child = fork(|| {
            assert_eq!(execute(&c(&script)), Err(ETXTBSY));
            unsafe { _exit(3) };
        });
        assert_eq!(wait(child), Ended::Exited(3));
        abi::close(writer);
    });
}

#[test]
fn which_pages_of_a_file_are_cached_is_told_to_those_alone_that_might_write_it() {
    isolated(|| {
        let scratch = Scratch::on_disk();
        must(unsafe { chmod(c(scratch.path("")).as_ptr(), 0o755) });
        const PAGES: usize = 64;
        let path = scratch.file("f", &[7; PAGES * PAGE]);
        let file = open(&path, O_RDONLY, 0).unwrap();
        let set = |owner: u32, mode: u32| {
            must(unsafe { chown(c(&path).as_ptr(), owner, owner) });
            must(unsafe { chmod(c(&path).as_ptr(), mode) });
            must(unsafe { fsync(file) });
            // SAFETY: plain numbers; answers an error number.
            assert_eq!(unsafe { posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) }, 0);
        };
        let present = || {
            let bytes = PAGES * PAGE;
            let own = open(&path, O_RDONLY, 0).unwrap();
            let at = unsafe { mmap(std::ptr::null_mut(), bytes, PROT_READ, MAP_SHARED, own, 0) };
            assert_ne!(at, MAP_FAILED);
            let mut found = [0u8; PAGES];
            must(unsafe { mincore(at, bytes, found.as_mut_ptr()) });
            found.iter().filter(|page| **page & 1 != 0).count()
        };
        set(0, 0o644);
        assert_eq!(present(), 0, "root is told");
        as_user(USER, &[], || assert_eq!(present(), PAGES, "another user is not"));
        set(USER, 0o444);
        as_user(USER, &[], || assert_eq!(present(), 0, "the owner is told"));
        set(0, 0o646);
        as_user(USER, &[], || assert_eq!(present(), 0, "a user that may write is told"));
    });
}
