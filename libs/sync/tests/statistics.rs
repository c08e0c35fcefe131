//! Tests of the statistics' counts.
#![cfg(all(feature = "statistics", not(loom)))]
mod common;

use common::Std;
use std::{sync::atomic::AtomicBool, sync::atomic::Ordering::SeqCst, thread};
use sync::{
    class::{LockClass, Report, reports},
    mutex::Mutex,
};

fn find(name: &str) -> Option<Report> {
    reports().into_iter().find(|report| report.name == name)
}

#[test]
fn a_class_appears_with_its_first_use_and_counts_attempts_and_misses() {
    static CLASS: LockClass = LockClass::new("counted");
    let mutex = Mutex::<(), Std>::new(&CLASS, ());
    assert_eq!(find("counted"), None);
    drop(mutex.lock());
    let guard = mutex.lock();
    thread::scope(|scope| {
        scope.spawn(|| assert!(mutex.try_lock().is_none()));
    });
    drop(guard);
    let report = find("counted").unwrap();
    assert_eq!((report.attempts, report.misses, report.reschedules), (3, 1, 0));
    assert_eq!((report.shortest_ns, report.longest_ns, report.total_ns), (0, 0, 0));
}

#[test]
fn a_wait_is_timed_and_its_reschedules_are_counted() {
    static CLASS: LockClass = LockClass::new("waited");
    let mutex = Mutex::<(), Std>::new(&CLASS, ());
    let is_waiting = AtomicBool::new(false);
    let guard = mutex.lock();
    thread::scope(|scope| {
        scope.spawn(|| {
            is_waiting.store(true, SeqCst);
            drop(mutex.lock());
        });
        while !is_waiting.load(SeqCst) {
            thread::yield_now();
        }
        // The pause is long enough for the waiter to block; if it came late, the counts below would
        // show that.
        thread::sleep(std::time::Duration::from_millis(50));
        drop(guard);
    });
    let report = find("waited").unwrap();
    assert_eq!((report.attempts, report.misses), (2, 1));
    assert!(report.reschedules >= 1);
    assert!(report.shortest_ns > 0 && report.shortest_ns == report.longest_ns);
    assert_eq!(report.total_ns, report.longest_ns);
}
