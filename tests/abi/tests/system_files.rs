//! Files of `/proc/sys` that root sets, and the effects of setting them; the flags of frames.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    identity::{NOBODY, as_user, become_user},
    jobs::limited,
    *,
};
use std::{
    fs,
    os::unix::fs::{FileExt, PermissionsExt},
    process::Command,
    ptr::null_mut,
};

const PAGE: usize = 4096;

/// A file of `/proc/sys`, whose text is restored at the end.
struct Setting {
    path: String,
    before: String,
}

impl Setting {
    fn of(name: &str) -> Setting {
        let path = format!("/proc/sys/{name}");
        let before = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        Setting { path, before }
    }
    fn text(&self) -> String {
        fs::read_to_string(&self.path).unwrap()
    }
    fn set(&self, text: &str) -> Result<usize, i32> {
        let fd = open(&self.path, libc::O_WRONLY, 0)?;
        let result = write(fd, text.as_bytes());
        close(fd);
        result
    }
    #[track_caller]
    fn must_be_set(&self, text: &str) {
        assert_eq!(self.set(text), Ok(text.len()), "{}: {text:?}", self.path);
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = fs::write(&self.path, &self.before);
    }
}

/// Each number with valid and invalid values.
const NUMBERS: [(&str, &[&str], &[&str]); 22] = [
    ("fs/nr_open", &["1048577", "2097152", "2147483584"], &["63", "0", "2147483585", "-1"]),
    ("fs/pipe-max-size", &["2097152"], &["-1", "4294967295"]),
    ("fs/file-max", &["9223372036854775807"], &["9223372036854775808"]),
    ("fs/overflowuid", &["0", "65535"], &["65536", "-1"]),
    ("fs/overflowgid", &["0", "65535"], &["65536", "-1"]),
    ("fs/inotify/max_queued_events", &["16385", "2147483647"], &["-1", "2147483648"]),
    ("fs/inotify/max_user_instances", &["129", "2147483647"], &["-1", "2147483648"]),
    ("fs/inotify/max_user_watches", &["999999"], &["-1", "99999999999"]),
    ("kernel/pid_max", &["32769", "4194304"], &["300", "4194305", "0", "-1"]),
    ("kernel/threads-max", &["999999"], &["0", "-1", "2147483648"]),
    ("kernel/sched_rr_timeslice_ms", &["90", "30"], &["99999999999"]),
    ("net/core/somaxconn", &["4097", "2147483647"], &["-1", "2147483648"]),
    ("net/core/wmem_default", &["212993"], &["100", "-1", "2147483648"]),
    ("net/core/wmem_max", &["4194305"], &["100", "-1", "2147483648"]),
    ("net/core/rmem_default", &["212993"], &["100", "-1", "2147483648"]),
    ("net/core/rmem_max", &["4194305"], &["100", "-1", "2147483648"]),
    ("net/unix/max_dgram_qlen", &["11", "512"], &["2147483648"]),
    ("kernel/randomize_va_space", &["2", "1"], &["2147483648"]),
    ("kernel/overflowuid", &["0", "65535"], &["65536", "-1"]),
    ("kernel/core_uses_pid", &["1", "0"], &["99999999999"]),
    ("kernel/core_pipe_limit", &["4", "0"], &["99999999999"]),
    ("vm/max_map_count", &["65531", "2147483647"], &["-1", "2147483648"]),
];

#[test]
fn numbers_are_set_within_their_bounds() {
    isolated(|| {
        for (name, good, bad) in NUMBERS {
            let setting = Setting::of(name);
            for value in good {
                setting.must_be_set(value);
                assert_eq!(setting.text(), format!("{value}\n"), "{name}");
            }
            let kept = setting.text();
            for value in bad.iter().chain(&["x", "7x", " ", "\n"]) {
                assert_eq!(setting.set(value), Err(libc::EINVAL), "{name}: {value:?}");
                assert_eq!(setting.text(), kept, "{name}: {value:?}");
            }
            let mode = fs::metadata(&setting.path).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o644, "{name}");
        }
    });
}

#[test]
fn numbers_are_written_as_in_c() {
    isolated(|| {
        let setting = Setting::of("kernel/core_pipe_limit");
        for text in ["16", "16\n", "  16 \n", "0x10", "020", "\t16\t"] {
            setting.must_be_set("0");
            setting.must_be_set(text);
            assert_eq!(setting.text(), "16\n", "{text:?}");
        }
        assert_eq!(setting.set(""), Ok(0));
        let file = fs::OpenOptions::new().write(true).open(&setting.path).unwrap();
        assert_eq!(file.write_at(b"5", 1).unwrap(), 1, "what is not at the start is ignored");
        assert_eq!(setting.text(), "16\n");
        assert_eq!(file.write_at(b"5\n", 0).unwrap(), 2);
        assert_eq!(setting.text(), "5\n");
        become_user(NOBODY);
        for (name, ..) in NUMBERS {
            let path = format!("/proc/sys/{name}");
            assert_eq!(open(&path, libc::O_WRONLY, 0), Err(libc::EACCES), "{name}");
            assert!(fs::read_to_string(&path).is_ok(), "{name}");
        }
    });
}

