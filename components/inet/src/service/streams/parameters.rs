//! [`StreamParameters`]: the settings of TCP for all sockets of the stack (`/proc/sys/net/ipv4/tcp_*`; tcp(7)), with the defaults
//! and the ranges of Linux. A connection takes those of its handshake when it begins, and the others when its options change.
use alloc::vec::Vec;
use core::{
    ops::RangeInclusive,
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
};
use interfaces::sockets::{AdministrationError, CongestionControl, NetworkParameter};

/// A number that Linux keeps in an octet.
const OCTET: RangeInclusive<i64> = 0..=255;
/// A number that Linux keeps in an `int`.
const NUMBER: RangeInclusive<i64> = 0..=i32::MAX as i64;
/// Retransmissions without a program, if `tcp_orphan_retries` is 0 (Linux's `tcp_orphan_retries`).
const ORPHAN_RETRIES: u32 = 8;
/// Bits of `tcp_fastopen`.
const FAST_OPEN_CLIENT: i64 = 1;
const FAST_OPEN_SERVER: i64 = 2;

/// Makes the type: a row names a field, its parameter, the default and the range.
macro_rules! parameters {
    ($($field:ident $parameter:ident $default:literal $range:expr;)*) => {
        /// The settings of TCP.
        pub(crate) struct StreamParameters {
            $($field: AtomicI64,)*
            /// Number of changes.
            version: AtomicU64,
        }

        impl StreamParameters {
            pub(crate) fn new() -> StreamParameters {
                StreamParameters {
                    $($field: AtomicI64::new($default),)*
                    version: AtomicU64::new(0),
                }
            }
            fn rows(&self) -> impl Iterator<Item = (&AtomicI64, RangeInclusive<i64>)> {
                [$((&self.$field, $range)),*].into_iter()
            }
            fn find(
                &self,
                parameter: NetworkParameter,
            ) -> Option<(&AtomicI64, RangeInclusive<i64>)> {
                match parameter {
                    $(NetworkParameter::$parameter => Some((&self.$field, $range)),)*
                    _ => None,
                }
            }
        }
    };
}

parameters! {
    abort_on_overflow TcpAbortOnOverflow 0 OCTET;
    congestion TcpCongestionControl 1 0..=1;
    ecn TcpEcn 2 0..=2;
    fast_open TcpFastopen 1 NUMBER;
    fin_timeout_s TcpFinTimeout 60 NUMBER;
    keep_interval_s TcpKeepaliveIntvl 75 NUMBER;
    keep_count TcpKeepaliveProbes 9 OCTET;
    keep_idle_s TcpKeepaliveTime 7200 NUMBER;
    waiting_max TcpMaxTwBuckets 16_384 NUMBER;
    orphan_retries TcpOrphanRetries 0 OCTET;
    retries TcpRetries2 15 OCTET;
    protect_time_wait TcpRfc1337 0 OCTET;
    sack TcpSack 1 OCTET;
    slow_start_after_idle TcpSlowStartAfterIdle 1 OCTET;
    syn_retries TcpSynRetries 6 1..=127;
    synack_retries TcpSynackRetries 5 OCTET;
    cookies TcpSyncookies 1 OCTET;
    timestamps TcpTimestamps 1 OCTET;
    waiting_reuse TcpTwReuse 2 0..=2;
    window_scaling TcpWindowScaling 1 OCTET;
}

/// The reuse of the ports of a connection in TIME-WAIT by one that a program opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitingReuse {
    /// None.
    Off,
    /// Of all connections.
    All,
    /// Of those on loopback.
    Loopback,
}

