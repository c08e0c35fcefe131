//! The shared part of ext4's tests: a block device in memory, images made by e2fsprogs, a tree walk.
pub mod abuse;
pub mod cut;
pub mod device;
pub mod image;
pub mod labels;
pub mod mutate;
pub mod oracle;
pub mod walk;
pub mod write;