#[test]
fn inotify_keeps_the_limits_that_were_set() {
    isolated(|| {
        let instances = Setting::of("fs/inotify/max_user_instances");
        let watches = Setting::of("fs/inotify/max_user_watches");
        let events = Setting::of("fs/inotify/max_queued_events");
        let scratch = Scratch::in_memory();
        fs::set_permissions(scratch.path(""), fs::Permissions::from_mode(0o777)).unwrap();
        let init = || check(unsafe { libc::inotify_init1(libc::IN_NONBLOCK) });
        const USER: u32 = 54_321;
        instances.must_be_set("2");
        as_user(USER, &[], || {
            assert_eq!((init().is_ok(), init().is_ok()), (true, true));
            assert_eq!(init(), Err(libc::EMFILE));
        });
        instances.must_be_set("3");
        watches.must_be_set("1");
        as_user(USER, &[], || {
            let fd = init().unwrap() as i32;
            assert_eq!((init().is_ok(), init().is_ok()), (true, true));
            let add = |path: &str| {
                check(unsafe { libc::inotify_add_watch(fd, c(path).as_ptr(), libc::IN_CREATE) })
            };
            assert!(add("/tmp").is_ok());
            assert_eq!(add("/"), Err(libc::ENOSPC));
        });
        watches.must_be_set(watches.before.trim());
        events.must_be_set("2");
        let fd = init().unwrap() as i32;
        events.must_be_set(events.before.trim());
        let folder = c(scratch.path(""));
        must(unsafe { libc::inotify_add_watch(fd, folder.as_ptr(), libc::IN_CREATE) });
        for name in ["a", "b", "c", "d"] {
            fs::write(scratch.path(name), "").unwrap();
        }
        let told = read(fd, 4096).unwrap();
        let mask = |at: usize| u32::from_ne_bytes(told[at + 4..at + 8].try_into().unwrap());
        assert_eq!((mask(0), mask(32), mask(64)), (0x100, 0x100, libc::IN_Q_OVERFLOW));
        assert_eq!(told.len(), 80, "the limit was that of the instance's start");
    });
}

#[test]
fn more_descriptors_and_regions_than_before_may_be_had() {
    limited(|| {
        let descriptors = Setting::of("fs/nr_open");
        descriptors.must_be_set("1048576");
        let set = |hard: u64| {
            let limit = libc::rlimit { rlim_cur: 64, rlim_max: hard };
            check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) })
        };
        const RESOURCE: i32 = 24;
        let may = must(unsafe { libc::prctl(libc::PR_CAPBSET_READ, RESOURCE) }) == 1;
        assert_eq!(set(1_048_577), Err(libc::EPERM));
        descriptors.must_be_set("1048640");
        // Without CAP_SYS_RESOURCE the limit may not be raised.
        assert_eq!(set(1_048_577), if may { Ok(0) } else { Err(libc::EPERM) });
        assert_eq!(set(1_048_641), Err(libc::EPERM));
        let regions = Setting::of("vm/max_map_count");
        regions.must_be_set("65530");
        const PAGES: usize = 140_000;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let at = unsafe { libc::mmap(null_mut(), PAGES * PAGE, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        // Every second page is a region of its own, and so is the part in between.
        let protect = |page: usize| {
            let place = at.wrapping_byte_add(page * PAGE);
            check(unsafe { libc::mprotect(place, PAGE, libc::PROT_READ) })
        };
        let refused = (1..PAGES).step_by(2).find(|page| protect(*page) == Err(libc::ENOMEM));
        let refused = refused.expect("there is a limit");
        regions.must_be_set("66000");
        assert_eq!(protect(refused), Ok(0));
        must(unsafe { libc::munmap(at, PAGES * PAGE) });
    });
}

