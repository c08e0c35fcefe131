//! The encoded forms of a list: the one that programs use, and the one that ext4 stores.
use crate::{AclEntry, Tag};
use alloc::vec::Vec;

const VERSION_PORTABLE: u32 = 2;
const VERSION_DISK: u32 = 1;
const HEADER_BYTES: usize = 4;
const NO_ID: u32 = u32::MAX;

/// The reason why bytes are not a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormError {
    /// The bytes are malformed.
    Malformed,
    /// The version is not known.
    Version,
}

/// Reads the form that programs use. Returns `None` for an empty list.
///
/// # Errors
/// [`FormError`]. Whether the entries are consistent is not checked.
pub fn from_portable(bytes: &[u8]) -> Result<Option<Vec<AclEntry>>, FormError> {
    let (version, rest) = header(bytes)?;
    if version != VERSION_PORTABLE {
        return Err(FormError::Version);
    }
    let (parts, rest) = rest.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(FormError::Malformed);
    }
    let entry = |part: &[u8; 8]| {
        let [tag0, tag1, low, high, id @ ..] = *part;
        let id = u32::from_le_bytes(id);
        let tag = tag(u16::from_le_bytes([tag0, tag1]), || (id != NO_ID).then_some(id))?;
        Some(AclEntry { tag, permissions: u16::from_le_bytes([low, high]) })
    };
    let entries: Option<Vec<AclEntry>> = parts.iter().map(entry).collect();
    let entries = entries.ok_or(FormError::Malformed)?;
    Ok((!entries.is_empty()).then_some(entries))
}

/// Writes the form that programs use.
pub fn to_portable(entries: &[AclEntry]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + entries.len() * 8);
    out.extend_from_slice(&VERSION_PORTABLE.to_le_bytes());
    for entry in entries {
        let (number, id) = number(entry.tag);
        put_head(&mut out, number, entry.permissions);
        out.extend_from_slice(&id.unwrap_or(NO_ID).to_le_bytes());
    }
    out
}

/// Reads the form on disk.
///
/// # Errors
/// Those of [`from_portable`].
pub fn from_disk(bytes: &[u8]) -> Result<Vec<AclEntry>, FormError> {
    let (version, mut rest) = header(bytes)?;
    if version != VERSION_DISK {
        return Err(FormError::Version);
    }
    let mut entries = Vec::new();
    while !rest.is_empty() {
        entries.push(disk_entry(&mut rest).ok_or(FormError::Malformed)?);
    }
    Ok(entries)
}

/// Takes the first entry from `rest`.
fn disk_entry(rest: &mut &[u8]) -> Option<AclEntry> {
    let ([tag0, tag1, low, high], mut after) = rest.split_first_chunk()?;
    let tag = tag(u16::from_le_bytes([*tag0, *tag1]), || {
        let (id, behind) = after.split_first_chunk()?;
        after = behind;
        Some(u32::from_le_bytes(*id))
    })?;
    *rest = after;
    Some(AclEntry { tag, permissions: u16::from_le_bytes([*low, *high]) })
}

/// Writes the form on disk.
pub fn to_disk(entries: &[AclEntry]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + entries.len() * 8);
    out.extend_from_slice(&VERSION_DISK.to_le_bytes());
    for entry in entries {
        let (number, id) = number(entry.tag);
        put_head(&mut out, number, entry.permissions);
        out.extend(id.map(u32::to_le_bytes).into_iter().flatten());
    }
    out
}

fn header(bytes: &[u8]) -> Result<(u32, &[u8]), FormError> {
    let (version, rest) = bytes.split_first_chunk().ok_or(FormError::Malformed)?;
    Ok((u32::from_le_bytes(*version), rest))
}

fn put_head(out: &mut Vec<u8>, number: u16, permissions: u16) {
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&permissions.to_le_bytes());
}

/// Returns the tag of a number; `id` is called if the tag has an id.
fn tag(number: u16, id: impl FnOnce() -> Option<u32>) -> Option<Tag> {
    Some(match number {
        0x01 => Tag::Owner,
        0x02 => Tag::User(id()?),
        0x04 => Tag::OwnerGroup,
        0x08 => Tag::Group(id()?),
        0x10 => Tag::Mask,
        0x20 => Tag::Other,
        _ => return None,
    })
}

/// Returns the number of a tag, and its id.
fn number(tag: Tag) -> (u16, Option<u32>) {
    match tag {
        Tag::Owner => (0x01, None),
        Tag::User(id) => (0x02, Some(id)),
        Tag::OwnerGroup => (0x04, None),
        Tag::Group(id) => (0x08, Some(id)),
        Tag::Mask => (0x10, None),
        Tag::Other => (0x20, None),
    }
}
