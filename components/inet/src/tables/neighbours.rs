//! Neighbours and their addresses on the link: the states of RFC 4861 (section 7.3.2), for ARP as well.
//!
//! The number of entries and of packets that wait is limited. An entry that is confirmed or in use stays, so stations that announce
//! many addresses displace only what nobody uses.
use super::interface::InterfaceIndex;
use crate::base::packets::Departure;
use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};
use core::net::IpAddr;
use interfaces::sockets::NeighbourRecord;
use packet::MacAddress;

/// Entries, at most (`gc_thresh3`).
pub const ENTRIES_MAX: usize = 1024;
/// Packets that wait for an entry, at most.
pub const WAITING_MAX: usize = 4;
/// Solicitations before a neighbour is given up.
const PROBES_MAX: u8 = 3;
/// Time from the first use of an old entry to its probe (`DELAY_FIRST_PROBE_TIME`).
const DELAY_NS: u64 = 5_000_000_000;
/// Time between collections of entries without use.
const COLLECTION_NS: u64 = 100_000_000;

/// An interface and an address on its link.
pub type NeighbourKey = (InterfaceIndex, IpAddr);

/// The state of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// The address of the link is asked for.
    Incomplete,
    /// The neighbour is known to receive.
    Reachable,
    /// Nothing is known of it lately.
    Stale,
    /// It is used, and a sign of life is waited for.
    Delay,
    /// It is asked for a sign of life.
    Probe,
    /// The user set it.
    Permanent,
}

/// Times of an interface.
#[derive(Clone, Copy, Debug)]
pub struct NeighbourTimes {
    /// Time for which a neighbour is reachable, in nanoseconds.
    pub reachable_ns: u64,
    /// Time between solicitations, in nanoseconds.
    pub retransmit_ns: u64,
}

#[derive(Debug)]
struct Neighbour<B> {
    state: NeighbourState,
    mac: MacAddress,
    /// End of the state; the end of the world for states without.
    until_ns: u64,
    probes: u8,
    used_ns: u64,
    is_router: bool,
    times: NeighbourTimes,
    waiting: VecDeque<Departure<B>>,
}

/// The answer to a packet for a neighbour.
#[derive(Debug)]
pub enum Resolution<B> {
    /// The packet can be sent.
    Known(MacAddress, Departure<B>),
    /// The packet waits. The caller solicits the neighbour.
    Solicit,
    /// The packet waits.
    Waiting,
    /// The table is full. The packet is dropped.
    Full,
}

/// The knowledge that a packet of a neighbour brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lesson {
    /// The neighbour asked for something, and told its address. An entry is made if there is none.
    Asked,
    /// The neighbour told its address.
    Told {
        /// It was asked.
        is_solicited: bool,
        /// An address that differs replaces the known one.
        replaces: bool,
        /// It is a router; `None` if the packet does not say.
        is_router: Option<bool>,
    },
}

/// The result of a lesson.
#[derive(Debug)]
pub struct Learned<B> {
    /// Packets that waited, to be sent to the address.
    pub packets: VecDeque<Departure<B>>,
    /// A router became a host.
    pub has_ceased_routing: bool,
    /// The neighbour's address on the link was not known before.
    pub is_new: bool,
}

/// An event of time.
#[derive(Debug)]
pub enum NeighbourEvent<B> {
    /// The neighbour is to be solicited: by a packet to its known address, or to its group.
    Solicit(NeighbourKey, Option<MacAddress>),
    /// The neighbour does not answer. These packets cannot be sent.
    Failed(NeighbourKey, VecDeque<Departure<B>>),
}

/// The table.
#[derive(Debug)]
pub struct Neighbours<B> {
    entries: BTreeMap<NeighbourKey, Neighbour<B>>,
    /// No entry ends before.
    earliest_ns: u64,
    collected_ns: Option<u64>,
}

impl<B> Default for Neighbours<B> {
    fn default() -> Neighbours<B> {
        Neighbours { entries: BTreeMap::new(), earliest_ns: u64::MAX, collected_ns: None }
    }
}

