//! [`LogClient`]: does the steps of the audit writer on the medium.
use crate::devices::run_request;
use alloc::{sync::Arc, vec::Vec};
use audit_log::BLOCK_BYTES;
use interfaces::{
    audit_log::{
        AuditLog, BLOCKS_BYTES, BlockRun, LogEvent, LogFault, LogMemory, LogRefusal, LogState,
        LogStep, RECORDS_BYTES,
    },
    block::{Block, Operation, Segment},
};
use rt::{
    NoMemory, PAGE_BYTES,
    memory::{Frame, Region},
};

/// No event of a writer in its senses takes more steps.
const STEPS_MAX: usize = 128;
const PAGE_BLOCKS: usize = PAGE_BYTES / BLOCK_BYTES;

/// The reason why an event was not dealt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogTrouble {
    /// The writer died. Its successor may deal with it.
    Died,
    /// The medium is refused.
    Refused(LogRefusal),
}

/// The client of a writer, with the memory that both share.
pub(super) struct LogClient {
    writer: Arc<dyn AuditLog>,
    medium: Arc<dyn Block>,
    region: Region,
    memory: LogMemory,
    /// Frames for all blocks of the memory.
    frames: Vec<Frame>,
    is_open: bool,
}

impl LogClient {
    pub(super) fn new(
        writer: Arc<dyn AuditLog>,
        medium: Arc<dyn Block>,
    ) -> Result<LogClient, NoMemory> {
        let region = Region::new(BLOCKS_BYTES + RECORDS_BYTES)?;
        let memory = LogMemory::of(region.clone()).ok_or(NoMemory)?;
        let frames = (0..BLOCKS_BYTES / PAGE_BYTES).map(|_| Frame::zeroed());
        let frames = frames.collect::<Result<_, _>>()?;
        Ok(LogClient { writer, medium, region, memory, frames, is_open: false })
    }

    /// Opens the log, unless it is open. Returns its state if it was opened.
    pub(super) fn open(&mut self) -> Result<Option<LogState>, LogTrouble> {
        if self.is_open {
            return Ok(None);
        }
        let mut id = [0; size_of::<u64>()];
        rt::entropy::fill(&mut id);
        let blocks = self.medium.info().sectors;
        let attached = self.writer.attach(self.region.clone(), blocks, u64::from_le_bytes(id));
        attached.map_err(|_| LogTrouble::Died)?;
        let state = self.run(LogEvent::Done)?;
        self.is_open = true;
        Ok(Some(state))
    }

    /// Has the writer append a list of records.
    pub(super) fn append(&mut self, list: &[u8]) -> Result<LogState, LogTrouble> {
        self.memory.put_records(list);
        self.run(LogEvent::Append(list.len()))
    }

    /// Has the writer release the blocks before one.
    pub(super) fn release(&mut self, block: u64) -> Result<LogState, LogTrouble> {
        self.open()?;
        self.run(LogEvent::Release(block))
    }

    /// Reads blocks from one on. Returns the pieces of records in them.
    pub(super) fn read(&mut self, block: u64) -> Result<(LogState, Vec<u8>), LogTrouble> {
        self.open()?;
        let state = self.run(LogEvent::Read(block))?;
        Ok((state, self.memory.records(state.bytes)))
    }

    /// Deals with an event. After trouble the log is to be opened again.
    fn run(&mut self, event: LogEvent) -> Result<LogState, LogTrouble> {
        let result = self.steps(event);
        self.is_open = result.is_ok() && self.is_open;
        result
    }

    fn steps(&mut self, first: LogEvent) -> Result<LogState, LogTrouble> {
        let mut event = first;
        for _ in 0..STEPS_MAX {
            let step = self.writer.advance(event).map_err(|fault| match fault {
                LogFault::Detached | LogFault::Lost => LogTrouble::Died,
            })?;
            let done = match step {
                LogStep::Read(run) => self.transfer(Operation::Read, run),
                LogStep::Write(run) => self.transfer(Operation::Write, run),
                LogStep::Flush => {
                    run_request(&self.medium, Operation::Flush, 0, Vec::new()).is_ok()
                }
                LogStep::Settled(state) => return Ok(state),
                LogStep::Refused(why) => return Err(LogTrouble::Refused(why)),
            };
            event = if done { LogEvent::Done } else { LogEvent::Failed };
        }
        Err(LogTrouble::Refused(LogRefusal::Unexpected))
    }

    /// Reads or writes a run of blocks. Returns whether that was done. The device refuses blocks that it does not have.
    fn transfer(&self, operation: Operation, run: BlockRun) -> bool {
        let BlockRun { first, count, place } = run;
        let all = BLOCKS_BYTES / BLOCK_BYTES;
        let is_inside = count <= all as u64 && place <= all as u64 - count;
        if !is_inside || count == 0 {
            return false;
        }
        let (start, count) = (place as usize * BLOCK_BYTES, count as usize);
        let used = self.frames.iter().take(count.div_ceil(PAGE_BLOCKS));
        if operation == Operation::Write {
            let bytes = self.memory.blocks(start, count * BLOCK_BYTES);
            used.clone().zip(bytes.chunks(PAGE_BYTES)).for_each(|(frame, part)| {
                frame.write(0, part);
            });
        }
        let left = |index: usize| (count - index * PAGE_BLOCKS).min(PAGE_BLOCKS) * BLOCK_BYTES;
        let segments = used.clone().enumerate().map(|(index, frame)| Segment {
            frame: frame.clone(),
            offset: 0,
            length: left(index) as u32,
        });
        let segments: Vec<Segment> = segments.collect();
        // A device may take fewer segments at once than there are.
        let most = self.medium.info().max_segments.max(1);
        for (index, part) in segments.chunks(most).enumerate() {
            let sector = first.saturating_add((index * most * PAGE_BLOCKS) as u64);
            if run_request(&self.medium, operation, sector, part.to_vec()).is_err() {
                return false;
            }
        }
        if operation == Operation::Read {
            let mut bytes = alloc::vec![0; PAGE_BYTES];
            for (index, frame) in used.enumerate() {
                let part = bytes.get_mut(..left(index)).unwrap_or_default();
                frame.read(0, part);
                self.memory.put_blocks(start + index * PAGE_BYTES, part);
            }
        }
        true
    }
}
