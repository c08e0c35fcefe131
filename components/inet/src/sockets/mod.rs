//! Sockets of UDP: their table, their options and queues.
pub mod bindings;
pub mod errors;
pub mod udp_socket;
