//! Open files: the [`File`] trait; and files that can be mapped: [`Mappable`].
use crate::base::{
    errno::Errno,
    io::{Sink, Source},
    poll::{PollTable, Ready, WaitQueue},
    principal::Principal,
    security::Label,
};
use alloc::{
    string::String,
    sync::{Arc, Weak},
};
use bitflags::bitflags;
use interfaces::file_system::TakeEntry;
pub use interfaces::file_system::{Allocation, SyncKind};
use rt::memory::Frame;

bitflags! {
    /// The steps of sync_file_range(2), with its values.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RangeSteps: u32 {
        /// Wait for pages that are being written already.
        const WAIT_BEFORE = 1;
        /// Start writing dirty pages.
        const WRITE = 2;
        /// Wait for the writes that were started.
        const WAIT_AFTER = 4;
    }
}

/// The use that a mapping makes of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageUse {
    /// The page is read, or copied.
    Read,
    /// A program may store to the page.
    Store,
}

/// Pages that can be mapped: a file's page cache, or shared anonymous memory.
pub trait Mappable: Send + Sync {
    /// Returns the frame of page `index`, read from storage on behalf of `caller` if necessary; for a shared store the page is
    /// made dirty.
    ///
    /// # Errors
    /// `ENXIO` beyond the end (SIGBUS), `EIO`, `ENOMEM`.
    fn page(&self, index: u64, wanted: PageUse, caller: &dyn Principal) -> Result<Frame, Errno>;
    /// Calls `visit(index, frame)` for the pages of `first .. first + count` in memory and up to
    /// date (fault-around); never blocks for I/O.
    fn resident(&self, first: u64, count: usize, visit: &mut dyn FnMut(u64, &Frame));
    /// Registers `watcher`, which is told of pages that are removed (truncation), until it is dropped. Called once a mapping
    /// is made, before its first [`Mappable::page`].
    fn watch(&self, watcher: Weak<dyn Watcher>) {
        let _ = watcher;
    }
    /// Removes the watchers that have ended: a weak reference keeps the memory of its object allocated.
    fn forget_ended_watchers(&self) {}
    /// Discards the contents of pages `first .. first + count` (`MADV_REMOVE`, a hole). Returns `false` if the object does not
    /// support that.
    fn discard(&self, first: u64, count: u64) -> bool {
        let _ = (first, count);
        false
    }
    /// Returns whether a seal forbids new shared mappings with write access; called with the address space's map locked in
    /// which the mapping is made.
    fn refuses_stores(&self) -> bool {
        false
    }
    /// Returns a number that no other mappable object has, by which a [`Watcher`] knows it; 0 if the object never shrinks.
    fn identity(&self) -> u64 {
        0
    }
}

/// An address space that maps pages of a [`Mappable`] and is told of their removal.
pub trait Watcher: Send + Sync {
    /// Called when pages from `first` on are no longer part of the [`Mappable`] with this identity: mappings of them must be
    /// removed before this returns. The size has changed already, so that a later fault gets `ENXIO`; a fault that got its
    /// frame before must have mapped it before this removes the mapping (hold the region's lock over [`Mappable::page`] and
    /// the mapping, and take it here).
    fn truncated(&self, identity: u64, first: u64);
    /// Called when pages `first .. first + count` are about to be written to storage: write access to them must be removed
    /// before this returns, so that the next store calls [`Mappable::page`] again. As with truncation, a fault that got its
    /// frame for writing before must not map it after.
    fn cleaned(&self, identity: u64, first: u64, count: u64);
    /// Returns whether the object with this identity is mapped shared in a way that may be stored to, now or after an
    /// mprotect.
    fn may_store(&self, identity: u64) -> bool;
}

/// Flags of one read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoFlags {
    /// Do not block: `EAGAIN` (O_NONBLOCK or RWF_NOWAIT).
    pub is_nonblocking: bool,
    /// Write at the end of the file (O_APPEND).
    pub is_append: bool,
}

/// The position from which lseek counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// The start of the file.
    Start,
    /// The present offset.
    Current,
    /// The end of the file.
    End,
    /// The next byte of data at or after the position.
    Data,
    /// The next hole at or after the position.
    Hole,
}

/// The greatest file position (`loff_t`).
pub const POSITION_MAX: u64 = i64::MAX as u64;

