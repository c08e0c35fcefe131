//! System V messages: msgget, msgsnd, msgrcv, msgctl.
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
use libc::{IPC_CREAT, IPC_EXCL, IPC_NOWAIT, IPC_PRIVATE, IPC_SET};
use std::{
    fs,
    ptr::{null, null_mut},
};

const MSG_NOERROR: i32 = 0o10000;
const MSG_EXCEPT: i32 = 0o20000;
const MSG_COPY: i32 = 0o40000;
const MSG_STAT: i32 = 11;
const MSG_INFO: i32 = 12;
const MSG_STAT_ANY: i32 = 13;

fn queue() -> i32 {
    msgget(IPC_PRIVATE, OWN).unwrap()
}

fn remove(id: i32) {
    assert_eq!(msg_remove(id), Ok(0));
}

/// Sends a byte of type `kind`.
fn send_byte(id: i32, kind: i64, byte: u8) {
    assert_eq!(msgsnd(id, kind, &[byte], 0), Ok(0));
}

/// Receives an available message. Returns its type and first byte.
fn take(id: i32, kind: i64, flags: i32) -> Result<(i64, u8), i32> {
    msgrcv(id, 100, kind, flags | IPC_NOWAIT).map(|(kind, bytes)| (kind, bytes[0]))
}

/// Sets the number of bytes that the queue holds.
fn set_bytes(id: i32, bytes: u64) -> Result<i64, i32> {
    let mut status = msg_status(id).unwrap();
    status.msg_qbytes = bytes;
    msg_with(id, IPC_SET, &raw mut status)
}

fn must_end(child: i32) {
    assert_eq!(wait(child), Ended::Exited(0));
}

#[test]
fn a_key_finds_its_queue() {
    alone(|| {
        let key = key(1);
        assert_eq!(msgget(key, OWN), Err(libc::ENOENT));
        let id = msgget(key, IPC_CREAT | OWN).unwrap();
        assert_eq!(msgget(key, IPC_CREAT | OWN), Ok(id));
        assert_eq!(msgget(key, IPC_CREAT | IPC_EXCL | OWN), Err(libc::EEXIST));
        let private = queue();
        assert_ne!(private, id);
        [id, private].into_iter().for_each(remove);
        assert_eq!(msgget(key, 0), Err(libc::ENOENT));
        assert_eq!(msg_remove(id), Err(libc::EINVAL));
    });
}

#[test]
fn messages_come_out_in_the_order_in_which_they_were_sent() {
    alone(|| {
        let id = queue();
        assert_eq!(msgsnd(id, 5, b"first", 0), Ok(0));
        assert_eq!(msgsnd(id, i64::MAX, b"", 0), Ok(0));
        assert_eq!(msgsnd(id, 1, &[7; 5000], 0), Ok(0));
        assert_eq!(msgrcv(id, 100, 0, 0), Ok((5, b"first".to_vec())));
        assert_eq!(msgrcv(id, 0, 0, 0), Ok((i64::MAX, Vec::new())));
        assert_eq!(msgrcv(id, 5000, 0, 0), Ok((1, vec![7; 5000])));
        assert_eq!(msgrcv(id, 100, 0, IPC_NOWAIT), Err(libc::ENOMSG));
        remove(id);
    });
}

#[test]
fn arguments_are_checked() {
    alone(|| {
        let id = queue();
        for kind in [0, -1, i64::MIN] {
            assert_eq!(msgsnd(id, kind, b"x", 0), Err(libc::EINVAL));
        }
        assert_eq!(msgsnd(-1, 1, b"x", 0), Err(libc::EINVAL));
        assert_eq!(msgsnd(id + 1, 1, b"x", 0), Err(libc::EINVAL));
        assert_eq!(msgsnd(id, 1, &[0; 8193], 0), Err(libc::EINVAL));
        let raw = |call: i64, address: usize, length: usize| {
            check(unsafe { libc::syscall(call, id, address, length, 0i64, 0i64) })
        };
        assert_eq!(raw(libc::SYS_msgsnd, 8, 9000), Err(libc::EFAULT), "the type is read first");
        let message = 1i64;
        let at = (&raw const message).addr();
        assert_eq!(raw(libc::SYS_msgsnd, at, usize::MAX), Err(libc::EINVAL));
        assert_eq!(raw(libc::SYS_msgrcv, at, usize::MAX), Err(libc::EINVAL));
        assert_eq!(msgrcv(-1, 1, 0, 0), Err(libc::EINVAL));
        assert_eq!(msg_with(id, 99, null_mut::<u8>()), Err(libc::EINVAL));
        assert_eq!(msg_with(id, -1, null_mut::<u8>()), Err(libc::EINVAL));
        send_byte(id, 1, 1);
        assert_eq!(raw(libc::SYS_msgrcv, 8, 100), Err(libc::EFAULT));
        assert_eq!(take(id, 0, 0), Err(libc::ENOMSG), "the message is lost");
        remove(id);
    });
}

