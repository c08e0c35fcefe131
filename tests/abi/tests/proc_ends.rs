//! `/proc` for processes that have ended, threads and their children, the link counts of directories, poll of names that
//! change, and the form of numbers written to `oom_score_adj`.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use std::{fs, path::Path, thread};

/// Makes a child that has ended and was not waited for.
fn zombie() -> libc::pid_t {
    let child = fork(|| ());
    let mut info: libc::siginfo_t = unsafe { zeroed() };
    let options = libc::WEXITED | libc::WNOWAIT;
    must(unsafe { libc::waitid(libc::P_PID, child as u32, &mut info, options) });
    child
}

/// Returns the value of a line of a `status`.
fn line(path: impl AsRef<Path>, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.map(|value| value.trim().to_owned())
}

fn thread_id() -> i32 {
    (unsafe { libc::syscall(libc::SYS_gettid) }) as i32
}

fn entries(fd: i32) -> Result<i64, i32> {
    let mut buffer = [0u8; 4096];
    check(unsafe { libc::syscall(libc::SYS_getdents64, fd, buffer.as_mut_ptr(), 4096) })
}

#[test]
fn the_number_of_a_thread_leads_to_the_thread() {
    isolated(|| {
        let me = unsafe { libc::getpid() };
        thread::spawn(move || {
            let id = thread_id();
            for path in [format!("/proc/{id}"), format!("/proc/self/task/{id}")] {
                let status = format!("{path}/status");
                assert_eq!(line(&status, "Pid"), Some(id.to_string()), "{path}");
                assert_eq!(line(&status, "NSpid"), Some(id.to_string()));
                assert_eq!(line(&status, "Tgid"), Some(me.to_string()));
                assert_eq!(line(&status, "Threads"), Some("2".into()));
                let stat = fs::read_to_string(format!("{path}/stat")).unwrap();
                assert!(stat.starts_with(&format!("{id} (")), "{stat}");
            }
            assert!(Path::new(&format!("/proc/{id}/task/{me}")).exists());
            assert!(!Path::new(&format!("/proc/self/task/{id}/task")).exists());
            let listed = fs::read_dir("/proc").unwrap();
            let is_listed = |id: i32| move |name: String| name == id.to_string();
            let mut names = listed.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            assert!(!names.any(is_listed(id)));
        })
        .join()
        .unwrap();
    });
}

#[test]
fn a_zombie_has_one_thread_and_a_status() {
    isolated(|| {
        let child = zombie();
        let status = format!("/proc/{child}/status");
        for (name, value) in [
            ("State", "Z (zombie)"),
            ("Threads", "1"),
            ("FDSize", "0"),
            ("Uid", "0\t0\t0\t0"),
            ("NSpid", &child.to_string()),
        ] {
            assert_eq!(line(&status, name).as_deref(), Some(value), "{name}");
        }
        assert!(line(&status, "CapEff").is_some());
        for name in ["Umask", "VmSize", "VmRSS"] {
            assert_eq!(line(&status, name), None);
        }
        let read = |name: &str| fs::read_to_string(format!("/proc/{child}/{name}")).unwrap();
        assert_eq!((read("cmdline"), read("maps"), read("smaps")), Default::default());
        assert_eq!(read("oom_score"), "0\n");
        let stat = read("stat");
        assert_eq!(stat.rsplit(") ").next().unwrap().split(' ').nth(17), Some("1"), "{stat}");
        assert_eq!(read(&format!("task/{child}/status")), read("status"));
        assert_eq!(fs::read_dir(format!("/proc/{child}/task")).unwrap().count(), 1);
        for name in ["fd", "fdinfo"] {
            assert_eq!(fs::read_dir(format!("/proc/{child}/{name}")).unwrap().count(), 0);
        }
        for name in ["exe", "cwd", "root"] {
            let link = fs::read_link(format!("/proc/{child}/{name}"));
            assert_eq!(link.unwrap_err().raw_os_error(), Some(libc::ENOENT), "{name}");
        }
        for name in ["mounts", "mountinfo"] {
            let path = format!("/proc/{child}/{name}");
            assert_eq!(open(path, libc::O_RDONLY, 0), Err(libc::EINVAL));
        }
        wait(child);
    });
}

