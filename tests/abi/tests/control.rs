//! Control of files: signal-driven input, record locks between processes, extended attributes,
//! names by renameat2 and linkat, times, epoll's rarer sides.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use std::{
    ffi::CStr,
    fs,
    path::Path,
    ptr::null_mut,
    sync::atomic::{AtomicI32, Ordering},
    time::Duration,
};

const F_SETSIG: i32 = 10;
const F_GETSIG: i32 = 11;

fn fcntl(fd: i32, command: i32, argument: i64) -> Result<i64, i32> {
    check(unsafe { libc::fcntl(fd, command, argument) })
}

fn pause_ms(count: u64) {
    std::thread::sleep(Duration::from_millis(count));
}

static SIGNALS: AtomicI32 = AtomicI32::new(0);
static CODE: AtomicI32 = AtomicI32::new(0);
static FD: AtomicI32 = AtomicI32::new(-1);

extern "C" fn count_signal(_: i32) {
    SIGNALS.fetch_add(1, Ordering::SeqCst);
}

extern "C" fn note_signal(_: i32, info: *const libc::siginfo_t, _: *const libc::c_void) {
    // si_band is at 16, si_fd at 24.
    FD.store(unsafe { info.cast::<i32>().add(6).read() }, Ordering::SeqCst);
    CODE.store(unsafe { (*info).si_code }, Ordering::SeqCst);
    SIGNALS.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn a_pipe_can_tell_of_bytes_by_a_signal() {
    isolated(|| {
        handle(libc::SIGIO, count_signal, 0);
        let (reader, writer) = pipe();
        let own = i64::from(unsafe { libc::getpid() });
        assert_eq!(fcntl(reader, libc::F_GETOWN, 0), Ok(0));
        fcntl(reader, libc::F_SETOWN, own).unwrap();
        assert_eq!(fcntl(reader, libc::F_GETOWN, 0), Ok(own));
        write(writer, b"x").unwrap();
        assert_eq!(SIGNALS.load(Ordering::SeqCst), 0);
        fcntl(reader, libc::F_SETFL, i64::from(libc::O_ASYNC)).unwrap();
        write(writer, b"x").unwrap();
        assert_eq!(SIGNALS.load(Ordering::SeqCst), 1);
        fcntl(reader, libc::F_SETFL, 0).unwrap();
        write(writer, b"x").unwrap();
        assert_eq!(SIGNALS.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_signal_of_ones_own_says_which_descriptor() {
    isolated(|| {
        let mut action: libc::sigaction = unsafe { zeroed() };
        action.sa_sigaction = note_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        must(unsafe { libc::sigaction(libc::SIGUSR1, &action, null_mut()) });
        let (reader, writer) = pipe();
        fcntl(reader, F_SETSIG, i64::from(libc::SIGUSR1)).unwrap();
        assert_eq!(fcntl(reader, F_GETSIG, 0), Ok(i64::from(libc::SIGUSR1)));
        fcntl(reader, libc::F_SETOWN, i64::from(unsafe { libc::getpid() })).unwrap();
        fcntl(reader, libc::F_SETFL, i64::from(libc::O_ASYNC)).unwrap();
        write(writer, b"x").unwrap();
        assert_eq!(SIGNALS.load(Ordering::SeqCst), 1);
        assert_eq!((CODE.load(Ordering::SeqCst), FD.load(Ordering::SeqCst)), (1, reader));
    });
}

#[test]
fn owners_are_threads_processes_and_groups() {
    isolated(|| {
        let (reader, _writer) = pipe();
        let own = unsafe { libc::getpid() };
        let set = |kind: i32, id: i32| {
            let owner = [kind, id];
            check(unsafe { libc::fcntl(reader, 15, owner.as_ptr()) })
        };
        let get = || {
            let mut owner = [9; 2];
            must(unsafe { libc::fcntl(reader, 16, owner.as_mut_ptr()) });
            owner
        };
        set(0, own).unwrap();
        assert_eq!(get(), [0, own]);
        let group = unsafe { libc::getpgrp() };
        fcntl(reader, libc::F_SETOWN, i64::from(-group)).unwrap();
        assert_eq!(get(), [2, group]);
        assert_eq!(set(3, own), Err(libc::EINVAL));
        assert_eq!(set(1, 999_999), Err(libc::ESRCH));
        assert_eq!(fcntl(reader, F_SETSIG, 65), Err(libc::EINVAL));
    });
}

fn lock(fd: i32, command: i32, kind: i32, start: i64, length: i64) -> Result<i64, i32> {
    let mut lock: libc::flock = unsafe { zeroed() };
    lock.l_type = kind as i16;
    lock.l_start = start;
    lock.l_len = length;
    check(unsafe { libc::fcntl(fd, command, &lock) })
}

fn rdwr(path: &Path) -> i32 {
    open(path, libc::O_RDWR | libc::O_CREAT, 0o644).unwrap()
}

#[test]
fn a_circle_of_waiting_processes_is_refused() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("file", b"0123456789");
        let ((told, tell), file) = (pipe(), rdwr(&path));
        lock(file, libc::F_SETLKW, libc::F_WRLCK, 0, 1).unwrap();
        let child = fork(|| {
            let file = rdwr(&path);
            lock(file, libc::F_SETLKW, libc::F_WRLCK, 1, 1).unwrap();
            write(tell, b"x").unwrap();
            lock(file, libc::F_SETLKW, libc::F_WRLCK, 0, 1).unwrap();
        });
        read(told, 1).unwrap();
        pause_ms(50);
        let circle = lock(file, libc::F_SETLKW, libc::F_WRLCK, 1, 1);
        assert_eq!(circle, Err(libc::EDEADLK));
        lock(file, libc::F_SETLK, libc::F_UNLCK, 0, 1).unwrap();
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn a_circle_of_three_is_refused_too() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("file", b"0123456789");
        let ((told, tell), file) = (pipe(), rdwr(&path));
        lock(file, libc::F_SETLKW, libc::F_WRLCK, 0, 1).unwrap();
        let spawn = |own: i64, wanted: i64| {
            fork(|| {
                let file = rdwr(&path);
                lock(file, libc::F_SETLKW, libc::F_WRLCK, own, 1).unwrap();
                write(tell, b"x").unwrap();
                pause_ms(30);
                lock(file, libc::F_SETLKW, libc::F_WRLCK, wanted, 1).unwrap();
            })
        };
        let second = spawn(1, 0);
        read(told, 1).unwrap();
        let third = spawn(2, 1);
        read(told, 1).unwrap();
        pause_ms(100);
        assert_eq!(lock(file, libc::F_SETLKW, libc::F_WRLCK, 2, 1), Err(libc::EDEADLK));
        close(file);
        assert_eq!((wait(second), wait(third)), (Ended::Exited(0), Ended::Exited(0)));
    });
}

#[test]
fn closing_any_descriptor_of_a_file_lets_record_locks_go() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("file", b"0123456789");
        let (file, other) = (rdwr(&path), rdwr(&path));
        lock(file, libc::F_SETLK, libc::F_WRLCK, 0, 0).unwrap();
        let try_it = || {
            let child = fork(|| {
                let got = lock(rdwr(&path), libc::F_SETLK, libc::F_WRLCK, 0, 0);
                unsafe { libc::_exit(i32::from(got == Err(libc::EAGAIN))) }
            });
            wait(child)
        };
        assert_eq!(try_it(), Ended::Exited(1));
        close(other);
        assert_eq!(try_it(), Ended::Exited(0));
    });
}

