//! Access to other processes' memory: process_vm_readv, process_vm_writev.
use super::entry::Entry;
use alloc::{sync::Arc, vec, vec::Vec};
use interfaces::monitor::ObjectAccess;
use linux_raw_sys::general as raw;
use memory::{AddressSpace, IoVec, Room, UserSink, UserSource};
use process::{
    Task,
    call::Call,
    trace::{self, Target},
};
use rt::PAGE_BYTES;
use vfs::{
    Errno,
    io::{Sink, Source},
};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_process_vm_readv, "process_vm_readv", read),
    Entry::whole(raw::__NR_process_vm_writev, "process_vm_writev", write),
];

/// The buffers of both sides, and the memory of the other process.
struct CopyRequest<'r> {
    own: &'r [IoVec],
    their: Vec<IoVec>,
    memory: Arc<AddressSpace>,
}

/// Returns whether no buffer has any room: then the other process is not looked up.
fn are_empty(buffers: &[IoVec]) -> bool {
    buffers.iter().all(|buffer| buffer.length == 0)
}

impl<'r> CopyRequest<'r> {
    /// Reads the request; returns `None` if there is nothing to move.
    fn of(
        call: &Call<'_>,
        room: &'r mut Room,
        access: ObjectAccess,
    ) -> Result<Option<CopyRequest<'r>>, Errno> {
        let [_, own_at, own_count, their_at, their_count, flags] = call.args();
        if flags != 0 {
            return Err(Errno::EINVAL);
        }
        let memory = call.memory;
        let own = memory.read_iovecs(own_at, own_count as usize, room)?;
        if are_empty(own) {
            return Ok(None);
        }
        let their = memory.read_their_iovecs(their_at, their_count as usize)?;
        if are_empty(&their) {
            return Ok(None);
        }
        let id = u32::try_from(call.int(0)).map_err(|_| Errno::ESRCH)?;
        let memory = match call.task.visible().task(id) {
            Some(task) => trace::memory(call.task, Target::task(&task.process, &task), access)?,
            None => {
                let process = call.task.visible().process_of(id).ok_or(Errno::ESRCH)?;
                trace::memory(call.task, Target::process(&process), access)?
            }
        };
        Ok(Some(CopyRequest { own, their, memory }))
    }
    /// Calls `part(memory, address, piece)` for pieces of the other process's buffers, none of which crosses a page
    /// boundary, until one is not moved completely. Returns the number of bytes moved, or the error if there were
    /// none.
    fn each(
        &self,
        task: &Task,
        mut part: impl FnMut(&AddressSpace, u64, &mut [u8]) -> Result<usize, Errno>,
    ) -> Result<u64, Errno> {
        let mut page = vec![0; PAGE_BYTES];
        let mut done = 0;
        for buffer in &self.their {
            let mut at = 0;
            while at < buffer.length {
                let address = buffer.address.wrapping_add(at);
                let room = PAGE_BYTES - address as usize % PAGE_BYTES;
                let wanted = room.min(usize::try_from(buffer.length - at).unwrap_or(room));
                let piece = page.get_mut(..wanted).unwrap_or_default();
                match part(&self.memory, address, piece) {
                    Ok(count) => {
                        done += count as u64;
                        at += count as u64;
                        if count < wanted || task.is_ending() {
                            return Ok(done);
                        }
                    }
                    Err(_) if done > 0 => return Ok(done),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(done)
    }
}

fn read(call: &mut Call<'_>) -> Result<u64, Errno> {
    let mut room = Room::default();
    let Some(request) = CopyRequest::of(call, &mut room, ObjectAccess::Read)? else { return Ok(0) };
    let mut sink = UserSink::vectored(call.caller(), call.memory, request.own);
    request.each(call.task, |memory, address, piece| {
        let wanted = piece.len().min(sink.remaining());
        let piece = piece.get_mut(..wanted).unwrap_or_default();
        if piece.is_empty() {
            return Ok(0);
        }
        memory.read_bytes(address, piece)?;
        sink.put(piece)
    })
}

fn write(call: &mut Call<'_>) -> Result<u64, Errno> {
    let mut room = Room::default();
    let Some(request) = CopyRequest::of(call, &mut room, ObjectAccess::Write)? else {
        return Ok(0);
    };
    let mut source = UserSource::vectored(call.caller(), call.memory, request.own);
    request.each(call.task, |memory, address, piece| {
        let count = if source.remaining() == 0 { 0 } else { source.take(piece)? };
        memory.write_bytes(address, piece.get(..count).unwrap_or_default())?;
        Ok(count)
    })
}
