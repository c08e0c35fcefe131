//! [`SemaphoreSet`]: semaphores of System V IPC, the registry of sets, and the changes that are undone at the end of a task
//! (Linux `ipc/sem.c`).
//!
//! The semaphores and their sleepers are a model, [`Set`]. `ipc.semaphores` guards one set. A task's [`UndoList`] knows the
//! sets that keep adjustments for it.
use super::{
    ObjectCharge, Who, errno,
    layout::{RawPermission, RawSet},
    limits, now_seconds,
    registry::{OBJECT_BYTES, Object, Registry, enter},
    waiter::{Slept, Waiter},
};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicU64, Ordering};
use interfaces::monitor::ObjectAccess;
use process::{
    Task,
    undo::{UndoList, UndoneSet},
};
use rt::{
    lock_class,
    memory::Charge,
    sync::{Mutex, MutexGuard},
    time::Instant,
};
use sysv::{
    Refusal,
    permission::{Permission, READ, WRITE},
    semaphores::{Request, RequestOutcome, SEMAPHORE_BYTES, SemaphoreOperation, Set, UNDO, Woken},
    table::ObjectTable,
};
use vfs::{
    Errno, Principal,
    security::{Label, flows},
};

lock_class! {
    static STATE = "ipc.semaphores";
}

static SETS: Registry<SemaphoreSet> = Registry::new();
/// Number of semaphores of all sets; changed under the registry's lock.
static SEMAPHORES: AtomicU64 = AtomicU64::new(0);

/// Bytes that the adjustments of a list in one set need besides those of each semaphore.
const UNDO_BYTES: usize = 96;

type SemaphoreSleeper = Arc<Waiter<Result<(), Refusal>>>;

/// A set of semaphores.
pub struct SemaphoreSet {
    id: i32,
    key: i32,
    count: usize,
    label: &'static Label,
    state: Mutex<SemaphoreState>,
}

struct SemaphoreState {
    permission: Permission,
    set: Set<SemaphoreSleeper>,
    operated_s: i64,
    changed_s: i64,
    is_removed: bool,
    /// Memory charge of the places of undo lists.
    charge: Charge,
    _held: ObjectCharge,
}

impl SemaphoreState {
    /// Wakes sleeping calls that were served.
    #[inline]
    fn wake(&mut self, woken: Woken<SemaphoreSleeper>) {
        if woken.is_empty() {
            return;
        }
        if woken.iter().any(|(_, answer)| answer.is_ok()) {
            self.operated_s = now_seconds();
        }
        for (sleeper, answer) in woken {
            sleeper.answer(answer);
        }
    }
    /// Makes a place for the changes in `object` that `list` undoes.
    fn prepare_undo(&mut self, list: &UndoList, object: &Arc<SemaphoreSet>) -> Result<(), Errno> {
        if !self.set.has_undo(list.number()) {
            self.charge.grow(UNDO_BYTES + object.count * size_of::<i16>())?;
            list.add(object.clone());
            self.set.prepare_undo(list.number());
        }
        Ok(())
    }
}

impl Object for SemaphoreSet {
    const CLASS: &'static str = "sem";

    fn permission(&self) -> Permission {
        self.state.lock().permission
    }
    fn label(&self) -> &'static Label {
        self.label
    }
}

/// Does semget: returns the identifier of the set with `key`, or of a new one of `count` semaphores.
///
/// # Errors
/// Those of semget(2).
pub fn obtain(task: &Task, (key, flags): (i32, i32), count: usize) -> Result<i32, Errno> {
    let who = Who::of(task);
    let suits = |set: &SemaphoreSet| if set.count < count { Err(Errno::EINVAL) } else { Ok(()) };
    SETS.obtain((key, flags), &who, suits, |table| make(table, (task, &who), (key, flags), count))
}

