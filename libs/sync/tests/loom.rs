//! Tests of every interleaving (up to three preemptions) of the lock kit's algorithms.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p sync --release --test loom`. A deadlock, a lost wake-up or
//! an access without mutual exclusion fails the model.
#![cfg(loom)]
use loom::{
    cell::UnsafeCell,
    sync::atomic::{
        AtomicBool, AtomicU32,
        Ordering::{Acquire, Relaxed, Release},
    },
    thread::{self, Thread},
};
use std::sync::Arc;
use sync::{
    Outcome, Platform, Sleep, broadcast::Broadcast, class::LockClass, event::RawEvent, mutex, once,
    rwlock,
};

/// A futex: waiters in a list under one lock, parked by loom.
struct Futex;

struct Waiter {
    address: usize,
    thread: Thread,
    is_woken: Arc<AtomicBool>,
}

#[derive(Default)]
struct Waiters {
    list: Vec<Waiter>,
    /// Number of sleeps so far, and the thread that waits for the next.
    sleeps: u32,
    watcher: Option<Thread>,
}

loom::lazy_static! {
    static ref WAITERS: loom::sync::Mutex<Waiters> = loom::sync::Mutex::new(Waiters::default());
}

/// Blocks its only caller until threads have slept `count` times in all.
fn wait_for_sleeps(count: u32) {
    loop {
        {
            let mut waiters = WAITERS.lock().unwrap();
            if waiters.sleeps >= count {
                return;
            }
            waiters.watcher = Some(thread::current());
        }
        thread::park();
    }
}

impl Platform for Futex {
    const SPINS: u32 = 0;

    fn wait(word: &AtomicU32, expected: u32, _: Option<u64>, _: Sleep) -> Outcome {
        let is_woken = Arc::new(AtomicBool::new(false));
        {
            let mut waiters = WAITERS.lock().unwrap();
            if word.load(Relaxed) != expected {
                return Outcome::Signalled;
            }
            let address = std::ptr::from_ref(word).addr();
            let thread = thread::current();
            waiters.list.push(Waiter { address, thread, is_woken: is_woken.clone() });
            waiters.sleeps += 1;
            if let Some(watcher) = waiters.watcher.take() {
                watcher.unpark();
            }
        }
        while !is_woken.load(Acquire) {
            thread::park();
        }
        Outcome::Signalled
    }

    fn wake(word: &AtomicU32, count: u32) -> u32 {
        let address = std::ptr::from_ref(word).addr();
        let mut woken = 0;
        WAITERS.lock().unwrap().list.retain(|waiter| {
            if waiter.address != address || woken == count {
                return true;
            }
            woken += 1;
            waiter.is_woken.store(true, Release);
            waiter.thread.unpark();
            false
        });
        woken
    }

    fn current() -> u64 {
        0
    }

    fn now_ns() -> u64 {
        0
    }
}

type Mutex<T> = mutex::Mutex<T, Futex>;
type RwLock<T> = rwlock::RwLock<T, Futex>;
type Once<T> = once::Once<T, Futex>;
type Event = RawEvent<Futex>;

static CLASS: LockClass = LockClass::new("loom");

/// A number whose unguarded use loom reports.
struct Number(UnsafeCell<u32>);

// SAFETY: loom itself checks that accesses from several threads are ordered.
unsafe impl Sync for Number {}
// SAFETY: as above.
unsafe impl Send for Number {}

impl Number {
    fn new() -> Number {
        Number(UnsafeCell::new(0))
    }
    fn get(&self) -> u32 {
        // SAFETY: loom's cell checks that nobody writes meanwhile.
        self.0.with(|value| unsafe { *value })
    }
    fn increment(&self) {
        // SAFETY: loom's cell checks that nobody else is here.
        self.0.with_mut(|value| unsafe { *value += 1 });
    }
}

fn model(body: impl Fn() + Sync + Send + 'static) {
    model_preempted(3, body);
}

