//! Packet scripts.
pub mod parse;
pub mod run;
