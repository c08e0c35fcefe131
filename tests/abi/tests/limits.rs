//! Limits on resources, usage of resources, and their display in `/proc` and `/sys`.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use std::{
    collections::HashMap,
    fs,
    io::{Read, Write},
    process::Command,
    ptr::{null, null_mut},
    sync::mpsc,
    thread,
    time::Duration,
};

const PAGE: usize = 4096;

/// The number of a limited resource, as the C library types it.
#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = i32;

fn set_limit(resource: Resource, soft: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    must(unsafe { libc::getrlimit(resource, &mut limit) });
    limit.rlim_cur = soft;
    must(unsafe { libc::setrlimit(resource, &limit) });
}

fn map(bytes: usize) -> Result<*mut libc::c_void, i32> {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let at = unsafe { libc::mmap(null_mut(), bytes, protection, flags, -1, 0) };
    if at == libc::MAP_FAILED { Err(errno()) } else { Ok(at) }
}

fn usage(who: i32) -> libc::rusage {
    let mut usage: libc::rusage = unsafe { zeroed() };
    must(unsafe { libc::getrusage(who, &mut usage) });
    usage
}

#[test]
fn an_address_space_is_kept_within_its_limit() {
    isolated(|| {
        set_limit(libc::RLIMIT_AS, 1 << 30);
        assert!(map(64 << 20).is_ok());
        assert_eq!(map(2 << 30), Err(libc::ENOMEM));
    });
}

