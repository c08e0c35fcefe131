//! PACKET_FANOUT over loopback, and the tables of packet sockets: `/proc/net/packet` and sock_diag(7) (packet(7)).
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::{internet::*, *};
use libc::{
    AF_NETLINK, AF_PACKET, EAGAIN, EALREADY, EINVAL, ENETDOWN, ENOSPC, EOPNOTSUPP, SOL_PACKET,
};

const ETH_P_IP: u16 = 0x0800;
const ETH_P_ALL: u16 = 3;
/// A protocol that nobody takes.
const ETH_P_TEST: u16 = 0x88b5;
const LOOPBACK: u32 = 1;
const FANOUT: i32 = 18;
const ROLLOVER_STATS: i32 = 21;
const FANOUT_DATA: i32 = 22;
/// Rules of groups.
const HASH: u16 = 0;
const IN_TURN: u16 = 1;
const CPU: u16 = 2;
const ROLLOVER: u16 = 3;
const RANDOM: u16 = 4;
const QUEUE: u16 = 5;
const PROGRAM: u16 = 6;
/// Flags of groups.
const FLAG_ROLLOVER: u16 = 0x1000;
const FLAG_UNIQUE: u16 = 0x2000;
const FLAG_IGNORE_OUTGOING: u16 = 0x4000;

fn packet(protocol: u16) -> i32 {
    try_socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, i32::from(protocol.to_be())).unwrap()
}

/// Puts a socket into the group `id`.
fn join(fd: i32, id: u16, rule: u16) -> Result<i64, i32> {
    set(fd, SOL_PACKET, FANOUT, [id, rule])
}

/// The same with a limit of members.
fn join_of(fd: i32, id: u16, rule: u16, most: u32) -> Result<i64, i32> {
    set(fd, SOL_PACKET, FANOUT, [u32::from(id) | u32::from(rule) << 16, most])
}

/// Makes the members of a new group.
fn group<const N: usize>(id: u16, rule: u16, protocol: u16) -> [i32; N] {
    [(); N].map(|()| {
        let fd = packet(protocol);
        assert_eq!(join(fd, id, rule), Ok(0));
        fd
    })
}

/// Returns the address of loopback for frames of the protocol of the tests.
fn target() -> libc::sockaddr_ll {
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = AF_PACKET as u16;
    address.sll_ifindex = LOOPBACK as i32;
    address.sll_protocol = ETH_P_TEST.to_be();
    address.sll_halen = 6;
    address
}

/// Sends a frame of the protocol of the tests over loopback, with a number in it.
fn send_frame(fd: i32, number: u8) {
    let mut frame = vec![0; 12];
    frame.extend(ETH_P_TEST.to_be_bytes());
    frame.resize(60, number);
    let to = target();
    let (at, length) = ((&raw const to).cast(), size_of::<libc::sockaddr_ll>() as u32);
    must(unsafe { libc::sendto(fd, frame.as_ptr().cast(), frame.len(), 0, at, length) } as i64);
}

/// Switches loopback off and does `work`, then on again.
fn without_loopback(work: impl FnOnce()) {
    let control = udp();
    let mut request = interface("lo");
    ask(control, SIOCGIFFLAGS, &mut request).unwrap();
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    request.ifr_ifru.ifru_flags = flags & !(libc::IFF_UP as i16);
    ask(control, SIOCSIFFLAGS, &mut request).unwrap();
    work();
    request.ifr_ifru.ifru_flags = flags;
    ask(control, SIOCSIFFLAGS, &mut request).unwrap();
}

/// Takes all frames that a socket has, and returns the last byte of each.
fn taken(fd: i32) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        match receive(fd, 70_000, 0) {
            Ok(frame) => all.push(*frame.last().unwrap()),
            Err(error) => {
                assert_eq!(error, EAGAIN);
                return all;
            }
        }
    }
}

