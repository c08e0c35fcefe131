//! Senders of local sockets: the name and the credentials with which received bytes come, and the result of an
//! empty receive.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use std::ptr::null_mut;

const KINDS: [i32; 3] = [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_SEQPACKET];

fn pair(kind: i32) -> [i32; 2] {
    let mut pair = [0; 2];
    must(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) });
    pair
}

fn socket(kind: i32) -> i32 {
    must(unsafe { libc::socket(libc::AF_UNIX, kind, 0) }) as i32
}

/// Returns an abstract address of this process, and its length.
fn name(label: &str) -> (libc::sockaddr_un, u32) {
    let mut address: libc::sockaddr_un = unsafe { zeroed() };
    address.sun_family = libc::AF_UNIX as u16;
    let name = format!("\0abi-senders-{}-{label}", unsafe { libc::getpid() });
    for (to, from) in address.sun_path.iter_mut().zip(name.bytes()) {
        *to = from as _;
    }
    (address, 2 + name.len() as u32)
}

fn bind(fd: i32, (address, length): &(libc::sockaddr_un, u32)) -> Result<i64, i32> {
    check(unsafe { libc::bind(fd, (&raw const *address).cast(), *length) })
}

fn connect(fd: i32, (address, length): &(libc::sockaddr_un, u32)) -> Result<i64, i32> {
    check(unsafe { libc::connect(fd, (&raw const *address).cast(), *length) })
}

fn send_to(fd: i32, data: &[u8], (address, length): &(libc::sockaddr_un, u32)) -> Result<i64, i32> {
    let to = (&raw const *address).cast();
    check(unsafe { libc::sendto(fd, data.as_ptr().cast(), data.len(), 0, to, *length) } as i64)
}

fn receive(fd: i32, room: usize, flags: i32) -> Result<i64, i32> {
    let mut buffer = [0u8; 64];
    check(unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), room, flags) } as i64)
}

/// The results of recvmsg(2): bytes, the length of the sender's name with the name, and credentials.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    count: i64,
    name: Vec<u8>,
    identity: Option<(i32, u32, u32)>,
    flags: i32,
}

fn message(fd: i32, room: usize, flags: i32) -> Result<Told, i32> {
    let mut buffer = [0u8; 64];
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: room };
    let mut name = [0u8; 128];
    let mut control = [0u64; 16];
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_name = name.as_mut_ptr().cast();
    header.msg_namelen = 128;
    header.msg_iov = &mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control) as _;
    let count = check(unsafe { libc::recvmsg(fd, &mut header, flags) } as i64)?;
    let mut identity = None;
    let first = unsafe { libc::CMSG_FIRSTHDR(&header) };
    if !first.is_null() {
        assert_eq!(unsafe { (*first).cmsg_type }, libc::SCM_CREDENTIALS);
        let told: libc::ucred =
            unsafe { libc::CMSG_DATA(first).cast::<libc::ucred>().read_unaligned() };
        identity = Some((told.pid, told.uid, told.gid));
    }
    let name = name[..header.msg_namelen as usize].to_vec();
    Ok(Told { count, name, identity, flags: header.msg_flags })
}

fn pass(fd: i32, is_on: i32) {
    let at = (&raw const is_on).cast();
    must(unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_PASSCRED, at, 4) });
}

fn me() -> Option<(i32, u32, u32)> {
    Some(unsafe { (libc::getpid(), libc::getuid(), libc::getgid()) })
}

const NOBODY: Option<(i32, u32, u32)> = Some((0, 65534, 65534));

/// Returns a listener, a socket that connected to it, and the socket from accept(2).
fn connection(kind: i32, label: &str, own: Option<&str>) -> [i32; 3] {
    let listener = socket(kind);
    let at = name(label);
    bind(listener, &at).unwrap();
    must(unsafe { libc::listen(listener, 5) });
    let caller = socket(kind);
    if let Some(own) = own {
        bind(caller, &name(own)).unwrap();
    }
    connect(caller, &at).unwrap();
    let accepted = must(unsafe { libc::accept(listener, null_mut(), null_mut()) }) as i32;
    [listener, caller, accepted]
}

