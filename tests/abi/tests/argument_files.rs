//! Tests which error comes first if several arguments of calls on files and names are wrong (`./x
//! campaign arguments` found these cases). To be run as root.
use abi::{
    c,
    cases::{KERNEL, all, at, in_folder, map, no, of, raw, room},
    close,
    identity::as_user,
    must, open, pipe, write,
};
use libc::*;
use std::ffi::CString;

const AT: i64 = AT_FDCWD as i64;
const USER: u32 = 1000;
/// A descriptor that is not open.
const CLOSED: i64 = 1000;

/// Returns a name's address.
fn text(name: &CString) -> i64 {
    name.as_ptr() as i64
}

/// Runs a test where `file`, `folder/inner` and `loop` are.
fn among_files(body: impl FnOnce()) {
    in_folder(|| {
        std::fs::write("file", "some bytes").expect("a new file");
        std::fs::create_dir("folder").expect("a new folder");
        std::fs::write("folder/inner", "").expect("a new file");
        std::os::unix::fs::symlink("loop", "loop").expect("a new link");
        body();
    });
}

#[test]
fn the_way_to_the_old_name_comes_before_the_new_ones_descriptor() {
    among_files(|| {
        let [file, under, notdir, empty, other] =
            ["file", "absent/x", "file/x", "", "folder/other"].map(c);
        let [file, under, notdir, empty, other] =
            [&file, &under, &notdir, &empty, &other].map(text);
        all(&[
            (SYS_renameat2, of([CLOSED, empty, AT, other, 0]), no(ENOENT)),
            (SYS_renameat2, of([AT, under, CLOSED, other, 0]), no(ENOENT)),
            (SYS_renameat2, of([AT, notdir, CLOSED, other, 0]), no(ENOTDIR)),
            (SYS_renameat2, of([AT, file, CLOSED, empty, 0]), no(ENOENT)),
            (SYS_renameat2, of([AT, file, CLOSED, other, 0]), no(EBADF)),
            (SYS_renameat2, of([AT, under, AT, KERNEL, 0]), no(ENOENT)),
            (SYS_renameat2, of([AT, file, AT, KERNEL, 0]), no(EFAULT)),
            (SYS_renameat2, of([CLOSED, file, AT, KERNEL, 8]), no(EINVAL)),
            (SYS_renameat2, of([CLOSED, file, AT, other, 3]), no(EINVAL)),
            (SYS_linkat, of([AT, under, CLOSED, other, 0]), no(ENOENT)),
            (SYS_linkat, of([AT, notdir, AT, KERNEL, 0]), no(ENOTDIR)),
            (SYS_linkat, of([AT, file, CLOSED, other, 0]), no(EBADF)),
            (SYS_link, of([under, KERNEL]), no(ENOENT)),
            (SYS_symlinkat, of([KERNEL, CLOSED, other]), no(EFAULT)),
            (SYS_symlinkat, of([empty, CLOSED, other]), no(ENOENT)),
            (SYS_symlinkat, of([file, CLOSED, empty]), no(ENOENT)),
            (SYS_unlinkat, of([CLOSED, other, AT_SYMLINK_NOFOLLOW.into()]), no(EINVAL)),
            (SYS_unlinkat, of([AT, KERNEL, AT_SYMLINK_NOFOLLOW.into()]), no(EINVAL)),
            (SYS_unlinkat, of([CLOSED, empty, 0]), no(ENOENT)),
            (SYS_mkdirat, of([CLOSED, empty, 0]), no(ENOENT)),
            (SYS_execve, of([empty, KERNEL, KERNEL]), no(ENOENT)),
        ]);
    });
}

