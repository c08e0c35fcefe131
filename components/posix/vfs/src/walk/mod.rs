//! The floor of rights and paths: what a process sees, what it may do, and the way from a text to a place.
pub(crate) mod caller;
pub mod devices;
pub mod namespace;
pub(crate) mod path_text;
pub mod permission;
pub mod protection;
pub(crate) mod walker;
