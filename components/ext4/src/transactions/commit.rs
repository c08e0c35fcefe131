//! Commits: the running transaction goes to the device as a whole.
//!
//! With a journal: the blocks are appended to it, and put in place later ([`in_place::checkpoint`]).
//! Without: they are written in place in an order ([`in_place::write_in_order`]) such that whatever part of them is
//! there after a crash, `e2fsck -p` mends without asking:
//!
//! ```text
//! data, fresh blocks | flush | other metadata, new inodes left free | flush
//!      | entries of directories | flush | hash trees | flush | new inodes | flush
//! ```
//! So a name never stands for an inode that was in use before, and nothing durable is reachable only through something that is
//! not.
//!
//! A write that the device refuses ends writing. Only without a journal and with `errors=continue` the rest is written, and
//! threads that wait for that transaction get an error.
//!
//! Data that is kept for a commit ([`crate::store::along`]) is written along with its blocks of the journal.
//!
//! Locks: `ext4.commit` during the whole commit.
use crate::{
    layout::{
        groups::seal,
        leaf,
        superblock_edit::{self, Mark},
    },
    store::{
        along::{self, Along},
        committer::{Committer, Logged},
        device::Refusal,
        log::{FailedRun, RunningTransaction},
    },
    transactions::{
        in_place::{self, Version},
        mount::Mount,
    },
};
use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::sync::atomic::Ordering::Relaxed;
use interfaces::file_system::FsError;

/// The greatest number of times that a commit is delayed for threads that are about to join it.
const JOINS_MAX: usize = 16;
/// Number of blocks that are committed without letting operations go first.
const SHORT_BLOCKS: usize = 16;

/// A transaction that ended.
struct Ended {
    id: u64,
    running: RunningTransaction,
    blocks: BTreeMap<u64, Version>,
}

impl Ended {
    /// Returns whether it fits in the journal.
    fn fits(&self, committer: &Committer) -> bool {
        let (blocks, revoked) = (self.blocks.len(), self.running.revoked.len());
        committer.journal.as_ref().is_some_and(|journal| journal.has_room(blocks, revoked))
    }
}

impl Mount {
    /// Makes every transaction up to `id` durable.
    ///
    /// # Errors
    /// Errors of writing: the volume is read-only then.
    pub(crate) fn commit(&self, id: u64) -> Result<(), FsError> {
        let store = &self.volume.store;
        let mut committer = store.log.begin_commit();
        if store.log.committed() >= id {
            return if store.log.is_lossy(id) { Err(FsError::Io) } else { Ok(()) };
        }
        rt::memory::with_reserve(|| self.commit_with(&mut committer))
    }

    /// Makes every transaction up to `id` durable, and the data kept by transaction `kept`. One of the threads that want this
    /// commits for all; the others wait for its end without the lock.
    ///
    /// # Errors
    /// As [`Mount::commit`].
    pub(crate) fn commit_inode(&self, id: u64, kept: u64) -> Result<(), FsError> {
        let store = &self.volume.store;
        let both = id.max(kept);
        if store.log.committed() >= both && store.log.is_flushed() {
            return self.outcome(id);
        }
        store.log.joined.fetch_add(1, Relaxed);
        store.log.syncing.fetch_add(1, Relaxed);
        let result = self.commit_or_wait(id, both);
        store.log.syncing.fetch_sub(1, Relaxed);
        result
    }

    /// Returns the result for a caller that waited for transaction `id`, which was committed.
    fn outcome(&self, id: u64) -> Result<(), FsError> {
        let store = &self.volume.store;
        let is_lost = store.health.has_failed() || store.log.is_lossy(id);
        if is_lost { Err(FsError::Io) } else { Ok(()) }
    }

    fn commit_or_wait(&self, id: u64, both: u64) -> Result<(), FsError> {
        let store = &self.volume.store;
        let was_committed = store.log.committed() >= both;
        loop {
            let ticket = store.log.ended.ticket();
            if !was_committed && store.log.committed() >= both && store.log.is_flushed() {
                return self.outcome(id);
            }
            let Some(mut committer) = store.log.try_commit() else {
                store.log.ended.wait(ticket, None);
                continue;
            };
            return rt::memory::with_reserve(|| {
                if store.log.committed() < id {
                    self.let_join();
                    return self.commit_with(&mut committer);
                }
                if store.health.has_failed() {
                    return Err(FsError::Io);
                }
                store.flush_data()?;
                if store.log.is_lossy(id) { Err(FsError::Io) } else { Ok(()) }
            });
        }
    }

