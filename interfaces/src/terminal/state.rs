//! State of a port in a [`super::PortProxy`]: output that was accepted and is not at the device, input that was taken and not
//! delivered, and the positions of both streams.
use super::{
    PortSink, Position,
    entries::{Chunk, ENTRIES, EncodedEntry, InputEntry, Output},
};
use crate::{
    AttachError,
    link::{Linked, Rings, Traffic},
};
use alloc::{collections::VecDeque, sync::Arc};
use rt::ring::{Consumer, Corrupt, Doorbell, Part, Producer};

pub(super) struct TerminalState {
    pub(super) received: Consumer<Part, EncodedEntry>,
    /// Output that was accepted and is not at the device. The first `in_ring` entries are in the ring.
    kept: VecDeque<Output>,
    in_ring: usize,
    /// Entries that the driver took from this ring and that are removed from `kept`.
    settled: u64,
    /// Numbers of entries accepted and taken so far.
    accepted: u64,
    pub(super) done: u64,
    position: Position,
    /// Input left over in the rings of drivers that died.
    left_over: VecDeque<InputEntry>,
    pub(super) sink: Option<Arc<dyn PortSink>>,
    /// State of the other end that the driver last reported, if the sink must still be told.
    pub(super) is_open: Option<bool>,
    pub(super) window: Option<(u16, u16)>,
    pub(super) is_sink_new: bool,
}

/// News for a sink: whether the other end is open, and the window.
pub(super) type News = (Option<bool>, Option<(u16, u16)>);

impl Traffic for TerminalState {
    type Sent = EncodedEntry;

    /// Settles the output that the dead driver took, keeps the input that it brought, and queues the rest of the output to be
    /// sent again.
    fn renew(
        &mut self,
        sent: &Producer<Part, EncodedEntry>,
        rings: &Rings,
    ) -> Result<Producer<Part, EncodedEntry>, AttachError> {
        if self.settle(sent).is_err() {
            log::error!("a driver left a count that cannot be");
        }
        while let Ok(Some((input, _))) = self.pop() {
            self.left_over.push_back(input);
        }
        (self.in_ring, self.settled) = (0, 0);
        rings.clear();
        let (sent, received) = rings.client()?;
        self.received = received;
        Ok(sent)
    }

    /// Puts kept output into the ring.
    fn send(&mut self, ring: &mut Producer<Part, EncodedEntry>) -> Result<Doorbell, Corrupt> {
        let mut doorbell = Doorbell::Silent;
        while let Some(output) = self.kept.get(self.in_ring) {
            if ring.push(&output.encode()).map_err(|_| Corrupt)? == Doorbell::Ring {
                doorbell = Doorbell::Ring;
            }
            self.in_ring += 1;
        }
        Ok(doorbell)
    }
}

impl TerminalState {
    pub(super) fn new(received: Consumer<Part, EncodedEntry>) -> TerminalState {
        TerminalState {
            received,
            kept: VecDeque::with_capacity(ENTRIES),
            in_ring: 0,
            settled: 0,
            accepted: 0,
            done: 0,
            position: Position::default(),
            left_over: VecDeque::new(),
            sink: None,
            is_open: None,
            window: None,
            is_sink_new: false,
        }
    }

    /// Returns the number of the first entry that the driver was given and has not taken, and the number of the next entry.
    pub(super) fn under_way(&self) -> (Option<u64>, u64) {
        ((self.in_ring > 0).then_some(self.done), self.accepted)
    }

    /// Takes the positions of both streams at which the client begins.
    pub(super) fn begin(&mut self, position: Position) {
        self.position = position;
    }

    /// Returns the positions of both streams.
    pub(super) fn position(&self) -> Position {
        self.position
    }

    /// Returns whether input of dead drivers is left over.
    pub(super) fn has_left_over(&self) -> bool {
        !self.left_over.is_empty()
    }

    /// Takes the next entry of left-over input. With the last one its memory is freed.
    fn take_left_over(&mut self) -> Option<InputEntry> {
        let input = self.left_over.pop_front();
        if self.left_over.is_empty() {
            self.left_over = VecDeque::new();
        }
        input
    }

