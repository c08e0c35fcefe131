//! A volume: its geometry, its metadata blocks through the cache, and what is kept of its state.
//!
//! A change of a block is made within an [`Operation`](crate::store::log::Operation), which proves that
//! the log takes note of it.
use crate::{
    layout::{
        groups::{Groups, blocks},
        inode_table::InodeTable,
        superblock::Geometry,
    },
    names::directory_edit,
    store::{
        cache::{BlockRef, Cache, Chunk, Note},
        device::Device,
        health::Health,
        log::{Class, Log, Operation},
    },
    volume::background::Background,
};
use alloc::sync::Arc;
use interfaces::file_system::{FsError, ReservedFor};
use rt::{
    PAGE_BYTES, lock_class,
    sync::{Mutex, Once},
};

lock_class! {
    static ORPHANS_FOUND = "ext4.orphans_found";
}

/// The volume that every part of the file system reads and writes through.
pub(crate) struct Volume {
    /// The superblock, checked.
    pub(crate) geometry: Geometry,
    /// The device below.
    pub(crate) device: Device,
    /// Whether it may be written, and how errors are answered.
    pub(crate) health: Health,
    /// Inodes the personality holds.
    pub(crate) inodes: InodeTable,
    /// First inode of the list of orphans found when it was mounted.
    pub(crate) orphans_found: Mutex<u32>,
    /// Changes on their way to the device.
    pub(crate) log: Log,
    /// Commits behind the operations' backs.
    pub(crate) background: Arc<Background>,
    /// Block groups; there once the volume was writable.
    groups: Once<Groups>,
    is_privileged: Once<fn(ReservedFor) -> bool>,
    cache: Cache,
}

impl Volume {
    /// A volume on `device`.
    pub(crate) fn new(geometry: Geometry, device: Device, cache: Cache, health: Health) -> Volume {
        Volume {
            log: Log::new(cache.capacity()),
            background: Background::new(),
            inodes: InodeTable::new(),
            orphans_found: Mutex::new(&ORPHANS_FOUND, geometry.last_orphan),
            groups: Once::new(),
            is_privileged: Once::new(),
            geometry,
            device,
            health,
            cache,
        }
    }

    /// The block groups, for who changes the volume.
    ///
    /// # Errors
    /// [`FsError::ReadOnly`] where it never was writable.
    pub(crate) fn groups(&self) -> Result<&Groups, FsError> {
        self.groups.get().ok_or(FsError::ReadOnly)
    }

    /// Takes the block groups in, once.
    pub(crate) fn set_groups(&self, groups: Groups) {
        let groups = self.groups.get_or_init(|| groups);
        if let Some(is_privileged) = self.is_privileged.get() {
            groups.set_judge(*is_privileged);
        }
    }

    /// Says how to ask whether the calling thread may use root's blocks. Only the first call counts.
    pub(crate) fn set_judge(&self, is_privileged: fn(ReservedFor) -> bool) {
        self.is_privileged.get_or_init(|| is_privileged);
        if let Ok(groups) = self.groups() {
            groups.set_judge(is_privileged);
        }
    }

    /// A metadata block.
    ///
    /// # Errors
    /// [`FsError::Corrupt`] where the volume has no such block; `Io`, `NoMemory`, `Restarted`.
    pub(crate) fn block(&self, number: u64) -> Result<BlockRef, FsError> {
        if !self.geometry.holds(number, 1) {
            return Err(FsError::Corrupt);
        }
        self.part(number, 0, self.geometry.block_bytes, 1)
    }

    /// `length` bytes at `offset` of a block, on a miss with `ahead` chunks read at once. They
    /// must not pass a chunk's end, which parts of one block do not.
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

    /// Metadata the device does not give is an error of the volume.
    fn noticed<T>(&self, read: Result<T, FsError>) -> Result<T, FsError> {
        read.inspect_err(|error| {
            if *error == FsError::Io {
                self.health.report(self.device.name(), *error);
            }
        })
    }

