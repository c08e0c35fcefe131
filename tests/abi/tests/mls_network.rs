//! Mandatory access control of the network (`docs/mls-network.md`): tests for systems with a monitor. They do nothing elsewhere.
use abi::{
    Ended, close,
    internet::{
        accept, ask, await_events, bind, bound, connect, interface, listen, listener, name,
        networked, option_bytes, peer, pending_error, receive, send, send_to, socket, tcp, to_raw,
        try_socket, udp, v4,
    },
    mls::{self, HIGH, LOW, Stage},
    must, open, read,
};
use libc::*;
use std::{fs, net::SocketAddr};

/// The context of sockets above the test's own level.
const ABOVE: &str = "system_u:object_r:net_t:s2";
/// A program with every privilege within one level above the network's.
const ADMINISTRATOR: &str = "system_u:system_r:kernel_t:s2";
/// `SO_PEERSEC`.
const PEER_CONTEXT: i32 = 31;

/// Makes sockets above the test's own level.
fn above<T>(make: impl FnOnce() -> T) -> T {
    fs::write("/proc/self/attr/sockcreate", ABOVE).expect("asking for the context");
    let made = make();
    fs::write("/proc/self/attr/sockcreate", "\n").expect("asking for no context");
    made
}

fn context_of_peer(fd: i32) -> String {
    let bytes = option_bytes(fd, SOL_SOCKET, PEER_CONTEXT, 256).expect("a context");
    String::from_utf8(bytes).expect("a text").trim_end_matches('\0').into()
}

/// Returns whether `/proc/net/tcp` has a socket at this port.
fn is_listed(port: u16) -> bool {
    let text = fs::read_to_string("/proc/net/tcp").expect("the table");
    text.contains(&format!(":{port:04X} 00000000:0000"))
}

