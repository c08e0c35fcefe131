//! Appending transactions to the journal.
//!
//! ```text
//! transaction   [revoke blocks] | descriptor | its blocks | descriptor ... | commit
//!               <------------------ then a flush ----------------------->  then the commit, a flush
//! ```
//! The journal's superblock has the start of a log that is not empty. It is written with the first transaction, and when the
//! log's blocks are in place.
use super::{Checksums, Journal, format::*};
use crate::store::{
    bytes::{big32, put, put_big32},
    checksum::crc32c,
    device::{Piece, Refusal, VolumeDevice},
};
use alloc::{borrow::Cow, vec, vec::Vec};
use interfaces::{block::Request, file_system::FsError};

/// Number of blocks that are summed without a pause for other threads.
const SHORT_BLOCKS: usize = 16;

/// A block of metadata to be logged: its number, and its bytes.
pub(crate) type Logged<'a> = (u64, &'a [u8]);

/// The format of a volume, as far as its journal follows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    /// Numbers of blocks have more than 32 bits.
    pub(crate) is_wide: bool,
    /// Metadata has checksums.
    pub(crate) has_checksums: bool,
}

impl Journal {
    /// Takes over the log at mount, when it was replayed and holds nothing: checksums and wide
    /// numbers as the volume has them.
    ///
    /// # Errors
    /// As [`VolumeDevice::write`].
    pub(crate) fn prepare(&mut self, device: &VolumeDevice, volume: Format) -> Result<(), FsError> {
        let mut incompat = big32(&self.raw, INCOMPAT_OFFSET).unwrap_or(0) | FEATURE_REVOKE;
        if volume.is_wide {
            incompat |= FEATURE_WIDE;
        }
        if volume.has_checksums {
            incompat = incompat & !FEATURE_CHECKSUM_V2 | FEATURE_CHECKSUM_V3;
            self.checksums = Checksums::V3;
            put(&mut self.raw, CHECKSUM_TYPE_OFFSET, &[4]);
        }
        if self.checksums == Checksums::V1 {
            self.checksums = Checksums::None;
        }
        let compat = big32(&self.raw, COMPAT_OFFSET).unwrap_or(0) & !FEATURE_CHECKSUM_V1;
        put_big32(&mut self.raw, COMPAT_OFFSET, compat);
        incompat &= !FEATURE_ASYNC_COMMIT;
        self.is_asynchronous = false;
        self.is_wide = incompat & FEATURE_WIDE != 0;
        // Revoke blocks and features need the superblock's second version.
        put_big32(&mut self.raw, 4, SUPERBLOCKS[1]);
        put_big32(&mut self.raw, INCOMPAT_OFFSET, incompat);
        (self.head, self.used) = (self.first, 0);
        self.write_super(device, 0, self.sequence)
    }

    /// Returns whether the log is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Returns whether the log is so full that its blocks should be written in place.
    pub(crate) fn is_half_full(&self) -> bool {
        self.used > self.capacity() / 2
    }

    /// Returns whether a transaction of that size fits in the rest of the log.
    pub(crate) fn has_room(&self, blocks: usize, revoked: usize) -> bool {
        let needed = blocks + self.descriptors(blocks) + self.revoke_blocks(revoked) + 1;
        needed < (self.capacity() - self.used) as usize
    }

    fn tags_per_block(&self) -> usize {
        let room = self.area.block_bytes - HEADER_BYTES - self.tail_bytes() - UUID_BYTES;
        room / self.tag_bytes()
    }

    fn descriptors(&self, blocks: usize) -> usize {
        blocks.div_ceil(self.tags_per_block())
    }

    fn entry_bytes(&self) -> usize {
        if self.is_wide { 8 } else { 4 }
    }

    fn revokes_per_block(&self) -> usize {
        (self.area.block_bytes - REVOKED_OFFSET - self.tail_bytes()) / self.entry_bytes()
    }

    fn revoke_blocks(&self, revoked: usize) -> usize {
        revoked.div_ceil(self.revokes_per_block())
    }