impl<B> Neighbours<B> {
    /// Asks for the address of a neighbour that `packet` goes to.
    pub fn resolve(
        &mut self,
        key: NeighbourKey,
        packet: Departure<B>,
        times: NeighbourTimes,
        now_ns: u64,
    ) -> Resolution<B> {
        let Some(entry) = self.entries.get_mut(&key) else {
            if !self.make_room(now_ns) {
                return Resolution::Full;
            }
            let mut entry = Neighbour::new(NeighbourState::Incomplete, [0; 6], times, now_ns);
            entry.until_ns = now_ns.saturating_add(times.retransmit_ns);
            entry.probes = 1;
            entry.waiting.push_back(packet);
            self.earliest_ns = self.earliest_ns.min(entry.until_ns);
            self.entries.insert(key, entry);
            return Resolution::Solicit;
        };
        entry.used_ns = now_ns;
        if entry.state == NeighbourState::Incomplete {
            if entry.waiting.len() >= WAITING_MAX {
                entry.waiting.pop_front();
            }
            entry.waiting.push_back(packet);
            return Resolution::Waiting;
        }
        let is_over = entry.state == NeighbourState::Reachable && now_ns >= entry.until_ns;
        if is_over || entry.state == NeighbourState::Stale {
            entry.enter(NeighbourState::Delay, now_ns.saturating_add(DELAY_NS));
            self.earliest_ns = self.earliest_ns.min(entry.until_ns);
        }
        Resolution::Known(entry.mac, packet)
    }
    /// Learns from a packet of a neighbour. `mac` is the address that it told, if any.
    pub fn learn(
        &mut self,
        key: NeighbourKey,
        mac: Option<MacAddress>,
        lesson: Lesson,
        times: NeighbourTimes,
        now_ns: u64,
    ) -> Learned<B> {
        let nothing =
            Learned { packets: VecDeque::new(), has_ceased_routing: false, is_new: false };
        if !self.entries.contains_key(&key) {
            if let (Lesson::Asked, Some(mac)) = (lesson, mac)
                && self.make_room(now_ns)
            {
                let entry = Neighbour::new(NeighbourState::Stale, mac, times, now_ns);
                self.entries.insert(key, entry);
                return Learned { is_new: true, ..nothing };
            }
            return nothing;
        }
        let Some(entry) = self.entries.get_mut(&key) else { return nothing };
        if entry.state == NeighbourState::Permanent {
            return nothing;
        }
        entry.times = times;
        let before = entry.known_mac();
        let has_ceased_routing = match lesson {
            Lesson::Asked => {
                entry.hear(mac);
                false
            }
            Lesson::Told { is_solicited, replaces, is_router } => {
                entry.heed(&ToldAddress { mac, is_solicited, replaces }, now_ns);
                is_router.is_some_and(|is| core::mem::replace(&mut entry.is_router, is) && !is)
            }
        };
        self.earliest_ns = self.earliest_ns.min(entry.until_ns);
        let known = entry.known_mac();
        let packets = known.map(|_| core::mem::take(&mut entry.waiting)).unwrap_or_default();
        Learned { packets, has_ceased_routing, is_new: known.is_some() && known != before }
    }
    /// Notes that a neighbour has shown, to a protocol above, that it receives.
    pub fn confirm(&mut self, key: NeighbourKey, now_ns: u64) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        if !matches!(entry.state, NeighbourState::Incomplete | NeighbourState::Permanent) {
            entry.reach(now_ns);
            self.earliest_ns = self.earliest_ns.min(entry.until_ns);
        }
    }
    /// Sets an entry as the user says, in place of any. Returns the packets that waited for it; `None` if there is no room.
    pub fn set(
        &mut self,
        key: NeighbourKey,
        (state, mac): (NeighbourState, MacAddress),
        times: NeighbourTimes,
        now_ns: u64,
    ) -> Option<VecDeque<Departure<B>>> {
        if !self.entries.contains_key(&key) && !self.make_room(now_ns) {
            return None;
        }
        let mut entry = Neighbour::new(state, mac, times, now_ns);
        entry.until_ns = match state {
            NeighbourState::Reachable => now_ns.saturating_add(times.reachable_ns),
            NeighbourState::Delay => now_ns.saturating_add(DELAY_NS),
            NeighbourState::Probe => now_ns,
            _ => u64::MAX,
        };
        self.earliest_ns = self.earliest_ns.min(entry.until_ns);
        Some(self.entries.insert(key, entry).map(|old| old.waiting).unwrap_or_default())
    }
    /// Removes an entry. Returns the packets that waited for it; `None` if there was no entry.
    pub fn remove(&mut self, key: NeighbourKey) -> Option<VecDeque<Departure<B>>> {
        self.entries.remove(&key).map(|entry| entry.waiting)
    }
    /// Removes all entries of an interface.
    pub fn flush(&mut self, interface: InterfaceIndex) {
        self.entries.retain(|(of, _), _| *of != interface);
    }
    /// Returns all entries.
    pub fn iter(&self) -> impl Iterator<Item = (NeighbourKey, NeighbourState, MacAddress)> {
        self.entries.iter().map(|(key, entry)| (*key, entry.state, entry.mac))
    }
    /// Describes all entries, with the numbers that `number` gives their states.
    pub fn records(
        &self,
        now_ns: u64,
        number: impl Fn(NeighbourState) -> u16,
    ) -> Vec<NeighbourRecord> {
        let since_ms = |at_ns: u64| now_ns.saturating_sub(at_ns) / 1_000_000;
        let one = |(key, entry): (&NeighbourKey, &Neighbour<B>)| {
            let is_over = entry.state == NeighbourState::Reachable && now_ns >= entry.until_ns;
            let state = if is_over { NeighbourState::Stale } else { entry.state };
            let until = entry.until_ns.saturating_sub(entry.times.reachable_ns);
            let is_reached = entry.state == NeighbourState::Reachable;
            NeighbourRecord {
                interface: key.0.0,
                address: key.1,
                mac: (state != NeighbourState::Incomplete).then_some(entry.mac),
                state: number(state),
                is_router: entry.is_router,
                used_ms: since_ms(entry.used_ns),
                confirmed_ms: since_ms(if is_reached { until } else { entry.used_ns }),
                updated_ms: since_ms(if is_reached { until } else { entry.used_ns }),
                probes: entry.probes.into(),
            }
        };
        self.entries.iter().map(one).collect()
    }
    /// Returns the state of an entry.
    #[cfg(test)]
    pub fn state(&self, key: NeighbourKey) -> Option<NeighbourState> {
        self.entries.get(&key).map(|entry| entry.state)
    }
    /// Returns the time before which [`Neighbours::poll`] has nothing to do.
    pub fn earliest_ns(&self) -> u64 {
        self.earliest_ns
    }
    /// Does what time demands.
    pub fn poll(&mut self, now_ns: u64) -> Vec<NeighbourEvent<B>> {
        let mut events = Vec::new();
        if now_ns < self.earliest_ns {
            return events;
        }
        let mut failed = Vec::new();
        for (key, entry) in self.entries.iter_mut().filter(|(_, entry)| now_ns >= entry.until_ns) {
            let next = now_ns.saturating_add(entry.times.retransmit_ns);
            match entry.state {
                NeighbourState::Incomplete | NeighbourState::Probe if entry.probes < PROBES_MAX => {
                    let is_known = entry.state == NeighbourState::Probe;
                    entry.probes += 1;
                    entry.until_ns = next;
                    events.push(NeighbourEvent::Solicit(*key, is_known.then_some(entry.mac)));
                }
                NeighbourState::Incomplete | NeighbourState::Probe => failed.push(*key),
                NeighbourState::Delay => {
                    entry.enter(NeighbourState::Probe, next);
                    entry.probes = 1;
                    events.push(NeighbourEvent::Solicit(*key, Some(entry.mac)));
                }
                _ => entry.enter(NeighbourState::Stale, u64::MAX),
            }
        }
        for key in failed {
            let entry = self.entries.remove(&key);
            let packets = entry.map(|entry| entry.waiting).unwrap_or_default();
            events.push(NeighbourEvent::Failed(key, packets));
        }
        let ends = self.entries.values().map(|entry| entry.until_ns);
        self.earliest_ns = ends.min().unwrap_or(u64::MAX);
        events
    }
    /// Makes sure that an entry can be added. Returns whether it can.
    fn make_room(&mut self, now_ns: u64) -> bool {
        if self.entries.len() < ENTRIES_MAX {
            return true;
        }
        // A look at all entries for each packet would be a load that outsiders could cause.
        let is_early =
            self.collected_ns.is_some_and(|last| now_ns < last.saturating_add(COLLECTION_NS));
        if is_early {
            return false;
        }
        self.collected_ns = Some(now_ns);
        let is_idle = |entry: &Neighbour<B>| {
            matches!(entry.state, NeighbourState::Stale | NeighbourState::Incomplete)
        };
        let mut idle: Vec<u64> = self
            .entries
            .values()
            .filter(|entry| is_idle(entry))
            .map(|entry| entry.used_ns)
            .collect();
        idle.sort_unstable();
        let Some(limit) = idle.get(idle.len() / 4).copied() else { return false };
        let mut left = idle.len() / 4 + 1;
        self.entries.retain(|_, entry| {
            let goes = is_idle(entry) && entry.used_ns <= limit && left > 0;
            left -= usize::from(goes);
            !goes
        });
        self.entries.len() < ENTRIES_MAX
    }
}

