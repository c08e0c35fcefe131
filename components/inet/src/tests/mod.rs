//! Tests of the stack: hosts on a link, in virtual time.
mod fragments;
mod fuzz;
mod groups;
mod link;
mod ping;
mod smoltcp;
mod udp;
mod version6;
