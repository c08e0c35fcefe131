//! Tests of calls that newer ones replace and C libraries no longer make: they are made by their numbers, as in
//! old programs.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    identity::{NOBODY, as_user},
    *,
};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::Path,
    ptr::{null, null_mut},
};

#[test]
fn creat_makes_or_empties_a_file_and_opens_it_to_be_written() {
    isolated(|| {
        let scratch = Scratch::new();
        unsafe { libc::umask(0o022) };
        let creat =
            |path: &Path| check(unsafe { libc::syscall(libc::SYS_creat, c(path).as_ptr(), 0o666) });
        let fd = must(creat(&scratch.path("new")).unwrap()) as i32;
        assert_eq!(write(fd, b"text"), Ok(4));
        assert_eq!(read(fd, 1), Err(libc::EBADF));
        assert_eq!(fs::metadata(scratch.path("new")).unwrap().permissions().mode(), 0o100_644);
        creat(&scratch.path("new")).unwrap();
        assert_eq!(fs::read(scratch.path("new")).unwrap(), b"");
        assert_eq!(creat(&scratch.path("")), Err(libc::EISDIR));
        assert_eq!(creat(&scratch.path("none/new")), Err(libc::ENOENT));
    });
}

#[test]
fn getdents_tells_names_with_their_kinds_at_the_end() {
    isolated(|| {
        let scratch = Scratch::new();
        scratch.file("file", b"");
        fs::create_dir(scratch.path("folder")).unwrap();
        symlink("file", scratch.path("link")).unwrap();
        let fd = open(scratch.path(""), libc::O_RDONLY | libc::O_DIRECTORY, 0).unwrap();
        let mut buffer = [0u8; 1024];
        let list = |buffer: &mut [u8]| {
            check(unsafe {
                libc::syscall(libc::SYS_getdents, fd, buffer.as_mut_ptr(), buffer.len())
            })
        };
        assert_eq!(list(&mut buffer[..8]), Err(libc::EINVAL), "no room for one");
        let length = list(&mut buffer).unwrap() as usize;
        let (mut found, mut at) = (Vec::new(), 0);
        while at < length {
            // d_ino, d_off, d_reclen, d_name, and d_type as the last byte.
            let entry = &buffer[at..];
            let inode = u64::from_ne_bytes(entry[..8].try_into().unwrap());
            let size = usize::from(u16::from_ne_bytes(entry[16..18].try_into().unwrap()));
            let name = entry[18..size].split(|byte| *byte == 0).next().unwrap();
            let name = String::from_utf8(name.to_vec()).unwrap();
            assert_eq!(inode, fs::symlink_metadata(scratch.path(&name)).unwrap().ino(), "{name}");
            found.push((name, entry[size - 1]));
            at += size;
        }
        found.retain(|(name, _)| name != "..");
        found.sort();
        let expected = [
            (".", libc::DT_DIR),
            ("file", libc::DT_REG),
            ("folder", libc::DT_DIR),
            ("link", libc::DT_LNK),
        ];
        assert_eq!(found, expected.map(|(name, kind)| (name.to_string(), kind)));
        assert_eq!(list(&mut buffer), Ok(0));
    });
}

#[test]
fn fchown_and_lchown_change_whose_a_file_or_a_link_is() {
    isolated(|| {
        let scratch = Scratch::new();
        let file = scratch.file("file", b"");
        symlink("file", scratch.path("link")).unwrap();
        let owner = |name: &str| {
            let found = fs::symlink_metadata(scratch.path(name)).unwrap();
            (found.uid(), found.gid())
        };
        let lchown = |user: u32, group: u32| {
            let path = c(scratch.path("link"));
            check(unsafe { libc::syscall(libc::SYS_lchown, path.as_ptr(), user, group) })
        };
        assert_eq!(lchown(7, 8), Ok(0));
        assert_eq!((owner("link"), owner("file")), ((7, 8), (0, 0)));
        let fd = open(&file, libc::O_RDONLY, 0).unwrap();
        let fchown = |fd: i32, user: u32, group: u32| {
            check(unsafe { libc::syscall(libc::SYS_fchown, fd, user, group) })
        };
        assert_eq!(fchown(fd, 9, u32::MAX), Ok(0));
        assert_eq!(fchown(fd, u32::MAX, 10), Ok(0));
        assert_eq!((owner("link"), owner("file")), ((7, 8), (9, 10)));
        assert_eq!(fchown(-1, 0, 0), Err(libc::EBADF));
        let place = open(&file, libc::O_PATH, 0).unwrap();
        assert_eq!(fchown(place, 0, 0), Err(libc::EBADF));
        as_user(NOBODY, &[], || {
            assert_eq!(fchown(fd, NOBODY, u32::MAX), Err(libc::EPERM));
            assert_eq!(lchown(NOBODY, u32::MAX), Err(libc::EACCES), "mkdtemp's folder is closed");
        });
    });
}

