//! [`Attendance`]: keeps the settings of cards in step with the interfaces of the stack, and the interfaces with the cards' links.
//!
//! It runs after each change of the stack's configuration and after news of a card ([`Calls`]), on a thread of its own, because a
//! card may take seconds for a command.
use crate::card::Card;
use alloc::{sync::Arc, vec::Vec};
use core::net::IpAddr;
use inet::{Configuration, ConfigurationWatcher, Inet, Interface, InterfaceFlags};
use interfaces::nic::{ADDRESSES_MAX, Filter, LinkState, NicError};
use packet::{ethernet, igmp, ipv6};
use rt::sync::Event;

/// Calls for the thread that attends to cards.
#[derive(Default)]
pub struct Calls(Event);

impl Calls {
    /// Calls the thread.
    pub fn call(&self) {
        self.0.signal();
    }
}

impl ConfigurationWatcher for Calls {
    fn configured(&self, _: &Configuration, _: &Configuration) {
        self.call();
    }
}

/// A card, and what it was last told.
struct Attended {
    card: Arc<Card>,
    filter: Option<Filter>,
}

/// The cards, and what they were last told.
pub struct Attendance {
    cards: Vec<Attended>,
}

impl Attendance {
    /// Makes the list of `cards`, which were told nothing.
    pub fn new(cards: &[Arc<Card>]) -> Attendance {
        let attended = |card: &Arc<Card>| Attended { card: Arc::clone(card), filter: None };
        Attendance { cards: cards.iter().map(attended).collect() }
    }
    /// Attends to the cards, for ever.
    pub fn run(mut self, inet: &Inet, calls: &Calls) {
        loop {
            let ticket = calls.0.ticket();
            self.attend(inet);
            calls.0.wait(ticket, None);
        }
    }
    /// Brings cards and interfaces in step, once.
    pub fn attend(&mut self, inet: &Inet) {
        for attended in &mut self.cards {
            let view = inet.stack().view();
            attended.follow_link(inet, &view.configuration);
            if attended.card.take_announcement() {
                let index = attended.card.index();
                inet.run(|stack, run| stack.announce(run, index));
            }
            attended.set_filter(&view.configuration);
        }
    }
}

impl Attended {
    /// Tells the interface of its link.
    fn follow_link(&self, inet: &Inet, configuration: &Configuration) {
        let index = self.card.index();
        let Some(interface) = configuration.interface(index) else { return };
        let has_link = self.card.has_link();
        if interface.flags.contains(InterfaceFlags::RUNNING) == has_link {
            return;
        }
        inet.set_carrier(index, LinkState::of(has_link));
    }
    /// Tells the card which packets to receive, if that has changed.
    fn set_filter(&mut self, configuration: &Configuration) {
        let Some(interface) = configuration.interface(self.card.index()) else { return };
        let filter = filter_of(interface);
        if self.filter.as_ref() == Some(&filter) {
            return;
        }
        match self.card.nic().set_filter(&filter) {
            // A card without a filter receives everything.
            Ok(()) | Err(NicError::Unsupported) => {}
            Err(error) => log::warn!("inet: {} has an old filter: {error:?}", interface.name),
        }
        self.filter = Some(filter);
    }
}

/// Returns the packets that an interface is to receive.
pub fn filter_of(interface: &Interface) -> Filter {
    // Every host is a member of these, without a membership.
    let all = [igmp::ALL_HOSTS.into(), IpAddr::V6(ipv6::ALL_NODES)];
    let groups = interface.groups.keys().copied().chain(all);
    let mut multicast: Vec<_> = groups.map(ethernet::of_group).collect();
    let (of_groups, unicast): (Vec<_>, Vec<_>) = interface
        .wanted
        .addresses
        .keys()
        .chain(&interface.fixed_groups)
        .copied()
        .filter(|address| *address != interface.mac)
        .partition(|address| ethernet::is_group(*address));
    multicast.extend(of_groups);
    multicast.sort_unstable();
    multicast.dedup();
    let is_too_long = multicast.len() + unicast.len() > ADDRESSES_MAX;
    let is_all_multicast = interface.flags.contains(InterfaceFlags::ALLMULTI)
        || interface.wanted.groups > 0
        || is_too_long;
    if is_all_multicast {
        multicast.clear();
    }
    Filter {
        is_promiscuous: interface.flags.contains(InterfaceFlags::PROMISC)
            || interface.wanted.all > 0
            || unicast.len() > ADDRESSES_MAX,
        is_all_multicast,
        unicast: if unicast.len() > ADDRESSES_MAX { Vec::new() } else { unicast },
        multicast,
    }
}