#[test]
fn data_and_locked_memory_have_limits_of_their_own() {
    isolated(|| {
        set_limit(libc::RLIMIT_DATA, 64 << 20);
        assert_eq!(map(128 << 20), Err(libc::ENOMEM));
        let shared = unsafe {
            libc::mmap(
                null_mut(),
                128 << 20,
                libc::PROT_READ,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(shared, libc::MAP_FAILED);
        set_limit(libc::RLIMIT_MEMLOCK, 8 * PAGE as u64);
        must(unsafe { libc::setresuid(1000, 1000, 1000) });
        let at = map(64 * PAGE).unwrap();
        assert_eq!(check(unsafe { libc::mlock(at, 16 * PAGE) }), Err(libc::ENOMEM));
        assert_eq!(check(unsafe { libc::mlock(at, 4 * PAGE) }), Ok(0));
        set_limit(libc::RLIMIT_MEMLOCK, 0);
        assert_eq!(check(unsafe { libc::mlock(at.add(8 * PAGE).cast(), 1) }), Err(libc::EPERM));
    });
}

#[test]
fn a_user_has_only_so_many_processes() {
    isolated(|| {
        must(unsafe { libc::setresuid(54_321, 54_321, 54_321) });
        set_limit(libc::RLIMIT_NPROC, 2);
        let first = must(unsafe { libc::fork() });
        if first == 0 {
            unsafe { libc::pause() };
        }
        let second = check(unsafe { libc::fork() });
        must(unsafe { libc::kill(first as i32, libc::SIGKILL) });
        if second == Ok(0) {
            unsafe { libc::_exit(0) };
        }
        assert_eq!(second, Err(libc::EAGAIN));
        wait(first as i32);
    });
}

/// Makes a child that became `user` and is stopped.
fn stopped_child_of(user: u32) -> libc::pid_t {
    let child = fork(|| {
        must(unsafe { libc::setresuid(user, user, user) });
        must(unsafe { libc::raise(libc::SIGSTOP) });
    });
    let mut status = 0;
    must(unsafe { libc::waitpid(child, &mut status, libc::WUNTRACED) });
    assert!(libc::WIFSTOPPED(status), "{status:#x}");
    child
}

#[test]
fn who_became_a_user_with_too_many_processes_runs_no_other_program() {
    const USER: u32 = 54_322;
    isolated(|| {
        let others = [stopped_child_of(USER), stopped_child_of(USER)];
        let child = fork(|| {
            set_limit(libc::RLIMIT_NPROC, 1);
            must(unsafe { libc::setresuid(USER, USER, USER) });
            let words = [c"/bin/true".as_ptr(), null()];
            let run = || check(unsafe { libc::execv(words[0], words.as_ptr()) });
            assert_eq!(run(), Err(libc::EAGAIN));
            assert_eq!(run(), Err(libc::EAGAIN));
            set_limit(libc::RLIMIT_NPROC, 3);
            panic!("{:?}", run());
        });
        assert_eq!(wait(child), Ended::Exited(0));
        for other in others {
            must(unsafe { libc::kill(other, libc::SIGKILL) });
            wait(other);
        }
    });
}

#[test]
fn threads_and_whoever_was_not_waited_for_count_against_a_users_limit() {
    const USER: u32 = 54_323;
    isolated(|| {
        must(unsafe { libc::setresuid(USER, USER, USER) });
        set_limit(libc::RLIMIT_NPROC, 3);
        let ended = fork(|| {});
        let flags = libc::WEXITED | libc::WNOWAIT;
        must(unsafe { libc::waitid(libc::P_PID, ended as u32, &mut std::mem::zeroed(), flags) });
        let (end, is_over) = mpsc::channel::<()>();
        let thread = thread::spawn(move || is_over.recv());
        assert!(thread::Builder::new().spawn(|| {}).is_err(), "a thread too many");
        wait(ended);
        assert_eq!(wait(fork(|| {})), Ended::Exited(0));
        drop(end);
        assert!(thread.join().expect("it does not panic").is_err(), "nothing was sent");
    });
}

#[test]
fn too_much_processor_time_is_sigxcpu_then_sigkill() {
    isolated(|| {
        let child = fork(|| {
            set_limit(libc::RLIMIT_CPU, 1);
            #[allow(clippy::empty_loop, reason = "uses processor time")]
            loop {}
        });
        assert_eq!(wait(child), Ended::Signalled(libc::SIGXCPU));
        let child = fork(|| {
            unsafe { libc::signal(libc::SIGXCPU, libc::SIG_IGN) };
            let limit = libc::rlimit { rlim_cur: 1, rlim_max: 2 };
            must(unsafe { libc::setrlimit(libc::RLIMIT_CPU, &limit) });
            #[allow(clippy::empty_loop, reason = "uses processor time")]
            loop {}
        });
        assert_eq!(wait(child), Ended::Signalled(libc::SIGKILL));
    });
}

#[test]
fn queued_signals_have_a_limit() {
    isolated(|| {
        let mut set: libc::sigset_t = unsafe { zeroed() };
        unsafe { libc::sigaddset(&mut set, libc::SIGRTMIN()) };
        must(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &set, null_mut()) });
        must(unsafe { libc::setresuid(54_322, 54_322, 54_322) });
        set_limit(libc::RLIMIT_SIGPENDING, 3);
        let own = unsafe { libc::getpid() };
        let value = libc::sigval { sival_ptr: null_mut() };
        let send = || check(unsafe { libc::sigqueue(own, libc::SIGRTMIN(), value) });
        assert_eq!([send(), send(), send()], [Ok(0); 3]);
        assert_eq!(send(), Err(libc::EAGAIN));
    });
}

#[test]
fn a_stack_does_not_grow_beyond_its_limit() {
    isolated(|| {
        fn deep(left: usize) -> u8 {
            let space = [left as u8; PAGE];
            let space = std::hint::black_box(space);
            if left == 0 { space[0] } else { deep(left - 1).wrapping_add(space[7]) }
        }
        set_limit(libc::RLIMIT_STACK, 256 << 10);
        let child = fork(|| {
            std::hint::black_box(deep(20));
        });
        assert_eq!(wait(child), Ended::Exited(0));
        let child = fork(|| {
            std::hint::black_box(deep(1000));
        });
        assert_eq!(wait(child), Ended::Signalled(libc::SIGSEGV));
    });
}

