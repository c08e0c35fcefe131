//! [`MessageQueue`]: messages of System V IPC, and the queues there are (Linux `ipc/msg.c`).
//!
//! The queue is a model, [`TypedQueue`]. `ipc.messages` guards one queue. A message's bytes are copied from its sender before, and
//! to its receiver after the lock, and charged as long as the message lives.
use super::{
    NO_WAIT, ObjectCharge, Who, errno,
    layout::{RawPermission, RawQueue},
    limits, now_seconds,
    registry::{OBJECT_BYTES, Object, Registry, enter},
    waiter::{Slept, Waiter},
};
use alloc::{sync::Arc, vec::Vec};
use interfaces::monitor::ObjectAccess;
use process::Task;
use rt::{
    lock_class,
    memory::Charge,
    sync::{Mutex, MutexGuard},
};
use sysv::{
    messages::{self, Delivery, Receive, TypedQueue, Woken},
    permission::{Permission, READ, WRITE},
    table::ObjectTable,
};
use vfs::{
    Capabilities, Errno, Principal,
    security::{Label, flows},
};

lock_class! {
    static STATE = "ipc.messages";
}

static QUEUES: Registry<MessageQueue> = Registry::new();

/// Bytes of memory that a message needs besides its own.
const OVERHEAD_BYTES: usize = 80;

/// The bytes of a message.
pub struct Body {
    /// The bytes of the message.
    pub bytes: Vec<u8>,
    _held: ObjectCharge,
}

/// A message.
pub type QueuedMessage = messages::TypedMessage<Body>;

impl Body {
    /// Makes a body of these bytes, charged to the user of `task`.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn new(task: &Task, bytes: Vec<u8>) -> Result<Body, Errno> {
        let _held = ObjectCharge::take(task, bytes.len() + OVERHEAD_BYTES)?;
        Ok(Body { bytes, _held })
    }
    /// Makes a message of type `kind` with these bytes, which `task` sends.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn message(task: &Task, kind: i64, bytes: Vec<u8>) -> Result<QueuedMessage, Errno> {
        let length = bytes.len();
        Ok(QueuedMessage { kind, length, body: Body::new(task, bytes)? })
    }
}

/// A sleeping call and its answer: a delivery for a receiver; `None` makes a sender try again.
type MessageSleeper = Arc<Waiter<Option<Delivery<Body>>>>;

/// A message queue.
pub struct MessageQueue {
    id: i32,
    key: i32,
    label: &'static Label,
    state: Mutex<MessageQueueState>,
    _charge: Charge,
}

struct MessageQueueState {
    permission: Permission,
    queue: TypedQueue<Body, WaitingTask>,
    sent_s: i64,
    received_s: i64,
    changed_s: i64,
    sender: u32,
    receiver: u32,
    is_removed: bool,
}

/// A waiter and its task.
#[derive(Clone)]
struct WaitingTask {
    sleeper: MessageSleeper,
    task: u32,
}

impl PartialEq for WaitingTask {
    fn eq(&self, other: &WaitingTask) -> bool {
        self.sleeper == other.sleeper
    }
}

impl MessageQueueState {
    /// Wakes the calls that an operation has served. As on Linux, a message that goes to a sleeping receiver names its thread.
    fn wake(&mut self, woken: Woken<Body, WaitingTask>) {
        for (owner, delivery) in woken.receivers {
            if matches!(delivery, Delivery::Message(_)) {
                self.receiver = owner.task;
                self.received_s = now_seconds();
            }
            owner.sleeper.answer(Some(delivery));
        }
        woken.senders.iter().for_each(|owner| owner.sleeper.answer(None));
    }
}

impl Object for MessageQueue {
    const CLASS: &'static str = "msgq";

    fn permission(&self) -> Permission {
        self.state.lock().permission
    }
    fn label(&self) -> &'static Label {
        self.label
    }
}

/// Does msgget: returns the identifier of the queue with `key`, or of a new one.
///
/// # Errors
/// Those of msgget(2).
pub fn obtain(task: &Task, (key, flags): (i32, i32)) -> Result<i32, Errno> {
    let who = Who::of(task);
    QUEUES.obtain((key, flags), &who, |_| Ok(()), |table| make(table, &who, (key, flags)))
}

