//! Sockets: connecting, accepting, and messages with every flag.
use super::{
    Cases,
    setting::{at, made, name, raw, room, sockets as pair, tick},
};
use crate::must;

/// Returns an address in the file system for this process alone, and its length.
fn address(what: &str) -> ([u8; 110], i64) {
    let mut address = [0u8; 110];
    address[0] = libc::AF_UNIX as u8;
    let name = name(what);
    let bytes = name.as_bytes();
    address[2..2 + bytes.len()].copy_from_slice(bytes);
    (address, 3 + bytes.len() as i64)
}

fn listener(kind: i32) -> i64 {
    let fd = must(raw(libc::SYS_socket, [libc::AF_UNIX.into(), kind.into(), 0, 0, 0, 0]));
    let (address, bytes) = address("listener");
    raw(libc::SYS_unlink, [name("listener").as_ptr() as i64, 0, 0, 0, 0, 0]);
    must(raw(libc::SYS_bind, [fd, at(&address), bytes, 0, 0, 0]));
    raw(libc::SYS_listen, [fd, 1, 0, 0, 0, 0]);
    fd
}

/// Returns a message of one part.
fn message(part: &[i64; 2]) -> libc::msghdr {
    // SAFETY: plain numbers and null pointers.
    let mut message: libc::msghdr = unsafe { crate::zeroed() };
    message.msg_iov = std::ptr::from_ref(part).cast_mut().cast();
    message.msg_iovlen = 1;
    message
}

const TYPES: [(&str, i32); 3] = [
    ("stream", libc::SOCK_STREAM),
    ("datagram", libc::SOCK_DGRAM),
    ("seqpacket", libc::SOCK_SEQPACKET),
];

/// States of a socket before the call.
const STATES: [&str; 4] = ["empty", "full", "peer closed", "shut down"];

fn prepared(kind: i32, state: &str) -> i64 {
    let [mine, other] = pair(kind);
    match state {
        "full" => drop(crate::write(other, b"some bytes")),
        "peer closed" => crate::close(other),
        "shut down" => drop(raw(libc::SYS_shutdown, [mine.into(), 2, 0, 0, 0, 0])),
        _ => {}
    }
    mine.into()
}

/// accept, connect, send and receive, and calls of IPC that name nothing.
pub fn sockets(cases: &mut Cases) {
    for (of, kind) in TYPES {
        messages(cases, of, kind);
        connections(cases, of, kind);
        for how in 0..4 {
            cases.add(format!("shutdown({of}, {how})"), move || {
                made(libc::SYS_shutdown, [prepared(kind, "full"), how, 0, 0, 0, 0])
            });
        }
    }
    nameless(cases);
}

/// Sending and receiving, in every state and with every flag.
fn messages(cases: &mut Cases, of: &str, kind: i32) {
    for state in STATES {
        for flags in std::iter::once(0).chain((0..31).map(|bit| 1 << bit)) {
            cases.add(format!("recvfrom({of}, {state}, {flags:#x})"), move || {
                let fd = prepared(kind, state);
                tick();
                made(libc::SYS_recvfrom, [fd, room(&mut [0u8; 64]), 64, flags, 0, 0])
            });
            cases.add(format!("sendto({of}, {state}, {flags:#x})"), move || {
                let fd = prepared(kind, state);
                let flags = flags | i64::from(libc::MSG_NOSIGNAL);
                tick();
                made(libc::SYS_sendto, [fd, at(&[0u8; 64]), 64, flags, 0, 0])
            });
            cases.add(format!("recvmsg({of}, {state}, {flags:#x})"), move || {
                let fd = prepared(kind, state);
                let room = [0u8; 64];
                let part = [at(&room), 64];
                tick();
                made(libc::SYS_recvmsg, [fd, at(&message(&part)), flags, 0, 0, 0])
            });
        }
    }
}

/// Accepting with and without a caller, and connecting to a listener that has room or none.
fn connections(cases: &mut Cases, of: &str, kind: i32) {
    const BOTH: i32 = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    for flags in [0, libc::SOCK_NONBLOCK, libc::SOCK_CLOEXEC, 1, BOTH] {
        for has_caller in [false, true] {
            cases.add(format!("accept4({of}, {flags:#x}, caller: {has_caller})"), move || {
                let fd = listener(kind);
                if has_caller {
                    call(kind, 0);
                }
                tick();
                made(libc::SYS_accept4, [fd, 0, 0, flags.into(), 0, 0])
            });
        }
    }
    for how in [0, libc::SOCK_NONBLOCK] {
        for callers in [0, 4] {
            cases.add(format!("connect({of}, {how:#x}, {callers} callers wait)"), move || {
                listener(kind);
                for _ in 0..callers {
                    call(kind, libc::SOCK_NONBLOCK);
                }
                let (address, bytes) = address("listener");
                let socket = [libc::AF_UNIX.into(), (kind | how).into(), 0, 0, 0, 0];
                let fd = must(raw(libc::SYS_socket, socket));
                tick();
                made(libc::SYS_connect, [fd, at(&address), bytes, 0, 0, 0])
            });
        }
    }
}

/// Calls of System V and POSIX IPC that name nothing.
fn nameless(cases: &mut Cases) {
    let gone = [
        ("mq_open", libc::SYS_mq_open),
        ("mq_timedreceive", libc::SYS_mq_timedreceive),
        ("semget", libc::SYS_semget),
        ("semop", libc::SYS_semop),
        ("msgget", libc::SYS_msgget),
        ("msgrcv", libc::SYS_msgrcv),
        ("shmget", libc::SYS_shmget),
    ];
    for (call, number) in gone {
        cases.add(format!("{call}(nothing)"), move || {
            tick();
            made(number, [-1, 0, 0, 0, 0, 0])
        });
    }
}

fn call(kind: i32, how: i32) -> i64 {
    let (address, bytes) = address("listener");
    let fd = must(raw(libc::SYS_socket, [libc::AF_UNIX.into(), (kind | how).into(), 0, 0, 0, 0]));
    raw(libc::SYS_connect, [fd, at(&address), bytes, 0, 0, 0]);
    fd
}
