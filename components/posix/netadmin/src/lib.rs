//! The administration of the network in Linux's formats: messages of netlink(7), the ioctls of netdevice(7), and the texts of
//! `/proc/net`, all made of a [`NetworkAdministration`].
//!
//! Everything here is a function of bytes and of the administration: no locks, no threads, no memory of programs. Bytes of programs
//! are read through [`wire::Attributes`] and [`wire::Fields`], which check each length.
//!
//! [`NetworkAdministration`]: interfaces::sockets::NetworkAdministration
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

pub mod audit;
mod base;
pub mod diag;
mod generic;
pub mod ioctl;
pub mod policy;
mod request;
pub mod route;
pub mod session;
pub mod tables;
#[cfg(test)]
mod tests;
mod wire;

pub use base::{NetErrno, colons, link_named, link_numbered};
