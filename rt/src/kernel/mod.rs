//! The kernel world: rt as direct calls into the nucleus.
//!
//! One file a family; what is plain data stays so, and nothing of the nucleus's own (guards, locks)
//! comes out. The signatures are those of every world.
pub(crate) mod device;
pub(crate) mod domain;
pub(crate) mod memory;
pub(crate) mod message;
pub(crate) mod system;
pub(crate) mod thread;
pub(crate) mod time;
pub(crate) mod user;

use crate::power::Action;

pub(crate) fn entropy_fill(out: &mut [u8]) {
    nucleus::entropy::fill(out);
}

pub(crate) fn power_down(action: Action) -> ! {
    match action {
        Action::Off => nucleus::arch::power::off(),
        Action::Restart => nucleus::arch::power::restart(),
        Action::Halt => nucleus::arch::power::halt(),
    }
}

pub(crate) fn trace_point(name: &'static str, first: u64, second: u64) {
    nucleus::trace::point(name, first, second);
}