fn make(
    table: &mut ObjectTable<Arc<MessageQueue>>,
    who: &Who,
    (key, flags): (i32, i32),
) -> Result<i32, Errno> {
    let charge = Charge::take(OBJECT_BYTES)?;
    let state = MessageQueueState {
        permission: Permission::new(who, flags),
        queue: TypedQueue::new(limits::QUEUE_BYTES.get()),
        sent_s: 0,
        received_s: 0,
        changed_s: now_seconds(),
        sender: 0,
        receiver: 0,
        is_removed: false,
    };
    enter(table, who, (key, limits::QUEUES.get() as usize), |id| MessageQueue {
        id,
        key,
        label: who.label(),
        state: Mutex::new(&STATE, state),
        _charge: charge,
    })
}

/// Returns the registry of all queues.
pub fn registry() -> &'static Registry<MessageQueue> {
    &QUEUES
}

/// Returns the number of messages of the queues that exist for `task`, and of their bytes.
pub fn sums(task: &dyn Principal) -> (usize, usize) {
    let of = |queue: &Arc<MessageQueue>| {
        let state = queue.state.lock();
        (state.queue.count(), state.queue.bytes())
    };
    QUEUES.shown_to(task).iter().map(of).fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
}

/// Does msgsnd: puts a message into the queue `id`, and waits for room unless `flags` forbid it.
///
/// # Errors
/// Those of msgsnd(2); `RestartUnhandled` when interrupted.
pub fn send(task: &Task, id: i32, message: QueuedMessage, flags: i32) -> Result<(), Errno> {
    let object = QUEUES.get(id, task)?;
    let mut state = object.usable(task, WRITE, ObjectAccess::Write)?;
    while !state.queue.has_room(message.length) {
        if flags & NO_WAIT != 0 {
            return Err(Errno::EAGAIN);
        }
        let sleeper = Waiter::new();
        let owner = WaitingTask { sleeper: sleeper.clone(), task: task.id() };
        state.queue.sleep_sending(message.length, owner.clone());
        drop(state);
        let is_interrupted = matches!(sleeper.sleep(task, None), Slept::Interrupted);
        state = object.state.lock();
        state.queue.leave(&owner);
        if state.is_removed {
            return Err(Errno::EIDRM);
        }
        if is_interrupted {
            return Err(Errno::RestartUnhandled);
        }
        drop(state);
        state = object.usable(task, WRITE, ObjectAccess::Write)?;
    }
    flows::writes(|| Some(object.label()));
    state.sender = task.process.id();
    state.sent_s = now_seconds();
    let mut woken = Woken::nobody();
    state.queue.send(message, &mut woken);
    state.wake(woken);
    Ok(())
}

/// Does msgrcv: removes a message from the queue `id`, and waits for one unless `flags` forbid it.
///
/// # Errors
/// Those of msgrcv(2); `RestartUnhandled` when interrupted.
pub fn receive(task: &Task, id: i32, receive: Receive, flags: i32) -> Result<QueuedMessage, Errno> {
    let object = QUEUES.get(id, task)?;
    loop {
        let mut state = object.usable(task, READ, ObjectAccess::Write)?;
        let mut woken = Woken::nobody();
        if let Some(message) = state.queue.receive(&receive, &mut woken).map_err(errno)? {
            flows::reads(|| Some(object.label()));
            flows::tells(|| Some(object.label()));
            state.receiver = task.process.id();
            state.received_s = now_seconds();
            state.wake(woken);
            return Ok(message);
        }
        if flags & NO_WAIT != 0 {
            return Err(Errno::ENOMSG);
        }
        let sleeper = Waiter::new();
        let owner = WaitingTask { sleeper: sleeper.clone(), task: task.id() };
        state.queue.sleep_receiving(receive, owner.clone());
        drop(state);
        let delivery = match sleeper.sleep(task, None) {
            Slept::Answered(delivery) => delivery,
            Slept::TimedOut | Slept::Interrupted => {
                let mut state = object.state.lock();
                let answer = sleeper.take();
                if answer.is_none() {
                    state.queue.leave(&owner);
                    return Err(Errno::RestartUnhandled);
                }
                answer.flatten()
            }
        };
        match delivery {
            Some(Delivery::Message(message)) => return Ok(message),
            Some(Delivery::Refused(refusal)) => return Err(errno(refusal)),
            Some(Delivery::Again) | None => {}
        }
    }
}