#[test]
fn a_file_is_found_before_its_new_times_are_looked_at() {
    among_files(|| {
        let (wrong, times) = ([0i64, 1_000_000_000, 0, 0], [1i64, 0, 1, 0]);
        let omitted = [0i64, UTIME_OMIT, 0, UTIME_OMIT];
        let (wrong, times, omitted) = (at(&wrong), at(&times), at(&omitted));
        let [file, absent, looped] = ["file", "absent", "loop"].map(c);
        let [file, absent, looped] = [&file, &absent, &looped].map(text);
        let flag = AT_SYMLINK_NOFOLLOW.into();
        all(&[
            (SYS_utimensat, of([AT, absent, wrong, 0]), no(ENOENT)),
            (SYS_utimensat, of([AT, looped, wrong, 0]), no(ELOOP)),
            (SYS_utimensat, of([AT, KERNEL, wrong, 0]), no(EFAULT)),
            (SYS_utimensat, of([CLOSED, file, wrong, 0]), no(EBADF)),
            (SYS_utimensat, of([AT, file, wrong, 0]), no(EINVAL)),
            (SYS_utimensat, of([CLOSED, 0, wrong, 0]), no(EBADF)),
            (SYS_utimensat, of([CLOSED, 0, times, flag]), no(EINVAL)),
            (SYS_utimensat, of([AT, 0, times, flag]), no(EFAULT)),
            (SYS_utimensat, of([CLOSED, KERNEL, omitted, -1]), 0),
            (SYS_futimesat, of([AT, 0, times]), no(EFAULT)),
            (SYS_futimesat, of([CLOSED, 0, times]), no(EBADF)),
        ]);
    });
}

#[test]
fn flags_are_looked_at_where_there_is_something_to_move() {
    among_files(|| {
        let reader = open("file", O_RDONLY, 0).map(i64::from).expect("it was just made");
        let writer = open("file", O_WRONLY, 0).map(i64::from).expect("it was just made");
        let place = open("file", O_PATH, 0).map(i64::from).expect("it was just made");
        let folder = open("folder", O_RDONLY, 0).map(i64::from).expect("it was just made");
        let mut bytes = [0u8; 8];
        let (good, negative) = ([room(&mut bytes), 8], [room(&mut bytes), -1]);
        let (good, negative) = (at(&good), at(&negative));
        // Linux reads the vector before it checks the mode; since 6.7 it is the other way round.
        for (fd, good_fd, plain, positioned) in
            [(writer, reader, SYS_readv, SYS_preadv), (reader, writer, SYS_writev, SYS_pwritev)]
        {
            for call in [plain, positioned] {
                all(&[
                    (call, of([good_fd, KERNEL, 1]), no(EFAULT)),
                    (call, of([good_fd, good, 1025]), no(EINVAL)),
                    (call, of([good_fd, negative, 1]), no(EINVAL)),
                    (call, of([fd, good, 0]), no(EBADF)),
                    (call, of([fd, good, 1]), no(EBADF)),
                    (call, of([place, KERNEL, 1]), no(EBADF)),
                ]);
            }
        }
        const UNKNOWN: i64 = 0x4000_0000;
        let dsync = RWF_DSYNC.into();
        all(&[
            (SYS_preadv2, [reader, good, 0, 0, 0, UNKNOWN], 0),
            (SYS_preadv2, [reader, good, 1, 0, 0, UNKNOWN], no(EOPNOTSUPP)),
            (SYS_preadv2, [reader, KERNEL, 1, 0, 0, UNKNOWN], no(EFAULT)),
            (SYS_preadv2, [writer, good, 1, 0, 0, UNKNOWN], no(EBADF)),
            (SYS_preadv2, [reader, good, 1, -1, 0, UNKNOWN], no(EOPNOTSUPP)),
            (SYS_pwritev2, [writer, good, 0, 0, 0, UNKNOWN], 0),
            (SYS_pwritev2, [reader, good, 1, 0, 0, UNKNOWN], no(EBADF)),
            (SYS_pwritev2, [writer, good, 1, 0, 0, UNKNOWN], no(EOPNOTSUPP)),
            (SYS_preadv2, [folder, good, 1, 0, 0, dsync], no(EOPNOTSUPP)),
            (SYS_preadv2, [folder, good, 1, 0, 0, 0], no(EISDIR)),
        ]);
        [reader, writer, place, folder].into_iter().for_each(|fd| close(fd as i32));
    });
}