#[test]
fn limits_of_another_process_can_be_set() {
    isolated(|| {
        let child = fork(|| {
            loop {
                unsafe { libc::pause() };
            }
        });
        let new = libc::rlimit64 { rlim_cur: 77, rlim_max: 99 };
        let mut old = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
        must(unsafe { libc::prlimit64(child, libc::RLIMIT_NOFILE, &new, &mut old) });
        assert_ne!(old.rlim_cur, 77);
        let text = fs::read_to_string(format!("/proc/{child}/limits")).unwrap();
        let line = text.lines().find(|line| line.starts_with("Max open files")).unwrap();
        assert_eq!(
            line,
            "Max open files            77                   99                   files     "
        );
        let wrong = libc::rlimit64 { rlim_cur: 2, rlim_max: 1 };
        let result =
            check(unsafe { libc::prlimit64(child, libc::RLIMIT_NOFILE, &wrong, null_mut()) });
        assert_eq!(result, Err(libc::EINVAL));
        assert_eq!(
            check(unsafe { libc::prlimit64(0, 16, null_mut(), &mut old) }),
            Err(libc::EINVAL)
        );
        must(unsafe { libc::kill(child, libc::SIGKILL) });
        wait(child);
    });
}

#[test]
fn faults_memory_and_switches_are_counted() {
    isolated(|| {
        let touch = |pages: usize| {
            let at = map(pages * PAGE).unwrap();
            must(unsafe { libc::madvise(at, pages * PAGE, libc::MADV_NOHUGEPAGE) });
            for page in 0..pages {
                unsafe { at.cast::<u8>().add(page * PAGE).write_volatile(1) };
            }
        };
        let before = usage(libc::RUSAGE_SELF);
        // A kernel may map up to 32 pages at a fault.
        touch(1000);
        thread::sleep(Duration::from_millis(5));
        let after = usage(libc::RUSAGE_SELF);
        assert!(after.ru_minflt - before.ru_minflt >= 20, "{}", after.ru_minflt - before.ru_minflt);
        assert!(after.ru_maxrss >= before.ru_maxrss + 3900);
        assert!(after.ru_nvcsw > before.ru_nvcsw);
        assert!(usage(libc::RUSAGE_THREAD).ru_minflt >= 20);
        let child = fork(|| touch(2000));
        assert_eq!(wait(child), Ended::Exited(0));
        let children = usage(libc::RUSAGE_CHILDREN);
        assert!(children.ru_minflt >= 40 && children.ru_maxrss >= 8000);
    });
}

#[test]
fn a_child_that_borrowed_memory_until_its_exec_does_not_inherit_the_faults() {
    isolated(|| {
        const FAULTS: usize = 6000;
        for _ in 0..FAULTS {
            let at = map(PAGE).unwrap().cast::<u8>();
            unsafe { at.write_volatile(1) };
            must(unsafe { libc::munmap(at.cast(), PAGE) });
        }
        assert!(usage(libc::RUSAGE_SELF).ru_minflt >= FAULTS as i64);
        // musl makes the child by CLONE_VM and CLONE_VFORK.
        assert!(Command::new("/bin/true").status().unwrap().success());
        assert!(usage(libc::RUSAGE_CHILDREN).ru_minflt < FAULTS as i64 / 2);
    });
}

/// Returns the count `name` in `/proc/vmstat`.
fn event(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/vmstat").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} is missing")).parse().unwrap()
}

#[test]
fn the_system_counts_faults_and_what_goes_to_disks() {
    isolated(|| {
        const PAGES: usize = 1500;
        let before = ["pgfault", "pgmajfault", "pgpgin", "pgpgout"].map(event);
        for _ in 0..PAGES {
            let at = map(PAGE).unwrap().cast::<u8>();
            unsafe { at.write_volatile(1) };
            must(unsafe { libc::munmap(at.cast(), PAGE) });
        }
        assert!(event("pgfault") >= before[0] + PAGES as u64);
        let scratch = Scratch::on_disk();
        let file = fs::File::create(scratch.path("file")).unwrap();
        (&file).write_all(&vec![7; 3 << 20]).unwrap();
        file.sync_all().unwrap();
        // The count is in KiB. Other processes may write meanwhile.
        assert!(event("pgpgout") - before[3] >= 3 << 10);
        assert!(event("pgmajfault") >= before[1] && event("pgpgin") >= before[2]);
        assert_eq!((event("pswpin"), event("pswpout")), (0, 0));
    });
}

