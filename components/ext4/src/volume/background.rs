//! The thread of a mount that commits: an operation which finds the running transaction large has it
//! committed, and waits at most until that has begun; and it empties the journal before that is full.
//!
//! ```text
//! running transaction   3/4 of the limit: a commit is asked for       the limit: operations wait
//!                                                                     until the next one has begun
//!                       at each interval (`commit=`): it is committed, or where nothing changed
//!                                                     the journal's blocks are written in place
//! journal               half full: it is emptied after the commit     full: who commits empties it
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

/// Starts the thread unless there is one; every `interval_ns` it commits. Without one, operations commit themselves.
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
        requests.wake.wait(ticket, Some(next), false);
    }
}

/// Commits, so that a crash takes back no more than one interval, or writes in place what is only in the journal. Errors end
/// writing, and the log has said so.
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

/// Does what was asked for. Errors end writing, and the log has said so.
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
