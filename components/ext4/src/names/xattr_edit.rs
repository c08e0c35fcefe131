//! Changes of extended attributes, which are stored in the inode while they fit there, else in a
//! block.
//!
//! A block that several inodes share is never changed: an inode whose attribute changes gets a
//! block of its own. Entries of a block are sorted by class, length of the name, and name, as Linux
//! expects. Each has the hash of its name and value, and the block has the hash of all.
//!
//! Source: Linux fs/ext4/xattr.c.
use crate::{
    layout::{
        attribute_area::Hints,
        groups::{Account, blocks},
        inode::Inode,
        inode_store::Before,
        raw::{inode::BASE_BYTES, xattr::*},
        volume::Volume,
    },
    names::xattr::{self, Attribute, INLINE_NAME},
    store::{
        bytes::{put, put16, put32, word32},
        checksum::crc32c,
        class::Class,
        log::{Content, Operation},
    },
};
use alloc::{borrow::Cow, vec::Vec};
use interfaces::file_system::{AclChange, FileType, FsError, LABEL_NAME, NewInode, XattrMode};

/// The name of the label's attribute behind its prefix.
const LABEL_REST: &[u8] = b"selinux";
/// Greatest length of a name behind its prefix.
const NAME_BYTES_MAX: usize = 255;

/// Sets an attribute by its full name; stores the inode.
///
/// # Errors
/// [`FsError::Exists`] and [`FsError::NoAttribute`] as `mode` says, [`FsError::NoSpace`] if it fits
/// nowhere, [`FsError::Unsupported`] for an unknown class, [`FsError::Invalid`] for a malformed
/// list, [`FsError::Corrupt`]; errors of I/O.
pub(crate) fn set(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
    (name, value): (&[u8], &[u8]),
    mode: XattrMode,
) -> Result<(), FsError> {
    let new = on_disk(name, value)?;
    let mut areas = xattr::load(volume, inode)?;
    let was_there = take(&mut areas, new.class, &new.name);
    match mode {
        XattrMode::Create if was_there => return Err(FsError::Exists),
        XattrMode::Replace if !was_there => return Err(FsError::NoAttribute),
        _ => {}
    }
    place(volume, inode, &mut areas, new)?;
    store(volume, operation, inode, areas)
}

/// Puts an attribute in the inode's area if it fits there, else in the block's.
///
/// # Errors
/// [`FsError::NoSpace`] if it fits nowhere.
fn place<'a>(
    volume: &Volume,
    inode: &Inode,
    areas: &mut [Vec<Attribute<'a>>; 2],
    new: Attribute<'a>,
) -> Result<(), FsError> {
    let room = [inner_bytes(volume, inode), volume.geometry.block_bytes];
    let heads = [4, HEADER_BYTES];
    let needed = bytes_of(&new);
    let sizes = areas.each_ref().map(|area| area.iter().map(bytes_of).sum::<usize>() + 4);
    let fits = |at: usize| match (sizes.get(at), heads.get(at), room.get(at)) {
        (Some(size), Some(head), Some(room)) => size + head + needed <= *room,
        _ => false,
    };
    let place = if fits(0) { 0 } else { 1 };
    if !fits(place) {
        return Err(FsError::NoSpace);
    }
    if let Some(area) = areas.get_mut(place) {
        area.push(new);
    }
    Ok(())
}

/// Takes an attribute away by its full name; stores the inode.
///
/// # Errors
/// [`FsError::NoAttribute`]; those of [`set`].
pub(crate) fn remove(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
    name: &[u8],
) -> Result<(), FsError> {
    let (class, rest) = decode_name(name)?;
    let mut areas = xattr::load(volume, inode)?;
    if !take(&mut areas, class, rest) {
        return Err(FsError::NoAttribute);
    }
    store(volume, operation, inode, areas)
}

/// Stores an inode that was just made, with its label and its access control lists. The label comes first, to lie in the
/// inode: it is read for every inode that is used, a list only where a hint says that there may be one.
///
/// # Errors
/// [`FsError::NoSpace`] and [`FsError::Invalid`] as [`set`]; errors of I/O. The inode is not stored then.
pub(crate) fn store_new(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
    new: &NewInode<'_>,
) -> Result<(), FsError> {
    let attributes = [
        (LABEL_NAME, new.label),
        (acl::ACCESS_NAME, new.acls.access),
        (acl::DEFAULT_NAME, new.acls.default),
    ];
    if attributes.iter().all(|(_, value)| value.is_empty()) {
        return inode.store(volume, operation, Before::Another);
    }
    let has_lists = !new.acls.access.is_empty() || !new.acls.default.is_empty();
    if !has_lists && LABEL_BYTES + new.label.len().next_multiple_of(4) <= inner_bytes(volume, inode)
    {
        Hints::default().put_in(&mut inode.attributes);
        let write = |area: &mut [u8]| write_label(area, new.label);
        return inode.store_with(volume, operation, Before::Another, write);
    }
    let mut areas = [Vec::new(), Vec::new()];
    for (name, value) in attributes.into_iter().filter(|(_, value)| !value.is_empty()) {
        place(volume, inode, &mut areas, on_disk(name, value)?)?;
    }
    store_as(volume, operation, inode, areas, Before::Another)
}

