//! The audit writer: it decides what is on the medium of audit records, and its client reads and writes blocks as it says.
//!
//! ```text
//! client                                                  writer
//! attach(memory, blocks)      ------------------------->
//!                             <-------------------------  Read, Write, Flush: the client does that
//! advance(Done)               ------------------------->  ... until the log is open: Settled
//! records -> memory, advance(Append)  ----------------->  blocks -> memory
//!                             <-------------------------  Write, Flush, ..., Settled: the records are on the medium
//! ```
//!
//! The memory is the client's and outlives the writer, and so do the records, which the client keeps until they are on the medium. A
//! successor opens the log anew, and then says which record it expects next.
use crate::{AttachError, call::Failure, wire::Wire};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use interfaces_macro::interface;
use rt::memory::Region;

const WORD: usize = size_of::<u64>();
/// Bytes for blocks.
pub const BLOCKS_BYTES: usize = 128 << 10;
/// Bytes for records, behind those for blocks.
pub const RECORDS_BYTES: usize = 128 << 10;

/// Blocks of the medium that are read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct BlockRun {
    /// Number of the first block on the medium.
    pub first: u64,
    /// Number of blocks.
    pub count: u64,
    /// Place of the first one in the memory, in blocks.
    pub place: u64,
}

/// The state of an open log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
pub struct LogState {
    /// Blocks for which there is room.
    pub blocks: u64,
    /// Number of the first block that is kept.
    pub first: u64,
    /// Number of the next block.
    pub end: u64,
    /// Number of the next record.
    pub record: u64,
    /// The block behind those that were read.
    pub cursor: u64,
    /// Bytes of pieces in the memory for records, which were read.
    pub bytes: usize,
}

/// The reason why a medium is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub enum LogRefusal {
    /// It is too small.
    TooSmall,
    /// It holds something else, or a log whose heads are damaged.
    Foreign,
    /// The device reported an error.
    Device,
    /// The event does not fit the state.
    Unexpected,
}

/// An event of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub enum LogEvent {
    /// The last step is done.
    Done,
    /// The last step failed.
    Failed,
    /// Records of so many bytes are to be written.
    Append(usize),
    /// Blocks before this one need not be kept.
    Release(u64),
    /// The pieces of records are wanted that are in blocks from this one on.
    Read(u64),
}

/// The next thing that the client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub enum LogStep {
    /// Reads blocks into the memory.
    Read(BlockRun),
    /// Writes blocks from the memory.
    Write(BlockRun),
    /// Makes what was written durable.
    Flush,
    /// Nothing: the last event is dealt with.
    Settled(LogState),
    /// Nothing: the log is not open.
    Refused(LogRefusal),
}

/// The reason why an event has no step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub enum LogFault {
    /// The writer has no memory: it is a successor.
    Detached,
    /// The message, or its answer, was lost.
    Lost,
}

impl From<Failure> for LogFault {
    fn from(_: Failure) -> LogFault {
        LogFault::Lost
    }
}

/// A writer of audit records.
#[interface(number = 8)]
pub trait AuditLog: Send + Sync {
    /// Uses `memory` from now on, and begins to open the log on a medium of so many blocks of 512 bytes. `id` is a random number, for a
    /// medium of zeroes, on which a log is made.
    #[idempotent]
    fn attach(&self, memory: Region, blocks: u64, id: u64) -> Result<(), AttachError>;
    /// Takes an event. The first one after `attach` is `Done`.
    fn advance(&self, event: LogEvent) -> Result<LogStep, LogFault>;
}

/// The memory that a writer and its client share.
#[derive(Clone, Debug)]
pub struct LogMemory(Region);

impl LogMemory {
    /// Uses a region; `None` if it is too small.
    pub fn of(region: Region) -> Option<LogMemory> {
        let is_enough = region.words().len() >= (BLOCKS_BYTES + RECORDS_BYTES) / WORD;
        is_enough.then_some(LogMemory(region))
    }
    fn area(&self, first: usize, length: usize) -> &[AtomicU64] {
        self.0.words().get(first / WORD..(first + length) / WORD).unwrap_or_default()
    }
    /// Copies bytes to the place for blocks, from a byte on that is a multiple of eight, as far as they fit.
    pub fn put_blocks(&self, at: usize, bytes: &[u8]) {
        let area = self.area(0, BLOCKS_BYTES);
        put(area.get(at / WORD..).unwrap_or_default(), bytes);
    }
    /// Returns bytes of the place for blocks, as far as there are any.
    pub fn blocks(&self, at: usize, length: usize) -> Vec<u8> {
        let area = self.area(0, BLOCKS_BYTES);
        get(area.get(at / WORD..).unwrap_or_default(), length)
    }
    /// Copies bytes to the place for records, as far as they fit.
    pub fn put_records(&self, bytes: &[u8]) {
        put(self.area(BLOCKS_BYTES, RECORDS_BYTES), bytes);
    }
    /// Returns the first bytes of the place for records, as far as there are any.
    pub fn records(&self, length: usize) -> Vec<u8> {
        get(self.area(BLOCKS_BYTES, RECORDS_BYTES), length)
    }
}

fn put(area: &[AtomicU64], bytes: &[u8]) {
    for (word, part) in area.iter().zip(bytes.chunks(WORD)) {
        let mut whole = [0; WORD];
        whole.iter_mut().zip(part).for_each(|(to, from)| *to = *from);
        word.store(u64::from_le_bytes(whole), Relaxed);
    }
}

fn get(area: &[AtomicU64], length: usize) -> Vec<u8> {
    let words = area.iter().take(length.div_ceil(WORD));
    let mut bytes: Vec<u8> = words.flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
    bytes.truncate(length);
    bytes
}
