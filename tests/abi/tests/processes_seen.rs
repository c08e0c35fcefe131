//! The view in `/proc/PID`, and its readers; small differences of calls that Debian's programs turned up.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    identity::{as_user, become_user},
    pty::ioctl,
    smaps::{field, kib},
    *,
};
use std::{fs, path::Path, ptr};

const PAGE: usize = 4096;

/// Maps `pages` new anonymous pages as a region of their own: a page on either side cannot be accessed.
fn anonymous(pages: usize, flags: i32) -> *mut u8 {
    let (length, flags) = ((pages + 2) * PAGE, flags | libc::MAP_ANONYMOUS);
    let all = unsafe { libc::mmap(ptr::null_mut(), length, libc::PROT_NONE, flags, -1, 0) };
    assert_ne!(all, libc::MAP_FAILED);
    let at = all.cast::<u8>().wrapping_add(PAGE);
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    must(unsafe { libc::mprotect(at.cast(), pages * PAGE, protection) });
    at
}

fn store(at: *mut u8, pages: impl IntoIterator<Item = usize>) {
    for page in pages {
        unsafe { at.add(page * PAGE).write_volatile(1) };
    }
}

#[test]
fn smaps_counts_what_is_present() {
    isolated(|| {
        let at = anonymous(64, libc::MAP_PRIVATE);
        unsafe { libc::madvise(at.cast(), 64 * PAGE, libc::MADV_NOHUGEPAGE) };
        store(at, [0, 1, 2, 40, 63]);
        let lines = smaps::lines_at(at);
        // Neighbouring pages may become present with a page, or not.
        let present = kib(&lines, "Rss");
        assert!((20..=256).contains(&present), "{present}");
        assert_eq!(kib(&lines, "Size"), 256);
        for name in ["Pss", "Private_Dirty", "Anonymous", "Pss_Dirty"] {
            assert_eq!(kib(&lines, name), present, "{name}");
        }
        for name in ["Shared_Clean", "Shared_Dirty", "Private_Clean", "Swap", "Locked"] {
            assert_eq!(kib(&lines, name), 0, "{name}");
        }
        let flags = field(&lines, "VmFlags");
        for word in ["rd", "wr", "mr", "mw", "me"] {
            assert!(flags.split(' ').any(|flag| flag == word), "{word} in {flags}");
        }
        must(unsafe { libc::munmap(at.add(8 * PAGE).cast(), 56 * PAGE) });
        let lines = smaps::lines_at(at);
        assert_eq!(kib(&lines, "Size"), 32);
        assert!((12..=32).contains(&kib(&lines, "Rss")));
    });
}

#[test]
fn status_and_statm_tell_anonymous_memory_from_files_and_shared_memory() {
    const PAGES: usize = 1024;
    // Linux counts a processor's changes separately until there are several.
    const FEW: i64 = 256;
    let sizes = || {
        let text = fs::read_to_string("/proc/self/status").unwrap();
        ["RssAnon:", "RssFile:", "RssShmem:", "VmRSS:"].map(|name| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().trim_end_matches(" kB").parse::<i64>().unwrap() / 4
        })
    };
    let shared = || {
        let text = fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').nth(2).unwrap().parse::<i64>().unwrap()
    };
    isolated(|| {
        let scratch = Scratch::on_disk();
        let path = scratch.file("file", &vec![1; PAGES * PAGE]);
        let fd = open(path, libc::O_RDONLY, 0).unwrap();
        let take = |which: usize| match which {
            0 => store(anonymous(PAGES, libc::MAP_PRIVATE), 0..PAGES),
            1 => unsafe {
                let (protection, flags) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_POPULATE);
                let at = libc::mmap(ptr::null_mut(), PAGES * PAGE, protection, flags, fd, 0);
                assert_ne!(at, libc::MAP_FAILED);
            },
            _ => store(anonymous(PAGES, libc::MAP_SHARED), 0..PAGES),
        };
        for which in 0..3 {
            let (before, shared_before) = (sizes(), shared());
            take(which);
            let (after, shared_after) = (sizes(), shared());
            for (at, (before, after)) in before.iter().zip(after).enumerate() {
                let grown = after - before;
                let expected = if at == which || at == 3 { PAGES as i64 } else { 0 };
                assert!((grown - expected).abs() <= FEW, "{at} grew by {grown} for {which}");
            }
            let expected = if which == 0 { 0 } else { PAGES as i64 };
            assert!((shared_after - shared_before - expected).abs() <= FEW);
        }
    });
}

