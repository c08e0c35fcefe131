//! A medium that crashes, writers that die, and media with anything on them.
use crate::machine::LogMachine;
use audit_log::{BLOCK_BYTES, PieceJoiner, RecordPiece, pieces};
use interfaces::audit_log::{
    BLOCKS_BYTES, BlockRun, LogEvent, LogMemory, LogRefusal, LogState, LogStep, RECORDS_BYTES,
};
use proptest::prelude::*;
use rt::memory::Region;
use std::{collections::BTreeMap, format, string::String, vec, vec::Vec};

extern crate std;

const MEDIUM: u64 = 8 + 512;
/// No event of the client takes more steps.
const STEPS_MAX: usize = 64;

/// A device with a volatile cache.
#[derive(Clone)]
struct Medium {
    durable: Vec<u8>,
    cached: BTreeMap<u64, Vec<u8>>,
}

impl Medium {
    fn new() -> Medium {
        Medium { durable: vec![0; MEDIUM as usize * BLOCK_BYTES], cached: BTreeMap::new() }
    }
    fn place(block: u64) -> std::ops::Range<usize> {
        block as usize * BLOCK_BYTES..(block as usize + 1) * BLOCK_BYTES
    }
    fn read(&self, block: u64) -> Vec<u8> {
        let durable = || self.durable[Medium::place(block)].to_vec();
        self.cached.get(&block).cloned().unwrap_or_else(durable)
    }
    fn write(&mut self, block: u64, bytes: Vec<u8>) {
        assert!(block < MEDIUM && bytes.len() == BLOCK_BYTES);
        self.cached.insert(block, bytes);
    }
    fn flush(&mut self) {
        for (block, bytes) in std::mem::take(&mut self.cached) {
            self.durable[Medium::place(block)].copy_from_slice(&bytes);
        }
    }
    /// Loses power: of the writes that were not flushed, those are done whose bit of `kept` is set.
    fn crash(&mut self, kept: u64) {
        let cached = std::mem::take(&mut self.cached);
        for (index, (block, bytes)) in cached.into_iter().enumerate() {
            if kept >> (index % 64) & 1 != 0 {
                self.durable[Medium::place(block)].copy_from_slice(&bytes);
            }
        }
    }
}

/// The client, as the personality has one.
struct Client {
    medium: Medium,
    memory: LogMemory,
    machine: LogMachine,
    id: u64,
}

impl Client {
    fn new(medium: Medium) -> Client {
        let region = Region::new(BLOCKS_BYTES + RECORDS_BYTES).unwrap();
        let memory = LogMemory::of(region).unwrap();
        let machine = LogMachine::new(memory.clone(), MEDIUM, 77);
        Client { medium, memory, machine, id: 77 }
    }
    /// Begins anew with another writer.
    fn restart(&mut self) {
        self.id += 1;
        self.machine = LogMachine::new(self.memory.clone(), MEDIUM, self.id);
    }
    fn step(&mut self, step: LogStep) {
        let each = |run: BlockRun| (0..run.count).map(move |at| (run.first + at, run.place + at));
        let at = |place: u64| place as usize * BLOCK_BYTES;
        match step {
            LogStep::Read(run) => each(run).for_each(|(block, place)| {
                self.memory.put_blocks(at(place), &self.medium.read(block));
            }),
            LogStep::Write(run) => each(run).for_each(|(block, place)| {
                self.medium.write(block, self.memory.blocks(at(place), BLOCK_BYTES));
            }),
            LogStep::Flush => self.medium.flush(),
            LogStep::Settled(_) | LogStep::Refused(_) => unreachable!(),
        }
    }
    /// Does an event to its end, or to its step `steps`.
    fn run_to(&mut self, event: LogEvent, steps: usize) -> Option<Result<LogState, LogRefusal>> {
        let mut event = event;
        for _ in 0..steps.min(STEPS_MAX) {
            match self.machine.advance(event) {
                LogStep::Settled(state) => return Some(Ok(state)),
                LogStep::Refused(why) => return Some(Err(why)),
                step => self.step(step),
            }
            event = LogEvent::Done;
        }
        assert!(steps < STEPS_MAX, "it does not end");
        None
    }
    fn run(&mut self, event: LogEvent) -> Result<LogState, LogRefusal> {
        self.run_to(event, usize::MAX).unwrap()
    }
    fn list(&mut self, first: u64, count: u64) -> LogEvent {
        let mut list = Vec::new();
        for number in first..first + count {
            RecordPiece::whole(number, 1300, text(number).as_bytes()).put(&mut list);
        }
        assert!(list.len() <= RECORDS_BYTES);
        self.memory.put_records(&list);
        LogEvent::Append(list.len())
    }
    /// Returns the numbers of all records; their texts are right.
    fn numbers(&mut self) -> Vec<u64> {
        let mut numbers = Vec::new();
        let mut joiner = PieceJoiner::default();
        let mut at = 0;
        loop {
            let state = self.run(LogEvent::Read(at)).unwrap();
            if state.cursor == state.end && state.bytes == 0 {
                return numbers;
            }
            at = state.cursor;
            for piece in pieces(&self.memory.records(state.bytes)) {
                if let Some((number, kind, found)) = joiner.take(&piece) {
                    assert!(kind == 1300 && found == text(number).as_bytes(), "{number}");
                    numbers.push(number);
                }
            }
        }
    }
}

