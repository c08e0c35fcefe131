//! System V shared memory: shmget, shmat, shmdt, shmctl.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    identity::{NOBODY, as_user},
    ipc::*,
    *,
};
use libc::{IPC_CREAT, IPC_EXCL, IPC_PRIVATE, IPC_RMID, IPC_SET, IPC_STAT, SHM_RDONLY};
use std::{fs, ptr::null_mut};

const PAGE: usize = 4096;
const SHM_REMAP: i32 = 0o40000;
const SHM_DEST: u32 = 0o1000;
const SHM_LOCKED: u32 = 0o2000;
const SHM_STAT: i32 = 13;
const SHM_INFO: i32 = 14;
const SHM_STAT_ANY: i32 = 15;

fn segment(pages: usize) -> i32 {
    shmget(IPC_PRIVATE, pages * PAGE, OWN).unwrap()
}

fn attached(id: i32) -> *mut u8 {
    shmat(id, 0, 0).unwrap()
}

fn get(at: *mut u8, index: usize) -> u8 {
    unsafe { at.add(index).read_volatile() }
}

fn set(at: *mut u8, index: usize, value: u8) {
    unsafe { at.add(index).write_volatile(value) };
}

/// Returns an address at which `pages` pages are free.
fn free_place(pages: usize) -> usize {
    let (none, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let at = unsafe { libc::mmap(null_mut(), pages * PAGE, none, flags, -1, 0) };
    must(unsafe { libc::munmap(at, pages * PAGE) });
    at as usize
}

fn remove(id: i32) {
    assert_eq!(shm_command(id, IPC_RMID), Ok(0));
}

fn ends(body: impl FnOnce()) {
    assert_eq!(wait(fork(body)), Ended::Exited(0));
}

#[test]
fn a_segment_is_shared_by_all_that_attach_it() {
    alone(|| {
        let id = segment(2);
        let (one, other) = (attached(id), attached(id));
        assert_ne!(one, other);
        assert_eq!(get(one, 2 * PAGE - 1), 0);
        set(one, 5000, 7);
        assert_eq!(get(other, 5000), 7);
        ends(|| {
            assert_eq!(get(one, 5000), 7);
            let third = attached(id);
            set(third, 5000, 8);
        });
        assert_eq!(get(other, 5000), 8);
        assert_eq!((shmdt(one), shmdt(other)), (Ok(0), Ok(0)));
        assert_eq!(shmdt(one), Err(libc::EINVAL));
        assert_eq!(get(attached(id), 5000), 8, "it stays without attaches");
        remove(id);
    });
}

#[test]
fn a_key_finds_its_segment() {
    alone(|| {
        let (key, bytes) = (key(1), 3 * PAGE);
        assert_eq!(shmget(key, bytes, OWN), Err(libc::ENOENT));
        let id = shmget(key, bytes, IPC_CREAT | OWN).unwrap();
        assert_eq!(shmget(key, bytes, IPC_CREAT | OWN), Ok(id));
        assert_eq!(shmget(key, 0, 0), Ok(id));
        assert_eq!(shmget(key, bytes + 1, 0), Err(libc::EINVAL), "larger than it is");
        assert_eq!(shmget(key, bytes, IPC_CREAT | IPC_EXCL | OWN), Err(libc::EEXIST));
        assert_eq!(shmget(key, bytes, IPC_EXCL), Ok(id), "IPC_EXCL says nothing alone");
        let private = segment(1);
        let other = segment(1);
        assert_ne!(other, private, "no key finds a private one");
        [id, private, other].into_iter().for_each(remove);
        assert_eq!(shmget(key, bytes, 0), Err(libc::ENOENT));
    });
}

#[test]
fn sizes_are_checked() {
    alone(|| {
        assert_eq!(shmget(IPC_PRIVATE, 0, OWN), Err(libc::EINVAL));
        assert_eq!(shmget(IPC_PRIVATE, usize::MAX, OWN), Err(libc::EINVAL), "above shmmax");
        assert_eq!(shmget(IPC_PRIVATE, 1 << 62, OWN), Err(libc::ENOMEM));
        let id = shmget(IPC_PRIVATE, 5, OWN).unwrap();
        assert_eq!(shm_status(id).unwrap().shm_segsz, 5);
        let at = attached(id);
        set(at, PAGE - 1, 1);
        remove(id);
    });
}

#[test]
fn a_removed_segments_identifier_is_not_used_again_soon() {
    alone(|| {
        let id = segment(1);
        remove(id);
        assert_eq!(shm_status(id).err(), Some(libc::EINVAL));
        assert_eq!(shmat(id, 0, 0), Err(libc::EINVAL));
        for _ in 0..200 {
            let next = segment(1);
            assert_ne!(next, id);
            remove(next);
        }
        for wrong in [-1, i32::MIN, i32::MAX] {
            assert_eq!(shmat(wrong, 0, 0), Err(libc::EINVAL));
            assert_eq!(shm_command(wrong, IPC_RMID), Err(libc::EINVAL));
        }
    });
}

#[test]
fn the_status_tells_who_did_what_and_when() {
    alone(|| {
        // Linux uses the seconds of its last tick.
        let start = unsafe { libc::time(null_mut()) } - 1;
        let id = shmget(key(2), PAGE + 1, IPC_CREAT | 0o640).unwrap();
        let status = shm_status(id).unwrap();
        let own = unsafe { libc::getpid() };
        assert_eq!((status.shm_cpid, status.shm_lpid, status.shm_nattch), (own, 0, 0));
        assert_eq!((status.shm_atime, status.shm_dtime), (0, 0));
        assert!((start..start + 20).contains(&status.shm_ctime));
        let permission = status.shm_perm;
        assert_eq!((key_of(&permission), permission.mode), (key(2), 0o640));
        assert_eq!((permission.uid, permission.cuid), (0, 0));
        assert_eq!(i64::from(permission.__seq), i64::from(id >> 15));
        let child = fork(|| assert_eq!(shmdt(attached(id)), Ok(0)));
        assert_eq!(wait(child), Ended::Exited(0));
        let status = shm_status(id).unwrap();
        assert_eq!((status.shm_cpid, status.shm_lpid), (own, child));
        assert!(status.shm_atime >= start && status.shm_dtime >= status.shm_atime);
        remove(id);
    });
}

#[test]
fn fork_attaches_and_the_end_detaches() {
    alone(|| {
        let id = segment(1);
        let at = attached(id);
        let (reader, writer) = pipe();
        let child = fork(|| {
            close(writer);
            assert_eq!(attaches(id), 2);
            set(at, 0, 1);
            read(reader, 1).unwrap();
        });
        close(reader);
        close(writer);
        assert_eq!(wait(child), Ended::Exited(0));
        let status = shm_status(id).unwrap();
        assert_eq!((status.shm_nattch, status.shm_lpid), (1, child));
        assert_eq!(get(at, 0), 1);
        let child = fork(|| unsafe { *null_mut::<u8>().with_addr(8) = 1 });
        assert_eq!(wait(child), Ended::Signalled(libc::SIGSEGV));
        assert_eq!(attaches(id), 1);
        remove(id);
    });
}

#[test]
fn exec_detaches() {
    alone(|| {
        let id = segment(1);
        attached(id);
        let program = std::env::current_exe().unwrap();
        // The program prints while it runs, when its predecessor's memory has gone.
        let (reader, writer) = pipe();
        let child = fork(|| {
            must(unsafe { libc::dup2(writer, 1) });
            close(reader);
            let (name, list) = (c(&program), c("--list"));
            unsafe { libc::execl(name.as_ptr(), name.as_ptr(), list.as_ptr(), 0usize) };
        });
        close(writer);
        assert!(!read(reader, 1).unwrap().is_empty());
        assert_eq!(attaches(id), 1);
        while !read(reader, 4096).unwrap().is_empty() {}
        assert_eq!(wait(child), Ended::Exited(0));
        remove(id);
    });
}

#[test]
fn a_segment_that_is_removed_lives_while_it_is_attached() {
    alone(|| {
        let id = shmget(key(3), PAGE, IPC_CREAT | OWN).unwrap();
        let at = attached(id);
        set(at, 0, 9);
        remove(id);
        let status = shm_status(id).unwrap();
        assert_eq!(u32::from(status.shm_perm.mode), SHM_DEST | 0o600);
        assert_eq!(key_of(&status.shm_perm), IPC_PRIVATE);
        assert_eq!(shmget(key(3), PAGE, OWN), Err(libc::ENOENT));
        let again = attached(id);
        assert_eq!(get(again, 0), 9, "its identifier still finds it");
        assert_eq!(shmdt(at), Ok(0));
        assert_eq!(shm_command(id, IPC_RMID), Ok(0), "once more");
        assert_eq!(shmdt(again), Ok(0));
        assert_eq!(shm_status(id).err(), Some(libc::EINVAL));
    });
}

#[test]
fn a_segment_is_attached_where_it_is_asked_for() {
    alone(|| {
        let (id, place) = (segment(2), free_place(4));
        assert_eq!(shmat(id, place + 8, 0), Err(libc::EINVAL));
        let at = shmat(id, place + 8, libc::SHM_RND).unwrap();
        assert_eq!(at as usize, place);
        assert_eq!(shmat(id, place + PAGE, 0), Err(libc::EINVAL), "something is there");
        assert_eq!(shmat(id, 0, SHM_REMAP), Err(libc::EINVAL));
        assert_eq!(shmat(id, 8, SHM_REMAP | libc::SHM_RND), Err(libc::EINVAL));
        let over = shmat(id, place + PAGE, SHM_REMAP).unwrap();
        set(over, 0, 5);
        assert_eq!(get(at, 0), 5);
        set(over, PAGE, 6);
        assert_eq!(get(at, PAGE), 5, "the first attach has lost its second page");
        assert_eq!(attaches(id), 2);
        assert_eq!(shmat(id, 1 << 60, 0), Err(libc::ENOMEM));
        let highest = 0usize.wrapping_sub(PAGE);
        assert_eq!(shmat(id, highest, 0), Err(libc::EINVAL), "it would end below");
        assert_eq!(shmdt(over.wrapping_add(8)), Err(libc::EINVAL));
        remove(id);
    });
}

#[test]
fn a_segment_attached_to_be_read_is_not_written() {
    alone(|| {
        let id = segment(1);
        set(attached(id), 0, 3);
        let at = shmat(id, 0, SHM_RDONLY).unwrap();
        assert_eq!(get(at, 0), 3);
        let child = fork(|| set(at, 0, 4));
        assert_eq!(wait(child), Ended::Signalled(libc::SIGSEGV));
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let opened = check(unsafe { libc::mprotect(at.cast(), PAGE, both) });
        assert_eq!(opened, Err(libc::EACCES));
        let child = fork(|| {
            set(attached(id), 0, 0xc3);
            let run: extern "C" fn() = unsafe { std::mem::transmute(at) };
            run();
        });
        assert_eq!(wait(child), Ended::Signalled(libc::SIGSEGV));
        let exec = shmat(id, 0, SHM_RDONLY | libc::SHM_EXEC);
        assert!(exec.is_ok(), "root needs no execute permission");
        set(attached(id), 0, 0xc3);
        let run: extern "C" fn() = unsafe { std::mem::transmute(exec.unwrap()) };
        run();
        remove(id);
    });
}

#[test]
fn permissions_are_the_owners_the_creators_the_groups_and_the_others() {
    alone(|| {
        let key = key(4);
        let id = shmget(key, PAGE, IPC_CREAT | 0o640).unwrap();
        let refused = Err(libc::EACCES);
        as_user(NOBODY, &[], || {
            assert_eq!(shmat(id, 0, SHM_RDONLY), refused);
            assert_eq!(shm_status(id).err(), Some(libc::EACCES));
            assert_eq!(shmget(key, PAGE, 0o400), Err(libc::EACCES));
            assert_eq!(shmget(key, PAGE, 0), Ok(id), "nothing was asked for");
            assert_eq!(shm_command(id, IPC_RMID), Err(libc::EPERM));
        });
        as_user(NOBODY, &[0], || {
            assert!(shmat(id, 0, SHM_RDONLY).is_ok(), "the group");
            assert_eq!(shmat(id, 0, 0), refused);
            assert_eq!(shmat(id, 0, SHM_RDONLY | libc::SHM_EXEC), refused);
        });
        let mut status = shm_status(id).unwrap();
        status.shm_perm.uid = NOBODY;
        assert_eq!(shm_with(id, IPC_SET, &mut status), Ok(0));
        as_user(NOBODY, &[], || {
            assert!(shmat(id, 0, 0).is_ok(), "the owner");
            let status = shm_status(id).unwrap();
            assert_eq!((status.shm_perm.uid, status.shm_perm.cuid), (NOBODY, 0));
        });
        as_user(1234, &[], || assert_eq!(shm_command(id, IPC_RMID), Err(libc::EPERM)));
        as_user(NOBODY, &[], || remove(id));
    });
}

#[test]
fn ipc_set_changes_owner_and_permission_bits() {
    alone(|| {
        let id = segment(1);
        let mut status = shm_status(id).unwrap();
        status.shm_perm.mode = 0o7_604;
        (status.shm_perm.gid, status.shm_segsz) = (55, 1);
        assert_eq!(shm_with(id, IPC_SET, &mut status), Ok(0));
        let found = shm_status(id).unwrap();
        assert_eq!((found.shm_perm.mode, found.shm_perm.gid), (0o604, 55));
        assert_eq!((found.shm_perm.cgid, found.shm_segsz), (0, PAGE));
        status.shm_perm.uid = u32::MAX;
        assert_eq!(shm_with(id, IPC_SET, &mut status), Err(libc::EINVAL));
        as_user(NOBODY, &[], || {
            let mut status = shm_status(id).unwrap();
            assert_eq!(shm_with(id, IPC_SET, &mut status), Err(libc::EPERM));
        });
        assert_eq!(shm_command(id, IPC_SET), Err(libc::EFAULT));
        assert_eq!(shm_command(id + 1, IPC_SET), Err(libc::EFAULT), "the address comes first");
        remove(id);
    });
}

#[test]
fn indices_lead_to_segments() {
    alone(|| {
        let id = segment(1);
        let index = id & 0x7fff;
        let mut status = shm_status(id).unwrap();
        status.shm_perm.mode = 0;
        assert_eq!(shm_with(id, IPC_SET, &mut status), Ok(0));
        assert_eq!(shm_with(index, SHM_STAT, &mut status), Ok(id.into()));
        assert_eq!(status.shm_segsz, PAGE);
        assert_eq!(shm_with(index + 5000, SHM_STAT, &mut status), Err(libc::EINVAL));
        as_user(NOBODY, &[], || {
            let mut status: libc::shmid_ds = unsafe { zeroed() };
            assert_eq!(shm_with(index, SHM_STAT, &mut status), Err(libc::EACCES));
            assert_eq!(shm_with(id, IPC_STAT, &mut status), Err(libc::EACCES));
            assert_eq!(shm_with(index, SHM_STAT_ANY, &mut status), Ok(id.into()));
            assert_eq!(status.shm_cpid, unsafe { libc::getppid() });
        });
        remove(id);
    });
}

#[test]
fn commands_about_all_segments_tell_limits_and_sums() {
    alone(|| {
        let read_number = |name: &str| -> u64 {
            let text = fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap();
            text.trim().parse().unwrap()
        };
        let mut limits = [0u64; 9];
        let info = |command: i32, words: *mut u64| {
            check(unsafe { libc::shmctl(0, command, words.cast()) })
        };
        let id = segment(3);
        let highest = info(libc::IPC_INFO, limits.as_mut_ptr()).unwrap();
        assert!(highest >= i64::from(id & 0x7fff));
        let [max, min, count, each, all, ..] = limits;
        assert_eq!((max, min), (read_number("shmmax"), 1));
        assert_eq!((count, each, all), (read_number("shmmni"), count, read_number("shmall")));
        let mut sums = [0u64; 6];
        assert_eq!(info(SHM_INFO, sums.as_mut_ptr()), Ok(highest));
        let (used, total, resident) = (sums[0] as u32, sums[1], sums[2]);
        assert!(used >= 1 && total >= 3);
        set(attached(id), PAGE, 1);
        assert_eq!(info(SHM_INFO, sums.as_mut_ptr()), Ok(highest));
        assert_eq!((sums[1], sums[2]), (total, resident + 1));
        remove(id);
        assert_eq!(shm_command(id, SHM_INFO), Err(libc::EFAULT));
        assert_eq!(shm_command(id, 99), Err(libc::EINVAL));
        assert_eq!(shm_command(id, -1), Err(libc::EINVAL));
    });
}

#[test]
fn a_lock_is_the_owners_and_within_its_limit() {
    alone(|| {
        let id = segment(4);
        let mode = || shm_status(id).unwrap().shm_perm.mode;
        assert_eq!(shm_command(id, libc::SHM_LOCK), Ok(0));
        assert_eq!(shm_command(id, libc::SHM_LOCK), Ok(0), "once more");
        assert_eq!(u32::from(mode()), SHM_LOCKED | 0o600);
        assert_eq!(shm_command(id, libc::SHM_UNLOCK), Ok(0));
        assert_eq!(mode(), 0o600);
        let limit = libc::rlimit { rlim_cur: 2 * PAGE as u64, rlim_max: 2 * PAGE as u64 };
        must(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) });
        as_user(4321, &[], || {
            assert_eq!(shm_command(id, libc::SHM_LOCK), Err(libc::EPERM));
            let (small, large) = (segment(2), segment(3));
            assert_eq!(shm_command(large, libc::SHM_LOCK), Err(libc::ENOMEM));
            assert_eq!(shm_command(small, libc::SHM_LOCK), Ok(0));
            let more = segment(1);
            assert_eq!(shm_command(more, libc::SHM_LOCK), Err(libc::ENOMEM));
            remove(small);
            assert_eq!(shm_command(more, libc::SHM_LOCK), Ok(0), "what went is charged no more");
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            must(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &none) });
            assert_eq!(shm_command(more, libc::SHM_LOCK), Err(libc::EPERM));
            assert_eq!(shm_command(more, libc::SHM_UNLOCK), Ok(0));
            [large, more].into_iter().for_each(remove);
        });
        remove(id);
    });
}

