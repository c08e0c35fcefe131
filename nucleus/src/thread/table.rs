//! Threads by number: a slot in the low 16 bits, above it how often the slot was used, so that
//! numbers are never reused.
use super::Thread;
use crate::spin::SpinLock;
use alloc::{sync::Arc, vec::Vec};
use sync::class::LockClass;

const MOST: usize = 1 << 16;

#[derive(Debug)]
struct Slot {
    uses: u64,
    thread: Option<Arc<Thread>>,
}

#[derive(Debug)]
struct Table {
    slots: Vec<Slot>,
    free: Vec<u16>,
}

static CLASS: LockClass = LockClass::new("nucleus.threads");
static TABLE: SpinLock<Table> =
    SpinLock::new(&CLASS, Table { slots: Vec::new(), free: Vec::new() });

/// Puts in the thread that `make` makes of its number; `None` where the table is full.
pub fn insert(make: impl FnOnce(u64) -> Arc<Thread>) -> Option<Arc<Thread>> {
    let (index, uses) = {
        let mut table = TABLE.lock();
        let index = match table.free.pop() {
            Some(index) => index,
            None => {
                let index = u16::try_from(table.slots.len())
                    .ok()
                    .filter(|&index| usize::from(index) < MOST - 1)?;
                table.slots.push(Slot { uses: 0, thread: None });
                index
            }
        };
        let slot = &mut table.slots[usize::from(index)];
        slot.uses += 1;
        (index, slot.uses)
    };
    let thread = make(uses << 16 | u64::from(index));
    TABLE.lock().slots[usize::from(index)].thread = Some(thread.clone());
    Some(thread)
}

/// The thread `number`, if it has not ended.
pub fn find(number: u64) -> Option<Arc<Thread>> {
    let table = TABLE.lock();
    let slot = table.slots.get(number as usize & 0xffff)?;
    (slot.uses == number >> 16).then(|| slot.thread.clone())?
}

/// The first thread in a slot from `slot` on, and the slot after it.
pub fn next(slot: usize) -> Option<(Arc<Thread>, usize)> {
    let table = TABLE.lock();
    let rest = table.slots.iter().enumerate().skip(slot);
    rest.filter_map(|(at, slot)| Some((slot.thread.clone()?, at + 1))).next()
}

/// Takes the thread `number` out.
pub fn remove(number: u64) {
    let index = number as u16;
    let thread = {
        let mut table = TABLE.lock();
        let thread = table.slots[usize::from(index)].thread.take();
        table.free.push(index);
        thread
    };
    drop(thread);
}
