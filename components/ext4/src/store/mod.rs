//! The store: the blocks of a volume on its device, cached, changed by operations, logged and written. Nothing of files.
//!
//! A change of a block is made within an [`Operation`], which proves that the log takes note of it. For the floors above, the log
//! also keeps numbers that mean nothing here: inodes made, groups changed, runs of files whose data the device refused.
pub(crate) mod along;
pub(crate) mod area;
pub(crate) mod batch;
pub(crate) mod bytes;
pub(crate) mod cache;
pub(crate) mod checksum;
pub(crate) mod class;
pub(crate) mod committer;
pub(crate) mod device;
pub(crate) mod health;
pub(crate) mod index;
pub(crate) mod journal;
pub(crate) mod log;
pub(crate) mod transfer;

use alloc::{sync::Arc, vec::Vec};
use along::{Along, KeptWrites};
use area::VolumeArea;
use cache::{BlockRef, Cache, Chunk, Note};
use class::Class;
use device::VolumeDevice;
use health::Health;
use interfaces::file_system::FsError;
use log::{Log, Operation};
use rt::PAGE_BYTES;

/// The blocks of a volume, through the cache.
pub(crate) struct Store {
    /// The blocks.
    pub(crate) area: VolumeArea,
    /// The device below.
    pub(crate) device: VolumeDevice,
    /// Whether the volume may be written, and how errors are answered.
    pub(crate) health: Health,
    /// Changes on their way to the device. Transfers share it: they may end after the volume was left.
    pub(crate) log: Arc<Log>,
    /// Data that waits for the next commit.
    pub(crate) kept: KeptWrites,
    cache: Cache,
}

impl Store {
    /// The blocks `area` of `device`.
    pub(crate) fn new(
        area: VolumeArea,
        device: VolumeDevice,
        cache: Cache,
        health: Health,
    ) -> Store {
        let log = Arc::new(Log::new(cache.capacity()));
        Store { area, device, health, log, kept: KeptWrites::new(), cache }
    }

    /// Something on the medium makes no sense, or an operation ended half done.
    pub(crate) fn report(&self, error: FsError) {
        self.health.report(self.device.name(), error);
    }

    /// A commit failed. The medium holds only the data that was durable before it.
    pub(crate) fn abort(&self, error: FsError) {
        self.health.abort(self.device.name(), error);
    }

    /// Writes data by itself that was to be written along with a commit, and waits. The caller commits.
    pub(crate) fn write_alone(&self, along: Vec<Along>) {
        along::write_alone(&self.device, &self.log, along);
    }

    /// A flush, where data was written that none followed, with the data that is kept. The caller commits.
    ///
    /// # Errors
    /// As [`VolumeDevice::flush`].
    pub(crate) fn flush_data(&self) -> Result<(), FsError> {
        self.kept.flush(&self.device, &self.log)
    }

    /// Returns a metadata block.
    ///
    /// # Errors
    /// [`FsError::Corrupt`] if the volume has no such block; `Io`, `NoMemory`, `Restarted`.
    pub(crate) fn block(&self, number: u64) -> Result<BlockRef, FsError> {
        if !self.area.holds(number, 1) {
            return Err(FsError::Corrupt);
        }
        self.part(number, 0, self.area.block_bytes, 1)
    }

    /// Returns `length` bytes at `offset` of a block. On a miss `ahead` chunks are read at once. The
    /// bytes must be within one chunk, as parts of one block are.
    pub(crate) fn part(
        &self,
        block: u64,
        offset: usize,
        length: usize,
        ahead: u64,
    ) -> Result<BlockRef, FsError> {
        let (chunk, start) = self.place(block)?;
        let chunk = self.noticed(self.cache.get(&self.device, chunk, ahead))?;
        Ok(BlockRef::new(chunk, start + offset, length))
    }

    /// Reports metadata that the device cannot read as an error of the volume.
    fn noticed<T>(&self, read: Result<T, FsError>) -> Result<T, FsError> {
        read.inspect_err(|error| {
            if *error == FsError::Io {
                self.report(*error);
            }
        })
    }

    /// Returns the chunk of a block, and the offset in it.
    fn place(&self, block: u64) -> Result<(u64, usize), FsError> {
        let start = block.checked_mul(self.area.block_bytes as u64).ok_or(FsError::Corrupt)?;
        let page = PAGE_BYTES as u64;
        Ok((start / page, (start % page) as usize))
    }

    /// Treats the chunk `number` of the device, which is meaningless, as zeroes, so that it need not be
    /// read to be changed.
    ///
    /// # Errors
    /// Those of [`Cache::put_zeroes`].
    pub(crate) fn put_zeroes(&self, number: u64) -> Result<(), FsError> {
        self.cache.put_zeroes(number)
    }

