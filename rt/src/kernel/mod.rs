//! The kernel world: rt as direct calls into the nucleus.
//!
//! Each family of operations has one file. Plain data passes unchanged, and none of the nucleus's
//! own types (guards, locks) are exposed. The signatures are the same in every world.
pub(crate) mod device;
pub(crate) mod domain;
pub(crate) mod memory;
pub(crate) mod message;
pub(crate) mod system;
pub(crate) mod thread;
pub(crate) mod time;
pub(crate) mod user;

use crate::power::Action;
use nucleus::arch::power;
pub(crate) use nucleus::{
    entropy::{add as entropy_add, fill as entropy_fill},
    trace::{last as trace_last, point as trace_point},
};

pub(crate) fn power_down(action: Action) -> ! {
    match action {
        Action::Off => power::off(),
        Action::Restart => power::restart(),
        Action::Halt => power::halt(),
    }
}
