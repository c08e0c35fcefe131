//! Changes on their way to the device: operations are gathered in the running transaction, which a commit writes
//! as a whole.
//!
//! An [`Operation`] is one atomic change of the volume (a name made, a run of blocks allocated). All
//! that runs at the same time joins the running transaction; a commit waits until none is on its way,
//! takes what was changed, and lets the next transaction begin while it writes.
//! Blocks freed by a transaction are not used again before it is durable.
//!
//! Locks, in this order: `ext4.commit` (one commit at a time, held during its I/O), `ext4.operations`
//! (shared by operations, exclusive for the moment a transaction ends), `ext4.running` (a leaf).
use crate::store::{cache::Known, class::Class, committer::Committer, journal::Journal};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::{
    cell::Cell,
    ops::{Deref, DerefMut},
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*},
};
use rt::{
    lock_class,
    sync::{Event, Mutex, MutexGuard, ReadGuard, RwLock, WriteGuard},
};

lock_class! {
    static OPERATIONS = "ext4.operations";
    static RUNNING = "ext4.running";
    static COMMIT = "ext4.commit";
}

/// The changes of the running transaction.
#[derive(Default)]
pub(crate) struct RunningTransaction {
    /// Blocks that were changed.
    pub(crate) blocks: BTreeMap<u64, Class>,
    /// Metadata blocks that were freed: their versions in older transactions must not be replayed.
    pub(crate) revoked: BTreeSet<u64>,
    /// Blocks that were freed, to be used again once the transaction is durable.
    pub(crate) freed: Vec<(u64, u64)>,
    /// Inodes that were allocated.
    pub(crate) new_inodes: BTreeSet<u32>,
    /// Block groups that were changed; their descriptors are written at the end of the transaction.
    pub(crate) groups: BTreeSet<u32>,
    /// Runs of files whose data could not be written.
    pub(crate) failed: Vec<FailedRun>,
}

/// Blocks of a file that were mapped for data which the device then refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailedRun {
    /// Number of the file's inode.
    pub(crate) inode: u32,
    /// First block in the file.
    pub(crate) logical: u64,
    /// Number of blocks.
    pub(crate) blocks: u64,
}

impl RunningTransaction {
    fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.freed.is_empty()
    }
}

/// The running transaction, and the state of those before it.
pub(crate) struct Log {
    /// The committer, and the changes that are committed but not in place.
    committer: Mutex<Committer>,
    operations: RwLock<()>,
    running: Mutex<RunningTransaction>,
    /// Number of the running transaction.
    id: AtomicU64,
    /// The last transaction that is durable.
    committed: AtomicU64,
    /// The last transaction of which blocks were lost; zero if there is none.
    lossy: AtomicU64,
    /// Numbers of requests for data under way, of transactions with even and odd numbers.
    data: [AtomicUsize; 2],
    data_ended: Event,
    /// Number of threads that are making a file durable, and the number since the mount.
    pub(crate) syncing: AtomicUsize,
    pub(crate) joined: AtomicUsize,
    /// Signalled when a commit has ended.
    pub(crate) ended: Event,
    /// Signalled when a transaction has begun, or none will.
    pub(crate) started: Event,
    /// Number of data writes so far, and number of those that a flush has followed.
    written: AtomicU64,
    flushed: AtomicU64,
    has_journal: AtomicBool,
    /// Number of blocks that a transaction may change before the next operation ends it.
    limit: AtomicUsize,
}

impl Log {
    /// Makes a log without changes, for a cache of `capacity` chunks.
    pub(crate) fn new(capacity: usize) -> Log {
        Log {
            committer: Mutex::new(&COMMIT, Committer::default()),
            operations: RwLock::new(&OPERATIONS, ()),
            running: Mutex::new(&RUNNING, RunningTransaction::default()),
            id: AtomicU64::new(1),
            committed: AtomicU64::new(0),
            lossy: AtomicU64::new(0),
            data: [AtomicUsize::new(0), AtomicUsize::new(0)],
            data_ended: Event::new(),
            syncing: AtomicUsize::new(0),
            joined: AtomicUsize::new(0),
            ended: Event::new(),
            started: Event::new(),
            written: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            has_journal: AtomicBool::new(false),
            limit: AtomicUsize::new(capacity),
        }
    }

