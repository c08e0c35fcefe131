//! What is said to the driver of a port by message: what it is, where the rings are, that there is room.
use crate::{block::AttachError, wire::Name, wire::Wire};
use interfaces_macro::interface;
use rt::memory::Region;

/// What a port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct PortDescription {
    /// Its name; a long one is cut.
    pub name: Name,
    /// See [`super::Port::is_console`].
    pub is_console: bool,
}

/// A port whose bytes go through rings.
#[interface(number = 3)]
pub trait PortControl: Send + Sync {
    /// What it is.
    #[idempotent]
    fn describe(&self) -> Option<PortDescription>;
    /// Sends what comes through the rings in `rings`, which are new, from now on, and puts input there; no
    /// others are used any more when it answers.
    #[idempotent]
    fn attach(&self, rings: Region) -> Result<(), AttachError>;
    /// The ring of input has room again.
    #[idempotent]
    fn resume(&self) -> Option<()>;
}