/// The address in an advertisement.
struct ToldAddress {
    mac: Option<MacAddress>,
    is_solicited: bool,
    replaces: bool,
}

impl<B> Neighbour<B> {
    /// Returns the address on the link, once it is known.
    fn known_mac(&self) -> Option<MacAddress> {
        (self.state != NeighbourState::Incomplete).then_some(self.mac)
    }
    fn new(state: NeighbourState, mac: MacAddress, times: NeighbourTimes, now_ns: u64) -> Self {
        Neighbour {
            state,
            mac,
            until_ns: u64::MAX,
            probes: 0,
            used_ns: now_ns,
            is_router: false,
            times,
            waiting: VecDeque::new(),
        }
    }
    fn enter(&mut self, state: NeighbourState, until_ns: u64) {
        (self.state, self.until_ns) = (state, until_ns);
    }
    fn reach(&mut self, now_ns: u64) {
        self.enter(NeighbourState::Reachable, now_ns.saturating_add(self.times.reachable_ns));
    }
    /// Takes an address that the neighbour told unasked. It may receive at it or not.
    fn hear(&mut self, mac: Option<MacAddress>) {
        if let Some(mac) = mac
            && (self.state == NeighbourState::Incomplete || self.mac != mac)
        {
            self.mac = mac;
            self.enter(NeighbourState::Stale, u64::MAX);
        }
    }
    /// Takes an advertisement (RFC 4861, section 7.2.5).
    fn heed(&mut self, told: &ToldAddress, now_ns: u64) {
        let ToldAddress { mac, is_solicited, replaces } = *told;
        let is_new = self.state == NeighbourState::Incomplete;
        let differs = mac.is_some_and(|mac| mac != self.mac);
        match (is_new, mac) {
            (true, None) => return,
            (false, _) if differs && !replaces => {
                if self.state == NeighbourState::Reachable {
                    self.enter(NeighbourState::Stale, u64::MAX);
                }
                return;
            }
            (_, Some(mac)) => self.mac = mac,
            (false, None) => {}
        }
        if is_solicited {
            self.reach(now_ns);
        } else if is_new || differs {
            self.enter(NeighbourState::Stale, u64::MAX);
        }
    }
}

#[cfg(test)]
#[path = "neighbours_tests.rs"]
mod tests;
