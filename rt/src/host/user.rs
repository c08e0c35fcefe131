//! Programs in the host world: a software page table and a test-supplied processor.
//!
//! A [`SpaceHandle`] maps page numbers to entries under one lock; lock order where two are taken is
//! by address. As on x86, a page with any right can be read.
use super::{
    control,
    memory::{self, frame_words},
    thread::{lock, take_kick},
};
use crate::{
    NoMemory, PAGE_BYTES,
    memory::{Frame, FrameId},
    user::{
        Access, Bases, CloneMode, Context, Fault, Mapping, PageRange, Protection, Space, Trap,
        USER_END, Unshared,
    },
    words,
};
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

const PAGE: u64 = PAGE_BYTES as u64;

#[derive(Debug)]
struct Entry {
    frame: Frame,
    protection: Protection,
    is_accessed: bool,
    is_dirty: bool,
}

impl Entry {
    fn new(frame: Frame, protection: Protection) -> Entry {
        Entry { frame, protection, is_accessed: false, is_dirty: false }
    }

    fn allows(&self, access: Access) -> bool {
        match access {
            Access::Read => !self.protection.is_empty(),
            Access::Write => self.protection.contains(Protection::WRITE),
            Access::Execute => self.protection.contains(Protection::EXECUTE),
        }
    }
}

type Pages = BTreeMap<u64, Entry>;

/// A space: shared so that a test's processor may hold it while it runs.
#[derive(Clone, Debug)]
pub(crate) struct SpaceHandle(Arc<Mutex<Pages>>);

