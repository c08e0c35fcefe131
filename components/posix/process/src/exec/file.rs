//! [`Executable`]: a file to be executed, as pages.
use crate::task::Task;
use alloc::sync::Arc;
use interfaces::monitor::ObjectAccess;
use memory::Origin;
use rt::PAGE_BYTES;
use vfs::{
    Credentials, DenyWrite, Errno, MountFlags, NOBODY, OpenFile, Principal,
    file::{Mappable, PageUse},
    permission::{self, FileCapabilities, SetIds, Want},
    security::Label,
};

/// A file to be executed. Unless it is executed from above its level, it cannot be opened for writing while this exists, so that the bytes read, the pages mapped
/// and the decisions made from owner and mode belong to the same state of the file.
#[derive(Clone)]
pub struct Executable {
    pages: Arc<dyn Mappable>,
    bytes: u64,
    origin: Origin,
    /// The task to which reads are charged; `None` for a program in memory.
    reader: Option<Arc<Task>>,
    _deny_write: Option<Arc<DenyWrite>>,
}

impl Executable {
    /// Makes the program of an open file, for `reader` to execute.
    ///
    /// # Errors
    /// `EACCES` if the file has no pages; `ETXTBSY` while it is open for writing.
    pub fn new(file: Arc<OpenFile>, reader: &Arc<Task>) -> Result<Executable, Errno> {
        let pages = file.file().mappable().map_err(|_| Errno::EACCES)?;
        // A writer below must not learn from ETXTBSY what is executed above (K1).
        let deny_write = match file.leaves_traces() {
            true => Some(Arc::new(file.vnode().deny_write()?)),
            false => None,
        };
        let bytes = file.file().size();
        let (origin, reader) = (Origin::File(file), Some(reader.clone()));
        Ok(Executable { pages, bytes, origin, reader, _deny_write: deny_write })
    }
    /// Returns the program as the subject holds it that executes it ([`OpenFile::received_by`]).
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn received_by(self, who: &Credentials) -> Result<Executable, Errno> {
        let Origin::File(file) = &self.origin else { return Ok(self) };
        let own = file.received_by(who)?;
        if Arc::ptr_eq(file, &own) {
            return Ok(self);
        }
        Ok(Executable { origin: Origin::File(own), _deny_write: None, ..self })
    }
    /// Makes a program of `bytes` bytes in memory.
    pub fn in_memory(pages: Arc<dyn Mappable>, bytes: u64) -> Executable {
        let origin = Origin::System(memory::Label::SharedAnonymous);
        Executable { pages, bytes, origin, reader: None, _deny_write: None }
    }
    /// Returns the task that executes it.
    pub(super) fn reader(&self) -> Option<&Arc<Task>> {
        self.reader.as_ref()
    }
    /// Returns its pages.
    pub(super) fn pages(&self) -> &Arc<dyn Mappable> {
        &self.pages
    }
    /// Returns the open file or object behind it.
    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }
    /// Returns the open file, if there is one.
    pub(super) fn file(&self) -> Option<Arc<OpenFile>> {
        match &self.origin {
            Origin::File(file) => Some(file.clone()),
            Origin::System(_) | Origin::Segment(_) => None,
        }
    }
    /// Returns the ids that the file gives to its program if `who` executes it.
    pub(super) fn set_ids(&self, who: &Credentials) -> SetIds {
        match &self.origin {
            Origin::File(file) => permission::set_ids(file.path(), who),
            Origin::System(_) | Origin::Segment(_) => SetIds::default(),
        }
    }
    /// Returns the capabilities that the file gives to its program.
    ///
    /// # Errors
    /// `EINVAL` if they are malformed, and errors of the file system.
    pub(super) fn capabilities(&self) -> Result<Option<FileCapabilities>, Errno> {
        match &self.origin {
            Origin::File(file) => permission::file_capabilities(file.path()),
            Origin::System(_) | Origin::Segment(_) => Ok(None),
        }
    }
    /// Returns the label of the file; `None` for a program in memory, which is the kernel's.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(super) fn label(&self) -> Result<Option<&'static Label>, Errno> {
        match &self.origin {
            Origin::File(file) => file.vnode().label().map(Some),
            Origin::System(_) | Origin::Segment(_) => Ok(None),
        }
    }
    /// Checks that a subject may execute the program.
    ///
    /// # Errors
    /// `EACCES`; errors of reading the label.
    pub(super) fn admit(&self, who: &Credentials) -> Result<(), Errno> {
        match &self.origin {
            Origin::File(file) => file.vnode().admit(who, ObjectAccess::Execute),
            Origin::System(_) | Origin::Segment(_) => Ok(()),
        }
    }
    /// Returns whether its mount lets programs change their rights.
    pub(super) fn may_set_ids(&self) -> bool {
        match &self.origin {
            Origin::File(file) => !file.path().mount.flags().contains(MountFlags::NO_SETUID),
            Origin::System(_) | Origin::Segment(_) => false,
        }
    }
    /// Returns whether `who` may read the file, not only execute it.
    pub(super) fn is_readable_by(&self, who: &Credentials) -> bool {
        match &self.origin {
            Origin::File(file) => permission::check(file.vnode(), who, Want::READ).is_ok(),
            Origin::System(_) | Origin::Segment(_) => true,
        }
    }
    /// Does the same as [`Executable::read`], and tells observers of the file (IN_ACCESS).
    ///
    /// # Errors
    /// Those of [`Executable::read`].
    pub(super) fn read_observed(&self, offset: u64, out: &mut [u8]) -> Result<usize, Errno> {
        let count = self.read(offset, out)?;
        if let (Origin::File(file), 1..) = (&self.origin, count) {
            file.note_read();
        }
        Ok(count)
    }
    /// Reads at `offset`; returns the number of bytes, fewer than asked for at the end of the file.
    ///
    /// # Errors
    /// `EIO`, `ENOMEM`.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> Result<usize, Errno> {
        let there = self.bytes.saturating_sub(offset).min(out.len() as u64) as usize;
        let reader: &dyn Principal = match &self.reader {
            Some(task) => &**task,
            None => NOBODY,
        };
        let mut done = 0;
        while done < there {
            let at = offset + done as u64;
            let frame = self.pages.page(at / PAGE_BYTES as u64, PageUse::Read, reader)?;
            let in_page = (at % PAGE_BYTES as u64) as usize;
            let count = (PAGE_BYTES - in_page).min(there - done);
            let part = out.get_mut(done..done + count).ok_or(Errno::EIO)?;
            frame.read(in_page, part);
            done += count;
        }
        Ok(there)
    }
}
