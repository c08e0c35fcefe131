//! Ordering for the scheduler: a run queue of an intrusive pairing heap and priority lists, and virtual time.
//!
//! Nothing here allocates: nodes are embedded in the queued items and reached through a [`Store`]. The heap
//! ([`Heap`]) serves the fair class (key: virtual time) and timers (key: deadline); [`Fifo`] lists serve the
//! real-time priorities; [`Ready`] is a processor's whole run queue. The caller locks. [`Share`] bounds the
//! time of many threads together. Source: Fredman et al., "The pairing heap" (1986); Stoica's EEVDF and Linux
//! CFS for virtual time.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

mod choose;
mod fifo;
mod heap;
mod ready;
mod share;
mod weight;

pub use choose::choose;
pub use fifo::{Fifo, Priorities};
pub use heap::{Heap, Node, Store};
pub use ready::{
    Class, GRANULARITY_NS, PREEMPTIONS_MAX, PROTECTED_NS, Place, Ready, SLEEPER_CREDIT_NS,
    preempted_at, rebased_ns,
};
pub use share::{PERIOD_NS, Share, period};
pub use weight::{virtual_ns, weight};
