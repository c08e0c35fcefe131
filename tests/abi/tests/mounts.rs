//! mount and umount2: busy mounts, lazy ones, binds, moves, read-only remounts.
//!
//! Needs the right to mount; where Linux does not give it (an unprivileged container) the tests
//! say so and pass.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    identity::{NOBODY, as_user},
    mounting::{mount, mounting, umount},
    *,
};
use std::{env, fs, path::Path};

#[test]
fn a_mount_in_use_is_busy_and_one_that_is_not_goes() {
    mounting(|scratch| {
        let at = scratch.path("m");
        let file = fs::File::create(at.join("f")).unwrap();
        assert_eq!(umount(&at, 0), Err(libc::EBUSY));
        drop(file);
        env::set_current_dir(&at).unwrap();
        assert_eq!(umount(&at, 0), Err(libc::EBUSY));
        env::set_current_dir("/").unwrap();
        fs::create_dir(at.join("inner")).unwrap();
        assert_eq!(mount("none", &at.join("inner"), "tmpfs", 0), Ok(0));
        assert_eq!(umount(&at, 0), Err(libc::EBUSY), "something is mounted in it");
        assert_eq!(umount(&at.join("inner"), 0), Ok(0));
        assert_eq!(umount(&at, 0), Ok(0));
        assert!(!at.join("f").exists());
        assert_eq!(umount(&at, 0), Err(libc::EINVAL), "it is no mount any more");
    });
}

#[test]
fn a_detached_mount_is_out_of_sight_and_lives_while_used() {
    mounting(|scratch| {
        let at = scratch.path("m");
        fs::write(at.join("f"), "kept").unwrap();
        let fd = open(at.join("f"), libc::O_RDWR, 0).unwrap();
        assert_eq!(umount(&at, libc::MNT_DETACH), Ok(0));
        assert!(!at.join("f").exists());
        assert_eq!(read(fd, 10), Ok(b"kept".to_vec()));
        assert_eq!(write(fd, b" on"), Ok(3));
    });
}

#[test]
fn umount2_refuses_unknown_flags_and_expire_with_force() {
    mounting(|scratch| {
        let at = scratch.path("m");
        assert_eq!(umount(&at, 0x100), Err(libc::EINVAL));
        assert_eq!(umount(&at, libc::MNT_EXPIRE | libc::MNT_FORCE), Err(libc::EINVAL));
        assert_eq!(umount(&at, libc::MNT_EXPIRE | libc::MNT_DETACH), Err(libc::EINVAL));
        assert_eq!(umount(&scratch.path("none"), 0), Err(libc::ENOENT));
    });
}

#[test]
fn a_bind_can_be_read_only_while_the_original_is_not() {
    mounting(|scratch| {
        let (at, other) = (scratch.path("m"), scratch.path("other"));
        fs::create_dir(&other).unwrap();
        fs::write(at.join("f"), "one").unwrap();
        let source = at.to_str().unwrap().to_owned();
        assert_eq!(mount(&source, &other, "", libc::MS_BIND), Ok(0));
        assert_eq!(fs::read(other.join("f")).unwrap(), b"one");
        let flags = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY;
        assert_eq!(mount("none", &other, "", flags), Ok(0));
        let refused = open(other.join("f"), libc::O_WRONLY, 0);
        assert_eq!(refused, Err(libc::EROFS));
        fs::write(at.join("f"), "two").unwrap();
        assert_eq!(fs::read(other.join("f")).unwrap(), b"two");
        assert_eq!(umount(&other, 0), Ok(0));
    });
}

#[test]
fn a_file_system_is_not_made_read_only_while_a_file_is_open_for_writing() {
    mounting(|scratch| {
        let at = scratch.path("m");
        let file = fs::File::create(at.join("f")).unwrap();
        let flags = libc::MS_REMOUNT | libc::MS_RDONLY;
        assert_eq!(mount("none", &at, "", flags), Err(libc::EBUSY));
        drop(file);
        assert_eq!(mount("none", &at, "", flags), Ok(0));
        assert_eq!(open(at.join("f"), libc::O_WRONLY, 0), Err(libc::EROFS));
        assert_eq!(fs::create_dir(at.join("d")).unwrap_err().raw_os_error(), Some(libc::EROFS));
        assert_eq!(mount("none", &at, "", libc::MS_REMOUNT), Ok(0));
        fs::create_dir(at.join("d")).unwrap();
    });
}

