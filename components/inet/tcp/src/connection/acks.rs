//! Acknowledgements of the peer: RFC 9293 section 3.10.7.4 (fifth check), RFC 5961 section 5, and the peer's window.
use super::{
    Connection, Reset,
    types::{TcpEvents, TcpState},
};
use crate::{
    clock::{NEVER, tick},
    wire::{
        segment::{TcpFlags, TcpSegment},
        sequence::Origin,
    },
};
use core::ops::Range;
use recovery::{Ack, Verdict};

/// The SACK blocks of a segment, as positions.
struct Blocks {
    blocks: [Range<u64>; 4],
    count: usize,
}

impl Blocks {
    fn new(segment: &TcpSegment, origin: Origin, near: u64) -> Blocks {
        let mut all = Blocks { blocks: [const { 0..0 }; 4], count: 0 };
        for (start, end) in segment.options.sack.iter() {
            let range = origin.position(near, start).zip(origin.position(near, end));
            let free = all.blocks.get_mut(all.count);
            if let Some(((start, end), free)) = range.zip(free) {
                *free = start..end;
                all.count += 1;
            }
        }
        all
    }

    fn as_slice(&self) -> &[Range<u64>] {
        self.blocks.get(..self.count).unwrap_or(&[])
    }
}

/// Whether an acknowledgement may count as a duplicate (RFC 5681 section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckKind {
    /// It carries neither data nor SYN nor FIN, and no change of the window.
    Plain,
    /// It carries something.
    Other,
}

impl AckKind {
    fn of(segment: &TcpSegment) -> AckKind {
        if segment.sequence_len() == 0 { AckKind::Plain } else { AckKind::Other }
    }
}

impl Connection {
    /// Applies the acknowledgement of a segment that passed the checks of its sequence. Returns the events, as an error if the
    /// segment is to be dropped.
    pub(super) fn apply_ack(
        &mut self,
        now_ns: u64,
        segment: &TcpSegment,
        position: u64,
    ) -> Result<TcpEvents, TcpEvents> {
        let distance = self.send.origin.distance(self.send.una, segment.ack);
        if self.state == TcpState::SynReceived {
            return self.apply_first_ack(now_ns, segment, distance);
        }
        if distance < 0 && distance.unsigned_abs() > self.send.max_window
            || distance > 0 && distance.unsigned_abs() > self.send.nxt - self.send.una
        {
            self.challenge(now_ns);
            return Err(TcpEvents::empty());
        }
        self.probe.count = 0;
        self.totals.last_ack_received_ns = now_ns;
        if distance < 0 {
            return Ok(TcpEvents::empty());
        }
        let number = self.send.una + distance.unsigned_abs();
        let is_update = self.update_window(segment, position, number);
        let kind = if is_update { AckKind::Other } else { AckKind::of(segment) };
        Ok(self.pass_ack(now_ns, segment, number, kind))
    }

    /// Applies an acknowledgement of new positions from the short path.
    #[inline]
    pub(super) fn apply_advance(&mut self, now_ns: u64, segment: &TcpSegment) -> TcpEvents {
        let acked = segment.ack.wrapping_sub(self.send.origin.number(self.send.una));
        self.probe.count = 0;
        self.totals.last_ack_received_ns = now_ns;
        let number = self.send.una + u64::from(acked);
        self.send.window_seq = self.receive.received;
        self.send.edge = number + (u64::from(segment.window) << self.send.scale);
        self.pass_ack(now_ns, segment, number, AckKind::of(segment))
    }

    /// Applies the acknowledgement that ends the handshake of this side's SYN-ACK.
    fn apply_first_ack(
        &mut self,
        now_ns: u64,
        segment: &TcpSegment,
        distance: i64,
    ) -> Result<TcpEvents, TcpEvents> {
        if distance <= 0 || distance.unsigned_abs() > self.send.nxt - self.send.una {
            self.reset = Some(Reset { seq: segment.ack, ack: None });
            return Err(TcpEvents::empty());
        }
        self.state = if self.send.is_closed { TcpState::FinWait1 } else { TcpState::Established };
        self.is_syn_ack_due = false;
        self.set_first_window(segment, self.send.una + distance.unsigned_abs());
        let number = self.send.una + distance.unsigned_abs();
        let events = self.pass_ack(now_ns, segment, number, AckKind::Plain);
        self.start(now_ns);
        Ok(events | TcpEvents::CONNECTED)
    }

