//! [`Set`]: a set of semaphores (Linux `ipc/sem.c`).
//!
//! A call's operations are done all or none. Operations that cannot be done yet sleep in queues: where no call with several
//! operations sleeps, each semaphore has a queue of its own for calls that take from it; else all that alter the set wait in
//! one. Calls that wait for zero have queues of their own. The order in which queues are looked at, and so the order in which
//! sleepers are served, is Linux's.
use super::Refusal;
use alloc::{
    collections::{BTreeMap, VecDeque},
    vec,
    vec::Vec,
};

/// The largest value of a semaphore (SEMVMX), and of an adjustment at a task's end.
pub const VALUE_MAX: i32 = 32_767;
/// Flag of an operation: IPC_NOWAIT.
pub const NO_WAIT: i16 = 0o4000;
/// Flag of an operation, SEM_UNDO: it is undone at the task's end.
pub const UNDO: i16 = 0x1000;

/// `struct sembuf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SemaphoreOperation {
    /// Number of the semaphore.
    pub number: u16,
    /// The number that is added; 0 waits for zero.
    pub change: i16,
    /// Flags: [`NO_WAIT`], [`UNDO`].
    pub flags: i16,
}

/// The operations of one call, with its process.
#[derive(Clone, Debug)]
pub struct Request {
    /// The operations; their semaphores are in the set.
    pub operations: Vec<SemaphoreOperation>,
    /// Id of the calling process.
    pub process: u32,
    /// The list that keeps the changes to be undone, if an operation asks for that ([`Set::prepare_undo`]).
    pub undo: Option<u64>,
}

impl Request {
    fn alters(&self) -> bool {
        self.operations.iter().any(|operation| operation.change != 0)
    }
}

/// The result of a request.
#[derive(Debug)]
pub enum RequestOutcome {
    /// The request was done.
    Done,
    /// The request has to wait; it is to be passed to [`Set::sleep`].
    Blocked(Blocked),
    /// The request was not done.
    Refused(Refusal),
}

/// A request that has to wait.
#[derive(Debug)]
pub struct Blocked {
    request: Request,
    /// The operation that cannot be done.
    at: usize,
}

#[derive(Debug)]
struct SemaphoreWaiter<W> {
    blocked: Blocked,
    waiter: W,
}

/// The waiters to be woken with their results, in the order in which they are to be woken.
pub type Woken<W> = Vec<(W, Result<(), Refusal>)>;

#[derive(Clone, Copy, Debug, Default)]
struct Semaphore {
    value: i32,
    /// The process that changed it last.
    process: u32,
}

#[derive(Debug)]
struct Queues<W> {
    /// Calls of one operation that takes from the semaphore.
    alter: VecDeque<SemaphoreWaiter<W>>,
    /// Calls of one operation that waits for zero.
    zero: VecDeque<SemaphoreWaiter<W>>,
}

/// The changes that one list undoes in the set, by semaphore.
type Adjustments = Vec<i16>;

/// A set of semaphores.
#[derive(Debug)]
pub struct Set<W> {
    semaphores: Vec<Semaphore>,
    queues: Vec<Queues<W>>,
    /// Calls that alter the set, while calls with several operations sleep.
    alter: VecDeque<SemaphoreWaiter<W>>,
    /// Calls with several operations that alter nothing.
    zero: VecDeque<SemaphoreWaiter<W>>,
    /// Number of sleeping calls with several operations.
    complex: usize,
    undo: BTreeMap<u64, Adjustments>,
}

/// Bytes of memory that a semaphore takes.
pub const SEMAPHORE_BYTES: usize = size_of::<Semaphore>() + size_of::<Queues<usize>>();

impl<W: PartialEq> Set<W> {
    /// Makes a set of `count` semaphores, all zero.
    pub fn new(count: usize) -> Set<W> {
        let queues = || Queues { alter: VecDeque::new(), zero: VecDeque::new() };
        Set {
            semaphores: vec![Semaphore::default(); count],
            queues: core::iter::repeat_with(queues).take(count).collect(),
            alter: VecDeque::new(),
            zero: VecDeque::new(),
            complex: 0,
            undo: BTreeMap::new(),
        }
    }
    /// Returns its number of semaphores.
    pub fn count(&self) -> usize {
        self.semaphores.len()
    }
    /// Returns the value of a semaphore of the set.
    pub fn value(&self, number: usize) -> i32 {
        self.semaphores.get(number).map_or(0, |semaphore| semaphore.value)
    }
    /// Returns all values.
    pub fn values(&self) -> Vec<u16> {
        self.semaphores.iter().map(|semaphore| semaphore.value as u16).collect()
    }
    /// Returns the id of the process that changed a semaphore last; 0 if there is none.
    pub fn process(&self, number: usize) -> u32 {
        self.semaphores.get(number).map_or(0, |semaphore| semaphore.process)
    }
    /// Returns whether the set has a place for the changes that list `list` undoes.
    pub fn has_undo(&self, list: u64) -> bool {
        self.undo.contains_key(&list)
    }
    /// Makes such a place.
    pub fn prepare_undo(&mut self, list: u64) {
        let count = self.count();
        self.undo.entry(list).or_insert_with(|| vec![0; count]);
    }

