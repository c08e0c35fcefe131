//! [`LogBlock`]: a block of the ring, and how records are put into blocks ([`pack`]).
//!
//! ```text
//! "SKAUDB" | bytes of pieces 2 | log 8 | generation 8 | block 8 | first block of the batch 8 | its first record 8 | pieces | sum 4
//! ```
use crate::{
    BLOCK_BYTES,
    bytes::{SUM, is_sealed, long, put, seal, short},
    list::{PIECE_HEAD, RecordPiece, pieces},
};
use alloc::vec::Vec;

const MAGIC: &[u8; 6] = b"SKAUDB";
/// Place of the number of bytes of pieces.
const USED: usize = 6;
/// Place of the first piece.
const PIECES: usize = 48;
const ROOM: usize = SUM - PIECES;

/// The place of a batch in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchPlace {
    /// Number of the log.
    pub id: u64,
    /// Generation of the head under which it was written.
    pub generation: u64,
    /// Number of its first block.
    pub block: u64,
    /// Number of its first record.
    pub record: u64,
}

/// A block of the ring that is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogBlock<'a> {
    /// Number of the block.
    pub number: u64,
    /// The batch that it is of.
    pub batch: BatchPlace,
    /// Its list of pieces.
    pub list: &'a [u8],
}

impl<'a> LogBlock<'a> {
    /// Reads a block of the log `id`; `None` if it is none.
    pub fn decode(block: &'a [u8; BLOCK_BYTES], id: u64) -> Option<LogBlock<'a>> {
        if !block.starts_with(MAGIC) || !is_sealed(block) {
            return None;
        }
        let used = short(block, USED)? as usize;
        let list = block.get(PIECES..PIECES + used).filter(|_| used <= ROOM)?;
        let word = |index: usize| long(block, 8 + 8 * index);
        let (number, first) = (word(2)?, word(3)?);
        let batch =
            BatchPlace { id: word(0)?, generation: word(1)?, block: first, record: word(4)? };
        let is_sound = number < 1 << 62 && batch.record < 1 << 62 && first <= number;
        (batch.id == id && is_sound).then_some(LogBlock { number, batch, list })
    }
    /// Returns the last record that ends in it.
    pub fn last_end(&self) -> Option<u64> {
        pieces(self.list).filter(|piece| piece.is_last).map(|piece| piece.number).last()
    }
}

/// The blocks of a batch that are being filled.
struct Packer {
    place: BatchPlace,
    blocks: Vec<u8>,
    /// The list of the block that is filled.
    open: Vec<u8>,
}

impl Packer {
    fn close(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let mut block = [0; BLOCK_BYTES];
        let BatchPlace { id, generation, block: first, record } = self.place;
        let number = first + (self.blocks.len() / BLOCK_BYTES) as u64;
        put(&mut block, 0, MAGIC);
        put(&mut block, USED, &(self.open.len() as u16).to_le_bytes());
        for (index, word) in [id, generation, number, first, record].iter().enumerate() {
            put(&mut block, 8 + 8 * index, &word.to_le_bytes());
        }
        put(&mut block, PIECES, &self.open);
        seal(&mut block);
        self.blocks.extend_from_slice(&block);
        self.open.clear();
    }
    fn add(&mut self, record: &RecordPiece<'_>) {
        let mut piece = *record;
        loop {
            if self.open.len() + PIECE_HEAD >= ROOM {
                self.close();
            }
            let room = ROOM - self.open.len() - PIECE_HEAD;
            let (text, behind) = piece.text.split_at_checked(room).unwrap_or((piece.text, &[]));
            RecordPiece { text, is_last: behind.is_empty(), ..piece }.put(&mut self.open);
            if behind.is_empty() {
                return;
            }
            piece = RecordPiece { text: behind, place: piece.place + 1, ..piece };
        }
    }
    /// Returns the number of blocks, with the one that is filled.
    fn count(&self) -> u64 {
        (self.blocks.len() / BLOCK_BYTES) as u64 + u64::from(!self.open.is_empty())
    }
}

/// Puts whole records into at most `blocks_max` blocks. Returns the blocks, and the number of records that are in them.
pub fn pack<'r>(
    place: BatchPlace,
    records: impl Iterator<Item = RecordPiece<'r>>,
    blocks_max: u64,
) -> (Vec<u8>, u64) {
    let mut packer = Packer { place, blocks: Vec::new(), open: Vec::new() };
    let mut count = 0;
    for record in records {
        let before = (packer.blocks.len(), packer.open.clone());
        packer.add(&record);
        if packer.count() > blocks_max {
            packer.blocks.truncate(before.0);
            packer.open = before.1;
            break;
        }
        count += 1;
    }
    packer.close();
    (packer.blocks, count)
}