    /// Takes the window of the first segment that is not a SYN.
    pub(super) fn set_first_window(&mut self, segment: &TcpSegment, number: u64) {
        let scale = if segment.has(TcpFlags::SYN) { 0 } else { self.send.scale };
        let window = u64::from(segment.window) << scale;
        self.send.window_field = segment.window;
        self.send.edge = number + window;
        self.send.max_window = self.send.max_window.max(window);
        self.send.window_seq = 0;
    }

    /// Takes the peer's window unless the segment is older than the one that set it (RFC 9293: SND.WL1, SND.WL2). Returns whether
    /// the window changed.
    fn update_window(&mut self, segment: &TcpSegment, position: u64, number: u64) -> bool {
        let window = u64::from(segment.window) << self.send.scale;
        let advance = number - self.send.una;
        let is_newer = advance > 0
            || position > self.send.window_seq
            || position == self.send.window_seq && window > self.send.window();
        if !is_newer {
            return false;
        }
        let is_change = window != self.send.window();
        self.send.window_seq = position;
        self.send.window_field = segment.window;
        self.send.max_window = self.send.max_window.max(window);
        self.send.edge = number + window;
        if window > 0 {
            self.open_window();
        }
        is_change
    }

    pub(super) fn open_window(&mut self) {
        self.probe.deadline_ns = NEVER;
        self.probe.backoff = 0;
        self.probe.since_ns = NEVER;
        self.probe.is_due = false;
    }

    /// Passes an acknowledgement, at or behind `una`, to loss recovery, and moves `una`.
    #[inline]
    pub(super) fn pass_ack(
        &mut self,
        now_ns: u64,
        segment: &TcpSegment,
        number: u64,
        kind: AckKind,
    ) -> TcpEvents {
        if self.send.has_sack && !segment.options.sack.is_empty() {
            let blocks = Blocks::new(segment, self.send.origin, self.send.una);
            return self.pass_blocks(now_ns, segment, number, (kind, blocks.as_slice()));
        }
        self.pass_blocks(now_ns, segment, number, (kind, &[]))
    }

    /// Passes it with the blocks that it carries.
    #[inline]
    fn pass_blocks(
        &mut self,
        now_ns: u64,
        segment: &TcpSegment,
        number: u64,
        (kind, sacks): (AckKind, &[Range<u64>]),
    ) -> TcpEvents {
        let ack = Ack {
            number,
            sacks,
            echo_ns: self.echo_ns(now_ns, segment),
            is_plain: kind == AckKind::Plain,
            has_ece: self.send.has_ecn && segment.has(TcpFlags::ECE) && !segment.has(TcpFlags::SYN),
        };
        let progress = self.sender.acknowledged(&ack, now_ns);
        if progress.verdict != Verdict::Advance {
            return TcpEvents::empty();
        }
        self.send.una = number;
        self.retry_since_ns = NEVER;
        self.soft_error = None;
        self.advance_state(now_ns)
    }

    /// Moves the state after `una` moved.
    fn advance_state(&mut self, now_ns: u64) -> TcpEvents {
        let mut events = TcpEvents::WRITABLE;
        if self.send.urgent_end.is_some_and(|end| end <= self.send.una) {
            self.send.urgent_end = None;
        }
        if !self.send.is_fin_acked() {
            return events;
        }
        match self.state {
            TcpState::FinWait1 => {
                self.state = TcpState::FinWait2;
                if self.is_detached {
                    self.linger_deadline_ns = now_ns.saturating_add(self.settings.fin_timeout_ns);
                }
            }
            TcpState::Closing => events |= self.enter_time_wait(now_ns),
            TcpState::LastAck => events |= self.finish(),
            _ => {}
        }
        events
    }

    /// The time that the echoed timestamp stands for.
    #[inline]
    fn echo_ns(&self, now_ns: u64, segment: &TcpSegment) -> Option<u64> {
        let clock = segment.options.timestamps.filter(|_| self.clock.is_enabled)?;
        let age = tick(now_ns).wrapping_sub(clock.echo.wrapping_sub(self.clock.offset));
        let ticks = now_ns / recovery::TIMESTAMP_TICK_NS;
        let echoed = ticks.checked_sub(u64::from(age))?;
        (age < 1 << 31).then_some(echoed * recovery::TIMESTAMP_TICK_NS)
    }
}
