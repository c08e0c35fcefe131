//! inotify: which events come, in which order, and how they are read.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use libc::{
    IN_ACCESS, IN_ALL_EVENTS, IN_ATTRIB, IN_CLOSE_NOWRITE, IN_CLOSE_WRITE, IN_CREATE, IN_DELETE,
    IN_DELETE_SELF, IN_IGNORED, IN_ISDIR, IN_MODIFY, IN_MOVE_SELF, IN_MOVED_FROM, IN_MOVED_TO,
    IN_OPEN,
};
use std::{fs, path::Path};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Event {
    watch: i32,
    mask: u32,
    cookie: u32,
    name: String,
}

fn inotify() -> i32 {
    must(unsafe { libc::inotify_init1(libc::IN_NONBLOCK) }) as i32
}

fn try_watch(fd: i32, path: &Path, mask: u32) -> Result<i32, i32> {
    check(unsafe { libc::inotify_add_watch(fd, c(path).as_ptr(), mask) }).map(|watch| watch as i32)
}

#[track_caller]
fn watch(fd: i32, path: &Path, mask: u32) -> i32 {
    try_watch(fd, path, mask).unwrap()
}

fn decode(bytes: &[u8]) -> Vec<Event> {
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut events = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = word(at + 12) as usize;
        assert_eq!(length % 16, 0);
        let name = &bytes[at + 16..at + 16 + length];
        let name = name.split(|byte| *byte == 0).next().unwrap();
        events.push(Event {
            watch: word(at) as i32,
            mask: word(at + 4),
            cookie: word(at + 8),
            name: String::from_utf8(name.to_vec()).unwrap(),
        });
        at += 16 + length;
    }
    events
}

/// Returns the events that can be read: watch, mask, name.
fn events(fd: i32) -> Vec<(i32, u32, String)> {
    let all = read(fd, 65536).map_or(Vec::new(), |bytes| decode(&bytes));
    all.into_iter().map(|event| (event.watch, event.mask, event.name)).collect()
}

/// Returns events as [`events`] does, of one watch only.
fn masks(fd: i32) -> Vec<(u32, String)> {
    events(fd).into_iter().map(|(_, mask, name)| (mask, name)).collect()
}

fn named(list: &[(u32, &str)]) -> Vec<(u32, String)> {
    list.iter().map(|(mask, name)| (*mask, (*name).to_owned())).collect()
}

#[test]
fn the_life_of_a_file_is_told_in_its_directory() {
    isolated(|| {
        let scratch = Scratch::new();
        let fd = inotify();
        watch(fd, &scratch.path(""), IN_ALL_EVENTS);
        let file = scratch.path("file");
        let it = open(&file, libc::O_CREAT | libc::O_RDWR, 0o644).unwrap();
        write(it, b"hello").unwrap();
        must(unsafe { libc::lseek(it, 0, libc::SEEK_SET) });
        read(it, 3).unwrap();
        must(unsafe { libc::ftruncate(it, 2) });
        must(unsafe { libc::fchmod(it, 0o600) });
        close(it);
        fs::remove_file(&file).unwrap();
        let expected = [
            IN_CREATE,
            IN_OPEN,
            IN_MODIFY,
            IN_ACCESS,
            IN_MODIFY,
            IN_ATTRIB,
            IN_CLOSE_WRITE,
            IN_DELETE,
        ];
        assert_eq!(masks(fd), expected.map(|mask| (mask, "file".to_owned())));
    });
}

#[test]
fn a_file_watched_itself_has_no_name() {
    isolated(|| {
        let scratch = Scratch::new();
        let fd = inotify();
        let file = scratch.file("file", b"abc");
        let number = watch(fd, &file, IN_ALL_EVENTS);
        assert_eq!(number, 1);
        fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        let expected =
            [IN_OPEN, IN_ACCESS, IN_CLOSE_NOWRITE, IN_ATTRIB, IN_DELETE_SELF, IN_IGNORED];
        assert_eq!(masks(fd), expected.map(|mask| (mask, String::new())));
        assert_eq!(check(unsafe { libc::inotify_rm_watch(fd, number) }), Err(libc::EINVAL));
    });
}