fn status_of(id: &str) -> HashMap<String, String> {
    let text = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let split = |line: &str| {
        line.split_once(":\t").map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
    };
    text.lines().filter_map(split).collect()
}

#[test]
fn a_status_has_the_fields_programs_read() {
    isolated(|| {
        let own = unsafe { libc::getpid() }.to_string();
        let status = status_of("self");
        assert_eq!(status["Pid"], own);
        assert_eq!(status["Tgid"], own);
        assert_eq!(status["NSpid"], own);
        assert_eq!(status["PPid"], unsafe { libc::getppid() }.to_string());
        assert_eq!(status["State"], "R (running)");
        assert_eq!(status["Threads"], "1");
        assert_eq!(status["Seccomp"], "0");
        for name in ["VmPeak", "VmSize", "VmRSS", "VmData", "VmStk", "VmExe", "VmPTE", "VmSwap"] {
            assert!(status[name].ends_with(" kB"), "{name}");
        }
        let sets = ["SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "CapInh", "CapEff", "CapBnd"];
        assert!(sets.iter().all(|name| status[*name].len() == 16));
        assert!(status.contains_key("Cpus_allowed_list") && status.contains_key("FDSize"));
    });
}

#[test]
fn a_stat_line_has_fifty_two_fields() {
    isolated(|| {
        let text = fs::read_to_string("/proc/self/stat").unwrap();
        assert!(text.ends_with('\n'));
        let (head, rest) = text.trim_end().rsplit_once(") ").unwrap();
        assert!(head.starts_with(&format!("{} (", unsafe { libc::getpid() })));
        let fields: Vec<&str> = rest.split(' ').collect();
        assert_eq!(fields.len(), 50);
        assert_eq!(fields[0], "R");
        assert_eq!(fields[1], unsafe { libc::getppid() }.to_string());
        let number = |at: usize| fields[at].parse::<u64>().unwrap();
        // The fields are minflt, num_threads, vsize and rss.
        assert!(number(7) > 0 && number(17) == 1 && number(20) > 0 && number(21) > 0);
    });
}

#[test]
fn a_process_may_be_asleep_stopped_or_dead() {
    isolated(|| {
        let state = |id: i32| status_of(&id.to_string())["State"].clone();
        let child = fork(|| {
            loop {
                unsafe { libc::pause() };
            }
        });
        thread::sleep(Duration::from_millis(50));
        assert_eq!(state(child), "S (sleeping)");
        must(unsafe { libc::kill(child, libc::SIGSTOP) });
        thread::sleep(Duration::from_millis(50));
        assert_eq!(state(child), "T (stopped)");
        must(unsafe { libc::kill(child, libc::SIGKILL) });
        thread::sleep(Duration::from_millis(50));
        assert_eq!(state(child), "Z (zombie)");
        assert_eq!(fs::read(format!("/proc/{child}/cmdline")).unwrap(), b"");
        wait(child);
        assert!(fs::metadata(format!("/proc/{child}")).is_err());
    });
}

#[test]
fn words_and_environment_are_those_of_the_program() {
    isolated(|| {
        let script = "tr '\\0' '|' </proc/$$/cmdline; echo; tr '\\0' '\\n' </proc/$$/environ; true";
        let output = std::process::Command::new("/bin/sh")
            .args(["-c", script, "zero", "one"])
            .env_clear()
            .env("NAME", "value")
            .env("PATH", "/bin:/usr/bin")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with("/bin/sh|-c|"), "{text}");
        assert!(text.contains("|zero|one|\n") && text.contains("\nNAME=value\n"), "{text}");
    });
}

#[test]
fn an_environment_that_was_opened_ends_with_its_program() {
    isolated(|| {
        let (reader, writer) = pipe();
        let child = fork(|| {
            read(reader, 1).unwrap();
            let words = [c"/bin/sleep".as_ptr(), c"100".as_ptr(), std::ptr::null()];
            let environment = [c"AFTER=1".as_ptr(), std::ptr::null()];
            unsafe { libc::execve(c"/bin/sleep".as_ptr(), words.as_ptr(), environment.as_ptr()) };
        });
        let mut before = fs::File::open(format!("/proc/{child}/environ")).unwrap();
        write(writer, b"x").unwrap();
        thread::sleep(Duration::from_millis(100));
        let mut text = Vec::new();
        before.read_to_end(&mut text).unwrap();
        assert_eq!(text, b"");
        let after = fs::read(format!("/proc/{child}/environ")).unwrap();
        assert_eq!(after, b"AFTER=1\0");
        must(unsafe { libc::kill(child, libc::SIGKILL) });
        wait(child);
    });
}