#[test]
fn a_zombie_has_a_priority_and_processors() {
    isolated(|| {
        let child = zombie();
        let id = child as u32;
        let priority = || check(unsafe { libc::syscall(libc::SYS_getpriority, 0, id) });
        assert_eq!(priority(), Ok(20));
        assert_eq!(check(unsafe { libc::setpriority(libc::PRIO_PROCESS as _, id, 5) }), Ok(0));
        assert_eq!(priority(), Ok(15));
        let mask = |set: u64| {
            let (call, at) = (libc::SYS_sched_setaffinity, &raw const set);
            check(unsafe { libc::syscall(call, child, 8, at) })
        };
        assert_eq!((mask(1), mask(0)), (Ok(0), Err(libc::EINVAL)));
        let mut set = 0u64;
        let (call, at) = (libc::SYS_sched_getaffinity, &raw mut set);
        assert_eq!(check(unsafe { libc::syscall(call, child, 8, at) }), Ok(8));
        assert_eq!(set, 1);
        wait(child);
        assert_eq!((priority(), mask(1)), (Err(libc::ESRCH), Err(libc::ESRCH)));
    });
}

#[test]
fn files_of_a_process_that_was_waited_for_tell_nothing() {
    isolated(|| {
        let (reader, writer) = pipe();
        let child = fork(|| {
            close(writer);
            let _ = read(reader, 1);
        });
        let held = |name: &'static str| {
            let opened = open(format!("/proc/{child}/{name}"), libc::O_RDONLY, 0);
            (name, opened.expect(name))
        };
        let texts = [
            "cmdline",
            "comm",
            "status",
            "stat",
            "statm",
            "limits",
            "wchan",
            "oom_score",
            "oom_score_adj",
            "loginuid",
            "sessionid",
            "cgroup",
            "maps",
            "smaps",
            "io",
            "personality",
            "coredump_filter",
        ]
        .map(held);
        let folders = ["fd", "fdinfo", "task", "."].map(held);
        let common = ["uid_map", "gid_map", "setgroups"].map(held);
        let memory = ["mem", "environ"].map(held);
        close(writer);
        wait(child);
        for (name, fd) in texts {
            assert_eq!(read(fd, 100), Err(libc::ESRCH), "{name}");
        }
        for (name, fd) in folders {
            assert_eq!(entries(fd), Err(libc::ENOENT), "{name}");
        }
        for (name, fd) in common {
            assert!(!read(fd, 100).unwrap().is_empty(), "{name}");
        }
        for (name, fd) in memory {
            assert_eq!(read(fd, 100), Ok(vec![]), "{name}");
        }
        assert!(!Path::new(&format!("/proc/{child}")).exists());
    });
}

#[test]
fn a_thread_has_the_children_that_it_made() {
    isolated(|| {
        let me = unsafe { libc::getpid() };
        let children = move |id: i32| fs::read_to_string(format!("/proc/{me}/task/{id}/children"));
        assert_eq!(children(me).unwrap(), "");
        assert!(!Path::new("/proc/self/children").exists());
        let (one, two) = (zombie(), zombie());
        assert_eq!(children(me).unwrap(), format!("{one} {two} "), "those that ended, too");
        let other = thread::spawn(move || {
            let id = thread_id();
            let own = zombie();
            assert_eq!(children(id).unwrap(), format!("{own} "));
            assert_eq!(children(me).unwrap(), format!("{one} {two} "));
            own
        });
        let other = other.join().unwrap();
        wait(one);
        let left = [format!("{two} "), format!("{two} {other} ")];
        assert!(left.contains(&children(me).unwrap()), "the other thread has ended or ends");
        assert_eq!(stat(format!("/proc/self/task/{me}/children")).unwrap().st_mode, 0o100444);
    });
}

