//! The floor of rights and paths: the view and the rights of a process, and the walk from a path to a place.
pub(crate) mod caller;
pub mod devices;
pub(crate) mod multilevel;
pub mod namespace;
pub(crate) mod path_text;
pub mod permission;
pub mod protection;
pub mod uses;
pub(crate) mod walker;
