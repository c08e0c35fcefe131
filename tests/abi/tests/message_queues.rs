//! POSIX message queues: mq_open and its relatives, and the file system `mqueue`.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{
    identity::{NOBODY, as_user},
    ipc::*,
    jobs::nothing,
    *,
};
use libc::{O_CREAT, O_EXCL, O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY};
use std::{fs, path::Path, ptr::null};

const SIGEV_SIGNAL: i32 = 0;
const SIGEV_NONE: i32 = 1;
const SIGEV_THREAD: i32 = 2;
const SI_MESGQ: i32 = -3;

/// Returns the wall clock's time this many milliseconds from now.
fn after(ms: i64) -> Option<libc::timespec> {
    let ns = clock_ns(libc::CLOCK_REALTIME) as i64 + ms * 1_000_000;
    Some(libc::timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 })
}

fn unlink(name: &str) {
    assert_eq!(mq_unlink(name), Ok(0));
}

fn must_end(child: i32) {
    assert_eq!(wait(child), Ended::Exited(0));
}

/// Returns the text that is read from an open queue.
fn text(fd: i32) -> String {
    let mut bytes = [0u8; 200];
    let count = must(unsafe { libc::pread(fd, bytes.as_mut_ptr().cast(), 200, 0) } as i64);
    String::from_utf8(bytes[..count as usize].to_vec()).unwrap()
}

/// Blocks `signal` and takes it if it comes within `ms`.
fn take_signal(signal: i32, ms: i64) -> Option<libc::siginfo_t> {
    let mut set: libc::sigset_t = unsafe { zeroed() };
    let mut info: libc::siginfo_t = unsafe { zeroed() };
    let time = libc::timespec { tv_sec: ms / 1000, tv_nsec: ms % 1000 * 1_000_000 };
    unsafe { libc::sigaddset(&mut set, signal) };
    must(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) });
    check(unsafe { libc::sigtimedwait(&set, &mut info, &time) }).ok().map(|_| info)
}

#[test]
fn a_queue_is_made_and_found_by_its_name() {
    alone(|| {
        let name = "found";
        assert_eq!(mq_open(name, O_RDWR, 0, None), Err(libc::ENOENT));
        let fd = mq_make(name, 3, 10);
        let flags = must(unsafe { libc::fcntl(fd, libc::F_GETFD) }) as i32;
        assert_eq!(flags, libc::FD_CLOEXEC, "always");
        assert_eq!(mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0o600, None), Err(libc::EEXIST));
        let other = mq_open(name, O_WRONLY | O_CREAT, 0, None).unwrap();
        assert_eq!(mq_send(other, b"hello", 1), Ok(0));
        assert_eq!(mq_receive(other, 10), Err(libc::EBADF), "it is not open to be read");
        assert_eq!(mq_receive(fd, 10), Ok((1, b"hello".to_vec())));
        let reader = mq_open(name, O_RDONLY, 0, None).unwrap();
        assert_eq!(mq_send(reader, b"x", 0), Err(libc::EBADF));
        assert_eq!(mq_open(name, 3, 0, None), Err(libc::EINVAL));
        unlink(name);
        assert_eq!(mq_unlink(name), Err(libc::ENOENT));
        assert_eq!(mq_open(name, O_RDWR, 0, None), Err(libc::ENOENT));
        assert_eq!(mq_send(fd, b"still", 0), Ok(0), "it lives while it is open");
        assert_eq!(mq_receive(reader, 10), Ok((0, b"still".to_vec())));
    });
}

#[test]
fn names_are_checked() {
    alone(|| {
        let flags = O_RDWR | O_CREAT;
        for name in ["/slash", "a/b", ".", ".."] {
            assert_eq!(mq_open(name, flags, 0o600, None), Err(libc::EACCES), "{name}");
            assert_eq!(mq_unlink(name), Err(libc::EACCES), "{name}");
        }
        assert_eq!(mq_open("", flags, 0o600, None), Err(libc::ENOENT));
        assert_eq!(mq_unlink(""), Err(libc::ENOENT));
        let long = "n".repeat(256);
        assert_eq!(mq_open(&long, flags, 0o600, None), Err(libc::ENAMETOOLONG));
        assert!(mq_open(&long[..255], flags, 0o600, None).is_ok());
        unlink(&long[..255]);
        let call = |name: usize, shape: usize| {
            check(unsafe { libc::syscall(libc::SYS_mq_open, name, flags, 0o600, shape) })
        };
        assert_eq!(call(8, 0), Err(libc::EFAULT));
        assert_eq!(call(c"x".as_ptr().addr(), 8), Err(libc::EFAULT));
    });
}