#[test]
fn description_locks_stay_with_the_description() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("file", b"0123456789");
        let (one, two) = (rdwr(&path), rdwr(&path));
        lock(one, libc::F_OFD_SETLK, libc::F_WRLCK, 0, 5).unwrap();
        assert_eq!(lock(two, libc::F_OFD_SETLK, libc::F_RDLCK, 4, 1), Err(libc::EAGAIN));
        assert_eq!(lock(two, libc::F_SETLK, libc::F_RDLCK, 4, 1), Err(libc::EAGAIN));
        assert_eq!(lock(two, libc::F_OFD_SETLK, libc::F_RDLCK, 5, 1), Ok(0));
        let copy = must(unsafe { libc::dup(one) }) as i32;
        close(one);
        assert_eq!(lock(two, libc::F_OFD_SETLK, libc::F_RDLCK, 0, 1), Err(libc::EAGAIN));
        close(copy);
        assert_eq!(lock(two, libc::F_OFD_SETLK, libc::F_RDLCK, 0, 1), Ok(0));
    });
}

#[test]
fn getlk_names_the_first_lock_in_the_way() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("file", b"0123456789");
        let (file, (told, tell)) = (rdwr(&path), pipe());
        let child = fork(|| {
            let file = rdwr(&path);
            lock(file, libc::F_SETLK, libc::F_RDLCK, 7, 0).unwrap();
            lock(file, libc::F_SETLK, libc::F_WRLCK, 2, 3).unwrap();
            write(tell, b"x").unwrap();
            loop {
                unsafe { libc::pause() };
            }
        });
        read(told, 1).unwrap();
        let ask = |kind: i32, start: i64| {
            let mut lock: libc::flock = unsafe { zeroed() };
            (lock.l_type, lock.l_start) = (kind as i16, start);
            must(unsafe { libc::fcntl(file, libc::F_GETLK, &mut lock) });
            (i32::from(lock.l_type), lock.l_start, lock.l_len, lock.l_pid)
        };
        assert_eq!(ask(libc::F_WRLCK, 0), (libc::F_WRLCK, 2, 3, child));
        assert_eq!(ask(libc::F_WRLCK, 5), (libc::F_RDLCK, 7, 0, child));
        assert_eq!(ask(libc::F_RDLCK, 5).0, libc::F_UNLCK);
        must(unsafe { libc::kill(child, libc::SIGKILL) });
        wait(child);
        assert_eq!(ask(libc::F_WRLCK, 0).0, libc::F_UNLCK);
    });
}

