//! The network: `docs/mls-network.md`. Its rules know no grades.
use crate::{
    Row,
    place::{self, Actor, Attempt},
    policy::{self, Cell, Grade, Relation},
    row,
    rule::{Errors, LEFT_OUT, Rule},
};
use abi::{
    check, close,
    internet::{
        self, SIOCSIFADDR, administration::Administration, ask, bind, connect, interface, listen,
        receive, receive_from, send, send_to, tcp, to_raw, try_socket, udp, v4,
    },
    mls::Stage,
    must, open,
};
use libc::*;
use std::{
    fs,
    net::SocketAddr,
    path::Path,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

const SENT: &str = "send, connect";
const DATAGRAM: &str = "a packet comes to a socket of UDP, UDP-Lite or ping";
const SEGMENT: &str = "a segment comes to a connection or a listener";
const BIND: &str = "bind";
const RAW: &str = "a packet comes to a raw socket";
const FRAME: &str = "a frame comes to a packet socket";
const OWN_HEADER: &str = "a raw socket sends a header of its own (IP_HDRINCL)";
const OWN_FRAME: &str = "a packet socket sends";
const CHANGE: &str = "change the network: netlink, ioctl, TUNSETIFF";
const LIST: &str = "list sockets: sock_diag(7), `/proc/net` and `/proc/skerry/net`";
const NETLINK: &str = "a message of netlink from program to program";

/// Ports: that of the first echo of datagrams, of the first listener, and of the sockets of each level that send when they are asked to.
const ECHOES: u16 = 9000;
const LISTENERS: u16 = 9100;
const BEACONS: u16 = 9200;
/// The port to which these send, where nobody listens.
const NOBODY: u16 = 9300;
/// The number of the first socket of netlink.
const FIRST_NETLINK: u32 = 70_000;
/// The start of a request to a socket, and the end of the answer.
const ROUND: &[u8] = b"a round";
const END: &[u8] = b"the end.";
/// `NETLINK_USERSOCK`.
const USERS: i32 = 2;
/// `SOCK_DIAG_BY_FAMILY`, as a dump.
const DIAGNOSE: [u8; 12] = [20, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0];

fn local(port: u16) -> SocketAddr {
    v4([127, 0, 0, 1], port)
}

/// The cell of objects at a level that everybody of that level may write to.
fn lowest(relation: Relation) -> Cell {
    Cell { relation, grade: Grade::Untrusted }
}

/// Returns the packet of a level in a round.
fn beacon(relation: Relation, round: &[u8]) -> Vec<u8> {
    [format!("beacon of {relation:?}.").as_bytes(), round].concat()
}

/// Makes an interface of packets of IP with the secrecy of a relation. Its owner stays.
fn tunnel(relation: Relation) -> Actor {
    const TUNSETIFF: u64 = 0x4004_54ca;
    const NETWORK_WITHOUT_HEADER: i16 = 0x1001;
    const SIOCSIFNETMASK: u64 = 0x891c;
    // The interface has its maker's secrecy, at which the network must be changed.
    policy::load_with(&lowest(relation).object());
    place::helper(|| {
        let context = format!("system_u:system_r:kernel_t:{}-s15:c0.c1023", relation.level());
        fs::write("/proc/thread-self/attr/current", context).expect("another level");
        let fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK, 0).expect("/dev/net/tun");
        let mut request = interface(&format!("mx{}", relation as u8));
        request.ifr_ifru.ifru_flags = NETWORK_WITHOUT_HEADER;
        ask(fd, TUNSETIFF, &mut request).expect("an interface");
        for (call, octets) in
            [(SIOCSIFADDR, [10, 77, relation as u8, 1]), (SIOCSIFNETMASK, [255, 255, 255, 0])]
        {
            let (raw, _) = to_raw(&v4(octets, 0));
            request.ifr_ifru.ifru_addr = unsafe { (&raw const raw).cast::<sockaddr>().read() };
            ask(udp(), call, &mut request).expect("an address");
        }
        ask(udp(), SIOCGIFFLAGS, &mut request).expect("flags");
        request.ifr_ifru.ifru_flags = unsafe { request.ifr_ifru.ifru_flags } | IFF_UP as i16;
        ask(udp(), SIOCSIFFLAGS, &mut request).expect("an interface that is up");
        place::hold()
    })
}