#[test]
fn messages_come_out_by_priority_and_then_in_their_order() {
    alone(|| {
        let fd = mq_make("priority", 6, 10);
        for (bytes, priority) in [("a", 1), ("b", 32_767), ("c", 1), ("d", 0), ("e", 7), ("", 7)] {
            assert_eq!(mq_send(fd, bytes.as_bytes(), priority), Ok(0));
        }
        let received: Vec<_> = (0..6).map(|_| mq_receive(fd, 10).unwrap()).collect();
        let wanted = [(32_767, "b"), (7, "e"), (7, ""), (1, "a"), (1, "c"), (0, "d")];
        assert_eq!(received, wanted.map(|(priority, text)| (priority, text.into())));
        unlink("priority");
    });
}

#[test]
fn arguments_of_messages_are_checked() {
    alone(|| {
        let fd = mq_make("arguments", 2, 8);
        assert_eq!(mq_send(fd, &[0; 9], 0), Err(libc::EMSGSIZE));
        assert_eq!(mq_send(fd, b"x", 32_768), Err(libc::EINVAL));
        assert_eq!(mq_receive(fd, 7), Err(libc::EMSGSIZE), "a buffer holds any message");
        let null = open("/dev/null", O_RDWR, 0).unwrap();
        for wrong in [-1, 999, null] {
            assert_eq!(mq_send(wrong, b"x", 0), Err(libc::EBADF));
            assert_eq!(mq_receive(wrong, 8), Err(libc::EBADF));
            assert_eq!(mq_attributes(wrong, None).err(), Some(libc::EBADF));
            assert_eq!(mq_forget(wrong), Err(libc::EBADF));
        }
        let odd = Some(libc::timespec { tv_sec: 0, tv_nsec: -1 });
        assert_eq!(mq_send_until(fd, b"x", 0, odd), Err(libc::EINVAL), "room or not");
        assert_eq!(mq_receive_until(fd, 8, odd), Err(libc::EINVAL));
        let at = |address: usize, until: usize| {
            let call = libc::SYS_mq_timedsend;
            check(unsafe { libc::syscall(call, fd, address, 1usize, 0usize, until) })
        };
        assert_eq!(at(8, 0), Err(libc::EFAULT));
        assert_eq!(at(8, 8), Err(libc::EFAULT));
        assert_eq!(write(fd, b"x"), Err(libc::EINVAL));
        unlink("arguments");
    });
}

#[test]
fn shapes_have_limits() {
    alone(|| {
        let make = |maxmsg: i64, msgsize: i64| {
            let shape = Some(Shape::new(maxmsg, msgsize));
            let made = mq_open("shape", O_RDWR | O_CREAT | O_EXCL, 0o600, shape);
            if let Ok(fd) = made {
                close(fd);
                unlink("shape");
            }
            made.map(drop)
        };
        for (maxmsg, msgsize) in [(0, 1), (1, 0), (-1, 1), (1, -1), (1, 1 << 40), (1 << 40, 1)] {
            assert_eq!(make(maxmsg, msgsize), Err(libc::EINVAL), "{maxmsg} {msgsize}");
        }
        assert_eq!(make(10, 8192), Ok(()));
        as_user(NOBODY, &[], || {
            assert_eq!(make(11, 1), Err(libc::EINVAL));
            assert_eq!(make(1, 8193), Err(libc::EINVAL));
        });
        let fd = mq_open("usual", O_RDWR | O_CREAT, 0o600, None).unwrap();
        let shape = mq_attributes(fd, None).unwrap();
        assert_eq!((shape.maxmsg, shape.msgsize, shape.curmsgs, shape.flags), (10, 8192, 0, 0));
        unlink("usual");
        let Some(_most) = Setting::set("fs/mqueue/msg_max", "12") else { return };
        let _bytes = Setting::set("fs/mqueue/msgsize_max", "9000").unwrap();
        let usual = Setting::set("fs/mqueue/msg_default", "4").unwrap();
        assert_eq!(usual.change("0"), Err(libc::EINVAL));
        let size = Setting::set("fs/mqueue/msgsize_default", "200").unwrap();
        assert_eq!((size.text(), size.change("127")), ("200\n".into(), Err(libc::EINVAL)));
        as_user(NOBODY, &[], || {
            assert_eq!(make(12, 9000), Ok(()));
            assert_eq!(make(13, 1), Err(libc::EINVAL));
        });
        let fd = mq_open("usual", O_RDWR | O_CREAT, 0o600, None).unwrap();
        let shape = mq_attributes(fd, None).unwrap();
        assert_eq!((shape.maxmsg, shape.msgsize), (4, 200));
        unlink("usual");
    });
}