#[test]
fn a_mount_moves_with_what_is_open_in_it() {
    mounting(|scratch| {
        let (at, other) = (scratch.path("m"), scratch.path("other"));
        fs::create_dir(&other).unwrap();
        fs::write(at.join("f"), "here").unwrap();
        let fd = open(at.join("f"), libc::O_RDONLY, 0).unwrap();
        let source = at.to_str().unwrap().to_owned();
        assert_eq!(mount(&source, &other, "", libc::MS_MOVE), Ok(0));
        assert!(!at.join("f").exists());
        assert_eq!(fs::read(other.join("f")).unwrap(), b"here");
        assert_eq!(read(fd, 9), Ok(b"here".to_vec()));
        close(fd);
        assert_eq!(umount(&other, 0), Ok(0));
    });
}

#[test]
fn the_mount_table_tells_what_is_mounted() {
    mounting(|scratch| {
        let at = scratch.path("m");
        let line = |wanted: &str| {
            let table = fs::read_to_string("/proc/mounts").unwrap();
            let line = table.lines().find(|line| line.split(' ').nth(1) == at.to_str());
            line.is_some_and(|line| line.split(' ').nth(3).unwrap().starts_with(wanted))
        };
        assert!(line("rw"));
        assert_eq!(mount("none", &at, "", libc::MS_REMOUNT | libc::MS_RDONLY), Ok(0));
        assert!(line("ro"));
        assert_eq!(umount(&at, 0), Ok(0));
        assert!(!line("r"));
    });
}

#[test]
fn the_mount_table_tells_options_and_where_a_bind_begins() {
    mounting(|scratch| {
        let (at, other) = (scratch.path("m"), scratch.path("other"));
        let field = |table: &str, place: &Path, column: usize| {
            // A system with labels shows that files have them.
            let text = fs::read_to_string(table).unwrap().replace(",seclabel", "");
            let at_column = if table.ends_with("mountinfo") { 4 } else { 1 };
            let line = |line: &&str| line.split(' ').nth(at_column) == place.to_str();
            text.lines().rfind(line).unwrap().split(' ').nth(column).unwrap().to_owned()
        };
        let (source, target, kind) = (c("some"), c(&at), c("tmpfs"));
        let options = c("gid=2,uid=1,mode=750,size=65536");
        let made = unsafe {
            let options = options.as_ptr().cast();
            libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), libc::MS_NOSUID, options)
        };
        assert_eq!(check(made), Ok(0));
        let shown = field("/proc/self/mounts", &at, 3);
        assert!(shown.starts_with("rw,nosuid,relatime,size=64k,mode=750,uid=1,gid=2"), "{shown}");
        fs::create_dir_all(at.join("a/b")).unwrap();
        fs::create_dir(&other).unwrap();
        assert_eq!(mount(at.join("a/b").to_str().unwrap(), &other, "", libc::MS_BIND), Ok(0));
        assert_eq!(field("/proc/self/mountinfo", &other, 3), "/a/b");
        assert_eq!(field("/proc/self/mountinfo", &at, 3), "/");
        assert_eq!(umount(&other, 0), Ok(0));
    });
}

