//! The volume as a whole: mounted, offered as a file system, made durable, left.
pub(crate) mod background;
pub(crate) mod control;
pub(crate) mod ext4;
pub(crate) mod file_system;
pub(crate) mod mount;
pub(crate) mod offer;
pub(crate) mod writable;