#[test]
fn a_removed_file_is_gone_when_its_last_description_is() {
    isolated(|| {
        let scratch = Scratch::new();
        let fd = inotify();
        let path = scratch.file("file", b"abc");
        watch(fd, &path, IN_ALL_EVENTS);
        let file = open(&path, libc::O_RDONLY, 0).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(masks(fd), named(&[(IN_OPEN, ""), (IN_ATTRIB, "")]));
        close(file);
        let expected = [(IN_CLOSE_NOWRITE, ""), (IN_DELETE_SELF, ""), (IN_IGNORED, "")];
        assert_eq!(masks(fd), named(&expected));
    });
}

#[test]
fn hard_links_are_changes_of_attributes() {
    isolated(|| {
        let scratch = Scratch::new();
        let fd = inotify();
        let file = scratch.file("file", b"");
        let own = watch(fd, &file, IN_ALL_EVENTS);
        let directory = watch(fd, &scratch.path(""), IN_ALL_EVENTS);
        fs::hard_link(&file, scratch.path("other")).unwrap();
        fs::remove_file(&file).unwrap();
        let expected = [
            (own, IN_ATTRIB, String::new()),
            (directory, IN_CREATE, "other".to_owned()),
            (own, IN_ATTRIB, String::new()),
            (directory, IN_DELETE, "file".to_owned()),
        ];
        assert_eq!(events(fd), expected);
    });
}

#[test]
fn directories_are_marked_as_such() {
    isolated(|| {
        let scratch = Scratch::new();
        let fd = inotify();
        watch(fd, &scratch.path(""), IN_ALL_EVENTS & !(IN_OPEN | IN_ACCESS | IN_CLOSE_NOWRITE));
        fs::create_dir(scratch.path("dir")).unwrap();
        must(unsafe { libc::chmod(c(scratch.path("dir")).as_ptr(), 0o700) });
        fs::rename(scratch.path("dir"), scratch.path("other")).unwrap();
        fs::remove_dir(scratch.path("other")).unwrap();
        let expected = [
            (IN_CREATE | IN_ISDIR, "dir"),
            (IN_ATTRIB | IN_ISDIR, "dir"),
            (IN_MOVED_FROM | IN_ISDIR, "dir"),
            (IN_MOVED_TO | IN_ISDIR, "other"),
            (IN_DELETE | IN_ISDIR, "other"),
        ];
        assert_eq!(masks(fd), named(&expected));
    });
}

#[test]
fn the_halves_of_a_rename_share_a_cookie() {
    isolated(|| {
        let scratch = Scratch::new();
        let (one, two) = (scratch.path("one"), scratch.path("two"));
        fs::create_dir(&one).unwrap();
        fs::create_dir(&two).unwrap();
        fs::write(one.join("a"), b"").unwrap();
        fs::write(two.join("b"), b"").unwrap();
        let fd = inotify();
        let first = watch(fd, &one, IN_ALL_EVENTS);
        let second = watch(fd, &two, IN_ALL_EVENTS);
        let moved = watch(fd, &one.join("a"), IN_ALL_EVENTS);
        let replaced = watch(fd, &two.join("b"), IN_ALL_EVENTS);
        fs::rename(one.join("a"), two.join("b")).unwrap();
        let all = decode(&read(fd, 4096).unwrap());
        let seen: Vec<_> = all.iter().map(|event| (event.watch, event.mask)).collect();
        let expected = [
            (first, IN_MOVED_FROM),
            (second, IN_MOVED_TO),
            (replaced, IN_ATTRIB),
            (moved, IN_MOVE_SELF),
            (replaced, IN_DELETE_SELF),
            (replaced, IN_IGNORED),
        ];
        assert_eq!(seen, expected);
        assert_eq!((all[0].name.as_str(), all[1].name.as_str()), ("a", "b"));
        assert!(all[0].cookie != 0 && all[0].cookie == all[1].cookie && all[3].cookie == 0);
    });
}

