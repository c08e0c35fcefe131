//! Files that show a program's memory: parts of it (`environ`, `auxv`), all of it (`mem`), and its mappings (`pagemap`). Such a
//! file shows the address space that the process had when the file was opened, also after an exec; it is empty once that
//! address space has ended.
use alloc::{sync::Weak, vec};
use memory::{AddressSpace, ProgramLayout, report::PresentPage};
use rt::{PAGE_BYTES, user::USER_END};
use vfs::{
    Errno,
    file::{File, IoFlags, Places},
    generated::GENERATED_END,
    io::{Sink, Source},
};
use zerocopy::IntoBytes;

/// The greatest number of bytes of one read.
const STEP_BYTES: u64 = 64 << 10;

/// Function that returns the first and last address of a part.
pub type LayoutPart = fn(&ProgramLayout) -> (u64, u64);

/// An open file of this kind.
pub struct MemoryText {
    memory: Weak<AddressSpace>,
    part: LayoutPart,
}

impl MemoryText {
    /// Makes a file that shows `part` of `memory`.
    pub fn new(memory: Weak<AddressSpace>, part: LayoutPart) -> MemoryText {
        MemoryText { memory, part }
    }
}

impl File for MemoryText {
    fn is_seekable(&self) -> bool {
        true
    }
    fn places(&self) -> Places {
        Places::UpTo(GENERATED_END)
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

/// A file with all of a program's memory; its offsets are addresses.
pub struct WholeMemory(pub Weak<AddressSpace>);

impl WholeMemory {
    /// Copies at most `most` bytes in pieces within a page, until a piece cannot be accessed: `EIO` if that is the first.
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
    fn places(&self) -> Places {
        Places::Addresses
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

/// A word for each page that a program can have (Documentation/admin-guide/mm/pagemap.rst).
pub struct PageMap {
    /// The address space that is shown.
    pub memory: Weak<AddressSpace>,
    /// The numbers of frames are shown: the opener has the right to see them.
    pub shows_frames: bool,
}

const WORD_BYTES: u64 = size_of::<u64>() as u64;
/// Number of pages read in one pass.
const PAGES_A_STEP: usize = 512;

impl PageMap {
    const PRESENT: u64 = 1 << 63;
    const OF_OBJECT: u64 = 1 << 61;
    const EXCLUSIVE: u64 = 1 << 56;
    /// Flag: the page was written since the last write to `clear_refs`, which is not supported.
    const SOFT_DIRTY: u64 = 1 << 55;

    fn word(&self, page: &PresentPage) -> u64 {
        let frame = if self.shows_frames { u64::from(page.mapping.id.0) } else { 0 };
        let flag = |is_so: bool, flag| if is_so { flag } else { 0 };
        (PageMap::PRESENT | PageMap::SOFT_DIRTY | frame)
            | flag(page.is_of_object, PageMap::OF_OBJECT)
            | flag(page.mappers == 1, PageMap::EXCLUSIVE)
    }
}

impl File for PageMap {
    fn is_seekable(&self) -> bool {
        true
    }
    fn places(&self) -> Places {
        Places::Addresses
    }
    /// # Errors
    /// `EINVAL` if offset or length are not multiples of a word.
    fn read(&self, offset: u64, sink: &mut dyn Sink, _: IoFlags) -> Result<usize, Errno> {
        if !offset.is_multiple_of(WORD_BYTES)
            || !(sink.remaining() as u64).is_multiple_of(WORD_BYTES)
        {
            return Err(Errno::EINVAL);
        }
        let Some(memory) = self.memory.upgrade() else { return Ok(0) };
        let last = USER_END / PAGE_BYTES as u64;
        let mut first = offset / WORD_BYTES;
        let mut done = 0;
        let mut words = vec![0; PAGES_A_STEP.min(sink.remaining() / size_of::<u64>())];
        while sink.remaining() > 0 && first < last {
            let most = (last - first).min((sink.remaining() as u64) / WORD_BYTES);
            let step = words.len().min(most as usize);
            let words = words.get_mut(..step).unwrap_or_default();
            words.fill(0);
            let start = first * PAGE_BYTES as u64;
            let end = start + (step * PAGE_BYTES) as u64;
            memory.each_present(start, end, |page| {
                let index = (page.address - start) as usize / PAGE_BYTES;
                if let Some(word) = words.get_mut(index) {
                    *word = self.word(page);
                }
            });
            let bytes = words.as_bytes();
            match sink.put(bytes) {
                Ok(put) if put == bytes.len() => done += put,
                Ok(put) => return Ok(done + put),
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
            first += step as u64;
        }
        Ok(done)
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}