#[test]
fn locks_can_be_read_in_proc() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("file", b"0123456789");
        let file = rdwr(&path);
        lock(file, libc::F_SETLK, libc::F_WRLCK, 5, 10).unwrap();
        must(unsafe { libc::flock(file, libc::LOCK_SH) });
        let inode = stat(&path).unwrap().st_ino;
        let own = unsafe { libc::getpid() };
        let text = fs::read_to_string("/proc/locks").unwrap();
        let find = |what: &str, range: &str| {
            text.lines()
                .any(|line| line.contains(what) && line.ends_with(&format!(":{inode} {range}")))
        };
        assert!(find(&format!("POSIX  ADVISORY  WRITE {own} "), "5 14"), "{text}");
        assert!(find(&format!("FLOCK  ADVISORY  READ {own} "), "0 EOF"), "{text}");
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{file}")).unwrap();
        assert_eq!(info.lines().filter(|line| line.starts_with("lock:\t")).count(), 2, "{info}");
    });
}

#[test]
fn flock_changes_its_kind_and_says_would_block() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("file", b"");
        let (one, two) = (rdwr(&path), rdwr(&path));
        let flock = |fd, how| check(unsafe { libc::flock(fd, how) });
        flock(one, libc::LOCK_SH).unwrap();
        flock(two, libc::LOCK_SH).unwrap();
        assert_eq!(flock(one, libc::LOCK_EX | libc::LOCK_NB), Err(libc::EWOULDBLOCK));
        flock(two, libc::LOCK_UN).unwrap();
        flock(one, libc::LOCK_EX | libc::LOCK_NB).unwrap();
        assert_eq!(flock(two, libc::LOCK_SH | libc::LOCK_NB), Err(libc::EWOULDBLOCK));
        assert_eq!(flock(one, 0), Err(libc::EINVAL));
        let child = fork(|| {
            close(one);
            flock(two, libc::LOCK_EX).unwrap();
        });
        pause_ms(30);
        close(one);
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

