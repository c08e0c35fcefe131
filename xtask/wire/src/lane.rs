//! [`Lane`]: one direction of the wire, with its faults, the frames under way and [`Counters`] of what became of all frames.
use crate::faults::{Fate, Fates, Faults};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    time::Duration,
};

/// Numbers of a direction's frames by what became of them. Each frame that was taken, and each copy, is in the end lost, dropped, delivered,
/// undelivered or still under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that the sender gave.
    pub taken: u64,
    /// Frames of a length that no Ethernet frame has; they are not among those taken.
    pub refused: u64,
    /// Frames that the faults lost.
    pub lost: u64,
    /// Copies that the faults made.
    pub doubled: u64,
    /// Frames with a flipped bit.
    pub corrupted: u64,
    /// Frames that others were to overtake.
    pub reordered: u64,
    /// Frames dropped because too many were under way.
    pub dropped: u64,
    /// Frames that the receiver took.
    pub delivered: u64,
    /// Frames for which no receiver was there.
    pub undelivered: u64,
}

/// Greatest number of frames under way.
const UNDER_WAY: usize = 4096;
/// Time after which a frame that waits to be overtaken goes on alone.
const HOLD: Duration = Duration::from_millis(10);
/// Length of the addresses and the type before a frame's packet.
pub const HEADER: usize = 14;
/// Types of the frames whose packets have checksums.
const WITH_CHECKSUM: [[u8; 2]; 2] = [[0x08, 0x00], [0x86, 0xdd]];

/// A frame under way: the time at which it is there, its place among those of the same time, its bytes.
type Flight = Reverse<(Duration, u64, Vec<u8>)>;

/// A frame that waits to be overtaken.
struct Held {
    left: usize,
    due: Duration,
    frame: Vec<u8>,
}

/// One direction of the wire.
pub struct Lane {
    faults: Faults,
    fates: Fates,
    counters: Counters,
    flights: BinaryHeap<Flight>,
    held: VecDeque<Held>,
    order: u64,
    /// The time at which the last byte has left.
    busy_until: Duration,
}

impl Lane {
    /// Makes a direction whose faults follow from `seed`.
    pub fn new(faults: Faults, seed: u64) -> Lane {
        Lane {
            faults,
            fates: Fates::new(faults, seed),
            counters: Counters::default(),
            flights: BinaryHeap::new(),
            held: VecDeque::new(),
            order: 0,
            busy_until: Duration::ZERO,
        }
    }

    /// Returns what became of the frames so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the number of frames under way.
    pub fn under_way(&self) -> usize {
        self.flights.len() + self.held.len()
    }

    /// Counts a frame that the wire does not take.
    pub fn refuse(&mut self) {
        self.counters.refused += 1;
    }

    /// Takes a frame from the sender. Returns what is done to it, for the capture; empty if it passes whole.
    pub fn enter(&mut self, mut frame: Vec<u8>, now: Duration) -> String {
        self.counters.taken += 1;
        let Some(fate) = self.fates.next() else { return String::new() };
        let due = self.departure(frame.len(), now) + fate.jitter;
        if fate.is_lost {
            self.counters.lost += 1;
            return "lost".to_owned();
        }
        if self.under_way() >= UNDER_WAY {
            self.counters.dropped += 1;
            return "dropped: too many frames under way".to_owned();
        }
        let mut marks = Vec::new();
        if let Some(bit) = fate.flip.and_then(|draw| flip(&mut frame, draw)) {
            self.counters.corrupted += 1;
            marks.push(format!("bit {bit} flipped"));
        }
        if fate.is_doubled {
            self.counters.doubled += 1;
            marks.push("doubled".to_owned());
        }
        if fate.overtaken_by > 0 {
            self.counters.reordered += 1;
            marks.push(format!("overtaken by {}", fate.overtaken_by));
        }
        self.depart(frame, fate, due);
        marks.join(", ")
    }

