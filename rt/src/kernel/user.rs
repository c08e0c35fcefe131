//! User mode of the kernel world.
use crate::{
    NoMemory,
    memory::Frame,
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

pub(crate) fn space_map(
    space: &SpaceHandle,
    start: u64,
    frames: &[Frame],
    protection: Protection,
) -> Result<usize, NoMemory> {
    let first = frames.as_ptr().cast::<u32>();
    // SAFETY: `Frame` is a transparent `FrameId`, which is a transparent `u32`.
    let numbers = unsafe { core::slice::from_raw_parts(first, frames.len()) };
    space.map(start, numbers, protection)
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
