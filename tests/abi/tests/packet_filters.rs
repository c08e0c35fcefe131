//! Filters of sockets of all families: SO_ATTACH_FILTER, SO_GET_FILTER, SO_DETACH_FILTER, SO_ATTACH_BPF (socket(7)).
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{internet::*, *};
use libc::{AF_PACKET, AF_UNIX, EAGAIN, EBADF, EFAULT, EINVAL, ENOENT, EPERM};

const SO_ATTACH_BPF: i32 = 50;
const SO_LOCK_FILTER: i32 = 44;
const RETURN: u16 = 0x06;
const RETURN_A: u16 = 0x16;
const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF: u16 = 0x28;
const LOAD_WORD: u16 = 0x20;
const LOAD_LENGTH: u16 = 0x80;
/// SKF_AD_OFF, SKF_NET_OFF and SKF_LL_OFF.
const PROPERTIES: u32 = -0x1000i32 as u32;
const NETWORK: u32 = -0x10_0000i32 as u32;
const LINK: u32 = -0x20_0000i32 as u32;

fn plain(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k }
}

/// "If A is `k` skip nothing, else `otherwise`".
fn unless(k: u32, otherwise: u8) -> libc::sock_filter {
    libc::sock_filter { code: 0x15, jt: 0, jf: otherwise, k }
}

fn attach(fd: i32, program: &[libc::sock_filter]) -> Result<i64, i32> {
    let filter =
        libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    set(fd, SOL_SOCKET, libc::SO_ATTACH_FILTER, filter)
}

/// Calls getsockopt(SO_GET_FILTER) with room for `room` instructions. Returns their number, and their codes.
fn attached(fd: i32, room: u32) -> Result<(u32, Vec<u16>), i32> {
    let mut program = vec![plain(0xffff, 0); room.max(1) as usize];
    let (mut count, at) = (room, program.as_mut_ptr().cast());
    check(unsafe { libc::getsockopt(fd, SOL_SOCKET, libc::SO_ATTACH_FILTER, at, &mut count) })?;
    Ok((count, program.iter().map(|one| one.code).take(room as usize).collect()))
}

fn unix_pair(kind: i32) -> [i32; 2] {
    let mut fds = [0; 2];
    must(unsafe { libc::socketpair(AF_UNIX, kind | SOCK_NONBLOCK, 0, fds.as_mut_ptr()) });
    fds
}

#[test]
fn an_attached_filter_can_be_read() {
    networked(|| {
        let fd = udp();
        assert_eq!(attached(fd, 0), Ok((0, vec![])));
        assert_eq!(attached(fd, 3).map(|found| found.0), Ok(0));
        assert_eq!(attach(fd, &[plain(LOAD_LENGTH, 0), plain(RETURN_A, 0)]), Ok(0));
        assert_eq!(attached(fd, 0), Ok((2, vec![])), "their number");
        assert_eq!(attached(fd, 1), Err(EINVAL));
        assert_eq!(attached(fd, 3), Ok((2, vec![LOAD_LENGTH, RETURN_A, 0xffff])));
        assert_eq!(set(fd, SOL_SOCKET, SO_LOCK_FILTER, 1i32), Ok(0));
        assert_eq!(attached(fd, 2), Ok((2, vec![LOAD_LENGTH, RETURN_A])), "though it is locked");
    });
}

