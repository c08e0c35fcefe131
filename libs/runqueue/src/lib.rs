//! Ordering for the scheduler: a run queue of an intrusive pairing heap and priority lists, and virtual time.
//!
//! Nothing here allocates: nodes are embedded in the queued items and reached through a [`Store`]. The heap
//! ([`Heap`]) serves the fair class (key: virtual time) and timers (key: deadline); [`Fifo`] lists serve the
//! real-time priorities; [`Ready`] has all threads that wait for a processor; [`RunQueue`] is the processor's whole
//! scheduler, which decides by the [`Entity`] of each thread. The caller locks, switches and interrupts. [`Share`] bounds the
//! time of many threads together. Source: Fredman et al., "The pairing heap" (1986); Stoica's EEVDF and Linux
//! CFS for virtual time.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod choose;
mod entity;
mod fifo;
mod heap;
mod queue;
mod ready;
mod share;
mod weight;

pub use choose::{all_of, allows, choose};
pub use entity::{Entity, Load, Mode, Ticks, Told};
pub use fifo::{Fifo, Priorities};
pub use heap::{Heap, Node, Store};
pub use queue::{Entities, QueueState, Reason, RunQueue, TICK_NS, Tick};
pub use ready::{
    Class, GRANULARITY_NS, PREEMPTIONS_MAX, PROTECTED_NS, Place, Ready, SLEEPER_CREDIT_NS,
    preempted_at, rebased_ns,
};
pub use share::{PERIOD_NS, Share, period};
pub use weight::{virtual_ns, weight};
