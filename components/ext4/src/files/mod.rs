//! Files: made, named, read, written, cut and freed.
pub(crate) mod file_range;
pub(crate) mod file_size;
pub(crate) mod names;
pub(crate) mod orphans;
pub(crate) mod read;
pub(crate) mod symlink;
pub(crate) mod write;
