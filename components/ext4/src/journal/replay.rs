//! Replay of a journal: what its committed transactions hold is put in place, the newest version of
//! each block, unless a later transaction revoked it.
//!
//! Two passes over the log. The first finds the transactions with a commit block, checks their
//! checksums, and remembers for each block where its newest version lies and from which transaction
//! on it is revoked; the second copies. A transaction without its commit block, or with a wrong
//! checksum, ends the log. Bounded by the log's length.
use super::{Checksums, Journal, read_block};
use crate::{
    checksum::crc32c,
    layout::{big32, journal::*, put_big32},
    volume::Volume,
};
use alloc::{collections::BTreeMap, vec::Vec};
use interfaces::file_system::FsError;
use rt::memory::Charge;

/// One logged block of a transaction.
struct Tag {
    block: u64,
    flags: u32,
    checksum: u32,
}

/// Where the newest version of a block is.
#[derive(Clone, Copy)]
struct Version {
    at: u32,
    sequence: u32,
    is_escaped: bool,
}

/// What one block remembered costs.
const REMEMBERED_BYTES: usize = 64;

/// What the transactions found so far say.
#[derive(Default)]
struct Found {
    versions: BTreeMap<u64, Version>,
    /// Last transaction that revoked a block.
    revoked: BTreeMap<u64, u32>,
}

impl Found {
    /// Blocks remembered.
    fn count(&self) -> usize {
        self.versions.len() + self.revoked.len()
    }
}

impl Journal {
    /// Puts everything in place that the journal holds, and empties it. Returns the blocks written.
    ///
    /// # Errors
    /// [`FsError::Corrupt`] where a block logged lies outside the volume; what I/O met.
    pub(crate) fn replay(&mut self, volume: &Volume) -> Result<u64, FsError> {
        let start = self.start();
        if start == 0 {
            return Ok(0);
        }
        if start < self.first || start >= self.end {
            return Err(FsError::Corrupt);
        }
        let mut found = Found::default();
        let end = self.scan(volume, start, &mut found)?;
        let mut written = 0;
        for (block, version) in &found.versions {
            let is_revoked = found.revoked.get(block).is_some_and(|by| {
                // Sequences wrap around.
                by.wrapping_sub(version.sequence) as i32 >= 0
            });
            if is_revoked {
                continue;
            }
            if !volume.geometry.holds_any(*block) {
                return Err(FsError::Corrupt);
            }
            let mut bytes = self.read(volume, version.at)?;
            if version.is_escaped {
                put_big32(&mut bytes, 0, MAGIC);
            }
            volume.device.write(&[(self.sector(*block), &bytes)])?;
            written += 1;
        }
        volume.device.flush()?;
        self.sequence = end.wrapping_add(1);
        self.write_super(&volume.device, 0, self.sequence)?;
        volume.device.flush()?;
        Ok(written)
    }

    fn read(&self, volume: &Volume, at: u32) -> Result<Vec<u8>, FsError> {
        read_block(&volume.device, self.block_bytes, self.place(at)?)
    }

    /// Goes over the log from `start`; returns the sequence behind the last whole transaction.
    fn scan(&self, volume: &Volume, start: u32, found: &mut Found) -> Result<u32, FsError> {
        let (mut at, mut sequence) = (start, self.sequence);
        let mut left = self.capacity();
        let mut pending = Found::default();
        let mut charge = Charge::none();
        loop {
            let Some(rest) = left.checked_sub(1) else { return Ok(sequence) };
            left = rest;
            let bytes = self.read(volume, at)?;
            let is_own = big32(&bytes, 0) == Some(MAGIC) && big32(&bytes, 8) == Some(sequence);
            if !is_own {
                return Ok(sequence);
            }
            // The log chooses how much there is to remember.
            let remembered = (found.count() + pending.count()) * REMEMBERED_BYTES;
            let missing = remembered.saturating_sub(charge.bytes());
            charge.grow(missing).map_err(|_| FsError::NoMemory)?;
            at = self.after(at, 1);
            match big32(&bytes, 4) {
                Some(DESCRIPTOR) if self.is_sum_right(&bytes) => {
                    let tags = self.tags(&bytes);
                    let count = tags.len() as u32;
                    let Some(rest) = left.checked_sub(count) else { return Ok(sequence) };
                    left = rest;
                    if !self.take_tags(volume, at, sequence, &tags, &mut pending)? {
                        return Ok(sequence);
                    }
                    at = self.after(at, count);
                }
                Some(REVOKE) if self.is_sum_right(&bytes) => {
                    self.take_revoked(&bytes, sequence, &mut pending);
                }
                Some(COMMIT) if self.is_commit_right(&bytes) => {
                    let whole = core::mem::take(&mut pending);
                    found.versions.extend(whole.versions);
                    found.revoked.extend(whole.revoked);
                    sequence = sequence.wrapping_add(1);
                }
                _ => return Ok(sequence),
            }
        }
    }