    /// Does a request, if that is possible now, and the sleeping calls that become possible by it.
    pub fn operate(&mut self, request: Request, woken: &mut Woken<W>) -> RequestOutcome {
        let mut blocked = Blocked { request, at: 0 };
        match perform(&mut self.semaphores, &mut self.undo, &mut blocked) {
            Attempt::Done => {}
            Attempt::Refused(refusal) => return RequestOutcome::Refused(refusal),
            Attempt::Blocks => return RequestOutcome::Blocked(blocked),
        }
        if blocked.request.alters() {
            self.update(Some(&blocked.request.operations), woken);
            self.settle();
        }
        RequestOutcome::Done
    }
    /// Makes a request wait until it can be done. Then `waiter` is woken.
    pub fn sleep(&mut self, blocked: Blocked, waiter: W) {
        let alters = blocked.request.alters();
        let simple = match blocked.request.operations.as_slice() {
            [only] => Some(usize::from(only.number)),
            _ => None,
        };
        let sleeper = SemaphoreWaiter { blocked, waiter };
        if simple.is_none() {
            if self.complex == 0 {
                self.merge();
            }
            self.complex += 1;
        }
        let own = simple.filter(|_| !alters || self.complex == 0);
        let queues = own.and_then(|number| self.queues.get_mut(number));
        let queue = match (queues, alters) {
            (Some(queues), true) => &mut queues.alter,
            (Some(queues), false) => &mut queues.zero,
            (None, true) => &mut self.alter,
            (None, false) => &mut self.zero,
        };
        queue.push_back(sleeper);
    }
    /// Removes a sleeping call that was interrupted. Returns `false` if it was served before.
    pub fn leave(&mut self, waiter: &W) -> bool {
        let Some(left) = self.take_out(waiter) else { return false };
        self.complex -= usize::from(left.blocked.request.operations.len() > 1);
        self.settle();
        true
    }
    fn take_out(&mut self, waiter: &W) -> Option<SemaphoreWaiter<W>> {
        let own = self.queues.iter_mut().flat_map(|queues| [&mut queues.alter, &mut queues.zero]);
        [&mut self.alter, &mut self.zero].into_iter().chain(own).find_map(|queue| {
            let at = queue.iter().position(|sleeper| sleeper.waiter == *waiter)?;
            queue.remove(at)
        })
    }
    /// Sets a value (SETVAL). The semaphore's adjustments for SEM_UNDO are dropped.
    pub fn set_value(&mut self, number: usize, value: i32, process: u32, woken: &mut Woken<W>) {
        for adjustments in self.undo.values_mut() {
            if let Some(adjustment) = adjustments.get_mut(number) {
                *adjustment = 0;
            }
        }
        if let Some(semaphore) = self.semaphores.get_mut(number) {
            *semaphore = Semaphore { value, process };
        }
        self.update(None, woken);
        self.settle();
    }
    /// Sets all values (SETALL). All adjustments for SEM_UNDO are dropped.
    pub fn set_all(&mut self, values: &[u16], process: u32, woken: &mut Woken<W>) {
        for (semaphore, value) in self.semaphores.iter_mut().zip(values) {
            *semaphore = Semaphore { value: i32::from(*value), process };
        }
        self.undo.values_mut().for_each(|adjustments| adjustments.fill(0));
        self.update(None, woken);
        self.settle();
    }
    /// Called when the last task of list `list` has ended, in `process`: undoes the changes in the list. Values stay in their
    /// range.
    pub fn undo(&mut self, list: u64, process: u32, woken: &mut Woken<W>) {
        let Some(adjustments) = self.undo.remove(&list) else { return };
        for (semaphore, adjustment) in self.semaphores.iter_mut().zip(adjustments) {
            if adjustment != 0 {
                semaphore.value = (semaphore.value + i32::from(adjustment)).clamp(0, VALUE_MAX);
                semaphore.process = process;
            }
        }
        self.update(None, woken);
        self.settle();
    }
    /// Called when the set is removed: wakes every sleeping call.
    pub fn remove(&mut self, woken: &mut Woken<W>) {
        let own = self.queues.iter_mut().flat_map(|queues| [&mut queues.zero, &mut queues.alter]);
        for queue in [&mut self.zero, &mut self.alter].into_iter().chain(own) {
            woken.extend(queue.drain(..).map(|sleeper| (sleeper.waiter, Err(Refusal::Removed))));
        }
        self.complex = 0;
        self.undo.clear();
    }
    /// Returns the number of calls that sleep until the semaphore grows (GETNCNT).
    pub fn waiting_to_take(&self, number: usize) -> usize {
        let own = self.queues.get(number).map_or(0, |queues| queues.alter.len());
        own + self.alter.iter().filter(|sleeper| sleeper.waits_for(number, Wish::Growth)).count()
    }
    /// Returns the number of calls that sleep until the semaphore is zero (GETZCNT).
    pub fn waiting_for_zero(&self, number: usize) -> usize {
        let own = self.queues.get(number).map_or(0, |queues| queues.zero.len());
        let all = self.alter.iter().chain(&self.zero);
        own + all.filter(|sleeper| sleeper.waits_for(number, Wish::Zero)).count()
    }

