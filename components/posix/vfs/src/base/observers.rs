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