#[test]
fn files_in_memory_do_not_say_whether_they_would_wait() {
    let file = raw(SYS_memfd_create, of([text(&c("name")), 0]));
    let mut bytes = [7u8; 8];
    let good = [room(&mut bytes), 8];
    let nowait = RWF_NOWAIT.into();
    all(&[
        (SYS_pwritev2, [file, at(&good), 1, 0, 0, nowait], no(EOPNOTSUPP)),
        (SYS_pwritev2, [file, at(&good), 1, 0, 0, 0], 8),
        (SYS_preadv2, [file, at(&good), 1, 0, 0, nowait], no(EOPNOTSUPP)),
        (SYS_close, of([file]), 0),
    ]);
}

/// Returns the address of the last bytes of a page, behind which nothing is mapped.
fn edge(bytes: i64) -> i64 {
    const PAGE: i64 = 4096;
    let pages = map(2 * PAGE as usize, MAP_PRIVATE | MAP_ANONYMOUS, -1) as i64;
    all(&[(SYS_mprotect, of([pages + PAGE, PAGE, 0]), 0)]);
    pages + PAGE - bytes
}

#[test]
fn what_faults_half_way_neither_fills_nor_empties_a_pipe() {
    let (reader, writer) = pipe();
    let (from, to) = (i64::from(reader), i64::from(writer));
    let edge = edge(4);
    let held = || {
        let mut held = 0i32;
        all(&[(SYS_ioctl, of([from, FIONREAD as i64, room(&mut held)]), 0)]);
        held
    };
    all(&[(SYS_write, of([to, edge, 8]), no(EFAULT))]);
    assert_eq!(held(), 0);
    assert_eq!(write(writer, &[5; 20]), Ok(20));
    all(&[(SYS_write, of([to, edge, 8]), no(EFAULT))]);
    all(&[(SYS_read, of([from, edge, 8]), no(EFAULT))]);
    assert_eq!(held(), 20);
    all(&[(SYS_read, of([from, edge, 4]), 4)]);
    assert_eq!(held(), 16);
    close(reader);
    close(writer);
}

#[test]
fn a_number_of_an_eventfd_is_whole() {
    let event = i64::from(must(unsafe_eventfd()) as i32);
    let edge = edge(4);
    let mut number = 0u64;
    let place = room(&mut number);
    all(&[
        (SYS_write, of([event, edge, 8]), no(EFAULT)),
        (SYS_read, of([event, place, 8]), no(EAGAIN)),
        (SYS_write, of([event, at(&3u64), 8]), 8),
        (SYS_read, of([event, edge, 8]), no(EFAULT)),
        (SYS_close, of([event]), 0),
    ]);
}

fn unsafe_eventfd() -> i64 {
    raw(SYS_eventfd2, of([0, EFD_NONBLOCK.into()]))
}