#[test]
fn utime_utimes_and_futimesat_set_times() {
    isolated(|| {
        let scratch = Scratch::new();
        let file = scratch.file("file", b"");
        let times = || {
            let found = fs::metadata(&file).unwrap();
            [found.atime(), found.atime_nsec(), found.mtime(), found.mtime_nsec()]
        };
        let path = c(&file);
        let seconds: [i64; 2] = [1_000_000_000, 1_100_000_000];
        must(unsafe { libc::syscall(libc::SYS_utime, path.as_ptr(), &seconds) });
        assert_eq!(times(), [1_000_000_000, 0, 1_100_000_000, 0]);
        let utimes = |times: *const [i64; 4]| {
            check(unsafe { libc::syscall(libc::SYS_utimes, path.as_ptr(), times) })
        };
        assert_eq!(utimes(&[1_200_000_000, 5, 1_300_000_000, 999_999]), Ok(0));
        assert_eq!(times(), [1_200_000_000, 5_000, 1_300_000_000, 999_999_000]);
        assert_eq!(utimes(&[1, 1_000_000, 1, 0]), Err(libc::EINVAL));
        assert_eq!(utimes(&[1, 0, 1, -1]), Err(libc::EINVAL));
        assert_eq!(times()[0], 1_200_000_000, "nothing was set");
        let folder = open(scratch.path(""), libc::O_RDONLY, 0).unwrap();
        let futimesat = |folder: i32, name: *const libc::c_char, times: *const [i64; 4]| {
            check(unsafe { libc::syscall(libc::SYS_futimesat, folder, name, times) })
        };
        assert_eq!(futimesat(folder, c("file").as_ptr(), &[7, 8, 9, 10]), Ok(0));
        assert_eq!(times(), [7, 8_000, 9, 10_000]);
        assert_eq!(futimesat(-1, c("file").as_ptr(), null()), Err(libc::EBADF));
        // With an empty name it is the descriptor's own file.
        let fd = open(&file, libc::O_RDWR, 0).unwrap();
        assert_eq!(futimesat(fd, null(), &[11, 0, 12, 0]), Ok(0));
        assert_eq!(times(), [11, 0, 12, 0]);
        assert_eq!(utimes(null()), Ok(0));
        assert!(times()[0] > 1_700_000_000, "no times are now");
        let old: [i64; 2] = [1, 1];
        fs::set_permissions(scratch.path(""), fs::Permissions::from_mode(0o777)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        as_user(NOBODY, &[], || {
            assert_eq!(utimes(null()), Ok(0), "who may write may say now");
            let result = unsafe { libc::syscall(libc::SYS_utime, path.as_ptr(), &old) };
            assert_eq!(check(result), Err(libc::EPERM));
        });
    });
}

#[test]
fn epoll_create_wants_a_size_and_epoll_wait_a_place() {
    isolated(|| {
        let create = |size: i32| check(unsafe { libc::syscall(libc::SYS_epoll_create, size) });
        assert_eq!(create(0), Err(libc::EINVAL));
        let epoll = create(1).unwrap() as i32;
        assert_eq!(must(unsafe { libc::fcntl(epoll, libc::F_GETFD) }), 0, "kept over exec");
        let (reader, writer) = pipe();
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 77 };
        must(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, reader, &mut event) });
        let mut found = [libc::epoll_event { events: 0, u64: 0 }; 2];
        let mut look = |most: i32| {
            let found = found.as_mut_ptr();
            check(unsafe { libc::syscall(libc::SYS_epoll_wait, epoll, found, most, 0) })
        };
        assert_eq!(look(0), Err(libc::EINVAL));
        assert_eq!(look(2), Ok(0));
        write(writer, b"x").unwrap();
        assert_eq!(look(2), Ok(1));
        assert_eq!({ found[0].u64 }, 77);
    });
}

