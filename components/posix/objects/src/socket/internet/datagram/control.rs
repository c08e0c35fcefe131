//! Control messages of datagrams (ip(7), ipv6(7)): those that a program sends, and those that it is told.
use crate::socket::{
    common::ArrivalTime,
    interface::{ReceivedControl, control_items},
    internet::{
        address::{self, AddressFamily},
        network::{errno, header_options},
        options::{LEVEL_IP, LEVEL_IP6, LEVEL_UDP},
        settings::Flags,
    },
};
use alloc::{boxed::Box, vec::Vec};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use interfaces::sockets::{
    DatagramProtocol, ErrorCarrier, ErrorReport, OptionSide, Payload, ReceivedDatagram,
    ReceivedExtensions, ReceivedOptions, SentDatagram, extension, header_length,
};
use linux_raw_sys::net;
use vfs::Errno;

/// Bytes of options of a header of IPv4 that are read, at most.
const HEADER_OPTIONS_MAX: usize = 40;
const NS_A_SECOND: u64 = 1_000_000_000;
const NS_A_MICROSECOND: u64 = 1000;
/// Number of UDP_SEGMENT.
const SEGMENT: i32 = 103;
/// Number of UDP_GRO.
pub(super) const SEVERAL: u32 = 104;
/// Origins of an error (`struct sock_extended_err`): this host, ICMP, ICMPv6.
const FROM_HERE: u8 = 1;
const FROM_ICMP: u8 = 2;
const FROM_ICMP6: u8 = 3;

/// Makes a control message.
pub(super) fn item(level: u32, kind: u32, data: &[u8]) -> ReceivedControl {
    ReceivedControl::new(level, kind, data)
}

/// Makes the message that tells the time of arrival, `ns` after 1970.
pub(in crate::socket) fn time_of(time: ArrivalTime, ns: u64) -> ReceivedControl {
    let (kind, rest) = match time {
        ArrivalTime::Micros(kind) => (kind, ns % NS_A_SECOND / NS_A_MICROSECOND),
        ArrivalTime::Nanos(kind) => (kind, ns % NS_A_SECOND),
    };
    let mut data = [0; 16];
    let (seconds, part) = data.split_at_mut(8);
    seconds.copy_from_slice(&(ns / NS_A_SECOND).to_le_bytes());
    part.copy_from_slice(&rest.to_le_bytes());
    item(net::SOL_SOCKET, kind, &data)
}

/// Returns the parts one after the other.
fn joined<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let mut all = [0; N];
    let bytes = parts.iter().flat_map(|part| part.iter());
    all.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    all
}

/// The header of a received packet, as control messages tell it.
pub(super) struct ToldHeader {
    destination: SocketAddr,
    /// The local address of IP_PKTINFO.
    local: Ipv4Addr,
    interface: u32,
    hop_limit: u8,
    traffic_class: u8,
    options: Option<Box<ReceivedOptions>>,
    extensions: Option<Box<ReceivedExtensions>>,
}

impl ToldHeader {
    /// Returns the header of a datagram.
    pub(super) fn of_datagram(datagram: &ReceivedDatagram) -> ToldHeader {
        let destination = datagram.destination;
        // The local address is that of the packet, unless it was sent to a group or to all.
        let local = match destination.ip() {
            IpAddr::V4(ip) if !ip.is_multicast() && !ip.is_broadcast() => ip,
            _ => Ipv4Addr::UNSPECIFIED,
        };
        ToldHeader {
            destination,
            local,
            interface: datagram.interface,
            hop_limit: datagram.hop_limit,
            traffic_class: datagram.traffic_class,
            options: datagram.header_options.clone(),
            extensions: datagram.extensions.clone(),
        }
    }
    /// Returns the header of the message of ICMP that told of an error, which has no local address. Linux takes the port of the
    /// destination from the quoted payload: without it the destination is not told.
    pub(super) fn of_message(message: &ErrorCarrier, payload: &Payload) -> (ToldHeader, Flags) {
        let mut ports = [0; 4];
        let has_ports = payload.read(0, &mut ports) == ports.len();
        let [_, _, high, low] = ports;
        let header = ToldHeader {
            destination: SocketAddr::new(message.receiver, u16::from_be_bytes([high, low])),
            local: Ipv4Addr::UNSPECIFIED,
            interface: message.interface,
            hop_limit: message.hop_limit,
            traffic_class: message.traffic_class,
            options: None,
            extensions: None,
        };
        let told = match has_ports {
            true => Flags::all(),
            false => Flags::all() - Flags::DESTINATION - Flags::DESTINATION6,
        };
        (header, told)
    }
}

