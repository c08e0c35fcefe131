//! Tests of streams.
mod fuzz;
mod link;
mod loopback;
mod options;
mod restart;
mod smoltcp;
pub mod world;
