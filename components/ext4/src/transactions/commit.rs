//! Commits: the running transaction goes to the device as a whole.
//!
//! With a journal: the blocks are appended to it, and put in place later ([`Volume::checkpoint`]).
//! Without: they are written in place in an order ([`Class`]) such that whatever part of them is
//! there after a crash, `e2fsck -p` mends without asking:
//!
//! ```text
//! data, fresh blocks | flush | other metadata, new inodes left free | flush
//!      | entries of directories | flush | hash trees | flush | new inodes | flush
//! ```
//! so that a name never stands for an inode that was in use before, and nothing durable is reached
//! only by what is not.
//!
//! A write that the device refuses ends writing; only without a journal and with `errors=continue` the rest
//! is written, and who waits for that transaction is told.
//!
//! Data that is kept for a commit ([`crate::store::along`]) is written along with its blocks of the journal.
//!
//! Locks: `ext4.commit` during all of it.
use crate::{
    files::write,
    layout::{
        groups,
        inode::inode_place,
        superblock_edit::{self, Mark},
        volume::Volume,
    },
    store::{
        along::{self, Along},
        cache::Chunk,
        device::{Piece, Refusal},
        journal::Journal,
        log::{Class, FailedRun, Running},
    },
};
use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::sync::atomic::Ordering::Relaxed;
use interfaces::{block::SECTOR_BYTES, file_system::FsError};

/// Most times that a commit is put off for threads that are about to join it.
const JOINS_MAX: usize = 16;
/// Blocks that are committed without letting operations go first.
const SHORT_BLOCKS: usize = 16;

/// A block as a transaction left it.
#[derive(Clone)]
struct Version {
    class: Class,
    chunk: Arc<Chunk>,
    offset: usize,
}

/// The committer: the journal, and its changes that are not in place.
#[derive(Default)]
pub(crate) struct Committer {
    /// There where transactions are logged.
    pub(crate) journal: Option<Journal>,
    /// Newest logged version of each block; `None` where it was freed since.
    waiting: BTreeMap<u64, Option<Logged>>,
    /// The superblock says "needs recovery".
    is_marked: bool,
}

/// A block that is in the journal.
struct Logged {
    chunk: Arc<Chunk>,
    offset: usize,
    /// It was written in place, too, though perhaps not flushed.
    is_in_place: bool,
}

/// A transaction that ended.
struct Ended {
    id: u64,
    running: Running,
    blocks: BTreeMap<u64, Version>,
}

impl Ended {
    /// It goes to the journal, which has room for it.
    fn fits(&self, committer: &Committer) -> bool {
        let (blocks, revoked) = (self.blocks.len(), self.running.revoked.len());
        committer.journal.as_ref().is_some_and(|journal| journal.has_room(blocks, revoked))
    }
}

impl Volume {
    /// Makes every transaction up to `id` durable.
    ///
    /// # Errors
    /// Errors of writing: the volume is read-only then.
    pub(crate) fn commit(&self, id: u64) -> Result<(), FsError> {
        let mut committer = self.log.begin_commit();
        if self.log.committed() >= id {
            return if self.log.is_lossy(id) { Err(FsError::Io) } else { Ok(()) };
        }
        rt::memory::with_reserve(|| self.commit_with(&mut committer))
    }

    /// Makes every transaction up to `id` durable, and data that was kept by transaction `kept`. One of the threads that do so
    /// commits for all; the others wait for the end of that without the lock.
    ///
    /// # Errors
    /// As [`Volume::commit`].
    pub(crate) fn commit_inode(&self, id: u64, kept: u64) -> Result<(), FsError> {
        let both = id.max(kept);
        if self.log.committed() >= both && self.log.is_flushed() {
            return self.outcome(id);
        }
        self.log.joined.fetch_add(1, Relaxed);
        self.log.syncing.fetch_add(1, Relaxed);
        let result = self.commit_or_wait(id, both);
        self.log.syncing.fetch_sub(1, Relaxed);
        result
    }

    /// The result for a caller that waited for transaction `id`, which was committed.
    fn outcome(&self, id: u64) -> Result<(), FsError> {
        let is_lost = self.health.has_failed() || self.log.is_lossy(id);
        if is_lost { Err(FsError::Io) } else { Ok(()) }
    }

