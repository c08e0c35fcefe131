//! POSIX message queues (mq_overview(7), Linux `ipc/mqueue.c`): [`PosixQueue`], and the messages and notices of one.
//!
//! | file | what |
//! | --- | --- |
//! | `directory` | the names of queues, as the file system `mqueue` shows them |
//! | `file` | an open queue |
//!
//! The messages and sleepers are a model, [`PriorityQueue`]. `ipc.queue` guards it and the process to be notified,
//! `ipc.queue.attributes` the attributes for stat(2); both are leaves. A signal is sent after the lock. The user of a queue is
//! charged with its greatest content, within RLIMIT_MSGQUEUE, and with the memory of each message while it is in the queue.
pub mod directory;
pub mod file;

pub use directory::{Directory, activate, directory, place};
pub use file::QueueFile;

use super::{
    limits,
    message::Body,
    registry::OBJECT_BYTES,
    waiter::{Slept, Waiter},
};
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::{AtomicUsize, Ordering};
use interfaces::file_system::{Attributes, FileType};
use memory::AddressSpace;
use process::{
    Process, Task,
    limits::Resource,
    signal::{self, Info},
    time::clock::Clock,
    user_memory::User,
};
use rt::{lock_class, memory::Charge, sync::Mutex};
use sysv::prioritized::{PRIORITIES, PrioritizedMessage, PriorityQueue, Sent};
use vfs::{
    Capabilities, Credentials, Errno, generated,
    poll::WaitQueue,
    security::{LEVEL_SLOTS, Label, Sequence, flows},
};

lock_class! {
    static STATE = "ipc.queue";
    static ATTRIBUTES = "ipc.queue.attributes";
}

/// Bytes that stat(2) reports of a queue.
const FILE_BYTES: u64 = 80;
/// Greatest limits for processes with CAP_SYS_RESOURCE.
const MESSAGES_HARD: i64 = 65_536;
const BYTES_HARD: i64 = 16 << 20;

/// Numbers of queues that subjects of each level have made, including those without a name.
static LIVE: [AtomicUsize; LEVEL_SLOTS] = [const { AtomicUsize::new(0) }; LEVEL_SLOTS];
/// Number of processes that are to be notified.
static NOTICES: AtomicUsize = AtomicUsize::new(0);

/// The size of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The greatest number of messages of the queue.
    pub messages: i64,
    /// Greatest length of a message in bytes.
    pub bytes: i64,
}

impl Shape {
    /// Returns the shape of a queue that is created without attributes.
    pub fn usual() -> Shape {
        let least =
            |limit: &limits::IpcLimit, usual: &limits::IpcLimit| limit.get().min(usual.get());
        Shape {
            messages: least(&limits::POSIX_MESSAGES, &limits::POSIX_MESSAGES_USUAL) as i64,
            bytes: least(&limits::POSIX_BYTES, &limits::POSIX_BYTES_USUAL) as i64,
        }
    }
    /// Returns the bytes that a queue of this shape is charged with, as Linux counts: its messages, and the structures that
    /// hold them.
    ///
    /// # Errors
    /// `EINVAL` beyond the limits; `EOVERFLOW`.
    fn charged_bytes(self, who: &Credentials) -> Result<u64, Errno> {
        const MESSAGE_BYTES: u64 = 48;
        const NODE_BYTES: u64 = 48;
        let most = match who.has(Capabilities::SYS_RESOURCE) {
            true => (MESSAGES_HARD, BYTES_HARD),
            false => (limits::POSIX_MESSAGES.get() as i64, limits::POSIX_BYTES.get() as i64),
        };
        let is_within = (1..=most.0).contains(&self.messages) && (1..=most.1).contains(&self.bytes);
        if !is_within {
            return Err(Errno::EINVAL);
        }
        let messages = self.messages as u64;
        let nodes = messages.min(PRIORITIES.into());
        let own = messages.checked_mul(self.bytes as u64).ok_or(Errno::EOVERFLOW)?;
        own.checked_add(messages * MESSAGE_BYTES + nodes * NODE_BYTES).ok_or(Errno::EOVERFLOW)
    }
}

/// A process that is to be notified of a message in an empty queue.
struct Notice {
    process: Weak<Process>,
    id: u32,
    /// The signal to send; `None` if the notification is not a signal.
    signal: Option<NoticeSignal>,
}

struct NoticeSignal {
    number: u8,
    value: u64,
    /// The memory of the program that asked: the process is not notified once it runs another program.
    memory: Weak<AddressSpace>,
}