#[test]
fn a_type_chooses_the_message() {
    alone(|| {
        let id = queue();
        for (byte, kind) in [4, 2, 9, 2, 1].into_iter().enumerate() {
            send_byte(id, kind, byte as u8);
        }
        assert_eq!(take(id, 3, 0), Err(libc::ENOMSG));
        assert_eq!(take(id, 9, 0), Ok((9, 2)));
        assert_eq!(take(id, 2, 0), Ok((2, 1)), "the first of them");
        assert_eq!(take(id, 4, MSG_EXCEPT), Ok((2, 3)), "the first of the others");
        assert_eq!(take(id, 0, MSG_EXCEPT), Ok((4, 0)), "any");
        assert_eq!(take(id, 1, MSG_EXCEPT), Err(libc::ENOMSG));
        remove(id);
    });
}

#[test]
fn a_negative_type_takes_the_lowest() {
    alone(|| {
        let id = queue();
        for (byte, kind) in [7, 3, 5, 3].into_iter().enumerate() {
            send_byte(id, kind, byte as u8);
        }
        assert_eq!(take(id, -2, 0), Err(libc::ENOMSG));
        assert_eq!(take(id, -6, 0), Ok((3, 1)));
        assert_eq!(take(id, -3, MSG_EXCEPT), Ok((3, 3)), "MSG_EXCEPT says nothing here");
        assert_eq!(take(id, i64::MIN, 0), Ok((5, 2)));
        assert_eq!(take(id, -7, 0), Ok((7, 0)));
        remove(id);
    });
}

#[test]
fn a_long_message_is_refused_or_cut() {
    alone(|| {
        let id = queue();
        assert_eq!(msgsnd(id, 1, b"0123456789", 0), Ok(0));
        assert_eq!(msgrcv(id, 9, 0, 0), Err(libc::E2BIG));
        assert_eq!(msg_status(id).unwrap().msg_qnum, 1, "it stays");
        assert_eq!(msgrcv(id, 4, 0, MSG_NOERROR), Ok((1, b"0123".to_vec())));
        assert_eq!(msg_status(id).unwrap().msg_cbytes, 0);
        remove(id);
    });
}

#[test]
fn a_message_can_be_copied_by_its_place() {
    alone(|| {
        let id = queue();
        send_byte(id, 5, 50);
        send_byte(id, 6, 60);
        let copy = MSG_COPY | IPC_NOWAIT;
        assert_eq!(msgrcv(id, 9, 0, MSG_COPY), Err(libc::EINVAL));
        assert_eq!(msgrcv(id, 9, 0, copy | MSG_EXCEPT), Err(libc::EINVAL));
        let found = msgrcv(id, 9, 1, copy);
        // Linux may have been built without this call.
        if found != Err(libc::ENOSYS) {
            assert_eq!(found, Ok((6, vec![60])));
            assert_eq!(msgrcv(id, 9, 0, copy), Ok((5, vec![50])));
            assert_eq!(msgrcv(id, 9, 2, copy), Err(libc::ENOMSG));
            assert_eq!(msgrcv(id, 0, 0, copy), Err(libc::E2BIG));
            assert_eq!(msgrcv(id, 0, 0, copy | MSG_NOERROR), Err(libc::EINVAL), "none is cut");
        }
        assert_eq!(msg_status(id).unwrap().msg_qnum, 2);
        remove(id);
    });
}

#[test]
fn a_receiver_sleeps_until_its_message_comes() {
    alone(|| {
        let id = queue();
        let child = fork(|| {
            assert_eq!(msgrcv(id, 9, 3, 0), Ok((3, b"three".to_vec())));
            assert_eq!(take(id, 0, 0), Ok((1, 1)));
        });
        until_asleep(child);
        send_byte(id, 1, 1);
        assert_eq!(msgsnd(id, 3, b"three", 0), Ok(0));
        must_end(child);
        let status = msg_status(id).unwrap();
        assert_eq!((status.msg_qnum, status.msg_lrpid), (0, child));
        remove(id);
    });
}

