//! The source address of a packet that has none (RFC 6724 for IPv6; for IPv4 the order of Linux's `inet_select_addr`).
use super::{
    configuration::Configuration,
    interface::{AddressFlags, Interface, InterfaceAddress},
};
use crate::base::address::{AddressScope, Family, common_bits};
use core::net::{IpAddr, Ipv6Addr};

/// Returns the best source for packets to `destination` that leave through `interface` to `next_hop`.
pub fn source(
    configuration: &Configuration,
    interface: &Interface,
    destination: IpAddr,
    next_hop: IpAddr,
) -> Option<IpAddr> {
    match destination {
        IpAddr::V4(_) => source4(configuration, interface, destination, next_hop),
        IpAddr::V6(destination) => source6(configuration, interface, destination),
    }
}

fn usable(interface: &Interface, family: Family) -> impl Iterator<Item = &InterfaceAddress> {
    interface
        .addresses
        .iter()
        .filter(move |one| one.is_usable() && Family::of(one.address) == family)
}

fn source4(
    configuration: &Configuration,
    interface: &Interface,
    destination: IpAddr,
    next_hop: IpAddr,
) -> Option<IpAddr> {
    let scope = AddressScope::of(destination);
    let reaches = |one: &&InterfaceAddress| one.scope >= scope || one.scope >= AddressScope::Link;
    let own = || usable(interface, Family::V4).filter(reaches);
    own()
        .filter(|one| !one.flags.contains(AddressFlags::SECONDARY))
        .find(|one| one.network().contains(next_hop))
        .or_else(|| own().next())
        .or_else(|| {
            let mut others = configuration.interfaces().flat_map(|one| usable(one, Family::V4));
            others.find(|one| one.scope == AddressScope::Global)
        })
        // A packet that stays on loopback may come from there.
        .or_else(|| usable(interface, Family::V4).next())
        .map(|one| one.address)
}

/// A candidate of IPv6, with what the rules compare.
struct Candidate<'c> {
    entry: &'c InterfaceAddress,
    address: Ipv6Addr,
    is_on_interface: bool,
}

fn source6(
    configuration: &Configuration,
    interface: &Interface,
    destination: Ipv6Addr,
) -> Option<IpAddr> {
    let scope = AddressScope::of(destination.into());
    // Addresses of other interfaces reach what is not on the link alone.
    let is_confined = scope <= AddressScope::Link || destination.is_multicast();
    let candidates = configuration.interfaces().flat_map(|one| {
        let is_on_interface = one.index == interface.index;
        // Loopback addresses never leave the host.
        let is_asked = is_on_interface || !is_confined && !one.is_loopback();
        usable(one, Family::V6).filter(move |_| is_asked).filter_map(move |entry| {
            match entry.address {
                IpAddr::V6(address) => Some(Candidate { entry, address, is_on_interface }),
                IpAddr::V4(_) => None,
            }
        })
    });
    let best = candidates.reduce(
        |best, next| {
            if is_better(&next, &best, destination) { next } else { best }
        },
    )?;
    Some(best.address.into())
}

/// Returns whether the rules of RFC 6724, section 5, prefer `one` to `other`, which was looked at before.
fn is_better(one: &Candidate<'_>, other: &Candidate<'_>, destination: Ipv6Addr) -> bool {
    // Rule 1: the destination itself.
    let is_same = |candidate: &Candidate<'_>| candidate.address == destination;
    if is_same(one) != is_same(other) {
        return is_same(one);
    }
    // Rule 2: the smallest scope that is not too small.
    let scope = AddressScope::of(destination.into());
    let (of_one, of_other) = (one.entry.scope, other.entry.scope);
    if of_one != of_other {
        return if of_one < of_other { of_one >= scope } else { of_other < scope };
    }
    // Rule 3: no deprecated address.
    let is_old =
        |candidate: &Candidate<'_>| candidate.entry.flags.contains(AddressFlags::DEPRECATED);
    if is_old(one) != is_old(other) {
        return is_old(other);
    }
    // Rule 5: the interface of the packet. Rules 4 and 7 are about mobile and temporary addresses, which there are none of.
    if one.is_on_interface != other.is_on_interface {
        return one.is_on_interface;
    }
    // Rule 6: the label of the destination.
    let has_label = |candidate: &Candidate<'_>| label(candidate.address) == label(destination);
    if has_label(one) != has_label(other) {
        return has_label(one);
    }
    // Rule 8: the longest common prefix.
    let common = |candidate: &Candidate<'_>| {
        common_bits(candidate.address.into(), destination.into()).min(candidate.entry.prefix_length)
    };
    common(one) > common(other)
}

/// Returns the label of the default policy table (RFC 6724, section 2.1).
fn label(address: Ipv6Addr) -> u8 {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => 0,
        [0, 0, 0, 0, 0, 0xffff, _, _] => 4,
        [0, 0, 0, 0, 0, 0, _, _] => 3,
        [0x2002, ..] => 2,
        [0x2001, 0, ..] => 5,
        [0xfc00..=0xfdff, ..] => 13,
        [0xfec0..=0xfeff, ..] => 11,
        [0x3ffe, ..] => 12,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::interface::InterfaceIndex;

    const CARD: InterfaceIndex = InterfaceIndex(2);

    fn choose(addresses: &[&str], old: &str, destination: &str) -> String {
        let mut all = Configuration::default();
        all.add_interface(Interface::ethernet(CARD, "eth0", [2; 6], 1500)).unwrap();
        for text in addresses {
            let mut address = InterfaceAddress::new(text.parse().unwrap(), 64).unwrap();
            if *text == old {
                address.flags |= AddressFlags::DEPRECATED;
            }
            all.add_address(CARD, address).unwrap();
        }
        let destination = destination.parse().unwrap();
        let card = all.interface(CARD).unwrap();
        source(&all, card, destination, destination).unwrap().to_string()
    }

    /// The examples of RFC 6724, section 10.1, which need no temporary or mobile addresses.
    #[test]
    fn the_examples_of_the_rfc_give_their_sources() {
        let (wide, local) = ("2001:db8:3::1", "fe80::1");
        assert_eq!(choose(&[wide, local], "", "2001:db8:1::1"), wide);
        assert_eq!(choose(&[local, "2001:db8:1::1"], "", "ff02::1"), local);
        assert_eq!(
            choose(&["2001:db8:1::2", local], "2001:db8:1::2", "2001:db8:1::1"),
            "2001:db8:1::2"
        );
        assert_eq!(choose(&[local, wide], "", local), local);
        let (one, two) = ("2001:db8:1::2", "2001:db8:3::2");
        assert_eq!(choose(&[two, one], "", "2001:db8:1::1"), one);
        assert_eq!(
            choose(&["2002:c633:6401::d5e3", one], "", "2002:c633:6401::1"),
            "2002:c633:6401::d5e3"
        );
        assert_eq!(choose(&["fd00::2", one], "", "2001:db8:9::1"), one, "the label decides");
        assert_eq!(choose(&[one, two], two, "2001:db8:3::9"), one, "deprecated");
    }
}
