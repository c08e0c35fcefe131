//! Changes on their way to the device: operations gather in the running transaction, which a commit
//! writes as a whole.
//!
//! An [`Operation`] is one atomic change of the volume (a name made, a run of blocks allocated). All
//! that runs at the same time joins the running transaction; a commit waits until none is on its way,
//! takes what was changed, and lets the next transaction begin while it writes ([`crate::transactions::commit`]).
//! Blocks freed by a transaction are not used again before it is durable.
//!
//! Locks, in this order: `ext4.commit` (one commit at a time, held during its I/O), `ext4.operations`
//! (shared by operations, exclusive for the moment a transaction ends), `ext4.running` and `ext4.along` (leaves).
use crate::{
    layout::{groups::Account, volume::Volume},
    store::{along::Along, cache::Known, journal::Journal},
    transactions::commit::Committer,
};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::{
    cell::Cell,
    ops::{Deref, DerefMut},
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*},
};
use interfaces::file_system::FsError;
use rt::{
    lock_class,
    memory::Charge,
    sync::{Event, Mutex, MutexGuard, ReadGuard, RwLock, WriteGuard},
};

lock_class! {
    static OPERATIONS = "ext4.operations";
    static RUNNING = "ext4.running";
    static COMMIT = "ext4.commit";
    static ALONG = "ext4.along";
}

/// Blocks an operation may allocate for metadata.
pub(crate) const METADATA_BLOCKS: u64 = 64;

/// Memory that must be free before an operation begins: more than one usually takes.
const OPERATION_BYTES: usize = 128 * 1024;

/// When a changed block may go in place, on a volume without a journal: in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Nothing on the device points to it yet.
    Fresh,
    /// Inodes, nodes of extent trees, bitmaps, descriptors, attributes.
    Other,
    /// Entries of a directory.
    Directory,
    /// A root or node of a hash tree.
    Index,
}

impl Class {
    /// Of a block that was of this class and is changed once more. A block fresh or of an index
    /// stays what it is.
    pub(crate) fn with(self, class: Class) -> Class {
        match (self, class) {
            (_, Class::Fresh) => Class::Fresh,
            (Class::Fresh | Class::Index, _) => self,
            (_, class) => class,
        }
    }
}

/// The changes of the running transaction.
#[derive(Default)]
pub(crate) struct Running {
    /// Blocks changed.
    pub(crate) blocks: BTreeMap<u64, Class>,
    /// Blocks of metadata freed: what older transactions say of them must not be replayed.
    pub(crate) revoked: BTreeSet<u64>,
    /// Blocks freed, to be used again once it is durable.
    pub(crate) freed: Vec<(u64, u64)>,
    /// Inodes allocated.
    pub(crate) new_inodes: BTreeSet<u32>,
    /// Block groups changed, whose descriptors are to be written when the transaction ends.
    pub(crate) groups: BTreeSet<u32>,
    /// Runs of files whose data could not be written.
    pub(crate) failed: Vec<FailedRun>,
}

/// Blocks of a file that were mapped for data the device then refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailedRun {
    /// The file.
    pub(crate) inode: u32,
    /// First block in the file.
    pub(crate) logical: u64,
    /// Number of blocks.
    pub(crate) blocks: u64,
}

impl Running {
    fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.freed.is_empty()
    }
}

/// The running transaction, and how far its predecessors came.
pub(crate) struct Log {
    /// The committer, and the changes that are committed but not in place.
    committer: Mutex<Committer>,
    operations: RwLock<()>,
    running: Mutex<Running>,
    /// Number of the running transaction.
    id: AtomicU64,
    /// The last transaction that is durable.
    committed: AtomicU64,
    /// The last transaction of which something is lost; zero before there is one.
    lossy: AtomicU64,
    /// Requests for data on their way, of transactions with even and odd numbers.
    data: [AtomicUsize; 2],
    data_ended: Event,
    /// Data that waits for the next commit.
    along: Mutex<Vec<Along>>,
    /// Threads that make a file durable, now and ever.
    pub(crate) syncing: AtomicUsize,
    pub(crate) joined: AtomicUsize,
    /// A commit has ended.
    pub(crate) ended: Event,
    /// A transaction has begun, or none will.
    pub(crate) started: Event,
    /// Number of writes of data that a flush must follow, and the number of those that a flush has followed.
    written: AtomicU64,
    flushed: AtomicU64,
    has_journal: AtomicBool,
    /// Blocks a transaction may change before the next operation makes it end.
    limit: AtomicUsize,
}

