//! User mode of the kernel world.
use crate::{
    NoMemory, PAGE_BYTES,
    memory::{Frame, FrameId},
    user::{Bases, CloneMode, Context, Fault, Mapping, PageRange, Protection, Trap, Unshared},
};
use nucleus::{
    arch::user,
    memory::{frames, space},
    thread,
};

/// Page tables of a program.
pub(crate) type SpaceHandle = space::Space;

fn bits(protection: Protection) -> space::Protection {
    space::Protection(protection.bits())
}

pub(crate) fn space_new() -> Result<SpaceHandle, NoMemory> {
    SpaceHandle::new()
}

pub(crate) fn space_map(
    space: &SpaceHandle,
    range: PageRange,
    frames: &[Frame],
    protection: Protection,
) -> Result<usize, NoMemory> {
    let frames = frames.get(..range.pages()).unwrap_or(frames);
    let first = frames.as_ptr().cast::<u32>();
    // SAFETY: `Frame` is a transparent `FrameId`, which is a transparent `u32`.
    let numbers = unsafe { core::slice::from_raw_parts(first, frames.len()) };
    space.map(range.start(), numbers, bits(protection))
}

pub(crate) fn space_map_zeroed(
    space: &SpaceHandle,
    range: PageRange,
    protection: Protection,
) -> Result<usize, NoMemory> {
    space.map_zeroed(range.start(), range.pages(), bits(protection))
}

pub(crate) fn space_unmap(space: &SpaceHandle, range: PageRange) -> usize {
    space.unmap(range.start(), range.end())
}

pub(crate) fn space_protect(space: &SpaceHandle, range: PageRange, protection: Protection) {
    space.protect(range.start(), range.end(), bits(protection));
}

pub(crate) fn space_clone(
    space: &SpaceHandle,
    to: &SpaceHandle,
    range: PageRange,
    mode: CloneMode,
) -> Result<usize, NoMemory> {
    space.clone_to(to, range.start(), range.end(), mode)
}

pub(crate) fn space_move(space: &SpaceHandle, from: PageRange, to: u64) -> Result<usize, NoMemory> {
    space.move_to(from.start(), from.end(), to)
}

pub(crate) fn space_make_writable(
    space: &SpaceHandle,
    address: u64,
    protection: Protection,
) -> Result<Unshared, NoMemory> {
    space.make_writable(address, bits(protection | Protection::WRITE))
}

pub(crate) fn space_query(space: &SpaceHandle, address: u64) -> Option<Mapping> {
    let page = space.query(address)?;
    Some(Mapping {
        frame: Frame::from_counted(FrameId(page.frame)),
        protection: Protection::from_bits_truncate(page.protection.0),
        is_accessed: page.is_accessed,
        is_dirty: page.is_dirty,
    })
}

pub(crate) fn space_harvest(
    space: &SpaceHandle,
    range: PageRange,
    visit: &mut dyn FnMut(usize, FrameId, bool, bool),
) {
    let mut each =
        |index, frame, is_accessed, is_dirty| visit(index, FrameId(frame), is_accessed, is_dirty);
    space.harvest(range.start(), range.end(), &mut each);
}

pub(crate) fn space_resident(space: &SpaceHandle) -> usize {
    space.resident()
}

pub(crate) fn copy_in(space: &SpaceHandle, address: u64, out: &mut [u8]) -> Result<(), Fault> {
    // SAFETY: `out` is writable for its length.
    unsafe { space.copy_in(address, out.as_mut_ptr(), out.len()) }
}

pub(crate) fn copy_out(space: &SpaceHandle, address: u64, data: &[u8]) -> Result<(), Fault> {
    // SAFETY: `data` is readable for its length.
    unsafe { space.copy_out(address, data.as_ptr(), data.len()) }
}

fn in_frame(frame: FrameId, offset: usize, length: usize) -> Option<*mut u8> {
    let is_inside = offset.checked_add(length).is_some_and(|end| end <= PAGE_BYTES);
    is_inside.then(|| frames::address(frame.0).wrapping_add(offset))
}

pub(crate) fn copy_out_frame(
    space: &SpaceHandle,
    address: u64,
    frame: FrameId,
    offset: usize,
    length: usize,
) -> Result<(), Fault> {
    let Some(from) = in_frame(frame, offset, length) else { return Ok(()) };
    // SAFETY: within a frame that the caller holds.
    unsafe { space.copy_out(address, from, length) }
}

pub(crate) fn copy_in_frame(
    space: &SpaceHandle,
    address: u64,
    frame: FrameId,
    offset: usize,
    length: usize,
) -> Result<(), Fault> {
    let Some(to) = in_frame(frame, offset, length) else { return Ok(()) };
    // SAFETY: within a frame that the caller holds; whoever else has it uses copies and atomics only.
    unsafe { space.copy_in(address, to, length) }
}

pub(crate) fn zero(space: &SpaceHandle, address: u64, length: usize) -> Result<(), Fault> {
    space.zero(address, length)
}

pub(crate) fn copy_in_string(
    space: &SpaceHandle,
    address: u64,
    out: &mut [u8],
) -> Result<usize, Fault> {
    space.copy_in_string(address, out)
}

pub(crate) fn atomic_load(space: &SpaceHandle, address: u64) -> Result<u32, Fault> {
    space.atomic_load(address)
}

pub(crate) fn compare_exchange(
    space: &SpaceHandle,
    address: u64,
    old: u32,
    new: u32,
) -> Result<u32, Fault> {
    space.compare_exchange(address, old, new)
}

#[inline(always)]
pub(crate) fn run(context: &mut Context, space: &SpaceHandle) -> Trap {
    user::run(&mut context.registers, space)
}

pub(crate) fn extended_bytes() -> usize {
    nucleus::arch::fpu::bytes()
}

pub(crate) fn extended_mask() -> u64 {
    nucleus::arch::fpu::mask()
}

pub(crate) fn save_extended(out: &mut [u8]) -> bool {
    thread::current().extended.copy_out(out)
}

pub(crate) fn load_extended(image: &[u8]) -> bool {
    thread::current().extended.copy_in(image)
}

pub(crate) fn reset_extended() {
    thread::current().extended.reset();
}

pub(crate) fn bases() -> Bases {
    thread::current().extended.bases()
}

pub(crate) fn set_bases(bases: Bases) {
    thread::current().extended.set_bases(bases);
}