/// Returns the answers of sock_diag(7) to a request.
fn diagnose(request: &[u8]) -> Vec<u8> {
    let fd = try_socket(AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG).expect("a socket of netlink");
    let length = (16 + request.len()) as u32;
    let mut bytes = length.to_ne_bytes().to_vec();
    // SOCK_DIAG_BY_FAMILY; a dump.
    bytes.extend([20, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend(request);
    must(send(fd, &bytes, 0).map_or(-1, |count| count as i64));
    let mut all = Vec::new();
    loop {
        let part = receive(fd, 65_536, 0).expect("an answer");
        let mut rest = &part[..];
        while let Some((head, _)) = rest.split_first_chunk::<16>() {
            if i32::from(head[4]) == NLMSG_DONE {
                close(fd);
                return all;
            }
            let length = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
            all.extend(&rest[16..length]);
            rest = &rest[length.next_multiple_of(4).min(rest.len())..];
        }
    }
}

/// Returns whether sock_diag(7) has a listener at this port.
fn is_diagnosed(port: u16) -> bool {
    let mut request = vec![AF_INET as u8, IPPROTO_TCP as u8, 0, 0];
    request.extend(u32::MAX.to_ne_bytes());
    request.resize(56, 0);
    let [a, b] = port.to_be_bytes();
    diagnose(&request).windows(4).any(|bytes| bytes == [a, b, 0, 0])
}

/// Returns whether sock_diag(7) has the local socket of this number.
fn is_local_diagnosed(inode: u32) -> bool {
    let mut request = vec![AF_UNIX as u8, 0, 0, 0];
    request.extend(u32::MAX.to_ne_bytes());
    request.resize(24, 0);
    diagnose(&request).windows(4).any(|bytes| bytes == inode.to_ne_bytes())
}

fn inode_of(fd: i32) -> u32 {
    let link = fs::read_link(format!("/proc/self/fd/{fd}")).expect("the link");
    let text = link.to_string_lossy().into_owned();
    text.trim_start_matches("socket:[").trim_end_matches(']').parse().expect("a number")
}

#[test]
fn a_port_in_use_above_is_free_below() {
    if !mls::is_here() {
        return;
    }
    let at = |port| v4([127, 0, 0, 1], port as u16);
    match mls::part().as_deref() {
        Some("below") => {
            let (own, high) = (mls::given("OWN"), mls::given("HIGH"));
            assert_eq!(connect(tcp(), at(high)), Err(ECONNREFUSED));
            assert!(!is_listed(high as u16) && !is_diagnosed(high as u16));
            assert!(is_listed(own as u16) && is_diagnosed(own as u16));
            assert!(!is_local_diagnosed(mls::given("LOCAL") as u32));
            let fd = tcp();
            assert_eq!((bind(fd, at(high)), listen(fd, 1)), (Ok(0), Ok(0)), "the port is free");
        }
        Some("beside") => {
            let (own, high) = (mls::given("OWN"), mls::given("HIGH"));
            assert_eq!(connect(tcp(), at(own)), Err(ECONNREFUSED), "the listener is below");
            let fd = tcp();
            assert_eq!(connect(fd, at(high)), Ok(0));
            assert_eq!(context_of_peer(fd), ABOVE);
            assert_eq!(bind(tcp(), at(high)), Err(EADDRINUSE));
            for port in [own, high] {
                assert!(is_listed(port as u16) && is_diagnosed(port as u16));
            }
            assert!(is_local_diagnosed(mls::given("LOCAL") as u32));
        }
        _ => networked(|| {
            let (own, at_own) = listener(at(0));
            let (high, at_high) = above(|| listener(at(0)));
            // SAFETY: takes no pointers.
            let local = above(|| must(unsafe { libc::socket(AF_UNIX, SOCK_DGRAM, 0) })) as i32;
            let stage = Stage::new("a_port_in_use_above_is_free_below")
                .give("OWN", at_own.port().into())
                .give("HIGH", at_high.port().into())
                .give("LOCAL", inode_of(local) as i32);
            assert_eq!(stage.run(LOW, "below"), Ended::Exited(0));
            assert_eq!(stage.run(HIGH, "beside"), Ended::Exited(0));
            let child = accept(high).expect("the connection of the program above");
            assert_eq!(context_of_peer(child), ABOVE);
            [own, high, child, local].into_iter().for_each(close);
        }),
    }
}

#[test]
fn both_levels_have_the_same_port_and_their_own_packets() {
    if !mls::is_here() {
        return;
    }
    networked(|| {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let address: SocketAddr = address.parse().unwrap();
            let (low, at) = bound(SOCK_DGRAM, address);
            let high = above(|| socket(if at.is_ipv4() { AF_INET } else { AF_INET6 }, SOCK_DGRAM));
            assert_eq!(bind(high, at), Ok(0));
            for (receiver, other, make) in [
                (low, high, bound as fn(i32, SocketAddr) -> (i32, SocketAddr)),
                (high, low, |kind, at| above(|| bound(kind, at))),
            ] {
                let (sender, _) = make(SOCK_DGRAM, address);
                assert_eq!(send_to(sender, b"data", at), Ok(4));
                await_events(receiver, POLLIN);
                assert_eq!(receive(receiver, 9, MSG_DONTWAIT), Ok(b"data".to_vec()));
                assert_eq!(receive(other, 9, MSG_DONTWAIT), Err(EAGAIN));
                assert_eq!(connect(sender, at), Ok(0));
                let context = if receiver == high { ABOVE } else { "system_u:object_r:net_t:s0" };
                assert_eq!(context_of_peer(sender), context);
                close(sender);
            }
            close(low);
            // The other socket does not stand in for it.
            let (sender, _) = bound(SOCK_DGRAM, address);
            assert_eq!(connect(sender, at), Ok(0));
            assert_eq!(send(sender, b"data", 0), Ok(4));
            assert_eq!(pending_error(sender), ECONNREFUSED);
            close(high);
        }
    });
}

#[test]
fn connections_of_both_levels_can_have_the_same_ends() {
    if !mls::is_here() {
        return;
    }
    networked(|| {
        let pair = |to: Option<(SocketAddr, SocketAddr)>| {
            let (server, at) = listener(to.map_or(v4([127, 0, 0, 1], 0), |(at, _)| at));
            let client = tcp();
            assert_eq!(bind(client, to.map_or(v4([127, 0, 0, 1], 0), |(_, from)| from)), Ok(0));
            assert_eq!(connect(client, at), Ok(0));
            (client, accept(server).expect("a connection"), at)
        };
        let (client, child, at) = pair(None);
        let from = name(client).expect("a name");
        let (other, other_child, _) = above(|| pair(Some((at, from))));
        assert_eq!((name(other), peer(other)), (Ok(from), Ok(at)));
        assert_eq!((send(client, b"low", 0), send(other, b"high", 0)), (Ok(3), Ok(4)));
        assert_eq!(receive(child, 9, 0), Ok(b"low".to_vec()));
        assert_eq!(receive(other_child, 9, 0), Ok(b"high".to_vec()));
    });
}

#[test]
fn raw_and_packet_sockets_see_what_they_dominate() {
    if !mls::is_here() {
        return;
    }
    networked(|| {
        let every = i32::from(3u16.to_be());
        let make = || {
            let flags = SOCK_NONBLOCK;
            let raw = try_socket(AF_INET, SOCK_RAW | flags, IPPROTO_UDP).expect("a raw socket");
            [raw, try_socket(AF_PACKET, SOCK_DGRAM | flags, every).expect("a packet socket")]
        };
        let (low, high) = (make(), above(make));
        let seen = |fds: [i32; 2], data: &[u8]| {
            fds.map(|fd| {
                let all = std::iter::from_fn(|| receive(fd, 2048, 0).ok());
                all.filter(|bytes| bytes.ends_with(data)).count() > 0
            })
        };
        let at = v4([127, 0, 0, 1], 9);
        let (from_low, from_high) = (udp(), above(udp));
        assert_eq!(send_to(from_low, b"from below", at), Ok(10));
        assert_eq!((seen(low, b"from below"), seen(high, b"from below")), ([true; 2], [true; 2]));
        assert_eq!(send_to(from_high, b"from above", at), Ok(10));
        assert_eq!((seen(low, b"from above"), seen(high, b"from above")), ([false; 2], [true; 2]));
    });
}

/// Makes an interface of packets of IP with the address 10.77.1.1, whose other end is the descriptor.
fn tunnel() -> i32 {
    const TUNSETIFF: u64 = 0x4004_54ca;
    const NETWORK_WITHOUT_HEADER: i16 = 0x1001;
    let fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK, 0).expect("/dev/net/tun");
    let mut request = interface("mls0");
    request.ifr_ifru.ifru_flags = NETWORK_WITHOUT_HEADER;
    ask(fd, TUNSETIFF, &mut request).expect("an interface");
    for (call, octets) in [(SIOCSIFADDR, [10, 77, 1, 1]), (0x891c, [255, 255, 255, 0])] {
        let (raw, _) = to_raw(&v4(octets, 0));
        // SAFETY: the address of IPv4 is within the structure.
        request.ifr_ifru.ifru_addr = unsafe { (&raw const raw).cast::<sockaddr>().read() };
        ask(udp(), call, &mut request).expect("an address");
    }
    ask(udp(), SIOCGIFFLAGS, &mut request).expect("flags");
    // SAFETY: the call has written them.
    request.ifr_ifru.ifru_flags = unsafe { request.ifr_ifru.ifru_flags } | IFF_UP as i16;
    ask(udp(), SIOCSIFFLAGS, &mut request).expect("an interface that is up");
    fd
}

