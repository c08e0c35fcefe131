//! The state machine of a TCP connection (RFC 9293). Pure code: time comes with each call, and payload stays with the caller.
#![no_std]
#![forbid(unsafe_code)]
