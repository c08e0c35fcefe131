//! Calls on local sockets with several wrong arguments: the error that comes first, and the bytes that go or stay, case by
//! case (`./x campaign arguments` found these).
use abi::cases::{KERNEL, all, at, in_folder, map, no, of, raw, room};
use libc::*;

const DATAGRAM: i64 = (SOCK_DGRAM | SOCK_NONBLOCK) as i64;
const STREAM: i64 = (SOCK_STREAM | SOCK_NONBLOCK) as i64;
const PACKET: i64 = (SOCK_SEQPACKET | SOCK_NONBLOCK) as i64;
/// A descriptor that is not open.
const CLOSED: i64 = 1000;

/// Makes two connected sockets.
fn pair(kind: i64) -> [i64; 2] {
    let mut pair = [0i32; 2];
    all(&[(SYS_socketpair, of([1, kind, 0, room(&mut pair)]), 0)]);
    pair.map(i64::from)
}

/// Returns an address of the local family.
fn local(path: &[u8]) -> Vec<u8> {
    [&[1, 0], path, &[0]].concat()
}

/// Returns the number of bytes that can be read.
fn held(socket: i64) -> i32 {
    let mut held = 0i32;
    all(&[(SYS_ioctl, of([socket, FIONREAD as i64, room(&mut held)]), 0)]);
    held
}

#[test]
fn connect_finds_the_listener_before_it_looks_at_itself() {
    in_folder(|| {
        let (name, absent) = (local(b"name"), local(b"absent"));
        let hidden = *b"\x01\0\0no such name";
        let at_name = |name: &Vec<u8>| (at(name.as_slice()), name.len() as i64);
        let ((name, length), (absent, absent_length)) = (at_name(&name), at_name(&absent));
        let listener = raw(SYS_socket, of([1, STREAM, 0]));
        let [connected, _other] = pair(STREAM);
        all(&[
            (SYS_bind, of([listener, name, length]), 0),
            (SYS_listen, of([listener, 1]), 0),
            (SYS_connect, of([connected, absent, absent_length]), no(ENOENT)),
            (SYS_connect, of([connected, at(&hidden), 15]), no(ECONNREFUSED)),
            (SYS_connect, of([connected, name, 2]), no(EINVAL)),
            (SYS_connect, of([connected, name, length]), no(EISCONN)),
            (SYS_connect, of([listener, absent, absent_length]), no(ENOENT)),
            (SYS_connect, of([listener, name, length]), no(EINVAL)),
        ]);
    });
}

#[test]
fn a_second_name_is_refused_by_what_stands_there() {
    in_folder(|| {
        std::fs::write("file", "").expect("a new file");
        let [first, taken, free, under] = [&b"first"[..], b"file", b"free", b"absent/x"].map(local);
        let socket = raw(SYS_socket, of([1, DATAGRAM, 0]));
        let bind =
            |name: &Vec<u8>| raw(SYS_bind, of([socket, at(name.as_slice()), name.len() as i64]));
        assert_eq!(bind(&first), 0);
        assert_eq!(bind(&first), no(EADDRINUSE));
        assert_eq!(bind(&taken), no(EADDRINUSE));
        assert_eq!(bind(&free), no(EINVAL));
        assert_eq!(bind(&under), no(ENOENT));
        assert!(!std::path::Path::new("free").exists());
    });
}