    /// Limits transactions to `limit` blocks.
    pub(crate) fn set_limit(&self, limit: usize) {
        self.limit.fetch_min(limit.max(16), Relaxed);
    }

    /// Returns the number of blocks that a transaction should not exceed.
    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Relaxed)
    }

    /// Makes the caller the committer, after any other committer.
    pub(crate) fn begin_commit(&self) -> Committing<'_> {
        Committing { committer: self.committer.lock(), _signals: SignalsOnDrop(&self.ended) }
    }

    /// Makes the caller the committer, unless there is one; the end of a commit is signalled.
    pub(crate) fn try_commit(&self) -> Option<Committing<'_>> {
        let committer = self.committer.try_lock()?;
        Some(Committing { committer, _signals: SignalsOnDrop(&self.ended) })
    }

    /// Number of the running transaction.
    pub(crate) fn running_id(&self) -> u64 {
        self.id.load(Acquire)
    }

    /// The last transaction that is durable.
    pub(crate) fn committed(&self) -> u64 {
        self.committed.load(Acquire)
    }

    pub(crate) fn set_committed(&self, id: u64) {
        self.committed.store(id, Release);
    }

    /// Returns whether blocks of transaction `id` could not be written although writing continues.
    pub(crate) fn is_lossy(&self, id: u64) -> bool {
        self.lossy.load(Acquire) == id
    }

    pub(crate) fn set_lossy(&self, id: u64) {
        self.lossy.store(id, Release);
    }

    /// Returns whether transactions are logged.
    pub(crate) fn has_journal(&self) -> bool {
        self.has_journal.load(Acquire)
    }

    /// Sets the journal, if transactions are logged.
    pub(crate) fn set_journal(&self, journal: Option<Journal>) {
        self.has_journal.store(journal.is_some(), Release);
        self.begin_commit().journal = journal;
    }

    /// Locks the running transaction's changes.
    pub(crate) fn running(&self) -> MutexGuard<'_, RunningTransaction> {
        self.running.lock()
    }

    /// Returns the number of writes of data that a flush must follow. The caller reads it before the flush.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Acquire)
    }

    /// Records that a flush has followed the first `written` writes, as counted by [`Log::written`].
    pub(crate) fn note_flushed(&self, written: u64) {
        self.flushed.fetch_max(written, AcqRel);
    }

    /// Returns whether a flush has followed all data writes.
    pub(crate) fn is_flushed(&self) -> bool {
        self.flushed.load(Acquire) >= self.written()
    }

    /// Notes a data write, which a flush must follow.
    pub(crate) fn note_written(&self) {
        self.written.fetch_add(1, AcqRel);
    }

    /// Begins an operation, which joins the running transaction. Waits while a transaction ends.
    pub(crate) fn begin(&self) -> Operation<'_> {
        let shared = self.operations.read();
        Operation { log: self, has_changed: Cell::new(false), _shared: shared }
    }

    /// Waits until no operation is under way, and makes new ones wait.
    pub(crate) fn stop(&self) -> WriteGuard<'_, ()> {
        self.operations.write()
    }

    /// Ends the running transaction, in which no operation is under way; `None` if it changed nothing.
    pub(crate) fn take(&self, _stopped: &WriteGuard<'_, ()>) -> Option<(u64, RunningTransaction)> {
        let mut running = self.running.lock();
        if running.is_empty() {
            return None;
        }
        let ended = core::mem::take(&mut *running);
        let id = self.id.fetch_add(1, AcqRel);
        drop(running);
        self.started.signal();
        Some((id, ended))
    }

    /// Merges a transaction that ended back into the running one.
    pub(crate) fn put_back(&self, ended: RunningTransaction) {
        let mut running = self.running.lock();
        for (block, class) in ended.blocks {
            if !running.revoked.contains(&block) {
                running.blocks.entry(block).or_insert(class);
            }
        }
        running.revoked.extend(ended.revoked);
        running.freed.extend(ended.freed);
        running.new_inodes.extend(ended.new_inodes);
    }

    fn data_of(&self, id: u64) -> Option<&AtomicUsize> {
        self.data.get((id & 1) as usize)
    }

    /// Adds `count` data requests to transaction `id`.
    pub(crate) fn begin_data(&self, id: u64, count: usize) {
        if let Some(data) = self.data_of(id) {
            data.fetch_add(count, AcqRel);
        }
    }

    /// Notes the end of a data request of transaction `id`.
    pub(crate) fn end_data(&self, id: u64) {
        self.note_written();
        if let Some(count) = self.data_of(id)
            && count.fetch_sub(1, AcqRel) == 1
        {
            self.data_ended.signal();
        }
    }

    /// Waits for the data of transaction `id`, which has ended.
    pub(crate) fn wait_data(&self, id: u64) {
        let Some(count) = self.data_of(id) else { return };
        loop {
            let ticket = self.data_ended.ticket();
            if count.load(Acquire) == 0 {
                return;
            }
            self.data_ended.wait(ticket, None);
        }
    }
}

