//! Changes of interfaces.
use super::records::{self, MTU6_MIN, mtu_range};
use crate::{
    service::{inet::Inet, links::LinkDetails, tunnels},
    tables::{
        configuration::ChangeError,
        interface::{Interface, InterfaceAddress, InterfaceFlags, InterfaceIndex},
    },
};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use interfaces::{
    nic::LinkState,
    sockets::{AdministrationError, LinkChange},
};
use packet::ethernet::MacAddress;

/// The greatest MTU that can be set at all.
const MTU_END: u32 = i32::MAX as u32;

impl From<ChangeError> for AdministrationError {
    fn from(error: ChangeError) -> AdministrationError {
        match error {
            ChangeError::Exists => AdministrationError::Exists,
            ChangeError::Missing => AdministrationError::NoDevice,
        }
    }
}

/// The flags that users may change.
fn changeable() -> InterfaceFlags {
    InterfaceFlags::UP
        | InterfaceFlags::NOARP
        | InterfaceFlags::PROMISC
        | InterfaceFlags::ALLMULTI
        | InterfaceFlags::MULTICAST
}

/// Changes an interface.
///
/// # Errors
/// `NoDevice`, and those of [`LinkChange`].
pub(super) fn change(inet: &Inet, change: &LinkChange) -> Result<(), AdministrationError> {
    let index = records::index(change.index);
    let view = inet.stack().view();
    let old = view.configuration.interface(index).ok_or(AdministrationError::NoDevice)?;
    check(inet, old, change)?;
    if let Some(mac) = change.mac.filter(|mac| *mac != old.mac) {
        let device = inet.link(index).ok_or(AdministrationError::Unsupported)?;
        device.set_mac(mac)?;
    }
    let (flags, mask) = change.flags.unwrap_or((0, 0));
    let mask = InterfaceFlags::from_bits_truncate(mask) & changeable();
    let flags = InterfaceFlags::from_bits_truncate(flags) & mask;
    let is_switched =
        mask.contains(InterfaceFlags::UP) && flags.contains(InterfaceFlags::UP) != old.is_up();
    let goes_up = is_switched && !old.is_up();
    if let Some(has_carrier) = change.has_carrier {
        inet.set_carrier(index, LinkState::of(has_carrier));
    }
    if is_switched && !goes_up {
        switch_off(inet, old);
    }
    inet.stack().configure(|all| {
        all.edit_interface(index, |one| {
            one.flags = (one.flags - mask) | flags;
            if let Some(mtu) = change.mtu {
                one.mtu = mtu;
                one.ipv6.mtu = mtu;
            }
            if let Some(mac) = change.mac {
                one.mac = mac;
            }
            if let Some(name) = &change.name {
                one.name.clone_from(name);
            }
            if let Some(alias) = &change.alias {
                one.alias.clone_from(alias);
            }
            one.transmit_queue = change.transmit_queue.unwrap_or(one.transmit_queue);
        })?;
        if change.name.is_some() {
            all.label(index)?;
        }
        if goes_up {
            all.bring_routes(index);
        }
        Ok::<(), ChangeError>(())
    })?;
    if goes_up {
        switched_on(inet, index);
    }
    Ok(())
}

/// Refuses groups of an interface whose device has no filter of frames.
fn refuse_loopback(interface: u32) -> Result<(), AdministrationError> {
    match records::index(interface) {
        InterfaceIndex::LOOPBACK => Err(AdministrationError::Invalid),
        _ => Ok(()),
    }
}

/// Has an interface receive frames to an address on its link.
///
/// # Errors
/// `NoDevice`, `Invalid` for loopback.
pub(super) fn add_group(
    inet: &Inet,
    interface: u32,
    address: MacAddress,
) -> Result<(), AdministrationError> {
    refuse_loopback(interface)?;
    inet.stack().configure(|all| {
        all.edit_interface(records::index(interface), |one| {
            if !one.fixed_groups.contains(&address) {
                one.fixed_groups.push(address);
            }
        })
        .map_err(|_| AdministrationError::NoDevice)
    })
}

/// Takes back [`add_group`].
///
/// # Errors
/// `NoDevice`, `NoEntry`, `Invalid` for loopback.
pub(super) fn remove_group(
    inet: &Inet,
    interface: u32,
    address: MacAddress,
) -> Result<(), AdministrationError> {
    refuse_loopback(interface)?;
    let index = records::index(interface);
    inet.stack().configure(|all| {
        let known = all.interface(index).ok_or(AdministrationError::NoDevice)?;
        if !known.fixed_groups.contains(&address) {
            return Err(AdministrationError::NoEntry);
        }
        all.edit_interface(index, |one| one.fixed_groups.retain(|known| *known != address))
            .map_err(|_| AdministrationError::NoDevice)
    })
}

