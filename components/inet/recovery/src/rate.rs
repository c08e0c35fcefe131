//! The delivery rate: bytes delivered over the longer of the times of sending and acknowledging them
//! (draft-cheng-iccrg-delivery-rate-estimation).
use crate::scoreboard::Stamp;

/// The sampler of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rate {
    delivered: u64,
    delivered_ns: u64,
    first_sent_ns: u64,
    /// Deliveries up to this count belong to a time in which the application limited the flow.
    limited_until: u64,
    /// The newest transmission that this acknowledgement delivered.
    newest: Option<Stamp>,
    sample_bytes: u64,
    sample_ns: u64,
    is_sample_limited: bool,
}

impl Rate {
    /// All the bytes delivered.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Makes the stamp of a transmission.
    #[inline]
    pub(crate) fn stamp(&mut self, in_flight: u64, now_ns: u64) -> Stamp {
        if in_flight == 0 {
            self.first_sent_ns = now_ns;
            self.delivered_ns = now_ns;
        }
        Stamp {
            sent_ns: now_ns,
            delivered: self.delivered,
            delivered_ns: self.delivered_ns,
            first_sent_ns: self.first_sent_ns,
            is_app_limited: self.limited_until > self.delivered,
        }
    }

    /// Notes that the application has nothing to send though the window has room.
    #[inline]
    pub(crate) fn limit(&mut self, pipe: u64) {
        self.limited_until = self.delivered.saturating_add(pipe.max(1));
    }

    /// Counts bytes that were delivered without a transmission.
    #[inline]
    pub(crate) fn skip(&mut self, bytes: u64, now_ns: u64) {
        self.delivered = self.delivered.saturating_add(bytes);
        self.delivered_ns = now_ns;
        self.limit(0);
    }

    /// Counts bytes that were delivered at the time of their transmission.
    pub(crate) fn exchange(&mut self, bytes: u64, now_ns: u64) {
        self.delivered = self.delivered.saturating_add(bytes);
        (self.first_sent_ns, self.delivered_ns) = (now_ns, now_ns);
    }

    /// Takes a delivered transmission.
    pub(crate) fn deliver(&mut self, stamp: &Stamp, bytes: u64, now_ns: u64) {
        self.delivered = self.delivered.saturating_add(bytes);
        self.delivered_ns = now_ns;
        if self.newest.is_none_or(|newest| stamp.delivered >= newest.delivered) {
            self.newest = Some(*stamp);
            self.first_sent_ns = stamp.sent_ns;
        }
    }

    /// Takes the sample of an acknowledgement. An interval below the smallest round-trip time would overestimate.
    pub(crate) fn sample(&mut self, min_rtt_ns: u64, now_ns: u64) {
        let Some(newest) = self.newest.take() else { return };
        let bytes = self.delivered - newest.delivered;
        let sending_ns = newest.sent_ns.saturating_sub(newest.first_sent_ns);
        let interval_ns = sending_ns.max(now_ns.saturating_sub(newest.delivered_ns));
        if interval_ns < min_rtt_ns || interval_ns == 0 {
            return;
        }
        let is_higher = || {
            u128::from(bytes) * u128::from(self.sample_ns)
                >= u128::from(self.sample_bytes) * u128::from(interval_ns)
        };
        if !newest.is_app_limited || is_higher() {
            self.sample_bytes = bytes;
            self.sample_ns = interval_ns;
            self.is_sample_limited = newest.is_app_limited;
        }
    }

    /// The last rate, in bytes a second, and whether the application limited it.
    pub(crate) fn last(&self) -> (u64, bool) {
        if self.sample_ns == 0 {
            return (0, false);
        }
        let rate = u128::from(self.sample_bytes) * 1_000_000_000 / u128::from(self.sample_ns);
        (u64::try_from(rate).unwrap_or(u64::MAX), self.is_sample_limited)
    }
}
