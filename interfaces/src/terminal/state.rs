//! What a [`super::PortProxy`] knows of its port: output that is accepted and not taken, input that is taken and not
//! delivered, and the proxy's halves of the rings.
use super::{
    PortSink,
    entries::{ENTRIES, Entry, Input, Output},
};
use alloc::{collections::VecDeque, sync::Arc};
use rt::ring::{Consumer, Corrupt, Doorbell, Part, Producer};

/// Whether the driver has the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    Up,
    Down,
    Closed,
}

pub(super) struct State {
    pub(super) link: Link,
    /// Drivers so far.
    pub(super) epoch: u64,
    pub(super) output: Producer<Part, Entry>,
    /// Accepted and not yet taken by a driver; the first `in_ring` are in the ring.
    kept: VecDeque<Output>,
    in_ring: usize,
    /// Taken from this ring, as far as `kept` knows.
    settled: u64,
    /// Entries accepted, and taken, ever.
    accepted: u64,
    pub(super) done: u64,
    pub(super) input: Consumer<Part, Entry>,
    /// Left over in the rings of drivers that died.
    pub(super) left_over: VecDeque<Input>,
    pub(super) sink: Option<Arc<dyn PortSink>>,
    /// What the driver said last, and whether the sink must be told.
    pub(super) is_open: Option<bool>,
    pub(super) window: Option<(u16, u16)>,
    pub(super) is_sink_new: bool,
}

/// What a sink is told: whether the other end is open, and the window.
pub(super) type News = (Option<bool>, Option<(u16, u16)>);

impl State {
    pub(super) fn new(output: Producer<Part, Entry>, input: Consumer<Part, Entry>) -> State {
        State {
            link: Link::Down,
            epoch: 0,
            output,
            kept: VecDeque::with_capacity(ENTRIES),
            in_ring: 0,
            settled: 0,
            accepted: 0,
            done: 0,
            input,
            left_over: VecDeque::new(),
            sink: None,
            is_open: None,
            window: None,
            is_sink_new: false,
        }
    }

    /// Forgets what the driver has taken.
    pub(super) fn settle(&mut self) -> Result<(), Corrupt> {
        let taken = self.output.taken()?;
        while self.settled < taken && self.in_ring > 0 {
            self.kept.pop_front();
            self.settled += 1;
            self.in_ring -= 1;
            self.done += 1;
        }
        Ok(())
    }

    /// Takes `output` where there is room; its number.
    pub(super) fn accept(&mut self, output: Output) -> Option<u64> {
        if self.kept.len() >= ENTRIES {
            return None;
        }
        self.kept.push_back(output);
        self.accepted += 1;
        Some(self.accepted)
    }

    /// Puts what is kept into the ring.
    pub(super) fn send(&mut self) -> Result<Doorbell, Corrupt> {
        let mut doorbell = Doorbell::Silent;
        while self.link == Link::Up
            && let Some(output) = self.kept.get(self.in_ring)
        {
            if self.output.push(&output.encode()).map_err(|_| Corrupt)? == Doorbell::Ring {
                doorbell = Doorbell::Ring;
            }
            self.in_ring += 1;
        }
        Ok(doorbell)
    }

    /// Announces that a sender waits; then looks again what was taken.
    pub(super) fn begin_wait(&mut self) -> Result<(), Corrupt> {
        self.output.wait_begins()?;
        self.settle()
    }

    /// The driver is no more: what it took is settled, what it brought is kept, the rest is to be sent again.
    pub(super) fn recall(&mut self) {
        if self.settle().is_err() {
            log::error!("a driver left a count that cannot be");
        }
        while let Ok(Some((entry, _))) = self.input.pop() {
            let Ok(input) = Input::decode(&entry) else { break };
            self.left_over.push_back(input);
        }
        (self.in_ring, self.settled) = (0, 0);
        self.link = Link::Down;
    }

    /// The next entry of input, and whether the driver waits for its place.
    pub(super) fn next_input(&mut self) -> Result<Option<(Input, Doorbell)>, Corrupt> {
        if let Some(input) = self.left_over.pop_front() {
            return Ok(Some((input, Doorbell::Silent)));
        }
        let Some((entry, doorbell)) = self.input.pop()? else { return Ok(None) };
        Ok(Some((Input::decode(&entry)?, doorbell)))
    }

    /// What a new sink must be told.
    pub(super) fn take_news(&mut self) -> News {
        if core::mem::take(&mut self.is_sink_new) {
            (self.is_open, self.window)
        } else {
            (None, None)
        }
    }
}