#[test]
fn a_segment_in_pieces_is_detached_whole() {
    alone(|| {
        let id = segment(5);
        let at = attached(id);
        must(unsafe { libc::munmap(at.add(PAGE).cast(), PAGE) });
        assert_eq!(attaches(id), 2, "each piece counts");
        must(unsafe { libc::mprotect(at.add(3 * PAGE).cast(), PAGE, libc::PROT_READ) });
        assert_eq!(attaches(id), 4);
        assert_eq!(
            shmdt(at.wrapping_add(2 * PAGE)),
            Err(libc::EINVAL),
            "it was not attached there"
        );
        assert_eq!(shmdt(at), Ok(0));
        assert_eq!(attaches(id), 0);
        let at = attached(id);
        must(unsafe { libc::munmap(at.cast(), PAGE) });
        assert_eq!(shmdt(at), Ok(0), "its first page has gone");
        assert_eq!(attaches(id), 0);
        must(unsafe { libc::munmap(attached(id).cast(), 5 * PAGE) });
        assert_eq!(attaches(id), 0);
        remove(id);
    });
}

#[test]
fn a_segment_moves_and_has_an_end() {
    alone(|| {
        let id = segment(1);
        let at = attached(id);
        set(at, 0, 4);
        let may_move = libc::MREMAP_MAYMOVE;
        let to = unsafe { libc::mremap(at.cast(), PAGE, 2 * PAGE, may_move) }.cast::<u8>();
        assert_eq!((get(to, 0), attaches(id)), (4, 1));
        let child = fork(|| set(to, PAGE, 1));
        assert_eq!(wait(child), Ended::Signalled(libc::SIGBUS));
        assert_eq!(shmdt(to), Ok(0));
        assert_eq!(attaches(id), 0);
        remove(id);
    });
}

