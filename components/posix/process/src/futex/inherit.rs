//! Futexes that pass on priority (FUTEX_LOCK_PI and related commands): the futex word holds the owner's thread id.
//!
//! ```text
//! word: 31 a thread waits   30 the owner ended while it had the lock   29..0 thread id of the owner, 0: free
//! ```
//! Only a lock with waiting threads is in the table: its owner, and the threads in the order in which they wait. The owner
//! runs at the highest real-time priority of the threads that wait for any of its locks, and so on along the chain of owners
//! (K6). The kernel hands a lock over: it writes the next owner's id before that thread runs. If an owner ends while it has
//! the lock, the next owner writes the word itself, in its own memory ([`settle`]).
//!
//! Locks: `futex.inheritance`, one for all: a change of priority goes along the chain in one step. User words are
//! accessed under it with faults refused, as in [`super`]; under it `process.tree` is read. A bucket's lock comes before it.
//! Source: futex(2), Linux `Documentation/locking/rt-mutex-design.rst`.
use super::{
    FutexKey, OWNER_DIED, Scope, TID_MASK, WAITERS, enqueue, held_key, key,
    table::{self, Bucket},
};
use crate::{task::Task, tree};
use alloc::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
    vec::Vec,
};
use core::sync::atomic::{AtomicU8, Ordering};
use memory::AddressSpace;
use rt::{
    lock_class,
    sync::{Event, Mutex},
    thread::Woken,
    time::Instant,
    user::Access,
};
use vfs::{Errno, file::Mappable};

lock_class! {
    static INHERITANCE = "futex.inheritance";
}

/// Greatest length of a chain of owners that wait for others (Linux's `max_lock_depth`).
const DEPTH_MAX: usize = 1024;

/// The states of a waiter's grant.
mod grant {
    /// The task still waits.
    pub const NONE: u8 = 0;
    /// The task owns the lock, and its thread number is in the word.
    pub const WHOLE: u8 = 1;
    /// The task owns the lock, and has to write the word itself.
    pub const UNSETTLED: u8 = 2;
}

/// A waiting task.
pub(super) struct LockWaiter {
    task: Arc<Task>,
    granted: AtomicU8,
    pub(super) event: Event,
    /// Holds the object of a shared key, so that its number cannot become another object's.
    _object: Option<Arc<dyn Mappable>>,
}

impl LockWaiter {
    fn new(task: &Arc<Task>, object: Option<Arc<dyn Mappable>>) -> Arc<LockWaiter> {
        Arc::new(LockWaiter {
            task: task.clone(),
            granted: AtomicU8::new(grant::NONE),
            event: Event::new(),
            _object: object,
        })
    }
    /// Makes the waiter the owner of the lock, in the state `granted`.
    fn give(&self, granted: u8) {
        self.granted.store(granted, Ordering::Release);
        self.event.signal();
    }
}

/// A place in the queue: the highest priority comes first, and equal ones in order of arrival.
struct QueuePlace {
    priority: u32,
    waiter: Arc<LockWaiter>,
}

/// A lock for which at least one task waits.
struct Lock {
    owner: Arc<Task>,
    queue: Vec<QueuePlace>,
    /// The word does not name the owner yet.
    is_unsettled: bool,
}

impl Lock {
    fn insert(&mut self, place: QueuePlace) {
        let at = self.queue.partition_point(|other| other.priority >= place.priority);
        self.queue.insert(at, place);
    }
    fn remove(&mut self, task: &Arc<Task>) -> Option<QueuePlace> {
        let at = self.queue.iter().position(|place| Arc::ptr_eq(&place.waiter.task, task))?;
        Some(self.queue.remove(at))
    }
    /// Returns whether `task` waits with this priority.
    fn knows(&self, task: &Arc<Task>, priority: u32) -> bool {
        let mut places = self.queue.iter();
        places.any(|place| place.priority == priority && Arc::ptr_eq(&place.waiter.task, task))
    }
    /// Returns whether the value `word` of the futex word fits this lock.
    fn agrees(&self, word: u32) -> bool {
        let owner = word & TID_MASK;
        // The word has no owner: the last owner has gone through its robust list and is about to pass its locks on.
        self.is_unsettled || owner == self.owner.id() || owner == 0 && word & OWNER_DIED != 0
    }
    fn highest(&self) -> u32 {
        self.queue.first().map_or(0, |place| place.priority)
    }
}

/// All locks for which a task waits.
struct LockTable {
    locks: BTreeMap<FutexKey, Lock>,
    /// The locks a task owns, by its id.
    owned: BTreeMap<u32, Vec<FutexKey>>,
    /// The lock a task waits for, by its id.
    awaited: BTreeMap<u32, FutexKey>,
}

