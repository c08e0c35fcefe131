//! Block maps of ext2 and ext3: 12 direct blocks, then trees of one, two and three levels.
//!
//! The blocks of these trees have no checksums; every number is checked before it is followed.
use crate::{
    layout::{inode::Inode, run::Run, volume::Volume},
    store::bytes::word32,
};
use interfaces::file_system::FsError;

const DIRECT: u64 = 12;
const LEVELS: u32 = 3;

/// Returns the run that begins with block `logical`, at most `max` blocks long.
pub(crate) fn map(volume: &Volume, inode: &Inode, logical: u32, max: u64) -> Result<Run, FsError> {
    let logical = u64::from(logical);
    if logical < DIRECT {
        let end = DIRECT as usize * 4;
        return Ok(run_at(inode.body.get(..end).unwrap_or(&[]), logical, max));
    }
    let fanout = volume.geometry.block_bytes as u64 / 4;
    let mut rest = logical - DIRECT;
    for level in 0..LEVELS {
        let covered = fanout.pow(level + 1);
        if rest < covered {
            let slot = DIRECT + u64::from(level);
            return descend(volume, (pointer(&inode.body, slot), covered), rest, max);
        }
        rest -= covered;
    }
    Ok(Run::hole(max))
}

/// Follows a tree that covers `covered` blocks down to block `rest` of it.
fn descend(
    volume: &Volume,
    (mut block, mut covered): (u64, u64),
    mut rest: u64,
    max: u64,
) -> Result<Run, FsError> {
    let fanout = volume.geometry.block_bytes as u64 / 4;
    // There are at most LEVELS rounds, because `covered` is a power of the fan-out.
    loop {
        if block == 0 {
            return Ok(Run::hole((covered - rest).min(max)));
        }
        let node = volume.store.block(block)?;
        covered /= fanout;
        if covered <= 1 {
            return Ok(run_at(node.bytes(), rest, max));
        }
        block = pointer(node.bytes(), rest / covered);
        rest %= covered;
    }
}

fn pointer(bytes: &[u8], index: u64) -> u64 {
    u64::from(word32(bytes, index as usize * 4).unwrap_or(0))
}

/// Returns the run of pointers from `index` on: consecutive numbers, or zeroes.
fn run_at(bytes: &[u8], index: u64, max: u64) -> Run {
    let count = bytes.len() as u64 / 4;
    let first = pointer(bytes, index);
    let follows = |blocks: u64| match first {
        0 => pointer(bytes, index + blocks) == 0,
        first => pointer(bytes, index + blocks) == first + blocks,
    };
    let mut blocks = 1;
    while blocks < max && index + blocks < count && follows(blocks) {
        blocks += 1;
    }
    Run { start: (first != 0).then_some(first), blocks }
}
