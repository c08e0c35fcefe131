//! The scoreboard: what is in flight, as stretches of equal state in the order of the stream.
//!
//! The stretches cover the flight, from the oldest unacknowledged offset to the next new one, without a hole. An acknowledgement in
//! order trims or pops the first stretch; new data extends or follows the last. Both take constant time, without a search or an
//! allocation. A SACK block is found by binary search. Adjacent stretches that the peer reported merge.
//!
//! # Bound
//! At most [`STRETCHES_MAX`] stretches exist. From [`EXACT_MAX`] on, new data joins the last stretch even if it was sent later, which
//! delays the detection of losses and shortens measured round trips by the difference. At the limit, a SACK block that needs a new boundary is shortened to the boundaries that
//! exist: SACK is advice (RFC 2018, section 8), so the sender only sends more than it must.
use alloc::collections::VecDeque;
use core::ops::Range;

/// The maximum number of stretches of a connection.
pub(crate) const STRETCHES_MAX: usize = 2048;

/// The number of stretches up to which each sending time has its own stretch.
const EXACT_MAX: usize = 512;

/// The maximum length of a stretch that grows by data of one sending time, and of one that joins several, in bytes.
const BURST_BYTES_MAX: u64 = 1 << 16;
const JOINED_BYTES_MAX: u64 = 1 << 17;

/// The state of a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// In flight.
    Sent,
    /// Lost, and not sent again since.
    Lost,
    /// Lost, and in flight again.
    Resent,
    /// Reported by a SACK block.
    Sacked,
}

/// The circumstances of a transmission, for round-trip times, RACK and the delivery rate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stamp {
    /// The time of the transmission.
    pub(crate) sent_ns: u64,
    /// The bytes that were delivered before it.
    pub(crate) delivered: u64,
    /// The time of the last delivery before it.
    pub(crate) delivered_ns: u64,
    /// The sending time of the data whose delivery was the last before it.
    pub(crate) first_sent_ns: u64,
    /// The application had sent all it had.
    pub(crate) is_app_limited: bool,
}

/// A part of the flight with one state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) mark: Mark,
    /// It was sent more than once.
    pub(crate) was_resent: bool,
    pub(crate) stamp: Stamp,
}

/// A scoreboard takes at most 128 KiB.
const _: () = assert!(size_of::<Stretch>() * STRETCHES_MAX <= 128 << 10);

impl Stretch {
    /// The length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.end - self.start
    }
}

/// The flight of a connection.
#[derive(Debug)]
pub(crate) struct Scoreboard {
    stretches: VecDeque<Stretch>,
    una: u64,
    nxt: u64,
    sacked: u64,
    lost: u64,
    resent: u64,
    /// No lost stretch starts below this offset.
    lost_from: u64,
}

impl Scoreboard {
    #[inline]
    pub(crate) fn new(start: u64) -> Self {
        Self {
            stretches: VecDeque::new(),
            una: start,
            nxt: start,
            sacked: 0,
            lost: 0,
            resent: 0,
            lost_from: start,
        }
    }

    /// The oldest unacknowledged offset.
    pub(crate) fn una(&self) -> u64 {
        self.una
    }

    /// The next offset that was never sent.
    pub(crate) fn nxt(&self) -> u64 {
        self.nxt
    }

    /// The bytes that are sent and not acknowledged.
    #[inline]
    pub(crate) fn in_flight(&self) -> u64 {
        self.nxt - self.una
    }

    /// The bytes that SACK blocks reported.
    #[inline]
    pub(crate) fn sacked(&self) -> u64 {
        self.sacked
    }

    /// The bytes that are lost and not sent again.
    #[inline]
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// The bytes that are lost and in flight again.
    pub(crate) fn resent(&self) -> u64 {
        self.resent
    }

