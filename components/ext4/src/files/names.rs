//! Names made, taken away and moved, with the inodes behind them.
//!
//! Each is one operation: with a journal a crash shows all of it or nothing. Locks of inodes are
//! taken after the operation has begun, all that it needs at once, in order of their addresses.
use crate::{
    files::{file_size, orphans},
    layout::{
        extent_edit,
        groups::{Account, inodes},
        inode::Inode,
        inode_store::{Before, LINKS_MAX, encode_device},
        inode_table::{Node, lock_all},
        raw::inode::{BASE_BYTES, BODY_BYTES, FLAG_EXTENTS, FLAG_INLINE_DATA, FLAGS_INHERITED},
        volume::Volume,
    },
    names::{
        directory,
        directory_edit::{self, NewEntry, Place, Room},
        xattr_edit,
    },
    store::log::Operation,
};
use alloc::{sync::Arc, vec::Vec};
use interfaces::file_system::{Attributes, FileTime, FileType, FsError, InodeNumber, NewInode};
use rt::sync::WriteGuard;

/// Bytes of the extra part where the superblock wants none in particular.
const EXTRA_BYTES: usize = 32;
/// Times a name is looked up again because it changed meanwhile.
const RETRIES_MAX: usize = 64;

/// Inodes locked to be changed.
type Locked<'n> = Vec<(u32, WriteGuard<'n, Inode>)>;

/// One of the inodes locked.
fn of<'l>(locked: &'l mut Locked<'_>, number: u32) -> Result<&'l mut Inode, FsError> {
    let found = locked.iter_mut().find(|(other, _)| *other == number);
    found.map(|(_, inode)| &mut **inode).ok_or(FsError::Corrupt)
}

/// Is a directory that still has a name.
fn check_parent(directory: &Inode) -> Result<(), FsError> {
    directory.check_directory()?;
    if directory.attributes.links == 0 { Err(FsError::NotFound) } else { Ok(()) }
}

/// One more subdirectory: a directory with more than it can count counts one.
fn add_link(volume: &Volume, directory: &mut Inode) -> Result<(), FsError> {
    let links = directory.attributes.links;
    let is_uncounted = directory.attributes.file_type == FileType::Directory && links == 1;
    if is_uncounted {
        return Ok(());
    }
    if links < LINKS_MAX {
        directory.attributes.links += 1;
        return Ok(());
    }
    let can_lose_count = volume.geometry.has_uncounted_links()
        && directory.attributes.file_type == FileType::Directory;
    if !can_lose_count {
        return Err(FsError::TooManyLinks);
    }
    directory.attributes.links = 1;
    Ok(())
}

/// One subdirectory fewer.
fn drop_link(directory: &mut Inode) {
    if directory.attributes.links > 2 {
        directory.attributes.links -= 1;
    }
}

fn touch(directory: &mut Inode, now: FileTime) {
    (directory.attributes.modified, directory.attributes.changed) = (now, now);
}

/// The findings in a directory that was locked to be read.
#[derive(Clone, Copy)]
struct Seen<T> {
    turn: u64,
    what: T,
}

impl<T> Seen<T> {
    fn new(directory: &Inode, what: T) -> Seen<T> {
        Seen { turn: directory.turn, what }
    }
    /// It, if nobody had the directory to change it before the caller, who has it now.
    fn still_in(self, directory: &Inode) -> Option<T> {
        (directory.turn == self.turn + 1).then_some(self.what)
    }
}

fn check_name(name: &[u8]) -> Result<(), FsError> {
    if name.len() > 255 { Err(FsError::NameTooLong) } else { Ok(()) }
}

/// Makes an inode with a first name, held once.
///
/// All that can be is done before the directory is locked to be changed: others change it meanwhile.
///
/// # Errors
/// As [`interfaces::file_system::FileSystem::create`].
pub(crate) fn create(
    volume: &Volume,
    directory: &Node,
    name: &[u8],
    new: &NewInode<'_>,
) -> Result<Attributes, FsError> {
    check_name(name)?;
    volume.operate_with((0, Account::Caller), |operation| {
        let (room, flags) = {
            let parent = directory.read();
            check_parent(&parent)?;
            check_can_name(volume, &parent, new.file_type)?;
            let room = directory_edit::check_absent(volume, &parent, name)?;
            (Seen::new(&parent, room), parent.attributes.flags)
        };
        let inode = make(volume, operation, (directory.number, flags), new)?;
        let attributes = inode.attributes;
        let node = volume.inodes.insert(volume, inode)?;
        node.note(operation);
        let entry = NewEntry { name, inode: node.number, file_type: new.file_type };
        if let Err(error) = add_entry(volume, operation, directory, &entry, (room, new.now)) {
            volume.inodes.forget(attributes.inode, 1);
            unmake(volume, operation, &mut node.write())?;
            return Err(error);
        }
        Ok(attributes)
    })
}

