//! The waiters of all futexes, in buckets by hash of their key.
use super::inherit;
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, Ordering};
use rt::{
    lock_class,
    sync::{Event, Mutex, MutexGuard},
};

lock_class! {
    static BUCKET = "futex.bucket";
    static KEY = "futex.key";
}

const BUCKETS: usize = 256;

/// The name space of a [`FutexKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FutexKeyKind {
    /// An address in a private key.
    Private,
    /// An address in a shared key: it is not equal to any private one.
    Own,
    /// A position in an object.
    Object,
}

/// The identity of a futex word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FutexKey {
    /// The address space, or the object mapped.
    pub object: usize,
    /// Address, or offset in the object.
    pub offset: u64,
    /// The kind and number of the name space of the word.
    pub kind: FutexKeyKind,
}

impl FutexKey {
    fn index(&self) -> usize {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = (self.object as u64 ^ self.offset.rotate_left(20)).wrapping_mul(GOLDEN);
        (mixed >> 56) as usize % BUCKETS
    }
}

/// The means of waking a waiter.
enum Bell {
    Own(Event),
    /// By an event that it shares with other waiters of the same task.
    Common(Arc<Event>),
    /// By getting the lock with this key, for which it is to wait once it is removed here (FUTEX_WAIT_REQUEUE_PI).
    Lock(Arc<inherit::LockWaiter>, FutexKey),
}

/// A task waiting for one word.
pub(super) struct FutexWaiter {
    /// Changed by requeue, with both buckets held.
    key: Mutex<FutexKey>,
    set: u32,
    woken: AtomicBool,
    bell: Bell,
}

impl FutexWaiter {
    pub(super) fn new(key: FutexKey, set: u32) -> FutexWaiter {
        FutexWaiter::with(key, set, Bell::Own(Event::new()))
    }
    /// Makes one of several waiters that wake their task by `event`.
    pub(super) fn of_many(key: FutexKey, event: &Arc<Event>) -> FutexWaiter {
        FutexWaiter::with(key, super::ANY, Bell::Common(event.clone()))
    }
    /// Makes a waiter that is to be moved to the lock at `target`, as `waiter`.
    pub(super) fn of_lock(
        key: FutexKey,
        waiter: &Arc<inherit::LockWaiter>,
        target: FutexKey,
    ) -> FutexWaiter {
        FutexWaiter::with(key, super::ANY, Bell::Lock(waiter.clone(), target))
    }
    fn with(key: FutexKey, set: u32, bell: Bell) -> FutexWaiter {
        FutexWaiter { key: Mutex::new(&KEY, key), set, woken: AtomicBool::new(false), bell }
    }
    pub(super) fn event(&self) -> &Event {
        match &self.bell {
            Bell::Own(event) => event,
            Bell::Common(event) => event,
            Bell::Lock(waiter, _) => &waiter.event,
        }
    }
    /// Returns the waiter and the key of the lock for which it is to wait; `None` if it waits to be woken.
    pub(super) fn wanted_lock(&self) -> Option<(&Arc<inherit::LockWaiter>, FutexKey)> {
        match &self.bell {
            Bell::Lock(waiter, target) => Some((waiter, *target)),
            _ => None,
        }
    }
    fn is_at(&self, key: &FutexKey) -> bool {
        self.key() == *key
    }
    pub(super) fn key(&self) -> FutexKey {
        *self.key.lock()
    }
    pub(super) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::Acquire)
    }
}

pub(super) type Bucket = Vec<Arc<FutexWaiter>>;

/// Number of places that an empty bucket keeps allocated for its next waiters.
const KEPT: usize = 8;

static TABLE: [Mutex<Bucket>; BUCKETS] = [const { Mutex::new(&BUCKET, Vec::new()) }; BUCKETS];

pub(super) fn bucket(key: &FutexKey) -> &'static Mutex<Bucket> {
    at(key.index())
}

fn at(index: usize) -> &'static Mutex<Bucket> {
    let [first, ..] = &TABLE;
    TABLE.get(index).unwrap_or(first)
}

