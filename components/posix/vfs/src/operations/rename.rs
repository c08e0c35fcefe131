//! Moving names: rename and renameat2.
//!
//! Locks: the file system's rename lock, then both directories (the upper one first, else by inode number), then a
//! directory that is replaced.
use crate::{
    base::{errno::Errno, time},
    operations::{create::tell_made, remove::tell_removal},
    pages::cache::WHOLE,
    tree::{
        dentry::{Dentry, EndOf},
        mount::Path,
        name_cache::Key,
        notify,
        vnode::Vnode,
    },
    walk::{
        caller::{Base, Caller, lookup_locked},
        multilevel,
        permission::{self, Want},
        walker::{Last, Parent},
    },
};
use alloc::sync::Arc;
use interfaces::file_system::FileTime;
use rt::sync::WriteGuard;

/// The treatment of the target of a rename.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// The target is replaced.
    Replace,
    /// The target must not exist (RENAME_NOREPLACE).
    NoReplace,
    /// Source and target are exchanged (RENAME_EXCHANGE).
    Exchange,
}

/// The source or the target of a rename.
struct Side<'a> {
    directory: &'a Path,
    name: &'a Arc<[u8]>,
    has_slash: bool,
}

impl Side<'_> {
    fn vnode(&self) -> &Arc<Vnode> {
        self.directory.vnode()
    }
    /// Returns the key of its name in the name cache.
    fn key(&self) -> Key<'_> {
        self.directory.dentry.key(self.name)
    }
    /// Records in the name cache the dentry that the name now has.
    fn note(&self, dentry: Option<&Arc<Dentry>>) {
        let instance = self.vnode().instance();
        let names = instance.names();
        if dentry.is_none() && instance.is_kept() {
            names.remove(&self.key());
        } else {
            names.insert(&self.key(), self.name.clone(), dentry.cloned());
        }
    }
}

/// The directories of a rename, locked.
struct Directories<'a> {
    _first: WriteGuard<'a, ()>,
    _second: Option<WriteGuard<'a, ()>>,
}