/// One more name of that type fits what the directory can count.
fn check_can_name(volume: &Volume, parent: &Inode, file_type: FileType) -> Result<(), FsError> {
    let is_full = file_type == FileType::Directory
        && parent.attributes.links >= LINKS_MAX
        && !volume.geometry.has_uncounted_links();
    if is_full { Err(FsError::TooManyLinks) } else { Ok(()) }
}

/// Gives an inode just made its name; `room` is what was seen before. Nothing is changed where it fails.
fn add_entry(
    volume: &Volume,
    operation: &Operation<'_>,
    directory: &Node,
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
/// As [`interfaces::file_system::FileSystem::create_unnamed`].
pub(crate) fn create_unnamed(
    volume: &Volume,
    directory: &Node,
    new: &NewInode<'_>,
) -> Result<Attributes, FsError> {
    volume.operate_with((0, Account::Caller), |operation| {
        let parent = directory.read();
        check_parent(&parent)?;
        let place = (directory.number, parent.attributes.flags);
        let mut inode = make(volume, operation, place, new)?;
        inode.attributes.links = 0;
        orphans::add(volume, &mut inode)?;
        inode.store(volume, operation, Before::Itself)?;
        let attributes = inode.attributes;
        volume.inodes.insert(volume, inode)?.note(operation);
        Ok(attributes)
    })
}

/// An inode with everything but a name, for a directory of that number with those flags.
fn make(
    volume: &Volume,
    operation: &Operation<'_>,
    (parent, flags): (u32, u32),
    new: &NewInode<'_>,
) -> Result<Inode, FsError> {
    let kind = match new.file_type {
        FileType::Directory => inodes::Kind::Directory,
        _ => inodes::Kind::Other,
    };
    if new.file_type == FileType::Symlink {
        check_target(volume, new.target)?;
    }
    let number = inodes::allocate(volume, operation, parent, kind)?;
    let generation = volume.groups()?.next_generation();
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
    };
    let geometry = &volume.geometry;
    let extra = match usize::from(geometry.extra_bytes) {
        0 => EXTRA_BYTES,
        wanted => wanted.next_multiple_of(4),
    };
    let extra = extra.min(geometry.inode_bytes - BASE_BYTES);
    let mut inode = Inode::fresh(geometry, attributes, extra)?;
    let filled = fill(volume, operation, &mut inode, parent, new);
    let stored = filled.and_then(|()| inode.store(volume, operation, Before::Another));
    let stored =
        stored.and_then(|()| xattr_edit::set_new(volume, operation, &mut inode, &new.acls));
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

/// Gives a new inode its body.
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
            crate::store::bytes::put(&mut inode.body, 0, new.target);
            inode.attributes.size = new.target.len() as u64;
        }
        FileType::Symlink => {
            use_extents(inode);
            directory_edit::append(volume, operation, inode, |bytes| {
                crate::store::bytes::put(bytes, 0, new.target);
            })?;
            inode.attributes.size = new.target.len() as u64;
        }
        FileType::Character | FileType::Block => inode.body = encode_device(new.device),
        FileType::Fifo | FileType::Socket => {}
    }
    Ok(())
}

/// Frees an inode just made that got no name.
fn unmake(volume: &Volume, operation: &Operation<'_>, inode: &mut Inode) -> Result<(), FsError> {
    while !file_size::step(volume, operation, inode, 0..u64::MAX)? {}
    file_size::free(volume, operation, inode)
}

