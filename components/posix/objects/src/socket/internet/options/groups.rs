//! The options by which a socket takes part in groups.
use super::{LEVEL_IP, LEVEL_IP6};
use crate::socket::{
    internet::{address::bytes, network::interface_of},
    option_input::OptionInput,
};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use interfaces::sockets::Membership;
use linux_raw_sys::net as raw;
use vfs::Errno;

/// Bytes of `struct sockaddr_storage`, before which `struct group_req` has the interface.
const STORAGE: usize = 128;

/// A change that such an option asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::socket::internet) enum GroupChange {
    /// The socket is to take part.
    Join(Membership),
    /// The socket is to leave.
    Leave(Membership),
}

/// Returns whether `number` is such an option.
pub(in crate::socket::internet) fn is_group_option(level: u32, number: u32) -> bool {
    match level {
        LEVEL_IP => matches!(
            number,
            raw::IP_ADD_MEMBERSHIP
                | raw::IP_DROP_MEMBERSHIP
                | raw::MCAST_JOIN_GROUP
                | raw::MCAST_LEAVE_GROUP
        ),
        LEVEL_IP6 => matches!(
            number,
            raw::IPV6_ADD_MEMBERSHIP
                | raw::IPV6_DROP_MEMBERSHIP
                | raw::MCAST_JOIN_GROUP
                | raw::MCAST_LEAVE_GROUP
        ),
        _ => false,
    }
}

/// Reads the option's value.
///
/// # Errors
/// `EINVAL` for a short value or an address that is no group, `EFAULT`, `ENODEV` for the address of no interface.
pub(in crate::socket::internet) fn group_option(
    (level, number): (u32, u32),
    input: &OptionInput,
) -> Result<GroupChange, Errno> {
    let is_join = matches!(
        (level, number),
        (_, raw::MCAST_JOIN_GROUP)
            | (LEVEL_IP, raw::IP_ADD_MEMBERSHIP)
            | (LEVEL_IP6, raw::IPV6_ADD_MEMBERSHIP)
    );
    let membership = match (level, number) {
        (_, raw::MCAST_JOIN_GROUP | raw::MCAST_LEAVE_GROUP) => generic(level, input)?,
        (LEVEL_IP, _) => {
            if input.length < size_of::<[u32; 2]>() {
                return Err(Errno::EINVAL);
            }
            let (group, address, number) = request4(input)?;
            let interface = match number {
                0 if address.is_unspecified() => 0,
                0 => interface_of(address).ok_or(Errno::ENODEV)?,
                _ => number,
            };
            Membership { group: group.into(), interface }
        }
        _ => {
            let bytes = input.bytes::<20>()?;
            let (group, rest) = bytes.split_first_chunk::<16>().ok_or(Errno::EINVAL)?;
            let interface = rest.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
            Membership { group: IpAddr::V6(Ipv6Addr::from(*group)), interface }
        }
    };
    if !membership.group.is_multicast() {
        // Of IPv4 an address that is no group is one in which the socket is not (`ip_mc_leave_group`).
        let leaves4 = !is_join && level == LEVEL_IP;
        return Err(if leaves4 { Errno::EADDRNOTAVAIL } else { Errno::EINVAL });
    }
    Ok(if is_join { GroupChange::Join(membership) } else { GroupChange::Leave(membership) })
}

/// Reads `struct ip_mreqn`, or the shorter `struct ip_mreq`, or a single address, as far as there are bytes: group, address of
/// the interface and its number.
pub(super) fn request4(input: &OptionInput) -> Result<(Ipv4Addr, Ipv4Addr, u32), Errno> {
    let address = |given: &[u8], at: usize| Ipv4Addr::from(bytes::<4>(given, at));
    match input.length {
        12.. => {
            let given = input.bytes::<12>()?;
            Ok((address(&given, 0), address(&given, 4), u32::from_le_bytes(bytes(&given, 8))))
        }
        8.. => {
            let given = input.bytes::<8>()?;
            Ok((address(&given, 0), address(&given, 4), 0))
        }
        _ => Ok((Ipv4Addr::UNSPECIFIED, input.bytes::<4>()?.into(), 0)),
    }
}

/// Reads `struct group_req`: the number of the interface, padding, and the group as a `struct sockaddr`.
fn generic(level: u32, input: &OptionInput) -> Result<Membership, Errno> {
    let given = input.bytes::<{ 8 + STORAGE }>()?;
    let interface = u32::from_le_bytes(bytes(&given, 0));
    let family = u32::from(u16::from_le_bytes(bytes(&given, 8)));
    let group: IpAddr = match level {
        LEVEL_IP if family == raw::AF_INET => Ipv4Addr::from(bytes::<4>(&given, 8 + 4)).into(),
        LEVEL_IP6 if family == raw::AF_INET6 => Ipv6Addr::from(bytes::<16>(&given, 8 + 8)).into(),
        LEVEL_IP => return Err(Errno::EINVAL),
        _ => return Err(Errno::EADDRNOTAVAIL),
    };
    Ok(Membership { group, interface })
}