    /// Nothing is marked.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.sacked | self.lost | self.resent == 0
    }

    /// The estimate of the bytes in the network (RFC 6675, section 4).
    #[inline]
    pub(crate) fn pipe(&self) -> u64 {
        self.in_flight() - self.sacked - self.lost
    }

    /// The number of stretches.
    pub(crate) fn count(&self) -> usize {
        self.stretches.len()
    }

    /// Appends new data up to `end`.
    pub(crate) fn append(&mut self, end: u64, stamp: Stamp) {
        let start = self.nxt;
        if end <= start {
            return;
        }
        self.nxt = end;
        let count = self.stretches.len();
        if let Some(last) = self.stretches.back_mut() {
            let is_alike = last.mark == Mark::Sent
                && !last.was_resent
                && may_join(end - last.start, last.stamp, stamp, count);
            if is_alike || count >= STRETCHES_MAX {
                let (mark, length) = (last.mark, last.len());
                last.end = end;
                last.mark = Mark::Sent;
                last.stamp = stamp;
                self.uncount(mark, length);
                return;
            }
        }
        self.stretches.push_back(Stretch {
            start,
            end,
            mark: Mark::Sent,
            was_resent: false,
            stamp,
        });
    }

    /// Moves both ends of an empty flight to `end`.
    #[inline]
    pub(crate) fn skip(&mut self, end: u64) {
        if self.in_flight() == 0 && end > self.nxt {
            (self.una, self.nxt) = (end, end);
        }
    }

    /// Marks a range below the next new offset as sent again.
    pub(crate) fn resend(&mut self, range: Range<u64>, stamp: Stamp) {
        let range = range.start.max(self.una)..range.end.min(self.nxt);
        if range.is_empty() {
            return;
        }
        let first = self.cut(range.start).unwrap_or_else(|index| index);
        let after = self.cut(range.end).unwrap_or_else(|index| index + 1);
        for index in first..after {
            if self.get(index).is_some_and(|stretch| stretch.mark == Mark::Lost) {
                self.set_mark(index, Mark::Resent);
            }
            if let Some(stretch) = self.stretches.get_mut(index) {
                stretch.was_resent = true;
                stretch.stamp = stamp;
            }
        }
        if range.start <= self.lost_from {
            self.lost_from = self.lost_from.max(range.end);
        }
        self.join_resent(first);
    }

    /// Joins a resent stretch with its predecessor if both were sent again at about the same time.
    fn join_resent(&mut self, index: usize) {
        let count = self.stretches.len();
        let (Some(before), Some(here)) =
            (index.checked_sub(1).and_then(|before| self.get(before)), self.get(index))
        else {
            return;
        };
        let is_alike = before.mark == Mark::Resent
            && here.mark == Mark::Resent
            && may_join(here.end - before.start, before.stamp, here.stamp, count);
        if is_alike {
            let start = before.start;
            self.stretches.remove(index - 1);
            if let Some(here) = self.stretches.get_mut(index - 1) {
                here.start = start;
            }
        }
    }

    /// Removes everything below `ack` and shows each removed part. The caller has checked that `ack` is in the flight.
    pub(crate) fn acknowledge(&mut self, ack: u64, mut visit: impl FnMut(&Stretch)) {
        let ack = ack.min(self.nxt);
        while let Some(first) = self.stretches.front_mut() {
            if first.start >= ack {
                break;
            }
            let (mark, end) = (first.mark, first.end);
            first.end = end.min(ack);
            let length = first.len();
            visit(first);
            if end > ack {
                first.start = ack;
                first.end = end;
            } else {
                self.stretches.pop_front();
            }
            self.uncount(mark, length);
        }
        if self.stretches.is_empty() {
            self.release();
        }
        self.una = self.una.max(ack);
    }

    /// Marks a block as reported by the peer, and shows each newly reported stretch as it was.
    pub(crate) fn sack(&mut self, block: Range<u64>, mut visit: impl FnMut(&Stretch)) {
        let (mut start, mut end) = (block.start.max(self.una), block.end.min(self.nxt));
        if start >= end {
            return;
        }
        // Boundaries inside of a reported stretch would only have to merge again.
        if let Some(at) = self.get(self.index_of(start)).filter(|at| at.mark == Mark::Sacked) {
            start = at.end;
        }
        if let Some(at) = self.get(self.index_of(end - 1)).filter(|at| at.mark == Mark::Sacked) {
            end = at.start;
        }
        if start >= end {
            return;
        }
        let first = self.cut(start).unwrap_or_else(|index| index + 1);
        let after = self.cut(end).unwrap_or_else(|index| index);
        if first >= after {
            return;
        }
        for index in first..after {
            if let Some(stretch) = self.get(index).copied()
                && stretch.mark != Mark::Sacked
            {
                visit(&stretch);
                self.set_mark(index, Mark::Sacked);
            }
        }
        self.merge_sacked(first, after);
    }

    /// Merges the reported stretches `first..after` and their reported neighbours.
    fn merge_sacked(&mut self, first: usize, after: usize) {
        let is_sacked =
            |index: usize| self.get(index).is_some_and(|stretch| stretch.mark == Mark::Sacked);
        let first = if first > 0 && is_sacked(first - 1) { first - 1 } else { first };
        let after = if is_sacked(after) { after + 1 } else { after };
        let Some(end) = self.get(after - 1).map(|last| last.end) else { return };
        if let Some(stretch) = self.stretches.get_mut(first) {
            stretch.end = end;
            self.stretches.drain(first + 1..after);
        }
    }

    /// Marks the stretch with this index as lost. Returns the length that was in the pipe.
    pub(crate) fn lose(&mut self, index: usize) -> u64 {
        let Some(stretch) = self.get(index).copied() else { return 0 };
        if matches!(stretch.mark, Mark::Sacked | Mark::Lost) {
            return 0;
        }
        self.set_mark(index, Mark::Lost);
        self.lost_from = self.lost_from.min(stretch.start);
        stretch.len()
    }

    /// Marks the first `length` bytes of the flight as lost, or less if the first stretch is shorter. Returns the length that was in
    /// the pipe.
    pub(crate) fn lose_head(&mut self, length: u64) -> u64 {
        let end = self.una.saturating_add(length).min(self.nxt);
        // At the limit of stretches, the whole stretch is lost.
        let _ = self.cut(end);
        self.lose(0)
    }

    /// Marks everything as lost that SACK blocks did not report.
    pub(crate) fn lose_all(&mut self) {
        for index in 0..self.count() {
            self.lose(index);
        }
    }

    /// Takes back the mark of everything that is lost and not sent again.
    pub(crate) fn forgive(&mut self) {
        for index in 0..self.stretches.len() {
            if let Some(stretch) = self.stretches.get_mut(index)
                && stretch.mark == Mark::Lost
            {
                stretch.mark = Mark::Sent;
            }
        }
        self.lost = 0;
    }

    /// Forgets what SACK blocks reported: the peer may have dropped it (RFC 2018, section 8).
    pub(crate) fn forget_sacked(&mut self) {
        for index in 0..self.stretches.len() {
            if self.get(index).is_some_and(|stretch| stretch.mark == Mark::Sacked) {
                self.set_mark(index, Mark::Sent);
            }
        }
    }

    /// The first lost range that was not sent again.
    pub(crate) fn first_lost(&self) -> Option<Range<u64>> {
        if self.lost == 0 {
            return None;
        }
        let from = self.index_of(self.lost_from);
        let first = self.stretches.range(from..).find(|stretch| stretch.mark == Mark::Lost)?;
        Some(first.start..first.end)
    }

    /// Returns the stretch with an index.
    pub(crate) fn get(&self, index: usize) -> Option<&Stretch> {
        self.stretches.get(index)
    }

    /// The index of the stretch with an offset, the number of stretches if the offset is above them.
    fn index_of(&self, offset: u64) -> usize {
        match self.stretches.front() {
            Some(first) if offset < first.end => 0,
            _ => self.stretches.partition_point(|stretch| stretch.end <= offset),
        }
    }

    /// Makes a boundary at an offset. Returns the index of the stretch that starts there. Returns the index of the stretch that
    /// contains the offset as an error if no more stretches are allowed.
    fn cut(&mut self, offset: u64) -> Result<usize, usize> {
        let index = self.index_of(offset);
        let count = self.stretches.len();
        let Some(stretch) = self.stretches.get_mut(index) else { return Ok(index) };
        if stretch.start >= offset {
            return Ok(index);
        }
        if count >= STRETCHES_MAX {
            return Err(index);
        }
        let mut tail = *stretch;
        tail.start = offset;
        stretch.end = offset;
        self.stretches.insert(index + 1, tail);
        Ok(index + 1)
    }

    /// Gives memory back after a large flight.
    fn release(&mut self) {
        if self.stretches.capacity() > EXACT_MAX {
            self.stretches = VecDeque::new();
        }
    }

    fn set_mark(&mut self, index: usize, mark: Mark) {
        let Some(stretch) = self.stretches.get_mut(index) else { return };
        let (old, length) = (stretch.mark, stretch.len());
        stretch.mark = mark;
        self.uncount(old, length);
        match mark {
            Mark::Sent => {}
            Mark::Lost => self.lost += length,
            Mark::Resent => self.resent += length,
            Mark::Sacked => self.sacked += length,
        }
    }

    fn uncount(&mut self, mark: Mark, length: u64) {
        match mark {
            Mark::Sent => {}
            Mark::Lost => self.lost -= length,
            Mark::Resent => self.resent -= length,
            Mark::Sacked => self.sacked -= length,
        }
    }
}

/// Tells whether two transmissions may share a stretch of `length` bytes.
fn may_join(length: u64, left: Stamp, right: Stamp, count: usize) -> bool {
    if count >= EXACT_MAX {
        length <= JOINED_BYTES_MAX
    } else {
        length <= BURST_BYTES_MAX && left.sent_ns == right.sent_ns
    }
}
