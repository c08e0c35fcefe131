//! Tests of the stack: hosts on a link, in virtual time.
mod announce;
mod datagram_restart;
mod datagrams;
mod fragments;
mod fuzz;
mod groups;
mod link;
mod loopback;
mod ping;
mod raw;
mod service;
mod smoltcp;
mod sockets;
pub(crate) mod streams;
mod tunnels;
mod udp;
mod udp_direct;
mod version6;
