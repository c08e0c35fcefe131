//! Controls of the host world for tests: devices, refusals of memory, and the program that "runs".
//!
//! The program and the attached pools (inherited by threads that a thread spawns) and counted refusals are kept per thread. Limits, the command
//! line and devices are shared by all threads.
pub use super::device_control::*;
use super::{device::DmaHandle, memory::PoolRun, thread::lock};
use crate::user::{Context, Space, Trap};
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// A function that takes the place of the processor in user mode: it changes the registers and memory and returns the trap.
pub type Program = Arc<dyn Fn(&mut Context, &Space) -> Trap + Send + Sync>;
/// Pools attached by the threads of a component: a thread without a parent in rt, and those that it spawns.
type Attached = Mutex<Vec<Arc<PoolRun>>>;
/// One trace record.
pub type TraceRecord = (&'static str, u64, u64);

const TRACE_RECORDS: usize = 256;

static FRAME_LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
static CHARGE_LIMIT_BYTES: AtomicUsize = AtomicUsize::new(usize::MAX);
static COMMAND_LINE: Mutex<&'static str> = Mutex::new("");

thread_local! {
    static PROGRAM: RefCell<Option<Program>> = const { RefCell::new(None) };
    /// Number of allocations that will still succeed; `None` if all will.
    static GRANTS: Cell<Option<usize>> = const { Cell::new(None) };
    /// The same for allocations of threads that may not use the reserve.
    static PLAIN_GRANTS: Cell<Option<usize>> = const { Cell::new(None) };
    static USES_RESERVE: Cell<bool> = const { Cell::new(false) };
    static KEPT: RefCell<Option<DmaHandle>> = const { RefCell::new(None) };
    static LIFE: RefCell<Option<Arc<Life>>> = const { RefCell::new(None) };
    /// Pools that the thread's component has attached.
    static ATTACHED: RefCell<Arc<Attached>> = RefCell::default();
    static SEEDS: RefCell<Vec<[u64; 4]>> = const { RefCell::new(Vec::new()) };
    static TRACE: RefCell<VecDeque<TraceRecord>> = const { RefCell::new(VecDeque::new()) };
}

/// The number of steps that a driver has left. Steps are stores to memory shared with its device, accesses of ports, stores
/// to registers, and calls of [`lives`]. With no step left the driver is dead, and its threads have no effect any more.
#[derive(Debug)]
pub struct Life(AtomicUsize);

impl Life {
    /// Makes a life of `steps` steps.
    pub fn of(steps: usize) -> Arc<Life> {
        Arc::new(Life(AtomicUsize::new(steps)))
    }
    /// Returns whether no steps are left.
    pub fn is_over(&self) -> bool {
        self.0.load(Relaxed) == 0
    }
}

/// Makes the calling thread, and those that it spawns from now on, threads of a driver with this life.
pub fn set_life(life: Option<Arc<Life>>) {
    LIFE.set(life);
}

/// Takes a step of the calling thread's life. Returns `false` if no step is left. A thread without a life has no limit.
pub fn lives() -> bool {
    // A thread that is ending has no life any more, and the objects that it drops are not a driver's.
    let life = LIFE.try_with(|life| life.borrow().clone()).ok().flatten();
    let step = |left: usize| left.checked_sub(1);
    life.is_none_or(|life| life.0.fetch_update(Relaxed, Relaxed, step).is_ok())
}

pub(super) fn life() -> Option<Arc<Life>> {
    LIFE.with_borrow(Clone::clone)
}

/// Sets the buffer that [`crate::device::kept`] returns on this thread.
pub fn set_kept(kept: Option<&crate::device::DmaBuffer>) {
    KEPT.set(kept.map(|kept| DmaHandle::clone(&kept.memory)));
}

pub(super) fn kept() -> Option<DmaHandle> {
    KEPT.with_borrow(Clone::clone)
}

/// Ends the calls that servers received at `endpoint` and did not answer, as their death would.
pub fn end_server(endpoint: &crate::message::Endpoint) {
    super::message::end_server(&endpoint.0);
}

/// Sets the function that [`Context::run`] calls on this thread and on threads that it spawns from now on.
pub fn set_program(program: impl Fn(&mut Context, &Space) -> Trap + Send + Sync + 'static) {
    PROGRAM.set(Some(Arc::new(program)));
}

pub(super) fn program() -> Option<Program> {
    PROGRAM.with_borrow(Clone::clone)
}

pub(super) fn inherit_program(program: Option<Program>) {
    PROGRAM.set(program);
}

/// Attaches the pool of `run` to the calling thread's component.
pub(super) fn attach(run: Arc<PoolRun>) {
    let attached = component();
    let mut all = lock(&attached);
    if !all.iter().any(|other| Arc::ptr_eq(other, &run)) {
        all.push(run);
    }
}

/// Forgets the pools attached by the calling thread's component ([`crate::memory::attach_pool`]).
pub fn detach_pools() {
    lock(&component()).clear();
}

/// Returns the pools attached to the calling thread's component.
pub(super) fn attached() -> Vec<Arc<PoolRun>> {
    lock(&component()).clone()
}

/// Returns whether a pool attached to the calling thread's component has `frame`.
pub(super) fn is_attached(frame: u32) -> bool {
    lock(&component()).iter().any(|run| run.has(frame))
}

pub(super) fn component() -> Arc<Attached> {
    ATTACHED.with_borrow(Arc::clone)
}

pub(super) fn inherit_component(component: Arc<Attached>) {
    ATTACHED.set(component);
}

/// Lets `count` allocations and charges of this thread succeed, and refuses all later ones; `None` refuses none.
pub fn refuse_after(count: Option<usize>) {
    GRANTS.set(count);
}

/// Refuses allocations as [`refuse_after`] does, but only those made outside [`crate::memory::with_reserve`]: the reserve
/// has no limit.
pub fn refuse_plain_after(count: Option<usize>) {
    PLAIN_GRANTS.set(count);
}

pub(super) fn is_refused() -> bool {
    let is_refused = |grants: &Cell<Option<usize>>| match grants.get() {
        None => false,
        Some(0) => true,
        Some(left) => {
            grants.set(Some(left - 1));
            false
        }
    };
    GRANTS.with(is_refused) || !USES_RESERVE.get() && PLAIN_GRANTS.with(is_refused)
}

/// Returns whether the thread's next allocation is refused.
pub(super) fn refuses() -> bool {
    GRANTS.get() == Some(0) || !USES_RESERVE.get() && PLAIN_GRANTS.get() == Some(0)
}

/// Lets the thread use the reserve. Returns whether it could before.
pub(super) fn use_reserve() -> bool {
    USES_RESERVE.replace(true)
}

pub(super) fn leave_reserve() {
    USES_RESERVE.set(false);
}

/// Limits the frames of the pool of the whole process, which other tests use at the same time.
pub fn set_frame_limit(frames: usize) {
    FRAME_LIMIT.store(frames, Relaxed);
}

pub(super) fn frame_limit() -> usize {
    FRAME_LIMIT.load(Relaxed)
}

/// Limits the charges of the whole process.
pub fn set_charge_limit_bytes(bytes: usize) {
    CHARGE_LIMIT_BYTES.store(bytes, Relaxed);
}

pub(super) fn charge_limit_bytes() -> usize {
    CHARGE_LIMIT_BYTES.load(Relaxed)
}

/// Sets the kernel command line.
pub fn set_command_line(line: &str) {
    *lock(&COMMAND_LINE) = Box::leak(line.to_owned().into_boxed_str());
}

pub(super) fn command_line() -> &'static str {
    *lock(&COMMAND_LINE)
}

pub(super) fn keep_seed(seed: [u64; 4]) {
    SEEDS.with_borrow_mut(|seeds| seeds.push(seed));
}

/// Returns the seeds that this thread added ([`crate::entropy::add`]), in order.
pub fn seeds() -> Vec<[u64; 4]> {
    SEEDS.with_borrow(Clone::clone)
}

pub(super) fn keep_trace(record: TraceRecord) {
    TRACE.with_borrow_mut(|records| {
        records.truncate(TRACE_RECORDS - 1);
        records.push_front(record);
    });
}

/// Returns the last trace records of this thread, newest first.
pub fn trace_records() -> Vec<TraceRecord> {
    TRACE.with_borrow(|records| records.iter().copied().collect())
}
