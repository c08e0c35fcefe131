//! Inodes made, and names given to them.
//!
//! Each is one operation: with a journal a crash shows all of it or nothing.
use crate::{
    files::{
        file_size,
        named::{Seen, add_link, check_name, check_parent, of, touch},
        orphans,
    },
    layout::{
        extent_edit,
        groups::{Account, inodes},
        inode::Inode,
        inode_store::{Before, LINKS_MAX, encode_device},
        inode_table::{LiveInode, lock_all},
        raw::inode::{BASE_BYTES, BODY_BYTES, FLAG_EXTENTS, FLAGS_INHERITED},
        volume::Volume,
    },
    names::{
        directory_edit,
        entries::NewEntry,
        leaf_edit::{self, Room},
        xattr_edit,
    },
    store::{bytes::put, log::Operation},
    transactions::mount::Mount,
};
use interfaces::file_system::{Attributes, FileTime, FileType, FsError, NewInode};

/// Length of the extra part if the superblock does not demand another.
const EXTRA_BYTES: usize = 32;

/// Creates an inode with a first name, held once.
///
/// As much as possible is done before the directory is locked for the change, so that other threads can
/// change it meanwhile.
///
/// # Errors
/// Those of [`interfaces::file_system::FileSystem::create`].
pub(crate) fn create(
    mount: &Mount,
    directory: &LiveInode,
    name: &[u8],
    new: &NewInode<'_>,
) -> Result<Attributes, FsError> {
    let volume = &mount.volume;
    check_name(name)?;
    mount.operate_with((0, Account::Caller), |operation| {
        let (room, flags) = {
            let parent = directory.read();
            check_parent(&parent)?;
            check_can_name(volume, &parent, new.file_type)?;
            let room = directory_edit::check_absent(volume, &parent, name)?;
            (Seen::new(&parent, room), parent.attributes.flags)
        };
        let inode = make(volume, operation, (directory.number, flags), new)?;
        let attributes = inode.attributes;
        let node = mount.inodes.insert(volume, inode)?;
        node.note(operation);
        let entry = NewEntry { name, inode: node.number, file_type: new.file_type };
        if let Err(error) = add_entry(volume, operation, directory, &entry, (room, new.now)) {
            mount.inodes.forget(attributes.inode, 1);
            unmake(volume, operation, &mut node.write())?;
            return Err(error);
        }
        Ok(attributes)
    })
}

/// Checks that the directory can count one more name of that type.
fn check_can_name(volume: &Volume, parent: &Inode, file_type: FileType) -> Result<(), FsError> {
    let is_full = file_type == FileType::Directory
        && parent.attributes.links >= LINKS_MAX
        && !volume.geometry.has_uncounted_links();
    if is_full { Err(FsError::TooManyLinks) } else { Ok(()) }
}

/// Gives a new inode its name; `room` is the place that was found before. Nothing is changed if it
/// fails.
fn add_entry(
    volume: &Volume,
    operation: &Operation<'_>,
    directory: &LiveInode,
    entry: &NewEntry<'_>,
    (room, now): (Seen<Option<Room>>, FileTime),
) -> Result<(), FsError> {
    let mut parent = directory.write();
    let room = match room.still_in(&parent) {
        Some(room) => room,
        None => {
            check_parent(&parent)?;
            check_can_name(volume, &parent, entry.file_type)?;
            directory_edit::check_absent(volume, &parent, entry.name)?
        }
    };
    directory_edit::add(volume, operation, &mut parent, entry, room)?;
    if entry.file_type == FileType::Directory {
        add_link(volume, &mut parent)?;
    }
    touch(&mut parent, now);
    directory.note(operation);
    parent.store(volume, operation, Before::Itself)
}

/// Makes an inode without a name, held once.
///
/// # Errors
/// Those of [`interfaces::file_system::FileSystem::create_unnamed`].
pub(crate) fn create_unnamed(
    mount: &Mount,
    directory: &LiveInode,
    new: &NewInode<'_>,
) -> Result<Attributes, FsError> {
    let volume = &mount.volume;
    mount.operate_with((0, Account::Caller), |operation| {
        let parent = directory.read();
        check_parent(&parent)?;
        let place = (directory.number, parent.attributes.flags);
        let mut inode = make(volume, operation, place, new)?;
        inode.attributes.links = 0;
        orphans::add(volume, &mut inode)?;
        inode.store(volume, operation, Before::Itself)?;
        let attributes = inode.attributes;
        mount.inodes.insert(volume, inode)?.note(operation);
        Ok(attributes)
    })
}

