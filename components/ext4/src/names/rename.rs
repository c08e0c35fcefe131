//! Names moved and exchanged.
use super::{
    Kind, Locked, Outcome, RETRIES_MAX, add_link, check_name, check_parent, check_removable,
    drop_link, hold, let_go, of, touch, unname,
};
use crate::{
    directory_edit::{self, NewEntry},
    inode_store::Before,
    inode_table::{Node, lock_all},
    log::Operation,
    volume::Volume,
};
use alloc::sync::Arc;
use interfaces::file_system::{FileTime, FileType, FsError};

/// A name in a directory.
type Name<'a> = (&'a Node, &'a [u8]);

/// Moves a name; one that is there already is replaced.
///
/// # Errors
/// As [`interfaces::file_system::FileSystem::rename`].
pub(crate) fn rename(
    volume: &Volume,
    from: Name<'_>,
    to: Name<'_>,
    now: FileTime,
) -> Result<(), FsError> {
    check_name(to.1)?;
    with_held(volume, from, to, |operation, moved, target| {
        move_name(volume, operation, (from, moved), (to, target), now)
    })
}

/// Exchanges two names.
///
/// # Errors
/// As [`interfaces::file_system::FileSystem::exchange`].
pub(crate) fn exchange(
    volume: &Volume,
    from: Name<'_>,
    to: Name<'_>,
    now: FileTime,
) -> Result<(), FsError> {
    with_held(volume, from, to, |operation, first, second| {
        let second = second.ok_or(FsError::NotFound)?;
        swap_names(volume, operation, (from, first), (to, second), now)
    })
}

