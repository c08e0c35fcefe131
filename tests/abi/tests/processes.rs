//! Processes: fork, exec, wait, sessions, groups, credentials, limits.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use std::{ffi::CString, fs, os::unix::fs::PermissionsExt, process::Command};

#[test]
fn a_child_has_its_own_memory() {
    isolated(|| {
        let mut numbers = vec![1u64; 10_000];
        let child = fork(|| {
            numbers.fill(2);
            assert!(numbers.iter().all(|&n| n == 2));
        });
        assert_eq!(wait(child), Ended::Exited(0));
        assert!(numbers.iter().all(|&n| n == 1));
        numbers.fill(3);
    });
}

#[test]
fn exit_statuses_come_through() {
    isolated(|| {
        for code in [0, 1, 42, 255] {
            // SAFETY: ends the child.
            assert_eq!(wait(fork(|| unsafe { libc::_exit(code) })), Ended::Exited(code));
        }
        // SAFETY: ends the child; only eight bits count.
        assert_eq!(wait(fork(|| unsafe { libc::_exit(0x1ff) })), Ended::Exited(255));
    });
}

#[test]
fn waiting_without_children_is_echild() {
    isolated(|| {
        // SAFETY: no status is asked for.
        assert_eq!(check(unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) }), Err(libc::ECHILD));
        // SAFETY: no status is asked for.
        assert_eq!(check(unsafe { libc::waitpid(1, std::ptr::null_mut(), 0) }), Err(libc::ECHILD));
    });
}

#[test]
fn wnohang_does_not_wait() {
    isolated(|| {
        let (reader, writer) = pipe();
        let child = fork(|| {
            close(writer);
            let _ = read(reader, 1);
        });
        close(reader);
        // SAFETY: no status is asked for.
        assert_eq!(
            check(unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::WNOHANG) }),
            Ok(0)
        );
        close(writer);
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn waitid_can_look_without_taking() {
    isolated(|| {
        // SAFETY: ends the child.
        let child = fork(|| unsafe { libc::_exit(7) });
        // SAFETY: plain numbers.
        let mut info: libc::siginfo_t = unsafe { zeroed() };
        // SAFETY: room for the answer; a child's fields are set.
        unsafe {
            must(libc::waitid(libc::P_PID, child as u32, &mut info, libc::WEXITED | libc::WNOWAIT));
            assert_eq!(
                (info.si_pid(), info.si_status(), info.si_code),
                (child, 7, libc::CLD_EXITED)
            );
        }
        assert_eq!(wait(child), Ended::Exited(7));
    });
}

#[test]
fn many_children_are_all_waited_for() {
    isolated(|| {
        let mut children: Vec<i32> = (0..50).map(|n| fork(|| unsafe { libc::_exit(n) })).collect();
        let mut sum = 0;
        while !children.is_empty() {
            let mut status = 0;
            // SAFETY: room for the status.
            let child = must(unsafe { libc::wait(&mut status) }) as i32;
            children.retain(|&one| one != child);
            sum += libc::WEXITSTATUS(status);
        }
        assert_eq!(sum, (0..50).sum::<i32>());
    });
}

#[test]
fn an_orphan_goes_to_a_reaper() {
    isolated(|| {
        let (reader, writer) = pipe();
        let child = fork(|| {
            let parent = unsafe { libc::getpid() };
            fork(|| {
                // SAFETY: no arguments.
                while unsafe { libc::getppid() } == parent {
                    unsafe { libc::sched_yield() };
                }
                write(writer, b"adopted").unwrap();
            });
        });
        wait(child);
        assert_eq!(read(reader, 20), Ok(b"adopted".to_vec()));
    });
}

#[test]
fn exec_replaces_the_program_and_passes_words() {
    isolated(|| {
        let output = Command::new("/bin/sh")
            .args(["-c", "echo \"$0,$1,$VAR\"", "zero", "one two"])
            .env("VAR", "v")
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "zero,one two,v\n");
    });
}

