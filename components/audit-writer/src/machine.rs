//! [`LogMachine`]: the log, as events of the client and steps that it does.
use crate::open::{OpenStep, Opening};
use alloc::vec::Vec;
use audit_log::{
    BLOCK_BYTES, BatchPlace, LogBlock, LogEnd, LogHead, RING, TEXT_MAX, WINDOW, pack, pieces,
    ring_blocks,
};
use core::mem;
use interfaces::audit_log::{
    BlockRun, LogEvent, LogMemory, LogRefusal, LogState, LogStep, RECORDS_BYTES,
};

/// Blocks that are read at once for the client: their pieces have room in the memory.
const READ_MAX: u64 = WINDOW / 2;

/// The step that the client does.
enum Under {
    /// None yet: the log is opened with the next event.
    Attached,
    /// The log is being opened.
    Opening(Opening),
    /// The first part of a batch is being written, and then the second.
    Writing { rest: BlockRun, end: LogEnd },
    /// A part of the log is being written.
    Written(WrittenPart),
    /// The part is being flushed.
    Flushing(WrittenPart),
    /// Blocks are being read.
    Reading { number: u64, count: u64 },
    /// None.
    Nothing,
    /// The log cannot be used.
    Refused(LogRefusal),
}

/// The part of the log that holds once it is on the medium.
enum WrittenPart {
    /// A batch, up to this end.
    End(LogEnd),
    Head(LogHead),
}

/// The log of a medium.
pub(crate) struct LogMachine {
    memory: LogMemory,
    /// Blocks of the medium.
    medium: u64,
    head: LogHead,
    end: LogEnd,
    under: Under,
}

impl LogMachine {
    pub(crate) fn new(memory: LogMemory, medium: u64, id: u64) -> LogMachine {
        let blocks = ring_blocks(medium).unwrap_or(0);
        let head = LogHead { id, generation: 0, blocks, first: 0, end: 0, record: 1 };
        let end = LogEnd { block: 0, record: 1 };
        LogMachine { memory, medium, head, end, under: Under::Attached }
    }

    /// Takes an event, and returns the next step.
    pub(crate) fn advance(&mut self, event: LogEvent) -> LogStep {
        match (mem::replace(&mut self.under, Under::Nothing), event) {
            (Under::Refused(why), _) => self.refuse(why),
            (Under::Attached, LogEvent::Done) if self.head.blocks == 0 => {
                self.refuse(LogRefusal::TooSmall)
            }
            (Under::Attached, LogEvent::Done) => self.open(Opening::new(self.medium)),
            (Under::Opening(opening), LogEvent::Done) => self.open(opening),
            (Under::Nothing, LogEvent::Append(bytes)) => self.append(bytes),
            (Under::Nothing, LogEvent::Release(block)) => self.release(block),
            (Under::Nothing, LogEvent::Read(block)) => self.read(block),
            (Under::Writing { rest, end }, LogEvent::Done) => {
                self.under = Under::Written(WrittenPart::End(end));
                LogStep::Write(rest)
            }
            (Under::Written(part), LogEvent::Done) => {
                self.under = Under::Flushing(part);
                LogStep::Flush
            }
            (Under::Flushing(part), LogEvent::Done) => {
                match part {
                    WrittenPart::End(end) => self.end = end,
                    WrittenPart::Head(head) => self.head = head,
                }
                self.settled(0, 0)
            }
            (Under::Reading { number, count }, LogEvent::Done) => self.give(number, count),
            // It is not known what is on the medium: the log is to be opened anew.
            (_, LogEvent::Failed) => self.refuse(LogRefusal::Device),
            (under, _) => {
                self.under = under;
                LogStep::Refused(LogRefusal::Unexpected)
            }
        }
    }

    fn refuse(&mut self, why: LogRefusal) -> LogStep {
        self.under = Under::Refused(why);
        LogStep::Refused(why)
    }

    fn settled(&self, cursor: u64, bytes: usize) -> LogStep {
        LogStep::Settled(LogState {
            blocks: self.head.blocks,
            first: self.head.first,
            end: self.end.block,
            record: self.end.record,
            cursor,
            bytes,
        })
    }