#[test]
fn strangers_do_not_see_memory_files_and_places() {
    isolated(|| {
        let own = unsafe { libc::getpid() };
        let child = fork(|| {
            must(unsafe { libc::setgroups(0, std::ptr::null()) });
            must(unsafe { libc::setresgid(1000, 1000, 1000) });
            must(unsafe { libc::setresuid(1000, 1000, 1000) });
            let path = |name: &str| format!("/proc/{own}/{name}");
            let denied = |result: std::io::Result<()>| result.map_err(|error| error.raw_os_error());
            for name in ["environ", "auxv"] {
                assert_eq!(
                    denied(fs::read(path(name)).map(|_| ())),
                    Err(Some(libc::EACCES)),
                    "{name}"
                );
            }
            for name in ["exe", "cwd", "root"] {
                assert_eq!(
                    denied(fs::read_link(path(name)).map(|_| ())),
                    Err(Some(libc::EACCES)),
                    "{name}"
                );
            }
            assert_eq!(denied(fs::read_dir(path("fd")).map(|_| ())), Err(Some(libc::EACCES)));
            assert!(fs::read(path("stat")).is_ok() && fs::read(path("status")).is_ok());
        });
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn a_process_can_be_renamed_through_comm() {
    isolated(|| {
        fs::write("/proc/self/comm", "a-name-that-is-long\n").unwrap();
        assert_eq!(fs::read_to_string("/proc/self/comm").unwrap(), "a-name-that-is-\n");
        assert_eq!(status_of("self")["Name"], "a-name-that-is-");
    });
}

#[test]
fn threads_have_directories_of_their_own() {
    isolated(|| {
        let (told, tell) = std::sync::mpsc::channel();
        let worker = thread::spawn(move || {
            let id = unsafe { libc::gettid() };
            must(unsafe { libc::prctl(libc::PR_SET_NAME, c"worker".as_ptr()) });
            tell_when_ready(told, id);
        });
        let id = tell.recv().unwrap();
        let names: Vec<_> = fs::read_dir("/proc/self/task")
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(names.len(), 2);
        assert!(names.contains(&id.to_string()));
        let comm = fs::read_to_string(format!("/proc/self/task/{id}/comm")).unwrap();
        assert_eq!(comm, "worker\n");
        assert_eq!(status_of(&format!("self/task/{id}"))["Pid"], id.to_string());
        assert_eq!(status_of("self")["Threads"], "2");
        worker.join().unwrap();
    });
}

fn tell_when_ready(told: std::sync::mpsc::Sender<i32>, id: i32) {
    told.send(id).unwrap();
    thread::sleep(Duration::from_millis(200));
}

#[test]
fn the_system_tells_of_itself_in_linuxs_formats() {
    isolated(|| {
        let read = |name: &str| fs::read_to_string(format!("/proc/{name}")).unwrap();
        let stat = read("stat");
        assert!(stat.starts_with("cpu  ") && stat.contains("\ncpu0 "));
        for name in ["intr ", "ctxt ", "btime ", "processes ", "procs_running ", "procs_blocked "] {
            assert!(stat.lines().any(|line| line.starts_with(name)), "{name}");
        }
        let cpu: Vec<u64> = stat.lines().next().unwrap()[5..]
            .split(' ')
            .map(|word| word.parse().unwrap())
            .collect();
        assert_eq!(cpu.len(), 10);
        assert_eq!(read("loadavg").split(' ').count(), 5);
        assert_eq!(read("uptime").split(' ').count(), 2);
        assert!(read("filesystems").contains("nodev\ttmpfs\n"));
        assert!(read("filesystems").contains("\text4\n"));
        assert!(read("partitions").starts_with("major minor  #blocks  name\n\n"));
        assert!(read("swaps").starts_with("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"));
        assert!(read("version").starts_with("Linux version "));
        assert!(read("devices").contains("Character devices:\n  1 mem\n"));
        assert!(read("vmstat").contains("nr_free_pages "));
        for line in read("diskstats").lines() {
            assert!(line.split_whitespace().count() >= 17, "{line}");
        }
        let files = read("sys/fs/file-nr");
        assert_eq!(files.trim().split('\t').count(), 3);
        assert_eq!(read("sys/fs/pipe-max-size"), "1048576\n");
        assert_eq!(read("sys/fs/inotify/max_queued_events"), "16384\n");
        assert_eq!(read("sys/kernel/ostype"), "Linux\n");
        assert_eq!(read("sys/kernel/random/uuid").len(), 37);
        assert_ne!(read("sys/kernel/random/uuid"), read("sys/kernel/random/uuid"));
        assert_eq!(read("sys/kernel/random/boot_id"), read("sys/kernel/random/boot_id"));
    });
}

#[test]
fn sysfs_shows_processors_disks_and_devices() {
    isolated(|| {
        let read = |name: &str| fs::read_to_string(format!("/sys/{name}")).unwrap();
        let online = read("devices/system/cpu/online");
        assert!(online.starts_with('0'), "{online}");
        assert_eq!(read("devices/system/cpu/present"), online);
        assert_eq!(read("class/mem/null/dev"), "1:3\n");
        assert!(read("class/mem/null/uevent").starts_with("MAJOR=1\nMINOR=3\nDEVNAME=null\n"));
        assert_eq!(read("dev/char/1:5/dev"), "1:5\n");
        let disk = fs::read_dir("/sys/block")
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .find(|name| name.starts_with("vd"));
        if let Some(disk) = disk {
            assert!(read(&format!("block/{disk}/size")).trim().parse::<u64>().unwrap() > 0);
            assert!(read(&format!("block/{disk}/uevent")).contains("DEVTYPE=disk\n"));
            assert!(read(&format!("block/{disk}/stat")).split_whitespace().count() >= 15);
            assert_eq!(
                read(&format!("class/block/{disk}/dev")),
                read(&format!("block/{disk}/dev"))
            );
        }
        let denied =
            fs::write("/sys/class/mem/null/dev", "x").map_err(|error| error.raw_os_error());
        assert!(denied.is_err());
    });
}

#[test]
fn priorities_of_input_and_output_are_kept() {
    isolated(|| {
        let get = || check(unsafe { libc::syscall(libc::SYS_ioprio_get, 1, 0) });
        let set = |value: i32| check(unsafe { libc::syscall(libc::SYS_ioprio_set, 1, 0, value) });
        assert_eq!(set(2 << 13 | 6), Ok(0));
        assert_eq!(get(), Ok(2 << 13 | 6));
        let child = fork(|| assert_eq!(get(), Ok(2 << 13 | 6)));
        assert_eq!(wait(child), Ended::Exited(0));
        assert_eq!(set(3 << 13), Ok(0));
        assert_eq!(set(5 << 13), Err(libc::EINVAL));
        assert_eq!(check(unsafe { libc::syscall(libc::SYS_ioprio_get, 9, 0) }), Err(libc::EINVAL));
        assert_eq!(
            check(unsafe { libc::syscall(libc::SYS_ioprio_get, 1, 999_999) }),
            Err(libc::ESRCH)
        );
        must(unsafe { libc::setresuid(1000, 1000, 1000) });
        assert_eq!(set(1 << 13), Err(libc::EPERM));
    });
}

#[test]
fn a_personality_reads_back() {
    isolated(|| {
        let before = must(unsafe { libc::personality(0xffff_ffff) });
        assert_eq!(must(unsafe { libc::personality(0x004_0000) }), before);
        assert_eq!(must(unsafe { libc::personality(0xffff_ffff) }), 0x004_0000);
        assert_eq!(fs::read_to_string("/proc/self/personality").unwrap(), "00040000\n");
    });
}
