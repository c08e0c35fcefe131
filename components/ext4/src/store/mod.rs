//! The lowest floor: blocks of a device, cached, logged, on their way. Nothing of files.
pub(crate) mod along;
pub(crate) mod batch;
pub(crate) mod bytes;
pub(crate) mod cache;
pub(crate) mod checksum;
pub(crate) mod device;
pub(crate) mod health;
pub(crate) mod journal;
pub(crate) mod log;
pub(crate) mod transfer;