#[test]
fn an_open_queue_waits_or_does_not() {
    alone(|| {
        let fd = mq_make("waits", 1, 8);
        assert_eq!(mq_attributes(fd, Some(O_NONBLOCK.into())).unwrap().flags, 0);
        assert_eq!(mq_receive(fd, 8), Err(libc::EAGAIN));
        assert_eq!(mq_send(fd, b"one", 0), Ok(0));
        assert_eq!(mq_send(fd, b"two", 0), Err(libc::EAGAIN));
        let shape = mq_attributes(fd, Some(0)).unwrap();
        assert_eq!((shape.flags, shape.curmsgs), (O_NONBLOCK.into(), 1));
        assert_eq!(mq_attributes(fd, None).unwrap().flags, 0);
        assert_eq!(mq_attributes(fd, Some(1)).err(), Some(libc::EINVAL));
        let other = mq_open("waits", O_RDWR | O_NONBLOCK, 0, None).unwrap();
        assert_eq!(mq_attributes(other, None).unwrap().flags, O_NONBLOCK.into());
        let flags = must(unsafe { libc::fcntl(other, libc::F_GETFL) }) as i32;
        assert_eq!(flags & (O_NONBLOCK | libc::O_ACCMODE), O_NONBLOCK | O_RDWR);
        unlink("waits");
    });
}

#[test]
fn a_time_of_the_wall_clock_ends_the_wait() {
    alone(|| {
        let fd = mq_make("timed", 1, 8);
        let start = clock_ns(libc::CLOCK_REALTIME);
        assert_eq!(mq_receive_until(fd, 8, after(30)), Err(libc::ETIMEDOUT));
        assert!(clock_ns(libc::CLOCK_REALTIME) - start >= 30_000_000);
        assert_eq!(mq_receive_until(fd, 8, after(-1000)), Err(libc::ETIMEDOUT));
        assert_eq!(mq_send_until(fd, b"one", 0, after(-1000)), Ok(0), "there is room");
        assert_eq!(mq_send_until(fd, b"two", 0, after(10)), Err(libc::ETIMEDOUT));
        assert_eq!(mq_receive_until(fd, 8, after(-1000)), Ok((0, b"one".to_vec())));
        assert_eq!(mq_attributes(fd, None).unwrap().curmsgs, 0, "the second one is not sent");
        unlink("timed");
    });
}

#[test]
fn a_receiver_sleeps_until_a_message_comes() {
    alone(|| {
        let fd = mq_make("receiver", 2, 8);
        let children: Vec<i32> = (0..2)
            .map(|number| {
                let child = fork(move || assert_eq!(mq_receive(fd, 8), Ok((number, vec![1; 3]))));
                until_asleep(child);
                child
            })
            .collect();
        for (priority, child) in (0..).zip(children) {
            assert_eq!(mq_send(fd, &[1; 3], priority), Ok(0));
            must_end(child);
        }
        assert_eq!(mq_attributes(fd, None).unwrap().curmsgs, 0);
        unlink("receiver");
    });
}

#[test]
fn a_sleeping_senders_message_comes_in_with_the_next_room() {
    alone(|| {
        let fd = mq_make("sender", 1, 8);
        assert_eq!(mq_send(fd, b"first", 5), Ok(0));
        let sender = |bytes: &'static [u8], priority: u32| {
            let child = fork(move || assert_eq!(mq_send(fd, bytes, priority), Ok(0)));
            until_asleep(child);
            child
        };
        let (one, other) = (sender(b"second", 0), sender(b"third", 9));
        assert_eq!(mq_receive(fd, 8), Ok((5, b"first".to_vec())));
        must_end(one);
        assert_eq!(mq_receive(fd, 8), Ok((0, b"second".to_vec())), "by the order of senders");
        must_end(other);
        assert_eq!(mq_receive(fd, 8), Ok((9, b"third".to_vec())));
        unlink("sender");
    });
}

