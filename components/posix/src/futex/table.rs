//! The waiters of all futexes, in buckets by hash of their key.
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

/// Names a futex word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The address space, or the object mapped.
    pub object: usize,
    /// Address, or offset in the object.
    pub offset: u64,
    /// Which of the two.
    pub is_shared: bool,
}

impl Key {
    fn index(&self) -> usize {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = (self.object as u64 ^ self.offset.rotate_left(20)).wrapping_mul(GOLDEN);
        (mixed >> 56) as usize % BUCKETS
    }
}

/// One waiting task.
pub(super) struct Waiter {
    /// Changed by requeue, with both buckets held.
    key: Mutex<Key>,
    set: u32,
    woken: AtomicBool,
    pub(super) event: Event,
}

impl Waiter {
    pub(super) fn new(key: Key, set: u32) -> Waiter {
        Waiter {
            key: Mutex::new(&KEY, key),
            set,
            woken: AtomicBool::new(false),
            event: Event::new(),
        }
    }
    pub(super) fn key(&self) -> Key {
        *self.key.lock()
    }
    pub(super) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::Acquire)
    }
}

pub(super) type Bucket = Vec<Arc<Waiter>>;

static TABLE: [Mutex<Bucket>; BUCKETS] = [const { Mutex::new(&BUCKET, Vec::new()) }; BUCKETS];

pub(super) fn bucket(key: &Key) -> &'static Mutex<Bucket> {
    at(key.index())
}

fn at(index: usize) -> &'static Mutex<Bucket> {
    let [first, ..] = &TABLE;
    TABLE.get(index).unwrap_or(first)
}

/// Wakes at most `count` waiters of `key` whose set meets `set`, the longest waiting first.
pub(super) fn wake(bucket: &mut Bucket, key: &Key, count: u32, set: u32) -> u32 {
    let mut woken = 0;
    bucket.retain(|waiter| {
        if woken == count || waiter.set & set == 0 || waiter.key() != *key {
            return true;
        }
        woken += 1;
        waiter.woken.store(true, Ordering::Release);
        waiter.event.signal();
        false
    });
    woken
}

/// Takes `waiter` out of whichever bucket it is in; `false` if it was woken before.
pub(super) fn leave(waiter: &Arc<Waiter>) -> bool {
    loop {
        let key = waiter.key();
        let mut bucket = bucket(&key).lock();
        if waiter.is_woken() {
            return false;
        }
        if waiter.key() == key {
            bucket.retain(|other| !Arc::ptr_eq(other, waiter));
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
pub(super) fn pair(one: &Key, two: &Key) -> Pair {
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
    /// Moves at most `count` waiters of `source` to `target`; returns how many.
    pub(super) fn move_waiters(&mut self, source: &Key, target: &Key, count: u32) -> u32 {
        let mut moved = Vec::new();
        self.first.retain(|waiter| {
            let goes = (moved.len() as u64) < u64::from(count) && waiter.key() == *source;
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
