//! Names are moved and exchanged.
use crate::{
    files::named::{
        Locked, Outcome, RETRIES_MAX, RemovedKind, add_link, check_name, check_parent,
        check_removable, drop_link, hold, let_go, of, touch, unname,
    },
    layout::{
        groups::Account,
        inode_store::Before,
        inode_table::{LiveInode, lock_all},
        volume::Volume,
    },
    names::{directory_edit, entries::NewEntry, leaf_edit},
    store::log::Operation,
    transactions::mount::Mount,
};
use alloc::{sync::Arc, vec::Vec};
use interfaces::file_system::{FileTime, FileType, FsError};

/// A name in a directory.
type Name<'a> = (&'a LiveInode, &'a [u8]);

/// Moves a name; one that is there already is replaced.
///
/// Without a journal the new name is durable before the old one goes, so that a crash never leaves
/// the inode without a name.
///
/// # Errors
/// Those of [`interfaces::file_system::FileSystem::rename`].
pub(crate) fn rename(
    mount: &Mount,
    from: Name<'_>,
    to: Name<'_>,
    now: FileTime,
) -> Result<(), FsError> {
    let volume = &mount.volume;
    check_name(to.1)?;
    if volume.store.log.has_journal() {
        return with_held(mount, from, to, |operation, moved, target| {
            let mut step = Move::new((from, moved), (to, target), now);
            if let Some(outcome) = step.check(volume, operation)? {
                return Ok(outcome);
            }
            step.place(volume, operation)?;
            step.take(volume, operation)
        })
        .map(|_| ());
    }
    settle_new(mount, from, to)?;
    let placed = with_held(mount, from, to, |operation, moved, target| {
        let mut step = Move::new((from, moved), (to, target), now);
        match step.check(volume, operation)? {
            Some(outcome) => Ok(outcome),
            None => step.place(volume, operation),
        }
    })?;
    if placed == Outcome::Nothing {
        return Ok(());
    }
    mount.commit(volume.store.log.running_id())?;
    with_held(mount, from, to, |operation, moved, target| {
        if target.is_none_or(|target| target.number != moved.number) {
            return Ok(Outcome::Nothing);
        }
        Move::new((from, moved), (to, target), now).take(volume, operation)
    })
    .map(|_| ())
}

/// Makes an inode durable that is about to take the name of another, without a journal: new inodes are written last,
/// so that a crash would otherwise leave the name with a free inode, and the old inode lost.
fn settle_new(mount: &Mount, from: Name<'_>, to: Name<'_>) -> Result<(), FsError> {
    let volume = &mount.volume;
    let number_of = |name: Name<'_>| {
        let (node, _) = hold(mount, name.0, name.1)?;
        let_go(mount, u64::from(node.number), 1);
        Ok::<_, FsError>(node.number)
    };
    let moved = number_of(from)?;
    let is_new = volume.store.log.running().new_inodes.contains(&moved);
    match is_new && number_of(to).is_ok() {
        true => mount.commit(volume.store.log.running_id()),
        false => Ok(()),
    }
}

/// Exchanges two names.
///
/// # Errors
/// Those of [`interfaces::file_system::FileSystem::exchange`].
pub(crate) fn exchange(
    mount: &Mount,
    from: Name<'_>,
    to: Name<'_>,
    now: FileTime,
) -> Result<(), FsError> {
    let volume = &mount.volume;
    with_held(mount, from, to, |operation, first, second| {
        let second = second.ok_or(FsError::NotFound)?;
        swap_names(volume, operation, (from, first), (to, second), now)
    })
    .map(|_| ())
}

/// Runs a change of two names with their inodes held, and repeats it if the names changed meanwhile.
fn with_held(
    mount: &Mount,
    from: Name<'_>,
    to: Name<'_>,
    change: impl Fn(&Operation<'_>, &LiveInode, Option<&LiveInode>) -> Result<Outcome, FsError>,
) -> Result<Outcome, FsError> {
    let volume = &mount.volume;
    volume.store.health.check_writable()?;
    for _ in 0..RETRIES_MAX {
        let (first, _) = hold(mount, from.0, from.1)?;
        let second: Option<Arc<LiveInode>> = match hold(mount, to.0, to.1) {
            Ok((node, _)) => Some(node),
            Err(FsError::NotFound) => None,
            Err(error) => {
                let_go(mount, u64::from(first.number), 1);
                return Err(error);
            }
        };
        let result = mount.operate_with((0, Account::Caller), |operation| {
            change(operation, &first, second.as_deref())
        });
        let_go(mount, u64::from(first.number), 1);
        if let Some(second) = second {
            let_go(mount, u64::from(second.number), 1);
        }
        if result != Ok(Outcome::Changed) {
            return result;
        }
    }
    Err(FsError::NotFound)
}

/// Returns the number of a name's inode; zero if there is none.
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

/// A rename under way, with all that it changes locked.
struct Move<'n> {
    from: Name<'n>,
    to: Name<'n>,
    moved: &'n LiveInode,
    target: Option<&'n LiveInode>,
    now: FileTime,
    nodes: Vec<&'n LiveInode>,
    locked: Locked<'n>,
}