#[test]
fn a_signal_ends_the_wait_or_restarts_it() {
    alone(|| {
        let fd = mq_make("signals", 1, 8);
        let child = fork(|| {
            handle(libc::SIGUSR1, nothing, 0);
            assert_eq!(mq_receive(fd, 8), Err(libc::EINTR));
        });
        until_asleep(child);
        must(unsafe { libc::kill(child, libc::SIGUSR1) });
        must_end(child);
        let child = fork(|| {
            handle(libc::SIGUSR1, nothing, libc::SA_RESTART);
            assert_eq!(mq_receive(fd, 8), Ok((3, b"then".to_vec())));
        });
        until_asleep(child);
        must(unsafe { libc::kill(child, libc::SIGUSR1) });
        assert_eq!(mq_send(fd, b"then", 3), Ok(0));
        must_end(child);
        unlink("signals");
    });
}

#[test]
fn a_process_is_notified_once_by_a_signal_with_its_value() {
    alone(|| {
        let fd = mq_make("notified", 3, 8);
        assert!(take_signal(libc::SIGUSR1, 0).is_none());
        assert_eq!(mq_notify(fd, SIGEV_SIGNAL, libc::SIGUSR1, 0x1234_5678_9abc), Ok(0));
        assert_eq!(mq_notify(fd, SIGEV_SIGNAL, libc::SIGUSR1, 0), Err(libc::EBUSY));
        let own = std::process::id();
        assert_eq!(
            text(fd),
            format!(
                "QSIZE:0          NOTIFY:0     SIGNO:{:<5} NOTIFY_PID:{own:<6}\n",
                libc::SIGUSR1
            )
        );
        let child = fork(|| assert_eq!(mq_send(fd, b"news", 0), Ok(0)));
        must_end(child);
        let info = take_signal(libc::SIGUSR1, 10_000).expect("a signal");
        assert_eq!((info.si_code, info.si_signo), (SI_MESGQ, libc::SIGUSR1));
        let (process, user, value) = unsafe { (info.si_pid(), info.si_uid(), info.si_value()) };
        assert_eq!((process, user, value.sival_ptr.addr()), (child, 0, 0x1234_5678_9abc));
        assert_eq!(text(fd), "QSIZE:4          NOTIFY:0     SIGNO:0     NOTIFY_PID:0     \n");
        mq_receive(fd, 8).unwrap();
        assert_eq!(mq_send(fd, b"more", 0), Ok(0));
        assert!(take_signal(libc::SIGUSR1, 0).is_none(), "once");
        unlink("notified");
    });
}

#[test]
fn a_process_is_notified_only_of_messages_that_come_into_an_empty_queue() {
    alone(|| {
        let fd = mq_make("empty", 3, 8);
        assert!(take_signal(libc::SIGUSR1, 0).is_none());
        assert_eq!(mq_send(fd, b"old", 0), Ok(0));
        assert_eq!(mq_notify(fd, SIGEV_SIGNAL, libc::SIGUSR1, 1), Ok(0));
        assert_eq!(mq_send(fd, b"second", 0), Ok(0));
        assert!(take_signal(libc::SIGUSR1, 0).is_none(), "it was not empty");
        for _ in 0..2 {
            mq_receive(fd, 8).unwrap();
        }
        let child = fork(|| {
            mq_receive(fd, 8).unwrap();
        });
        until_asleep(child);
        assert_eq!(mq_send(fd, b"taken", 0), Ok(0));
        must_end(child);
        assert!(take_signal(libc::SIGUSR1, 0).is_none(), "a receiver took it");
        assert_eq!(mq_send(fd, b"news", 0), Ok(0));
        assert!(take_signal(libc::SIGUSR1, 10_000).is_some());
        unlink("empty");
    });
}

