//! A model of a disk with a file system of one directory: writes end later, in any order, and may
//! fail.
//!
//! It asserts the requirements of [`FileSystem::write_pages`] on its caller: no page is written
//! twice at once, every page has reserved room, no length is set and no block is moved while a write
//! is under way.
use interfaces::file_system::{
    Allocation, AttributeChange, Attributes, Backing, DirectoryEntry, FileSystem, FileSystemUsage,
    FileTime, FileType, FsError, InodeNumber, MountInfo, NewInode, PageSink, Seek, SyncKind,
    TakeEntry,
};
use rt::{PAGE_BYTES, memory::Frame};
use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
    time::Duration,
};

const ROOT: InodeNumber = 1;
const PAGE: u64 = PAGE_BYTES as u64;
type Page = Box<[u8; PAGE_BYTES]>;

#[derive(Clone)]
pub struct Stored {
    pub attributes: Attributes,
    pub pages: BTreeMap<u64, Page>,
    reserved: HashSet<u64>,
    in_flight: HashSet<u64>,
}

impl Stored {
    /// Returns the bytes that a reader of the disk would find.
    pub fn bytes(&self) -> Vec<u8> {
        let mut all = vec![0; self.attributes.size as usize];
        for (index, page) in &self.pages {
            let at = (index * PAGE) as usize;
            if at < all.len() {
                let end = all.len().min(at + PAGE_BYTES);
                all[at..end].copy_from_slice(&page[..end - at]);
            }
        }
        all
    }
}

/// A transfer under way.
struct Transfer {
    is_write: bool,
    inode: InodeNumber,
    page: u64,
    frame: Frame,
    /// The page being written, if the device has read it already.
    taken: Option<Page>,
    size: u64,
    tag: u64,
    sink: Arc<dyn PageSink>,
}

#[derive(Default)]
pub struct Disk {
    pub files: BTreeMap<InodeNumber, Stored>,
    names: BTreeMap<Vec<u8>, InodeNumber>,
    next: InodeNumber,
    queue: Vec<Transfer>,
    random: u64,
    /// Number of pages for which the disk has room.
    pub room: u64,
    /// Writes wait while it is set; their bytes are taken before.
    pub is_stuck: bool,
    /// Page numbers whose writes fail, in every file.
    pub bad: HashSet<u64>,
    /// Every run given to `write_pages`: inode, first page, number of pages.
    pub runs: Vec<(InodeNumber, u64, usize)>,
    /// For each rename, the number of pages of the file that were given to `write_pages` before.
    pub sent_at_rename: Vec<usize>,
    pub inode_syncs: Vec<(InodeNumber, SyncKind)>,
    /// The next listing from this position on fails for lack of memory.
    pub refuses_listing_at: Option<u64>,
    /// The next change of attributes fails for lack of memory.
    pub refuses_change: bool,
    pub is_unmounted: bool,
    is_ended: bool,
}

pub struct Model {
    disk: Mutex<Disk>,
    news: Condvar,
}

/// Makes a disk without files, with room for `room` pages.
pub fn model(room: u64) -> Arc<Model> {
    let disk = Disk { next: ROOT + 1, random: 88172645463325252, room, ..Disk::default() };
    let model = Arc::new(Model { disk: Mutex::new(disk), news: Condvar::new() });
    for _ in 0..2 {
        let weak = Arc::downgrade(&model);
        thread::spawn(move || while weak.upgrade().is_some_and(|model| model.work()) {});
    }
    model
}

fn now() -> FileTime {
    FileTime { seconds: 5, nanoseconds: 0 }
}

fn attributes(inode: InodeNumber, file_type: FileType) -> Attributes {
    Attributes {
        inode,
        file_type,
        permissions: 0o755,
        links: 1,
        user: 0,
        group: 0,
        device: (0, 0),
        size: 0,
        blocks: 0,
        accessed: now(),
        modified: now(),
        changed: now(),
        created: now(),
        flags: 0,
        generation: 0,
        may_have_acls: false,
        may_have_capabilities: false,
    }
}

fn contents(frame: &Frame) -> Page {
    let mut bytes = Box::new([0; PAGE_BYTES]);
    frame.read(0, &mut bytes[..]);
    bytes
}

