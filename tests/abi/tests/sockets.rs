//! Sockets: AF_UNIX in its three kinds, names, descriptors and credentials passed.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{identity::become_user, ipc::until_asleep, *};
use std::{mem::size_of, os::unix::ffi::OsStrExt, path::Path, time::Instant};

/// A number beyond every family that Linux knows.
const NO_FAMILY: i32 = 99;
const STREAM: i32 = libc::SOCK_STREAM;
const DATAGRAM: i32 = libc::SOCK_DGRAM;
const PACKET: i32 = libc::SOCK_SEQPACKET;

fn socket(kind: i32) -> i32 {
    must(unsafe { libc::socket(libc::AF_UNIX, kind, 0) }) as i32
}

fn pair(kind: i32) -> (i32, i32) {
    let mut ends = [-1; 2];
    must(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) });
    (ends[0], ends[1])
}

/// Returns an address and its length: a path, or an abstract name that begins with a NUL.
fn address(name: &[u8]) -> (libc::sockaddr_un, u32) {
    let mut address: libc::sockaddr_un = unsafe { zeroed() };
    address.sun_family = libc::AF_UNIX as u16;
    for (place, byte) in address.sun_path.iter_mut().zip(name) {
        *place = *byte as libc::c_char;
    }
    (address, 2 + name.len() as u32)
}

fn bind(fd: i32, name: &[u8]) -> Result<i64, i32> {
    let (address, length) = address(name);
    check(unsafe { libc::bind(fd, (&raw const address).cast(), length) })
}

fn connect(fd: i32, name: &[u8]) -> Result<i64, i32> {
    let (address, length) = address(name);
    check(unsafe { libc::connect(fd, (&raw const address).cast(), length) })
}

fn listen(fd: i32, backlog: i32) -> Result<i64, i32> {
    check(unsafe { libc::listen(fd, backlog) })
}

fn accept(fd: i32, flags: i32) -> Result<i32, i32> {
    let (no_name, no_length) = (std::ptr::null_mut(), std::ptr::null_mut());
    check(unsafe { libc::accept4(fd, no_name, no_length, flags) }).map(|fd| fd as i32)
}

fn send(fd: i32, data: &[u8], flags: i32) -> Result<i64, i32> {
    check(unsafe { libc::send(fd, data.as_ptr().cast(), data.len(), flags) } as i64)
}

fn receive(fd: i32, most: usize, flags: i32) -> Result<Vec<u8>, i32> {
    let mut bytes = vec![0; most];
    let count = check(unsafe { libc::recv(fd, bytes.as_mut_ptr().cast(), most, flags) } as i64)?;
    bytes.truncate(count as usize);
    Ok(bytes)
}

fn send_to(fd: i32, data: &[u8], name: &[u8]) -> Result<i64, i32> {
    let (address, length) = address(name);
    let to = (&raw const address).cast();
    check(unsafe { libc::sendto(fd, data.as_ptr().cast(), data.len(), 0, to, length) } as i64)
}

fn shut_down(fd: i32, how: i32) -> Result<i64, i32> {
    check(unsafe { libc::shutdown(fd, how) })
}

type NameCall =
    unsafe extern "C" fn(libc::c_int, *mut libc::sockaddr, *mut libc::socklen_t) -> libc::c_int;

/// Returns the bytes of a name's path, as many as the call reports.
fn name(fd: i32, call: NameCall) -> Result<Vec<u8>, i32> {
    let mut address: libc::sockaddr_un = unsafe { zeroed() };
    let mut length = size_of::<libc::sockaddr_un>() as u32 + 1;
    check(unsafe { call(fd, (&raw mut address).cast(), &mut length) })?;
    let bytes = address.sun_path.iter().map(|byte| *byte as u8);
    Ok(bytes.take((length - 2) as usize).collect())
}

fn option<T>(fd: i32, option: i32) -> Result<T, i32> {
    let mut value: T = unsafe { zeroed() };
    let mut length = size_of::<T>() as u32;
    let at = (&raw mut value).cast();
    check(unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, option, at, &mut length) })?;
    Ok(value)
}

fn set_option<T>(fd: i32, option: i32, value: T) -> Result<i64, i32> {
    let (at, length) = ((&raw const value).cast(), size_of::<T>() as u32);
    check(unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, option, at, length) })
}

fn poll(fd: i32) -> i16 {
    let events = libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP;
    let mut entry = libc::pollfd { fd, events, revents: 0 };
    must(unsafe { libc::poll(&mut entry, 1, 0) });
    entry.revents
}

/// A control message in a buffer aligned as one.
#[repr(C, align(8))]
struct Control([u8; 256]);

fn send_with(fd: i32, data: &[u8], kind: i32, control: &[u8]) -> Result<i64, i32> {
    let mut space = Control([0; 256]);
    let mut part = libc::iovec { iov_base: data.as_ptr() as *mut _, iov_len: data.len() };
    let mut header: libc::msghdr = unsafe { zeroed() };
    (header.msg_iov, header.msg_iovlen) = (&mut part, 1);
    header.msg_control = (&raw mut space).cast();
    unsafe {
        header.msg_controllen = libc::CMSG_SPACE(control.len() as u32) as _;
        let first = libc::CMSG_FIRSTHDR(&header);
        (*first).cmsg_level = libc::SOL_SOCKET;
        (*first).cmsg_type = kind;
        (*first).cmsg_len = libc::CMSG_LEN(control.len() as u32) as _;
        libc::CMSG_DATA(first).copy_from(control.as_ptr(), control.len());
    }
    check(unsafe { libc::sendmsg(fd, &header, 0) } as i64)
}