#[test]
fn sendfile_of_nothing_asks_nobody() {
    among_files(|| {
        let file = open("file", O_RDWR, 0).map(i64::from).expect("it was just made");
        let folder = open("folder", O_RDONLY, 0).map(i64::from).expect("it was just made");
        let null = open("/dev/null", O_RDWR, 0).map(i64::from).expect("a device");
        let event = unsafe_eventfd();
        let (reader, writer) = pipe();
        let (source, target) = (i64::from(reader), i64::from(writer));
        all(&[
            (SYS_sendfile, of([file, folder, 0, 0]), 0),
            (SYS_sendfile, of([file, folder, 0, 8]), no(EINVAL)),
            (SYS_sendfile, of([file, event, 0, 0]), 0),
            (SYS_sendfile, of([file, event, 0, 8]), no(EINVAL)),
            (SYS_sendfile, of([event, file, 0, 0]), 0),
            (SYS_sendfile, of([event, file, 0, 8]), no(EINVAL)),
            (SYS_sendfile, of([file, null, 0, 8]), no(EINVAL)),
            (SYS_sendfile, of([file, source, 0, 0]), no(EINVAL)),
            (SYS_splice, [null, 0, target, 0, 8, 0], no(EINVAL)),
            (SYS_vmsplice, of([file, KERNEL, 1, 0]), no(EFAULT)),
            (SYS_vmsplice, of([file, at(&[0i64; 2]), 1, 0]), 0),
            (SYS_vmsplice, of([file, at(&[at(&0u64), 8]), 1, 0]), no(EBADF)),
        ]);
        close(reader);
        signal_ignored();
        all(&[(SYS_sendfile, of([target, file, 0, 0]), no(EPIPE))]);
        let (other, _writer) = pipe();
        let flag = i64::from(SPLICE_F_NONBLOCK);
        all(&[
            // There is nothing to be read yet, so the kernel does not look for readers.
            (SYS_tee, of([other.into(), target, 8, flag]), no(EAGAIN)),
            (SYS_splice, [other.into(), 0, target, 0, 8, flag], no(EAGAIN)),
        ]);
    });
}

fn signal_ignored() {
    let ignored = [1u64, 0, 0, 0];
    all(&[(SYS_rt_sigaction, of([SIGPIPE.into(), at(&ignored), 0, 8]), 0)]);
}

#[test]
fn a_lease_is_refused_by_what_the_file_is() {
    among_files(|| {
        let reader = open("file", O_RDONLY, 0).map(i64::from).expect("it was just made");
        let writer = open("file", O_RDWR, 0).map(i64::from).expect("it was just made");
        let folder = open("folder", O_RDONLY, 0).map(i64::from).expect("it was just made");
        let lease = F_SETLEASE.into();
        all(&[
            (SYS_fcntl, of([reader, lease, F_RDLCK.into()]), no(EAGAIN)),
            (SYS_fcntl, of([writer, lease, F_WRLCK.into()]), no(EAGAIN)),
            (SYS_fcntl, of([reader, lease, F_UNLCK.into()]), no(EAGAIN)),
            (SYS_fcntl, of([reader, lease, 9]), no(EINVAL)),
            (SYS_fcntl, of([reader, F_GETLEASE.into()]), F_UNLCK.into()),
        ]);
        let refused = raw(SYS_fcntl, of([folder, lease, F_WRLCK.into()]));
        assert!([no(EINVAL), no(EAGAIN)].contains(&refused), "{refused}");
        as_user(USER, &[], || all(&[(SYS_fcntl, of([reader, lease, 0]), no(EACCES))]));
    });
}

#[test]
fn a_name_of_no_namespace_is_looked_at_after_the_right_to_it() {
    let [root, plain, trusted] = ["/", "name", "trusted.name"].map(c);
    let [root, plain, trusted] = [&root, &plain, &trusted].map(text);
    let value = at(&1u64);
    let both = i64::from(XATTR_CREATE | XATTR_REPLACE);
    among_files(|| {
        let file = c("file");
        let name = text(&file);
        as_user(USER, &[], || {
            all(&[
                (SYS_setxattr, of([root, plain, value, 8, 0]), no(EACCES)),
                (SYS_removexattr, of([root, plain]), no(EACCES)),
                (SYS_getxattr, of([root, plain, value, 8]), no(EOPNOTSUPP)),
                (SYS_setxattr, of([root, trusted, value, 8, 0]), no(EPERM)),
                (SYS_setxattr, of([root, trusted, value, 8, both]), no(EPERM)),
                (SYS_getxattr, of([root, trusted, value, 8]), no(ENODATA)),
            ]);
        });
        all(&[(SYS_setxattr, of([name, plain, value, 8, 0]), no(EOPNOTSUPP))]);
    });
}

