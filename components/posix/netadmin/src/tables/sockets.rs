//! Tables of sockets.
use super::pad;
use crate::request::{PacketFlags, PacketRecord};
use alloc::string::String;
use core::{
    fmt::Write,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};
use interfaces::sockets::{ConnectionState, NetworkAdministration, SocketProtocol, SocketRecord};

/// Bits of a line of `tcp`, `udp`.
const TCP_WIDTH: usize = 149;
const UDP_WIDTH: usize = 127;
const TCP_HEAD: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when \
                        retrnsmt   uid  timeout inode";
const UDP_HEAD: &str = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when \
                        retrnsmt   uid  timeout inode ref pointer drops";
const RAW_HEAD: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when \
                        retrnsmt   uid  timeout inode ref pointer drops";
const HEAD6: &str = "  sl  local_address                         \
                     remote_address                        st tx_queue rx_queue tr tm->when \
                     retrnsmt   uid  timeout inode";
const MS_PER_TICK: u32 = 10;
const US_PER_TICK: u32 = 10_000;
/// Time of the first retransmission in microseconds, which a listener shows.
const INITIAL_RTO: u32 = 1_000_000;
/// Threshold of slow start that was never set.
const INITIAL: u32 = 0x7fff_ffff;

/// The version of the Internet Protocol that a table is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Version4,
    Version6,
}

impl Family {
    /// Returns the family of a socket.
    fn of(socket: &SocketRecord) -> Family {
        if socket.is_version6 { Family::Version6 } else { Family::Version4 }
    }
}

/// Returns an end as digits: words in the order of the machine, and the port.
fn end(text: &mut String, end: Option<SocketAddr>, family: Family) {
    let (address, port) = end.map_or((Ipv4Addr::UNSPECIFIED.into(), 0), |it| (it.ip(), it.port()));
    match address {
        IpAddr::V4(short) if family == Family::Version4 => {
            let _ = write!(text, "{:08X}", u32::from_le_bytes(short.octets()));
        }
        address => {
            let long = match address {
                IpAddr::V6(long) => long,
                IpAddr::V4(short) if short.is_unspecified() => Ipv6Addr::UNSPECIFIED,
                IpAddr::V4(short) => short.to_ipv6_mapped(),
            };
            for word in long.octets().chunks_exact(4).filter_map(|word| word.first_chunk::<4>()) {
                let _ = write!(text, "{:08X}", u32::from_le_bytes(*word));
            }
        }
    }
    let _ = write!(text, ":{port:04X}");
}

/// Writes both ends, state, queues, timer, owner and inode.
fn common(text: &mut String, socket: &SocketRecord) {
    let family = Family::of(socket);
    end(text, Some(socket.local), family);
    text.push(' ');
    end(text, socket.peer, family);
    let is_listener = socket.state == ConnectionState::Listen;
    let sent = if is_listener { 0 } else { socket.send_queue };
    let _ = write!(
        text,
        " {:02X} {sent:08X}:{:08X} {:02X}:{:08X} {:08X} {:5} {:8} {}",
        socket.state as u8,
        socket.receive_queue,
        socket.timer as u8,
        socket.timer_ms / MS_PER_TICK,
        socket.retransmits,
        socket.user,
        socket.probes,
        socket.inode
    );
}

fn tcp(network: &dyn NetworkAdministration, family: Family, text: &mut String) {
    let all = network.sockets(SocketProtocol::Tcp);
    let chosen = all.iter().filter(|socket| Family::of(socket) == family);
    for (number, socket) in chosen.enumerate() {
        let start = text.len();
        let _ = write!(text, "{number:4}: ");
        common(text, socket);
        let references = match socket.state {
            ConnectionState::TimeWait => 3,
            ConnectionState::SynReceived if socket.info.is_none() => 0,
            _ => 1,
        };
        let _ = write!(text, " {references} {:016x}", 0);
        if let Some(info) = socket.info {
            let threshold = match info.snd_ssthresh {
                _ if socket.state == ConnectionState::Listen => 0,
                INITIAL.. => -1,
                threshold => i64::from(threshold),
            };
            let is_listener = socket.state == ConnectionState::Listen;
            let rto = if is_listener { INITIAL_RTO } else { info.rto };
            let (rto, ato) = (rto / US_PER_TICK, info.ato / US_PER_TICK);
            let _ = write!(text, " {rto} {ato} 0 {} {threshold}", info.snd_cwnd);
        }
        match family {
            Family::Version4 => pad(text, start, TCP_WIDTH),
            Family::Version6 => text.push('\n'),
        }
    }
}