/// Runs a change of two names with what they stand for held, again where that changed meanwhile.
fn with_held(
    volume: &Volume,
    from: Name<'_>,
    to: Name<'_>,
    change: impl Fn(&Operation<'_>, &Node, Option<&Node>) -> Result<Outcome, FsError>,
) -> Result<(), FsError> {
    volume.health.check_writable()?;
    for _ in 0..RETRIES_MAX {
        let first = hold(volume, from.0, from.1)?;
        let second: Option<Arc<Node>> = match hold(volume, to.0, to.1) {
            Ok(node) => Some(node),
            Err(FsError::NotFound) => None,
            Err(error) => {
                let_go(volume, u64::from(first.number), 1);
                return Err(error);
            }
        };
        let result = volume.operate(|operation| change(operation, &first, second.as_deref()));
        let_go(volume, u64::from(first.number), 1);
        if let Some(second) = second {
            let_go(volume, u64::from(second.number), 1);
        }
        if result != Ok(Outcome::Changed) {
            return result.map(|_| ());
        }
    }
    Err(FsError::NotFound)
}

/// The inode of a name, zero where there is none.
fn number_of(
    volume: &Volume,
    operation: &Operation<'_>,
    locked: &mut Locked<'_>,
    (directory, name): Name<'_>,
) -> Result<u32, FsError> {
    let parent = of(locked, directory.number)?;
    check_parent(parent)?;
    match directory_edit::locate_or_move(volume, operation, parent, name) {
        Ok(place) => Ok(place.inode),
        Err(FsError::NotFound) => Ok(0),
        Err(error) => Err(error),
    }
}

fn move_name(
    volume: &Volume,
    operation: &Operation<'_>,
    (from, moved): (Name<'_>, &Node),
    (to, target): (Name<'_>, Option<&Node>),
    now: FileTime,
) -> Result<Outcome, FsError> {
    let mut nodes = alloc::vec![from.0, to.0, moved];
    nodes.extend(target);
    let mut locked = lock_all(&nodes);
    let target_number = target.map_or(0, |target| target.number);
    let is_same = number_of(volume, operation, &mut locked, from)? == moved.number
        && number_of(volume, operation, &mut locked, to)? == target_number;
    if !is_same {
        return Ok(Outcome::Changed);
    }
    if target_number == moved.number {
        return Ok(Outcome::Done);
    }
    let file_type = of(&mut locked, moved.number)?.attributes.file_type;
    let is_directory = file_type == FileType::Directory;
    let kind = if is_directory { Kind::Directory } else { Kind::File };
    let changes_parent = is_directory && from.0.number != to.0.number;
    if let Some(target) = target {
        if target.number == from.0.number {
            return Err(FsError::NotEmpty);
        }
        check_removable(volume, of(&mut locked, target.number)?, kind)?;
    }
    let parent = of(&mut locked, to.0.number)?;
    if target.is_some() {
        let place = directory_edit::locate(volume, parent, to.1)?;
        directory_edit::point(volume, operation, parent, place, (moved.number, file_type))?;
    } else {
        if changes_parent {
            add_link(volume, parent)?;
        }
        let entry = NewEntry { name: to.1, inode: moved.number, file_type };
        if let Err(error) = directory_edit::add(volume, operation, parent, &entry) {
            if changes_parent {
                drop_link(parent);
            }
            return Err(error);
        }
    }
    touch(parent, now);
    parent.store(volume, operation, Before::Itself)?;
    // Putting the new name in may have moved the old one.
    let parent = of(&mut locked, from.0.number)?;
    let place = directory_edit::locate(volume, parent, from.1)?;
    directory_edit::remove(volume, operation, parent, place)?;
    let loses_link = is_directory && (changes_parent || target.is_some());
    if loses_link {
        drop_link(parent);
    }
    touch(parent, now);
    parent.store(volume, operation, Before::Itself)?;
    let inode = of(&mut locked, moved.number)?;
    inode.attributes.changed = now;
    if changes_parent {
        directory_edit::set_parent(volume, operation, inode, to.0.number)?;
    }
    inode.store(volume, operation, Before::Itself)?;
    if let Some(target) = target {
        unname(volume, operation, of(&mut locked, target.number)?, now)?;
    }
    nodes.iter().for_each(|node| node.note(operation));
    Ok(Outcome::Done)
}

fn swap_names(
    volume: &Volume,
    operation: &Operation<'_>,
    (from, first): (Name<'_>, &Node),
    (to, second): (Name<'_>, &Node),
    now: FileTime,
) -> Result<Outcome, FsError> {
    let nodes = [from.0, to.0, first, second];
    let mut locked = lock_all(&nodes);
    let is_same = number_of(volume, operation, &mut locked, from)? == first.number
        && number_of(volume, operation, &mut locked, to)? == second.number;
    if !is_same {
        return Ok(Outcome::Changed);
    }
    let type_of = |locked: &mut Locked<'_>, node: &Node| {
        of(locked, node.number).map(|inode| inode.attributes.file_type)
    };
    let types = [type_of(&mut locked, first)?, type_of(&mut locked, second)?];
    let directories = types.map(|file_type| file_type == FileType::Directory);
    let changes_parent = from.0.number != to.0.number;
    if changes_parent {
        let counts = [(from.0, directories), (to.0, [directories[1], directories[0]])];
        for (directory, [leaves, comes]) in counts {
            let parent = of(&mut locked, directory.number)?;
            match (leaves, comes) {
                (true, false) => drop_link(parent),
                (false, true) => add_link(volume, parent)?,
                _ => {}
            }
        }
    }
    for ((directory, name), node, file_type) in [(from, second, types[1]), (to, first, types[0])] {
        let parent = of(&mut locked, directory.number)?;
        let place = directory_edit::locate(volume, parent, name)?;
        directory_edit::point(volume, operation, parent, place, (node.number, file_type))?;
        touch(parent, now);
        parent.store(volume, operation, Before::Itself)?;
    }
    for (node, parent, is_directory) in
        [(second, from.0, directories[1]), (first, to.0, directories[0])]
    {
        let inode = of(&mut locked, node.number)?;
        inode.attributes.changed = now;
        if is_directory && changes_parent {
            directory_edit::set_parent(volume, operation, inode, parent.number)?;
        }
        inode.store(volume, operation, Before::Itself)?;
    }
    nodes.iter().for_each(|node| node.note(operation));
    Ok(Outcome::Done)
}
