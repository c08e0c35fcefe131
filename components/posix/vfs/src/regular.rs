//! Open regular files of a file system, and open directories.
use crate::{
    errno::Errno,
    errors::Told,
    file::{Allocation, File, IoFlags, Mappable, POSITION_MAX, Places, RangeSteps},
    generated::Node,
    io::{Limited, Sink, Source},
    mount::{Mount, Path},
    open_file::Whence,
    pages::{PageCache, Readahead, WHOLE},
    permission,
    vnode::{FLAG_APPEND, Vnode},
};
use alloc::sync::Arc;
use core::ops::{ControlFlow, Range};
use interfaces::file_system::{
    AttributeChange, Backing, DirectoryEntry, FileType, SyncKind, TakeEntry,
};
use rt::{PAGE_BYTES, lock_class, sync::Mutex};

lock_class! {
    static READAHEAD = "vfs.file.readahead";
}

/// Whether writes take setuid and setgid away (the opener lacks CAP_FSETID).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Privilege {
    Kept,
    Stripped,
}

/// Whether reads count as access (not with O_NOATIME).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessTime {
    Kept,
    Updated,
}

/// An open regular file: its pages, and how far this reader has come.
pub(crate) struct RegularFile {
    vnode: Arc<Vnode>,
    pages: Arc<PageCache>,
    mount: Arc<Mount>,
    readahead: Mutex<Readahead>,
    told: Told,
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
        // A read that found nothing is an access too, and so is one that failed.
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
    fn truncate(&self, size: u64) -> Result<(), Errno> {
        self.mount.check_writable()?;
        if self.vnode.flags() & FLAG_APPEND != 0 {
            return Err(Errno::EPERM);
        }
        let _contents = self.vnode.contents().write();
        self.strip_privilege()?;
        resize(&self.vnode, size)
    }
    fn allocate(&self, offset: u64, length: u64, how: Allocation) -> Result<(), Errno> {
        self.mount.check_writable()?;
        let end = offset.checked_add(length).filter(|end| *end <= self.vnode.size_max());
        let end = end.ok_or(Errno::EFBIG)?;
        let _contents = self.vnode.contents().write();
        self.vnode.check_sealed_space(end, how)?;
        // First, as it may fail: what is moved must not be moved again.
        self.strip_privilege()?;
        match self.pages.backing() {
            Backing::Storage => allocate_stored(&self.vnode, offset..end, how)?,
            Backing::Cache => allocate_kept(&self.vnode, offset..end, how)?,
        }
        self.vnode.touch_modified();
        Ok(())
    }
    fn sync(&self, data_only: bool) -> Result<(), Errno> {
        let kind = if data_only { SyncKind::Data } else { SyncKind::All };
        let synced = self.vnode.sync(kind);
        // The sync has told its error itself: the check is made all the same.
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
        // The new contents must be on their way before the next commit, which makes the loss of the old ones durable.
        if self.pages.take_emptied() && self.vnode.instance().info().writes_replacements {
            self.pages.start_writes(WHOLE);
        }
    }
}

/// Sets the size of a regular file whose `contents` lock the caller holds to write.
pub(crate) fn resize(vnode: &Vnode, size: u64) -> Result<(), Errno> {
    let pages = vnode.pages().ok_or(Errno::EINVAL)?;
    if size > vnode.size_max() {
        return Err(Errno::EFBIG);
    }
    vnode.check_sealed_size(size)?;
    let now = crate::vnode::now();
    let change = AttributeChange {
        size: Some(size),
        modified: Some(now),
        changed: Some(now),
        ..Default::default()
    };
    match pages.backing() {
        Backing::Storage => pages.truncate_stored(size, || vnode.change(&change)),
        Backing::Cache => {
            vnode.change(&change)?;
            pages.truncate(size);
            Ok(())
        }
    }
}

/// fallocate of a file on storage, whose `contents` lock the caller holds to write.
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
        fs.allocate(inode, how, range.start, length, crate::vnode::now())?;
        Ok(())
    })
}

/// fallocate of a file that lives in the page cache only.
fn allocate_kept(vnode: &Vnode, range: Range<u64>, how: Allocation) -> Result<(), Errno> {
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
        return resize(vnode, end);
    }
    Ok(())
}

/// An open directory.
pub(crate) struct DirectoryFile {
    path: Path,
}

/// Positions 0 and 1 are `.` and `..`; those of the file system follow.
const POSITION_PARENT: u64 = 1;
const POSITION_FIRST: u64 = 2;

