//! The options of TCP (tcp(7)).
use super::{Having, LEVEL_TCP, OptionRow, ValueRange, bit, flag, row};
use crate::socket::{
    internet::{
        network::system_value,
        settings::{Flags, InternetSettings},
    },
    option_input::OptionInput,
};
use alloc::vec::Vec;
use interfaces::sockets::{CongestionControl, NetworkParameter as Parameter};
use linux_raw_sys::net as raw;
use vfs::Errno;

const STREAM: Having = Having::STREAM;
/// Greatest seconds of TCP_KEEPIDLE and TCP_KEEPINTVL, and number of TCP_KEEPCNT and TCP_SYNCNT.
const KEEP_SECONDS: ValueRange = ValueRange::From(1, 32_767);
const COUNT: ValueRange = ValueRange::From(1, 127);
const NOT_NEGATIVE: ValueRange = ValueRange::From(0, i32::MAX);
/// Greatest seconds of TCP_LINGER2; more stand for these.
const LINGER_SECONDS: i32 = 120;
/// The first and the longest time between two retransmissions, in seconds (RFC 6298).
const RETRY_FIRST_S: u32 = 1;
const RETRY_LONGEST_S: u32 = 120;
/// Least TCP_WINDOW_CLAMP, in bytes: half of the least SO_RCVBUF.
const WINDOW_LEAST: i32 = 1152;
/// TCP_SAVE_SYN: off, the headers of IP and TCP, that of the link, too.
const SAVING: ValueRange = ValueRange::From(0, 2);
/// Bytes of the longest name of a congestion control.
const NAME_BYTES: usize = 16;

/// The rows of this level. TCP_MAXSEG, TCP_INFO, TCP_QUICKACK and TCP_CONGESTION need the connection; the socket knows them.
#[rustfmt::skip]
pub(super) static ROWS: &[OptionRow] = &[
    flag!(LEVEL_TCP, raw::TCP_NODELAY, STREAM, Int, stream.no_delay),
    flag!(LEVEL_TCP, raw::TCP_CORK, STREAM, Int, stream.cork),
    row!(LEVEL_TCP, raw::TCP_KEEPIDLE, STREAM, Int, KEEP_SECONDS,
        |s| of_system(s.stream.keep_idle_s, Parameter::TcpKeepaliveTime, 7200),
        |s, v| s.stream.keep_idle_s = v as u32),
    row!(LEVEL_TCP, raw::TCP_KEEPINTVL, STREAM, Int, KEEP_SECONDS,
        |s| of_system(s.stream.keep_interval_s, Parameter::TcpKeepaliveIntvl, 75),
        |s, v| s.stream.keep_interval_s = v as u32),
    row!(LEVEL_TCP, raw::TCP_KEEPCNT, STREAM, Int, COUNT, |s| of_system(s.stream.keep_count, Parameter::TcpKeepaliveProbes, 9),
        |s, v| s.stream.keep_count = v as u32),
    row!(LEVEL_TCP, raw::TCP_SYNCNT, STREAM, Int, COUNT, |s| of_system(s.stream.syn_retries, Parameter::TcpSynRetries, 6),
        |s, v| s.stream.syn_retries = v as u32),
    row!(LEVEL_TCP, raw::TCP_LINGER2, STREAM, Int, ValueRange::Any, |s| match s.stream.fin_timeout_s {
        0 => system_value(Parameter::TcpFinTimeout, 60),
        seconds => seconds,
    },
        |s, v| s.stream.fin_timeout_s = linger(v)),
    row!(LEVEL_TCP, raw::TCP_DEFER_ACCEPT, STREAM, Int, ValueRange::Any, |s| s.stream.defer_accept_s as i32,
        |s, v| s.stream.defer_accept_s = retries_to_seconds(seconds_to_retries(v))),
    row!(LEVEL_TCP, raw::TCP_USER_TIMEOUT, STREAM, Int, NOT_NEGATIVE, |s| s.stream.user_timeout_ms as i32,
        |s, v| s.stream.user_timeout_ms = v as u32),
    row!(LEVEL_TCP, raw::TCP_NOTSENT_LOWAT, STREAM, Int, ValueRange::Any, |s| s.stream.unsent_low_water as i32,
        |s, v| s.stream.unsent_low_water = v as u32),
    row!(LEVEL_TCP, raw::TCP_SAVE_SYN, STREAM, Int, SAVING, |s| i32::from(s.saves_syn),
        |s, v| { s.saves_syn = v as u8; s.stream.saves_syn = v != 0 }),
    row!(LEVEL_TCP, raw::TCP_INQ, STREAM, Int, ValueRange::From(0, 1), |s| i32::from(s.flags.contains(Flags::UNREAD)),
        |s, v| s.flags.set(Flags::UNREAD, v != 0)),
    row!(LEVEL_TCP, raw::TCP_FASTOPEN_CONNECT, STREAM, Int, ValueRange::From(0, 1), |s| i32::from(s.defers_connect),
        |s, v| s.defers_connect = v != 0),
    row!(LEVEL_TCP, raw::TCP_FASTOPEN, STREAM, Int, NOT_NEGATIVE, |s| s.stream.fast_open_max as i32,
        |s, v| s.stream.fast_open_max = v as u32),
    row!(LEVEL_TCP, raw::TCP_WINDOW_CLAMP, STREAM, Int, ValueRange::Any, |s| s.stream.window_max.unwrap_or(0) as i32,
        |s, v| s.stream.window_max = (v != 0).then(|| v.max(WINDOW_LEAST) as u32)),
    bit!(LEVEL_TCP, raw::TCP_QUICKACK, STREAM, Int, QUICK),
];

