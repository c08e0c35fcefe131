//! The floor of open files: descriptions, and the files behind them that vfs has itself.
pub(crate) mod directory;
pub(crate) mod generated;
pub(crate) mod open_file;
mod received;
pub(crate) mod regular;