impl<'n> Move<'n> {
    fn new(
        (from, moved): (Name<'n>, &'n LiveInode),
        (to, target): (Name<'n>, Option<&'n LiveInode>),
        now: FileTime,
    ) -> Move<'n> {
        let mut nodes = alloc::vec![from.0, to.0, moved];
        nodes.extend(target);
        let locked = lock_all(&nodes);
        Move { from, to, moved, target, now, nodes, locked }
    }

    fn file_type(&mut self) -> Result<FileType, FsError> {
        Ok(of(&mut self.locked, self.moved.number)?.attributes.file_type)
    }

    /// Returns whether the inode is a directory that gets another parent.
    fn changes_parent(&mut self) -> Result<bool, FsError> {
        let is_directory = self.file_type()? == FileType::Directory;
        Ok(is_directory && self.from.0.number != self.to.0.number)
    }

    /// Checks that both names are unchanged, and that one may replace the other. Returns the outcome if it is decided
    /// already.
    fn check(
        &mut self,
        volume: &Volume,
        operation: &Operation<'_>,
    ) -> Result<Option<Outcome>, FsError> {
        let target_number = self.target.map_or(0, |target| target.number);
        let locked = &mut self.locked;
        let is_same = number_of(volume, operation, locked, self.from)? == self.moved.number
            && number_of(volume, operation, locked, self.to)? == target_number;
        if !is_same {
            return Ok(Some(Outcome::Changed));
        }
        if target_number == self.moved.number {
            return Ok(Some(Outcome::Nothing));
        }
        if self.to.0.number == self.moved.number {
            return Err(FsError::Invalid);
        }
        let kind = match self.file_type()? {
            FileType::Directory => RemovedKind::Directory,
            _ => RemovedKind::File,
        };
        if let Some(target) = self.target {
            if target.number == self.from.0.number {
                return Err(FsError::NotEmpty);
            }
            check_removable(volume, of(&mut self.locked, target.number)?, kind)?;
        }
        Ok(None)
    }

    /// Makes the new name; the inode that it stood for loses a name.
    fn place(&mut self, volume: &Volume, operation: &Operation<'_>) -> Result<Outcome, FsError> {
        let (file_type, changes_parent) = (self.file_type()?, self.changes_parent()?);
        let moved = self.moved.number;
        let parent = of(&mut self.locked, self.to.0.number)?;
        if self.target.is_some() {
            let place = directory_edit::locate(volume, parent, self.to.1)?;
            leaf_edit::point(volume, operation, parent, place, (moved, file_type))?;
        } else {
            if changes_parent {
                add_link(volume, parent)?;
            }
            let entry = NewEntry { name: self.to.1, inode: moved, file_type };
            if let Err(error) = directory_edit::add(volume, operation, parent, &entry, None) {
                if changes_parent {
                    drop_link(parent);
                }
                return Err(error);
            }
        }
        touch(parent, self.now);
        parent.store(volume, operation, Before::Itself)?;
        let inode = of(&mut self.locked, moved)?;
        inode.attributes.changed = self.now;
        if changes_parent {
            directory_edit::set_parent(volume, operation, inode, self.to.0.number)?;
        }
        inode.store(volume, operation, Before::Itself)?;
        if let Some(target) = self.target {
            if file_type == FileType::Directory && !changes_parent {
                // The directory that was replaced was counted, too.
                let parent = of(&mut self.locked, self.to.0.number)?;
                drop_link(parent);
                parent.store(volume, operation, Before::Itself)?;
            }
            unname(volume, operation, of(&mut self.locked, target.number)?, self.now)?;
        }
        self.nodes.iter().for_each(|node| node.note(operation));
        Ok(Outcome::Done)
    }

    /// Removes the old name.
    fn take(&mut self, volume: &Volume, operation: &Operation<'_>) -> Result<Outcome, FsError> {
        let changes_parent = self.changes_parent()?;
        // Adding the new name may have moved the old one.
        let parent = of(&mut self.locked, self.from.0.number)?;
        let place = directory_edit::locate(volume, parent, self.from.1)?;
        if place.inode != self.moved.number {
            return Ok(Outcome::Changed);
        }
        leaf_edit::remove(volume, operation, parent, place)?;
        if changes_parent {
            drop_link(parent);
        }
        touch(parent, self.now);
        parent.store(volume, operation, Before::Itself)?;
        self.nodes.iter().for_each(|node| node.note(operation));
        Ok(Outcome::Done)
    }
}

fn swap_names(
    volume: &Volume,
    operation: &Operation<'_>,
    (from, first): (Name<'_>, &LiveInode),
    (to, second): (Name<'_>, &LiveInode),
    now: FileTime,
) -> Result<Outcome, FsError> {
    let nodes = [from.0, to.0, first, second];
    let mut locked = lock_all(&nodes);
    let is_same = number_of(volume, operation, &mut locked, from)? == first.number
        && number_of(volume, operation, &mut locked, to)? == second.number;
    if !is_same {
        return Ok(Outcome::Changed);
    }
    let type_of = |locked: &mut Locked<'_>, node: &LiveInode| {
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
        leaf_edit::point(volume, operation, parent, place, (node.number, file_type))?;
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