impl Log {
    /// Nothing changed; for a cache of `capacity` chunks.
    pub(crate) fn new(capacity: usize) -> Log {
        Log {
            committer: Mutex::new(&COMMIT, Committer::default()),
            operations: RwLock::new(&OPERATIONS, ()),
            running: Mutex::new(&RUNNING, Running::default()),
            id: AtomicU64::new(1),
            committed: AtomicU64::new(0),
            lossy: AtomicU64::new(0),
            data: [AtomicUsize::new(0), AtomicUsize::new(0)],
            data_ended: Event::new(),
            along: Mutex::new(&ALONG, Vec::new()),
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

    /// Bounds transactions to `limit` blocks.
    pub(crate) fn set_limit(&self, limit: usize) {
        self.limit.fetch_min(limit.max(16), Relaxed);
    }

    /// Blocks a transaction should not exceed.
    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Relaxed)
    }

    /// Has the caller commit, who waits for others that do.
    pub(crate) fn begin_commit(&self) -> Committing<'_> {
        Committing { committer: self.committer.lock(), _told: Told(&self.ended) }
    }

    /// Has the caller commit, unless another does: its end is signalled.
    pub(crate) fn try_commit(&self) -> Option<Committing<'_>> {
        let committer = self.committer.try_lock()?;
        Some(Committing { committer, _told: Told(&self.ended) })
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

    /// Blocks of transaction `id` could not be written, and the volume goes on all the same.
    pub(crate) fn is_lossy(&self, id: u64) -> bool {
        self.lossy.load(Acquire) == id
    }

    pub(crate) fn set_lossy(&self, id: u64) {
        self.lossy.store(id, Release);
    }

    /// Transactions are logged.
    pub(crate) fn has_journal(&self) -> bool {
        self.has_journal.load(Acquire)
    }

    /// Transactions are logged, or not.
    pub(crate) fn set_journal(&self, journal: Option<Journal>) {
        self.has_journal.store(journal.is_some(), Release);
        self.begin_commit().journal = journal;
    }

    /// The running transaction's changes.
    pub(crate) fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock()
    }

    /// Returns the number of writes of data that a flush must follow. The caller reads it before the flush.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Acquire)
    }

    /// Notes that a flush has followed the first `written` writes, as [`Log::written`] counts them.
    pub(crate) fn note_flushed(&self, written: u64) {
        self.flushed.fetch_max(written, AcqRel);
    }

    /// A flush has followed all data that was written.
    pub(crate) fn is_flushed(&self) -> bool {
        self.flushed.load(Acquire) >= self.written()
    }

    /// Data was written that a flush must follow.
    pub(crate) fn note_written(&self) {
        self.written.fetch_add(1, AcqRel);
    }

    /// Waits until no operation is on its way, and holds the next ones off.
    pub(crate) fn stop(&self) -> WriteGuard<'_, ()> {
        self.operations.write()
    }

    /// Ends the running transaction, which nobody is at work on; `None` where it changed nothing.
    pub(crate) fn take(&self, _stopped: &WriteGuard<'_, ()>) -> Option<(u64, Running)> {
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

    /// A transaction that ended becomes part of the running one again.
    pub(crate) fn put_back(&self, ended: Running) {
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

    /// `count` requests for data join transaction `id`.
    pub(crate) fn begin_data(&self, id: u64, count: usize) {
        if let Some(data) = self.data_of(id) {
            data.fetch_add(count, AcqRel);
        }
    }

    /// Takes the data that is kept. The caller commits.
    pub(crate) fn take_along(&self) -> Vec<Along> {
        core::mem::take(&mut *self.along.lock())
    }

    /// Puts back what was taken.
    pub(crate) fn keep_all(&self, taken: Vec<Along>) {
        self.along.lock().extend(taken);
    }

    /// A request for data ended that joined transaction `id`.
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
            self.data_ended.wait(ticket, None, false);
        }
    }
}

/// The caller commits; threads that wait for that are told when it has ended.
pub(crate) struct Committing<'a> {
    committer: MutexGuard<'a, Committer>,
    _told: Told<'a>,
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

