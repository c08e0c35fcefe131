//! User mode of the kernel world.
use crate::{
    NoMemory,
    memory::{self, Frame},
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