fn send_files(fd: i32, data: &[u8], files: &[i32]) -> Result<i64, i32> {
    let bytes: Vec<u8> = files.iter().flat_map(|file| file.to_ne_bytes()).collect();
    send_with(fd, data, libc::SCM_RIGHTS, &bytes)
}

#[derive(Debug, PartialEq, Eq)]
struct Got {
    data: Vec<u8>,
    /// Type and bytes of each control message.
    control: Vec<(i32, Vec<u8>)>,
    flags: i32,
}

impl Got {
    fn files(&self) -> Vec<i32> {
        let rights = self.control.iter().filter(|(kind, _)| *kind == libc::SCM_RIGHTS);
        let bytes = rights.flat_map(|(_, bytes)| bytes.chunks_exact(4));
        bytes.map(|file| i32::from_ne_bytes(file.try_into().unwrap())).collect()
    }
}

fn receive_with(fd: i32, most: usize, room: usize, flags: i32) -> Result<Got, i32> {
    let mut space = Control([0; 256]);
    let mut data = vec![0; most];
    let mut part = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: most };
    let mut header: libc::msghdr = unsafe { zeroed() };
    (header.msg_iov, header.msg_iovlen) = (&mut part, 1);
    (header.msg_control, header.msg_controllen) = ((&raw mut space).cast(), room as _);
    let count = check(unsafe { libc::recvmsg(fd, &mut header, flags) } as i64)?;
    data.truncate(count as usize);
    let mut control = Vec::new();
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(&header);
        while !at.is_null() {
            let length = (*at).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
            let bytes = std::slice::from_raw_parts(libc::CMSG_DATA(at), length).to_vec();
            control.push(((*at).cmsg_type, bytes));
            at = libc::CMSG_NXTHDR(&header, at);
        }
    }
    Ok(Got { data, control, flags: header.msg_flags })
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_family_that_is_not_there_is_said_to_be_none() {
    let mut pair = [-1; 2];
    let socket = |family, kind, protocol| check(unsafe { libc::socket(family, kind, protocol) });
    assert_eq!(socket(NO_FAMILY, STREAM, 0), Err(libc::EAFNOSUPPORT));
    assert_eq!(socket(libc::AF_UNIX, STREAM, 7), Err(libc::EPROTONOSUPPORT));
    assert_eq!(socket(libc::AF_UNIX, libc::SOCK_RDM, 0), Err(libc::ESOCKTNOSUPPORT));
    assert_eq!(socket(libc::AF_UNIX, STREAM | 0x100_0000, 0), Err(libc::EINVAL));
    let made = check(unsafe { libc::socketpair(NO_FAMILY, STREAM, 0, pair.as_mut_ptr()) });
    assert_eq!(made, Err(libc::EAFNOSUPPORT));
}

#[test]
fn a_pair_of_streams_carries_bytes_both_ways() {
    isolated(|| {
        let (one, other) = pair(STREAM);
        assert_eq!(write(one, b"first "), Ok(6));
        assert_eq!(send(one, b"second", 0), Ok(6));
        assert_eq!(read(other, 8), Ok(b"first se".to_vec()), "pieces are joined and cut");
        assert_eq!(read(other, 100), Ok(b"cond".to_vec()));
        assert_eq!(write(other, b"back"), Ok(4));
        assert_eq!(receive(one, 2, libc::MSG_PEEK), Ok(b"ba".to_vec()));
        assert_eq!(receive(one, 9, 0), Ok(b"back".to_vec()));
        assert_eq!(receive(one, 9, libc::MSG_DONTWAIT), Err(libc::EAGAIN));
        assert_eq!(write(one, b""), Ok(0));
        assert_eq!(receive(other, 9, libc::MSG_DONTWAIT), Err(libc::EAGAIN));
    });
}