    /// Whether the chunk of a block is in the cache.
    pub(crate) fn is_cached(&self, block: u64) -> bool {
        self.place(block).is_ok_and(|(chunk, _)| self.cache.holds(chunk))
    }

    /// Changes a block that has contents already.
    ///
    /// # Errors
    /// As [`Store::block`]; nothing was changed then.
    pub(crate) fn modify<T>(
        &self,
        operation: &Operation<'_>,
        block: u64,
        class: Class,
        change: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T, FsError> {
        self.modify_with(operation, block, (class, None), change)
    }

    /// As [`Store::modify`], of a leaf of a directory that was verified: it is summed, with `seed`, when
    /// the transaction ends.
    ///
    /// # Errors
    /// As [`Store::modify`].
    pub(crate) fn modify_leaf<T>(
        &self,
        operation: &Operation<'_>,
        block: u64,
        seed: u32,
        change: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T, FsError> {
        self.modify_with(operation, block, (Class::Directory, Some(seed)), change)
    }

    fn modify_with<T>(
        &self,
        operation: &Operation<'_>,
        block: u64,
        (class, unsummed): (Class, Option<u32>),
        change: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T, FsError> {
        let (chunk, start) = self.place(block)?;
        let end = start + self.area.block_bytes;
        let whole = |bytes: &mut [u8]| change(bytes.get_mut(start..end).unwrap_or(&mut []));
        let note = Some(Note { transaction: operation.id(), offset: start, class, unsummed });
        let modified = self.cache.modify(&self.device, chunk, note, whole);
        let (result, known) = self.noticed(modified)?;
        operation.note_unless(known, block, class);
        Ok(result)
    }

    /// Fills a block just allocated; it begins as zeroes.
    ///
    /// # Errors
    /// As [`Store::block`].
    pub(crate) fn fill<T>(
        &self,
        operation: &Operation<'_>,
        block: u64,
        change: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T, FsError> {
        let (chunk, start) = self.place(block)?;
        let end = start + self.area.block_bytes;
        let whole = |bytes: &mut [u8]| {
            let bytes = bytes.get_mut(start..end).unwrap_or(&mut []);
            bytes.fill(0);
            change(bytes)
        };
        let (transaction, class) = (operation.id(), Class::Fresh);
        let note = Note { transaction, offset: start, class, unsummed: None };
        let (result, known) = match self.area.block_bytes {
            PAGE_BYTES => self.cache.modify_fresh(chunk, note, whole)?,
            _ => self.noticed(self.cache.modify(&self.device, chunk, Some(note), whole))?,
        };
        operation.note_unless(known, block, Class::Fresh);
        Ok(result)
    }

    /// As [`Store::modify`], while no operation is on its way; the caller notes it himself.
    pub(crate) fn modify_unlogged(
        &self,
        block: u64,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<(), FsError> {
        let (chunk, start) = self.place(block)?;
        let end = start + self.area.block_bytes;
        let whole = |bytes: &mut [u8]| change(bytes.get_mut(start..end).unwrap_or(&mut []));
        self.cache.modify(&self.device, chunk, None, whole).map(|_| ())
    }

    /// Drops the changes of a block in the running transaction, which has freed it.
    pub(crate) fn forget(&self, operation: &Operation<'_>, block: u64) {
        if let Ok((chunk, start)) = self.place(block) {
            self.cache.forget(chunk, operation.id(), start);
        }
    }

    /// Drops up to `chunks` cached chunks. Returns their number.
    pub(crate) fn shrink(&self, chunks: usize) -> usize {
        self.cache.shrink(chunks)
    }

    /// The chunk of a changed block as it is now, and where the block is in it, when `sum`, which is given a seed, has summed
    /// the block where that is due; see [`Cache::seal`].
    pub(crate) fn seal(
        &self,
        block: u64,
        sum: impl FnOnce(u32, &mut [u8]),
    ) -> Option<(Arc<Chunk>, usize)> {
        let (chunk, start) = self.place(block).ok()?;
        let end = start + self.area.block_bytes;
        let whole =
            |seed, bytes: &mut [u8]| sum(seed, bytes.get_mut(start..end).unwrap_or(&mut []));
        Some((self.cache.seal(chunk, start, whole)?, start))
    }

    /// Called when the logged changes of the block's chunk are in place.
    pub(crate) fn settle(&self, block: u64) {
        if let Ok((chunk, _)) = self.place(block) {
            self.cache.settle(chunk);
        }
    }
}
