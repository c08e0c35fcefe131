//! Writing dirty pages behind the writers' backs: one thread a file system on storage (B7).
//!
//! A [`Flusher`] lists the vnodes that have something storage has not, oldest first. Its thread
//! looks every five seconds and writes what is older than thirty; it writes the oldest at once
//! while there are more dirty pages than [`tally::limits`] allow in the background, and everything
//! when memory is short. Writers are slowed by [`Flusher::balance`]: they wait for writes to end
//! while the hard limit is passed, unless nothing ends any more (a device that hangs).
//!
//! A vnode with a name is held by the list, so that its pages live until they are written; one
//! without is only noted, and its pages go with its last user. Locks: `flush.list` is a leaf;
//! vnodes taken from the list are dropped without it. `flush.round` comes before it, and before all locks that writing
//! takes: it is held from where vnodes leave the list until they are written. Source: Linux's vm.dirty_* sysctls.
use crate::{
    errors::ErrorSequence,
    host::Host,
    instance::Instance,
    tally::{self, Tally},
    vnode::Vnode,
};
use alloc::{
    collections::BTreeMap,
    format,
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::{AtomicBool, Ordering};
use interfaces::file_system::InodeNumber;
use rt::{
    lock_class,
    sync::{Event, Mutex},
    thread::{self, Policy, Woken},
    time::Instant,
};

lock_class! {
    static LIST = "vfs.flush.list";
    static ROUND = "vfs.flush.round";
}

const SECOND_NS: u64 = 1_000_000_000;
/// `vm.dirty_writeback_centisecs`.
const INTERVAL_NS: u64 = 5 * SECOND_NS;
/// `vm.dirty_expire_centisecs`.
const AGE_NS: u64 = 30 * SECOND_NS;
/// Time that a writer waits for one write to end before it looks again.
const PAUSE_NS: u64 = SECOND_NS / 5;
/// Pauses without any write ending after which a writer goes on: the device hangs.
const FRUITLESS_PAUSES: u32 = 5;
/// Vnodes whose writes are under way at once.
const ROUND_VNODES: usize = 64;

/// A write has ended, on whatever file system.
static PROGRESS: Event = Event::new();

/// A listed vnode.
enum Held {
    /// Has a name: lives until it is written.
    Named(Arc<Vnode>),
    /// Has none: lives as long as it is used.
    Unnamed(Weak<Vnode>),
}

/// When it became dirty, and which inode.
type Key = (u64, InodeNumber);

/// The part of a file system that is to be written.
pub(crate) struct Flusher {
    host: &'static dyn Host,
    tally: Arc<Tally>,
    errors: ErrorSequence,
    list: Mutex<BTreeMap<Key, Held>>,
    /// Held while vnodes are off the list and not written yet.
    round: Mutex<()>,
    wake: Event,
    has_thread: AtomicBool,
    is_urgent: AtomicBool,
    is_ended: AtomicBool,
}

impl Flusher {
    pub(crate) fn new(tally: Arc<Tally>, host: &'static dyn Host) -> Arc<Flusher> {
        Arc::new(Flusher {
            host,
            tally,
            errors: ErrorSequence::new(),
            list: Mutex::new(&LIST, BTreeMap::new()),
            round: Mutex::new(&ROUND, ()),
            wake: Event::new(),
            has_thread: AtomicBool::new(false),
            is_urgent: AtomicBool::new(false),
            is_ended: AtomicBool::new(false),
        })
    }
    /// The keeper of the tasks that use it.
    #[inline]
    pub(crate) fn host(&self) -> &'static dyn Host {
        self.host
    }
    /// Counts of its pages.
    pub(crate) fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }
    /// Errors of all its files, for syncfs.
    pub(crate) fn errors(&self) -> &ErrorSequence {
        &self.errors
    }
    /// Tells writers that wait that writes have ended.
    pub(crate) fn note_progress(&self) {
        PROGRESS.signal();
    }
    /// Lists a vnode that has something to be written; starts the thread where there is none.
    pub(crate) fn enlist(&self, vnode: &Arc<Vnode>, links: u32) {
        let now = rt::time::now().0.max(1);
        {
            let mut list = self.list.lock();
            if vnode.listed_ns().load(Ordering::Relaxed) != 0 {
                return;
            }
            vnode.listed_ns().store(now, Ordering::Relaxed);
            let held = match links {
                0 => Held::Unnamed(Arc::downgrade(vnode)),
                _ => Held::Named(vnode.clone()),
            };
            list.insert((now, vnode.inode()), held);
        }
        if !self.has_thread.swap(true, Ordering::AcqRel) {
            self.start(vnode.instance());
        }
    }
    /// The vnode has lost its last name: only its users keep it from now on.
    pub(crate) fn loosen(&self, vnode: &Arc<Vnode>) {
        let mut list = self.list.lock();
        let key = (vnode.listed_ns().load(Ordering::Relaxed), vnode.inode());
        let held = list
            .get_mut(&key)
            .map(|held| core::mem::replace(held, Held::Unnamed(Arc::downgrade(vnode))));
        drop(list);
        drop(held);
    }
    /// The vnode ends: the list need not keep it.
    pub(crate) fn delist(&self, vnode: &Vnode) {
        if vnode.listed_ns().load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut list = self.list.lock();
        let key = (vnode.listed_ns().swap(0, Ordering::Relaxed), vnode.inode());
        let held = list.remove(&key);
        drop(list);
        drop(held);
    }
    /// Takes up to `most` vnodes off the list that were dirty before `before_ns`, oldest first.
    fn take(&self, most: usize, before_ns: u64) -> Vec<Arc<Vnode>> {
        let mut taken = Vec::new();
        let mut list = self.list.lock();
        while taken.len() < most
            && let Some(entry) = list.first_entry().filter(|entry| entry.key().0 <= before_ns)
        {
            let vnode = match entry.remove() {
                Held::Named(vnode) => Some(vnode),
                Held::Unnamed(vnode) => vnode.upgrade(),
            };
            if let Some(vnode) = vnode {
                vnode.listed_ns().store(0, Ordering::Relaxed);
                taken.push(vnode);
            }
        }
        if list.is_empty() {
            // An emptied map keeps a node.
            *list = BTreeMap::new();
        }
        taken
    }
    /// Has `write` write every vnode that was listed when this was called, a bounded number at a time. Vnodes that the
    /// flusher's thread took off the list before are written when this returns.
    ///
    /// Locks: `vfs.flush.round`, during all of it.
    pub(crate) fn take_all(&self, mut write: impl FnMut(&[Arc<Vnode>])) {
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
    /// The listed vnodes, those first that became dirty first, a bounded number at a time. Those listed
    /// before the first step are not missed, unless they are taken off.
    pub(crate) fn batches(&self) -> impl Iterator<Item = Vec<Arc<Vnode>>> {
        let mut next = Some((0, InodeNumber::MIN));
        core::iter::from_fn(move || {
            let mut batch = Vec::with_capacity(ROUND_VNODES);
            let list = self.list.lock();
            let mut rest = list.range(next?..);
            let listed = rest.by_ref().take(ROUND_VNODES);
            batch.extend(listed.filter_map(|(_, held)| match held {
                Held::Named(vnode) => Some(vnode.clone()),
                Held::Unnamed(vnode) => vnode.upgrade(),
            }));
            next = rest.next().map(|(key, _)| *key);
            Some(batch)
        })
    }
    fn is_empty(&self) -> bool {
        self.list.lock().is_empty()
    }
    /// Nothing will be written any more; the thread ends.
    pub(crate) fn end(&self) {
        self.is_ended.store(true, Ordering::Release);
        self.wake.signal();
        let list = core::mem::take(&mut *self.list.lock());
        drop(list);
    }
    /// Has the thread write everything now (memory is short).
    pub(crate) fn hurry(&self) {
        if self.tally.dirty() > 0 {
            self.is_urgent.store(true, Ordering::Release);
            self.wake.signal();
        }
    }
    fn start(&self, instance: &Arc<Instance>) {
        let weak = Arc::downgrade(instance);
        let (major, minor) = instance.device();
        let flusher = instance.flusher().clone();
        let name = format!("flush-{major}:{minor}");
        let run = move || flusher.run(&weak);
        if thread::spawn(&name, Policy::default(), run).is_err() {
            self.has_thread.store(false, Ordering::Release);
        }
    }
    fn run(&self, instance: &Weak<Instance>) {
        rt::memory::use_reserve();
        loop {
            let ticket = self.wake.ticket();
            if self.is_ended.load(Ordering::Acquire) || instance.strong_count() == 0 {
                return;
            }
            while self.round() {}
            let later = Instant(rt::time::now().0.saturating_add(INTERVAL_NS));
            let deadline = (!self.is_empty()).then_some(later);
            self.wake.wait(ticket, deadline, false);
        }
    }
    /// Writes what is due now; says whether there may be more.
    fn round(&self) -> bool {
        let now = rt::time::now().0;
        let is_urgent = self.is_urgent.swap(false, Ordering::AcqRel);
        let is_much = self.tally.dirty() > 0 && is_over(tally::limits().background);
        let before_ns = match is_urgent || is_much {
            true => now,
            false => now.saturating_sub(AGE_NS),
        };
        let _round = self.round.lock();
        let taken = self.take(ROUND_VNODES, before_ns);
        if taken.is_empty() {
            return false;
        }
        let mut sorted: Vec<&Arc<Vnode>> = taken.iter().collect();
        sorted.sort_by_key(|vnode| vnode.inode());
        sorted.iter().for_each(|vnode| vnode.start_write_back());
        let mut has_progress = false;
        for vnode in sorted {
            has_progress |= vnode.end_write_back();
        }
        if is_urgent {
            self.is_urgent.store(!self.is_empty() && has_progress, Ordering::Release);
        }
        has_progress
    }
    /// Called by who made pages dirty, with no lock of the page cache held: has them written where
    /// there are many, and waits where there are too many.
    pub(crate) fn balance(&self) {
        let limits = tally::limits();
        if !is_over(limits.background) {
            return;
        }
        self.wake.signal();
        if !is_over(limits.hard) {
            return;
        }
        let mut fruitless = 0;
        while fruitless < FRUITLESS_PAUSES {
            let ticket = PROGRESS.ticket();
            if !is_over(tally::limits().hard) {
                return;
            }
            crate::instance::instances().iter().for_each(|other| other.flusher().wake.signal());
            fruitless = match pause(ticket) {
                Woken::TimedOut => fruitless + 1,
                _ => 0,
            };
        }
    }
}

/// Has every file system write its dirty pages, and waits a little for some to be written.
/// Says whether there was anything to wait for.
pub(crate) fn write_for_room() -> bool {
    let ticket = PROGRESS.ticket();
    let pages = tally::dirty_pages();
    if pages.dirty + pages.writing == 0 {
        return false;
    }
    hurry_all();
    pause(ticket) != Woken::TimedOut
}

/// Has every file system write its dirty pages now.
pub(crate) fn hurry_all() {
    if tally::dirty_pages().dirty > 0 {
        crate::instance::instances().iter().for_each(|instance| instance.flusher().hurry());
    }
}

fn pause(ticket: rt::sync::Ticket) -> Woken {
    let until = Instant(rt::time::now().0.saturating_add(PAUSE_NS));
    PROGRESS.wait(ticket, Some(until), false)
}

fn is_over(limit: u64) -> bool {
    let pages = tally::dirty_pages();
    pages.dirty + pages.writing > limit
}
