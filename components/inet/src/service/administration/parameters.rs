//! Settings and counters.
use super::records;
use crate::{
    ip::statistics::DropReason,
    service::inet::Inet,
    tables::{
        configuration::{ChangeError, HOPS},
        interface::Ipv6Settings,
    },
};
use alloc::{vec, vec::Vec};
use interfaces::sockets::{
    AdministrationError, InterfaceParameter as Conf, NetworkParameter, ParameterScope,
};

/// The least MTU of IPv6.
const MTU6_MIN: i64 = 1280;

/// Returns the values of a parameter; `None` if the stack does not have it.
pub(super) fn get(inet: &Inet, parameter: NetworkParameter) -> Option<Vec<i64>> {
    match parameter {
        NetworkParameter::DefaultTtl => Some(vec![HOPS.into()]),
        NetworkParameter::Conf(ParameterScope::Interface(number), conf) => {
            let view = inet.stack().view();
            let settings = view.configuration.interface(records::index(number))?.ipv6;
            of_interface(&settings, conf).map(|value| vec![value])
        }
        _ => None,
    }
}

fn of_interface(settings: &Ipv6Settings, conf: Conf) -> Option<i64> {
    Some(match conf {
        Conf::HopLimit => settings.hop_limit.into(),
        Conf::Mtu6 => settings.mtu.into(),
        Conf::ReachableMs4 | Conf::ReachableMs6 => settings.reachable_ms.into(),
        Conf::RetransmitMs4 | Conf::RetransmitMs6 => settings.retransmit_ms.into(),
        Conf::AcceptAdvertisements | Conf::Autoconfiguration => settings.is_autoconfigured.into(),
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
    let value = *values.first().ok_or(AdministrationError::Invalid)?;
    let NetworkParameter::Conf(ParameterScope::Interface(number), conf) = parameter else {
        return Err(AdministrationError::Unsupported);
    };
    let index = records::index(number);
    let view = inet.stack().view();
    let interface = view.configuration.interface(index).ok_or(AdministrationError::NoDevice)?;
    let mut settings = interface.ipv6;
    let invalid = |_| AdministrationError::Invalid;
    match conf {
        Conf::HopLimit if value > 0 => settings.hop_limit = u8::try_from(value).map_err(invalid)?,
        Conf::Mtu6 if (MTU6_MIN..=interface.mtu.into()).contains(&value) => {
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
        _ if of_interface(&settings, conf).is_some() => return Err(AdministrationError::Invalid),
        _ => return Err(AdministrationError::Unsupported),
    }
    inet.stack().configure(|all| {
        all.edit_interface(index, |one| one.ipv6 = settings)?;
        Ok::<(), ChangeError>(())
    })?;
    Ok(())
}

/// Returns the counters that the stack keeps.
pub(super) fn counters(inet: &Inet) -> Vec<(&'static str, u64)> {
    let drops = &inet.stack().drops;
    let sum = |reasons: &[DropReason]| reasons.iter().map(|one| drops.get(*one)).sum::<u64>();
    Vec::from([
        ("IpInHdrErrors", sum(&[DropReason::Malformed, DropReason::Option])),
        ("IpInAddrErrors", sum(&[DropReason::Martian, DropReason::NotForUs])),
        ("IpInDiscards", sum(&[DropReason::NoMemory])),
        ("IpReasmTimeout", sum(&[DropReason::ReassemblyTimeout])),
        ("IpReasmFails", sum(&[DropReason::ReassemblyTimeout, DropReason::Fragment])),
        ("UdpNoPorts", sum(&[DropReason::NoSocket])),
        ("UdpInErrors", sum(&[DropReason::QueueFull, DropReason::Checksum])),
        ("UdpRcvbufErrors", sum(&[DropReason::QueueFull])),
        ("UdpInCsumErrors", sum(&[DropReason::Checksum])),
    ])
}