fn make(
    table: &mut ObjectTable<Arc<SemaphoreSet>>,
    (task, who): (&Task, &Who),
    (key, flags): (i32, i32),
    count: usize,
) -> Result<i32, Errno> {
    if count == 0 {
        return Err(Errno::EINVAL);
    }
    let all = SEMAPHORES.load(Ordering::Relaxed) + count as u64;
    if all > limits::SEMAPHORES.get() {
        return Err(Errno::ENOSPC);
    }
    let held = ObjectCharge::take(task, OBJECT_BYTES + count * SEMAPHORE_BYTES)?;
    let state = SemaphoreState {
        permission: Permission::new(who, flags),
        set: Set::new(count),
        operated_s: 0,
        changed_s: now_seconds(),
        is_removed: false,
        charge: Charge::none(),
        _held: held,
    };
    let id = enter(table, who, (key, limits::SEMAPHORE_SETS.get() as usize), |id| SemaphoreSet {
        id,
        key,
        count,
        label: who.label(),
        state: Mutex::new(&STATE, state),
    })?;
    SEMAPHORES.store(all, Ordering::Relaxed);
    Ok(id)
}

/// Returns the registry of all sets.
pub fn registry() -> &'static Registry<SemaphoreSet> {
    &SETS
}

/// Returns the number of semaphores of the sets that exist for `task`.
pub fn semaphores(task: &dyn Principal) -> u64 {
    SETS.shown_to(task).iter().map(|set| set.count as u64).sum()
}

/// Does semop and semtimedop: does all operations or none, and waits until `deadline` for that to be possible. The call is
/// never restarted after a signal handler.
///
/// # Errors
/// Those of semtimedop(2).
pub fn operate(
    task: &Task,
    id: i32,
    operations: Vec<SemaphoreOperation>,
    deadline: Option<Instant>,
) -> Result<(), Errno> {
    let object = SETS.get(id, task)?;
    let (mut alters, mut has_undo) = (false, false);
    for operation in &operations {
        if usize::from(operation.number) >= object.count {
            return Err(Errno::EFBIG);
        }
        alters |= operation.change != 0;
        has_undo |= operation.flags & UNDO != 0;
    }
    // A call that waits for zero is counted in the set.
    let wanted = if alters { WRITE } else { READ };
    let mut state = object.usable(task, wanted, ObjectAccess::Write)?;
    let mut undo = None;
    if has_undo {
        let list = task.undo_list();
        state.prepare_undo(&list, &object)?;
        undo = Some(list.number());
    }
    flows::reads(|| Some(object.label()));
    flows::writes(|| Some(object.label()));
    let request = Request { operations, process: task.process.id(), undo };
    let mut woken = Vec::new();
    let blocked = match state.set.operate(request, &mut woken) {
        RequestOutcome::Done => {
            state.wake(woken);
            state.operated_s = now_seconds();
            return Ok(());
        }
        RequestOutcome::Refused(refusal) => return Err(errno(refusal)),
        RequestOutcome::Blocked(blocked) => blocked,
    };
    let sleeper = Waiter::new();
    state.set.sleep(blocked, sleeper.clone());
    drop(state);
    let error = match sleeper.sleep(task, deadline) {
        Slept::Answered(answer) => return answer.map_err(errno),
        Slept::TimedOut => Errno::EAGAIN,
        Slept::Interrupted => Errno::EINTR,
    };
    let mut state = object.state.lock();
    match sleeper.take() {
        Some(answer) => answer.map_err(errno),
        None => {
            state.set.leave(&sleeper);
            Err(error)
        }
    }
}