/// Signals its event when it goes.
struct Told<'a>(&'a Event);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.0.signal();
    }
}

/// One atomic change on its way. Taken before any lock of an inode or a group.
pub(crate) struct Operation<'a> {
    log: &'a Log,
    has_changed: Cell<bool>,
    _shared: ReadGuard<'a, ()>,
}

impl Operation<'_> {
    /// The transaction it belongs to.
    pub(crate) fn id(&self) -> u64 {
        self.log.running_id()
    }

    /// A block was changed.
    pub(crate) fn note(&self, block: u64, class: Class) {
        self.has_changed.set(true);
        let mut running = self.log.running();
        let noted = running.blocks.entry(block).or_insert(class);
        *noted = noted.with(class);
    }

    /// As [`Operation::note`], of a block whose chunk may remember that the transaction knows.
    pub(crate) fn note_unless(&self, known: Known, block: u64, class: Class) {
        match known {
            Known::Already => self.has_changed.set(true),
            Known::NotYet => self.note(block, class),
        }
    }

    /// An inode was allocated.
    pub(crate) fn note_inode(&self, number: u32) {
        self.log.running().new_inodes.insert(number);
    }

    /// An inode was freed.
    pub(crate) fn drop_inode(&self, number: u32) {
        self.log.running().new_inodes.remove(&number);
    }

    /// A block group was changed.
    pub(crate) fn note_group(&self, number: u32) {
        self.log.running().groups.insert(number);
    }

    /// Blocks were freed. Of metadata, nothing that was logged is to be written in place any more.
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

    /// `count` requests for data join this transaction.
    pub(crate) fn begin_data(&self, count: usize) {
        self.log.begin_data(self.id(), count);
    }

    /// Data of this transaction is kept for its commit.
    pub(crate) fn keep(&self, along: Along) {
        self.log.along.lock().push(along);
    }
}

/// The content of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A file's.
    Data,
    /// Trees, directories, attributes, targets of links.
    Metadata,
}

impl Volume {
    /// Runs one atomic change.
    ///
    /// # Errors
    /// [`FsError::ReadOnly`] where the volume may not be written, else the change's own. Where it
    /// fails for what it found on the medium, or half done, the volume is marked as having errors.
    pub(crate) fn operate<T>(
        &self,
        change: impl FnOnce(&Operation<'_>) -> Result<T, FsError>,
    ) -> Result<T, FsError> {
        self.operate_with((0, Account::Pool), change)
    }

    /// As [`Volume::operate`], of a change that claims up to `blocks` blocks beside its metadata from
    /// `account`: blocks just freed are made durable first where it needs them.
    ///
    /// # Errors
    /// As [`Volume::operate`].
    pub(crate) fn operate_with<T>(
        &self,
        (blocks, account): (u64, Account),
        change: impl FnOnce(&Operation<'_>) -> Result<T, FsError>,
    ) -> Result<T, FsError> {
        self.health.check_writable()?;
        // Refused here, before anything is changed; once begun, it may use the reserve.
        Charge::take(OPERATION_BYTES).map_err(|_| FsError::NoMemory)?;
        self.limit_running()?;
        let needed = blocks.saturating_add(METADATA_BLOCKS);
        if self.groups()?.must_wait_for(needed, account) {
            self.commit(self.log.running_id())?;
        }
        self.operate_now(change)
    }

    /// As [`Volume::operate`], for who commits: does not itself end the running transaction.
    ///
    /// # Errors
    /// As [`Volume::operate`].
    pub(crate) fn operate_now<T>(
        &self,
        change: impl FnOnce(&Operation<'_>) -> Result<T, FsError>,
    ) -> Result<T, FsError> {
        let operation = Operation {
            log: &self.log,
            has_changed: Cell::new(false),
            _shared: self.log.operations.read(),
        };
        let result = rt::memory::with_reserve(|| change(&operation));
        if let Err(error) = &result {
            let is_expected = !matches!(error, FsError::Corrupt | FsError::Io | FsError::NoMemory);
            let is_whole = !operation.has_changed.get();
            if *error == FsError::Corrupt || !(is_expected || is_whole) {
                self.health.report(self.device.name(), *error);
            }
        }
        result
    }
}
