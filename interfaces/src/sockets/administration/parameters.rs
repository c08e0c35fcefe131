//! [`NetworkParameter`]: the settings of a stack under `/proc/sys/net` (ip(7), tcp(7), udp(7), icmp(7)).
use crate::marshal::Marshal;

/// The interfaces that a setting of `conf` is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub enum ParameterScope {
    /// All (`conf/all`). Most settings take the greater of this value and the interface's.
    All,
    /// Interfaces to come (`conf/default`).
    Default,
    /// The interface of this number.
    Interface(u32),
}

/// A setting of `net.ipv4.conf`, `net.ipv6.conf` or `neigh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub enum InterfaceParameter {
    /// `ipv4/conf/X/forwarding`.
    Forwarding4,
    /// `ipv6/conf/X/forwarding`.
    Forwarding6,
    /// `ipv4/conf/X/accept_local`.
    AcceptLocal,
    /// `ipv4/conf/X/accept_redirects`.
    AcceptRedirects4,
    /// `ipv6/conf/X/accept_redirects`.
    AcceptRedirects6,
    /// `ipv4/conf/X/rp_filter`.
    ReversePathFilter,
    /// `ipv4/conf/X/arp_ignore`.
    ArpIgnore,
    /// `ipv4/conf/X/arp_announce`.
    ArpAnnounce,
    /// `ipv4/conf/X/promote_secondaries`.
    PromoteSecondaries,
    /// `ipv6/conf/X/disable_ipv6`.
    DisableVersion6,
    /// `ipv6/conf/X/accept_ra`.
    AcceptAdvertisements,
    /// `ipv6/conf/X/autoconf`.
    Autoconfiguration,
    /// `ipv6/conf/X/hop_limit`.
    HopLimit,
    /// `ipv6/conf/X/mtu`.
    Mtu6,
    /// `ipv6/conf/X/addr_gen_mode`.
    AddressGeneration,
    /// `ipv6/conf/X/use_tempaddr`.
    TemporaryAddresses,
    /// `ipv6/conf/X/dad_transmits`.
    DuplicateProbes,
    /// `ipv4/neigh/X/base_reachable_time_ms`.
    ReachableMs4,
    /// `ipv6/neigh/X/base_reachable_time_ms`.
    ReachableMs6,
    /// `ipv4/neigh/X/retrans_time_ms`.
    RetransmitMs4,
    /// `ipv6/neigh/X/retrans_time_ms`.
    RetransmitMs6,
}

/// A setting of the stack. Those of TCP have the names of tcp(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
#[expect(missing_docs, reason = "each is the file of the same name in /proc/sys/net/ipv4")]
pub enum NetworkParameter {
    /// A setting of `conf` or `neigh`.
    Conf(ParameterScope, InterfaceParameter),
    /// `ipv4/ip_default_ttl`.
    DefaultTtl,
    /// `ipv4/ip_local_port_range`, two values.
    LocalPortRange,
    /// `ipv4/ip_nonlocal_bind`.
    NonlocalBind,
    /// `ipv4/ip_unprivileged_port_start`.
    UnprivilegedPortStart,
    /// `ipv4/ip_no_pmtu_disc`.
    NoPathDiscovery,
    /// `ipv4/ping_group_range`, two values.
    PingGroupRange,
    /// `ipv4/icmp_echo_ignore_all`.
    IcmpEchoIgnoreAll,
    /// `ipv4/icmp_echo_ignore_broadcasts`.
    IcmpEchoIgnoreBroadcasts,
    /// `ipv4/icmp_ratelimit`.
    IcmpRateLimit,
    /// `ipv4/icmp_ratemask`.
    IcmpRateMask,
    /// `ipv4/icmp_msgs_per_sec`.
    IcmpMessagesPerSecond,
    /// `ipv4/icmp_msgs_burst`.
    IcmpMessagesBurst,
    /// `ipv4/igmp_max_memberships`.
    IgmpMaxMemberships,
    /// `ipv4/neigh/default/gc_thresh3`.
    NeighboursMax4,
    /// `ipv6/neigh/default/gc_thresh3`.
    NeighboursMax6,
    /// `ipv6/bindv6only`.
    BindVersion6Only,
    TcpRmem,
    TcpWmem,
    /// 0 for reno, 1 for cubic.
    TcpCongestionControl,
    TcpSynRetries,
    TcpSynackRetries,
    TcpRetries2,
    TcpOrphanRetries,
    TcpFinTimeout,
    TcpKeepaliveTime,
    TcpKeepaliveIntvl,
    TcpKeepaliveProbes,
    TcpTimestamps,
    TcpSack,
    TcpWindowScaling,
    TcpEcn,
    TcpSyncookies,
    TcpFastopen,
    TcpTwReuse,
    TcpMaxTwBuckets,
    TcpSlowStartAfterIdle,
    TcpModerateRcvbuf,
    TcpAbortOnOverflow,
    TcpRfc1337,
}
