//! Synchronous messages and notifications: the state machine of an endpoint (L1, L2).
//!
//! An [`Endpoint`] is the meeting place of threads. A client *calls*: it blocks until a server has received
//! its message and replied. A *send* blocks until the message was received. A server *receives* the next
//! message or, before any message, the bits that were *signalled* meanwhile. The receiver of a call may reply
//! to it once.
//!
//! ```text
//!              receive                  reply
//! Queued ------------------> Served ------------> Idle, Ok
//!    |  `--- deadline, kick ---' |
//!    `-- close, server's end ----+--------------> Idle, Err(TimedOut | Cancelled | Gone | Restarted)
//! Receiving -- call, send, signal --------------> Idle, Ok
//! ```
//! Everything here happens under the one lock that its user puts around an endpoint, and nothing blocks: each
//! step returns what its caller must do next ([`Next`]). A thread's own part is a [`Party`], guarded by the
//! lock of the endpoint where it takes part now, and a [`Serving`], guarded by the lock of the endpoint whose
//! call it has received. A partner that completes the wait of a blocked thread *claims* it first
//! ([`Threads::claim`]); of partner, deadline and kick only one succeeds. A thread that a deadline or a kick
//! claimed undoes its part with [`Endpoint::cancel`]. `RUSTFLAGS="--cfg loom" cargo test -p ipc --release`
//! explores it exhaustively.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod derivation;
mod endpoint;
mod message;
mod table;

pub use derivation::Derivation;
pub use endpoint::{Endpoint, Links, Next, Party, Phase, Serving, Threads};
pub use message::{Error, Header, INLINE_WORDS, MESSAGE_WORDS, Message};
pub use table::Table;