/// Answers datagrams, and sends a packet of each level when a socket of the subject's level is asked for a round.
fn answer(echoes: &[i32], beacons: &[i32]) -> ! {
    unsafe { raise(SIGSTOP) };
    let mut waits: Vec<pollfd> =
        echoes.iter().map(|fd| pollfd { fd: *fd, events: POLLIN, revents: 0 }).collect();
    loop {
        must(unsafe { poll(waits.as_mut_ptr(), waits.len() as nfds_t, -1) });
        for wait in waits.iter().filter(|wait| wait.revents & POLLIN != 0) {
            let Ok((bytes, from)) = receive_from(wait.fd, 64, MSG_DONTWAIT) else { continue };
            let Some(round) = bytes.strip_prefix(ROUND) else {
                let _ = send_to(wait.fd, &bytes, from);
                continue;
            };
            for (fd, relation) in beacons.iter().zip(Relation::ALL) {
                send_to(*fd, &beacon(relation, round), local(NOBODY)).expect("a beacon");
            }
            let end = [END, round].concat();
            send_to(beacons[Relation::Equal as usize], &end, local(NOBODY)).expect("the end");
        }
    }
}

/// Makes interfaces and sockets with all labels, and a process that answers.
pub fn start(stage: Stage) -> (Stage, Vec<Actor>) {
    internet::bring_up_loopback();
    // The device has its label since the start.
    place::relabel(Path::new("/dev/net/tun"), "system_u:object_r:disk_t:s0-s15:c0.c1023");
    let mut actors: Vec<Actor> = Relation::ALL.into_iter().map(tunnel).collect();
    policy::load();
    let mut echoes = Vec::new();
    for cell in Cell::all() {
        let number = cell.number() as u16;
        place::with_sockets(&cell.object(), || {
            let echo = udp();
            assert_eq!(bind(echo, local(ECHOES + number)), Ok(0));
            echoes.push(echo);
            let listener = tcp();
            assert_eq!(bind(listener, local(LISTENERS + number)), Ok(0));
            assert_eq!(listen(listener, 64), Ok(0));
            let netlink = try_socket(AF_NETLINK, SOCK_RAW, USERS).expect("a socket of netlink");
            let mut name: sockaddr_nl = unsafe { abi::zeroed() };
            (name.nl_family, name.nl_pid) = (AF_NETLINK as u16, FIRST_NETLINK + u32::from(number));
            let bytes = size_of_val(&name) as u32;
            must(unsafe { libc::bind(netlink, (&raw const name).cast(), bytes) });
        });
    }
    let beacons = Relation::ALL.map(|relation| {
        place::with_sockets(&lowest(relation).object(), || {
            let fd = udp();
            assert_eq!(bind(fd, local(BEACONS)), Ok(0), "the port is free at each level");
            fd
        })
    });
    actors.push(place::helper(|| answer(&echoes, &beacons)));
    (stage, actors)
}

/// An address behind the interface of the cell.
fn behind(it: &Attempt<'_>) -> SocketAddr {
    v4([10, 77, it.cell.relation as u8, 2], 9)
}

fn index_of(it: &Attempt<'_>) -> u32 {
    let name = abi::c(format!("mx{}", it.cell.relation as u8));
    let index = unsafe { if_nametoindex(name.as_ptr()) };
    assert_ne!(index, 0);
    index
}

/// Has a packet of each level sent, and tells whether `fd` saw that of the cell.
fn sees(it: &Attempt<'_>, fd: i32) -> Result<(), i32> {
    let asker = udp();
    let at = local(ECHOES + lowest(Relation::Equal).number() as u16);
    // Packets of the round before may still come.
    static ROUNDS: AtomicU32 = AtomicU32::new(0);
    let round = format!("{:08}", ROUNDS.fetch_add(1, Relaxed)).into_bytes();
    let request = [ROUND, &round].concat();
    assert_eq!(send_to(asker, &request, at), Ok(request.len()));
    let (wanted, end) = (beacon(it.cell.relation, &round), [END, &round].concat());
    let mut found = Err(LEFT_OUT);
    loop {
        let packet = receive(fd, 2048, 0)?;
        if packet.ends_with(&wanted) {
            found = Ok(());
        }
        if packet.ends_with(&end) {
            break;
        }
    }
    [asker, fd].into_iter().for_each(close);
    found
}

