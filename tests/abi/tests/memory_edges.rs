//! Edge cases of memory: bases that are not addresses, shrinking over several regions, locking pages that cannot be
//! touched, and the fields of `smaps` for shared read-only mappings.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    identity::{NOBODY, become_user},
    smaps::{field, lines_at},
    *,
};
use std::{fs, ptr::null_mut};

const PAGE: usize = 4096;
const NONE: i32 = libc::PROT_NONE;
const READ: i32 = libc::PROT_READ;
const BOTH: i32 = libc::PROT_READ | libc::PROT_WRITE;
const ANONYMOUS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
const MAY_MOVE: i32 = libc::MREMAP_MAYMOVE;
const FIXED: i32 = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;

/// Makes the raw call, because musl's returns ENOMEM for EPERM.
fn map(pages: usize, protection: i32, flags: i32) -> Result<*mut u8, i32> {
    let (number, bytes) = (libc::SYS_mmap, pages * PAGE);
    check(unsafe { libc::syscall(number, 0, bytes, protection, flags, -1, 0) })
        .map(|at| at as *mut u8)
}

fn page(at: *mut u8, index: usize) -> *mut libc::c_void {
    at.wrapping_add(index * PAGE).cast()
}

fn protect(at: *mut u8, index: usize, pages: usize, protection: i32) {
    must(unsafe { libc::mprotect(page(at, index), pages * PAGE, protection) });
}

fn unmap(at: *mut u8, index: usize, pages: usize) {
    must(unsafe { libc::munmap(page(at, index), pages * PAGE) });
}

/// Returns the state of `pages` pages, one letter each.
fn mapped(at: *mut u8, pages: usize) -> String {
    let mut resident = 0u8;
    let is_there = |index: usize| {
        check(unsafe { libc::mincore(page(at, index), PAGE, &mut resident) }) != Err(libc::ENOMEM)
    };
    (0..pages)
        .map({
            let mut is_there = is_there;
            move |index| if is_there(index) { 'm' } else { '-' }
        })
        .collect()
}

fn remap(at: *mut u8, (old, new): (usize, usize), flags: i32, to: *mut u8) -> Result<*mut u8, i32> {
    let number = libc::SYS_mremap;
    check(unsafe { libc::syscall(number, at, old * PAGE, new * PAGE, flags, to) })
        .map(|address| address as *mut u8)
}

#[test]
fn a_base_that_is_no_address_is_refused_by_clone() {
    isolated(|| {
        const SET_TLS: u64 = libc::CLONE_SETTLS as u64;
        let clone = |tls: u64| {
            let flags = SET_TLS | libc::SIGCHLD as u64;
            check(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, tls) })
        };
        let clone3 = |tls: u64| {
            let arguments = [SET_TLS, 0, 0, 0, libc::SIGCHLD as u64, 0, 0, tls, 0, 0, 0];
            let bytes = size_of_val(&arguments);
            check(unsafe { libc::syscall(libc::SYS_clone3, arguments.as_ptr(), bytes) })
        };
        for tls in [1 << 47, 0x7fff_ffff_f000, 1 << 63, 0x8000_0000_0000, u64::MAX] {
            assert_eq!(clone(tls), Err(libc::EPERM), "{tls:x}");
            assert_eq!(clone3(tls), Err(libc::EPERM), "{tls:x}");
            let set = |code: i32| check(unsafe { libc::syscall(libc::SYS_arch_prctl, code, tls) });
            assert_eq!((set(0x1001), set(0x1002)), (Err(libc::EPERM), Err(libc::EPERM)));
        }
        // No child was made on the way.
        let wait = check(unsafe { libc::waitpid(-1, null_mut(), libc::WNOHANG) });
        assert_eq!(wait, Err(libc::ECHILD));
    });
}

#[test]
fn shrinking_takes_away_what_is_behind_whatever_it_is() {
    isolated(|| {
        for flags in [0, MAY_MOVE] {
            let at = map(8, BOTH, ANONYMOUS).unwrap();
            protect(at, 2, 1, READ);
            protect(at, 4, 1, NONE);
            unmap(at, 5, 1);
            assert_eq!(mapped(at, 8), "mmmmm-mm");
            assert_eq!(remap(at, (7, 1), flags, null_mut()), Ok(at));
            assert_eq!(mapped(at, 8), "m------m");
            // This shrinks a mapping of which the rest was never there.
            assert_eq!(remap(at, (8, 1), flags, null_mut()), Ok(at));
            assert_eq!(mapped(at, 8), "m-------");
            assert_eq!(remap(at.wrapping_add(PAGE), (4, 1), flags, null_mut()), Err(libc::EFAULT));
            // Keeping the size of several regions changes nothing.
            let at = map(4, BOTH, ANONYMOUS).unwrap();
            protect(at, 1, 1, READ);
            assert_eq!(remap(at, (4, 2), flags, null_mut()), Ok(at), "what is kept is of two");
            assert_eq!(mapped(at, 4), "mm--");
        }
    });
}

