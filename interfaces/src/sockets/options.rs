//! The options of sockets. The client holds them and gives all of them to the stack when one changes, so that a stack that starts
//! again needs no history of changes.
use super::Ipv4OptionList;
use crate::marshal::Marshal;
use core::net::{IpAddr, Ipv4Addr};

/// Discovery of the path's MTU (`IP_MTU_DISCOVER`, `IPV6_MTU_DISCOVER`; ip(7)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Marshal)]
pub enum PathDiscovery {
    /// `IP_PMTUDISC_DONT`: no packet forbids fragmentation.
    Never,
    /// `IP_PMTUDISC_WANT`: packets that fit forbid it, and longer ones are fragmented here.
    #[default]
    Wanted,
    /// `IP_PMTUDISC_DO`: all packets forbid it, and longer ones are refused.
    Required,
    /// `IP_PMTUDISC_PROBE`: as `Required`, but what is known of the path's MTU is ignored.
    Probe,
    /// `IP_PMTUDISC_INTERFACE`: as `Probe`, but no packet forbids fragmentation on its way.
    Interface,
}

/// Options of any Internet socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub struct IpOptions {
    /// `SO_REUSEADDR`.
    pub reuses_address: bool,
    /// `SO_REUSEPORT`.
    pub reuses_port: bool,
    /// `SO_BROADCAST`.
    pub may_broadcast: bool,
    /// `IP_FREEBIND`, `IP_TRANSPARENT`: addresses of other hosts can be bound, too.
    pub binds_foreign: bool,
    /// `IP_BIND_ADDRESS_NO_PORT`: a bind to port 0 chooses the address alone. The port is chosen when it is needed.
    pub binds_no_port: bool,
    /// `IPV6_V6ONLY`: of a socket for [`SocketFamilies::Both`](super::SocketFamilies::Both), packets of IPv6 alone.
    pub only_v6: bool,
    /// `SO_BINDTODEVICE`: the number of the only interface.
    pub interface: Option<u32>,
    /// `SO_MARK`, at which rules of routing look.
    pub mark: u32,
    /// `IP_TTL`.
    pub ttl: Option<u8>,
    /// `IPV6_UNICAST_HOPS`.
    pub hops: Option<u8>,
    /// `IP_TOS`.
    pub type_of_service: u8,
    /// `IPV6_TCLASS`.
    pub traffic_class: u8,
    /// `IP_MTU_DISCOVER`.
    pub discovery: PathDiscovery,
    /// `IPV6_MTU_DISCOVER`.
    pub discovery6: PathDiscovery,
    /// `IP_MULTICAST_TTL`.
    pub group_ttl: u8,
    /// `IPV6_MULTICAST_HOPS`.
    pub group_hops: u8,
    /// `IP_MULTICAST_IF`.
    pub group_interface: Option<u32>,
    /// The address by which `IP_MULTICAST_IF` named the interface: the source of packets to groups, if the socket has none.
    pub group_source: Option<Ipv4Addr>,
    /// `IPV6_MULTICAST_IF`.
    pub group_interface6: Option<u32>,
    /// `IP_UNICAST_IF`: the number of the interface of datagrams to single hosts.
    pub unicast_interface: Option<u32>,
    /// `IPV6_UNICAST_IF`.
    pub unicast_interface6: Option<u32>,
    /// `IP_MINTTL`: segments of streams with fewer hops left are dropped.
    pub ttl_least: u8,
    /// `IPV6_MINHOPCOUNT`.
    pub hops_least: u8,
    /// `IPV6_MTU`: bytes of a datagram's packet, at most; longer ones are fragmented.
    pub packet_max6: Option<u32>,
    /// `IP_MULTICAST_LOOP`.
    pub loops_groups: bool,
    /// `IPV6_MULTICAST_LOOP`.
    pub loops_groups6: bool,
    /// `IP_MULTICAST_ALL`: groups that others of this host joined are received, too.
    pub takes_all_groups: bool,
    /// `IPV6_MULTICAST_ALL`.
    pub takes_all_groups6: bool,
    /// `IP_RECVERR`.
    pub queues_errors: bool,
    /// `IPV6_RECVERR`.
    pub queues_errors6: bool,
    /// `IP_HDRINCL`, `IPV6_HDRINCL`: what a raw socket sends begins with the header of IP. Of `IPPROTO_RAW` it always does.
    pub has_header: bool,
    /// `ICMP_FILTER`, `ICMP6_FILTER`: the types of messages that a raw socket of ICMP does not get, a bit for each.
    pub icmp_filter: [u32; 8],
    /// `IPV6_CHECKSUM`: offset of the checksum in what a raw socket of IPv6 sends and receives. A new socket of ICMPv6 sums at 2.
    pub checksum_at: Option<u16>,
    /// `UDPLITE_SEND_CSCOV`: bytes of a sent datagram that its checksum covers, header included; zero and `None` for all.
    pub coverage: Option<u16>,
    /// `UDPLITE_RECV_CSCOV`: bytes that the checksum of a received datagram covers, at least; zero for all, `None` for any.
    pub coverage_least: Option<u16>,
    /// `IP_OPTIONS`; `None` if the program has set none: a stream of a listener then has those that answer its SYN's.
    pub header_options: Option<Ipv4OptionList>,
}

impl IpOptions {
    /// Returns whether a raw socket does not get ICMP messages of a type.
    pub fn drops_icmp(&self, kind: u8) -> bool {
        let word = self.icmp_filter.get(usize::from(kind / 32));
        word.is_some_and(|word| word >> (kind % 32) & 1 != 0)
    }
}