#[test]
fn inotify_init_eventfd_and_signalfd_take_no_flags() {
    isolated(|| {
        let flags = |fd: i64| {
            let of = |what| must(unsafe { libc::fcntl(fd as i32, what) }) as i32;
            (of(libc::F_GETFD), of(libc::F_GETFL) & libc::O_NONBLOCK)
        };
        let notes = must(unsafe { libc::syscall(libc::SYS_inotify_init) });
        assert_eq!(flags(notes), (0, 0));
        let counter = must(unsafe { libc::syscall(libc::SYS_eventfd, 3, 0x800) });
        assert_eq!(flags(counter), (0, 0), "a second argument is none");
        assert_eq!(read(counter as i32, 8).unwrap(), 3u64.to_ne_bytes());
        let mask = 1u64 << (libc::SIGUSR1 - 1);
        let make =
            |size: usize| check(unsafe { libc::syscall(libc::SYS_signalfd, -1, &mask, size) });
        assert_eq!(make(4), Err(libc::EINVAL), "a mask is eight bytes");
        let signals = make(8).unwrap();
        assert_eq!(flags(signals), (0, 0));
        must(unsafe { libc::sigprocmask(libc::SIG_BLOCK, (&raw const mask).cast(), null_mut()) });
        must(unsafe { libc::raise(libc::SIGUSR1) });
        let told = read(signals as i32, 128).unwrap();
        assert_eq!(told[..4], (libc::SIGUSR1 as u32).to_ne_bytes());
    });
}

#[test]
fn getrlimit_and_setrlimit_agree_with_prlimit() {
    isolated(|| {
        let get = || {
            let mut limit = [0u64; 2];
            let get = libc::SYS_getrlimit;
            must(unsafe { libc::syscall(get, libc::RLIMIT_NOFILE, &mut limit) });
            limit
        };
        let set = |limit: [u64; 2]| {
            check(unsafe { libc::syscall(libc::SYS_setrlimit, libc::RLIMIT_NOFILE, &limit) })
        };
        assert_eq!(set([50, 100]), Ok(0));
        assert_eq!(get(), [50, 100]);
        let mut told: libc::rlimit = unsafe { zeroed() };
        must(unsafe { libc::prlimit(0, libc::RLIMIT_NOFILE, null(), &mut told) });
        assert_eq!([told.rlim_cur, told.rlim_max], [50, 100]);
        assert_eq!(set([101, 100]), Err(libc::EINVAL));
        as_user(NOBODY, &[], || {
            assert_eq!(set([100, 100]), Ok(0));
            assert_eq!(set([100, 101]), Err(libc::EPERM));
            assert_eq!(set([10, 90]), Ok(0));
            assert_eq!(set([10, 100]), Err(libc::EPERM), "a lowered one stays low");
        });
        let bad = unsafe { libc::syscall(libc::SYS_getrlimit, 16, &mut told) };
        assert_eq!(check(bad), Err(libc::EINVAL), "there are sixteen");
    });
}

#[test]
fn dup3_sets_close_on_exec_and_refuses_other_flags() {
    isolated(|| {
        let (reader, _) = pipe();
        let dup3 = |old: i32, new: i32, flags: i32| {
            check(unsafe { libc::syscall(libc::SYS_dup3, old, new, flags) })
        };
        assert_eq!(dup3(reader, 40, libc::O_CLOEXEC), Ok(40));
        assert_eq!(must(unsafe { libc::fcntl(40, libc::F_GETFD) }), libc::FD_CLOEXEC.into());
        assert_eq!(dup3(reader, 40, 0), Ok(40));
        assert_eq!(must(unsafe { libc::fcntl(40, libc::F_GETFD) }), 0);
        assert_eq!(dup3(reader, reader, 0), Err(libc::EINVAL));
        assert_eq!(dup3(reader, 41, libc::O_NONBLOCK), Err(libc::EINVAL));
        assert_eq!(dup3(99, 41, 0), Err(libc::EBADF));
        assert_eq!(dup3(reader, -1, 0), Err(libc::EBADF));
        assert_eq!(dup3(reader, i32::MAX, 0), Err(libc::EBADF));
    });
}