fn keys(range: PageRange) -> std::ops::Range<u64> {
    range.start() / PAGE..range.end() / PAGE
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

pub(crate) fn space_new() -> Result<SpaceHandle, NoMemory> {
    memory::may_allocate()?;
    Ok(SpaceHandle(Arc::default()))
}

pub(crate) fn space_map(
    space: &SpaceHandle,
    range: PageRange,
    frames: &[Frame],
    protection: Protection,
) -> Result<usize, NoMemory> {
    memory::may_allocate()?;
    let mut pages = lock(&space.0);
    let mut mapped = 0;
    for (page, frame) in keys(range).zip(frames) {
        pages.entry(page).or_insert_with(|| {
            mapped += 1;
            Entry::new(frame.clone(), protection)
        });
    }
    Ok(mapped)
}

pub(crate) fn space_map_zeroed(
    space: &SpaceHandle,
    range: PageRange,
    protection: Protection,
) -> Result<usize, NoMemory> {
    let mut pages = lock(&space.0);
    let mut mapped = 0;
    for page in keys(range) {
        if let std::collections::btree_map::Entry::Vacant(vacant) = pages.entry(page) {
            vacant.insert(Entry::new(Frame::allocate(true)?, protection));
            mapped += 1;
        }
    }
    Ok(mapped)
}

pub(crate) fn space_unmap(space: &SpaceHandle, range: PageRange) -> usize {
    let mut pages = lock(&space.0);
    let mut tail = pages.split_off(&keys(range).start);
    let mut after = tail.split_off(&keys(range).end);
    pages.append(&mut after);
    tail.len()
}

pub(crate) fn space_protect(space: &SpaceHandle, range: PageRange, protection: Protection) {
    let mut pages = lock(&space.0);
    pages.range_mut(keys(range)).for_each(|(_, entry)| entry.protection = protection);
}

pub(crate) fn space_clone(
    from: &SpaceHandle,
    to: &SpaceHandle,
    range: PageRange,
    mode: CloneMode,
) -> Result<usize, NoMemory> {
    memory::may_allocate()?;
    if Arc::ptr_eq(&from.0, &to.0) {
        return Ok(0);
    }
    let (mut from, mut to) = lock_pair(from, to);
    let mut cloned = 0;
    for (page, entry) in from.range_mut(keys(range)) {
        if mode == CloneMode::CopyOnWrite {
            entry.protection.remove(Protection::WRITE);
        }
        to.entry(*page).or_insert_with(|| {
            cloned += 1;
            Entry::new(entry.frame.clone(), entry.protection)
        });
    }
    Ok(cloned)
}

pub(crate) fn space_move(space: &SpaceHandle, from: PageRange, to: u64) -> Result<usize, NoMemory> {
    memory::may_allocate()?;
    let Some(target) = PageRange::new(to, from.pages()) else {
        return Ok(0);
    };
    let mut pages = lock(&space.0);
    let mut moved = 0;
    for (source, target) in keys(from).zip(keys(target)) {
        if !pages.contains_key(&target)
            && let Some(entry) = pages.remove(&source)
        {
            pages.insert(target, entry);
            moved += 1;
        }
    }
    Ok(moved)
}

pub(crate) fn space_make_writable(
    space: &SpaceHandle,
    address: u64,
    protection: Protection,
) -> Result<Unshared, NoMemory> {
    let mut pages = lock(&space.0);
    let Some(entry) = pages.get_mut(&(address / PAGE)) else {
        return Ok(Unshared::Absent);
    };
    let mut done = Unshared::Reused;
    if entry.frame.references() > 1 {
        let copy = Frame::allocate(false)?;
        copy.copy_from(&entry.frame);
        entry.frame = copy;
        done = Unshared::Copied;
    }
    entry.protection = protection | Protection::WRITE;
    Ok(done)
}

pub(crate) fn space_query(space: &SpaceHandle, address: u64) -> Option<Mapping> {
    let pages = lock(&space.0);
    let entry = pages.get(&(address / PAGE))?;
    Some(Mapping {
        frame: entry.frame.clone(),
        protection: entry.protection,
        is_accessed: entry.is_accessed,
        is_dirty: entry.is_dirty,
    })
}

pub(crate) fn space_harvest(
    space: &SpaceHandle,
    range: PageRange,
    visit: &mut dyn FnMut(usize, FrameId, bool, bool),
) {
    let harvested: Vec<_> = lock(&space.0)
        .range_mut(keys(range))
        .map(|(page, entry)| {
            let was = (entry.is_accessed, entry.is_dirty);
            (entry.is_accessed, entry.is_dirty) = (false, false);
            ((page - keys(range).start) as usize, entry.frame.id(), was.0, was.1)
        })
        .collect();
    for (index, frame, is_accessed, is_dirty) in harvested {
        visit(index, frame, is_accessed, is_dirty);
    }
}

pub(crate) fn space_resident(space: &SpaceHandle) -> usize {
    lock(&space.0).len()
}

/// Goes through user memory page by page: `part(words, offset in page, bytes, done before)`.
fn access(
    space: &SpaceHandle,
    address: u64,
    length: usize,
    wanted: Access,
    mut part: impl FnMut(FrameId, usize, usize, usize) -> bool,
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
        if !part(entry.frame.id(), offset, count, done) {
            return Ok(());
        }
        done += count;
    }
    Ok(())
}

pub(crate) fn copy_in(space: &SpaceHandle, address: u64, out: &mut [u8]) -> Result<(), Fault> {
    access(space, address, out.len(), Access::Read, |frame, offset, count, done| {
        words::read(frame_words(frame), offset, &mut out[done..done + count]);
        true
    })
}

pub(crate) fn copy_out(space: &SpaceHandle, address: u64, data: &[u8]) -> Result<(), Fault> {
    access(space, address, data.len(), Access::Write, |frame, offset, count, done| {
        words::write(frame_words(frame), offset, &data[done..done + count]);
        true
    })
}

pub(crate) fn copy_out_frame(
    space: &SpaceHandle,
    address: u64,
    frame: FrameId,
    offset: usize,
    length: usize,
) -> Result<(), Fault> {
    let mut data = vec![0; length];
    words::read(frame_words(frame), offset, &mut data);
    copy_out(space, address, &data)
}