#[test]
fn only_datagrams_look_at_the_address_they_are_sent_to() {
    let inet = [2u8, 0, 0, 0, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let inet = at(&inet);
    let data = at(&[1u8; 8]);
    let [stream, _end] = pair(STREAM);
    let [packet, _end] = pair(PACKET);
    let [datagram, _end] = pair(DATAGRAM);
    let unconnected = raw(SYS_socket, of([1, STREAM, 0]));
    all(&[
        (SYS_sendto, [stream, data, 8, 0, inet, 16], no(EISCONN)),
        (SYS_sendto, [stream, data, 8, 0, inet, 1], no(EISCONN)),
        (SYS_sendto, [stream, data, 8, 0, KERNEL, 16], no(EFAULT)),
        (SYS_sendto, [stream, data, 8, 0, inet, 129], no(EINVAL)),
        (SYS_sendto, [stream, data, 8, 0, inet, 0], 8),
        (SYS_sendto, [stream, data, 8, 0, KERNEL, 0], 8),
        (SYS_sendto, [unconnected, data, 8, 0, inet, 16], no(EOPNOTSUPP)),
        (SYS_sendto, [packet, data, 8, 0, inet, 16], 8),
        (SYS_sendto, [datagram, data, 8, 0, inet, 16], no(EINVAL)),
        (SYS_sendto, [datagram, data, 8, 0, inet, 0], 8),
        (SYS_sendto, [CLOSED, KERNEL, 8, 0, 0, 0], no(EFAULT)),
        (SYS_recvfrom, [CLOSED, KERNEL, 8, 0, 0, 0], no(EFAULT)),
        (SYS_recvfrom, [CLOSED, data, 8, 0, 0, 0], no(EBADF)),
    ]);
}

#[test]
fn many_messages_are_checked_in_order() {
    let wrong = [0i64, 1_000_000_000];
    let [stream, _end] = pair(STREAM);
    // An address that cannot be read, and too many buffers.
    let mut message = [0i64; 8];
    (message[0], message[1], message[3]) = (KERNEL, 16, 2000);
    all(&[
        (SYS_recvmmsg, of([CLOSED, 0, 0, 0, at(&wrong)]), no(EINVAL)),
        (SYS_recvmmsg, of([CLOSED, 0, 0, 0, KERNEL]), no(EFAULT)),
        (SYS_recvmmsg, of([CLOSED, 0, 0, 0, 0]), no(EBADF)),
        (SYS_sendmmsg, of([stream, at(&message), 1, 0]), no(EFAULT)),
    ]);
    message[0] = 0;
    all(&[(SYS_sendmmsg, of([stream, at(&message), 1, 0]), no(EMSGSIZE))]);
}

#[test]
fn the_room_for_a_sender_is_checked_although_it_has_no_name() {
    let [from, to] = pair(STREAM);
    let (mut bytes, mut sender) = ([0u8; 8], [0u8; 16]);
    let negative = -1i32;
    all(&[
        (SYS_write, of([from, at(&[1u8; 8]), 8]), 8),
        (SYS_recvfrom, [to, room(&mut bytes), 8, 0, room(&mut sender), at(&negative)], no(EINVAL)),
    ]);
    assert_eq!(held(to), 0);
}

#[test]
fn what_faults_half_way_is_neither_sent_nor_taken() {
    const PAGE: i64 = 4096;
    let pages = map(2 * PAGE as usize, MAP_PRIVATE | MAP_ANONYMOUS, -1) as i64;
    all(&[(SYS_mprotect, of([pages + PAGE, PAGE, 0]), 0)]);
    let edge = pages + PAGE - 4;
    let data = at(&[7u8; 20]);
    for (kind, left) in [(STREAM, 20), (DATAGRAM, 0), (PACKET, 0)] {
        let [from, to] = pair(kind);
        all(&[(SYS_write, of([from, edge, 8]), no(EFAULT))]);
        assert_eq!(held(to), 0);
        all(&[
            (SYS_write, of([from, data, 20]), 20),
            (SYS_recvfrom, [to, edge, 8, MSG_PEEK.into(), 0, 0], no(EFAULT)),
        ]);
        assert_eq!(held(to), 20);
        all(&[(SYS_read, of([to, edge, 8]), no(EFAULT))]);
        assert_eq!(held(to), left, "{kind}");
        all(&[(SYS_close, of([from]), 0), (SYS_close, of([to]), 0)]);
    }
}

#[test]
fn a_datagram_socket_that_loses_its_peer_loses_what_that_sent() {
    let [one, other] = pair(DATAGRAM);
    let unspecified = [0u8; 16];
    let (mut error, mut length) = (0i32, 4i32);
    let (place, length) = (room(&mut error), room(&mut length));
    all(&[
        (SYS_write, of([other, at(&[1u8; 8]), 8]), 8),
        (SYS_connect, of([one, at(&unspecified), 16]), 0),
    ]);
    assert_eq!(held(one), 0);
    all(&[(SYS_getsockopt, [other, SOL_SOCKET.into(), SO_ERROR.into(), place, length, 0], 0)]);
    assert_eq!(error, ECONNRESET);
}

#[test]
fn local_sockets_do_not_share_a_name() {
    let [one, _other] = pair(DATAGRAM);
    let set = |value: &i32| {
        raw(SYS_setsockopt, [one, SOL_SOCKET.into(), SO_REUSEPORT.into(), at(value), 4, 0])
    };
    assert_eq!(set(&1), no(EOPNOTSUPP));
    assert_eq!(set(&0), 0);
}

#[test]
fn a_listener_tells_its_own_groups() {
    in_folder(|| {
        const SO_PEERGROUPS: i64 = 59;
        let name = local(b"name");
        let listener = raw(SYS_socket, of([1, STREAM, 0]));
        let mut groups = [0u32; 64];
        let place = room(&mut groups);
        let ask = |socket| {
            let mut length = 256i32;
            raw(
                SYS_getsockopt,
                [socket, SOL_SOCKET.into(), SO_PEERGROUPS, place, room(&mut length), 0],
            )
        };
        assert_eq!(ask(listener), no(ENODATA));
        all(&[
            (SYS_bind, of([listener, at(name.as_slice()), name.len() as i64]), 0),
            (SYS_listen, of([listener, 1]), 0),
        ]);
        assert_eq!(ask(listener), 0);
    });
}

#[test]
fn options_of_devices_and_filters_say_that_there_is_none() {
    const SOCKET: i64 = SOL_SOCKET as i64;
    let [one, _other] = pair(DATAGRAM);
    let (none, device) = ([0u8; 8], *b"no-such-device\0");
    let (on, off) = (1i32, 0i32);
    let set = |option: i32, value: i64, length: i64| {
        raw(SYS_setsockopt, [one, SOCKET, option.into(), value, length, 0])
    };
    assert_eq!(set(SO_BINDTODEVICE, at(&none), 0), 0);
    assert_eq!(set(SO_BINDTODEVICE, at(&none), 8), 0);
    assert_eq!(set(SO_BINDTODEVICE, at(&device), 15), no(ENODEV));
    assert_eq!(set(SO_BINDTODEVICE, KERNEL, 8), no(EFAULT));
    assert_eq!(set(SO_DETACH_FILTER, at(&on), 4), no(ENOENT));
    assert_eq!(set(SO_BSDCOMPAT, at(&on), 4), 0);
    assert_eq!(set(SO_LOCK_FILTER, at(&off), 4), 0);
    assert_eq!(set(SO_LOCK_FILTER, at(&on), 4), 0);
    assert_eq!(set(SO_LOCK_FILTER, at(&off), 4), no(EPERM));
    assert_eq!(set(SO_NOFCS, at(&on), 4), 0);
    for (option, wanted, bytes) in [
        (SO_BINDTODEVICE, 77, 0),
        (SO_GET_FILTER, 77, 0),
        (SO_BSDCOMPAT, 0, 4),
        (SO_LOCK_FILTER, 1, 4),
        (SO_NOFCS, 1, 4),
    ] {
        let (mut value, mut length) = (77i32, 20i32);
        let places = (room(&mut value), room(&mut length));
        let args = [one, SOCKET, option.into(), places.0, places.1, 0];
        assert_eq!((raw(SYS_getsockopt, args), length, value), (0, bytes, wanted), "{option}");
    }
}

#[test]
fn a_socket_has_the_name_of_its_protocol_as_an_attribute() {
    const NAME: &[u8; 21] = b"system.sockprotoname\0";
    for (kind, protocol) in [(STREAM, &b"UNIX-STREAM\0"[..]), (DATAGRAM, b"UNIX\0")] {
        let [one, _other] = pair(kind);
        let mut told = [0u8; 64];
        let place = room(&mut told);
        assert_eq!(raw(SYS_flistxattr, of([one, place, 64])), 21);
        assert_eq!(&told[..21], NAME);
        let length = protocol.len() as i64;
        all(&[
            (SYS_flistxattr, of([one, 0, 0]), 21),
            (SYS_flistxattr, of([one, KERNEL, 64]), no(EFAULT)),
            (SYS_flistxattr, of([one, place, 20]), no(ERANGE)),
            (SYS_fgetxattr, of([one, at(NAME), place, 64]), length),
        ]);
        assert_eq!(&told[..protocol.len()], protocol);
    }
}