#[test]
fn sockets_start_with_what_was_set() {
    limited(|| {
        let (send, receive) =
            (Setting::of("net/core/wmem_default"), Setting::of("net/core/rmem_default"));
        let (most, backlog) = (Setting::of("net/core/wmem_max"), Setting::of("net/core/somaxconn"));
        let datagrams = Setting::of("net/unix/max_dgram_qlen");
        let socket = |kind: i32| must(unsafe { libc::socket(libc::AF_UNIX, kind, 0) }) as i32;
        let option = |fd: i32, option: i32| {
            let (mut value, mut bytes) = (0i32, 4);
            let at = std::ptr::from_mut(&mut value).cast();
            must(unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, option, at, &mut bytes) });
            value
        };
        send.must_be_set("55555");
        receive.must_be_set("44444");
        most.must_be_set("66666");
        backlog.must_be_set("2");
        datagrams.must_be_set("3");
        let listener = socket(libc::SOCK_STREAM);
        assert_eq!(option(listener, libc::SO_SNDBUF), 55_555);
        assert_eq!(option(listener, libc::SO_RCVBUF), 44_444);
        let much = 1_000_000i32;
        let at = std::ptr::from_ref(&much).cast();
        must(unsafe { libc::setsockopt(listener, libc::SOL_SOCKET, libc::SO_SNDBUF, at, 4) });
        assert_eq!(option(listener, libc::SO_SNDBUF), 2 * 66_666);
        let inbox = socket(libc::SOCK_DGRAM);
        for setting in [&send, &receive, &most, &datagrams] {
            setting.must_be_set(setting.before.trim());
        }
        // Abstract names, by their first byte.
        let address = |name: u8| {
            let mut address: libc::sockaddr_un = unsafe { zeroed() };
            address.sun_family = libc::AF_UNIX as u16;
            address.sun_path[1] = name as _;
            address.sun_path[2] = std::process::id() as _;
            address.sun_path[3] = (std::process::id() >> 8) as _;
            address
        };
        const BYTES: u32 = 6;
        let (one, two) = (address(b'l'), address(b'd'));
        let at = |address: &libc::sockaddr_un| std::ptr::from_ref(address).cast();
        must(unsafe { libc::bind(listener, at(&one), BYTES) });
        must(unsafe { libc::bind(inbox, at(&two), BYTES) });
        must(unsafe { libc::listen(listener, 100) });
        backlog.must_be_set(backlog.before.trim());
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
        let connects = (0..9)
            .take_while(|_| check(unsafe { libc::connect(socket(kind), at(&one), BYTES) }).is_ok());
        assert_eq!(connects.count(), 3, "one more than that");
        let sender = socket(libc::SOCK_DGRAM | libc::SOCK_NONBLOCK);
        let sends = (0..9).take_while(|_| {
            check(unsafe { libc::sendto(sender, "x".as_ptr().cast(), 1, 0, at(&two), BYTES) }
                    as i64)
                .is_ok()
        });
        assert_eq!(sends.count(), 4);
    });
}

#[test]
fn the_lowest_address_is_what_was_set() {
    isolated(|| {
        let setting = Setting::of("vm/mmap_min_addr");
        let map = |at: usize| {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            let number = libc::SYS_mmap;
            check(unsafe { libc::syscall(number, at, PAGE, libc::PROT_READ, flags, -1, 0) })
        };
        setting.must_be_set("131072");
        assert_eq!(setting.text(), "131072\n");
        assert_eq!(setting.set("x"), Err(libc::EINVAL));
        as_user(NOBODY, &[], || {
            assert_eq!(map(131_072 - PAGE), Err(libc::EPERM));
            assert_eq!(map(131_072), Ok(131_072));
        });
        setting.must_be_set("65536");
        as_user(NOBODY, &[], || {
            assert_eq!(map(65_536 - PAGE), Err(libc::EPERM));
            assert_eq!(map(65_536), Ok(65_536));
        });
    });
}

#[test]
fn processes_get_the_numbers_that_were_asked_for() {
    limited(|| {
        let (most, last) = (Setting::of("kernel/pid_max"), "kernel/ns_last_pid");
        most.must_be_set("4194304");
        let before = Setting::of(last);
        let mode = fs::metadata(&before.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o666);
        for bad in ["-1", "4194305", "x"] {
            assert_eq!(before.set(bad), Err(libc::EINVAL), "{bad}");
        }
        // Another process may take the number first.
        let is_so = (0..200).any(|turn| {
            let wanted = 50_000 + turn * 7;
            before.must_be_set(&wanted.to_string());
            let child = fork(|| {});
            assert_eq!(wait(child), Ended::Exited(0));
            child == wanted + 1 && before.text().trim().parse::<i32>().unwrap() > wanted
        });
        assert!(is_so);
        as_user(NOBODY, &[], || assert_eq!(before.set("400"), Err(libc::EPERM)));
    });
}

#[test]
fn programs_lie_where_they_lay_before_if_told_so() {
    isolated(|| {
        let setting = Setting::of("kernel/randomize_va_space");
        let places = || {
            let maps = Command::new("/bin/cat").arg("/proc/self/maps").output().unwrap();
            let maps = String::from_utf8(maps.stdout).unwrap();
            let stack = maps.lines().find(|line| line.ends_with("[stack]")).unwrap();
            stack.split('-').nth(1).unwrap().split(' ').next().unwrap().to_owned()
        };
        setting.must_be_set("0");
        let fixed = places();
        assert_eq!(places(), fixed);
        setting.must_be_set("2");
        assert!((0..9).any(|_| places() != fixed));
    });
}