#[test]
fn proc_lists_segments_and_maps_name_them() {
    alone(|| {
        let id = shmget(key(5), 2 * PAGE + 1, IPC_CREAT | 0o604).unwrap();
        let at = attached(id);
        set(at, 0, 1);
        let status = shm_status(id).unwrap();
        let text = fs::read_to_string("/proc/sysvipc/shm").unwrap();
        let mut lines = text.lines();
        assert_eq!(
            lines.next().unwrap(),
            "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      \
             atime      dtime      ctime                   rss                  swap"
        );
        let wanted = format!(
            "{:>10} {id:>10}   604 {:>21} {:>5} {:>5}  {:>5} {:>5} {:>5} {:>5} {:>5} {:>10} {:>10} {:>10} {:>21} {:>21}",
            key(5),
            2 * PAGE + 1,
            status.shm_cpid,
            status.shm_lpid,
            1,
            0,
            0,
            0,
            0,
            status.shm_atime,
            0,
            status.shm_ctime,
            PAGE,
            0
        );
        let line = lines.find(|line| line.contains(&id.to_string())).unwrap();
        assert_eq!(line, wanted);
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.contains("/SYSV")).unwrap();
        assert!(line.contains(" rw-s 00000000 "), "{line}");
        let end = format!("/SYSV{:08x} (deleted)", key(5));
        assert!(line.contains(&format!(" {id} ")) && line.ends_with(&end), "{line}");
        remove(id);
    });
}

