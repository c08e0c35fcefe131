//! The messages by which a process learns of the components that it may call, and reports those that err.
//!
//! ```text
//! supervisor                                                     process
//! introduce(name, presence, right to call)  ------------------>  ... of each component that it uses
//! introduce("", ..., right to complain)     ------------------>
//! introduce("machine", ..., right)          ------------------>  ... if it administers the machine ([`rt::machine`])
//! introduce("supervisor", ..., right)       ------------------>  ... and these components, and itself ([`SupervisorControl`])
//! lend(name, right to lend)                 ------------------>  ... of each component with devices that reach memory
//! complete()                                ------------------>  it starts
//! lend(name, right to lend)                 ------------------>
//! changed(name, presence)                   ------------------>  its clients attach to the successor
//!                                           <------------------  complain(name, cause): the component is ended
//! ```
//!
//! The process answers at its own endpoint, as instance 0. A component that the machine does not need (a driver without devices)
//! is not introduced. A restarted process is introduced to all components again.
#[cfg(doc)]
use crate::supervisor::SupervisorControl;
use crate::wire::{Name, Text, Wire};
use interfaces_macro::interface;
use rt::{device::DmaWindow, message::Endpoint};

/// The name by which the machine is introduced.
pub const MACHINE: &str = "machine";

/// The name by which the supervisor is introduced to a process that shows and controls components.
pub const SUPERVISOR: &str = "supervisor";

/// The reason for a complaint.
pub type Cause = Text<120>;

/// The presence of a component, as its clients need to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub enum Presence {
    /// It answers, or a successor will: calls wait for it. The number of its start.
    Started(u64),
    /// It is not restarted by itself any more.
    GivenUp,
}

/// A process that calls other components.
#[interface(number = 9)]
pub trait Introduction: Send + Sync {
    /// A component is called at `endpoint`. An empty name stands for the supervisor, which takes [`Complaints`] there.
    #[idempotent]
    fn introduce(&self, name: Name, presence: Presence, endpoint: Endpoint) -> Option<()>;
    /// Frames are lent by `window` to the devices of a component that was introduced, from its next start on.
    #[idempotent]
    fn lend(&self, name: Name, window: DmaWindow) -> Option<()>;
    /// All components that the machine has were introduced.
    #[idempotent]
    fn complete(&self) -> Option<()>;
    /// The presence of a component has changed.
    #[idempotent]
    fn changed(&self, name: Name, presence: Presence) -> Option<()>;
}

/// The supervisor, as a process sees it.
#[interface(number = 10)]
pub trait Complaints: Send + Sync {
    /// A component errs. It is ended as a failure if the process was introduced to it.
    fn complain(&self, name: Name, cause: Cause) -> Option<()>;
}
