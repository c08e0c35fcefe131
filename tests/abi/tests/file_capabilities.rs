//! Capabilities of files (`security.capability`): the right to set them, the changes that remove them, and their effect on
//! exec.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    identity::{NOBODY, as_user, become_user},
    *,
};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
    ptr::null_mut,
};

const NAME: &std::ffi::CStr = c"security.capability";
const REVISION_TWO: u32 = 0x0200_0000;
const REVISION_THREE: u32 = 0x0300_0000;
const EFFECTIVE: u32 = 1;
const CHOWN: u32 = 1;
const KILL: u32 = 1 << 5;
const NET_RAW: u32 = 1 << 13;
const SETFCAP: i32 = 31;

/// Returns an attribute of revision 2.
fn value(magic: u32, permitted: u32, inheritable: u32) -> Vec<u8> {
    [magic, permitted, inheritable, 0, 0].into_iter().flat_map(u32::to_le_bytes).collect()
}

fn set(path: &Path, value: &[u8]) -> Result<i64, i32> {
    let (path, from) = (c(path), value.as_ptr().cast());
    check(unsafe { libc::setxattr(path.as_ptr(), NAME.as_ptr(), from, value.len(), 0) })
}

fn get(path: &Path) -> Result<Vec<u8>, i32> {
    let mut value = vec![0u8; 64];
    let (path, to) = (c(path), value.as_mut_ptr().cast());
    let count = check(unsafe { libc::getxattr(path.as_ptr(), NAME.as_ptr(), to, 64) } as i64)?;
    value.truncate(count as usize);
    Ok(value)
}

fn remove(path: &Path) -> Result<i64, i32> {
    check(unsafe { libc::removexattr(c(path).as_ptr(), NAME.as_ptr()) })
}

/// Makes a program that prints its own status, with an attribute.
fn program(scratch: &Scratch, value: &[u8]) -> PathBuf {
    fs::set_permissions(scratch.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let path = scratch.path("cat");
    fs::copy("/bin/cat", &path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    if !value.is_empty() {
        set(&path, value).unwrap();
    }
    path
}

/// Returns the permitted, the effective and the ambient set of the program, run by a child that `prepare` prepared; or the
/// error of exec.
fn sets_of(path: &Path, prepare: impl FnOnce()) -> Result<[u64; 3], i32> {
    let (reader, writer) = pipe();
    let child = fork(|| {
        must(unsafe { libc::dup2(writer, 1) });
        prepare();
        let error = Command::new(path).arg("/proc/self/status").exec();
        let number = error.raw_os_error().unwrap();
        write(1, format!("error {number}\n").as_bytes()).unwrap();
    });
    close(writer);
    let mut said = Vec::new();
    loop {
        match read(reader, 4096).unwrap() {
            piece if piece.is_empty() => break,
            piece => said.extend(piece),
        }
    }
    close(reader);
    wait(child);
    let said = String::from_utf8(said).unwrap();
    let line = |name: &str| said.lines().find_map(|line| line.strip_prefix(name));
    if let Some(number) = line("error ") {
        return Err(number.parse().unwrap());
    }
    let set = |name| u64::from_str_radix(line(name).expect(&said).trim(), 16).unwrap();
    Ok(["CapPrm:", "CapEff:", "CapAmb:"].map(set))
}

#[test]
fn capabilities_are_set_by_who_may_and_as_they_must_be() {
    isolated(|| {
        for scratch in [Scratch::new(), Scratch::on_disk(), Scratch::in_memory()] {
            let path = scratch.file("file", b"x");
            let good = value(REVISION_TWO | EFFECTIVE, NET_RAW, KILL);
            assert_eq!(get(&path), Err(libc::ENODATA));
            assert_eq!(set(&path, &good), Ok(0));
            assert_eq!(get(&path).unwrap(), good);
            let bad = [
                good[..12].to_vec(),
                [&good[..], &[0; 4]].concat(),
                value(REVISION_THREE, NET_RAW, 0),
                value(0x0100_0000, NET_RAW, 0),
                value(0, NET_RAW, 0),
            ];
            for bad in bad {
                assert_eq!(set(&path, &bad), Err(libc::EINVAL), "{bad:?}");
            }
            // An attribute for the user namespace of root applies to all.
            let three = [&value(REVISION_THREE, NET_RAW, 0)[..], &[0; 4]].concat();
            assert_eq!(set(&path, &three), Ok(0));
            assert_eq!(get(&path).unwrap(), value(REVISION_TWO, NET_RAW, 0));
            assert_eq!(remove(&path), Ok(0));
            assert_eq!(remove(&path), Err(libc::ENODATA));
            let own = c(&path);
            must(unsafe { libc::chown(own.as_ptr(), NOBODY, NOBODY) });
            fs::set_permissions(scratch.path(""), fs::Permissions::from_mode(0o755)).unwrap();
            as_user(NOBODY, &[], || {
                assert_eq!(set(&path, &good), Err(libc::EPERM), "an owner may not");
            });
            // CAP_SETFCAP is the capability for it, and CAP_SYS_ADMIN is not.
            let child = fork(|| {
                drop_but(1 << 21);
                assert_eq!(set(&path, &good), Err(libc::EPERM));
            });
            assert_eq!(wait(child), Ended::Exited(0));
            let child = fork(|| {
                drop_but(1 << SETFCAP);
                assert_eq!(set(&path, &good), Ok(0));
                assert_eq!(remove(&path), Ok(0));
            });
            assert_eq!(wait(child), Ended::Exited(0));
        }
    });
}

/// Drops every capability except these, of the first 32.
fn drop_but(kept: u32) {
    let header = [0x2008_0522u32, 0];
    let data = [kept, kept, 0, 0, 0, 0];
    must(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()) });
}