#[test]
fn removal_can_be_forced() {
    alone(|| {
        let Some(setting) = Setting::set("kernel/shm_rmid_forced", "0") else { return };
        let (reader, writer) = pipe();
        let child = fork(|| write(writer, &segment(1).to_le_bytes()).map(drop).unwrap());
        assert_eq!(wait(child), Ended::Exited(0));
        let orphan = i32::from_le_bytes(read(reader, 4).unwrap().try_into().unwrap());
        let own = segment(1);
        assert_eq!(setting.change("2"), Err(libc::EINVAL));
        setting.change("1").unwrap();
        assert_eq!(shm_status(orphan).err(), Some(libc::EINVAL), "its creator has ended");
        let at = attached(own);
        let other = attached(own);
        assert_eq!(shmdt(at), Ok(0));
        assert_eq!(attaches(own), 1);
        assert_eq!(shmdt(other), Ok(0));
        assert_eq!(shm_status(own).err(), Some(libc::EINVAL), "the last attach");
        let child = fork(|| write(writer, &segment(1).to_le_bytes()).map(drop).unwrap());
        assert_eq!(wait(child), Ended::Exited(0));
        let gone = i32::from_le_bytes(read(reader, 4).unwrap().try_into().unwrap());
        assert_eq!(shm_status(gone).err(), Some(libc::EINVAL), "its creator's end");
    });
}

