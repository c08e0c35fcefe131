//! Files in memory without a name (memfd_create), and their seals.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use std::{fs, path::PathBuf};

const PAGE: usize = 4096;
const CLOEXEC: u32 = libc::MFD_CLOEXEC;
const SEALABLE: u32 = libc::MFD_ALLOW_SEALING;
const NO_EXEC: u32 = 8;
const EXEC: u32 = 16;
const SEAL: i32 = libc::F_SEAL_SEAL;
const SHRINK: i32 = libc::F_SEAL_SHRINK;
const GROW: i32 = libc::F_SEAL_GROW;
const WRITE: i32 = libc::F_SEAL_WRITE;
const FUTURE_WRITE: i32 = 0x10;
const EXECUTE: i32 = 0x20;
const SHARED: i32 = libc::MAP_SHARED;
const PRIVATE: i32 = libc::MAP_PRIVATE;
const READ: i32 = libc::PROT_READ;
const BOTH: i32 = libc::PROT_READ | libc::PROT_WRITE;

fn create(name: &str, flags: u32) -> Result<i32, i32> {
    let name = c(name);
    check(unsafe { libc::syscall(libc::SYS_memfd_create, name.as_ptr(), flags) })
        .map(|fd| fd as i32)
}

/// Makes a memory file with `bytes` in it that may be sealed.
fn sealable(bytes: &[u8]) -> i32 {
    let fd = create("sealable", SEALABLE).unwrap();
    assert_eq!(write(fd, bytes), Ok(bytes.len()));
    fd
}

fn add(fd: i32, seals: i32) -> Result<i64, i32> {
    check(unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, seals) })
}

fn seals(fd: i32) -> Result<i32, i32> {
    check(unsafe { libc::fcntl(fd, libc::F_GET_SEALS) }).map(|seals| seals as i32)
}

fn resize(fd: i32, size: usize) -> Result<i64, i32> {
    check(unsafe { libc::ftruncate(fd, size as i64) })
}

fn allocate(fd: i32, mode: i32, start: usize, length: usize) -> Result<i64, i32> {
    check(unsafe { libc::fallocate(fd, mode, start as i64, length as i64) })
}

fn write_at(fd: i32, data: &[u8], at: usize) -> Result<i64, i32> {
    check(unsafe { libc::pwrite(fd, data.as_ptr().cast(), data.len(), at as i64) } as i64)
}

fn read_at(fd: i32, most: usize, at: usize) -> Vec<u8> {
    let mut bytes = vec![0; most];
    let count = must(unsafe { libc::pread(fd, bytes.as_mut_ptr().cast(), most, at as i64) } as i64);
    bytes.truncate(count as usize);
    bytes
}

fn status(fd: i32) -> libc::stat {
    let mut status: libc::stat = unsafe { zeroed() };
    must(unsafe { libc::fstat(fd, &mut status) });
    status
}

fn map(fd: i32, protection: i32, flags: i32) -> Result<*mut u8, i32> {
    let at = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, protection, flags, fd, 0) };
    check(at as i64).map(|at| at as *mut u8)
}

fn unmap(at: *mut u8) {
    must(unsafe { libc::munmap(at.cast(), PAGE) });
}

fn link_of(fd: i32) -> PathBuf {
    fs::read_link(format!("/proc/self/fd/{fd}")).unwrap()
}

fn again(fd: i32, flags: i32) -> Result<i32, i32> {
    open(format!("/proc/self/fd/{fd}"), flags, 0)
}

#[test]
fn a_file_in_memory_is_a_regular_file_without_a_name() {
    isolated(|| {
        let fd = create("a name", 0).unwrap();
        let found = status(fd);
        assert_eq!((found.st_mode, found.st_nlink, found.st_size), (0o100_777, 0, 0));
        assert_eq!(found.st_uid, unsafe { libc::geteuid() });
        assert_eq!(link_of(fd), PathBuf::from("/memfd:a name (deleted)"));
        let flags = must(unsafe { libc::fcntl(fd, libc::F_GETFL) }) as i32;
        assert_eq!(flags & libc::O_ACCMODE, libc::O_RDWR);
        assert_eq!(must(unsafe { libc::fcntl(fd, libc::F_GETFD) }), 0);
        let closed = create("", CLOEXEC).unwrap();
        assert_eq!(must(unsafe { libc::fcntl(closed, libc::F_GETFD) }), libc::FD_CLOEXEC.into());
        assert_eq!(link_of(closed), PathBuf::from("/memfd: (deleted)"));
        assert_eq!(write(fd, b"some bytes"), Ok(10));
        assert_eq!(resize(fd, 3 * PAGE), Ok(0));
        assert_eq!(read_at(fd, 5, 5), b"bytes");
        assert_eq!(read_at(fd, 2, 2 * PAGE), [0, 0]);
        assert_eq!(status(fd).st_blocks, 8, "one page was written");
        assert_eq!(allocate(fd, 0, 0, 2 * PAGE), Ok(0));
        assert_eq!(status(fd).st_blocks, 16);
        let again = again(fd, libc::O_RDONLY).unwrap();
        assert_eq!(read(again, 4), Ok(b"some".to_vec()), "an offset of its own");
    });
}