#[test]
fn a_move_that_shrinks_takes_the_tail_of_its_source() {
    isolated(|| {
        let at = map(6, BOTH, ANONYMOUS).unwrap();
        unsafe { at.write_volatile(7) };
        let to = map(6, BOTH, ANONYMOUS).unwrap();
        assert_eq!(remap(at, (4, 1), FIXED, to), Ok(to));
        assert_eq!((mapped(at, 6), mapped(to, 6)), ("----mm".to_owned(), "mmmmmm".to_owned()));
        assert_eq!(unsafe { to.read_volatile() }, 7);
        // A move that grows or keeps its size leaves nothing either.
        let at = map(3, BOTH, ANONYMOUS).unwrap();
        assert_eq!(remap(at, (2, 3), FIXED, to), Ok(to));
        assert_eq!(mapped(at, 3), "--m");
        let at = map(3, BOTH, ANONYMOUS).unwrap();
        assert_eq!(remap(at, (2, 2), FIXED, to), Ok(to));
        assert_eq!(mapped(at, 3), "--m");
        // The target may not overlap the moved range, even in its tail.
        let at = map(6, BOTH, ANONYMOUS).unwrap();
        assert_eq!(remap(at, (4, 1), FIXED, page(at, 2).cast()), Err(libc::EINVAL));
        assert_eq!(mapped(at, 6), "mmmmmm");
        // A range that does not end with its region cannot grow or be moved whole.
        protect(at, 2, 1, READ);
        assert_eq!(remap(at, (4, 5), MAY_MOVE, null_mut()), Err(libc::EFAULT));
        assert_eq!(remap(at, (4, 5), FIXED, to), Err(libc::EFAULT));
        assert_eq!(mapped(at, 6), "mmmmmm");
    });
}

#[test]
fn what_cannot_be_touched_is_locked_and_told_so() {
    isolated(|| {
        let at = map(4, NONE, ANONYMOUS).unwrap();
        let lock =
            |at: *mut u8, pages: usize| check(unsafe { libc::mlock(at.cast(), pages * PAGE) });
        let is_locked =
            |at: *mut u8| field(&lines_at(at), "VmFlags").split(' ').any(|flag| flag == "lo");
        assert_eq!(lock(at, 4), Err(libc::ENOMEM));
        assert!(is_locked(at), "but it is locked");
        must(unsafe { libc::munlock(at.cast(), 4 * PAGE) });
        assert!(!is_locked(at));
        let on_fault = libc::MLOCK_ONFAULT;
        let result = unsafe { libc::syscall(libc::SYS_mlock2, at, 4 * PAGE, on_fault) };
        assert_eq!(check(result), Ok(0), "nothing is touched");
        assert!(is_locked(at));
        // A region that comes before an unmapped range is entered.
        let at = map(3, BOTH, ANONYMOUS).unwrap();
        protect(at, 2, 1, NONE);
        assert_eq!(lock(at, 3), Err(libc::ENOMEM));
        let mut resident = [0u8; 2];
        must(unsafe { libc::mincore(at.cast(), 2 * PAGE, resident.as_mut_ptr()) });
        assert_eq!(resident, [1, 1]);
        // Behind the end of a file nothing can be touched either.
        let scratch = Scratch::in_memory();
        let file = open(scratch.file("f", &[0; PAGE]), libc::O_RDWR, 0).unwrap();
        let shared = libc::MAP_SHARED;
        let two = unsafe { libc::mmap(null_mut(), 2 * PAGE, BOTH, shared, file, 0) }.cast();
        assert_eq!(lock(two, 1), Ok(0));
        assert_eq!(lock(two, 2), Err(libc::ENOMEM));
        // Protection keys make memory that is only executable unreadable, so that locking cannot enter its pages.
        let executable = map(1, libc::PROT_EXEC, ANONYMOUS).unwrap();
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap();
        let has_keys = cpu.split_whitespace().any(|flag| flag == "ospke");
        let result = if has_keys { Err(libc::ENOMEM) } else { Ok(0) };
        assert_eq!(lock(executable, 1), result);
        // mlockall and MAP_LOCKED lock as much as they can.
        assert!(map(1, NONE, ANONYMOUS | libc::MAP_LOCKED).is_ok());
        assert_eq!(check(unsafe { libc::mlockall(libc::MCL_CURRENT) }), Ok(0));
    });
}