#[test]
fn a_large_stream_arrives_whole_whatever_the_pieces() {
    isolated(|| {
        let (one, other) = pair(STREAM);
        let data: Vec<u8> = (0..3_000_000u32).map(|at| (at * 7 + (at >> 12)) as u8).collect();
        let expected = data.clone();
        let child = fork(|| {
            close(other);
            let mut rest = data.as_slice();
            let mut size = 1;
            while !rest.is_empty() {
                let count = write(one, &rest[..size.min(rest.len())]).unwrap();
                rest = &rest[count..];
                size = size * 3 % 100_003;
            }
        });
        close(one);
        let mut found = Vec::new();
        let mut size = 5;
        loop {
            let piece = read(other, size).unwrap();
            if piece.is_empty() {
                break;
            }
            found.extend(piece);
            size = size * 5 % 70_001 + 1;
        }
        assert!(found == expected);
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn messages_keep_their_ends() {
    isolated(|| {
        for kind in [DATAGRAM, PACKET] {
            let (one, other) = pair(kind);
            send(one, b"long message", 0).unwrap();
            send(one, b"", 0).unwrap();
            send(one, b"last", 0).unwrap();
            assert_eq!(receive(other, 4, libc::MSG_PEEK), Ok(b"long".to_vec()));
            let got = receive_with(other, 4, 0, 0).unwrap();
            assert_eq!((&got.data[..], got.flags), (&b"long"[..], libc::MSG_TRUNC));
            assert_eq!(receive(other, 9, 0), Ok(vec![]), "an empty one is one");
            assert_eq!(receive(other, 9, 0), Ok(b"last".to_vec()));
        }
    });
}

#[test]
fn a_cut_message_can_say_how_long_it_was() {
    isolated(|| {
        let (one, other) = pair(DATAGRAM);
        send(one, b"long message", 0).unwrap();
        let mut bytes = [0u8; 4];
        let at = bytes.as_mut_ptr().cast();
        assert_eq!(must(unsafe { libc::recv(other, at, 4, libc::MSG_TRUNC) } as i64), 12);
        assert_eq!(&bytes, b"long");
    });
}

#[test]
fn a_listener_is_found_by_its_path_and_accepts_in_order() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.path("listener");
        let path = path.as_os_str().as_bytes();
        let listener = socket(STREAM);
        assert_eq!(listen(listener, 5), Err(libc::EINVAL), "it has no name");
        bind(listener, path).unwrap();
        assert_eq!(bind(listener, b"other"), Err(libc::EINVAL));
        let second = socket(STREAM);
        assert_eq!(bind(second, path), Err(libc::EADDRINUSE));
        assert_eq!(connect(second, path), Err(libc::ECONNREFUSED), "it does not listen yet");
        assert_eq!(poll(second), libc::POLLOUT | libc::POLLHUP, "as before");
        listen(listener, 5).unwrap();
        connect(second, path).unwrap();
        connect(socket(STREAM), path).unwrap();
        write(second, b"first").unwrap();
        let server = accept(listener, 0).unwrap();
        assert_eq!(read(server, 9), Ok(b"first".to_vec()));
    });
}

#[test]
fn connections_are_made_accepted_and_named() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.path("listener");
        let path = path.as_os_str().as_bytes();
        let listener = socket(STREAM | libc::SOCK_NONBLOCK);
        bind(listener, path).unwrap();
        listen(listener, 5).unwrap();
        assert_eq!(accept(listener, 0), Err(libc::EAGAIN));
        let client = socket(STREAM);
        assert_eq!(poll(client), libc::POLLOUT | libc::POLLHUP, "not connected");
        assert_eq!(poll(listener), 0);
        connect(client, path).unwrap();
        assert_eq!(connect(client, path), Err(libc::EISCONN));
        assert_eq!(poll(listener), libc::POLLIN);
        assert_eq!(write(client, b"early"), Ok(5));
        let server = accept(listener, libc::SOCK_CLOEXEC).unwrap();
        assert_eq!(must(unsafe { libc::fcntl(server, libc::F_GETFD) }), 1);
        assert_eq!(read(server, 9), Ok(b"early".to_vec()));
        let with_nul = [path, b"\0"].concat();
        assert_eq!(name(server, libc::getsockname), Ok(with_nul.clone()));
        assert_eq!(name(client, libc::getpeername), Ok(with_nul));
        assert_eq!(name(client, libc::getsockname), Ok(vec![]));
        assert_eq!(name(server, libc::getpeername), Ok(vec![]));
        assert_eq!(name(listener, libc::getpeername), Err(libc::ENOTCONN));
        assert_eq!(
            stat(Path::new(std::ffi::OsStr::from_bytes(path))).unwrap().st_mode & libc::S_IFMT,
            libc::S_IFSOCK
        );
        assert_eq!(option::<i32>(listener, libc::SO_ACCEPTCONN), Ok(1));
        assert_eq!(option::<i32>(server, libc::SO_ACCEPTCONN), Ok(0));
        close(listener);
        assert_eq!(connect(socket(STREAM), path), Err(libc::ECONNREFUSED), "the name outlives it");
        assert_eq!(write(server, b"late"), Ok(4));
        assert_eq!(read(client, 9), Ok(b"late".to_vec()));
    });
}

#[test]
fn only_so_many_connections_wait() {
    isolated(|| {
        let listener = socket(STREAM);
        bind(listener, b"\0abi backlog").unwrap();
        listen(listener, 1).unwrap();
        let clients: Vec<i32> = (0..3).map(|_| socket(STREAM | libc::SOCK_NONBLOCK)).collect();
        assert_eq!(connect(clients[0], b"\0abi backlog"), Ok(0));
        assert_eq!(connect(clients[1], b"\0abi backlog"), Ok(0));
        assert_eq!(connect(clients[2], b"\0abi backlog"), Err(libc::EAGAIN));
        accept(listener, 0).unwrap();
        assert_eq!(connect(clients[2], b"\0abi backlog"), Ok(0));
        close(listener);
        assert_eq!(read(clients[2], 1), Err(libc::ECONNRESET), "nobody accepted it");
    });
}