fn bytes_of((address, length): &(libc::sockaddr_un, u32)) -> Vec<u8> {
    let start = (&raw const *address).cast::<u8>();
    unsafe { std::slice::from_raw_parts(start, *length as usize) }.to_vec()
}

const NOW: i32 = libc::MSG_DONTWAIT;

#[test]
fn a_receive_of_no_bytes_waits_for_a_message_and_a_read_does_not() {
    isolated(|| {
        for kind in KINDS {
            let [one, two] = pair(kind);
            assert_eq!(receive(one, 0, NOW), Err(libc::EAGAIN));
            assert_eq!(receive(one, 0, NOW | libc::MSG_PEEK), Err(libc::EAGAIN));
            assert_eq!(receive(one, 0, NOW | libc::MSG_WAITALL), Err(libc::EAGAIN));
            assert_eq!(message(one, 0, NOW), Err(libc::EAGAIN));
            assert_eq!(read(one, 0), Ok(vec![]));
            assert_eq!(check(unsafe { libc::readv(one, [].as_ptr(), 0) } as i64), Ok(0));
            assert_eq!(read(socket(kind), 0), Ok(vec![]), "whatever the socket is");
            write(two, b"abc").unwrap();
            assert_eq!(read(one, 0), Ok(vec![]));
            assert_eq!(receive(one, 0, NOW | libc::MSG_PEEK), Ok(0));
            assert_eq!(receive(one, 0, NOW), Ok(0));
            // A message is removed, bytes of a stream are not.
            let left = if kind == libc::SOCK_STREAM { Ok(3) } else { Err(libc::EAGAIN) };
            assert_eq!(receive(one, 10, NOW), left);
            let child = fork(|| {
                std::thread::sleep(std::time::Duration::from_millis(20));
                write(two, b"late").unwrap();
            });
            assert_eq!(receive(one, 0, 0), Ok(0), "it has waited");
            assert_eq!(receive(one, 1, NOW).is_ok(), kind == libc::SOCK_STREAM);
            wait(child);
        }
        let lone = socket(libc::SOCK_STREAM);
        assert_eq!(receive(lone, 0, NOW), Err(libc::EINVAL));
        assert_eq!(receive(socket(libc::SOCK_SEQPACKET), 0, NOW), Err(libc::ENOTCONN));
        assert_eq!(receive(socket(libc::SOCK_DGRAM), 0, NOW), Err(libc::EAGAIN));
    });
}

#[test]
fn descriptors_come_with_a_receive_of_no_bytes() {
    isolated(|| {
        let [one, two] = pair(libc::SOCK_STREAM);
        let mut byte = *b"x";
        let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
        let mut control = [0u64; 8];
        let mut header: libc::msghdr = unsafe { zeroed() };
        header.msg_iov = &mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = unsafe { libc::CMSG_SPACE(4) } as _;
        let first = unsafe { &mut *libc::CMSG_FIRSTHDR(&header) };
        (first.cmsg_level, first.cmsg_type) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
        first.cmsg_len = unsafe { libc::CMSG_LEN(4) } as _;
        unsafe { libc::CMSG_DATA(first).cast::<i32>().write_unaligned(two) };
        must(unsafe { libc::sendmsg(two, &header, 0) } as i64);
        let mut nothing = libc::iovec { iov_base: null_mut(), iov_len: 0 };
        header.msg_iov = &mut nothing;
        control = [0; 8];
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        assert_eq!(check(unsafe { libc::recvmsg(one, &mut header, NOW) } as i64), Ok(0));
        let first = unsafe { &*libc::CMSG_FIRSTHDR(&header) };
        assert_eq!(first.cmsg_type, libc::SCM_RIGHTS);
        let passed = unsafe { libc::CMSG_DATA(first).cast::<i32>().read_unaligned() };
        write(passed, b"y").unwrap();
        assert_eq!(read(one, 10).unwrap(), b"xy", "the byte had stayed");
    });
}