fn set_xattr(path: &Path, name: &CStr, value: &[u8], flags: i32) -> Result<i64, i32> {
    check(unsafe {
        libc::setxattr(c(path).as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), flags)
    })
}

fn get_xattr(path: &Path, name: &CStr, room: usize) -> Result<Vec<u8>, i32> {
    let mut value = vec![0u8; room];
    let count = check(unsafe {
        libc::getxattr(c(path).as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), room)
    } as i64)?;
    value.truncate(if room == 0 { 0 } else { count as usize });
    Ok(if room == 0 { vec![0; count as usize] } else { value })
}

#[test]
fn attributes_are_set_read_listed_and_removed() {
    isolated(|| {
        let scratch = Scratch::new();
        let file = scratch.file("file", b"");
        set_xattr(&file, c"user.one", b"hello", 0).unwrap();
        set_xattr(&file, c"user.two", b"", 0).unwrap();
        assert_eq!(get_xattr(&file, c"user.one", 100), Ok(b"hello".to_vec()));
        assert_eq!(get_xattr(&file, c"user.one", 0).map(|value| value.len()), Ok(5));
        assert_eq!(get_xattr(&file, c"user.one", 4), Err(libc::ERANGE));
        let mut names = [0u8; 100];
        let length =
            must(unsafe { libc::listxattr(c(&file).as_ptr(), names.as_mut_ptr().cast(), 100) }
                as i64);
        let mut names: Vec<_> = names[..length as usize]
            .split(|byte| *byte == 0)
            .filter(|name| name.starts_with(b"user."))
            .collect();
        names.sort();
        assert_eq!(names, [b"user.one", b"user.two"]);
        must(unsafe { libc::removexattr(c(&file).as_ptr(), c"user.one".as_ptr()) });
        assert_eq!(get_xattr(&file, c"user.one", 100), Err(libc::ENODATA));
        let again = check(unsafe { libc::removexattr(c(&file).as_ptr(), c"user.one".as_ptr()) });
        assert_eq!(again, Err(libc::ENODATA));
        let fd = rdwr(&file);
        must(unsafe { libc::fsetxattr(fd, c"user.three".as_ptr(), c"x".as_ptr().cast(), 1, 0) });
        must(unsafe { libc::fremovexattr(fd, c"user.three".as_ptr()) });
    });
}

#[test]
fn attributes_are_created_or_replaced_as_asked() {
    isolated(|| {
        let scratch = Scratch::new();
        let file = scratch.file("file", b"");
        let both = libc::XATTR_CREATE | libc::XATTR_REPLACE;
        assert_eq!(set_xattr(&file, c"user.a", b"1", libc::XATTR_REPLACE), Err(libc::ENODATA));
        assert_eq!(set_xattr(&file, c"user.a", b"1", both), Err(libc::ENODATA));
        set_xattr(&file, c"user.a", b"1", libc::XATTR_CREATE).unwrap();
        assert_eq!(set_xattr(&file, c"user.a", b"2", libc::XATTR_CREATE), Err(libc::EEXIST));
        assert_eq!(set_xattr(&file, c"user.a", b"2", both), Err(libc::EEXIST));
        set_xattr(&file, c"user.a", b"22", libc::XATTR_REPLACE).unwrap();
        assert_eq!(get_xattr(&file, c"user.a", 10), Ok(b"22".to_vec()));
        assert_eq!(set_xattr(&file, c"user.a", b"2", 4), Err(libc::EINVAL));
        assert_eq!(set_xattr(&file, c"user.a", &vec![0; 65537], 0), Err(libc::E2BIG));
        assert_eq!(set_xattr(&file, c"", b"", 0), Err(libc::ERANGE));
        assert_eq!(set_xattr(&file, c"nospace.a", b"", 0), Err(libc::EOPNOTSUPP));
    });
}