    /// Serves the sleeping calls that are possible, after `operations` were done, or after any change (`do_smart_update`).
    fn update(&mut self, operations: Option<&[SemaphoreOperation]>, woken: &mut Woken<W>) {
        self.serve_zero_waiters(operations, woken);
        if !self.alter.is_empty() {
            return self.serve_alterers(None, woken);
        }
        match operations {
            None => (0..self.count()).for_each(|number| self.serve_alterers(Some(number), woken)),
            Some(operations) => {
                for operation in operations.iter().filter(|operation| operation.change > 0) {
                    self.serve_alterers(Some(operation.number.into()), woken);
                }
            }
        }
    }
    /// Serves the calls that wait for zero (`do_smart_wakeup_zero`).
    fn serve_zero_waiters(
        &mut self,
        operations: Option<&[SemaphoreOperation]>,
        woken: &mut Woken<W>,
    ) {
        let mut has_zero = false;
        let mut look = |set: &mut Set<W>, number: usize| {
            if set.value(number) == 0 {
                has_zero = true;
                set.serve_constants(Some(number), woken);
            }
        };
        match operations {
            None => (0..self.count()).for_each(|number| look(self, number)),
            Some(operations) => {
                operations.iter().for_each(|operation| look(self, operation.number.into()));
            }
        }
        if has_zero {
            self.serve_constants(None, woken);
        }
    }
    /// Serves sleepers that alter nothing, of a semaphore's queue or of the set's (`wake_const_ops`).
    fn serve_constants(&mut self, number: Option<usize>, woken: &mut Woken<W>) {
        let queue = match number {
            None => &mut self.zero,
            Some(number) => match self.queues.get_mut(number) {
                Some(queues) => &mut queues.zero,
                None => return,
            },
        };
        let mut at = 0;
        while let Some(sleeper) = queue.get_mut(at) {
            let step = perform(&mut self.semaphores, &mut self.undo, &mut sleeper.blocked);
            let Some(answer) = step.answer() else {
                at += 1;
                continue;
            };
            if let Some(served) = queue.remove(at) {
                self.complex -= usize::from(served.blocked.request.operations.len() > 1);
                woken.push((served.waiter, answer));
            }
        }
    }
    /// Serves sleepers that alter the set, of a semaphore's queue or of the set's (`update_queue`).
    fn serve_alterers(&mut self, number: Option<usize>, woken: &mut Woken<W>) {
        let mut at = 0;
        // Nothing can be taken from a semaphore that is zero.
        while number.is_none_or(|number| self.value(number) != 0) {
            let queue = match number {
                None => &mut self.alter,
                Some(number) => match self.queues.get_mut(number) {
                    Some(queues) => &mut queues.alter,
                    None => return,
                },
            };
            let Some(sleeper) = queue.get_mut(at) else { return };
            let step = perform(&mut self.semaphores, &mut self.undo, &mut sleeper.blocked);
            let Some(answer) = step.answer() else {
                at += 1;
                continue;
            };
            let Some(served) = queue.remove(at) else { return };
            let operations = served.blocked.request.operations;
            self.complex -= usize::from(operations.len() > 1);
            if answer.is_ok() {
                self.serve_zero_waiters(Some(&operations), woken);
                // A call of one operation only takes: a call that was impossible before still is.
                if !self.alter.is_empty() || operations.len() > 1 {
                    at = 0;
                }
            }
            woken.push((served.waiter, answer));
        }
    }
    /// Called before a call with several operations sleeps: moves all calls that alter the set into one queue
    /// (`merge_queues`).
    fn merge(&mut self) {
        for queues in &mut self.queues {
            while let Some(sleeper) = queues.alter.pop_back() {
                self.alter.push_front(sleeper);
            }
        }
    }
    /// Moves calls back to the queue of their semaphore if no call with several operations sleeps any more
    /// (`unmerge_queues`).
    fn settle(&mut self) {
        if self.complex > 0 {
            return;
        }
        while let Some(sleeper) = self.alter.pop_front() {
            let first = sleeper.blocked.request.operations.first();
            let number = first.map_or(0, |operation| usize::from(operation.number));
            if let Some(queues) = self.queues.get_mut(number) {
                queues.alter.push_back(sleeper);
            }
        }
    }
}