#[test]
fn limits_of_segments_hold() {
    alone(|| {
        let mut sums = [0u64; 6];
        must(unsafe { libc::shmctl(0, SHM_INFO, sums.as_mut_ptr().cast()) });
        let (used, total) = (sums[0] as u32, sums[1]);
        let most = format!("{}\n", used + 3);
        let Some(count) = Setting::set("kernel/shmmni", &most) else { return };
        let ids: Vec<i32> =
            std::iter::from_fn(|| shmget(IPC_PRIVATE, PAGE, OWN).ok()).take(9).collect();
        assert_eq!(ids.len(), 3);
        assert_eq!(shmget(IPC_PRIVATE, PAGE, OWN), Err(libc::ENOSPC));
        assert_eq!(count.change("40000"), Err(libc::EINVAL));
        assert_eq!(count.text(), most);
        drop(count);
        let pages = Setting::set("kernel/shmall", &format!("{}", total + 5)).unwrap();
        let more = segment(2);
        assert_eq!(shmget(IPC_PRIVATE, PAGE, OWN), Err(libc::ENOSPC));
        drop(pages);
        let bytes = Setting::set("kernel/shmmax", "8192").unwrap();
        assert_eq!(bytes.text(), "8192\n");
        assert_eq!(shmget(IPC_PRIVATE, 8193, OWN), Err(libc::EINVAL));
        let last = shmget(IPC_PRIVATE, 8192, OWN).unwrap();
        ids.into_iter().chain([more, last]).for_each(remove);
    });
}