static TABLE: Mutex<LockTable> = Mutex::new(
    &INHERITANCE,
    LockTable { locks: BTreeMap::new(), owned: BTreeMap::new(), awaited: BTreeMap::new() },
);

/// The result of one check of the word.
enum LockAttempt<T> {
    Done(T),
    /// The word changed meanwhile; the step is to be done again.
    Again,
    /// The word is not mapped, or cannot be written.
    Fault,
}

impl LockTable {
    /// Adds a lock to those of `owner`.
    fn own(&mut self, key: FutexKey, owner: &Arc<Task>) {
        owner.begin_owning();
        self.owned.entry(owner.id()).or_default().push(key);
    }
    fn disown(&mut self, key: &FutexKey, owner: &Arc<Task>) {
        if let Some(keys) = self.owned.get_mut(&owner.id()) {
            keys.retain(|other| other != key);
            if keys.is_empty() {
                self.owned.remove(&owner.id());
            }
        }
    }
    /// Returns the highest priority of the tasks that wait for a lock of `task`.
    fn inherited(&self, task: &Task) -> u32 {
        let keys = self.owned.get(&task.id()).into_iter().flatten();
        keys.filter_map(|key| self.locks.get(key)).map(Lock::highest).max().unwrap_or(0)
    }
    /// Returns whether `owner` waits for `task`, directly or through other owners.
    fn waits_for(&self, owner: &Arc<Task>, task: &Arc<Task>) -> bool {
        let mut at = owner;
        for _ in 0..DEPTH_MAX {
            if Arc::ptr_eq(at, task) {
                return true;
            }
            let lock = self.awaited.get(&at.id()).and_then(|key| self.locks.get(key));
            match lock {
                Some(lock) => at = &lock.owner,
                None => return false,
            }
        }
        true
    }
    /// Updates the priority of `task`, and of the chain of owners that it waits for.
    fn spread(&mut self, task: &Arc<Task>) {
        let mut task = task.clone();
        for _ in 0..DEPTH_MAX {
            task.inherit_priority(self.inherited(&task));
            let Some(key) = self.awaited.get(&task.id()) else { return };
            let Some(lock) = self.locks.get_mut(key) else { return };
            let priority = task.effective_priority();
            if lock.knows(&task, priority) {
                return;
            }
            let Some(place) = lock.remove(&task) else { return };
            lock.insert(QueuePlace { priority, ..place });
            let owner = lock.owner.clone();
            task = owner;
        }
    }
    /// Makes the first in the queue of `key` its owner, in the state `granted`. Returns that task.
    fn hand_over(&mut self, key: FutexKey, granted: u8) -> Option<Arc<Task>> {
        let lock = self.locks.get_mut(&key)?;
        let before = lock.owner.clone();
        let next = (!lock.queue.is_empty()).then(|| lock.queue.remove(0))?;
        let heir = next.waiter.task.clone();
        lock.owner = heir.clone();
        lock.is_unsettled = granted == grant::UNSETTLED;
        let is_last = lock.queue.is_empty() && !lock.is_unsettled;
        self.awaited.remove(&heir.id());
        self.disown(&key, &before);
        if is_last {
            self.locks.remove(&key);
        } else {
            self.own(key, &heir);
        }
        next.waiter.give(granted);
        self.spread(&heir);
        self.spread(&before);
        Some(heir)
    }
    /// Removes a lock for which no task waits.
    fn forget_unawaited(&mut self, key: &FutexKey) {
        let is_idle =
            self.locks.get(key).is_some_and(|lock| lock.queue.is_empty() && !lock.is_unsettled);
        if is_idle && let Some(lock) = self.locks.remove(key) {
            self.disown(key, &lock.owner);
            self.spread(&lock.owner);
        }
    }
}

/// The word of a lock as its user addresses it.
struct Word<'a> {
    memory: &'a Arc<AddressSpace>,
    address: u64,
    key: FutexKey,
}

