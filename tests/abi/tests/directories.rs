//! Directories: making, listing, removing, working directories, the `at` family.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use std::{collections::BTreeSet, env, fs, os::unix::fs::PermissionsExt};

#[test]
fn a_listing_has_every_name_once() {
    isolated(|| {
        let scratch = Scratch::new();
        let names: BTreeSet<String> = (0..500).map(|n| format!("file-{n:04}")).collect();
        for name in &names {
            scratch.file(name, b"");
        }
        let listed: Vec<String> = fs::read_dir(scratch.path(""))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(listed.len(), names.len());
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), names);
    });
}

#[test]
fn removing_while_listing_loses_nothing() {
    isolated(|| {
        let scratch = Scratch::new();
        fs::create_dir(scratch.path("d")).unwrap();
        for n in 0..300 {
            scratch.file(&format!("d/{n}"), b"");
        }
        for entry in fs::read_dir(scratch.path("d")).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        fs::remove_dir(scratch.path("d")).unwrap();
    });
}

#[test]
fn raw_entries_include_dot_and_dot_dot() {
    isolated(|| {
        let scratch = Scratch::new();
        let fd = open(scratch.path(""), libc::O_RDONLY | libc::O_DIRECTORY, 0).unwrap();
        let mut buffer = [0u8; 1024];
        // SAFETY: room for 1024 bytes.
        let count = must(unsafe {
            libc::syscall(libc::SYS_getdents64, fd, buffer.as_mut_ptr(), buffer.len())
        }) as usize;
        let (mut at, mut names) = (0, BTreeSet::new());
        while at < count {
            let length = u16::from_ne_bytes([buffer[at + 16], buffer[at + 17]]) as usize;
            let name = buffer[at + 19..at + length].split(|&byte| byte == 0).next().unwrap();
            names.insert(String::from_utf8(name.to_vec()).unwrap());
            at += length;
        }
        assert_eq!(names, BTreeSet::from([".".to_owned(), "..".to_owned()]));
        // SAFETY: too small for any entry.
        assert_eq!(check(unsafe { libc::lseek(fd, 0, libc::SEEK_SET) }), Ok(0));
        // SAFETY: room for 8 bytes.
        assert_eq!(
            check(unsafe { libc::syscall(libc::SYS_getdents64, fd, buffer.as_mut_ptr(), 8) }),
            Err(libc::EINVAL)
        );
    });
}

#[test]
fn only_an_empty_directory_can_be_removed() {
    isolated(|| {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.path("d/e")).unwrap();
        assert_eq!(
            fs::remove_dir(scratch.path("d")).unwrap_err().raw_os_error(),
            Some(libc::ENOTEMPTY)
        );
        fs::remove_dir(scratch.path("d/e")).unwrap();
        fs::remove_dir(scratch.path("d")).unwrap();
        assert_eq!(
            fs::remove_dir(scratch.path("d")).unwrap_err().raw_os_error(),
            Some(libc::ENOENT)
        );
    });
}

#[test]
fn removal_checks_the_kind() {
    isolated(|| {
        let scratch = Scratch::new();
        fs::create_dir(scratch.path("d")).unwrap();
        scratch.file("f", b"");
        assert_eq!(
            fs::remove_file(scratch.path("d")).unwrap_err().raw_os_error(),
            Some(libc::EISDIR)
        );
        assert_eq!(
            fs::remove_dir(scratch.path("f")).unwrap_err().raw_os_error(),
            Some(libc::ENOTDIR)
        );
    });
}

#[test]
fn subdirectories_count_as_links() {
    isolated(|| {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.path("d/one")).unwrap();
        fs::create_dir(scratch.path("d/two")).unwrap();
        assert_eq!(stat(scratch.path("d")).unwrap().st_nlink, 4);
        fs::remove_dir(scratch.path("d/one")).unwrap();
        assert_eq!(stat(scratch.path("d")).unwrap().st_nlink, 3);
    });
}

#[test]
fn the_working_directory_is_where_relative_paths_start() {
    isolated(|| {
        let scratch = Scratch::new();
        fs::create_dir(scratch.path("d")).unwrap();
        scratch.file("d/f", b"here");
        env::set_current_dir(scratch.path("d")).unwrap();
        assert_eq!(fs::read("f").unwrap(), b"here");
        assert_eq!(env::current_dir().unwrap(), scratch.path("d"));
    });
}

#[test]
fn a_removed_working_directory_has_no_name() {
    isolated(|| {
        let scratch = Scratch::new();
        fs::create_dir(scratch.path("d")).unwrap();
        env::set_current_dir(scratch.path("d")).unwrap();
        fs::remove_dir(scratch.path("d")).unwrap();
        let mut buffer = [0u8; 200];
        // SAFETY: room for 200 bytes.
        assert_eq!(
            check(unsafe { libc::syscall(libc::SYS_getcwd, buffer.as_mut_ptr(), buffer.len()) }),
            Err(libc::ENOENT)
        );
        assert_eq!(open("x", libc::O_CREAT | libc::O_WRONLY, 0o600), Err(libc::ENOENT));
    });
}