/// Does MSG_COPY: returns type and bytes of the message at `place` in the queue `id`, which stays there. It is at most `room`
/// long: no message is cut; if `may_cut` the error is that of Linux.
///
/// # Errors
/// Those of msgrcv(2).
pub fn copy(
    task: &Task,
    id: i32,
    place: i64,
    (room, may_cut): (usize, bool),
) -> Result<(i64, Vec<u8>), Errno> {
    let object = QUEUES.get(id, task)?;
    let state = object.usable(task, READ, ObjectAccess::Read)?;
    let message = state.queue.at(place).ok_or(Errno::ENOMSG)?;
    if message.length > room {
        return Err(if may_cut { Errno::EINVAL } else { Errno::E2BIG });
    }
    let _charge = Charge::take(message.length)?;
    Ok((message.kind, message.body.bytes.clone()))
}

impl MessageQueue {
    /// Locks its state, if `task` has the permission and the queue was not removed meanwhile.
    fn usable(
        &self,
        task: &Task,
        wanted: u16,
        access: ObjectAccess,
    ) -> Result<MutexGuard<'_, MessageQueueState>, Errno> {
        let (who, state) = (Who::of(task), self.state.lock());
        if !state.permission.allows(&who, wanted) {
            return Err(Errno::EACCES);
        }
        who.check_label(self, access)?;
        if state.is_removed {
            return Err(Errno::EIDRM);
        }
        Ok(state)
    }
    /// Returns the answer of IPC_STAT.
    pub fn report(&self) -> RawQueue {
        let state = self.state.lock();
        RawQueue {
            permission: RawPermission::new(self.id, self.key, &state.permission),
            times: [state.sent_s, state.received_s, state.changed_s],
            bytes: state.queue.bytes() as u64,
            messages: state.queue.count() as u64,
            bytes_max: state.queue.bytes_max(),
            processes: [state.sender, state.receiver],
            unused: [0; 2],
        }
    }
    /// Returns its identifier.
    pub fn id(&self) -> i32 {
        self.id
    }
}

/// Does IPC_RMID: removes the queue with its messages, and wakes all calls that sleep for it.
///
/// # Errors
/// `EINVAL`, `EPERM`.
pub fn remove(id: i32, who: &Who) -> Result<(), Errno> {
    QUEUES.controlled(id, who)?;
    let mut table = QUEUES.write();
    let removed = table.remove(id).ok_or(Errno::EIDRM)?;
    let mut state = removed.state.lock();
    state.is_removed = true;
    let mut woken = Woken::nobody();
    let messages = state.queue.remove(&mut woken);
    state.wake(woken);
    drop((state, table));
    drop(messages);
    Ok(())
}

/// Does IPC_SET: sets owner, permission bits, and the size of the queue.
///
/// # Errors
/// `EINVAL`, `EPERM`, `EIDRM`.
pub fn set(id: i32, who: &Who, wanted: &RawQueue) -> Result<(), Errno> {
    let object = QUEUES.controlled(id, who)?;
    let mut state = object.state.lock();
    if wanted.bytes_max > limits::QUEUE_BYTES.get() && !who.has(Capabilities::SYS_RESOURCE) {
        return Err(Errno::EPERM);
    }
    if state.is_removed {
        return Err(Errno::EIDRM);
    }
    wanted.permission.apply(&mut state.permission)?;
    state.changed_s = now_seconds();
    let mut woken = Woken::nobody();
    state.queue.set_bytes_max(wanted.bytes_max, &mut woken);
    state.wake(woken);
    Ok(())
}
