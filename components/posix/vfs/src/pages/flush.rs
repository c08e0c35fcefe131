//! Writing dirty pages in the background: one thread for each file system on storage (B7).
//!
//! A [`Flusher`] lists the files ([`WriteBack`], a vnode) that have something storage has not, oldest first. Its thread
//! looks every five seconds and writes what is older than thirty; it writes the oldest at once
//! while there are more dirty pages than [`tally::limits`] allow in the background, and everything
//! when memory is short. Writers are slowed by the [`Throttle`] that it shares with the page caches.
//!
//! A vnode with a name is held by the list, so that its pages live until they are written; the list holds one without
//! a name weakly, and its pages end with its last user. Locks: `flush.list` is a leaf; vnodes taken from the list are
//! dropped without it. `flush.round` comes before it, and before all locks that writing takes: it is held from the
//! moment vnodes leave the list until they are written. Source: Linux's vm.dirty_* sysctls.
use crate::pages::{
    tally,
    throttle::{Throttle, is_over},
};
use alloc::{
    collections::BTreeMap,
    format,
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use interfaces::file_system::InodeNumber;
use rt::{
    lock_class,
    sync::Mutex,
    thread::{self, Policy},
    time::Instant,
};

lock_class! {
    static LIST = "vfs.flush.list";
    static ROUND = "vfs.flush.round";
}

const SECOND_NS: u64 = 1_000_000_000;
/// Time between two looks of the thread (`vm.dirty_writeback_centisecs`).
const INTERVAL_NS: u64 = 5 * SECOND_NS;
/// Age from which dirty pages are written (`vm.dirty_expire_centisecs`).
const AGE_NS: u64 = 30 * SECOND_NS;
/// Number of vnodes whose writes are under way at once.
const ROUND_VNODES: usize = 64;

/// A file that can be dirty, as the flusher of its file system sees it.
pub(crate) trait WriteBack: Send + Sync + 'static {
    /// Its number.
    fn inode(&self) -> InodeNumber;
    /// When it came on the list of what is to be written; 0 while it is not there. Changed under the list's lock.
    fn listed_ns(&self) -> &AtomicU64;
    /// Starts writing what is dirty.
    fn start_write_back(&self);
    /// Waits for what was started; says whether all was written. A file that is dirty (again) is listed.
    fn end_write_back(&self) -> bool;
}

/// A listed file.
enum ListedFile<V> {
    /// The vnode has a name: it lives until it is written.
    Named(Arc<V>),
    /// The vnode has no name: it lives as long as it is used.
    Unnamed(Weak<V>),
}

/// The time at which the vnode became dirty, and its inode number.
type DirtyKey = (u64, InodeNumber);

/// The vnodes of a file system that are to be written.
pub(crate) struct Flusher<V> {
    device: (u32, u32),
    throttle: Arc<Throttle>,
    list: Mutex<BTreeMap<DirtyKey, ListedFile<V>>>,
    /// Held while vnodes are off the list and not written yet.
    round: Mutex<()>,
    has_thread: AtomicBool,
    is_ended: AtomicBool,
}

