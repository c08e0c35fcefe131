//! Mounts: links that are not followed, the same file system twice at one place, and waiting for the table to change.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    jobs::limited,
    mounting::{mount, mounting, umount},
    tasks::{is_asleep, own_id},
    *,
};
use std::{
    fs,
    os::unix::fs::{FileTypeExt, symlink},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    thread,
};

const NO_LINKS: u64 = 256;
const REMOUNT_BIND: u64 = libc::MS_REMOUNT | libc::MS_BIND;

/// Returns a table of mounts, without the option that shows that files have labels.
fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap().replace(",seclabel", "")
}

/// Returns the line of `/proc/mounts` for the last mount at `at`.
fn line(at: &Path) -> String {
    let place = format!(" {} ", at.display());
    let lines = text("/proc/self/mounts");
    lines.lines().rfind(|line| line.contains(&place)).expect("it is mounted").to_owned()
}

#[test]
fn links_of_a_mount_without_links_are_not_followed() {
    mounting(|scratch| {
        let at = scratch.path("m");
        fs::create_dir(at.join("d")).unwrap();
        fs::write(at.join("d/f"), "here").unwrap();
        symlink("d", at.join("l")).unwrap();
        symlink("m/d", scratch.path("outside")).unwrap();
        assert_eq!(mount("none", &at, "", REMOUNT_BIND | NO_LINKS), Ok(0));
        for name in ["l", "l/f", "l/", "d/../l/f"] {
            assert_eq!(open(at.join(name), libc::O_RDONLY, 0), Err(libc::ELOOP), "{name}");
            assert_eq!(stat(at.join(name)).err(), Some(libc::ELOOP), "{name}");
        }
        let create = libc::O_CREAT | libc::O_RDWR;
        assert_eq!(open(at.join("l"), create, 0o600), Err(libc::ELOOP));
        assert_eq!(open(at.join("l"), create | libc::O_EXCL, 0o600), Err(libc::EEXIST));
        assert_eq!(check(unsafe { libc::chdir(c(at.join("l")).as_ptr()) }), Err(libc::ELOOP));
        // The link itself can be read, and links from elsewhere lead into the mount.
        assert_eq!(fs::read_link(at.join("l")).unwrap(), Path::new("d"));
        assert!(fs::symlink_metadata(at.join("l")).unwrap().is_symlink());
        let place = open(at.join("l"), libc::O_PATH | libc::O_NOFOLLOW, 0);
        assert!(place.is_ok());
        assert_eq!(fs::read(scratch.path("outside/f")).unwrap(), b"here");
        fs::remove_file(at.join("l")).unwrap();
        symlink("d", at.join("l")).unwrap();
    });
}

#[test]
fn a_mount_without_links_shows_it() {
    mounting(|scratch| {
        let at = scratch.path("m");
        let flags = || {
            let mut found: libc::statvfs = unsafe { zeroed() };
            must(unsafe { libc::statvfs(c(&at).as_ptr(), &mut found) });
            found.f_flag & 0x2000 != 0
        };
        assert!(!line(&at).contains("nosymfollow") && !flags());
        assert_eq!(mount("none", &at, "", REMOUNT_BIND | NO_LINKS | libc::MS_NODEV), Ok(0));
        assert!(line(&at).contains(" rw,nodev,relatime,nosymfollow"), "{}", line(&at));
        assert!(flags());
        assert!(text("/proc/self/mountinfo").contains(" rw,nodev,relatime,nosymfollow "));
        // A bind mount inherits it, and a remount without it removes it.
        let other = scratch.path("other");
        fs::create_dir(&other).unwrap();
        assert_eq!(mount(at.to_str().unwrap(), &other, "", libc::MS_BIND), Ok(0));
        assert!(line(&other).contains(",nosymfollow"));
        assert_eq!(mount("none", &at, "", REMOUNT_BIND), Ok(0));
        assert!(!line(&at).contains("nosymfollow") && !flags());
        assert!(line(&other).contains(",nosymfollow"));
        assert_eq!(umount(&other, 0), Ok(0));
        assert_eq!(mount("none", &other, "tmpfs", NO_LINKS), Ok(0));
        assert!(line(&other).contains(",nosymfollow"));
        assert_eq!(umount(&other, 0), Ok(0));
    });
}