/// The text of a record: some are longer than blocks.
fn text(number: u64) -> String {
    let length =
        number.wrapping_mul(0x9e37_79b9) % 97 * if number.is_multiple_of(11) { 30 } else { 5 };
    format!("{number}:{}", "x".repeat(length as usize))
}

#[test]
fn records_are_read_as_they_were_written() {
    let mut client = Client::new(Medium::new());
    let state = client.run(LogEvent::Done).unwrap();
    assert_eq!((state.record, state.first, state.end, state.blocks), (1, 0, 0, 512));
    let event = client.list(1, 40);
    assert_eq!(client.run(event).unwrap().record, 41);
    assert_eq!(client.numbers(), (1..41).collect::<Vec<_>>());
    client.restart();
    assert_eq!(client.run(LogEvent::Done).unwrap().record, 41);
    assert_eq!(client.numbers(), (1..41).collect::<Vec<_>>());
}

#[test]
fn a_full_medium_takes_nothing_until_blocks_are_released() {
    let mut client = Client::new(Medium::new());
    client.run(LogEvent::Done).unwrap();
    let mut next = 1;
    let state = loop {
        let event = client.list(next, 20);
        let state = client.run(event).unwrap();
        if state.record == next {
            break state;
        }
        next = state.record;
    };
    assert!(state.end - state.first <= state.blocks);
    assert_eq!(client.numbers(), (1..next).collect::<Vec<_>>());
    let state = client.run(LogEvent::Release(state.end)).unwrap();
    assert_eq!((state.first, state.record), (state.end, next));
    client.restart();
    assert_eq!(client.run(LogEvent::Done).unwrap().record, next, "of an empty log");
    let event = client.list(next, 3);
    assert_eq!(client.run(event).unwrap().record, next + 3);
    assert_eq!(client.numbers(), (next..next + 3).collect::<Vec<_>>());
}

#[test]
fn a_foreign_medium_is_left_alone() {
    // The places of a partition table, and of the heads of ext4 and btrfs.
    for place in [510, 1024 + 56, 65536 + 64] {
        let mut medium = Medium::new();
        medium.durable[place] = 1;
        let before = medium.durable.clone();
        let mut client = Client::new(medium);
        assert_eq!(client.run(LogEvent::Done), Err(LogRefusal::Foreign));
        let event = client.list(1, 3);
        assert_eq!(client.run(event), Err(LogRefusal::Foreign));
        assert!(client.medium.durable == before && client.medium.cached.is_empty());
    }
}

#[test]
fn damage_takes_only_the_records_in_it() {
    let mut client = Client::new(Medium::new());
    client.run(LogEvent::Done).unwrap();
    for first in [1, 41, 81] {
        let event = client.list(first, 40);
        client.run(event).unwrap();
    }
    let end = client.run(LogEvent::Read(0)).unwrap().end;
    for block in [3, end / 2, end / 2 + 1] {
        client.medium.durable[(8 + block) as usize * BLOCK_BYTES + 60] ^= 1;
    }
    client.restart();
    let state = client.run(LogEvent::Done).unwrap();
    assert_eq!((state.record, state.end), (121, end));
    let found = client.numbers();
    assert!(found.len() > 100 && found.len() < 120 && found.is_sorted(), "{found:?}");
}

#[derive(Clone, Debug)]
enum Act {
    Append(u64),
    /// The writer dies at a step.
    Die(u64, usize),
    /// The machine dies at a step.
    Crash(u64, usize, u64),
    /// Part of what is there is released.
    Release(u64),
    /// So it dies at a step of that.
    DieReleasing(u64, usize, u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (1..30u64).prop_map(Act::Append),
        2 => (1..30u64, 0..6usize).prop_map(|(count, step)| Act::Die(count, step)),
        3 => (1..30u64, 0..6usize, any::<u64>()).prop_map(|(count, step, kept)| Act::Crash(count, step, kept)),
        2 => (0..=4u64).prop_map(Act::Release),
        1 => (0..=4u64, 0..4usize, any::<u64>()).prop_map(|(part, step, kept)| Act::DieReleasing(part, step, kept)),
    ]
}