/// Removes an interface that a program made.
///
/// # Errors
/// `NoDevice`, `Unsupported` for other ones.
pub(super) fn remove(inet: &Inet, index: InterfaceIndex) -> Result<(), AdministrationError> {
    let view = inet.stack().view();
    view.configuration.interface(index).ok_or(AdministrationError::NoDevice)?;
    if tunnels::remove(inet, index) { Ok(()) } else { Err(AdministrationError::Unsupported) }
}

/// Takes an interface with its addresses and routes away: first it is switched off, as far as observers can see.
pub(in crate::service) fn take_away(inet: &Inet, index: InterfaceIndex) {
    let view = inet.stack().view();
    let Some(old) = view.configuration.interface(index) else { return };
    if old.is_up() {
        let off = LinkChange {
            index: index.0,
            flags: Some((0, InterfaceFlags::UP.bits())),
            ..LinkChange::default()
        };
        // One that is gone meanwhile is off.
        let _ = change(inet, &off);
    }
    let _ = inet.stack().configure(|all| all.remove_interface(index));
    inet.set_link(index, None);
}

/// Checks all parts of a change before the first is made.
fn check(inet: &Inet, old: &Interface, change: &LinkChange) -> Result<(), AdministrationError> {
    let device = inet.link(old.index);
    let details = device.as_ref().map_or_else(LinkDetails::default, |device| device.details());
    let (mtu_min, mtu_max) = mtu_range(old, &details);
    let mtu_max = if mtu_max == 0 { MTU_END } else { mtu_max };
    match change.mtu {
        Some(mtu) if mtu < mtu_min => return Err(AdministrationError::MtuSmall),
        Some(mtu) if mtu > mtu_max => return Err(AdministrationError::MtuGreat),
        _ => {}
    }
    if let Some(mac) = change.mac.filter(|mac| *mac != old.mac) {
        if packet::ethernet::is_group(mac) || mac == [0; 6] {
            return Err(AdministrationError::NoAddress);
        }
        if device.is_none() {
            return Err(AdministrationError::Unsupported);
        }
    }
    if let Some(has_carrier) = change.has_carrier {
        let device = device.as_ref().ok_or(AdministrationError::Unsupported)?;
        device.check_carrier(has_carrier)?;
    }
    if let Some(name) = change.name.as_ref().filter(|name| **name != old.name) {
        if old.is_up() {
            return Err(AdministrationError::Busy);
        }
        let view = inet.stack().view();
        if view.configuration.interfaces().any(|other| other.name == *name) {
            return Err(AdministrationError::Exists);
        }
    }
    Ok(())
}

/// Ends what needs the interface, before it is switched off: addresses of IPv6, neighbours and routes.
fn switch_off(inet: &Inet, old: &Interface) {
    let index = old.index;
    end_version6(inet, old);
    inet.stack().flush_neighbours(index);
    let _ = inet.stack().configure(|all| {
        all.drop_routes(index);
        Ok::<(), ChangeError>(())
    });
}

/// Ends IPv6 of an interface: its addresses and routes.
pub(super) fn end_version6(inet: &Inet, old: &Interface) {
    let index = old.index;
    let gone: Vec<IpAddr> =
        old.addresses.iter().map(|one| one.address).filter(IpAddr::is_ipv6).collect();
    inet.run(|stack, run| {
        for address in gone {
            // One that ended meanwhile is gone, too.
            let _ = stack.remove_address(run, index, address);
        }
        stack.stop_ipv6(index);
    });
    let _ = inet.stack().configure(|all| {
        all.routes
            .retain(|_, route| route.interface != index || route.destination.address().is_ipv4());
        Ok::<(), ChangeError>(())
    });
}

/// Begins what belongs to an interface that was switched on.
fn switched_on(inet: &Inet, index: InterfaceIndex) {
    let view = inet.stack().view();
    let Some(interface) = view.configuration.interface(index) else { return };
    let has_version4 = interface.addresses.iter().any(|one| one.address.is_ipv4());
    if interface.is_loopback() && !has_version4 {
        add_loopback(inet, (IpAddr::V4(Ipv4Addr::LOCALHOST), 8));
    }
    begin_version6(inet, index);
}

/// Begins IPv6 of an interface that is up: its first address.
pub(super) fn begin_version6(inet: &Inet, index: InterfaceIndex) {
    let view = inet.stack().view();
    let found = view.configuration.interface(index);
    let Some(interface) = found.filter(|one| !one.ipv6.is_disabled) else { return };
    if interface.is_loopback() {
        add_loopback(inet, (IpAddr::V6(Ipv6Addr::LOCALHOST), 128));
    } else if interface.mtu >= MTU6_MIN {
        inet.run(|stack, run| stack.start_ipv6(run, index));
    }
}

/// Gives the loopback interface an address, unless it has it.
fn add_loopback(inet: &Inet, (address, length): (IpAddr, u8)) {
    let now_ns = inet.now_ns();
    if let Some(mut entry) = InterfaceAddress::new(address, length) {
        entry.broadcast = None;
        entry.changed_ns = (now_ns, now_ns);
        let _ = inet.run(|stack, run| stack.add_address(run, InterfaceIndex::LOOPBACK, entry));
    }
}
