//! Round-trip times and the retransmission timeout (RFC 6298), with Linux's numbers.
//!
//! The variance term is the largest mean deviation of the last round trip, and at least [`RTO_MIN_NS`]. It falls by a quarter of the
//! difference in each round trip. RFC 6298 instead bounds the sum, by 1 s. A measurement that falls below the mean weighs an eighth
//! in the deviation, so that a faster path does not raise the timeout.
use crate::api::{RTO_INITIAL_NS, RTO_MAX_NS, RTO_MIN_NS};

/// The time over which the smallest round-trip time is kept, in nanoseconds: half of Linux's five minutes, twice.
const MIN_WINDOW_NS: u64 = 150_000_000_000;

/// The smallest measurement that counts, in nanoseconds: one of Linux's microseconds. A round trip within one call takes no time.
const RTT_MIN_NS: u64 = 1000;

/// The measurements of one connection. All times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimator {
    srtt_ns: u64,
    deviation_ns: u64,
    /// The largest deviation of this round trip.
    deviation_max_ns: u64,
    variance_ns: u64,
    /// The offset whose acknowledgement ends this round trip.
    round_end: u64,
    /// The smallest times of this window and of the one before.
    minima_ns: [u64; 2],
    window_start_ns: u64,
    /// The timeout before the first measurement.
    initial_ns: u64,
}

impl Estimator {
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            srtt_ns: 0,
            deviation_ns: 0,
            deviation_max_ns: 0,
            variance_ns: 0,
            round_end: 0,
            minima_ns: [u64::MAX; 2],
            window_start_ns: 0,
            initial_ns: RTO_INITIAL_NS,
        }
    }

    /// Notes that the handshake timed out (RFC 6298, section 5.7).
    pub(crate) fn distrust(&mut self) {
        self.initial_ns = 3 * RTO_INITIAL_NS;
    }

    /// Takes a measurement. `una` and `nxt` are the bounds of the flight after the acknowledgement.
    pub(crate) fn sample(&mut self, rtt_ns: u64, una: u64, nxt: u64, now_ns: u64) {
        let rtt_ns = rtt_ns.clamp(RTT_MIN_NS, RTO_MAX_NS);
        self.sample_min(rtt_ns, now_ns);
        if self.srtt_ns == 0 {
            self.srtt_ns = rtt_ns;
            self.deviation_ns = rtt_ns / 2;
            self.variance_ns = (2 * rtt_ns).max(RTO_MIN_NS);
            self.deviation_max_ns = self.variance_ns / 4;
            self.round_end = nxt;
            return;
        }
        let error_ns = rtt_ns.abs_diff(self.srtt_ns);
        if rtt_ns >= self.srtt_ns {
            self.srtt_ns += error_ns / 8;
            self.deviation_ns = self.deviation_ns - self.deviation_ns / 4 + error_ns / 4;
        } else {
            self.srtt_ns -= error_ns / 8;
            let shift = if error_ns > self.deviation_ns { 5 } else { 2 };
            self.deviation_ns =
                self.deviation_ns - (self.deviation_ns >> shift) + (error_ns >> shift);
        }
        self.sample_variance(una, nxt);
    }

    fn sample_variance(&mut self, una: u64, nxt: u64) {
        if self.deviation_ns > self.deviation_max_ns {
            self.deviation_max_ns = self.deviation_ns;
            self.variance_ns = self.variance_ns.max(4 * self.deviation_max_ns);
        }
        if una >= self.round_end {
            let target_ns = 4 * self.deviation_max_ns;
            if target_ns < self.variance_ns {
                self.variance_ns -= (self.variance_ns - target_ns) / 4;
            }
            self.round_end = nxt;
            self.deviation_max_ns = RTO_MIN_NS / 4;
        }
    }

    fn sample_min(&mut self, rtt_ns: u64, now_ns: u64) {
        let [current, before] = self.minima_ns;
        let age_ns = now_ns.saturating_sub(self.window_start_ns);
        self.minima_ns = if age_ns >= 2 * MIN_WINDOW_NS {
            self.window_start_ns = now_ns;
            [rtt_ns, u64::MAX]
        } else if age_ns >= MIN_WINDOW_NS {
            self.window_start_ns = now_ns;
            [rtt_ns, current]
        } else {
            [current.min(rtt_ns), before]
        };
    }

    /// The smoothed time, or nothing before the first measurement.
    #[inline]
    pub(crate) fn srtt_ns(&self) -> Option<u64> {
        (self.srtt_ns != 0).then_some(self.srtt_ns)
    }

    /// The mean deviation.
    pub(crate) fn deviation_ns(&self) -> u64 {
        self.deviation_ns
    }

    /// The smallest time of the last minutes, or nothing before the first measurement.
    #[inline]
    pub(crate) fn min_ns(&self) -> Option<u64> {
        let [current, before] = self.minima_ns;
        Some(current.min(before)).filter(|&min_ns| min_ns != u64::MAX)
    }

    /// The retransmission timeout without backoff.
    #[inline]
    pub(crate) fn rto_ns(&self) -> u64 {
        if self.srtt_ns == 0 {
            return self.initial_ns;
        }
        (self.srtt_ns + self.variance_ns.max(RTO_MIN_NS)).min(RTO_MAX_NS)
    }
}
