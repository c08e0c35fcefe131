//! The place of a volume's journal: its inode maps the blocks.
use crate::{
    layout::{inode::Inode, map, volume::Volume},
    store::journal::{Journal, Location},
};
use alloc::vec::Vec;
use interfaces::file_system::FsError;

/// Number of the journal's inode.
const JOURNAL_INODE: u32 = 8;
/// The greatest number of pieces of the journal; a journal in more pieces is not used.
const RUNS_MAX: usize = 4096;

/// Finds the journal of a volume.
///
/// # Errors
/// [`FsError::Unsupported`] where it lies in too many pieces; as [`Journal::open`]; what reading its inode met.
pub(crate) fn open(volume: &Volume) -> Result<Journal, FsError> {
    let inode = Inode::load(volume, JOURNAL_INODE)?;
    let blocks = inode.attributes.size / volume.geometry.block_bytes as u64;
    let runs = find_runs(volume, &inode, blocks)?;
    Journal::open(&volume.store.device, Location { runs, blocks, area: volume.geometry.area() })
}

fn find_runs(volume: &Volume, inode: &Inode, blocks: u64) -> Result<Vec<(u64, u64)>, FsError> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    let mut at = 0;
    while at < blocks.min(u64::from(u32::MAX)) {
        let run = map::map(volume, inode, at, blocks - at)?;
        let start = run.start.ok_or(FsError::Corrupt)?;
        match runs.last_mut() {
            Some((last, count)) if *last + *count == start => *count += run.blocks,
            _ => runs.push((start, run.blocks)),
        }
        if runs.len() > RUNS_MAX {
            return Err(FsError::Unsupported);
        }
        at += run.blocks;
    }
    Ok(runs)
}
