//! Addresses (`devinet_ioctl` of Linux, and `SIOCSIFADDR` of IPv6).
use super::{IoctlCaller, command, device, name, put};
use crate::{
    NetErrno,
    base::{INET, NAME_BYTES, link_numbered, mask4},
    wire::Fields,
};
use alloc::string::ToString;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use interfaces::sockets::{
    AddressRecord, AddressSelector, EntryMode, LinkRecord, NetworkAdministration, NetworkChange,
    number,
};

/// Offset of the `struct sockaddr_in` in `struct ifreq`, and of its address.
const VALUE_AT: usize = NAME_BYTES;
const ADDRESS_AT: usize = VALUE_AT + 4;
/// `IFF_BROADCAST`, `IFF_POINTOPOINT`, `IFF_UP`.
const BROADCAST: u32 = 2;
const POINT_TO_POINT: u32 = 16;
const UP: u16 = 1;

/// Returns the address of IPv4 in a `struct ifreq`.
fn address(argument: &[u8]) -> Option<Ipv4Addr> {
    Fields(argument).array::<4>(ADDRESS_AT).map(Ipv4Addr::from)
}

/// Returns the bits of the network of an address by its class; `None` for one that no host can have.
fn class_bits(address: Ipv4Addr) -> Option<u8> {
    match address.octets()[0] {
        _ if address.is_broadcast() => Some(0),
        0 => Some(0),
        1..=127 => Some(8),
        128..=191 => Some(16),
        192..=223 => Some(24),
        _ => None,
    }
}

/// Returns the entry that a label names: the one with the same address, if the request gives one, else the first.
fn find(
    network: &dyn NetworkAdministration,
    link: &LinkRecord,
    argument: &[u8],
) -> Result<Option<AddressRecord>, NetErrno> {
    let wanted = name(argument)?;
    let label = |one: &AddressRecord| {
        one.interface == link.index
            && one.address.is_ipv4()
            && (one.label == wanted || one.label.is_empty() && link.name == wanted)
    };
    let all = network.addresses();
    let is_given = Fields(argument).u16(VALUE_AT) == Some(INET.into());
    let given = address(argument).filter(|_| is_given).map(IpAddr::V4);
    let exact = all.iter().find(|one| label(one) && Some(one.address) == given);
    Ok(exact.or_else(|| all.iter().find(|one| label(one))).cloned())
}

/// Does a request about an address of IPv4.
///
/// # Errors
/// `ENODEV`, `EPERM`, `EINVAL`, `EADDRNOTAVAIL`, and those of the change.
pub(super) fn request(
    network: &dyn NetworkAdministration,
    caller: IoctlCaller,
    number: u32,
    argument: &mut [u8],
) -> Result<(), NetErrno> {
    let is_question = super::is_answered(number);
    if !is_question {
        caller.check()?;
        if Fields(argument).u16(VALUE_AT) != Some(INET.into()) {
            return Err(NetErrno::EINVAL);
        }
    }
    let link = device::find(network, argument)?;
    let found = find(network, &link, argument)?;
    if number == command::SET_ADDRESS {
        let fresh = address(argument).ok_or(NetErrno::EINVAL)?;
        return set(network, &link, found, fresh, name(argument)?);
    }
    let entry = found.ok_or(NetErrno::EADDRNOTAVAIL)?;
    if !is_question {
        let value = address(argument).ok_or(NetErrno::EINVAL)?;
        return modify(network, &link, &entry, number, value);
    }
    let version4 = |address: IpAddr| match address {
        IpAddr::V4(address) => address,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    };
    let told = match number {
        command::GET_ADDRESS => version4(entry.address),
        command::GET_PEER => version4(entry.peer.unwrap_or(entry.address)),
        command::GET_BROADCAST => entry.broadcast.unwrap_or(Ipv4Addr::UNSPECIFIED),
        _ => Ipv4Addr::from_bits(mask4(entry.prefix_length)),
    };
    put(argument, VALUE_AT, &[0; 16]);
    put(argument, VALUE_AT, &[INET]);
    put(argument, ADDRESS_AT, &told.octets());
    Ok(())
}

fn selector(entry: &AddressRecord) -> AddressSelector {
    AddressSelector {
        interface: entry.interface,
        address: Some(entry.address),
        label: None,
        prefix_length: Some(entry.prefix_length),
    }
}

/// Puts `fresh` in the place of an entry.
fn replace(
    network: &dyn NetworkAdministration,
    old: Option<&AddressRecord>,
    fresh: AddressRecord,
) -> Result<(), NetErrno> {
    if let Some(old) = old {
        network.change(&NetworkChange::RemoveAddress(selector(old)))?;
    }
    // The unspecified address stands for none.
    if fresh.address.is_unspecified() {
        return Ok(());
    }
    Ok(network.change(&NetworkChange::Address(fresh, EntryMode::Create))?)
}