#[test]
fn receivers_are_served_in_their_order_and_as_they_ask() {
    alone(|| {
        let id = queue();
        let receiver = |kind: i64, room: usize, wanted: Result<(i64, Vec<u8>), i32>| {
            let child = fork(|| assert_eq!(msgrcv(id, room, kind, 0), wanted));
            until_asleep(child);
            child
        };
        let all = [
            receiver(7, 9, Ok((7, b"seven".to_vec()))),
            receiver(-4, 2, Err(libc::E2BIG)),
            receiver(0, 9, Ok((4, b"four".to_vec()))),
            receiver(0, 9, Ok((5, b"five".to_vec()))),
        ];
        assert_eq!(msgsnd(id, 4, b"four", 0), Ok(0));
        assert_eq!(msgsnd(id, 5, b"five", 0), Ok(0));
        assert_eq!(msgsnd(id, 7, b"seven", 0), Ok(0));
        all.into_iter().for_each(must_end);
        assert_eq!(msg_status(id).unwrap().msg_qnum, 0);
        remove(id);
    });
}

#[test]
fn a_sender_sleeps_until_there_is_room() {
    alone(|| {
        let id = queue();
        assert_eq!(set_bytes(id, 10), Ok(0));
        assert_eq!(msgsnd(id, 1, &[0; 8], 0), Ok(0));
        assert_eq!(msgsnd(id, 1, &[0; 3], IPC_NOWAIT), Err(libc::EAGAIN));
        let child = fork(|| assert_eq!(msgsnd(id, 2, &[1; 3], 0), Ok(0)));
        until_asleep(child);
        assert_eq!(msgsnd(id, 3, &[2; 2], IPC_NOWAIT), Ok(0), "a smaller one passes it");
        assert_eq!(msgrcv(id, 9, 1, 0).map(|(kind, _)| kind), Ok(1));
        must_end(child);
        assert_eq!(msg_status(id).unwrap().msg_cbytes, 5);
        assert_eq!(take(id, 2, 0), Ok((2, 1)));
        remove(id);
    });
}

#[test]
fn empty_messages_have_their_limit() {
    alone(|| {
        let id = queue();
        assert_eq!(set_bytes(id, 3), Ok(0));
        for _ in 0..3 {
            assert_eq!(msgsnd(id, 1, b"", IPC_NOWAIT), Ok(0));
        }
        assert_eq!(msgsnd(id, 1, b"", IPC_NOWAIT), Err(libc::EAGAIN));
        remove(id);
    });
}

#[test]
fn a_larger_queue_lets_senders_go_on() {
    alone(|| {
        let id = queue();
        assert_eq!(set_bytes(id, 4), Ok(0));
        send_byte(id, 1, 1);
        let child = fork(|| assert_eq!(msgsnd(id, 2, &[0; 6], 0), Ok(0)));
        until_asleep(child);
        assert_eq!(set_bytes(id, 7), Ok(0));
        must_end(child);
        assert_eq!(msg_status(id).unwrap().msg_qnum, 2);
        remove(id);
    });
}

#[test]
fn removal_wakes_receivers_and_senders() {
    alone(|| {
        let (empty, full) = (queue(), queue());
        assert_eq!(set_bytes(full, 1), Ok(0));
        send_byte(full, 1, 1);
        let receiver = fork(|| assert_eq!(msgrcv(empty, 9, 0, 0), Err(libc::EIDRM)));
        let sender = fork(|| assert_eq!(msgsnd(full, 1, b"x", 0), Err(libc::EIDRM)));
        [receiver, sender].into_iter().for_each(until_asleep);
        [empty, full].into_iter().for_each(remove);
        [receiver, sender].into_iter().for_each(must_end);
    });
}

#[test]
fn a_handled_signal_ends_the_wait_and_another_does_not() {
    alone(|| {
        let (empty, full) = (queue(), queue());
        assert_eq!(set_bytes(full, 1), Ok(0));
        send_byte(full, 1, 1);
        let handling = |body: &dyn Fn() -> i32| {
            let child = fork(|| {
                handle(libc::SIGUSR1, nothing, libc::SA_RESTART);
                assert_eq!(body(), libc::EINTR);
            });
            until_asleep(child);
            must(unsafe { libc::kill(child, libc::SIGUSR1) });
            must_end(child);
        };
        handling(&|| msgrcv(empty, 9, 0, 0).unwrap_err());
        handling(&|| msgsnd(full, 1, b"x", 0).unwrap_err());
        let child = fork(|| assert_eq!(msgrcv(empty, 9, 0, 0), Ok((1, vec![9]))));
        until_asleep(child);
        must(unsafe { libc::kill(child, libc::SIGSTOP) });
        assert_eq!(jobs::stopped_by(child), libc::SIGSTOP);
        must(unsafe { libc::kill(child, libc::SIGCONT) });
        until_asleep(child);
        send_byte(empty, 1, 9);
        must_end(child);
        [empty, full].into_iter().for_each(remove);
    });
}

