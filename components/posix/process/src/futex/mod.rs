//! Futexes: waiting for words of user memory.
//!
//! A waiter is in the hash bucket of its key. The word is loaded under the bucket's lock, so a wake after a change
//! of the word is never missed; after a page fault there the lock is released, the page is brought in, and the step
//! is done again. A private key is an address in an address space, whether it is mapped or not. A shared one is a
//! place in the object mapped there, or an address of the program's private memory; it must be mapped.
//!
//! Locks: `futex.bucket`; requeue takes two, the lower index first. Source: futex(2).
pub mod inherit;
pub mod robust;
mod table;
mod vector;

use alloc::sync::Arc;
use memory::AddressSpace;
use rt::{thread::Woken, time::Instant, user::Access};
use table::{FutexKeyKind, FutexWaiter, pair};
use vfs::{Errno, file::Mappable};

pub use table::{FutexKey, shrink};
pub use vector::{VECTOR_MAX, WantedWord, wait_for_any};

/// Matches every waiter and every waker.
pub const ANY: u32 = u32::MAX;

/// Bit of a lock word (of a robust or priority-inheriting lock): a thread waits.
const WAITERS: u32 = 0x8000_0000;
/// Bit of a lock word: its owner ended while it had the lock.
const OWNER_DIED: u32 = 0x4000_0000;
/// Bits of a lock word: the owner's thread id.
const TID_MASK: u32 = 0x3fff_ffff;

/// Tells whether other address spaces may wait for the same word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// FUTEX_PRIVATE_FLAG.
    Private,
    /// FUTEX_PRIVATE_FLAG is not set.
    Shared,
}

/// Returns the key of the word at `address`, which is to be accessed as `access` says.
///
/// # Errors
/// `EINVAL` for a misaligned address, `EFAULT` for one outside the range of programs; for a shared word, also for
/// one that is not mapped.
#[inline]
pub fn key(
    memory: &Arc<AddressSpace>,
    address: u64,
    scope: Scope,
    access: Access,
) -> Result<FutexKey, Errno> {
    if scope == Scope::Private {
        check_address(address)?;
        return Ok(own_key(memory, address, FutexKeyKind::Private));
    }
    Ok(key_and(memory, address, scope, access, |_| ())?.0)
}

#[inline]
fn check_address(address: u64) -> Result<(), Errno> {
    const WORD_BYTES: u64 = 4;
    if !address.is_multiple_of(WORD_BYTES) {
        return Err(Errno::EINVAL);
    }
    if address < rt::user::USER_END { Ok(()) } else { Err(Errno::EFAULT) }
}

#[inline]
fn own_key(memory: &Arc<AddressSpace>, address: u64, kind: FutexKeyKind) -> FutexKey {
    FutexKey { object: Arc::as_ptr(memory) as usize, offset: address, kind }
}

/// Does the same as [`key`] for a word to be written, and returns the object mapped there: while it is held its
/// number cannot be another object's.
fn held_key(
    memory: &Arc<AddressSpace>,
    address: u64,
    scope: Scope,
) -> Result<(FutexKey, Option<Arc<dyn Mappable>>), Errno> {
    key_and(memory, address, scope, Access::Write, Arc::clone)
}

/// Returns the key, and the result of `take` for the object that has the word.
fn key_and<T>(
    memory: &Arc<AddressSpace>,
    address: u64,
    scope: Scope,
    access: Access,
    take: impl FnOnce(&Arc<dyn Mappable>) -> T,
) -> Result<(FutexKey, Option<T>), Errno> {
    check_address(address)?;
    if scope == Scope::Private {
        return Ok((own_key(memory, address, FutexKeyKind::Private), None));
    }
    let in_object = |object: &Arc<dyn Mappable>, offset| {
        let key =
            FutexKey { object: Arc::as_ptr(object).addr(), offset, kind: FutexKeyKind::Object };
        (key, Some(take(object)))
    };
    let Some(found) = memory.shared_place(address, access, in_object)? else {
        return Ok((own_key(memory, address, FutexKeyKind::Own), None));
    };
    // The object may end before that.
    if memory.user().atomic_load(address).is_err() {
        memory.fault(address, Access::Read).map_err(|_| Errno::EFAULT)?;
    }
    Ok(found)
}

