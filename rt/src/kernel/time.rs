//! Time of the kernel world.
pub(crate) use nucleus::time::{now_ns, set_wall_ns, wall_ns};

pub(crate) fn scale() -> Option<(u64, u64, u64)> {
    Some(nucleus::time::scale())
}
