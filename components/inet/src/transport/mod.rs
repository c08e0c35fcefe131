//! Transports: UDP, echo requests and raw packets, and the errors that reach their sockets.
pub mod datagram_control;
pub mod datagram_groups;
pub mod datagram_input;
pub mod datagram_kept;
pub mod datagram_names;
pub mod datagram_output;
pub mod errors_in;
mod filter;
pub mod ping;
pub mod raw;
mod udp_direct;
pub mod udp_input;
mod udp_lite;
pub mod udp_output;
