//! Threads: parking, kicks, events, locks.
use crate::{Test, on_thread};
use alloc::{sync::Arc, vec::Vec};
use rt::{
    lock_class,
    sync::{Event, Mutex},
    thread::{self, Affinity, Woken},
    time,
};

pub(crate) const TESTS: &[Test] = &[
    ("an unpark before the park is kept once", unpark),
    ("a kick ends only interruptible waits and is kept", kick),
    ("an event is waited for across threads", event),
    ("locks exclude", exclude),
    ("a thread runs on a processor that exists", processors),
];

lock_class! {
    static NUMBER = "test.number";
    static NAME = "test.name";
}

fn soon() -> Option<time::Instant> {
    Some(time::now().after_ns(1_000_000))
}

fn unpark() {
    let me = thread::current();
    thread::unpark(me);
    thread::unpark(me);
    assert_eq!(thread::park(None), Woken::Signalled);
    assert_eq!(thread::park(soon()), Woken::TimedOut);
}

fn kick() {
    let shared = Arc::new((Mutex::new(&NAME, None), Event::new()));
    let theirs = shared.clone();
    let woken = on_thread(move || {
        *theirs.0.lock() = Some(thread::current());
        theirs.1.signal();
        let uninterruptible = thread::park(Some(time::now().after_ns(30_000_000)));
        (uninterruptible, thread::park_interruptible(None), thread::take_kick())
    });
    let id = loop {
        let ticket = shared.1.ticket();
        let id = *shared.0.lock();
        match id {
            Some(id) => break id,
            None => shared.1.wait(ticket, None),
        };
    };
    assert_ne!(id, thread::current());
    thread::kick(id);
    assert_eq!(woken.join(), (Woken::TimedOut, Woken::Kicked, false));
}

fn event() {
    let event = Arc::new(Event::new());
    let ticket = event.ticket();
    let other = event.clone();
    let woken = on_thread(move || other.wait_interruptible(ticket, None));
    event.signal();
    assert_eq!(woken.join(), Woken::Signalled);
    assert_eq!(event.wait_interruptible(event.ticket(), soon()), Woken::TimedOut);
    thread::kick(thread::current());
    assert_eq!(event.wait_interruptible(event.ticket(), None), Woken::Kicked);
}

fn exclude() {
    let number = Arc::new(Mutex::new(&NUMBER, 0_u32));
    let add = |number: Arc<Mutex<u32>>| move || (0..1000).for_each(|_| *number.lock() += 1);
    let threads: Vec<_> = (0..4).map(|_| on_thread(add(number.clone()))).collect();
    threads.into_iter().for_each(|thread| thread.join());
    assert_eq!(*number.lock(), 4000);
}

fn processors() {
    let (count, now) = thread::processors();
    assert!(count > 0 && now < count, "{now} of {count}");
    assert!(thread::set_affinity(thread::current(), Affinity(1)));
    assert!(thread::set_affinity(thread::current(), Affinity::ANY));
    assert!(thread::cpu_time(thread::current()).is_some());
}