    /// Remembers the blocks that follow a descriptor; `false` where one's checksum is wrong.
    fn take_tags(
        &self,
        volume: &Volume,
        first: u32,
        sequence: u32,
        tags: &[Tag],
        pending: &mut Found,
    ) -> Result<bool, FsError> {
        for (index, tag) in tags.iter().enumerate() {
            let at = self.after(first, index as u32);
            if self.checksums != Checksums::None {
                let sum = self.block_checksum(sequence, &self.read(volume, at)?);
                let sum = if self.checksums == Checksums::V2 { sum & 0xffff } else { sum };
                if sum != tag.checksum {
                    return Ok(false);
                }
            }
            let is_escaped = tag.flags & TAG_ESCAPED != 0;
            pending.versions.insert(tag.block, Version { at, sequence, is_escaped });
        }
        Ok(true)
    }

    fn take_revoked(&self, bytes: &[u8], sequence: u32, pending: &mut Found) {
        let used = big32(bytes, HEADER_BYTES).unwrap_or(0) as usize;
        let end = used.min(bytes.len() - self.tail_bytes());
        let mut at = REVOKED_OFFSET;
        let step = if self.is_wide { 8 } else { 4 };
        while at + step <= end {
            let high = if self.is_wide { big32(bytes, at).unwrap_or(0) } else { 0 };
            let low = big32(bytes, at + step - 4).unwrap_or(0);
            pending.revoked.insert(u64::from(high) << 32 | u64::from(low), sequence);
            at += step;
        }
    }

    /// The tags of a descriptor.
    fn tags(&self, bytes: &[u8]) -> Vec<Tag> {
        let end = bytes.len() - self.tail_bytes();
        let mut tags = Vec::new();
        let mut at = HEADER_BYTES;
        while at + self.tag_bytes() <= end {
            let word = |offset| big32(bytes, at + offset).unwrap_or(0);
            let (flags, checksum, high) = match self.checksums {
                Checksums::V3 => (word(4), word(12), word(8)),
                _ => (word(4) & 0xffff, word(4) >> 16, if self.is_wide { word(8) } else { 0 }),
            };
            let high = if self.is_wide { high } else { 0 };
            let block = u64::from(high) << 32 | u64::from(word(0));
            tags.push(Tag { block, flags, checksum });
            at += self.tag_bytes();
            if flags & TAG_SAME_UUID == 0 {
                at += UUID_BYTES;
            }
            if flags & TAG_LAST != 0 {
                break;
            }
        }
        tags
    }

    fn is_sum_right(&self, bytes: &[u8]) -> bool {
        if self.checksums == Checksums::None {
            return true;
        }
        let at = bytes.len() - TAIL_BYTES;
        let mut copy = bytes.to_vec();
        put_big32(&mut copy, at, 0);
        big32(bytes, at) == Some(crc32c(self.seed, &copy))
    }

    fn is_commit_right(&self, bytes: &[u8]) -> bool {
        if self.checksums == Checksums::None {
            return true;
        }
        let mut copy = bytes.to_vec();
        put_big32(&mut copy, COMMIT_CHECKSUM_OFFSET, 0);
        big32(bytes, COMMIT_CHECKSUM_OFFSET) == Some(crc32c(self.seed, &copy))
    }
}
