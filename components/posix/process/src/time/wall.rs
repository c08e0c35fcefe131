//! The wall clock and those who must know when it is set: absolute sleeps and timers on it.
//!
//! Locks: `time.wall` guards the list of watchers, who are told with it released.
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

/// Somebody told that the wall clock was set.
pub trait WallWatcher: Send + Sync {
    /// It shows another time now.
    fn wall_was_set(&self);
}

/// Signalled when the wall clock is set.
pub static SET: Event = Event::new();
static WATCHERS: Mutex<Vec<Weak<dyn WallWatcher>>> = Mutex::new(&WALL, Vec::new());

/// Tells `watcher` of every setting until it is dropped.
pub fn watch(watcher: Weak<dyn WallWatcher>) {
    let mut watchers = WATCHERS.lock();
    watchers.retain(|known| known.strong_count() > 0);
    watchers.push(watcher);
}

/// Tells programs of a wall clock that a mount moved forward ([`rt::time::raise_wall_ns`]): at the start, before anybody waits for it.
pub fn was_raised() {
    if !rt::time::is_wall_set() {
        vdso::update();
    }
}

/// Sets the wall clock: now is `ns` since 1970.
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