    /// Chunk of a block, and where in it.
    fn place(&self, block: u64) -> Result<(u64, usize), FsError> {
        let start = block.checked_mul(self.geometry.block_bytes as u64).ok_or(FsError::Corrupt)?;
        let page = PAGE_BYTES as u64;
        Ok((start / page, (start % page) as usize))
    }

    /// As if the chunk `number` of the device were zeroes: nothing in it means anything. It is not read
    /// then to be changed.
    ///
    /// # Errors
    /// As [`Cache::put_zeroes`].
    pub(crate) fn put_zeroes(&self, number: u64) -> Result<(), FsError> {
        self.cache.put_zeroes(number)
    }

    /// Changes a block that has contents already.
    ///
    /// # Errors
    /// As [`Volume::block`]; nothing was changed then.
    pub(crate) fn modify<T>(
        &self,
        operation: &Operation<'_>,
        block: u64,
        class: Class,
        change: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T, FsError> {
        self.modify_with(operation, block, (class, None), change)
    }

    /// As [`Volume::modify`], of a leaf of a directory that was verified: it is summed, with `seed`, when
    /// the transaction ends.
    ///
    /// # Errors
    /// As [`Volume::modify`].
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
        let end = start + self.geometry.block_bytes;
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
    /// As [`Volume::block`].
    pub(crate) fn fill<T>(
        &self,
        operation: &Operation<'_>,
        block: u64,
        change: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T, FsError> {
        let (chunk, start) = self.place(block)?;
        let end = start + self.geometry.block_bytes;
        let whole = |bytes: &mut [u8]| {
            let bytes = bytes.get_mut(start..end).unwrap_or(&mut []);
            bytes.fill(0);
            change(bytes)
        };
        let (transaction, class) = (operation.id(), Class::Fresh);
        let note = Note { transaction, offset: start, class, unsummed: None };
        let (result, known) = match self.geometry.block_bytes {
            PAGE_BYTES => self.cache.modify_fresh(chunk, note, whole)?,
            _ => {
                if !self.cache.holds(chunk) {
                    blocks::put_zeroes_around(self, block)?;
                }
                self.noticed(self.cache.modify(&self.device, chunk, Some(note), whole))?
            }
        };
        operation.note_unless(known, block, Class::Fresh);
        Ok(result)
    }

    /// As [`Volume::modify`], while no operation is on its way; the caller notes it himself.
    pub(crate) fn modify_unlogged(
        &self,
        block: u64,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<(), FsError> {
        let (chunk, start) = self.place(block)?;
        let end = start + self.geometry.block_bytes;
        let whole = |bytes: &mut [u8]| change(bytes.get_mut(start..end).unwrap_or(&mut []));
        self.cache.modify(&self.device, chunk, None, whole).map(|_| ())
    }

    /// Drops the changes of a block in the running transaction, which has freed it.
    pub(crate) fn forget(&self, operation: &Operation<'_>, block: u64) {
        if let Ok((chunk, start)) = self.place(block) {
            self.cache.forget(chunk, operation.id(), start);
        }
    }

    /// Drops up to `chunks` cached chunks that may go; returns how many.
    pub(crate) fn shrink(&self, chunks: usize) -> usize {
        self.cache.shrink(chunks)
    }

    /// The chunk of a changed block as it is now, and where the block is in it; see [`Cache::seal`].
    pub(crate) fn seal(&self, block: u64) -> Option<(Arc<Chunk>, usize)> {
        let (chunk, start) = self.place(block).ok()?;
        let end = start + self.geometry.block_bytes;
        let sum = |seed, bytes: &mut [u8]| {
            directory_edit::seal(self, seed, bytes.get_mut(start..end).unwrap_or(&mut []));
        };
        Some((self.cache.seal(chunk, start, sum)?, start))
    }

    /// Takes note that the logged changes of the block's chunk are in place.
    pub(crate) fn settle(&self, block: u64) {
        if let Ok((chunk, _)) = self.place(block) {
            self.cache.settle(chunk);
        }
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        self.background.end();
    }
}
