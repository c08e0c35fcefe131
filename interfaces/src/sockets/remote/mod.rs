//! Sockets, taps and administration of a network stack in another world: what both sides need to put calls into messages.
pub mod administration;
mod channel;
#[cfg(test)]
mod codec_tests;
mod heads;
pub mod mail;
#[cfg(test)]
mod samples;
pub mod taps;

pub use channel::{ControlChannel, ControlHandler, DirectChannel, Post, Subjects, ask, subject};
pub use mail::MAIL_CONTROL_LAYOUT;
