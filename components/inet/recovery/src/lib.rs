//! The sender's view of one TCP connection: round-trip times, the scoreboard of what is in flight, losses and the congestion
//! window.
//!
//! Pure code. Time comes with each call, in nanoseconds of any monotonic clock. Positions are *stream offsets*: `u64` counts of
//! sequence space from the initial sequence number. The SYN has offset 0, the first byte of data offset 1, and the FIN the offset
//! after the last byte. [`offset`] makes an offset of a sequence number at the edge.
//!
//! A connection calls [`Sender::transmit`] until it answers [`Transmit::Wait`], [`Sender::sent`] for each segment it has sent,
//! [`Sender::acknowledged`] for each acknowledgement, and [`Sender::expired`] when [`Sender::deadline_ns`] has come.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

mod api;
mod congestion;
mod rack;
mod rate;
mod rtt;
mod scoreboard;
mod sender;
#[cfg(test)]
mod tests;

pub use api::{
    Ack, CongestionState, Expiry, IdleRestart, Options, Progress, RTO_INITIAL_NS, RTO_MAX_NS,
    RTO_MIN_NS, Setup, Statistics, TIMESTAMP_TICK_NS, Transmit, Verdict, offset,
};
pub use congestion::Algorithm;
pub use sender::Sender;
