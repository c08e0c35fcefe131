//! User mode of the kernel world.
use crate::{
    NoMemory,
    memory::{self, Frame, FrameId},
    user::{Context, Protection, Trap},
};
pub(crate) use nucleus::{
    arch::fpu::{bytes as extended_bytes, mask as extended_mask},
    memory::space::Space as SpaceHandle,
};
use nucleus::{
    arch::{fpu, user},
    thread,
};
use program::Page;

pub(crate) fn space_map(
    space: &SpaceHandle,
    start: u64,
    frames: &[Frame],
    protection: Protection,
) -> Result<usize, NoMemory> {
    space.map(start, memory::numbers(frames), protection)
}

pub(crate) use nucleus::thread::report_moves;

#[inline(always)]
pub(crate) fn run(context: &mut Context, space: &SpaceHandle) -> Trap {
    user::run(&mut context.registers, space)
}

/// State of the calling thread's program that stays in the processor.
pub(crate) fn extended() -> &'static fpu::State {
    &thread::current().extended
}

/// Looks at the page at `address`. Returns it and the number of references to its frame.
pub(crate) fn space_query(space: &SpaceHandle, address: u64) -> Option<(Page, u32)> {
    let page = space.query(address)?;
    let frame = Frame::from_counted(FrameId(page.frame));
    // One is this reference.
    Some((page, frame.references() - 1))
}
