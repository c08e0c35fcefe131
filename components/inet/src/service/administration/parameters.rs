//! Settings.
use super::{links, records};
use crate::{
    service::inet::Inet,
    tables::{
        configuration::{ChangeError, Configuration, HOPS},
        interface::{Interface, Ipv6Settings},
    },
};
use alloc::{vec, vec::Vec};
use core::sync::atomic::{AtomicBool, Ordering};
use interfaces::sockets::{
    AdministrationError, InterfaceParameter as Conf, NetworkParameter, ParameterScope,
};

/// Returns the values of a parameter; `None` if the stack does not have it.
pub(super) fn get(inet: &Inet, parameter: NetworkParameter) -> Option<Vec<i64>> {
    match parameter {
        NetworkParameter::DefaultTtl => Some(vec![HOPS.into()]),
        NetworkParameter::LocalPortRange => {
            let (first, last) = inet.stack().port_range.get();
            Some(vec![first.into(), last.into()])
        }
        NetworkParameter::IcmpEchoIgnoreAll => Some(vec![inet.stack().echo.all().0.into()]),
        NetworkParameter::IcmpEchoIgnoreBroadcasts => Some(vec![inet.stack().echo.all().1.into()]),
        // This host forwards nothing.
        NetworkParameter::Conf(_, Conf::Forwarding4 | Conf::Forwarding6) => Some(vec![0]),
        NetworkParameter::Conf(ParameterScope::All, Conf::DisableVersion6) => {
            let view = inet.stack().view();
            let is_off = view.configuration.interfaces().all(|one| one.ipv6.is_disabled);
            Some(vec![is_off.into()])
        }
        NetworkParameter::Conf(ParameterScope::Default, Conf::DisableVersion6) => Some(vec![0]),
        NetworkParameter::Conf(ParameterScope::Interface(number), conf) => {
            let view = inet.stack().view();
            let settings = view.configuration.interface(records::index(number))?.ipv6;
            of_interface(&settings, conf).map(|value| vec![value])
        }
        _ => inet.streams().parameters.get(parameter).map(|value| vec![value]),
    }
}

fn of_interface(settings: &Ipv6Settings, conf: Conf) -> Option<i64> {
    Some(match conf {
        Conf::HopLimit => settings.hop_limit.into(),
        Conf::Mtu6 => settings.mtu.into(),
        Conf::ReachableMs4 | Conf::ReachableMs6 => settings.reachable_ms.into(),
        Conf::RetransmitMs4 | Conf::RetransmitMs6 => settings.retransmit_ms.into(),
        Conf::AcceptAdvertisements | Conf::Autoconfiguration => settings.is_autoconfigured.into(),
        Conf::DisableVersion6 => settings.is_disabled.into(),
        _ => return None,
    })
}