#[test]
fn namespaces_of_attributes_have_their_rules() {
    isolated(|| {
        let scratch = Scratch::new();
        let file = scratch.file("file", b"");
        let link = scratch.path("link");
        std::os::unix::fs::symlink("file", &link).unwrap();
        set_xattr(&file, c"trusted.secret", b"x", 0).unwrap();
        set_xattr(&file, c"user.open", b"x", 0).unwrap();
        let on_link = check(unsafe {
            libc::lsetxattr(c(&link).as_ptr(), c"user.a".as_ptr(), c"x".as_ptr().cast(), 1, 0)
        });
        assert_eq!(on_link, Err(libc::EPERM));
        must(unsafe { libc::chmod(c(scratch.path("")).as_ptr(), 0o755) });
        must(unsafe { libc::chmod(c(&file).as_ptr(), 0o644) });
        let child = fork(|| {
            must(unsafe { libc::setresuid(1000, 1000, 1000) });
            assert_eq!(get_xattr(&file, c"user.open", 9), Ok(b"x".to_vec()));
            assert_eq!(set_xattr(&file, c"user.open", b"y", 0), Err(libc::EACCES));
            assert_eq!(get_xattr(&file, c"trusted.secret", 9), Err(libc::ENODATA));
            assert_eq!(set_xattr(&file, c"trusted.other", b"y", 0), Err(libc::EPERM));
            let mut names = [0u8; 100];
            let length =
                must(unsafe { libc::listxattr(c(&file).as_ptr(), names.as_mut_ptr().cast(), 100) }
                    as i64);
            assert!(!names[..length as usize].starts_with(b"trusted."));
        });
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn renameat2_exchanges_names_and_refuses_the_rest() {
    isolated(|| {
        let scratch = Scratch::new();
        let (file, dir) = (scratch.file("file", b"x"), scratch.path("dir"));
        fs::create_dir(&dir).unwrap();
        let rename = |from: &Path, to: &Path, flags: u32| {
            let (from, to) = (c(from), c(to));
            check(unsafe {
                libc::syscall(
                    libc::SYS_renameat2,
                    libc::AT_FDCWD,
                    from.as_ptr(),
                    libc::AT_FDCWD,
                    to.as_ptr(),
                    flags,
                )
            })
        };
        rename(&file, &dir, 2).unwrap();
        assert!(fs::metadata(&file).unwrap().is_dir() && fs::read(&dir).unwrap() == b"x");
        assert_eq!(rename(&file, &scratch.path("none"), 2), Err(libc::ENOENT));
        assert_eq!(rename(&file, &file.join("below"), 0), Err(libc::EINVAL));
        assert_eq!(rename(&file, &dir, 3), Err(libc::EINVAL));
        assert_eq!(rename(&file, &dir, 8), Err(libc::EINVAL));
        assert_eq!(rename(&file, &dir, 1), Err(libc::EEXIST));
        assert_eq!(rename(&file, &dir, 0), Err(libc::ENOTDIR));
    });
}

#[test]
fn a_file_without_a_name_can_be_given_one() {
    isolated(|| {
        let scratch = Scratch::new();
        let flags = libc::O_TMPFILE | libc::O_RDWR;
        let Ok(file) = open(scratch.path(""), flags, 0o600) else { return };
        write(file, b"hello").unwrap();
        let name = c(scratch.path("name"));
        let own = c(format!("/proc/self/fd/{file}"));
        let link = |from: &CStr, directory: i32, how: i32| {
            check(unsafe {
                libc::linkat(directory, from.as_ptr(), libc::AT_FDCWD, name.as_ptr(), how)
            })
        };
        link(&own, libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW).unwrap();
        assert_eq!(fs::read(scratch.path("name")).unwrap(), b"hello");
        assert_eq!(link(c"", file, libc::AT_EMPTY_PATH), Err(libc::EEXIST));
        assert_eq!(link(c"", file, 1), Err(libc::EINVAL));
        let exclusive = open(scratch.path(""), flags | libc::O_EXCL, 0o600).unwrap();
        let own = c(format!("/proc/self/fd/{exclusive}"));
        fs::remove_file(scratch.path("name")).unwrap();
        assert_eq!(link(&own, libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW), Err(libc::ENOENT));
    });
}

#[test]
fn setting_times_has_its_rules() {
    isolated(|| {
        let scratch = Scratch::new();
        let file = scratch.file("file", b"");
        let set = |accessed: i64, modified: i64| {
            let time = |ns| libc::timespec { tv_sec: 1_000, tv_nsec: ns };
            let times = [time(accessed), time(modified)];
            check(unsafe { libc::utimensat(libc::AT_FDCWD, c(&file).as_ptr(), times.as_ptr(), 0) })
        };
        set(7, 8).unwrap();
        set(libc::UTIME_OMIT, 9).unwrap();
        let seen = stat(&file).unwrap();
        assert_eq!((seen.st_atime, seen.st_atime_nsec, seen.st_mtime_nsec), (1_000, 7, 9));
        assert_eq!(set(1_000_000_000, 0), Err(libc::EINVAL));
        must(unsafe { libc::chmod(c(scratch.path("")).as_ptr(), 0o755) });
        must(unsafe { libc::chmod(c(&file).as_ptr(), 0o666) });
        let child = fork(|| {
            must(unsafe { libc::setresuid(1000, 1000, 1000) });
            assert_eq!(set(libc::UTIME_NOW, libc::UTIME_NOW), Ok(0));
            assert_eq!(set(libc::UTIME_OMIT, libc::UTIME_OMIT), Ok(0));
            assert_eq!(set(libc::UTIME_NOW, libc::UTIME_OMIT), Err(libc::EPERM));
            assert_eq!(set(1, 2), Err(libc::EPERM));
        });
        assert_eq!(wait(child), Ended::Exited(0));
        must(unsafe { libc::chmod(c(&file).as_ptr(), 0o644) });
        let child = fork(|| {
            must(unsafe { libc::setresuid(1000, 1000, 1000) });
            assert_eq!(set(libc::UTIME_NOW, libc::UTIME_NOW), Err(libc::EACCES));
        });
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn leases_and_handles_that_are_not_there_say_so() {
    isolated(|| {
        let scratch = Scratch::new();
        let file = rdwr(&scratch.file("file", b""));
        assert_eq!(fcntl(file, libc::F_GETLEASE, 0), Ok(i64::from(libc::F_UNLCK)));
        assert_eq!(fcntl(file, libc::F_SETLEASE, i64::from(libc::F_UNLCK)), Err(libc::EAGAIN));
        assert_eq!(fcntl(pipe().0, libc::F_SETLEASE, i64::from(libc::F_RDLCK)), Err(libc::EINVAL));
        assert_eq!(fcntl(file, libc::F_NOTIFY, 1), Err(libc::ENOTDIR));
        assert_eq!(fcntl(file, 9999, 0), Err(libc::EINVAL));
    });
}

fn epoll() -> i32 {
    must(unsafe { libc::epoll_create1(0) }) as i32
}

fn control(epoll: i32, operation: i32, fd: i32, events: u32) -> Result<i64, i32> {
    let mut event = libc::epoll_event { events, u64: fd as u64 };
    check(unsafe { libc::epoll_ctl(epoll, operation, fd, &mut event) })
}

fn ready(epoll: i32, ms: i32) -> Vec<(i32, u32)> {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 8];
    let count = must(unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), 8, ms) });
    events[..count as usize].iter().map(|event| (event.u64 as i32, event.events)).collect()
}

const IN: u32 = libc::EPOLLIN as u32;
const EXCLUSIVE: u32 = 1 << 28;

#[test]
fn epolls_watch_epolls_but_not_in_a_circle() {
    isolated(|| {
        let (inner, outer, (reader, writer)) = (epoll(), epoll(), pipe());
        control(inner, libc::EPOLL_CTL_ADD, reader, IN).unwrap();
        control(outer, libc::EPOLL_CTL_ADD, inner, IN).unwrap();
        assert_eq!(ready(outer, 0), []);
        write(writer, b"x").unwrap();
        assert_eq!(ready(outer, 1000), [(inner, IN)]);
        assert_eq!(ready(inner, 0), [(reader, IN)]);
        assert_eq!(control(inner, libc::EPOLL_CTL_ADD, outer, IN), Err(libc::ELOOP));
        assert_eq!(control(inner, libc::EPOLL_CTL_ADD, inner, IN), Err(libc::EINVAL));
        let mut below = outer;
        let deeper: Vec<_> = (0..6)
            .map(|_| {
                let above = epoll();
                let result = control(above, libc::EPOLL_CTL_ADD, below, IN);
                below = above;
                result
            })
            .collect();
        assert!(deeper.contains(&Err(libc::ELOOP)), "{deeper:?}");
    });
}

#[test]
fn exclusive_watches_follow_their_rules() {
    isolated(|| {
        let (own, (reader, writer)) = (epoll(), pipe());
        control(own, libc::EPOLL_CTL_ADD, reader, IN | EXCLUSIVE).unwrap();
        assert_eq!(control(own, libc::EPOLL_CTL_MOD, reader, IN), Err(libc::EINVAL));
        write(writer, b"x").unwrap();
        assert_eq!(ready(own, 1000), [(reader, IN)]);
        let once = IN | EXCLUSIVE | libc::EPOLLONESHOT as u32;
        assert_eq!(control(own, libc::EPOLL_CTL_ADD, writer, once), Err(libc::EINVAL));
        assert_eq!(control(own, libc::EPOLL_CTL_ADD, epoll(), IN | EXCLUSIVE), Err(libc::EINVAL));
        let other = must(unsafe { libc::dup(reader) }) as i32;
        control(own, libc::EPOLL_CTL_ADD, other, IN).unwrap();
        assert_eq!(control(own, libc::EPOLL_CTL_MOD, other, IN | EXCLUSIVE), Err(libc::EINVAL));
    });
}

#[test]
fn every_waiter_of_an_epoll_gets_its_share() {
    isolated(|| {
        let (own, (reader, writer), (told, tell)) = (epoll(), pipe(), pipe());
        control(own, libc::EPOLL_CTL_ADD, reader, IN | libc::EPOLLET as u32).unwrap();
        let children: Vec<_> = (0..4)
            .map(|_| {
                fork(|| {
                    let got = ready(own, 300).len();
                    write(tell, &[got as u8]).unwrap();
                })
            })
            .collect();
        pause_ms(100);
        write(writer, b"x").unwrap();
        for child in children {
            assert_eq!(wait(child), Ended::Exited(0));
        }
        let sum: u8 = read(told, 4).unwrap().iter().sum();
        assert_eq!(sum, 1);
    });
}

#[test]
fn a_finer_timeout_is_kept_and_checked() {
    isolated(|| {
        let own = epoll();
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        let mut pwait2 = |ns: i64| {
            let timeout = libc::timespec { tv_sec: 0, tv_nsec: ns };
            check(unsafe {
                libc::syscall(
                    libc::SYS_epoll_pwait2,
                    own,
                    &mut event,
                    1,
                    &timeout,
                    null_mut::<u8>(),
                    8,
                )
            })
        };
        let start = clock_ns(libc::CLOCK_MONOTONIC);
        assert_eq!(pwait2(3_500_000), Ok(0));
        assert!(clock_ns(libc::CLOCK_MONOTONIC) - start >= 3_500_000);
        assert_eq!(pwait2(1_000_000_000), Err(libc::EINVAL));
        assert_eq!(pwait2(-1), Err(libc::EINVAL));
    });
}
