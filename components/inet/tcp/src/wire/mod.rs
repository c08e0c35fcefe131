//! The wire: segments, sequence numbers and the numbers that an attacker must not guess.
pub mod secret;
pub mod segment;
pub mod sequence;