#[test]
fn the_root_is_exchanged_for_a_mount_and_back() {
    mounting(|scratch| {
        let at = scratch.path("m");
        fs::create_dir(at.join("old")).unwrap();
        fs::create_dir(scratch.path("other")).unwrap();
        fs::write(at.join("inner"), b"inner").unwrap();
        let pivot = |new: &Path, old: &Path| {
            let (new, old) = (c(new), c(old));
            check(unsafe { libc::syscall(libc::SYS_pivot_root, new.as_ptr(), old.as_ptr()) })
        };
        let etc = Path::new("/etc");
        assert_eq!(pivot(&at.join("old"), &at.join("old")), Err(libc::EINVAL), "no mount's root");
        assert_eq!(pivot(etc, etc), Err(libc::EBUSY), "in the root's own mount");
        assert_eq!(pivot(&at, etc), Err(libc::EBUSY), "the same");
        assert_eq!(pivot(Path::new("/"), &at.join("old")), Err(libc::EBUSY), "it is the root");
        assert_eq!(pivot(&at, &at.join("none")), Err(libc::ENOENT));
        assert_eq!(pivot(&at, &at.join("inner")), Err(libc::ENOTDIR));
        as_user(NOBODY, &[], || assert_eq!(pivot(&at, &at.join("old")), Err(libc::EPERM)));
        let before = env::current_dir().unwrap();
        env::set_current_dir(&at).unwrap();
        assert_eq!(pivot(Path::new("."), Path::new("old")), Ok(0));
        assert_eq!(fs::read("/inner").unwrap(), b"inner");
        assert_eq!(env::current_dir().unwrap(), Path::new("/"));
        let within_old = |path: &Path| Path::new("/old").join(path.strip_prefix("/").unwrap());
        assert!(within_old(scratch.path("other").as_path()).is_dir());
        assert!(!scratch.path("other").exists());
        let child = fork(|| assert_eq!(fs::read("/inner").unwrap(), b"inner"));
        assert_eq!(wait(child), Ended::Exited(0));
        assert_eq!(pivot(Path::new("/old"), &within_old(&at)), Ok(0));
        assert!(scratch.path("other").is_dir());
        assert_eq!(fs::read(at.join("inner")).unwrap(), b"inner");
        env::set_current_dir(before).unwrap();
    });
}

#[test]
fn a_changed_root_sees_the_mounts_below_it_alone() {
    mounting(|scratch| {
        let at = scratch.path("m");
        for name in ["plain", "plain/proc", "proc", "inner"] {
            fs::create_dir(at.join(name)).unwrap();
        }
        mount("one", &at.join("plain/proc"), "proc", 0).unwrap();
        mount("two", &at.join("proc"), "proc", 0).unwrap();
        mount("three", &at.join("inner"), "tmpfs", 0).unwrap();
        let seen_from = |root: &Path, file: &str| {
            let (reader, writer) = pipe();
            let child = fork(|| {
                must(unsafe { libc::chroot(c(root).as_ptr()) });
                env::set_current_dir("/").unwrap();
                let text = fs::read_to_string(file).unwrap();
                let place = if file.ends_with("mountinfo") { 4 } else { 1 };
                let places = text.lines().map(|line| line.split(' ').nth(place).unwrap());
                let places = places.collect::<Vec<_>>().join(" ");
                write(writer, format!("{places}\n").as_bytes()).unwrap();
            });
            assert_eq!(wait(child), Ended::Exited(0));
            let said = String::from_utf8(read(reader, 4096).unwrap()).unwrap();
            close(reader);
            close(writer);
            said.trim_end().to_owned()
        };
        for file in ["/proc/self/mounts", "/proc/self/mountinfo"] {
            assert_eq!(seen_from(&at.join("plain"), file), "/proc", "a folder is no mount");
            assert_eq!(seen_from(&at, file), "/ /plain/proc /proc /inner", "a mount is one");
        }
        for name in ["plain/proc", "proc", "inner"] {
            umount(&at.join(name), libc::MNT_DETACH).unwrap();
        }
    });
}

#[test]
fn the_top_of_a_stack_on_the_working_directory_is_taken_away() {
    mounting(|scratch| {
        let at = scratch.path("m");
        fs::write(at.join("lower"), "").unwrap();
        env::set_current_dir(&at).unwrap();
        let here = Path::new(".");
        mount("none", here, "tmpfs", 0).unwrap();
        fs::write(at.join("middle"), "").unwrap();
        mount("none", here, "tmpfs", 0).unwrap();
        fs::write(at.join("upper"), "").unwrap();
        let seen = || ["lower", "middle", "upper"].map(|name| at.join(name).exists());
        assert_eq!(seen(), [false, false, true]);
        assert!(Path::new("lower").exists(), "the working directory stays where it is");
        assert_eq!(umount(here, 0), Ok(0));
        assert_eq!(seen(), [false, true, false]);
        assert_eq!(umount(here, 0), Ok(0));
        assert_eq!(seen(), [true, false, false]);
        assert_eq!(umount(here, 0), Err(libc::EBUSY), "it is used now");
        env::set_current_dir("/").unwrap();
        assert_eq!(umount(&at, 0), Ok(0));
    });
}
