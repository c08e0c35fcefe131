//! Files that show a program's memory: parts of it (`environ`, `auxv`), and all of it (`mem`). It is that of the address
//! space there was when they were opened, also after an exec; nothing once that has gone.
use crate::memory::{AddressSpace, Layout};
use alloc::{sync::Weak, vec};
use rt::PAGE_BYTES;
use vfs::{
    Errno,
    file::{File, IoFlags},
    io::{Sink, Source},
};

/// Most bytes of one read.
const STEP_BYTES: u64 = 64 << 10;

/// First and last address of a part.
pub type Part = fn(&Layout) -> (u64, u64);

/// An open file of this kind.
pub struct MemoryText {
    memory: Weak<AddressSpace>,
    part: Part,
}

impl MemoryText {
    /// Shows `part` of `memory`.
    pub fn new(memory: Weak<AddressSpace>, part: Part) -> MemoryText {
        MemoryText { memory, part }
    }
}

impl File for MemoryText {
    fn is_seekable(&self) -> bool {
        true
    }
    fn read(&self, offset: u64, sink: &mut dyn Sink, _: IoFlags) -> Result<usize, Errno> {
        let Some(memory) = self.memory.upgrade() else { return Ok(0) };
        let (start, end) = (self.part)(&memory.layout());
        let from = start.saturating_add(offset);
        let length = end.saturating_sub(from).min(sink.remaining() as u64).min(STEP_BYTES);
        if length == 0 {
            return Ok(0);
        }
        let mut bytes = vec![0; length as usize];
        memory.read_bytes(from, &mut bytes).map_err(|_| Errno::EIO)?;
        sink.put(&bytes)
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}

/// All of a program's memory, an offset being an address.
pub struct WholeMemory(pub Weak<AddressSpace>);

impl WholeMemory {
    /// Moves at most `most` bytes by pieces within a page, until one cannot be reached: `EIO` where that is the first.
    fn each(
        offset: u64,
        most: usize,
        mut piece: impl FnMut(u64, usize) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let mut done = 0;
        while done < most {
            let address = offset.checked_add(done as u64).ok_or(Errno::EIO)?;
            let wanted = (PAGE_BYTES - address as usize % PAGE_BYTES).min(most - done);
            match piece(address, wanted) {
                Ok(moved) if moved < wanted => return Ok(done + moved),
                Ok(moved) => done += moved,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

impl File for WholeMemory {
    fn is_seekable(&self) -> bool {
        true
    }
    fn read(&self, offset: u64, sink: &mut dyn Sink, _: IoFlags) -> Result<usize, Errno> {
        let Some(memory) = self.0.upgrade() else { return Ok(0) };
        let mut page = vec![0; PAGE_BYTES];
        WholeMemory::each(offset, sink.remaining(), |address, wanted| {
            let bytes = page.get_mut(..wanted).unwrap_or_default();
            memory.read_bytes(address, bytes).map_err(|_| Errno::EIO)?;
            sink.put(bytes)
        })
    }
    fn write(
        &self,
        offset: u64,
        source: &mut dyn Source,
        _: IoFlags,
    ) -> Result<(usize, u64), Errno> {
        let Some(memory) = self.0.upgrade() else { return Ok((0, offset)) };
        let mut page = vec![0; PAGE_BYTES];
        let done = WholeMemory::each(offset, source.remaining(), |address, wanted| {
            let bytes = page.get_mut(..wanted).unwrap_or_default();
            let taken = source.take(bytes)?;
            let bytes = bytes.get(..taken).unwrap_or_default();
            memory.write_bytes(address, bytes).map_err(|_| Errno::EIO)?;
            Ok(taken)
        })?;
        Ok((done, offset.saturating_add(done as u64)))
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}