    fn commit_or_wait(&self, id: u64, both: u64) -> Result<(), FsError> {
        let was_committed = self.log.committed() >= both;
        loop {
            let ticket = self.log.ended.ticket();
            if !was_committed && self.log.committed() >= both && self.log.is_flushed() {
                return self.outcome(id);
            }
            let Some(mut committer) = self.log.try_commit() else {
                self.log.ended.wait(ticket, None, false);
                continue;
            };
            return rt::memory::with_reserve(|| {
                if self.log.committed() < id {
                    self.let_join();
                    return self.commit_with(&mut committer);
                }
                if self.health.has_failed() {
                    return Err(FsError::Io);
                }
                self.flush_data()?;
                if self.log.is_lossy(id) { Err(FsError::Io) } else { Ok(()) }
            });
        }
    }

    /// Lets other threads go first that are about to make files durable, as long as more come: one commit is enough for all.
    fn let_join(&self) {
        for _ in 0..JOINS_MAX {
            let joined = self.log.joined.load(Relaxed);
            if self.log.syncing.load(Relaxed) <= 1 {
                return;
            }
            rt::thread::yield_now();
            if self.log.joined.load(Relaxed) == joined {
                return;
            }
        }
    }

    /// Writes the data that is kept, for a caller that does not commit after all.
    pub(crate) fn let_go(&self) {
        let _committer = self.log.begin_commit();
        match self.health.has_failed() {
            true => self.fail_along(),
            false => self.write_alone(self.log.take_along()),
        }
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// As [`Volume::commit`].
    pub(crate) fn sync(&self) -> Result<(), FsError> {
        let mut committer = self.log.begin_commit();
        rt::memory::with_reserve(|| self.commit_with(&mut committer))
    }

    /// Writes in place what is only in the journal, so that whoever reads the device finds it there. The journal keeps it until
    /// that is flushed.
    ///
    /// # Errors
    /// As [`Volume::commit`].
    pub(crate) fn put_in_place(&self) -> Result<(), FsError> {
        let mut committer = self.log.begin_commit();
        if self.health.has_failed() {
            return Err(FsError::Io);
        }
        let result = rt::memory::with_reserve(|| self.write_in_place(&mut committer));
        result.inspect_err(|error| self.health.abort(self.device.name(), *error))
    }

    /// Makes everything durable; with a journal everything is put in place too, and the journal and
    /// the superblock are left as those of a volume that needs no recovery.
    ///
    /// # Errors
    /// As [`Volume::commit`].
    pub(crate) fn settle_all(&self) -> Result<(), FsError> {
        let mut committer = self.log.begin_commit();
        rt::memory::with_reserve(|| {
            self.commit_with(&mut committer)?;
            let result = self.settle_journal(&mut committer);
            result.inspect_err(|error| self.health.abort(self.device.name(), *error))
        })
    }

    /// Puts in place what the journal holds, and empties it.
    ///
    /// # Errors
    /// As [`Volume::commit`].
    pub(crate) fn empty_journal(&self) -> Result<(), FsError> {
        let mut committer = self.log.begin_commit();
        if self.health.has_failed() {
            return Err(FsError::Io);
        }
        let result = rt::memory::with_reserve(|| self.checkpoint(&mut committer));
        result.inspect_err(|error| self.health.abort(self.device.name(), *error))
    }

    fn commit_with(&self, committer: &mut Committer) -> Result<(), FsError> {
        if self.health.has_failed() {
            return Err(FsError::Io);
        }
        let (ended, result) = loop {
            let ended = self.end_running();
            let ended = ended.inspect_err(|error| self.health.abort(self.device.name(), *error))?;
            let Some(mut ended) = ended else {
                return self.flush_data();
            };
            if ended.blocks.len() > SHORT_BLOCKS {
                // Operations that waited for the start go on before the long work.
                rt::thread::yield_now();
            }
            let mut along = self.log.take_along();
            if !ended.fits(committer) {
                self.write_alone(core::mem::take(&mut along));
            }
            self.log.wait_data(ended.id);
            if let Some(failed) = self.failed_data(&mut ended) {
                // Changes that the device refused must not be reached as data: the next round says so too.
                self.log.keep_all(along);
                self.log.put_back(ended.running);
                write::withdraw(self, &failed)?;
                continue;
            }
            match self.write_ended(committer, &mut ended, &along) {
                Err(Refusal::Data) => self.write_alone(along),
                result => {
                    along::end(along);
                    break (ended, result.map_err(Refusal::error));
                }
            }
            // The files are told. Of a transaction that maps none of what was refused nothing changes.
            let Some(failed) = self.failed_data(&mut ended) else {
                let result = self.write_ended(committer, &mut ended, &[]);
                break (ended, result.map_err(Refusal::error));
            };
            if let Some(journal) = &committer.journal {
                let size = (ended.blocks.len(), ended.running.revoked.len());
                let erased = journal.erase_commit(&self.device, size.0, size.1);
                erased.inspect_err(|error| self.health.abort(self.device.name(), *error))?;
            }
            self.log.put_back(ended.running);
            write::withdraw(self, &failed)?;
        };
        if let Err(error) = result {
            if committer.journal.is_some() || !self.health.goes_on() {
                self.health.abort(self.device.name(), error);
                return Err(error);
            }
            self.health.report(self.device.name(), error);
            self.log.set_lossy(ended.id);
        }
        if let Ok(groups) = self.groups() {
            groups.release(&self.geometry, &ended.running.freed);
        }
        self.log.set_committed(ended.id);
        result
    }

    /// Runs of files whose data the device refused, of that transaction and the running one.
    fn failed_data(&self, ended: &mut Ended) -> Option<Vec<FailedRun>> {
        let mut failed = core::mem::take(&mut ended.running.failed);
        failed.append(&mut self.log.running().failed);
        (!failed.is_empty()).then_some(failed)
    }

    /// Ends the running transaction and takes its blocks as they are; `None` where nothing changed.
    fn end_running(&self) -> Result<Option<Ended>, FsError> {
        let stopped = self.log.stop();
        if !self.log.running().blocks.is_empty() {
            groups::seal(self)?;
            superblock_edit::note(self);
        }
        let Some((id, running)) = self.log.take(&stopped) else { return Ok(None) };
        let mut blocks = BTreeMap::new();
        for (block, class) in &running.blocks {
            if let Some((chunk, offset)) = self.seal(*block) {
                blocks.insert(*block, Version { class: *class, chunk, offset });
            }
        }
        Ok(Some(Ended { id, running, blocks }))
    }

    fn write_ended(
        &self,
        committer: &mut Committer,
        ended: &mut Ended,
        along: &[Along],
    ) -> Result<(), Refusal> {
        let revoked: Vec<u64> = ended.running.revoked.iter().copied().collect();
        for block in &revoked {
            if let Some(waiting) = committer.waiting.get_mut(block) {
                *waiting = None;
            }
        }
        if committer.journal.is_some() && !ended.fits(committer) {
            self.checkpoint(committer)?;
        }
        let fits = ended.fits(committer);
        let Ended { running, blocks, .. } = ended;
        if !fits {
            let result = self.write_in_order(running, blocks);
            if result.is_ok() || self.health.goes_on() {
                blocks.keys().for_each(|block| self.settle(*block));
            }
            return Ok(result?);
        }
        let Some(journal) = committer.journal.as_mut() else { return Ok(()) };
        if !committer.is_marked {
            superblock_edit::mark(self, Mark::Recovery)?;
            committer.is_marked = true;
        }
        let bytes = self.geometry.block_bytes;
        let logged: Vec<(u64, &[u8])> = blocks
            .iter()
            .map(|(block, version)| (*block, version.chunk.part(version.offset, bytes)))
            .collect();
        let written = self.log.written();
        journal.append(&self.device, &logged, &revoked, along::requests_of(along))?;
        self.log.note_flushed(written);
        let must_checkpoint = journal.is_half_full();
        for (block, version) in blocks.iter() {
            let (chunk, offset) = (Arc::clone(&version.chunk), version.offset);
            committer.waiting.insert(*block, Some(Logged { chunk, offset, is_in_place: false }));
        }
        let is_much = must_checkpoint || committer.waiting.len() > 2 * self.log.limit();
        if is_much && !self.background.want_checkpoint() {
            self.checkpoint(committer)?;
        }
        Ok(())
    }

    fn sector(&self, block: u64) -> u64 {
        block * (self.geometry.block_bytes / SECTOR_BYTES) as u64
    }

    /// Writes in place those blocks in the journal that are not.
    fn write_in_place(&self, committer: &mut Committer) -> Result<(), FsError> {
        let bytes = self.geometry.block_bytes;
        let logged = committer.waiting.iter().filter_map(|(block, logged)| {
            let logged = logged.as_ref().filter(|logged| !logged.is_in_place)?;
            Some((self.sector(*block), logged.chunk.part(logged.offset, bytes)))
        });
        let pieces: Vec<Piece<'_>> = logged.collect();
        self.device.write(&pieces)?;
        drop(pieces);
        committer.waiting.values_mut().flatten().for_each(|logged| logged.is_in_place = true);
        Ok(())
    }

    /// Puts in place what the journal holds, empties it, and has the superblock say that nothing needs recovery.
    fn settle_journal(&self, committer: &mut Committer) -> Result<(), FsError> {
        self.checkpoint(committer)?;
        if core::mem::take(&mut committer.is_marked) {
            superblock_edit::mark(self, Mark::Settled)?;
        }
        Ok(())
    }

    /// Puts in place what the journal holds, and empties it.
    fn checkpoint(&self, committer: &mut Committer) -> Result<(), FsError> {
        if committer.journal.as_ref().is_none_or(Journal::is_empty) && committer.waiting.is_empty()
        {
            return Ok(());
        }
        self.write_in_place(committer)?;
        let Committer { journal: Some(journal), waiting, .. } = committer else { return Ok(()) };
        self.device.flush()?;
        journal.reset(&self.device)?;
        self.device.flush()?;
        let settled = core::mem::take(waiting);
        settled.keys().for_each(|block| self.settle(*block));
        Ok(())
    }

    /// Writes a transaction in place, in the order of its blocks' classes; with `errors=continue`
    /// all that can be written.
    fn write_in_order(
        &self,
        running: &Running,
        blocks: &BTreeMap<u64, Version>,
    ) -> Result<(), FsError> {
        let written = self.log.written();
        let mut result = match blocks.values().any(|version| version.class == Class::Fresh) {
            // Their flush is the data's too.
            true => Ok(()),
            false => self.flush_data(),
        };
        let bytes = self.geometry.block_bytes;
        let mut tables: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        for number in &running.new_inodes {
            let (block, offset) = inode_place(self, *number)?;
            let Some(version) = blocks.get(&block) else { continue };
            let whole = || version.chunk.part(version.offset, bytes).to_vec();
            let copy = tables.entry(block).or_insert_with(whole);
            crate::store::bytes::clear(copy, offset, self.geometry.inode_bytes);
        }
        for class in [Class::Fresh, Class::Other, Class::Directory, Class::Index] {
            let of_class = blocks.iter().filter(|(_, version)| version.class == class);
            let pieces: Vec<Piece<'_>> = of_class
                .map(|(block, version)| {
                    let without_new = tables.get(block).map(Vec::as_slice);
                    let whole = version.chunk.part(version.offset, bytes);
                    (self.sector(*block), without_new.unwrap_or(whole))
                })
                .collect();
            if result.is_ok() || self.health.goes_on() {
                result = result.and(self.write_phase(&pieces));
            }
        }
        let with_new = tables.keys().filter_map(|block| {
            let version = blocks.get(block)?;
            Some((self.sector(*block), version.chunk.part(version.offset, bytes)))
        });
        if result.is_ok() || self.health.goes_on() {
            result = result.and(self.write_phase(&with_new.collect::<Vec<_>>()));
        }
        result.inspect(|()| self.log.note_flushed(written))
    }

    fn write_phase(&self, pieces: &[Piece<'_>]) -> Result<(), FsError> {
        if pieces.is_empty() {
            return Ok(());
        }
        let mut result = self.device.write(pieces);
        if result.is_err() && self.health.goes_on() {
            // One by one: only those are lost that the device refuses.
            let each = pieces.iter().map(|piece| self.device.write(&[*piece]));
            result = each.fold(Ok(()), Result::and);
        }
        result.and(self.device.flush())
    }
}
