//! Tests of streams.
mod batches;
mod cut;
mod direct;
mod direct_ends;
mod fuzz;
mod link;
mod loopback;
mod options;
mod restart;
mod smoltcp;
pub mod world;
