//! Rings of AF_PACKET that a program maps: PACKET_VERSION, PACKET_RX_RING, PACKET_TX_RING (packet(7), packet_mmap).
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{internet::*, *};
use libc::{AF_PACKET, EBUSY, EINVAL, SOL_PACKET};
use std::{
    mem::zeroed,
    sync::atomic::{AtomicU32, Ordering},
};

const ETH_P_IP: u16 = 0x0800;
const VERSION: i32 = 10;
const HEADER_LENGTH: i32 = 11;
const RX_RING: i32 = 5;
const TX_RING: i32 = 13;
const BLOCK: usize = 4096;
const FRAME: usize = 512;
const USER: u32 = 1;
const NOT_READY: u32 = 8;

/// A mapped ring.
struct Ring(*mut u8);

impl Ring {
    fn map(fd: i32, bytes: usize) -> Ring {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let at =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, fd, 0) };
        assert_ne!(at, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        Ring(at.cast())
    }
    fn status(&self, at: usize) -> &AtomicU32 {
        unsafe { &*self.0.add(at).cast::<AtomicU32>() }
    }
    fn bytes(&self, at: usize, count: usize) -> Vec<u8> {
        (at..at + count).map(|at| unsafe { self.0.add(at).read_volatile() }).collect()
    }
    fn word(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.bytes(at, 4).try_into().unwrap())
    }
    fn half(&self, at: usize) -> usize {
        u16::from_ne_bytes(self.bytes(at, 2).try_into().unwrap()).into()
    }
    fn write(&self, at: usize, bytes: &[u8]) {
        for (place, byte) in (at..).zip(bytes) {
            unsafe { self.0.add(place).write_volatile(*byte) };
        }
    }
}

fn packet(kind: i32, protocol: u16) -> i32 {
    try_socket(AF_PACKET, kind | SOCK_NONBLOCK, i32::from(protocol.to_be())).unwrap()
}

/// The numbers of blocks and frames for `blocks` blocks.
fn request(blocks: u32) -> [u32; 4] {
    [BLOCK as u32, blocks, FRAME as u32, blocks * (BLOCK / FRAME) as u32]
}

#[test]
fn versions_have_headers_of_their_own() {
    networked(|| {
        let fd = packet(SOCK_RAW, 0);
        assert_eq!(number(fd, SOL_PACKET, VERSION), Ok(0));
        for (version, length) in [(0, 32), (1, 32), (2, 48)] {
            let (mut value, mut room) = (version, 4u32);
            let at = (&raw mut value).cast();
            must(unsafe { libc::getsockopt(fd, SOL_PACKET, HEADER_LENGTH, at, &mut room) });
            assert_eq!((value, room), (length, 4));
        }
        let mut value = 3;
        let at = (&raw mut value).cast();
        let mut room = 4u32;
        let asked = unsafe { libc::getsockopt(fd, SOL_PACKET, HEADER_LENGTH, at, &mut room) };
        assert_eq!(check(asked), Err(EINVAL));
        assert_eq!(set(fd, SOL_PACKET, VERSION, 3i32), Err(EINVAL));
        assert_eq!(set_bytes(fd, SOL_PACKET, VERSION, &[1; 5]), Err(EINVAL));
        assert_eq!(set(fd, SOL_PACKET, VERSION, 1i32), Ok(0));
        assert_eq!(number(fd, SOL_PACKET, VERSION), Ok(1));
    });
}

