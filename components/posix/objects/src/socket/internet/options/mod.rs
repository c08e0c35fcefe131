//! The options of the levels IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP and IPPROTO_UDP, as a table: [`OptionRow`].
//!
//! An option that is a number has a range and two functions, and nothing else. The others (groups, interfaces, `struct tcp_info`,
//! names) have code of their own beside the table.
mod extensions;
mod groups;
mod ip;
mod links;
mod tcp;

pub(super) use extensions::{extension, is_extension_option, set_extension};
pub(super) use groups::{GroupChange, group_option, is_group_option};
pub(super) use links::{is_link_option, link_value, set_link};
pub(super) use tcp::{name_of_control, set_control};

use super::{address::AddressFamily, network::header_options, settings::InternetSettings};
use crate::socket::{common::SocketCommon, option_input::OptionInput};
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use interfaces::sockets::{Ipv4OptionList, OptionSide};
use vfs::{Capabilities, Credentials, Errno};

/// IPPROTO_IP.
pub(super) const LEVEL_IP: u32 = 0;
/// IPPROTO_IPV6.
pub(super) const LEVEL_IP6: u32 = 41;
/// IPPROTO_TCP.
pub(super) const LEVEL_TCP: u32 = 6;
/// SOL_RAW.
pub(super) const LEVEL_RAW: u32 = 255;
/// IPPROTO_ICMPV6.
pub(super) const LEVEL_ICMP6: u32 = 58;
/// IPPROTO_UDPLITE.
pub(super) const LEVEL_LITE: u32 = 136;
/// IPPROTO_UDP.
pub(super) const LEVEL_UDP: u32 = 17;

bitflags::bitflags! {
    /// The sockets that have an option.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Having: u8 {
        const STREAM = 1;
        const DATAGRAM = 2;
        const RAW = 4;
        const ALL = 7;
    }
}

/// The rule for the length of a value that is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    /// At least four bytes are an `int`, fewer an octet, none 0.
    Any,
    /// The same, but not none.
    Some,
    /// At least four bytes.
    Int,
    /// At least four bytes are an `int`; fewer are 0.
    Loose,
}

impl Length {
    /// Reads the number that a program gives.
    fn read(self, input: &OptionInput) -> Result<i32, Errno> {
        match (self, input.length) {
            (_, 4..) => input.bytes().map(i32::from_le_bytes),
            (Length::Int, _) | (Length::Some, 0) => Err(Errno::EINVAL),
            (_, 0) | (Length::Loose, _) => Ok(0),
            _ => input.bytes::<1>().map(|[byte]| i32::from(byte)),
        }
    }
}

/// The numbers that may be set.
#[derive(Clone, Copy, Debug)]
enum ValueRange {
    /// Any.
    Any,
    /// The numbers from the first to the second; others are `EINVAL`.
    From(i32, i32),
    /// -1, which stands for the default, and the numbers from 1 to 255; others are `EINVAL`.
    Hops,
    /// -1 or an even number, which is an offset; others are `EINVAL`.
    Even,
    /// 0 and the numbers from this one on; others are `EINVAL`.
    ZeroOrFrom(i32),
    /// None: sockets of this type refuse to set it, with this error.
    ReadOnly(Errno),
}

/// An option that is a number.
pub(super) struct OptionRow {
    level: u32,
    number: u32,
    having: Having,
    length: Length,
    range: ValueRange,
    /// The capabilities, of which one is needed to set another number than zero; empty if none is needed.
    needs: Capabilities,
    get: fn(&InternetSettings) -> i32,
    set: fn(&mut InternetSettings, i32),
}

/// Makes a row; the names `$s` and `$v` stand for the settings and for the value.
macro_rules! row {
    ($level:expr, $number:expr, $having:expr, $length:ident, $range:expr, |$s:ident| $get:expr, |$t:ident, $v:ident| $set:expr) => {
        $crate::socket::internet::options::OptionRow {
            level: $level,
            number: $number,
            having: $having,
            length: $crate::socket::internet::options::Length::$length,
            range: $range,
            needs: vfs::Capabilities::empty(),
            get: |$s| $get,
            set: |$t, $v| $set,
        }
    };
}
/// Makes the row of a flag that is a `bool` of the settings.
macro_rules! flag {
    ($level:expr, $number:expr, $having:expr, $length:ident, $($field:tt)+) => {
        $crate::socket::internet::options::row!($level, $number, $having, $length,
            $crate::socket::internet::options::ValueRange::Any,
            |s| i32::from(s.$($field)+), |s, v| s.$($field)+ = v != 0)
    };
}
/// Makes the row of a flag that is a bit of [`super::settings::Flags`].
macro_rules! bit {
    ($level:expr, $number:expr, $having:expr, $length:ident, $bit:ident) => {
        $crate::socket::internet::options::row!(
            $level,
            $number,
            $having,
            $length,
            $crate::socket::internet::options::ValueRange::Any,
            |s| i32::from(s.flags.contains($crate::socket::internet::settings::Flags::$bit)),
            |s, v| s.flags.set($crate::socket::internet::settings::Flags::$bit, v != 0)
        )
    };
}
pub(in crate::socket::internet::options) use {bit, flag, row};