#[test]
fn the_argument_of_a_group_is_checked() {
    networked(|| {
        let fd = packet(ETH_P_TEST);
        assert_eq!(number(fd, SOL_PACKET, FANOUT), Ok(0));
        assert_eq!(set(fd, SOL_PACKET, FANOUT, 1u16), Err(EINVAL), "too short");
        assert_eq!(set(fd, SOL_PACKET, FANOUT, [0u16; 3]), Err(EINVAL), "neither form");
        assert_eq!(join(fd, 1, 8), Err(EINVAL), "no such rule");
        assert_eq!(join(fd, 1, ROLLOVER | FLAG_ROLLOVER), Err(EINVAL));
        assert_eq!(join(fd, 1, IN_TURN | FLAG_UNIQUE), Err(EINVAL), "it chooses the number");
        assert_eq!(join_of(fd, 1, IN_TURN, 65_537), Err(EINVAL));
        assert_eq!(set(fd, SOL_PACKET, FANOUT_DATA, 0u32), Err(EINVAL), "in no group");
        assert_eq!(option_bytes(fd, SOL_PACKET, ROLLOVER_STATS, 24), Err(EINVAL));
        assert_eq!(join(packet(0), 1, IN_TURN), Err(EINVAL), "it is bound to nothing");
        assert_eq!(join(fd, 9, IN_TURN | FLAG_ROLLOVER), Ok(0));
        assert_eq!(join(fd, 9, IN_TURN | FLAG_ROLLOVER), Err(EALREADY));
        assert_eq!(join(fd, 9, 8), Err(EINVAL), "the rule is looked at first");
        assert_eq!(number(fd, SOL_PACKET, FANOUT), Ok(9 | 1 << 16 | 0x10 << 24));
        assert_eq!(set(fd, SOL_PACKET, FANOUT_DATA, 0u32), Err(EINVAL), "the rule has no data");
        let to = target();
        let at = (&raw const to).cast();
        assert_eq!(check(unsafe { libc::bind(fd, at, 20) }), Err(EINVAL), "its group is bound");
        let other = packet(ETH_P_TEST);
        assert_eq!(join(other, 9, IN_TURN), Err(EINVAL), "other flags");
        assert_eq!(join(other, 9, HASH | FLAG_ROLLOVER), Err(EINVAL), "another rule");
        assert_eq!(join(packet(ETH_P_IP), 9, IN_TURN | FLAG_ROLLOVER), Err(EINVAL));
        assert_eq!(join_of(other, 9, IN_TURN | FLAG_ROLLOVER, 255), Err(EINVAL), "256 is usual");
        assert_eq!(join_of(other, 9, IN_TURN | FLAG_ROLLOVER, 256), Ok(0));
    });
}

#[test]
fn a_group_has_a_limit_of_members() {
    networked(|| {
        let [one, two, three] = [(); 3].map(|()| packet(ETH_P_TEST));
        assert_eq!(join_of(one, 4, IN_TURN, 2), Ok(0));
        assert_eq!(join(two, 4, IN_TURN), Ok(0), "no limit is any");
        assert_eq!(join_of(three, 4, IN_TURN, 2), Err(ENOSPC));
        close(one);
        assert_eq!(join_of(three, 4, IN_TURN, 2), Ok(0), "a place is free again");
    });
}

#[test]
fn members_take_frames_in_turn() {
    networked(|| {
        let members: [i32; 3] = group(1, IN_TURN, ETH_P_TEST);
        let sender = packet(0);
        (0..9).for_each(|number| send_frame(sender, number));
        let seen = members.map(taken);
        assert!(seen.iter().all(|frames| frames.len() == 3), "{seen:?}");
        for frames in &seen {
            assert!(frames.windows(2).all(|pair| pair[1] == pair[0] + 3), "{seen:?}");
        }
        close(members[0]);
        (0..4).for_each(|number| send_frame(sender, number));
        assert_eq!([members[1], members[2]].map(|fd| taken(fd).len()), [2, 2]);
        close(members[1]);
        (0..4).for_each(|number| send_frame(sender, number));
        assert_eq!(taken(members[2]), [0, 1, 2, 3], "all are the last one's");
        close(members[2]);
        let fd = packet(ETH_P_TEST);
        assert_eq!(join(fd, 1, HASH), Ok(0), "the group ended, so its number is free");
    });
}