/// Frees the memory that a bucket needed for many waiters, once it is empty.
fn settle(bucket: &mut Bucket) {
    #[cold]
    fn give_back(bucket: &mut Bucket) {
        *bucket = Vec::new();
    }
    if bucket.is_empty() && bucket.capacity() > KEPT {
        give_back(bucket);
    }
}

/// Frees the places that empty buckets keep allocated.
pub fn shrink() {
    for bucket in &TABLE {
        let mut bucket = bucket.lock();
        if bucket.is_empty() {
            *bucket = Vec::new();
        }
    }
}

/// Wakes at most `count` waiters of `key` whose bit set has a bit in common with `set`, the longest waiting first.
#[inline]
pub(super) fn wake(bucket: &mut Bucket, key: &FutexKey, count: u32, set: u32) -> u32 {
    if bucket.is_empty() { 0 } else { wake_some(bucket, key, count, set) }
}

/// Does the same as [`wake`] in a bucket that has waiters.
#[inline(never)]
fn wake_some(bucket: &mut Bucket, key: &FutexKey, count: u32, set: u32) -> u32 {
    let mut woken = 0;
    bucket.retain(|waiter| {
        if woken == count || waiter.set & set == 0 || !waiter.is_at(key) {
            return true;
        }
        if waiter.wanted_lock().is_some() {
            return true;
        }
        woken += 1;
        waiter.woken.store(true, Ordering::Release);
        waiter.event().signal();
        false
    });
    settle(bucket);
    woken
}

/// Returns the longest waiting waiter of `key`.
pub(super) fn first(bucket: &Bucket, key: &FutexKey) -> Option<Arc<FutexWaiter>> {
    bucket.iter().find(|waiter| waiter.is_at(key)).cloned()
}

/// Removes `waiter` from its bucket for good: it waits elsewhere.
pub(super) fn take_out(bucket: &mut Bucket, waiter: &Arc<FutexWaiter>) {
    waiter.woken.store(true, Ordering::Release);
    bucket.retain(|other| !Arc::ptr_eq(other, waiter));
    settle(bucket);
}

/// Removes `waiter` from its bucket. Returns `false` if it was woken before.
pub(super) fn leave(waiter: &Arc<FutexWaiter>) -> bool {
    loop {
        let key = waiter.key();
        let mut bucket = bucket(&key).lock();
        if waiter.is_woken() {
            return false;
        }
        if waiter.key() == key {
            bucket.retain(|other| !Arc::ptr_eq(other, waiter));
            settle(&mut bucket);
            return true;
        }
    }
}

/// The locked buckets of two keys, which may be one.
pub(super) struct Pair {
    first: MutexGuard<'static, Bucket>,
    second: Option<MutexGuard<'static, Bucket>>,
}

/// Locks the buckets of `one` and `two`, the lower index first.
pub(super) fn pair(one: &FutexKey, two: &FutexKey) -> Pair {
    let (one, two) = (one.index(), two.index());
    if one == two {
        return Pair { first: at(one).lock(), second: None };
    }
    if one < two {
        let first = at(one).lock();
        return Pair { first, second: Some(at(two).lock()) };
    }
    let second = at(two).lock();
    Pair { first: at(one).lock(), second: Some(second) }
}

impl Pair {
    pub(super) fn first(&mut self) -> &mut Bucket {
        &mut self.first
    }
    pub(super) fn second(&mut self) -> &mut Bucket {
        match &mut self.second {
            Some(second) => second,
            None => &mut self.first,
        }
    }
    /// Moves at most `count` waiters of `source` to `target`. Returns their number.
    pub(super) fn move_waiters(&mut self, source: &FutexKey, target: &FutexKey, count: u32) -> u32 {
        let mut moved = Vec::new();
        self.first.retain(|waiter| {
            let goes = (moved.len() as u64) < u64::from(count)
                && waiter.is_at(source)
                && waiter.wanted_lock().is_none();
            if goes {
                moved.push(waiter.clone());
            }
            !goes
        });
        for waiter in &moved {
            *waiter.key.lock() = *target;
        }
        let number = moved.len() as u32;
        self.second().extend(moved);
        number
    }
}