#[test]
fn a_directory_has_a_link_for_each_directory_in_it() {
    isolated(|| {
        let me = unsafe { libc::getpid() };
        let links = |path: &str| stat(path).unwrap().st_nlink as usize;
        let inside = |path: &str| {
            let all = fs::read_dir(path).unwrap();
            all.filter(|entry| entry.as_ref().unwrap().file_type().unwrap().is_dir()).count()
        };
        let own = format!("/proc/self/task/{me}");
        for path in ["/proc/self", &own, "/proc/self/task", "/proc/self/fd", "/sys", "/sys/block"] {
            assert_eq!(links(path), 2 + inside(path), "{path}");
        }
        thread::spawn(move || assert_eq!(links("/proc/self/task"), 4)).join().unwrap();
        // Directories of settings are not counted.
        for path in ["/proc/sys", "/proc/sys/kernel", "/proc/sys/kernel/random"] {
            assert_eq!(links(path), 1, "{path}");
        }
        assert!(links("/proc") > 3);
    });
}

/// Returns the answer of poll(2) for a descriptor and all events.
fn ready(fd: i32) -> i16 {
    let mut entry = libc::pollfd { fd, events: 0x7ff, revents: 0 };
    must(unsafe { libc::poll(&mut entry, 1, 0) });
    entry.revents
}

#[test]
fn a_name_that_is_set_wakes_whoever_polls_it() {
    isolated(|| {
        const USUAL: i16 = libc::POLLIN | libc::POLLOUT | libc::POLLRDNORM | libc::POLLWRNORM;
        const NEWS: i16 = libc::POLLIN | libc::POLLRDNORM | libc::POLLERR | libc::POLLPRI;
        for name in ["hostname", "domainname"] {
            let path = format!("/proc/sys/kernel/{name}");
            let (one, other) = (open(&path, 0, 0).unwrap(), open(&path, 0, 0).unwrap());
            assert_eq!(ready(one), USUAL);
            let text = read(one, 65).unwrap();
            let now = &text[..text.len() - 1];
            let at = now.as_ptr().cast();
            let set = || match name {
                "hostname" => unsafe { libc::sethostname(at, now.len()) },
                _ => unsafe { libc::setdomainname(at, now.len()) },
            };
            must(set());
            assert_eq!((ready(one), ready(one)), (NEWS, USUAL), "each change once");
            assert_eq!(ready(other), NEWS, "and each description for itself");
            fs::write(&path, now).unwrap();
            assert_eq!((ready(one), ready(other)), (NEWS, NEWS), "whoever sets it");
        }
        let fixed = open("/proc/sys/kernel/ostype", 0, 0).unwrap();
        assert_eq!(ready(fixed), USUAL);
    });
}

#[test]
fn a_number_ends_at_a_nul_and_has_any_base() {
    isolated(|| {
        let path = "/proc/self/oom_score_adj";
        let set = |text: &[u8]| {
            let file = open(path, libc::O_WRONLY, 0).unwrap();
            let result = write(file, text);
            close(file);
            result
        };
        let taken: [(&[u8], &str); 9] = [
            (b"5", "5"),
            (b"6\0", "6"),
            (b"7\n\0", "7"),
            (b"8\0x", "8"),
            (b" 9 ", "9"),
            (b"0x10", "16"),
            (b"021", "17"),
            (b"+18", "18"),
            (b"19\n\n", "19"),
        ];
        for (text, value) in taken {
            assert_eq!(set(text), Ok(text.len()), "{text:?}");
            assert_eq!(fs::read_to_string(path).unwrap().trim(), value);
        }
        for bad in [&b"8 9"[..], b"\0", b"", b"x", b"5x", b"-", b"1001", b"-1001", b"0x", b"09"] {
            assert_eq!(set(bad), Err(libc::EINVAL), "{bad:?}");
        }
        assert_eq!(set(b"12345678901234567890"), Err(libc::ERANGE));
        assert_eq!(fs::read_to_string(path).unwrap(), "19\n");
    });
}
