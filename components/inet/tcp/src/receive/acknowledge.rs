//! The decision when to acknowledge: RFC 9293 section 3.8.6.3, with the numbers and the heuristics of Linux (quick
//! acknowledgements at the start, a delay of 40 ms that adapts, an interactive mode).
use crate::clock::{MILLISECOND, NEVER};

/// Least delay of an acknowledgement (Linux: TCP_ATO_MIN).
pub(crate) const DELAY_MIN: u64 = 40 * MILLISECOND;
/// Greatest delay of an acknowledgement (Linux: TCP_DELACK_MAX).
const DELAY_MAX: u64 = 200 * MILLISECOND;
/// Greatest number of quick acknowledgements (Linux: TCP_MAX_QUICKACKS).
const QUICK_MAX: u8 = 16;

/// The need for an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    None,
    Delayed,
    Now,
}

/// State of the delayed acknowledgement of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Acknowledge {
    need: Need,
    /// Segments that are acknowledged without a delay.
    quick: u8,
    /// Whether the program answers what it receives (Linux: pingpong). Then a reply carries the acknowledgement.
    is_interactive: bool,
    /// The delay (Linux: ato); 0 before the first data.
    delay: u64,
    deadline: u64,
    last_data: u64,
    /// The size of full segments that the peer sends, in bytes (Linux: rcv_mss).
    peer_mss: u32,
}

impl Acknowledge {
    #[inline]
    pub(crate) fn new(peer_mss: u32) -> Acknowledge {
        Acknowledge {
            need: Need::None,
            quick: 0,
            is_interactive: false,
            delay: 0,
            deadline: NEVER,
            last_data: 0,
            peer_mss,
        }
    }

    /// The size of full segments of the peer, in bytes.
    pub(crate) fn peer_mss(&self) -> u32 {
        self.peer_mss
    }

