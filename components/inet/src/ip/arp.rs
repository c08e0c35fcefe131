//! ARP (RFC 826): answers, questions, and what is learnt of both.
use super::{
    output::neighbour_times,
    stack::{Stack, StackRun},
    statistics::DropReason,
};
use crate::{
    base::{
        buffer::{Buffer, BufferChain},
        packets::{Arrival, Departure},
    },
    tables::{
        interface::{Interface, InterfaceIndex},
        neighbours::{Lesson, NeighbourEvent, NeighbourKey, NeighbourState},
        routes::RouteKind,
        sources,
    },
};
use alloc::{collections::VecDeque, vec::Vec};
use core::{
    net::{IpAddr, Ipv4Addr},
    sync::atomic::Ordering::Relaxed,
};
use packet::{
    MacAddress,
    arp::{ArpOperation, ArpPacket},
    ethernet::{self, ethertype},
};
use zerocopy::IntoBytes;

impl<B: Buffer> Stack<B> {
    /// Takes a packet of ARP.
    pub(crate) fn input_arp(
        &self,
        run: &mut StackRun<'_, B>,
        interface: &Interface,
        arrival: &Arrival<'_, B>,
    ) {
        let Ok(packet) = ArpPacket::parse(arrival.head()) else {
            return self.dropped(DropReason::Malformed);
        };
        let is_for_us =
            interface.address(packet.target().into()).is_some_and(|one| one.is_usable());
        let sender = packet.sender();
        let is_own = run.configuration.local_kind(sender.into()) == Some(RouteKind::Local);
        if packet.sender_mac() == interface.mac || is_own {
            return self.dropped(DropReason::Martian);
        }
        if !sender.is_unspecified() {
            let lesson = match packet.operation() {
                ArpOperation::Request if is_for_us => Lesson::Asked,
                // An announcement changes what is known, and makes no entry.
                ArpOperation::Request => {
                    Lesson::Told { is_solicited: false, replaces: true, is_router: None }
                }
                ArpOperation::Reply => {
                    Lesson::Told { is_solicited: is_for_us, replaces: true, is_router: None }
                }
            };
            self.learn(run, interface, (sender.into(), Some(packet.sender_mac())), lesson);
        }
        if is_for_us && packet.operation() == ArpOperation::Request {
            let reply = packet.reply(interface.mac);
            self.send_arp(run, interface, packet.sender_mac(), &reply);
        }
    }
    pub(crate) fn send_arp(
        &self,
        run: &mut StackRun<'_, B>,
        interface: &Interface,
        mac: MacAddress,
        packet: &ArpPacket,
    ) {
        if let Some(departure) = Departure::new(packet.as_bytes(), BufferChain::default()) {
            self.send_link(run, interface, (mac, ethertype::ARP), departure);
        }
    }
    /// Learns the address of a neighbour, and sends what waited for it. Returns whether a router became a host.
    pub(crate) fn learn(
        &self,
        run: &mut StackRun<'_, B>,
        interface: &Interface,
        (address, mac): (IpAddr, Option<MacAddress>),
        lesson: Lesson,
    ) -> bool {
        if interface.is_headerless() {
            return false;
        }
        let (key, times) = ((interface.index, address), neighbour_times(interface));
        let learned = self.neighbours.lock().learn(key, mac, lesson, times, run.now_ns);
        if learned.is_new {
            self.has_new_neighbours.store(true, Relaxed);
        }
        if let Some(mac) = mac {
            for packet in learned.packets {
                self.send_frame(run, interface, mac, packet);
            }
        }
        learned.has_ceased_routing
    }
    /// Asks for the address of a neighbour: at its known address, or on the whole link.
    pub(crate) fn solicit(
        &self,
        run: &mut StackRun<'_, B>,
        (index, address): NeighbourKey,
        mac: Option<MacAddress>,
    ) {
        let Some(interface) = self.up(run, index) else { return };
        if let IpAddr::V6(target) = address {
            return self.solicit6(run, interface, target, mac);
        }
        if let IpAddr::V4(target) = address {
            let source = sources::source(run.configuration, interface, address, address);
            let sender = match source {
                Some(IpAddr::V4(sender)) => sender,
                _ => Ipv4Addr::UNSPECIFIED,
            };
            let request = ArpPacket::request(interface.mac, sender, target);
            self.send_arp(run, interface, mac.unwrap_or(ethernet::BROADCAST), &request);
        }
    }
    /// Sets state and address of a neighbour as the user says, and sends what waited for it. Returns whether there was room.
    pub fn set_neighbour(
        &self,
        run: &mut StackRun<'_, B>,
        key: NeighbourKey,
        (state, mac): (NeighbourState, MacAddress),
    ) -> bool {
        let Some(interface) = run.configuration.interface(key.0) else { return false };
        let times = neighbour_times(interface);
        let waiting = self.neighbours.lock().set(key, (state, mac), times, run.now_ns);
        let Some(waiting) = waiting else { return false };
        for packet in waiting {
            self.send_frame(run, interface, mac, packet);
        }
        true
    }
    /// Forgets a neighbour. The senders of packets that waited for it hear that it cannot be reached. Returns whether it was known.
    pub fn remove_neighbour(&self, run: &mut StackRun<'_, B>, key: NeighbourKey) -> bool {
        let waiting = self.neighbours.lock().remove(key);
        let was_known = waiting.is_some();
        self.fail_waiting(run, key, waiting.unwrap_or_default());
        was_known
    }
    fn fail_waiting(
        &self,
        run: &mut StackRun<'_, B>,
        key: NeighbourKey,
        packets: VecDeque<Departure<B>>,
    ) {
        for packet in packets {
            self.dropped(DropReason::NoNeighbour);
            self.tell_unreachable(run, key, packet);
        }
    }
    /// Forgets all neighbours on an interface: it went down, or its address changed.
    pub fn flush_neighbours(&self, interface: InterfaceIndex) {
        self.neighbours.lock().flush(interface);
    }
    /// Returns all neighbours, with their states and addresses.
    pub fn neighbours(&self) -> Vec<(NeighbourKey, NeighbourState, MacAddress)> {
        self.neighbours.lock().iter().collect()
    }
    /// Notes that a neighbour has shown, to a protocol above IP, that it receives.
    pub fn confirm_neighbour(&self, key: NeighbourKey, now_ns: u64) {
        self.neighbours.lock().confirm(key, now_ns);
    }
    /// Does what time demands for neighbours.
    pub(crate) fn poll_neighbours(&self, run: &mut StackRun<'_, B>) {
        let events = self.neighbours.lock().poll(run.now_ns);
        for event in events {
            match event {
                NeighbourEvent::Solicit(key, mac) => self.solicit(run, key, mac),
                NeighbourEvent::Failed(key, packets) => self.fail_waiting(run, key, packets),
            }
        }
    }
}
