//! Tests of the stack: hosts on a link, in virtual time.
mod link;
mod ping;
mod udp;
