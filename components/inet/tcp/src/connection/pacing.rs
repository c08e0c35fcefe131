//! Pacing (SO_MAX_PACING_RATE): payload leaves at a bounded rate, in bursts of about a millisecond. As in Linux
//! (`tcp_update_skb_after_send`) the first ten segments are not held back.
use super::Connection;
use crate::clock::{NEVER, SECOND};

/// Segments that are not paced.
const FREE_SEGMENTS: u64 = 10;
/// The part of a second whose bytes a burst may have, as a shift (Linux: `sk_pacing_shift`).
const BURST_SHIFT: u32 = 10;
/// Segments of a burst, at least.
const BURST_SEGMENTS: u64 = 2;

/// The times of pacing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacing {
    /// The time from which payload may leave.
    next_ns: u64,
    /// The time at which held payload is looked at, [`NEVER`] if none is held.
    pub(crate) deadline_ns: u64,
}

impl Default for Pacing {
    #[inline]
    fn default() -> Pacing {
        Pacing { next_ns: 0, deadline_ns: NEVER }
    }
}

impl Connection {
    /// Returns whether a rate bounds the connection.
    #[inline]
    pub(super) fn is_paced(&self) -> bool {
        self.settings.pacing_rate != u64::MAX
    }

    /// Returns the payload that may leave now, of at most `limit` bytes; `None` if pacing holds it back.
    #[cold]
    pub(super) fn paced_limit(&mut self, now_ns: u64, limit: u32) -> Option<u32> {
        let rate = self.settings.pacing_rate;
        if rate == 0 {
            return Some(limit);
        }
        if now_ns < self.pacing.next_ns {
            self.pacing.deadline_ns = self.pacing.next_ns;
            return None;
        }
        let burst = (rate >> BURST_SHIFT).max(BURST_SEGMENTS * u64::from(self.send.mss));
        Some(u64::from(limit).min(burst) as u32)
    }

    /// Notes that `length` bytes of payload leave.
    #[cold]
    pub(super) fn note_paced(&mut self, now_ns: u64, length: u64) {
        let rate = self.settings.pacing_rate;
        if rate == 0 || self.totals.data_segments_out < FREE_SEGMENTS {
            return;
        }
        let time_ns = u128::from(length) * u128::from(SECOND) / u128::from(rate);
        let time_ns = u64::try_from(time_ns).unwrap_or(u64::MAX);
        // A timer that was late is made up for, but not by more than half of the time.
        let late_ns = now_ns.saturating_sub(self.pacing.next_ns).min(time_ns / 2);
        self.pacing.next_ns = now_ns.saturating_add(time_ns - late_ns);
    }
}
