//! Extended attributes, in the inode and in a block of their own.
use crate::{
    layout::{
        attribute_area::AttributeEntry,
        inode::{Inode, raw_inode},
        raw::{inode::BASE_BYTES, xattr::*},
        volume::Volume,
    },
    store::{bytes::word32, cache::BlockRef, checksum::crc32c},
};
use alloc::{borrow::Cow, vec::Vec};
use core::ops::Range;
use interfaces::file_system::FsError;

/// Classes by number: the prefix, and whether the class is the whole name.
const CLASSES: [(u8, &[u8]); 7] = [
    (1, b"user."),
    (ACL_ACCESS, acl::ACCESS_NAME),
    (ACL_DEFAULT, acl::DEFAULT_NAME),
    (4, b"trusted."),
    (SECURITY, b"security."),
    (SYSTEM, b"system."),
    (8, b"system.richacl"),
];
/// Attribute of inline data, not shown.
pub(crate) const INLINE_NAME: &[u8] = b"data";

/// An attribute: one that was copied from an area, or a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attribute<'a> {
    pub(crate) class: u8,
    /// Name without the prefix of its class.
    pub(crate) name: Cow<'a, [u8]>,
    /// Value in the form on disk.
    pub(crate) value: Cow<'a, [u8]>,
}

/// An attribute in an area: its class, and the ranges of name and value.
struct Found {
    class: u8,
    name: Range<usize>,
    value: Range<usize>,
}

/// An area of attributes.
struct Area {
    part: BlockRef,
    /// Offsets of the first byte and the first entry, and the base of value offsets.
    entries: usize,
    values: usize,
}

impl Area {
    /// Returns the attributes, in order. The area limits their number: each entry has 16 bytes or
    /// more.
    fn decode(&self) -> Result<Vec<Found>, FsError> {
        let bytes = self.part.bytes();
        let mut found = Vec::new();
        let mut at = self.entries;
        while let Some(entry) = AttributeEntry::decode(bytes, at)? {
            at = entry.end();
            let AttributeEntry { raw, name } = entry;
            if raw.value_inode.get() != 0 {
                return Err(FsError::Unsupported);
            }
            let start = self.values + usize::from(raw.value_offset.get());
            let length = usize::try_from(raw.value_length.get()).map_err(|_| FsError::Corrupt)?;
            let end = start.checked_add(length).ok_or(FsError::Corrupt)?;
            if end > bytes.len() {
                return Err(FsError::Corrupt);
            }
            found.push(Found { class: raw.class, name, value: start..end });
        }
        Ok(found)
    }

    fn bytes(&self, range: &Range<usize>) -> &[u8] {
        self.part.bytes().get(range.clone()).unwrap_or(&[])
    }

    /// Returns copies of the attributes.
    fn to_attributes(&self) -> Result<Vec<Attribute<'static>>, FsError> {
        let copy = |one: &Found| Attribute {
            class: one.class,
            name: self.bytes(&one.name).to_vec().into(),
            value: self.bytes(&one.value).to_vec().into(),
        };
        Ok(self.decode()?.iter().map(copy).collect())
    }

    /// Returns the value of an attribute.
    fn find(&self, class: u8, name: &[u8]) -> Result<Option<Vec<u8>>, FsError> {
        let found = self.decode()?;
        let wanted = |one: &&Found| one.class == class && self.bytes(&one.name) == name;
        Ok(found.iter().find(wanted).map(|one| self.bytes(&one.value).to_vec()))
    }
}

/// Returns the area after the inode's extra part, if it has one.
fn in_inode(volume: &Volume, inode: &Inode) -> Result<Option<Area>, FsError> {
    let part = raw_inode(volume, inode.number)?;
    let start = BASE_BYTES + inode.extra_bytes;
    let has_area = inode.extra_bytes > 0 && word32(part.bytes(), start) == Some(MAGIC);
    Ok(has_area.then_some(Area { part, entries: start + 4, values: start + 4 }))
}

/// Returns the block of attributes, its header and checksum verified, if there is one.
fn in_block(volume: &Volume, inode: &Inode) -> Result<Option<Area>, FsError> {
    if inode.attribute_block == 0 {
        return Ok(None);
    }
    let part = volume.store.block(inode.attribute_block)?;
    if word32(part.bytes(), 0) != Some(MAGIC) || word32(part.bytes(), 8) != Some(1) {
        return Err(FsError::Corrupt);
    }
    if volume.geometry.has_checksums() {
        let seed = crc32c(volume.geometry.checksum_seed, &inode.attribute_block.to_le_bytes());
        part.verify(|bytes| is_sum_right(seed, bytes))?;
    }
    Ok(Some(Area { part, entries: HEADER_BYTES, values: 0 }))
}