/// The change of a semaphore that a sleeper waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    Growth,
    Zero,
}

impl<W> SemaphoreWaiter<W> {
    /// Returns whether the operation that cannot be done is one on semaphore `number` that waits for `wish`.
    fn waits_for(&self, number: usize, wish: Wish) -> bool {
        self.blocked.request.operations.get(self.blocked.at).is_some_and(|operation| {
            let is_of_kind = match wish {
                Wish::Growth => operation.change < 0,
                Wish::Zero => operation.change == 0,
            };
            usize::from(operation.number) == number && is_of_kind
        })
    }
}

/// The result of trying the operations of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    Done,
    Blocks,
    Refused(Refusal),
}

impl Attempt {
    /// Returns the answer that wakes a sleeping call; `None` if it continues to sleep.
    fn answer(self) -> Option<Result<(), Refusal>> {
        match self {
            Attempt::Done => Some(Ok(())),
            Attempt::Blocks => None,
            Attempt::Refused(refusal) => Some(Err(refusal)),
        }
    }
}

/// Does all operations or none (`perform_atomic_semop`). They are done one after the other, each on the values after the
/// previous ones; if one is impossible, the previous ones are undone.
fn perform(
    semaphores: &mut [Semaphore],
    undo: &mut BTreeMap<u64, Adjustments>,
    blocked: &mut Blocked,
) -> Attempt {
    let Blocked { request, at } = blocked;
    let mut adjustments = request.undo.and_then(|list| undo.get_mut(&list));
    for (index, operation) in request.operations.iter().enumerate() {
        let step = apply(semaphores, adjustments.as_deref_mut(), operation);
        if step == Attempt::Done {
            continue;
        }
        *at = index;
        for done in request.operations.iter().take(index) {
            take_back(semaphores, adjustments.as_deref_mut(), done);
        }
        let may_wait = operation.flags & NO_WAIT == 0;
        return if step == Attempt::Blocks && !may_wait {
            Attempt::Refused(Refusal::WouldBlock)
        } else {
            step
        };
    }
    for operation in &request.operations {
        if let Some(semaphore) = semaphores.get_mut(usize::from(operation.number)) {
            semaphore.process = request.process;
        }
    }
    Attempt::Done
}

fn apply(
    semaphores: &mut [Semaphore],
    adjustments: Option<&mut Adjustments>,
    operation: &SemaphoreOperation,
) -> Attempt {
    let number = usize::from(operation.number);
    let Some(semaphore) = semaphores.get_mut(number) else { return Attempt::Blocks };
    let value = semaphore.value + i32::from(operation.change);
    if operation.change == 0 && value != 0 || value < 0 {
        return Attempt::Blocks;
    }
    if value > VALUE_MAX {
        return Attempt::Refused(Refusal::OutOfRange);
    }
    if operation.flags & UNDO != 0
        && let Some(adjustment) = adjustments.and_then(|all| all.get_mut(number))
    {
        match adjustment.checked_sub(operation.change) {
            Some(sum) => *adjustment = sum,
            None => return Attempt::Refused(Refusal::OutOfRange),
        }
    }
    semaphore.value = value;
    Attempt::Done
}

fn take_back(
    semaphores: &mut [Semaphore],
    adjustments: Option<&mut Adjustments>,
    operation: &SemaphoreOperation,
) {
    let number = usize::from(operation.number);
    if let Some(semaphore) = semaphores.get_mut(number) {
        semaphore.value -= i32::from(operation.change);
    }
    if operation.flags & UNDO != 0
        && let Some(adjustment) = adjustments.and_then(|all| all.get_mut(number))
    {
        *adjustment = adjustment.wrapping_add(operation.change);
    }
}

#[cfg(test)]
mod tests;
