//! Windows: a component lets another one copy to and from a range of its memory, checked by the nucleus (X5). Windows
//! exist only between isolated components; those of the kernel world share an address space.
use crate::{NoMemory, memory::Region, message::Capability, world};
pub use calls::COPY_LIST_MAX;

/// The accesses that a window allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Copying from the memory is allowed.
    pub can_read: bool,
    /// Copying to the memory is allowed.
    pub can_write: bool,
}

/// The reason why a copy ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyError {
    /// The window was taken back.
    Gone,
    /// The range is not in the window, its owner has no memory there, or the access is not allowed.
    Fault,
}

/// A window on a region of the component, held by its owner; taken back when dropped.
#[derive(Debug)]
pub struct Window {
    handle: world::window::Handle,
    _region: Region,
}

impl Window {
    /// Opens a window on `bytes` bytes from byte `first` of `region`. Cost as a system call: one, and one when it is
    /// taken back.
    ///
    /// # Errors
    /// [`NoMemory`], also if the region is shorter.
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
    /// Returns the capability, to be sent to the component that is to copy.
    pub fn capability(&self) -> Capability {
        Capability::View(View(self.handle.clone()))
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        world::window::close(&self.handle);
    }
}

/// A window as the copying component holds it. Clones are the same window.
#[derive(Clone, Debug)]
pub struct View(pub(crate) world::window::Handle);

impl View {
    /// Copies from the window, from byte `offset` on, to `out`. Cost as a system call: one.
    ///
    /// # Errors
    /// [`CopyError`]; some of it may have been copied.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), CopyError> {
        world::window::read(&self.0, offset, out)
    }
    /// Copies `data` into the window, from byte `offset` on. Cost as a system call: one.
    ///
    /// # Errors
    /// [`CopyError`]; some of it may have been copied.
    pub fn write(&self, offset: usize, data: &[u8]) -> Result<(), CopyError> {
        world::window::write(&self.0, offset, data)
    }
    /// Does [`View::read`] for each piece, at its offset. Cost as a system call: one for [`COPY_LIST_MAX`] pieces.
    ///
    /// # Errors
    /// Those of [`View::read`]; the pieces before were copied.
    pub fn read_all(&self, pieces: &mut [(usize, &mut [u8])]) -> Result<(), CopyError> {
        pieces.chunks_mut(COPY_LIST_MAX).try_for_each(|some| world::window::read_all(&self.0, some))
    }
    /// Does [`View::write`] for each piece, at its offset. Cost as a system call: one for [`COPY_LIST_MAX`] pieces.
    ///
    /// # Errors
    /// Those of [`View::write`]; the pieces before were copied.
    pub fn write_all(&self, pieces: &[(usize, &[u8])]) -> Result<(), CopyError> {
        pieces.chunks(COPY_LIST_MAX).try_for_each(|some| world::window::write_all(&self.0, some))
    }
}