#[test]
fn names_that_change_places_are_told_of_twice() {
    isolated(|| {
        let scratch = Scratch::new();
        let (a, b) = (scratch.file("a", b""), scratch.file("b", b""));
        let fd = inotify();
        watch(fd, &scratch.path(""), IN_ALL_EVENTS);
        let (from, to) = (c(&a), c(&b));
        must(unsafe {
            libc::syscall(
                libc::SYS_renameat2,
                libc::AT_FDCWD,
                from.as_ptr(),
                libc::AT_FDCWD,
                to.as_ptr(),
                2,
            )
        });
        let all = decode(&read(fd, 4096).unwrap());
        let seen: Vec<_> = all.iter().map(|event| (event.mask, event.name.clone())).collect();
        let expected =
            [(IN_MOVED_FROM, "a"), (IN_MOVED_TO, "b"), (IN_MOVED_FROM, "b"), (IN_MOVED_TO, "a")];
        assert_eq!(seen, named(&expected));
        assert_ne!(all[0].cookie, all[2].cookie);
    });
}

#[test]
fn equal_neighbours_are_one_event() {
    isolated(|| {
        let scratch = Scratch::new();
        let file = scratch.file("file", b"");
        let fd = inotify();
        watch(fd, &file, IN_MODIFY | IN_ATTRIB);
        let it = open(&file, libc::O_WRONLY, 0).unwrap();
        for _ in 0..5 {
            write(it, b"x").unwrap();
        }
        must(unsafe { libc::fchmod(it, 0o600) });
        write(it, b"x").unwrap();
        assert_eq!(masks(fd), named(&[(IN_MODIFY, ""), (IN_ATTRIB, ""), (IN_MODIFY, "")]));
    });
}

#[test]
fn a_watch_for_once_ends_with_its_first_event() {
    isolated(|| {
        let scratch = Scratch::new();
        let file = scratch.file("file", b"");
        let fd = inotify();
        watch(fd, &file, IN_OPEN | libc::IN_ONESHOT);
        fs::read(&file).unwrap();
        fs::read(&file).unwrap();
        assert_eq!(masks(fd), named(&[(IN_OPEN, ""), (IN_IGNORED, "")]));
        assert_eq!(watch(fd, &file, IN_OPEN), 2);
    });
}

#[test]
fn unlinked_children_can_be_left_out() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("file", b"");
        let (all, some) = (inotify(), inotify());
        watch(all, &scratch.path(""), IN_MODIFY);
        watch(some, &scratch.path(""), IN_MODIFY | libc::IN_EXCL_UNLINK);
        let file = open(&path, libc::O_WRONLY, 0).unwrap();
        fs::remove_file(&path).unwrap();
        write(file, b"x").unwrap();
        assert_eq!(masks(all), named(&[(IN_MODIFY, "file")]));
        assert_eq!(masks(some), []);
    });
}

#[test]
fn a_second_watch_changes_or_adds_to_the_first() {
    isolated(|| {
        let scratch = Scratch::new();
        let file = scratch.file("file", b"");
        let fd = inotify();
        let number = watch(fd, &file, IN_OPEN);
        assert_eq!(watch(fd, &file, IN_CLOSE_NOWRITE), number);
        fs::read(&file).unwrap();
        assert_eq!(masks(fd), named(&[(IN_CLOSE_NOWRITE, "")]));
        assert_eq!(watch(fd, &file, IN_OPEN | libc::IN_MASK_ADD), number);
        fs::read(&file).unwrap();
        assert_eq!(masks(fd), named(&[(IN_OPEN, ""), (IN_CLOSE_NOWRITE, "")]));
        let exclusive = IN_OPEN | libc::IN_MASK_CREATE;
        assert_eq!(try_watch(fd, &file, exclusive), Err(libc::EEXIST));
        assert_eq!(try_watch(fd, &file, exclusive | libc::IN_MASK_ADD), Err(libc::EINVAL));
    });
}