/// Waits while the word is `expected`, until a wake whose bit set has a bit in common with `set`.
///
/// # Errors
/// `EAGAIN` if the word differs, `ETIMEDOUT`, `EFAULT`, `EINVAL`, `RestartUnhandled` when interrupted.
pub fn wait(
    memory: &Arc<AddressSpace>,
    (address, scope): (u64, Scope),
    expected: u32,
    set: u32,
    deadline: Option<Instant>,
) -> Result<(), Errno> {
    if set == 0 {
        return Err(Errno::EINVAL);
    }
    let key = key(memory, address, scope, Access::Read)?;
    let waiter =
        enqueue(memory, (address, &key), expected, || Arc::new(FutexWaiter::new(key, set)))?;
    let event = waiter.event();
    loop {
        let ticket = event.ticket();
        if waiter.is_woken() {
            return Ok(());
        }
        match event.wait_interruptible(ticket, deadline) {
            Woken::Signalled => {}
            Woken::TimedOut if table::leave(&waiter) => return Err(Errno::ETIMEDOUT),
            Woken::Kicked if table::leave(&waiter) => return Err(Errno::RestartUnhandled),
            Woken::TimedOut | Woken::Kicked => return Ok(()),
        }
    }
}

/// Puts the waiter that `make` makes into the bucket of its key, if the word is `expected`.
fn enqueue(
    memory: &AddressSpace,
    (address, key): (u64, &FutexKey),
    expected: u32,
    make: impl Fn() -> Arc<FutexWaiter>,
) -> Result<Arc<FutexWaiter>, Errno> {
    loop {
        let mut bucket = table::bucket(key).lock();
        match memory.user().atomic_load(address) {
            Ok(found) if found != expected => return Err(Errno::EAGAIN),
            Ok(_) => {
                let waiter = make();
                bucket.push(waiter.clone());
                return Ok(waiter);
            }
            Err(_) => {
                drop(bucket);
                memory.fault(address, Access::Read).map_err(|_| Errno::EFAULT)?;
            }
        }
    }
}

/// Wakes at most `count` waiters whose bit set has a bit in common with `set`. Returns their number.
///
/// # Errors
/// `EINVAL`, `EFAULT` for the address.
#[inline]
pub fn wake(
    memory: &Arc<AddressSpace>,
    address: u64,
    scope: Scope,
    count: u32,
    set: u32,
) -> Result<u32, Errno> {
    if set == 0 {
        return Err(Errno::EINVAL);
    }
    let key = key(memory, address, scope, Access::Read)?;
    Ok(table::wake(&mut table::bucket(&key).lock(), &key, count, set))
}

/// Does the same as [`wake`] for any waiter of a shared word.
///
/// # Errors
/// Those of [`wake`].
pub fn wake_shared(memory: &Arc<AddressSpace>, address: u64, count: u32) -> Result<u32, Errno> {
    wake(memory, address, Scope::Shared, count, ANY)
}

/// The arguments of FUTEX_REQUEUE and FUTEX_CMP_REQUEUE.
#[derive(Clone, Copy, Debug)]
pub struct Requeue {
    /// Greatest number of waiters to wake.
    pub wake: u32,
    /// Greatest number of waiters to move to the second word.
    pub requeue: u32,
    /// The value that the first word must have, if any.
    pub expected: Option<u32>,
}

