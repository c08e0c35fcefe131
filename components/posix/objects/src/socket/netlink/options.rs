//! Options of SOL_NETLINK.
use super::{NetlinkSocket, is_administrator};
use crate::socket::option_input::OptionInput;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use process::Task;
use vfs::Errno;

/// SOL_NETLINK.
pub(super) const LEVEL: u32 = 270;
const ADD_MEMBERSHIP: u32 = 1;
const DROP_MEMBERSHIP: u32 = 2;
/// NETLINK_PKTINFO: the group is told with each message.
pub(super) const GROUP_INFO: u32 = 3;
const BROADCAST_ERROR: u32 = 4;
/// NETLINK_NO_ENOBUFS: losses are not told.
pub(super) const NO_ENOBUFS: u32 = 5;
const LISTEN_ALL: u32 = 8;
const LIST_MEMBERSHIPS: u32 = 9;
/// NETLINK_CAP_ACK: answers do not repeat the request.
pub(super) const CAP_ACK: u32 = 10;
/// NETLINK_EXT_ACK: answers have texts of errors.
pub(super) const EXT_ACK: u32 = 11;
/// NETLINK_GET_STRICT_CHK.
pub(super) const STRICT: u32 = 12;

/// Sets an option.
///
/// # Errors
/// `ENOPROTOOPT`, `EINVAL` for a group that is not there, `EPERM`, `EFAULT`.
pub(super) fn set(
    socket: &NetlinkSocket,
    task: &Task,
    (level, number): (u32, u32),
    input: &OptionInput,
) -> Result<(), Errno> {
    if level != LEVEL {
        return Err(Errno::ENOPROTOOPT);
    }
    // As in Linux, a short value counts as zero.
    let value = if input.length < 4 { 0 } else { u32::from_le_bytes(input.bytes()?) };
    match number {
        ADD_MEMBERSHIP | DROP_MEMBERSHIP => {
            socket.check_listen(task)?;
            socket.state.lock().has_groups = true;
            if value == 0 || value > socket.protocol.groups() {
                return Err(Errno::EINVAL);
            }
            let bit = 1u64.checked_shl(value - 1).ok_or(Errno::EINVAL)?;
            let mut state = socket.state.lock();
            state.groups = match number {
                ADD_MEMBERSHIP => state.groups | bit,
                _ => state.groups & !bit,
            };
        }
        LISTEN_ALL if !is_administrator(task) => return Err(Errno::EPERM),
        GROUP_INFO | BROADCAST_ERROR | NO_ENOBUFS | LISTEN_ALL | CAP_ACK | EXT_ACK | STRICT => {
            let bit = 1 << number;
            match value {
                0 => socket.switches.fetch_and(!bit, Ordering::Relaxed),
                _ => socket.switches.fetch_or(bit, Ordering::Relaxed),
            };
        }
        _ => return Err(Errno::ENOPROTOOPT),
    }
    Ok(())
}

/// Returns the value of an option.
///
/// # Errors
/// `ENOPROTOOPT`, `EINVAL` for too little room.
pub(super) fn get(
    socket: &NetlinkSocket,
    (level, number): (u32, u32),
    room: usize,
) -> Result<Vec<u8>, Errno> {
    match number {
        _ if level != LEVEL => Err(Errno::ENOPROTOOPT),
        LIST_MEMBERSHIPS => {
            let state = socket.state.lock();
            let known = if state.has_groups { socket.protocol.groups() } else { 0 };
            let words = (known as usize).div_ceil(32) * 4;
            let groups = state.groups.to_le_bytes();
            Ok(groups.get(..words).unwrap_or_default().to_vec())
        }
        GROUP_INFO | BROADCAST_ERROR | NO_ENOBUFS | CAP_ACK | EXT_ACK | STRICT => {
            if room < 4 {
                return Err(Errno::EINVAL);
            }
            Ok(i32::from(socket.is_on(number)).to_le_bytes().to_vec())
        }
        _ => Err(Errno::ENOPROTOOPT),
    }
}