impl Default for IpOptions {
    fn default() -> IpOptions {
        IpOptions {
            reuses_address: false,
            reuses_port: false,
            may_broadcast: false,
            binds_foreign: false,
            binds_no_port: false,
            only_v6: false,
            interface: None,
            mark: 0,
            ttl: None,
            hops: None,
            type_of_service: 0,
            traffic_class: 0,
            discovery: PathDiscovery::Wanted,
            discovery6: PathDiscovery::Wanted,
            group_ttl: 1,
            group_hops: 1,
            group_interface: None,
            group_source: None,
            group_interface6: None,
            unicast_interface: None,
            unicast_interface6: None,
            ttl_least: 0,
            hops_least: 0,
            packet_max6: None,
            loops_groups: true,
            loops_groups6: true,
            takes_all_groups: true,
            takes_all_groups6: true,
            queues_errors: false,
            queues_errors6: false,
            has_header: false,
            icmp_filter: [0; 8],
            checksum_at: None,
            coverage: None,
            coverage_least: None,
            header_options: None,
        }
    }
}

/// The congestion control of a connection (`TCP_CONGESTION`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Marshal)]
pub enum CongestionControl {
    /// RFC 9438.
    #[default]
    Cubic = 1,
    /// RFC 5681, RFC 6582.
    Reno = 0,
}

impl CongestionControl {
    /// All of them, by their numbers in [`super::NetworkParameter::TcpCongestionControl`].
    pub const ALL: [CongestionControl; 2] = [CongestionControl::Reno, CongestionControl::Cubic];

    /// Returns the name of it in Linux.
    pub const fn name(self) -> &'static str {
        match self {
            CongestionControl::Cubic => "cubic",
            CongestionControl::Reno => "reno",
        }
    }
    /// Returns the one with a number.
    pub fn numbered(number: i64) -> Option<CongestionControl> {
        let place = usize::try_from(number).ok()?;
        CongestionControl::ALL.get(place).copied()
    }
    /// Returns the one with a name.
    pub fn named(name: &[u8]) -> Option<CongestionControl> {
        CongestionControl::ALL.into_iter().find(|one| one.name().as_bytes() == name)
    }
    /// Returns its number.
    pub fn number(self) -> i64 {
        self as i64
    }
}

/// Options of a stream socket (tcp(7)). A child of a listener begins with those of the listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub struct StreamOptions {
    /// Options of IP.
    pub ip: IpOptions,
    /// `TCP_NODELAY`.
    pub no_delay: bool,
    /// `TCP_CORK`.
    pub cork: bool,
    /// `SO_KEEPALIVE`.
    pub keepalive: bool,
    /// `SO_MAX_PACING_RATE`, in bytes of payload a second; zero and `u64::MAX` for no limit.
    pub pacing_rate: u64,
    /// `TCP_KEEPIDLE`, in seconds; zero for that of the stack.
    pub keep_idle_s: u32,
    /// `TCP_KEEPINTVL`, in seconds; zero for that of the stack.
    pub keep_interval_s: u32,
    /// `TCP_KEEPCNT`; zero for that of the stack.
    pub keep_count: u32,
    /// `TCP_USER_TIMEOUT`, in milliseconds; zero for the limits by number of retransmissions.
    pub user_timeout_ms: u32,
    /// `TCP_SYNCNT`; zero for that of the stack.
    pub syn_retries: u32,
    /// `TCP_LINGER2`, in seconds; zero for that of the stack, negative for none: FIN-WAIT-2 ends with the socket.
    pub fin_timeout_s: i32,
    /// `TCP_DEFER_ACCEPT`, in seconds; zero for off.
    pub defer_accept_s: u32,
    /// `TCP_MAXSEG`; `None` for that of the path.
    pub segment_max: Option<u16>,
    /// `TCP_WINDOW_CLAMP`, in bytes; `None` for no limit.
    pub window_max: Option<u32>,
    /// `TCP_NOTSENT_LOWAT`: with so many bytes that were not sent, the socket is not writable; zero for no limit.
    pub unsent_low_water: u32,
    /// `TCP_SAVE_SYN`: a listener's connections keep the packet that opened them.
    pub saves_syn: bool,
    /// `TCP_CONGESTION`; `None` for that of the stack.
    pub congestion: Option<CongestionControl>,
    /// `TCP_FASTOPEN`: half-open requests of a listener with data, at most; zero for off.
    pub fast_open_max: u32,
}

impl Default for StreamOptions {
    fn default() -> StreamOptions {
        StreamOptions {
            ip: IpOptions::default(),
            no_delay: false,
            cork: false,
            keepalive: false,
            pacing_rate: u64::MAX,
            keep_idle_s: 0,
            keep_interval_s: 0,
            keep_count: 0,
            user_timeout_ms: 0,
            syn_retries: 0,
            fin_timeout_s: 0,
            defer_accept_s: 0,
            segment_max: None,
            window_max: None,
            unsent_low_water: 0,
            saves_syn: false,
            congestion: None,
            fast_open_max: 0,
        }
    }
}

/// A group that a socket takes part in (`IP_ADD_MEMBERSHIP`, `IPV6_ADD_MEMBERSHIP`; RFC 3376, RFC 3810).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Marshal)]
pub struct Membership {
    /// The group's address.
    pub group: IpAddr,
    /// Number of the interface.
    pub interface: u32,
}
