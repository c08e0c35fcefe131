//! Inodes: an inode is found in its group's table, its checksum is verified, and its fields are checked.
use crate::{
    layout::{
        attribute_area::Hints,
        features::{Incompat, ReadOnlyCompat},
        groups::descriptor,
        raw::inode::*,
        superblock::{Geometry, ROOT_INODE},
        volume::Volume,
    },
    store::{bytes::word32, cache::BlockRef, checksum::crc32c},
};
use core::sync::atomic::AtomicU32;
use interfaces::file_system::{Attributes, FileTime, FileType, FsError};
use rt::{PAGE_BYTES, memory::Charge};
use zerocopy::FromBytes;

/// Number of chunks of an inode table that are read at once: inodes of one directory are close together.
const TABLE_CHUNKS_AHEAD: u64 = 4;
/// Memory charge of a held inode, including map entry and allocation headers.
const HELD_BYTES: usize = size_of::<Inode>() + 96;

/// An inode that was checked.
pub(crate) struct Inode {
    /// Its number.
    pub(crate) number: u32,
    /// The attributes for `stat`.
    pub(crate) attributes: Attributes,
    /// Block map, extent tree, target or inline data.
    pub(crate) body: [u8; BODY_BYTES],
    /// The seed of the checksums of its blocks.
    pub(crate) seed: u32,
    /// Bytes between the base part and the attributes in the inode.
    pub(crate) extra_bytes: usize,
    /// Block of its extended attributes; zero if there is none.
    pub(crate) attribute_block: u64,
    /// Time of its deletion, or the next inode on the list of orphans.
    pub(crate) deleted: u32,
    /// Number of times that it was locked to be changed. A result of a search in the inode is valid until the
    /// number changes.
    pub(crate) turn: u64,
    /// For a directory that is searched block by block: the block where the last name was found.
    pub(crate) last_found: AtomicU32,
    _charge: Charge,
}

impl Inode {
    /// Reads inode `number`.
    ///
    /// # Errors
    /// [`FsError::Corrupt`] if a number, the checksum or a field is invalid, or the inode has no name;
    /// [`FsError::Unsupported`] for encrypted files; `NoMemory`, `Io`, `Restarted`.
    pub(crate) fn load(volume: &Volume, number: u32) -> Result<Inode, FsError> {
        let inode = Inode::load_orphan(volume, number)?;
        if inode.attributes.links > 0 { Ok(inode) } else { Err(FsError::Corrupt) }
    }

    /// Reads an inode as [`Inode::load`] does, even if it has no name.
    ///
    /// # Errors
    /// Those of [`Inode::load`].
    pub(crate) fn load_orphan(volume: &Volume, number: u32) -> Result<Inode, FsError> {
        let part = raw_inode(volume, number)?;
        let geometry = &volume.geometry;
        let bytes = part.bytes();
        let (raw, rest) = RawInode::read_from_prefix(bytes).map_err(|_| FsError::Corrupt)?;
        let extra_bytes = decode_extra_bytes(rest)?;
        let extra = decode_extra(rest, extra_bytes)?;
        let seed = geometry.inode_seed(number, raw.generation.get());
        if geometry.has_checksums() && !is_sum_right(seed, bytes, &raw, &extra, extra_bytes) {
            return Err(FsError::Corrupt);
        }
        if raw.flags.get() & FLAGS_UNREADABLE != 0 {
            return Err(FsError::Unsupported);
        }
        let attribute_block = u64::from(raw.attribute_block_low.get())
            | u64::from(raw.attribute_block_high.get()) << 32;
        let mut attributes = decode_attributes(geometry, number, (&raw, &extra))?;
        check_body(geometry, &attributes)?;
        let hints = match (attribute_block, extra_bytes) {
            (0, 0) => Hints::default(),
            (0, _) => Hints::of_inner(rest.get(extra_bytes..).unwrap_or(&[])),
            _ => Hints::ALL,
        };
        hints.put_in(&mut attributes);
        let charge = Charge::take(HELD_BYTES).map_err(|_| FsError::NoMemory)?;
        Ok(Inode {
            deleted: raw.deleted.get(),
            number,
            attributes,
            body: raw.body,
            seed,
            extra_bytes,
            attribute_block,
            turn: 0,
            last_found: AtomicU32::new(0),
            _charge: charge,
        })
    }