/// Sets or removes an access control list together with the attributes that change with it, and
/// stores the inode.
///
/// # Errors
/// Those of [`set`]; nothing has changed then.
pub(crate) fn set_acl(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
    change: &AclChange<'_>,
) -> Result<(), FsError> {
    if inode.attributes.file_type == FileType::Symlink {
        return Err(FsError::Unsupported);
    }
    let before = inode.attributes;
    inode.attributes.permissions = change.permissions.unwrap_or(before.permissions);
    inode.attributes.changed = change.now;
    let result = if change.value.is_empty() {
        match remove(volume, operation, inode, change.name) {
            Err(FsError::NoAttribute) => inode.store(volume, operation, Before::Itself),
            other => other,
        }
    } else {
        set(volume, operation, inode, (change.name, change.value), XattrMode::Set)
    };
    result.inspect_err(|_| inode.attributes = before)
}

/// Returns an attribute, given by its full name, in the form on disk.
fn on_disk<'a>(name: &'a [u8], value: &'a [u8]) -> Result<Attribute<'a>, FsError> {
    let (class, name) = decode_name(name)?;
    let value = match class {
        ACL_ACCESS | ACL_DEFAULT => Cow::Owned(acl_on_disk(value)?),
        _ => Cow::Borrowed(value),
    };
    Ok(Attribute { class, name: Cow::Borrowed(name), value })
}

fn acl_on_disk(value: &[u8]) -> Result<Vec<u8>, FsError> {
    match acl::from_portable(value) {
        Ok(Some(entries)) => Ok(acl::to_disk(&entries)),
        _ => Err(FsError::Invalid),
    }
}

/// Takes the attribute of inline data away; stores the inode.
///
/// # Errors
/// Those of [`remove`].
pub(crate) fn drop_inline(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
) -> Result<(), FsError> {
    let mut areas = xattr::load(volume, inode)?;
    if take(&mut areas, SYSTEM, INLINE_NAME) {
        let [inner, _] = areas;
        store_inner(volume, operation, inode, &inner, Before::Itself)?;
    }
    Ok(())
}

fn decode_name(name: &[u8]) -> Result<(u8, &[u8]), FsError> {
    let (class, rest) = xattr::split(name).ok_or(FsError::Unsupported)?;
    if class == SYSTEM {
        return Err(FsError::Unsupported);
    }
    if rest.len() > NAME_BYTES_MAX { Err(FsError::Invalid) } else { Ok((class, rest)) }
}