#[test]
fn names_and_flags_are_checked() {
    isolated(|| {
        assert!(create(&"n".repeat(249), 0).is_ok());
        assert_eq!(create(&"n".repeat(250), 0), Err(libc::EINVAL));
        assert!(create("with/slash", 0).is_ok(), "it is no path");
        assert_eq!(create("", 0x40), Err(libc::EINVAL));
        assert_eq!(create("", NO_EXEC | EXEC), Err(libc::EINVAL));
        assert_eq!(create("", 21 << 26), Err(libc::EINVAL), "a size of pages without MFD_HUGETLB");
        let nowhere = unsafe { libc::syscall(libc::SYS_memfd_create, 8usize, 0) };
        assert_eq!(check(nowhere), Err(libc::EFAULT));
        let one = create("same", 0).unwrap();
        let other = create("same", 0).unwrap();
        assert_ne!(status(one).st_ino, status(other).st_ino);
    });
}

#[test]
fn contents_are_shared_by_mappings_processes_and_calls() {
    isolated(|| {
        let fd = create("shared", 0).unwrap();
        resize(fd, PAGE).unwrap();
        let (one, other) = (map(fd, BOTH, SHARED).unwrap(), map(fd, BOTH, SHARED).unwrap());
        unsafe { one.write_volatile(7) };
        assert_eq!(unsafe { other.read_volatile() }, 7);
        assert_eq!(read_at(fd, 1, 0), [7]);
        let child = fork(|| {
            assert_eq!(unsafe { one.read_volatile() }, 7);
            assert_eq!(write_at(fd, &[8], 0), Ok(1));
        });
        assert_eq!(wait(child), Ended::Exited(0));
        assert_eq!(unsafe { one.read_volatile() }, 8);
        close(fd);
        assert_eq!(unsafe { other.read_volatile() }, 8, "a mapping keeps it");
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        assert!(maps.contains("/memfd:shared (deleted)"), "{maps}");
    });
}

#[test]
fn seals_are_asked_for_when_it_is_made() {
    isolated(|| {
        let plain = create("plain", 0).unwrap();
        assert_eq!(seals(plain), Ok(SEAL));
        assert_eq!(add(plain, GROW), Err(libc::EPERM));
        let fd = create("sealable", SEALABLE).unwrap();
        assert_eq!(seals(fd), Ok(0));
        assert_eq!(add(fd, 0x40), Err(libc::EINVAL));
        assert_eq!(add(fd, 0x100), Err(libc::EINVAL));
        assert_eq!(add(fd, GROW), Ok(0));
        assert_eq!(add(fd, SHRINK), Ok(0));
        assert_eq!(seals(fd), Ok(GROW | SHRINK));
        let read_only = again(fd, libc::O_RDONLY).unwrap();
        assert_eq!(add(read_only, WRITE), Err(libc::EPERM));
        assert_eq!(seals(read_only), Ok(GROW | SHRINK), "they are the file's");
        assert_eq!(add(fd, SEAL), Ok(0));
        assert_eq!(add(fd, WRITE), Err(libc::EPERM));
        assert_eq!(seals(fd), Ok(SEAL | GROW | SHRINK));
        let (end, _) = pipe();
        assert_eq!(seals(end), Err(libc::EINVAL));
        let directory = open("/", libc::O_RDONLY, 0).unwrap();
        assert_eq!(seals(directory), Err(libc::EINVAL));
    });
}