impl Disk {
    fn below(&mut self, limit: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % limit as u64) as usize
    }
    fn used(&self) -> u64 {
        let pages = |file: &Stored| file.pages.len() + file.reserved.len();
        self.files.values().map(pages).sum::<usize>() as u64
    }
    fn file(&mut self, inode: InodeNumber) -> Result<&mut Stored, FsError> {
        self.files.get_mut(&inode).ok_or(FsError::NotFound)
    }
    fn told(&self, inode: InodeNumber) -> Result<Attributes, FsError> {
        if inode == ROOT {
            return Ok(attributes(ROOT, FileType::Directory));
        }
        let file = self.files.get(&inode).ok_or(FsError::NotFound)?;
        let blocks = 8 * (file.pages.len() + file.reserved.len()) as u64;
        Ok(Attributes { blocks, ..file.attributes })
    }
    /// Does one transfer. Returns the result for its sink.
    fn transfer(&mut self, transfer: &Transfer) -> Result<(), FsError> {
        let is_bad = self.bad.contains(&transfer.page);
        let Some(file) = self.files.get_mut(&transfer.inode) else {
            assert!(!transfer.is_write, "a write to a file that was freed");
            return Err(FsError::Io);
        };
        if !transfer.is_write {
            let mut page = file.pages.get(&transfer.page).cloned();
            let start = transfer.page * PAGE;
            let valid = file.attributes.size.saturating_sub(start).min(PAGE) as usize;
            let bytes = page.get_or_insert_with(|| Box::new([0; PAGE_BYTES]));
            bytes[valid..].fill(0);
            transfer.frame.write(0, &bytes[..]);
            return if is_bad { Err(FsError::Io) } else { Ok(()) };
        }
        assert!(file.in_flight.remove(&transfer.page));
        if is_bad {
            return Err(FsError::Io);
        }
        let bytes = transfer.taken.clone().unwrap_or_else(|| contents(&transfer.frame));
        file.pages.insert(transfer.page, bytes);
        let end = transfer.size.min((transfer.page + 1) * PAGE);
        file.attributes.size = file.attributes.size.max(end);
        Ok(())
    }
}

impl Model {
    pub fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap()
    }
    /// Returns the present state on the disk of the file called `name`.
    pub fn stored(&self, name: &str) -> Stored {
        let disk = self.disk();
        disk.files[&disk.names[name.as_bytes()]].clone()
    }
    pub fn release(&self) {
        self.disk().is_stuck = false;
        self.news.notify_all();
    }
    /// Completes one transfer, a random one of those waiting. Returns `false` when the model has
    /// ended.
    fn work(&self) -> bool {
        let mut disk = self.disk();
        if disk.is_ended {
            return false;
        }
        let can_do = |disk: &Disk| disk.queue.iter().any(|next| !next.is_write || !disk.is_stuck);
        if !can_do(&disk) {
            drop(self.news.wait_timeout(disk, Duration::from_millis(20)).unwrap());
            return true;
        }
        let count = disk.queue.len();
        let at = disk.below(count);
        if disk.queue[at].is_write && disk.is_stuck {
            return true;
        }
        let transfer = disk.queue.swap_remove(at);
        let result = disk.transfer(&transfer);
        let is_slow = disk.below(4) == 0;
        drop(disk);
        if is_slow {
            thread::sleep(Duration::from_micros(100));
        }
        let Transfer { page, frame, tag, sink, .. } = transfer;
        drop(frame);
        sink.pages_done(tag, page, 1, result);
        true
    }
    fn send(&self, transfers: impl Iterator<Item = Transfer>) {
        self.disk().queue.extend(transfers);
        self.news.notify_all();
    }
}

