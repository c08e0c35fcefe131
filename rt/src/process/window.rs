//! Windows of the process world: handles, and the kernel calls that copy.
use super::call::{self, ask, ask_with_memory};
use crate::{
    NoMemory,
    window::{Access, CopyError},
};
use alloc::sync::Arc;
use calls::{COPY_LIST_MAX, Call, MAY_READ, MAY_WRITE, Status};

/// The handle of a window.
pub(crate) type Handle = Arc<call::Handle>;

const FROM: u64 = 0;
const TO: u64 = 1;

pub(crate) fn open(start: u64, bytes: usize, access: Access) -> Result<Handle, NoMemory> {
    let read = if access.can_read { MAY_READ } else { 0 };
    let write = if access.can_write { MAY_WRITE } else { 0 };
    let opened = ask(Call::WindowOpen, &[start, bytes as u64, read | write]);
    opened.map(|[handle, ..]| Arc::new(call::Handle(handle))).map_err(|_| NoMemory)
}

pub(crate) fn close(window: &Handle) {
    // SAFETY: a window maps nothing.
    let _ = unsafe { ask_with_memory(Call::Revoke, &[window.0]) };
}

fn result(answer: call::CallResult) -> Result<(), CopyError> {
    match answer {
        Ok(_) => Ok(()),
        Err(Status::Gone) => Err(CopyError::Gone),
        Err(_) => Err(CopyError::Fault),
    }
}

pub(crate) fn read(window: &Handle, offset: usize, out: &mut [u8]) -> Result<(), CopyError> {
    let place = [out.as_mut_ptr().expose_provenance(), offset, out.len()].map(|it| it as u64);
    let arguments = [window.0, place[0], place[1], place[2], FROM];
    // SAFETY: what is filled is `out`, borrowed exclusively.
    result(unsafe { ask_with_memory(Call::Copy, &arguments) })
}

pub(crate) fn write(window: &Handle, offset: usize, data: &[u8]) -> Result<(), CopyError> {
    let place = [data.as_ptr().expose_provenance(), offset, data.len()].map(|it| it as u64);
    let arguments = [window.0, place[0], place[1], place[2], TO];
    // SAFETY: `data` is only read; what the window shows is words that others write at any time.
    result(unsafe { ask_with_memory(Call::Copy, &arguments) })
}

/// Copies the pieces, each given by address, offset and number of bytes.
///
/// # Safety
/// The same as for [`ask_with_memory`].
unsafe fn copy_all(
    window: &Handle,
    pieces: impl Iterator<Item = (usize, usize, usize)>,
    direction: u64,
) -> Result<(), CopyError> {
    let mut list = [[0; 3]; COPY_LIST_MAX];
    let mut count = 0;
    for (place, (address, offset, bytes)) in list.iter_mut().zip(pieces) {
        *place = [address as u64, offset as u64, bytes as u64];
        count += 1;
    }
    let at = list.as_ptr().expose_provenance() as u64;
    // SAFETY: as the caller says; the list is only read.
    result(unsafe { ask_with_memory(Call::CopyList, &[window.0, at, count, 0, direction]) })
}

pub(crate) fn read_all(
    window: &Handle,
    pieces: &mut [(usize, &mut [u8])],
) -> Result<(), CopyError> {
    let places = pieces
        .iter_mut()
        .map(|(offset, out)| (out.as_mut_ptr().expose_provenance(), *offset, out.len()));
    // SAFETY: what is filled is borrowed exclusively.
    unsafe { copy_all(window, places, FROM) }
}

pub(crate) fn write_all(window: &Handle, pieces: &[(usize, &[u8])]) -> Result<(), CopyError> {
    let places = pieces
        .iter()
        .map(|(offset, data)| (data.as_ptr().expose_provenance(), *offset, data.len()));
    // SAFETY: as in `write`.
    unsafe { copy_all(window, places, TO) }
}
