//! TIME-WAIT: the small state that is left of a closed connection (RFC 9293 section 3.10.7.4, RFC 6191, RFC 1337).
use super::{kept_words::KEPT_WORDS, parts::TimestampClock, settings::INVALID_INTERVAL_NS};
use crate::{
    clock::{NEVER, SECOND, tick},
    wire::{
        segment::{SegmentOptions, TcpFlags, TcpSegment, Timestamps},
        sequence::is_before,
    },
};

/// Length of TIME-WAIT in nanoseconds (Linux: TCP_TIMEWAIT_LEN).
pub const TIME_WAIT_NS: u64 = 60 * SECOND;
/// Distance of a reused connection's initial sequence number from the old one's last (Linux: tcp_timewait_state_process).
const REUSE_DISTANCE: u32 = 65_535 + 2;

/// A connection in TIME-WAIT.
#[derive(Clone, Copy, Debug)]
pub struct TimeWait {
    /// The next sequence number of this side.
    pub(crate) seq: u32,
    /// The next sequence number of the peer.
    pub(crate) ack: u32,
    pub(crate) window: u64,
    pub(crate) scale: u8,
    pub(crate) clock: TimestampClock,
    pub(crate) deadline_ns: u64,
    pub(crate) answered_ns: u64,
    pub(crate) is_protected: bool,
}

/// The answer to a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeWaitReply {
    /// Nothing.
    Drop,
    /// Send this acknowledgement.
    Acknowledge(TcpSegment),
    /// The segment is a SYN that may open a new connection in place of this one (RFC 6191). It goes to the listener, with this as
    /// the initial sequence number.
    Reuse(u32),
    /// The state is gone.
    Close,
}

impl TimeWait {
    /// Returns the time at which the state ends.
    pub fn deadline(&self) -> u64 {
        self.deadline_ns
    }

    /// Takes a segment.
    pub fn input(&mut self, now_ns: u64, segment: &TcpSegment) -> TimeWaitReply {
        let clock = segment.options.timestamps.filter(|_| self.clock.is_enabled);
        let is_old = clock.is_some_and(|clock| is_before(clock.value, self.clock.recent));
        let is_reset = segment.has(TcpFlags::RST);
        let is_next = segment.seq == self.ack && (segment.sequence_len() == 0 || is_reset);
        if !is_old && is_next {
            if is_reset && !self.is_protected {
                return TimeWaitReply::Close;
            }
            self.deadline_ns = now_ns.saturating_add(TIME_WAIT_NS);
            if let Some(clock) = clock {
                self.clock.recent = clock.value;
            }
            return TimeWaitReply::Drop;
        }
        let is_new_clock = clock.is_some_and(|clock| is_before(self.clock.recent, clock.value));
        let is_syn = segment.flags.intersection(TcpFlags::SYN | TcpFlags::ACK | TcpFlags::RST)
            == TcpFlags::SYN;
        if is_syn && !is_old && (is_before(self.ack, segment.seq) || is_new_clock) {
            return TimeWaitReply::Reuse(self.seq.wrapping_add(REUSE_DISTANCE));
        }
        if is_reset {
            return TimeWaitReply::Drop;
        }
        if is_old || segment.has(TcpFlags::ACK) {
            self.deadline_ns = now_ns.saturating_add(TIME_WAIT_NS);
        }
        self.answer(now_ns)
    }

    /// Acknowledges again, at most every 500 ms.
    fn answer(&mut self, now_ns: u64) -> TimeWaitReply {
        if self.answered_ns != NEVER
            && now_ns.saturating_sub(self.answered_ns) < INVALID_INTERVAL_NS
        {
            return TimeWaitReply::Drop;
        }
        self.answered_ns = now_ns;
        let timestamps = self.clock.is_enabled.then(|| Timestamps {
            value: tick(now_ns).wrapping_add(self.clock.offset),
            echo: self.clock.recent,
        });
        TimeWaitReply::Acknowledge(TcpSegment {
            seq: self.seq,
            ack: self.ack,
            flags: TcpFlags::ACK,
            window: (self.window >> self.scale).min(u64::from(u16::MAX)) as u16,
            options: SegmentOptions { timestamps, ..SegmentOptions::default() },
            ..TcpSegment::default()
        })
    }

    /// Returns whether a program may connect from the same ports again, because timestamps tell old segments from new ones
    /// (`tcp_tw_reuse`), and the initial sequence number to use then.
    pub fn reuse_for_connect(&self, now_ns: u64) -> Option<u32> {
        let is_old_enough = now_ns.saturating_sub(self.clock.recent_ns) >= SECOND;
        (self.clock.is_enabled && is_old_enough).then(|| self.seq.wrapping_add(REUSE_DISTANCE))
    }
}

const CLOCK: u64 = 1 << 8;
const PROTECTED: u64 = 1 << 9;
/// The greatest window scale (RFC 7323 section 2.3).
const SCALE_MAX: u8 = 14;

impl TimeWait {
    /// Returns words of which a successor makes the state again.
    pub fn words(&self) -> [u64; KEPT_WORDS] {
        let flag = |is_set: bool, flag: u64| u64::from(is_set) * flag;
        let flags = flag(self.clock.is_enabled, CLOCK) | flag(self.is_protected, PROTECTED);
        [
            u64::from(self.seq) << 32 | u64::from(self.ack),
            u64::from(self.clock.offset) << 32 | u64::from(self.clock.recent),
            self.clock.recent_ns,
            self.deadline_ns,
            self.window,
            flags | u64::from(self.scale),
        ]
    }

    /// Makes the state of the words that a predecessor kept.
    pub fn of_words(words: &[u64; KEPT_WORDS], now_ns: u64) -> TimeWait {
        let [numbers, clock, recent_ns, deadline_ns, window, rest] = *words;
        TimeWait {
            seq: (numbers >> 32) as u32,
            ack: numbers as u32,
            window,
            scale: (rest as u8).min(SCALE_MAX),
            clock: TimestampClock {
                is_enabled: rest & CLOCK != 0,
                offset: (clock >> 32) as u32,
                recent: clock as u32,
                recent_ns,
            },
            deadline_ns: deadline_ns.min(now_ns.saturating_add(TIME_WAIT_NS)),
            answered_ns: NEVER,
            is_protected: rest & PROTECTED != 0,
        }
    }
}
