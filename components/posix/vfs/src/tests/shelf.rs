//! A file system of names on storage: inodes and directories in a table, without contents.
use interfaces::file_system::{
    AttributeChange, Attributes, Backing, FileSystem, FileSystemUsage, FileTime, FileType, FsError,
    InodeNumber, MountInfo, NewAcls, NewInode, TakeEntry,
};
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
};

const ROOT: InodeNumber = 1;

struct Inode {
    attributes: Attributes,
    holds: u64,
    names: BTreeMap<Vec<u8>, InodeNumber>,
}

type Inodes = BTreeMap<InodeNumber, Inode>;

pub(super) struct Shelf(Mutex<Inodes>);

/// Removes a name, and frees its inode.
fn take(inodes: &mut Inodes, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber, FsError> {
    let directory = inodes.get_mut(&directory).ok_or(FsError::NotFound)?;
    let inode = directory.names.remove(name).ok_or(FsError::NotFound)?;
    directory.attributes.size -= 20;
    let what = inodes.get_mut(&inode).ok_or(FsError::Corrupt)?;
    what.attributes.links -= 1;
    Ok(inode)
}

fn put(
    inodes: &mut Inodes,
    directory: InodeNumber,
    name: &[u8],
    inode: InodeNumber,
) -> Result<(), FsError> {
    let directory = inodes.get_mut(&directory).ok_or(FsError::NotFound)?;
    if directory.attributes.links == 0 {
        return Err(FsError::NotFound);
    }
    if directory.names.contains_key(name) {
        return Err(FsError::Exists);
    }
    directory.names.insert(name.to_vec(), inode);
    directory.attributes.size += 20;
    inodes.get_mut(&inode).ok_or(FsError::Corrupt)?.attributes.links += 1;
    Ok(())
}

fn free_if_unused(inodes: &mut Inodes, inode: InodeNumber) {
    if inodes.get(&inode).is_some_and(|it| it.holds == 0 && it.attributes.links == 0) {
        inodes.remove(&inode);
    }
}

impl Shelf {
    pub(super) fn new() -> Shelf {
        let new = NewInode {
            file_type: FileType::Directory,
            permissions: 0o755,
            user: 0,
            group: 0,
            device: (0, 0),
            target: b"",
            now: FileTime::default(),
            label: &[],
            level: None,
            acls: NewAcls::default(),
        };
        let attributes = Attributes { links: 1, size: 40, ..Attributes::new(ROOT, &new) };
        let root = Inode { attributes, holds: 1, names: BTreeMap::new() };
        Shelf(Mutex::new(BTreeMap::from([(ROOT, root)])))
    }
    fn inodes(&self) -> MutexGuard<'_, Inodes> {
        self.0.lock().unwrap()
    }
}

impl FileSystem for Shelf {
    fn mount_info(&self) -> MountInfo {
        MountInfo {
            type_name: "shelf",
            root: ROOT,
            is_read_only: false,
            backing: Backing::Storage,
            has_stable_names: true,
            block_bytes: 4096,
            has_acls: false,
            size_max: u64::MAX >> 1,
            writes_replacements: false,
        }
    }
    fn usage(&self) -> Result<FileSystemUsage, FsError> {
        Ok(FileSystemUsage::default())
    }
    fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<Attributes, FsError> {
        let mut inodes = self.inodes();
        let directory = inodes.get(&directory).ok_or(FsError::NotFound)?;
        let inode = *directory.names.get(name).ok_or(FsError::NotFound)?;
        let found = inodes.get_mut(&inode).ok_or(FsError::Corrupt)?;
        found.holds += 1;
        Ok(found.attributes)
    }
    fn attributes(&self, inode: InodeNumber) -> Result<Attributes, FsError> {
        self.inodes().get(&inode).map(|it| it.attributes).ok_or(FsError::NotFound)
    }
    fn set_attributes(
        &self,
        inode: InodeNumber,
        _: &AttributeChange,
    ) -> Result<Attributes, FsError> {
        self.attributes(inode)
    }
    fn read_directory(&self, _: InodeNumber, _: u64, _: &mut TakeEntry<'_>) -> Result<(), FsError> {
        Err(FsError::Unsupported)
    }
    fn create(
        &self,
        directory: InodeNumber,
        name: &[u8],
        new: &NewInode<'_>,
    ) -> Result<Attributes, FsError> {
        let mut inodes = self.inodes();
        let inode = inodes.last_key_value().map_or(ROOT, |last| last.0 + 1);
        let size = if new.file_type == FileType::Directory { 40 } else { 0 };
        let attributes = Attributes { links: 0, size, ..Attributes::new(inode, new) };
        inodes.insert(inode, Inode { attributes, holds: 1, names: BTreeMap::new() });
        let outcome = put(&mut inodes, directory, name, inode);
        if outcome.is_err() {
            inodes.remove(&inode);
        }
        outcome.map(|()| Attributes { links: 1, ..attributes })
    }
    fn link(
        &self,
        inode: InodeNumber,
        directory: InodeNumber,
        name: &[u8],
        _: FileTime,
    ) -> Result<Attributes, FsError> {
        let mut inodes = self.inodes();
        put(&mut inodes, directory, name, inode)?;
        let linked = inodes.get_mut(&inode).ok_or(FsError::NotFound)?;
        linked.holds += 1;
        Ok(linked.attributes)
    }
    fn unlink(&self, directory: InodeNumber, name: &[u8], _: FileTime) -> Result<(), FsError> {
        let mut inodes = self.inodes();
        let inode = take(&mut inodes, directory, name)?;
        free_if_unused(&mut inodes, inode);
        Ok(())
    }
    fn remove_directory(
        &self,
        directory: InodeNumber,
        name: &[u8],
        now: FileTime,
    ) -> Result<(), FsError> {
        let victim = self.lookup(directory, name)?.inode;
        let is_empty = self.inodes().get(&victim).is_some_and(|it| it.names.is_empty());
        self.forget(victim, 1);
        if is_empty { self.unlink(directory, name, now) } else { Err(FsError::NotEmpty) }
    }
    fn rename(
        &self,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
        _: FileTime,
    ) -> Result<(), FsError> {
        let mut inodes = self.inodes();
        let target = inodes.get(&to.0).and_then(|it| it.names.get(to.1)).copied();
        if target.and_then(|it| inodes.get(&it)).is_some_and(|it| !it.names.is_empty()) {
            return Err(FsError::NotEmpty);
        }
        let moved = take(&mut inodes, from.0, from.1)?;
        if let Some(target) = target {
            take(&mut inodes, to.0, to.1)?;
            free_if_unused(&mut inodes, target);
        }
        put(&mut inodes, to.0, to.1, moved)
    }
    fn forget(&self, inode: InodeNumber, count: u64) {
        let mut inodes = self.inodes();
        if let Some(it) = inodes.get_mut(&inode) {
            it.holds -= count;
        }
        free_if_unused(&mut inodes, inode);
    }
    fn sync(&self) -> Result<(), FsError> {
        Ok(())
    }
}
