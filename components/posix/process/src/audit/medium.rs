//! The way of records to the audit writer's medium, as the backlog and the writer's client see it. The client takes records that no daemon
//! takes ([`super::backlog::take_for_medium`]), and keeps them in memory until they are on the medium.
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use rt::{
    sync::{Event, Ticket},
    time::Instant,
};
use vfs::poll::WaitQueue;

/// The writer takes records.
static IS_OPEN: AtomicBool = AtomicBool::new(false);
/// Tasks wait until their records are on the medium.
static IS_SYNCHRONOUS: AtomicBool = AtomicBool::new(false);
/// Records that the writer has, and that are not yet on the medium. Changed under the lock of the backlog, as [`GONE`].
static TAKEN: AtomicU64 = AtomicU64::new(0);
/// Records that are on the medium, or that a daemon has.
static GONE: AtomicU64 = AtomicU64::new(0);
/// Tells the writer's client of records.
static NEWS: Event = Event::new();
/// Tells of records that are on the medium.
static WRITTEN: WaitQueue = WaitQueue::new();
/// Opens the way.
pub fn open() {
    IS_OPEN.store(true, Ordering::Release);
}

/// Closes the way: records stay in the backlog, as without a writer.
pub fn close() {
    IS_OPEN.store(false, Ordering::Release);
    WRITTEN.wake();
}

/// Returns whether the writer takes records.
pub fn is_open() -> bool {
    IS_OPEN.load(Ordering::Acquire)
}

/// Sets whether tasks wait until their records are on the medium.
pub fn set_synchronous(is_synchronous: bool) {
    IS_SYNCHRONOUS.store(is_synchronous, Ordering::Relaxed);
    WRITTEN.wake();
}

/// Returns whether that is set.
pub fn is_set_synchronous() -> bool {
    IS_SYNCHRONOUS.load(Ordering::Relaxed)
}

/// Returns whether that is set, and the way is open.
pub(super) fn is_synchronous() -> bool {
    is_set_synchronous() && is_open()
}

/// Tells the writer's client that there is work.
pub fn tell() {
    NEWS.signal();
}

/// Returns a ticket, which must be taken before work is looked for.
pub fn ticket() -> Ticket {
    NEWS.ticket()
}

/// Waits for work.
pub fn wait(ticket: Ticket, deadline: Option<Instant>) {
    NEWS.wait(ticket, deadline);
}

/// Hears that the client took records. The lock of the backlog is held.
pub(super) fn taken(count: usize) {
    TAKEN.fetch_add(count as u64, Ordering::Relaxed);
}

/// Hears that so many records that were taken are on the medium. The lock of the backlog is held.
pub(super) fn written(count: usize) {
    TAKEN.fetch_sub(count as u64, Ordering::Relaxed);
    GONE.fetch_add(count as u64, Ordering::Relaxed);
    WRITTEN.wake();
}

/// Hears that a daemon has taken a record. The lock of the backlog is held.
pub(super) fn received() {
    GONE.fetch_add(1, Ordering::Relaxed);
    WRITTEN.wake();
}

/// Hears that a record which a daemon has taken waits again. The lock of the backlog is held.
pub(super) fn returned() {
    GONE.fetch_sub(1, Ordering::Relaxed);
}

/// Returns the number of records that are gone when the present ones are, with so many in the backlog, whose lock is held.
pub(super) fn target(waiting: usize) -> u64 {
    let here = TAKEN.load(Ordering::Relaxed) + waiting as u64;
    GONE.load(Ordering::Relaxed) + here
}

/// Waits until so many records are gone, or the way is closed.
pub(super) fn wait_for(target: u64, is_given_up: impl Fn() -> bool, deadline: Option<Instant>) {
    loop {
        let ticket = WRITTEN.ticket();
        if GONE.load(Ordering::Relaxed) >= target || !is_open() || is_given_up() {
            return;
        }
        WRITTEN.wait(ticket, deadline);
    }
}
