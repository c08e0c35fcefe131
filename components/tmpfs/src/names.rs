//! Names made and taken away: create, link, unlink, rmdir.
use crate::{TARGET_MAX, Tmpfs, check_name, node::Node, space::INODE_BYTES, xattr};
use alloc::sync::Arc;
use interfaces::file_system::{
    Attributes, FileTime, FileType, FsError, InodeNumber, NewAcls, NewInode,
};

impl Tmpfs {
    /// The inode a name stands for, counted up.
    pub(crate) fn find(&self, directory: InodeNumber, name: &[u8]) -> Result<Attributes, FsError> {
        let parent = self.directory(directory)?;
        let names = parent.state.lock();
        let node = names.names.find(name)?;
        // Under the directory's lock the name keeps the inode alive until we hold it.
        let mut state = node.state.lock();
        state.holds += 1;
        Ok(node.attributes(&state))
    }

    fn new_node(&self, parent: InodeNumber, new: &NewInode<'_>) -> Result<Arc<Node>, FsError> {
        if new.file_type == FileType::Symlink && new.target.len() > TARGET_MAX {
            return Err(FsError::NameTooLong);
        }
        let node = Node::new(self.table.new_number(), parent, new)?;
        self.space.take_inode_bytes(node.state.lock().inode_bytes)?;
        if new.acls != NewAcls::default()
            && let Err(error) = xattr::set_new(&self.space, &node, &new.acls)
        {
            self.space.give_inode_bytes(node.state.lock().inode_bytes);
            return Err(error);
        }
        Ok(node)
    }

    /// Makes an inode with a first name, held once.
    pub(crate) fn make(
        &self,
        directory: InodeNumber,
        name: &[u8],
        new: &NewInode<'_>,
    ) -> Result<Attributes, FsError> {
        check_name(name)?;
        let parent = self.directory(directory)?;
        let mut names = parent.lock_alive()?;
        let promised = names.names.promise(name)?;
        let node = self.new_node(directory, new)?;
        names.names.insert(promised, &node);
        names.touch(new.now);
        if node.is_directory() {
            names.links = names.links.saturating_add(1);
        }
        let mut state = node.state.lock();
        state.holds = 1;
        if !node.is_directory() {
            state.links = 1;
        }
        self.table.insert(&node);
        Ok(node.attributes(&state))
    }

    /// Makes an inode without a name, held once.
    pub(crate) fn make_unnamed(
        &self,
        directory: InodeNumber,
        new: &NewInode<'_>,
    ) -> Result<Attributes, FsError> {
        if new.file_type == FileType::Directory {
            return Err(FsError::IsDirectory);
        }
        drop(self.directory(directory)?.lock_alive()?);
        let node = self.new_node(directory, new)?;
        let mut state = node.state.lock();
        state.holds = 1;
        self.table.insert(&node);
        Ok(node.attributes(&state))
    }

    /// Gives an inode another name and holds it once more.
    pub(crate) fn add_name(
        &self,
        inode: InodeNumber,
        (directory, name): (InodeNumber, &[u8]),
        now: FileTime,
    ) -> Result<Attributes, FsError> {
        check_name(name)?;
        let node = self.node(inode)?;
        if node.is_directory() {
            return Err(FsError::IsDirectory);
        }
        let parent = self.directory(directory)?;
        let mut names = parent.lock_alive()?;
        let promised = names.names.promise(name)?;
        let mut state = node.state.lock();
        let links = state.links.checked_add(1).ok_or(FsError::TooManyLinks)?;
        if state.links > 0 {
            let wanted = state.inode_bytes + INODE_BYTES;
            self.space.change_inode_bytes(&mut state.inode_bytes, wanted)?;
        }
        state.links = links;
        state.changed = now;
        state.holds += 1;
        names.names.insert(promised, &node);
        names.touch(now);
        Ok(node.attributes(&state))
    }

    /// Takes a name of anything but a directory away.
    pub(crate) fn remove_name(
        &self,
        directory: InodeNumber,
        name: &[u8],
        now: FileTime,
    ) -> Result<(), FsError> {
        let parent = self.directory(directory)?;
        let mut names = parent.state.lock();
        let node = names.names.remove(name, |node| match node.is_directory() {
            true => Err(FsError::IsDirectory),
            false => Ok(()),
        })?;
        names.touch(now);
        let mut state = node.state.lock();
        state.links = state.links.saturating_sub(1);
        self.give_link(&node, &mut state);
        state.changed = now;
        drop(names);
        self.free_if_unused(&node, state);
        Ok(())
    }

    /// Takes an empty directory away.
    pub(crate) fn remove_empty(
        &self,
        directory: InodeNumber,
        name: &[u8],
        now: FileTime,
    ) -> Result<(), FsError> {
        let parent = self.directory(directory)?;
        let mut names = parent.state.lock();
        let node = names.names.remove(name, |node| {
            if !node.is_directory() {
                return Err(FsError::NotDirectory);
            }
            let mut state = node.state.lock();
            if !state.names.is_empty() {
                return Err(FsError::NotEmpty);
            }
            // Under its lock, which who makes a name in it takes too.
            state.links = 0;
            state.touch(now);
            Ok(())
        })?;
        names.links = names.links.saturating_sub(1);
        names.touch(now);
        drop(names);
        self.free_if_unused(&node, node.state.lock());
        Ok(())
    }
}
