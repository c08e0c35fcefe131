//! [`InternetSettings`]: the values of a socket's options of the Internet protocols, and the limits of the system.
use crate::socket::common::SocketCommon;
use bitflags::bitflags;
use core::sync::atomic::Ordering;
use interfaces::sockets::{IpOptions, StreamOptions};
use linux_raw_sys::net;
use memory::setting::Setting;

/// First port that needs no privilege (`net.ipv4.ip_unprivileged_port_start`).
pub static UNPRIVILEGED_PORT_START: Setting = Setting::new(1024, 0, 65_535);
/// First and last group whose members may have ping sockets (`net.ipv4.ping_group_range`).
pub static PING_GROUP_FIRST: Setting = Setting::new(1, 0, u32::MAX as i64);
/// See [`PING_GROUP_FIRST`].
pub static PING_GROUP_LAST: Setting = Setting::new(0, 0, u32::MAX as i64);

bitflags! {
    /// The parts of a received datagram's header of which a program is told in control messages, and options that are a flag
    /// and are used here alone.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(super) struct Flags: u32 {
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
    /// IP_MINTTL and IPV6_MINHOPCOUNT: they are kept for getsockopt(2), and no packet is dropped for its hops.
    pub(super) hops_least: [u8; 2],
    /// UDP_SEGMENT, in bytes; 0 for none.
    pub(super) segment: u16,
    /// TCP_NOTSENT_LOWAT, in bytes; 0 for that of the system.
    pub(super) unsent_low_water: u32,
    /// Number of a group's interface (`IP_MULTICAST_IF`) and the address by which it was named.
    pub(super) group_address: [u8; 4],
}

impl Default for InternetSettings {
    fn default() -> InternetSettings {
        InternetSettings {
            stream: StreamOptions::default(),
            flags: Flags::QUICK,
            discovery: [1, 1],
            hops_least: [0; 2],
            segment: 0,
            unsent_low_water: 0,
            group_address: [0; 4],
        }
    }
}

impl InternetSettings {
    /// Returns the options of IP, with those of SOL_SOCKET in `common`.
    pub(super) fn ip(&self, common: &SocketCommon) -> IpOptions {
        let is_on = |option| common.options.is_kept(option);
        let device = common.options.interface.load(Ordering::Relaxed);
        IpOptions {
            reuses_address: is_on(net::SO_REUSEADDR),
            reuses_port: is_on(net::SO_REUSEPORT),
            may_broadcast: is_on(net::SO_BROADCAST),
            binds_foreign: self.flags.intersects(Flags::FREE_BIND | Flags::TRANSPARENT),
            interface: (device != 0).then_some(device),
            ..self.stream.ip
        }
    }
    /// Returns the options of a stream socket, with those of SOL_SOCKET in `common`.
    pub(super) fn of_stream(&self, common: &SocketCommon) -> StreamOptions {
        StreamOptions {
            ip: self.ip(common),
            keepalive: common.options.is_kept(net::SO_KEEPALIVE),
            ..self.stream
        }
    }
}