/// Returns the value of an option, or that of the system if the option is zero.
fn of_system(value: u32, parameter: Parameter, default: i32) -> i32 {
    if value == 0 { system_value(parameter, default) } else { value as i32 }
}

fn linger(value: i32) -> i32 {
    match value {
        ..0 => -1,
        _ => value.min(LINGER_SECONDS),
    }
}

/// Returns the number of retransmissions, of which each waits twice as long as the one before, that take at least `seconds`.
fn seconds_to_retries(seconds: i32) -> u32 {
    let wanted = u32::try_from(seconds).unwrap_or(0);
    (0..=255).find(|retries| retries_to_seconds(*retries) >= wanted).unwrap_or(255)
}

fn retries_to_seconds(retries: u32) -> u32 {
    (0..retries)
        .fold((0, RETRY_FIRST_S), |(all, step), _| (all + step, (step * 2).min(RETRY_LONGEST_S)))
        .0
}

/// Sets TCP_CONGESTION.
///
/// # Errors
/// `EINVAL` for no name, `ENOENT` for one that is unknown, `EFAULT`.
pub(in crate::socket::internet) fn set_control(
    settings: &mut InternetSettings,
    input: &OptionInput,
) -> Result<(), Errno> {
    if input.length == 0 {
        return Err(Errno::EINVAL);
    }
    let name = input.text(NAME_BYTES - 1)?.split(|byte| *byte == 0).next().unwrap_or_default();
    settings.stream.congestion = Some(CongestionControl::named(name).ok_or(Errno::ENOENT)?);
    Ok(())
}

/// Returns the value of TCP_CONGESTION.
pub(in crate::socket::internet) fn name_of_control(settings: &InternetSettings) -> Vec<u8> {
    let of_system =
        || CongestionControl::numbered(system_value(Parameter::TcpCongestionControl, -1).into());
    let control = settings.stream.congestion.or_else(of_system).unwrap_or_default();
    let mut value = control.name().as_bytes().to_vec();
    value.resize(NAME_BYTES, 0);
    value
}

#[cfg(test)]
mod tests {
    use super::{super::ip, *};

    #[test]
    fn options_of_tcp_are_in_its_table_and_no_others() {
        assert!(ROWS.iter().all(|row| row.level == LEVEL_TCP));
        assert!(ip::ROWS.iter().all(|row| row.level != LEVEL_TCP));
    }

    #[test]
    fn deferring_counts_retransmissions_as_linux_does() {
        for (set, told) in [(0, 0), (1, 1), (2, 3), (3, 3), (4, 7), (30, 31), (1000, 1087), (-5, 0)]
        {
            assert_eq!(retries_to_seconds(seconds_to_retries(set)), told, "{set}");
        }
    }
}