#[test]
fn the_numbers_of_a_ring_are_checked() {
    networked(|| {
        let fd = packet(SOCK_RAW, 0);
        let ring = |numbers: [u32; 4]| set(fd, SOL_PACKET, RX_RING, numbers);
        assert_eq!(ring([100, 1, 64, 1]), Err(EINVAL), "a block is of pages");
        assert_eq!(ring([4096, 1, 48, 85]), Err(EINVAL), "a frame has room for its header");
        assert_eq!(ring([4096, 1, 520, 7]), Err(EINVAL), "and is aligned");
        assert_eq!(ring([4096, 1, 8192, 0]), Err(EINVAL), "and is in a block");
        assert_eq!(ring([4096, 1, 512, 7]), Err(EINVAL));
        assert_eq!(ring([0, 0, 0, 1]), Err(EINVAL));
        assert_eq!(set_bytes(fd, SOL_PACKET, RX_RING, &[0; 15]), Err(EINVAL));
        let map = |bytes: usize, offset: i64| {
            let at = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    bytes,
                    libc::PROT_READ,
                    libc::MAP_SHARED,
                    fd,
                    offset,
                )
            };
            if at == libc::MAP_FAILED { Err(check(-1).unwrap_err()) } else { Ok(at) }
        };
        assert_eq!(map(BLOCK, 0), Err(EINVAL), "there is no ring");
        assert_eq!(ring(request(2)), Ok(0));
        assert_eq!(ring(request(2)), Err(EBUSY));
        assert_eq!(set(fd, SOL_PACKET, VERSION, 1i32), Err(EBUSY));
        assert_eq!(map(BLOCK, 0), Err(EINVAL), "it is mapped as a whole");
        assert_eq!(map(2 * BLOCK, BLOCK as i64), Err(EINVAL));
        let at = map(2 * BLOCK, 0).unwrap();
        assert_eq!(ring([0; 4]), Err(EBUSY), "it is mapped");
        must(unsafe { libc::munmap(at, 2 * BLOCK) });
        assert_eq!(ring([0; 4]), Ok(0));
        assert_eq!(map(2 * BLOCK, 0), Err(EINVAL), "it is gone");
    });
}

/// Sends datagrams through a ring of `version`, and looks at them there.
fn receive_in_slots(version: i32) {
    let fd = packet(SOCK_RAW, ETH_P_IP);
    assert_eq!(set(fd, SOL_PACKET, VERSION, version), Ok(0));
    assert_eq!(set(fd, SOL_PACKET, RX_RING, request(1)), Ok(0));
    let ring = Ring::map(fd, BLOCK);
    assert_eq!(polled(fd, POLLIN), 0);
    let (_to, at) = bound(SOCK_DGRAM, LOCAL);
    let sender = udp();
    let slots = BLOCK / FRAME;
    for number in 0..slots + 2 {
        let data = vec![number as u8; 100 * (number + 1)];
        assert_eq!(send_to(sender, &data, at), Ok(data.len()));
    }
    assert_eq!(polled(fd, POLLIN), POLLIN);
    // Of version 1 the status has eight bytes.
    let first = if version == 0 { 8 } else { 4 };
    for number in 0..slots {
        let slot = number * FRAME;
        assert_eq!(ring.status(slot).load(Ordering::Acquire) & USER, USER, "{number}");
        let length = 14 + 28 + 100 * (number + 1);
        let link = ring.half(slot + first + 8);
        assert_eq!((link, ring.half(slot + first + 10)), (66, 80));
        let kept = length.min(FRAME - link);
        let told = [ring.word(slot + first) as usize, ring.word(slot + first + 4) as usize];
        assert_eq!(told, [length, kept]);
        let data = ring.bytes(slot + link + 42, kept - 42);
        assert!(data.iter().all(|byte| *byte == number as u8));
        let address = ring.bytes(slot + 32, 20);
        assert_eq!((address[0], address[4], address[11]), (AF_PACKET as u8, 1, 6));
    }
    let counts = option_bytes(fd, SOL_PACKET, libc::PACKET_STATISTICS, 8).unwrap();
    assert_eq!([counts[0], counts[4]], [slots as u8 + 2, 2], "two found no room");
    ring.status(0).store(0, Ordering::Release);
    assert_eq!(send_to(sender, b"again", at), Ok(5));
    assert_eq!(ring.status(0).load(Ordering::Acquire) & USER, USER, "a slot that was given back");
    for slot in 0..slots {
        ring.status(slot * FRAME).store(0, Ordering::Release);
    }
    assert_eq!(polled(fd, POLLIN), 0);
    assert_eq!(receive(fd, 9, 0), Err(libc::EAGAIN), "nothing is in the queue");
}

#[test]
fn frames_come_in_slots_of_the_first_version() {
    networked(|| receive_in_slots(0));
}

#[test]
fn frames_come_in_slots_of_the_second_version() {
    networked(|| receive_in_slots(1));
}