impl SemaphoreSet {
    /// Locks its state, if `task` has the permission and the set was not removed meanwhile.
    fn usable(
        &self,
        task: &Task,
        wanted: u16,
        access: ObjectAccess,
    ) -> Result<MutexGuard<'_, SemaphoreState>, Errno> {
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
    fn number(&self, number: i32) -> Result<usize, Errno> {
        let number = usize::try_from(number).ok().filter(|number| *number < self.count);
        number.ok_or(Errno::EINVAL)
    }
    /// Returns its number of semaphores.
    pub fn count(&self) -> usize {
        self.count
    }
    /// Returns all values (GETALL).
    ///
    /// # Errors
    /// `EACCES`, `EIDRM`.
    pub fn values(&self, task: &Task) -> Result<Vec<u16>, Errno> {
        Ok(self.usable(task, READ, ObjectAccess::Read)?.set.values())
    }
    /// Checks that `task` may alter the set.
    ///
    /// # Errors
    /// `EACCES`, `EIDRM`.
    pub fn check_alter(&self, task: &Task) -> Result<(), Errno> {
        self.usable(task, WRITE, ObjectAccess::Write).map(drop)
    }
    /// Sets all values (SETALL).
    ///
    /// # Errors
    /// `EACCES`, `EIDRM`.
    pub fn set_values(&self, task: &Task, values: &[u16]) -> Result<(), Errno> {
        let mut state = self.usable(task, WRITE, ObjectAccess::Write)?;
        let mut woken = Vec::new();
        state.set.set_all(values, task.process.id(), &mut woken);
        state.changed_s = now_seconds();
        state.wake(woken);
        Ok(())
    }
    /// Sets a value, which is within the range of a semaphore (SETVAL).
    ///
    /// # Errors
    /// `EINVAL`, `EACCES`, `EIDRM`.
    pub fn set_value(&self, task: &Task, number: i32, value: i32) -> Result<(), Errno> {
        let number = self.number(number)?;
        let mut state = self.usable(task, WRITE, ObjectAccess::Write)?;
        let mut woken = Vec::new();
        state.set.set_value(number, value, task.process.id(), &mut woken);
        state.changed_s = now_seconds();
        state.wake(woken);
        Ok(())
    }
    /// Returns the result of `look` for a semaphore (GETVAL, GETPID, GETNCNT, GETZCNT).
    ///
    /// # Errors
    /// `EACCES`, `EINVAL`, `EIDRM`.
    pub fn look(
        &self,
        task: &Task,
        number: i32,
        look: impl FnOnce(&Set<SemaphoreSleeper>, usize) -> u64,
    ) -> Result<u64, Errno> {
        let state = self.usable(task, READ, ObjectAccess::Read)?;
        Ok(look(&state.set, self.number(number)?))
    }
    /// Returns the answer of IPC_STAT.
    pub fn report(&self) -> RawSet {
        let state = self.state.lock();
        RawSet {
            permission: RawPermission::new(self.id, self.key, &state.permission),
            operated_s: state.operated_s,
            changed_s: state.changed_s,
            count: self.count as u64,
            ..RawSet::default()
        }
    }
    /// Returns its identifier.
    pub fn id(&self) -> i32 {
        self.id
    }
}

/// Does IPC_RMID: removes the set, and wakes all calls that sleep for it.
///
/// # Errors
/// `EINVAL`, `EPERM`.
pub fn remove(id: i32, who: &Who) -> Result<(), Errno> {
    let object = SETS.controlled(id, who)?;
    let mut table = SETS.write();
    let removed = table.remove(id).ok_or(Errno::EIDRM)?;
    SEMAPHORES.fetch_sub(object.count as u64, Ordering::Relaxed);
    let mut state = object.state.lock();
    state.is_removed = true;
    let mut woken = Vec::new();
    state.set.remove(&mut woken);
    state.wake(woken);
    drop((state, table));
    drop(removed);
    Ok(())
}

/// Sets owner and permission bits (IPC_SET).
///
/// # Errors
/// `EINVAL`, `EPERM`, `EIDRM`.
pub fn set(id: i32, who: &Who, wanted: &RawPermission) -> Result<(), Errno> {
    let object = SETS.controlled(id, who)?;
    let mut state = object.state.lock();
    if state.is_removed {
        return Err(Errno::EIDRM);
    }
    wanted.apply(&mut state.permission)?;
    state.changed_s = now_seconds();
    Ok(())
}

impl UndoneSet for SemaphoreSet {
    fn undo(&self, list: u64, process: u32) {
        let mut state = self.state.lock();
        let mut woken = Vec::new();
        state.set.undo(list, process, &mut woken);
        state.operated_s = now_seconds();
        state.wake(woken);
    }
}
