//! The messages to the driver of a port: they ask for its description, hand over the rings and announce room in them.
use crate::{
    AttachError,
    wire::{Name, Wire},
};
use interfaces_macro::interface;
use rt::memory::Region;

/// The description of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct PortDescription {
    /// Name of the port; a long one is cut.
    pub name: Name,
    /// See [`super::Port::is_console`].
    pub is_console: bool,
}

/// The greatest position at which a client begins.
pub(super) const POSITION_MAX: u64 = 1 << 47;

/// The positions of a port's two streams, in bytes since its first client began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
pub struct Position {
    /// Bytes of input that the client has.
    pub received: u64,
    /// Bytes of output that the device has.
    pub sent: u64,
}

/// A port whose bytes go through rings.
#[interface(number = 3)]
pub trait PortControl: Send + Sync {
    /// The description of its port.
    #[idempotent]
    fn describe(&self) -> Option<PortDescription>;
    /// Uses no rings any more when it answers.
    #[idempotent]
    fn detach(&self) -> Option<()>;
    /// Sends what comes through the rings in `rings`, which are new, from now on, and puts input there. The client
    /// stands at `position`: input begins behind it. The answer is the position of output: what the device has. Where
    /// the driver dies over it the client's position may be another, so that it looks before it asks again.
    fn attach(&self, rings: Region, position: Position) -> Result<u64, AttachError>;
    /// Whether output that came through the rings is being given to the device, or waits until that takes some. The driver looks
    /// again whether something lies in the ring.
    #[idempotent]
    fn is_sending(&self) -> Option<bool>;
    /// The ring of input has room again.
    #[idempotent]
    fn resume(&self) -> Option<()>;
    /// The position of a client that begins behind an earlier one: the input that nobody took comes to it first. The driver
    /// uses no rings.
    #[idempotent]
    fn position(&self) -> Option<Position>;
}
