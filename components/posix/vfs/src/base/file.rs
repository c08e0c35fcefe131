//! Open files: the [`File`] trait; and files that can be mapped: [`Mappable`].
use crate::base::{
    errno::Errno,
    io::{Sink, Source},
    poll::{PollTable, Ready, WaitQueue},
};
use alloc::{
    string::String,
    sync::{Arc, Weak},
};
use bitflags::bitflags;
pub use interfaces::file_system::Allocation;
use interfaces::file_system::TakeEntry;
use rt::memory::Frame;

bitflags! {
    /// The steps of sync_file_range(2), with its values.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RangeSteps: u32 {
        /// Wait for what is being written.
        const WAIT_BEFORE = 1;
        /// Start writing what is dirty.
        const WRITE = 2;
        /// Wait for that.
        const WAIT_AFTER = 4;
    }
}

/// Pages of something that can be mapped: a file's page cache, or shared anonymous memory.
pub trait Mappable: Send + Sync {
    /// The frame of page `index`, read in if need be; for a shared store the page is made dirty.
    ///
    /// # Errors
    /// `ENXIO` beyond the end (SIGBUS), `EIO`, `ENOMEM`.
    fn page(&self, index: u64, for_write: bool) -> Result<Frame, Errno>;
    /// Calls `visit(index, frame)` for the pages of `first .. first + count` in memory and up to
    /// date (fault-around); never blocks for I/O.
    fn resident(&self, first: u64, count: usize, visit: &mut dyn FnMut(u64, &Frame));
    /// From now on `watcher` is told when pages go away (truncation), until it is dropped.
    /// Called once a mapping is made, before its first [`Mappable::page`].
    fn watch(&self, watcher: Weak<dyn Watcher>) {
        let _ = watcher;
    }
    /// Forgets the watchers that have ended: a weak reference keeps the memory of what it named.
    fn forget_ended_watchers(&self) {}
    /// Forgets the contents of pages `first .. first + count` (`MADV_REMOVE`, a hole); `false`
    /// where it does not do that.
    fn discard(&self, first: u64, count: u64) -> bool {
        let _ = (first, count);
        false
    }
    /// No new shared mapping may be stored to (a seal); asked with the map locked in which it is made.
    fn refuses_stores(&self) -> bool {
        false
    }
    /// A number no other mappable thing has, by which a [`Watcher`] knows it; 0 if it never shrinks.
    fn identity(&self) -> u64 {
        0
    }
}

/// Somebody who maps pages of a [`Mappable`], an address space.
pub trait Watcher: Send + Sync {
    /// Pages from `first` on are no longer part of the [`Mappable`] with this identity: what is mapped of them is to be
    /// unmapped before this returns. The size has changed already, so that a fault that looks
    /// now gets `ENXIO`; a fault that got its frame before must have mapped it before this
    /// unmaps (hold the region's lock over [`Mappable::page`] and the mapping, and take it here).
    fn truncated(&self, identity: u64, first: u64);
    /// Pages `first .. first + count` are about to be written to storage: write access to them is
    /// to be taken before this returns, so that the next store asks [`Mappable::page`] again. As
    /// with truncation, a fault that got its frame for writing before must not map it after.
    fn cleaned(&self, identity: u64, first: u64, count: u64);
    /// The thing with this identity is mapped shared in a way that may be stored to, now or after an mprotect.
    fn may_store(&self, identity: u64) -> bool;
}

/// Flags of one read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoFlags {
    /// Do not block: `EAGAIN` (O_NONBLOCK or RWF_NOWAIT).
    pub is_nonblocking: bool,
    /// Write at the end (O_APPEND).
    pub is_append: bool,
}

/// From where lseek counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// The start.
    Start,
    /// The present offset.
    Current,
    /// The end.
    End,
    /// The next byte of data at or after the position.
    Data,
    /// The next hole at or after the position.
    Hole,
}

/// The last position there is (`loff_t`).
pub const POSITION_MAX: u64 = i64::MAX as u64;

/// The places that lseek(2) may go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Places {
    /// Anywhere up to this position; the end is [`File::end`].
    UpTo(u64),
    /// Anywhere from the start on: there is no end, and there are no holes.
    Endless,
    /// As [`Places::Endless`], at any of 2^64 addresses of memory.
    Addresses,
    /// To the start, wherever it is told to go (devices without places).
    Start,
}

/// Limits of a walk through files that hold other files ([`File::held_bytes`]): levels left below, and files left in all.
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
    /// Whether room has come that a sender lacked; says so once.
    fn take_room(&self) -> bool;
}

