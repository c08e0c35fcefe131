//! Files that show a part of a program's memory: `environ` and `auxv` of the address space there was
//! when they were opened, also after an exec; nothing once that has gone.
use crate::memory::{AddressSpace, Layout};
use alloc::{sync::Weak, vec};
use vfs::{
    Errno,
    file::{File, IoFlags},
    io::Sink,
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
