//! Programs in the host world: a software page table and a processor that the test supplies.
//!
//! A [`SpaceHandle`] maps page numbers to entries under one lock. Two such locks are taken in the
//! order of their addresses. As on x86, a page with any right can be read.
use super::{
    control,
    memory::{self, frame_words},
    thread::{lock, take_kick},
};
use crate::{
    NoMemory, PAGE_BYTES,
    memory::{Frame, FrameId},
    user::{
        Access, Bases, CloneMode, Context, Fault, LARGE_BYTES, Protection, Space, Trap, USER_END,
        Unshared,
    },
    words,
};
use program::Page;
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, atomic::AtomicU64},
};

const PAGE: u64 = PAGE_BYTES as u64;

#[derive(Debug)]
struct PageEntry {
    frame: Frame,
    protection: Protection,
    is_accessed: bool,
    is_dirty: bool,
}

impl PageEntry {
    fn new(frame: Frame, protection: Protection) -> PageEntry {
        PageEntry { frame, protection, is_accessed: false, is_dirty: false }
    }

    fn allows(&self, access: Access) -> bool {
        match access {
            Access::Read => !self.protection.is_empty(),
            Access::Write => self.protection.contains(Protection::WRITE),
            Access::Execute => self.protection.contains(Protection::EXECUTE),
        }
    }
}

type Pages = BTreeMap<u64, PageEntry>;

/// An address space. It is shared so that a test's processor may hold it while it runs.
#[derive(Clone, Debug)]
pub(crate) struct SpaceHandle(Arc<Mutex<Pages>>);

fn keys(start: u64, end: u64) -> Range<u64> {
    start / PAGE..end / PAGE
}

fn lock_pair<'a>(
    first: &'a SpaceHandle,
    second: &'a SpaceHandle,
) -> (MutexGuard<'a, Pages>, MutexGuard<'a, Pages>) {
    if Arc::as_ptr(&first.0) < Arc::as_ptr(&second.0) {
        let first = lock(&first.0);
        (first, lock(&second.0))
    } else {
        let second = lock(&second.0);
        (lock(&first.0), second)
    }
}

pub(crate) fn space_map(
    space: &SpaceHandle,
    start: u64,
    frames: &[Frame],
    protection: Protection,
) -> Result<usize, NoMemory> {
    memory::may_allocate()?;
    let mut pages = lock(&space.0);
    let mut mapped = 0;
    for (page, frame) in (start / PAGE..).zip(frames) {
        pages.entry(page).or_insert_with(|| {
            mapped += 1;
            PageEntry::new(frame.clone(), protection)
        });
    }
    Ok(mapped)
}

impl SpaceHandle {
    pub(crate) fn new() -> Result<SpaceHandle, NoMemory> {
        memory::may_allocate()?;
        Ok(SpaceHandle(Arc::default()))
    }

    pub(crate) fn map_zeroed(
        &self,
        start: u64,
        count: usize,
        protection: Protection,
    ) -> Result<usize, NoMemory> {
        let mut pages = lock(&self.0);
        let mut mapped = 0;
        for page in (start / PAGE..).take(count) {
            if let std::collections::btree_map::Entry::Vacant(vacant) = pages.entry(page) {
                vacant.insert(PageEntry::new(Frame::zeroed()?, protection));
                mapped += 1;
            }
        }
        Ok(mapped)
    }

    /// Maps ordinary pages, as many as a large page has.
    pub(crate) fn map_large(&self, start: u64, protection: Protection) -> Result<bool, NoMemory> {
        memory::may_allocate()?;
        let end = start + LARGE_BYTES as u64;
        if lock(&self.0).range(keys(start, end)).next().is_some() {
            return Ok(false);
        }
        self.map_zeroed(start, LARGE_BYTES / PAGE_BYTES, protection).map(|_| true)
    }

    pub(crate) fn unmap(&self, start: u64, end: u64) -> Result<usize, NoMemory> {
        let mut pages = lock(&self.0);
        let mut tail = pages.split_off(&keys(start, end).start);
        let mut after = tail.split_off(&keys(start, end).end);
        pages.append(&mut after);
        Ok(tail.len())
    }

