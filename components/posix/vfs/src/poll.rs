//! Waiting for one of many: [`WaitQueue`]s that files own, and the [`PollTable`] of who waits.
//!
//! A table tells its [`Watcher`], held weakly by the queues: the event of a waiting thread, or an
//! entry of an epoll. Lock order: a queue's lock is held while its watchers are told, and an
//! epoll's entry then wakes the epoll's own queue, so queues nest (outer: the file's).
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::{AtomicUsize, Ordering};
use rt::{
    sync::{Event, LockClass, Mutex, Ticket},
    thread::Woken,
    time::Instant,
};

static QUEUE: LockClass = LockClass::nestable("vfs.wait_queue");

/// Who is told of a change.
pub trait Watcher: Send + Sync {
    /// A file that is watched changed; must not block.
    fn changed(&self);
}

impl Watcher for Event {
    fn changed(&self) {
        self.signal();
    }
}

/// Threads waiting for a change of something. Waking costs one load where nobody waits.
pub struct WaitQueue {
    event: Event,
    watching: AtomicUsize,
    watchers: Mutex<Vec<Weak<dyn Watcher>>>,
}

impl WaitQueue {
    /// An empty queue.
    pub const fn new() -> WaitQueue {
        WaitQueue {
            event: Event::new(),
            watching: AtomicUsize::new(0),
            watchers: Mutex::new(&QUEUE, Vec::new()),
        }
    }
    /// To be taken before the condition is checked.
    pub fn ticket(&self) -> Ticket {
        self.event.ticket()
    }
    /// Waits for a wake since `ticket`, interruptibly.
    pub fn wait(&self, ticket: Ticket, deadline: Option<Instant>) -> Woken {
        self.event.wait(ticket, deadline, true)
    }
    /// Something changed: wakes every waiter.
    pub fn wake(&self) {
        self.event.signal();
        if self.is_watched() {
            self.watchers.lock().retain(|watcher| match watcher.upgrade() {
                Some(watcher) => {
                    watcher.changed();
                    true
                }
                None => false,
            });
        }
    }
    /// A poll, select or epoll looks at it.
    pub fn is_watched(&self) -> bool {
        self.watching.load(Ordering::SeqCst) > 0
    }
    fn watch(&self, watcher: Weak<dyn Watcher>) {
        let mut watchers = self.watchers.lock();
        watchers.retain(|known| known.strong_count() > 0);
        watchers.push(watcher);
        self.watching.store(watchers.len(), Ordering::SeqCst);
    }
}

impl Default for WaitQueue {
    fn default() -> Self {
        WaitQueue::new()
    }
}

/// A watcher's place on many queues, for poll, select and epoll.
pub struct PollTable {
    watcher: Weak<dyn Watcher>,
    /// The event of a thread that waits with [`PollTable::wait`].
    own: Option<(Arc<Event>, Ticket)>,
}

impl PollTable {
    /// A table to wait with, that counts wakes from now on.
    pub fn new() -> PollTable {
        let event = Arc::new(Event::new());
        let start = event.ticket();
        let watcher: Arc<dyn Watcher> = event.clone();
        PollTable { watcher: Arc::downgrade(&watcher), own: Some((event, start)) }
    }
    /// A table for somebody who is told instead of waiting. It is watched until `watcher` ends.
    pub fn telling(watcher: Weak<dyn Watcher>) -> PollTable {
        PollTable { watcher, own: None }
    }
    /// Adds a queue; called by [`crate::file::File::poll`] before it looks.
    pub fn add(&self, queue: &WaitQueue) {
        queue.watch(self.watcher.clone());
    }
    /// Waits for any wake since the table was made or last waited. A table of
    /// [`PollTable::telling`] never waits.
    pub fn wait(&mut self, deadline: Option<Instant>) -> Woken {
        let Some((event, start)) = &mut self.own else { return Woken::Signalled };
        let woken = event.wait(*start, deadline, true);
        *start = event.ticket();
        woken
    }
}

impl Default for PollTable {
    fn default() -> Self {
        PollTable::new()
    }
}