/// The flags that ask for a part of the header.
pub(super) const TOLD: Flags = Flags::INTERFACE
    .union(Flags::TTL)
    .union(Flags::TOS)
    .union(Flags::DESTINATION)
    .union(Flags::OPTIONS)
    .union(Flags::OPTIONS_BACK)
    .union(Flags::INTERFACE6)
    .union(Flags::INTERFACE6_OLD)
    .union(Flags::HOPS)
    .union(Flags::HOPS_OLD)
    .union(Flags::CLASS)
    .union(Flags::HOP_OPTIONS)
    .union(Flags::END_OPTIONS)
    .union(Flags::ROUTE)
    .union(Flags::HOP_OPTIONS_OLD)
    .union(Flags::END_OPTIONS_OLD)
    .union(Flags::ROUTE_OLD)
    .union(Flags::DESTINATION6);

/// Adds the parts of the header that `flags` ask for, in Linux's order. Returns the flags of recvmsg(2) that tell of one that is
/// missing.
pub(super) fn tell_header(
    flags: Flags,
    header: &ToldHeader,
    family: AddressFamily,
    out: &mut Vec<ReceivedControl>,
) -> u32 {
    if !flags.intersects(TOLD) {
        return 0;
    }
    if flags.contains(Flags::INTERFACE6) && family == AddressFamily::V6 {
        out.push(item(LEVEL_IP6, net::IPV6_PKTINFO, &packet_information(header)));
    }
    if header.destination.is_ipv6() {
        tell_header6(flags, header, out);
        return 0;
    }
    tell_header4(flags, header, out)
}

/// Returns `struct in6_pktinfo`.
fn packet_information(header: &ToldHeader) -> [u8; 20] {
    let ip = match header.destination.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    joined(&[&ip.octets(), &header.interface.to_le_bytes()])
}

/// Adds the parts of a header of IPv6 (`ip6_datagram_recv_specific_ctl`).
fn tell_header6(flags: Flags, header: &ToldHeader, out: &mut Vec<ReceivedControl>) {
    let hops = i32::from(header.hop_limit).to_le_bytes();
    let class = i32::from(header.traffic_class).to_le_bytes();
    let mut tell = |flag, kind, data: &[u8]| {
        out.extend(flags.contains(flag).then(|| item(LEVEL_IP6, kind, data)));
    };
    tell(Flags::HOPS, net::IPV6_HOPLIMIT, &hops);
    tell(Flags::CLASS, net::IPV6_TCLASS, &class);
    let kinds = [
        (extension::HOP_BY_HOP, Flags::HOP_OPTIONS, net::IPV6_HOPOPTS),
        (extension::DESTINATION, Flags::END_OPTIONS, net::IPV6_DSTOPTS),
        (extension::ROUTING, Flags::ROUTE, net::IPV6_RTHDR),
    ];
    tell_extensions(header, kinds, &mut tell);
    if flags.contains(Flags::INTERFACE6_OLD) {
        let data = packet_information(header);
        tell(Flags::INTERFACE6_OLD, net::IPV6_2292PKTINFO, &data);
    }
    tell(Flags::HOPS_OLD, net::IPV6_2292HOPLIMIT, &hops);
    let kinds = [
        (extension::HOP_BY_HOP, Flags::HOP_OPTIONS_OLD, net::IPV6_2292HOPOPTS),
        (extension::DESTINATION, Flags::END_OPTIONS_OLD, net::IPV6_2292DSTOPTS),
        (extension::ROUTING, Flags::ROUTE_OLD, net::IPV6_2292RTHDR),
    ];
    tell_extensions(header, kinds, &mut tell);
    if flags.contains(Flags::DESTINATION6) {
        let name = address::encode(AddressFamily::V6, header.destination);
        out.push(item(LEVEL_IP6, net::IPV6_ORIGDSTADDR, name.bytes()));
    }
}

/// Calls `tell` for each extension header whose kind is one of `kinds`, with the flag and the control message of that.
fn tell_extensions(
    header: &ToldHeader,
    kinds: [(u8, Flags, u32); 3],
    tell: &mut impl FnMut(Flags, u32, &[u8]),
) {
    for (kind, bytes) in header.extensions.iter().flat_map(|all| all.headers()) {
        let known = kinds.iter().find(|(known, ..)| *known == kind);
        known.into_iter().for_each(|(_, flag, message)| tell(*flag, *message, bytes));
    }
}