#[test]
fn permissions_are_checked_when_a_call_goes_on() {
    alone(|| {
        let key = key(2);
        let id = msgget(key, IPC_CREAT | 0o602).unwrap();
        as_user(NOBODY, &[], || {
            assert_eq!(msgget(key, 0o400), Err(libc::EACCES));
            assert_eq!(msgget(key, 0o200), Ok(id));
            assert_eq!(msgsnd(id, 1, b"x", 0), Ok(0));
            assert_eq!(msgrcv(id, 9, 0, 0), Err(libc::EACCES));
            assert_eq!(msg_status(id).err(), Some(libc::EACCES));
            assert_eq!(msg_remove(id), Err(libc::EPERM));
        });
        let mut status = msg_status(id).unwrap();
        status.msg_perm.mode = 0o604;
        assert_eq!(msg_with(id, IPC_SET, &raw mut status), Ok(0));
        assert_eq!(take(id, 0, 0), Ok((1, b'x')));
        let (reader, writer) = pipe();
        let child = fork(|| {
            as_user(NOBODY, &[], || {
                let own = unsafe { libc::getpid() };
                write(writer, &own.to_ne_bytes()).unwrap();
                assert_eq!(msgrcv(id, 9, 0, 0), Err(libc::EACCES));
            });
        });
        let sleeper = i32::from_ne_bytes(read(reader, 4).unwrap().try_into().unwrap());
        until_asleep(sleeper);
        status.msg_perm.mode = 0o600;
        assert_eq!(msg_with(id, IPC_SET, &raw mut status), Ok(0));
        must_end(child);
        remove(id);
    });
}

#[test]
fn few_may_make_a_queue_larger_than_the_limit() {
    alone(|| {
        let id = msgget(IPC_PRIVATE, 0o666).unwrap();
        let mut status = msg_status(id).unwrap();
        let usual = status.msg_qbytes;
        (status.msg_perm.uid, status.msg_qbytes) = (NOBODY, usual);
        assert_eq!(msg_with(id, IPC_SET, &raw mut status), Ok(0));
        // Root in a container may lack CAP_SYS_RESOURCE.
        let allowed = if may_pass_limits() { Ok(0) } else { Err(libc::EPERM) };
        assert_eq!(set_bytes(id, usual + 1), allowed);
        as_user(NOBODY, &[], || {
            assert_eq!(set_bytes(id, usual + 1), Err(libc::EPERM));
            assert_eq!(set_bytes(id, usual), Ok(0));
        });
        status.msg_perm.gid = u32::MAX;
        assert_eq!(msg_with(id, IPC_SET, &raw mut status), Err(libc::EINVAL));
        assert_eq!(msg_with(id, IPC_SET, null_mut::<u8>()), Err(libc::EFAULT));
        remove(id);
    });
}

#[test]
fn the_status_tells_who_did_what_and_when() {
    alone(|| {
        // Linux uses the seconds of its last tick.
        let start = unsafe { libc::time(null_mut()) } - 1;
        let id = msgget(key(3), IPC_CREAT | 0o640).unwrap();
        let status = msg_status(id).unwrap();
        assert_eq!((status.msg_stime, status.msg_rtime), (0, 0));
        assert_eq!((status.msg_lspid, status.msg_lrpid, status.msg_qbytes), (0, 0, 16384));
        assert_eq!((key_of(&status.msg_perm), status.msg_perm.mode), (key(3), 0o640));
        let sender = fork(|| send_byte(id, 1, 2));
        must_end(sender);
        let receiver = fork(|| {
            let status = msg_status(id).unwrap();
            assert_eq!((status.msg_qnum, status.msg_cbytes), (1, 1));
            assert_eq!(take(id, 0, 0), Ok((1, 2)));
        });
        must_end(receiver);
        let status = msg_status(id).unwrap();
        assert_eq!((status.msg_lspid, status.msg_lrpid), (sender, receiver));
        assert!(status.msg_stime >= start && status.msg_rtime >= status.msg_stime);
        assert!(status.msg_ctime >= start);
        let (index, mut found) = (id & 0x7fff, status);
        assert_eq!(msg_with(index, MSG_STAT, &raw mut found), Ok(id.into()));
        assert_eq!(found.msg_lspid, sender);
        as_user(NOBODY, &[], || {
            let mut found = status;
            assert_eq!(msg_with(index, MSG_STAT, &raw mut found), Err(libc::EACCES));
            assert_eq!(msg_with(index, MSG_STAT_ANY, &raw mut found), Ok(id.into()));
        });
        remove(id);
    });
}

