//! Waiting for one of many files: [`WaitQueue`]s that files own, and the [`PollTable`] of a waiting thread.
//!
//! A table tells its [`Watcher`], held weakly by the queues: the event of a waiting thread, or an entry of an epoll. A
//! watcher that is told alone ([`PollTable::telling_alone`]) is skipped if another one with the same interest has taken
//! a change. Lock order: a queue's lock is held while its watchers are told, and an epoll's entry then wakes the epoll's
//! own queue, so queues nest (outer: the file's).
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use bitflags::bitflags;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use rt::{
    sync::{Event, LockClass, Mutex, Ticket},
    thread::Woken,
    time::Instant,
};

bitflags! {
    /// The events that a file is ready for (the values of poll(2)).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Ready: u16 {
        /// POLLIN
        const IN = 0x001;
        /// POLLPRI
        const PRIORITY = 0x002;
        /// POLLOUT
        const OUT = 0x004;
        /// POLLERR
        const ERROR = 0x008;
        /// POLLHUP
        const HANGUP = 0x010;
        /// POLLNVAL, of a descriptor that cannot be polled
        const INVALID = 0x020;
        /// POLLRDNORM
        const READ_NORMAL = 0x040;
        /// POLLWRNORM
        const WRITE_NORMAL = 0x100;
        /// POLLRDHUP
        const READ_HANGUP = 0x2000;
        /// The events of a file that does not implement readiness: always readable and writable.
        const ALWAYS = 0x001 | 0x004 | 0x040 | 0x100;
    }
}

static QUEUE: LockClass = LockClass::nestable("vfs.wait_queue");

/// The receiver of the changes of a file.
pub trait Watcher: Send + Sync {
    /// Called when a watched file changed; must not block.
    fn changed(&self);
    /// Does the same as [`Watcher::changed`] for a watcher that is told alone. Returns whether a thread waited for it.
    fn changed_alone(&self) -> bool {
        self.changed();
        true
    }
}

/// A watcher in a queue.
struct Watching {
    watcher: Weak<dyn Watcher>,
    /// The events that it waits for, if it is told alone; else empty.
    alone: Ready,
}

impl Watcher for Event {
    fn changed(&self) {
        self.signal();
    }
}

/// Threads that wait for a change of an object. Waking costs one load if there are none.
pub struct WaitQueue {
    event: Event,
    watching: AtomicUsize,
    watchers: Mutex<Vec<Watching>>,
}

impl WaitQueue {
    /// Makes an empty queue.
    pub const fn new() -> WaitQueue {
        WaitQueue {
            event: Event::new(),
            watching: AtomicUsize::new(0),
            watchers: Mutex::new(&QUEUE, Vec::new()),
        }
    }
    /// Returns a ticket. It must be taken before the condition is checked.
    pub fn ticket(&self) -> Ticket {
        self.event.ticket()
    }
    /// Waits for a wake since `ticket`, interruptibly.
    pub fn wait(&self, ticket: Ticket, deadline: Option<Instant>) -> Woken {
        self.event.wait_interruptible(ticket, deadline)
    }
    /// Wakes every waiter after a change. Of the watchers that are told alone, wakes one for each kind of interest.
    #[inline]
    pub fn wake(&self) {
        self.event.signal();
        if self.is_watched() {
            self.tell_watchers();
        }
    }
    #[inline(never)]
    fn tell_watchers(&self) {
        let mut has_alone = false;
        let mut watchers = self.watchers.lock();
        watchers.retain(|known| match known.watcher.upgrade() {
            Some(watcher) => {
                match known.alone.is_empty() {
                    true => watcher.changed(),
                    false => has_alone = true,
                }
                true
            }
            None => false,
        });
        if has_alone {
            tell_alone(&watchers);
        }
    }
    /// Returns whether a poll, select or epoll watches it.
    pub fn is_watched(&self) -> bool {
        self.watching.load(Ordering::SeqCst) > 0
    }
    fn watch(&self, watcher: Weak<dyn Watcher>, alone: Ready) {
        let mut watchers = self.watchers.lock();
        watchers.retain(|known| known.watcher.strong_count() > 0);
        watchers.push(Watching { watcher, alone });
        self.watching.store(watchers.len(), Ordering::SeqCst);
    }
}