#[test]
fn a_notification_is_taken_back_by_its_process_and_by_a_close() {
    alone(|| {
        let fd = mq_make("back", 3, 8);
        assert_eq!(mq_notify(fd, SIGEV_NONE, 0, 0), Ok(0));
        let own = std::process::id();
        let none = format!("QSIZE:0          NOTIFY:1     SIGNO:0     NOTIFY_PID:{own:<6}\n");
        assert_eq!(text(fd), none);
        let child = fork(|| {
            assert_eq!(mq_forget(fd), Ok(0), "another's stays");
            assert_eq!(mq_notify(fd, SIGEV_NONE, 0, 0), Err(libc::EBUSY));
        });
        must_end(child);
        assert_eq!(text(fd), none, "the child's end is no end of ours");
        assert_eq!(mq_forget(fd), Ok(0));
        assert_eq!(mq_notify(fd, SIGEV_NONE, 0, 0), Ok(0));
        close(must(unsafe { libc::dup(fd) }) as i32);
        assert!(text(fd).contains("NOTIFY_PID:0 "), "any descriptor's close");
        let child = fork(|| assert_eq!(mq_notify(fd, SIGEV_SIGNAL, libc::SIGTERM, 0), Ok(0)));
        must_end(child);
        assert_eq!(mq_notify(fd, SIGEV_NONE, 0, 0), Ok(0), "its end");
        unlink("back");
    });
}

#[test]
fn notifications_are_checked() {
    alone(|| {
        let fd = mq_make("checked", 3, 8);
        assert_eq!(mq_notify(fd, 7, 0, 0), Err(libc::EINVAL));
        assert_eq!(mq_notify(fd, SIGEV_SIGNAL, 65, 0), Err(libc::EINVAL));
        assert_eq!(mq_notify(fd, SIGEV_SIGNAL, -1, 0), Err(libc::EINVAL));
        assert_eq!(mq_notify(fd, SIGEV_THREAD, fd, 8), Err(libc::EFAULT), "the cookie");
        let cookie = [0u8; 32].as_ptr().addr();
        assert_eq!(mq_notify(fd, SIGEV_THREAD, 999, cookie), Err(libc::EBADF));
        assert_eq!(mq_notify(fd, SIGEV_THREAD, fd, cookie), Err(libc::ENOTSOCK));
        let socket = must(unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0) }) as i32;
        assert_eq!(mq_notify(fd, SIGEV_THREAD, socket, cookie), Err(libc::EINVAL));
        let at = check(unsafe { libc::syscall(libc::SYS_mq_notify, fd, 8usize) });
        assert_eq!(at, Err(libc::EFAULT));
        assert_eq!(mq_notify(fd, SIGEV_SIGNAL, 0, 0), Ok(0), "no signal at all");
        assert_eq!(mq_send(fd, b"x", 0), Ok(0));
        assert!(text(fd).contains("NOTIFY_PID:0 "));
        unlink("checked");
    });
}

#[test]
fn a_program_that_was_executed_is_not_notified() {
    alone(|| {
        let fd = mq_make("executed", 3, 8);
        let ((input, to), (from, output)) = (pipe(), pipe());
        let child = fork(|| {
            must(unsafe { libc::fcntl(fd, libc::F_SETFD, 0) });
            assert_eq!(mq_notify(fd, SIGEV_SIGNAL, libc::SIGTERM, 0), Ok(0));
            for (end, to) in [(input, 0), (output, 1)] {
                must(unsafe { libc::dup2(end, to) });
            }
            [input, to, from, output].into_iter().for_each(close);
            let cat = c"/bin/cat".as_ptr();
            unsafe { libc::execl(cat, cat, 0usize) };
        });
        close(output);
        assert_eq!(write(to, b"x"), Ok(1));
        assert_eq!(read(from, 1), Ok(b"x".to_vec()), "the other program runs");
        assert!(text(fd).contains(&format!("NOTIFY_PID:{child}")));
        assert_eq!(mq_send(fd, b"x", 0), Ok(0));
        assert!(text(fd).contains("NOTIFY_PID:0 "));
        close(to);
        must_end(child);
        unlink("executed");
    });
}

