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
//! Locks: none. Whoever asks may hold locks that no commit takes.
use crate::layout::volume::Volume;
use alloc::{
    format,
    sync::{Arc, Weak},
};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use interfaces::file_system::FsError;
use rt::{
    sync::Event,
    thread::{self, Policy},
    time,
};

/// The tasks that the thread is asked for.
pub(crate) struct Background {
    /// The last transaction that is to be committed.
    wanted: AtomicU64,
    must_checkpoint: AtomicBool,
    wake: Event,
    has_thread: AtomicBool,
    is_over: AtomicBool,
}

impl Background {
    /// Nothing asked for, and no thread.
    pub(crate) fn new() -> Arc<Background> {
        Arc::new(Background {
            wanted: AtomicU64::new(0),
            must_checkpoint: AtomicBool::new(false),
            wake: Event::new(),
            has_thread: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        })
    }

    /// There is a thread to ask.
    fn is_there(&self) -> bool {
        self.has_thread.load(Acquire)
    }

    /// Has transaction `id` committed soon.
    fn want(&self, id: u64) {
        if self.wanted.load(Relaxed) < id {
            self.wanted.fetch_max(id, AcqRel);
            self.wake.signal();
        }
    }

    /// Has the journal emptied soon; `false` where the caller must do it.
    pub(crate) fn want_checkpoint(&self) -> bool {
        if !self.is_there() {
            return false;
        }
        self.must_checkpoint.store(true, Release);
        self.wake.signal();
        true
    }

    /// Ends the thread.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Release);
        self.wake.signal();
    }
}

/// Starts the thread unless there is one; every `interval_ns` it commits. Without one, operations commit themselves.
pub(crate) fn start(volume: &Arc<Volume>, interval_ns: u64) {
    let background = Arc::clone(&volume.background);
    if background.has_thread.swap(true, AcqRel) {
        return;
    }
    let name = format!("ext4-{}", volume.device.name());
    let weak = Arc::downgrade(volume);
    if thread::spawn(&name, Policy::default(), move || run(&background, &weak, interval_ns))
        .is_err()
    {
        volume.background.has_thread.store(false, Release);
    }
}

fn run(background: &Background, volume: &Weak<Volume>, interval_ns: u64) {
    let mut next = time::now().after_ns(interval_ns);
    loop {
        let ticket = background.wake.ticket();
        if background.is_over.load(Acquire) {
            return;
        }
        let Some(volume) = volume.upgrade() else { return };
        work(background, &volume);
        if time::now() >= next {
            tick(&volume);
            next = time::now().after_ns(interval_ns);
        }
        drop(volume);
        background.wake.wait(ticket, Some(next), false);
    }
}

/// Commits, so that a crash takes back no more than one interval, or writes in place what is only in the journal. Errors end
/// writing, and the log has said so.
fn tick(volume: &Volume) {
    if volume.health.check_writable().is_err() {
        return;
    }
    let has_changed = !volume.log.running().blocks.is_empty();
    let _ = match has_changed {
        true => volume.commit(volume.log.running_id()),
        false => volume.put_in_place(),
    };
    volume.log.started.signal();
}

/// Does what was asked for. Errors end writing, and the log has said so.
fn work(background: &Background, volume: &Volume) {
    if volume.health.check_writable().is_err() {
        return volume.log.started.signal();
    }
    let wanted = background.wanted.load(Acquire);
    if wanted > volume.log.committed() {
        let _ = volume.commit(wanted);
        volume.log.started.signal();
    }
    if background.must_checkpoint.swap(false, AcqRel) {
        let _ = volume.empty_journal();
    }
}

impl Volume {
    /// Keeps the running transaction from growing beyond its limit, before an operation joins it:
    /// has it committed when it is three quarters as large, and waits until the next has begun when it is full.
    ///
    /// # Errors
    /// The error of the commit if there is no thread and the commit fails; [`FsError::ReadOnly`] if the volume has become
    /// read-only.
    pub(crate) fn limit_running(&self) -> Result<(), FsError> {
        let (blocks, limit) = (self.log.running().blocks.len(), self.log.limit());
        if blocks < limit / 4 * 3 {
            return Ok(());
        }
        let id = self.log.running_id();
        if !self.background.is_there() {
            return if blocks < limit { Ok(()) } else { self.commit(id) };
        }
        self.background.want(id);
        if blocks < limit { Ok(()) } else { self.wait_for_next(id) }
    }

    /// Waits until transaction `id`, which the thread was asked to commit, has ended.
    fn wait_for_next(&self, id: u64) -> Result<(), FsError> {
        loop {
            let ticket = self.log.started.ticket();
            if self.log.running_id() > id {
                return Ok(());
            }
            self.health.check_writable()?;
            self.log.started.wait(ticket, None, false);
        }
    }
}