impl Caller<'_> {
    /// Renames a file (rename(2), renameat2(2)).
    ///
    /// # Errors
    /// Those of rename(2).
    pub fn rename(
        &self,
        from: (Base<'_>, &[u8]),
        to: (Base<'_>, &[u8]),
        mode: RenameMode,
    ) -> Result<(), Errno> {
        let from = self.walk_parent(from.0, from.1)?;
        let to = self.walk_parent(to.0, to.1)?;
        if from.path.mount.id() != to.path.mount.id() {
            return Err(Errno::EXDEV);
        }
        let Some(from) = side(&from) else { return Err(Errno::EBUSY) };
        let Some(to) = side(&to) else {
            let is_kept = mode == RenameMode::NoReplace;
            return Err(if is_kept { Errno::EEXIST } else { Errno::EBUSY });
        };
        multilevel::check_new_name(to.name)?;
        from.directory.mount.check_writable()?;
        let instance = from.vnode().instance();
        if instance.file_system().is_err() {
            return self.rename_generated(&from, &to, mode);
        }
        let _rename = instance.rename_lock().lock();
        let _directories = lock_directories(from.directory, to.directory);
        self.rename_locked(&from, &to, mode)
    }
    /// Fails for names of generated directories, which cannot be moved; a rename of such a name to itself succeeds.
    /// In procfs the new name must exist, too.
    fn rename_generated(
        &self,
        from: &Side<'_>,
        to: &Side<'_>,
        mode: RenameMode,
    ) -> Result<(), Errno> {
        let source = self.lookup(&from.directory.dentry, from.name)?.ok_or(Errno::ENOENT)?;
        if !self.is_generated_there(to.directory, to.name)? {
            let is_exchange = mode == RenameMode::Exchange;
            return Err(if is_exchange { Errno::ENOENT } else { Errno::EPERM });
        }
        let target = self.lookup(&to.directory.dentry, to.name)?.ok_or(Errno::ENOENT)?;
        let is_same = source.vnode().inode() == target.vnode().inode();
        match mode {
            RenameMode::NoReplace => Err(Errno::EEXIST),
            _ if is_same => Ok(()),
            _ => Err(Errno::EPERM),
        }
    }
    fn rename_locked(&self, from: &Side<'_>, to: &Side<'_>, mode: RenameMode) -> Result<(), Errno> {
        let source = lookup_locked(&from.directory.dentry, &from.key())?.ok_or(Errno::ENOENT)?;
        let target = lookup_locked(&to.directory.dentry, &to.key())?;
        if source.is_marked() && self.misses(&source) {
            return Err(Errno::ENOENT);
        }
        check_shape(&source, from, target.as_ref(), to, mode)?;
        if let Some(target) = &target
            && Arc::ptr_eq(source.vnode(), target.vnode())
        {
            return Ok(());
        }
        tell_removal(self, (from.vnode(), from.name), source.vnode());
        if let Some(target) = &target {
            tell_removal(self, (to.vnode(), to.name), target.vnode());
        }
        self.check_rights(&source, from, target.as_ref(), to, mode)?;
        // A hidden directory has no other name: it keeps the one of its level.
        let is_busy = |dentry: &Arc<Dentry>| dentry.is_marked();
        if is_busy(&source) || target.as_ref().is_some_and(is_busy) {
            return Err(Errno::EBUSY);
        }
        match (mode, target) {
            (RenameMode::Exchange, Some(target)) => {
                exchange(&source, from, &target, to)?;
                tell_made(self, (from.vnode(), from.name), target.vnode());
            }
            (_, target) => {
                replace(&source, from, target.as_ref(), to)?;
                self.release(target);
            }
        }
        tell_made(self, (to.vnode(), to.name), source.vnode());
        Ok(())
    }
    /// Drops the dentry of a file that was replaced.
    fn release(&self, target: Option<Arc<Dentry>>) {
        if let Some(target) = target {
            let vnode = target.vnode().clone();
            drop(target);
            vnode.release_for(self.task);
        }
    }
    fn check_rights(
        &self,
        source: &Arc<Dentry>,
        from: &Side<'_>,
        target: Option<&Arc<Dentry>>,
        to: &Side<'_>,
        mode: RenameMode,
    ) -> Result<(), Errno> {
        let who = self.credentials;
        let is_moved = !Arc::ptr_eq(from.vnode(), to.vnode());
        let check_parent = |dentry: &Arc<Dentry>| {
            let changes_parent = is_moved && dentry.vnode().is_directory();
            if changes_parent {
                permission::check(dentry.vnode(), who, Want::WRITE)
            } else {
                Ok(())
            }
        };
        permission::check_remove(from.vnode(), source.vnode(), who)?;
        match target {
            None => permission::check_create(to.vnode(), who)?,
            Some(target) => {
                permission::check_remove(to.vnode(), target.vnode(), who)?;
                if mode == RenameMode::Exchange {
                    check_parent(target)?;
                } else {
                    check_kinds(source, target)?;
                }
            }
        }
        check_parent(source)
    }
}

fn side(parent: &Parent) -> Option<Side<'_>> {
    match &parent.last {
        Last::Name(name) => {
            Some(Side { directory: &parent.path, name, has_slash: parent.has_slash })
        }
        _ => None,
    }
}

fn lock_directories<'a>(from: &'a Path, to: &'a Path) -> Directories<'a> {
    let (one, other) = (from.vnode(), to.vnode());
    if Arc::ptr_eq(one, other) {
        return Directories { _first: one.contents().write(), _second: None };
    }
    let is_upper = from.dentry.is_above_or_same(&to.dentry);
    let is_lower = to.dentry.is_above_or_same(&from.dentry);
    let is_in_order = is_upper || !is_lower && one.inode() < other.inode();
    let (first, second) = if is_in_order { (one, other) } else { (other, one) };
    Directories { _first: first.contents().write(), _second: Some(second.contents().write()) }
}

/// Checks the existing names against `how`.
fn check_shape(
    source: &Arc<Dentry>,
    from: &Side<'_>,
    target: Option<&Arc<Dentry>>,
    to: &Side<'_>,
    mode: RenameMode,
) -> Result<(), Errno> {
    match (mode, target) {
        (RenameMode::NoReplace, Some(_)) => return Err(Errno::EEXIST),
        (RenameMode::Exchange, None) => return Err(Errno::ENOENT),
        (RenameMode::Exchange, Some(target)) if !target.vnode().is_directory() && to.has_slash => {
            return Err(Errno::ENOTDIR);
        }
        _ => {}
    }
    let wants_directory = from.has_slash || to.has_slash && mode != RenameMode::Exchange;
    if !source.vnode().is_directory() && wants_directory {
        return Err(Errno::ENOTDIR);
    }
    if source.is_above_or_same(&to.directory.dentry) {
        return Err(Errno::EINVAL);
    }
    if target.is_some_and(|target| target.is_above_or_same(&from.directory.dentry)) {
        let is_exchange = mode == RenameMode::Exchange;
        return Err(if is_exchange { Errno::EINVAL } else { Errno::ENOTEMPTY });
    }
    Ok(())
}

