//! Processes by files (pidfd_open and related calls), and other processes' memory.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{pty::poll, *};
use std::mem::zeroed;

const P_PIDFD: u32 = 3;
const NOBODY: i32 = 32_000;

fn call(number: libc::c_long, arguments: [i64; 6]) -> Result<i64, i32> {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: pointers among the arguments outlive the call.
    check(unsafe { libc::syscall(number, a, b, c, d, e, f) })
}

fn pidfd_open(id: i32, flags: i32) -> Result<i32, i32> {
    call(libc::SYS_pidfd_open, [id.into(), flags.into(), 0, 0, 0, 0]).map(|fd| fd as i32)
}

fn send(pidfd: i32, signal: i32) -> Result<i64, i32> {
    call(libc::SYS_pidfd_send_signal, [pidfd.into(), signal.into(), 0, 0, 0, 0])
}

fn get(pidfd: i32, fd: i32, flags: i32) -> Result<i32, i32> {
    let arguments = [pidfd.into(), fd.into(), flags.into(), 0, 0, 0];
    call(libc::SYS_pidfd_getfd, arguments).map(|fd| fd as i32)
}

/// Calls waitid with a pidfd. Returns the child's number and its end.
fn wait_by(pidfd: i32, options: i32) -> Result<(i32, i32, i32), i32> {
    let mut info: libc::siginfo_t = unsafe { zeroed() };
    check(unsafe { libc::waitid(P_PIDFD, pidfd as u32, &mut info, options) })?;
    Ok(unsafe { (info.si_pid(), info.si_code, info.si_status()) })
}

/// Makes a child that lives until its end of the pipe is closed.
fn held_child() -> (i32, i32) {
    let (reader, writer) = pipe();
    let child = fork(|| {
        close(writer);
        let _ = read(reader, 1);
        unsafe { libc::_exit(7) }
    });
    close(reader);
    (child, writer)
}

#[test]
fn a_pidfd_is_readable_once_its_process_has_ended() {
    isolated(|| {
        let (child, gate) = held_child();
        let pidfd = pidfd_open(child, 0).unwrap();
        let flags = must(unsafe { libc::fcntl(pidfd, libc::F_GETFD) });
        assert_eq!(flags, i64::from(libc::FD_CLOEXEC));
        assert_eq!(poll(pidfd, libc::POLLIN, 0), 0);
        close(gate);
        assert_eq!(poll(pidfd, libc::POLLIN, -1), libc::POLLIN);
        // A zombie can be signalled and looked at, and is waited for once.
        send(pidfd, 0).unwrap();
        let kept = wait_by(pidfd, libc::WEXITED | libc::WNOWAIT).unwrap();
        assert_eq!(kept, (child, libc::CLD_EXITED, 7));
        assert_eq!(wait_by(pidfd, libc::WEXITED).unwrap(), kept);
        assert_eq!(wait_by(pidfd, libc::WEXITED), Err(libc::ECHILD));
        assert_eq!(send(pidfd, 0), Err(libc::ESRCH));
        // Newer kernels also report POLLHUP.
        assert_ne!(poll(pidfd, libc::POLLIN, 0) & libc::POLLIN, 0);
        assert_eq!(pidfd_open(child, 0), Err(libc::ESRCH));
    });
}

#[test]
fn pidfd_open_refuses_what_names_no_process() {
    isolated(|| {
        assert_eq!(pidfd_open(0, 0), Err(libc::EINVAL));
        assert_eq!(pidfd_open(-1, 0), Err(libc::EINVAL));
        assert_eq!(pidfd_open(1, 1), Err(libc::EINVAL));
        assert_eq!(pidfd_open(NOBODY, 0), Err(libc::ESRCH));
        // A thread that does not lead a process.
        let id = unsafe { libc::getpid() };
        let found = std::thread::spawn(move || {
            let thread = unsafe { libc::syscall(libc::SYS_gettid) } as i32;
            assert_ne!(thread, id);
            pidfd_open(thread, 0)
        });
        // Newer kernels return ENOENT.
        assert!(matches!(found.join().unwrap(), Err(libc::EINVAL | libc::ENOENT)));
        let own = pidfd_open(id, 0).unwrap();
        assert_eq!(read(own, 1), Err(libc::EINVAL));
        assert_eq!(write(own, b"x"), Err(libc::EINVAL));
    });
}

