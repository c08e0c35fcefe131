//! Writing inodes to the inode table: encoding the fields, and making the checksum.
use crate::{
    layout::{
        features::{Incompat, ReadOnlyCompat},
        inode::{Inode, inode_place},
        raw::inode::*,
        superblock::Geometry,
        volume::Volume,
    },
    store::{
        bytes::{put, put16, put32, word16, word32},
        checksum::crc32c,
        class::Class,
        log::Operation,
    },
};
use interfaces::file_system::{FileTime, FileType, FsError};

/// The greatest number of links that an inode counts; a directory with more counts one (`dir_nlink`).
pub(crate) const LINKS_MAX: u32 = 65_000;

/// The former contents of an inode in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// The entry belongs to this inode: parts that are not its fields stay (attributes).
    Itself,
    /// The entry belonged to another inode: all of it is cleared first.
    Another,
}

impl Inode {
    /// Brings the inode into the running transaction.
    ///
    /// # Errors
    /// As [`crate::store::Store::modify`].
    pub(crate) fn store(
        &self,
        volume: &Volume,
        operation: &Operation<'_>,
        before: Before,
    ) -> Result<(), FsError> {
        self.store_with(volume, operation, before, |_| ())
    }

    /// Stores the inode as [`Inode::store`] does; `change` edits the attributes area behind the
    /// extra part.
    ///
    /// # Errors
    /// As [`crate::store::Store::modify`].
    pub(crate) fn store_with(
        &self,
        volume: &Volume,
        operation: &Operation<'_>,
        before: Before,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<(), FsError> {
        let geometry = &volume.geometry;
        let (block, offset) = inode_place(volume, self.number)?;
        volume.store.modify(operation, block, Class::Other, |bytes| {
            let end = offset + geometry.inode_bytes;
            let raw = bytes.get_mut(offset..end).unwrap_or(&mut []);
            if before == Before::Another {
                raw.fill(0);
            }
            self.encode(geometry, raw);
            put32(raw, at::DELETED, self.link(volume));
            if let Some(area) = raw.get_mut(BASE_BYTES + self.extra_bytes..) {
                change(area);
            }
            if geometry.has_checksums() {
                seal(raw, self.seed, self.extra_bytes);
            }
        })
    }

    /// Returns the next orphan, or the time of deletion.
    fn link(&self, volume: &Volume) -> u32 {
        let next = volume.groups().ok().and_then(|groups| groups.orphans.next_of(self.number));
        next.unwrap_or(self.deleted)
    }

    fn encode(&self, geometry: &Geometry, raw: &mut [u8]) {
        let attributes = &self.attributes;
        put16(raw, at::MODE, attributes.file_type as u16 | attributes.permissions);
        put16(raw, at::USER_LOW, attributes.user as u16);
        put16(raw, at::USER_HIGH, (attributes.user >> 16) as u16);
        put16(raw, at::GROUP_LOW, attributes.group as u16);
        put16(raw, at::GROUP_HIGH, (attributes.group >> 16) as u16);
        put32(raw, at::SIZE_LOW, attributes.size as u32);
        let has_high_size = attributes.file_type == FileType::Regular
            || geometry.incompat.contains(Incompat::LARGEDIR);
        if has_high_size {
            put32(raw, at::SIZE_HIGH, (attributes.size >> 32) as u32);
        }
        put16(raw, at::LINKS, attributes.links as u16);
        put(raw, at::BODY, &self.body);
        put32(raw, at::GENERATION, attributes.generation);
        put32(raw, at::ATTRIBUTE_BLOCK_LOW, self.attribute_block as u32);
        put16(raw, at::ATTRIBUTE_BLOCK_HIGH, (self.attribute_block >> 32) as u16);
        let flags = self.encode_blocks(geometry, raw);
        put32(raw, at::FLAGS, flags);
        self.encode_times(raw);
    }

    /// Encodes the number of blocks. Returns the flags, which give the unit.
    fn encode_blocks(&self, geometry: &Geometry, raw: &mut [u8]) -> u32 {
        let (units, flags) = (self.attributes.blocks, self.attributes.flags & !FLAG_HUGE_FILE);
        let is_huge = geometry.read_only_compat.contains(ReadOnlyCompat::HUGE_FILE);
        let (count, flags) = match units >> 48 {
            0 => (units, flags),
            _ => (units / (geometry.block_bytes as u64 / 512), flags | FLAG_HUGE_FILE),
        };
        put32(raw, at::BLOCKS_LOW, count as u32);
        if is_huge {
            put16(raw, at::BLOCKS_HIGH, (count >> 32) as u16);
        }
        flags
    }

    fn encode_times(&self, raw: &mut [u8]) {
        let attributes = &self.attributes;
        let end = BASE_BYTES + self.extra_bytes;
        if self.extra_bytes > 0 {
            put16(raw, at::EXTRA_BYTES, self.extra_bytes as u16);
        }
        let times = [
            (attributes.accessed, at::ACCESSED, at::ACCESSED_EXTRA),
            (attributes.changed, at::CHANGED, at::CHANGED_EXTRA),
            (attributes.modified, at::MODIFIED, at::MODIFIED_EXTRA),
        ];
        for (time, low, extra) in times {
            let has_extra = extra + 4 <= end;
            if has_extra {
                put32(raw, low, clamp(time) as u32);
                put32(raw, extra, encode_extra(time));
            } else {
                put32(raw, low, encode_seconds_alone(time));
            }
        }
        if at::CREATED_EXTRA + 4 <= end {
            put32(raw, at::CREATED, clamp(attributes.created) as u32);
            put32(raw, at::CREATED_EXTRA, encode_extra(attributes.created));
        }
    }
}

/// Makes the checksum of an encoded inode.
fn seal(raw: &mut [u8], seed: u32, extra_bytes: usize) {
    let has_high = extra_bytes + BASE_BYTES >= CHECKSUM_HIGH_OFFSET + 2;
    put16(raw, CHECKSUM_LOW_OFFSET, 0);
    if has_high {
        put16(raw, CHECKSUM_HIGH_OFFSET, 0);
    }
    let sum = crc32c(seed, raw);
    put16(raw, CHECKSUM_LOW_OFFSET, sum as u16);
    if has_high {
        put16(raw, CHECKSUM_HIGH_OFFSET, (sum >> 16) as u16);
    }
}

/// Stores only an inode's link in the list of orphans; the inode is not locked. An inode that
/// another thread took off the list meanwhile is left as it is, because that thread stores it.
///
/// # Errors
/// As [`crate::store::Store::modify`].
pub(crate) fn store_link(
    volume: &Volume,
    operation: &Operation<'_>,
    number: u32,
) -> Result<(), FsError> {
    let geometry = &volume.geometry;
    let orphans = &volume.groups()?.orphans;
    let (block, offset) = inode_place(volume, number)?;
    volume.store.modify(operation, block, Class::Other, |bytes| {
        let raw = bytes.get_mut(offset..offset + geometry.inode_bytes).unwrap_or(&mut []);
        // The list is read with the block held: a thread that takes the inode off the list stores it
        // later, so the last value stored is always the list's.
        let Some(next) = orphans.next_of(number) else { return };
        put32(raw, at::DELETED, next);
        if geometry.has_checksums() {
            let seed = geometry.inode_seed(number, word32(raw, at::GENERATION).unwrap_or(0));
            let extra_bytes = word16(raw, at::EXTRA_BYTES).map_or(0, usize::from);
            seal(raw, seed, extra_bytes);
        }
    })
}

/// The latest second with the extra part's two bits.
const SECONDS_MAX: i64 = 0x3_7fff_ffff;

fn clamp(time: FileTime) -> i64 {
    time.seconds.clamp(i64::from(i32::MIN), SECONDS_MAX)
}

/// Returns the nearest time that an inode with an extra part can hold: whole seconds at both ends,
/// as in Linux.
pub(crate) fn storable(time: FileTime) -> FileTime {
    let seconds = clamp(time);
    let is_end = seconds == SECONDS_MAX || seconds == i64::from(i32::MIN);
    FileTime { seconds, nanoseconds: if is_end { 0 } else { time.nanoseconds } }
}

/// Returns the low 32 bits; without an extra part the nearest time that can be stored.
fn encode_seconds_alone(time: FileTime) -> u32 {
    clamp(time).min(i64::from(i32::MAX)) as u32
}

/// Encodes bits 32 and 33 of the seconds, beyond the sign of the low part, and the nanoseconds.
fn encode_extra(time: FileTime) -> u32 {
    let seconds = clamp(time);
    let epoch = ((seconds - i64::from(seconds as i32)) >> 32) as u32 & 3;
    epoch | time.nanoseconds << 2
}

/// Encodes the body of a device node.
pub(crate) fn encode_device((major, minor): (u32, u32)) -> [u8; BODY_BYTES] {
    let mut body = [0; BODY_BYTES];
    if major < 256 && minor < 256 {
        put32(&mut body, 0, major << 8 | minor);
    } else {
        put32(&mut body, 4, minor & 0xff | (major & 0xfff) << 8 | (minor & 0xf_ff00) << 12);
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_beyond_both_ends_are_the_ends() {
        let at = |seconds, nanoseconds| storable(FileTime { seconds, nanoseconds });
        let told = |time: FileTime| (time.seconds, time.nanoseconds);
        assert_eq!(told(at(1_700_000_000, 7)), (1_700_000_000, 7));
        assert_eq!(told(at(i64::MAX, 7)), (SECONDS_MAX, 0));
        assert_eq!(told(at(SECONDS_MAX, 7)), (SECONDS_MAX, 0));
        assert_eq!(told(at(i64::MIN, 7)), (i64::from(i32::MIN), 0));
    }
}