fn set(
    network: &dyn NetworkAdministration,
    link: &LinkRecord,
    old: Option<AddressRecord>,
    fresh: Ipv4Addr,
    label: &str,
) -> Result<(), NetErrno> {
    let of_class = class_bits(fresh).ok_or(NetErrno::EINVAL)?;
    let prefix_length = if link.flags & POINT_TO_POINT != 0 { 32 } else { of_class };
    if old.as_ref().is_some_and(|old| old.address == IpAddr::V4(fresh)) {
        return Ok(());
    }
    let scope = if fresh.is_loopback() { number::SCOPE_HOST } else { number::SCOPE_UNIVERSE };
    let record = AddressRecord {
        scope,
        broadcast: broadcast_of(link, fresh, prefix_length),
        label: old.as_ref().map_or(label, |old| old.label.as_str()).to_string(),
        ..AddressRecord::new(link.index, fresh.into(), prefix_length)
    };
    replace(network, old.as_ref(), record)
}

/// Returns the broadcast address of a network, if its link has broadcasts.
fn broadcast_of(link: &LinkRecord, address: Ipv4Addr, length: u8) -> Option<Ipv4Addr> {
    let has = link.flags & BROADCAST != 0 && length < 31;
    has.then(|| Ipv4Addr::from_bits(address.to_bits() | !mask4(length)))
}

fn modify(
    network: &dyn NetworkAdministration,
    link: &LinkRecord,
    old: &AddressRecord,
    command: u32,
    value: Ipv4Addr,
) -> Result<(), NetErrno> {
    let IpAddr::V4(own) = old.address else { return Err(NetErrno::EINVAL) };
    let mut fresh = old.clone();
    match command {
        command::SET_BROADCAST => fresh.broadcast = Some(value).filter(|it| !it.is_unspecified()),
        command::SET_PEER => {
            class_bits(value).ok_or(NetErrno::EINVAL)?;
            fresh.peer = Some(value.into()).filter(|peer| *peer != old.address);
        }
        _ => {
            let length = value.to_bits().leading_ones() as u8;
            if mask4(length) != value.to_bits() {
                return Err(NetErrno::EINVAL);
            }
            let follows = old.broadcast == broadcast_of(link, own, old.prefix_length);
            if follows && old.broadcast.is_some() {
                fresh.broadcast = broadcast_of(link, own, length);
            }
            fresh.prefix_length = length;
        }
    }
    if fresh == *old {
        return Ok(());
    }
    replace(network, Some(old), fresh)
}

/// Does `SIOCSIFFLAGS` of an alias: one that is switched off is removed.
///
/// # Errors
/// `EPERM`, `ENODEV`, `EADDRNOTAVAIL`.
pub(super) fn set_flags(
    network: &dyn NetworkAdministration,
    caller: IoctlCaller,
    argument: &[u8],
) -> Result<(), NetErrno> {
    caller.check()?;
    let link = device::find(network, argument)?;
    // The flags are in the place of an address, so that only the label chooses.
    let label = argument.get(..NAME_BYTES).unwrap_or_default();
    let entry = find(network, &link, label)?.ok_or(NetErrno::EADDRNOTAVAIL)?;
    if Fields(argument).u16(VALUE_AT).unwrap_or(0) & UP != 0 {
        return Ok(());
    }
    Ok(network.change(&NetworkChange::RemoveAddress(selector(&entry)))?)
}

/// Does `SIOCSIFADDR` and `SIOCDIFADDR` of IPv6 with a `struct in6_ifreq`: address, bits of the network, number of the interface.
///
/// # Errors
/// `EPERM`, `ENODEV`, `EINVAL`, and those of the change.
pub(super) fn change6(
    network: &dyn NetworkAdministration,
    caller: IoctlCaller,
    number: u32,
    argument: &[u8],
) -> Result<(), NetErrno> {
    caller.check()?;
    let fields = Fields(argument);
    let octets = fields.array::<16>(0).ok_or(NetErrno::EINVAL)?;
    let address = IpAddr::V6(Ipv6Addr::from(octets));
    let (length, index) = (fields.u32(16).unwrap_or(0), fields.u32(20).unwrap_or(0));
    if number == command::SET_PEER {
        // Only tunnels without a peer of their own take one.
        return Err(NetErrno::ENODEV);
    }
    let prefix_length = u8::try_from(length).ok().filter(|length| *length <= 128);
    let prefix_length = prefix_length.ok_or(NetErrno::EINVAL)?;
    link_numbered(network, index)?;
    if number == command::DELETE_ADDRESS {
        let selector = AddressSelector {
            interface: index,
            address: Some(address),
            label: None,
            prefix_length: Some(prefix_length),
        };
        return Ok(network.change(&NetworkChange::RemoveAddress(selector))?);
    }
    let record = AddressRecord::new(index, address, prefix_length);
    Ok(network.change(&NetworkChange::Address(record, EntryMode::Create))?)
}
