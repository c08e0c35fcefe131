//! Open file descriptions: an [`OpenFile`] is the state that descriptors share after dup and fork.
//!
//! Locks: `moving` is held for the length of a read or write that moves the offset (POSIX: such calls on one description are
//! atomic to each other), above every lock of a vnode.
use crate::{
    base::{
        errno::Errno,
        errors::ReportedErrors,
        file::{Allocation, File, IoFlags, POSITION_MAX, Places, Survey, Whence},
        io::{Sink, Source},
        observers::Events,
        principal::Principal,
        security::{Label, flows},
    },
    tree::{
        dentry::EndOf,
        mount::Path,
        notify,
        vnode::{Vnode, VnodeSlot},
    },
};
use alloc::sync::Arc;
use core::{
    ops::ControlFlow,
    sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
};
use interfaces::file_system::DirectoryEntry;
use linux_raw_sys::general as raw;
use rt::{PAGE_BYTES, lock_class, sync::Mutex};

lock_class! {
    static OFFSET = "vfs.open_file.offset";
    static OWNER = "vfs.open_file.owner";
}

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// Flags that fcntl(F_SETFL) may change.
pub const SETTABLE_FLAGS: u32 =
    raw::O_APPEND | raw::O_NONBLOCK | raw::FASYNC | raw::O_DIRECT | raw::O_NOATIME;

/// Tells whether a description keeps its vnode from being executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteCount {
    Held,
    None,
}

/// Tells whether others see that a description is used: by events, and by the access time. They do not if its opener could read
/// the object, but not write it, because of its label: that would tell the object's level what happens above (K1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traces {
    Left,
    Avoided,
}

/// An open file description.
pub struct OpenFile {
    file: Arc<dyn File>,
    path: Path,
    flags: AtomicU32,
    /// Held by what moves the offset.
    moving: Mutex<()>,
    offset: AtomicU64,
    /// The position up to which syncfs has reported errors.
    told: ReportedErrors,
    writes: WriteCount,
    traces: Traces,
    owner: VnodeSlot,
}

