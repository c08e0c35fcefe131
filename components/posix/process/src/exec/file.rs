//! [`Executable`]: a file to be executed, as pages.
use alloc::sync::Arc;
use memory::{Label, Origin};
use rt::PAGE_BYTES;
use vfs::{
    Credentials, DenyWrite, Errno, OpenFile,
    file::Mappable,
    permission::{self, FileCapabilities, SetIds, Want},
};

/// A file to be executed. Nobody can open it for writing while this lives, so what is read, mapped and decided by its
/// owner and mode belongs together.
#[derive(Clone)]
pub struct Executable {
    pages: Arc<dyn Mappable>,
    bytes: u64,
    origin: Origin,
    _deny_write: Option<Arc<DenyWrite>>,
}

impl Executable {
    /// The program in an open file.
    ///
    /// # Errors
    /// `EACCES` where it is nothing that has pages; `ETXTBSY` while somebody has it open for writing.
    pub fn new(file: Arc<OpenFile>) -> Result<Executable, Errno> {
        let pages = file.file().mappable().map_err(|_| Errno::EACCES)?;
        let deny_write = Arc::new(file.vnode().deny_write()?);
        let bytes = file.file().size();
        Ok(Executable { pages, bytes, origin: Origin::File(file), _deny_write: Some(deny_write) })
    }
    /// A program in memory, of `bytes` bytes.
    pub fn in_memory(pages: Arc<dyn Mappable>, bytes: u64) -> Executable {
        let origin = Origin::System(Label::SharedAnonymous);
        Executable { pages, bytes, origin, _deny_write: None }
    }
    /// Its pages.
    pub(super) fn pages(&self) -> &Arc<dyn Mappable> {
        &self.pages
    }
    /// The open file or object behind it.
    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }
    /// The open file, if it is one.
    pub(super) fn file(&self) -> Option<Arc<OpenFile>> {
        match &self.origin {
            Origin::File(file) => Some(file.clone()),
            Origin::System(_) | Origin::Segment(_) => None,
        }
    }
    /// The ids that it gives to its program, if `who` executes it.
    pub(super) fn set_ids(&self, who: &Credentials) -> SetIds {
        match &self.origin {
            Origin::File(file) => permission::set_ids(file.path(), who),
            Origin::System(_) | Origin::Segment(_) => SetIds::default(),
        }
    }
    /// The capabilities that it gives to its program.
    ///
    /// # Errors
    /// `EINVAL` where they make no sense, and what the file system says.
    pub(super) fn capabilities(&self) -> Result<Option<FileCapabilities>, Errno> {
        match &self.origin {
            Origin::File(file) => permission::file_capabilities(file.path()),
            Origin::System(_) | Origin::Segment(_) => Ok(None),
        }
    }
    /// `who` may read it, not only execute it.
    pub(super) fn is_readable_by(&self, who: &Credentials) -> bool {
        match &self.origin {
            Origin::File(file) => permission::check(file.vnode(), who, Want::READ).is_ok(),
            Origin::System(_) | Origin::Segment(_) => true,
        }
    }
    /// As [`Executable::read`], which observers of the file hear of (IN_ACCESS).
    ///
    /// # Errors
    /// As [`Executable::read`].
    pub(super) fn read_observed(&self, offset: u64, out: &mut [u8]) -> Result<usize, Errno> {
        let count = self.read(offset, out)?;
        if let (Origin::File(file), 1..) = (&self.origin, count) {
            file.note_read();
        }
        Ok(count)
    }
    /// Reads at `offset`; returns how many bytes there were, less than asked for at the end.
    ///
    /// # Errors
    /// `EIO`, `ENOMEM`.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> Result<usize, Errno> {
        let there = self.bytes.saturating_sub(offset).min(out.len() as u64) as usize;
        let mut done = 0;
        while done < there {
            let at = offset + done as u64;
            let frame = self.pages.page(at / PAGE_BYTES as u64, false)?;
            let in_page = (at % PAGE_BYTES as u64) as usize;
            let count = (PAGE_BYTES - in_page).min(there - done);
            let part = out.get_mut(done..done + count).ok_or(Errno::EIO)?;
            frame.read(in_page, part);
            done += count;
        }
        Ok(there)
    }
}
