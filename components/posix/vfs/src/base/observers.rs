//! Observers of what happens to files, and what they are told: the hooks under inotify(7).
//!
//! An [`Observer`] hangs weakly in the [`Observers`] of a vnode. While nobody observes anything a hook costs one load
//! ([`is_active`]). Observers are told under the locks of the operation (a directory's at most), so that they see changes of
//! names in their order; they must not block and not call back into the file system.
//! Source: inotify(7), Linux `include/linux/fsnotify.h`.
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use bitflags::bitflags;
use core::sync::atomic::{AtomicUsize, Ordering};
use rt::{lock_class, sync::Mutex};

lock_class! {
    static OBSERVERS = "vfs.observers";
}

bitflags! {
    /// The events (the values of inotify).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Events: u32 {
        /// The file was read.
        const ACCESS = 0x1;
        /// The file was written or truncated.
        const MODIFY = 0x2;
        /// Its attributes, or the number of its names, changed.
        const ATTRIBUTES = 0x4;
        /// A description open for writing was closed.
        const CLOSE_WRITE = 0x8;
        /// A description that was not open for writing was closed.
        const CLOSE_READ = 0x10;
        /// The file was opened.
        const OPEN = 0x20;
        /// A name was moved out of the directory.
        const MOVED_FROM = 0x40;
        /// A name was moved into the directory.
        const MOVED_TO = 0x80;
        /// A name was made in the directory.
        const CREATE = 0x100;
        /// A name was removed from the directory.
        const DELETE = 0x200;
        /// The file itself was deleted.
        const DELETE_SELF = 0x400;
        /// The file itself was moved.
        const MOVE_SELF = 0x800;
        /// Its file system was unmounted.
        const UNMOUNT = 0x2000;
        /// The subject of the event is a directory.
        const DIRECTORY = 0x4000_0000;
    }
}

/// An event as an observer sees it.
#[derive(Clone, Copy, Debug)]
pub struct Happening<'a> {
    /// The event.
    pub events: Events,
    /// The name in the observed directory that the event is about; `None` if it is about the observed vnode itself.
    pub name: Option<&'a [u8]>,
    /// Joins the two halves of a rename; 0 for other events.
    pub cookie: u32,
    /// The event came through a description whose name has been removed already.
    pub is_unlinked: bool,
}

/// A receiver of the events of a vnode.
pub trait Observer: Send + Sync {
    /// Called for each event.
    fn happened(&self, happening: &Happening<'_>);
}

/// Number of observers in the whole system.
static ACTIVE: AtomicUsize = AtomicUsize::new(0);

/// Returns whether there is any observer.
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
    pub(crate) fn tell(&self, happening: &Happening<'_>) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let told: Vec<Arc<dyn Observer>> =
            self.list.lock().iter().filter_map(Weak::upgrade).collect();
        for observer in told {
            observer.happened(happening);
        }
    }
    pub(crate) fn change(&self, change: impl FnOnce(&mut Vec<Weak<dyn Observer>>)) {
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