impl DirectoryFile {
    pub(crate) fn new(path: &Path) -> DirectoryFile {
        DirectoryFile { path: path.clone() }
    }
    fn dot(&self) -> DirectoryEntry<&[u8]> {
        special(b".", self.path.vnode(), POSITION_PARENT)
    }
    fn dot_dot(&self) -> DirectoryEntry<&[u8]> {
        let mut at = self.path.clone();
        while at.is_mount_root() {
            match at.mount.at() {
                Some(below) => at = below,
                None => break,
            }
        }
        let parent = at.dentry.parent().unwrap_or(at.dentry);
        special(b"..", parent.vnode(), POSITION_FIRST)
    }
    /// Hands `.` and `..` to `take`, unless `position` is behind them.
    fn take_dots(&self, position: u64, take: &mut TakeEntry<'_>) -> ControlFlow<()> {
        if position == 0 {
            take(&self.dot())?;
        }
        if position <= POSITION_PARENT { take(&self.dot_dot()) } else { ControlFlow::Continue(()) }
    }
    fn read_stored(&self, position: u64, take: &mut TakeEntry<'_>) -> Result<(), Errno> {
        let vnode = self.path.vnode();
        if vnode.is_dead() {
            return Err(Errno::ENOENT);
        }
        if self.take_dots(position, take).is_break() {
            return Ok(());
        }
        let _names = vnode.contents().read();
        if vnode.is_dead() {
            return Err(Errno::ENOENT);
        }
        let (from, mut result) = (position.saturating_sub(POSITION_FIRST), Ok(()));
        let mut take_it = |entry: &DirectoryEntry<&[u8]>| take_shifted(entry, take, &mut result);
        if vnode.instance().is_kept() {
            vnode.read_names(from, &mut take_it);
        } else {
            let fs = vnode.instance().file_system()?;
            fs.read_directory(vnode.inode(), from, &mut take_it)?;
        }
        result
    }
    fn read_generated(
        &self,
        node: &dyn Node,
        position: u64,
        take: &mut TakeEntry<'_>,
    ) -> Result<(), Errno> {
        let (mut has_dots, mut result) = (false, Ok(()));
        node.entries(position.saturating_sub(POSITION_FIRST), &mut |entry| {
            // They come with the first entry: what the directory shows is there then.
            if !has_dots {
                has_dots = true;
                self.take_dots(position, take)?;
            }
            take_shifted(entry, take, &mut result)
        })?;
        if !has_dots {
            let _ = self.take_dots(position, take);
        }
        result
    }
}

/// Hands an entry on with its position behind those of `.` and `..`; `EOVERFLOW` is the `result` where there is none.
#[inline]
fn take_shifted(
    entry: &DirectoryEntry<&[u8]>,
    take: &mut TakeEntry<'_>,
    result: &mut Result<(), Errno>,
) -> ControlFlow<()> {
    match entry.next.checked_add(POSITION_FIRST) {
        Some(next) => take(&DirectoryEntry { next, ..*entry }),
        None => {
            *result = Err(Errno::EOVERFLOW);
            ControlFlow::Break(())
        }
    }
}

fn special(name: &'static [u8], vnode: &Vnode, next: u64) -> DirectoryEntry<&'static [u8]> {
    let (inode, file_type) = (vnode.inode(), Some(FileType::Directory));
    DirectoryEntry { inode, file_type, name, next }
}

impl File for DirectoryFile {
    fn is_seekable(&self) -> bool {
        true
    }
    /// A directory in memory has no end: its positions are numbers of names.
    fn places(&self) -> Places {
        let vnode = self.path.vnode();
        match (vnode.node(), vnode.instance().info().backing) {
            (Some(node), _) => node.places(),
            (None, Backing::Storage) => Places::UpTo(POSITION_MAX),
            (None, Backing::Cache) => Places::Endless,
        }
    }
    /// Positions of a directory on storage are hashes of names, and the last one is its end.
    fn end(&self) -> u64 {
        if self.path.vnode().node().is_some() { self.size() } else { POSITION_MAX }
    }
    fn read(&self, _: u64, _: &mut dyn Sink, _: IoFlags) -> Result<usize, Errno> {
        Err(Errno::EISDIR)
    }
    fn read_directory(&self, position: u64, take: &mut TakeEntry<'_>) -> Result<(), Errno> {
        let vnode = self.path.vnode();
        match vnode.node() {
            Some(node) => self.read_generated(&**node, position, take)?,
            None => self.read_stored(position, take)?,
        }
        vnode.touch_accessed(self.path.mount.flags());
        Ok(())
    }
    fn size(&self) -> u64 {
        self.path.vnode().size()
    }
    fn sync(&self, data_only: bool) -> Result<(), Errno> {
        let vnode = self.path.vnode();
        match vnode.node() {
            None => vnode.sync(if data_only { SyncKind::Data } else { SyncKind::All }),
            Some(_) => Err(Errno::EINVAL),
        }
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}