#[test]
fn who_may_lock_nothing_maps_nothing_locked() {
    isolated(|| {
        let set = |bytes: u64| {
            let limit = libc::rlimit { rlim_cur: bytes, rlim_max: 16 * PAGE as u64 };
            must(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) });
        };
        let locked = ANONYMOUS | libc::MAP_LOCKED;
        let result = |result: Result<*mut u8, i32>| result.map(|_| ());
        set(0);
        assert_eq!(result(map(1, BOTH, locked)), Ok(()), "root may");
        become_user(NOBODY);
        assert_eq!(result(map(1, BOTH, locked)), Err(libc::EPERM));
        assert_eq!(result(map(1, NONE, locked)), Err(libc::EPERM));
        let at = map(2, BOTH, ANONYMOUS).unwrap();
        let lock = |pages: usize| check(unsafe { libc::mlock(at.cast(), pages * PAGE) });
        assert_eq!(lock(1), Err(libc::EPERM));
        assert_eq!(lock(0), Err(libc::EPERM), "even of nothing");
        let all = |flags: i32| check(unsafe { libc::mlockall(flags) });
        assert_eq!(all(libc::MCL_FUTURE), Err(libc::EPERM));
        assert_eq!(check(unsafe { libc::munlock(at.cast(), PAGE) }), Ok(0));
        assert_eq!(check(unsafe { libc::munlockall() }), Ok(0));
        set(PAGE as u64);
        let one = map(1, BOTH, locked).unwrap();
        assert_eq!(result(map(1, BOTH, locked)), Err(libc::EAGAIN), "it is as much as may be");
        assert_eq!(lock(1), Err(libc::ENOMEM));
        unmap(one, 0, 1);
        assert_eq!(lock(1), Ok(0));
        assert_eq!(lock(1), Ok(0), "it is no more than before");
        assert_eq!(result(remap(at, (1, 2), 0, null_mut())), Err(libc::EAGAIN), "before the room");
        unmap(at, 1, 1);
        assert_eq!(result(remap(at, (1, 2), 0, null_mut())), Err(libc::EAGAIN));
    });
}

#[test]
fn msync_asks_all_that_it_names_and_nothing_of_nothing() {
    isolated(|| {
        let at = map(4, BOTH, ANONYMOUS).unwrap();
        protect(at, 1, 1, READ);
        let sync = |index, pages: usize, flags| {
            check(unsafe { libc::msync(page(at, index), pages * PAGE, flags) })
        };
        assert_eq!(sync(0, 1, libc::MS_ASYNC), Ok(0));
        assert_eq!(sync(0, 4, libc::MS_SYNC), Ok(0), "three regions");
        must(unsafe { libc::mlock(page(at, 2), PAGE) });
        let invalidates = libc::MS_SYNC | libc::MS_INVALIDATE;
        assert_eq!(sync(2, 1, invalidates), Err(libc::EBUSY));
        assert_eq!(sync(0, 4, invalidates), Err(libc::EBUSY));
        assert_eq!(sync(2, 0, invalidates), Ok(0), "nothing is locked of no page");
        assert_eq!(sync(0, 2, invalidates), Ok(0));
        unmap(at, 3, 1);
        assert_eq!(sync(2, 2, libc::MS_ASYNC), Err(libc::ENOMEM));
        assert_eq!(sync(3, 1, libc::MS_ASYNC), Err(libc::ENOMEM));
        assert_eq!(sync(3, 0, libc::MS_ASYNC), Ok(0));
    });
}

#[test]
fn shared_mappings_tell_what_may_become_of_them() {
    isolated(|| {
        let scratch = Scratch::in_memory();
        let path = scratch.file("f", &[1; PAGE]);
        let flags_of = |access: i32, protection: i32, flags: i32| {
            let fd = open(&path, access, 0).unwrap();
            let at = unsafe { libc::mmap(null_mut(), PAGE, protection, flags, fd, 0) };
            assert_ne!(at, libc::MAP_FAILED);
            let all = field(&lines_at(at.cast()), "VmFlags");
            let known = ["rd", "wr", "sh", "mr", "mw", "me", "ms"];
            let told: Vec<&str> = all.split(' ').filter(|flag| known.contains(flag)).collect();
            let maps = fs::read_to_string("/proc/self/maps").unwrap();
            let start = format!("{:x}-", at as usize);
            let line = maps.lines().find(|line| line.starts_with(&start)).unwrap().to_owned();
            must(unsafe { libc::munmap(at, PAGE) });
            format!("{} {}", line.split(' ').nth(1).unwrap(), told.join(" "))
        };
        let (shared, private) = (libc::MAP_SHARED, libc::MAP_PRIVATE);
        let (read, write) = (libc::O_RDONLY, libc::O_RDWR);
        assert_eq!(flags_of(write, BOTH, shared), "rw-s rd wr sh mr mw me ms");
        assert_eq!(flags_of(write, READ, shared), "r--s rd sh mr mw me ms");
        assert_eq!(flags_of(write, NONE, shared), "---s sh mr mw me ms");
        // A file that was opened only for reading never becomes writable here: nothing is shared.
        assert_eq!(flags_of(read, READ, shared), "r--s rd mr me ms");
        assert_eq!(flags_of(read, NONE, shared), "---s mr me ms");
        assert_eq!(flags_of(read, READ, private), "r--p rd mr mw me");
        assert_eq!(flags_of(write, BOTH, private), "rw-p rd wr mr mw me");
    });
}