#[test]
fn the_arguments_of_a_filter_are_checked_in_order() {
    networked(|| {
        let fd = udp();
        let filter = |len, filter| libc::sock_fprog { len, filter };
        let attach_raw = |one| set(fd, SOL_SOCKET, libc::SO_ATTACH_FILTER, one);
        assert_eq!(attach_raw(filter(1, std::ptr::null_mut())), Err(EINVAL));
        assert_eq!(attach_raw(filter(1, 8 as *mut _)), Err(EFAULT));
        assert_eq!(attach_raw(filter(5000, 8 as *mut _)), Err(EINVAL), "too many come first");
        assert_eq!(set_bytes(fd, SOL_SOCKET, libc::SO_ATTACH_FILTER, &[0; 15]), Err(EINVAL));
        assert_eq!(set_bytes(fd, SOL_SOCKET, libc::SO_ATTACH_FILTER, &[0; 17]), Err(EINVAL));
        let property = |number| [plain(LOAD_WORD, PROPERTIES + number), plain(RETURN_A, 0)];
        assert_eq!(attach(fd, &property(0)), Ok(0));
        assert_eq!(attach(fd, &property(1)), Err(EINVAL), "no such property");
        assert_eq!(attach(fd, &[plain(0x94, 0), plain(RETURN, 0)]), Err(EINVAL), "modulo 0");
        assert_eq!(
            attach(fd, &[plain(0x60, 1), plain(RETURN, 0)]),
            Err(EINVAL),
            "a cell not stored"
        );
        assert_eq!(set(fd, SOL_SOCKET, libc::SO_DETACH_FILTER, 0i32), Ok(0), "the first is there");
        assert_eq!(set_bytes(fd, SOL_SOCKET, libc::SO_DETACH_FILTER, &[0; 3]), Err(EINVAL));
    });
}

#[test]
fn a_descriptor_that_is_no_program_is_refused() {
    networked(|| {
        let fd = udp();
        assert_eq!(set(fd, SOL_SOCKET, SO_ATTACH_BPF, -1i32), Err(EBADF));
        assert_eq!(set(fd, SOL_SOCKET, SO_ATTACH_BPF, fd), Err(EINVAL));
        assert_eq!(set(fd, SOL_SOCKET, SO_ATTACH_BPF, 0u64), Err(EINVAL));
        assert_eq!(set(fd, SOL_SOCKET, SO_LOCK_FILTER, 1i32), Ok(0));
        assert_eq!(set(fd, SOL_SOCKET, SO_ATTACH_BPF, -1i32), Err(EPERM));
    });
}

#[test]
fn a_filter_of_a_local_socket_drops_and_cuts_messages() {
    networked(|| {
        for kind in [SOCK_DGRAM, libc::SOCK_SEQPACKET] {
            let [one, other] = unix_pair(kind);
            let program =
                [plain(LOAD_BYTE, 0), unless(b'y'.into(), 1), plain(RETURN, 2), plain(RETURN, 0)];
            assert_eq!(attach(other, &program), Ok(0));
            for data in [&b"no"[..], b"yes", b"n"] {
                assert_eq!(send(one, data, 0), Ok(data.len()), "the sender is not told");
            }
            assert_eq!(receive(other, 9, 0), Ok(b"ye".to_vec()));
            assert_eq!(receive(other, 9, 0), Err(EAGAIN));
        }
        let [one, other] = unix_pair(SOCK_STREAM);
        assert_eq!(attach(other, &[plain(RETURN, 0)]), Ok(0), "without an effect");
        assert_eq!(send(one, b"bytes", 0), Ok(5));
        assert_eq!(receive(other, 9, 0), Ok(b"bytes".to_vec()));
    });
}

#[test]
fn a_filter_of_a_connection_drops_segments() {
    networked(|| {
        let (client, server) = tcp_pair();
        set_nonblocking(server);
        // The payload begins behind the header, whose length is in byte 12.
        let program = [
            plain(LOAD_BYTE, 12),
            plain(0x74, 2),
            plain(0x54, 0x3c),
            plain(0x07, 0),
            plain(LOAD_LENGTH, 0),
            // Segments of the header alone pass.
            libc::sock_filter { code: 0x1d, jt: 2, jf: 0, k: 0 },
            plain(0x50, 0),
            unless(b'n'.into(), 0),
            plain(RETURN, u32::MAX),
        ];
        let mut refusing = program;
        refusing[7] = libc::sock_filter { code: 0x15, jt: 1, jf: 0, k: b'n'.into() };
        let refusing = [&refusing[..], &[plain(RETURN, 0)]].concat();
        assert_eq!(attach(server, &refusing), Ok(0));
        assert_eq!(send(client, b"yes", 0), Ok(3));
        await_events(server, POLLIN);
        assert_eq!(receive(server, 9, 0), Ok(b"yes".to_vec()));
        assert_eq!(send(client, b"no", 0), Ok(2));
        assert_eq!(receive(server, 9, 0), Err(EAGAIN), "the segment was dropped");
        assert_eq!(set(server, SOL_SOCKET, libc::SO_DETACH_FILTER, 0i32), Ok(0));
        await_events(server, POLLIN);
        assert_eq!(receive(server, 9, 0), Ok(b"no".to_vec()), "it is sent again");
    });
}

