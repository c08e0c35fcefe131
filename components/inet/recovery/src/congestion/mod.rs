//! The congestion control: how the window grows with acknowledgements and shrinks with losses.
//!
//! Windows are counts of bytes (RFC 5681, RFC 3465). An acknowledgement counts all the bytes that it delivers, as in Linux, because
//! one acknowledgement may cover a burst of 64 KiB; the limits of RFC 3465 and RFC 9406 per acknowledgement would stall such a flow.
//! A congestion event takes the window, not the flight, as its base, as RFC 9438, section 4.6 permits: a window that the application
//! does not use does not grow.
mod cubic;
mod hystart;

use cubic::Cubic;
use hystart::{HyStart, Pace};

/// The largest congestion window, in bytes: twice the largest window of a peer (RFC 7323, section 2.3).
pub(crate) const CWND_MAX: u64 = 1 << 31;

/// A congestion control, by its name in `TCP_CONGESTION`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// CUBIC (RFC 9438) with HyStart++ (RFC 9406).
    #[default]
    Cubic,
    /// Reno (RFC 5681).
    Reno,
}

impl Algorithm {
    /// Every algorithm, as `tcp_available_congestion_control` lists them.
    pub const ALL: [Self; 2] = [Self::Reno, Self::Cubic];

    /// Returns the algorithm of a name, or nothing.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name().as_bytes() == name)
    }

    /// The name of the algorithm.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
        }
    }
}

/// A congestion window with its threshold. All are in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CongestionWindow {
    pub(crate) cwnd: u64,
    pub(crate) ssthresh: u64,
    pub(crate) mss: u64,
}

impl CongestionWindow {
    /// The initial window (RFC 6928): ten segments. Its limit of 14600 bytes for a large MSS does not apply, as in Linux.
    pub(crate) fn initial(mss: u64) -> u64 {
        10 * mss
    }
}

/// A delivery of bytes, as the congestion control sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivered {
    pub(crate) bytes: u64,
    /// The bounds of the flight.
    pub(crate) una: u64,
    pub(crate) nxt: u64,
    pub(crate) rtt_ns: Option<u64>,
    pub(crate) srtt_ns: u64,
    pub(crate) now_ns: u64,
}

/// The congestion control of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Control {
    algorithm: Algorithm,
    cubic: Cubic,
    hystart: HyStart,
    /// The bytes delivered in congestion avoidance that have not yet raised Reno's window.
    credit: u64,
    /// The state of CUBIC before the last reduction.
    saved: Cubic,
}

impl Control {
    #[inline]
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        Self {
            algorithm,
            cubic: Cubic::default(),
            hystart: HyStart::default(),
            credit: 0,
            saved: Cubic::default(),
        }
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Grows the window by a delivery.
    pub(crate) fn grow(&mut self, window: &mut CongestionWindow, delivered: &Delivered) {
        let mut bytes = delivered.bytes;
        if window.cwnd < window.ssthresh {
            bytes = self.slow_start(window, delivered);
        }
        if bytes > 0 {
            match self.algorithm {
                Algorithm::Reno => self.avoid(window, bytes),
                Algorithm::Cubic => self.cubic.grow(window, bytes, delivered),
            }
        }
        window.cwnd = window.cwnd.min(CWND_MAX);
    }

    /// Grows the window below its threshold. Returns the bytes left for congestion avoidance.
    fn slow_start(&mut self, window: &mut CongestionWindow, delivered: &Delivered) -> u64 {
        let pace = match self.algorithm {
            Algorithm::Reno => Pace::Full,
            Algorithm::Cubic => self.hystart.advance(delivered),
        };
        let growth = match pace {
            Pace::Full => delivered.bytes,
            Pace::Quarter => delivered.bytes / 4,
            Pace::Exit => {
                window.ssthresh = window.cwnd;
                return delivered.bytes;
            }
        };
        let room = window.ssthresh - window.cwnd;
        window.cwnd += growth.min(room);
        growth.saturating_sub(room)
    }

    /// Reno's congestion avoidance: a segment for each window (RFC 5681, section 3.1).
    fn avoid(&mut self, window: &mut CongestionWindow, bytes: u64) {
        self.credit = self.credit.saturating_add(bytes);
        if self.credit >= window.cwnd {
            self.credit = (self.credit - window.cwnd).min(window.cwnd);
            window.cwnd += window.mss;
        }
    }

    /// Notes a congestion event. Returns the new threshold, at least two segments.
    pub(crate) fn reduce(&mut self, window: &CongestionWindow) -> u64 {
        self.credit = 0;
        self.hystart.stop();
        self.saved = self.cubic;
        let threshold = match self.algorithm {
            Algorithm::Reno => window.cwnd / 2,
            Algorithm::Cubic => self.cubic.reduce(window),
        };
        threshold.max(2 * window.mss)
    }

    /// Notes that the congestion event was a timeout. The next congestion avoidance starts from its own window (RFC 9438, 4.8).
    pub(crate) fn time_out(&mut self) {
        self.cubic = Cubic::default();
    }

    /// Takes back the last congestion event (RFC 9438, section 4.9).
    pub(crate) fn restore(&mut self) {
        self.cubic = self.saved;
    }

    /// Skips a time without sending (RFC 9438, section 5.8).
    pub(crate) fn skip(&mut self, idle_ns: u64) {
        self.cubic.skip(idle_ns);
    }
}