#[test]
fn process_numbers_are_checked_after_what_is_read() {
    let (absent, limits) = (abi::cases::ABSENT, [1u64, 0]);
    let (high, mask) = ([-1i32, 0], [0u64; 1]);
    let tid = {
        let mut place = 0u64;
        all(&[(SYS_prctl, of([40, room(&mut place)]), 0)]);
        place
    };
    assert_ne!(tid, 0);
    all(&[
        (SYS_setpgid, of([absent, -1]), no(EINVAL)),
        (SYS_setpgid, of([-1, 0]), no(EINVAL)),
        (SYS_setpgid, of([absent, 0]), no(ESRCH)),
        (SYS_prlimit64, of([absent, 4, KERNEL, 0]), no(EFAULT)),
        (SYS_prlimit64, of([absent, 4, at(&limits), 0]), no(ESRCH)),
        (SYS_sched_setaffinity, of([absent, 8, KERNEL]), no(EFAULT)),
        (SYS_sched_setaffinity, of([absent, 8, at(&mask)]), no(ESRCH)),
        (SYS_sched_setaffinity, of([0, 8, at(&mask)]), no(EINVAL)),
        (SYS_sched_setparam, of([-1, KERNEL]), no(EINVAL)),
        (SYS_sched_setparam, of([absent, at(&high)]), no(ESRCH)),
        (SYS_sched_setparam, of([0, at(&high)]), no(EINVAL)),
        (SYS_sched_setscheduler, of([absent, -1, at(&high)]), no(EINVAL)),
        (SYS_sched_setscheduler, of([absent, 0, at(&high)]), no(ESRCH)),
        (SYS_prctl, of([PR_GET_TIMING.into()]), 0),
        (SYS_prctl, of([PR_SET_TIMING.into(), 0]), 0),
        (SYS_prctl, of([PR_SET_TIMING.into(), 1]), no(EINVAL)),
        (SYS_prctl, of([PR_GET_TSC.into(), KERNEL]), no(EFAULT)),
        (SYS_prctl, of([PR_SET_TSC.into(), PR_TSC_ENABLE.into()]), 0),
    ]);
    as_user(USER, &[], || {
        let mask = [0u64; 1];
        all(&[
            (SYS_sched_setaffinity, of([1, 8, at(&mask)]), no(EPERM)),
            (SYS_prctl, of([57, 1]), no(EPERM)),
            (SYS_prctl, of([58, 1]), no(EPERM)),
        ]);
    });
}

#[test]
fn flags_and_blocks_of_files_are_told_to_those_who_may_ask() {
    const FS_IOC_FSGETXATTR: i64 = 0x801c_581f;
    const FIBMAP: i64 = 1;
    let file = raw(SYS_memfd_create, of([text(&c("name")), 0]));
    let mut told = [7u32; 8];
    let place = room(&mut told);
    all(&[
        (SYS_ioctl, of([file, FS_IOC_FSGETXATTR, place]), 0),
        (SYS_ioctl, of([file, FS_IOC_FSGETXATTR, KERNEL]), no(EFAULT)),
    ]);
    assert_eq!(told, [0, 0, 0, 0, 0, 0, 0, 7]);
    as_user(USER, &[], || all(&[(SYS_ioctl, of([file, FIBMAP, place]), no(EPERM))]));
    all(&[(SYS_ioctl, of([file, FIBMAP, place]), no(EINVAL)), (SYS_close, of([file]), 0)]);
}

