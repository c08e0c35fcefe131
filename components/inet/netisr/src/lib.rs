//! The network stack as a component of a system: its threads, and its part of the cards.
//!
//! [`start`] makes the stack ([`Inet`]) and gives each card a [`card::Card`], by which packets come and go:
//!
//! ```text
//! driver's thread:  Card::received -> the input queue of the packet's flow; a lone packet for an idle netisr -> Inet::received
//! netisr thread:    input queue -> frames, segments merged -> Inet::received; buffers of the card are lent again
//! any thread:       Inet -> Card::transmit -> the card, or the queue of packets that wait for room
//! cards' thread:    keeps the settings of cards in step with the interfaces, and the interfaces with the links
//! timers' thread:   Inet::wait_for_timers
//! ```
//! `inet.netisrs=N` sets the number of netisr threads; there are never more than processors. Without a card there is the timers'
//! thread alone.
//!
//! Locks: `inet.netisr.input`, `inet.card.waiting` and `inet.card.buffers` are held over no call, except the last one over those
//! that lend buffers to the card.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

mod attendance;
mod buffers;
mod card;
mod component;
mod copies;
mod input;
mod merge;
mod outgoing;
mod segment;
mod sender;
mod steering;
#[cfg(test)]
mod tests;

use alloc::{format, sync::Arc, vec::Vec};
use attendance::{Attendance, Calls};
use card::{Card, Shared};
#[cfg(all(target_os = "none", skerry_process))]
use inet::KeptArea;
use inet::{Inet, Interface, InterfaceFlags, InterfaceIndex};
use input::InputQueue;
use interfaces::{
    nic::{LinkState, Nic},
    offer::Offer,
};

use rt::{
    NoMemory,
    thread::{self, Policy},
};

/// Nice value of the threads, that of drivers: before ordinary programs.
const NICE: i8 = -10;
/// The parameter with the number of netisr threads.
const NETISRS: &str = "inet.netisrs";
/// Netisr threads, at most.
const NETISRS_MAX: usize = 64;
/// Number of the first card's interface, behind loopback.
const FIRST: u32 = 2;

pub use component::{KeptMemory, StackComponent};

/// Starts the stack over the cards among `used`. Returns it; nothing if memory was refused.
#[cfg(not(all(target_os = "none", skerry_process)))]
pub fn start(used: Vec<Offer>) -> Vec<Offer> {
    let nics = used.into_iter().filter_map(|offer| match offer {
        Offer::Nic(nic) => Some(nic),
        _ => None,
    });
    match start_over(nics.collect()) {
        Ok(inet) => Vec::from([Offer::Network(inet)]),
        Err(NoMemory) => refused(),
    }
}

/// Starts the stack over `nics`.
#[cfg(not(all(target_os = "none", skerry_process)))]
fn start_over(nics: Vec<Arc<dyn Nic>>) -> Result<Arc<Inet>, NoMemory> {
    let stack = StackComponent::start(None)?;
    attach(stack.inet(), nics)?;
    Ok(Arc::clone(stack.inet()))
}

/// Starts the stack, or the successor of one. Its client gives it the cards.
#[cfg(all(target_os = "none", skerry_process))]
pub fn start() -> Vec<Offer> {
    let area = rt::device::kept().map(|memory| Arc::new(KeptMemory(memory)) as Arc<dyn KeptArea>);
    match StackComponent::start(area) {
        Ok(stack) => Vec::from([Offer::Stack(Arc::new(stack))]),
        Err(NoMemory) => refused(),
    }
}

fn refused() -> Vec<Offer> {
    log::error!("inet: no memory for the network stack");
    Vec::new()
}

/// Switches loopback off. As on Linux, a program switches it on, which gives it its addresses.
fn switch_loopback_off(inet: &Inet) {
    let _ = inet.stack().configure(|all| {
        let index = InterfaceIndex::LOOPBACK;
        let addresses = all.interface(index).map(|one| one.addresses.clone());
        for entry in addresses.into_iter().flatten() {
            all.remove_address(index, entry.address)?;
        }
        all.edit_interface(index, |one| one.flags.remove(InterfaceFlags::UP))
    });
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), NoMemory> {
    thread::spawn(name, Policy::Fair { nice: NICE }, body).map(drop)
}

/// Returns the number of netisr threads.
fn netisrs() -> usize {
    let (processors, _) = thread::processors();
    let wanted = rt::system::parameter(NETISRS).map(str::parse);
    let count = match wanted {
        Some(Ok(count)) if (1..=NETISRS_MAX).contains(&count) => count,
        Some(_) => {
            log::warn!("inet: {NETISRS} is no number from 1 to {NETISRS_MAX}");
            1
        }
        None => 1,
    };
    count.min(processors.max(1))
}

/// Makes an interface of each card, starts the threads, and then lets packets come.
fn attach(inet: &Arc<Inet>, nics: Vec<Arc<dyn Nic>>) -> Result<(), NoMemory> {
    if nics.is_empty() {
        return Ok(());
    }
    let inputs: Arc<[InputQueue]> = (0..netisrs()).map(|_| InputQueue::new()).collect();
    let calls = Arc::new(Calls::default());
    inet.stack().watch(calls.clone());
    let shared = Shared {
        inet: Arc::downgrade(inet),
        inputs: Arc::clone(&inputs),
        calls: Arc::clone(&calls),
    };
    let cards: Arc<[Arc<Card>]> = (0..)
        .zip(nics)
        .filter_map(|(number, nic)| add_interface(inet, &shared, number, nic))
        .collect();
    for number in 0..inputs.len() {
        let (inet, inputs, cards) = (Arc::clone(inet), Arc::clone(&inputs), Arc::clone(&cards));
        spawn(&format!("inet/netisr{number}"), move || {
            if let Some(queue) = inputs.get(number) {
                input::serve(&inet, queue, &cards);
            }
        })?;
    }
    for card in cards.iter() {
        card.open();
    }
    let (inet, netisrs) = (Arc::clone(inet), inputs.len());
    spawn("inet/cards", move || Attendance::new(&cards).run(&inet, &calls))?;
    log::info!("inet: {netisrs} netisr threads");
    Ok(())
}

/// Makes an interface of a card.
fn add_interface(
    inet: &Arc<Inet>,
    shared: &Shared,
    number: usize,
    nic: Arc<dyn Nic>,
) -> Option<Arc<Card>> {
    let info = nic.info();
    let index = InterfaceIndex(FIRST.checked_add(u32::try_from(number).ok()?)?);
    let name = format!("eth{number}");
    let added = inet.stack().configure(|all| {
        // The predecessor of this stack may have made it.
        if all.interface(index).is_some() {
            return Ok(());
        }
        let mut interface = Interface::ethernet(index, &name, info.mac, info.mtu.into());
        interface.flags.set(InterfaceFlags::RUNNING, info.link == LinkState::Up);
        all.add_interface(interface)
    });
    if let Err(error) = added {
        log::error!("inet: {name}: {error:?}");
        return None;
    }
    let card = Card::new((number, index), nic, shared);
    inet.set_link(index, Some(card.clone()));
    Some(card)
}