#[test]
fn a_program_chooses_the_member() {
    networked(|| {
        // It answers the first byte behind the header of the link.
        let instruction = |code, k| libc::sock_filter { code, jt: 0, jf: 0, k };
        let program = [instruction(0x30, 0), instruction(0x16, 0)];
        let set_program = |fd: i32, length: u16| {
            let filter = program.as_ptr().cast_mut();
            set(fd, SOL_PACKET, FANOUT_DATA, libc::sock_fprog { len: length, filter })
        };
        assert_eq!(set_program(packet(ETH_P_TEST), 2), Err(EINVAL), "in no group");
        let members: [i32; 3] = group(1, PROGRAM, ETH_P_TEST);
        assert_eq!(number(members[0], SOL_PACKET, FANOUT), Ok(1 | 6 << 16));
        let sender = packet(0);
        (0..4).for_each(|number| send_frame(sender, number));
        assert_eq!(members.map(taken), [vec![0, 1, 2, 3], vec![], vec![]], "there is no program");
        assert_eq!(set_program(members[1], 2), Ok(0));
        (0..7).for_each(|number| send_frame(sender, number));
        assert_eq!(members.map(taken), [vec![0, 3, 6], vec![1, 4], vec![2, 5]]);
        assert_eq!(set_program(members[0], 1), Err(EINVAL), "it does not return");
        assert_eq!(set(members[0], SOL_PACKET, FANOUT_DATA, 0u32), Err(EINVAL), "no program");
        let [other] = group(2, HASH, ETH_P_TEST);
        assert_eq!(set_program(other, 2), Err(EINVAL), "the rule has no data");
        set(members[2], SOL_SOCKET, 44, 1i32).unwrap();
        assert_eq!(set_program(members[2], 2), Err(libc::EPERM), "SO_LOCK_FILTER");
    });
}

#[test]
fn a_flow_stays_with_a_member_in_both_directions() {
    networked(|| {
        let members: [i32; 4] = group(1, HASH, ETH_P_IP);
        let mut used = [false; 4];
        for _ in 0..24 {
            let (one, other) = udp_pair();
            for number in 0..3 {
                assert_eq!(send(one, &[number], 0), Ok(1));
                assert_eq!(send(other, &[number], 0), Ok(1));
            }
            let seen = members.map(|fd| taken(fd).len());
            let place = seen.iter().position(|count| *count > 0).unwrap();
            assert_eq!((seen[place], seen.iter().sum::<usize>()), (6, 6), "{seen:?}");
            used[place] = true;
        }
        assert!(used.iter().filter(|used| **used).count() > 1, "flows are spread");
    });
}

#[test]
fn a_processor_has_a_member() {
    networked(|| {
        let members: [i32; 2] = group(1, CPU, ETH_P_TEST);
        let mut own: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        unsafe { libc::CPU_SET(0, &mut own) };
        must(unsafe { libc::sched_setaffinity(0, size_of_val(&own), &raw const own) });
        let sender = packet(0);
        (0..5).for_each(|number| send_frame(sender, number));
        assert_eq!(members.map(|fd| taken(fd).len()), [5, 0]);
    });
}

#[test]
fn random_members_take_all_frames() {
    networked(|| {
        let members: [i32; 2] = group(1, RANDOM, ETH_P_TEST);
        let sender = packet(0);
        (0..64).for_each(|number| send_frame(sender, number));
        let seen = members.map(|fd| taken(fd).len());
        assert!(seen[0] > 0 && seen[1] > 0 && seen[0] + seen[1] == 64, "{seen:?}");
        let queued: [i32; 2] = group(2, QUEUE, ETH_P_TEST);
        (0..4).for_each(|number| send_frame(sender, number));
        assert_eq!(queued.map(|fd| taken(fd).len()), [4, 0], "loopback has one queue");
    });
}

/// Returns PACKET_ROLLOVER_STATS: frames that others took, those of large flows, and those that nobody took.
fn rolled(fd: i32) -> [u64; 3] {
    unsafe { option_of(fd, SOL_PACKET, ROLLOVER_STATS) }.unwrap()
}

#[test]
fn a_member_without_room_is_passed_over() {
    networked(|| {
        for (id, rule) in [(1, ROLLOVER), (2, QUEUE | FLAG_ROLLOVER)] {
            let members: [i32; 2] = group(id, rule, ETH_P_TEST);
            // Room for a few frames.
            assert_eq!(set(members[0], SOL_SOCKET, libc::SO_RCVBUF, 8192i32), Ok(0));
            assert_eq!(rolled(members[0]), [0; 3]);
            let sender = packet(0);
            (0..60).for_each(|number| send_frame(sender, number));
            let (first, second) = (taken(members[0]), taken(members[1]));
            assert!(!first.is_empty() && first.len() < 60, "{}", first.len());
            assert_eq!(first.len() + second.len(), 60, "none was lost");
            assert_eq!(first[0], 0);
            let [all, huge, failed] = rolled(members[0]);
            // The rule that looks for room alone counts the frames of the first member, too.
            let counted = if rule == ROLLOVER { 60 } else { second.len() };
            assert_eq!((all, failed), (counted as u64, 0));
            assert!(huge <= all);
            members.into_iter().for_each(close);
        }
    });
}

