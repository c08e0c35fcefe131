//! Clocks, timers and sleeping.
//!
//! [`clock::Clock`] is a clock of Linux by its number; [`queue`] is the one timer thread with its
//! heap of deadlines; [`timers`] are the interval and POSIX timers of processes, which put their
//! next expiration into that heap. Timers of processor-time clocks are checked at the earliest time
//! at which they can have expired, and put back if they have not.
//!
//! [`wall`] sets the wall clock and tells threads that wait for a time of it.
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