    /// Returns the time at which a frame of this length that comes now is there, without its jitter.
    fn departure(&mut self, length: usize, now: Duration) -> Duration {
        let start = self.busy_until.max(now);
        let nanoseconds = 1_000_000_000 * length as u64;
        let sending = nanoseconds.checked_div(self.faults.bytes_per_second).unwrap_or(0);
        self.busy_until = start + Duration::from_nanos(sending);
        self.busy_until + Duration::from_micros(self.faults.delay_us)
    }

    /// Sends a frame and its copy on their way, and those that it is the last to overtake.
    fn depart(&mut self, frame: Vec<u8>, fate: Fate, due: Duration) {
        if fate.is_doubled {
            self.fly(due, frame.clone());
        }
        if fate.overtaken_by > 0 {
            self.held.push_back(Held { left: fate.overtaken_by, due, frame });
            return;
        }
        self.fly(due, frame);
        for held in &mut self.held {
            held.left -= 1;
            held.due = held.due.max(due);
        }
        self.release(|held| held.left == 0);
    }

    fn fly(&mut self, due: Duration, frame: Vec<u8>) {
        self.order += 1;
        self.flights.push(Reverse((due, self.order, frame)));
    }

    /// Lets those of the held frames fly that have been held long enough.
    fn release(&mut self, is_over: impl Fn(&Held) -> bool) {
        for held in std::mem::take(&mut self.held) {
            match is_over(&held) {
                true => self.fly(held.due, held.frame),
                false => self.held.push_back(held),
            }
        }
    }

    /// Returns the next frame that is there now.
    pub fn due(&mut self, now: Duration) -> Option<&[u8]> {
        self.release(|held| held.due + HOLD <= now);
        let Reverse((due, _, frame)) = self.flights.peek()?;
        (*due <= now).then_some(frame.as_slice())
    }

    /// Ends the way of the frame that [`Lane::due`] returned: its receiver has taken it.
    pub fn deliver(&mut self) {
        self.counters.delivered += u64::from(self.flights.pop().is_some());
    }

    /// Ends the way of the frame that [`Lane::due`] returned: nobody was there.
    pub fn discard(&mut self) {
        self.counters.undelivered += u64::from(self.flights.pop().is_some());
    }

    /// Returns the time at which the next frame is there.
    pub fn next_due(&self) -> Option<Duration> {
        let first = self.flights.peek().map(|Reverse((due, ..))| *due);
        let held = self.held.iter().map(|held| held.due + HOLD);
        first.into_iter().chain(held).min()
    }
}