    pub(crate) fn protect(
        &self,
        start: u64,
        end: u64,
        protection: Protection,
    ) -> Result<(), NoMemory> {
        let mut pages = lock(&self.0);
        pages.range_mut(keys(start, end)).for_each(|(_, entry)| entry.protection = protection);
        Ok(())
    }

    pub(crate) fn clone_to(
        &self,
        to: &SpaceHandle,
        start: u64,
        end: u64,
        _mode: CloneMode,
    ) -> Result<usize, NoMemory> {
        memory::may_allocate()?;
        if Arc::ptr_eq(&self.0, &to.0) {
            return Ok(0);
        }
        let (mut from, mut to) = lock_pair(self, to);
        let mut cloned = 0;
        for (page, entry) in from.range_mut(keys(start, end)) {
            entry.protection.remove(Protection::WRITE);
            to.entry(*page).or_insert_with(|| {
                cloned += 1;
                PageEntry::new(entry.frame.clone(), entry.protection)
            });
        }
        Ok(cloned)
    }

    pub(crate) fn move_to(&self, start: u64, end: u64, to: u64) -> Result<usize, NoMemory> {
        memory::may_allocate()?;
        if to.checked_add(end - start).is_none_or(|end| end > USER_END) {
            return Ok(0);
        }
        let mut pages = lock(&self.0);
        let mut moved = 0;
        for (source, target) in keys(start, end).zip(to / PAGE..) {
            if !pages.contains_key(&target)
                && let Some(entry) = pages.remove(&source)
            {
                pages.insert(target, entry);
                moved += 1;
            }
        }
        Ok(moved)
    }

    pub(crate) fn make_writable(
        &self,
        address: u64,
        protection: Protection,
    ) -> Result<Unshared, NoMemory> {
        let mut pages = lock(&self.0);
        let Some(entry) = pages.get_mut(&(address / PAGE)) else {
            return Ok(Unshared::Absent);
        };
        let mut done = Unshared::Reused;
        if entry.frame.references() > 1 {
            let copy = Frame::unfilled()?;
            copy.copy_from(&entry.frame);
            entry.frame = copy;
            done = Unshared::Copied;
        }
        entry.protection = protection;
        Ok(done)
    }

    pub(crate) fn query(&self, address: u64) -> Option<Page> {
        let pages = lock(&self.0);
        let entry = pages.get(&(address / PAGE))?;
        memory::frame_retain(entry.frame.id().0);
        Some(Page {
            frame: entry.frame.id().0,
            protection: entry.protection,
            is_accessed: entry.is_accessed,
            is_dirty: entry.is_dirty,
            is_large: false,
        })
    }

    pub(crate) fn each_present(&self, start: u64, end: u64, mut visit: impl FnMut(u64) -> bool) {
        let pages = lock(&self.0);
        let _ = pages.range(start / PAGE..end.div_ceil(PAGE)).all(|(page, _)| visit(page * PAGE));
    }

    pub(crate) fn counts(&self) -> Counts {
        let pages = lock(&self.0);
        let tables_of = |level| {
            let starts: BTreeSet<u64> = pages.keys().map(|page| page >> (9 * level)).collect();
            starts.len()
        };
        Counts { resident: pages.len(), tables: 1 + (1..4).map(tables_of).sum::<usize>() }
    }
}

/// Counts of a space, like those of real page tables.
pub(crate) struct Counts {
    resident: usize,
    tables: usize,
}

impl Counts {
    pub(crate) fn resident(&self) -> usize {
        self.resident
    }
    pub(crate) fn tables(&self) -> usize {
        self.tables
    }
    pub(crate) fn tables_max(&self) -> usize {
        usize::MAX
    }
}

