//! Directory change signals: fcntl's F_NOTIFY.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use std::{fs, mem, ptr};

const F_SETSIG: i32 = 10;
const DN_ACCESS: u32 = 0x1;
const DN_MODIFY: u32 = 0x2;
const DN_CREATE: u32 = 0x4;
const DN_DELETE: u32 = 0x8;
const DN_RENAME: u32 = 0x10;
const DN_ATTRIB: u32 = 0x20;
const DN_MULTISHOT: u32 = 0x8000_0000;
const POLL_MSG: i32 = 3;
const BAND: i64 = 0x441;

/// A directory that is watched by a queued signal.
struct Watched {
    scratch: Scratch,
    fd: i32,
    signal: i32,
}

impl Watched {
    fn new(scratch: Scratch) -> Watched {
        let signal = libc::SIGRTMIN() + 3;
        unsafe {
            let mut set = mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, signal);
            libc::sigaddset(&mut set, libc::SIGIO);
            must(libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut()));
        }
        fs::create_dir(scratch.path("d")).unwrap();
        let fd = open(scratch.path("d"), libc::O_RDONLY, 0).unwrap();
        must(unsafe { libc::fcntl(fd, F_SETSIG, signal) });
        Watched { scratch, fd, signal }
    }
    fn notify(&self, events: u32) {
        assert_eq!(notify(self.fd, events), Ok(0));
    }
    fn path(&self, name: &str) -> std::path::PathBuf {
        self.scratch.path("d").join(name)
    }
    /// Takes all pending signals, checks each and returns their number.
    fn signals(&self) -> usize {
        let mut count = 0;
        while let Some(told) = next(self.signal) {
            assert_eq!(told, (POLL_MSG, BAND, self.fd));
            count += 1;
        }
        count
    }
}

fn notify(fd: i32, events: u32) -> Result<i64, i32> {
    check(unsafe { libc::fcntl(fd, libc::F_NOTIFY, events as libc::c_ulong) })
}

/// Returns the code, band and descriptor of a pending signal.
fn next(signal: i32) -> Option<(i32, i64, i32)> {
    unsafe {
        let (mut set, mut info): (libc::sigset_t, libc::siginfo_t) = (mem::zeroed(), mem::zeroed());
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let found = libc::sigtimedwait(&set, &mut info, &none);
        let words = ptr::from_ref(&info).cast::<u8>();
        let band = words.add(16).cast::<i64>().read_unaligned();
        let fd = words.add(24).cast::<i32>().read_unaligned();
        (found == signal).then_some((info.si_code, band, fd))
    }
}

const ALL: u32 = DN_ACCESS | DN_MODIFY | DN_CREATE | DN_DELETE | DN_RENAME | DN_ATTRIB;

#[test]
fn each_event_is_told_to_who_asked_for_it() {
    isolated(|| {
        for scratch in [Scratch::new(), Scratch::on_disk()] {
            let watched = Watched::new(scratch);
            let (one, two) = (watched.path("one"), watched.path("two"));
            let steps: [(u32, &dyn Fn()); 7] = [
                (DN_CREATE, &|| drop(fs::File::create(&one).unwrap())),
                (DN_MODIFY, &|| {
                    let fd = open(&one, libc::O_WRONLY, 0).unwrap();
                    write(fd, b"x").unwrap();
                    close(fd);
                }),
                (DN_ACCESS, &|| drop(fs::read(&one).unwrap())),
                (DN_ATTRIB, &|| {
                    must(unsafe { libc::chmod(c(&one).as_ptr(), 0o600) });
                }),
                (DN_RENAME, &|| fs::rename(&one, &two).unwrap()),
                (DN_CREATE, &|| fs::create_dir(&one).unwrap()),
                (DN_DELETE, &|| fs::remove_dir(&one).unwrap()),
            ];
            for (number, (event, step)) in steps.iter().enumerate() {
                watched.notify(event | DN_MULTISHOT);
                step();
                assert!(watched.signals() > 0, "step {number}");
                watched.notify(0);
                assert_eq!(watched.signals(), 0);
            }
        }
    });
}

#[test]
fn a_rename_counts_within_the_directory() {
    isolated(|| {
        let watched = Watched::new(Scratch::new());
        let (inside, outside) = (watched.path("x"), watched.scratch.file("y", b""));
        watched.notify(DN_RENAME | DN_MULTISHOT);
        fs::rename(&outside, &inside).unwrap();
        let came = watched.signals();
        fs::rename(&inside, &outside).unwrap();
        let left = watched.signals();
        fs::rename(&outside, &inside).unwrap();
        watched.signals();
        fs::rename(&inside, watched.path("z")).unwrap();
        assert_eq!((came, left, watched.signals()), (0, 0, 1));
    });
}