#[test]
fn a_file_sealed_against_shrinking_can_grow_and_change() {
    isolated(|| {
        let fd = sealable(&[1; PAGE]);
        add(fd, SHRINK).unwrap();
        assert_eq!(resize(fd, PAGE - 1), Err(libc::EPERM));
        assert_eq!(again(fd, libc::O_RDWR | libc::O_TRUNC), Err(libc::EPERM));
        assert_eq!(resize(fd, PAGE), Ok(0));
        assert_eq!(resize(fd, 2 * PAGE), Ok(0));
        assert_eq!(write_at(fd, &[2; 10], 0), Ok(10));
        let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        assert_eq!(allocate(fd, punch, 0, PAGE), Ok(0));
        assert_eq!(read_at(fd, 2, 0), [0, 0]);
    });
}

#[test]
fn a_file_sealed_against_growing_takes_what_fits() {
    isolated(|| {
        let fd = sealable(&[1; 5000]);
        add(fd, GROW).unwrap();
        assert_eq!(resize(fd, 5001), Err(libc::EPERM));
        assert_eq!(write_at(fd, &[2; 10], 4990), Ok(10));
        assert_eq!(write_at(fd, &[2; 11], 4990), Err(libc::EPERM));
        assert_eq!(write_at(fd, b"x", 5000), Err(libc::EPERM));
        assert_eq!(write_at(fd, b"x", 100_000), Err(libc::EPERM));
        assert_eq!(write_at(fd, b"", 100_000), Ok(0));
        assert_eq!(allocate(fd, 0, 0, 5001), Err(libc::EPERM));
        assert_eq!(allocate(fd, libc::FALLOC_FL_KEEP_SIZE, 0, 5001), Err(libc::EPERM));
        assert_eq!(allocate(fd, 0, 0, 5000), Ok(0));
        must(unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_APPEND) });
        assert_eq!(write(fd, b"x"), Err(libc::EPERM));
        assert_eq!(status(fd).st_size, 5000);
        assert_eq!(resize(fd, 100), Ok(0));
    });
}

#[test]
fn a_write_that_begins_within_a_file_sealed_against_growing_is_cut() {
    isolated(|| {
        let fd = sealable(&[1; PAGE]);
        add(fd, GROW).unwrap();
        assert_eq!(write_at(fd, &[2; 2 * PAGE], 0), Ok(PAGE as i64));
        assert_eq!(read_at(fd, 2 * PAGE, 0), [2; PAGE]);
        assert_eq!(write_at(fd, &[3; PAGE], 1), Ok(PAGE as i64 - 1));
    });
}

#[test]
fn what_is_sealed_against_writes_never_changes() {
    isolated(|| {
        let fd = sealable(&[1; PAGE]);
        let own = map(fd, BOTH, PRIVATE).unwrap();
        assert_eq!(add(fd, WRITE), Ok(0), "a private mapping does not matter");
        unsafe { own.write_volatile(9) };
        assert_eq!(write_at(fd, b"x", 0), Err(libc::EPERM));
        assert_eq!(write_at(fd, b"x", PAGE), Err(libc::EPERM));
        assert_eq!(map(fd, BOTH, SHARED), Err(libc::EPERM));
        assert_eq!(map(fd, libc::PROT_WRITE, SHARED), Err(libc::EPERM));
        let seen = map(fd, READ, SHARED).unwrap();
        assert_eq!(unsafe { seen.read_volatile() }, 1);
        let opened = check(unsafe { libc::mprotect(seen.cast(), PAGE, BOTH) });
        assert_eq!(opened, Err(libc::EACCES));
        let other = map(fd, BOTH, PRIVATE).unwrap();
        unsafe { other.write_volatile(3) };
        let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        assert_eq!(allocate(fd, punch, 0, PAGE), Err(libc::EPERM));
        assert_eq!(read_at(fd, 1, 0), [1]);
        assert_eq!(resize(fd, 2 * PAGE), Ok(0), "sizes have seals of their own");
        assert_eq!(resize(fd, 10), Ok(0));
        let (from, to) = pipe();
        assert_eq!(write(to, b"piped"), Ok(5));
        let null = std::ptr::null_mut();
        let spliced = check(unsafe { libc::splice(from, null, fd, null, 5, 0) } as i64);
        assert_eq!(spliced, Err(libc::EPERM));
    });
}