#[test]
fn inotify_refuses_what_makes_no_sense() {
    isolated(|| {
        let scratch = Scratch::new();
        let file = scratch.file("file", b"");
        let link = scratch.path("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let fd = inotify();
        assert_eq!(check(unsafe { libc::inotify_init1(1) }), Err(libc::EINVAL));
        assert_eq!(try_watch(fd, &file, 0), Err(libc::EINVAL));
        assert_eq!(try_watch(fd, &file, IN_OPEN | libc::IN_ONLYDIR), Err(libc::ENOTDIR));
        assert_eq!(try_watch(fd, &scratch.path("none"), IN_OPEN), Err(libc::ENOENT));
        assert_eq!(try_watch(99, &file, IN_OPEN), Err(libc::EBADF));
        assert_eq!(try_watch(pipe().0, &file, IN_OPEN), Err(libc::EINVAL));
        let own = watch(fd, &link, IN_OPEN | libc::IN_DONT_FOLLOW);
        assert_ne!(watch(fd, &link, IN_OPEN), own);
        must(unsafe { libc::inotify_rm_watch(fd, own) });
        assert_eq!(masks(fd), named(&[(IN_IGNORED, "")]));
        assert_eq!(read(fd, 100), Err(libc::EAGAIN));
        fs::read(&file).unwrap();
        assert_eq!(read(fd, 15), Err(libc::EINVAL));
    });
}

#[test]
fn readers_of_events_wait_and_learn_how_many_bytes_there_are() {
    isolated(|| {
        let scratch = Scratch::new();
        let fd = must(unsafe { libc::inotify_init() }) as i32;
        watch(fd, &scratch.path(""), IN_CREATE);
        let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        assert_eq!(must(unsafe { libc::poll(&mut entry, 1, 0) }), 0);
        let path = scratch.path("name");
        let child = fork(|| {
            std::thread::sleep(std::time::Duration::from_millis(30));
            fs::write(path, b"").unwrap();
        });
        assert_eq!(must(unsafe { libc::poll(&mut entry, 1, 5000) }), 1);
        let mut bytes = 0;
        must(unsafe { libc::ioctl(fd, libc::FIONREAD, &mut bytes) });
        assert_eq!(bytes, 32);
        assert_eq!(decode(&read(fd, 4096).unwrap()).len(), 1);
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn times_read_and_write_each_other_as_their_files_do() {
    isolated(|| {
        let scratch = Scratch::new();
        let file = c(scratch.file("file", b""));
        let fd = inotify();
        watch(fd, &scratch.path("file"), IN_ALL_EVENTS);
        let set = |accessed, modified| {
            let time = |ns| libc::timespec { tv_sec: 5, tv_nsec: ns };
            let times = [time(accessed), time(modified)];
            must(unsafe { libc::utimensat(libc::AT_FDCWD, file.as_ptr(), times.as_ptr(), 0) });
        };
        set(1, 1);
        set(1, libc::UTIME_OMIT);
        set(libc::UTIME_OMIT, 1);
        set(libc::UTIME_OMIT, libc::UTIME_OMIT);
        assert_eq!(masks(fd), named(&[(IN_ATTRIB, ""), (IN_ACCESS, ""), (IN_MODIFY, "")]));
    });
}

#[test]
fn watching_needs_the_right_to_read() {
    isolated(|| {
        let scratch = Scratch::new();
        let file = scratch.file("file", b"");
        must(unsafe { libc::chmod(c(scratch.path("")).as_ptr(), 0o755) });
        must(unsafe { libc::chmod(c(&file).as_ptr(), 0o200) });
        must(unsafe { libc::setresuid(1000, 1000, 1000) });
        assert_eq!(try_watch(inotify(), &file, IN_OPEN), Err(libc::EACCES));
        must(unsafe { libc::chdir(c"/".as_ptr()) });
    });
}

#[test]
fn what_happens_through_a_name_taken_away_can_be_left_out() {
    isolated(|| {
        for scratch in [Scratch::new(), Scratch::on_disk()] {
            let file = scratch.file("file", b"hello");
            fs::hard_link(&file, scratch.path("other")).unwrap();
            let (all, some) = (inotify(), inotify());
            for (fd, how) in [(all, 0), (some, libc::IN_EXCL_UNLINK)] {
                watch(fd, &scratch.path(""), IN_ALL_EVENTS | how);
                watch(fd, &file, IN_ALL_EVENTS | how);
            }
            let it = open(&file, libc::O_RDWR, 0).unwrap();
            fs::remove_file(&file).unwrap();
            let opened = [(1, IN_OPEN), (2, IN_OPEN), (2, IN_ATTRIB), (1, IN_DELETE)];
            let seen = |fd| events(fd).into_iter().map(|(watch, mask, _)| (watch, mask));
            for fd in [all, some] {
                assert_eq!(seen(fd).collect::<Vec<_>>(), opened);
            }
            write(it, b"x").unwrap();
            read(it, 1).unwrap();
            let through = [(1, IN_MODIFY), (2, IN_MODIFY), (1, IN_ACCESS), (2, IN_ACCESS)];
            assert_eq!(seen(all).collect::<Vec<_>>(), through);
            assert_eq!(seen(some).count(), 0, "neither by the folder nor by the file itself");
            // Changes of the file itself are reported.
            must(unsafe { libc::fchmod(it, 0o600) });
            must(unsafe { libc::ftruncate(it, 0) });
            let changes = [(1, IN_ATTRIB), (2, IN_ATTRIB), (1, IN_MODIFY), (2, IN_MODIFY)];
            for fd in [all, some] {
                assert_eq!(seen(fd).collect::<Vec<_>>(), changes);
            }
            close(it);
            let end = [(1, IN_CLOSE_WRITE), (2, IN_CLOSE_WRITE)];
            assert_eq!(seen(all).collect::<Vec<_>>(), end);
            assert_eq!(seen(some).count(), 0);
            // Through another name all events are reported.
            let it = open(scratch.path("other"), libc::O_RDONLY, 0).unwrap();
            close(it);
            let named = [(1, IN_OPEN), (2, IN_OPEN), (1, IN_CLOSE_NOWRITE), (2, IN_CLOSE_NOWRITE)];
            assert_eq!(seen(some).collect::<Vec<_>>(), named);
        }
    });
}

#[test]
fn a_program_is_read_as_it_is_executed() {
    isolated(|| {
        let scratch = Scratch::new();
        let program = scratch.path("program");
        fs::copy("/proc/self/exe", &program).unwrap();
        let script = scratch.file("script", format!("#!{} --list\n", program.display()).as_bytes());
        let empty = scratch.file("empty", b"");
        for path in [&script, &empty] {
            must(unsafe { libc::chmod(c(path).as_ptr(), 0o755) });
        }
        let fd = inotify();
        watch(fd, &program, IN_ALL_EVENTS);
        let run = |path: &Path, arguments: &[&str]| {
            let status = std::process::Command::new(path).args(arguments).output();
            status.map(|output| output.status.success()).unwrap_or(false)
        };
        assert!(run(&program, &["--list"]));
        let masks_of = |watched: i32| {
            let all = events(fd).into_iter().filter(|(watch, ..)| *watch == watched);
            all.map(|(_, mask, _)| mask).collect::<Vec<_>>()
        };
        // Equal consecutive events are merged.
        assert_eq!(masks_of(1), [IN_OPEN, IN_ACCESS, IN_CLOSE_NOWRITE]);
        watch(fd, &script, IN_ALL_EVENTS);
        watch(fd, &empty, IN_ALL_EVENTS);
        assert!(run(&script, &[]));
        assert_eq!(masks_of(2), [IN_OPEN, IN_ACCESS, IN_CLOSE_NOWRITE]);
        assert!(!run(&empty, &[]));
        assert_eq!(masks_of(3), [IN_OPEN, IN_CLOSE_NOWRITE], "nothing was read");
    });
}
