//! The texts of `/proc/net`, in the formats of Linux 6.1 (proc(5)).
mod caches;
mod configuration;
mod counters;
mod report;
mod settings;
mod sockets;
mod stack;

pub use caches::{arp_cache, ndisc_cache, route_cache_counts, sources4, sources6};
pub use configuration::{
    addresses6, devices, groups4, groups6, hardware_groups, neighbours, routes4, routes6,
};
pub use counters::{counters6, extended, simple, socket_counts, socket_counts6};
pub use report::report;
pub use settings::{
    CONF4, CONF6, CORE4, CORE6, CoreSetting, InterfaceSetting, NEIGHBOURS4, NEIGHBOURS6,
    congestion_controls, format_values, parse_name,
};
pub use sockets::{lite4, lite6, packet_sockets, ping4, ping6, raw4, raw6, tcp4, tcp6, udp4, udp6};
pub use stack::{
    packet_types, packet_work, protocols, route_cache, route_counts, route_leaves, scheduler_units,
};

use alloc::string::String;
use core::net::Ipv6Addr;

/// Ends a line that is `width` letters long, as `seq_pad` does.
fn pad(text: &mut String, start: usize, width: usize) {
    let length = text.len().saturating_sub(start);
    text.extend(core::iter::repeat_n(' ', width.saturating_sub(length)));
    text.push('\n');
}

/// Returns an address of IPv6 as 32 digits.
fn digits6(address: Ipv6Addr) -> String {
    alloc::format!("{:032x}", address.to_bits())
}
