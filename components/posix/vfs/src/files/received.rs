//! Descriptions that a subject got from another one.
use crate::{
    base::{credentials::Credentials, errno::Errno, file::File},
    files::{
        directory::DirectoryFile,
        generated::file_of,
        open_file::{OpenFile, PlaceOnly, Traces, WriteCount},
        regular::{AccessTime, Privilege, RegularFile},
    },
};
use alloc::sync::Arc;
use interfaces::file_system::FileType;

impl OpenFile {
    /// Returns the description as a subject has it that got it from another one: the same, or, if the subject's secrecy is not that of
    /// the object, one of its own at the same offset, so that those that share the first learn nothing of its use (K1).
    ///
    /// # Errors
    /// `EACCES` for an object that cannot be used by itself; `ENOMEM`.
    pub fn received_by(self: &Arc<Self>, who: &Credentials) -> Result<Arc<OpenFile>, Errno> {
        let vnode = self.vnode();
        if vnode.has_own_secrecy(who)? {
            return Ok(self.clone());
        }
        let file: Arc<dyn File> = match (vnode.file_type(), vnode.node()) {
            _ if self.is_path_only() => Arc::new(PlaceOnly),
            (FileType::Regular, Some(node)) => file_of(node.clone()),
            (FileType::Regular, None) => {
                Arc::new(RegularFile::new(self.path(), Privilege::Stripped, AccessTime::Kept)?)
            }
            (FileType::Directory, _) => Arc::new(DirectoryFile::new(self.path(), AccessTime::Kept)),
            _ => return Err(Errno::EACCES),
        };
        let (path, unused) = (self.path().clone(), (WriteCount::None, Traces::Avoided));
        let own = OpenFile::counted(file, path, self.flags(), unused);
        own.move_to(self.offset());
        Ok(own)
    }
}