    /// Time at which the delayed acknowledgement is due.
    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        self.deadline
    }

    #[inline]
    pub(crate) fn need(&self) -> Need {
        self.need
    }

    /// The current delay, for `tcp_info`.
    pub(crate) fn delay(&self) -> u64 {
        self.delay
    }

    /// Demands an acknowledgement at once.
    #[inline]
    pub(crate) fn demand(&mut self) {
        self.need = Need::Now;
    }

    /// Enters the mode of quick acknowledgements. `window` is the receive window in bytes.
    pub(crate) fn be_quick(&mut self, window: u64) {
        self.raise_quick(window);
        self.is_interactive = false;
        self.delay = DELAY_MIN;
    }

    /// Allows more quick acknowledgements, outside of the interactive mode (Linux: tcp_incr_quickack).
    fn raise_quick(&mut self, window: u64) {
        let quick = window / (2 * u64::from(self.peer_mss.max(1)));
        self.quick = self.quick.max(quick.clamp(2, u64::from(QUICK_MAX)) as u8);
    }

    /// Applies TCP_QUICKACK: on acknowledges pending data and leaves the interactive mode; off enters it.
    pub(crate) fn set_quick(&mut self, quick: QuickAck) {
        self.is_interactive = quick == QuickAck::Off;
        if quick == QuickAck::On {
            self.quick = QUICK_MAX;
            if self.need == Need::Delayed {
                self.need = Need::Now;
            }
        }
    }

    /// Returns whether TCP_QUICKACK reads as on.
    pub(crate) fn is_quick(&self) -> bool {
        !self.is_interactive
    }

    /// Notes in-order data of `length` bytes: learns the peer's segment size and the time between segments.
    #[inline]
    pub(crate) fn note_data(&mut self, now_ns: u64, length: u32, window: u64, advertised_mss: u32) {
        if length >= self.peer_mss {
            self.peer_mss = length.min(advertised_mss);
        }
        if self.delay == 0 {
            self.raise_quick(window);
            self.delay = DELAY_MIN;
        } else {
            self.adapt(now_ns.saturating_sub(self.last_data), window);
        }
        self.last_data = now_ns;
    }

    fn adapt(&mut self, interval: u64, window: u64) {
        if interval <= DELAY_MIN / 2 {
            self.delay = self.delay / 2 + DELAY_MIN / 2;
        } else if interval < self.delay {
            self.delay = (self.delay / 2 + interval).min(DELAY_MAX);
        } else if interval > 1000 * MILLISECOND {
            self.raise_quick(window);
        }
    }

    /// Decides after received data. `unacknowledged` counts bytes in order since the last acknowledgement.
    #[inline]
    pub(crate) fn decide(&mut self, now_ns: u64, unacknowledged: u64, smoothed_rtt: Option<u64>) {
        if self.need == Need::Now {
            return;
        }
        if unacknowledged > u64::from(self.peer_mss) || (self.quick > 0 && !self.is_interactive) {
            self.need = Need::Now;
            return;
        }
        if self.need == Need::None {
            self.need = Need::Delayed;
            self.deadline = now_ns + self.bounded_delay(smoothed_rtt);
        }
    }

    /// The delay, bounded by the round-trip time outside of the interactive mode (Linux: tcp_send_delayed_ack).
    fn bounded_delay(&self, smoothed_rtt: Option<u64>) -> u64 {
        let bound = if self.is_interactive { DELAY_MAX } else { 500 * MILLISECOND };
        let bound = smoothed_rtt.map_or(bound, |rtt| bound.min(rtt.max(DELAY_MIN)));
        self.delay.max(DELAY_MIN).min(bound).min(DELAY_MAX)
    }

    /// Notes that the delay of a pending acknowledgement ran out (Linux: tcp_delack_timer_handler).
    pub(crate) fn expire(&mut self) {
        if self.need != Need::Delayed {
            return;
        }
        if self.is_interactive {
            self.is_interactive = false;
            self.delay = DELAY_MIN;
        } else {
            self.delay = (self.delay * 2).min(DELAY_MAX);
        }
        self.need = Need::Now;
        self.deadline = NEVER;
    }

    /// Notes that a segment with an acknowledgement leaves.
    #[inline]
    pub(crate) fn note_sent(&mut self) {
        if self.need != Need::None {
            if self.quick == 1 {
                self.delay = DELAY_MIN;
            }
            self.quick = self.quick.saturating_sub(1);
        }
        self.need = Need::None;
        self.deadline = NEVER;
    }

    /// Notes that data leaves: a reply soon after data makes the connection interactive (Linux: tcp_event_data_sent).
    #[inline]
    pub(crate) fn note_data_sent(&mut self, now_ns: u64) {
        if self.delay != 0 && now_ns.saturating_sub(self.last_data) < self.delay {
            self.is_interactive = true;
        }
    }
}

/// The value of TCP_QUICKACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuickAck {
    /// Acknowledge at once.
    On,
    /// Let replies carry acknowledgements.
    Off,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> u64 {
        millis * MILLISECOND
    }

    #[test]
    fn the_first_segments_are_acknowledged_at_once_and_later_ones_after_40_ms() {
        let mut acks = Acknowledge::new(536);
        let mut quick = 0;
        for millis in 1..100 {
            acks.note_data(at(millis), 100, 65535, 1460);
            acks.decide(at(millis), 100, None);
            if acks.need() != Need::Now {
                assert_eq!(acks.deadline(), at(millis + 40));
                break;
            }
            quick += 1;
            acks.note_sent();
        }
        assert_eq!(quick, 16);
    }

    #[test]
    fn more_than_one_full_segment_is_acknowledged_at_once() {
        let mut acks = Acknowledge::new(536);
        acks.set_quick(QuickAck::Off);
        acks.note_data(at(1), 1460, 65535, 1460);
        acks.set_quick(QuickAck::Off);
        acks.decide(at(1), 1460, None);
        assert_eq!(acks.need(), Need::Delayed);
        acks.decide(at(2), 2920, None);
        assert_eq!(acks.need(), Need::Now);
    }
}