/// A client, with the records that must be on its medium.
struct Expected {
    client: Client,
    /// The next record that was not acknowledged.
    next: u64,
    /// The first record that was not released.
    first: u64,
}

impl Expected {
    /// Opens the log again, after a crash with all unacknowledged records forgotten, or else kept.
    fn reopen(&mut self) {
        self.client.restart();
        let state = self.client.run(LogEvent::Done).unwrap();
        // Records that were written and not acknowledged may be there.
        assert!(state.record >= self.next, "{} of {}", state.record, self.next);
        self.next = state.record;
        self.look();
    }
    fn look(&mut self) {
        let found = self.client.numbers();
        let first = found.first().copied().unwrap_or(self.next);
        assert!(first <= self.first, "{first} of {}", self.first);
        let is_whole = found.iter().copied().eq(first..self.next);
        assert!(is_whole, "{first}.. {:?} of {}", found.last(), self.next);
    }
    fn append(&mut self, count: u64, steps: usize) -> bool {
        let event = self.client.list(self.next, count);
        match self.client.run_to(event, steps) {
            Some(state) => {
                self.next = state.unwrap().record;
                true
            }
            None => false,
        }
    }
    fn release(&mut self, part: u64, steps: usize) {
        let state = self.client.run(LogEvent::Read(0)).unwrap();
        let block = state.first + (state.end - state.first) * part / 4;
        // Records of blocks before that one may be gone; the next record begins there or later.
        let kept: Vec<u64> = {
            self.client.run(LogEvent::Read(block)).unwrap();
            let mut at = block;
            let mut seen = Vec::new();
            while at < state.end {
                let got = self.client.run(LogEvent::Read(at)).unwrap();
                let list = self.client.memory.records(got.bytes);
                seen.extend(
                    pieces(&list).filter(|piece| piece.place == 0).map(|piece| piece.number),
                );
                at = got.cursor;
            }
            seen
        };
        self.first = kept.first().copied().unwrap_or(self.next).max(self.first);
        self.client.run_to(LogEvent::Release(block), steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_acknowledged_is_there_once(acts in prop::collection::vec(act(), 1..60)) {
        let mut client = Client::new(Medium::new());
        client.run(LogEvent::Done).unwrap();
        let mut it = Expected { client, next: 1, first: 1 };
        for act in acts {
            match act {
                Act::Append(count) => {
                    it.append(count, STEPS_MAX - 1);
                }
                Act::Die(count, step) => {
                    it.append(count, step);
                    it.reopen();
                }
                Act::Crash(count, step, kept) => {
                    it.append(count, step);
                    it.client.medium.crash(kept);
                    it.reopen();
                }
                Act::Release(part) => it.release(part, STEPS_MAX - 1),
                Act::DieReleasing(part, step, kept) => {
                    it.release(part, step);
                    it.client.medium.crash(kept);
                    it.reopen();
                }
            }
        }
        it.look();
    }

    #[test]
    fn any_medium_is_opened_and_read_without_a_panic(
        seed in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..200),
        count in 0..120u64,
        event in prop_oneof![
            any::<u64>().prop_map(LogEvent::Read),
            any::<u64>().prop_map(LogEvent::Release),
            any::<usize>().prop_map(LogEvent::Append),
        ],
    ) {
        let mut client = Client::new(Medium::new());
        client.run(LogEvent::Done).unwrap();
        for first in (1..=count).step_by(20) {
            let list = client.list(first, 20);
            client.run(list).unwrap();
        }
        for (place, byte) in &seed {
            // Half of the damage is to the heads and the first blocks.
            let length = if byte % 2 == 0 { 16 * BLOCK_BYTES } else { client.medium.durable.len() };
            client.medium.durable[place.index(length)] = *byte;
        }
        client.restart();
        if client.run(LogEvent::Done).is_ok() {
            client.numbers();
            let _ = client.run(event);
            client.numbers();
        }
    }

    #[test]
    fn any_event_of_a_client_has_a_step(events in prop::collection::vec(prop_oneof![
        Just(LogEvent::Done),
        Just(LogEvent::Failed),
        any::<usize>().prop_map(LogEvent::Append),
        any::<u64>().prop_map(LogEvent::Release),
        any::<u64>().prop_map(LogEvent::Read),
    ], 0..40), bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        let mut client = Client::new(Medium::new());
        client.memory.put_records(&bytes);
        for event in events {
            if let LogStep::Read(run) | LogStep::Write(run) = client.machine.advance(event) {
                prop_assert!(run.first + run.count <= MEDIUM && run.place + run.count <= 256);
            }
        }
    }
}