#[test]
fn smaps_divides_shared_pages_among_those_who_map_them() {
    isolated(|| {
        let at = anonymous(16, libc::MAP_SHARED);
        store(at, 0..16);
        let (reader, writer) = pipe();
        let child = fork(|| {
            store(at, 0..16);
            close(writer);
            read(reader, 1).unwrap();
        });
        // The child has the pages too if they were present before.
        let shared = loop {
            let lines = smaps::lines_at(at);
            if kib(&lines, "Shared_Dirty") == 64 {
                break lines;
            }
            jobs::pause_ms(5);
        };
        assert_eq!((kib(&shared, "Rss"), kib(&shared, "Pss")), (64, 32));
        let flags = field(&shared, "VmFlags");
        assert!(flags.split(' ').any(|flag| flag == "sh"), "{flags}");
        close(writer);
        assert_eq!(wait(child), Ended::Exited(0));
        let alone = smaps::lines_at(at);
        assert_eq!((kib(&alone, "Pss"), kib(&alone, "Shared_Dirty")), (64, 0));
    });
}

#[test]
fn the_rollup_is_the_sum() {
    isolated(|| {
        let (reader, writer) = pipe();
        let child = fork(|| {
            close(writer);
            read(reader, 1).unwrap();
        });
        jobs::pause_ms(50);
        let read = |name: &str| fs::read_to_string(format!("/proc/{child}/{name}")).unwrap();
        let sum = |text: &str, name: &str| -> u64 {
            let lines = text.lines().filter(|line| line.starts_with(name));
            lines.map(|line| line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()).sum()
        };
        let (all, rollup) = (read("smaps"), read("smaps_rollup"));
        assert!(rollup.lines().next().unwrap().ends_with("[rollup]"), "{rollup}");
        for name in ["Rss:", "Anonymous:"] {
            assert_eq!(sum(&all, name), sum(&rollup, name), "{name}");
        }
        let resident = sum(&read("status"), "VmRSS:");
        let counted = sum(&rollup, "Rss:");
        assert!(resident.abs_diff(counted) <= 256, "VmRSS {resident}, smaps {counted}");
        close(writer);
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn where_memory_lies_is_not_for_everybody() {
    isolated(|| {
        let parent = unsafe { libc::getpid() };
        as_user(1000, &[], || {
            for name in ["maps", "smaps", "smaps_rollup", "mem", "personality", "auxv", "environ"] {
                let found = open(format!("/proc/{parent}/{name}"), libc::O_RDONLY, 0);
                assert_eq!(found, Err(libc::EACCES), "{name}");
            }
            let stat = fs::read_to_string(format!("/proc/{parent}/stat")).unwrap();
            let (_, fields) = stat.rsplit_once(") ").unwrap();
            let fields: Vec<&str> = fields.split(' ').collect();
            // The fields are: start and end of the code, the stack; data and heap, arguments and
            // environment.
            assert_eq!(fields[23..26], ["1", "1", "0"]);
            assert_eq!(fields[42..49], ["0"; 7]);
        });
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        assert!(fields.split(' ').nth(25).unwrap().parse::<u64>().unwrap() > 0);
    });
}

#[test]
fn comm_keeps_a_newline() {
    isolated(|| {
        fs::write("/proc/self/comm", "named\n").unwrap();
        assert_eq!(fs::read_to_string("/proc/self/comm").unwrap(), "named\n\n");
        fs::write("/proc/self/comm", "0123456789abcdefgh").unwrap();
        assert_eq!(fs::read_to_string("/proc/self/comm").unwrap(), "0123456789abcde\n");
    });
}

#[test]
fn names_that_nobody_made_are_not_renamed() {
    let rename =
        |from: &str, to: &str| check(unsafe { libc::rename(c(from).as_ptr(), c(to).as_ptr()) });
    assert_eq!(rename("/proc/version", "/proc/nosuch"), Err(libc::ENOENT));
    assert_eq!(rename("/proc/nosuch", "/proc/version"), Err(libc::ENOENT));
    assert_eq!(rename("/proc/version", "/proc/uptime"), Err(libc::EPERM));
}

/// See ioctl_ficlone(2); neither tmpfs nor ext4 shares blocks.
#[test]
fn files_that_cannot_share_blocks_say_so_last() {
    const FICLONE: libc::c_ulong = 0x4004_9409;
    const FICLONERANGE: libc::Ioctl = 0x4020_940d_u32 as libc::Ioctl;
    let scratch = Scratch::on_disk();
    let path = scratch.file("one", b"content");
    let one = open(&path, libc::O_RDONLY, 0).unwrap();
    let two = open(scratch.path("two"), libc::O_RDWR | libc::O_CREAT, 0o644).unwrap();
    let folder = open(scratch.path(""), libc::O_RDONLY | libc::O_DIRECTORY, 0).unwrap();
    let clone = |to: i32, from: i32| {
        check(unsafe { libc::ioctl(to, FICLONE as libc::Ioctl, from as libc::c_ulong) })
    };
    assert_eq!(clone(two, 999), Err(libc::EBADF));
    assert_eq!(clone(two, folder), Err(libc::EISDIR));
    let null = open("/dev/null", libc::O_RDONLY, 0).unwrap();
    assert_eq!(clone(two, null), Err(libc::EXDEV));
    assert_eq!(clone(one, two), Err(libc::EBADF), "not to be written");
    assert_eq!(clone(two, one), Err(libc::EOPNOTSUPP));
    let mut range = [i64::from(one), 0, 0, 0];
    assert_eq!(ioctl(two, FICLONERANGE, &mut range), Err(libc::EOPNOTSUPP));
    [one, two, folder, null].into_iter().for_each(close);
}

#[test]
fn ranges_are_not_copied_between_file_systems() {
    let scratch = Scratch::on_disk();
    let path = scratch.file("one", b"content");
    let one = open(&path, libc::O_RDONLY, 0).unwrap();
    let memory = must(unsafe { libc::memfd_create(c("two").as_ptr(), 0) }) as i32;
    let copy = |from: i32, to: i32| {
        let nowhere = ptr::null_mut();
        check(unsafe { libc::copy_file_range(from, nowhere, to, nowhere, 7, 0) } as i64)
    };
    assert_eq!(copy(one, memory), Err(libc::EXDEV));
    let two = open(scratch.path("two"), libc::O_RDWR | libc::O_CREAT, 0o644).unwrap();
    assert_eq!(copy(one, two), Ok(7));
    [one, memory, two].into_iter().for_each(close);
}

#[test]
fn a_touched_file_has_one_time() {
    let scratch = Scratch::new();
    let path = scratch.file("f", b"");
    must(unsafe { libc::utimensat(libc::AT_FDCWD, c(&path).as_ptr(), ptr::null(), 0) });
    let found = stat(&path).unwrap();
    let times = [
        (found.st_atime, found.st_atime_nsec),
        (found.st_mtime, found.st_mtime_nsec),
        (found.st_ctime, found.st_ctime_nsec),
    ];
    assert_eq!((times[0], times[0]), (times[1], times[2]));
}

/// Making a device node checks the right to create names first, and then CAP_MKNOD.
#[test]
fn nodes_are_refused_by_their_folder_first() {
    isolated(|| {
        let scratch = Scratch::new();
        let own = scratch.path("own");
        fs::create_dir(&own).unwrap();
        std::os::unix::fs::chown(&own, Some(1000), Some(1000)).unwrap();
        fs::set_permissions(scratch.path(""), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        as_user(1000, &[], || {
            let make = |path: &Path, kind: u32, device: u64| {
                check(unsafe { libc::mknod(c(path).as_ptr(), kind | 0o644, device) })
            };
            let null = libc::makedev(1, 3);
            assert_eq!(make(&scratch.path("n"), libc::S_IFCHR, null), Err(libc::EACCES));
            assert_eq!(make(&own.join("n"), libc::S_IFCHR, null), Err(libc::EPERM));
            assert_eq!(make(&own.join("n"), libc::S_IFBLK, 0), Err(libc::EPERM));
            assert_eq!(make(&own.join("whiteout"), libc::S_IFCHR, 0), Ok(0));
            assert_eq!(make(&own.join("pipe"), libc::S_IFIFO, 0), Ok(0));
        });
    });
}

/// See sched(7), "SCHED_RESET_ON_FORK".
#[test]
fn children_of_who_resets_on_fork_are_not_real_time() {
    const RESET: i32 = 0x4000_0000;
    isolated(|| {
        let set = |policy: i32, priority: i32| {
            let parameters = priority;
            check(unsafe {
                libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const parameters)
            })
        };
        let get = || must(unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) }) as i32;
        let nice = || must(unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) });
        must(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -5) });
        assert_eq!(set(libc::SCHED_OTHER | RESET, 0), Ok(0));
        let child = fork(|| assert_eq!((get(), nice()), (libc::SCHED_OTHER, 0)));
        assert_eq!(wait(child), Ended::Exited(0));
        assert_eq!(set(libc::SCHED_FIFO | RESET, 3), Ok(0));
        assert_eq!(get(), libc::SCHED_FIFO | RESET);
        let child = fork(|| assert_eq!(get(), libc::SCHED_OTHER));
        assert_eq!(wait(child), Ended::Exited(0));
        let child = fork(|| {
            must(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 0) });
            assert_eq!(set(libc::SCHED_OTHER | RESET, 0), Ok(0));
            become_user(1000);
            assert_eq!(set(libc::SCHED_OTHER, 0), Err(libc::EPERM));
            assert_eq!(set(libc::SCHED_BATCH | RESET, 0), Ok(0));
        });
        assert_eq!(wait(child), Ended::Exited(0));
        assert_eq!(set(libc::SCHED_FIFO, 3), Ok(0));
        let child = fork(|| assert_eq!(get(), libc::SCHED_FIFO));
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn deadlines_have_no_priorities() {
    const SCHED_DEADLINE: i32 = 6;
    assert_eq!(
        check(unsafe { libc::syscall(libc::SYS_sched_get_priority_max, SCHED_DEADLINE) }),
        Ok(0)
    );
    assert_eq!(
        check(unsafe { libc::syscall(libc::SYS_sched_get_priority_min, SCHED_DEADLINE) }),
        Ok(0)
    );
    let wrong = unsafe { libc::syscall(libc::SYS_sched_get_priority_max, SCHED_DEADLINE + 3) };
    assert_eq!(check(wrong), Err(libc::EINVAL));
}