/// The positions to which lseek(2) may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Places {
    /// Any position up to this one; the end is [`File::end`].
    UpTo(u64),
    /// Any position from 0 on: there is no end, and there are no holes.
    Endless,
    /// Any of 2^64 addresses of memory; otherwise like [`Places::Endless`].
    Addresses,
    /// Always position 0, whatever position is asked for (devices without positions).
    Start,
}

/// Limits of a search through files that hold other files ([`File::held_bytes`]): levels left below, and files left in all.
#[derive(Debug)]
pub struct Survey {
    levels: usize,
    files: usize,
}

impl Default for Survey {
    fn default() -> Self {
        const LEVELS: usize = 16;
        const FILES: usize = 1 << 16;
        Survey { levels: LEVELS, files: FILES }
    }
}

impl Survey {
    /// Has `ask` tell the bytes that a file holds, one level below this one; 0 where a limit is reached.
    pub(crate) fn descend(&mut self, ask: impl FnOnce(&mut Survey) -> usize) -> usize {
        if self.levels == 0 || self.files == 0 {
            return 0;
        }
        (self.levels, self.files) = (self.levels - 1, self.files - 1);
        let bytes = ask(self);
        self.levels += 1;
        bytes
    }
}

/// The changes of a file of which its owner is told by a signal (O_ASYNC).
pub enum SignalSource<'f> {
    /// Those that poll(2) waits for.
    Readiness,
    /// Of a stream of messages: arrivals, and room for a sender that lacked it.
    Messages {
        /// Woken when a message arrives.
        arrived: &'f WaitQueue,
        /// Woken when a receiver frees bytes.
        freed: &'f WaitQueue,
        /// Says whether room has come that a sender lacked.
        room: Arc<dyn SendRoom>,
    },
}

/// The room that a sender of messages has.
pub trait SendRoom: Send + Sync {
    /// Returns whether room has come that a sender lacked; returns `true` once.
    fn take_room(&self) -> bool;
}