#[test]
fn a_vectored_write_of_nothing_sends_nothing() {
    isolated(|| {
        let [one, two] = pair(libc::SOCK_DGRAM);
        assert_eq!(check(unsafe { libc::writev(two, [].as_ptr(), 0) } as i64), Ok(0));
        let part = libc::iovec { iov_base: null_mut(), iov_len: 0 };
        assert_eq!(check(unsafe { libc::writev(two, &part, 1) } as i64), Ok(0));
        assert_eq!(receive(one, 10, NOW), Err(libc::EAGAIN));
        assert_eq!(write(two, b""), Ok(0));
        assert_eq!(receive(one, 10, NOW), Ok(0), "an empty message");
        assert_eq!(receive(one, 10, NOW), Err(libc::EAGAIN));
    });
}

#[test]
fn an_abstract_name_is_of_sockets_of_one_type() {
    isolated(|| {
        for kind in KINDS {
            let at = name(&format!("kind{kind}"));
            let fd = socket(kind);
            bind(fd, &at).unwrap();
            if kind != libc::SOCK_DGRAM {
                must(unsafe { libc::listen(fd, 5) });
            }
            assert_eq!(bind(socket(kind), &at), Err(libc::EADDRINUSE));
            for other in KINDS.into_iter().filter(|other| *other != kind) {
                assert_eq!(connect(socket(other), &at), Err(libc::ECONNREFUSED));
                let second = socket(other);
                assert_eq!(bind(second, &at), Ok(0), "free for {other}");
                close(second);
            }
            if kind != libc::SOCK_DGRAM {
                let caller = socket(libc::SOCK_DGRAM);
                assert_eq!(send_to(caller, b"x", &at), Err(libc::ECONNREFUSED));
            }
            assert_eq!(connect(socket(kind), &at), Ok(0));
        }
        // The path has one node.
        let scratch = Scratch::new();
        let path = scratch.path("s");
        let mut address: libc::sockaddr_un = unsafe { zeroed() };
        address.sun_family = libc::AF_UNIX as u16;
        for (to, from) in address.sun_path.iter_mut().zip(path.as_os_str().as_encoded_bytes()) {
            *to = *from as _;
        }
        let at = (address, 3 + path.as_os_str().len() as u32);
        let gone = socket(libc::SOCK_DGRAM);
        bind(gone, &at).unwrap();
        close(gone);
        assert_eq!(connect(socket(libc::SOCK_STREAM), &at), Err(libc::ECONNREFUSED), "closed");
        let fd = socket(libc::SOCK_DGRAM);
        std::fs::remove_file(&path).unwrap();
        bind(fd, &at).unwrap();
        assert_eq!(connect(socket(libc::SOCK_STREAM), &at), Err(libc::EPROTOTYPE));
        assert_eq!(bind(socket(libc::SOCK_STREAM), &at), Err(libc::EADDRINUSE));
    });
}

#[test]
fn the_name_of_the_sender_comes_with_bytes_of_every_type() {
    isolated(|| {
        for kind in [libc::SOCK_STREAM, libc::SOCK_SEQPACKET] {
            let (there, here) = (format!("there{kind}"), format!("here{kind}"));
            let [_listener, caller, accepted] = connection(kind, &there, Some(&here));
            write(caller, b"ab").unwrap();
            write(accepted, b"cd").unwrap();
            let told = message(accepted, 1, 0).unwrap();
            assert_eq!((told.count, told.name), (1, bytes_of(&name(&here))));
            if kind == libc::SOCK_STREAM {
                assert_eq!(message(accepted, 1, 0).unwrap().name, bytes_of(&name(&here)), "more");
            }
            assert_eq!(message(caller, 9, 0).unwrap().name, bytes_of(&name(&there)));
            let mut from = [0u8; 128];
            let mut length = 128;
            write(caller, b"xyz").unwrap();
            let got = check(unsafe {
                let (to, at) = ([0u8; 9].as_mut_ptr().cast(), from.as_mut_ptr().cast());
                libc::recvfrom(accepted, to, 9, 0, at, &mut length)
            } as i64);
            assert_eq!((got, &from[..length as usize]), (Ok(3), &bytes_of(&name(&here))[..]));
            // The name is that at the time of the receive, even after the socket's end.
            let there = format!("there-{kind}");
            let [_listener, caller, accepted] = connection(kind, &there, None);
            write(caller, b"a").unwrap();
            assert_eq!(message(accepted, 9, 0).unwrap().name, b"");
            write(caller, b"b").unwrap();
            let late = name(&format!("late{kind}"));
            bind(caller, &late).unwrap();
            write(caller, b"c").unwrap();
            assert_eq!(message(accepted, 1, 0).unwrap().name, bytes_of(&late));
            close(caller);
            let told = message(accepted, 9, 0).unwrap();
            assert_eq!((told.count, told.name), (1, bytes_of(&late)));
            // An end of file has no sender.
            assert_eq!(message(accepted, 9, 0).unwrap().name, b"");
        }
        let sender = socket(libc::SOCK_DGRAM);
        let receiver = socket(libc::SOCK_DGRAM);
        let (at, late) = (name("datagrams"), name("later"));
        bind(receiver, &at).unwrap();
        send_to(sender, b"a", &at).unwrap();
        bind(sender, &late).unwrap();
        close(sender);
        assert_eq!(message(receiver, 9, 0).unwrap().name, bytes_of(&late));
    });
}

