//! The sender's side of loss recovery and congestion control of a TCP connection: round-trip times, the scoreboard of what is in
//! flight, losses and the congestion window. Pure code: time comes with each call.
#![no_std]
#![forbid(unsafe_code)]
