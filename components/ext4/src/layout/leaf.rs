//! The tail of a directory's block, which is summed when a transaction ends.
use crate::{
    layout::{
        raw::directory::{TAIL_BYTES, TAIL_TYPE},
        superblock::Geometry,
    },
    store::{
        bytes::{put, put16, put32},
        checksum::crc32c,
    },
};

/// Returns the end of the entries of a block: before the checksum.
pub(crate) fn entries_end(geometry: &Geometry) -> usize {
    let tail = if geometry.has_checksums() { TAIL_BYTES } else { 0 };
    geometry.block_bytes - tail
}

/// Makes the tail of a leaf and its checksum.
pub(crate) fn seal(geometry: &Geometry, seed: u32, bytes: &mut [u8]) {
    if !geometry.has_checksums() {
        return;
    }
    let end = entries_end(geometry);
    let sum = crc32c(seed, bytes.get(..end).unwrap_or(&[]));
    put32(bytes, end, 0);
    put16(bytes, end + 4, TAIL_BYTES as u16);
    put(bytes, end + 6, &[0, TAIL_TYPE]);
    put32(bytes, end + 8, sum);
}
