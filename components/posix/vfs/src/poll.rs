//! Waiting for one of many: [`WaitQueue`]s that files own, and the [`PollTable`] of one waiting thread.
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::{AtomicUsize, Ordering};
use rt::{
    lock_class,
    sync::{Event, Mutex, Ticket},
    thread::Woken,
    time::Instant,
};

lock_class! {
    static QUEUE = "vfs.wait_queue";
}

/// Threads waiting for a change of something. Waking costs one load where nobody waits.
pub struct WaitQueue {
    event: Event,
    watching: AtomicUsize,
    tables: Mutex<Vec<Weak<Event>>>,
}

impl WaitQueue {
    /// An empty queue.
    pub const fn new() -> WaitQueue {
        WaitQueue {
            event: Event::new(),
            watching: AtomicUsize::new(0),
            tables: Mutex::new(&QUEUE, Vec::new()),
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
        if self.watching.load(Ordering::SeqCst) > 0 {
            self.tables.lock().retain(|table| match table.upgrade() {
                Some(event) => {
                    event.signal();
                    true
                }
                None => false,
            });
        }
    }
    fn watch(&self, event: &Arc<Event>) {
        let mut tables = self.tables.lock();
        tables.retain(|table| table.strong_count() > 0);
        tables.push(Arc::downgrade(event));
        self.watching.store(tables.len(), Ordering::SeqCst);
    }
}

impl Default for WaitQueue {
    fn default() -> Self {
        WaitQueue::new()
    }
}

/// One thread's wait on many queues, for poll, select and epoll.
pub struct PollTable {
    event: Arc<Event>,
    start: Ticket,
}

impl PollTable {
    /// A table that counts wakes from now on.
    pub fn new() -> PollTable {
        let event = Arc::new(Event::new());
        let start = event.ticket();
        PollTable { event, start }
    }
    /// Adds a queue; called by [`crate::file::File::poll`] before it looks.
    pub fn add(&self, queue: &WaitQueue) {
        queue.watch(&self.event);
    }
    /// Waits for any wake since the table was made or last waited.
    pub fn wait(&mut self, deadline: Option<Instant>) -> Woken {
        let woken = self.event.wait(self.start, deadline, true);
        self.start = self.event.ticket();
        woken
    }
}

impl Default for PollTable {
    fn default() -> Self {
        PollTable::new()
    }
}
