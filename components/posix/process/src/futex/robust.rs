//! Robust futexes: locks that a dying task held are marked and their waiters woken.
//!
//! ```text
//! list head: 0 next  8 futex offset (signed)  16 list_op_pending
//! entry:     0 next; bit 0 of the pointer to an entry: a PI futex
//! ```
//! The list is the program's claim: it may be circular, long or wild. At most 2048 entries are
//! followed, and every word is accessed with faults tolerated. Source: get_robust_list(2), Linux
//! `Documentation/locking/robust-futex-ABI.rst`.
use super::{OWNER_DIED, TID_MASK, WAITERS, wake_shared};
use crate::task::Task;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use memory::AddressSpace;
use rt::user::Access;

const ENTRIES_MAX: usize = 2048;
const PI_BIT: u64 = 1;

/// Walks and forgets the list of `task`.
pub fn release_list(task: &Task) {
    let head = task.robust_list.swap(0, Ordering::Relaxed);
    if head == 0 {
        return;
    }
    let memory = task.memory();
    let (Some(first), Some(offset), Some(pending)) = (
        word(&memory, head),
        word(&memory, head.wrapping_add(8)),
        word(&memory, head.wrapping_add(16)),
    ) else {
        return;
    };
    let mut entry = first;
    for _ in 0..ENTRIES_MAX {
        let address = entry & !PI_BIT;
        if address == head {
            break;
        }
        let next = word(&memory, address);
        if address != pending & !PI_BIT
            && release(&memory, address.wrapping_add(offset), task.id()).is_none()
        {
            return;
        }
        match next {
            Some(next) => entry = next,
            None => return,
        }
    }
    if pending & !PI_BIT != 0 {
        let address = (pending & !PI_BIT).wrapping_add(offset);
        let _ = release(&memory, address, task.id());
        if pending & PI_BIT == 0 && memory.user().atomic_load(address) == Ok(0) {
            // The task may have released the lock and ended before it woke a waiter.
            let _ = wake_shared(&memory, address, 1);
        }
    }
}

fn word(memory: &AddressSpace, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    memory.read_bytes(address, &mut bytes).ok()?;
    Some(u64::from_le_bytes(bytes))
}

/// Marks the lock word at `address` if `owner` holds it, and wakes one waiter.
fn release(memory: &Arc<AddressSpace>, address: u64, owner: u32) -> Option<()> {
    if !address.is_multiple_of(4) {
        return None;
    }
    loop {
        let Ok(old) = memory.user().atomic_load(address) else {
            memory.fault(address, Access::Write).ok()?;
            continue;
        };
        if old & TID_MASK != owner {
            return Some(());
        }
        match memory.user().compare_exchange(address, old, old & WAITERS | OWNER_DIED) {
            Ok(found) if found == old => {
                if old & WAITERS != 0 {
                    let _ = wake_shared(memory, address, 1);
                }
                return Some(());
            }
            Ok(_) => {}
            Err(_) => {
                memory.fault(address, Access::Write).ok()?;
            }
        }
    }
}
