//! The discovery of the path's MTU, by the name that streams use.
pub use interfaces::sockets::PathDiscovery as Discovery;