impl OpenFile {
    /// Makes a description of a file that the personality made itself (a pipe's end, a socket): `path` is one of
    /// [`Path::anonymous`], `flags` are those of open(2).
    pub fn new(file: Arc<dyn File>, path: Path, flags: u32) -> Arc<OpenFile> {
        OpenFile::counted(file, path, flags, (WriteCount::None, Traces::Left))
    }
    pub(crate) fn counted(
        file: Arc<dyn File>,
        path: Path,
        flags: u32,
        (writes, traces): (WriteCount, Traces),
    ) -> Arc<OpenFile> {
        let kept = !(raw::O_CREAT | raw::O_EXCL | raw::O_NOCTTY | raw::O_TRUNC | raw::O_CLOEXEC);
        let flags = AtomicU32::new(flags & kept);
        let told = path.vnode().instance().throttle().errors().sample();
        let (moving, owner) = (Mutex::new(&OFFSET, ()), Mutex::new(&OWNER, None));
        let offset = AtomicU64::new(0);
        LIVE.fetch_add(1, Ordering::Relaxed);
        if traces == Traces::Left {
            path.vnode().begin_use();
        }
        Arc::new(OpenFile { file, path, flags, moving, offset, told, writes, traces, owner })
    }
    /// Returns the number of descriptions in the whole system.
    pub fn count() -> usize {
        LIVE.load(Ordering::Relaxed)
    }
    /// Returns the open file.
    #[inline]
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }
    /// Returns the path by which it was found.
    #[inline]
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Returns the slot in which the personality keeps the receiver of signals (F_SETOWN).
    pub fn owner(&self) -> &VnodeSlot {
        &self.owner
    }
    /// Returns the vnode of the place at which it was found.
    #[inline]
    pub fn vnode(&self) -> &Arc<Vnode> {
        self.path.vnode()
    }
    /// Returns the label of the object, if it was looked for.
    #[inline]
    pub fn known_label(&self) -> Option<&'static Label> {
        self.file.label().or_else(|| self.vnode().known_label())
    }
    /// Returns open(2)'s flags without those that matter at open only.
    #[inline]
    pub fn flags(&self) -> u32 {
        self.flags.load(Ordering::Relaxed)
    }
    /// Sets the flags that may be changed (fcntl(F_SETFL)), as one step.
    pub fn set_flags(&self, flags: u32) {
        let merge = |now: u32| Some(now & !SETTABLE_FLAGS | flags & SETTABLE_FLAGS);
        let _ = self.flags.fetch_update(Ordering::Relaxed, Ordering::Relaxed, merge);
    }
    /// Returns whether it was opened with O_PATH: it names a place and does no input or output.
    #[inline]
    pub fn is_path_only(&self) -> bool {
        self.flags() & raw::O_PATH != 0
    }
    /// Returns whether it is open for reading.
    #[inline]
    pub fn is_readable(&self) -> bool {
        let flags = self.flags();
        flags & raw::O_PATH == 0 && matches!(flags & raw::O_ACCMODE, raw::O_RDONLY | raw::O_RDWR)
    }
    /// Returns whether it is open for writing.
    #[inline]
    pub fn is_writable(&self) -> bool {
        let flags = self.flags();
        flags & raw::O_PATH == 0 && matches!(flags & raw::O_ACCMODE, raw::O_WRONLY | raw::O_RDWR)
    }
    /// Returns whether others may see that it is used.
    pub fn leaves_traces(&self) -> bool {
        self.traces == Traces::Left
    }
    /// Records an access that is not a read: it was mapped.
    pub fn touch_accessed(&self) {
        if self.flags() & raw::O_NOATIME == 0 && self.traces == Traces::Left {
            self.vnode().touch_accessed(self.path.mount.flags());
        }
    }
    /// Returns the start of the next read or write; of one that is under way, its own.
    pub fn offset(&self) -> u64 {
        self.offset.load(Ordering::Relaxed)
    }
    /// Moves the offset. The caller holds `moving`.
    #[inline]
    pub(super) fn move_to(&self, offset: u64) {
        self.offset.store(offset, Ordering::Relaxed);
    }
    /// Returns the flags of reads and writes that follow from the description's flags.
    #[inline]
    pub fn io_flags(&self) -> IoFlags {
        let flags = self.flags();
        IoFlags {
            is_nonblocking: flags & raw::O_NONBLOCK != 0,
            is_append: flags & raw::O_APPEND != 0,
        }
    }
    /// Reads at the offset, and moves it (read(2)).
    ///
    /// # Errors
    /// `EBADF` if it is not open for reading, and errors of the file.
    pub fn read(&self, sink: &mut dyn Sink) -> Result<usize, Errno> {
        self.read_with(sink, self.io_flags())
    }
    /// Does the same as [`OpenFile::read`], with `flags` (preadv2(2) with offset -1).
    ///
    /// # Errors
    /// Those of [`OpenFile::read`].
    pub fn read_with(&self, sink: &mut dyn Sink, flags: IoFlags) -> Result<usize, Errno> {
        self.check_readable()?;
        let count = if self.file.is_seekable() {
            let _moving = self.moving.lock();
            let offset = self.offset();
            self.check_range(offset, sink.remaining() as u64)?;
            let count = self.file.read(offset, sink, flags)?;
            self.move_to(offset.saturating_add(count as u64));
            count
        } else {
            self.file.read(0, sink, flags)?
        };
        self.moved(count, Events::ACCESS);
        Ok(count)
    }
    /// Writes at the offset, or at the end with O_APPEND, and moves the offset (write(2)).
    ///
    /// # Errors
    /// `EBADF` if it is not open for writing, and errors of the file.
    pub fn write(&self, source: &mut dyn Source) -> Result<usize, Errno> {
        self.write_with(source, self.io_flags())
    }
    /// Does the same as [`OpenFile::write`], with `flags` (pwritev2(2) with offset -1).
    ///
    /// # Errors
    /// Those of [`OpenFile::write`].
    pub fn write_with(&self, source: &mut dyn Source, flags: IoFlags) -> Result<usize, Errno> {
        self.check_writable()?;
        let count = if self.file.is_seekable() {
            let _moving = self.moving.lock();
            let offset = self.offset();
            self.check_range(offset, source.remaining() as u64)?;
            let (count, after) = self.file.write(offset, source, flags)?;
            if count > 0 {
                self.move_to(after);
            }
            count
        } else {
            self.file.write(0, source, flags)?.0
        };
        self.moved(count, Events::MODIFY);
        Ok(count)
    }
    /// Notes that `count` bytes were written to a file that discards them ([`File::discards`]).
    pub fn note_discarded(&self, count: usize) {
        self.moved(count, Events::MODIFY);
    }
    /// Reads at a given position (pread(2)).
    ///
    /// # Errors
    /// `ESPIPE` for a stream; else those of [`OpenFile::read`].
    pub fn read_at(
        &self,
        offset: u64,
        sink: &mut dyn Sink,
        flags: IoFlags,
    ) -> Result<usize, Errno> {
        self.check_seekable()?;
        self.check_readable()?;
        self.check_range(offset, sink.remaining() as u64)?;
        let count = self.file.read(offset, sink, flags)?;
        self.moved(count, Events::ACCESS);
        Ok(count)
    }
    /// Writes at a given position (pwrite(2)); with O_APPEND at the end, as Linux does.
    ///
    /// # Errors
    /// `ESPIPE` for a stream; else those of [`OpenFile::write`].
    pub fn write_at(
        &self,
        offset: u64,
        source: &mut dyn Source,
        flags: IoFlags,
    ) -> Result<usize, Errno> {
        self.check_seekable()?;
        self.check_writable()?;
        self.check_range(offset, source.remaining() as u64)?;
        let (count, _) = self.file.write(offset, source, flags)?;
        self.moved(count, Events::MODIFY);
        Ok(count)
    }
    /// Moves the offset (lseek(2)).
    ///
    /// # Errors
    /// `ESPIPE` for a stream, `EINVAL` before the start, `ENXIO` (data, hole) beyond the end.
    #[inline]
    pub fn seek(&self, distance: i64, whence: Whence) -> Result<u64, Errno> {
        if self.is_path_only() {
            return Err(Errno::EBADF);
        }
        let places = self.file.places();
        if places == Places::Start {
            let _moving = self.moving.lock();
            self.move_to(0);
            return Ok(0);
        }
        self.check_seekable()?;
        let _moving = self.moving.lock();
        let from = match whence {
            Whence::Start => 0,
            Whence::Current => self.offset(),
            _ if matches!(places, Places::Endless | Places::Addresses) => {
                return Err(Errno::EINVAL);
            }
            Whence::End => self.file.end(),
            Whence::Data | Whence::Hole => {
                let position = u64::try_from(distance).map_err(|_| Errno::ENXIO)?;
                let found = self.file.seek_extent(position, whence)?;
                self.move_to(found);
                return Ok(found);
            }
        };
        let last = match places {
            Places::Addresses => {
                let to = from.wrapping_add_signed(distance);
                self.move_to(to);
                return Ok(to);
            }
            Places::UpTo(last) => last,
            _ => POSITION_MAX,
        };
        let to = from.checked_add_signed(distance).filter(|to| *to <= last);
        let to = to.ok_or(Errno::EINVAL)?;
        self.move_to(to);
        Ok(to)
    }
    /// Passes directory entries, as `caller` sees them, from the offset on to `take` until it refuses one by `false`
    /// (getdents(2)); the offset moves past the accepted entries. Returns their number.
    ///
    /// # Errors
    /// `EBADF`, `ENOTDIR`, and errors of the directory.
    #[inline]
    pub fn read_directory(
        &self,
        caller: &dyn Principal,
        take: &mut dyn FnMut(&DirectoryEntry<&[u8]>) -> bool,
    ) -> Result<usize, Errno> {
        self.check_readable()?;
        let moving = self.moving.lock();
        let offset = self.offset();
        let (mut next, mut count) = (offset, 0);
        let mut take_it = |entry: &DirectoryEntry<&[u8]>| {
            if !take(entry) {
                return ControlFlow::Break(());
            }
            next = entry.next;
            count += 1;
            ControlFlow::Continue(())
        };
        let read = self.file.read_directory(offset, caller, &mut take_it);
        self.move_to(next);
        drop(moving);
        self.judge(Events::ACCESS);
        // The call succeeds if entries were accepted: the offset is behind them.
        if count == 0 {
            read?;
        }
        self.tell(Events::ACCESS);
        Ok(count)
    }
    /// Writes everything of its file system (syncfs(2)).
    ///
    /// # Errors
    /// Errors of the file system, and errors of writing that this description has not reported yet.
    pub fn sync_file_system(&self) -> Result<(), Errno> {
        let instance = self.vnode().instance();
        let synced = instance.sync();
        instance.throttle().errors().check(&self.told).and(synced)
    }
    /// Sets the length of the file (ftruncate(2)).
    ///
    /// # Errors
    /// `EINVAL` if it is not open for writing, and errors of the file.
    #[inline]
    pub fn truncate(&self, size: u64, caller: &dyn Principal) -> Result<(), Errno> {
        if self.is_path_only() {
            return Err(Errno::EBADF);
        }
        if !self.is_writable() {
            return Err(Errno::EINVAL);
        }
        self.file.truncate(size, caller)?;
        notify::about_dentry(&self.path.dentry, Events::MODIFY);
        Ok(())
    }
    /// Allocates or frees space of the file (fallocate(2)).
    ///
    /// # Errors
    /// Errors of the file.
    pub fn allocate(
        &self,
        offset: u64,
        length: u64,
        how: Allocation,
        caller: &dyn Principal,
    ) -> Result<(), Errno> {
        self.file.allocate(offset, length, how, caller)?;
        self.judge(Events::MODIFY);
        self.tell(Events::MODIFY);
        Ok(())
    }
    /// Drops a use of the description on behalf of `caller`, which closed a descriptor: writes that are cancelled with the end
    /// of the file are charged to it.
    #[inline]
    pub fn close(self: Arc<Self>, caller: &dyn Principal) {
        if self.path.dentry.is_deleted() && Arc::strong_count(&self) == 1 {
            self.end(caller);
        }
    }
    /// Drops the last use of a description of a file without a name.
    #[inline(never)]
    fn end(self: Arc<Self>, caller: &dyn Principal) {
        let vnode = self.vnode().clone();
        drop(self);
        vnode.release_for(caller);
    }
    /// Checks a range of bytes as Linux's `rw_verify_area` does.
    ///
    /// # Errors
    /// `EINVAL` for a length or an end beyond the greatest position. For memory, whose positions are addresses,
    /// `EOVERFLOW` beyond the last address.
    #[inline]
    pub fn check_range(&self, start: u64, length: u64) -> Result<(), Errno> {
        match start.checked_add(length) {
            Some(end) if end <= POSITION_MAX => Ok(()),
            end => self.check_high_range(end, length),
        }
    }
    #[cold]
    fn check_high_range(&self, end: Option<u64>, length: u64) -> Result<(), Errno> {
        if length > POSITION_MAX || self.file.places() != Places::Addresses {
            return Err(Errno::EINVAL);
        }
        end.map(|_| ()).ok_or(Errno::EOVERFLOW)
    }
    /// Tells observers that the kernel has read the file, to execute it.
    pub fn note_read(&self) {
        self.tell(Events::ACCESS);
    }
    /// Tells observers that bytes were read or written, if any were.
    #[inline]
    fn moved(&self, count: usize, events: Events) {
        self.judge(events);
        if count > 0 {
            self.tell(events);
        }
    }
    /// Judges the flow that an event tells of ([`flows`]).
    #[inline]
    fn judge(&self, events: Events) {
        let label = || self.known_label();
        if events == Events::MODIFY { flows::writes(label) } else { flows::reads(label) }
    }
    #[inline]
    pub(crate) fn tell(&self, events: Events) {
        if self.traces == Traces::Left {
            notify::about_open(&self.path.dentry, events);
        }
    }
    fn check_readable(&self) -> Result<(), Errno> {
        if self.is_readable() { Ok(()) } else { Err(Errno::EBADF) }
    }
    fn check_writable(&self) -> Result<(), Errno> {
        if self.is_writable() { Ok(()) } else { Err(Errno::EBADF) }
    }
    fn check_seekable(&self) -> Result<(), Errno> {
        if self.is_path_only() {
            return Err(Errno::EBADF);
        }
        if self.file.is_seekable() { Ok(()) } else { Err(Errno::ESPIPE) }
    }
}

impl Survey {
    /// Bytes of memory that one of the references to `file` holds: of the file itself, and of its contents where these go with
    /// it ([`Vnode::orphaned_pages`]).
    pub fn share_of(&mut self, file: &Arc<OpenFile>) -> usize {
        let bytes = self.descend(|survey| {
            let contents = file.vnode().orphaned_pages() as usize * PAGE_BYTES;
            contents + file.file().held_bytes(survey)
        });
        bytes / Arc::strong_count(file).max(1)
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        self.file.closed();
        if self.traces == Traces::Left {
            let is_writer = self.is_writable();
            let events = if is_writer { Events::CLOSE_WRITE } else { Events::CLOSE_READ };
            if !self.is_path_only() {
                notify::about_close(&self.path.dentry, events);
            }
            if self.vnode().end_use() {
                self.path.dentry.tell_end(EndOf::SeenUse);
            }
        }
        if self.writes == WriteCount::Held {
            self.path.vnode().end_write();
        }
    }
}

/// The file of a description opened with O_PATH, which supports no operation.
pub(crate) struct PlaceOnly;

impl File for PlaceOnly {
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}
