//! `SIOCETHTOOL`: what ethtool(8) shows of a driver, a link and its settings.
use super::{IoctlCaller, put};
use crate::{NetErrno, base::link_named, wire::Fields};
use interfaces::sockets::{LinkRecord, NetworkAdministration};

/// Bytes of the longest argument that is answered.
pub const BYTES_MAX: usize = 256;
/// `ETHTOOL_*`.
mod command {
    pub(super) const SETTINGS: u32 = 0x01;
    pub(super) const DRIVER: u32 = 0x03;
    pub(super) const LINK: u32 = 0x0a;
    pub(super) const PERMANENT_ADDRESS: u32 = 0x20;
    pub(super) const LINK_SETTINGS: u32 = 0x4c;
}
/// `SPEED_UNKNOWN`, `DUPLEX_FULL`, `DUPLEX_UNKNOWN`, `PORT_OTHER`.
const SPEED_UNKNOWN: u32 = u32::MAX;
const FULL: u8 = 1;
const UNKNOWN: u8 = 0xff;
const OTHER: u8 = 0xff;
/// Words of a mask of link modes in Linux 6.1.
const MASK_WORDS: i8 = 3;
/// Bytes of structures: `ethtool_cmd`, `ethtool_drvinfo`, `ethtool_link_settings`.
const SETTINGS_BYTES: usize = 44;
const DRIVER_BYTES: usize = 196;
const LINK_SETTINGS_BYTES: usize = 48;
/// The release that Linux tells for drivers without a version of their own.
const RELEASE_AT: usize = 36;
const BUS_AT: usize = 100;

/// Does a request about the interface `name`, with the argument that its `struct ifreq` points to. Returns the bytes of it that are
/// to be written back. `release` is the kernel's.
///
/// # Errors
/// `ENODEV`, `EPERM`, `EOPNOTSUPP`, `EINVAL`.
pub fn ethtool(
    network: &dyn NetworkAdministration,
    caller: IoctlCaller,
    (name, release): (&str, &str),
    argument: &mut [u8; BYTES_MAX],
) -> Result<usize, NetErrno> {
    let link = link_named(network, name)?;
    let number = Fields(argument).u32(0).unwrap_or(0);
    match number {
        command::DRIVER => {
            put(argument, 4, &[0; DRIVER_BYTES - 4]);
            if link.driver.is_empty() {
                return Err(NetErrno::EOPNOTSUPP);
            }
            put(argument, 4, link.driver.as_bytes());
            put(argument, RELEASE_AT, release.as_bytes());
            put(argument, BUS_AT, b"N/A");
            Ok(DRIVER_BYTES)
        }
        command::LINK => {
            put(argument, 4, &u32::from(link.has_carrier).to_le_bytes());
            Ok(8)
        }
        command::PERMANENT_ADDRESS => {
            let room = Fields(argument).u32(4).unwrap_or(0);
            let mac = link.permanent_mac.unwrap_or_default();
            if (room as usize) < mac.len() {
                return Err(NetErrno::EINVAL);
            }
            put(argument, 4, &(mac.len() as u32).to_le_bytes());
            put(argument, 8, &mac);
            Ok(8 + mac.len())
        }
        command::SETTINGS => settings(&link, argument),
        command::LINK_SETTINGS => link_settings(&link, argument),
        _ if !caller.may_administer && is_change(number) => Err(NetErrno::EPERM),
        _ => Err(NetErrno::EOPNOTSUPP),
    }
}

/// Returns whether a request needs CAP_NET_ADMIN: all but those that Linux names.
fn is_change(number: u32) -> bool {
    const FREE: [u32; 34] = [
        0x01, 0x03, 0x07, 0x0a, 0x0e, 0x10, 0x12, 0x14, 0x16, 0x18, 0x1b, 0x1d, 0x1e, 0x20, 0x21,
        0x23, 0x25, 0x27, 0x29, 0x2b, 0x2d, 0x2e, 0x2f, 0x30, 0x35, 0x37, 0x3a, 0x3c, 0x41, 0x44,
        0x46, 0x48, 0x4c, 0x50,
    ];
    !FREE.contains(&number)
}

fn duplex(link: &LinkRecord) -> u8 {
    if link.speed_mbit.is_some() { FULL } else { UNKNOWN }
}

/// Writes `struct ethtool_cmd`.
fn settings(link: &LinkRecord, argument: &mut [u8; BYTES_MAX]) -> Result<usize, NetErrno> {
    if link.driver.is_empty() {
        return Err(NetErrno::EOPNOTSUPP);
    }
    let speed = link.speed_mbit.unwrap_or(SPEED_UNKNOWN);
    put(argument, 4, &[0; SETTINGS_BYTES - 4]);
    put(argument, 12, &(speed as u16).to_le_bytes());
    put(argument, 14, &[duplex(link), OTHER]);
    put(argument, 28, &((speed >> 16) as u16).to_le_bytes());
    Ok(SETTINGS_BYTES)
}

/// Writes `struct ethtool_link_settings`. A caller that does not know the length of the masks is told it first.
fn link_settings(link: &LinkRecord, argument: &mut [u8; BYTES_MAX]) -> Result<usize, NetErrno> {
    if link.driver.is_empty() {
        return Err(NetErrno::EOPNOTSUPP);
    }
    let words = argument[15] as i8;
    put(argument, 4, &[0; LINK_SETTINGS_BYTES - 4]);
    if words != MASK_WORDS {
        argument[15] = MASK_WORDS.wrapping_neg() as u8;
        return Ok(LINK_SETTINGS_BYTES);
    }
    let speed = link.speed_mbit.unwrap_or(SPEED_UNKNOWN);
    put(argument, 4, &speed.to_le_bytes());
    put(argument, 8, &[duplex(link), OTHER]);
    argument[15] = MASK_WORDS as u8;
    let masks = MASK_WORDS as usize * 3 * 4;
    put(argument, LINK_SETTINGS_BYTES, &[0; MASK_WORDS as usize * 3 * 4]);
    Ok(LINK_SETTINGS_BYTES + masks)
}
