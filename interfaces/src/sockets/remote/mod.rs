//! A network stack in another world: its client, which keeps the bytes and the cards' buffers, and its server.
//!
//! ```text
//! client (NetworkProxy)                                   server (NetworkService)
//!   requests: sockets, administration, taps   -- mail -->   the stack
//!   records: written bytes, packets           -- ring -->
//!                                             <- ring --    records: delivered bytes, acknowledgements, packets, notices
//!   pools of frames, to be read               -- once -->
//! ```
#[cfg(any(not(target_os = "none"), skerry_process))]
mod acceptor;
pub mod administration;
mod calls;
#[cfg(any(not(target_os = "none"), skerry_process))]
mod card;
mod cells;
mod channel;
mod client;
#[cfg(test)]
mod codec_tests;
mod control;
mod heads;
mod kinds;
pub mod mail;
mod packets;
#[cfg(any(not(target_os = "none"), skerry_process))]
mod released;
#[cfg(test)]
mod samples;
#[cfg(any(not(target_os = "none"), skerry_process))]
mod sender;
#[cfg(any(not(target_os = "none"), skerry_process))]
mod server;
pub mod taps;
#[cfg(test)]
mod tests;

pub use channel::{ControlChannel, ControlHandler, DirectChannel, Post, Subjects, ask, subject};
pub use client::{NetworkProxy, StackServer};
pub use control::StackMessages;
#[cfg(any(not(target_os = "none"), skerry_process))]
pub use control::StackService;
pub use control::{STACK_CONTROL_LAYOUT, StackControl, StackControlClient, StackControlServer};
pub use mail::MAIL_CONTROL_LAYOUT;
#[cfg(any(not(target_os = "none"), skerry_process))]
pub use server::NetworkService;