#[test]
fn texts_and_rows_of_numbers() {
    isolated(|| {
        let core = Setting::of("kernel/core_pattern");
        let long = "c".repeat(200);
        for (given, kept) in [("core.%p", "core.%p"), ("a\nb", "a"), (&long, &long[..127])] {
            core.must_be_set(given);
            assert_eq!(core.text(), format!("{kept}\n"));
        }
        let levels = Setting::of("kernel/printk");
        levels.must_be_set("5\t4 1\n6\n");
        assert_eq!(levels.text(), "5\t4\t1\t6\n");
        levels.must_be_set("7");
        assert_eq!(levels.text(), "7\t4\t1\t6\n", "the others stay");
        assert_eq!(levels.set("x"), Err(libc::EINVAL));
        let klog = |level: i32| check(unsafe { libc::klogctl(8, null_mut(), level) });
        assert_eq!(klog(3), Ok(0));
        assert_eq!(levels.text(), "3\t4\t1\t6\n");
        assert_eq!(klog(9), Err(libc::EINVAL));
        let tainted = Setting::of("kernel/tainted");
        tainted.must_be_set("0");
        assert_eq!(tainted.text(), tainted.before, "nothing is taken back");
        assert_eq!(tainted.set("x"), Err(libc::EINVAL));
        assert!(tainted.before.trim().parse::<u64>().is_ok());
        for name in ["fs/pipe-user-pages-soft", "fs/pipe-user-pages-hard"] {
            let pages = Setting::of(name);
            pages.must_be_set("12345");
            assert_eq!(pages.text(), "12345\n");
        }
    });
}

const UPTODATE: u64 = 1 << 3;
const MAPPED: u64 = 1 << 11;
const ANONYMOUS: u64 = 1 << 12;

/// Returns the number of the frame at `at`, which is mapped.
fn frame(at: *const u8) -> u64 {
    let file = fs::File::open("/proc/self/pagemap").unwrap();
    let mut word = [0; 8];
    file.read_exact_at(&mut word, at as u64 / PAGE as u64 * 8).unwrap();
    u64::from_ne_bytes(word) & ((1 << 55) - 1)
}

fn word_of(name: &str, frame: u64) -> u64 {
    let mut word = [0; 8];
    fs::File::open(name).unwrap().read_exact_at(&mut word, frame * 8).unwrap();
    u64::from_ne_bytes(word)
}

#[test]
fn frames_tell_what_they_are_used_for() {
    limited(|| {
        let map = |flags: i32, fd: i32| {
            let both = libc::PROT_READ | libc::PROT_WRITE;
            let at = unsafe { libc::mmap(null_mut(), PAGE, both, flags, fd, 0) };
            assert_ne!(at, libc::MAP_FAILED);
            at.cast::<u8>()
        };
        let own = map(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
        unsafe { own.write_volatile(1) };
        let (flags, count) = ("/proc/kpageflags", "/proc/kpagecount");
        let told = word_of(flags, frame(own));
        assert_eq!(told & (MAPPED | ANONYMOUS | UPTODATE), MAPPED | ANONYMOUS | UPTODATE);
        assert_eq!(word_of(count, frame(own)), 1);
        let scratch = Scratch::in_memory();
        let fd = open(scratch.file("f", &[1; PAGE]), libc::O_RDWR, 0).unwrap();
        let shared = map(libc::MAP_SHARED, fd);
        let again = map(libc::MAP_SHARED, fd);
        unsafe { (shared.write_volatile(1), again.write_volatile(2)) };
        let told = word_of(flags, frame(shared));
        assert_eq!(told & (MAPPED | ANONYMOUS | UPTODATE), MAPPED | UPTODATE);
        assert_eq!(word_of(count, frame(shared)), 2);
        let child = fork(|| {
            unsafe { shared.write_volatile(3) };
            assert_eq!(word_of(count, frame(shared)), 3);
        });
        assert_eq!(wait(child), Ended::Exited(0));
        for name in [flags, count] {
            let fd = open(name, libc::O_RDONLY, 0).unwrap();
            let at = |bytes: usize, offset: i64| {
                let mut buffer = [0u8; 64];
                check(unsafe { libc::pread(fd, buffer.as_mut_ptr().cast(), bytes, offset) } as i64)
            };
            assert_eq!((at(7, 0), at(8, 4)), (Err(libc::EINVAL), Err(libc::EINVAL)));
            assert_eq!((at(64, 0), at(0, 0)), (Ok(64), Ok(0)));
            assert_eq!(at(8, 1 << 50), Ok(0), "there are no more");
            let mode = fs::metadata(name).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o400);
        }
    });
}
