//! Threads of the host world: `std` threads with a parking table.
//!
//! Every thread that asks for its number has a [`Control`] in the table until it ends; test threads
//! enter it when they first ask. Futex waiters are in hashed buckets. Lock order: bucket, then
//! `Control::state`.
use super::{control, time::host_instant};
pub(crate) use crate::ring::handle_by_thread as set_handler;
use crate::{
    NoMemory,
    thread::{CpuTime, Policy, Woken},
};
use std::{
    cell::OnceCell,
    collections::HashMap,
    sync::{
        Arc, Condvar, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering::*},
    },
};

#[derive(Debug, Default)]
struct ThreadState {
    has_token: bool,
    is_kicked: bool,
    is_woken: bool,
}

#[derive(Debug)]
struct Control {
    id: u64,
    state: Mutex<ThreadState>,
    changed: Condvar,
}

struct Waiter {
    address: usize,
    thread: Arc<Control>,
}

/// A guard that takes the thread out of the table when it ends.
struct Registration(Arc<Control>);

static NEXT_ID: AtomicU64 = AtomicU64::new(1);
static THREADS: LazyLock<Mutex<HashMap<u64, Arc<Control>>>> = LazyLock::new(Default::default);
const BUCKETS: usize = 64;
static WAITERS: [Mutex<Vec<Waiter>>; BUCKETS] = [const { Mutex::new(Vec::new()) }; BUCKETS];

thread_local! {
    static CURRENT: OnceCell<Registration> = const { OnceCell::new() };
}

/// Locks a std mutex, also after a test panicked with it held: that must not stop the others.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits on a std condition variable until `deadline_ns`. Returns `false` if the deadline has
/// passed.
pub(crate) fn wait<'a, T>(
    changed: &Condvar,
    guard: MutexGuard<'a, T>,
    deadline_ns: Option<u64>,
) -> (MutexGuard<'a, T>, bool) {
    let Some(deadline_ns) = deadline_ns else {
        return (changed.wait(guard).unwrap_or_else(PoisonError::into_inner), true);
    };
    let left = host_instant(deadline_ns).saturating_duration_since(std::time::Instant::now());
    if left.is_zero() {
        return (guard, false);
    }
    (changed.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0, true)
}

impl Registration {
    fn enter() -> Registration {
        let id = NEXT_ID.fetch_add(1, Relaxed);
        let control = Arc::new(Control { id, state: Mutex::default(), changed: Condvar::new() });
        lock(&THREADS).insert(id, control.clone());
        Registration(control)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        lock(&THREADS).remove(&self.0.id);
    }
}

impl Control {
    /// Blocks until `is_done` consumes the awaited event, a kick comes, or the deadline passes.
    fn block(
        &self,
        deadline_ns: Option<u64>,
        sleep: sync::Sleep,
        mut is_done: impl FnMut(&mut ThreadState) -> bool,
    ) -> Woken {
        let mut state = lock(&self.state);
        loop {
            if is_done(&mut state) {
                return Woken::Signalled;
            }
            if sleep == sync::Sleep::Interruptible && std::mem::take(&mut state.is_kicked) {
                return Woken::Kicked;
            }
            let is_early;
            (state, is_early) = wait(&self.changed, state, deadline_ns);
            if !is_early {
                return if is_done(&mut state) { Woken::Signalled } else { Woken::TimedOut };
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut ThreadState)) {
        change(&mut lock(&self.state));
        self.changed.notify_all();
    }
}

fn current_control() -> Arc<Control> {
    CURRENT.with(|cell| cell.get_or_init(Registration::enter).0.clone())
}

fn find(thread: u64) -> Option<Arc<Control>> {
    lock(&THREADS).get(&thread).cloned()
}

fn bucket(address: usize) -> &'static Mutex<Vec<Waiter>> {
    &WAITERS[(address >> 2) % BUCKETS]
}

/// Number of threads in the table that have not ended.
pub(crate) fn count() -> usize {
    lock(&THREADS).len()
}