#[test]
fn writes_truncation_and_a_change_of_owner_take_them_away() {
    isolated(|| {
        type Change = fn(&Path);
        let changes: [(&str, Change); 7] = [
            ("write", |path| {
                let file = open(path, libc::O_WRONLY, 0).unwrap();
                write(file, b"y").unwrap();
            }),
            ("ftruncate", |path| {
                let file = open(path, libc::O_WRONLY, 0).unwrap();
                must(unsafe { libc::ftruncate(file, 1) });
            }),
            ("truncate", |path| {
                must(unsafe { libc::truncate(c(path).as_ptr(), 9) });
            }),
            ("O_TRUNC", |path| {
                open(path, libc::O_WRONLY | libc::O_TRUNC, 0).unwrap();
            }),
            ("chown", |path| {
                must(unsafe { libc::chown(c(path).as_ptr(), 5, 6) });
            }),
            ("chown to nobody else", |path| {
                must(unsafe { libc::chown(c(path).as_ptr(), u32::MAX, u32::MAX) });
            }),
            ("chgrp", |path| {
                must(unsafe { libc::lchown(c(path).as_ptr(), u32::MAX, 7) });
            }),
        ];
        for scratch in [Scratch::new(), Scratch::on_disk(), Scratch::in_memory()] {
            let path = scratch.file("file", b"hello");
            let good = value(REVISION_TWO, NET_RAW, 0);
            for (name, change) in changes {
                set(&path, &good).unwrap();
                change(&path);
                assert_eq!(get(&path), Err(libc::ENODATA), "{name}");
            }
        }
    });
}

#[test]
fn other_changes_leave_them() {
    isolated(|| {
        for scratch in [Scratch::new(), Scratch::on_disk(), Scratch::in_memory()] {
            let path = scratch.file("file", b"hello");
            let good = value(REVISION_TWO, NET_RAW, 0);
            set(&path, &good).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o4711)).unwrap();
            let file = open(&path, libc::O_RDWR, 0).unwrap();
            write(file, b"").unwrap();
            read(file, 5).unwrap();
            close(file);
            fs::hard_link(&path, scratch.path("link")).unwrap();
            fs::rename(scratch.path("link"), scratch.path("moved")).unwrap();
            assert_eq!(get(&path).unwrap(), good);
            assert_eq!(get(&scratch.path("moved")).unwrap(), good);
            // A copy has no capabilities.
            fs::copy(&path, scratch.path("copy")).unwrap();
            assert_eq!(get(&scratch.path("copy")), Err(libc::ENODATA));
        }
    });
}

#[test]
fn a_program_has_what_its_file_permits() {
    isolated(|| {
        for scratch in [Scratch::new(), Scratch::on_disk()] {
            let nobody = || become_user(NOBODY);
            let plain = program(&scratch, &[]);
            assert_eq!(sets_of(&plain, nobody), Ok([0, 0, 0]));
            let both = u64::from(NET_RAW | KILL);
            let effective = program(&scratch, &value(REVISION_TWO | EFFECTIVE, NET_RAW | KILL, 0));
            assert_eq!(sets_of(&effective, nobody), Ok([both, both, 0]));
            let silent = program(&scratch, &value(REVISION_TWO, NET_RAW, CHOWN));
            assert_eq!(sets_of(&silent, nobody), Ok([u64::from(NET_RAW), 0, 0]));
            // Root has all capabilities, whatever its file says.
            let all = sets_of(&silent, || ()).unwrap();
            assert!(all[0] == all[1] && all[0] & 0xffff == 0xffff, "{all:x?}");
        }
    });
}

