//! Clocks, timers and sleeping.
//!
//! [`clock::Clock`] is a clock of Linux by its number; [`queue`] is the one timer thread with its
//! heap of deadlines; [`timers`] are the interval and POSIX timers of processes, which put their
//! next expiry into that heap. Timers of processor-time clocks are looked at when they could at
//! the earliest have expired and put back if they have not.
//!
//! [`wall`] sets the wall clock and tells who waits for a moment of it.
//!
//! Lock order: `process.timers` or `timerfd.state`, then `time.queue`; signals are sent with none
//! held.
pub mod clock;
pub(crate) mod data;
pub mod queue;
pub mod timers;
pub mod wall;

pub use data::{ProcessTimers, SECOND_NS};
pub use timers::process_ended;
