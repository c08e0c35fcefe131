//! x86-64: boot, traps, paging, per-CPU data, interrupt controllers.
pub mod percpu;