#[test]
fn limits_are_told_and_hold() {
    alone(|| {
        let id = queue();
        let number = |name: &str| -> i32 {
            let text = fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap();
            text.trim().parse().unwrap()
        };
        let mut info = [0i32; 8];
        let highest = msg_with(0, libc::IPC_INFO, info.as_mut_ptr()).unwrap();
        assert!(highest >= i64::from(id & 0x7fff));
        let [pool, map, longest, bytes, count, size, headers, segments] = info;
        assert_eq!((longest, bytes, count), (number("msgmax"), number("msgmnb"), number("msgmni")));
        assert_eq!((pool, map, size, headers, segments), (512_000, 16384, 16, 16384, 0xffff));
        send_byte(id, 1, 1);
        let mut sums = [0i32; 8];
        assert_eq!(msg_with(0, MSG_INFO, sums.as_mut_ptr()), Ok(highest));
        assert!(sums[0] >= 1 && sums[1] >= 1 && sums[6] >= 1, "{sums:?}");
        let used = sums[0];
        let Some(setting) = Setting::set("kernel/msgmni", &format!("{}", used + 1)) else { return };
        let last = queue();
        assert_eq!(msgget(IPC_PRIVATE, OWN), Err(libc::ENOSPC));
        drop(setting);
        let setting = Setting::set("kernel/msgmax", "5").unwrap();
        assert_eq!(msgsnd(id, 1, b"sixsix", 0), Err(libc::EINVAL));
        drop(setting);
        let setting = Setting::set("kernel/msgmnb", "7").unwrap();
        let small = queue();
        assert_eq!(msg_status(small).unwrap().msg_qbytes, 7);
        assert_eq!(setting.text(), "7\n");
        assert_eq!(setting.change("-1"), Err(libc::EINVAL));
        [id, last, small].into_iter().for_each(remove);
    });
}

#[test]
fn proc_lists_queues() {
    alone(|| {
        let id = msgget(key(4), IPC_CREAT | 0o640).unwrap();
        send_byte(id, 1, 1);
        assert_eq!(msgsnd(id, 1, b"more", 0), Ok(0));
        let status = msg_status(id).unwrap();
        let text = fs::read_to_string("/proc/sysvipc/msg").unwrap();
        let mut lines = text.lines();
        assert_eq!(
            lines.next().unwrap(),
            "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      \
             stime      rtime      ctime"
        );
        let wanted = format!(
            "{:>10} {id:>10}   640  {:>10} {:>10} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5} {:>10} {:>10} {:>10}",
            key(4),
            5,
            2,
            status.msg_lspid,
            0,
            0,
            0,
            0,
            0,
            status.msg_stime,
            0,
            status.msg_ctime
        );
        assert_eq!(lines.find(|line| line.contains(&id.to_string())).unwrap(), wanted);
        remove(id);
    });
}

#[test]
fn many_messages_of_many_senders_all_arrive() {
    alone(|| {
        const EACH: u32 = 500;
        let id = queue();
        assert_eq!(set_bytes(id, 64), Ok(0));
        let senders: Vec<i32> = (1..4)
            .map(|kind: i64| {
                fork(move || {
                    for number in 0..EACH {
                        assert_eq!(msgsnd(id, kind, &number.to_ne_bytes(), 0), Ok(0));
                    }
                })
            })
            .collect();
        let receiver = fork(|| {
            for number in 0..EACH {
                assert_eq!(msgrcv(id, 4, 2, 0), Ok((2, number.to_ne_bytes().to_vec())));
            }
        });
        let mut next = [0u32; 4];
        for _ in 0..2 * EACH {
            let (kind, bytes) = msgrcv(id, 4, 2, MSG_EXCEPT).unwrap();
            let number = u32::from_ne_bytes(bytes.try_into().unwrap());
            assert_eq!(number, next[kind as usize], "in the order of their sender");
            next[kind as usize] += 1;
        }
        senders.into_iter().chain([receiver]).for_each(must_end);
        assert_eq!(msgsnd(id, 1, &[0; 65], IPC_NOWAIT), Err(libc::EAGAIN), "it never fits");
        let nothing = check(unsafe { libc::msgsnd(id, null(), 0, 0) });
        assert_eq!(nothing, Err(libc::EFAULT));
        remove(id);
    });
}