#[test]
fn affinities_of_nobody_are_not_found() {
    let mut mask = 0u64;
    let (get, set) = (libc::SYS_sched_getaffinity, libc::SYS_sched_setaffinity);
    for call in [get, set] {
        let found = unsafe { libc::syscall(call, -1, 8, &raw mut mask) };
        assert_eq!(check(found), Err(libc::ESRCH));
        mask = 1;
    }
    let found = unsafe { libc::syscall(libc::SYS_sched_getscheduler, -1) };
    assert_eq!(check(found), Err(libc::EINVAL));
}

#[test]
fn what_a_mount_needs_of_its_source() {
    isolated(|| {
        let scratch = Scratch::new();
        let at = scratch.path("m");
        fs::create_dir(&at).unwrap();
        let mount = |source: &str, kind: &str| {
            let (source, at, kind) = (c(source), c(&at), c(kind));
            let (source, at, kind) = (source.as_ptr(), at.as_ptr(), kind.as_ptr());
            check(unsafe { libc::mount(source, at, kind, 0, ptr::null()) })
        };
        assert_eq!(mount("none", "nosuchfs"), Err(libc::ENODEV));
        assert_eq!(mount("none", "ext4"), Err(libc::ENOENT));
        assert_eq!(mount("/nosuch", "ext4"), Err(libc::ENOENT));
        assert_eq!(mount("/dev/null", "ext4"), Err(libc::ENOTBLK));
        assert_eq!(mount("", "ext4"), Err(libc::EINVAL));
        as_user(1000, &[], || {
            assert_eq!(check(unsafe { libc::unshare(libc::CLONE_NEWNS) }), Err(libc::EPERM));
        });
    });
}