/// Adds the options of a header of IPv4, and those of an answer.
fn tell_options(flags: Flags, options: &ReceivedOptions, out: &mut Vec<ReceivedControl>) -> u32 {
    if flags.contains(Flags::OPTIONS) {
        out.push(item(LEVEL_IP, net::IP_RECVOPTS, options.came.as_slice()));
    }
    match &options.answer {
        _ if !flags.contains(Flags::OPTIONS_BACK) => 0,
        None => net::MSG_CTRUNC,
        Some(answer) => {
            out.push(item(LEVEL_IP, net::IP_RETOPTS, answer.as_slice()));
            0
        }
    }
}

/// Adds the parts of a header of IPv4.
fn tell_header4(flags: Flags, header: &ToldHeader, out: &mut Vec<ReceivedControl>) -> u32 {
    let destination = header.destination;
    let IpAddr::V4(ip) = destination.ip() else { return 0 };
    if flags.contains(Flags::INTERFACE) {
        let own = header.local;
        let data = joined::<12>(&[&header.interface.to_le_bytes(), &own.octets(), &ip.octets()]);
        out.push(item(LEVEL_IP, net::IP_PKTINFO, &data));
    }
    if flags.contains(Flags::TTL) {
        let hops = i32::from(header.hop_limit);
        out.push(item(LEVEL_IP, net::IP_TTL, &hops.to_le_bytes()));
    }
    if flags.contains(Flags::TOS) {
        out.push(item(LEVEL_IP, net::IP_TOS, &[header.traffic_class]));
    }
    let missing = header.options.as_ref().map_or(0, |options| tell_options(flags, options, out));
    if flags.contains(Flags::DESTINATION) {
        let name = address::encode(AddressFamily::V4, destination);
        out.push(item(LEVEL_IP, net::IP_ORIGDSTADDR, name.bytes()));
    }
    missing
}

/// Makes the message of an entry of the error queue of a socket of `family`: `struct sock_extended_err`, then the address of the host
/// that told it.
pub(super) fn error_of(report: &ErrorReport, family: AddressFamily) -> ReceivedControl {
    let (kind, code) = report.message;
    let offender = report.carrier.map(|carrier| carrier.offender);
    let origin = match offender {
        None => FROM_HERE,
        Some(IpAddr::V4(_)) => FROM_ICMP,
        Some(IpAddr::V6(_)) => FROM_ICMP6,
    };
    let number = errno(report.error).number() as u32;
    let head =
        joined::<16>(&[&number.to_le_bytes(), &[origin, kind, code, 0], &report.mtu.to_le_bytes()]);
    // Without an offender its address is of no family.
    let offender = report.carrier.map(|carrier| {
        let mut end = SocketAddr::new(carrier.offender, 0);
        if let SocketAddr::V6(end) = &mut end
            && address::is_link_local(end.ip())
        {
            end.set_scope_id(carrier.interface);
        }
        address::encode(family, end)
    });
    let none = [0; 28];
    let name = match (&offender, family) {
        (Some(name), _) => name.bytes(),
        (None, AddressFamily::V6) => &none,
        (None, AddressFamily::V4) => none.first_chunk::<16>().map_or(&none[..], |short| short),
    };
    let length = head.len() + name.len();
    let data = joined::<44>(&[&head, name]);
    let data = data.get(..length).unwrap_or_default();
    match family {
        AddressFamily::V6 => item(LEVEL_IP6, net::IPV6_RECVERR, data),
        AddressFamily::V4 => item(LEVEL_IP, net::IP_RECVERR, data),
    }
}

fn bytes_of<const N: usize>(data: &[u8]) -> Result<[u8; N], Errno> {
    data.first_chunk().copied().ok_or(Errno::EINVAL)
}

/// Reads an `int`, which has exactly four bytes.
fn int(data: &[u8]) -> Result<i32, Errno> {
    <[u8; 4]>::try_from(data).map(i32::from_le_bytes).map_err(|_| Errno::EINVAL)
}

/// Reads an octet, or -1 for the default.
fn octet_or_default(value: i32) -> Result<Option<u8>, Errno> {
    match value {
        -1 => Ok(None),
        _ => u8::try_from(value).map(Some).map_err(|_| Errno::EINVAL),
    }
}