#[test]
fn what_was_not_asked_for_is_not_told() {
    isolated(|| {
        let watched = Watched::new(Scratch::new());
        fs::write(watched.path("a"), b"x").unwrap();
        watched.notify((ALL & !DN_ATTRIB) | DN_MULTISHOT);
        must(unsafe { libc::chmod(c(watched.path("a")).as_ptr(), 0o600) });
        assert_eq!(watched.signals(), 0);
        assert_eq!(fs::read(watched.path("a")).unwrap(), b"x");
        assert!(watched.signals() > 0);
    });
}

#[test]
fn a_name_that_leaves_is_deleted_and_one_that_comes_created() {
    isolated(|| {
        let watched = Watched::new(Scratch::new());
        let (inside, outside) = (watched.path("x"), watched.scratch.file("y", b""));
        watched.notify(DN_CREATE | DN_MULTISHOT);
        fs::rename(&outside, &inside).unwrap();
        assert_eq!(watched.signals(), 1);
        watched.notify(0);
        watched.notify(DN_DELETE | DN_MULTISHOT);
        fs::rename(&inside, &outside).unwrap();
        assert_eq!(watched.signals(), 1);
    });
}

#[test]
fn without_multishot_it_is_told_once() {
    isolated(|| {
        let watched = Watched::new(Scratch::new());
        watched.notify(DN_CREATE);
        for name in ["a", "b", "c"] {
            fs::write(watched.path(name), b"").unwrap();
        }
        assert_eq!(watched.signals(), 1);
        watched.notify(DN_DELETE);
        watched.notify(DN_CREATE);
        fs::remove_file(watched.path("a")).unwrap();
        fs::write(watched.path("a"), b"").unwrap();
        assert_eq!(watched.signals(), 1, "both were asked for, and one was told");
    });
}

#[test]
fn only_what_is_in_it_counts() {
    isolated(|| {
        let watched = Watched::new(Scratch::new());
        fs::create_dir(watched.path("sub")).unwrap();
        watched.notify(ALL | DN_MULTISHOT);
        fs::write(watched.path("sub/deep"), b"x").unwrap();
        fs::write(watched.scratch.path("beside"), b"x").unwrap();
        assert_eq!(watched.signals(), 0);
    });
}

#[test]
fn a_closed_descriptor_is_told_nothing() {
    isolated(|| {
        let watched = Watched::new(Scratch::new());
        watched.notify(DN_CREATE | DN_MULTISHOT);
        let other = must(unsafe { libc::dup(watched.fd) }) as i32;
        let child = fork(|| close(other));
        assert_eq!(wait(child), Ended::Exited(0));
        fs::write(watched.path("a"), b"").unwrap();
        assert_eq!(watched.signals(), 1, "the child closed its own");
        close(other);
        fs::write(watched.path("b"), b"").unwrap();
        assert_eq!(watched.signals(), 0);
    });
}

#[test]
fn the_signal_is_sigio_where_no_other_was_chosen() {
    isolated(|| {
        let watched = Watched::new(Scratch::new());
        must(unsafe { libc::fcntl(watched.fd, F_SETSIG, 0) });
        assert_eq!(unsafe { libc::fcntl(watched.fd, libc::F_GETOWN) }, 0);
        watched.notify(DN_CREATE);
        let pid = unsafe { libc::getpid() };
        assert_eq!(unsafe { libc::fcntl(watched.fd, libc::F_GETOWN) }, pid);
        fs::write(watched.path("a"), b"").unwrap();
        assert!(next(libc::SIGIO).is_some());
        assert_eq!(watched.signals(), 0);
    });
}

#[test]
fn what_is_no_directory_is_refused() {
    isolated(|| {
        let scratch = Scratch::new();
        let file = open(scratch.file("f", b""), libc::O_RDONLY, 0).unwrap();
        assert_eq!(notify(file, DN_CREATE), Err(libc::ENOTDIR));
        assert_eq!(notify(file, 0), Ok(0));
        assert_eq!(notify(-1, DN_CREATE), Err(libc::EBADF));
        let enabled = fs::read_to_string("/proc/sys/fs/dir-notify-enable").unwrap();
        assert_eq!(enabled, "1\n");
    });
}