/// Makes an inode, complete but for a name, for a directory with that number and those flags.
fn make(
    volume: &Volume,
    operation: &Operation<'_>,
    (parent, flags): (u32, u32),
    new: &NewInode<'_>,
) -> Result<Inode, FsError> {
    let kind = match new.file_type {
        FileType::Directory => inodes::InodeKind::Directory,
        _ => inodes::InodeKind::Other,
    };
    if new.file_type == FileType::Symlink {
        check_target(volume, new.target)?;
    }
    let number = inodes::allocate(volume, operation, parent, (kind, new.level))?;
    let generation = volume.groups()?.numbers.next_generation(new.level);
    let attributes = Attributes {
        inode: u64::from(number),
        file_type: new.file_type,
        permissions: new.permissions & 0o7777,
        links: if new.file_type == FileType::Directory { 2 } else { 1 },
        user: new.user,
        group: new.group,
        device: new.device,
        size: 0,
        blocks: 0,
        accessed: new.now,
        modified: new.now,
        changed: new.now,
        created: new.now,
        flags: flags & FLAGS_INHERITED,
        generation,
        may_have_acls: false,
        may_have_capabilities: false,
    };
    let geometry = &volume.geometry;
    let extra = match usize::from(geometry.extra_bytes) {
        0 => EXTRA_BYTES,
        wanted => wanted.next_multiple_of(4),
    };
    let extra = extra.min(geometry.inode_bytes - BASE_BYTES);
    let mut inode = Inode::fresh(geometry, attributes, extra)?;
    let filled = fill(volume, operation, &mut inode, parent, new);
    let stored = filled.and_then(|()| xattr_edit::store_new(volume, operation, &mut inode, new));
    match stored {
        Ok(()) => Ok(inode),
        Err(error) => {
            inode.store(volume, operation, Before::Another)?;
            unmake(volume, operation, &mut inode)?;
            Err(error)
        }
    }
}

fn check_target(volume: &Volume, target: &[u8]) -> Result<(), FsError> {
    if target.is_empty() {
        return Err(FsError::NotFound);
    }
    let max = volume.geometry.block_bytes - 1;
    if target.len() > max { Err(FsError::NameTooLong) } else { Ok(()) }
}

/// Writes the body of a new inode.
fn fill(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
    parent: u32,
    new: &NewInode<'_>,
) -> Result<(), FsError> {
    let use_extents = |inode: &mut Inode| {
        inode.set_flag(FLAG_EXTENTS);
        inode.body = extent_edit::empty_root();
    };
    match new.file_type {
        FileType::Regular => use_extents(inode),
        FileType::Directory => {
            use_extents(inode);
            directory_edit::make(volume, operation, inode, parent)?;
        }
        FileType::Symlink if new.target.len() < BODY_BYTES => {
            put(&mut inode.body, 0, new.target);
            inode.attributes.size = new.target.len() as u64;
        }
        FileType::Symlink => {
            use_extents(inode);
            leaf_edit::append(volume, operation, inode, |bytes| {
                put(bytes, 0, new.target);
            })?;
            inode.attributes.size = new.target.len() as u64;
        }
        FileType::Character | FileType::Block => inode.body = encode_device(new.device),
        FileType::Fifo | FileType::Socket => {}
    }
    Ok(())
}

/// Frees a new inode that got no name.
fn unmake(volume: &Volume, operation: &Operation<'_>, inode: &mut Inode) -> Result<(), FsError> {
    while !file_size::step(volume, operation, inode, 0..u64::MAX)? {}
    file_size::free(volume, operation, inode)
}

/// Gives an inode another name.
///
/// # Errors
/// Those of [`interfaces::file_system::FileSystem::link`].
pub(crate) fn link(
    mount: &Mount,
    node: &LiveInode,
    (directory, name): (&LiveInode, &[u8]),
    now: FileTime,
) -> Result<Attributes, FsError> {
    let volume = &mount.volume;
    check_name(name)?;
    mount.operate_with((0, Account::Caller), |operation| {
        let mut locked = lock_all(&[node, directory]);
        let inode = of(&mut locked, node.number)?;
        let (file_type, links) = (inode.attributes.file_type, inode.attributes.links);
        if file_type == FileType::Directory {
            return Err(FsError::IsDirectory);
        }
        if links >= LINKS_MAX {
            return Err(FsError::TooManyLinks);
        }
        let parent = of(&mut locked, directory.number)?;
        check_parent(parent)?;
        let room = directory_edit::check_absent(volume, parent, name)?;
        let entry = NewEntry { name, inode: node.number, file_type };
        directory_edit::add(volume, operation, parent, &entry, room)?;
        touch(parent, now);
        parent.store(volume, operation, Before::Itself)?;
        let inode = of(&mut locked, node.number)?;
        if links == 0 {
            orphans::remove(volume, operation, inode)?;
        }
        inode.attributes.links += 1;
        inode.attributes.changed = now;
        node.note(operation);
        directory.note(operation);
        inode.store(volume, operation, Before::Itself)?;
        Ok(inode.attributes)
    })
}
