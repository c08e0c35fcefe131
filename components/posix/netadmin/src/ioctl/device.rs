//! Properties of interfaces: flags, MTU, address on the link, number, name, queue (`dev_ioctl` of Linux).
use super::{IoctlCaller, command, name, put};
use crate::{
    NetErrno,
    base::{NAME_BYTES, link_named, link_numbered, text},
    route::{CHANGEABLE, is_valid_name},
    wire::Fields,
};
use alloc::string::ToString;
use interfaces::sockets::{LinkChange, LinkKind, LinkRecord, NetworkAdministration, NetworkChange};

/// Offset of the value in `struct ifreq`.
const VALUE_AT: usize = NAME_BYTES;
/// `AF_UNSPEC`.
const UNSPECIFIED: u16 = 0;

/// Returns the part behind the colon of an alias of IPv4 (`eth0:1`).
pub(super) fn alias(argument: &[u8]) -> Option<&str> {
    name(argument).ok()?.split_once(':').map(|(_, alias)| alias)
}

/// Returns the interface that a `struct ifreq` names. An alias names its interface.
pub(super) fn find(
    network: &dyn NetworkAdministration,
    argument: &[u8],
) -> Result<LinkRecord, NetErrno> {
    let whole = name(argument)?;
    link_named(network, whole.split(':').next().unwrap_or(whole))
}

/// Does a request.
///
/// # Errors
/// `ENODEV`, `EPERM`, `EINVAL`, `EOPNOTSUPP`, `ENOTTY`, and those of the change.
pub(super) fn request(
    network: &dyn NetworkAdministration,
    caller: IoctlCaller,
    number: u32,
    argument: &mut [u8],
) -> Result<(), NetErrno> {
    if number == command::GET_NAME {
        let index = Fields(argument).u32(VALUE_AT).unwrap_or(0);
        let link = link_numbered(network, index)?;
        put(argument, 0, &[0; NAME_BYTES]);
        put(argument, 0, link.name.as_bytes());
        return Ok(());
    }
    if !super::is_answered(number) && number != command::GET_SLAVE {
        caller.check()?;
        let link = find(network, argument)?;
        return set(network, &link, number, argument);
    }
    let link = find(network, argument)?;
    get(&link, number, argument)
}

fn get(link: &LinkRecord, number: u32, argument: &mut [u8]) -> Result<(), NetErrno> {
    let word = match number {
        command::GET_FLAGS => {
            put(argument, VALUE_AT, &(link.flags as u16).to_le_bytes());
            return Ok(());
        }
        command::GET_HARDWARE => {
            put(argument, VALUE_AT, &link.hardware.to_le_bytes());
            put(argument, VALUE_AT + 2, &link.mac);
            put(argument, VALUE_AT + 8, &[0; 8]);
            return Ok(());
        }
        command::GET_MAP => {
            put(argument, VALUE_AT, &[0; 24]);
            return Ok(());
        }
        command::GET_METRIC => 0,
        command::GET_MTU => link.mtu,
        command::GET_INDEX => link.index,
        command::GET_QUEUE => link.transmit_queue,
        command::GET_SLAVE => return Err(NetErrno::EINVAL),
        _ => return Err(NetErrno::ENOTTY),
    };
    put(argument, VALUE_AT, &word.to_le_bytes());
    Ok(())
}

fn set(
    network: &dyn NetworkAdministration,
    link: &LinkRecord,
    number: u32,
    argument: &[u8],
) -> Result<(), NetErrno> {
    let fields = Fields(argument);
    let word = fields.u32(VALUE_AT).ok_or(NetErrno::EINVAL)?;
    let mut change = LinkChange { index: link.index, ..LinkChange::default() };
    match number {
        command::SET_FLAGS => {
            let flags = u32::from(fields.u16(VALUE_AT).unwrap_or(0));
            change.flags = Some((flags, CHANGEABLE));
        }
        command::SET_MTU if (word as i32) < 0 => return Err(NetErrno::EINVAL),
        command::SET_MTU => change.mtu = Some(word),
        command::SET_QUEUE if (word as i32) < 0 => return Err(NetErrno::EINVAL),
        command::SET_QUEUE => change.transmit_queue = Some(word),
        command::SET_HARDWARE if link.kind == LinkKind::Headerless => {
            return Err(NetErrno::EOPNOTSUPP);
        }
        command::SET_HARDWARE => {
            if fields.u16(VALUE_AT) != Some(link.hardware) {
                return Err(NetErrno::EINVAL);
            }
            change.mac = fields.array::<6>(VALUE_AT + 2);
        }
        command::SET_NAME => {
            let bytes = fields.bytes(VALUE_AT, NAME_BYTES - 1).ok_or(NetErrno::EINVAL)?;
            let fresh = text(bytes).filter(|fresh| is_valid_name(fresh)).ok_or(NetErrno::EINVAL)?;
            if fresh == link.name {
                return Ok(());
            }
            change.name = Some(fresh.to_string());
        }
        command::ADD_GROUP | command::DELETE_GROUP => {
            return change_group(network, link.index, number, fields);
        }
        command::SET_METRIC
        | command::SET_MAP
        | command::SET_SLAVE
        | command::SET_HARDWARE_BROADCAST => return Err(NetErrno::EOPNOTSUPP),
        _ => return Err(NetErrno::ENOTTY),
    }
    Ok(network.change(&NetworkChange::Link(change))?)
}

/// Adds or removes an address to which a link receives frames. It need not be a group's.
fn change_group(
    network: &dyn NetworkAdministration,
    interface: u32,
    number: u32,
    fields: Fields<'_>,
) -> Result<(), NetErrno> {
    let (family, address) = (fields.u16(VALUE_AT), fields.array::<6>(VALUE_AT + 2));
    let (Some(UNSPECIFIED), Some(address)) = (family, address) else {
        return Err(NetErrno::EINVAL);
    };
    Ok(network.change(&match number {
        command::ADD_GROUP => NetworkChange::LinkGroup { interface, address },
        _ => NetworkChange::RemoveLinkGroup { interface, address },
    })?)
}