impl Word<'_> {
    /// Does `step` with the table locked until it completes.
    fn look<T>(
        &self,
        mut step: impl FnMut(&mut LockTable, u32) -> Result<LockAttempt<T>, Errno>,
    ) -> Result<T, Errno> {
        loop {
            let mut table = TABLE.lock();
            let found = match self.memory.user().atomic_load(self.address) {
                Ok(word) => step(&mut table, word)?,
                Err(_) => LockAttempt::Fault,
            };
            drop(table);
            match found {
                LockAttempt::Done(done) => return Ok(done),
                LockAttempt::Again => {}
                LockAttempt::Fault => {
                    let fault = self.memory.fault(self.address, Access::Write);
                    fault.map_err(|_| Errno::EFAULT)?;
                }
            }
        }
    }
    /// Handles an owner in `found` that is not a thread: as on Linux, the bit for waiting threads is set although no thread
    /// can wait.
    fn refuse<T>(&self, found: u32) -> Result<LockAttempt<T>, Errno> {
        match self.replace(found, found | WAITERS) {
            LockAttempt::Done(()) => Err(Errno::ESRCH),
            LockAttempt::Again => Ok(LockAttempt::Again),
            LockAttempt::Fault => Ok(LockAttempt::Fault),
        }
    }
    /// Replaces the word `old` by `new`.
    fn replace(&self, old: u32, new: u32) -> LockAttempt<()> {
        match self.memory.user().compare_exchange(self.address, old, new) {
            Ok(found) if found == old => LockAttempt::Done(()),
            Ok(_) => LockAttempt::Again,
            Err(_) => LockAttempt::Fault,
        }
    }
}

/// Takes the lock at `address`, waiting for it until `deadline`.
///
/// # Errors
/// `EDEADLK` if the caller has it or would wait for itself, `ESRCH` for an owner that is not a thread, `EINVAL` for a word
/// that contradicts the table, `ETIMEDOUT`, `EFAULT`; `RestartAlways` when interrupted.
pub fn lock(
    task: &Arc<Task>,
    (address, scope): (u64, Scope),
    deadline: Option<Instant>,
) -> Result<(), Errno> {
    let memory = task.memory();
    let (key, object) = held_key(&memory, address, scope)?;
    let word = Word { memory: &memory, address, key };
    let waiter = LockWaiter::new(task, object);
    if word.look(|table, found| table.take_or_wait(&word, found, &waiter))? {
        return Ok(());
    }
    await_grant(&word, &waiter, deadline, |why| {
        let has_left = TABLE.lock().give_up(&word.key, task);
        has_left.then_some(if why == Woken::TimedOut {
            Errno::ETIMEDOUT
        } else {
            Errno::RestartAlways
        })
    })
}

/// Waits until `waiter` owns the lock. If the wait ends before, `leave` removes the waiter from the queue and returns the
/// error; it returns `None` if the waiter owns the lock by then.
fn await_grant(
    word: &Word<'_>,
    waiter: &LockWaiter,
    deadline: Option<Instant>,
    leave: impl Fn(Woken) -> Option<Errno>,
) -> Result<(), Errno> {
    loop {
        let ticket = waiter.event.ticket();
        match waiter.granted.load(Ordering::Acquire) {
            grant::NONE => {}
            grant::WHOLE => return Ok(()),
            _ => return settle(word, &waiter.task),
        }
        match waiter.event.wait_interruptible(ticket, deadline) {
            Woken::Signalled => {}
            why => leave(why).map_or(Ok(()), Err)?,
        }
    }
}

/// Does FUTEX_WAIT_REQUEUE_PI: waits while the word at `address` is `expected`, until [`requeue`] moves the task to the lock
/// at `second`. The task owns that lock at the end.
///
/// # Errors
/// `EAGAIN` if the word differs, and when interrupted while it waits for the lock; `ETIMEDOUT`, `EINVAL`, `EFAULT`;
/// `RestartAlways` when interrupted before.
pub fn wait_and_lock(
    task: &Arc<Task>,
    (address, second, scope): (u64, u64, Scope),
    expected: u32,
    deadline: Option<Instant>,
) -> Result<(), Errno> {
    let memory = task.memory();
    let first = key(&memory, address, scope, Access::Read)?;
    let (target, object) = held_key(&memory, second, scope)?;
    if first == target {
        return Err(Errno::EINVAL);
    }
    let word = Word { memory: &memory, address: second, key: target };
    let waiter = LockWaiter::new(task, object);
    let entry = Arc::new(table::FutexWaiter::of_lock(first, &waiter, target));
    enqueue(&memory, (address, &first), expected, || entry.clone())?;
    await_grant(&word, &waiter, deadline, |why| {
        let is_timeout = why == Woken::TimedOut;
        if table::leave(&entry) {
            return Some(if is_timeout { Errno::ETIMEDOUT } else { Errno::RestartAlways });
        }
        let has_left = TABLE.lock().give_up(&target, task);
        has_left.then_some(if is_timeout { Errno::ETIMEDOUT } else { Errno::EAGAIN })
    })
}