#[test]
fn magic_links_of_such_a_mount_are_not_followed_either() {
    mounting(|scratch| {
        let at = scratch.path("m");
        assert_eq!(mount("proc", &at, "proc", NO_LINKS), Ok(0));
        assert_eq!(stat(at.join("self/stat")).err(), Some(libc::ELOOP));
        let own = at.join(std::process::id().to_string());
        assert_eq!(stat(own.join("exe")).err(), Some(libc::ELOOP));
        assert!(stat(own.join("stat")).is_ok());
        assert!(stat("/proc/self/exe").is_ok(), "the other mount of it");
        assert_eq!(umount(&at, 0), Ok(0));
    });
}

#[test]
fn a_file_system_is_not_mounted_upon_itself() {
    mounting(|scratch| {
        let (at, other) = (scratch.path("m"), scratch.path("other"));
        for kind in ["sysfs", "devtmpfs"] {
            assert_eq!(mount(kind, &at, kind, 0), Ok(0));
            assert_eq!(mount(kind, &at, kind, 0), Err(libc::EBUSY), "{kind}");
            assert_eq!(mount(kind, &at, kind, libc::MS_NODEV), Err(libc::EBUSY), "{kind}");
            let device = stat(&at).unwrap().st_dev;
            fs::create_dir(&other).unwrap();
            assert_eq!(mount(kind, &other, kind, 0), Ok(0));
            assert_eq!(stat(&other).unwrap().st_dev, device, "it is one");
            // It may be mounted on a directory of it, and as a bind.
            let source = other.to_str().unwrap();
            assert_eq!(mount(source, &other, "", libc::MS_BIND), Ok(0));
            assert_eq!(mount(kind, &other, kind, 0), Err(libc::EBUSY));
            assert_eq!((umount(&other, 0), umount(&other, 0)), (Ok(0), Ok(0)));
            assert_eq!(mount("none", &at, "tmpfs", 0), Ok(0));
            assert_eq!(mount(kind, &at, kind, 0), Ok(0), "another is between");
            assert_eq!((umount(&at, 0), umount(&at, 0), umount(&at, 0)), (Ok(0), Ok(0), Ok(0)));
            fs::remove_dir(&other).unwrap();
        }
        // Each mount of tmpfs and of proc is a file system of its own.
        for kind in ["tmpfs", "proc"] {
            assert_eq!((mount(kind, &at, kind, 0), mount(kind, &at, kind, 0)), (Ok(0), Ok(0)));
            assert_eq!((umount(&at, 0), umount(&at, 0)), (Ok(0), Ok(0)));
        }
    });
}

#[test]
fn a_disk_is_not_mounted_upon_itself_nor_in_another_way() {
    mounting(|scratch| {
        let lines = text("/proc/self/mounts");
        let mut mounts = lines.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let root = mounts.rfind(|words| words[1] == "/").unwrap();
        let (disk, kind) = (root[0], root[2]);
        let is_disk = fs::metadata(disk).is_ok_and(|disk| disk.file_type().is_block_device());
        if !is_disk || !root[3].starts_with("rw") {
            return eprintln!("the root is on no disk: nothing was tested");
        }
        let at = scratch.path("m");
        assert_eq!(mount(disk, &at, kind, libc::MS_RDONLY), Err(libc::EBUSY), "it is written");
        assert_eq!(mount(disk, Path::new("/"), kind, 0), Err(libc::EBUSY));
        assert_eq!(mount(disk, &at, kind, 0), Ok(0));
        assert_eq!(stat(&at).unwrap().st_ino, stat("/").unwrap().st_ino);
        assert_eq!(mount(disk, &at, kind, 0), Err(libc::EBUSY));
        assert_eq!(umount(&at, 0), Ok(0));
    });
}