/// Checks that a directory replaces only a directory, and another file only another file.
fn check_kinds(source: &Dentry, target: &Dentry) -> Result<(), Errno> {
    match (source.vnode().is_directory(), target.vnode().is_directory()) {
        (true, false) => Err(Errno::ENOTDIR),
        (false, true) => Err(Errno::EISDIR),
        _ => Ok(()),
    }
}

fn replace(
    source: &Arc<Dentry>,
    from: &Side<'_>,
    target: Option<&Arc<Dentry>>,
    to: &Side<'_>,
) -> Result<(), Errno> {
    let (fs, now) = (from.vnode().instance().file_system()?, time::now());
    let is_kept = from.vnode().instance().is_kept();
    let replaced = target.map(Arc::as_ref).filter(|target| target.vnode().is_directory());
    let inside = replaced.map(|target| target.vnode().contents().write());
    if target.is_some() {
        write_before_replacing(source.vnode());
    }
    if is_kept {
        move_kept(source, from, target, to, now)?;
    } else {
        let old = (from.vnode().inode(), &**from.name);
        let new = (to.vnode().inode(), &**to.name);
        fs.rename(old, new, now)?;
    }
    if let Some(replaced) = replaced {
        replaced.vnode().set_dead();
    }
    drop(inside);
    source.relink(&to.directory.dentry, to.name.clone());
    to.note(Some(source));
    from.note(None);
    match target {
        Some(target) if is_kept => {
            target.set_deleted();
            target.vnode().lose_name(now);
        }
        Some(target) => super::remove::drop_victim(target),
        None => {}
    }
    if !is_kept {
        outdate(&[from.vnode(), to.vnode(), source.vnode()]);
    }
    tell(from, to, source, target);
    Ok(())
}

/// Moves a name that is in the caches only; it takes the place of `target`'s, or is the newest.
///
/// # Errors
/// `ENOTEMPTY`, `ENOMEM`.
fn move_kept(
    source: &Arc<Dentry>,
    from: &Side<'_>,
    target: Option<&Arc<Dentry>>,
    to: &Side<'_>,
    now: FileTime,
) -> Result<(), Errno> {
    let position = source.position();
    match target {
        Some(target) => {
            if !target.vnode().names().lock().is_empty() {
                return Err(Errno::ENOTEMPTY);
            }
            from.vnode().drop_name(source, now);
            to.vnode().replace_name(target.position(), target, source, now);
        }
        None => {
            to.vnode().keep_name(source, now)?;
            from.vnode().drop_name_at(position, source, now);
        }
    }
    source.vnode().note_move(now);
    Ok(())
}

/// Starts writing the dirty pages of a file that is about to get the name of another, if the file system orders
/// such data before the name: a crash then leaves one of both files whole. Does not wait for the writes.
fn write_before_replacing(source: &Vnode) {
    if source.instance().info().writes_replacements
        && let Some(pages) = source.pages()
    {
        pages.start_writes(WHOLE);
    }
}

fn exchange(
    source: &Arc<Dentry>,
    from: &Side<'_>,
    target: &Arc<Dentry>,
    to: &Side<'_>,
) -> Result<(), Errno> {
    let now = time::now();
    let instance = from.vnode().instance();
    if instance.is_kept() {
        let (upper, lower) = (source.position(), target.position());
        from.vnode().replace_name(upper, source, target, now);
        to.vnode().replace_name(lower, target, source, now);
        source.vnode().note_move(now);
        target.vnode().note_move(now);
    } else {
        let old = (from.vnode().inode(), &**from.name);
        let new = (to.vnode().inode(), &**to.name);
        instance.file_system()?.exchange(old, new, now)?;
        outdate(&[from.vnode(), to.vnode(), source.vnode(), target.vnode()]);
    }
    source.relink(&to.directory.dentry, to.name.clone());
    target.relink(&from.directory.dentry, from.name.clone());
    to.note(Some(source));
    from.note(Some(target));
    tell(from, to, source, None);
    tell(to, from, target, None);
    Ok(())
}

fn tell(from: &Side<'_>, to: &Side<'_>, what: &Dentry, replaced: Option<&Arc<Dentry>>) {
    let (old, new) = ((&**from.vnode(), &**from.name), (&**to.vnode(), &**to.name));
    let gone = replaced.map(|dentry| &**dentry.vnode());
    notify::about_move(old, new, what.vnode(), gone);
    if let Some(replaced) = replaced {
        replaced.tell_end(EndOf::SeenUse);
    }
}

fn outdate(vnodes: &[&Arc<Vnode>]) {
    for vnode in vnodes {
        vnode.outdate();
    }
}
