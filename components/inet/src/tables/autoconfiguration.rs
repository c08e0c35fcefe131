//! Timers of address configuration (RFC 4862): probes for duplicates, and solicitations of routers.
use super::interface::InterfaceIndex;
use alloc::{collections::BTreeMap, vec::Vec};
use core::net::Ipv6Addr;

/// Solicitations of routers, at most (`MAX_RTR_SOLICITATIONS`).
const SOLICITATIONS_MAX: u8 = 3;
/// Time between solicitations of routers.
const SOLICITATION_NS: u64 = 4_000_000_000;

/// The state of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbeStage {
    /// The probe is still to be sent.
    Delayed,
    /// An answer would have come until the end of the time.
    Asked,
}

/// An event of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigurationEvent {
    /// The link is to be asked whether another host has the address.
    Probe(InterfaceIndex, Ipv6Addr),
    /// No other host has it.
    Unique(InterfaceIndex, Ipv6Addr),
    /// Routers are to be solicited.
    Solicit(InterfaceIndex),
}

/// The timers.
#[derive(Debug, Default)]
pub struct Autoconfiguration {
    probes: BTreeMap<(InterfaceIndex, Ipv6Addr), (ProbeStage, u64)>,
    /// Times of the next solicitation, and the number of those that were sent.
    solicitations: BTreeMap<InterfaceIndex, (u64, u8)>,
}

impl Autoconfiguration {
    /// Begins to look for duplicates of an address, at `at_ns`.
    pub fn probe(&mut self, interface: InterfaceIndex, address: Ipv6Addr, at_ns: u64) {
        self.probes.insert((interface, address), (ProbeStage::Delayed, at_ns));
    }
    /// Ends the look for duplicates of an address. Returns whether it was under way.
    pub fn end_probe(&mut self, interface: InterfaceIndex, address: Ipv6Addr) -> bool {
        self.probes.remove(&(interface, address)).is_some()
    }
    /// Begins to solicit routers, at `at_ns`, unless it has begun.
    pub fn solicit(&mut self, interface: InterfaceIndex, at_ns: u64) {
        self.solicitations.entry(interface).or_insert((at_ns, 0));
    }
    /// Ends the solicitation of routers: one has answered.
    pub fn end_solicitation(&mut self, interface: InterfaceIndex) {
        if let Some((at_ns, count)) = self.solicitations.get_mut(&interface) {
            (*at_ns, *count) = (u64::MAX, SOLICITATIONS_MAX);
        }
    }
    /// Forgets an interface.
    pub fn forget(&mut self, interface: InterfaceIndex) {
        self.probes.retain(|(of, _), _| *of != interface);
        self.solicitations.remove(&interface);
    }
    /// Returns the time before which nothing is to do.
    pub fn earliest_ns(&self) -> u64 {
        let probes = self.probes.values().map(|(_, at_ns)| *at_ns);
        let solicitations = self.solicitations.values().map(|(at_ns, _)| *at_ns);
        probes.chain(solicitations).min().unwrap_or(u64::MAX)
    }
    /// Returns what time demands. `wait_ns` is the time for which an answer to a probe may come.
    pub fn poll(&mut self, now_ns: u64, wait_ns: u64) -> Vec<ConfigurationEvent> {
        let mut events = Vec::new();
        self.probes.retain(|(interface, address), (stage, at_ns)| {
            if now_ns < *at_ns {
                return true;
            }
            if *stage == ProbeStage::Asked {
                events.push(ConfigurationEvent::Unique(*interface, *address));
                return false;
            }
            events.push(ConfigurationEvent::Probe(*interface, *address));
            (*stage, *at_ns) = (ProbeStage::Asked, now_ns.saturating_add(wait_ns));
            true
        });
        for (interface, (at_ns, count)) in &mut self.solicitations {
            if now_ns >= *at_ns {
                events.push(ConfigurationEvent::Solicit(*interface));
                *count += 1;
                let is_last = *count >= SOLICITATIONS_MAX;
                *at_ns = if is_last { u64::MAX } else { now_ns.saturating_add(SOLICITATION_NS) };
            }
        }
        events
    }
}
