//! Tests of streams.
mod fuzz;
mod link;
mod loopback;
mod smoltcp;
pub mod world;
