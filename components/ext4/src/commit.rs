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
//! Locks: `ext4.commit` during all of it.
use crate::{
    cache::Chunk,
    device::Piece,
    groups,
    inode::inode_place,
    journal::Journal,
    log::{Class, Running},
    superblock_edit::{self, Mark},
    volume::Volume,
    write,
};
use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use interfaces::{block::SECTOR_BYTES, file_system::FsError};

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

impl Volume {
    /// Makes every transaction up to `id` durable.
    ///
    /// # Errors
    /// Errors of writing: the volume is read-only then.
    pub(crate) fn commit(&self, id: u64) -> Result<(), FsError> {
        let mut committer = self.log.committer.lock();
        if self.log.committed() >= id {
            return if self.log.is_lossy(id) { Err(FsError::Io) } else { Ok(()) };
        }
        rt::memory::with_reserve(|| self.commit_with(&mut committer))
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// As [`Volume::commit`].
    pub(crate) fn sync(&self) -> Result<(), FsError> {
        let mut committer = self.log.committer.lock();
        rt::memory::with_reserve(|| self.commit_with(&mut committer))
    }

    /// Writes in place what is only in the journal, so that whoever reads the device finds it there. The journal keeps it until
    /// that is flushed.
    ///
    /// # Errors
    /// As [`Volume::commit`].
    pub(crate) fn put_in_place(&self) -> Result<(), FsError> {
        let mut committer = self.log.committer.lock();
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
        let mut committer = self.log.committer.lock();
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
        let mut committer = self.log.committer.lock();
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
        let mut ended = loop {
            let ended = self.end_running();
            let ended = ended.inspect_err(|error| self.health.abort(self.device.name(), *error))?;
            let Some(mut ended) = ended else {
                return self.flush_data();
            };
            // Operations that waited for the start go on before the long work.
            rt::thread::yield_now();
            self.log.wait_data(ended.id);
            let mut failed = core::mem::take(&mut ended.running.failed);
            failed.append(&mut self.log.running().failed);
            if failed.is_empty() {
                break ended;
            }
            // Changes that the device refused must not be reached as data: the next round says so too.
            self.log.put_back(ended.running);
            write::withdraw(self, &failed)?;
        };
        let result = self.write_ended(committer, &mut ended);
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

    /// A flush, where data was written that none followed.
    pub(crate) fn flush_data(&self) -> Result<(), FsError> {
        if !self.log.take_unflushed_data() {
            return Ok(());
        }
        self.device.flush().inspect_err(|_| self.log.note_unflushed_data())
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

    fn write_ended(&self, committer: &mut Committer, ended: &mut Ended) -> Result<(), FsError> {
        let Ended { running, blocks, .. } = ended;
        let revoked: Vec<u64> = running.revoked.iter().copied().collect();
        for block in &revoked {
            if let Some(waiting) = committer.waiting.get_mut(block) {
                *waiting = None;
            }
        }
        let fits = |journal: &Journal| journal.has_room(blocks.len(), revoked.len());
        if committer.journal.as_ref().is_some_and(|journal| !fits(journal)) {
            self.checkpoint(committer)?;
        }
        if !committer.journal.as_ref().is_some_and(fits) {
            let result = self.write_in_order(running, blocks);
            if result.is_ok() || self.health.goes_on() {
                blocks.keys().for_each(|block| self.settle(*block));
            }
            return result;
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
        self.log.take_unflushed_data();
        journal.append(&self.device, &logged, &revoked)?;
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
        let mut result = match blocks.values().any(|version| version.class == Class::Fresh) {
            // Their flush is the data's too.
            true => {
                self.log.take_unflushed_data();
                Ok(())
            }
            false => self.flush_data(),
        };
        let bytes = self.geometry.block_bytes;
        let mut tables: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        for number in &running.new_inodes {
            let (block, offset) = inode_place(self, *number)?;
            let Some(version) = blocks.get(&block) else { continue };
            let whole = || version.chunk.part(version.offset, bytes).to_vec();
            let copy = tables.entry(block).or_insert_with(whole);
            crate::layout::clear(copy, offset, self.geometry.inode_bytes);
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
        result
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
