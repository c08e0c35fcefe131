//! Generated file systems: `/proc` ([`procfs`]), `/sys` ([`sysfs`]), `/sys/fs/selinux` ([`selinuxfs`]).
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

mod listing;
pub mod procfs;
pub mod selinuxfs;
pub mod sysfs;
