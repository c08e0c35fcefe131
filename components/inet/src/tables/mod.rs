//! The tables of a stack. Each knows time only as an argument, and none knows how packets are sent.
pub mod autoconfiguration;
pub mod configuration;
pub mod echo;
pub mod error_limit;
pub mod interface;
pub mod labels;
pub mod memberships;
pub mod neighbours;
pub mod path_mtu;
pub mod reassembly;
pub mod routes;
pub mod rules;
pub mod sources;
pub mod timed;