#[test]
fn a_futex_in_a_segment_is_found_through_every_attach() {
    alone(|| {
        let id = segment(1);
        let at = attached(id);
        let futex = |at: *mut u8, operation: i32, value: u32| {
            check(unsafe { libc::syscall(libc::SYS_futex, at, operation, value, 0usize) })
        };
        let child = fork(|| {
            let other = shmat(id, 0, 0).unwrap();
            while get(other, 0) == 0 {
                let waited = futex(other, libc::FUTEX_WAIT, 0);
                assert!(matches!(waited, Ok(0) | Err(libc::EAGAIN)), "{waited:?}");
            }
        });
        while futex(at, libc::FUTEX_WAKE, 1) == Ok(0) {}
        set(at, 0, 1);
        futex(at, libc::FUTEX_WAKE, 1).unwrap();
        assert_eq!(wait(child), Ended::Exited(0));
        remove(id);
    });
}

#[test]
fn huge_pages_that_there_are_not_are_refused() {
    alone(|| {
        let huge = |bits: i32| shmget(IPC_PRIVATE, 2 << 20, libc::SHM_HUGETLB | bits << 26 | OWN);
        assert_eq!(huge(0), Err(libc::ENOMEM));
        assert_eq!(huge(21), Err(libc::ENOMEM));
        assert_eq!(huge(13), Err(libc::EINVAL), "no such size");
        as_user(NOBODY, &[], || {
            let refused = shmget(IPC_PRIVATE, 2 << 20, libc::SHM_HUGETLB | OWN);
            assert_eq!(refused, Err(libc::EPERM));
        });
        let id = shmget(IPC_PRIVATE, PAGE, libc::SHM_NORESERVE | OWN).unwrap();
        set(attached(id), 0, 1);
        remove(id);
    });
}
