//! Open regular files of a file system.
use crate::{
    base::{
        errno::Errno,
        errors::ReportedErrors,
        file::{Allocation, File, IoFlags, Mappable, Places, RangeSteps, Whence},
        io::{Limited, Sink, Source},
        principal::Principal,
        time,
    },
    pages::cache::{PageCache, WHOLE, readahead::Readahead},
    tree::{
        mount::{Mount, Path},
        vnode::{FLAG_APPEND, Vnode},
    },
    walk::permission,
};
use alloc::sync::Arc;
use core::ops::Range;
use interfaces::file_system::{AttributeChange, Backing, SyncKind};
use rt::{PAGE_BYTES, lock_class, sync::Mutex};

lock_class! {
    static READAHEAD = "vfs.file.readahead";
}

/// Tells whether writes clear setuid and setgid bits (the opener lacks CAP_FSETID).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Privilege {
    Kept,
    Stripped,
}

/// Tells whether reads change the access time (not with O_NOATIME).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessTime {
    Kept,
    Updated,
}

/// An open regular file: its pages, and the readahead state of this reader.
pub(crate) struct RegularFile {
    vnode: Arc<Vnode>,
    pages: Arc<PageCache>,
    mount: Arc<Mount>,
    readahead: Mutex<Readahead>,
    told: ReportedErrors,
    privilege: Privilege,
    access_time: AccessTime,
}

impl RegularFile {
    pub(crate) fn new(
        path: &Path,
        privilege: Privilege,
        access_time: AccessTime,
    ) -> Result<RegularFile, Errno> {
        let vnode = path.vnode().clone();
        let pages = vnode.pages().ok_or(Errno::EIO)?.clone();
        let readahead = Mutex::new(&READAHEAD, Readahead::default());
        let mount = path.mount.clone();
        let told = pages.told();
        Ok(RegularFile { vnode, pages, mount, readahead, told, privilege, access_time })
    }
    fn strip_privilege(&self) -> Result<(), Errno> {
        let mode = self.vnode.permissions();
        let mut plain = mode & !permission::SET_USER;
        if mode & permission::GROUP_EXECUTE != 0 {
            plain &= !permission::SET_GROUP;
        }
        self.vnode.strip_capabilities()?;
        if self.privilege == Privilege::Kept || plain == mode {
            return Ok(());
        }
        self.vnode.change(&AttributeChange { permissions: Some(plain), ..Default::default() })
    }
}