/// The operations of an open file. The default of each method does what Linux does for a file that lacks the operation.
///
/// An operation that may depend on its caller is given one: a read by its [`Sink`], a write by its [`Source`], the others by
/// an argument. The task that opened the file does not count: descriptors are inherited and passed.
#[allow(unused_variables, reason = "the defaults only refuse")]
pub trait File: Send + Sync {
    /// Returns the bytes of kernel memory that would be freed if this file were closed: its share, if other files use the same
    /// memory. Files that it holds itself are counted through `survey`.
    ///
    /// # Locks
    /// Only locks that are free now ([`rt::sync::Mutex::try_lock`]): the out-of-memory killer calls this, whatever locks the
    /// threads waiting for memory hold.
    fn held_bytes(&self, survey: &mut Survey) -> usize {
        0
    }
    /// Returns whether it has a position (lseek, pread); if not, such calls fail with `ESPIPE`.
    fn is_seekable(&self) -> bool {
        false
    }
    /// Returns the positions to which lseek may move, if the file is seekable. With [`Places::Start`], lseek succeeds even if
    /// it is not.
    fn places(&self) -> Places {
        Places::UpTo(POSITION_MAX)
    }
    /// Returns the position that SEEK_END counts from.
    fn end(&self) -> u64 {
        self.size()
    }
    /// Returns whether it may be opened with O_DIRECT.
    fn can_be_direct(&self) -> bool {
        false
    }
    /// Returns whether it never supports reading: then even a readv of no bytes fails.
    fn lacks_read(&self) -> bool {
        false
    }
    /// Returns whether it never supports writing, as [`File::lacks_read`] does for reading.
    fn lacks_write(&self) -> bool {
        false
    }
    /// Reads at `offset`; returns the bytes put, 0 at the end.
    ///
    /// # Errors
    /// Those of read(2).
    fn read(&self, offset: u64, sink: &mut dyn Sink, flags: IoFlags) -> Result<usize, Errno> {
        Err(Errno::EINVAL)
    }
    /// Writes at `offset` (ignored with `is_append`); returns the bytes taken and the offset after them.
    ///
    /// # Errors
    /// Those of write(2).
    fn write(
        &self,
        offset: u64,
        source: &mut dyn Source,
        flags: IoFlags,
    ) -> Result<(usize, u64), Errno> {
        Err(Errno::EINVAL)
    }
    /// Returns whether splice and sendfile may write to it: not if it treats written bytes otherwise than a file.
    fn takes_spliced(&self) -> bool {
        true
    }
    /// Returns whether it accepts and discards any bytes at any position.
    fn discards(&self) -> bool {
        false
    }
    /// Returns whether splice may read from it: not if it returns records of its own.
    fn gives_spliced(&self) -> bool {
        true
    }
    /// Returns whether it implements readiness; a file that does not is always ready, its `poll` is not called, and epoll
    /// refuses it.
    fn is_watchable(&self) -> bool {
        !self.is_seekable()
    }
    /// Returns the events that it is ready for now, as `caller` sees them. If `table` is given, it is added to the file's wait
    /// queues first.
    fn poll(&self, table: Option<&PollTable>, caller: &dyn Principal) -> Ready {
        Ready::ALWAYS
    }
    /// The changes of which an owner is told by a signal; `None` if the file sends none.
    fn signal_source(&self) -> Option<SignalSource<'_>> {
        None
    }
    /// The queue that is woken when an urgent byte was announced, of which an owner is told by SIGURG; `None` if there are none.
    fn urgent_source(&self) -> Option<&WaitQueue> {
        None
    }
    /// Passes directory entries from `position` on to `take`, as [`interfaces::file_system::FileSystem::read_directory`] (`.`
    /// and `..` included here).
    ///
    /// # Errors
    /// `ENOTDIR`.
    fn read_directory(
        &self,
        position: u64,
        caller: &dyn Principal,
        take: &mut TakeEntry<'_>,
    ) -> Result<(), Errno> {
        Err(Errno::ENOTDIR)
    }
    /// Returns the length in bytes.
    fn size(&self) -> u64 {
        0
    }
    /// Returns the first byte at or after `offset` that is data or hole, as `whence` says. By default all is data, with a hole
    /// at the end.
    ///
    /// # Errors
    /// `ENXIO` at or beyond the end, or if no data follows.
    fn seek_extent(&self, offset: u64, whence: Whence) -> Result<u64, Errno> {
        let end = self.end();
        match whence {
            _ if offset >= end => Err(Errno::ENXIO),
            Whence::Hole => Ok(end),
            _ => Ok(offset),
        }
    }
    /// Returns the object to map.
    ///
    /// # Errors
    /// `ENODEV` if the file cannot be mapped.
    fn mappable(&self) -> Result<Arc<dyn Mappable>, Errno> {
        Err(Errno::ENODEV)
    }
    /// Checks the place of a mapping of `bytes` bytes from page `first` on.
    ///
    /// # Errors
    /// `EINVAL` of files that are mapped as a whole alone.
    fn check_mapping(&self, first: u64, bytes: u64) -> Result<(), Errno> {
        Ok(())
    }
    /// Sets the length (ftruncate).
    ///
    /// # Errors
    /// `EINVAL`.
    fn truncate(&self, size: u64, caller: &dyn Principal) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }
    /// Allocates or frees the space of a range that is not empty (fallocate).
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the file has no such space; `ENOSPC`, `EFBIG`, `EROFS`.
    fn allocate(
        &self,
        offset: u64,
        length: u64,
        how: Allocation,
        caller: &dyn Principal,
    ) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }
    /// Makes the contents durable (fsync, fdatasync).
    ///
    /// # Errors
    /// `EINVAL` if the file has no storage.
    fn sync(&self, kind: SyncKind) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }
    /// Returns its lines in `/proc/PID/fdinfo` besides position and flags.
    fn details(&self) -> String {
        String::new()
    }
    /// Writes bytes `start .. end` to storage, as `steps` say (sync_file_range); nothing is made durable.
    ///
    /// # Errors
    /// `EIO` and other errors of the writes, if it waits.
    fn write_range(&self, start: u64, end: u64, steps: RangeSteps) -> Result<(), Errno> {
        Ok(())
    }
    /// Returns the label of the object, if that of its vnode lets subjects of several secrecies in, each to an object of its own: a
    /// terminal by `/dev/tty` or `/dev/ptmx`.
    fn label(&self) -> Option<&'static Label> {
        None
    }
    /// Returns the object for downcasts by the personality (terminals, pipes, sockets).
    fn as_any(&self) -> &dyn core::any::Any;
    /// A descriptor of the file was closed by `caller`; others may be open.
    fn descriptor_closed(&self, caller: &dyn Principal) {}
    /// Called when the last description was closed.
    fn closed(&self) {}
}