#[test]
fn getcwd_wants_room() {
    isolated(|| {
        env::set_current_dir("/tmp").unwrap();
        let mut buffer = [0u8; 8];
        // SAFETY: room for 4 bytes.
        assert_eq!(
            check(unsafe { libc::syscall(libc::SYS_getcwd, buffer.as_mut_ptr(), 4) }),
            Err(libc::ERANGE)
        );
        // SAFETY: room for 8 bytes.
        assert_eq!(
            check(unsafe { libc::syscall(libc::SYS_getcwd, buffer.as_mut_ptr(), 8) }),
            Ok(5)
        );
    });
}

#[test]
fn at_calls_start_at_their_directory() {
    isolated(|| {
        let scratch = Scratch::new();
        let base = open(scratch.path(""), libc::O_RDONLY | libc::O_DIRECTORY, 0).unwrap();
        let name = c("made");
        // SAFETY: a NUL-terminated name.
        must(unsafe { libc::mkdirat(base, name.as_ptr(), 0o755) });
        assert!(scratch.path("made").is_dir());
        // SAFETY: a NUL-terminated name.
        assert_eq!(check(unsafe { libc::unlinkat(base, name.as_ptr(), 0) }), Err(libc::EISDIR));
        // SAFETY: a NUL-terminated name.
        must(unsafe { libc::unlinkat(base, name.as_ptr(), libc::AT_REMOVEDIR) });
        // SAFETY: a NUL-terminated name, a descriptor nobody has.
        assert_eq!(
            check(unsafe { libc::openat(777, name.as_ptr(), libc::O_RDONLY) }),
            Err(libc::EBADF)
        );
    });
}

#[test]
fn a_file_is_no_base_for_at_calls() {
    isolated(|| {
        let scratch = Scratch::new();
        let base = open(scratch.file("f", b""), libc::O_RDONLY, 0).unwrap();
        // SAFETY: a NUL-terminated name.
        assert_eq!(
            check(unsafe { libc::openat(base, c("x").as_ptr(), libc::O_RDONLY) }),
            Err(libc::ENOTDIR)
        );
    });
}

#[test]
fn search_permission_guards_a_directory() {
    isolated(|| {
        let scratch = Scratch::new();
        fs::create_dir(scratch.path("d")).unwrap();
        scratch.file("d/f", b"");
        fs::set_permissions(scratch.path(""), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(scratch.path("d"), fs::Permissions::from_mode(0o600)).unwrap();
        isolated(|| {
            // SAFETY: plain numbers.
            must(unsafe { libc::setresuid(1000, 1000, 1000) });
            assert_eq!(stat(scratch.path("d/f")).err(), Some(libc::EACCES));
            unsafe { libc::_exit(0) }
        });
        fs::set_permissions(scratch.path("d"), fs::Permissions::from_mode(0o700)).unwrap();
    });
}

#[test]
fn a_sticky_directory_keeps_others_files() {
    isolated(|| {
        let scratch = Scratch::new();
        fs::set_permissions(scratch.path(""), fs::Permissions::from_mode(0o1777)).unwrap();
        scratch.file("roots", b"");
        isolated(|| {
            // SAFETY: plain numbers.
            must(unsafe { libc::setresuid(1000, 1000, 1000) });
            assert_eq!(
                fs::remove_file(scratch.path("roots")).unwrap_err().raw_os_error(),
                Some(libc::EPERM)
            );
            let own = scratch.file("own", b"");
            fs::remove_file(own).unwrap();
            // SAFETY: ends without the scratch's removal, which is the parent's.
            unsafe { libc::_exit(0) }
        });
    });
}

#[test]
fn a_setgid_directory_hands_its_group_on() {
    isolated(|| {
        let scratch = Scratch::new();
        fs::create_dir(scratch.path("d")).unwrap();
        // SAFETY: a NUL-terminated path.
        must(unsafe { libc::chown(c(scratch.path("d")).as_ptr(), 0, 77) });
        fs::set_permissions(scratch.path("d"), fs::Permissions::from_mode(0o2755)).unwrap();
        scratch.file("d/f", b"");
        fs::create_dir(scratch.path("d/e")).unwrap();
        assert_eq!(stat(scratch.path("d/f")).unwrap().st_gid, 77);
        let inner = stat(scratch.path("d/e")).unwrap();
        assert_eq!((inner.st_gid, inner.st_mode & 0o2000), (77, 0o2000));
    });
}

#[test]
fn mkdir_over_anything_is_eexist() {
    isolated(|| {
        let scratch = Scratch::new();
        scratch.file("f", b"");
        for path in [scratch.path("f"), scratch.path(""), "/".into()] {
            // SAFETY: a NUL-terminated path.
            assert_eq!(check(unsafe { libc::mkdir(c(path).as_ptr(), 0o755) }), Err(libc::EEXIST));
        }
    });
}

#[test]
fn statfs_knows_a_tmpfs() {
    isolated(|| {
        // SAFETY: plain numbers.
        let mut usage: libc::statfs = unsafe { zeroed() };
        // SAFETY: a NUL-terminated path and room for the answer.
        must(unsafe { libc::statfs(c("/tmp").as_ptr(), &mut usage) });
        assert!(usage.f_bsize > 0 && usage.f_namelen == 255 && usage.f_bfree <= usage.f_blocks);
    });
}
