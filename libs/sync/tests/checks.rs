//! Tests of the reports of the debug checks, each of which names both places.
#![cfg(all(feature = "check", not(loom)))]
mod common;

use common::Std;
use std::panic::{AssertUnwindSafe, catch_unwind};
use sync::{class::LockClass, event::RawEvent, mutex::Mutex, rwlock::RwLock, spin::RawSpin};

/// Returns the report that `body` causes.
fn report(body: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(body)).expect_err("nothing was reported");
    panic.downcast_ref::<String>().expect("a message").clone()
}

/// Fails unless the report names the class and `places` lines of this file.
fn assert_names(report: &str, class: &str, places: usize) {
    assert!(report.contains(class), "{report}");
    assert_eq!(report.matches("checks.rs:").count(), places, "{report}");
}

#[test]
fn retaking_a_mutex() {
    static CLASS: LockClass = LockClass::new("retaken");
    let mutex = Mutex::<(), Std>::new(&CLASS, ());
    let _first = mutex.lock();
    assert_names(&report(|| drop(mutex.lock())), "lock retaken taken at", 2);
}

#[test]
fn reading_twice_is_retaking() {
    static CLASS: LockClass = LockClass::new("reread");
    let lock = RwLock::<(), Std>::new(&CLASS, ());
    let _first = lock.read();
    assert_names(&report(|| drop(lock.read())), "lock reread taken at", 2);
    assert_names(&report(|| drop(lock.write())), "lock reread taken at", 2);
}

#[test]
fn unlocking_what_another_took() {
    static CLASS: LockClass = LockClass::new("foreign");
    let spin = RawSpin::<Std>::new(&CLASS);
    std::thread::scope(|scope| {
        scope.spawn(|| spin.lock());
    });
    let report = report(|| spin.unlock());
    assert_names(&report, "lock foreign is released", 1);
}

#[test]
fn blocking_with_a_spin_lock_held() {
    static SPIN: LockClass = LockClass::new("spinning");
    static MUTEX: LockClass = LockClass::new("blocking");
    let spin = RawSpin::<Std>::new(&SPIN);
    let mutex = Mutex::<(), Std>::new(&MUTEX, ());
    spin.lock();
    assert_names(&report(|| drop(mutex.lock())), "spin lock spinning", 2);
    let event = RawEvent::<Std>::new();
    let waiting = || {
        event.wait(event.ticket(), Some(0));
    };
    assert_names(&report(waiting), "spin lock spinning", 2);
    assert!(mutex.try_lock().is_some());
    spin.unlock();
    drop(mutex.lock());
}

#[test]
fn an_inversion_that_did_not_deadlock_names_all_four_places() {
    static A: LockClass = LockClass::new("order.a");
    static B: LockClass = LockClass::new("order.b");
    let (a, b) = (Mutex::<(), Std>::new(&A, ()), Mutex::<(), Std>::new(&B, ()));
    {
        let _a = a.lock();
        let _b = b.lock();
    }
    let _b = b.lock();
    let report = report(|| drop(a.lock()));
    assert_names(&report, "lock order inversion: order.a is taken", 4);
}

#[test]
fn an_inversion_over_a_third_class() {
    static A: LockClass = LockClass::new("chain.a");
    static B: LockClass = LockClass::new("chain.b");
    static C: LockClass = LockClass::new("chain.c");
    let a = Mutex::<(), Std>::new(&A, ());
    let b = RwLock::<(), Std>::new(&B, ());
    let c = Mutex::<(), Std>::new(&C, ());
    {
        let _a = a.lock();
        drop(b.read());
    }
    {
        let _b = b.write();
        drop(c.lock());
    }
    let _c = c.lock();
    assert_names(&report(|| drop(a.lock())), "lock order inversion: chain.a", 4);
}

#[test]
fn a_conditional_acquisition_against_the_order_is_allowed() {
    static A: LockClass = LockClass::new("try.a");
    static B: LockClass = LockClass::new("try.b");
    let (a, b) = (Mutex::<(), Std>::new(&A, ()), Mutex::<(), Std>::new(&B, ()));
    {
        let _a = a.lock();
        drop(b.lock());
    }
    let _b = b.lock();
    assert!(a.try_lock().is_some());
}

#[test]
fn two_of_one_class_only_in_address_order_or_nestable() {
    static CLASS: LockClass = LockClass::new("siblings");
    static TREE: LockClass = LockClass::nestable("tree");
    let pair = [Mutex::<(), Std>::new(&CLASS, ()), Mutex::new(&CLASS, ())];
    {
        let _first = pair[0].lock();
        let _second = pair[1].lock();
    }
    let second = pair[1].lock();
    assert_names(&report(|| drop(pair[0].lock())), "a second lock siblings", 2);
    drop(second);
    let tree = [Mutex::<(), Std>::new(&TREE, ()), Mutex::new(&TREE, ())];
    let _parent = tree[1].lock();
    let _child = tree[0].lock();
}

#[test]
fn guards_may_end_in_any_order() {
    static A: LockClass = LockClass::new("any.a");
    static B: LockClass = LockClass::new("any.b");
    let (a, b) = (Mutex::<(), Std>::new(&A, ()), Mutex::<(), Std>::new(&B, ()));
    let first = a.lock();
    let second = b.lock();
    drop(first);
    drop(second);
    drop(a.lock());
}
