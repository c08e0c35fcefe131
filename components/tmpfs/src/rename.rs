//! Names moved and exchanged (rename(2), `RENAME_EXCHANGE`).
//!
//! A move between directories holds the tree lock, so that ancestors stand still; a move within
//! one directory changes no ancestor and does without. Then both directories are locked (ancestor
//! first, else by number), then the inodes moved and replaced (by number; neither is an ancestor
//! of a directory locked, that is refused first).
use crate::{
    Tmpfs, check_name,
    node::{Node, State},
};
use alloc::sync::Arc;
use interfaces::file_system::{FileTime, FsError, InodeNumber};
use rt::sync::MutexGuard;

/// A directory and a name in it.
pub(crate) type Place<'a> = (InodeNumber, &'a [u8]);

/// The two directories of a move, locked; one guard where they are the same.
struct Locked<'a> {
    from: MutexGuard<'a, State>,
    to: Option<MutexGuard<'a, State>>,
}

impl Locked<'_> {
    fn to(&mut self) -> &mut State {
        self.to.as_deref_mut().unwrap_or(&mut self.from)
    }

    fn touch(&mut self, now: FileTime) {
        self.from.touch(now);
        self.to().touch(now);
    }

    fn is_across(&self) -> bool {
        self.to.is_some()
    }
}

impl Tmpfs {
    /// Moves a name; what stood at the target loses that name.
    pub(crate) fn move_name(&self, from: Place, to: Place, now: FileTime) -> Result<(), FsError> {
        check_name(to.1)?;
        let _tree = (from.0 != to.0).then(|| self.tree.lock());
        let (from_node, to_node) = (self.directory(from.0)?, self.directory(to.0)?);
        let mut locked = self.lock_directories(&from_node, &to_node)?;
        let moved = Arc::clone(locked.from.names.find(from.1)?);
        let replaced = locked.to().names.find(to.1).ok().map(Arc::clone);
        let is_below =
            |node, above: &Arc<Node>| above.is_directory() && self.is_within(node, above);
        if locked.is_across() && is_below(&to_node, &moved) {
            return Err(FsError::Invalid);
        }
        match &replaced {
            Some(replaced) if Arc::ptr_eq(replaced, &moved) => return Ok(()),
            Some(replaced) => self.replace(&mut locked, (from, to), &moved, replaced, now)?,
            None => {
                let promised = locked.to().names.promise(to.1)?;
                locked.to().names.insert(promised, &moved);
                locked.from.names.remove(from.1, |_| Ok(()))?;
                moved.state.lock().changed = now;
            }
        }
        if moved.is_directory() && locked.is_across() {
            locked.from.links = locked.from.links.saturating_sub(1);
            locked.to().links = locked.to().links.saturating_add(1);
            moved.set_parent(to.0);
        }
        locked.touch(now);
        drop(locked);
        if let Some(replaced) = replaced {
            self.free_if_unused(&replaced, replaced.state.lock());
        }
        Ok(())
    }

    /// Lets the target's name stand for `moved`; `replaced` loses it.
    fn replace(
        &self,
        locked: &mut Locked<'_>,
        (from, to): (Place, Place),
        moved: &Arc<Node>,
        replaced: &Arc<Node>,
        now: FileTime,
    ) -> Result<(), FsError> {
        match (moved.is_directory(), replaced.is_directory()) {
            (true, false) => return Err(FsError::NotDirectory),
            (false, true) => return Err(FsError::IsDirectory),
            _ => {}
        }
        // An ancestor of the source's directory has names (and its lock may be ours already).
        let source = self.directory(from.0)?;
        if locked.is_across() && replaced.is_directory() && self.is_within(&source, replaced) {
            return Err(FsError::NotEmpty);
        }
        let (mut moved_state, mut replaced_state) = lock_pair(moved, replaced);
        if !replaced_state.names.is_empty() {
            return Err(FsError::NotEmpty);
        }
        let names = if replaced.is_directory() { 2 } else { 1 };
        replaced_state.links = replaced_state.links.saturating_sub(names);
        self.give_link(replaced, &mut replaced_state);
        replaced_state.changed = now;
        moved_state.changed = now;
        drop((moved_state, replaced_state));
        if replaced.is_directory() {
            locked.to().links = locked.to().links.saturating_sub(1);
        }
        locked.to().names.replace(to.1, moved);
        locked.from.names.remove(from.1, |_| Ok(()))?;
        Ok(())
    }