/// Sets a parameter.
///
/// # Errors
/// `Invalid`, `Unsupported`, `NoDevice`.
pub(super) fn set(
    inet: &Inet,
    parameter: NetworkParameter,
    values: &[i64],
) -> Result<(), AdministrationError> {
    if parameter == NetworkParameter::LocalPortRange {
        return set_port_range(inet, values);
    }
    let value = *values.first().ok_or(AdministrationError::Invalid)?;
    let (number, conf) = match parameter {
        NetworkParameter::IcmpEchoIgnoreAll => {
            return set_switch(&inet.stack().echo.ignores_all, value);
        }
        NetworkParameter::IcmpEchoIgnoreBroadcasts => {
            return set_switch(&inet.stack().echo.ignores_groups, value);
        }
        NetworkParameter::Conf(ParameterScope::Interface(number), conf) => (number, conf),
        NetworkParameter::Conf(scope, conf) => return set_for_all(inet, scope, conf, value),
        _ => return inet.streams().parameters.set(parameter, value),
    };
    let index = records::index(number);
    let view = inet.stack().view();
    let interface = view.configuration.interface(index).ok_or(AdministrationError::NoDevice)?;
    let mut settings = interface.ipv6;
    let invalid = |_| AdministrationError::Invalid;
    match conf {
        Conf::HopLimit if value > 0 => settings.hop_limit = u8::try_from(value).map_err(invalid)?,
        Conf::Mtu6 if (records::MTU6_MIN.into()..=interface.mtu.into()).contains(&value) => {
            settings.mtu = u32::try_from(value).map_err(invalid)?;
        }
        Conf::ReachableMs4 | Conf::ReachableMs6 if value > 0 => {
            settings.reachable_ms = u32::try_from(value).map_err(invalid)?;
        }
        Conf::RetransmitMs4 | Conf::RetransmitMs6 if value > 0 => {
            settings.retransmit_ms = u32::try_from(value).map_err(invalid)?;
        }
        Conf::AcceptAdvertisements | Conf::Autoconfiguration => {
            settings.is_autoconfigured = value != 0;
        }
        Conf::DisableVersion6 if matches!(value, 0 | 1) => {
            switch_version6(inet, interface, value);
            return Ok(());
        }
        Conf::Forwarding4 | Conf::Forwarding6 if value == 0 => return Ok(()),
        _ if of_interface(&settings, conf).is_some() => return Err(AdministrationError::Invalid),
        _ => return Err(AdministrationError::Unsupported),
    }
    inet.stack().configure(|all| {
        all.edit_interface(index, |one| one.ipv6 = settings)?;
        Ok::<(), ChangeError>(())
    })?;
    Ok(())
}

/// Sets a switch, which is 0 or 1.
fn set_switch(place: &AtomicBool, value: i64) -> Result<(), AdministrationError> {
    if !matches!(value, 0 | 1) {
        return Err(AdministrationError::Invalid);
    }
    place.store(value == 1, Ordering::Relaxed);
    Ok(())
}

/// Sets the ports that the stack chooses from. A single value is the first one, as on Linux (`proc_dointvec_minmax`).
fn set_port_range(inet: &Inet, values: &[i64]) -> Result<(), AdministrationError> {
    let range = &inet.stack().port_range;
    let (first, last) = match *values {
        [first] => (first, range.get().1.into()),
        [first, last] => (first, last),
        _ => return Err(AdministrationError::Invalid),
    };
    let port = |value| u16::try_from(value).map_err(|_| AdministrationError::Invalid);
    let (first, last) = (port(first)?, port(last)?);
    if first == 0 || first > last {
        return Err(AdministrationError::Invalid);
    }
    range.set((first, last));
    Ok(())
}

/// Sets a parameter of all interfaces, or of those to come.
///
/// # Errors
/// `Invalid`, `Unsupported`.
fn set_for_all(
    inet: &Inet,
    scope: ParameterScope,
    conf: Conf,
    value: i64,
) -> Result<(), AdministrationError> {
    match (conf, value, scope) {
        (Conf::DisableVersion6, 0 | 1, ParameterScope::All) => {
            let view = inet.stack().view();
            view.configuration.interfaces().for_each(|one| switch_version6(inet, one, value));
            Ok(())
        }
        (Conf::Forwarding4 | Conf::Forwarding6 | Conf::DisableVersion6, 0, _) => Ok(()),
        _ => Err(AdministrationError::Unsupported),
    }
}

/// Switches IPv6 of an interface off (1) or on (0), unless it is so (`disable_ipv6`).
fn switch_version6(inet: &Inet, interface: &Interface, value: i64) {
    let is_disabled = value != 0;
    if interface.ipv6.is_disabled == is_disabled {
        return;
    }
    let mark = |all: &mut Configuration| {
        all.edit_interface(interface.index, |one| one.ipv6.is_disabled = is_disabled)
    };
    // An interface that is gone meanwhile has nothing to switch.
    let is_there = inet.stack().configure(mark).is_ok();
    match (is_there, is_disabled) {
        (true, true) => links::end_version6(inet, interface),
        (true, false) if interface.is_up() => links::begin_version6(inet, interface.index),
        _ => {}
    }
}
