//! Telling observers what happens to files: the hooks under inotify(7).
//!
//! An [`Observer`] hangs weakly at a vnode. While nobody observes anything a hook costs one load
//! ([`is_active`]). An event about a file is told to the observers of the directory it was found
//! in, with its name, and then to its own; one about a name only to those of the directory.
//! Observers are told under the locks of the operation (a directory's at most), so that they see
//! changes of names in their order; they must not block and not call back into the file system.
//! Source: inotify(7), Linux `include/linux/fsnotify.h`.
use crate::{dentry::Dentry, instance::Instance, vnode::Vnode};
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use bitflags::bitflags;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use rt::{lock_class, sync::Mutex};

lock_class! {
    static OBSERVERS = "vfs.observers";
}

bitflags! {
    /// The events (the values of inotify).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Events: u32 {
        /// It was read.
        const ACCESS = 0x1;
        /// It was written or truncated.
        const MODIFY = 0x2;
        /// Its attributes, or the number of its names, changed.
        const ATTRIBUTES = 0x4;
        /// A description open for writing was closed.
        const CLOSE_WRITE = 0x8;
        /// Another was.
        const CLOSE_READ = 0x10;
        /// It was opened.
        const OPEN = 0x20;
        /// A name left the directory.
        const MOVED_FROM = 0x40;
        /// A name came into the directory.
        const MOVED_TO = 0x80;
        /// A name was made in the directory.
        const CREATE = 0x100;
        /// A name was taken from the directory.
        const DELETE = 0x200;
        /// It is no more.
        const DELETE_SELF = 0x400;
        /// It was moved.
        const MOVE_SELF = 0x800;
        /// Its file system was unmounted.
        const UNMOUNT = 0x2000;
        /// The subject of the event is a directory.
        const DIRECTORY = 0x4000_0000;
    }
}

/// Something that happened.
#[derive(Clone, Copy, Debug)]
pub struct Happening<'a> {
    /// The event.
    pub events: Events,
    /// To which name of the directory observed; `None`: to what is observed itself.
    pub name: Option<&'a [u8]>,
    /// Joins the two halves of a rename; else 0.
    pub cookie: u32,
    /// It happened through a description whose name has been taken away already.
    pub is_unlinked: bool,
}

/// Somebody told of what happens to a vnode.
pub trait Observer: Send + Sync {
    /// It happened.
    fn happened(&self, happening: &Happening<'_>);
}

/// Observers in the whole system.
static ACTIVE: AtomicUsize = AtomicUsize::new(0);
static COOKIE: AtomicU32 = AtomicU32::new(0);

/// Anybody observes anything.
#[inline]
pub(crate) fn is_active() -> bool {
    ACTIVE.load(Ordering::Relaxed) > 0
}

/// The observers of one vnode.
pub(crate) struct Observers {
    count: AtomicUsize,
    list: Mutex<Vec<Weak<dyn Observer>>>,
}

impl Observers {
    pub(crate) const fn new() -> Observers {
        Observers { count: AtomicUsize::new(0), list: Mutex::new(&OBSERVERS, Vec::new()) }
    }
    fn tell(&self, happening: &Happening<'_>) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let told: Vec<Arc<dyn Observer>> =
            self.list.lock().iter().filter_map(Weak::upgrade).collect();
        for observer in told {
            observer.happened(happening);
        }
    }
    fn change(&self, change: impl FnOnce(&mut Vec<Weak<dyn Observer>>)) {
        let mut list = self.list.lock();
        change(&mut list);
        let before = self.count.swap(list.len(), Ordering::Release);
        ACTIVE.fetch_add(list.len(), Ordering::Relaxed);
        ACTIVE.fetch_sub(before, Ordering::Relaxed);
    }
}

impl Drop for Observers {
    fn drop(&mut self) {
        ACTIVE.fetch_sub(self.count.load(Ordering::Acquire), Ordering::Relaxed);
    }
}

impl Vnode {
    /// Tells `observer` from now on, until it is dropped and [`Vnode::sweep_observers`] called.
    pub fn observe(&self, observer: Weak<dyn Observer>) {
        self.observers().change(|list| list.push(observer));
    }
    /// Forgets the observers that were dropped.
    pub fn sweep_observers(&self) {
        self.observers().change(|list| list.retain(|known| known.strong_count() > 0));
    }
}

fn kind(vnode: &Vnode) -> Events {
    if vnode.is_directory() { Events::DIRECTORY } else { Events::empty() }
}

/// `events` happened to `vnode`, whatever its name.
pub(crate) fn about_vnode(vnode: &Vnode, events: Events) {
    if is_active() {
        let events = events | kind(vnode);
        let happening = Happening { events, name: None, cookie: 0, is_unlinked: false };
        vnode.observers().tell(&happening);
    }
}

/// `events` happened to what `dentry` names.
#[inline]
pub(crate) fn about_dentry(dentry: &Dentry, events: Events) {
    if is_active() {
        tell_dentry(dentry, events, false);
    }
}

/// As [`about_dentry`], through a description: some do not want to hear of it once the name is gone (IN_EXCL_UNLINK).
#[inline]
pub(crate) fn about_open(dentry: &Dentry, events: Events) {
    if is_active() {
        tell_dentry(dentry, events, dentry.is_deleted());
    }
}

fn tell_dentry(dentry: &Dentry, events: Events, is_unlinked: bool) {
    let (parent, name) = dentry.place();
    let events = events | kind(dentry.vnode());
    let happening = Happening { events, name: None, cookie: 0, is_unlinked };
    if let Some(parent) = parent {
        parent.vnode().observers().tell(&Happening { name: Some(&name), ..happening });
    }
    dentry.vnode().observers().tell(&happening);
}

/// `events` happened to `name` of `directory`, which stands for `what`.
pub(crate) fn about_name(directory: &Vnode, name: &[u8], what: &Vnode, events: Events) {
    if is_active() {
        tell_name(directory, name, what, (events, 0));
    }
}

fn tell_name(directory: &Vnode, name: &[u8], what: &Vnode, (events, cookie): (Events, u32)) {
    let events = events | kind(what);
    let happening = Happening { events, name: Some(name), cookie, is_unlinked: false };
    directory.observers().tell(&happening);
}

/// `what` was moved from one directory and name to another, perhaps in place of `replaced`.
pub(crate) fn about_move(
    from: (&Vnode, &[u8]),
    to: (&Vnode, &[u8]),
    what: &Vnode,
    replaced: Option<&Vnode>,
) {
    if is_active() {
        let cookie = COOKIE.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
        tell_name(from.0, from.1, what, (Events::MOVED_FROM, cookie));
        tell_name(to.0, to.1, what, (Events::MOVED_TO, cookie));
        if let Some(replaced) = replaced {
            about_vnode(replaced, Events::ATTRIBUTES);
        }
        about_vnode(what, Events::MOVE_SELF);
    }
}

/// A dentry whose name was taken away ends: with the last name its file is no more.
pub(crate) fn about_end(dentry: &Dentry) {
    let vnode = dentry.vnode();
    let is_gone = || vnode.is_dead() || vnode.node().is_none() && vnode.attributes().links == 0;
    if is_active() && dentry.is_deleted() && is_gone() {
        about_vnode(vnode, Events::DELETE_SELF);
    }
}

/// `instance` is no longer mounted.
pub(crate) fn about_unmount(instance: &Instance) {
    if is_active() {
        for vnode in instance.batches().flatten() {
            about_vnode(&vnode, Events::UNMOUNT);
        }
    }
}
