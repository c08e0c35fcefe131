//! The interface: each call finds its inodes and hands over to the family's file.
use crate::{MAGIC, ROOT, Tmpfs, xattr};
use alloc::{sync::Arc, vec::Vec};
use interfaces::file_system::{
    AclChange, AttributeChange, Attributes, Backing, FileSystem, FileTime, FileType, FsError,
    InodeNumber, MountInfo, NewInode, PageSink, TakeEntry, Usage, XattrMode,
};
use rt::{PAGE_BYTES, memory::Frame};

impl FileSystem for Tmpfs {
    fn mount_info(&self) -> MountInfo {
        MountInfo {
            type_name: "tmpfs",
            root: ROOT,
            is_read_only: false,
            backing: Backing::Cache,
            has_stable_names: true,
            block_bytes: PAGE_BYTES as u32,
            has_acls: true,
            size_max: crate::node::MAX_BYTES,
            writes_replacements: false,
        }
    }

    fn usage(&self) -> Result<Usage, FsError> {
        let usage = self.space.usage();
        debug_assert_eq!(usage.magic, MAGIC);
        Ok(usage)
    }

    fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<Attributes, FsError> {
        self.find(directory, name)
    }

    fn attributes(&self, inode: InodeNumber) -> Result<Attributes, FsError> {
        let node = self.node(inode)?;
        let state = node.state.lock();
        Ok(node.attributes(&state))
    }

    fn set_attributes(
        &self,
        inode: InodeNumber,
        change: &AttributeChange,
    ) -> Result<Attributes, FsError> {
        let node = self.node(inode)?;
        node.check_change(change)?;
        let mut state = node.state.lock();
        state.apply_change(change);
        Ok(node.attributes(&state))
    }

    fn read_directory(
        &self,
        directory: InodeNumber,
        position: u64,
        take: &mut TakeEntry<'_>,
    ) -> Result<(), FsError> {
        let node = self.directory(directory)?;
        node.state.lock().names.read(position, take);
        Ok(())
    }

    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>, FsError> {
        let node = self.node(inode)?;
        if node.file_type != FileType::Symlink {
            return Err(FsError::Invalid);
        }
        let state = node.state.lock();
        Ok(state.target().to_vec())
    }

    /// Absent pages are zeroes; the page cache need not ask.
    fn read_pages(
        &self,
        _inode: InodeNumber,
        first: u64,
        frames: Vec<Frame>,
        tag: u64,
        sink: &Arc<dyn PageSink>,
    ) {
        frames.iter().for_each(|frame| frame.zero(0, PAGE_BYTES));
        sink.pages_done(tag, first, frames.len(), Ok(()));
    }

    fn write_pages(
        &self,
        _inode: InodeNumber,
        first: u64,
        frames: Vec<Frame>,
        _size_bytes: u64,
        tag: u64,
        sink: &Arc<dyn PageSink>,
    ) {
        sink.pages_done(tag, first, frames.len(), Err(FsError::Unsupported));
    }

    fn create(
        &self,
        directory: InodeNumber,
        name: &[u8],
        new: &NewInode<'_>,
    ) -> Result<Attributes, FsError> {
        self.make(directory, name, new)
    }

    fn create_unnamed(
        &self,
        directory: InodeNumber,
        new: &NewInode<'_>,
    ) -> Result<Attributes, FsError> {
        self.make_unnamed(directory, new)
    }

    fn link(
        &self,
        inode: InodeNumber,
        directory: InodeNumber,
        name: &[u8],
        now: FileTime,
    ) -> Result<Attributes, FsError> {
        self.add_name(inode, (directory, name), now)
    }

    fn unlink(&self, directory: InodeNumber, name: &[u8], now: FileTime) -> Result<(), FsError> {
        self.remove_name(directory, name, now)
    }

    fn remove_directory(
        &self,
        directory: InodeNumber,
        name: &[u8],
        now: FileTime,
    ) -> Result<(), FsError> {
        self.remove_empty(directory, name, now)
    }

    fn rename(
        &self,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
        now: FileTime,
    ) -> Result<(), FsError> {
        self.move_name(from, to, now)
    }

    fn exchange(
        &self,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
        now: FileTime,
    ) -> Result<(), FsError> {
        self.exchange_names(from, to, now)
    }

    fn get_xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Vec<u8>, FsError> {
        xattr::get(&*self.node(inode)?, name)
    }

    fn list_xattr(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>, FsError> {
        Ok(xattr::list(&*self.node(inode)?))
    }

    fn set_xattr(
        &self,
        inode: InodeNumber,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        now: FileTime,
    ) -> Result<(), FsError> {
        xattr::set(&self.space, &*self.node(inode)?, name, value, mode, now)
    }

    fn remove_xattr(&self, inode: InodeNumber, name: &[u8], now: FileTime) -> Result<(), FsError> {
        xattr::remove(&self.space, &*self.node(inode)?, name, now)
    }

    fn set_acl(&self, inode: InodeNumber, change: &AclChange<'_>) -> Result<Attributes, FsError> {
        xattr::set_acl(&self.space, &*self.node(inode)?, change)
    }

    fn reserve(&self, inode: InodeNumber, pages: u64) -> Result<(), FsError> {
        let node = self.node(inode)?;
        self.space.take_pages(pages)?;
        node.state.lock().pages += pages;
        Ok(())
    }

    fn release(&self, inode: InodeNumber, pages: u64) {
        if let Ok(node) = self.node(inode) {
            let mut state = node.state.lock();
            let given = pages.min(state.pages);
            state.pages -= given;
            self.space.give_pages(given);
        }
    }

    fn forget(&self, inode: InodeNumber, count: u64) {
        // The root's count is the mount's own.
        if inode == ROOT {
            return;
        }
        if let Ok(node) = self.node(inode) {
            let mut state = node.state.lock();
            state.holds = state.holds.saturating_sub(count);
            self.free_if_unused(&node, state);
        }
    }

    fn sync(&self) -> Result<(), FsError> {
        Ok(())
    }
}