/// Flips a bit of a frame's packet, if that is one of IP. Returns the number of the bit in the frame.
fn flip(frame: &mut [u8], draw: usize) -> Option<usize> {
    const BYTE: usize = 8;
    let kind = frame.get(HEADER - 2..HEADER)?;
    let bits = (frame.len() - HEADER) * BYTE;
    if bits == 0 || !WITH_CHECKSUM.iter().any(|known| known == kind) {
        return None;
    }
    let bit = HEADER * BYTE + draw % bits;
    frame[bit / BYTE] ^= 1 << (bit % BYTE);
    Some(bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 frame that begins with its number.
    fn frame(number: u8) -> Vec<u8> {
        let mut frame = vec![number; 60];
        frame[HEADER - 2..HEADER].copy_from_slice(&WITH_CHECKSUM[0]);
        frame
    }

    fn sent(faults: Faults, count: u8) -> Lane {
        let mut lane = Lane::new(faults, 7);
        for number in 0..count {
            lane.enter(frame(number), Duration::ZERO);
        }
        lane
    }

    fn arrived(lane: &mut Lane, now: Duration) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        while let Some(frame) = lane.due(now) {
            all.push(frame.to_vec());
            lane.deliver();
        }
        all
    }

    fn is_balanced(lane: &Lane) -> bool {
        let of = lane.counters();
        let ends = of.lost + of.dropped + of.delivered + of.undelivered;
        of.taken + of.doubled == ends + lane.under_way() as u64
    }

    #[test]
    fn a_good_wire_brings_every_frame_in_order_after_the_delay() {
        let mut lane = sent(Faults { delay_us: 100, ..Faults::default() }, 50);
        assert_eq!(lane.next_due(), Some(Duration::from_micros(100)));
        assert!(lane.due(Duration::from_micros(99)).is_none());
        let wanted: Vec<_> = (0..50).map(frame).collect();
        assert_eq!(arrived(&mut lane, Duration::from_micros(100)), wanted);
        assert!(is_balanced(&lane) && lane.next_due().is_none());
    }

    #[test]
    fn a_held_frame_is_overtaken_and_the_last_one_comes_too() {
        let mut lane = sent(Faults { reordering: 0.3, ..Faults::default() }, 100);
        let mut came = arrived(&mut lane, Duration::ZERO);
        let late = arrived(&mut lane, HOLD);
        came.extend(late);
        let numbers: Vec<u8> = came.iter().map(|frame| frame[0]).collect();
        assert!(!numbers.is_sorted());
        let mut sorted = numbers;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..100));
        assert!(lane.counters().reordered > 10 && is_balanced(&lane));
        // All frames are held: each goes on alone.
        let mut lane = sent(Faults { reordering: 1.0, ..Faults::default() }, 3);
        assert!(arrived(&mut lane, Duration::ZERO).is_empty());
        assert_eq!(lane.next_due(), Some(HOLD));
        assert_eq!(arrived(&mut lane, HOLD).len(), 3);
    }

    #[test]
    fn a_corrupted_frame_differs_in_one_bit_of_its_packet() {
        let mut lane = sent(Faults { corruption: 1.0, ..Faults::default() }, 100);
        for (number, came) in (0..).zip(arrived(&mut lane, Duration::ZERO)) {
            let whole = frame(number);
            let bits = whole.iter().zip(&came).map(|(one, other)| (one ^ other).count_ones());
            assert_eq!(bits.sum::<u32>(), 1);
            assert_eq!(whole[..HEADER], came[..HEADER]);
        }
        assert_eq!(lane.counters().corrupted, 100);
        let mut arp = frame(1);
        arp[HEADER - 1] = 6;
        assert!(lane.enter(arp, Duration::ZERO).is_empty(), "ARP has no checksum");
        assert!(lane.enter(frame(1)[..HEADER].to_vec(), Duration::ZERO).is_empty());
        assert_eq!(lane.counters().corrupted, 100);
    }

    #[test]
    fn lost_doubled_and_dropped_frames_are_counted() {
        let faults = Faults { loss: 0.2, duplication: 0.2, ..Faults::default() };
        let mut lane = sent(faults, 200);
        assert!(is_balanced(&lane));
        let came = arrived(&mut lane, Duration::ZERO).len() as u64;
        let counters = lane.counters();
        assert_eq!(came, 200 - counters.lost + counters.doubled);
        assert!(counters.lost > 10 && counters.doubled > 10 && is_balanced(&lane));
        let mut lane = Lane::new(Faults::default(), 1);
        for _ in 0..=UNDER_WAY {
            lane.enter(frame(0), Duration::ZERO);
        }
        assert_eq!((lane.under_way(), lane.counters().dropped), (UNDER_WAY, 1));
    }

    #[test]
    fn a_narrow_wire_brings_so_many_bytes_in_a_second() {
        let mut lane = sent(Faults { bytes_per_second: 60_000, ..Faults::default() }, 100);
        for millisecond in 1..=100 {
            let now = Duration::from_millis(millisecond);
            assert_eq!(arrived(&mut lane, now).len(), 1, "one frame of 60 bytes in {now:?}");
        }
    }

    #[test]
    fn the_same_seed_does_the_same() {
        let faults = Faults {
            loss: 0.1,
            duplication: 0.1,
            corruption: 0.1,
            reordering: 0.1,
            jitter_us: 30,
            ..Faults::default()
        };
        let [mut one, mut other] = [sent(faults, 200), sent(faults, 200)];
        assert_eq!(arrived(&mut one, HOLD * 2), arrived(&mut other, HOLD * 2));
        assert_eq!(one.counters(), other.counters());
    }
}