    /// Returns whether the inode has this flag.
    pub(crate) fn has_flag(&self, flag: u32) -> bool {
        self.attributes.flags & flag != 0
    }

    /// Makes an inode that was just allocated, without a name.
    ///
    /// # Errors
    /// [`FsError::NoMemory`].
    pub(crate) fn fresh(
        geometry: &Geometry,
        attributes: Attributes,
        extra_bytes: usize,
    ) -> Result<Inode, FsError> {
        let number = u32::try_from(attributes.inode).map_err(|_| FsError::Corrupt)?;
        let charge = Charge::take(HELD_BYTES).map_err(|_| FsError::NoMemory)?;
        Ok(Inode {
            number,
            seed: geometry.inode_seed(number, attributes.generation),
            attributes,
            body: [0; BODY_BYTES],
            extra_bytes,
            attribute_block: 0,
            deleted: 0,
            turn: 0,
            last_found: AtomicU32::new(0),
            _charge: charge,
        })
    }

    /// Sets a flag.
    pub(crate) fn set_flag(&mut self, flag: u32) {
        self.attributes.flags |= flag;
    }

    /// Clears a flag.
    pub(crate) fn clear_flag(&mut self, flag: u32) {
        self.attributes.flags &= !flag;
    }

    /// Adds `blocks`, which may be negative, to the count of blocks.
    pub(crate) fn add_blocks(&mut self, geometry: &Geometry, blocks: i64) {
        let units = blocks * (geometry.block_bytes / 512) as i64;
        self.attributes.blocks = self.attributes.blocks.saturating_add_signed(units);
    }

    /// Returns the wanted place of its first block: in its own group.
    pub(crate) fn home_block(&self, geometry: &Geometry) -> u64 {
        let group = geometry.inode_group(self.number).map_or(0, |(group, _)| group);
        geometry.group_start(group)
    }

    /// Checks that the inode is a directory; fails with `NotDirectory` otherwise.
    pub(crate) fn check_directory(&self) -> Result<(), FsError> {
        match self.attributes.file_type {
            FileType::Directory => Ok(()),
            _ => Err(FsError::NotDirectory),
        }
    }
}

/// Returns the bytes of an inode on disk.
pub(crate) fn raw_inode(volume: &Volume, number: u32) -> Result<BlockRef, FsError> {
    let geometry = &volume.geometry;
    let index = number.checked_sub(1).filter(|_| number <= geometry.inodes);
    let index = index.ok_or(FsError::Corrupt)?;
    let place = (index % geometry.inodes_per_group) as usize * geometry.inode_bytes;
    let (group, _) = geometry.inode_group(number).ok_or(FsError::Corrupt)?;
    // In a group whose inodes were never used the table is meaningless.
    let table = match volume.groups() {
        Ok(groups) => groups.used_inode_table(group)?,
        Err(_) => descriptor::inode_table(&volume.store, geometry, group)?,
    };
    let (block, offset) = place_in(geometry, table, place);
    let left = geometry.inodes_per_group as usize * geometry.inode_bytes - place;
    let ahead = TABLE_CHUNKS_AHEAD.min(left.div_ceil(PAGE_BYTES) as u64);
    volume.store.part(block, offset, geometry.inode_bytes, ahead)
}

/// Returns the block of an inode that is in use, and its range in the block.
///
/// # Errors
/// Those of [`raw_inode`].
pub(crate) fn inode_place(volume: &Volume, number: u32) -> Result<(u64, usize), FsError> {
    let geometry = &volume.geometry;
    let (group, index) = geometry.inode_group(number).ok_or(FsError::Corrupt)?;
    let table = match volume.groups() {
        Ok(groups) => groups.inode_table(group)?,
        Err(_) => descriptor::inode_table(&volume.store, geometry, group)?,
    };
    Ok(place_in(geometry, table, index as usize * geometry.inode_bytes))
}