#[test]
fn a_number_can_be_chosen() {
    networked(|| {
        let [one, two, three] = [(); 3].map(|()| packet(ETH_P_TEST));
        assert_eq!(join(one, 0, IN_TURN | FLAG_UNIQUE), Ok(0));
        assert_eq!(join(two, 0, IN_TURN | FLAG_UNIQUE), Ok(0));
        let [first, second] = [one, two].map(|fd| number(fd, SOL_PACKET, FANOUT).unwrap());
        assert_ne!(first & 0xffff, second & 0xffff);
        assert_eq!(first >> 16, 1, "the flag is gone");
        assert_eq!(join(three, first as u16, IN_TURN), Ok(0), "others join by the number");
    });
}

#[test]
fn a_group_does_not_see_what_its_members_send() {
    networked(|| {
        let members: [i32; 2] = group(1, QUEUE, ETH_P_ALL);
        send_frame(members[1], 1);
        assert_eq!(taken(members[0]), [1], "as it comes back, but not as it goes");
        send_frame(packet(0), 2);
        assert_eq!(taken(members[0]), [2, 2]);
        let ignores = packet(ETH_P_ALL);
        assert_eq!(join(ignores, 2, QUEUE | FLAG_IGNORE_OUTGOING), Ok(0));
        send_frame(packet(0), 3);
        assert_eq!(taken(ignores), [3]);
        assert_eq!(number(ignores, SOL_PACKET, FANOUT), Ok(2 | 5 << 16 | 0x40 << 24));
    });
}

#[test]
fn members_are_told_of_an_interface_that_goes_down() {
    networked(|| {
        let members = [(); 2].map(|()| {
            let fd = packet(0);
            let to = target();
            let at = (&raw const to).cast();
            must(unsafe { libc::bind(fd, at, 20) });
            assert_eq!(join(fd, 1, IN_TURN), Ok(0));
            fd
        });
        without_loopback(|| {
            assert_eq!(members.map(pending_error), [ENETDOWN; 2]);
        });
        let sender = packet(0);
        (0..4).for_each(|number| send_frame(sender, number));
        assert_eq!(members.map(|fd| taken(fd).len()), [2, 2], "they see frames again");
    });
}

/// Returns the columns of the socket of `fd` in /proc/net/packet but the first, the address in memory.
fn line(fd: i32) -> Vec<String> {
    let inode = inode(fd).to_string();
    let text = std::fs::read_to_string("/proc/net/packet").unwrap();
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("sk               RefCnt Type Proto  Iface R Rmem   User   Inode")
    );
    let found = lines.map(|line| line.split_whitespace().skip(1).map(str::to_owned));
    found.map(Iterator::collect::<Vec<_>>).find(|words| words[7] == inode).unwrap_or_default()
}

fn inode(fd: i32) -> u64 {
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    must(unsafe { libc::fstat(fd, &mut status) });
    status.st_ino
}

#[test]
fn sockets_are_listed_in_proc() {
    networked(|| {
        let fd = packet(ETH_P_TEST);
        let words = line(fd);
        assert_eq!(words[..5], ["3", "3", "88b5", "0", "1"]);
        assert_eq!((words[5].as_str(), words[6].as_str()), ("0", "0"));
        send_frame(packet(0), 1);
        assert_ne!(line(fd)[5], "0", "the frame's memory");
        let idle = try_socket(AF_PACKET, SOCK_DGRAM, 0).unwrap();
        assert_eq!(line(idle)[..5], ["2", "2", "0000", "0", "0"]);
        let to = target();
        must(unsafe { libc::bind(idle, (&raw const to).cast(), 20) });
        assert_eq!(line(idle)[..5], ["3", "2", "88b5", "1", "1"]);
        without_loopback(|| {
            assert_eq!(line(idle)[4], "0");
            assert_eq!(line(fd)[4], "1", "it is of all interfaces");
        });
        assert_eq!(line(idle)[4], "1");
    });
}