#[test]
fn queues_are_polled() {
    alone(|| {
        let fd = mq_make("polled", 1, 8);
        let poll = |ms: i32| {
            let mut one = libc::pollfd { fd, events: libc::POLLIN | libc::POLLOUT, revents: 0 };
            must(unsafe { libc::poll(&mut one, 1, ms) });
            one.revents
        };
        // A watch of epoll follows the same rules.
        let watch = must(unsafe { libc::epoll_create1(0) } as i64) as i32;
        let mut event = libc::epoll_event { events: libc::EPOLLOUT as u32, u64: 7 };
        must(unsafe { libc::epoll_ctl(watch, libc::EPOLL_CTL_ADD, fd, &mut event) } as i64);
        let mut found = libc::epoll_event { events: 0, u64: 0 };
        assert_eq!(unsafe { libc::epoll_wait(watch, &mut found, 1, 0) }, 1);
        assert_eq!(({ found.events }, { found.u64 }), (libc::EPOLLOUT as u32, 7));
        assert_eq!(poll(0), libc::POLLOUT);
        assert_eq!(mq_send(fd, b"x", 0), Ok(0));
        assert_eq!(poll(0), libc::POLLIN);
        let child = fork(|| {
            let mut one = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
            assert_eq!(unsafe { libc::poll(&mut one, 1, 20_000) }, 1);
        });
        until_asleep(child);
        mq_receive(fd, 8).unwrap();
        must_end(child);
        let child = fork(|| {
            let mut one = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            assert_eq!(unsafe { libc::poll(&mut one, 1, 20_000) }, 1);
        });
        until_asleep(child);
        assert_eq!(mq_send(fd, b"x", 0), Ok(0));
        must_end(child);
        unlink("polled");
    });
}

#[test]
fn a_users_queues_have_a_limit_together() {
    alone(|| {
        as_user(4242, &[], || {
            let make = |name: &str| {
                let shape = Some(Shape::new(2, 100));
                mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0o600, shape)
            };
            // This is 200 for the messages, and 96 for the bookkeeping of each.
            let limit = libc::rlimit { rlim_cur: 800, rlim_max: 800 };
            must(unsafe { libc::setrlimit(libc::RLIMIT_MSGQUEUE, &limit) });
            let first = make("limit-1").unwrap();
            let second = make("limit-2").unwrap();
            assert_eq!(make("limit-3"), Err(libc::EMFILE));
            assert_eq!(mq_open("limit-3", O_RDWR, 0, None), Err(libc::ENOENT), "nothing was made");
            unlink("limit-1");
            assert_eq!(make("limit-3"), Err(libc::EMFILE), "it is open");
            close(first);
            let third = make("limit-3").unwrap();
            [second, third].into_iter().for_each(close);
            unlink("limit-2");
            unlink("limit-3");
        });
    });
}

#[test]
fn there_are_only_so_many_queues() {
    alone(|| {
        let Some(setting) = Setting::set("fs/mqueue/queues_max", "0") else { return };
        as_user(NOBODY, &[], || {
            let refused = mq_open("many", O_RDWR | O_CREAT, 0o600, None);
            assert_eq!(refused, Err(libc::ENOSPC));
        });
        assert_eq!(setting.text(), "0\n");
        let made = mq_open("many", O_RDWR | O_CREAT, 0o600, None);
        match may_pass_limits() {
            true => unlink("many"),
            false => assert_eq!(made, Err(libc::ENOSPC)),
        }
    });
}

#[test]
fn permissions_are_those_of_a_file() {
    alone(|| {
        let before = unsafe { libc::umask(0o027) };
        let fd = mq_open("rights", O_RDWR | O_CREAT, 0o666, None).unwrap();
        unsafe { libc::umask(before) };
        let mut found: libc::stat = unsafe { zeroed() };
        must(unsafe { libc::fstat(fd, &mut found) });
        assert_eq!((found.st_mode, found.st_size, found.st_nlink), (0o100_640, 80, 1));
        as_user(NOBODY, &[], || {
            assert_eq!(mq_open("rights", O_RDONLY, 0, None), Err(libc::EACCES));
            assert_eq!(mq_unlink("rights"), Err(libc::EPERM), "the directory is sticky");
        });
        as_user(NOBODY, &[0], || {
            assert!(mq_open("rights", O_RDONLY, 0, None).is_ok());
            assert_eq!(mq_open("rights", O_RDWR, 0, None), Err(libc::EACCES));
        });
        must(unsafe { libc::fchmod(fd, 0o602) });
        must(unsafe { libc::fchown(fd, NOBODY, 7) });
        as_user(NOBODY, &[], || {
            assert!(mq_open("rights", O_RDWR, 0, None).is_ok(), "the owner");
            unlink("rights");
        });
        must(unsafe { libc::fstat(fd, &mut found) });
        assert_eq!((found.st_mode, found.st_nlink, found.st_uid), (0o100_602, 0, NOBODY));
    });
}