/// Does FUTEX_CMP_REQUEUE_PI: while the word at `from` is `expected`, gives the lock at `to`, if it is free, to the first
/// task that waits for `from`, and makes it and at most `limit` others wait for the lock. Returns the number of all these
/// tasks.
///
/// # Errors
/// `EAGAIN` if the word differs, `EINVAL` if a task waits for another lock, and those of [`lock`].
pub fn requeue(
    memory: &Arc<AddressSpace>,
    (from, to, scope): (u64, u64, Scope),
    limit: u32,
    expected: u32,
) -> Result<u32, Errno> {
    let source = key(memory, from, scope, Access::Read)?;
    let target = key(memory, to, scope, Access::Write)?;
    if source == target {
        return Err(Errno::EINVAL);
    }
    let word = Word { memory, address: to, key: target };
    let mut moved = 0;
    loop {
        let mut bucket = table::bucket(&source).lock();
        let step = match memory.user().atomic_load(from) {
            Ok(found) if found != expected => return Err(Errno::EAGAIN),
            Ok(_) => move_first(&word, &mut bucket, &source)?,
            Err(_) => {
                drop(bucket);
                memory.fault(from, Access::Read).map_err(|_| Errno::EFAULT)?;
                continue;
            }
        };
        drop(bucket);
        match step {
            LockAttempt::Done(false) => return Ok(moved),
            LockAttempt::Done(true) => moved += 1,
            LockAttempt::Again => {}
            LockAttempt::Fault => {
                memory.fault(to, Access::Write).map_err(|_| Errno::EFAULT)?;
            }
        }
        if moved > limit {
            return Ok(moved);
        }
    }
}

/// Makes the first task that waits for `source` wait for the lock at `word`, or its owner; returns `false` if no task waits.
fn move_first(
    word: &Word<'_>,
    bucket: &mut Bucket,
    source: &FutexKey,
) -> Result<LockAttempt<bool>, Errno> {
    let Some(entry) = table::first(bucket, source) else { return Ok(LockAttempt::Done(false)) };
    let Some((waiter, wanted)) = entry.wanted_lock() else { return Err(Errno::EINVAL) };
    if wanted != word.key {
        return Err(Errno::EINVAL);
    }
    let mut table = TABLE.lock();
    let Ok(found) = word.memory.user().atomic_load(word.address) else {
        return Ok(LockAttempt::Fault);
    };
    let step = table.take_or_wait(word, found, waiter)?;
    if let LockAttempt::Done(is_taken) = step {
        if is_taken {
            waiter.give(grant::WHOLE);
        }
        table::take_out(bucket, &entry);
    }
    Ok(step.map(|_| true))
}

/// Takes the lock at `address` if it is free.
///
/// # Errors
/// `EAGAIN` if it is not; those of [`lock`].
pub fn try_lock(task: &Arc<Task>, (address, scope): (u64, Scope)) -> Result<(), Errno> {
    let memory = task.memory();
    let key = key(&memory, address, scope, Access::Write)?;
    let word = Word { memory: &memory, address, key };
    word.look(|table, found| match table.take(&word, found, task)? {
        Some(step) => Ok(step),
        None if !table.locks.contains_key(&word.key) && tree::task(found & TID_MASK).is_none() => {
            word.refuse(found)
        }
        None => Err(Errno::EAGAIN),
    })
}

/// Gives the lock at `address` to the task that is first in its queue, if there is one.
///
/// # Errors
/// `EPERM` if the caller does not own it, `EINVAL` if the kernel's owner is another, `EFAULT`.
pub fn unlock(task: &Arc<Task>, (address, scope): (u64, Scope)) -> Result<(), Errno> {
    let memory = task.memory();
    // The owner is checked before the right to write, as on Linux.
    if memory.read::<u32>(address)? & TID_MASK != task.id() {
        return Err(Errno::EPERM);
    }
    let key = key(&memory, address, scope, Access::Write)?;
    let word = Word { memory: &memory, address, key };
    word.look(|table, found| {
        if found & TID_MASK != task.id() {
            return Err(Errno::EPERM);
        }
        let Some(lock) = table.locks.get(&word.key) else { return Ok(word.replace(found, 0)) };
        if !Arc::ptr_eq(&lock.owner, task) {
            return Err(Errno::EINVAL);
        }
        let next = lock.queue.first().map_or(0, |place| WAITERS | place.waiter.task.id());
        let step = word.replace(found, next);
        if matches!(step, LockAttempt::Done(()))
            && table.hand_over(word.key, grant::WHOLE).is_none()
        {
            table.forget_unawaited(&word.key);
        }
        Ok(step)
    })
}

