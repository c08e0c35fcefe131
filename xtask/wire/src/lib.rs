//! A wire between two network cards, for tests: it loses, doubles, corrupts, reorders and delays frames as a seed determines,
//! and captures them. At its ends are machines of QEMU and peers, whose network stack is smoltcp.
//!
//! | modules | about |
//! | --- | --- |
//! | [`pattern`] | streams whose every byte is known, and their checksum |
//! | [`faults`], [`lane`], [`capture`] | the harm that is done, a direction of the wire, the file of all frames |
//! | [`end`], [`port`], [`peer`] | who sits at an end: a machine of QEMU, a peer |
//! | [`line`], [`wire`] | two ends and two lanes by a clock of the test's, and by the machine's |
#![forbid(unsafe_code)]
pub mod capture;
pub mod end;
pub mod faults;
pub mod lane;
pub mod line;
pub mod pattern;
pub mod peer;
pub mod port;
pub mod wire;

pub use faults::Faults;
pub use lane::Counters;
pub use line::{Line, Settings};
pub use pattern::Stream;
pub use peer::{Addresses, Peer};
pub use port::Port;
pub use wire::Wire;
