//! Attributes of a vnode: reading and changing them, and passing pending changes to the file system.
use super::{FLAG_NO_ACCESS_TIME, Vnode, VnodeState, pack_owner};
use crate::base::{
    errno::Errno,
    mount_flags::MountFlags,
    rights::{HAS_ACLS, HAS_CAPABILITIES},
    security::flows,
    time::{NS_A_SECOND, now},
};
use core::sync::atomic::Ordering;
use interfaces::file_system::{AttributeChange, Attributes, FileTime, FsError};
use rt::sync::MutexGuard;

const RELATIME_NS: u64 = 24 * 60 * 60 * NS_A_SECOND;

impl Vnode {
    /// Returns the attributes for `stat`.
    pub fn attributes(&self) -> Attributes {
        if let Some(node) = self.attribute_source() {
            return node.attributes();
        }
        let mut state = self.up_to_date();
        let Some(pages) = &self.pages else { return state.known };
        match pages.blocks() {
            Some(blocks) => state.known.blocks = blocks,
            None if pages.are_blocks_to_be_asked() => self.ask_blocks(&mut state.known),
            None => {}
        }
        Attributes { size: pages.size(), ..state.known }
    }

    /// Changes attributes in the file system at once, together with pending changes.
    ///
    /// # Errors
    /// Errors of the file system; `EPERM` for a generated file that does not support it.
    pub(crate) fn change(&self, change: &AttributeChange) -> Result<(), Errno> {
        if self.keeps_attributes {
            let mut state = self.state.lock();
            overlay(&mut state.known, change);
            self.mirror(&state.known);
            return Ok(());
        }
        if let Some(node) = &self.node {
            let mut wanted = node.attributes();
            overlay(&mut wanted, change);
            let is_touch =
                AttributeChange { accessed: None, modified: None, changed: None, ..*change }
                    == AttributeChange::default();
            return match node.set_attributes(&wanted) {
                // The times of a generated file are made anew at each read, so setting them has no effect and
                // succeeds; directories of processes are immutable.
                Err(Errno::EPERM) if is_touch && node.subject().is_none() => Ok(()),
                outcome => outcome,
            };
        }
        let fs = self.instance.file_system()?;
        if self.instance.is_kept() {
            return self.change_kept(change);
        }
        let mut state = self.state.lock();
        let mut whole = state.pending;
        merge(&mut whole, change);
        let mut known = fs.set_attributes(self.inode, &whole)?;
        self.hide_links(&mut known);
        self.know(&mut state, known);
        state.pending = AttributeChange::default();
        self.mirror(&state.known);
        Ok(())
    }
    /// Asks the file system for the units of 512 bytes that it uses, including reserved ones.
    fn ask_blocks(&self, known: &mut Attributes) {
        if self.instance.is_read_only() {
            return;
        }
        let asked = self.instance.file_system().map(|fs| fs.blocks(self.inode));
        if let Ok(Ok(blocks)) = asked {
            known.blocks = blocks;
        } else if let Some(pages) = &self.pages {
            pages.note_blocks();
        }
    }
    /// Takes over the attributes that the file system returned; the number of its blocks may have changed.
    fn know(&self, state: &mut VnodeState, known: Attributes) {
        state.known = known;
        if let Some(pages) = &self.pages {
            pages.note_blocks();
        }
    }
    /// Records that its contents changed now; the file system is told later.
    #[inline(always)]
    pub(crate) fn touch_modified(&self) {
        let now = now();
        {
            let mut state = self.state.lock();
            (state.known.modified, state.known.changed) = (now, now);
            if !self.instance.is_kept() {
                (state.pending.modified, state.pending.changed) = (Some(now), Some(now));
            }
        }
        self.access_due_ns.store(0, Ordering::Relaxed);
        self.enlist();
    }
    /// Records a read, which changes the access time according to the mount flags and relatime.
    pub(crate) fn touch_accessed(&self, mount: MountFlags) {
        let is_off = mount.contains(MountFlags::NO_ACCESS_TIME)
            || mount.contains(MountFlags::READ_ONLY)
            || (self.is_directory() && mount.contains(MountFlags::NO_DIRECTORY_ACCESS_TIME));
        if is_off || self.node.is_some() || self.instance.is_read_only() {
            return;
        }
        let wall_ns = rt::time::wall_ns();
        let is_due = wall_ns >= self.access_due_ns.load(Ordering::Relaxed);
        if !is_due || self.flags() & FLAG_NO_ACCESS_TIME != 0 {
            return;
        }
        let now = now();
        if mount.contains(MountFlags::STRICT_ACCESS_TIME) || self.is_access_time_stale(now) {
            flows::tells(|| self.known_label());
            self.note(&AttributeChange { accessed: Some(now), ..Default::default() });
        }
        if !mount.contains(MountFlags::STRICT_ACCESS_TIME) {
            self.access_due_ns.store(wall_ns.saturating_add(RELATIME_NS), Ordering::Relaxed);
        }
    }
    fn is_access_time_stale(&self, now: FileTime) -> bool {
        let state = self.up_to_date();
        let known = &state.known;
        let age_seconds = now.seconds.saturating_sub(known.accessed.seconds);
        known.accessed <= known.modified
            || known.accessed <= known.changed
            || age_seconds >= (RELATIME_NS / NS_A_SECOND) as i64
    }
    fn note(&self, change: &AttributeChange) {
        {
            let mut state = self.state.lock();
            overlay(&mut state.known, change);
            if !self.instance.is_kept() {
                merge(&mut state.pending, change);
            }
        }
        if change.modified.is_some() || change.changed.is_some() {
            self.access_due_ns.store(0, Ordering::Relaxed);
        }
        self.enlist();
    }
    /// Asks the file system for the attributes after it changed them by itself (links, times); returns the number
    /// of its links.
    pub(crate) fn refresh(&self) -> u32 {
        let mut state = self.state.lock();
        self.refresh_locked(&mut state);
        state.known.links
    }
    /// Records that the file system changed data besides its attributes, at `now`.
    pub(crate) fn note_changed(&self, now: FileTime) {
        if self.instance.is_kept() {
            self.note(&AttributeChange { changed: Some(now), ..Default::default() });
        } else {
            self.refresh();
        }
    }
    /// Marks the attributes as outdated: they are read as by [`Vnode::refresh`], but only when they are needed. The
    /// mirrored values (owner, permissions) and the links do not change.
    pub(crate) fn outdate(&self) {
        self.is_outdated.store(true, Ordering::Release);
        self.access_due_ns.store(0, Ordering::Relaxed);
    }
    /// Returns the locked attributes, after an update if they are outdated.
    fn up_to_date(&self) -> MutexGuard<'_, VnodeState> {
        let mut state = self.state.lock();
        // The mark is cleared before the file system is asked, under the lock: a thread that finds it cleared finds
        // the new attributes.
        if self.is_outdated.load(Ordering::Acquire)
            && self.is_outdated.swap(false, Ordering::AcqRel)
        {
            self.refresh_locked(&mut state);
        }
        state
    }
    /// Returns the number of its names, as of the last change here.
    pub(crate) fn links(&self) -> u32 {
        self.state.lock().known.links
    }
    /// Puts 1 ("unknown") in the place of the number of links of a multilevel directory on storage, which counts hidden directories.
    fn hide_links(&self, known: &mut Attributes) {
        if self.is_multilevel() && self.is_directory() && known.links > 0 {
            known.links = 1;
        }
    }
    /// Does so after the label was found or changed.
    pub(super) fn note_multilevel(&self) {
        if !self.instance.is_kept() {
            self.hide_links(&mut self.state.lock().known);
        }
    }
    fn refresh_locked(&self, state: &mut VnodeState) {
        if let Ok(fs) = self.instance.file_system()
            && let Ok(fresh) = fs.attributes(self.inode)
        {
            self.learn(state, fresh);
        }
    }
    /// Takes over the attributes of the file system after it changed some by itself; pending changes are kept.
    pub(super) fn learn(&self, state: &mut VnodeState, mut fresh: Attributes) {
        let pending = state.pending;
        overlay(&mut fresh, &AttributeChange { changed: None, modified: None, ..pending });
        fresh.changed = pending.changed.map_or(fresh.changed, |at| at.max(fresh.changed));
        fresh.modified = pending.modified.map_or(fresh.modified, |at| at.max(fresh.modified));
        self.hide_links(&mut fresh);
        self.know(state, fresh);
        self.mirror(&state.known);
    }
    pub(super) fn mirror(&self, known: &Attributes) {
        self.owner.store(pack_owner(known), Ordering::Release);
        let hints = self.rights.load(Ordering::Relaxed) & (HAS_ACLS | HAS_CAPABILITIES);
        self.rights.store(known.permissions | hints, Ordering::Release);
        self.flags.store(known.flags, Ordering::Release);
        self.access_due_ns.store(0, Ordering::Relaxed);
    }
    /// Tells the file system the pending changes.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(crate) fn flush(&self) -> Result<(), Errno> {
        let Ok(fs) = self.instance.file_system() else { return Ok(()) };
        let mut state = self.state.lock();
        if self.instance.is_read_only() || state.pending == AttributeChange::default() {
            return Ok(());
        }
        let pending = core::mem::take(&mut state.pending);
        match fs.set_attributes(self.inode, &pending) {
            Ok(mut known) => {
                self.hide_links(&mut known);
                self.know(&mut state, known);
            }
            Err(error) => {
                if error == FsError::NoMemory {
                    // The file system has changed nothing: the changes stay pending.
                    state.pending = pending;
                }
                return Err(error.into());
            }
        }
        Ok(())
    }
}

/// Applies `change` to `known`.
pub(super) fn overlay(known: &mut Attributes, change: &AttributeChange) {
    known.permissions = change.permissions.unwrap_or(known.permissions);
    known.user = change.user.unwrap_or(known.user);
    known.group = change.group.unwrap_or(known.group);
    known.size = change.size.unwrap_or(known.size);
    known.accessed = change.accessed.unwrap_or(known.accessed);
    known.modified = change.modified.unwrap_or(known.modified);
    known.changed = change.changed.unwrap_or(known.changed);
    known.flags = change.flags.unwrap_or(known.flags);
}

/// Merges `newer` into `whole`.
fn merge(whole: &mut AttributeChange, newer: &AttributeChange) {
    whole.permissions = newer.permissions.or(whole.permissions);
    whole.user = newer.user.or(whole.user);
    whole.group = newer.group.or(whole.group);
    whole.size = newer.size.or(whole.size);
    whole.accessed = newer.accessed.or(whole.accessed);
    whole.modified = newer.modified.or(whole.modified);
    whole.changed = newer.changed.or(whole.changed);
    whole.flags = newer.flags.or(whole.flags);
}