/// Returns the answer of poll for `fd` within `timeout_ms`.
fn polled(fd: i32, events: i16, timeout_ms: i32) -> i16 {
    let mut one = libc::pollfd { fd, events, revents: 0 };
    must(unsafe { libc::poll(&mut one, 1, timeout_ms) });
    one.revents
}

const CHANGED: i16 = libc::POLLPRI | libc::POLLERR;
const READABLE: i16 = libc::POLLIN | libc::POLLRDNORM;
const EVERYTHING: i16 = READABLE | libc::POLLPRI | libc::POLLOUT | libc::POLLWRNORM;

#[test]
fn the_table_of_mounts_tells_of_each_change_once() {
    mounting(|scratch| {
        let (at, other) = (scratch.path("m"), scratch.path("other"));
        fs::create_dir(&other).unwrap();
        for name in ["mounts", "mountinfo"] {
            let fd = open(format!("/proc/self/{name}"), libc::O_RDONLY, 0).unwrap();
            let is_told = || {
                let first = polled(fd, EVERYTHING, 0);
                assert_eq!(first & !CHANGED, READABLE, "{name}");
                assert_eq!(polled(fd, EVERYTHING, 0), READABLE, "{name}: told once");
                assert!([0, CHANGED].contains(&(first & CHANGED)), "{name}");
                first & CHANGED != 0
            };
            assert!(!is_told());
            assert_eq!(mount("none", &other, "tmpfs", 0), Ok(0));
            assert!(is_told(), "mounted");
            assert_eq!(mount("none", &other, "", REMOUNT_BIND | libc::MS_RDONLY), Ok(0));
            assert!(is_told(), "other flags");
            assert_eq!(mount(at.to_str().unwrap(), &other, "", libc::MS_BIND), Ok(0));
            assert!(is_told(), "bound");
            assert_eq!(umount(&other, 0), Ok(0));
            assert!(is_told(), "taken away");
            fs::write(at.join("f"), "").unwrap();
            assert_eq!(mount("none", &scratch.path("nothing"), "tmpfs", 0), Err(libc::ENOENT));
            assert_eq!(umount(&scratch.path("f"), 0), Err(libc::ENOENT));
            assert!(!is_told(), "nothing changed");
            assert_eq!(umount(&other, 0), Ok(0));
            let fresh = open(format!("/proc/self/{name}"), libc::O_RDONLY, 0).unwrap();
            assert_eq!(polled(fresh, EVERYTHING, 0), READABLE, "{name}: none since it was opened");
            assert_eq!(polled(fd, libc::POLLOUT, 0), libc::POLLERR, "errors are always told");
        }
    });
}

#[test]
fn a_change_of_the_mounts_wakes_who_waits_for_it() {
    limited(|| {
        mounting(|scratch| {
            let at = scratch.path("m");
            let fd = open("/proc/self/mounts", libc::O_RDONLY, 0).unwrap();
            let epoll = must(unsafe { libc::epoll_create1(0) }) as i32;
            let mut event = libc::epoll_event { events: libc::EPOLLPRI as u32, u64: 7 };
            let own = open("/proc/self/mounts", libc::O_RDONLY, 0).unwrap();
            let add = libc::EPOLL_CTL_ADD;
            must(unsafe { libc::epoll_ctl(epoll, add, own, &mut event) });
            let id = Arc::new(AtomicU32::new(0));
            let told = id.clone();
            let waiter = thread::spawn(move || {
                told.store(own_id(), SeqCst);
                polled(fd, libc::POLLPRI, -1)
            });
            while id.load(SeqCst) == 0 || !is_asleep(id.load(SeqCst)) {
                thread::yield_now();
            }
            assert_eq!(must(unsafe { libc::epoll_wait(epoll, &mut event, 1, 0) }), 0);
            assert_eq!(mount("none", &at, "tmpfs", 0), Ok(0));
            assert_eq!(waiter.join().unwrap(), CHANGED);
            assert_eq!(must(unsafe { libc::epoll_wait(epoll, &mut event, 1, -1) }), 1);
            assert_eq!({ event.events }, (libc::EPOLLPRI | libc::EPOLLERR) as u32);
            assert_eq!(umount(&at, 0), Ok(0));
        });
    });
}
