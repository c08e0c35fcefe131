//! Tests of the lock kit with real threads.
#![cfg(not(loom))]
mod common;

use common::Std;
use std::{
    sync::atomic::{AtomicU64, Ordering::*},
    thread,
};
use sync::{
    Outcome, Platform, class::LockClass, event::RawEvent, mutex::Mutex, once::Once, rwlock::RwLock,
    spin,
};

static PLAIN: LockClass = LockClass::new("test.plain");

const TURNS: u64 = 20_000;

#[test]
fn a_mutex_counts_right_under_contention() {
    let mutex: Mutex<u64, Std> = Mutex::new(&PLAIN, 0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..TURNS).for_each(|_| *mutex.lock() += 1));
        }
    });
    assert_eq!(mutex.into_inner(), 4 * TURNS);
}

#[test]
fn a_conditional_acquisition_is_refused_while_taken() {
    let mutex: Mutex<(), Std> = Mutex::new(&PLAIN, ());
    let guard = mutex.lock();
    thread::scope(|scope| {
        scope.spawn(|| assert!(mutex.try_lock().is_none()));
    });
    drop(guard);
    assert!(mutex.try_lock().is_some());
}

#[test]
fn readers_share_and_writers_do_not() {
    let lock: RwLock<(u64, u64), Std> = RwLock::new(&PLAIN, (0, 0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..TURNS {
                    let mut pair = lock.write();
                    pair.0 += 1;
                    pair.1 += 1;
                }
            });
            scope.spawn(|| {
                for _ in 0..TURNS {
                    let pair = lock.read();
                    assert_eq!(pair.0, pair.1);
                }
            });
        }
    });
    let first = lock.read();
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(lock.try_read().is_some());
            assert!(lock.try_write().is_none());
        });
    });
    assert_eq!(first.0, 2 * TURNS);
}

#[test]
fn a_waiting_writer_holds_new_readers_off() {
    let lock: RwLock<(), Std> = RwLock::new(&PLAIN, ());
    let first = lock.read();
    thread::scope(|scope| {
        let writer = scope.spawn(|| drop(lock.write()));
        let is_refused = || lock.try_read().is_none();
        while !scope.spawn(is_refused).join().unwrap() {}
        // From now on the writer waits.
        assert!((0..100).all(|_| scope.spawn(is_refused).join().unwrap()));
        drop(first);
        writer.join().unwrap();
        assert!(!scope.spawn(is_refused).join().unwrap());
    });
}

#[test]
fn an_event_times_out_and_is_signalled() {
    let event = RawEvent::<Std>::new();
    let soon = Some(Std::now_ns() + 1_000_000);
    assert_eq!(event.wait(event.ticket(), soon), Outcome::TimedOut);
    let ticket = event.ticket();
    event.signal();
    assert_eq!(event.wait(ticket, None), Outcome::Signalled);
    assert_ne!(event.ticket(), ticket);
}

#[test]
fn a_million_signals_lose_nothing() {
    let (event, produced) = (RawEvent::<Std>::new(), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..1_000_000 {
                produced.fetch_add(1, Release);
                event.signal();
            }
        });
        scope.spawn(|| {
            loop {
                let ticket = event.ticket();
                if produced.load(Acquire) == 1_000_000 {
                    break;
                }
                event.wait(ticket, None);
            }
        });
    });
}

#[test]
fn once_is_made_by_one_of_many() {
    let (once, made) = (Once::<u64, Std>::new(), AtomicU64::new(0));
    assert!(once.get().is_none());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let value = once.get_or_init(|| {
                    thread::yield_now();
                    made.fetch_add(1, SeqCst) + 41
                });
                assert_eq!(*value, 41);
            });
        }
    });
    assert_eq!(once.set(1), Err(1));
    assert_eq!(once.get(), Some(&41));
}

#[test]
fn a_maker_that_panics_leaves_the_once_to_the_next() {
    let once = Once::<u64, Std>::new();
    let panicking = std::panic::AssertUnwindSafe(|| once.get_or_init(|| panic!("on purpose")));
    assert!(std::panic::catch_unwind(panicking).is_err());
    assert_eq!(once.get_or_init(|| 2), &2);
}

#[test]
fn once_drops_what_it_made() {
    let counted = std::sync::Arc::new(());
    let once = Once::<_, Std>::new();
    once.set(counted.clone()).unwrap();
    assert_eq!(std::sync::Arc::strong_count(&counted), 2);
    drop(once);
    assert_eq!(std::sync::Arc::strong_count(&counted), 1);
}

/// A hold-off that counts those that live.
struct Holdoff(());

static HOLDOFFS: AtomicU64 = AtomicU64::new(0);

impl Default for Holdoff {
    fn default() -> Holdoff {
        HOLDOFFS.fetch_add(1, SeqCst);
        Holdoff(())
    }
}

impl Drop for Holdoff {
    fn drop(&mut self) {
        HOLDOFFS.fetch_sub(1, SeqCst);
    }
}

#[test]
fn a_spin_lock_counts_right_and_keeps_its_holdoff_while_it_is_held() {
    static LOCK: spin::Lock<u64, Holdoff, Std> = spin::Lock::new(&PLAIN, 0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..TURNS {
                    *LOCK.lock() += 1;
                    thread::yield_now();
                }
            });
        }
    });
    let guard = LOCK.lock();
    assert_eq!((*guard, HOLDOFFS.load(SeqCst)), (4 * TURNS, 1));
    drop(guard);
    drop(LOCK.lock_under(Holdoff::default()));
    assert_eq!(HOLDOFFS.load(SeqCst), 0);
}

#[test]
fn a_byte_lock_is_taken_by_one_and_released_by_a_store() {
    static LOCK: spin::ByteLock = spin::ByteLock::new();
    let (inside, all) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for turn in 0..TURNS {
                    if turn % 2 == 0 {
                        LOCK.take();
                    } else if !LOCK.try_take() {
                        continue;
                    }
                    assert_eq!(inside.fetch_add(1, Relaxed), 0);
                    all.fetch_add(1, Relaxed);
                    inside.fetch_sub(1, Relaxed);
                    LOCK.release();
                }
            });
        }
    });
    assert!((2 * TURNS..=4 * TURNS).contains(&all.into_inner()));
    assert!(LOCK.try_take() && !LOCK.try_take());
    // SAFETY: the byte of a lock that this thread has.
    unsafe { LOCK.as_ptr().write_volatile(0) };
    assert!(LOCK.try_take());
}