impl Notice {
    /// Tells the process that `sender` has put a message into the queue.
    fn send(self, sender: &Task) {
        let Some((process, signal)) = self.process.upgrade().zip(self.signal.as_ref()) else {
            return;
        };
        let is_same = process
            .try_memory()
            .is_some_and(|memory| core::ptr::eq(Arc::as_ptr(&memory), signal.memory.as_ptr()));
        if is_same && signal.number != 0 {
            let from = (sender.process.id(), sender.real_user());
            let info = Info::message_queue(signal.number, from, signal.value);
            let _ = signal::send_to_process(&process, info);
        }
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        NOTICES.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A notification that mq_notify(3) asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notify {
    /// No notification is sent, but no other process can ask for one.
    Nothing,
    /// This signal is sent, with this value.
    Signal(u8, u64),
}

/// A sleeping call; a receiver gets its message as the answer.
type QueueSleeper = Arc<Waiter<Option<PrioritizedMessage<Body>>>>;

struct QueueState {
    queue: PriorityQueue<Body, QueueSleeper>,
    notice: Option<Notice>,
}

/// Bytes with which a queue charges a user.
struct Charged {
    user: Arc<User>,
    bytes: u64,
}

impl Drop for Charged {
    fn drop(&mut self) {
        self.user.remove_queue_bytes(self.bytes);
    }
}

/// Counts a queue as long as this exists.
struct CountedQueue(&'static AtomicUsize);

impl CountedQueue {
    /// # Errors
    /// `ENOSPC` if there are as many as the limit allows.
    fn new(who: &Credentials) -> Result<CountedQueue, Errno> {
        let most = match who.has(Capabilities::SYS_RESOURCE) {
            true => usize::MAX,
            false => limits::POSIX_QUEUES.get() as usize,
        };
        let more = |now: usize| (now < most).then_some(now + 1);
        let live = LIVE.get(who.subject.level().slot()).ok_or(Errno::ENOSPC)?;
        match live.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(CountedQueue(live)),
            Err(_) => Err(Errno::ENOSPC),
        }
    }
}

impl Drop for CountedQueue {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A message queue.
pub struct PosixQueue {
    label: &'static Label,
    shape: Shape,
    attributes: Mutex<Attributes>,
    state: Mutex<QueueState>,
    changed: WaitQueue,
    _charge: Charge,
    _charged: Charged,
    _counted: CountedQueue,
}

/// The time that a call waits at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It does not wait: `EAGAIN`.
    Not,
    /// It waits without a limit.
    ForEver,
    /// It waits until the wall clock shows these nanoseconds: `ETIMEDOUT`.
    Until(u64),
}

impl PosixQueue {
    /// Makes a queue for `task`.
    ///
    /// # Errors
    /// `ENOSPC` for too many queues, `EINVAL` for a shape beyond the limits, `EMFILE` beyond the user's limit.
    fn new(
        task: &Task,
        permissions: u16,
        shape: Shape,
        label: &'static Label,
    ) -> Result<Arc<PosixQueue>, Errno> {
        let who = task.credentials();
        let charge = Charge::take(OBJECT_BYTES)?;
        let counted = CountedQueue::new(&who)?;
        let bytes = shape.charged_bytes(&who)?;
        let user = task.account();
        user.add_queue_bytes(bytes, task.process.limits.soft(Resource::MessageQueues))?;
        let charged = Charged { user, bytes };
        let inode = directory::ROOT_INODE + who.subject.level().next(Sequence::Anonymous);
        let owner = (who.user.fs, who.group.fs);
        let attributes = Attributes {
            size: FILE_BYTES,
            ..generated::attributes(inode, FileType::Regular, permissions, owner)
        };
        let state = QueueState { queue: PriorityQueue::new(shape.messages as usize), notice: None };
        Ok(Arc::new(PosixQueue {
            label,
            shape,
            attributes: Mutex::new(&ATTRIBUTES, attributes),
            state: Mutex::new(&STATE, state),
            changed: WaitQueue::new(),
            _charge: charge,
            _charged: charged,
            _counted: counted,
        }))
    }
    /// Returns its shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }
    /// Returns the number of messages in it.
    pub fn count(&self) -> usize {
        self.state.lock().queue.count()
    }
    /// Does mq_timedsend: puts a message into the queue.
    ///
    /// # Errors
    /// `EMSGSIZE`, `EAGAIN`, `ETIMEDOUT`, `ENOMEM`; `Restart` when interrupted.
    pub fn send(
        &self,
        task: &Task,
        priority: u32,
        bytes: Vec<u8>,
        wait: Wait,
    ) -> Result<(), Errno> {
        flows::writes(|| Some(self.label));
        let length = bytes.len();
        let message = PrioritizedMessage { priority, length, body: Body::new(task, bytes)? };
        let mut state = self.state.lock();
        if state.queue.is_full() {
            if wait == Wait::Not {
                return Err(Errno::EAGAIN);
            }
            let sleeper = Waiter::new();
            state.queue.sleep_sending(rank(task), message, sleeper.clone());
            drop(state);
            return self.sleep(task, &sleeper, wait).map(drop);
        }
        let mut notice = None;
        match state.queue.send(message) {
            Sent::Received(receiver, message) => receiver.answer(Some(message)),
            Sent::First => notice = state.notice.take(),
            Sent::Queued => {}
        }
        drop(state);
        self.touch(Times::All);
        if let Some(notice) = notice {
            notice.send(task);
        }
        self.changed.wake();
        Ok(())
    }
    /// Does mq_timedreceive: removes the first message, waiting as [`PosixQueue::send`] does. Returns its priority and its
    /// bytes.
    ///
    /// # Errors
    /// `EAGAIN`, `ETIMEDOUT`; `Restart` when interrupted.
    pub fn receive(&self, task: &Task, wait: Wait) -> Result<(u32, Vec<u8>), Errno> {
        flows::reads(|| Some(self.label));
        flows::tells(|| Some(self.label));
        let mut state = self.state.lock();
        let Some((message, sender)) = state.queue.receive() else {
            if wait == Wait::Not {
                return Err(Errno::EAGAIN);
            }
            let sleeper = Waiter::new();
            state.queue.sleep_receiving(rank(task), sleeper.clone());
            drop(state);
            let message = self.sleep(task, &sleeper, wait)?.ok_or(Errno::EAGAIN)?;
            return Ok((message.priority, message.body.bytes));
        };
        if let Some(sender) = sender {
            sender.answer(None);
        }
        drop(state);
        self.touch(Times::All);
        self.changed.wake();
        Ok((message.priority, message.body.bytes))
    }
    fn sleep(
        &self,
        task: &Task,
        sleeper: &QueueSleeper,
        wait: Wait,
    ) -> Result<Option<PrioritizedMessage<Body>>, Errno> {
        let end_ns = match wait {
            Wait::Until(ns) => Some(ns),
            Wait::Not | Wait::ForEver => None,
        };
        let error = loop {
            let until = end_ns.map(|ns| Clock::Realtime.earliest(ns));
            match sleeper.sleep(task, until) {
                Slept::Answered(answer) => return Ok(answer),
                Slept::Interrupted => break Errno::Restart,
                // The clock may have been set back meanwhile.
                Slept::TimedOut if end_ns.is_none_or(|ns| Clock::Realtime.now_ns() < ns) => {}
                Slept::TimedOut => break Errno::ETIMEDOUT,
            }
        };
        let mut state = self.state.lock();
        match sleeper.take() {
            Some(answer) => Ok(answer),
            None => {
                state.queue.leave(sleeper);
                Err(error)
            }
        }
    }
    /// Does mq_notify: lets the process of `task` be notified once, or not any more.
    ///
    /// # Errors
    /// `EBUSY` if a process is to be notified already.
    pub fn notify(&self, task: &Task, notify: Option<Notify>) -> Result<(), Errno> {
        let Some(notify) = notify else {
            self.forget_notice(task.process.id());
            return Ok(());
        };
        let mut state = self.state.lock();
        if state.notice.is_some() {
            return Err(Errno::EBUSY);
        }
        let signal = match notify {
            Notify::Nothing => None,
            Notify::Signal(number, value) => {
                Some(NoticeSignal { number, value, memory: Arc::downgrade(&task.memory()) })
            }
        };
        NOTICES.fetch_add(1, Ordering::Relaxed);
        let (process, id) = (Arc::downgrade(&task.process), task.process.id());
        state.notice = Some(Notice { process, id, signal });
        drop(state);
        self.touch(Times::Access);
        Ok(())
    }
    /// Removes the notification of process `id`.
    fn forget_notice(&self, id: u32) {
        let mut state = self.state.lock();
        let is_its = state.notice.as_ref().is_some_and(|notice| notice.id == id);
        let forgotten = if is_its { state.notice.take() } else { None };
        drop(state);
        if forgotten.is_some() {
            self.touch(Times::Access);
        }
    }
    /// Sets the given times that stat(2) reports to the present.
    pub fn touch(&self, times: Times) {
        let now = vfs::now();
        let mut attributes = self.attributes.lock();
        (attributes.accessed, attributes.changed) = (now, now);
        if times == Times::All {
            attributes.modified = now;
        }
    }
}

/// The times that an operation changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// All three times.
    All,
    /// All but the time of the last modification.
    Access,
}

/// Returns the rank by which sleeping calls are served: real-time priorities, then nice values.
fn rank(task: &Task) -> i32 {
    const REAL_TIME: i32 = 100;
    match task.effective_priority() {
        0 => -task.nice.load(Ordering::Relaxed),
        priority => REAL_TIME + priority as i32,
    }
}
