//! Files: made, named, read, written, cut and freed. Most functions run an operation, or several.
pub(crate) mod create;
pub(crate) mod direct;
pub(crate) mod file_range;
pub(crate) mod file_size;
pub(crate) mod inline_edit;
pub(crate) mod named;
pub(crate) mod orphans;
pub(crate) mod read;
pub(crate) mod recovery;
pub(crate) mod remove;
pub(crate) mod rename;
pub(crate) mod symlink;
pub(crate) mod write;