/// The right to commit. When it is dropped, threads that wait for a commit are told.
pub(crate) struct Committing<'a> {
    committer: MutexGuard<'a, Committer>,
    _signals: SignalsOnDrop<'a>,
}

impl Deref for Committing<'_> {
    type Target = Committer;
    fn deref(&self) -> &Committer {
        &self.committer
    }
}

impl DerefMut for Committing<'_> {
    fn deref_mut(&mut self) -> &mut Committer {
        &mut self.committer
    }
}

/// Signals its event when it is dropped.
struct SignalsOnDrop<'a>(&'a Event);

impl Drop for SignalsOnDrop<'_> {
    fn drop(&mut self) {
        self.0.signal();
    }
}

/// One atomic change under way. It is begun before any lock of an inode or a group is taken.
pub(crate) struct Operation<'a> {
    log: &'a Log,
    has_changed: Cell<bool>,
    _shared: ReadGuard<'a, ()>,
}

impl Operation<'_> {
    /// Returns the number of its transaction.
    pub(crate) fn id(&self) -> u64 {
        self.log.running_id()
    }

    /// It has changed a block.
    pub(crate) fn has_changed(&self) -> bool {
        self.has_changed.get()
    }

    /// Notes that a block was changed.
    pub(crate) fn note(&self, block: u64, class: Class) {
        self.has_changed.set(true);
        let mut running = self.log.running();
        let noted = running.blocks.entry(block).or_insert(class);
        *noted = noted.with(class);
    }

    /// Notes a change as [`Operation::note`] does, unless the transaction is `known` to have been told.
    pub(crate) fn note_unless(&self, known: Known, block: u64, class: Class) {
        match known {
            Known::Already => self.has_changed.set(true),
            Known::NotYet => self.note(block, class),
        }
    }

    /// Notes that an inode was allocated.
    pub(crate) fn note_inode(&self, number: u32) {
        self.log.running().new_inodes.insert(number);
    }

    /// Notes that an inode was freed.
    pub(crate) fn drop_inode(&self, number: u32) {
        self.log.running().new_inodes.remove(&number);
    }

    /// Notes that a block group was changed.
    pub(crate) fn note_group(&self, number: u32) {
        self.log.running().groups.insert(number);
    }

    /// Called when blocks were freed. Logged blocks of metadata among them are not to be written in place any
    /// more.
    pub(crate) fn note_freed(&self, start: u64, count: u64, content: Content) {
        let mut running = self.log.running();
        running.freed.push((start, count));
        if content == Content::Metadata {
            for block in start..start + count {
                running.blocks.remove(&block);
                running.revoked.insert(block);
            }
        }
    }

    /// Adds `count` data requests to this transaction.
    pub(crate) fn begin_data(&self, count: usize) {
        self.log.begin_data(self.id(), count);
    }
}

/// The type of the contents of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Contents of a file.
    Data,
    /// Trees, directories, attributes, targets of links.
    Metadata,
}
