//! Calls that consume or make something, refused memory at each of their allocations: a refused call has done nothing, and
//! after the call that is granted all memory everything is there once.
//!
//! [`world::World::refused_everywhere`] makes a call with no allocation granted, with one, with two, until it succeeds. Copies
//! to addresses that are not the program's are tested with programs (`tests/abi/tests/faulting_copies.rs`).
mod descriptors;
mod files;
mod messages;
mod processes;
mod settings;
mod signals;
mod world;