/// Asks for packet sockets. Returns the body of each message, or the error.
fn diagnose(protocol: u8, flags: u16, shown: u32) -> Result<Vec<Vec<u8>>, i32> {
    let fd = try_socket(AF_NETLINK, SOCK_RAW, 4).unwrap();
    let mut request = 36u32.to_ne_bytes().to_vec();
    request.extend(20u16.to_ne_bytes());
    request.extend((flags | 1).to_ne_bytes());
    request.extend([0; 8]);
    request.extend([AF_PACKET as u8, protocol, 0, 0, 0, 0, 0, 0]);
    request.extend(shown.to_ne_bytes());
    request.extend([0; 8]);
    assert_eq!(send(fd, &request, 0), Ok(36));
    let mut found = Vec::new();
    loop {
        let datagram = receive(fd, 70_000, 0).unwrap();
        let mut rest = &datagram[..];
        while rest.len() >= 16 {
            let length = u32::from_ne_bytes(rest[..4].try_into().unwrap()) as usize;
            let body = rest[16..length].to_vec();
            match u16::from_ne_bytes([rest[4], rest[5]]) {
                2 => return Err(-i32::from_ne_bytes(body[..4].try_into().unwrap())),
                3 => {
                    close(fd);
                    return Ok(found);
                }
                _ => found.push(body),
            }
            rest = &rest[length.next_multiple_of(4).min(rest.len())..];
        }
    }
}

/// Returns an attribute behind the first 16 bytes.
fn attribute(body: &[u8], number: u16) -> Option<&[u8]> {
    let mut rest = &body[16..];
    while rest.len() >= 4 {
        let length = usize::from(u16::from_ne_bytes([rest[0], rest[1]]));
        if u16::from_ne_bytes([rest[2], rest[3]]) == number {
            return Some(&rest[4..length]);
        }
        rest = &rest[length.next_multiple_of(4).min(rest.len())..];
    }
    None
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect()
}

#[test]
fn sockets_are_listed_by_sock_diag() {
    networked(|| {
        const DUMP: u16 = 0x300;
        assert_eq!(diagnose(1, DUMP, 0), Err(EINVAL));
        assert_eq!(diagnose(0, 0, 0), Err(EOPNOTSUPP));
        let fd = packet(0);
        let to = target();
        must(unsafe { libc::bind(fd, (&raw const to).cast(), 20) });
        assert_eq!(set(fd, SOL_PACKET, libc::PACKET_AUXDATA, 1i32), Ok(0));
        let request: [u32; 4] = [1 << 14, 2, 2048, 16];
        assert_eq!(set(fd, SOL_PACKET, libc::PACKET_RX_RING, request), Ok(0));
        for _ in 0..2 {
            let mut group: libc::packet_mreq = unsafe { std::mem::zeroed() };
            (group.mr_ifindex, group.mr_type, group.mr_alen) = (LOOPBACK as i32, 0, 6);
            group.mr_address = [1, 0, 0x5e, 1, 2, 3, 0, 0];
            assert_eq!(set(fd, SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, group), Ok(0));
        }
        assert_eq!(join(fd, 77, HASH), Ok(0));
        let own = inode(fd) as u32;
        let all = diagnose(0, DUMP, 0x3f).unwrap();
        let body = all.iter().find(|body| words(&body[4..8]) == [own]).unwrap();
        assert_eq!(body[..4], [AF_PACKET as u8, 3, 0xb5, 0x88]);
        let info = words(attribute(body, 0).unwrap());
        assert_eq!(info, [LOOPBACK, 0, 0, 0, 0, 3], "running, and AUXDATA");
        let group = attribute(body, 1).unwrap();
        assert_eq!((group.len(), words(&group[..8])), (44, vec![LOOPBACK, 2]));
        assert_eq!(group[8..18], [0, 0, 6, 0, 1, 0, 0x5e, 1, 2, 3]);
        assert_eq!(words(attribute(body, 2).unwrap()), [1 << 14, 2, 2048, 16, 0, 0, 0]);
        assert_eq!(attribute(body, 3), None, "nothing to send");
        assert_eq!(words(attribute(body, 4).unwrap()), [77]);
        assert_eq!(words(attribute(body, 5).unwrap()), [0], "the user");
        assert_eq!(words(attribute(body, 6).unwrap()).len(), 9);
        assert_eq!(attribute(body, 7), None, "no filter");
        let bare = diagnose(0, DUMP, 0).unwrap();
        assert!(bare.iter().any(|body| body.len() == 16 && words(&body[4..8]) == [own]));
        close(fd);
        let none = diagnose(0, DUMP, 0).unwrap();
        assert!(!none.iter().any(|body| words(&body[4..8]) == [own]));
    });
}
