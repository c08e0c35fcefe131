//! The options that choose the interface of what a socket sends: IP_MULTICAST_IF and IP_UNICAST_IF, and those of IPv6.
use super::{Having, LEVEL_IP, LEVEL_IP6, groups::request4, shown};
use crate::socket::{
    internet::{
        network::{interface_of, link_numbered},
        settings::InternetSettings,
    },
    option_input::OptionInput,
};
use alloc::vec::Vec;
use linux_raw_sys::net as raw;
use rt::sync::Mutex;
use vfs::Errno;

/// Returns whether `number` is such an option.
pub(in crate::socket::internet) fn is_link_option(level: u32, number: u32) -> bool {
    match level {
        LEVEL_IP => matches!(number, raw::IP_MULTICAST_IF | raw::IP_UNICAST_IF),
        LEVEL_IP6 => matches!(number, raw::IPV6_MULTICAST_IF | raw::IPV6_UNICAST_IF),
        _ => false,
    }
}

/// Checks that a socket bound to `device`, or to none if that is 0, may send by an interface.
fn check_device(device: u32, chosen: u32) -> Result<(), Errno> {
    if device != 0 && device != chosen { Err(Errno::EINVAL) } else { Ok(()) }
}

/// Sets the option for a socket that is bound to the interface `device`; 0 for none. The lock is not held while the stack is asked.
///
/// # Errors
/// `EINVAL` for a short value, another interface than `device`, and groups of a stream of IPv4; `EADDRNOTAVAIL` or `ENODEV` if
/// there is no such interface; `ENOPROTOOPT` for groups of a stream of IPv6; `EFAULT`.
pub(in crate::socket::internet) fn set_link(
    settings: &Mutex<InternetSettings>,
    (level, number, having): (u32, u32, Having),
    input: &OptionInput,
    device: u32,
) -> Result<(), Errno> {
    match (level, number) {
        (LEVEL_IP, raw::IP_MULTICAST_IF) => {
            if having == Having::STREAM {
                return Err(Errno::EINVAL);
            }
            let (_, address, number) = request4(input)?;
            let is_any = number == 0 && address.is_unspecified();
            let found = match number {
                _ if is_any => None,
                0 => Some(interface_of(address).ok_or(Errno::EADDRNOTAVAIL)?),
                _ => Some(known(number).ok_or(Errno::EADDRNOTAVAIL)?),
            };
            found.map_or(Ok(()), |found| check_device(device, found))?;
            let ip = &mut settings.lock().stream.ip;
            ip.group_interface = found;
            ip.group_source = (!address.is_unspecified()).then_some(address);
        }
        (LEVEL_IP6, raw::IPV6_MULTICAST_IF) => {
            if having == Having::STREAM {
                return Err(Errno::ENOPROTOOPT);
            }
            let chosen = u32::from_le_bytes(input.bytes()?);
            if chosen != 0 {
                check_device(device, chosen)?;
                known(chosen).ok_or(Errno::ENODEV)?;
            }
            settings.lock().stream.ip.group_interface6 = (chosen != 0).then_some(chosen);
        }
        _ => {
            if input.length != size_of::<u32>() {
                return Err(Errno::EINVAL);
            }
            let chosen = u32::from_be_bytes(input.bytes()?);
            if chosen != 0 {
                known(chosen).ok_or(Errno::EADDRNOTAVAIL)?;
                check_device(device, chosen)?;
            }
            let chosen = (chosen != 0).then_some(chosen);
            let ip = &mut settings.lock().stream.ip;
            match level {
                LEVEL_IP => ip.unicast_interface = chosen,
                _ => ip.unicast_interface6 = chosen,
            }
        }
    }
    Ok(())
}

fn known(number: u32) -> Option<u32> {
    link_numbered(number).map(|link| link.index)
}

/// Returns the value of the option, for a program with `room` bytes.
pub(in crate::socket::internet) fn link_value(
    settings: &InternetSettings,
    (level, number): (u32, u32),
    room: usize,
) -> Vec<u8> {
    let ip = &settings.stream.ip;
    let value = match (level, number) {
        // The address by which the interface was named.
        (LEVEL_IP, raw::IP_MULTICAST_IF) => {
            return ip.group_source.map_or([0; 4], |address| address.octets()).to_vec();
        }
        (LEVEL_IP6, raw::IPV6_MULTICAST_IF) => ip.group_interface6.unwrap_or(0),
        (LEVEL_IP, _) => ip.unicast_interface.unwrap_or(0).to_be(),
        _ => ip.unicast_interface6.unwrap_or(0).to_be(),
    };
    shown(level, value as i32, room)
}