    /// Appends a transaction, whose data `data` writes. All of it is durable when this returns.
    ///
    /// # Errors
    /// Those of [`VolumeDevice::write_in_turn`]; the log is then as it was.
    pub(crate) fn append(
        &mut self,
        device: &VolumeDevice,
        blocks: &[Logged<'_>],
        revoked: &[u64],
        data: Vec<Request>,
    ) -> Result<(), Refusal> {
        let sequence = self.sequence;
        let mut log: Vec<Cow<'_, [u8]>> = Vec::new();
        for part in revoked.chunks(self.revokes_per_block()) {
            log.push(Cow::Owned(self.revoke_block(part)));
        }
        for part in blocks.chunks(self.tags_per_block()) {
            let copies: Vec<Cow<'_, [u8]>> = part.iter().map(|(_, bytes)| escape(bytes)).collect();
            log.push(Cow::Owned(self.descriptor(part, &copies)));
            log.extend(copies);
            if part.len() > SHORT_BLOCKS {
                // Computing the checksums of a large transaction is long work, so threads that change metadata run first.
                rt::thread::yield_now();
            }
        }
        let mut pieces: Vec<Piece<'_>> = Vec::with_capacity(log.len());
        for (index, bytes) in log.iter().enumerate() {
            let block = self.place(self.after(self.head, index as u32))?;
            pieces.push((self.area.sector(block), bytes));
        }
        if self.is_empty() {
            self.write_super(device, self.head, sequence)?;
        }
        let commit = self.commit_block();
        let place = self.place(self.after(self.head, log.len() as u32))?;
        device.write_in_turn(data, &pieces, (self.area.sector(place), &commit))?;
        let written = log.len() as u32 + 1;
        self.head = self.after(self.head, written);
        self.used += written;
        self.sequence = sequence.wrapping_add(1);
        Ok(())
    }

    /// Erases the commit block of a transaction of that size that [`Journal::append`] could not append. The block may be on
    /// the device nevertheless, while blocks before it are missing.
    ///
    /// # Errors
    /// Those of [`VolumeDevice::write`] and [`VolumeDevice::flush`].
    pub(crate) fn erase_commit(
        &self,
        device: &VolumeDevice,
        blocks: usize,
        revoked: usize,
    ) -> Result<(), FsError> {
        let before = blocks + self.descriptors(blocks) + self.revoke_blocks(revoked);
        let place = self.place(self.after(self.head, before as u32))?;
        device.write(&[(self.area.sector(place), &vec![0; self.area.block_bytes])])?;
        device.flush()
    }

    /// Empties the log: everything logged is in place and flushed.
    ///
    /// # Errors
    /// As [`VolumeDevice::write`].
    pub(crate) fn reset(&mut self, device: &VolumeDevice) -> Result<(), FsError> {
        self.write_super(device, 0, self.sequence)?;
        self.used = 0;
        Ok(())
    }

    fn header(&self, kind: u32) -> Vec<u8> {
        let mut bytes = vec![0; self.area.block_bytes];
        put_big32(&mut bytes, 0, MAGIC);
        put_big32(&mut bytes, 4, kind);
        put_big32(&mut bytes, 8, self.sequence);
        bytes
    }

    /// Puts the checksum at the end of a descriptor or revoke block.
    fn seal(&self, bytes: &mut [u8]) {
        if self.checksums.are_of_blocks() {
            let sum = crc32c(self.seed, bytes);
            put_big32(bytes, self.area.block_bytes - TAIL_BYTES, sum);
        }
    }

    fn revoke_block(&self, revoked: &[u64]) -> Vec<u8> {
        let mut bytes = self.header(REVOKE);
        let used = REVOKED_OFFSET + revoked.len() * self.entry_bytes();
        put_big32(&mut bytes, HEADER_BYTES, used as u32);
        for (index, block) in revoked.iter().enumerate() {
            let at = REVOKED_OFFSET + index * self.entry_bytes();
            match self.is_wide {
                true => put(&mut bytes, at, &block.to_be_bytes()),
                false => put_big32(&mut bytes, at, *block as u32),
            }
        }
        self.seal(&mut bytes);
        bytes
    }

    fn descriptor(&self, blocks: &[Logged<'_>], copies: &[Cow<'_, [u8]>]) -> Vec<u8> {
        let mut bytes = self.header(DESCRIPTOR);
        let mut at = HEADER_BYTES;
        for (index, ((block, _), copy)) in blocks.iter().zip(copies).enumerate() {
            let mut flags = if index > 0 { TAG_SAME_UUID } else { 0 };
            if matches!(copy, Cow::Owned(_)) {
                flags |= TAG_ESCAPED;
            }
            if index + 1 == blocks.len() {
                flags |= TAG_LAST;
            }
            let sum = self.block_checksum(self.sequence, copy);
            put_big32(&mut bytes, at, *block as u32);
            let high = (block >> 32) as u32;
            match self.checksums {
                Checksums::V3 => {
                    put_big32(&mut bytes, at + 4, flags);
                    put_big32(&mut bytes, at + 8, high);
                    put_big32(&mut bytes, at + 12, sum);
                }
                checksums => {
                    let sum = if checksums == Checksums::V2 { sum as u16 } else { 0 };
                    put(&mut bytes, at + 4, &sum.to_be_bytes());
                    put(&mut bytes, at + 6, &(flags as u16).to_be_bytes());
                    if self.is_wide {
                        put_big32(&mut bytes, at + 8, high);
                    }
                }
            }
            at += self.tag_bytes();
            if index == 0 {
                // The uuid of the journal's user is zero, as Linux has it for an internal journal.
                at += UUID_BYTES;
            }
        }
        self.seal(&mut bytes);
        bytes
    }

    fn commit_block(&self) -> Vec<u8> {
        let mut bytes = self.header(COMMIT);
        let seconds = rt::time::wall_ns() / 1_000_000_000;
        put(&mut bytes, COMMIT_SECONDS_OFFSET, &seconds.to_be_bytes());
        if self.checksums.are_of_blocks() {
            let sum = crc32c(self.seed, &bytes);
            put_big32(&mut bytes, COMMIT_CHECKSUM_OFFSET, sum);
        }
        bytes
    }
}

/// Clears the first word of a block that begins like the journal's own blocks, for logging.
fn escape(bytes: &[u8]) -> Cow<'_, [u8]> {
    if big32(bytes, 0) != Some(MAGIC) {
        return Cow::Borrowed(bytes);
    }
    let mut copy = bytes.to_vec();
    put_big32(&mut copy, 0, 0);
    Cow::Owned(copy)
}