/// Returns `/proc/net/tcp`.
pub fn tcp4(network: &dyn NetworkAdministration) -> String {
    let mut text = String::from(TCP_HEAD);
    pad(&mut text, 0, TCP_WIDTH);
    tcp(network, Family::Version4, &mut text);
    text
}

/// Returns `/proc/net/tcp6`.
pub fn tcp6(network: &dyn NetworkAdministration) -> String {
    let mut text = String::from(HEAD6);
    text.push('\n');
    tcp(network, Family::Version6, &mut text);
    text
}

/// The form of a table of datagram sockets.
struct Form {
    protocol: SocketProtocol,
    family: Family,
    digits: usize,
    width: Option<usize>,
}

fn datagrams(network: &dyn NetworkAdministration, form: &Form, text: &mut String) {
    let all = network.sockets(form.protocol);
    let chosen = all.iter().filter(|socket| Family::of(socket) == form.family);
    for (number, socket) in chosen.enumerate() {
        let start = text.len();
        let _ = write!(text, "{number:width$}: ", width = form.digits);
        common(text, socket);
        let _ = write!(text, " 2 {:016x} {}", 0, socket.drops);
        match form.width {
            Some(width) => pad(text, start, width),
            None => text.push('\n'),
        }
    }
}

fn table4(
    network: &dyn NetworkAdministration,
    protocol: SocketProtocol,
    (head, digits, width): (&str, usize, Option<usize>),
) -> String {
    let mut text = String::from(head);
    match width {
        Some(width) => pad(&mut text, 0, width),
        None => text.push('\n'),
    }
    datagrams(network, &Form { protocol, family: Family::Version4, digits, width }, &mut text);
    text
}

fn table6(network: &dyn NetworkAdministration, protocol: SocketProtocol) -> String {
    let mut text = String::from(HEAD6);
    text.push_str(" ref pointer drops\n");
    datagrams(
        network,
        &Form { protocol, family: Family::Version6, digits: 5, width: None },
        &mut text,
    );
    text
}

/// Returns `/proc/net/udp`.
pub fn udp4(network: &dyn NetworkAdministration) -> String {
    table4(network, SocketProtocol::Udp, (UDP_HEAD, 5, Some(UDP_WIDTH)))
}

/// Returns `/proc/net/udp6`.
pub fn udp6(network: &dyn NetworkAdministration) -> String {
    table6(network, SocketProtocol::Udp)
}

/// Returns `/proc/net/raw`.
pub fn raw4(network: &dyn NetworkAdministration) -> String {
    table4(network, SocketProtocol::Raw, (RAW_HEAD, 4, None))
}

/// Returns `/proc/net/raw6`.
pub fn raw6(network: &dyn NetworkAdministration) -> String {
    table6(network, SocketProtocol::Raw)
}

/// Returns `/proc/net/icmp`. Its head has a blank less than that of `udp`.
pub fn ping4(network: &dyn NetworkAdministration) -> String {
    table4(network, SocketProtocol::Ping, (RAW_HEAD, 5, Some(UDP_WIDTH)))
}

/// Returns `/proc/net/icmp6`.
pub fn ping6(network: &dyn NetworkAdministration) -> String {
    table6(network, SocketProtocol::Ping)
}

/// Returns `/proc/net/udplite`.
pub fn lite4(network: &dyn NetworkAdministration) -> String {
    table4(network, SocketProtocol::UdpLite, (UDP_HEAD, 5, Some(UDP_WIDTH)))
}

/// Returns `/proc/net/udplite6`.
pub fn lite6(network: &dyn NetworkAdministration) -> String {
    table6(network, SocketProtocol::UdpLite)
}

/// Returns `/proc/net/packet`, with the columns of Linux.
pub fn packet_sockets(all: &[PacketRecord]) -> String {
    let mut text =
        String::from("sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n");
    for one in all {
        let is_running = u32::from(one.flags.contains(PacketFlags::RUNNING));
        // The table and the program refer to a socket, and what shows it frames.
        let references = 2 + is_running;
        let _ = writeln!(
            text,
            "{:016x} {references:<6} {:<4} {:04x}   {:<5} {is_running} {:<6} {:<6} {:<6}",
            0, one.kind, one.protocol, one.interface, one.charged, one.user, one.inode
        );
    }
    text
}