/// Wakes some waiters of `from` and moves others to `to`. Returns the numbers of woken and moved ones.
///
/// # Errors
/// `EAGAIN` if the word differs; `EFAULT`, `EINVAL` for the addresses.
pub fn requeue(
    memory: &Arc<AddressSpace>,
    from: u64,
    to: u64,
    scope: Scope,
    request: Requeue,
) -> Result<(u32, u32), Errno> {
    let source = key(memory, from, scope, Access::Read)?;
    let target = key(memory, to, scope, Access::Read)?;
    loop {
        let mut buckets = pair(&source, &target);
        if let Some(expected) = request.expected {
            match memory.user().atomic_load(from) {
                Ok(found) if found != expected => return Err(Errno::EAGAIN),
                Ok(_) => {}
                Err(_) => {
                    drop(buckets);
                    memory.fault(from, Access::Read).map_err(|_| Errno::EFAULT)?;
                    continue;
                }
            }
        }
        let woken = table::wake(buckets.first(), &source, request.wake, ANY);
        let moved = buckets.move_waiters(&source, &target, request.requeue);
        return Ok((woken, moved));
    }
}

/// Does FUTEX_WAKE_OP: changes the second word as `operation` says, wakes `first` waiters of the first word and, if
/// the comparison in `operation` is true of the second word's old value, `second` waiters of the second.
///
/// # Errors
/// `ENOSYS` for an unknown operation; `EFAULT`, `EINVAL` for the addresses.
pub fn wake_operation(
    memory: &Arc<AddressSpace>,
    (first_at, second_at): (u64, u64),
    scope: Scope,
    (first, second): (u32, u32),
    operation: u32,
) -> Result<u32, Errno> {
    let one = key(memory, first_at, scope, Access::Read)?;
    let two = key(memory, second_at, scope, Access::Write)?;
    let operation = WakeOperation::decode(operation)?;
    loop {
        let mut buckets = pair(&one, &two);
        let Some(old) = operation.apply(memory, second_at) else {
            drop(buckets);
            memory.fault(second_at, Access::Write).map_err(|_| Errno::EFAULT)?;
            continue;
        };
        let mut woken = table::wake(buckets.first(), &one, first, ANY);
        if operation.holds(old) {
            woken += table::wake(buckets.second(), &two, second, ANY);
        }
        return Ok(woken);
    }
}

/// The packed operation of FUTEX_WAKE_OP: `op << 28 | cmp << 24 | oparg << 12 | cmparg`.
#[derive(Clone, Copy, Debug)]
struct WakeOperation {
    kind: u32,
    comparison: u32,
    argument: i32,
    compared: i32,
}

impl WakeOperation {
    fn decode(word: u32) -> Result<WakeOperation, Errno> {
        const SHIFT_ARGUMENT: u32 = 8;
        let (kind, comparison) = (word >> 28 & 7, word >> 24 & 15);
        let signed = |bits: u32| ((bits << 20) as i32) >> 20;
        let mut argument = signed(word >> 12);
        if word >> 28 & SHIFT_ARGUMENT != 0 {
            argument = 1i32.wrapping_shl(argument as u32);
        }
        if kind > 4 || comparison > 5 {
            return Err(Errno::ENOSYS);
        }
        Ok(WakeOperation { kind, comparison, argument, compared: signed(word) })
    }
    fn new_value(&self, old: u32) -> u32 {
        let argument = self.argument as u32;
        match self.kind {
            0 => argument,
            1 => old.wrapping_add(argument),
            2 => old | argument,
            3 => old & !argument,
            _ => old ^ argument,
        }
    }
    /// Changes the word. Returns its old value, `None` at a fault.
    fn apply(&self, memory: &AddressSpace, address: u64) -> Option<u32> {
        let mut old = memory.user().atomic_load(address).ok()?;
        loop {
            let found = memory.user().compare_exchange(address, old, self.new_value(old)).ok()?;
            if found == old {
                return Some(old);
            }
            old = found;
        }
    }
    fn holds(&self, old: u32) -> bool {
        let old = old as i32;
        match self.comparison {
            0 => old == self.compared,
            1 => old != self.compared,
            2 => old < self.compared,
            3 => old <= self.compared,
            4 => old > self.compared,
            _ => old >= self.compared,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wake_operations_are_decoded_as_packed() {
        let operation = WakeOperation::decode(1 << 28 | 4 << 24 | 0xfff << 12 | 5).unwrap();
        assert_eq!(operation.new_value(3), 2);
        assert!(operation.holds(6));
        assert!(!operation.holds(5));
        assert!(WakeOperation::decode(7 << 28).is_err());
    }
}