    /// Forgets output that the driver has taken.
    fn settle(&mut self, ring: &Producer<Part, EncodedEntry>) -> Result<(), Corrupt> {
        let taken = ring.taken()?;
        while self.settled < taken && self.in_ring > 0 {
            self.forget_first();
            self.settled += 1;
            self.in_ring -= 1;
        }
        Ok(())
    }

    fn forget_first(&mut self) {
        if let Some(Output::Bytes(chunk)) = self.kept.pop_front() {
            self.position.sent += chunk.as_slice().len() as u64;
        }
        self.done += 1;
    }

    /// Forgets output that the device had beyond what its dead driver reported. The successor found it. The ring is empty.
    pub(super) fn settle_at(&mut self, sent: u64) {
        while self.position.sent < sent {
            match self.kept.front_mut() {
                Some(Output::Bytes(chunk)) => {
                    let length = chunk.as_slice().len() as u64;
                    let has = (sent - self.position.sent).min(length);
                    if has == length {
                        self.forget_first();
                        continue;
                    }
                    let rest = chunk.as_slice().get(has as usize..).unwrap_or_default();
                    *chunk = Chunk::first_of(rest);
                    self.position.sent += has;
                }
                Some(Output::Drain) => self.forget_first(),
                None => return log::error!("a driver says that it sent what it was not given"),
            }
        }
    }

    /// Accepts `output` if there is room. Returns its number.
    pub(super) fn accept(&mut self, output: Output) -> Option<u64> {
        if self.kept.len() >= ENTRIES {
            return None;
        }
        self.kept.push_back(output);
        self.accepted += 1;
        Some(self.accepted)
    }

    fn pop(&mut self) -> Result<Option<(InputEntry, Doorbell)>, Corrupt> {
        let Some((entry, doorbell)) = self.received.pop()? else { return Ok(None) };
        let input = InputEntry::decode(&entry)?;
        if let InputEntry::Bytes(chunk) = &input {
            self.position.received += chunk.as_slice().len() as u64;
        }
        Ok(Some((input, doorbell)))
    }

    /// Takes the news for a new sink.
    pub(super) fn take_news(&mut self) -> News {
        if core::mem::take(&mut self.is_sink_new) {
            (self.is_open, self.window)
        } else {
            (None, None)
        }
    }
}

impl Linked<TerminalState> {
    /// Returns whether the other end is closed.
    pub(super) fn is_gone(&self) -> bool {
        self.is_closed() || self.traffic.is_open == Some(false)
    }

    /// Forgets output that the driver has taken.
    pub(super) fn settle(&mut self) -> Result<(), Corrupt> {
        self.traffic.settle(&self.sent)
    }

    /// Announces that a sender waits, and then checks again what the driver took.
    pub(super) fn begin_wait(&mut self) -> Result<(), Corrupt> {
        self.sent.wait_begins()?;
        self.settle()
    }

    /// Takes the next entry of input, and whether the driver waits for its place.
    pub(super) fn next_input(&mut self) -> Result<Option<(InputEntry, Doorbell)>, Corrupt> {
        if let Some(input) = self.traffic.take_left_over() {
            return Ok(Some((input, Doorbell::Silent)));
        }
        self.traffic.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::entries;
    use alloc::vec::Vec;

    #[test]
    fn what_a_driver_leaves_over_comes_in_order_and_takes_no_memory_afterwards() {
        let rings = Rings::new(entries::RINGS).unwrap();
        let (sent, received) = rings.client::<EncodedEntry, EncodedEntry>().unwrap();
        let (mut brings, _) = rings.driver::<EncodedEntry, EncodedEntry>().unwrap();
        let inputs: Vec<InputEntry> =
            (0..20).map(|at| InputEntry::Bytes(Chunk::first_of(&[at; 3]))).collect();
        inputs.iter().for_each(|input| assert!(brings.push(&input.encode()).is_ok()));
        let mut state = TerminalState::new(received);
        assert!(state.renew(&sent, &rings).is_ok());
        assert_eq!(state.position().received, 60);
        let taken: Vec<InputEntry> = core::iter::from_fn(|| state.take_left_over()).collect();
        assert_eq!(taken, inputs);
        assert_eq!(state.left_over.capacity(), 0);
    }
}