    /// Waits for other threads that are about to make files durable, as long as more come: one commit is enough for all.
    fn let_join(&self) {
        let store = &self.volume.store;
        for _ in 0..JOINS_MAX {
            let joined = store.log.joined.load(Relaxed);
            if store.log.syncing.load(Relaxed) <= 1 {
                return;
            }
            rt::thread::yield_now();
            if store.log.joined.load(Relaxed) == joined {
                return;
            }
        }
    }

    /// Writes the kept data, for a caller that does not commit after all.
    pub(crate) fn let_go(&self) {
        let store = &self.volume.store;
        let _committer = store.log.begin_commit();
        match store.health.has_failed() {
            true => store.kept.fail(),
            false => store.write_alone(store.kept.take()),
        }
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// As [`Mount::commit`].
    pub(crate) fn sync(&self) -> Result<(), FsError> {
        let store = &self.volume.store;
        let mut committer = store.log.begin_commit();
        rt::memory::with_reserve(|| self.commit_with(&mut committer))
    }

    /// Writes in place the blocks that are only in the journal, so that a program that reads the device finds them there. The
    /// journal keeps them until that is flushed.
    ///
    /// # Errors
    /// As [`Mount::commit`].
    pub(crate) fn put_in_place(&self) -> Result<(), FsError> {
        let store = &self.volume.store;
        let mut committer = store.log.begin_commit();
        if store.health.has_failed() {
            return Err(FsError::Io);
        }
        let result = rt::memory::with_reserve(|| in_place::write_logged(store, &mut committer));
        result.inspect_err(|error| store.abort(*error))
    }

    /// Makes everything durable. With a journal all blocks are also written in place, and the journal and the superblock are
    /// those of a volume that needs no recovery.
    ///
    /// # Errors
    /// As [`Mount::commit`].
    pub(crate) fn settle_all(&self) -> Result<(), FsError> {
        let store = &self.volume.store;
        let mut committer = store.log.begin_commit();
        rt::memory::with_reserve(|| {
            self.commit_with(&mut committer)?;
            let result = self.settle_journal(&mut committer);
            result.inspect_err(|error| store.abort(*error))
        })
    }

    /// Writes the journal's blocks in place, and empties the journal.
    ///
    /// # Errors
    /// As [`Mount::commit`].
    pub(crate) fn empty_journal(&self) -> Result<(), FsError> {
        let store = &self.volume.store;
        let mut committer = store.log.begin_commit();
        if store.health.has_failed() {
            return Err(FsError::Io);
        }
        let result = rt::memory::with_reserve(|| in_place::checkpoint(store, &mut committer));
        result.inspect_err(|error| store.abort(*error))
    }

    fn commit_with(&self, committer: &mut Committer) -> Result<(), FsError> {
        let store = &self.volume.store;
        if store.health.has_failed() {
            return Err(FsError::Io);
        }
        let (ended, result) = loop {
            let ended = self.end_running();
            let ended = ended.inspect_err(|error| store.abort(*error))?;
            let Some(mut ended) = ended else {
                return store.flush_data();
            };
            if ended.blocks.len() > SHORT_BLOCKS {
                // Operations that waited for the start of the next transaction run before the long work.
                rt::thread::yield_now();
            }
            let mut along = store.kept.take();
            if !ended.fits(committer) {
                store.write_alone(core::mem::take(&mut along));
            }
            store.log.wait_data(ended.id);
            if let Some(failed) = self.failed_data(&mut ended) {
                // Blocks whose data the device refused must not be readable as data: the next round handles them, too.
                store.kept.put_back(along);
                store.log.put_back(ended.running);
                self.withdraw(&failed)?;
                continue;
            }
            match self.write_ended(committer, &mut ended, &along) {
                Err(Refusal::Data) => store.write_alone(along),
                result => {
                    along::end(along);
                    break (ended, result.map_err(Refusal::error));
                }
            }
            // The files' sinks have been told. A transaction that maps none of the refused data is not changed.
            let Some(failed) = self.failed_data(&mut ended) else {
                let result = self.write_ended(committer, &mut ended, &[]);
                break (ended, result.map_err(Refusal::error));
            };
            if let Some(journal) = &committer.journal {
                let size = (ended.blocks.len(), ended.running.revoked.len());
                let erased = journal.erase_commit(&store.device, size.0, size.1);
                erased.inspect_err(|error| store.abort(*error))?;
            }
            store.log.put_back(ended.running);
            self.withdraw(&failed)?;
        };
        if let Err(error) = result {
            if committer.journal.is_some() || !store.health.goes_on() {
                store.abort(error);
                return Err(error);
            }
            store.report(error);
            store.log.set_lossy(ended.id);
        }
        if let Ok(groups) = self.volume.groups() {
            groups.release(&self.volume.geometry, &ended.running.freed);
        }
        store.log.set_committed(ended.id);
        result
    }

    /// Takes the runs of files whose data the device refused, of that transaction and the running one.
    fn failed_data(&self, ended: &mut Ended) -> Option<Vec<FailedRun>> {
        let store = &self.volume.store;
        let mut failed = core::mem::take(&mut ended.running.failed);
        failed.append(&mut store.log.running().failed);
        (!failed.is_empty()).then_some(failed)
    }

    /// Ends the running transaction and takes its blocks as they are; `None` if nothing changed.
    fn end_running(&self) -> Result<Option<Ended>, FsError> {
        let store = &self.volume.store;
        let stopped = store.log.stop();
        if !store.log.running().blocks.is_empty() {
            seal::seal(&self.volume)?;
            superblock_edit::note(&self.volume);
        }
        let Some((id, running)) = store.log.take(&stopped) else { return Ok(None) };
        let mut blocks = BTreeMap::new();
        for (block, class) in &running.blocks {
            if let Some((chunk, offset)) =
                store.seal(*block, |seed, bytes| leaf::seal(&self.volume.geometry, seed, bytes))
            {
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
        let store = &self.volume.store;
        let revoked: Vec<u64> = ended.running.revoked.iter().copied().collect();
        for block in &revoked {
            if let Some(waiting) = committer.waiting.get_mut(block) {
                *waiting = None;
            }
        }
        if committer.journal.is_some() && !ended.fits(committer) {
            in_place::checkpoint(store, committer)?;
        }
        let fits = ended.fits(committer);
        let Ended { running, blocks, .. } = ended;
        if !fits {
            let result = in_place::write_in_order(&self.volume, running, blocks);
            if result.is_ok() || store.health.goes_on() {
                blocks.keys().for_each(|block| store.settle(*block));
            }
            return Ok(result?);
        }
        let Some(journal) = committer.journal.as_mut() else { return Ok(()) };
        if !committer.is_marked {
            superblock_edit::mark(&self.volume, Mark::Recovery)?;
            committer.is_marked = true;
        }
        let bytes = self.volume.geometry.block_bytes;
        let logged: Vec<(u64, &[u8])> = blocks
            .iter()
            .map(|(block, version)| (*block, version.chunk.part(version.offset, bytes)))
            .collect();
        let written = store.log.written();
        journal.append(&store.device, &logged, &revoked, along::requests_of(along))?;
        store.log.note_flushed(written);
        let must_checkpoint = journal.is_half_full();
        for (block, version) in blocks.iter() {
            let (chunk, offset) = (Arc::clone(&version.chunk), version.offset);
            committer.waiting.insert(*block, Some(Logged { chunk, offset, is_in_place: false }));
        }
        let is_much = must_checkpoint || committer.waiting.len() > 2 * store.log.limit();
        if is_much && !self.requests.want_checkpoint() {
            in_place::checkpoint(store, committer)?;
        }
        Ok(())
    }

    /// Writes the journal's blocks in place, empties the journal, and marks the superblock as needing no recovery.
    fn settle_journal(&self, committer: &mut Committer) -> Result<(), FsError> {
        let store = &self.volume.store;
        in_place::checkpoint(store, committer)?;
        if core::mem::take(&mut committer.is_marked) {
            superblock_edit::mark(&self.volume, Mark::Settled)?;
        }
        Ok(())
    }
}