#[test]
fn nobody_seals_writes_away_from_a_shared_mapping() {
    isolated(|| {
        let fd = sealable(&[1; PAGE]);
        let at = map(fd, BOTH, SHARED).unwrap();
        assert_eq!(add(fd, WRITE), Err(libc::EBUSY));
        assert_eq!(add(fd, WRITE | GROW), Err(libc::EBUSY));
        assert_eq!(seals(fd), Ok(0), "all or none");
        unmap(at);
        let at = map(fd, READ, SHARED).unwrap();
        assert_eq!(add(fd, WRITE), Err(libc::EBUSY), "mprotect could make it writable");
        let child = fork(|| {
            unmap(at);
            assert_eq!(add(fd, WRITE), Err(libc::EBUSY), "the parent's");
        });
        assert_eq!(wait(child), Ended::Exited(0));
        let (from, to) = pipe();
        let child = fork(|| {
            close(to);
            read(from, 1).unwrap();
        });
        unmap(at);
        assert_eq!(add(fd, WRITE), Err(libc::EBUSY), "the child's");
        close(to);
        assert_eq!(wait(child), Ended::Exited(0));
        let read_only = again(fd, libc::O_RDONLY).unwrap();
        let _at = map(read_only, READ, SHARED).unwrap();
        assert_eq!(add(fd, WRITE), Ok(0), "who opened it for reading cannot write");
    });
}

#[test]
fn mappings_from_before_may_write_what_is_sealed_against_future_writes() {
    isolated(|| {
        let fd = sealable(&[1; PAGE]);
        let at = map(fd, BOTH, SHARED).unwrap();
        assert_eq!(add(fd, FUTURE_WRITE), Ok(0));
        unsafe { at.write_volatile(2) };
        assert_eq!(read_at(fd, 1, 0), [2]);
        assert_eq!(write_at(fd, b"x", 0), Err(libc::EPERM));
        assert_eq!(map(fd, BOTH, SHARED), Err(libc::EPERM));
        let seen = map(fd, READ, SHARED).unwrap();
        let opened = check(unsafe { libc::mprotect(seen.cast(), PAGE, BOTH) });
        assert_eq!(opened, Err(libc::EACCES));
        assert_eq!(add(fd, WRITE), Err(libc::EBUSY));
        unmap(at);
        assert_eq!(add(fd, WRITE), Ok(0));
    });
}

#[test]
fn execute_bits_can_be_sealed() {
    isolated(|| {
        let fd = create("data", NO_EXEC).unwrap();
        assert_eq!((status(fd).st_mode, seals(fd)), (0o100_666, Ok(EXECUTE)));
        assert_eq!(check(unsafe { libc::fchmod(fd, 0o777) }), Err(libc::EPERM));
        assert_eq!(check(unsafe { libc::fchmod(fd, 0o600) }), Ok(0));
        assert_eq!(write(fd, b"data"), Ok(4));
        let program = create("program", SEALABLE | EXEC).unwrap();
        assert_eq!((status(program).st_mode, seals(program)), (0o100_777, Ok(0)));
        let at = {
            resize(program, PAGE).unwrap();
            map(program, BOTH, SHARED).unwrap()
        };
        assert_eq!(add(program, EXECUTE), Err(libc::EBUSY));
        unmap(at);
        assert_eq!(add(program, EXECUTE), Ok(0));
        let all = EXECUTE | WRITE | FUTURE_WRITE | GROW | SHRINK;
        assert_eq!(seals(program), Ok(all), "a program that stays one does not change either");
    });
}

#[test]
fn a_program_in_memory_is_run() {
    isolated(|| {
        let fd = create("program", CLOEXEC | SEALABLE).unwrap();
        assert_eq!(
            write(fd, &fs::read("/proc/self/exe").unwrap()).map(|count| count > 0),
            Ok(true)
        );
        add(fd, SHRINK | GROW | WRITE | SEAL).unwrap();
        let run = |fd: i32| {
            let child = fork(|| {
                let null = open("/dev/null", libc::O_WRONLY, 0).unwrap();
                must(unsafe { libc::dup2(null, 1) });
                let (name, help) = (c("program"), c("--help"));
                let arguments = [name.as_ptr(), help.as_ptr(), std::ptr::null()];
                let environment = [std::ptr::null()];
                unsafe { libc::fexecve(fd, arguments.as_ptr(), environment.as_ptr()) };
                panic!("exec: {}", errno());
            });
            wait(child)
        };
        assert_eq!(run(fd), Ended::Exited(0));
        let plain = create("no program", NO_EXEC).unwrap();
        assert_eq!(write(plain, b"#!/bin/sh\n"), Ok(10));
        assert_eq!(run(plain), Ended::Exited(101));
    });
}