/// Reads the control messages that a program sends, and sets the fields of `datagram` that they give. Those of other levels are
/// passed over.
///
/// # Errors
/// `EINVAL` for a message that is unknown on its level or whose value is invalid.
pub(super) fn read(
    control: &[u8],
    (family, protocol): (AddressFamily, DatagramProtocol),
    side: OptionSide,
    datagram: &mut SentDatagram,
) -> Result<(), Errno> {
    let is_v6 = family == AddressFamily::V6;
    for found in control_items(control) {
        let found = found?;
        let (kind, data) = (found.kind as u32, found.data);
        match u32::try_from(found.level).map_err(|_| Errno::EINVAL)? {
            net::SOL_SOCKET if matches!(kind, net::SCM_RIGHTS | net::SCM_CREDENTIALS) => {}
            net::SOL_SOCKET => return Err(Errno::EINVAL),
            LEVEL_UDP if protocol.has_ports() => {
                if found.kind != SEGMENT || data.len() != size_of::<u16>() {
                    return Err(Errno::EINVAL);
                }
                let bytes = u16::from_le_bytes(bytes_of(data)?);
                datagram.segment = (bytes != 0).then_some(bytes);
            }
            LEVEL_IP if kind == net::IP_RETOPTS => {
                let given = data.get(..data.len().min(HEADER_OPTIONS_MAX)).unwrap_or_default();
                datagram.header_options = Some(Box::new(header_options(side, given)?));
            }
            LEVEL_IP => read4(kind, data, datagram)?,
            LEVEL_IP6 if is_v6 => read6(kind, data, side, datagram)?,
            _ => {}
        }
    }
    Ok(())
}

fn read4(kind: u32, data: &[u8], datagram: &mut SentDatagram) -> Result<(), Errno> {
    match kind {
        net::IP_PKTINFO => {
            let data = <[u8; 12]>::try_from(data).map_err(|_| Errno::EINVAL)?;
            let (interface, rest) = data.split_at(4);
            let interface = u32::from_le_bytes(bytes_of(interface)?);
            let source = Ipv4Addr::from(bytes_of::<4>(rest)?);
            datagram.interface = (interface != 0).then_some(interface);
            datagram.source = (!source.is_unspecified()).then_some(source.into());
        }
        net::IP_TTL => match int(data)? {
            value @ 1..=255 => datagram.hop_limit = Some(value as u8),
            _ => return Err(Errno::EINVAL),
        },
        net::IP_TOS => {
            let value =
                if data.len() == 1 { data.first().map(|octet| i32::from(*octet)) } else { None };
            let value = value.map_or_else(|| int(data), Ok)?;
            datagram.traffic_class = Some(u8::try_from(value).map_err(|_| Errno::EINVAL)?);
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

/// Reads a header of options of IPv6 (`ip6_datagram_send_ctl`).
fn read_extension(
    kind: u32,
    data: &[u8],
    side: OptionSide,
    datagram: &mut SentDatagram,
) -> Result<(), Errno> {
    let length = header_length(data).ok_or(Errno::EINVAL)?;
    let header = data.get(..length).ok_or(Errno::EINVAL)?;
    let headers = datagram.extensions.get_or_insert_default();
    let place = match kind {
        net::IPV6_HOPOPTS | net::IPV6_2292HOPOPTS => &mut headers.hop_by_hop,
        net::IPV6_RTHDRDSTOPTS => &mut headers.of_route,
        _ => &mut headers.destination,
    };
    // Of the others the last one counts.
    let is_single = kind != net::IPV6_DSTOPTS && kind != net::IPV6_RTHDRDSTOPTS;
    if is_single && place.is_some() {
        return Err(Errno::EINVAL);
    }
    if !matches!(side, OptionSide::Privileged) {
        return Err(Errno::EPERM);
    }
    *place = Some(header.to_vec());
    Ok(())
}

fn read6(
    kind: u32,
    data: &[u8],
    side: OptionSide,
    datagram: &mut SentDatagram,
) -> Result<(), Errno> {
    match kind {
        net::IPV6_HOPOPTS
        | net::IPV6_2292HOPOPTS
        | net::IPV6_DSTOPTS
        | net::IPV6_2292DSTOPTS
        | net::IPV6_RTHDRDSTOPTS => read_extension(kind, data, side, datagram)?,
        // No type of routing header is taken here: only that of Mobile IPv6 would be, which this system lacks.
        net::IPV6_RTHDR | net::IPV6_2292RTHDR => return Err(Errno::EINVAL),
        net::IPV6_PKTINFO | net::IPV6_2292PKTINFO => {
            let data = bytes_of::<20>(data)?;
            let (source, interface) = data.split_at(16);
            let interface = u32::from_le_bytes(bytes_of(interface)?);
            let source = Ipv6Addr::from(bytes_of::<16>(source)?);
            datagram.interface = (interface != 0).then_some(interface);
            let source: IpAddr = match source.to_ipv4_mapped() {
                Some(ip) => ip.into(),
                None => source.into(),
            };
            datagram.source = (!source.is_unspecified()).then_some(source);
        }
        net::IPV6_HOPLIMIT | net::IPV6_2292HOPLIMIT => {
            datagram.hop_limit = octet_or_default(int(data)?)?;
        }
        net::IPV6_TCLASS => datagram.traffic_class = octet_or_default(int(data)?)?,
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}