/// Runs `body` with a folder at which the queues are mounted.
fn mounted(body: impl FnOnce(&Path)) {
    alone(|| {
        let scratch = Scratch::new();
        let at = scratch.path("queues");
        fs::create_dir(&at).unwrap();
        // On Linux, the mount must be private.
        if unsafe { libc::unshare(libc::CLONE_NEWNS) } == 0 {
            let private = libc::MS_REC | libc::MS_PRIVATE;
            unsafe { libc::mount(null(), c"/".as_ptr(), null(), private, null()) };
        }
        let (none, to, kind) = (c"none".as_ptr(), c(&at), c"mqueue".as_ptr());
        if check(unsafe { libc::mount(none, to.as_ptr(), kind, 0, null()) }) == Err(libc::EPERM) {
            return eprintln!("mounting is not allowed: nothing was tested");
        }
        body(&at);
        must(unsafe { libc::umount2(to.as_ptr(), libc::MNT_DETACH) });
    });
}

#[test]
fn queues_are_files_where_they_are_mounted() {
    mounted(|at| {
        let found = stat(at).unwrap();
        assert_eq!(found.st_mode, 0o041_777);
        let fd = mq_make("seen", 3, 8);
        assert_eq!(mq_send(fd, b"12345", 0), Ok(0));
        let names: Vec<_> =
            fs::read_dir(at).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(names.contains(&"seen".into()), "{names:?}");
        let text = fs::read_to_string(at.join("seen")).unwrap();
        assert_eq!(text, "QSIZE:5          NOTIFY:0     SIGNO:0     NOTIFY_PID:0     \n");
        let opened = open(at.join("seen"), O_RDWR, 0).unwrap();
        assert_eq!(mq_receive(opened, 8), Ok((0, b"12345".to_vec())), "it is the queue");
        let made = open(at.join("made"), O_RDWR | O_CREAT | O_EXCL, 0o640).unwrap();
        assert_eq!(mq_attributes(made, None).unwrap().maxmsg, 10);
        assert_eq!(open(at.join("made"), O_RDWR | O_CREAT | O_EXCL, 0o640), Err(libc::EEXIST));
        assert!(mq_open("made", O_RDWR, 0, None).is_ok());
        fs::remove_file(at.join("made")).unwrap();
        assert_eq!(mq_unlink("made"), Err(libc::ENOENT));
        unlink("seen");
        assert_eq!(open(at.join("seen"), O_RDONLY, 0), Err(libc::ENOENT));
    });
}

#[test]
fn the_file_system_of_queues_holds_nothing_else() {
    mounted(|at| {
        let error = |result: std::io::Result<()>| result.unwrap_err().raw_os_error();
        mq_make("only", 1, 1);
        assert_eq!(error(fs::create_dir(at.join("folder"))), Some(libc::EPERM));
        assert_eq!(error(fs::create_dir(at.join("only"))), Some(libc::EEXIST));
        assert_eq!(error(fs::rename(at.join("only"), at.join("other"))), Some(libc::EPERM));
        assert_eq!(error(fs::hard_link(at.join("only"), at.join("other"))), Some(libc::EPERM));
        let link = std::os::unix::fs::symlink("target", at.join("link"));
        assert_eq!(error(link), Some(libc::EPERM));
        assert_eq!(error(fs::remove_file(at.join("none"))), Some(libc::ENOENT));
        let mut usage: libc::statfs = unsafe { zeroed() };
        must(unsafe { libc::statfs(c(at).as_ptr(), &mut usage) });
        assert_eq!(usage.f_type as u64, 0x1980_0202);
        let types = fs::read_to_string("/proc/filesystems").unwrap();
        assert!(types.contains("nodev\tmqueue\n"), "{types}");
        unlink("only");
    });
}