/// Gives an inode another name.
///
/// # Errors
/// As [`interfaces::file_system::FileSystem::link`].
pub(crate) fn link(
    volume: &Volume,
    node: &Node,
    (directory, name): (&Node, &[u8]),
    now: FileTime,
) -> Result<Attributes, FsError> {
    check_name(name)?;
    volume.operate_with((0, Account::Caller), |operation| {
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

/// Takes the name off an inode: without names it is an orphan.
fn unname(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
    now: FileTime,
) -> Result<(), FsError> {
    let is_directory = inode.attributes.file_type == FileType::Directory;
    let links = inode.attributes.links;
    inode.attributes.links = if is_directory { 0 } else { links.saturating_sub(1) };
    inode.attributes.changed = now;
    if inode.attributes.links == 0 {
        orphans::add(volume, inode)?;
    }
    inode.store(volume, operation, Before::Itself)
}

/// The node a name stands for, held until given back by [`let_go`], and where the name was seen.
fn hold(
    volume: &Volume,
    directory: &Node,
    name: &[u8],
) -> Result<(Arc<Node>, Option<Seen<Place>>), FsError> {
    check_name(name)?;
    // Locked until the inode is held: while the name is there it is not freed.
    let parent = directory.read();
    check_parent(&parent)?;
    let (number, seen) = match parent.has_flag(FLAG_INLINE_DATA) {
        true => (directory::find(volume, &parent, name)?, None),
        false => {
            let place = directory_edit::locate(volume, &parent, name)?;
            (place.inode, Some(Seen::new(&parent, place)))
        }
    };
    if number == directory.number || number == crate::layout::superblock::ROOT_INODE {
        return Err(FsError::Corrupt);
    }
    Ok((volume.inodes.hold(volume, number)?, seen))
}

/// Gives up counts of an inode, which is freed if they were the last and it has no name.
pub(crate) fn let_go(volume: &Volume, inode: InodeNumber, count: u64) {
    let Some(node) = volume.inodes.forget(inode, count) else { return };
    if let Ok(groups) = volume.groups() {
        let blocks = (rt::PAGE_BYTES / volume.geometry.block_bytes) as u64;
        node.undelay(groups, 0, u64::MAX, blocks);
    }
    let is_unnamed = node.read().attributes.links == 0;
    if !is_unnamed || volume.health.check_writable().is_err() {
        return;
    }
    // Nobody could be told that it lacked memory, and would do it again.
    if let Err(error) = rt::memory::with_reserve(|| file_size::delete(volume, &node)) {
        log::error!("ext4: {}: freeing inode {inode}: {error:?}", volume.device.name());
    }
}

/// The required kind of a name that is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Anything but a directory.
    File,
    /// An empty directory.
    Directory,
}

/// Takes a name away.
///
/// # Errors
/// As [`interfaces::file_system::FileSystem::unlink`] and `remove_directory`.
pub(crate) fn remove(
    volume: &Volume,
    directory: &Node,
    name: &[u8],
    kind: Kind,
    now: FileTime,
) -> Result<(), FsError> {
    volume.health.check_writable()?;
    for _ in 0..RETRIES_MAX {
        let (victim, seen) = hold(volume, directory, name)?;
        let result = volume.operate(|operation| {
            remove_held(volume, operation, (directory, name, seen), &victim, (kind, now))
        });
        let_go(volume, u64::from(victim.number), 1);
        if result != Ok(Outcome::Changed) {
            return result.map(|_| ());
        }
    }
    Err(FsError::NotFound)
}

/// Whether a change of names was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// There was nothing to do.
    Nothing,
    /// A name stands for another inode than before.
    Changed,
}

fn remove_held(
    volume: &Volume,
    operation: &Operation<'_>,
    (directory, name, seen): (&Node, &[u8], Option<Seen<Place>>),
    victim: &Node,
    (kind, now): (Kind, FileTime),
) -> Result<Outcome, FsError> {
    let mut locked = lock_all(&[directory, victim]);
    let parent = of(&mut locked, directory.number)?;
    let place = match seen.and_then(|seen| seen.still_in(parent)) {
        Some(place) => place,
        None => {
            check_parent(parent)?;
            directory_edit::locate_or_move(volume, operation, parent, name)?
        }
    };
    if place.inode != victim.number {
        return Ok(Outcome::Changed);
    }
    check_removable(volume, of(&mut locked, victim.number)?, kind)?;
    let parent = of(&mut locked, directory.number)?;
    directory_edit::remove(volume, operation, parent, place)?;
    if kind == Kind::Directory {
        drop_link(parent);
    }
    touch(parent, now);
    parent.store(volume, operation, Before::Itself)?;
    directory.note(operation);
    victim.note(operation);
    // The name is gone: others need not wait for what becomes of its inode.
    locked.retain(|(number, _)| *number == victim.number);
    unname(volume, operation, of(&mut locked, victim.number)?, now)?;
    Ok(Outcome::Done)
}

/// Is what the caller takes it for; a directory is empty; its blocks can be freed.
pub(crate) fn check_removable(volume: &Volume, inode: &Inode, kind: Kind) -> Result<(), FsError> {
    let is_directory = inode.attributes.file_type == FileType::Directory;
    let has_block_map = !inode.has_flag(FLAG_EXTENTS)
        && !inode.has_flag(FLAG_INLINE_DATA)
        && (is_directory || inode.attributes.file_type == FileType::Regular);
    match kind {
        _ if has_block_map && inode.attributes.blocks > 0 => Err(FsError::Unsupported),
        Kind::File if is_directory => Err(FsError::IsDirectory),
        Kind::Directory if !is_directory => Err(FsError::NotDirectory),
        Kind::Directory if !directory_edit::is_empty(volume, inode)? => Err(FsError::NotEmpty),
        _ => Ok(()),
    }
}

mod rename;
pub(crate) use rename::{exchange, rename};