/// Returns the answers of sock_diag(7).
fn diagnosed(request: &[u8]) -> Vec<u8> {
    let fd = try_socket(AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG).expect("a socket of netlink");
    let mut bytes = (16 + request.len() as u32).to_ne_bytes().to_vec();
    bytes.extend(DIAGNOSE);
    bytes.extend(request);
    send(fd, &bytes, 0).expect("a request");
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

/// Tells whether sock_diag(7) has a socket of a protocol at a port.
fn is_diagnosed(protocol: i32, port: u16) -> Result<(), i32> {
    let mut request = vec![AF_INET as u8, protocol as u8, 0, 0];
    request.extend(u32::MAX.to_ne_bytes());
    request.resize(56, 0);
    let [a, b] = port.to_be_bytes();
    let is_there = diagnosed(&request).windows(4).any(|bytes| bytes == [a, b, 0, 0]);
    if is_there { Ok(()) } else { Err(LEFT_OUT) }
}

fn is_listed(table: &str, port: u16) -> Result<(), i32> {
    let text = fs::read_to_string(format!("/proc/net/{table}")).expect("the table");
    let is_there = text.contains(&format!(":{port:04X} 00000000:0000"));
    if is_there { Ok(()) } else { Err(LEFT_OUT) }
}

pub fn rows() -> Vec<Row> {
    [sent(), received(), listed()].into_iter().flatten().collect()
}

fn sent() -> Vec<Row> {
    let equal = |doc, name, attempt| row(doc, name, Rule::Equal, Errors::all(EACCES), attempt);
    vec![
        equal(SENT, "a datagram", |it| {
            let fd = udp();
            let found = send_to(fd, b"data", behind(it));
            close(fd);
            found.map(drop)
        }),
        equal(SENT, "connect for datagrams", |it| {
            let fd = udp();
            let found = connect(fd, behind(it));
            close(fd);
            found.map(drop)
        }),
        equal(SENT, "connect a stream", |it| {
            let fd = try_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0).expect("a socket");
            let found = connect(fd, behind(it));
            close(fd);
            match found {
                Err(EINPROGRESS) => Ok(()),
                found => found.map(drop),
            }
        }),
        equal(OWN_HEADER, "send", |it| {
            let fd = try_socket(AF_INET, SOCK_RAW, IPPROTO_RAW).expect("a raw socket");
            let to = [10, 77, it.cell.relation as u8, 2];
            let mut header = vec![0x45, 0, 0, 20, 0, 1, 0, 0, 64, 17, 0, 0, 10, 77];
            header.extend([it.cell.relation as u8, 1]);
            header.extend(to);
            let found = send_to(fd, &header, v4(to, 0));
            close(fd);
            found.map(drop)
        }),
        equal(OWN_FRAME, "send", |it| {
            let protocol = 0x0800u16.to_be();
            let fd = try_socket(AF_PACKET, SOCK_DGRAM, protocol.into()).expect("a packet socket");
            let mut to: sockaddr_ll = unsafe { abi::zeroed() };
            (to.sll_family, to.sll_protocol) = (AF_PACKET as u16, protocol);
            to.sll_ifindex = index_of(it) as i32;
            let (bytes, length) = ([0x45u8; 20], size_of_val(&to) as u32);
            let (data, name) = (bytes.as_ptr().cast(), (&raw const to).cast());
            let found = check(unsafe { sendto(fd, data, 20, 0, name, length) } as i64);
            close(fd);
            found.map(drop)
        }),
        row(NETLINK, "send", Rule::Equal, Errors::all(ECONNREFUSED), |it| {
            let fd = try_socket(AF_NETLINK, SOCK_RAW, USERS).expect("a socket of netlink");
            let mut to: sockaddr_nl = unsafe { abi::zeroed() };
            (to.nl_family, to.nl_pid) =
                (AF_NETLINK as u16, FIRST_NETLINK + it.cell.number() as u32);
            let (bytes, length) = ([0u8; 16], size_of_val(&to) as u32);
            let (data, name) = (bytes.as_ptr().cast(), (&raw const to).cast());
            let found = check(unsafe { sendto(fd, data, 16, MSG_DONTWAIT, name, length) } as i64);
            close(fd);
            found.map(drop)
        }),
    ]
}

