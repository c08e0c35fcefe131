//! The floor of suites: their list, the rows of `boot`, and the experiments.
pub mod boot;
pub mod covert;
pub mod ipc;
pub mod isolation;
pub mod minix;
pub mod mls;
pub mod suite;