#[test]
fn lstat_readlink_and_rmdir_take_the_name_itself() {
    isolated(|| {
        let scratch = Scratch::new();
        scratch.file("file", b"five!");
        fs::create_dir_all(scratch.path("folder/inner")).unwrap();
        symlink("file", scratch.path("link")).unwrap();
        let lstat = |name: &str| {
            let mut found: libc::stat = unsafe { zeroed() };
            let path = c(scratch.path(name));
            check(unsafe { libc::syscall(libc::SYS_lstat, path.as_ptr(), &mut found) })
                .map(|_| (found.st_mode & libc::S_IFMT, found.st_size))
        };
        assert_eq!(lstat("link"), Ok((libc::S_IFLNK, 4)));
        assert_eq!(lstat("file"), Ok((libc::S_IFREG, 5)));
        assert_eq!(lstat("link/"), Err(libc::ENOTDIR), "a slash follows it");
        let readlink = |name: &str, room: usize| {
            let (path, mut text) = (c(scratch.path(name)), [b'-'; 8]);
            let call = libc::SYS_readlink;
            let read = unsafe { libc::syscall(call, path.as_ptr(), text.as_mut_ptr(), room) };
            check(read).map(|length| (length, String::from_utf8(text.to_vec()).unwrap()))
        };
        assert_eq!(readlink("link", 8).unwrap(), (4, "file----".into()), "no NUL ends it");
        assert_eq!(readlink("link", 2).unwrap(), (2, "fi------".into()));
        assert_eq!(readlink("file", 8), Err(libc::EINVAL));
        let rmdir = |name: &str| {
            check(unsafe { libc::syscall(libc::SYS_rmdir, c(scratch.path(name)).as_ptr()) })
        };
        assert_eq!(rmdir("folder"), Err(libc::ENOTEMPTY));
        assert_eq!(rmdir("file"), Err(libc::ENOTDIR));
        assert_eq!(rmdir("link"), Err(libc::ENOTDIR));
        assert_eq!(rmdir("folder/inner/."), Err(libc::EINVAL));
        assert_eq!(rmdir("folder/inner/.."), Err(libc::ENOTEMPTY));
        assert_eq!(rmdir("folder/inner/"), Ok(0));
        assert_eq!(rmdir("folder"), Ok(0));
        assert_eq!(rmdir("folder"), Err(libc::ENOENT));
    });
}

#[test]
fn options_without_arguments_take_none() {
    isolated(|| {
        let prctl = |option: i32, arguments: [usize; 4]| {
            let [two, three, four, five] = arguments;
            check(unsafe { libc::syscall(libc::SYS_prctl, option, two, three, four, five) })
        };
        for (option, first) in [(libc::PR_GET_NO_NEW_PRIVS, 0), (libc::PR_SET_NO_NEW_PRIVS, 1)] {
            for at in 0..4 {
                let mut arguments = [first, 0, 0, 0];
                arguments[at] = 2;
                assert_eq!(prctl(option, arguments), Err(libc::EINVAL), "{option} {at}");
            }
        }
        assert_eq!(prctl(libc::PR_SET_NO_NEW_PRIVS, [0; 4]), Err(libc::EINVAL));
        assert_eq!(prctl(libc::PR_GET_NO_NEW_PRIVS, [0; 4]), Ok(0));
        assert_eq!(prctl(libc::PR_SET_NO_NEW_PRIVS, [1, 0, 0, 0]), Ok(0));
        assert_eq!(prctl(libc::PR_GET_NO_NEW_PRIVS, [0; 4]), Ok(1));
        for at in 0..4 {
            let mut arguments = [0; 4];
            arguments[at] = 1;
            assert_eq!(prctl(libc::PR_GET_THP_DISABLE, arguments), Err(libc::EINVAL), "{at}");
        }
        assert_eq!(prctl(libc::PR_SET_THP_DISABLE, [0, 0, 1, 0]), Err(libc::EINVAL));
        assert_eq!(prctl(libc::PR_SET_THP_DISABLE, [0, 0, 0, 1]), Err(libc::EINVAL));
        // Raising, lowering and querying an ambient capability take one argument, clearing the set takes none.
        for arguments in [[1, 0, 1, 0], [1, 0, 0, 1], [4, 1, 0, 0], [4, 0, 1, 0], [1, 99, 0, 0]] {
            assert_eq!(prctl(libc::PR_CAP_AMBIENT, arguments), Err(libc::EINVAL), "{arguments:?}");
        }
        // Other operations check only the arguments that they take.
        assert_eq!(prctl(libc::PR_GET_DUMPABLE, [5; 4]), Ok(1));
        assert_eq!(prctl(libc::PR_GET_KEEPCAPS, [5; 4]), Ok(0));
        assert_eq!(prctl(libc::PR_SET_KEEPCAPS, [2, 0, 0, 0]), Err(libc::EINVAL));
        assert_eq!(prctl(libc::PR_SET_DUMPABLE, [2, 0, 0, 0]), Err(libc::EINVAL));
    });
}

#[test]
fn cpuid_may_be_used_and_is_refused_by_few_processors() {
    isolated(|| {
        const GET: i32 = 0x1011;
        const SET: i32 = 0x1012;
        let call = |code: i32, argument: usize| {
            check(unsafe { libc::syscall(libc::SYS_arch_prctl, code, argument) })
        };
        assert_eq!(call(GET, 0), Ok(1));
        assert_eq!(call(GET, 99), Ok(1));
        // If the processor cannot fault CPUID, the call is refused even when it changes nothing.
        let result = call(SET, 1);
        assert!([Ok(0), Err(libc::ENODEV)].contains(&result), "{result:?}");
        assert_eq!(call(0x1013, 0), Err(libc::EINVAL));
    });
}