impl<V: WriteBack> Flusher<V> {
    /// The flusher of the file system with the number `device`; it ends by [`Flusher::end`].
    pub(crate) fn new(device: (u32, u32), throttle: Arc<Throttle>) -> Arc<Flusher<V>> {
        Arc::new(Flusher {
            device,
            throttle,
            list: Mutex::new(&LIST, BTreeMap::new()),
            round: Mutex::new(&ROUND, ()),
            has_thread: AtomicBool::new(false),
            is_ended: AtomicBool::new(false),
        })
    }
    /// Lists a vnode with changes to be written; starts the thread if there is none.
    pub(crate) fn enlist(self: &Arc<Self>, vnode: &Arc<V>, links: u32) {
        let now = rt::time::now().0.max(1);
        {
            let mut list = self.list.lock();
            if vnode.listed_ns().load(Ordering::Relaxed) != 0 {
                return;
            }
            vnode.listed_ns().store(now, Ordering::Relaxed);
            let held = match links {
                0 => ListedFile::Unnamed(Arc::downgrade(vnode)),
                _ => ListedFile::Named(vnode.clone()),
            };
            list.insert((now, vnode.inode()), held);
        }
        if !self.has_thread.swap(true, Ordering::AcqRel) {
            self.start();
        }
    }
    /// Called when the vnode has lost its last name: from now on only its users keep it.
    pub(crate) fn loosen(&self, vnode: &Arc<V>) {
        let mut list = self.list.lock();
        let key = (vnode.listed_ns().load(Ordering::Relaxed), vnode.inode());
        let held = list
            .get_mut(&key)
            .map(|held| core::mem::replace(held, ListedFile::Unnamed(Arc::downgrade(vnode))));
        drop(list);
        drop(held);
    }
    /// Called when the vnode ends: removes it from the list.
    pub(crate) fn delist(&self, vnode: &V) {
        if vnode.listed_ns().load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut list = self.list.lock();
        let key = (vnode.listed_ns().swap(0, Ordering::Relaxed), vnode.inode());
        let held = list.remove(&key);
        drop(list);
        drop(held);
    }
    /// Removes up to `most` vnodes from the list that were dirty before `before_ns`, oldest first.
    fn take(&self, most: usize, before_ns: u64) -> Vec<Arc<V>> {
        let mut taken = Vec::new();
        let mut list = self.list.lock();
        while taken.len() < most
            && let Some(entry) = list.first_entry().filter(|entry| entry.key().0 <= before_ns)
        {
            let vnode = match entry.remove() {
                ListedFile::Named(vnode) => Some(vnode),
                ListedFile::Unnamed(vnode) => vnode.upgrade(),
            };
            if let Some(vnode) = vnode {
                vnode.listed_ns().store(0, Ordering::Relaxed);
                taken.push(vnode);
            }
        }
        if list.is_empty() {
            // A new map is made because an emptied one keeps a node allocated.
            *list = BTreeMap::new();
        }
        taken
    }
    /// Calls `write` with every vnode that was listed when this was called, a bounded number at a time. Vnodes that
    /// the flusher's thread removed from the list before are written when this returns.
    pub(crate) fn take_all(&self, mut write: impl FnMut(&[Arc<V>])) {
        let now = rt::time::now().0;
        let _round = self.round.lock();
        loop {
            let batch = self.take(ROUND_VNODES, now);
            if batch.is_empty() {
                return;
            }
            write(&batch);
        }
    }
    /// Returns the listed vnodes in the order in which they became dirty, a bounded number at a time. Vnodes listed
    /// before the first step are included, unless they are removed from the list.
    pub(crate) fn batches(&self) -> impl Iterator<Item = Vec<Arc<V>>> {
        let mut next = Some((0, InodeNumber::MIN));
        core::iter::from_fn(move || {
            let mut batch = Vec::with_capacity(ROUND_VNODES);
            let list = self.list.lock();
            let mut rest = list.range(next?..);
            let listed = rest.by_ref().take(ROUND_VNODES);
            batch.extend(listed.filter_map(|(_, held)| match held {
                ListedFile::Named(vnode) => Some(vnode.clone()),
                ListedFile::Unnamed(vnode) => vnode.upgrade(),
            }));
            next = rest.next().map(|(key, _)| *key);
            Some(batch)
        })
    }
    fn is_empty(&self) -> bool {
        self.list.lock().is_empty()
    }
    /// Ends the thread: nothing will be written any more.
    pub(crate) fn end(&self) {
        self.is_ended.store(true, Ordering::Release);
        self.throttle.wake().signal();
        let list = core::mem::take(&mut *self.list.lock());
        drop(list);
    }
    fn start(self: &Arc<Self>) {
        let (major, minor) = self.device;
        let flusher = self.clone();
        let name = format!("flush-{major}:{minor}");
        let run = move || flusher.run();
        if thread::spawn(&name, Policy::default(), run).is_err() {
            self.has_thread.store(false, Ordering::Release);
        }
    }
    fn run(&self) {
        rt::memory::use_reserve();
        loop {
            let ticket = self.throttle.wake().ticket();
            if self.is_ended.load(Ordering::Acquire) {
                return;
            }
            while self.round() {}
            let later = Instant(rt::time::now().0.saturating_add(INTERVAL_NS));
            let deadline = (!self.is_empty()).then_some(later);
            self.throttle.wake().wait(ticket, deadline);
        }
    }
    /// Writes the vnodes that are due now. Returns whether there may be more.
    fn round(&self) -> bool {
        let now = rt::time::now().0;
        let is_urgent = self.throttle.is_urgent().swap(false, Ordering::AcqRel);
        let is_much = self.throttle.tally().dirty() > 0 && is_over(tally::limits().background);
        let before_ns = match is_urgent || is_much {
            true => now,
            false => now.saturating_sub(AGE_NS),
        };
        let _round = self.round.lock();
        let taken = self.take(ROUND_VNODES, before_ns);
        if taken.is_empty() {
            return false;
        }
        let mut sorted: Vec<&Arc<V>> = taken.iter().collect();
        sorted.sort_by_key(|vnode| vnode.inode());
        sorted.iter().for_each(|vnode| vnode.start_write_back());
        let mut has_progress = false;
        for vnode in sorted {
            has_progress |= vnode.end_write_back();
        }
        if is_urgent {
            self.throttle.is_urgent().store(!self.is_empty() && has_progress, Ordering::Release);
        }
        has_progress
    }
}
