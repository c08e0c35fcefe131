//! The service: [`inet::Inet`], the network stack that programs use through the traits of `interfaces::sockets`.
//!
//! It adds to the stack what that lacks on purpose: a clock, threads' parts ([`passage`]), the cards ([`links`]), and sockets of
//! streams ([`streams`], TCP) and of datagrams ([`datagrams`]). Users administrate it through `administration`.
mod administration;
pub mod datagrams;
pub mod inet;
pub mod kept;
pub mod links;
mod network;
mod outside;
mod passage;
pub mod streams;
mod taps;
mod tunnel_table;
mod tunnels;