#[test]
fn exec_of_nothing_and_of_junk_fail_properly() {
    isolated(|| {
        let scratch = Scratch::new();
        let run = |path: &std::path::Path| {
            let path = c(path);
            let words = [path.as_ptr(), std::ptr::null()];
            // SAFETY: NUL-terminated words.
            check(unsafe { libc::execv(path.as_ptr(), words.as_ptr()) })
        };
        let junk = scratch.file("junk", b"\x7fELF is what this is not");
        assert_eq!(run(&junk), Err(libc::EACCES));
        fs::set_permissions(&junk, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(run(&junk), Err(libc::ENOEXEC));
        assert_eq!(run(&scratch.path("absent")), Err(libc::ENOENT));
        assert_eq!(run(&scratch.path("")), Err(libc::EACCES));
        let empty = scratch.file("empty", b"");
        fs::set_permissions(&empty, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(run(&empty), Err(libc::ENOEXEC));
    });
}

#[test]
fn a_script_runs_its_interpreter() {
    isolated(|| {
        let scratch = Scratch::new();
        let script = scratch.file("script", b"#!/bin/sh -e\necho \"$0 $#\" $*\n");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let output = Command::new(&script).args(["a", "b"]).output().unwrap();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            format!("{} 2 a b\n", script.display())
        );
    });
}

#[test]
fn a_script_without_its_interpreter_is_enoent() {
    isolated(|| {
        let scratch = Scratch::new();
        let script = scratch.file("script", b"#!/no/such/interpreter\n");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(Command::new(&script).status().unwrap_err().raw_os_error(), Some(libc::ENOENT));
    });
}

#[test]
fn close_on_exec_closes() {
    isolated(|| {
        let kept = open("/dev/null", libc::O_RDONLY, 0).unwrap();
        let lost = open("/dev/null", libc::O_RDONLY | libc::O_CLOEXEC, 0).unwrap();
        let script = format!("[ -e /proc/self/fd/{kept} ] && [ ! -e /proc/self/fd/{lost} ]");
        assert!(Command::new("/bin/sh").args(["-c", &script]).status().unwrap().success());
    });
}

#[test]
fn too_many_words_are_e2big() {
    isolated(|| {
        let word = "x".repeat(200_000);
        assert_eq!(
            Command::new("/bin/true").arg(word).status().unwrap_err().raw_os_error(),
            Some(libc::E2BIG)
        );
    });
}

#[test]
fn a_running_program_cannot_be_written() {
    isolated(|| {
        let scratch = Scratch::new();
        let copy = scratch.path("sleep");
        fs::copy("/proc/self/exe", &copy).unwrap();
        let (reader, writer) = pipe();
        let child = fork(|| {
            // SAFETY: plain numbers; the program's own stdin becomes the pipe.
            unsafe { libc::dup2(reader, 0) };
            close(writer);
            let words = [c(&copy), c("--list")];
            let pointers = [words[0].as_ptr(), words[1].as_ptr(), std::ptr::null()];
            let quiet = open("/dev/null", libc::O_WRONLY, 0).unwrap();
            // SAFETY: plain numbers.
            unsafe { libc::dup2(quiet, 1) };
            // SAFETY: NUL-terminated words.
            unsafe { libc::execv(words[0].as_ptr(), pointers.as_ptr()) };
        });
        close(reader);
        close(writer);
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn vfork_lends_its_memory_until_exec() {
    isolated(|| {
        // Rust's own spawn uses a CLONE_VFORK child if the C library does.
        for _ in 0..20 {
            assert!(Command::new("/bin/true").status().unwrap().success());
        }
        assert_eq!(Command::new("/bin/false").status().unwrap().code(), Some(1));
    });
}

#[test]
fn sessions_and_groups_follow_their_rules() {
    isolated(|| {
        let child = fork(|| {
            // SAFETY: plain numbers.
            unsafe {
                let me = libc::getpid();
                assert_eq!(check(libc::setsid()), Ok(me.into()));
                assert_eq!((libc::getsid(0), libc::getpgrp()), (me, me));
                assert_eq!(check(libc::setsid()), Err(libc::EPERM));
                assert_eq!(check(libc::setpgid(0, 0)), Err(libc::EPERM));
            }
        });
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn a_parent_moves_its_child_to_a_group() {
    isolated(|| {
        let (reader, writer) = pipe();
        let child = fork(|| {
            close(writer);
            let _ = read(reader, 1);
        });
        // SAFETY: plain numbers.
        unsafe {
            must(libc::setpgid(child, child));
            assert_eq!(libc::getpgid(child), child);
            assert_eq!(check(libc::setpgid(child, 1)), Err(libc::EPERM));
            assert_eq!(check(libc::getpgid(99_999_999)), Err(libc::ESRCH));
        }
        close(writer);
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn root_gives_its_rights_up_for_good() {
    isolated(|| {
        // SAFETY: plain numbers.
        unsafe {
            must(libc::setgroups(1, [55].as_ptr()));
            must(libc::setresgid(1000, 1000, 1000));
            must(libc::setresuid(1000, 1000, 1000));
            assert_eq!((libc::getuid(), libc::geteuid(), libc::getgid()), (1000, 1000, 1000));
            assert_eq!(check(libc::setuid(0)), Err(libc::EPERM));
            assert_eq!(check(libc::setgroups(0, std::ptr::null())), Err(libc::EPERM));
            let mut groups = [0; 4];
            assert_eq!(libc::getgroups(4, groups.as_mut_ptr()), 1);
            assert_eq!(groups[0], 55);
        }
    });
}

#[test]
fn a_saved_user_can_come_back() {
    isolated(|| {
        // SAFETY: plain numbers.
        unsafe {
            must(libc::setresuid(1000, 1000, 0));
            assert_eq!(libc::geteuid(), 1000);
            must(libc::seteuid(0));
            assert_eq!(libc::geteuid(), 0);
        }
    });
}

#[test]
fn a_strangers_file_stays_closed() {
    isolated(|| {
        let scratch = Scratch::new();
        fs::set_permissions(scratch.path(""), fs::Permissions::from_mode(0o755)).unwrap();
        let path = scratch.file("secret", b"s");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        isolated(|| {
            // SAFETY: plain numbers.
            unsafe {
                must(libc::setgroups(0, std::ptr::null()));
                must(libc::setresgid(1000, 1000, 1000));
                must(libc::setresuid(1000, 1000, 1000));
            }
            assert_eq!(open(&path, libc::O_RDONLY, 0), Err(libc::EACCES));
            assert_eq!(check(unsafe { libc::chmod(c(&path).as_ptr(), 0o777) }), Err(libc::EPERM));
            // SAFETY: ends without the scratch's removal, which is the parent's.
            unsafe { libc::_exit(0) }
        });
    });
}

#[test]
fn limits_read_back_and_hard_ones_hold() {
    isolated(|| {
        // SAFETY: whole rlimits.
        unsafe {
            must(libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 5, rlim_max: 10 }));
            let mut limit: libc::rlimit = zeroed();
            must(libc::getrlimit(libc::RLIMIT_CORE, &mut limit));
            assert_eq!((limit.rlim_cur, limit.rlim_max), (5, 10));
            assert_eq!(
                check(libc::setrlimit(
                    libc::RLIMIT_CORE,
                    &libc::rlimit { rlim_cur: 11, rlim_max: 10 }
                )),
                Err(libc::EINVAL)
            );
            must(libc::setresuid(1000, 1000, 1000));
            assert_eq!(
                check(libc::setrlimit(
                    libc::RLIMIT_CORE,
                    &libc::rlimit { rlim_cur: 5, rlim_max: 11 }
                )),
                Err(libc::EPERM)
            );
        }
    });
}

#[test]
fn uname_says_linux_on_x86_64() {
    isolated(|| {
        // SAFETY: plain bytes.
        let mut name: libc::utsname = unsafe { zeroed() };
        // SAFETY: room for the answer.
        must(unsafe { libc::uname(&mut name) });
        let text = |field: &[i8]| {
            field
                .iter()
                .take_while(|&&byte| byte != 0)
                .map(|&byte| byte as u8 as char)
                .collect::<String>()
        };
        assert_eq!(
            (text(&name.sysname).as_str(), text(&name.machine).as_str()),
            ("Linux", "x86_64")
        );
    });
}

#[test]
fn a_thread_name_can_be_changed() {
    isolated(|| {
        let name = CString::new("a-name-that-is-too-long").unwrap();
        let mut out = [0u8; 16];
        // SAFETY: a NUL-terminated name and room for 16 bytes.
        unsafe {
            must(libc::prctl(libc::PR_SET_NAME, name.as_ptr()));
            must(libc::prctl(libc::PR_GET_NAME, out.as_mut_ptr()));
        }
        assert_eq!(&out, b"a-name-that-is-\0");
        assert_eq!(fs::read_to_string("/proc/self/comm").unwrap(), "a-name-that-is-\n");
    });
}

#[test]
fn rusage_counts_a_childs_work() {
    isolated(|| {
        wait(fork(|| {
            let mut sum = 0u64;
            // SAFETY: plain numbers.
            let start = clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID);
            while clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID) - start < 60_000_000 {
                sum = sum.wrapping_mul(31).wrapping_add(1);
            }
            std::hint::black_box(sum);
        }));
        // SAFETY: plain numbers and room for the answer.
        let usage = unsafe {
            let mut usage: libc::rusage = zeroed();
            must(libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage));
            usage
        };
        let used_us = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1_000_000
            + usage.ru_utime.tv_usec
            + usage.ru_stime.tv_usec;
        assert!(used_us >= 50_000, "{used_us}");
    });
}

#[test]
fn proc_tells_of_the_process_itself() {
    isolated(|| {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let field = |name: &str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        assert_eq!(field("Pid:"), std::process::id().to_string());
        assert_eq!(field("PPid:"), unsafe { libc::getppid() }.to_string());
        assert!(fs::read_link("/proc/self/exe").unwrap().is_absolute());
        assert_eq!(fs::read_link("/proc/self/cwd").unwrap(), std::env::current_dir().unwrap());
        let line = fs::read("/proc/self/cmdline").unwrap();
        assert_eq!(line.split(|&byte| byte == 0).count() - 1, std::env::args().count());
    });
}

#[test]
fn proc_lists_open_descriptors() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.file("open", b"");
        let fd = open(&path, libc::O_RDONLY, 0).unwrap();
        assert_eq!(fs::read_link(format!("/proc/self/fd/{fd}")).unwrap(), path);
        assert!(fs::read_dir("/proc/self/fd").unwrap().count() >= 4);
    });
}

#[test]
fn a_child_that_panics_says_why() {
    isolated(|| {
        let (from, to) = pipe();
        let child = fork(|| {
            // SAFETY: plain numbers.
            must(unsafe { libc::dup2(to, libc::STDERR_FILENO) });
            panic!("this is why");
        });
        assert_eq!(wait(child), Ended::Exited(101));
        let said = read(from, 4096).unwrap();
        assert!(String::from_utf8_lossy(&said).contains("this is why"));
    });
}

#[test]
fn segment_bases_are_kept_over_calls_switches_and_fork() {
    const SET_GS: i32 = 0x1001;
    const GET_GS: i32 = 0x1004;
    const HWCAP2_FSGSBASE: u64 = 2;
    fn gs_base() -> u64 {
        let mut base = 0u64;
        // SAFETY: writes the base to `base`.
        assert_eq!(unsafe { libc::syscall(libc::SYS_arch_prctl, GET_GS, &raw mut base) }, 0);
        base
    }
    isolated(|| {
        // SAFETY: no program here uses GS.
        assert_eq!(unsafe { libc::syscall(libc::SYS_arch_prctl, SET_GS, 0x1234_5000u64) }, 0);
        assert_eq!(gs_base(), 0x1234_5000);
        // SAFETY: takes no memory.
        if unsafe { libc::getauxval(libc::AT_HWCAP2) } & HWCAP2_FSGSBASE != 0 {
            // SAFETY: the kernel says that the instruction may be used.
            unsafe { std::arch::asm!("wrgsbase {}", in(reg) 0x4321_0000u64) };
            assert_eq!(gs_base(), 0x4321_0000);
        }
        let mine = gs_base();
        let child = fork(|| {
            assert_eq!(gs_base(), mine);
            // SAFETY: no program here uses GS.
            assert_eq!(unsafe { libc::syscall(libc::SYS_arch_prctl, SET_GS, 0u64) }, 0);
            std::thread::sleep(std::time::Duration::from_millis(5));
            assert_eq!(gs_base(), 0);
        });
        assert_eq!(wait(child), Ended::Exited(0));
        assert_eq!(gs_base(), mine);
        // SAFETY: takes no memory.
        assert_eq!(
            check(unsafe { libc::syscall(libc::SYS_arch_prctl, SET_GS, u64::MAX) as i32 }),
            Err(libc::EPERM)
        );
    });
}