pub(crate) fn spawn(
    name: &str,
    _policy: Policy,
    body: Box<Box<dyn FnOnce() + Send>>,
) -> Result<u64, NoMemory> {
    super::memory::may_allocate()?;
    let (sender, receiver) = std::sync::mpsc::channel();
    let (inherited, life) = (control::program(), control::life());
    let component = control::component();
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        control::inherit_program(inherited);
        control::set_life(life);
        control::inherit_component(component);
        let _ = sender.send(current());
        body();
    });
    started.map_err(|_| NoMemory)?;
    receiver.recv().map_err(|_| NoMemory)
}

pub(crate) fn current() -> u64 {
    CURRENT.with(|cell| cell.get_or_init(Registration::enter).0.id)
}

pub(crate) fn yield_now() {
    std::thread::yield_now();
}

pub(crate) fn park(deadline_ns: Option<u64>, sleep: sync::Sleep) -> Woken {
    let take_token = |state: &mut ThreadState| std::mem::take(&mut state.has_token);
    current_control().block(deadline_ns, sleep, take_token)
}

pub(crate) fn unpark(thread: u64) {
    if let Some(control) = find(thread) {
        control.change(|state| state.has_token = true);
    }
}

pub(crate) fn kick(thread: u64) {
    if let Some(control) = find(thread) {
        control.change(|state| state.is_kicked = true);
    }
}

pub(crate) fn take_kick() -> bool {
    std::mem::take(&mut lock(&current_control().state).is_kicked)
}

pub(crate) fn wait_on(
    word: &AtomicU32,
    expected: u32,
    deadline_ns: Option<u64>,
    sleep: sync::Sleep,
) -> Woken {
    let thread = current_control();
    let address = std::ptr::from_ref(word).addr();
    {
        let mut waiters = lock(bucket(address));
        if word.load(SeqCst) != expected {
            return Woken::Signalled;
        }
        lock(&thread.state).is_woken = false;
        waiters.push(Waiter { address, thread: thread.clone() });
    }
    let woken = thread.block(deadline_ns, sleep, |state| state.is_woken);
    if woken == Woken::Signalled {
        return woken;
    }
    let mut waiters = lock(bucket(address));
    let ours = waiters.iter().position(|waiter| waiter.thread.id == thread.id);
    match ours {
        Some(position) => {
            waiters.remove(position);
            woken
        }
        None => {
            // The thread was woken at the last moment: the wake-up counts, and a kick is kept for
            // the next wait.
            if woken == Woken::Kicked {
                lock(&thread.state).is_kicked = true;
            }
            Woken::Signalled
        }
    }
}

pub(crate) fn wake(word: &AtomicU32, count: u32) -> u32 {
    let address = std::ptr::from_ref(word).addr();
    let mut waiters = lock(bucket(address));
    let mut woken = 0;
    waiters.retain(|waiter| {
        if waiter.address != address || woken == count {
            return true;
        }
        waiter.thread.change(|state| state.is_woken = true);
        woken += 1;
        false
    });
    woken
}

pub(crate) fn set_policy(_thread: u64, _policy: Policy) {}

pub(crate) fn set_affinity(_thread: u64, affinity: u64) -> bool {
    let present = u64::MAX >> (64 - processors().0.clamp(1, 64));
    affinity & present != 0
}

pub(crate) fn cpu_time(thread: u64) -> Option<CpuTime> {
    find(thread).map(|_| CpuTime::default())
}

pub(crate) fn processors() -> (usize, usize) {
    // The answer takes several system calls, and a component may ask in each of its calls.
    static COUNT: OnceLock<usize> = OnceLock::new();
    let count = || std::thread::available_parallelism().map_or(1, usize::from);
    (*COUNT.get_or_init(count), 0)
}

#[cfg(feature = "check")]
pub(crate) fn held_locks(visit: &mut dyn FnMut(&mut sync::check::HeldLocks)) {
    use std::cell::RefCell;
    thread_local! {
        static HELD: RefCell<sync::check::HeldLocks> = const { RefCell::new(sync::check::HeldLocks::new()) };
    }
    HELD.with(|held| visit(&mut held.borrow_mut()));
}