    /// Exchanges what two names stand for.
    pub(crate) fn exchange_names(
        &self,
        from: Place,
        to: Place,
        now: FileTime,
    ) -> Result<(), FsError> {
        let _tree = self.tree.lock();
        let (from_node, to_node) = (self.directory(from.0)?, self.directory(to.0)?);
        let mut locked = self.lock_directories(&from_node, &to_node)?;
        let first = Arc::clone(locked.from.names.find(from.1)?);
        let second = Arc::clone(locked.to().names.find(to.1)?);
        if Arc::ptr_eq(&first, &second) {
            return Ok(());
        }
        let is_below =
            |node, above: &Arc<Node>| above.is_directory() && self.is_within(node, above);
        if is_below(&to_node, &first) || is_below(&from_node, &second) {
            return Err(FsError::Invalid);
        }
        let (mut first_state, mut second_state) = lock_pair(&first, &second);
        first_state.changed = now;
        second_state.changed = now;
        drop((first_state, second_state));
        locked.from.names.replace(from.1, &second);
        locked.to().names.replace(to.1, &first);
        if locked.is_across() {
            move_link(&mut locked, &first, &second);
        }
        if first.is_directory() {
            first.set_parent(to.0);
        }
        if second.is_directory() {
            second.set_parent(from.0);
        }
        locked.touch(now);
        Ok(())
    }

    /// Locks two directories that still have names: ancestor first, else by number.
    fn lock_directories<'a>(
        &self,
        from: &'a Arc<Node>,
        to: &'a Arc<Node>,
    ) -> Result<Locked<'a>, FsError> {
        if Arc::ptr_eq(from, to) {
            return Ok(Locked { from: from.lock_alive()?, to: None });
        }
        let is_to_first =
            self.is_within(from, to) || (!self.is_within(to, from) && to.inode < from.inode);
        if is_to_first {
            let to = to.lock_alive()?;
            Ok(Locked { from: from.lock_alive()?, to: Some(to) })
        } else {
            Ok(Locked { from: from.lock_alive()?, to: Some(to.lock_alive()?) })
        }
    }

    /// Whether `node` is `ancestor` or lies below it. Ends at the root; a directory is below
    /// another only where the tree lock keeps it there, or where both are the same.
    fn is_within(&self, node: &Arc<Node>, ancestor: &Arc<Node>) -> bool {
        let mut at = Arc::clone(node);
        loop {
            if Arc::ptr_eq(&at, ancestor) {
                return true;
            }
            if at.inode == crate::ROOT {
                return false;
            }
            match self.node(at.parent()) {
                Ok(parent) => at = parent,
                Err(_) => return false,
            }
        }
    }
}

/// A subdirectory's `..` counts in the directory it is in.
fn move_link(locked: &mut Locked<'_>, first: &Node, second: &Node) {
    if first.is_directory() == second.is_directory() {
        return;
    }
    if first.is_directory() {
        locked.from.links = locked.from.links.saturating_sub(1);
        locked.to().links = locked.to().links.saturating_add(1);
    } else {
        locked.from.links = locked.from.links.saturating_add(1);
        locked.to().links = locked.to().links.saturating_sub(1);
    }
}

/// Locks two different inodes by number.
fn lock_pair<'a>(
    first: &'a Node,
    second: &'a Node,
) -> (MutexGuard<'a, State>, MutexGuard<'a, State>) {
    if first.inode < second.inode {
        let first = first.state.lock();
        (first, second.state.lock())
    } else {
        let second = second.state.lock();
        (first.state.lock(), second)
    }
}
