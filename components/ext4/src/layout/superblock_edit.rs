//! Changes of the superblock: its counts with each transaction, and, directly on the device, the marks of the volume's state.
//!
//! | | with a journal | without |
//! | --- | --- | --- |
//! | writable | valid; "needs recovery" from the first commit until unmounted or read-only | not valid |
//! | unmounted | valid | as it was found |
//!
//! "Has errors" is set as soon as errors are found.
use crate::{
    layout::{
        features::{Incompat, ReadOnlyCompat},
        groups::Groups,
        raw::superblock::*,
        volume::Volume,
    },
    store::{
        bytes::{put, put16, put32, word16, word32},
        checksum::crc32c,
        class::Class,
        health::STATE_VALID,
    },
};
use core::{ops::Range, sync::atomic::Ordering::Relaxed};
use interfaces::{block::SECTOR_BYTES, file_system::FsError};
use rt::PAGE_BYTES;

/// Longest time, in seconds, after which a transaction updates the superblock's write time, even if it changes nothing else
/// in it.
const REFRESH_SECONDS: u64 = 60;

/// The state to store in the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The volume was mounted for writing.
    Mounted,
    /// The journal is about to get a transaction.
    Recovery,
    /// The journal has no transaction, and the volume is about to be unmounted.
    Settled,
    /// Errors were found.
    Errors,
    /// The volume is unmounted, or read-only from now on.
    Left,
}

/// Returns the superblock's block, and the range in it.
fn place(volume: &Volume) -> (u64, usize) {
    let block_bytes = volume.geometry.block_bytes;
    ((SUPERBLOCK_OFFSET / block_bytes) as u64, SUPERBLOCK_OFFSET % block_bytes)
}

fn seconds() -> u64 {
    rt::time::wall_ns() / 1_000_000_000
}

/// Returns the time of the last mount or write that the superblock `raw` records, in seconds since 1970.
pub(crate) fn last_used_seconds(raw: &[u8]) -> u64 {
    let mounted = word32(raw, MOUNT_TIME_OFFSET).unwrap_or(0);
    written_seconds(raw).max(u64::from(mounted))
}

fn written_seconds(raw: &[u8]) -> u64 {
    let low = word32(raw, WRITE_TIME_OFFSET).unwrap_or(0);
    let high = raw.get(WRITE_TIME_HIGH_OFFSET).copied().map_or(0, u64::from);
    high << 32 | u64::from(low)
}

fn seal(volume: &Volume, raw: &mut [u8]) {
    let now = seconds();
    put32(raw, WRITE_TIME_OFFSET, now as u32);
    put(raw, WRITE_TIME_HIGH_OFFSET, &[(now >> 32) as u8]);
    if volume.geometry.has_checksums() {
        let sum = crc32c(!0, raw.get(..CHECKSUM_OFFSET).unwrap_or(&[]));
        put32(raw, CHECKSUM_OFFSET, sum);
    }
}

/// Adds the superblock's counts to the running transaction, in which no operation is under way. With a journal a transaction
/// that changes none of them leaves the superblock out, unless the last one with it is some time ago.
pub(crate) fn note(volume: &Volume) {
    let Ok(groups) = volume.groups() else { return };
    let (block, offset) = place(volume);
    let range = offset..offset + SUPERBLOCK_BYTES;
    if volume.store.log.has_journal() && says_all(volume, groups, (block, range.clone())) {
        return;
    }
    let changed = volume.store.modify_unlogged(block, |bytes| {
        let raw = bytes.get_mut(range).unwrap_or(&mut []);
        set_counts(volume, groups, raw);
        seal(volume, raw);
    });
    if changed.is_ok() {
        volume.store.log.running().blocks.insert(block, Class::Other);
    }
}

/// Returns whether the superblock, as the last transaction with it left it, already has all present values.
fn says_all(volume: &Volume, groups: &Groups, (block, range): (u64, Range<usize>)) -> bool {
    let Ok(block) = volume.store.block(block) else { return false };
    let Some(said) = block.bytes().get(range) else { return false };
    let mut raw = [0; SUPERBLOCK_BYTES];
    put(&mut raw, 0, said);
    set_counts(volume, groups, &mut raw);
    raw == *said && seconds().abs_diff(written_seconds(said)) < REFRESH_SECONDS
}

fn set_counts(volume: &Volume, groups: &Groups, raw: &mut [u8]) {
    let free = groups.free_blocks();
    put32(raw, FREE_BLOCKS_OFFSET, free as u32);
    if volume.geometry.incompat.contains(Incompat::WIDE) {
        put32(raw, FREE_BLOCKS_HIGH_OFFSET, (free >> 32) as u32);
    }
    put32(raw, FREE_INODES_OFFSET, groups.free_inodes() as u32);
    put32(raw, LAST_ORPHAN_OFFSET, groups.orphans.head());
    let mut features = word32(raw, READ_ONLY_COMPAT_OFFSET).unwrap_or(0);
    if groups.has_large_file.load(Relaxed) {
        features |= ReadOnlyCompat::LARGE_FILE.bits();
    }
    put32(raw, READ_ONLY_COMPAT_OFFSET, features);
    let has_journal = volume.store.log.has_journal();
    set_state(volume, raw, if has_journal { Mark::Recovery } else { Mark::Mounted });
}

/// Sets the mark in the superblock on the device, past the cache and the log, durably. "Needs recovery" must be set before
/// the journal records a start, and until it records none.
///
/// # Errors
/// Errors of reading or writing it.
pub(crate) fn mark(volume: &Volume, mark: Mark) -> Result<(), FsError> {
    let (block, offset) = place(volume);
    let block_bytes = volume.geometry.block_bytes;
    let mut bytes = volume.store.device.read_block(block_bytes, block)?;
    let raw = bytes.get_mut(offset..offset + SUPERBLOCK_BYTES).ok_or(FsError::Io)?;
    set_state(volume, raw, mark);
    if mark == Mark::Mounted {
        put32(raw, MOUNT_TIME_OFFSET, seconds() as u32);
        let mounts = word16(raw, MOUNT_COUNT_OFFSET).unwrap_or(0);
        put16(raw, MOUNT_COUNT_OFFSET, mounts.saturating_add(1));
    }
    seal(volume, raw);
    let sector = SUPERBLOCK_OFFSET / SECTOR_BYTES;
    volume.store.device.write(&[(sector as u64, raw)])?;
    volume.store.device.flush()
}

fn set_state(volume: &Volume, raw: &mut [u8], mark: Mark) {
    let has_journal = volume.store.log.has_journal();
    let mut incompat = word32(raw, INCOMPAT_OFFSET).unwrap_or(0);
    match mark {
        Mark::Recovery => incompat |= Incompat::RECOVER.bits(),
        Mark::Settled | Mark::Left => incompat &= !Incompat::RECOVER.bits(),
        Mark::Mounted | Mark::Errors => {}
    }
    put32(raw, INCOMPAT_OFFSET, incompat);
    let left = volume.store.health.state_left();
    let is_left = has_journal || matches!(mark, Mark::Left | Mark::Settled);
    put16(raw, STATE_OFFSET, if is_left { left } else { left & !STATE_VALID });
}

const _: () = assert!(SUPERBLOCK_BYTES <= PAGE_BYTES);