#[test]
fn signals_go_through_a_pidfd_or_a_directory_of_proc() {
    isolated(|| {
        let (child, _gate) = held_child();
        let pidfd = pidfd_open(child, 0).unwrap();
        assert_eq!(send(pidfd, 65), Err(libc::EINVAL));
        let flagged = [pidfd.into(), 0, 0, 1 << 30, 0, 0];
        assert_eq!(call(libc::SYS_pidfd_send_signal, flagged), Err(libc::EINVAL));
        let (reader, _writer) = pipe();
        assert_eq!(send(reader, libc::SIGTERM), Err(libc::EBADF));
        // The information must be about that signal, and must not look like the kernel's.
        let mut info: libc::siginfo_t = unsafe { zeroed() };
        (info.si_signo, info.si_code) = (libc::SIGUSR1, libc::SI_QUEUE);
        let with = |signal: i32, info: &libc::siginfo_t| {
            let at = (&raw const *info) as i64;
            call(libc::SYS_pidfd_send_signal, [pidfd.into(), signal.into(), at, 0, 0, 0])
        };
        assert_eq!(with(libc::SIGUSR2, &info), Err(libc::EINVAL));
        info.si_code = libc::SI_USER;
        assert_eq!(with(libc::SIGUSR1, &info), Err(libc::EPERM));
        let directory =
            open(format!("/proc/{child}"), libc::O_RDONLY | libc::O_DIRECTORY, 0).unwrap();
        send(directory, libc::SIGTERM).unwrap();
        let ended = wait_by(pidfd, libc::WEXITED).unwrap();
        assert_eq!(ended, (child, libc::CLD_KILLED, libc::SIGTERM));
        assert_eq!(send(directory, 0), Err(libc::ESRCH));
    });
}

#[test]
fn descriptors_are_taken_out_of_another_process() {
    isolated(|| {
        let (told, tell) = pipe();
        let (gate, open_gate) = pipe();
        let child = fork(|| {
            let (reader, writer) = pipe();
            write(writer, b"from the child").unwrap();
            write(tell, &reader.to_ne_bytes()).unwrap();
            close(open_gate);
            let _ = read(gate, 1);
        });
        let number = i32::from_ne_bytes(read(told, 4).unwrap().try_into().unwrap());
        let pidfd = pidfd_open(child, 0).unwrap();
        assert_eq!(get(pidfd, number, 1), Err(libc::EINVAL));
        assert_eq!(get(pidfd, 1000, 0), Err(libc::EBADF));
        assert_eq!(get(told, number, 0), Err(libc::EBADF));
        let taken = get(pidfd, number, 0).unwrap();
        let flags = must(unsafe { libc::fcntl(taken, libc::F_GETFD) });
        assert_eq!(flags, i64::from(libc::FD_CLOEXEC));
        assert_eq!(read(taken, 64).unwrap(), b"from the child");
        close(open_gate);
        wait(child);
        assert_eq!(get(pidfd, number, 0), Err(libc::ESRCH));
    });
}

#[test]
fn clone_gives_a_pidfd_of_the_child() {
    isolated(|| {
        let mut pidfd = -1i32;
        let flags = (libc::CLONE_PIDFD | libc::SIGCHLD) as i64;
        let child = call(libc::SYS_clone, [flags, 0, &raw mut pidfd as i64, 0, 0, 0]).unwrap();
        if child == 0 {
            unsafe { libc::_exit(3) }
        }
        assert!(pidfd > 2);
        assert_eq!(wait_by(pidfd, libc::WEXITED).unwrap(), (child as i32, libc::CLD_EXITED, 3));
        let both = flags | i64::from(libc::CLONE_PARENT_SETTID);
        let refused = call(libc::SYS_clone, [both, 0, &raw mut pidfd as i64, 0, 0, 0]);
        assert_eq!(refused, Err(libc::EINVAL));
        // If its number cannot be stored, no child and no descriptor is made.
        let before = open("/dev/null", libc::O_RDONLY, 0).unwrap();
        close(before);
        assert_eq!(call(libc::SYS_clone, [flags, 0, 8, 0, 0, 0]), Err(libc::EFAULT));
        assert_eq!(open("/dev/null", libc::O_RDONLY, 0), Ok(before));
        assert_eq!(
            check(unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) }),
            Ok(child).and(Err(libc::ECHILD))
        );
    });
}

