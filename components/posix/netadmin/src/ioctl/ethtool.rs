//! `SIOCETHTOOL`: what ethtool(8) shows of a driver, a link and its settings.
use super::{IoctlCaller, put};
use crate::{NetErrno, base::link_named, wire::Fields};
use interfaces::sockets::{LinkKind, LinkRecord, NetworkAdministration};

/// Bytes of the longest argument that is answered.
pub const BYTES_MAX: usize = 512;
/// `ETHTOOL_*`.
mod command {
    pub(super) const SETTINGS: u32 = 0x01;
    pub(super) const DRIVER: u32 = 0x03;
    pub(super) const LINK: u32 = 0x0a;
    pub(super) const STRINGS: u32 = 0x1b;
    pub(super) const COUNTS: u32 = 0x1d;
    pub(super) const PERMANENT_ADDRESS: u32 = 0x20;
    pub(super) const SETS: u32 = 0x37;
    pub(super) const CHANNELS: u32 = 0x3c;
    pub(super) const STAMPS: u32 = 0x41;
    pub(super) const LINK_SETTINGS: u32 = 0x4c;
}
/// `SPEED_UNKNOWN`, `DUPLEX_FULL`, `DUPLEX_UNKNOWN`, `PORT_OTHER`, `PORT_TP`.
const SPEED_UNKNOWN: u32 = u32::MAX;
const FULL: u8 = 1;
const UNKNOWN: u8 = 0xff;
const OTHER: u8 = 0xff;
const TWISTED_PAIR: u8 = 0;
/// Words of a mask of link modes in Linux 6.1.
const MASK_WORDS: i8 = 3;
/// `ETH_SS_STATS`: the set of the names of counts. `ETH_GSTRING_LEN`: bytes of a name.
const COUNTS_SET: u32 = 1;
const NAME_LENGTH: usize = 32;
/// `SOF_TIMESTAMPING_RX_SOFTWARE`, `SOF_TIMESTAMPING_SOFTWARE`: packets that come are stamped by the kernel's clock.
const STAMPED: u32 = 0x18;
/// Bytes of structures: `ethtool_cmd`, `ethtool_drvinfo`, `ethtool_link_settings`.
const SETTINGS_BYTES: usize = 44;
const DRIVER_BYTES: usize = 196;
const LINK_SETTINGS_BYTES: usize = 48;
/// The version of a driver, which is the release of Linux for one without a version of its own.
const VERSION_AT: usize = 36;
const TUNNEL_VERSION: &str = "1.6";
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
            let (version, bus) = match (&link.tunnel, link.kind) {
                (None, _) => (release, "N/A"),
                (Some(_), LinkKind::Headerless) => (TUNNEL_VERSION, "tun"),
                (Some(_), _) => (TUNNEL_VERSION, "tap"),
            };
            put(argument, VERSION_AT, version.as_bytes());
            put(argument, BUS_AT, bus.as_bytes());
            Ok(DRIVER_BYTES)
        }
        command::LINK => {
            put(argument, 4, &u32::from(link.has_carrier).to_le_bytes());
            Ok(8)
        }
        command::PERMANENT_ADDRESS => {
            let room = Fields(argument).u32(4).unwrap_or(0);
            let mac = link.permanent_mac.unwrap_or_default();
            let length = link.address_length();
            if (room as usize) < length {
                return Err(NetErrno::EINVAL);
            }
            put(argument, 4, &(length as u32).to_le_bytes());
            put(argument, 8, mac.get(..length).unwrap_or_default());
            Ok(8 + length)
        }
        command::SETS => Ok(sets(&link, argument)),
        command::STRINGS => strings(&link, argument),
        command::COUNTS => counts(&link, argument),
        command::CHANNELS => channels(&link, argument),
        command::STAMPS => {
            put(argument, 4, &[0; 40]);
            put(argument, 4, &STAMPED.to_le_bytes());
            // There is no clock in the device.
            put(argument, 8, &(-1i32).to_le_bytes());
            Ok(44)
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

/// Returns whether the driver is one of a card, which has counts and queues of its own.
fn has_counts(link: &LinkRecord) -> bool {
    !link.driver.is_empty() && link.tunnel.is_none()
}

/// Returns `PORT_*`, which a tunnel has as if it were a twisted pair.
fn port(link: &LinkRecord) -> u8 {
    if link.tunnel.is_some() { TWISTED_PAIR } else { OTHER }
}

/// Returns the counts of a device with their names.
fn counted(link: &LinkRecord) -> [(&'static str, u64); 7] {
    let it = &link.counts;
    [
        ("rx_packets", it.rx_packets),
        ("tx_packets", it.tx_packets),
        ("rx_bytes", it.rx_bytes),
        ("tx_bytes", it.tx_bytes),
        ("rx_errors", it.rx_errors),
        ("tx_errors", it.tx_errors),
        ("rx_dropped", it.rx_dropped),
    ]
}

/// Writes `struct ethtool_sset_info`: of the sets of names that the mask asks for, those that exist, with their lengths.
fn sets(link: &LinkRecord, argument: &mut [u8; BYTES_MAX]) -> usize {
    let asked = Fields(argument).u32(8).unwrap_or(0);
    let found = asked & 1 << COUNTS_SET & if has_counts(link) { u32::MAX } else { 0 };
    put(argument, 4, &[0; 12]);
    put(argument, 8, &found.to_le_bytes());
    if found == 0 {
        return 16;
    }
    put(argument, 16, &(counted(link).len() as u32).to_le_bytes());
    20
}

/// Writes `struct ethtool_gstrings`.
fn strings(link: &LinkRecord, argument: &mut [u8; BYTES_MAX]) -> Result<usize, NetErrno> {
    if Fields(argument).u32(4) != Some(COUNTS_SET) || !has_counts(link) {
        return Err(NetErrno::EOPNOTSUPP);
    }
    let all = counted(link);
    put(argument, 8, &(all.len() as u32).to_le_bytes());
    for (place, (name, _)) in all.iter().enumerate() {
        let at = 12 + place * NAME_LENGTH;
        put(argument, at, &[0; NAME_LENGTH]);
        put(argument, at, name.as_bytes());
    }
    Ok(12 + all.len() * NAME_LENGTH)
}

/// Writes `struct ethtool_stats`.
fn counts(link: &LinkRecord, argument: &mut [u8; BYTES_MAX]) -> Result<usize, NetErrno> {
    if !has_counts(link) {
        return Err(NetErrno::EOPNOTSUPP);
    }
    let all = counted(link);
    put(argument, 4, &(all.len() as u32).to_le_bytes());
    for (place, (_, count)) in all.iter().enumerate() {
        put(argument, 8 + place * 8, &count.to_le_bytes());
    }
    Ok(8 + all.len() * 8)
}

/// Writes `struct ethtool_channels`: pairs of queues, all of which are in use.
fn channels(link: &LinkRecord, argument: &mut [u8; BYTES_MAX]) -> Result<usize, NetErrno> {
    if !has_counts(link) {
        return Err(NetErrno::EOPNOTSUPP);
    }
    put(argument, 4, &[0; 32]);
    put(argument, 16, &link.queues.to_le_bytes());
    put(argument, 32, &link.queues.to_le_bytes());
    Ok(36)
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
    put(argument, 14, &[duplex(link), port(link)]);
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
    put(argument, 8, &[duplex(link), port(link)]);
    argument[15] = MASK_WORDS as u8;
    let masks = MASK_WORDS as usize * 3 * 4;
    put(argument, LINK_SETTINGS_BYTES, &[0; MASK_WORDS as usize * 3 * 4]);
    Ok(LINK_SETTINGS_BYTES + masks)
}
