//! The state machine of TCP connections (RFC 9293). Pure code: time comes with each call, and payload stays with the caller.
//!
//! A [`Connection`] takes segments and gives segments, as plain [`TcpSegment`]s without payload: the caller keeps the bytes, and the
//! connection names them by their offset in the stream. A [`Listener`] makes connections of SYNs; a [`TimeWait`] is left of them.
//! Loss recovery and congestion control are in the crate `recovery`.
//!
//! No lock is in here: the caller guards each connection and each listener by its own.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

pub mod clock;
mod connection;
mod listener;
mod receive;
mod wire;

pub use connection::{
    Connection,
    kept::{KeptClock, KeptConnection, KeptError},
    kept_words::{KEPT_WORDS, KeptCounters, KeptShape, KeptState, MOVING_WORDS},
    settings::{Ecn, Settings},
    time_wait::{TIME_WAIT_NS, TimeWait, TimeWaitReply},
    types::{
        Arrival, ConnectionInfo, FastOpen, IcmpError, Outgoing, Placement, Shutdown, TcpError,
        TcpEvents, TcpState,
    },
};
pub use listener::{
    Context, Cookies, HalfOpenView, Listener, ListenerReply, ListenerSettings, timeouts_for,
};
pub use receive::acknowledge::QuickAck;
pub use wire::{
    secret::{Flow, OwnNumbers, Secret},
    segment::{FastOpenCookie, SackBlocks, SegmentOptions, TcpFlags, TcpSegment, Timestamps},
};