impl File for RegularFile {
    fn is_seekable(&self) -> bool {
        true
    }
    fn places(&self) -> Places {
        Places::UpTo(self.vnode.size_max())
    }
    fn can_be_direct(&self) -> bool {
        true
    }
    fn read(&self, offset: u64, sink: &mut dyn Sink, _: IoFlags) -> Result<usize, Errno> {
        if sink.remaining() == 0 {
            return Ok(0);
        }
        let result = self.pages.read(offset, sink, &self.readahead);
        // A read that returned no bytes is an access too, and so is one that failed.
        if self.access_time == AccessTime::Updated {
            self.vnode.touch_accessed(self.mount.flags());
        }
        result
    }
    fn write(
        &self,
        offset: u64,
        source: &mut dyn Source,
        flags: IoFlags,
    ) -> Result<(usize, u64), Errno> {
        self.mount.check_writable()?;
        let _contents = self.vnode.contents().write();
        let start = if flags.is_append { self.pages.size() } else { offset };
        let room = self.vnode.size_max().saturating_sub(start);
        let wanted = source.remaining() as u64;
        if wanted == 0 {
            return Ok((0, start));
        }
        if room == 0 {
            return Err(Errno::EFBIG);
        }
        let length = wanted.min(room);
        self.strip_privilege()?;
        let count = match self.vnode.sealed_room(start, length)? {
            None if length == wanted => self.pages.write(start, source)?,
            room => {
                let room = room.unwrap_or(length);
                self.pages.write(start, &mut Limited::new(source, room))?
            }
        };
        if count > 0 {
            self.vnode.touch_modified();
        }
        Ok((count, start + count as u64))
    }
    fn size(&self) -> u64 {
        self.pages.size()
    }
    fn seek_extent(&self, offset: u64, whence: Whence) -> Result<u64, Errno> {
        match whence {
            Whence::Hole => self.pages.next_hole(offset),
            _ => self.pages.next_data(offset),
        }
    }
    fn mappable(&self) -> Result<Arc<dyn Mappable>, Errno> {
        Ok(self.vnode.clone())
    }
    fn truncate(&self, size: u64, caller: &dyn Principal) -> Result<(), Errno> {
        self.mount.check_writable()?;
        if self.vnode.flags() & FLAG_APPEND != 0 {
            return Err(Errno::EPERM);
        }
        let _contents = self.vnode.contents().write();
        self.strip_privilege()?;
        resize(&self.vnode, size, caller)
    }
    fn allocate(
        &self,
        offset: u64,
        length: u64,
        how: Allocation,
        caller: &dyn Principal,
    ) -> Result<(), Errno> {
        self.mount.check_writable()?;
        let end = offset.checked_add(length).filter(|end| *end <= self.vnode.size_max());
        let end = end.ok_or(Errno::EFBIG)?;
        let _contents = self.vnode.contents().write();
        self.vnode.check_sealed_space(end, how)?;
        // Comes first, as it may fail: bytes must not be taken from the source twice.
        self.strip_privilege()?;
        match self.pages.backing() {
            Backing::Storage => allocate_stored(&self.vnode, offset..end, how)?,
            Backing::Cache => allocate_kept(&self.vnode, offset..end, how, caller)?,
        }
        self.vnode.touch_modified();
        Ok(())
    }
    fn sync(&self, kind: SyncKind) -> Result<(), Errno> {
        let synced = self.vnode.sync(kind);
        // The sync has reported its own error: the check is made in any case.
        self.pages.check(&self.told).and(synced)
    }
    fn write_range(&self, start: u64, end: u64, steps: RangeSteps) -> Result<(), Errno> {
        let pages = start / PAGE_BYTES as u64..end.div_ceil(PAGE_BYTES as u64);
        if steps.contains(RangeSteps::WAIT_BEFORE) {
            self.pages.wait_written(pages.clone());
        }
        if steps.contains(RangeSteps::WRITE) {
            self.pages.start_writes(pages.clone());
        }
        if steps.contains(RangeSteps::WAIT_AFTER) {
            self.pages.wait_written(pages);
        }
        if steps.intersects(RangeSteps::WAIT_BEFORE | RangeSteps::WAIT_AFTER) {
            self.pages.check(&self.told)?;
        }
        Ok(())
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
    fn closed(&self) {
        // The writes of the new contents must begin before the next commit, which makes the loss of the old ones
        // durable.
        if self.pages.take_emptied() && self.vnode.instance().info().writes_replacements {
            self.pages.start_writes(WHOLE);
        }
    }
}

/// Sets the size of a regular file, whose `contents` lock is held to write, for `caller`.
pub(crate) fn resize(vnode: &Vnode, size: u64, caller: &dyn Principal) -> Result<(), Errno> {
    let pages = vnode.pages().ok_or(Errno::EINVAL)?;
    if size > vnode.size_max() {
        return Err(Errno::EFBIG);
    }
    vnode.check_sealed_size(size)?;
    let now = time::now();
    let change = AttributeChange {
        size: Some(size),
        modified: Some(now),
        changed: Some(now),
        ..Default::default()
    };
    match pages.backing() {
        Backing::Storage => pages.truncate_stored(size, caller, || vnode.change(&change)),
        Backing::Cache => {
            vnode.change(&change)?;
            pages.truncate(size);
            Ok(())
        }
    }
}

/// Does fallocate for a file on storage, whose `contents` lock the caller holds to write.
fn allocate_stored(vnode: &Vnode, range: Range<u64>, how: Allocation) -> Result<(), Errno> {
    let pages = vnode.pages().ok_or(Errno::ENODEV)?;
    let (fs, size) = (vnode.instance().file_system()?, pages.size());
    let is_refused = match how {
        Allocation::Collapse => range.end >= size,
        Allocation::Insert => range.start >= size,
        _ => false,
    };
    if is_refused {
        return Err(Errno::EINVAL);
    }
    let length = range.end - range.start;
    let inode = vnode.inode();
    pages.reshape(range.clone(), how, || {
        fs.allocate(inode, how, range.start, length, time::now())?;
        Ok(())
    })
}

/// Does fallocate for a file that exists in the page cache only.
fn allocate_kept(
    vnode: &Vnode,
    range: Range<u64>,
    how: Allocation,
    caller: &dyn Principal,
) -> Result<(), Errno> {
    let pages = vnode.pages().ok_or(Errno::ENODEV)?;
    let (end, size) = (range.end, pages.size());
    let within = range.start.min(size)..end.min(size);
    match how {
        Allocation::Extend | Allocation::KeepSize => pages.allocate(range)?,
        Allocation::PunchHole | Allocation::ZeroKeepSize => pages.punch(within)?,
        Allocation::Zero => {
            pages.punch(within)?;
            pages.allocate(range)?;
        }
        Allocation::Collapse | Allocation::Insert => return Err(Errno::EOPNOTSUPP),
    }
    if matches!(how, Allocation::Extend | Allocation::Zero) && end > size {
        return resize(vnode, end, caller);
    }
    Ok(())
}
