//! The floor of data: the page cache of a file, memory for it, and the writing of dirty pages.
pub(crate) mod cache;
pub(crate) mod flush;
pub(crate) mod memory;
pub(crate) mod stores;
pub(crate) mod tally;
pub(crate) mod throttle;