/// Removes an attribute from the areas. Returns whether it was there.
fn take(areas: &mut [Vec<Attribute<'_>>; 2], class: u8, name: &[u8]) -> bool {
    let before: usize = areas.iter().map(Vec::len).sum();
    for area in areas.iter_mut() {
        area.retain(|one| one.class != class || *one.name != *name);
    }
    areas.iter().map(Vec::len).sum::<usize>() < before
}

/// Returns the length of the area in the inode in bytes.
fn inner_bytes(volume: &Volume, inode: &Inode) -> usize {
    match inode.extra_bytes {
        0 => 0,
        extra => volume.geometry.inode_bytes.saturating_sub(BASE_BYTES + extra),
    }
}

/// Returns the number of bytes that an attribute needs.
fn bytes_of(one: &Attribute<'_>) -> usize {
    (ENTRY_BYTES + one.name.len()).next_multiple_of(4) + one.value.len().next_multiple_of(4)
}

fn store(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
    areas: [Vec<Attribute<'_>>; 2],
) -> Result<(), FsError> {
    store_as(volume, operation, inode, areas, Before::Itself)
}

fn store_as(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
    [inner, mut outer]: [Vec<Attribute<'_>>; 2],
    before: Before,
) -> Result<(), FsError> {
    let all = inner.iter().chain(&outer);
    let hints = all.fold(Hints::default(), |hints, one| hints.with(one.class, &one.name));
    hints.put_in(&mut inode.attributes);
    outer.sort_by(|a, b| (a.class, a.name.len(), &a.name).cmp(&(b.class, b.name.len(), &b.name)));
    store_outer(volume, operation, inode, &outer)?;
    store_inner(volume, operation, inode, &inner, before)
}

fn store_inner(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &Inode,
    attributes: &[Attribute<'_>],
    before: Before,
) -> Result<(), FsError> {
    inode.store_with(volume, operation, before, |area| {
        if before == Before::Itself {
            area.fill(0);
        }
        if !attributes.is_empty() {
            put32(area, 0, MAGIC);
            if let Some(entries) = area.get_mut(4..) {
                write_entries(entries, 0, attributes);
            }
        }
    })
}

/// Writes the attributes to their block: the inode's own, or a new one.
fn store_outer(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
    attributes: &[Attribute<'_>],
) -> Result<(), FsError> {
    if attributes.is_empty() {
        return drop_block(volume, operation, inode);
    }
    let is_shared = inode.attribute_block != 0 && references(volume, inode)? > 1;
    if inode.attribute_block != 0 && !is_shared {
        let block = inode.attribute_block;
        return volume.store.modify(operation, block, Class::Other, |bytes| {
            write_block(volume, block, bytes, attributes);
        });
    }
    let goal = inode.home_block(&volume.geometry);
    let (block, _) = blocks::allocate(volume, operation, (goal, 1), Account::Caller)?;
    blocks::fill(volume, operation, block, |bytes| write_block(volume, block, bytes, attributes))?;
    drop_block(volume, operation, inode)?;
    inode.attribute_block = block;
    inode.add_blocks(&volume.geometry, 1);
    Ok(())
}

fn references(volume: &Volume, inode: &Inode) -> Result<u32, FsError> {
    // Loading the block verifies it.
    xattr::load(volume, inode)?;
    let block = volume.store.block(inode.attribute_block)?;
    word32(block.bytes(), REFERENCES_OFFSET).ok_or(FsError::Corrupt)
}

/// Drops the inode's reference to its block of attributes; the caller stores the inode.
///
/// # Errors
/// [`FsError::Corrupt`]; errors of I/O.
pub(crate) fn drop_block(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
) -> Result<(), FsError> {
    let block = inode.attribute_block;
    if block == 0 {
        return Ok(());
    }
    let references = references(volume, inode)?;
    if references > 1 {
        volume.store.modify(operation, block, Class::Other, |bytes| {
            put32(bytes, REFERENCES_OFFSET, references - 1);
            seal(volume, block, bytes);
        })?;
    } else {
        blocks::free(volume, operation, (block, 1), Content::Metadata)?;
    }
    inode.attribute_block = 0;
    inode.add_blocks(&volume.geometry, -1);
    Ok(())
}

fn write_block(volume: &Volume, block: u64, bytes: &mut [u8], attributes: &[Attribute<'_>]) {
    bytes.fill(0);
    put32(bytes, 0, MAGIC);
    put32(bytes, REFERENCES_OFFSET, 1);
    put32(bytes, BLOCKS_OFFSET, 1);
    write_entries(bytes, HEADER_BYTES, attributes);
    let shift = |sum: u32, one: &Attribute<'_>| sum.rotate_left(16) ^ hash(one);
    put32(bytes, HASH_OFFSET, attributes.iter().fold(0, shift));
    seal(volume, block, bytes);
}

fn seal(volume: &Volume, block: u64, bytes: &mut [u8]) {
    if volume.geometry.has_checksums() {
        put32(bytes, CHECKSUM_OFFSET, 0);
        let seed = crc32c(volume.geometry.checksum_seed, &block.to_le_bytes());
        let sum = crc32c(seed, bytes);
        put32(bytes, CHECKSUM_OFFSET, sum);
    }
}

/// Bytes that a label needs in an inode that has no other attribute, besides its value: the magic number, the entry with its name
/// in whole words, and the mark of the last entry.
const LABEL_BYTES: usize = 4 + ENTRY_BYTES + 8 + 4;

/// Writes a label to the empty area of an inode. It does what [`write_entries`] does for one attribute, in a sixth of the
/// instructions, because every inode of a labelled system is made with it. The hash is 0, which stands for none in an inode.
fn write_label(area: &mut [u8], label: &[u8]) {
    let at = area.len().saturating_sub(label.len().next_multiple_of(4));
    let mut head = [0; LABEL_BYTES];
    put32(&mut head, 0, MAGIC);
    put(&mut head, 4, &[LABEL_REST.len() as u8, SECURITY]);
    put16(&mut head, 6, at.saturating_sub(4) as u16);
    put32(&mut head, 12, label.len() as u32);
    put(&mut head, 4 + ENTRY_BYTES, LABEL_REST);
    put(area, 0, &head);
    put(area, at, label);
}

/// Writes entries from `at` on and values from the end down. The values' offsets count from the
/// beginning of `bytes`.
fn write_entries(bytes: &mut [u8], mut at: usize, attributes: &[Attribute<'_>]) {
    let mut end = bytes.len();
    for one in attributes {
        if !one.value.is_empty() {
            end = end.saturating_sub(one.value.len().next_multiple_of(4));
            put(bytes, end, &one.value);
        }
        let offset = if one.value.is_empty() { 0 } else { end };
        put(bytes, at, &[one.name.len() as u8, one.class]);
        put16(bytes, at + 2, offset as u16);
        put32(bytes, at + 8, one.value.len() as u32);
        put32(bytes, at + 12, hash(one));
        put(bytes, at + ENTRY_BYTES, &one.name);
        at = (at + ENTRY_BYTES + one.name.len()).next_multiple_of(4);
    }
}

/// Computes the hash of an attribute's name and value.
fn hash(one: &Attribute<'_>) -> u32 {
    let of_name = |sum: u32, byte: &u8| sum.rotate_left(5) ^ u32::from(*byte);
    let sum = one.name.iter().fold(0, of_name);
    one.value.chunks(4).fold(sum, |sum, part| {
        let mut word = [0; 4];
        put(&mut word, 0, part);
        sum.rotate_left(16) ^ u32::from_le_bytes(word)
    })
}
