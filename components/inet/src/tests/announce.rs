//! Announcements of an interface's addresses.
use super::link::{CARD, Station, exchange, ip};
use crate::*;

/// Returns the address of Ethernet by which `station` knows `address`.
fn known(station: &Station, address: &str) -> Option<[u8; 6]> {
    let neighbours = station.stack.neighbours().into_iter();
    neighbours.filter(|((_, one), ..)| *one == ip(address)).map(|(_, _, mac)| mac).next()
}

#[test]
fn an_announcement_changes_what_neighbours_know() {
    let addresses = [("10.0.0.1", 24), ("fd00::1", 64)];
    let mut one = Station::new(1, &addresses);
    let mut two = Station::new(2, &[("10.0.0.2", 24), ("fd00::2", 64)]);
    for (address, _) in addresses {
        two.run(|stack, run| {
            let request = SendRequest::new(ip(address), 253);
            let path = stack.path(run, &request).unwrap();
            stack.send_on(
                run,
                &path,
                &request,
                Departure::new(&[1], BufferChain::default()).unwrap(),
            )
        })
        .unwrap();
    }
    exchange(&mut two, &mut one);
    assert_eq!(known(&two, "10.0.0.1"), Some(one.mac));
    assert_eq!(known(&two, "fd00::1"), Some(one.mac));
    let moved = [2, 0, 0, 0, 0, 0x77];
    one.stack.configure(|all| all.edit_interface(CARD, |card| card.mac = moved)).unwrap();
    one.run(|stack, run| stack.announce(run, CARD));
    assert_eq!(one.world.sent.len(), 2);
    exchange(&mut one, &mut two);
    assert_eq!(known(&two, "10.0.0.1"), Some(moved));
    assert_eq!(known(&two, "fd00::1"), Some(moved));
    // An interface that is down tells nothing.
    one.stack
        .configure(|all| all.edit_interface(CARD, |card| card.flags.remove(InterfaceFlags::UP)))
        .unwrap();
    one.run(|stack, run| stack.announce(run, CARD));
    assert_eq!(one.world.sent.len(), 0);
}