impl LockTable {
    /// Takes the lock if the word says it is free; returns `None` if another task owns it.
    fn take(
        &mut self,
        word: &Word<'_>,
        found: u32,
        task: &Arc<Task>,
    ) -> Result<Option<LockAttempt<()>>, Errno> {
        match found & TID_MASK {
            owner if owner == task.id() => Err(Errno::EDEADLK),
            0 if !self.locks.contains_key(&word.key) => {
                Ok(Some(word.replace(found, found & OWNER_DIED | task.id())))
            }
            _ => Ok(None),
        }
    }
    /// Takes the lock (`true`), or adds `waiter` to its queue.
    fn take_or_wait(
        &mut self,
        word: &Word<'_>,
        found: u32,
        waiter: &Arc<LockWaiter>,
    ) -> Result<LockAttempt<bool>, Errno> {
        if let Some(step) = self.take(word, found, &waiter.task)? {
            return Ok(step.map(|()| true));
        }
        let (id, task) = (found & TID_MASK, &waiter.task);
        let owner = match self.locks.get(&word.key) {
            Some(lock) if lock.agrees(found) => lock.owner.clone(),
            Some(_) => return Err(Errno::EINVAL),
            None => match tree::task(id).filter(|owner| owner.begin_owning()) {
                Some(owner) => owner,
                None => return word.refuse(found),
            },
        };
        if self.waits_for(&owner, task) {
            return Err(Errno::EDEADLK);
        }
        if found & WAITERS == 0 {
            match word.replace(found, found | WAITERS) {
                LockAttempt::Done(()) => {}
                other => return Ok(other.map(|()| false)),
            }
        }
        let place = QueuePlace { priority: task.effective_priority(), waiter: waiter.clone() };
        match self.locks.entry(word.key) {
            Entry::Occupied(mut known) => known.get_mut().insert(place),
            Entry::Vacant(new) => {
                let queue = alloc::vec![place];
                new.insert(Lock { owner: owner.clone(), queue, is_unsettled: false });
                self.own(word.key, &owner);
            }
        }
        self.awaited.insert(task.id(), word.key);
        self.spread(&owner);
        Ok(LockAttempt::Done(false))
    }
    /// Removes `task` from the queue in which it waits. Returns `false` if it owns the lock by now.
    fn give_up(&mut self, key: &FutexKey, task: &Arc<Task>) -> bool {
        let Some(lock) = self.locks.get_mut(key) else { return false };
        if lock.remove(task).is_none() {
            return false;
        }
        let owner = lock.owner.clone();
        self.awaited.remove(&task.id());
        self.spread(&owner);
        self.forget_unawaited(key);
        true
    }
}

impl<T> LockAttempt<T> {
    fn map<U>(self, done: impl FnOnce(T) -> U) -> LockAttempt<U> {
        match self {
            LockAttempt::Done(value) => LockAttempt::Done(done(value)),
            LockAttempt::Again => LockAttempt::Again,
            LockAttempt::Fault => LockAttempt::Fault,
        }
    }
}

/// Writes the word of a lock whose owner ended: it says that `task` is the owner, and that the previous one died with it.
fn settle(word: &Word<'_>, task: &Arc<Task>) -> Result<(), Errno> {
    let settled = word.look(|table, found| {
        let step = word.replace(found, OWNER_DIED | WAITERS | task.id());
        if matches!(step, LockAttempt::Done(())) {
            table.settled(&word.key);
        }
        Ok(step)
    });
    if settled.is_err() {
        // The word cannot be written any more: no thread can find out the owner.
        let mut table = TABLE.lock();
        table.settled(&word.key);
        let _ = table.hand_over(word.key, grant::UNSETTLED);
    }
    settled
}

impl LockTable {
    fn settled(&mut self, key: &FutexKey) {
        if let Some(lock) = self.locks.get_mut(key) {
            lock.is_unsettled = false;
        }
        self.forget_unawaited(key);
    }
}

/// Passes on the locks of `task` when it ends or leaves its memory, after its robust list was handled.
pub fn release_all(task: &Arc<Task>) {
    if !task.leave_locks() {
        return;
    }
    let mut table = TABLE.lock();
    while let Some(key) = table.owned.get(&task.id()).and_then(|keys| keys.first().copied()) {
        if table.hand_over(key, grant::UNSETTLED).is_none() {
            table.locks.remove(&key);
            table.disown(&key, task);
        }
    }
}

/// Called when the priority of `task` was changed: the owner it waits for may have to change, too.
pub fn priority_changed(task: &Arc<Task>) {
    TABLE.lock().spread(task);
}
