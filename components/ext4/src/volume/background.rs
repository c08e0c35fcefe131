//! The thread of a mount that commits. An operation that finds the running transaction large asks the thread to commit it,
//! and waits at most until that has begun. The thread also empties the journal before it is full.
//!
//! ```text
//! running transaction   3/4 of the limit: a commit is asked for       the limit: operations wait
//!                                                                     until the next one has begun
//!                       at each interval (`commit=`): it is committed, or where nothing changed
//!                                                     the journal's blocks are written in place
//! journal               half full: it is emptied after the commit     full: the committer empties it
//! ```
use crate::transactions::{mount::Mount, requests::Requests};
use alloc::{
    format,
    sync::{Arc, Weak},
};
use rt::{
    thread::{self, Policy},
    time,
};

/// Starts the thread unless it runs; it commits every `interval_ns`. Without a thread, operations commit themselves.
pub(crate) fn start(mount: &Arc<Mount>, interval_ns: u64) {
    let requests = Arc::clone(&mount.requests);
    if !requests.take_thread() {
        return;
    }
    let name = format!("ext4-{}", mount.volume.store.device.name());
    let weak = Arc::downgrade(mount);
    if thread::spawn(&name, Policy::default(), move || run(&requests, &weak, interval_ns)).is_err()
    {
        mount.requests.lack_thread();
    }
}

fn run(requests: &Requests, mount: &Weak<Mount>, interval_ns: u64) {
    let mut next = time::now().after_ns(interval_ns);
    loop {
        let ticket = requests.wake.ticket();
        if requests.is_over() {
            return;
        }
        let Some(mount) = mount.upgrade() else { return };
        work(requests, &mount);
        if time::now() >= next {
            tick(&mount);
            next = time::now().after_ns(interval_ns);
        }
        drop(mount);
        requests.wake.wait(ticket, Some(next));
    }
}

/// Commits, so that a crash undoes at most one interval. If nothing changed, writes in place the blocks that are only in the
/// journal. Errors end writing, and are logged.
fn tick(mount: &Mount) {
    let store = &mount.volume.store;
    if store.health.check_writable().is_err() {
        return;
    }
    let has_changed = !store.log.running().blocks.is_empty();
    let _ = match has_changed {
        true => mount.commit(store.log.running_id()),
        false => mount.put_in_place(),
    };
    store.log.started.signal();
}

/// Does the requested work. Errors end writing, and are logged.
fn work(requests: &Requests, mount: &Mount) {
    let store = &mount.volume.store;
    if store.health.check_writable().is_err() {
        return store.log.started.signal();
    }
    let wanted = requests.wanted();
    if wanted > store.log.committed() {
        let _ = mount.commit(wanted);
        store.log.started.signal();
    }
    if requests.take_checkpoint() {
        let _ = mount.empty_journal();
    }
}