pub(crate) fn copy_in_frame(
    space: &SpaceHandle,
    address: u64,
    frame: FrameId,
    offset: usize,
    length: usize,
) -> Result<(), Fault> {
    let mut data = vec![0; length];
    let copied = copy_in(space, address, &mut data);
    let good = copied.err().map_or(length, |fault| fault.done);
    words::write(frame_words(frame), offset, &data[..good]);
    copied
}

pub(crate) fn zero(space: &SpaceHandle, address: u64, length: usize) -> Result<(), Fault> {
    access(space, address, length, Access::Write, |frame, offset, count, _| {
        words::zero(frame_words(frame), offset, count);
        true
    })
}

pub(crate) fn copy_in_string(
    space: &SpaceHandle,
    address: u64,
    out: &mut [u8],
) -> Result<usize, Fault> {
    let mut length = out.len();
    access(space, address, out.len(), Access::Read, |frame, offset, count, done| {
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

fn aligned(address: u64, access: Access) -> Result<(), Fault> {
    let fault = Fault { address, access, done: 0 };
    if address.is_multiple_of(4) { Ok(()) } else { Err(fault) }
}

pub(crate) fn atomic_load(space: &SpaceHandle, address: u64) -> Result<u32, Fault> {
    aligned(address, Access::Read)?;
    let mut found = 0;
    access(space, address, 4, Access::Read, |frame, offset, _, _| {
        found = words::load(frame_words(frame), offset, 4) as u32;
        true
    })?;
    Ok(found)
}

pub(crate) fn compare_exchange(
    space: &SpaceHandle,
    address: u64,
    old: u32,
    new: u32,
) -> Result<u32, Fault> {
    aligned(address, Access::Write)?;
    let mut found = 0;
    access(space, address, 4, Access::Write, |frame, offset, _, _| {
        found = words::compare_exchange32(frame_words(frame), offset, old, new);
        true
    })?;
    Ok(found)
}

/// Runs the program a test gave the calling thread (or the one that spawned it); without one every
/// instruction is invalid.
pub(crate) fn run(context: &mut Context, space: &SpaceHandle) -> Trap {
    if take_kick() {
        return Trap::Kicked;
    }
    match control::program() {
        Some(program) => program(context, &Space(space.clone())),
        None => Trap::Exception { vector: 6, error_code: 0 },
    }
}

/// Legacy area and header of the XSAVE standard format: x87 and SSE only.
const EXTENDED_BYTES: usize = 576;
const EXTENDED_MASK: u64 = 3;

thread_local! {
    static EXTENDED: RefCell<[u8; EXTENDED_BYTES]> = const { RefCell::new(INITIAL) };
}

/// FCW 0x37f, MXCSR 0x1f80, everything else zero.
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

pub(crate) fn save_extended(out: &mut [u8]) -> bool {
    let Some(out) = out.get_mut(..EXTENDED_BYTES) else {
        return false;
    };
    EXTENDED.with_borrow(|image| out.copy_from_slice(image));
    true
}

pub(crate) fn load_extended(image: &[u8]) -> bool {
    let Some(image) = image.first_chunk::<EXTENDED_BYTES>() else {
        return false;
    };
    let word = |offset: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&image[offset..offset + 8]);
        u64::from_le_bytes(bytes)
    };
    let has_bad_mxcsr = word(24) & 0xffff_0000 != 0;
    let has_bad_header = word(512) & !EXTENDED_MASK != 0 || image[520..].iter().any(|b| *b != 0);
    if has_bad_mxcsr || has_bad_header {
        return false;
    }
    EXTENDED.set(*image);
    true
}

pub(crate) fn reset_extended() {
    EXTENDED.set(INITIAL);
}

thread_local! {
    static BASES: Cell<Bases> = const { Cell::new(Bases { fs: 0, gs: 0 }) };
}

pub(crate) fn bases() -> Bases {
    BASES.get()
}

pub(crate) fn set_bases(bases: Bases) {
    BASES.set(bases);
}