/// Goes through user memory page by page and calls `part(words, offset in page, bytes, done
/// before)`.
/// Calls `part(done before, words of the frame, offset in it, count)` for the pieces of `bytes` of `frames`, up to the first
/// fault.
fn each_piece(
    frames: &[u32],
    bytes: Range<usize>,
    mut part: impl FnMut(usize, &'static [AtomicU64], usize, usize) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut done = 0;
    while done < bytes.len() {
        let at = bytes.start + done;
        let (index, start) = (at / PAGE_BYTES, at % PAGE_BYTES);
        let count = (bytes.end - at).min(PAGE_BYTES - start);
        part(done, frame_words(frames[index]), start, count)
            .map_err(|fault| Fault { done: done + fault.done, ..fault })?;
        done += count;
    }
    Ok(())
}

fn access(
    space: &SpaceHandle,
    address: u64,
    length: usize,
    wanted: Access,
    mut part: impl FnMut(u32, usize, usize, usize) -> bool,
) -> Result<(), Fault> {
    let mut pages = lock(&space.0);
    let mut done = 0;
    while done < length {
        let fault = |address| Err(Fault { address, access: wanted, done });
        let Some(at) = address.checked_add(done as u64).filter(|at| *at < USER_END) else {
            return fault(address.wrapping_add(done as u64));
        };
        let Some(entry) = pages.get_mut(&(at / PAGE)).filter(|entry| entry.allows(wanted)) else {
            return fault(at);
        };
        entry.is_accessed = true;
        entry.is_dirty |= wanted == Access::Write;
        let offset = (at % PAGE) as usize;
        let count = (PAGE_BYTES - offset).min(length - done);
        if !part(entry.frame.id().0, offset, count, done) {
            return Ok(());
        }
        done += count;
    }
    Ok(())
}

impl SpaceHandle {
    pub(crate) fn read(&self, address: u64, out: &mut [u8]) -> Result<(), Fault> {
        access(self, address, out.len(), Access::Read, |frame, offset, count, done| {
            words::read(frame_words(frame), offset, &mut out[done..done + count]);
            true
        })
    }

    pub(crate) fn write(&self, address: u64, data: &[u8]) -> Result<(), Fault> {
        access(self, address, data.len(), Access::Write, |frame, offset, count, done| {
            words::write(frame_words(frame), offset, &data[done..done + count]);
            true
        })
    }

    pub(crate) fn take_extended(&self, address: u64) -> bool {
        const SOFTWARE: Range<usize> = 464..512;
        let is_saved = EXTENDED.with_borrow(|image| {
            let header = address.wrapping_add(SOFTWARE.end as u64);
            address.is_multiple_of(64)
                && self.write(address, &image[..SOFTWARE.start]).is_ok()
                && self.write(header, &image[SOFTWARE.end..]).is_ok()
        });
        if is_saved {
            extended().reset();
        }
        is_saved
    }

    pub(crate) fn load_extended(&self, address: u64) -> bool {
        let mut image = [0; EXTENDED_BYTES];
        address.is_multiple_of(64)
            && self.read(address, &mut image).is_ok()
            && extended().copy_in(&image)
    }

    pub(crate) fn write_from_frames(
        &self,
        address: u64,
        frames: &[u32],
        bytes: Range<usize>,
    ) -> Result<(), Fault> {
        each_piece(frames, bytes, |done, words, start, count| {
            let mut data = vec![0; count];
            words::read(words, start, &mut data);
            self.write(address + done as u64, &data)
        })
    }

    pub(crate) fn read_into_frames(
        &self,
        address: u64,
        frames: &[u32],
        bytes: Range<usize>,
    ) -> Result<(), Fault> {
        each_piece(frames, bytes, |done, words, start, count| {
            let mut data = vec![0; count];
            let copied = self.read(address + done as u64, &mut data);
            let good = copied.err().map_or(count, |fault| fault.done);
            words::write(words, start, &data[..good]);
            copied
        })
    }

    pub(crate) fn zero(&self, address: u64, length: usize) -> Result<(), Fault> {
        access(self, address, length, Access::Write, |frame, offset, count, _| {
            words::zero(frame_words(frame), offset, count);
            true
        })
    }

    pub(crate) fn copy_in_string(&self, address: u64, out: &mut [u8]) -> Result<usize, Fault> {
        let mut length = out.len();
        access(self, address, out.len(), Access::Read, |frame, offset, count, done| {
            let part = &mut out[done..done + count];
            words::read(frame_words(frame), offset, part);
            match part.iter().position(|byte| *byte == 0) {
                Some(end) => {
                    length = done + end;
                    false
                }
                None => true,
            }
        })?;
        Ok(length)
    }
}

fn aligned(address: u64, access: Access) -> Result<(), Fault> {
    let fault = Fault { address, access, done: 0 };
    if address.is_multiple_of(4) { Ok(()) } else { Err(fault) }
}

impl SpaceHandle {
    pub(crate) fn atomic_load(&self, address: u64) -> Result<u32, Fault> {
        aligned(address, Access::Read)?;
        let mut found = 0;
        access(self, address, 4, Access::Read, |frame, offset, _, _| {
            found = words::load(frame_words(frame), offset, 4) as u32;
            true
        })?;
        Ok(found)
    }

    pub(crate) fn compare_exchange(&self, address: u64, old: u32, new: u32) -> Result<u32, Fault> {
        aligned(address, Access::Write)?;
        let mut found = 0;
        access(self, address, 4, Access::Write, |frame, offset, _, _| {
            found = words::compare_exchange32(frame_words(frame), offset, old, new);
            true
        })?;
        Ok(found)
    }
}

/// Runs the program that a test gave to the calling thread or to the thread that spawned it.
/// Without a program every instruction is invalid.
pub(crate) fn run(context: &mut Context, space: &SpaceHandle) -> Trap {
    if take_kick() {
        return Trap::Kicked;
    }
    match control::program() {
        Some(program) => program(context, &Space(space.clone())),
        None => Trap::Exception { vector: 6, error_code: 0 },
    }
}

/// Size of the XSAVE standard format's legacy area and header: x87 and SSE only.
const EXTENDED_BYTES: usize = 576;
const EXTENDED_MASK: u64 = 3;

thread_local! {
    static EXTENDED: RefCell<[u8; EXTENDED_BYTES]> = const { RefCell::new(INITIAL) };
}

/// Initial state: FCW 0x37f, MXCSR 0x1f80, everything else zero.
const INITIAL: [u8; EXTENDED_BYTES] = {
    let mut image = [0; EXTENDED_BYTES];
    (image[0], image[1]) = (0x7f, 0x03);
    (image[24], image[25]) = (0x80, 0x1f);
    image
};

pub(crate) fn extended_bytes() -> usize {
    EXTENDED_BYTES
}

pub(crate) fn extended_mask() -> u64 {
    EXTENDED_MASK
}

thread_local! {
    static BASES: Cell<Bases> = const { Cell::new(Bases { fs: 0, gs: 0 }) };
}

/// State of the calling thread's program that stays in the processor.
pub(crate) struct Extended;

pub(crate) fn extended() -> Extended {
    Extended
}

impl Extended {
    pub(crate) fn copy_out(&self, out: &mut [u8]) -> bool {
        let Some(out) = out.get_mut(..EXTENDED_BYTES) else {
            return false;
        };
        EXTENDED.with_borrow(|image| out.copy_from_slice(image));
        true
    }

    pub(crate) fn copy_in(&self, image: &[u8]) -> bool {
        let Some(image) = image.first_chunk::<EXTENDED_BYTES>() else {
            return false;
        };
        let word = |offset: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&image[offset..offset + 8]);
            u64::from_le_bytes(bytes)
        };
        let has_bad_mxcsr = word(24) & 0xffff_0000 != 0;
        let has_bad_header =
            word(512) & !EXTENDED_MASK != 0 || image[520..].iter().any(|b| *b != 0);
        if has_bad_mxcsr || has_bad_header {
            return false;
        }
        EXTENDED.set(*image);
        true
    }

    pub(crate) fn reset(&self) {
        EXTENDED.set(INITIAL);
    }

    pub(crate) fn bases(&self) -> Bases {
        BASES.get()
    }

    pub(crate) fn set_bases(&self, bases: Bases) {
        BASES.set(bases);
    }
}

/// Does nothing: no thread is preempted in this world.
pub(crate) fn report_moves(_is_wanted: bool) {}

/// Looks at the page at `address`. Returns it and the number of references to its frame.
pub(crate) fn space_query(space: &SpaceHandle, address: u64) -> Option<(Page, u32)> {
    let page = space.query(address)?;
    let frame = Frame::from_counted(FrameId(page.frame));
    // One is this reference.
    Some((page, frame.references() - 1))
}