    /// Returns the run of blocks of the ring, which does not go past its end.
    fn run(&self, number: u64, count: u64) -> BlockRun {
        BlockRun { first: RING + number % self.head.blocks, count, place: 0 }
    }

    /// Goes on with opening. Then writes a head, so that the next blocks have another generation than all that are there.
    fn open(&mut self, mut opening: Opening) -> LogStep {
        match opening.next(&self.memory) {
            OpenStep::Read(run) => {
                self.under = Under::Opening(opening);
                LogStep::Read(run)
            }
            OpenStep::Blank => {
                log::info!("a log of {} blocks is made on the medium", self.head.blocks);
                self.write_head(self.head)
            }
            OpenStep::Foreign => self.refuse(LogRefusal::Foreign),
            OpenStep::Found(head, end) => {
                (self.head, self.end) = (head, end);
                self.write_head(head)
            }
        }
    }

    /// Writes the next head, of the present end.
    fn write_head(&mut self, head: LogHead) -> LogStep {
        let LogEnd { block: end, record } = self.end;
        let head = LogHead { generation: head.generation + 1, end, record, ..head };
        self.memory.put_blocks(0, &head.encode());
        self.under = Under::Written(WrittenPart::Head(head));
        LogStep::Write(BlockRun { first: head.place(), count: 1, place: 0 })
    }

    fn release(&mut self, block: u64) -> LogStep {
        if block <= self.head.first || block > self.end.block {
            return self.settled(0, 0);
        }
        self.write_head(LogHead { first: block, ..self.head })
    }

    /// Writes as many of the records in the memory as there is room for.
    fn append(&mut self, bytes: usize) -> LogStep {
        let list = self.memory.records(bytes.min(RECORDS_BYTES));
        let LogEnd { block, record } = self.end;
        let place =
            BatchPlace { id: self.head.id, generation: self.head.generation, block, record };
        let room = self.head.blocks.saturating_sub(block - self.head.first).min(WINDOW);
        let mut expected = record;
        let new = pieces(&list).take_while(|it| {
            let is_next = it.number == expected && it.place == 0 && it.is_last;
            expected += 1;
            is_next && it.text.len() <= TEXT_MAX
        });
        let (blocks, count) = pack(place, new, room);
        let length = (blocks.len() / BLOCK_BYTES) as u64;
        if length == 0 {
            return self.settled(0, 0);
        }
        self.memory.put_blocks(0, &blocks);
        let end = LogEnd { block: block + length, record: record + count };
        let before_end = (self.head.blocks - block % self.head.blocks).min(length);
        let whole = self.run(block, before_end);
        self.under = match length - before_end {
            0 => Under::Written(WrittenPart::End(end)),
            rest => {
                let rest = BlockRun { place: before_end, ..self.run(block + before_end, rest) };
                Under::Writing { rest, end }
            }
        };
        LogStep::Write(whole)
    }

    fn read(&mut self, block: u64) -> LogStep {
        let number = block.clamp(self.head.first, self.end.block);
        let before_end = self.head.blocks - number % self.head.blocks;
        let count = (self.end.block - number).min(before_end).min(READ_MAX);
        if count == 0 {
            return self.settled(number, 0);
        }
        self.under = Under::Reading { number, count };
        LogStep::Read(self.run(number, count))
    }

    /// Gives the client the pieces in blocks that were read. A block that is damaged has none.
    fn give(&mut self, number: u64, count: u64) -> LogStep {
        let mut list = Vec::new();
        for (block, expected) in blocks_of(&self.memory, count).iter().zip(number..) {
            let found = LogBlock::decode(block, self.head.id).filter(|it| it.number == expected);
            list.extend_from_slice(found.map_or(&[], |it| it.list));
        }
        self.memory.put_records(&list);
        self.settled(number + count, list.len())
    }
}

/// Returns blocks that were read into the memory.
pub(crate) fn blocks_of(memory: &LogMemory, count: u64) -> Vec<[u8; BLOCK_BYTES]> {
    let bytes = memory.blocks(0, count as usize * BLOCK_BYTES);
    bytes.as_chunks().0.to_vec()
}
