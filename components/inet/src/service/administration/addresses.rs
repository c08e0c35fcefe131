//! Changes of addresses.
use super::records;
use crate::{
    base::address::AddressScope,
    service::inet::Inet,
    tables::interface::{AddressFlags, Interface, InterfaceAddress},
};
use alloc::vec::Vec;
use core::net::IpAddr;
use interfaces::sockets::{AddressRecord, AddressSelector, AdministrationError, EntryMode, number};

const NS_PER_S: u64 = 1_000_000_000;

fn scope_of(record: &AddressRecord) -> AddressScope {
    if record.address.is_ipv6() {
        return AddressScope::of(record.address);
    }
    match record.scope {
        number::SCOPE_HOST.. => AddressScope::Host,
        number::SCOPE_LINK => AddressScope::Link,
        number::SCOPE_SITE => AddressScope::Site,
        _ => AddressScope::Global,
    }
}

/// Adds an address, or changes one.
///
/// # Errors
/// `NoDevice`, `Exists`, `Invalid`, `NoEntry`, `Forbidden` for IPv6 on an interface without it.
pub(super) fn add(
    inet: &Inet,
    record: &AddressRecord,
    mode: EntryMode,
) -> Result<(), AdministrationError> {
    let index = records::index(record.interface);
    let view = inet.stack().view();
    let interface = view.configuration.interface(index).ok_or(AdministrationError::NoDevice)?;
    if record.address.is_ipv6() && interface.ipv6.is_disabled {
        return Err(AdministrationError::Forbidden);
    }
    let now_ns = inet.now_ns();
    let end = |seconds: Option<u32>| {
        seconds.map(|seconds| now_ns.saturating_add(u64::from(seconds) * NS_PER_S))
    };
    let mut entry = InterfaceAddress::new(record.address, record.prefix_length)
        .ok_or(AdministrationError::Invalid)?;
    entry.scope = scope_of(record);
    entry.flags = AddressFlags::from_bits_truncate(record.flags);
    entry.flags.set(AddressFlags::PERMANENT, record.valid_s.is_none());
    entry.flags.set(AddressFlags::DEPRECATED, record.preferred_s == Some(0));
    entry.broadcast = record.broadcast;
    (entry.preferred_until_ns, entry.valid_until_ns) =
        (end(record.preferred_s), end(record.valid_s));
    entry.peer = record.peer;
    if record.label != interface.name {
        entry.label.clone_from(&record.label);
    }
    entry.metric = record.metric;
    entry.changed_ns = (now_ns, now_ns);
    match interface.address(record.address) {
        Some(_) if mode == EntryMode::Create => return Err(AdministrationError::Exists),
        Some(old) => return change(inet, interface, old, entry),
        None if mode == EntryMode::Change => return Err(AdministrationError::NoEntry),
        None => {}
    }
    inet.run(|stack, run| stack.add_address(run, index, entry))?;
    Ok(())
}

/// Gives an address new lifetimes, flags and metric.
fn change(
    inet: &Inet,
    interface: &Interface,
    old: &InterfaceAddress,
    fresh: InterfaceAddress,
) -> Result<(), AdministrationError> {
    if old.prefix_length != fresh.prefix_length {
        return Err(AdministrationError::Exists);
    }
    let kept = AddressFlags::TENTATIVE | AddressFlags::DADFAILED | AddressFlags::SECONDARY;
    inet.stack().configure(|all| {
        all.edit_address(interface.index, old.address, |one| {
            one.flags = (fresh.flags - kept) | (one.flags & kept);
            one.preferred_until_ns = fresh.preferred_until_ns;
            one.valid_until_ns = fresh.valid_until_ns;
            one.metric = fresh.metric;
            one.changed_ns.1 = fresh.changed_ns.1;
        })
    })?;
    inet.arm(inet.stack().earliest_ns());
    Ok(())
}

/// Removes an address. With a primary one of IPv4 its secondaries go (`promote_secondaries` is off, as by default on Linux).
///
/// # Errors
/// `NoDevice`, `NoAddress`.
pub(super) fn remove(inet: &Inet, selector: &AddressSelector) -> Result<(), AdministrationError> {
    let index = records::index(selector.interface);
    let view = inet.stack().view();
    let interface = view.configuration.interface(index).ok_or(AdministrationError::NoDevice)?;
    let fits = |one: &&InterfaceAddress| {
        let label = if one.label.is_empty() { &interface.name } else { &one.label };
        let is_named = selector.label.as_ref().is_none_or(|wanted| wanted == label);
        let is_it = match selector.address {
            Some(address) => one.address == address,
            None => one.address.is_ipv4(),
        };
        is_it && is_named && selector.prefix_length.is_none_or(|length| length == one.prefix_length)
    };
    let found = interface.addresses.iter().find(fits).ok_or(AdministrationError::NoAddress)?;
    let mut gone: Vec<IpAddr> = Vec::from([found.address]);
    if found.address.is_ipv4() && !found.flags.contains(AddressFlags::SECONDARY) {
        let follows = |one: &&InterfaceAddress| {
            one.flags.contains(AddressFlags::SECONDARY)
                && one.address.is_ipv4()
                && one.network() == found.network()
        };
        gone.splice(0..0, interface.addresses.iter().filter(follows).map(|one| one.address));
    }
    let result = inet.run(|stack, run| {
        gone.iter().try_for_each(|address| stack.remove_address(run, index, *address))
    });
    result.map_err(|_| AdministrationError::NoAddress)
}
