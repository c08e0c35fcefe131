//! The part of a group that is never free: copies of the superblock and of descriptors, bitmaps and tables.
use super::{Groups, bitmap, descriptor::has_superblock};
use crate::layout::{features::Incompat, superblock::Geometry};
use alloc::{vec, vec::Vec};

/// Makes the initial block bitmap of a group.
pub(super) fn first_bitmap(geometry: &Geometry, groups: &Groups, number: u32) -> Vec<u8> {
    let mut bits = vec![0; geometry.block_bytes];
    bitmap::set(&mut bits, 0, copies(geometry, number));
    let blocks = geometry.blocks_in(number) as usize;
    bitmap::set(&mut bits, blocks, geometry.block_bytes * 8 - blocks);
    let start = geometry.group_start(number);
    let mut mark = |block: u64, count: u64| {
        let from = block.max(start);
        let end = (block + count).min(start + blocks as u64);
        if from < end {
            bitmap::set(&mut bits, (from - start) as usize, (end - from) as usize);
        }
    };
    // With flex_bg a group also contains bitmaps and tables of other groups.
    groups.fixed().for_each(|(block, count)| mark(block, count));
    bits
}

/// Returns the number of blocks at a group's beginning with copies of the superblock and the descriptors.
fn copies(geometry: &Geometry, number: u32) -> usize {
    let per_block = (geometry.block_bytes / geometry.descriptor_bytes) as u32;
    let is_meta = geometry.incompat.contains(Incompat::META_BG)
        && number / per_block >= geometry.first_meta_group;
    let has_superblock = has_superblock(geometry, u64::from(number));
    let superblock = usize::from(has_superblock);
    if is_meta {
        let place = number % per_block;
        return superblock + usize::from(place == 0 || place == 1 || place == per_block - 1);
    }
    if !has_superblock {
        return 0;
    }
    let all = geometry.groups.div_ceil(per_block);
    let descriptors = match geometry.incompat.contains(Incompat::META_BG) {
        true => geometry.first_meta_group.min(all),
        false => all,
    };
    superblock + descriptors as usize + usize::from(geometry.reserved_descriptors)
}
