//! Finds the end of a log, and checks the committed transactions before it for damage.
//!
//! After a power cut the log ends with a transaction that has no commit block. A commit block is written when everything
//! before it is on the device. So a wrong checksum in a transaction that has one is damage, and recovery fails before it
//! changes anything, as jbd2's and `e2fsck`'s does. Blocks of an earlier use of the log also have wrong checksums; they are
//! recognised by a commit that is older than the one before it.
//!
//! If each block has a checksum (v2, v3), a valid commit after the end shows that the transaction at the end was committed,
//! and that the block at which the log seems to end is damaged. jbd2 does not look for such a commit, and drops the blocks
//! that follow.
//!
//! Source: Linux fs/jbd2/recovery.c (`do_one_pass`).
use super::{Checksums, Journal, format::*};
use crate::store::{
    bytes::{big32, put_big32},
    checksum::{crc32, crc32c},
    device::VolumeDevice,
};
use alloc::vec::Vec;
use interfaces::file_system::FsError;

/// Transactions take at most a quarter of a log: share of it that is looked through for a commit after its end.
const SHARE_LOOKED_THROUGH: u32 = 2;
/// Bytes of a commit block that have a meaning; the rest is zero, and may be lost in a power cut.
const COMMIT_BYTES: usize = 512;

/// The result of looking at a block: whether the log continues.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ScanResult {
    Further,
    /// The log ends here, and no later part of it is valid.
    End,
}

/// A scan of the log from its start.
struct Scan<'a> {
    journal: &'a Journal,
    device: &'a VolumeDevice,
    /// When the volume was mounted last.
    mount_seconds: u32,
    /// The next block, and the number of blocks of the log that are left from there.
    at: u32,
    left: u32,
    /// The transaction to which the next block must belong, and the block at which it began.
    sequence: u32,
    began: u32,
    /// Time of the last commit in seconds; before the first commit, that of the last mount.
    last_seconds: u64,
    /// Block of the running transaction that has a wrong checksum.
    suspect: Option<u32>,
    /// The transaction whose commit block has a wrong checksum, if that alone does not prove damage.
    interrupted: Option<u32>,
    /// CRC-32 of the running transaction (v1).
    sum: u32,
}

impl Journal {
    /// The sequence behind the last committed transaction of the log that begins at `start`. The volume was mounted last at
    /// `mount_seconds`.
    ///
    /// # Errors
    /// [`FsError::Corrupt`] if a committed transaction is damaged; errors of reading.
    pub(super) fn find_end(
        &self,
        device: &VolumeDevice,
        (start, mount_seconds): (u32, u32),
    ) -> Result<u32, FsError> {
        let mut scan = Scan {
            journal: self,
            device,
            mount_seconds,
            at: start,
            left: self.capacity(),
            sequence: self.sequence,
            began: start,
            last_seconds: 0,
            suspect: None,
            interrupted: None,
            sum: !0,
        };
        while let Some(bytes) = scan.take()? {
            let next = match big32(&bytes, 4) {
                Some(DESCRIPTOR) => scan.pass_descriptor(&bytes)?,
                Some(REVOKE) => scan.pass_revoke(&bytes),
                Some(COMMIT) => scan.pass_commit(&bytes)?,
                _ => break,
            };
            if next == ScanResult::End {
                return Ok(scan.end());
            }
        }
        scan.look_behind_end()?;
        Ok(scan.end())
    }

    /// Returns whether a descriptor or a revoke block has the right checksum.
    fn is_sum_right(&self, bytes: &[u8]) -> bool {
        let at = bytes.len() - TAIL_BYTES;
        let mut copy = bytes.to_vec();
        put_big32(&mut copy, at, 0);
        !self.checksums.are_of_blocks() || big32(bytes, at) == Some(crc32c(self.seed, &copy))
    }

    /// Returns whether a commit block has the right checksum, possibly with remains of a torn write behind it.
    fn is_commit_right(&self, bytes: &[u8]) -> bool {
        let mut copy = bytes.to_vec();
        put_big32(&mut copy, COMMIT_CHECKSUM_OFFSET, 0);
        let found = big32(bytes, COMMIT_CHECKSUM_OFFSET);
        let is_right = |copy: &[u8]| found == Some(crc32c(self.seed, copy));
        if !self.checksums.are_of_blocks() || is_right(&copy) {
            return true;
        }
        copy.iter_mut().skip(COMMIT_BYTES).for_each(|byte| *byte = 0);
        is_right(&copy)
    }
}