#[test]
fn a_segment_in_a_ring_tells_that_its_checksum_is_not_ready() {
    networked(|| {
        let fd = packet(SOCK_DGRAM, ETH_P_IP);
        assert_eq!(set(fd, SOL_PACKET, VERSION, 1i32), Ok(0));
        assert_eq!(set(fd, SOL_PACKET, RX_RING, request(4)), Ok(0));
        let ring = Ring::map(fd, 4 * BLOCK);
        let (client, server) = tcp_pair();
        send(client, b"bytes", 0).unwrap();
        receive(server, 9, 0).unwrap();
        await_events(fd, POLLIN);
        assert_eq!(ring.status(0).load(Ordering::Acquire) & (USER | NOT_READY), USER | NOT_READY);
        assert_eq!((ring.half(12), ring.half(14)), (80, 80), "no header of the link");
        assert_eq!(ring.bytes(80, 1), [0x45]);
    });
}

#[test]
fn frames_come_in_blocks_of_the_third_version() {
    networked(|| {
        let fd = packet(SOCK_RAW, ETH_P_IP);
        assert_eq!(set(fd, SOL_PACKET, VERSION, 2i32), Ok(0));
        let numbers = [BLOCK as u32, 2, FRAME as u32, 16, 50, 16, 0];
        assert_eq!(set(fd, SOL_PACKET, RX_RING, request(2)), Err(EINVAL), "it has more numbers");
        assert_eq!(set(fd, SOL_PACKET, RX_RING, numbers), Ok(0));
        let ring = Ring::map(fd, 2 * BLOCK);
        assert_eq!((ring.word(0), ring.word(4), ring.word(8)), (2, 48, 0));
        let (_to, at) = bound(SOCK_DGRAM, LOCAL);
        let sender = udp();
        for data in [&b"first"[..], &[7; 700]] {
            assert_eq!(send_to(sender, data, at), Ok(data.len()));
        }
        await_events(fd, POLLIN);
        assert_eq!(ring.status(8).load(Ordering::Acquire) & USER, USER);
        let frames = ring.word(12);
        assert!((1..=2).contains(&frames), "{frames}");
        let first = ring.word(16) as usize;
        assert_eq!(first, 64, "behind the private part");
        let link = first + ring.half(first + 24);
        assert_eq!((ring.word(first + 12), ring.word(first + 16)), (47, 47));
        assert_eq!(ring.half(first + 26) - ring.half(first + 24), 14);
        assert_eq!(ring.bytes(link + 42, 5), b"first");
        let number = ring.bytes(24, 8);
        assert_eq!(number, 1u64.to_ne_bytes());
        ring.status(8).store(0, Ordering::Release);
        if frames == 1 {
            await_events(fd, POLLIN);
            assert_eq!(ring.word(BLOCK + 12), 1);
        }
        let counts = option_bytes(fd, SOL_PACKET, libc::PACKET_STATISTICS, 12).unwrap();
        assert_eq!(counts.len(), 12);
        assert_eq!([counts[0], counts[4]], [2, 0]);
    });
}

#[test]
fn frames_of_a_ring_are_sent() {
    networked(|| {
        const TEST: u16 = 0x88b5;
        let listener = packet(SOCK_DGRAM, TEST);
        for version in [0, 1] {
            let fd = packet(SOCK_RAW, 0);
            assert_eq!(set(fd, SOL_PACKET, VERSION, version), Ok(0));
            assert_eq!(set(fd, SOL_PACKET, TX_RING, request(1)), Ok(0));
            let ring = Ring::map(fd, BLOCK);
            let mut to: libc::sockaddr_ll = unsafe { zeroed() };
            (to.sll_family, to.sll_ifindex) = (AF_PACKET as u16, 1);
            to.sll_protocol = TEST.to_be();
            must(unsafe { libc::bind(fd, (&raw const to).cast(), 20) });
            let length_at = if version == 0 { 8 } else { 4 };
            for (slot, data) in [(0, b"one"), (FRAME, b"two")] {
                let mut frame = vec![0; 12];
                frame.extend(TEST.to_be_bytes());
                frame.extend(data);
                ring.write(slot + length_at, &(frame.len() as u32).to_ne_bytes());
                ring.write(slot + 32, &frame);
                ring.status(slot).store(1, Ordering::Release);
            }
            assert_eq!(send(fd, &[], 0), Ok(34));
            for (slot, data) in [(0, b"one"), (FRAME, b"two")] {
                assert_eq!(ring.status(slot).load(Ordering::Acquire) & 7, 0, "available again");
                await_events(listener, POLLIN);
                assert_eq!(receive(listener, 9, 0), Ok(data.to_vec()));
            }
            assert_eq!(send(fd, &[], 0), Ok(0), "nothing is to be sent");
        }
    });
}
