//! Interfaces and the settings of cards.
use super::model::*;
use crate::{
    attendance::{Attendance, Calls},
    card::{Card, Shared},
    input::InputQueue,
    start_over, steering,
};
use inet::{
    Inet, Interface, InterfaceAddress, InterfaceFlags, InterfaceIndex, PacketLink, RealTime,
};
use interfaces::{
    nic::{ADDRESSES_MAX, LinkState, NicSink, Offloads},
    sockets::AdministrationError,
};
use packet::ethernet;
use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

const CARD: InterfaceIndex = InterfaceIndex(2);

/// Makes a stack whose card is `model`, without threads.
pub fn stack_over(model: &Arc<Model>) -> (Arc<Inet>, Arc<Card>) {
    let inet = Inet::new([7; 32], Arc::new(RealTime));
    let inputs = [InputQueue::new()].into_iter().collect();
    let shared = Shared { inet: Arc::downgrade(&inet), inputs, calls: Arc::new(Calls::default()) };
    let card = crate::add_interface(&inet, &shared, 0, model.clone()).unwrap();
    card.open();
    (inet, card)
}

fn edit(inet: &Inet, change: impl FnOnce(&mut Interface)) {
    inet.stack().configure(|all| all.edit_interface(CARD, change)).unwrap();
}

fn flags(inet: &Inet) -> InterfaceFlags {
    inet.stack().view().configuration.interface(CARD).unwrap().flags
}

#[test]
fn a_stack_without_a_card_has_loopback_alone() {
    let inet = start_over(Vec::new()).unwrap();
    let view = inet.stack().view();
    let names: Vec<_> = view.configuration.interfaces().map(|one| one.name.clone()).collect();
    assert_eq!(names, ["lo"]);
    let loopback = view.configuration.interface(InterfaceIndex::LOOPBACK).unwrap();
    assert!(!loopback.is_up() && loopback.addresses.is_empty());
}

#[test]
fn a_card_becomes_an_interface_and_gets_buffers_and_its_offloads() {
    let model = Model::new();
    model.info.lock().unwrap().offloads = Offloads::all();
    let (inet, card) = stack_over(&model);
    let view = inet.stack().view();
    let interface = view.configuration.interface(CARD).unwrap();
    assert_eq!((&*interface.name, interface.mac, interface.mtu), ("eth0", MAC, 1500));
    assert!(interface.flags.contains(InterfaceFlags::RUNNING) && !interface.is_up());
    assert_eq!(model.lent(), 64);
    let wanted = Offloads::RECEIVE - Offloads::RECEIVE_UDP;
    assert_eq!(*model.offloads.lock().unwrap(), Some(wanted));
    assert_eq!(card.offloads(), inet::LinkOffloads::all());
}

#[test]
fn the_filter_follows_the_groups_and_flags_of_the_interface() {
    let model = Model::new();
    let (inet, card) = stack_over(&model);
    let mut attendance = Attendance::new(&[card]);
    let mut told = || {
        attendance.attend(&inet);
        core::mem::take(&mut *model.filters.lock().unwrap())
    };
    let group: IpAddr = [239, 1, 2, 3].into();
    let [first] = &told()[..] else { panic!("one filter is set") };
    assert_eq!(first.multicast.len(), 2);
    assert_eq!(told().len(), 0);
    inet.run(|stack, run| stack.join_group(run, CARD, group)).unwrap();
    let [joined] = &told()[..] else { panic!("one filter is set") };
    assert!(joined.multicast.contains(&ethernet::of_group(group)));
    edit(&inet, |card| card.flags |= InterfaceFlags::PROMISC);
    let [promiscuous] = &told()[..] else { panic!("one filter is set") };
    assert!(promiscuous.is_promiscuous && !promiscuous.is_all_multicast);
    for number in 0..ADDRESSES_MAX as u8 {
        let group = Ipv4Addr::new(239, 9, 9, number).into();
        inet.run(|stack, run| stack.join_group(run, CARD, group)).unwrap();
    }
    let [all] = &told()[..] else { panic!("one filter is set") };
    assert!(all.is_all_multicast && all.multicast.is_empty());
}

#[test]
fn the_interface_follows_the_link_and_sends_nothing_without() {
    let model = Model::new();
    let (inet, card) = stack_over(&model);
    let address = InterfaceAddress::new([10, 0, 0, 2].into(), 24).unwrap();
    inet.stack().configure(|all| all.add_address(CARD, address)).unwrap();
    edit(&inet, |card| card.flags |= InterfaceFlags::UP);
    let mut attendance = Attendance::new(core::slice::from_ref(&card));
    card.link(LinkState::Down);
    attendance.attend(&inet);
    assert!(!flags(&inet).contains(InterfaceFlags::RUNNING));
    inet.run(|stack, run| stack.announce(run, CARD));
    assert_eq!(model.take_sent().len(), 0);
    assert_eq!(card.details().permanent_mac, Some(MAC));
    assert_eq!(card.set_mac(MAC), Err(AdministrationError::Unsupported));
    card.link(LinkState::Up);
    attendance.attend(&inet);
    assert!(flags(&inet).contains(InterfaceFlags::RUNNING));
    card.announce();
    attendance.attend(&inet);
    attendance.attend(&inet);
    let arp = model.take_sent();
    assert_eq!(arp.iter().filter(|frame| frame[12..14] == [8, 6]).count(), 1);
}

#[test]
fn packets_of_a_flow_have_a_hash_and_fragments_that_of_their_hosts() {
    let mut head = [0; steering::HEAD];
    head[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0]);
    head[23] = 17;
    head[26..38].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, 9]);
    let flow = steering::flow(&head, 1);
    let with = |at: usize, byte: u8| {
        let mut other = head;
        other[at] = byte;
        steering::flow(&other, 1)
    };
    // Neither the length nor the time to live belongs to the flow.
    assert_eq!((with(17, 9), with(22, 9)), (flow, flow));
    let others = [with(35, 8), with(29, 3), with(23, 6), steering::flow(&head, 2)];
    assert!(others.iter().all(|other| *other != flow), "{others:?}");
    // Fragments differ in their ports, or what stands there.
    head[20] = 0x20;
    let first = steering::flow(&head, 1);
    head[20..22].copy_from_slice(&[0, 9]);
    head[34..38].copy_from_slice(&[1, 2, 3, 4]);
    assert_eq!(steering::flow(&head, 1), first);
    for length in 0..head.len() {
        steering::flow(&head[..length], 1);
    }
}