/// Returns the error of getsockopt(2) for a level that a socket of `family` does not have; that of setsockopt(2) is always
/// `ENOPROTOOPT`.
pub(super) fn no_level(family: AddressFamily) -> Errno {
    if family == AddressFamily::V4 { Errno::EOPNOTSUPP } else { Errno::ENOPROTOOPT }
}

/// Bytes of IP_OPTIONS, at most.
const HEADER_OPTIONS_MAX: usize = 40;

/// Reads IP_OPTIONS.
///
/// # Errors
/// `EINVAL` for options that are malformed, too long or not allowed; `EFAULT`.
pub(super) fn given_header_options(
    who: &Credentials,
    input: &OptionInput,
) -> Result<Ipv4OptionList, Errno> {
    if input.length > HEADER_OPTIONS_MAX {
        return Err(Errno::EINVAL);
    }
    let side = match who.has(Capabilities::NET_RAW) {
        true => OptionSide::Privileged,
        false => OptionSide::Plain,
    };
    header_options(side, input.text(HEADER_OPTIONS_MAX)?)
}

/// Has SO_PRIORITY follow the TOS octet, which was set.
pub(super) fn follow_service(settings: &InternetSettings, common: &SocketCommon) {
    let priority = priority_of(settings.stream.ip.type_of_service);
    common.options.priority.store(priority, Ordering::Relaxed);
}

/// Returns the priority (SO_PRIORITY) that a TOS octet gives (Linux's `ip_tos2prio`): the bits for a low delay and for a high
/// throughput count.
fn priority_of(octet: u8) -> i32 {
    const BEST_EFFORT: i32 = 0;
    const BULK: i32 = 2;
    const INTERACTIVE_BULK: i32 = 4;
    const INTERACTIVE: i32 = 6;
    match octet >> 3 & 3 {
        0 => BEST_EFFORT,
        1 => BULK,
        2 => INTERACTIVE,
        _ => INTERACTIVE_BULK,
    }
}

fn find(level: u32, number: u32, having: Having) -> Result<&'static OptionRow, Errno> {
    let rows = if level == LEVEL_TCP { tcp::ROWS } else { ip::ROWS };
    let is_it = |row: &&OptionRow| {
        row.number == number && row.level == level && row.having.contains(having)
    };
    rows.iter().find(is_it).ok_or(Errno::ENOPROTOOPT)
}

/// Sets an option of the table.
///
/// # Errors
/// `ENOPROTOOPT` if there is none, `EINVAL`, `EPERM`, `EFAULT`.
pub(super) fn set(
    settings: &mut InternetSettings,
    (level, number, having): (u32, u32, Having),
    input: &OptionInput,
    may: &dyn Fn(Capabilities) -> bool,
) -> Result<(), Errno> {
    // These levels read the number before they look for the option (`do_tcp_setsockopt`, `udp_lib_setsockopt`).
    if matches!(level, LEVEL_TCP | LEVEL_UDP) && input.length < size_of::<i32>() {
        return Err(Errno::EINVAL);
    }
    let row = find(level, number, having)?;
    let value = row.length.read(input)?;
    match row.range {
        ValueRange::Even if value > 0 && value % 2 != 0 => return Err(Errno::EINVAL),
        ValueRange::ReadOnly(error) => return Err(error),
        ValueRange::ZeroOrFrom(least) if value != 0 && value < least => return Err(Errno::EINVAL),
        ValueRange::Hops if value != -1 && !(1..=255).contains(&value) => {
            return Err(Errno::EINVAL);
        }
        ValueRange::From(least, most) if !(least..=most).contains(&value) => {
            return Err(Errno::EINVAL);
        }
        _ => {}
    }
    if value != 0 && !row.needs.is_empty() && !row.needs.iter().any(may) {
        return Err(Errno::EPERM);
    }
    (row.set)(settings, value);
    Ok(())
}

/// Returns the value of an option of the table, as a program with `room` bytes gets it.
///
/// # Errors
/// `ENOPROTOOPT` if there is none.
pub(super) fn get(
    settings: &InternetSettings,
    (level, number, having): (u32, u32, Having),
    room: usize,
) -> Result<Vec<u8>, Errno> {
    let row = find(level, number, having)?;
    Ok(shown(level, (row.get)(settings), room))
}

/// Returns a number as getsockopt(2) gives it: in an octet, if a program has room for less than an `int` and the level is
/// IPPROTO_IP; otherwise as an `int`.
pub(super) fn shown(level: u32, value: i32, room: usize) -> Vec<u8> {
    match u8::try_from(value) {
        Ok(octet) if level == LEVEL_IP && (1..4).contains(&room) => [octet].to_vec(),
        _ => value.to_le_bytes().to_vec(),
    }
}