#[test]
fn a_program_has_what_file_and_caller_hand_on_together() {
    isolated(|| {
        let scratch = Scratch::new();
        let handing = |inheritable: u32| {
            move || {
                must(unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0) });
                become_user(NOBODY);
                let header = [0x2008_0522u32, 0];
                let data = [inheritable, inheritable, inheritable, 0, 0, 0];
                must(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()) });
            }
        };
        let (kill, raw) = (u64::from(KILL), u64::from(NET_RAW));
        let path = program(&scratch, &value(REVISION_TWO | EFFECTIVE, NET_RAW, KILL | CHOWN));
        assert_eq!(sets_of(&path, handing(KILL)), Ok([raw | kill, raw | kill, 0]));
        // Capabilities of a file end the ambient ones.
        let ambient = || {
            handing(KILL)();
            must(unsafe { libc::prctl(libc::PR_CAP_AMBIENT, 2, 5, 0, 0) });
        };
        assert_eq!(sets_of(&path, ambient), Ok([raw | kill, raw | kill, 0]));
        let none = program(&scratch, &value(REVISION_TWO, 0, 0));
        assert_eq!(sets_of(&none, ambient), Ok([0, 0, 0]));
        remove(&none).unwrap();
        assert_eq!(sets_of(&none, ambient), Ok([kill, kill, kill]));
    });
}

#[test]
fn a_capability_that_cannot_be_given_refuses_the_program() {
    isolated(|| {
        let scratch = Scratch::new();
        let without = |number: i32| {
            move || {
                must(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) });
                become_user(NOBODY);
            }
        };
        let loud = program(&scratch, &value(REVISION_TWO | EFFECTIVE, NET_RAW | KILL, 0));
        assert_eq!(sets_of(&loud, without(13)), Err(libc::EPERM));
        assert_eq!(
            sets_of(&loud, without(0)),
            Ok([u64::from(NET_RAW | KILL); 2]).map(|[a, b]| [a, b, 0])
        );
        let quiet = program(&scratch, &value(REVISION_TWO, NET_RAW | KILL, 0));
        assert_eq!(sets_of(&quiet, without(13)), Ok([u64::from(KILL), 0, 0]));
        // A namespace of another root is not the caller's.
        let foreign = [&value(REVISION_THREE | EFFECTIVE, NET_RAW, 0)[..], &[9, 0, 0, 0]].concat();
        let path = program(&scratch, &foreign);
        assert_eq!(get(&path).unwrap(), foreign);
        assert_eq!(sets_of(&path, || become_user(NOBODY)), Ok([0, 0, 0]));
    });
}

#[test]
fn who_may_gain_nothing_gains_nothing_by_a_file() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = program(&scratch, &value(REVISION_TWO | EFFECTIVE, NET_RAW, 0));
        let modest = || {
            must(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) });
            become_user(NOBODY);
        };
        assert_eq!(sets_of(&path, modest), Ok([0, 0, 0]));
        // A set-user-id root program has only the capabilities of its file.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
        let raw = u64::from(NET_RAW);
        // Some programs give up the effective user of setuid at once.
        let sets = sets_of(&path, || become_user(NOBODY)).unwrap();
        assert_eq!(sets[0], raw);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        // They have no effect on a mount without set-user-id programs either.
        must(unsafe { libc::unshare(libc::CLONE_FS) });
        let folder = c(scratch.path(""));
        let (at, none) = (folder.as_ptr(), std::ptr::null());
        must(unsafe { libc::mount(at, at, none, libc::MS_BIND, null_mut()) });
        let flags = libc::MS_BIND | libc::MS_REMOUNT | libc::MS_NOSUID;
        must(unsafe { libc::mount(none, at, none, flags, null_mut()) });
        let outcome = sets_of(&path, || become_user(NOBODY));
        must(unsafe { libc::umount2(at, libc::MNT_DETACH) });
        assert_eq!(outcome, Ok([0, 0, 0]));
    });
}