/// The operations of something open. `offset` is `None` for a stream (pipe, terminal).
/// A default answers as Linux does for a file that lacks the operation.
#[allow(unused_variables, reason = "the defaults only refuse")]
pub trait File: Send + Sync {
    /// Bytes of the kernel's memory that would be free if nobody had the file: the share of this one where other files have
    /// them, too. Files that it holds in its turn are asked through `survey`.
    ///
    /// # Locks
    /// Only such as are free now ([`rt::sync::Mutex::try_lock`]): the out-of-memory killer asks, whoever waits for memory.
    fn held_bytes(&self, survey: &mut Survey) -> usize {
        0
    }
    /// Can be positioned (lseek, pread); else `ESPIPE`.
    fn is_seekable(&self) -> bool {
        false
    }
    /// Places that lseek may go to, if the file is seekable. With [`Places::Start`], lseek succeeds even if it is not.
    fn places(&self) -> Places {
        Places::UpTo(POSITION_MAX)
    }
    /// The position that SEEK_END counts from.
    fn end(&self) -> u64 {
        self.size()
    }
    /// May be opened with O_DIRECT.
    fn can_be_direct(&self) -> bool {
        false
    }
    /// Has nothing to be read, whatever is asked for: a readv of no bytes says so, too.
    fn lacks_read(&self) -> bool {
        false
    }
    /// As [`File::lacks_read`], of write.
    fn lacks_write(&self) -> bool {
        false
    }
    /// Reads at `offset`; returns the bytes put, 0 at the end.
    ///
    /// # Errors
    /// As read(2).
    fn read(&self, offset: u64, sink: &mut dyn Sink, flags: IoFlags) -> Result<usize, Errno> {
        Err(Errno::EINVAL)
    }
    /// Writes at `offset` (ignored with `is_append`); returns the bytes taken and the offset after them.
    ///
    /// # Errors
    /// As write(2).
    fn write(
        &self,
        offset: u64,
        source: &mut dyn Source,
        flags: IoFlags,
    ) -> Result<(usize, u64), Errno> {
        Err(Errno::EINVAL)
    }
    /// Whether splice and sendfile may write to it: not to what takes bytes by other rules than a file.
    fn takes_spliced(&self) -> bool {
        true
    }
    /// Whether it takes any bytes without looking at them, wherever they are written.
    fn discards(&self) -> bool {
        false
    }
    /// Whether splice may read from it: not from what gives records of its own.
    fn gives_spliced(&self) -> bool {
        true
    }
    /// Whether it says what it is ready for; what does not is always ready, is not asked, and epoll refuses it.
    fn is_watchable(&self) -> bool {
        !self.is_seekable()
    }
    /// The events that it is ready for now. Where `table` is given, it is added to the file's wait queues first.
    fn poll(&self, table: Option<&PollTable>) -> Ready {
        Ready::ALWAYS
    }
    /// The changes of which an owner is told by a signal; `None` if the file sends none.
    fn signal_source(&self) -> Option<SignalSource<'_>> {
        None
    }
    /// Hands directory entries from `position` to `take`, as [`interfaces::file_system::FileSystem::read_directory`] (`.` and
    /// `..` included here).
    ///
    /// # Errors
    /// `ENOTDIR`.
    fn read_directory(&self, position: u64, take: &mut TakeEntry<'_>) -> Result<(), Errno> {
        Err(Errno::ENOTDIR)
    }
    /// Length in bytes.
    fn size(&self) -> u64 {
        0
    }
    /// The first byte at or after `offset` that is data or hole, as `whence` says. By default
    /// all is data, with a hole at the end.
    ///
    /// # Errors
    /// `ENXIO` at or beyond the end, or where no data follows.
    fn seek_extent(&self, offset: u64, whence: Whence) -> Result<u64, Errno> {
        let end = self.end();
        match whence {
            _ if offset >= end => Err(Errno::ENXIO),
            Whence::Hole => Ok(end),
            _ => Ok(offset),
        }
    }
    /// The object to map; `ENODEV` where it cannot be.
    ///
    /// # Errors
    /// `ENODEV`.
    fn mappable(&self) -> Result<Arc<dyn Mappable>, Errno> {
        Err(Errno::ENODEV)
    }
    /// ftruncate.
    ///
    /// # Errors
    /// `EINVAL`.
    fn truncate(&self, size: u64) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }
    /// fallocate. The range is not empty.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where it makes no sense; `ENOSPC`, `EFBIG`, `EROFS`.
    fn allocate(&self, offset: u64, length: u64, how: Allocation) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }
    /// fsync, fdatasync.
    ///
    /// # Errors
    /// `EINVAL` where it makes no sense.
    fn sync(&self, data_only: bool) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }
    /// Its lines in `/proc/PID/fdinfo` beyond position and flags.
    fn details(&self) -> String {
        String::new()
    }
    /// sync_file_range: writes bytes `start .. end`, as `steps` say; nothing is made durable.
    ///
    /// # Errors
    /// `EIO` and what else writing met, where it waits.
    fn write_range(&self, start: u64, end: u64, steps: RangeSteps) -> Result<(), Errno> {
        Ok(())
    }
    /// For downcasts by the personality (terminals, pipes, sockets).
    fn as_any(&self) -> &dyn core::any::Any;
    /// A descriptor of the file was closed, by a thread of the process that had it; others may be open.
    fn descriptor_closed(&self) {}
    /// The last description was closed.
    fn closed(&self) {}
}
