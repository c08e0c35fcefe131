//! Signals: pending signals, masks, actions, and delivery to tasks.
//!
//! [`queue::SignalQueue`] holds pending signals; [`action::Dispositions`] the action for each; [`send`] makes one pending and wakes a
//! thread for it; [`deliver`] is the slow path back to user mode, which handles signals; [`frame`] builds and removes the stack
//! frame of a handler, [`extended`] the part of it for extended state; [`stop`] is job control. `process.signals` guards the
//! shared queue, the list of tasks and the stop and exit state, `task.signals` the task's queue and mask. Source: signal(7),
//! POSIX.1-2017 2.4, Linux `kernel/signal.c` for order and restart rules.
pub mod action;
pub mod deliver;
pub mod extended;
pub mod frame;
pub mod info;
pub mod mask;
pub(crate) mod number;
pub mod queue;
pub mod send;
pub mod state;
pub mod stop;

pub use action::Dispositions;
pub use deliver::{pending, take_wanted};
pub use info::{Info, Shape};
pub use mask::{is_ignored_or_blocked, set_temporary_mask};
pub use number::*;
pub use send::{
    force, send_own, send_to_group, send_to_own_process, send_to_process, send_to_process_of,
    send_to_task,
};
pub use state::{ProcessSignals, TaskSignals};