fn received() -> Vec<Row> {
    let out = Errors::all(LEFT_OUT);
    vec![
        row(DATAGRAM, "an echo", Rule::Equal, out, |it| {
            let fd = udp();
            assert_eq!(connect(fd, local(ECHOES + it.cell.number() as u16)), Ok(0));
            assert_eq!(send(fd, b"echo", 0), Ok(4));
            // The answer, or the error that nobody is there.
            let found = receive(fd, 9, 0);
            close(fd);
            match found {
                Ok(bytes) => {
                    assert_eq!(bytes, b"echo");
                    Ok(())
                }
                Err(ECONNREFUSED) => Err(LEFT_OUT),
                Err(error) => Err(error),
            }
        }),
        row(SEGMENT, "connect", Rule::Equal, out, |it| {
            let fd = tcp();
            let found = connect(fd, local(LISTENERS + it.cell.number() as u16));
            close(fd);
            match found {
                Err(ECONNREFUSED) => Err(LEFT_OUT),
                found => found.map(drop),
            }
        }),
        // The port is taken if the other socket is found.
        row(BIND, "TCP", Rule::Equal, out, |it| taken(tcp(), LISTENERS + it.cell.number() as u16)),
        row(BIND, "UDP", Rule::Equal, out, |it| taken(udp(), ECHOES + it.cell.number() as u16)),
        row(RAW, "datagrams", Rule::Read, out, |it| {
            sees(it, try_socket(AF_INET, SOCK_RAW, IPPROTO_UDP).expect("a raw socket"))
        }),
        row(FRAME, "datagrams", Rule::Read, out, |it| {
            let every = i32::from(3u16.to_be());
            sees(it, try_socket(AF_PACKET, SOCK_DGRAM, every).expect("a packet socket"))
        }),
    ]
}

fn taken(fd: i32, port: u16) -> Result<(), i32> {
    let found = bind(fd, local(port));
    close(fd);
    match found {
        Err(EADDRINUSE) => Ok(()),
        Ok(_) => Err(LEFT_OUT),
        Err(error) => Err(error),
    }
}

fn listed() -> Vec<Row> {
    let list = |name, attempt| row(LIST, name, Rule::Read, Errors::all(LEFT_OUT), attempt);
    vec![
        list("the table of TCP", |it| is_listed("tcp", LISTENERS + it.cell.number() as u16)),
        list("the table of UDP", |it| is_listed("udp", ECHOES + it.cell.number() as u16)),
        list("sock_diag of TCP", |it| {
            is_diagnosed(IPPROTO_TCP, LISTENERS + it.cell.number() as u16)
        }),
        list("sock_diag of UDP", |it| is_diagnosed(IPPROTO_UDP, ECHOES + it.cell.number() as u16)),
    ]
}

fn change(name: &'static str, attempt: fn(&Attempt<'_>) -> Result<(), i32>) -> Row {
    row(CHANGE, name, Rule::Write, Errors::all(EPERM), attempt)
}

/// Rows whose object is the label of `initial netif`.
pub fn configuration() -> Vec<Row> {
    vec![
        change("SIOCSIFFLAGS", |_| {
            let (fd, mut request) = (udp(), interface("lo"));
            ask(fd, SIOCGIFFLAGS, &mut request).expect("flags");
            let found = ask(fd, SIOCSIFFLAGS, &mut request);
            close(fd);
            found.map(drop)
        }),
        change("RTM_NEWLINK", |_| {
            const RTM_NEWLINK: u16 = 16;
            // The first interface, and no flag to change.
            let mut body = [0u8; 16];
            body[4] = 1;
            Administration::new(&[]).act(RTM_NEWLINK, 0, &body).map_err(|(error, _)| error)
        }),
    ]
}
