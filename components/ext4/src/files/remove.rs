//! Names taken away.
//!
//! Each is one operation: with a journal a crash shows all of it or nothing.
use crate::{
    files::named::{
        Outcome, RETRIES_MAX, RemovedKind, Seen, check_parent, check_removable, drop_link, hold,
        let_go, of, touch, unname,
    },
    layout::{
        inode_store::Before,
        inode_table::{LiveInode, lock_all},
        volume::Volume,
    },
    names::{directory_edit, entries::EntryPlace, leaf_edit},
    store::log::Operation,
    transactions::mount::Mount,
};
use interfaces::file_system::{FileTime, FsError};

/// Removes a name.
///
/// # Errors
/// Those of [`interfaces::file_system::FileSystem::unlink`] and `remove_directory`.
pub(crate) fn remove(
    mount: &Mount,
    directory: &LiveInode,
    name: &[u8],
    kind: RemovedKind,
    now: FileTime,
) -> Result<(), FsError> {
    let volume = &mount.volume;
    volume.store.health.check_writable()?;
    for _ in 0..RETRIES_MAX {
        let (victim, seen) = hold(mount, directory, name)?;
        let result = mount.operate(|operation| {
            remove_held(volume, operation, (directory, name, seen), &victim, (kind, now))
        });
        let_go(mount, u64::from(victim.number), 1);
        if result != Ok(Outcome::Changed) {
            return result.map(|_| ());
        }
    }
    Err(FsError::NotFound)
}

fn remove_held(
    volume: &Volume,
    operation: &Operation<'_>,
    (directory, name, seen): (&LiveInode, &[u8], Option<Seen<EntryPlace>>),
    victim: &LiveInode,
    (kind, now): (RemovedKind, FileTime),
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
    leaf_edit::remove(volume, operation, parent, place)?;
    if kind == RemovedKind::Directory {
        drop_link(parent);
    }
    touch(parent, now);
    parent.store(volume, operation, Before::Itself)?;
    directory.note(operation);
    victim.note(operation);
    // The name is gone, so others need not wait for the end of its inode.
    locked.retain(|(number, _)| *number == victim.number);
    unname(volume, operation, of(&mut locked, victim.number)?, now)?;
    Ok(Outcome::Done)
}