#[test]
fn an_interface_carries_its_own_level_alone() {
    if !mls::is_here() {
        return;
    }
    networked(|| {
        let fd = tunnel();
        let to = v4([10, 77, 1, 2], 9);
        assert_eq!(send_to(udp(), b"from below", to), Ok(10));
        let found = std::iter::from_fn(|| {
            await_events(fd, POLLIN);
            read(fd, 2048).ok()
        });
        assert!(found.take(20).any(|packet| packet.ends_with(b"from below")));
        let (high, stream) = above(|| (udp(), tcp()));
        assert_eq!(send_to(high, b"from above", to), Err(EACCES));
        assert_eq!(connect(high, to), Err(EACCES));
        assert_eq!(connect(stream, to), Err(EACCES));
        // Sockets of that level alone get the packets that arrive.
        let at = v4([10, 77, 1, 1], 53);
        let (low, high) = (udp(), above(udp));
        assert_eq!((bind(low, at), bind(high, at)), (Ok(0), Ok(0)));
        let mut packet = vec![0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0, 10, 77, 1, 2, 10, 77, 1, 1];
        let words = packet.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
        let sum = words.sum::<u32>();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend([0, 9, 0, 53, 0, 12, 0, 0]);
        packet.extend(b"data");
        // SAFETY: the bytes live until the call ends.
        must(unsafe { write(fd, packet.as_ptr().cast(), packet.len()) } as i64);
        await_events(low, POLLIN);
        assert_eq!(receive(low, 9, MSG_DONTWAIT), Ok(b"data".to_vec()));
        assert_eq!(receive(high, 9, MSG_DONTWAIT), Err(EAGAIN));
    });
}

#[test]
fn the_configuration_is_written_at_its_own_level_alone() {
    if !mls::is_here() {
        return;
    }
    match mls::part().as_deref() {
        Some("administer") => {
            let mut request = interface("lo");
            assert_eq!(ask(udp(), SIOCGIFFLAGS, &mut request), Ok(0), "reading is allowed");
            assert_eq!(ask(udp(), SIOCSIFFLAGS, &mut request), Err(EPERM));
        }
        _ => networked(|| {
            let stage = Stage::new("the_configuration_is_written_at_its_own_level_alone");
            assert_eq!(stage.run(ADMINISTRATOR, "administer"), Ended::Exited(0));
            let mut request = interface("lo");
            assert_eq!(ask(udp(), SIOCGIFFLAGS, &mut request), Ok(0));
            assert_eq!(ask(udp(), SIOCSIFFLAGS, &mut request), Ok(0));
        }),
    }
}
