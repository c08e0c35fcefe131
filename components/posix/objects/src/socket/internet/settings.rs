//! [`InternetSettings`]: the values of a socket's options of the Internet protocols, and the limits of the system.
use super::address::AddressFamily;
use crate::socket::common::SocketCommon;
use alloc::boxed::Box;
use bitflags::bitflags;
use core::sync::atomic::Ordering;
use interfaces::sockets::{ExtensionHeaders, IpOptions, PathDiscovery, StreamOptions};
use linux_raw_sys::net;
use memory::setting::Setting;

/// First port that needs no privilege (`net.ipv4.ip_unprivileged_port_start`).
pub static UNPRIVILEGED_PORT_START: Setting = Setting::new(1024, 0, 65_535);
/// First and last group whose members may have ping sockets (`net.ipv4.ping_group_range`).
pub static PING_GROUP_FIRST: Setting = Setting::new(1, 0, u32::MAX as i64);
/// See [`PING_GROUP_FIRST`].
pub static PING_GROUP_LAST: Setting = Setting::new(0, 0, u32::MAX as i64);

/// Sockets of AF_INET6 begin with IPV6_V6ONLY (`net.ipv6.bindv6only`), which cannot be switched on.
pub static BIND_VERSION6_ONLY: Setting = Setting::new(0, 0, 0);

bitflags! {
    /// The parts of a received datagram's header of which a program is told in control messages, and options that are a flag
    /// and are used here alone.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(super) struct Flags: u64 {
        /// IP_PKTINFO
        const INTERFACE = 1;
        /// IP_RECVTTL
        const TTL = 1 << 1;
        /// IP_RECVTOS
        const TOS = 1 << 2;
        /// IP_RECVORIGDSTADDR
        const DESTINATION = 1 << 3;
        /// IPV6_RECVPKTINFO
        const INTERFACE6 = 1 << 4;
        /// IPV6_RECVHOPLIMIT
        const HOPS = 1 << 5;
        /// IPV6_RECVTCLASS
        const CLASS = 1 << 6;
        /// IPV6_RECVORIGDSTADDR
        const DESTINATION6 = 1 << 7;
        /// IPV6_2292PKTINFO
        const INTERFACE6_OLD = 1 << 8;
        /// IPV6_2292HOPLIMIT
        const HOPS_OLD = 1 << 9;
        /// UDP_CORK
        const CORK = 1 << 10;
        /// IPV6_V6ONLY
        const ONLY_V6 = 1 << 11;
        /// TCP_QUICKACK is on.
        const QUICK = 1 << 12;
        /// IP_FREEBIND
        const FREE_BIND = 1 << 13;
        /// IP_TRANSPARENT
        const TRANSPARENT = 1 << 14;
        /// SO_SNDBUF was set.
        const SEND_BUFFER_SET = 1 << 15;
        /// SO_RCVBUF was set.
        const RECEIVE_BUFFER_SET = 1 << 16;
        /// IP_BIND_ADDRESS_NO_PORT
        const NO_PORT = 1 << 17;
        /// UDP_GRO
        const SEVERAL = 1 << 18;
        /// IPV6_RECVHOPOPTS
        const HOP_OPTIONS = 1 << 19;
        /// IPV6_RECVDSTOPTS
        const END_OPTIONS = 1 << 20;
        /// IPV6_RECVRTHDR
        const ROUTE = 1 << 21;
        /// IPV6_2292HOPOPTS
        const HOP_OPTIONS_OLD = 1 << 22;
        /// IPV6_2292DSTOPTS
        const END_OPTIONS_OLD = 1 << 23;
        /// IP_RECVOPTS
        const OPTIONS = 1 << 24;
        /// IP_RETOPTS
        const OPTIONS_BACK = 1 << 25;
        /// IP_NODEFRAG
        const FRAGMENTS_KEPT = 1 << 26;
        /// IPV6_DONTFRAG
        const NO_FRAGMENTS = 1 << 27;
        /// TCP_INQ
        const UNREAD = 1 << 28;
        /// IP_CHECKSUM. No card tells the sum of a whole datagram, so there is never one to tell.
        const CHECKSUM = 1 << 29;
        /// IPV6_2292RTHDR
        const ROUTE_OLD = 1 << 30;
        /// Packets of IPv6 have extension headers ([`InternetSettings::extensions`]).
        const EXTENSIONS = 1 << 31;
        /// IP_PASSSEC. Packets have no labels of security, so there is never one to tell.
        const LABELS = 1 << 32;
    }
}

/// The values of options.
#[derive(Clone, Debug)]
pub(super) struct InternetSettings {
    /// The options that the stack is given.
    pub(super) stream: StreamOptions,
    /// Flags that are used here.
    pub(super) flags: Flags,
    /// IP_MTU_DISCOVER and IPV6_MTU_DISCOVER, with the numbers of Linux.
    pub(super) discovery: [i32; 2],
    /// UDP_SEGMENT, in bytes; 0 for none.
    pub(super) segment: u16,
    /// IPV6_HOPOPTS, IPV6_RTHDRDSTOPTS, IPV6_RTHDR, IPV6_DSTOPTS.
    pub(super) extensions: Option<Box<ExtensionHeaders>>,
    /// TCP_SAVE_SYN.
    pub(super) saves_syn: u8,
    /// TCP_FASTOPEN_CONNECT.
    pub(super) defers_connect: bool,
}

impl Default for InternetSettings {
    fn default() -> InternetSettings {
        InternetSettings {
            stream: StreamOptions::default(),
            flags: Flags::QUICK,
            discovery: [1, 1],
            segment: 0,
            extensions: None,
            saves_syn: 0,
            defers_connect: false,
        }
    }
}

impl InternetSettings {
    /// Returns the settings of a new socket. One of AF_INET6 gets datagrams to groups of IPv4 only if it joined them
    /// (`inet6_create`).
    pub(super) fn of(family: AddressFamily) -> InternetSettings {
        let mut settings = InternetSettings::default();
        settings.stream.ip.takes_all_groups = family == AddressFamily::V4;
        settings
    }
    /// Returns the options of IP, with those of SOL_SOCKET in `common`.
    pub(super) fn ip(&self, common: &SocketCommon) -> IpOptions {
        let is_on = |option| common.options.is_kept(option);
        let device = common.options.interface.load(Ordering::Relaxed);
        let cuts =
            matches!(self.stream.ip.discovery6, PathDiscovery::Never | PathDiscovery::Wanted);
        let may_not = cuts && self.flags.contains(Flags::NO_FRAGMENTS);
        IpOptions {
            discovery6: if may_not { PathDiscovery::Required } else { self.stream.ip.discovery6 },
            reuses_address: is_on(net::SO_REUSEADDR),
            reuses_port: is_on(net::SO_REUSEPORT),
            may_broadcast: is_on(net::SO_BROADCAST),
            binds_foreign: self.flags.intersects(Flags::FREE_BIND | Flags::TRANSPARENT),
            binds_no_port: self.flags.contains(Flags::NO_PORT),
            only_v6: self.flags.contains(Flags::ONLY_V6),
            interface: (device != 0).then_some(device),
            mark: common.options.mark.load(Ordering::Relaxed) as u32,
            ..self.stream.ip
        }
    }
    /// Returns the options of a stream socket, with those of SOL_SOCKET in `common`.
    pub(super) fn of_stream(&self, common: &SocketCommon) -> StreamOptions {
        StreamOptions {
            ip: self.ip(common),
            keepalive: common.options.is_kept(net::SO_KEEPALIVE),
            pacing_rate: common.options.pacing_rate.load(Ordering::Relaxed),
            ..self.stream
        }
    }
}