#[test]
fn a_connect_waits_for_a_place() {
    isolated(|| {
        let listener = socket(STREAM);
        bind(listener, b"\0abi place").unwrap();
        listen(listener, 0).unwrap();
        connect(socket(STREAM), b"\0abi place").unwrap();
        let child = fork(|| {
            connect(socket(STREAM), b"\0abi place").unwrap();
        });
        std::thread::sleep(std::time::Duration::from_millis(20));
        accept(listener, 0).unwrap();
        accept(listener, 0).unwrap();
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn abstract_names_are_no_files_and_go_with_their_socket() {
    isolated(|| {
        let listener = socket(STREAM);
        bind(listener, b"\0abi\0name").unwrap();
        assert_eq!(name(listener, libc::getsockname), Ok(b"\0abi\0name".to_vec()));
        assert_eq!(bind(socket(STREAM), b"\0abi\0name"), Err(libc::EADDRINUSE));
        assert_eq!(connect(socket(STREAM), b"\0abi"), Err(libc::ECONNREFUSED));
        let table = std::fs::read_to_string("/proc/net/unix").unwrap();
        assert!(table.contains("@abi@name"), "{table}");
        close(listener);
        let again = socket(STREAM);
        assert_eq!(bind(again, b"\0abi\0name"), Ok(0));
        let unnamed = socket(DATAGRAM);
        assert_eq!(bind(unnamed, b""), Ok(0), "a name of its own choice");
        let given = name(unnamed, libc::getsockname).unwrap();
        assert_eq!((given.len(), given[0]), (6, 0));
        assert!(given[1..].iter().all(|byte| byte.is_ascii_hexdigit()));
    });
}

#[test]
fn names_that_are_none_are_refused() {
    isolated(|| {
        let scratch = Scratch::new();
        let plain = scratch.file("plain", b"");
        let fd = socket(STREAM);
        let (mut bad, length) = address(b"name");
        bad.sun_family = libc::AF_INET as u16;
        let at = (&raw const bad).cast();
        assert_eq!(check(unsafe { libc::bind(fd, at, length) }), Err(libc::EINVAL));
        let (long, _) = address(b"name");
        let at = (&raw const long).cast();
        assert_eq!(check(unsafe { libc::bind(fd, at, 200) }), Err(libc::EINVAL));
        assert_eq!(check(unsafe { libc::bind(fd, at, 1) }), Err(libc::EINVAL));
        assert_eq!(connect(fd, b"/nowhere/at/all"), Err(libc::ENOENT));
        assert_eq!(connect(fd, plain.as_os_str().as_bytes()), Err(libc::ECONNREFUSED));
        assert_eq!(bind(fd, b"/nowhere/at/all"), Err(libc::ENOENT));
        let datagram = socket(DATAGRAM);
        bind(datagram, b"\0abi kind").unwrap();
        assert!(connect(fd, b"\0abi kind").is_err(), "it is of another kind");
        assert_eq!(listen(datagram, 1), Err(libc::EOPNOTSUPP));
        assert_eq!(accept(datagram, 0), Err(libc::EOPNOTSUPP));
        let (reader, _) = pipe();
        assert_eq!(listen(reader, 1), Err(libc::ENOTSOCK));
        assert_eq!(listen(-1, 1), Err(libc::EBADF));
    });
}

#[test]
fn a_socket_may_be_written_to_by_whom_its_mode_lets() {
    isolated(|| {
        let scratch = Scratch::new();
        let path = scratch.path("private");
        let name = path.as_os_str().as_bytes();
        let listener = socket(STREAM);
        bind(listener, name).unwrap();
        listen(listener, 5).unwrap();
        must(unsafe { libc::chmod(c(&path).as_ptr(), 0o755) });
        must(unsafe { libc::chmod(c(path.parent().unwrap()).as_ptr(), 0o755) });
        let child = fork(|| {
            become_user(1000);
            assert_eq!(connect(socket(STREAM), name), Err(libc::EACCES));
        });
        assert_eq!(wait(child), Ended::Exited(0));
        must(unsafe { libc::chmod(c(&path).as_ptr(), 0o722) });
        let child = fork(|| {
            become_user(1000);
            assert_eq!(connect(socket(STREAM), name), Ok(0));
        });
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn the_other_end_going_is_an_end_and_a_broken_pipe() {
    isolated(|| {
        let (one, other) = pair(STREAM);
        write(other, b"left").unwrap();
        close(other);
        assert_eq!(poll(one), libc::POLLIN | libc::POLLOUT | libc::POLLHUP | libc::POLLRDHUP);
        assert_eq!(send(one, b"x", libc::MSG_NOSIGNAL), Err(libc::EPIPE));
        assert_eq!(read(one, 9), Ok(b"left".to_vec()));
        assert_eq!(read(one, 9), Ok(vec![]));
        let child = fork(|| {
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
            let _ = write(one, b"x");
        });
        assert_eq!(wait(child), Ended::Signalled(libc::SIGPIPE));
        let (one, other) = pair(STREAM);
        write(one, b"unread").unwrap();
        close(other);
        assert_eq!(option::<i32>(one, libc::SO_ERROR), Ok(libc::ECONNRESET));
        assert_eq!(option::<i32>(one, libc::SO_ERROR), Ok(0), "told once");
        assert_eq!(read(one, 9), Ok(vec![]));
    });
}

#[test]
fn directions_are_shut_one_by_one() {
    isolated(|| {
        let (one, other) = pair(STREAM);
        write(one, b"before").unwrap();
        shut_down(one, libc::SHUT_WR).unwrap();
        assert_eq!(send(one, b"x", libc::MSG_NOSIGNAL), Err(libc::EPIPE));
        assert_eq!(read(other, 9), Ok(b"before".to_vec()));
        assert_eq!(read(other, 9), Ok(vec![]));
        assert_eq!(poll(other) & (libc::POLLRDHUP | libc::POLLHUP), libc::POLLRDHUP);
        assert_eq!(write(other, b"back"), Ok(4), "the other direction goes on");
        assert_eq!(read(one, 9), Ok(b"back".to_vec()));
        shut_down(one, libc::SHUT_RD).unwrap();
        assert_eq!(send(other, b"x", libc::MSG_NOSIGNAL), Err(libc::EPIPE));
        assert_eq!(shut_down(one, 7), Err(libc::EINVAL));
        assert_eq!(poll(one) & libc::POLLHUP, libc::POLLHUP);
    });
}

#[test]
fn datagrams_go_to_who_is_named() {
    isolated(|| {
        let (one, two) = (socket(DATAGRAM), socket(DATAGRAM));
        bind(one, b"\0abi one").unwrap();
        bind(two, b"\0abi two").unwrap();
        assert_eq!(send(one, b"x", 0), Err(libc::ENOTCONN));
        assert_eq!(send_to(one, b"to two", b"\0abi two"), Ok(6));
        let mut bytes = [0u8; 16];
        let (mut from, mut length) = address(b"");
        length = 110.max(length);
        let (at, from_at) = (bytes.as_mut_ptr().cast(), (&raw mut from).cast());
        assert_eq!(must(unsafe { libc::recvfrom(two, at, 16, 0, from_at, &mut length) } as i64), 6);
        let sender: Vec<u8> =
            from.sun_path[..length as usize - 2].iter().map(|b| *b as u8).collect();
        assert_eq!(sender, b"\0abi one");
        connect(two, b"\0abi one").unwrap();
        assert_eq!(send(two, b"back", 0), Ok(4));
        assert_eq!(read(one, 9), Ok(b"back".to_vec()));
        let three = socket(DATAGRAM);
        assert_eq!(send_to(three, b"x", b"\0abi two"), Err(libc::EPERM), "it has a peer");
        assert_eq!(connect(three, b"\0abi two"), Err(libc::EPERM));
        close(one);
        assert_eq!(send(two, b"x", 0), Err(libc::ECONNREFUSED));
        assert_eq!(send(two, b"x", 0), Err(libc::ENOTCONN), "it is nobody's peer now");
        assert_eq!(send_to(three, b"x", b"\0abi one"), Err(libc::ECONNREFUSED));
        let far = [1u8; 300_000];
        assert_eq!(send_to(three, &far, b"\0abi two"), Err(libc::EMSGSIZE));
    });
}

#[test]
fn a_full_inbox_keeps_strangers_waiting() {
    isolated(|| {
        let (receiver, sender) = (socket(DATAGRAM), socket(DATAGRAM | libc::SOCK_NONBLOCK));
        bind(receiver, b"\0abi inbox").unwrap();
        connect(sender, b"\0abi inbox").unwrap();
        let mut count = 0;
        while send(sender, b"x", 0).is_ok() {
            count += 1;
            assert!(count < 1000);
        }
        assert_eq!(errno(), libc::EAGAIN);
        assert_eq!(poll(sender) & libc::POLLOUT, 0);
        read(receiver, 1).unwrap();
        assert_eq!(poll(sender) & libc::POLLOUT, libc::POLLOUT);
        assert_eq!(send(sender, b"x", 0), Ok(1));
    });
}

#[test]
fn a_stream_that_is_not_read_fills_up_and_is_writable_again() {
    isolated(|| {
        let (one, other) = pair(STREAM | libc::SOCK_NONBLOCK);
        let piece = [7; 4096];
        let mut sent = 0;
        while let Ok(count) = send(one, &piece, 0) {
            sent += count;
            assert!(sent < 10_000_000);
        }
        assert_eq!(errno(), libc::EAGAIN);
        assert!(sent >= 65_536, "{sent}");
        assert_eq!(poll(one), 0);
        let mut waiting = 0;
        must(unsafe { libc::ioctl(other, libc::FIONREAD, &mut waiting) });
        assert_eq!(i64::from(waiting), sent);
        let mut left = sent;
        while left > 0 {
            left -= read(other, 4096).unwrap().len() as i64;
        }
        assert_eq!(poll(one), libc::POLLOUT);
        assert_eq!(read(other, 1), Err(libc::EAGAIN));
    });
}

#[test]
fn a_sender_that_waits_goes_on_once_poll_reports_room() {
    isolated(|| {
        let (one, other) = pair(STREAM);
        let piece = [7; 4096];
        let sends = |_: &i32| send(one, &piece, libc::MSG_DONTWAIT).is_ok();
        let fill = || (0..10_000).take_while(sends).count();
        let take = || assert_eq!(receive(other, piece.len(), 0).unwrap().len(), piece.len());
        let waiting = || {
            let mut bytes = 0;
            must(unsafe { libc::ioctl(other, libc::FIONREAD, &mut bytes) });
            bytes as usize / piece.len()
        };
        let filled = fill();
        let mut reads = 0;
        while poll(one) & libc::POLLOUT == 0 {
            take();
            reads += 1;
        }
        assert!(reads > 1, "{reads} of {filled}");
        assert_eq!(fill(), reads);
        let child = fork(|| {
            send(one, &piece, 0).unwrap();
        });
        until_asleep(child);
        for left in (filled - reads + 1..filled).rev() {
            take();
            (0..100).for_each(|_| std::thread::yield_now());
            assert_eq!(waiting(), left, "the sender still waits");
        }
        take();
        assert_eq!(wait(child), Ended::Exited(0));
        assert_eq!(waiting(), filled - reads + 1);
    });
}

#[test]
fn descriptors_are_passed_as_the_same_description() {
    isolated(|| {
        for kind in [STREAM, DATAGRAM, PACKET] {
            let (one, other) = pair(kind);
            let (reader, writer) = pipe();
            assert_eq!(send_files(one, b"x", &[reader, writer]), Ok(1));
            close(reader);
            close(writer);
            let got = receive_with(other, 9, 256, libc::MSG_CMSG_CLOEXEC).unwrap();
            assert_eq!(got.data, b"x");
            let files = got.files();
            assert_eq!(files.len(), 2);
            assert_eq!(must(unsafe { libc::fcntl(files[0], libc::F_GETFD) }), 1);
            write(files[1], b"through").unwrap();
            assert_eq!(read(files[0], 9), Ok(b"through".to_vec()));
            files.into_iter().for_each(close);
            close(one);
            close(other);
        }
    });
}

#[test]
fn descriptors_end_a_read_of_a_stream_and_what_does_not_fit_is_closed() {
    isolated(|| {
        let (one, other) = pair(STREAM);
        let (reader, writer) = pipe();
        write(one, b"before ").unwrap();
        send_files(one, b"with", &[reader]).unwrap();
        write(one, b" after").unwrap();
        let got = receive_with(other, 100, 256, 0).unwrap();
        assert_eq!((&got.data[..], got.files().len()), (&b"before with"[..], 1));
        got.files().into_iter().for_each(close);
        assert_eq!(read(other, 100), Ok(b" after".to_vec()));
        let before = open_files();
        send_files(one, b"y", &[reader, writer, reader]).unwrap();
        let room = unsafe { libc::CMSG_LEN(8) } as usize;
        let got = receive_with(other, 9, room, 0).unwrap();
        assert_eq!((got.files().len(), got.flags), (2, libc::MSG_CTRUNC));
        got.files().into_iter().for_each(close);
        send_files(one, b"z", &[reader]).unwrap();
        assert_eq!(receive_with(other, 9, 0, 0).unwrap().flags, libc::MSG_CTRUNC);
        send_files(one, b"w", &[writer]).unwrap();
        assert_eq!(read(other, 9), Ok(b"w".to_vec()), "read(2) closes them");
        assert_eq!(open_files(), before);
    });
}

#[test]
fn what_cannot_be_passed_is_refused() {
    isolated(|| {
        let (one, other) = pair(STREAM);
        assert_eq!(send_files(one, b"x", &[77]), Err(libc::EBADF));
        assert_eq!(send_with(one, b"x", 99, b"1234"), Err(libc::EINVAL));
        assert_eq!(send_with(one, b"x", libc::SCM_CREDENTIALS, b"1234"), Err(libc::EINVAL));
        assert_eq!(receive(other, 1, libc::MSG_DONTWAIT), Err(libc::EAGAIN), "nothing went");
    });
}

#[test]
fn descriptors_nobody_received_are_closed_with_their_socket() {
    isolated(|| {
        let (one, other) = pair(STREAM);
        let (reader, writer) = pipe();
        send_files(one, b"x", &[writer]).unwrap();
        close(writer);
        close(other);
        assert_eq!(read(reader, 1), Ok(vec![]), "the last writer is gone");
        close(one);
    });
}

#[test]
fn sockets_that_hold_only_each_other_are_closed() {
    isolated(|| {
        let (reader, writer) = pipe();
        let (one, other) = pair(DATAGRAM);
        send_files(one, b"own end", &[other]).unwrap();
        send_files(one, b"the pipe", &[writer]).unwrap();
        send_files(other, b"the first", &[one]).unwrap();
        close(writer);
        close(one);
        close(other);
        // Linux collects at once, or a moment later in a worker; the end of another socket starts the
        // collection again.
        let (third, fourth) = pair(STREAM);
        close(third);
        close(fourth);
        let start = Instant::now();
        let mut entry = libc::pollfd { fd: reader, events: libc::POLLIN, revents: 0 };
        must(unsafe { libc::poll(&mut entry, 1, 10_000) });
        assert_eq!(entry.revents & libc::POLLHUP, libc::POLLHUP, "{:?}", start.elapsed());
        assert_eq!(read(reader, 1), Ok(vec![]));
    });
}

#[test]
fn a_long_chain_of_sockets_in_messages_is_closed() {
    isolated(|| {
        let (mut held, first) = pair(DATAGRAM);
        close(first);
        for _ in 0..5000 {
            let (one, other) = pair(DATAGRAM);
            send_files(one, b"x", &[held]).unwrap();
            close(held);
            close(one);
            held = other;
        }
        close(held);
    });
}

#[test]
fn who_sent_it_is_told_to_who_asks() {
    isolated(|| {
        let (one, other) = pair(DATAGRAM);
        set_option(other, libc::SO_PASSCRED, 1).unwrap();
        assert_eq!(option::<i32>(other, libc::SO_PASSCRED), Ok(1));
        let told = |got: &Got| {
            let (kind, bytes) = &got.control[0];
            assert_eq!(*kind, libc::SCM_CREDENTIALS);
            let number = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
            (number(0), number(4), number(8))
        };
        let child = fork(|| {
            become_user(1000);
            send(one, b"child", 0).unwrap();
            let wrong = [1u32, 0, 0].map(u32::to_ne_bytes).concat();
            assert_eq!(send_with(one, b"lie", libc::SCM_CREDENTIALS, &wrong), Err(libc::EPERM));
        });
        let got = receive_with(other, 9, 256, 0).unwrap();
        assert_eq!(told(&got), (child as u32, 1000, 1000));
        assert_eq!(wait(child), Ended::Exited(0));
        let claimed = [1u32, 7, 8].map(u32::to_ne_bytes).concat();
        send_with(one, b"root may", libc::SCM_CREDENTIALS, &claimed).unwrap();
        assert_eq!(told(&receive_with(other, 9, 256, 0).unwrap()), (1, 7, 8));
    });
}

#[test]
fn who_is_on_the_other_side_is_known() {
    isolated(|| {
        let who = |fd| {
            let found: libc::ucred = option(fd, libc::SO_PEERCRED).unwrap();
            (found.pid, found.uid, found.gid)
        };
        let me = std::process::id() as i32;
        let (one, _other) = pair(STREAM);
        assert_eq!(who(one), (me, 0, 0));
        assert_eq!(who(socket(STREAM)), (0, u32::MAX, u32::MAX));
        let listener = socket(STREAM);
        bind(listener, b"\0abi peers").unwrap();
        listen(listener, 1).unwrap();
        let child = fork(|| {
            become_user(1000);
            let client = socket(STREAM);
            connect(client, b"\0abi peers").unwrap();
            assert_eq!(who(client), (me, 0, 0), "who listens");
            read(client, 1).unwrap();
        });
        let server = accept(listener, 0).unwrap();
        assert_eq!(who(server), (child, 1000, 1000));
        close(server);
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn waits_have_the_length_that_was_set() {
    isolated(|| {
        let (one, other) = pair(STREAM);
        let time = libc::timeval { tv_sec: 0, tv_usec: 40_000 };
        set_option(one, libc::SO_RCVTIMEO, time).unwrap();
        set_option(one, libc::SO_SNDTIMEO, time).unwrap();
        let told: libc::timeval = option(one, libc::SO_RCVTIMEO).unwrap();
        assert_eq!((told.tv_sec, told.tv_usec), (0, 40_000));
        let start = Instant::now();
        assert_eq!(read(one, 1), Err(libc::EAGAIN));
        assert!(start.elapsed().as_millis() >= 40);
        let start = Instant::now();
        while send(one, &[0; 8192], 0).is_ok() {}
        assert_eq!(errno(), libc::EAGAIN);
        assert!(start.elapsed().as_millis() >= 40);
        let bad = libc::timeval { tv_sec: 0, tv_usec: 1_000_000 };
        assert_eq!(set_option(one, libc::SO_RCVTIMEO, bad), Err(libc::EDOM));
        close(other);
    });
}

#[test]
fn options_are_kept_and_unknown_ones_refused() {
    isolated(|| {
        let fd = socket(PACKET);
        assert_eq!(option::<i32>(fd, libc::SO_TYPE), Ok(PACKET));
        assert_eq!(option::<i32>(fd, libc::SO_DOMAIN), Ok(libc::AF_UNIX));
        assert_eq!(option::<i32>(fd, libc::SO_PROTOCOL), Ok(0));
        assert_eq!(option::<i32>(fd, libc::SO_ERROR), Ok(0));
        for kept in [libc::SO_REUSEADDR, libc::SO_KEEPALIVE, libc::SO_BROADCAST] {
            assert_eq!(option::<i32>(fd, kept), Ok(0));
            set_option(fd, kept, 5).unwrap();
            assert_eq!(option::<i32>(fd, kept), Ok(1));
        }
        set_option(fd, libc::SO_SNDBUF, 20_000).unwrap();
        assert_eq!(option::<i32>(fd, libc::SO_SNDBUF), Ok(40_000), "doubled");
        set_option(fd, libc::SO_SNDBUF, 1).unwrap();
        assert_eq!(option::<i32>(fd, libc::SO_SNDBUF), Ok(4608), "the least");
        assert_eq!(set_option(fd, libc::SO_TYPE, 1), Err(libc::ENOPROTOOPT));
        assert_eq!(option::<i32>(fd, 9999), Err(libc::ENOPROTOOPT));
        assert_eq!(set_option(fd, libc::SO_KEEPALIVE, 1u8), Err(libc::EINVAL));
        let mut value = 0;
        let mut length = 4;
        let at = (&raw mut value).cast();
        let other = check(unsafe { libc::getsockopt(fd, 6, 1, at, &mut length) });
        assert_eq!(other, Err(libc::EOPNOTSUPP), "there is no TCP here");
    });
}

#[test]
fn a_peek_may_move_on() {
    isolated(|| {
        let (one, other) = pair(STREAM);
        set_option(other, libc::SO_PEEK_OFF, 0).unwrap();
        write(one, b"abc").unwrap();
        write(one, b"def").unwrap();
        assert_eq!(receive(other, 2, libc::MSG_PEEK), Ok(b"ab".to_vec()));
        assert_eq!(receive(other, 2, libc::MSG_PEEK), Ok(b"cd".to_vec()));
        assert_eq!(receive(other, 3, 0), Ok(b"abc".to_vec()));
        assert_eq!(receive(other, 9, libc::MSG_PEEK), Ok(b"ef".to_vec()));
        assert_eq!(receive(other, 9, 0), Ok(b"def".to_vec()));
    });
}

#[test]
fn a_read_may_wait_for_all() {
    isolated(|| {
        let (one, other) = pair(STREAM);
        let child = fork(|| {
            for piece in [&b"one "[..], b"two ", b"three"] {
                write(one, piece).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        assert_eq!(receive(other, 13, libc::MSG_WAITALL), Ok(b"one two three".to_vec()));
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn many_messages_go_with_one_call() {
    isolated(|| {
        let (one, other) = pair(DATAGRAM);
        let mut texts = [*b"aa", *b"bb", *b"cc"];
        let mut parts: Vec<_> = texts
            .iter_mut()
            .map(|text| libc::iovec { iov_base: text.as_mut_ptr().cast(), iov_len: 2 })
            .collect();
        let headers = |parts: &mut [libc::iovec]| -> Vec<libc::mmsghdr> {
            let header = |part: &mut libc::iovec| {
                let mut header: libc::mmsghdr = unsafe { zeroed() };
                (header.msg_hdr.msg_iov, header.msg_hdr.msg_iovlen) = (part, 1);
                header
            };
            parts.iter_mut().map(header).collect()
        };
        let mut sent = headers(&mut parts);
        assert_eq!(must(unsafe { libc::sendmmsg(one, sent.as_mut_ptr(), 3, 0) }), 3);
        assert!(sent.iter().all(|one| one.msg_len == 2));
        let mut room = [[0u8; 2]; 4];
        let mut parts: Vec<_> = room
            .iter_mut()
            .map(|text| libc::iovec { iov_base: text.as_mut_ptr().cast(), iov_len: 2 })
            .collect();
        let mut got = headers(&mut parts);
        let (at, no_time) = (got.as_mut_ptr(), std::ptr::null_mut());
        let count =
            must(unsafe { libc::recvmmsg(other, at, 4, libc::MSG_WAITFORONE as _, no_time) });
        assert_eq!(count, 3);
        assert_eq!(room[..3], [*b"aa", *b"bb", *b"cc"]);
        assert_eq!(got[2].msg_len, 2);
    });
}

#[test]
fn a_socket_is_told_of_by_epoll_and_read_by_another_thread() {
    isolated(|| {
        let (one, other) = pair(STREAM);
        let epoll = must(unsafe { libc::epoll_create1(0) }) as i32;
        let mut event =
            libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: 9 };
        must(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, other, &mut event) });
        let sender = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(5));
            write(one, b"x").unwrap();
            one
        });
        must(unsafe { libc::epoll_wait(epoll, &mut event, 1, -1) });
        assert_eq!({ event.u64 }, 9);
        assert_eq!(read(other, 9), Ok(b"x".to_vec()));
        let one = sender.join().unwrap();
        let reader = std::thread::spawn(move || read(other, 9));
        std::thread::sleep(std::time::Duration::from_millis(5));
        shut_down(one, libc::SHUT_WR).unwrap();
        assert_eq!(reader.join().unwrap(), Ok(vec![]));
    });
}

#[test]
fn a_socket_looks_like_one() {
    isolated(|| {
        let fd = socket(STREAM);
        let mut status: libc::stat = unsafe { zeroed() };
        must(unsafe { libc::fstat(fd, &mut status) });
        assert_eq!(status.st_mode, libc::S_IFSOCK | 0o777);
        let link = std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap();
        assert_eq!(link.to_str().unwrap(), format!("socket:[{}]", status.st_ino));
        let again = open(format!("/proc/self/fd/{fd}"), libc::O_RDWR, 0);
        assert_eq!(again, Err(libc::ENXIO));
        assert_eq!(check(unsafe { libc::lseek(fd, 0, 0) }), Err(libc::ESPIPE));
        assert_eq!(read(fd, 1), Err(libc::EINVAL), "not connected");
        assert_eq!(send(fd, b"x", libc::MSG_NOSIGNAL), Err(libc::ENOTCONN));
        assert_eq!(read(socket(PACKET), 1), Err(libc::ENOTCONN));
    });
}