/// Tells the watchers that are told alone, the longest watching first, until every event that any of them waits for was
/// taken by one: a wake does not say which event occurred.
#[cold]
fn tell_alone(watchers: &[Watching]) {
    let mut taken = Ready::empty();
    for known in watchers.iter().filter(|known| !known.alone.is_empty()) {
        if taken.contains(known.alone) {
            continue;
        }
        if known.watcher.upgrade().is_some_and(|watcher| watcher.changed_alone()) {
            taken |= known.alone;
        }
    }
}

impl Default for WaitQueue {
    fn default() -> Self {
        WaitQueue::new()
    }
}

/// A watcher's entries in many queues, for poll, select and epoll.
pub struct PollTable {
    watcher: Weak<dyn Watcher>,
    alone: Ready,
    /// The event of a thread that waits with [`PollTable::wait`].
    own: Option<(Arc<Event>, Ticket)>,
}

impl PollTable {
    /// Makes a table for waiting that counts wakes from now on.
    pub fn new() -> PollTable {
        let event = Arc::new(Event::new());
        let start = event.ticket();
        let watcher: Arc<dyn Watcher> = event.clone();
        let own = Some((event, start));
        PollTable { watcher: Arc::downgrade(&watcher), alone: Ready::empty(), own }
    }
    /// Makes a table for a watcher that is told instead of waiting. It is used until `watcher` ends.
    pub fn telling(watcher: Weak<dyn Watcher>) -> PollTable {
        PollTable { watcher, alone: Ready::empty(), own: None }
    }
    /// Does the same as [`PollTable::telling`] for a watcher that waits for `events` and need not be told of a change
    /// that another such watcher has taken.
    pub fn telling_alone(watcher: Weak<dyn Watcher>, events: Ready) -> PollTable {
        PollTable { watcher, alone: events, own: None }
    }
    /// Adds a queue; called by [`crate::base::file::File::poll`] before it looks.
    pub fn add(&self, queue: &WaitQueue) {
        queue.watch(self.watcher.clone(), self.alone);
    }
    /// Waits for any wake since the table was made or the last wait. A table of [`PollTable::telling`] never waits.
    pub fn wait(&mut self, deadline: Option<Instant>) -> Woken {
        let Some((event, start)) = &mut self.own else { return Woken::Signalled };
        let woken = event.wait_interruptible(*start, deadline);
        *start = event.ticket();
        woken
    }
}

impl Default for PollTable {
    fn default() -> Self {
        PollTable::new()
    }
}

/// Changes of the contents of a file, each of which poll reports once to each description (POLLPRI and POLLERR).
pub struct Changes {
    count: AtomicU64,
    queue: WaitQueue,
}

impl Changes {
    /// Makes a record without changes.
    pub const fn new() -> Changes {
        Changes { count: AtomicU64::new(0), queue: WaitQueue::new() }
    }
    /// Records another change.
    pub fn tell(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.queue.wake();
    }
    /// Returns the view of one description, which begins with no unreported change.
    pub fn since_now(self: &Arc<Changes>) -> Unseen {
        Unseen { changes: self.clone(), seen: AtomicU64::new(self.count.load(Ordering::SeqCst)) }
    }
}

impl Default for Changes {
    fn default() -> Self {
        Changes::new()
    }
}

/// The changes that one description has not reported yet.
pub struct Unseen {
    changes: Arc<Changes>,
    seen: AtomicU64,
}

impl Unseen {
    /// As [`crate::base::file::File::poll`]: readable always, and whether there was a change since the last look.
    pub fn poll(&self, table: Option<&PollTable>) -> Ready {
        if let Some(table) = table {
            table.add(&self.changes.queue);
        }
        let count = self.changes.count.load(Ordering::SeqCst);
        let is_new = self.seen.swap(count, Ordering::SeqCst) != count;
        let readable = Ready::IN | Ready::READ_NORMAL;
        if is_new { readable | Ready::PRIORITY | Ready::ERROR } else { readable }
    }
}