impl StreamParameters {
    /// Returns the values of all parameters.
    pub(crate) fn all(&self) -> Vec<i64> {
        self.rows().map(|(place, _)| place.load(Ordering::Relaxed)).collect()
    }
    /// Sets all parameters, but those whose values are out of their ranges.
    pub(crate) fn set_all(&self, values: &[i64]) {
        let rows = self.rows().zip(values).filter(|((_, range), value)| range.contains(value));
        rows.for_each(|((place, _), value)| place.store(*value, Ordering::Relaxed));
        self.version.fetch_add(1, Ordering::Release);
    }
    /// Returns a number that changes with the parameters. Values that are read after it are those of it, or later ones.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
    /// Returns the value of a parameter; `None` if it is none of these.
    pub(crate) fn get(&self, parameter: NetworkParameter) -> Option<i64> {
        self.find(parameter).map(|(place, _)| place.load(Ordering::Relaxed))
    }
    /// Sets a parameter.
    ///
    /// # Errors
    /// `Invalid` for a value out of its range, `Unsupported` for a parameter that is none of these.
    pub(crate) fn set(
        &self,
        parameter: NetworkParameter,
        value: i64,
    ) -> Result<(), AdministrationError> {
        let (place, range) = self.find(parameter).ok_or(AdministrationError::Unsupported)?;
        if !range.contains(&value) {
            return Err(AdministrationError::Invalid);
        }
        place.store(value, Ordering::Relaxed);
        self.version.fetch_add(1, Ordering::Release);
        Ok(())
    }
    fn number(place: &AtomicI64) -> u32 {
        u32::try_from(place.load(Ordering::Relaxed)).unwrap_or(u32::MAX)
    }
    fn is_on(place: &AtomicI64) -> bool {
        place.load(Ordering::Relaxed) != 0
    }
    /// Returns whether programs may send data with a SYN.
    pub(crate) fn may_open_fast(&self) -> bool {
        self.fast_open.load(Ordering::Relaxed) & FAST_OPEN_CLIENT != 0
    }
    /// Returns whether listeners may take data with a SYN.
    pub(crate) fn may_accept_fast(&self) -> bool {
        self.fast_open.load(Ordering::Relaxed) & FAST_OPEN_SERVER != 0
    }
    /// Returns the congestion control of sockets that chose none.
    pub(crate) fn congestion(&self) -> CongestionControl {
        let number = self.congestion.load(Ordering::Relaxed);
        CongestionControl::numbered(number).unwrap_or_default()
    }
    /// Returns the use of SYN cookies.
    pub(crate) fn cookies(&self) -> tcp::Cookies {
        match self.cookies.load(Ordering::Relaxed) {
            0 => tcp::Cookies::Off,
            1 => tcp::Cookies::WhenFull,
            _ => tcp::Cookies::Always,
        }
    }
    /// Returns whether a connection is reset for which a listener has no room.
    pub(crate) fn aborts_on_overflow(&self) -> bool {
        Self::is_on(&self.abort_on_overflow)
    }
    /// Returns the greatest number of connections in TIME-WAIT.
    pub(crate) fn waiting_max(&self) -> usize {
        Self::number(&self.waiting_max) as usize
    }
    /// Returns which connections in TIME-WAIT give their ports away.
    pub(crate) fn waiting_reuse(&self) -> WaitingReuse {
        match self.waiting_reuse.load(Ordering::Relaxed) {
            0 => WaitingReuse::Off,
            1 => WaitingReuse::All,
            _ => WaitingReuse::Loopback,
        }
    }
    /// Returns the seconds in FIN-WAIT-2 of a socket that chose none.
    pub(crate) fn fin_timeout_s(&self) -> u32 {
        Self::number(&self.fin_timeout_s)
    }
    /// Returns the seconds of silence before keepalive, of sockets that chose none.
    pub(crate) fn keep_idle_s(&self) -> u32 {
        Self::number(&self.keep_idle_s)
    }
    /// Returns the seconds between probes of keepalive, of sockets that chose none.
    pub(crate) fn keep_interval_s(&self) -> u32 {
        Self::number(&self.keep_interval_s)
    }
    /// Returns the number of probes of keepalive, of sockets that chose none.
    pub(crate) fn keep_count(&self) -> u32 {
        Self::number(&self.keep_count)
    }
    /// Returns the number of retransmissions of a SYN, of sockets that chose none.
    pub(crate) fn syn_retries(&self) -> u32 {
        Self::number(&self.syn_retries)
    }
    /// Returns the settings of a connection for which no socket option counts.
    pub(crate) fn base(&self) -> tcp::Settings {
        tcp::Settings {
            window_scaling: Self::is_on(&self.window_scaling),
            timestamps: Self::is_on(&self.timestamps),
            sack: Self::is_on(&self.sack),
            ecn: match self.ecn.load(Ordering::Relaxed) {
                0 => tcp::Ecn::Off,
                1 => tcp::Ecn::Request,
                _ => tcp::Ecn::Accept,
            },
            synack_retries: Self::number(&self.synack_retries),
            retries: Self::number(&self.retries),
            orphan_retries: match Self::number(&self.orphan_retries) {
                0 => ORPHAN_RETRIES,
                retries => retries,
            },
            protect_time_wait: Self::is_on(&self.protect_time_wait),
            keeps_idle_window: !Self::is_on(&self.slow_start_after_idle),
            ..tcp::Settings::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_has_its_default_and_its_range() {
        let parameters = StreamParameters::new();
        assert_eq!(parameters.get(NetworkParameter::TcpSynRetries), Some(6));
        let refused = Err(AdministrationError::Invalid);
        assert_eq!(parameters.set(NetworkParameter::TcpSynRetries, 0), refused);
        assert_eq!(parameters.set(NetworkParameter::TcpSynRetries, 2), Ok(()));
        assert_eq!((parameters.syn_retries(), parameters.base().sack), (2, true));
        assert_eq!(parameters.set(NetworkParameter::TcpSack, 0), Ok(()));
        assert!(!parameters.base().sack);
        let unknown = parameters.set(NetworkParameter::DefaultTtl, 1);
        assert_eq!(unknown, Err(AdministrationError::Unsupported));
    }
}