#[test]
fn what_changes_places_of_data_goes_with_nothing_else() {
    const KEEP: i64 = FALLOC_FL_KEEP_SIZE as i64;
    const PUNCH: i64 = FALLOC_FL_PUNCH_HOLE as i64;
    const COLLAPSE: i64 = FALLOC_FL_COLLAPSE_RANGE as i64;
    let file = raw(SYS_memfd_create, of([text(&c("name")), 0]));
    for mode in [PUNCH, 0x1000, PUNCH | KEEP | i64::from(FALLOC_FL_ZERO_RANGE)] {
        all(&[(SYS_fallocate, of([file, mode, 0, 4096]), no(EOPNOTSUPP))]);
    }
    // EINVAL, or EOPNOTSUPP since Linux 6.13.
    for mode in [COLLAPSE | KEEP, COLLAPSE | i64::from(FALLOC_FL_INSERT_RANGE)] {
        let refusal = raw(SYS_fallocate, of([file, mode, 0, 4096]));
        assert!([no(EINVAL), no(EOPNOTSUPP)].contains(&refusal), "{refusal}");
    }
    all(&[(SYS_close, of([file]), 0)]);
}

#[test]
fn the_life_of_what_is_written_is_kept_to_be_told() {
    const GET: i64 = 1035;
    const SET: i64 = 1036;
    const OWNER_USERS: i64 = 17;
    let file = raw(SYS_memfd_create, of([text(&c("name")), 0]));
    let mut told = [7u64; 2];
    let place = room(&mut told);
    all(&[
        (SYS_fcntl, of([file, GET, KERNEL]), no(EFAULT)),
        (SYS_fcntl, of([file, SET, KERNEL]), no(EFAULT)),
        (SYS_fcntl, of([file, GET, place]), 0),
    ]);
    assert_eq!(told, [0, 7]);
    all(&[
        (SYS_fcntl, of([file, SET, at(&5u64)]), 0),
        (SYS_fcntl, of([file, SET, at(&6u64)]), no(EINVAL)),
        (SYS_fcntl, of([file, SET, at(&(1u64 << 32))]), no(EINVAL)),
        (SYS_fcntl, of([file, GET, place]), 0),
    ]);
    assert_eq!(told, [5, 7]);
    let (reader, writer) = pipe();
    let mut users = [7u32; 3];
    let place = room(&mut users);
    all(&[(SYS_fcntl, of([reader.into(), OWNER_USERS, place]), 0)]);
    assert_eq!(users, [0, 0, 7]);
    all(&[(SYS_fcntl, of([reader.into(), OWNER_USERS, KERNEL]), no(EFAULT))]);
    [reader, writer, file as i32].into_iter().for_each(close);
}

#[test]
fn what_cannot_be_read_or_written_says_so_to_a_vector_of_nothing() {
    let epoll = raw(SYS_epoll_create1, of([0]));
    let process = raw(SYS_pidfd_open, of([std::process::id().into(), 0]));
    let timer = raw(SYS_timerfd_create, of([CLOCK_MONOTONIC.into(), 0]));
    let event = unsafe_eventfd();
    let none = at(&[0u64; 2]);
    for fd in [epoll, process] {
        all(&[
            (SYS_readv, of([fd, none, 0]), no(EINVAL)),
            (SYS_writev, of([fd, none, 1]), no(EINVAL)),
        ]);
    }
    all(&[
        (SYS_readv, of([timer, none, 0]), 0),
        (SYS_writev, of([timer, none, 0]), no(EINVAL)),
        (SYS_readv, of([event, none, 0]), 0),
        (SYS_writev, of([event, none, 1]), 0),
    ]);
    [epoll, process, timer, event].into_iter().for_each(|fd| close(fd as i32));
}

#[test]
fn pipes_and_namespaces_that_there_are_not_are_named_so() {
    const NEW_TIME: i64 = 0x80;
    let mut pair = [0i32; 2];
    let made = raw(SYS_pipe2, of([room(&mut pair), O_EXCL.into()]));
    // Linux with watch queues makes one.
    assert!([0, no(ENOPKG)].contains(&made), "{made}");
    as_user(USER, &[], || all(&[(SYS_unshare, of([NEW_TIME]), no(EPERM))]));
}
