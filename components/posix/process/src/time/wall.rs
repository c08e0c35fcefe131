//! The wall clock, and the objects that must be told when it is set: absolute sleeps and timers on it.
//!
//! Locks: `time.wall` guards the list of watchers, which are told with it released.
use crate::{exec::vdso, time::timers};
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use rt::{
    lock_class,
    sync::{Event, Mutex},
};

lock_class! {
    static WALL = "time.wall";
}

/// A watcher that is told when the wall clock was set.
pub trait WallWatcher: Send + Sync {
    /// Called when it shows another time.
    fn wall_was_set(&self);
}

/// Event that is signalled when the wall clock is set.
pub static SET: Event = Event::new();
static WATCHERS: Mutex<Vec<Weak<dyn WallWatcher>>> = Mutex::new(&WALL, Vec::new());

/// Registers `watcher` to be told of every change until it is dropped.
pub fn watch(watcher: Weak<dyn WallWatcher>) {
    let mut watchers = WATCHERS.lock();
    watchers.retain(|known| known.strong_count() > 0);
    watchers.push(watcher);
}

/// Updates the time page of programs after a mount moved the wall clock forward ([`rt::time::raise_wall_ns`]): at the start,
/// before any thread waits for it.
pub fn was_raised() {
    if !rt::time::is_wall_set() {
        vdso::update();
    }
}

/// Sets the wall clock to `ns` since 1970.
pub fn set(ns: u64) {
    rt::time::set_wall_ns(ns);
    vdso::update();
    SET.signal();
    timers::wall_was_set();
    let watchers: Vec<Arc<dyn WallWatcher>> =
        WATCHERS.lock().iter().filter_map(Weak::upgrade).collect();
    for watcher in watchers {
        watcher.wall_was_set();
    }
}