impl Scan<'_> {
    /// Takes the next block, if it is one of the log's own blocks of the present transaction.
    fn take(&mut self) -> Result<Option<Vec<u8>>, FsError> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        let bytes = self.journal.read(self.device, self.at)?;
        let is_own = big32(&bytes, 0) == Some(MAGIC) && big32(&bytes, 8) == Some(self.sequence);
        if !is_own {
            return Ok(None);
        }
        self.left = left;
        self.at = self.journal.after(self.at, 1);
        Ok(Some(bytes))
    }

    fn end(&self) -> u32 {
        self.interrupted.unwrap_or(self.sequence)
    }

    /// Returns the number of the block that was just taken.
    fn taken(&self) -> u32 {
        self.journal.after(self.at, self.journal.capacity() - 1)
    }

    fn pass_descriptor(&mut self, bytes: &[u8]) -> Result<ScanResult, FsError> {
        if !self.journal.is_sum_right(bytes) {
            self.suspect = self.suspect.or(Some(self.taken()));
        }
        let count = self.journal.tags(bytes).len() as u32;
        let Some(left) = self.left.checked_sub(count) else { return Ok(ScanResult::End) };
        if self.journal.checksums == Checksums::V1 {
            self.sum = crc32(self.sum, bytes);
            for index in 0..count {
                let block = self.journal.after(self.at, index);
                self.sum = crc32(self.sum, &self.journal.read(self.device, block)?);
            }
        }
        self.left = left;
        self.at = self.journal.after(self.at, count);
        Ok(ScanResult::Further)
    }

    fn pass_revoke(&mut self, bytes: &[u8]) -> ScanResult {
        if !self.journal.is_sum_right(bytes) {
            self.suspect = self.suspect.or(Some(self.taken()));
        }
        ScanResult::Further
    }

    fn pass_commit(&mut self, bytes: &[u8]) -> Result<ScanResult, FsError> {
        let seconds = commit_seconds(bytes);
        let is_right = self.is_transaction_right(bytes) && self.journal.is_commit_right(bytes);
        let is_whole = is_right && self.suspect.is_none();
        if !is_whole && seconds < self.last_seconds {
            let name = self.device.name();
            log::warn!("ext4: {name}: journal: transaction {} is an old one", self.sequence);
            return Ok(ScanResult::End);
        }
        if let Some(block) = self.suspect {
            return Err(self.journal.damage(self.device, self.sequence, block));
        }
        match self.interrupted {
            // The commit of a later transaction shows that this one was not just interrupted.
            Some(sequence) if is_right => {
                return Err(self.journal.damage(self.device, sequence, self.taken()));
            }
            None if !is_right && !self.journal.is_asynchronous => {
                return Err(self.journal.damage(self.device, self.sequence, self.taken()));
            }
            None if !is_right => self.interrupted = Some(self.sequence),
            _ => self.last_seconds = seconds,
        }
        self.sequence = self.sequence.wrapping_add(1);
        (self.began, self.sum) = (self.at, !0);
        Ok(ScanResult::Further)
    }

    /// Returns whether the checksum of a transaction (v1) is right, if its commit block has one.
    fn is_transaction_right(&self, bytes: &[u8]) -> bool {
        let kind = bytes.get(COMMIT_CHECKSUM_TYPE_OFFSET..).and_then(|rest| rest.first_chunk());
        let found = big32(bytes, COMMIT_CHECKSUM_OFFSET);
        let is_unused = kind == Some(&[0, 0]) && found == Some(0);
        let is_right = kind == Some(&COMMIT_CRC32) && found == Some(self.sum);
        self.journal.checksums != Checksums::V1 || is_unused || is_right
    }

    /// Looks beyond the end of the log for the valid commit of the transaction there, or of a later one.
    fn look_behind_end(&self) -> Result<(), FsError> {
        if !self.journal.checksums.are_of_blocks() {
            return Ok(());
        }
        let capacity = self.journal.capacity();
        let gone = (self.at + capacity - self.began) % capacity;
        let count = (capacity / SHARE_LOOKED_THROUGH).min(self.left.saturating_add(gone));
        let earliest = match self.last_seconds {
            0 => u64::from(self.mount_seconds),
            seconds => seconds,
        };
        self.journal.each_block(self.device, self.began, count, |block, bytes| {
            let is_commit = big32(bytes, 0) == Some(MAGIC) && big32(bytes, 4) == Some(COMMIT);
            let ahead = big32(bytes, 8).map_or(u32::MAX, |found| found.wrapping_sub(self.sequence));
            let is_later = is_commit && ahead < capacity && commit_seconds(bytes) >= earliest;
            if is_later && self.journal.is_commit_right(bytes) {
                let found = self.sequence.wrapping_add(ahead);
                log::error!("ext4: journal: block {block} commits transaction {found}");
                return Err(self.journal.damage(self.device, self.sequence, self.at));
            }
            Ok(())
        })
    }
}

/// Returns the time of a commit block in seconds since 1970.
fn commit_seconds(bytes: &[u8]) -> u64 {
    let word = |offset| big32(bytes, offset).map_or(0, u64::from);
    word(COMMIT_SECONDS_OFFSET) << 32 | word(COMMIT_SECONDS_OFFSET + 4)
}
