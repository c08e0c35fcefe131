//! Transactions of a volume in use ([`mount::Mount`]): operations begun, and committed as a whole.
//!
//! The log below knows what a transaction changed. A commit also needs the layout: bitmaps and leaves of directories are summed,
//! and descriptors and counts written, when the transaction ends.
pub(crate) mod commit;
pub(crate) mod in_place;
pub(crate) mod mount;
pub(crate) mod operate;
pub(crate) mod requests;
pub(crate) mod withdraw;
