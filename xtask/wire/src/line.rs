//! [`Line`]: two ends and the lanes between them, moved on by whoever has the clock: the thread of a [`crate::Wire`], or a test
//! whose clock jumps to the next event.
use crate::{
    capture::Capture,
    end::{End, Receipt},
    faults::Faults,
    lane::{Counters, HEADER, Lane},
};
use anyhow::{Result, bail, ensure};
use std::{
    os::fd::BorrowedFd,
    path::PathBuf,
    time::{Duration, Instant},
};

/// Properties of a wire.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The faults of both directions follow from it.
    pub seed: u64,
    /// Greatest length of a packet; a frame has the Ethernet header besides.
    pub mtu: usize,
    /// The faults of frames from the first end, and from the second.
    pub faults: [Faults; 2],
    /// The file that frames are captured in, if any.
    pub capture: Option<PathBuf>,
}

/// The packet length of Ethernet.
pub const MTU: usize = 1500;

impl Default for Settings {
    fn default() -> Settings {
        Settings { seed: 1, mtu: MTU, faults: [Faults::default(); 2], capture: None }
    }
}

/// Two ends, and a lane from each to the other.
pub struct Line {
    ends: [Box<dyn End>; 2],
    /// The lanes by their sender.
    lanes: [Lane; 2],
    /// Receivers that had no room.
    is_full: [bool; 2],
    mtu: usize,
    capture: Option<Capture>,
}

/// Greatest number of frames that an end sends before the other's turn.
const TURN: usize = 64;

impl Line {
    /// Joins two ends.
    ///
    /// # Errors
    /// Fails if the faults are wrong or the capture cannot be written.
    pub fn new(settings: &Settings, ends: [Box<dyn End>; 2]) -> Result<Line> {
        let [first, second] = settings.faults;
        first.check()?;
        second.check()?;
        let create = |path: &PathBuf| Capture::create(path, ["first", "second"]);
        let seed = settings.seed.wrapping_mul(2);
        Ok(Line {
            ends,
            lanes: [Lane::new(first, seed), Lane::new(second, seed.wrapping_add(1))],
            is_full: [false; 2],
            mtu: settings.mtu,
            capture: settings.capture.as_ref().map(create).transpose()?,
        })
    }

    /// Lets the ends send what they have now, and brings the frames that are there. Returns the time of the next turn, unless a
    /// bell or an outlet comes first.
    ///
    /// # Errors
    /// An end that can never send again, or a capture that cannot be written.
    pub fn turn(&mut self, now: Duration) -> Result<Option<Duration>> {
        let mut has_moved = false;
        for sender in 0..self.ends.len() {
            has_moved |= self.gather(sender, now)? > 0;
            has_moved |= self.bring(sender, now) > 0;
        }
        if has_moved {
            return Ok(Some(now));
        }
        self.capture.as_mut().map_or(Ok(()), Capture::flush)?;
        let own = self.ends.iter_mut().filter_map(|end| end.wakes_at(now));
        let lanes = self.lanes.iter().zip(&self.is_full);
        let lanes = lanes.filter(|(_, is_full)| !**is_full).filter_map(|(lane, _)| lane.next_due());
        Ok(own.chain(lanes).min())
    }

    /// Takes what `sender` sends. Returns the number of frames.
    fn gather(&mut self, sender: usize, now: Duration) -> Result<usize> {
        for count in 0..TURN {
            let Some(frame) = self.ends[sender].say(now)? else { return Ok(count) };
            if !(HEADER..=HEADER + self.mtu).contains(&frame.len()) {
                self.lanes[sender].refuse();
                continue;
            }
            let copy = self.capture.as_ref().map(|_| frame.clone());
            let marks = self.lanes[sender].enter(frame, now);
            if let (Some(capture), Some(frame)) = (&mut self.capture, copy) {
                capture.add(sender as u32, now, &frame, &marks)?;
            }
        }
        Ok(TURN)
    }

    /// Brings the frames of `sender` that are there to the other end. Returns their number.
    fn bring(&mut self, sender: usize, now: Duration) -> usize {
        let (lane, receiver) = (&mut self.lanes[sender], &mut self.ends[1 - sender]);
        let mut count = 0;
        self.is_full[sender] = false;
        while let Some(frame) = lane.due(now) {
            match receiver.hear(frame, now) {
                Receipt::Taken => lane.deliver(),
                Receipt::Absent => lane.discard(),
                Receipt::Full => {
                    self.is_full[sender] = true;
                    break;
                }
            }
            count += 1;
        }
        count
    }

    /// Returns what became of the frames of both directions.
    pub fn counters(&self) -> [Counters; 2] {
        [self.lanes[0].counters(), self.lanes[1].counters()]
    }

    /// Returns the bells of both ends.
    pub fn bells(&self) -> [BorrowedFd<'_>; 2] {
        [self.ends[0].bell(), self.ends[1].bell()]
    }

    /// Returns the outlets of the receivers that had no room.
    pub fn outlets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let full = (0..self.ends.len()).filter(|sender| self.is_full[*sender]);
        full.filter_map(|sender| self.ends[1 - sender].outlet())
    }

    /// Moves on by a clock that jumps from event to event, until `is_over` or the time limit. Returns the time.
    ///
    /// # Errors
    /// Those of [`Line::turn`]; if nothing more happens; at the limit.
    pub fn run_until(
        &mut self,
        mut now: Duration,
        limit: Duration,
        mut is_over: impl FnMut() -> bool,
    ) -> Result<Duration> {
        let guard = Instant::now();
        while !is_over() {
            match self.turn(now)? {
                Some(next) => now = now.max(next),
                None if is_over() => break,
                None => bail!("nothing happens after {now:?}"),
            }
            ensure!(now < limit, "not over at {now:?}");
            ensure!(guard.elapsed() < GUARD, "the clock stands at {now:?}");
        }
        Ok(now)
    }
}

/// Time of the machine that a run by a jumping clock may take.
const GUARD: Duration = Duration::from_secs(240);
