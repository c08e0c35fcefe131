//! User mode of the kernel world.
use crate::{
    NoMemory, PAGE_BYTES,
    memory::{Frame, FrameId},
    user::{
        Access, CloneMode, Context, Fault, Mapping, PageRange, Protection, Registers, Trap,
        Unshared,
    },
};
use nucleus::{
    arch::user::{self, Registers as NucleusRegisters},
    memory::{access, frames, range, space},
    thread,
};

/// Page tables of a program.
pub(crate) type SpaceHandle = space::Space;

const _: () = {
    assert!(size_of::<Registers>() == size_of::<NucleusRegisters>());
    assert!(core::mem::offset_of!(Registers, rdi) == core::mem::offset_of!(NucleusRegisters, rdi));
    assert!(core::mem::offset_of!(Registers, rip) == core::mem::offset_of!(NucleusRegisters, rip));
    assert!(
        core::mem::offset_of!(Registers, gs_base)
            == core::mem::offset_of!(NucleusRegisters, gs_base)
    );
};

fn access_of(wanted: access::Access) -> Access {
    match wanted {
        access::Access::Read => Access::Read,
        access::Access::Write => Access::Write,
        access::Access::Execute => Access::Execute,
    }
}

impl From<access::Fault> for Fault {
    fn from(fault: access::Fault) -> Fault {
        Fault { address: fault.address, access: access_of(fault.access), done: fault.done }
    }
}

fn bits(protection: Protection) -> space::Protection {
    space::Protection(protection.bits())
}

pub(crate) fn space_new() -> Result<SpaceHandle, NoMemory> {
    Ok(SpaceHandle::new()?)
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
    Ok(space.map(range.start(), numbers, bits(protection))?)
}

pub(crate) fn space_map_zeroed(
    space: &SpaceHandle,
    range: PageRange,
    protection: Protection,
) -> Result<usize, NoMemory> {
    Ok(space.map_zeroed(range.start(), range.pages(), bits(protection))?)
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
    let mode = match mode {
        CloneMode::CopyOnWrite => range::CloneMode::CopyOnWrite,
        CloneMode::Share => range::CloneMode::Share,
    };
    Ok(space.clone_to(to, range.start(), range.end(), mode)?)
}

pub(crate) fn space_move(space: &SpaceHandle, from: PageRange, to: u64) -> Result<usize, NoMemory> {
    Ok(space.move_to(from.start(), from.end(), to)?)
}

pub(crate) fn space_make_writable(
    space: &SpaceHandle,
    address: u64,
    protection: Protection,
) -> Result<Unshared, NoMemory> {
    Ok(match space.make_writable(address, bits(protection | Protection::WRITE))? {
        range::Unshared::Reused => Unshared::Reused,
        range::Unshared::Copied => Unshared::Copied,
        range::Unshared::Absent => Unshared::Absent,
    })
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
    Ok(unsafe { space.copy_in(address, out.as_mut_ptr(), out.len()) }?)
}

pub(crate) fn copy_out(space: &SpaceHandle, address: u64, data: &[u8]) -> Result<(), Fault> {
    // SAFETY: `data` is readable for its length.
    Ok(unsafe { space.copy_out(address, data.as_ptr(), data.len()) }?)
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
    Ok(unsafe { space.copy_out(address, from, length) }?)
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
    Ok(unsafe { space.copy_in(address, to, length) }?)
}

pub(crate) fn zero(space: &SpaceHandle, address: u64, length: usize) -> Result<(), Fault> {
    Ok(space.zero(address, length)?)
}

pub(crate) fn copy_in_string(
    space: &SpaceHandle,
    address: u64,
    out: &mut [u8],
) -> Result<usize, Fault> {
    Ok(space.copy_in_string(address, out)?)
}

pub(crate) fn atomic_load(space: &SpaceHandle, address: u64) -> Result<u32, Fault> {
    Ok(space.atomic_load(address)?)
}

pub(crate) fn compare_exchange(
    space: &SpaceHandle,
    address: u64,
    old: u32,
    new: u32,
) -> Result<u32, Fault> {
    Ok(space.compare_exchange(address, old, new)?)
}

pub(crate) fn run(context: &mut Context, space: &SpaceHandle) -> Trap {
    let registers = (&raw mut context.registers).cast::<NucleusRegisters>();
    // SAFETY: both are the same `repr(C)` list of words (asserted above), borrowed for the call.
    let registers = unsafe { &mut *registers };
    match user::run(registers, space) {
        user::Trap::Syscall => Trap::Syscall,
        user::Trap::PageFault { address, access, is_present } => {
            Trap::PageFault { address, access: access_of(access), is_present }
        }
        user::Trap::Exception { vector, error_code } => Trap::Exception { vector, error_code },
        user::Trap::Kicked => Trap::Kicked,
    }
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