fn is_sum_right(seed: u32, bytes: &[u8]) -> bool {
    let (Some(before), Some(after)) =
        (bytes.get(..CHECKSUM_OFFSET), bytes.get(CHECKSUM_OFFSET + 4..))
    else {
        return false;
    };
    let sum = crc32c(crc32c(crc32c(seed, before), &[0; 4]), after);
    word32(bytes, CHECKSUM_OFFSET) == Some(sum)
}

/// Returns the part of inline data behind the body.
pub(crate) fn inline_value(volume: &Volume, inode: &Inode) -> Result<Option<Vec<u8>>, FsError> {
    find_in(in_inode(volume, inode)?, SYSTEM, INLINE_NAME)
}

/// Returns the attributes in the inode, and those in its block.
///
/// # Errors
/// [`FsError::Corrupt`] and as [`crate::store::Store::block`].
pub(crate) fn load(
    volume: &Volume,
    inode: &Inode,
) -> Result<[Vec<Attribute<'static>>; 2], FsError> {
    let [inner, outer] = areas(volume, inode)?;
    let attributes = |area: Option<Area>| area.map_or(Ok(Vec::new()), |area| area.to_attributes());
    Ok([attributes(inner)?, attributes(outer)?])
}

fn areas(volume: &Volume, inode: &Inode) -> Result<[Option<Area>; 2], FsError> {
    Ok([in_inode(volume, inode)?, in_block(volume, inode)?])
}

/// Returns the value of an attribute by its full name.
///
/// # Errors
/// [`FsError::NoAttribute`], [`FsError::Unsupported`] for an unknown class, [`FsError::Corrupt`].
pub(crate) fn get(volume: &Volume, inode: &Inode, name: &[u8]) -> Result<Vec<u8>, FsError> {
    let (class, rest) = split(name).ok_or(FsError::Unsupported)?;
    if class == SYSTEM && rest == INLINE_NAME {
        return Err(FsError::NoAttribute);
    }
    let value = match find_in(in_inode(volume, inode)?, class, rest)? {
        None => find_in(in_block(volume, inode)?, class, rest)?,
        found => found,
    };
    let value = value.ok_or(FsError::NoAttribute)?;
    match class {
        ACL_ACCESS | ACL_DEFAULT => {
            let entries = acl::from_disk(&value).map_err(|_| FsError::Corrupt)?;
            Ok(acl::to_portable(&entries))
        }
        _ => Ok(value),
    }
}

fn find_in(area: Option<Area>, class: u8, name: &[u8]) -> Result<Option<Vec<u8>>, FsError> {
    area.map_or(Ok(None), |area| area.find(class, name))
}

/// Returns the full names of the attributes, without those of unknown classes.
///
/// # Errors
/// [`FsError::Corrupt`] and as [`crate::store::Store::block`].
pub(crate) fn list(volume: &Volume, inode: &Inode) -> Result<Vec<Vec<u8>>, FsError> {
    let mut names = Vec::new();
    for area in areas(volume, inode)?.into_iter().flatten() {
        for one in area.decode()? {
            let name = area.bytes(&one.name);
            let prefix = CLASSES.iter().find(|(class, _)| *class == one.class);
            if let Some((_, prefix)) = prefix
                && !(one.class == SYSTEM && name == INLINE_NAME)
            {
                names.push([prefix, name].concat());
            }
        }
    }
    Ok(names)
}

/// Splits a full name into class and rest; a class that is a whole name comes before its prefix.
pub(crate) fn split(name: &[u8]) -> Option<(u8, &[u8])> {
    let whole = CLASSES.iter().find(|(_, prefix)| *prefix == name && !prefix.ends_with(b"."));
    if let Some((class, _)) = whole {
        return Some((*class, &[]));
    }
    let has_prefix = |(class, prefix): &(u8, &[u8])| {
        let rest = name.strip_prefix(*prefix).filter(|rest| !rest.is_empty())?;
        prefix.ends_with(b".").then_some((*class, rest))
    };
    CLASSES.iter().find_map(has_prefix)
}
