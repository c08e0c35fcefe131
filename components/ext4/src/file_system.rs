//! The interface: each call finds its inode and hands over to the family's file.
use crate::{
    directory, inode::Inode, mount::Ext4, read, superblock::ROOT_INODE, symlink, transfer::Client,
    xattr,
};
use alloc::{sync::Arc, vec::Vec};
use interfaces::file_system::{
    AttributeChange, Attributes, Backing, DirectoryEntry, FileSystem, FileTime, FsError,
    InodeNumber, MountInfo, NewInode, PageSink, Usage, XattrMode,
};
use rt::memory::Frame;

impl Ext4 {
    fn inode(&self, inode: InodeNumber) -> Result<Arc<Inode>, FsError> {
        self.inodes.get(&self.volume, inode)
    }

    /// Inodes held now, the root among them.
    pub fn held_inodes(&self) -> usize {
        self.inodes.count()
    }
}

impl FileSystem for Ext4 {
    fn mount_info(&self) -> MountInfo {
        MountInfo {
            type_name: "ext4",
            root: u64::from(ROOT_INODE),
            is_read_only: true,
            backing: Backing::Storage,
            has_stable_names: true,
        }
    }

    fn usage(&self) -> Result<Usage, FsError> {
        Ok(self.volume.geometry.usage())
    }

    fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<Attributes, FsError> {
        let parent = self.inode(directory)?;
        let found = directory::find(&self.volume, &parent, name)?;
        // No directory names the root or itself but by `.` and `..`.
        if found == parent.number || found == ROOT_INODE {
            return Err(FsError::Corrupt);
        }
        Ok(self.inodes.hold(&self.volume, found)?.attributes)
    }

    fn attributes(&self, inode: InodeNumber) -> Result<Attributes, FsError> {
        Ok(self.inode(inode)?.attributes)
    }

    fn set_attributes(
        &self,
        _inode: InodeNumber,
        _change: &AttributeChange,
    ) -> Result<Attributes, FsError> {
        Err(FsError::ReadOnly)
    }

    fn read_directory(
        &self,
        directory: InodeNumber,
        position: u64,
        max: usize,
    ) -> Result<Vec<DirectoryEntry>, FsError> {
        directory::list(&self.volume, &*self.inode(directory)?, position, max)
    }

    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>, FsError> {
        symlink::target(&self.volume, &*self.inode(inode)?)
    }

    fn read_pages(
        &self,
        inode: InodeNumber,
        first: u64,
        frames: Vec<Frame>,
        tag: u64,
        sink: &Arc<dyn PageSink>,
    ) {
        let client = Client { sink: Arc::clone(sink), tag, first };
        match self.inode(inode) {
            Ok(inode) => read::read_pages(&self.volume, &inode, frames, client),
            Err(error) => client.tell(0..frames.len(), Err(error)),
        }
    }

    fn create(
        &self,
        _directory: InodeNumber,
        _name: &[u8],
        _new: &NewInode<'_>,
    ) -> Result<Attributes, FsError> {
        Err(FsError::ReadOnly)
    }

    fn create_unnamed(
        &self,
        _directory: InodeNumber,
        _new: &NewInode<'_>,
    ) -> Result<Attributes, FsError> {
        Err(FsError::ReadOnly)
    }

    fn link(
        &self,
        _inode: InodeNumber,
        _directory: InodeNumber,
        _name: &[u8],
        _now: FileTime,
    ) -> Result<Attributes, FsError> {
        Err(FsError::ReadOnly)
    }

    fn unlink(&self, _directory: InodeNumber, _name: &[u8], _now: FileTime) -> Result<(), FsError> {
        Err(FsError::ReadOnly)
    }

    fn remove_directory(
        &self,
        _directory: InodeNumber,
        _name: &[u8],
        _now: FileTime,
    ) -> Result<(), FsError> {
        Err(FsError::ReadOnly)
    }

    fn rename(
        &self,
        _from: (InodeNumber, &[u8]),
        _to: (InodeNumber, &[u8]),
        _now: FileTime,
    ) -> Result<(), FsError> {
        Err(FsError::ReadOnly)
    }

    fn exchange(
        &self,
        _from: (InodeNumber, &[u8]),
        _to: (InodeNumber, &[u8]),
        _now: FileTime,
    ) -> Result<(), FsError> {
        Err(FsError::ReadOnly)
    }

    fn get_xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Vec<u8>, FsError> {
        xattr::get(&self.volume, &*self.inode(inode)?, name)
    }

    fn list_xattr(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>, FsError> {
        xattr::list(&self.volume, &*self.inode(inode)?)
    }

    fn set_xattr(
        &self,
        _inode: InodeNumber,
        _name: &[u8],
        _value: &[u8],
        _mode: XattrMode,
        _now: FileTime,
    ) -> Result<(), FsError> {
        Err(FsError::ReadOnly)
    }

    fn remove_xattr(
        &self,
        _inode: InodeNumber,
        _name: &[u8],
        _now: FileTime,
    ) -> Result<(), FsError> {
        Err(FsError::ReadOnly)
    }

    fn forget(&self, inode: InodeNumber, count: u64) {
        // The root's count is the mount's own.
        if inode != u64::from(ROOT_INODE) {
            self.inodes.forget(inode, count);
        }
    }

    fn sync(&self) -> Result<(), FsError> {
        Ok(())
    }
}