#[test]
fn a_child_has_the_filter_of_its_listener() {
    networked(|| {
        let (listener, at) = listener(LOCAL);
        assert_eq!(attach(listener, &[plain(RETURN, u32::MAX)]), Ok(0));
        let client = tcp();
        assert_eq!(connect(client, at), Ok(0));
        let child = accept(listener).unwrap();
        assert_eq!(attached(child, 0), Ok((1, vec![])));
        assert_eq!(set(listener, SOL_SOCKET, libc::SO_DETACH_FILTER, 0i32), Ok(0));
        assert_eq!(set(child, SOL_SOCKET, libc::SO_DETACH_FILTER, 0i32), Ok(0));
        assert_eq!(set(child, SOL_SOCKET, libc::SO_DETACH_FILTER, 0i32), Err(ENOENT));
    });
}

#[test]
fn a_filter_sees_the_headers_before_its_first_byte() {
    networked(|| {
        let fd = try_socket(AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK, i32::from(0x0800u16.to_be()));
        let fd = fd.unwrap();
        let (to, at) = bound(SOCK_DGRAM, LOCAL);
        let sender = udp();
        for (program, kept) in [
            (vec![plain(LOAD_BYTE, 0), unless(0x45, 1), plain(RETURN, 11), plain(RETURN, 0)], 11),
            (vec![plain(LOAD_BYTE, NETWORK + 9), plain(RETURN_A, 0)], 17),
            (
                vec![
                    plain(LOAD_HALF, LINK + 12),
                    unless(0x800, 1),
                    plain(RETURN, 12),
                    plain(RETURN, 0),
                ],
                12,
            ),
            (vec![plain(LOAD_WORD, PROPERTIES + 8), plain(0x04, 20), plain(RETURN_A, 0)], 21),
            (vec![plain(LOAD_WORD, PROPERTIES), plain(0x74, 4), plain(RETURN_A, 0)], 38),
        ] {
            assert_eq!(attach(fd, &program), Ok(0));
            assert_eq!(send_to(sender, b"a datagram", at), Ok(10));
            assert_eq!(receive(to, 99, 0), Ok(b"a datagram".to_vec()));
            await_events(fd, POLLIN);
            assert_eq!(receive(fd, 99, 0).map(|bytes| bytes.len()), Ok(kept));
        }
        assert_eq!(attach(fd, &[plain(LOAD_BYTE, 38), plain(RETURN, 9)]), Ok(0));
        assert_eq!(send_to(sender, b"a datagram", at), Ok(10));
        assert_eq!(receive(to, 99, 0), Ok(b"a datagram".to_vec()));
        assert_eq!(receive(fd, 99, 0), Err(EAGAIN), "a load beyond the end drops the packet");
    });
}

#[test]
fn a_filter_of_netlink_chooses_messages() {
    networked(|| {
        let fd = try_socket(libc::AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK, 0).unwrap();
        // A request for the link `lo`: RTM_GETLINK with NLM_F_REQUEST.
        let mut request = vec![32u8, 0, 0, 0, 18, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0];
        request.extend([0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(send(fd, &request, 0), Ok(32));
        let whole = receive(fd, 9000, 0).unwrap();
        // RTM_NEWLINK is 16, at byte 4, in the order of the machine.
        let program = [plain(LOAD_HALF, 4), unless(0x1000, 1), plain(RETURN, 20), plain(RETURN, 0)];
        assert_eq!(attach(fd, &program), Ok(0));
        assert_eq!(send(fd, &request, 0), Ok(32));
        assert_eq!(receive(fd, 9000, 0), Ok(whole[..20].to_vec()));
        assert_eq!(attach(fd, &[plain(RETURN, 0)]), Ok(0));
        assert_eq!(send(fd, &request, 0), Ok(32));
        assert_eq!(receive(fd, 9000, 0), Err(EAGAIN));
    });
}