impl FileSystem for Model {
    fn mount_info(&self) -> MountInfo {
        MountInfo {
            type_name: "model",
            root: ROOT,
            is_read_only: false,
            backing: Backing::Storage,
            has_stable_names: true,
            block_bytes: 4096,
            has_acls: false,
            size_max: crate::file::POSITION_MAX,
            writes_replacements: true,
        }
    }
    fn usage(&self) -> Result<FileSystemUsage, FsError> {
        Ok(FileSystemUsage::default())
    }
    fn lookup(&self, _: InodeNumber, name: &[u8]) -> Result<Attributes, FsError> {
        let disk = self.disk();
        disk.told(*disk.names.get(name).ok_or(FsError::NotFound)?)
    }
    fn attributes(&self, inode: InodeNumber) -> Result<Attributes, FsError> {
        self.disk().told(inode)
    }
    fn set_attributes(
        &self,
        inode: InodeNumber,
        change: &AttributeChange,
    ) -> Result<Attributes, FsError> {
        let mut disk = self.disk();
        if core::mem::take(&mut disk.refuses_change) {
            return Err(FsError::NoMemory);
        }
        if inode == ROOT {
            return disk.told(inode);
        }
        let file = disk.file(inode)?;
        let known = &mut file.attributes;
        known.permissions = change.permissions.unwrap_or(known.permissions);
        known.modified = change.modified.unwrap_or(known.modified);
        known.accessed = change.accessed.unwrap_or(known.accessed);
        known.changed = change.changed.unwrap_or(known.changed);
        if let Some(size) = change.size {
            assert!(file.in_flight.is_empty(), "a length is set while pages are written");
            known.size = size;
            file.pages.retain(|page, _| page * PAGE < size);
            file.reserved.retain(|page| page * PAGE < size);
        }
        disk.told(inode)
    }
    fn read_directory(
        &self,
        _: InodeNumber,
        from: u64,
        take: &mut TakeEntry<'_>,
    ) -> Result<(), FsError> {
        let mut disk = self.disk();
        let refused = disk.refuses_listing_at;
        for (next, (name, inode)) in (1..).zip(&disk.names).skip(from as usize) {
            if refused.is_some_and(|at| at < next) {
                disk.refuses_listing_at = None;
                return Err(FsError::NoMemory);
            }
            if take(&DirectoryEntry { inode: *inode, file_type: None, name, next }).is_break() {
                break;
            }
        }
        Ok(())
    }
    fn read_link(&self, _: InodeNumber) -> Result<Vec<u8>, FsError> {
        Err(FsError::Invalid)
    }
    fn read_pages(
        &self,
        inode: InodeNumber,
        first: u64,
        frames: Vec<Frame>,
        tag: u64,
        sink: &Arc<dyn PageSink>,
    ) {
        let each = |(page, frame)| {
            let sink = sink.clone();
            Transfer { is_write: false, inode, page, frame, taken: None, size: 0, tag, sink }
        };
        self.send((first..).zip(frames).map(each));
    }
    fn write_pages(
        &self,
        inode: InodeNumber,
        first: u64,
        frames: Vec<Frame>,
        size: u64,
        tag: u64,
        sink: &Arc<dyn PageSink>,
    ) {
        let is_stuck = {
            let mut disk = self.disk();
            disk.runs.push((inode, first, frames.len()));
            let file = disk.file(inode).unwrap();
            for page in first..first + frames.len() as u64 {
                assert!(page * PAGE < size, "page {page} is beyond {size}");
                let has_room = file.reserved.remove(&page) | file.pages.contains_key(&page);
                assert!(has_room, "no room for page {page}");
                file.pages.entry(page).or_insert_with(|| Box::new([0xdb; PAGE_BYTES]));
                assert!(file.in_flight.insert(page), "page {page} is written twice at once");
            }
            disk.is_stuck
        };
        let each = |(page, frame)| {
            let sink = sink.clone();
            let taken = is_stuck.then(|| contents(&frame));
            Transfer { is_write: true, inode, page, frame, taken, size, tag, sink }
        };
        self.send((first..).zip(frames).map(each));
    }
    fn sync_inode(&self, inode: InodeNumber, kind: SyncKind) -> Result<(), FsError> {
        self.disk().inode_syncs.push((inode, kind));
        Ok(())
    }
    fn allocate(
        &self,
        inode: InodeNumber,
        how: Allocation,
        offset: u64,
        length: u64,
        _: FileTime,
    ) -> Result<Attributes, FsError> {
        let mut disk = self.disk();
        let file = disk.file(inode)?;
        assert!(file.in_flight.is_empty(), "blocks are changed while pages are written");
        let (end, size) = (offset + length, file.attributes.size);
        let whole = offset.div_ceil(PAGE)..end / PAGE;
        let shift = length / PAGE;
        let zero = |pages: &mut BTreeMap<u64, Page>| {
            for at in offset..end {
                if let Some(page) = pages.get_mut(&(at / PAGE)) {
                    page[(at % PAGE) as usize] = 0;
                }
            }
        };
        match how {
            Allocation::Extend | Allocation::KeepSize | Allocation::Zero => {
                if how == Allocation::Zero {
                    zero(&mut file.pages);
                }
                for page in offset / PAGE..end.div_ceil(PAGE) {
                    file.pages.entry(page).or_insert_with(|| Box::new([0; PAGE_BYTES]));
                }
                if how != Allocation::KeepSize {
                    file.attributes.size = size.max(end);
                }
            }
            Allocation::PunchHole => {
                zero(&mut file.pages);
                file.pages.retain(|page, _| !whole.contains(page));
                file.reserved.retain(|page| !whole.contains(page));
            }
            Allocation::Collapse => {
                let moved = file.pages.split_off(&whole.start).into_iter();
                let kept = moved.filter(|(page, _)| *page >= whole.end);
                file.pages.extend(kept.map(|(page, bytes)| (page - shift, bytes)));
                file.attributes.size -= length;
            }
            Allocation::Insert => {
                let moved = file.pages.split_off(&whole.start).into_iter();
                file.pages.extend(moved.map(|(page, bytes)| (page + shift, bytes)));
                file.attributes.size += length;
            }
            Allocation::ZeroKeepSize => return Err(FsError::Unsupported),
        }
        disk.told(inode)
    }
    fn seek(&self, inode: InodeNumber, position: u64, what: Seek) -> Result<u64, FsError> {
        let mut disk = self.disk();
        let file = disk.file(inode)?;
        let size = file.attributes.size;
        let is_wanted = |at: &u64| file.pages.contains_key(&(at / PAGE)) == (what == Seek::Data);
        let starts =
            std::iter::once(position).chain((position / PAGE + 1..).map(|page| page * PAGE));
        match starts.take_while(|at| *at < size).find(is_wanted) {
            Some(at) => Ok(at),
            None if what == Seek::Hole && position < size => Ok(size),
            None => Err(FsError::NotFound),
        }
    }
    fn create(
        &self,
        _: InodeNumber,
        name: &[u8],
        new: &NewInode<'_>,
    ) -> Result<Attributes, FsError> {
        let mut disk = self.disk();
        let inode = disk.next;
        disk.next += 1;
        let file = Stored {
            attributes: attributes(inode, new.file_type),
            pages: BTreeMap::new(),
            reserved: HashSet::new(),
            in_flight: HashSet::new(),
        };
        disk.files.insert(inode, file);
        disk.names.insert(name.to_vec(), inode);
        disk.told(inode)
    }
    fn link(
        &self,
        _: InodeNumber,
        _: InodeNumber,
        _: &[u8],
        _: FileTime,
    ) -> Result<Attributes, FsError> {
        Err(FsError::Unsupported)
    }
    fn unlink(&self, _: InodeNumber, name: &[u8], _: FileTime) -> Result<(), FsError> {
        let mut disk = self.disk();
        let inode = disk.names.remove(name).ok_or(FsError::NotFound)?;
        disk.file(inode)?.attributes.links -= 1;
        Ok(())
    }
    fn remove_directory(&self, _: InodeNumber, _: &[u8], _: FileTime) -> Result<(), FsError> {
        Err(FsError::NotDirectory)
    }
    fn rename(
        &self,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
        _: FileTime,
    ) -> Result<(), FsError> {
        let mut disk = self.disk();
        let inode = disk.names.remove(from.1).ok_or(FsError::NotFound)?;
        let sent: usize = disk.runs.iter().filter(|run| run.0 == inode).map(|run| run.2).sum();
        disk.sent_at_rename.push(sent);
        if let Some(replaced) = disk.names.insert(to.1.to_vec(), inode) {
            disk.file(replaced)?.attributes.links -= 1;
        }
        Ok(())
    }
    fn reserve_range(&self, inode: InodeNumber, first: u64, pages: u64) -> Result<(), FsError> {
        let mut disk = self.disk();
        let (used, room) = (disk.used(), disk.room);
        let file = disk.file(inode)?;
        let is_new = |page: &u64| !file.pages.contains_key(page) && !file.reserved.contains(page);
        let new: Vec<u64> = (first..first + pages).filter(is_new).collect();
        if used + new.len() as u64 > room {
            return Err(FsError::NoSpace);
        }
        file.reserved.extend(new);
        Ok(())
    }
    fn forget(&self, inode: InodeNumber, _: u64) {
        let mut disk = self.disk();
        let is_gone = disk.files.get(&inode).is_some_and(|file| file.attributes.links == 0);
        if is_gone && let Some(file) = disk.files.remove(&inode) {
            assert!(file.in_flight.is_empty(), "freed while pages are written");
        }
    }
    fn sync(&self) -> Result<(), FsError> {
        Ok(())
    }
    fn unmount(&self) -> Result<(), FsError> {
        let mut disk = self.disk();
        assert!(disk.queue.iter().all(|transfer| !transfer.is_write));
        disk.is_unmounted = true;
        Ok(())
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.disk.get_mut().unwrap().is_ended = true;
    }
}
