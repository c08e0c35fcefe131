//! [`Executable`]: a file to be executed, as pages.
use crate::memory::{Label, Origin};
use alloc::sync::Arc;
use rt::PAGE_BYTES;
use vfs::{Errno, OpenFile, file::Mappable};

/// `S_ISUID` and `S_ISGID`, with group execution without which the latter means locking.
const SETUID: u16 = 0o4000;
const SETGID: u16 = 0o2010;

/// A file to be executed.
#[derive(Clone)]
pub struct Executable {
    pages: Arc<dyn Mappable>,
    bytes: u64,
    origin: Origin,
}

impl Executable {
    /// What an open file holds.
    ///
    /// # Errors
    /// `EACCES` where it is nothing that has pages.
    pub fn new(file: Arc<OpenFile>) -> Result<Executable, Errno> {
        let pages = file.file().mappable().map_err(|_| Errno::EACCES)?;
        Ok(Executable { pages, bytes: file.file().size(), origin: Origin::File(file) })
    }
    /// A program in memory, of `bytes` bytes.
    pub fn in_memory(pages: Arc<dyn Mappable>, bytes: u64) -> Executable {
        Executable { pages, bytes, origin: Origin::System(Label::SharedAnonymous) }
    }
    /// Its pages.
    pub(super) fn pages(&self) -> &Arc<dyn Mappable> {
        &self.pages
    }
    /// Who is behind it.
    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }
    /// The open file, if it is one.
    pub(super) fn file(&self) -> Option<Arc<OpenFile>> {
        match &self.origin {
            Origin::File(file) => Some(file.clone()),
            Origin::System(_) => None,
        }
    }
    /// Owner and group it is to run as, where its bits and its mount say so.
    pub(super) fn set_ids(&self) -> (Option<u32>, Option<u32>) {
        let Origin::File(file) = &self.origin else { return (None, None) };
        if file.path().mount.flags().contains(vfs::MountFlags::NO_SETUID) {
            return (None, None);
        }
        let permissions = file.vnode().permissions();
        let (user, group) = file.vnode().owner();
        (
            (permissions & SETUID != 0).then_some(user),
            (permissions & SETGID == SETGID).then_some(group),
        )
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
