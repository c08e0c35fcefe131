//! The volume as a whole: mounted, offered as a file system, left.
pub(crate) mod background;
pub(crate) mod control;
pub(crate) mod file_system;
pub(crate) mod mount;
pub(crate) mod offer;
