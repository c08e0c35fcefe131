//! Sockets of datagrams: their state, and the tables by which packets find them.
pub mod bindings;
pub mod bound;
#[cfg(test)]
mod bound_tests;
pub mod datagram_end;
pub mod errors;
pub mod listeners;