/// Runs a model as [`model`] does, with at most `preemptions` in a run.
fn model_preempted(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

/// Runs each body on a thread of its own and waits for all.
fn run(bodies: Vec<Box<dyn FnOnce() + Send>>) {
    let threads: Vec<_> = bodies.into_iter().map(thread::spawn).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_mutex_excludes_and_wakes() {
    model(|| {
        let mutex = Arc::new(Mutex::new(&CLASS, Number::new()));
        let body = |turns: u32| {
            let mutex = mutex.clone();
            Box::new(move || (0..turns).for_each(|_| mutex.lock().increment())) as _
        };
        run(vec![body(2), body(1)]);
        assert_eq!(mutex.lock().get(), 3);
    });
}

#[test]
fn three_threads_get_the_mutex() {
    model(|| {
        let mutex = Arc::new(Mutex::new(&CLASS, Number::new()));
        let body = || {
            let mutex = mutex.clone();
            Box::new(move || mutex.lock().increment()) as _
        };
        let bodies: Vec<Box<dyn FnOnce() + Send>> = vec![body(), body()];
        let threads: Vec<_> = bodies.into_iter().map(thread::spawn).collect();
        mutex.lock().increment();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(mutex.lock().get(), 3);
    });
}

#[test]
fn a_conditional_acquisition_excludes() {
    model(|| {
        let mutex = Arc::new(Mutex::new(&CLASS, Number::new()));
        let other = mutex.clone();
        let thread = thread::spawn(move || match other.try_lock() {
            Some(number) => {
                number.increment();
                1
            }
            None => 0,
        });
        mutex.lock().increment();
        let more = thread.join().unwrap();
        assert_eq!(mutex.lock().get(), 1 + more);
    });
}

#[test]
fn a_writer_excludes_readers() {
    model(|| {
        let lock = Arc::new(RwLock::new(&CLASS, (Number::new(), Number::new())));
        let (writer, reader) = (lock.clone(), lock.clone());
        let read = |lock: &RwLock<(Number, Number)>| {
            let pair = lock.read();
            assert_eq!(pair.0.get(), pair.1.get());
        };
        let writer = thread::spawn(move || {
            let pair = writer.write();
            pair.0.increment();
            pair.1.increment();
        });
        let reader = thread::spawn(move || read(&reader));
        read(&lock);
        writer.join().unwrap();
        reader.join().unwrap();
        assert_eq!(lock.read().0.get(), 1);
    });
}

#[test]
fn writers_exclude_each_other_with_a_reader_between() {
    model(|| {
        let lock = Arc::new(RwLock::new(&CLASS, Number::new()));
        let write = || {
            let lock = lock.clone();
            thread::spawn(move || lock.write().increment())
        };
        let writers = [write(), write()];
        assert!(lock.read().get() <= 2);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(lock.read().get(), 2);
    });
}

#[test]
fn readers_that_wait_behind_two_writes_all_get_the_lock() {
    // Both readers sleep behind the first write. One of them sleeps again behind the second write.
    // The other one, woken, comes back only between that write's unlock and its wake-up of the
    // readers, and has the lock during that wake-up: this is the one preemption, and the yield.
    // Waiting for sleeps saves the model other interleavings.
    model_preempted(1, || {
        let lock = Arc::new(RwLock::new(&CLASS, ()));
        let done = Arc::new(AtomicU32::new(0));
        let first = lock.write();
        let read = || {
            let (lock, done) = (lock.clone(), done.clone());
            thread::spawn(move || {
                let _guard = lock.read();
                done.fetch_add(1, Relaxed);
                thread::yield_now();
            })
        };
        let readers = [read(), read()];
        wait_for_sleeps(2);
        drop(first);
        let second = lock.write();
        if done.load(Relaxed) < 2 {
            wait_for_sleeps(3);
        }
        drop(second);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

#[test]
fn conditional_readers_and_writers_exclude() {
    model(|| {
        let lock = Arc::new(RwLock::new(&CLASS, Number::new()));
        let other = lock.clone();
        let writer = thread::spawn(move || match other.try_write() {
            Some(number) => {
                number.increment();
                1
            }
            None => 0,
        });
        let seen = lock.try_read().map(|number| number.get());
        let written = writer.join().unwrap();
        assert!(seen.is_none_or(|seen| seen <= written));
        assert_eq!(lock.write().get(), written);
    });
}

#[test]
fn a_signal_between_ticket_and_wait_is_not_lost() {
    model(|| {
        let shared = Arc::new((AtomicBool::new(false), Event::new()));
        let other = shared.clone();
        let thread = thread::spawn(move || {
            other.0.store(true, Release);
            other.1.signal();
        });
        loop {
            let ticket = shared.1.ticket();
            if shared.0.load(Acquire) {
                break;
            }
            shared.1.wait(ticket, None);
        }
        thread.join().unwrap();
    });
}

#[test]
fn a_signal_wakes_every_waiter() {
    model(|| {
        let shared = Arc::new((AtomicBool::new(false), Event::new()));
        let wait = || {
            let shared = shared.clone();
            thread::spawn(move || {
                loop {
                    let ticket = shared.1.ticket();
                    if shared.0.load(Acquire) {
                        break;
                    }
                    shared.1.wait(ticket, None);
                }
            })
        };
        let waiters = [wait(), wait()];
        shared.0.store(true, Release);
        shared.1.signal();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

#[test]
fn one_signal_each_lets_every_waiter_go_on() {
    model(|| {
        let shared = Arc::new((AtomicU32::new(0), Event::new()));
        let wait = || {
            let shared = shared.clone();
            thread::spawn(move || {
                loop {
                    let ticket = shared.1.ticket();
                    let take = |left: u32| left.checked_sub(1);
                    if shared.0.fetch_update(Acquire, Relaxed, take).is_ok() {
                        break;
                    }
                    shared.1.wait(ticket, None);
                }
            })
        };
        let waiters = [wait(), wait()];
        for _ in 0..2 {
            shared.0.fetch_add(1, Release);
            shared.1.signal_one();
        }
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

#[test]
fn once_makes_one_value_and_everybody_sees_it() {
    model(|| {
        let shared = Arc::new((Once::new(), AtomicU32::new(0)));
        let body = || {
            let shared = shared.clone();
            Box::new(move || {
                let number = shared.0.get_or_init(|| {
                    shared.1.fetch_add(1, Relaxed);
                    let number = Number::new();
                    number.increment();
                    number
                });
                assert_eq!(number.get(), 1);
            }) as _
        };
        run(vec![body(), body()]);
        assert_eq!(shared.1.load(Relaxed), 1);
    });
}

#[test]
fn a_failed_maker_lets_the_next_one_try() {
    model(|| {
        let once = Arc::new(Once::<u32>::new());
        let other = once.clone();
        let failing = thread::spawn(move || {
            let made = other.get_or_try_init(|| Err(()));
            assert!(made.is_err() || made == Ok(&5));
        });
        assert_eq!(once.get_or_init(|| 5), &5);
        failing.join().unwrap();
    });
}

/// Processors that ask others, and answer until nobody asks any more. One that does not ask answers when it is interrupted, here by
/// the thread that interrupts it.
fn ask_each_other(asking: &'static [u64]) {
    model_preempted(2, move || {
        let requests = Arc::new(Broadcast::<3>::new());
        let (done, answered) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let senders = asking.iter().enumerate().filter(|(_, targets)| **targets != 0);
        let count = senders.clone().count() as u32;
        let bodies = senders.map(|(me, &targets)| {
            let (requests, done, answered) = (requests.clone(), done.clone(), answered.clone());
            let body = move || {
                let answer = |me: usize| {
                    requests.answer(me, |[sender, targets, check]| {
                        assert_eq!(check, sender * 10 + targets);
                        assert!(targets & 1 << me != 0, "a processor that was not asked");
                        answered.fetch_add(1, Relaxed);
                    });
                };
                let look = || {
                    answer(me);
                    thread::yield_now();
                };
                let interrupt = |target: usize| {
                    if asking[target] == 0 {
                        answer(target);
                    }
                };
                let words = [me as u64, targets, me as u64 * 10 + targets];
                requests.ask(me, targets, words, interrupt, look);
                done.fetch_add(1, Release);
                while done.load(Acquire) < count {
                    look();
                }
            };
            Box::new(body) as Box<dyn FnOnce() + Send>
        });
        run(bodies.collect());
        let expected: u32 = asking.iter().map(|targets| targets.count_ones()).sum();
        assert_eq!(answered.load(Relaxed), expected);
    });
}

#[test]
fn two_processors_that_ask_each_other_get_answers() {
    ask_each_other(&[0b10, 0b01]);
}

#[test]
fn a_processor_answers_two_that_ask() {
    ask_each_other(&[0b100, 0b100, 0]);
}
