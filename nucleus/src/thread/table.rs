//! The table of threads by number. Numbers are handles of the table, so they are never reused.
use super::Thread;
use crate::spin::SpinLock;
use alloc::sync::Arc;

static TABLE: SpinLock<ipc::Table<Arc<Thread>>> =
    SpinLock::new(class!("nucleus.threads"), ipc::Table::new(65535));

/// Enters the thread that `make` makes for its number. Returns `None` if the table is full.
pub fn insert(make: impl FnOnce(u64) -> Arc<Thread>) -> Option<Arc<Thread>> {
    let number = TABLE.lock().reserve()?;
    let thread = make(number);
    TABLE.lock().fill(number, thread.clone());
    Some(thread)
}

/// Returns the thread `number`, if it has not ended.
pub fn find(number: u64) -> Option<Arc<Thread>> {
    TABLE.lock().get(number).cloned()
}

/// Visits every thread that is there when its slot is looked at.
pub fn all() -> impl Iterator<Item = Arc<Thread>> {
    let mut slot = 0;
    core::iter::from_fn(move || {
        let mut table = TABLE.lock();
        let (_, thread, after) = table.next(slot)?;
        slot = after;
        Some(thread.clone())
    })
}

/// Removes the thread `number`.
pub fn remove(number: u64) {
    let thread = TABLE.lock().remove(number);
    drop(thread);
}