#[test]
fn a_pidfd_that_does_not_block_answers_eagain() {
    isolated(|| {
        let (child, gate) = held_child();
        let pidfd = pidfd_open(child, libc::O_NONBLOCK).unwrap();
        assert_eq!(wait_by(pidfd, libc::WEXITED), Err(libc::EAGAIN));
        assert_eq!(wait_by(pidfd, libc::WEXITED | libc::WNOHANG), Ok((0, 0, 0)));
        close(gate);
        poll(pidfd, libc::POLLIN, -1);
        assert_eq!(wait_by(pidfd, libc::WEXITED).unwrap().0, child);
        let other = pidfd_open(unsafe { libc::getppid() }, 0).unwrap();
        assert_eq!(wait_by(other, libc::WEXITED), Err(libc::ECHILD));
        let (reader, _writer) = pipe();
        assert_eq!(wait_by(reader, libc::WEXITED), Err(libc::EBADF));
        assert_eq!(wait_by(999, libc::WEXITED), Err(libc::EBADF));
    });
}

fn vector(place: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: place.len() }
}

fn move_memory(
    number: libc::c_long,
    id: i32,
    own: &[libc::iovec],
    their: &[libc::iovec],
    flags: i64,
) -> Result<i64, i32> {
    let (own_at, their_at) = (own.as_ptr() as i64, their.as_ptr() as i64);
    call(number, [id.into(), own_at, own.len() as i64, their_at, their.len() as i64, flags])
}

#[test]
fn memory_of_a_child_is_read_and_written() {
    isolated(|| {
        let mut place = vec![b'a'; 3 * 4096];
        let (told, tell) = pipe();
        let (gate, open_gate) = pipe();
        let at = vector(&mut place);
        let child = fork(|| {
            place.fill(b'b');
            write(tell, b"x").unwrap();
            read(gate, 1).unwrap();
            write(tell, &place[4090..4100]).unwrap();
        });
        read(told, 1).unwrap();
        let (mut first, mut second) = (vec![0; 5000], vec![0; 5000]);
        let own = [vector(&mut first), vector(&mut second)];
        let read_all = |their: &[libc::iovec], flags| {
            move_memory(libc::SYS_process_vm_readv, child, &own, their, flags)
        };
        assert_eq!(read_all(&[at], 0), Ok(10_000), "as much as there is room for");
        assert!(first.iter().chain(&second).all(|&byte| byte == b'b'));
        assert!(place.iter().all(|&byte| byte == b'a'), "it was the child's");
        assert_eq!(read_all(&[at], 1), Err(libc::EINVAL));
        let nowhere = libc::iovec { iov_base: 8 as *mut _, iov_len: 10 };
        assert_eq!(read_all(&[nowhere], 0), Err(libc::EFAULT));
        let part = libc::iovec { iov_len: 100, ..at };
        assert_eq!(read_all(&[part, nowhere], 0), Ok(100), "what came before counts");
        assert_eq!(read_all(&[], 0), Ok(0));
        let mut word = *b"written";
        let target = libc::iovec { iov_base: at.iov_base.wrapping_byte_add(4092), iov_len: 100 };
        let written =
            move_memory(libc::SYS_process_vm_writev, child, &[vector(&mut word)], &[target], 0);
        assert_eq!(written, Ok(7));
        write(open_gate, b"x").unwrap();
        assert_eq!(read(told, 10).unwrap(), b"bbwrittenb");
        wait(child);
        assert_eq!(read_all(&[at], 0), Err(libc::ESRCH));
    });
}

#[test]
fn another_users_process_is_closed_to_look_into() {
    isolated(|| {
        if unsafe { libc::getuid() } != 0 {
            return;
        }
        let (child, _gate) = held_child();
        let mut place = [0u8; 8];
        let own = [vector(&mut place)];
        identity::become_user(1000);
        let pidfd = pidfd_open(child, 0).unwrap();
        assert_eq!(send(pidfd, 0), Err(libc::EPERM));
        assert_eq!(get(pidfd, 0, 0), Err(libc::EPERM));
        let looked = move_memory(libc::SYS_process_vm_readv, child, &own, &own, 0);
        assert_eq!(looked, Err(libc::EPERM));
    });
}

#[test]
fn memory_is_a_file() {
    use std::os::unix::fs::FileExt;
    isolated(|| {
        let mut word = 7u64;
        let at = (&raw mut word).addr() as u64;
        let file = std::fs::File::options().read(true).write(true).open("/proc/self/mem").unwrap();
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, at).unwrap();
        assert_eq!(u64::from_ne_bytes(bytes), 7);
        file.write_all_at(&8u64.to_ne_bytes(), at).unwrap();
        // SAFETY: our own variable, that somebody else wrote.
        assert_eq!(unsafe { (&raw const word).read_volatile() }, 8);
        assert_eq!(file.read_at(&mut bytes, 0).unwrap_err().raw_os_error(), Some(libc::EIO));
    });
}