/// Returns the block with byte `place` of an inode table, and the offset in the block.
fn place_in(geometry: &Geometry, table: u64, place: usize) -> (u64, usize) {
    (table + (place / geometry.block_bytes) as u64, place % geometry.block_bytes)
}

/// Decodes the number of extra bytes, which must be inside the inode and a multiple of four.
pub(crate) fn decode_extra_bytes(rest: &[u8]) -> Result<usize, FsError> {
    let Some(bytes) = rest.first_chunk() else { return Ok(0) };
    let extra_bytes = usize::from(u16::from_le_bytes(*bytes));
    if extra_bytes > rest.len() || !extra_bytes.is_multiple_of(4) {
        return Err(FsError::Corrupt);
    }
    Ok(extra_bytes)
}

/// Decodes the extra part; parts that the inode does not have are zero.
fn decode_extra(rest: &[u8], extra_bytes: usize) -> Result<RawExtra, FsError> {
    let mut bytes = [0; size_of::<RawExtra>()];
    let length = extra_bytes.min(bytes.len());
    if let (Some(to), Some(from)) = (bytes.get_mut(..length), rest.get(..length)) {
        to.copy_from_slice(from);
    }
    RawExtra::read_from_bytes(&bytes).map_err(|_| FsError::Corrupt)
}

/// Compares the checksum, which has 16 bits, or 32 if the extra part has the high half.
fn is_sum_right(
    seed: u32,
    bytes: &[u8],
    raw: &RawInode,
    extra: &RawExtra,
    extra_bytes: usize,
) -> bool {
    let (low_at, high_at) = (CHECKSUM_LOW_OFFSET, CHECKSUM_HIGH_OFFSET);
    let has_high = extra_bytes >= high_at + 2 - BASE_BYTES;
    let part = |range: core::ops::Range<usize>| bytes.get(range).unwrap_or(&[]);
    let mut sum = crc32c(crc32c(seed, part(0..low_at)), &[0; 2]);
    if has_high {
        sum = crc32c(crc32c(sum, part(low_at + 2..high_at)), &[0; 2]);
        sum = crc32c(sum, part(high_at + 2..bytes.len()));
        sum == u32::from(raw.checksum_low.get()) | u32::from(extra.checksum_high.get()) << 16
    } else {
        sum = crc32c(sum, part(low_at + 2..bytes.len()));
        sum as u16 == raw.checksum_low.get()
    }
}

fn decode_attributes(
    geometry: &Geometry,
    number: u32,
    (raw, extra): (&RawInode, &RawExtra),
) -> Result<Attributes, FsError> {
    let mode = raw.mode.get();
    let file_type = decode_type(mode).ok_or(FsError::Corrupt)?;
    let has_high_size = file_type == FileType::Regular
        || (file_type == FileType::Directory && geometry.incompat.contains(Incompat::LARGEDIR));
    let high = if has_high_size { u64::from(raw.size_high.get()) } else { 0 };
    let size = u64::from(raw.size_low.get()) | high << 32;
    let created = match extra.created.get() {
        0 if extra.created_extra.get() == 0 => time(raw.changed.get(), extra.changed.get()),
        created => time(created, extra.created_extra.get()),
    };
    Ok(Attributes {
        inode: u64::from(number),
        file_type,
        permissions: mode & 0o7777,
        links: u32::from(raw.links.get()),
        user: u32::from(raw.user_low.get()) | u32::from(raw.user_high.get()) << 16,
        group: u32::from(raw.group_low.get()) | u32::from(raw.group_high.get()) << 16,
        device: decode_device(file_type, &raw.body),
        size,
        blocks: decode_blocks(geometry, raw),
        accessed: time(raw.accessed.get(), extra.accessed.get()),
        modified: time(raw.modified.get(), extra.modified.get()),
        changed: time(raw.changed.get(), extra.changed.get()),
        created,
        flags: raw.flags.get(),
        generation: raw.generation.get(),
        may_have_acls: false,
        may_have_capabilities: false,
    })
}

