//! Windows: a component lets another copy to and from a range of its memory, checked by the nucleus (X5). Only between
//! isolated components: those of the kernel world share an address space.
use crate::{NoMemory, memory::Region, message::Capability, world};
pub use calls::COPY_LIST_MAX;

/// The accesses that a window allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Copy from it.
    pub can_read: bool,
    /// Copy to it.
    pub can_write: bool,
}

/// Why a copy ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyError {
    /// The window was taken back.
    Gone,
    /// It does not show so much, or its owner has no memory there (any more), or no such access was allowed.
    Fault,
}

/// A window on a region of the component's own, as its owner has it: taken back when dropped.
#[derive(Debug)]
pub struct Window {
    handle: world::window::Handle,
    _region: Region,
}

impl Window {
    /// On `bytes` bytes from byte `first` of `region`. Cost as a system call: one, and one when it is taken back.
    ///
    /// # Errors
    /// [`NoMemory`], also where the region has not so many.
    pub fn open(
        region: &Region,
        first: usize,
        bytes: usize,
        access: Access,
    ) -> Result<Window, NoMemory> {
        let end = first.checked_add(bytes).ok_or(NoMemory)?;
        let has = end <= region.words().len() * 8;
        let start = region.words().as_ptr().addr() as u64 + first as u64;
        let handle = has.then(|| world::window::open(start, bytes, access)).ok_or(NoMemory)??;
        Ok(Window { handle, _region: region.clone() })
    }
    /// The capability to send to the one that is to copy.
    pub fn capability(&self) -> Capability {
        Capability::View(View(self.handle.clone()))
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        world::window::close(&self.handle);
    }
}

/// A window as who copies by it has it. Clones are the same.
#[derive(Clone, Debug)]
pub struct View(pub(crate) world::window::Handle);

impl View {
    /// Copies out from byte `offset` on. Cost as a system call: one.
    ///
    /// # Errors
    /// [`CopyError`]; some of it may have been copied.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), CopyError> {
        world::window::read(&self.0, offset, out)
    }
    /// Copies in from byte `offset` on. Cost as a system call: one.
    ///
    /// # Errors
    /// [`CopyError`]; some of it may have been copied.
    pub fn write(&self, offset: usize, data: &[u8]) -> Result<(), CopyError> {
        world::window::write(&self.0, offset, data)
    }
    /// [`View::read`] of each piece, with its offset. Cost as a system call: one for [`COPY_LIST_MAX`] pieces.
    ///
    /// # Errors
    /// As [`View::read`]; the pieces before were copied.
    pub fn read_all(&self, pieces: &mut [(usize, &mut [u8])]) -> Result<(), CopyError> {
        pieces.chunks_mut(COPY_LIST_MAX).try_for_each(|some| world::window::read_all(&self.0, some))
    }
    /// [`View::write`] of each piece, with its offset. Cost as a system call: one for [`COPY_LIST_MAX`] pieces.
    ///
    /// # Errors
    /// As [`View::write`]; the pieces before were copied.
    pub fn write_all(&self, pieces: &[(usize, &[u8])]) -> Result<(), CopyError> {
        pieces.chunks(COPY_LIST_MAX).try_for_each(|some| world::window::write_all(&self.0, some))
    }
}
