//! The files of `/proc/sys/net/ipv4` and `ipv6`: their names, and their values as text.
use crate::NetErrno;
use alloc::string::String;
use core::fmt::Write;
use interfaces::sockets::{
    CongestionControl, InterfaceParameter as Conf, NetworkParameter as Core, ParameterScope,
};

/// A file and its parameter.
pub type CoreSetting = (&'static str, Core);
/// A file in the folder of an interface, and its parameter.
pub type InterfaceSetting = (&'static str, Conf);

/// The files of `net/ipv4`.
pub const CORE4: &[CoreSetting] = &[
    ("icmp_echo_ignore_all", Core::IcmpEchoIgnoreAll),
    ("icmp_echo_ignore_broadcasts", Core::IcmpEchoIgnoreBroadcasts),
    ("icmp_msgs_burst", Core::IcmpMessagesBurst),
    ("icmp_msgs_per_sec", Core::IcmpMessagesPerSecond),
    ("icmp_ratelimit", Core::IcmpRateLimit),
    ("icmp_ratemask", Core::IcmpRateMask),
    ("igmp_max_memberships", Core::IgmpMaxMemberships),
    ("ip_default_ttl", Core::DefaultTtl),
    ("ip_forward", Core::Conf(ParameterScope::All, Conf::Forwarding4)),
    ("ip_local_port_range", Core::LocalPortRange),
    ("ip_no_pmtu_disc", Core::NoPathDiscovery),
    ("ip_nonlocal_bind", Core::NonlocalBind),
    ("ip_unprivileged_port_start", Core::UnprivilegedPortStart),
    ("ping_group_range", Core::PingGroupRange),
    ("tcp_abort_on_overflow", Core::TcpAbortOnOverflow),
    ("tcp_congestion_control", Core::TcpCongestionControl),
    ("tcp_ecn", Core::TcpEcn),
    ("tcp_fastopen", Core::TcpFastopen),
    ("tcp_fin_timeout", Core::TcpFinTimeout),
    ("tcp_keepalive_intvl", Core::TcpKeepaliveIntvl),
    ("tcp_keepalive_probes", Core::TcpKeepaliveProbes),
    ("tcp_keepalive_time", Core::TcpKeepaliveTime),
    ("tcp_max_tw_buckets", Core::TcpMaxTwBuckets),
    ("tcp_moderate_rcvbuf", Core::TcpModerateRcvbuf),
    ("tcp_orphan_retries", Core::TcpOrphanRetries),
    ("tcp_retries2", Core::TcpRetries2),
    ("tcp_rfc1337", Core::TcpRfc1337),
    ("tcp_rmem", Core::TcpRmem),
    ("tcp_sack", Core::TcpSack),
    ("tcp_slow_start_after_idle", Core::TcpSlowStartAfterIdle),
    ("tcp_syn_retries", Core::TcpSynRetries),
    ("tcp_synack_retries", Core::TcpSynackRetries),
    ("tcp_syncookies", Core::TcpSyncookies),
    ("tcp_timestamps", Core::TcpTimestamps),
    ("tcp_tw_reuse", Core::TcpTwReuse),
    ("tcp_window_scaling", Core::TcpWindowScaling),
    ("tcp_wmem", Core::TcpWmem),
];
/// The files of `net/ipv6`.
pub const CORE6: &[CoreSetting] = &[("bindv6only", Core::BindVersion6Only)];
/// The files of `net/ipv4/conf/X`.
pub const CONF4: &[InterfaceSetting] = &[
    ("accept_local", Conf::AcceptLocal),
    ("accept_redirects", Conf::AcceptRedirects4),
    ("arp_announce", Conf::ArpAnnounce),
    ("arp_ignore", Conf::ArpIgnore),
    ("forwarding", Conf::Forwarding4),
    ("promote_secondaries", Conf::PromoteSecondaries),
    ("rp_filter", Conf::ReversePathFilter),
];
/// The files of `net/ipv6/conf/X`.
pub const CONF6: &[InterfaceSetting] = &[
    ("accept_ra", Conf::AcceptAdvertisements),
    ("accept_redirects", Conf::AcceptRedirects6),
    ("addr_gen_mode", Conf::AddressGeneration),
    ("autoconf", Conf::Autoconfiguration),
    ("dad_transmits", Conf::DuplicateProbes),
    ("disable_ipv6", Conf::DisableVersion6),
    ("forwarding", Conf::Forwarding6),
    ("hop_limit", Conf::HopLimit),
    ("mtu", Conf::Mtu6),
    ("use_tempaddr", Conf::TemporaryAddresses),
];
/// The files of `net/ipv4/neigh/X`.
pub const NEIGHBOURS4: &[InterfaceSetting] =
    &[("base_reachable_time_ms", Conf::ReachableMs4), ("retrans_time_ms", Conf::RetransmitMs4)];
/// The files of `net/ipv6/neigh/X`.
pub const NEIGHBOURS6: &[InterfaceSetting] =
    &[("base_reachable_time_ms", Conf::ReachableMs6), ("retrans_time_ms", Conf::RetransmitMs6)];

/// Returns the values of a parameter as text.
pub fn format_values(parameter: Core, values: &[i64]) -> String {
    let mut text = String::new();
    if parameter == Core::TcpCongestionControl {
        let control = values.first().and_then(|value| CongestionControl::numbered(*value));
        text.push_str(control.map_or("", CongestionControl::name));
    } else {
        for (place, value) in values.iter().enumerate() {
            let gap = if place == 0 { "" } else { "\t" };
            let _ = write!(text, "{gap}{value}");
        }
    }
    text.push('\n');
    text
}

/// Returns the value of a parameter that is written as a name; `None` for one that is a number.
///
/// # Errors
/// `ENOENT` for a congestion control that is not there.
pub fn parse_name(parameter: Core, data: &[u8]) -> Option<Result<i64, NetErrno>> {
    if parameter != Core::TcpCongestionControl {
        return None;
    }
    let text = data.split(|byte| matches!(byte, 0 | b'\n')).next().unwrap_or_default();
    Some(CongestionControl::named(text).map(CongestionControl::number).ok_or(NetErrno::ENOENT))
}

/// Returns `tcp_available_congestion_control` and `tcp_allowed_congestion_control`.
pub fn congestion_controls() -> String {
    CongestionControl::ALL.map(CongestionControl::name).join(" ") + "\n"
}