/// Checks the body. Sizes that the volume cannot hold are refused, because a loop would follow them.
fn check_body(geometry: &Geometry, attributes: &Attributes) -> Result<(), FsError> {
    let is_inline = attributes.flags & FLAG_INLINE_DATA != 0;
    if is_inline && !geometry.incompat.contains(Incompat::INLINE_DATA) {
        return Err(FsError::Corrupt);
    }
    let limit = match attributes.file_type {
        FileType::Regular => i64::MAX as u64,
        FileType::Directory => geometry.blocks.saturating_mul(geometry.block_bytes as u64),
        FileType::Symlink => geometry.block_bytes as u64 - 1,
        _ => u64::MAX,
    };
    if attributes.size <= limit { Ok(()) } else { Err(FsError::Corrupt) }
}

fn decode_type(mode: u16) -> Option<FileType> {
    use FileType::*;
    let types = [Fifo, Character, Directory, Block, Regular, Symlink, Socket];
    types.into_iter().find(|file_type| *file_type as u16 == mode & 0o170_000)
}

/// Decodes a time: 34-bit seconds (sign-extended 32 plus two epoch bits) and nanoseconds.
fn time(seconds: u32, extra: u32) -> FileTime {
    let epoch = i64::from(extra & 3) << 32;
    let seconds = i64::from(seconds as i32) + epoch;
    FileTime { seconds, nanoseconds: (extra >> 2).min(999_999_999) }
}

/// Returns the number of 512-byte units allocated.
fn decode_blocks(geometry: &Geometry, raw: &RawInode) -> u64 {
    let low = u64::from(raw.blocks_low.get());
    if !geometry.read_only_compat.contains(ReadOnlyCompat::HUGE_FILE) {
        return low;
    }
    let count = low | u64::from(raw.blocks_high.get()) << 32;
    let is_in_blocks = raw.flags.get() & FLAG_HUGE_FILE != 0;
    if is_in_blocks { count * (geometry.block_bytes as u64 / 512) } else { count }
}

/// Decodes a device number: the old encoding (8 and 8 bits) in the first word, else the new one (12 and 20) in the
/// second.
fn decode_device(file_type: FileType, body: &[u8; BODY_BYTES]) -> (u32, u32) {
    if !matches!(file_type, FileType::Character | FileType::Block) {
        return (0, 0);
    }
    let word = |offset| word32(body, offset).unwrap_or(0);
    match word(0) {
        0 => {
            let new = word(4);
            ((new >> 8) & 0xfff, (new & 0xff) | ((new >> 12) & 0xf_ff00))
        }
        old => ((old >> 8) & 0xff, old & 0xff),
    }
}

/// Returns whether a directory may name this inode: the root or one that is not reserved.
pub(crate) fn is_nameable(geometry: &Geometry, number: u32) -> bool {
    number <= geometry.inodes && (number == ROOT_INODE || number >= geometry.first_inode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_reach_from_1901_to_2446() {
        let seconds = |seconds, extra| time(seconds, extra).seconds;
        assert_eq!(seconds(0x8000_0000, 0), -0x8000_0000);
        assert_eq!(seconds(0x8000_0000, 1), 0x8000_0000);
        assert_eq!(seconds(0x7fff_ffff, 3), 0x3_7fff_ffff);
        assert_eq!(time(0, 999_999_999 << 2).nanoseconds, 999_999_999);
    }

    #[test]
    fn device_numbers_are_read_in_both_encodings() {
        let mut body = [0; BODY_BYTES];
        body[0..2].copy_from_slice(&[3, 8]);
        assert_eq!(decode_device(FileType::Block, &body), (8, 3));
        body[0..2].fill(0);
        body[4..8].copy_from_slice(&0x0123_4567_u32.to_le_bytes());
        assert_eq!(decode_device(FileType::Block, &body), (0x345, 0x0_1267));
        assert_eq!(decode_device(FileType::Regular, &body), (0, 0));
    }
}
