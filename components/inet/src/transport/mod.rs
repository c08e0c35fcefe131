//! Transports: UDP, and the errors that reach its sockets.
pub mod errors_in;
pub mod udp_control;
pub mod udp_input;
pub mod udp_output;
