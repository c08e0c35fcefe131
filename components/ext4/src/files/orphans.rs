//! Inodes without names that somebody still holds, and files being cut: the list on the volume.
//!
//! ```text
//! superblock: last orphan -> inode: delete time -> inode: delete time -> 0
//! ```
//! A mount after a crash frees them, or cuts them to their size. The list in memory is
//! the one that counts: an inode on it gets its link to the next whenever it is stored.
//!
//! Without a journal there is no list on the volume: an inode without links is one that `e2fsck`
//! frees, and the order of writes could not keep a list whole.
use crate::{
    files::file_size,
    layout::{groups::inodes, inode::Inode, inode_store::store_link, volume::Volume},
    store::log::Operation,
};
use alloc::collections::BTreeMap;
use interfaces::file_system::FsError;
use rt::{lock_class, memory::Charge, sync::Mutex};

lock_class! {
    static ORPHANS = "ext4.orphans";
}

/// Memory that is charged for one inode of the list.
const LISTED_BYTES: usize = 32;

/// Neighbours in the list; zero where there is none.
#[derive(Clone, Copy, Default)]
struct Neighbours {
    previous: u32,
    next: u32,
}

#[derive(Default)]
struct List {
    head: u32,
    links: BTreeMap<u32, Neighbours>,
}

/// The list. Its lock (`ext4.orphans`) is a leaf.
pub(crate) struct Orphans {
    list: Mutex<List>,
}

impl Orphans {
    /// Nothing on it.
    pub(crate) fn new() -> Orphans {
        Orphans { list: Mutex::new(&ORPHANS, List::default()) }
    }

    /// The first inode, which the superblock names.
    pub(crate) fn head(&self) -> u32 {
        self.list.lock().head
    }

    /// The successor of an inode on the list; `None` for one that is not.
    pub(crate) fn next_of(&self, inode: u32) -> Option<u32> {
        self.list.lock().links.get(&inode).map(|link| link.next)
    }

    /// Adds one in front.
    fn push(&self, inode: u32) {
        let mut list = self.list.lock();
        let next = list.head;
        if list.links.contains_key(&inode) {
            return;
        }
        if let Some(link) = list.links.get_mut(&next) {
            link.previous = inode;
        }
        list.links.insert(inode, Neighbours { previous: 0, next });
        list.head = inode;
    }

    /// Adds one behind `last`, the end of the list (0: it is empty).
    fn append(&self, last: u32, inode: u32) {
        let mut list = self.list.lock();
        match list.links.get_mut(&last) {
            Some(link) => link.next = inode,
            None => list.head = inode,
        }
        list.links.insert(inode, Neighbours { previous: last, next: 0 });
    }

    /// Takes one out; returns the one before it, whose link changed.
    fn take(&self, inode: u32) -> Option<u32> {
        let mut list = self.list.lock();
        let Neighbours { previous, next } = list.links.remove(&inode)?;
        if let Some(link) = list.links.get_mut(&next) {
            link.previous = previous;
        }
        match list.links.get_mut(&previous) {
            Some(link) => link.next = next,
            None => list.head = next,
        }
        (previous != 0).then_some(previous)
    }
}

/// Puts an inode on the list; the caller stores it.
///
/// # Errors
/// [`FsError::ReadOnly`].
pub(crate) fn add(volume: &Volume, inode: &mut Inode) -> Result<(), FsError> {
    if volume.log.has_journal() {
        volume.groups()?.orphans.push(inode.number);
    } else {
        inode.deleted = (rt::time::wall_ns() / 1_000_000_000) as u32;
    }
    Ok(())
}

/// Takes an inode off the list; the caller stores it.
///
/// # Errors
/// Errors of storing its neighbour.
pub(crate) fn remove(
    volume: &Volume,
    operation: &Operation<'_>,
    inode: &mut Inode,
) -> Result<(), FsError> {
    inode.deleted = 0;
    match volume.groups()?.orphans.take(inode.number) {
        Some(previous) => store_link(volume, operation, previous),
        None => Ok(()),
    }
}

/// Takes over the list of the volume: later commits write the part of it that is left. At an inode that makes no
/// sense the list ends, and the volume is marked as having errors.
///
/// # Errors
/// The error of the read if an inode cannot be read; [`FsError::NoMemory`] if memory for the list is refused. Nothing is taken
/// over then.
pub(crate) fn load(volume: &Volume, first: u32) -> Result<(), FsError> {
    let orphans = &volume.groups()?.orphans;
    let mut charge = Charge::none();
    let (mut number, mut last) = (first, 0);
    while number != 0 {
        let room = charge.grow(LISTED_BYTES).map_err(|_| FsError::NoMemory);
        let next = match room.and_then(|()| check(volume, orphans, number)) {
            Ok(next) => next,
            Err(FsError::Corrupt) => {
                log::error!("ext4: {}: bad orphan inode {number}", volume.device.name());
                volume.health.report(volume.device.name(), FsError::Corrupt);
                break;
            }
            Err(error) => {
                *orphans.list.lock() = List::default();
                return Err(error);
            }
        };
        orphans.append(last, number);
        (last, number) = (number, next);
    }
    Ok(())
}

/// Returns the inode that inode `number` of the volume's list names, if `number` can be on the list.
fn check(volume: &Volume, orphans: &Orphans, number: u32) -> Result<u32, FsError> {
    let is_possible = (volume.geometry.first_inode..=volume.geometry.inodes).contains(&number);
    if !is_possible || orphans.next_of(number).is_some() || !inodes::is_used(volume, number)? {
        return Err(FsError::Corrupt);
    }
    Ok(Inode::load_orphan(volume, number)?.deleted)
}

/// Frees the inodes on the list from `first` on, as [`load`] read it, or cuts them to their sizes. Returns their number.
/// Inodes that other threads add meanwhile are in front of `first` and stay. A crash at any moment leaves the inodes
/// that are not done on the volume's list.
///
/// # Errors
/// The error of the first inode that cannot be read, freed or cut; the inodes behind it stay on the list.
pub(crate) fn clean(volume: &Volume, first: u32) -> Result<u32, FsError> {
    let (mut number, mut count) = (first, 0);
    while number != 0 {
        let next = volume.groups()?.orphans.next_of(number).ok_or(FsError::Corrupt)?;
        let inode = Inode::load_orphan(volume, number)?;
        let is_unnamed = inode.attributes.links == 0;
        let node = volume.inodes.insert(volume, inode)?;
        let result = match is_unnamed {
            true => file_size::delete(volume, &node),
            false => file_size::cut(volume, &node),
        };
        volume.inodes.forget(u64::from(number), u64::MAX);
        result?;
        (number, count) = (next, count + 1);
    }
    Ok(count)
}