#[test]
fn credentials_go_with_what_either_end_asked_them_for() {
    isolated(|| {
        for kind in KINDS {
            let [one, two] = pair(kind);
            let identity = |fd: i32| message(fd, 1, 0).unwrap().identity;
            write(two, b"a").unwrap();
            pass(one, 1);
            write(two, b"b").unwrap();
            assert_eq!(identity(one), NOBODY, "sent before it was asked for");
            assert_eq!(identity(one), me());
            pass(one, 0);
            pass(two, 1);
            write(two, b"c").unwrap();
            pass(one, 1);
            assert_eq!(identity(one), me(), "the sender asks for itself");
            pass(two, 0);
            write(two, b"d").unwrap();
            assert_eq!(identity(one), me());
            pass(one, 0);
            write(two, b"e").unwrap();
            assert_eq!(identity(one), None);
        }
        // Bytes of a stream with other credentials are not read together.
        let [one, two] = pair(libc::SOCK_STREAM);
        let send = |passes: i32, text: &[u8]| {
            pass(one, passes);
            write(two, text).unwrap();
        };
        send(0, b"a");
        send(1, b"b");
        send(0, b"c");
        assert_eq!(message(one, 9, 0).unwrap().count, 3);
        send(0, b"a");
        send(1, b"b");
        send(1, b"c");
        let (first, second) = (message(one, 9, 0).unwrap(), message(one, 9, 0).unwrap());
        assert_eq!((first.count, first.identity), (1, NOBODY));
        assert_eq!((second.count, second.identity), (2, me()));
    });
}

#[test]
fn credentials_go_with_what_nobody_has_accepted_yet() {
    isolated(|| {
        for kind in [libc::SOCK_STREAM, libc::SOCK_SEQPACKET] {
            let at = name(&format!("early{kind}"));
            let listener = socket(kind);
            bind(listener, &at).unwrap();
            must(unsafe { libc::listen(listener, 5) });
            let accept = || must(unsafe { libc::accept(listener, null_mut(), null_mut()) }) as i32;
            let caller = socket(kind);
            connect(caller, &at).unwrap();
            write(caller, b"a").unwrap();
            let accepted = accept();
            write(caller, b"b").unwrap();
            pass(accepted, 1);
            assert_eq!(message(accepted, 1, 0).unwrap().identity, me(), "before accept");
            assert_eq!(message(accepted, 1, 0).unwrap().identity, NOBODY);
            pass(listener, 1);
            let caller = socket(kind);
            connect(caller, &at).unwrap();
            write(caller, b"a").unwrap();
            let accepted = accept();
            write(caller, b"b").unwrap();
            assert_eq!(message(accepted, 1, 0).unwrap().identity, me(), "as the listener");
            assert_eq!(message(accepted, 1, 0).unwrap().identity, me());
        }
        let at = name("stranger");
        let receiver = socket(libc::SOCK_DGRAM);
        bind(receiver, &at).unwrap();
        let sender = socket(libc::SOCK_DGRAM);
        send_to(sender, b"a", &at).unwrap();
        pass(receiver, 1);
        assert_eq!(message(receiver, 9, 0).unwrap().identity, NOBODY);
        send_to(sender, b"a", &at).unwrap();
        assert_eq!(message(receiver, 9, 0).unwrap().identity, me());
    });
}
