//! Sessions, and the interface to their controlling terminals. Process groups are numbers kept by
//! [`super::tree`].
use crate::object::Process;
use alloc::string::String;
use core::any::Any;

/// The operations of a controlling terminal that processes need; implemented by the terminals above.
pub trait ControllingTerminal: Send + Sync {
    /// Returns major and minor number, for `/proc/PID/stat`.
    fn device(&self) -> (u32, u32);
    /// Returns its name in `/dev`.
    fn name(&self) -> String;
    /// Returns the foreground process group, 0 if there is none.
    fn foreground(&self) -> u32;
    /// Called when the leader of its session ends: the session loses the terminal.
    fn leader_ended(&self, leader: &Process);
    /// Returns the object for downcasts by the terminal code.
    fn as_any(&self) -> &dyn Any;
}

/// A session: named by its leader's process id.
pub struct Session {
    id: u32,
}

impl Session {
    /// Makes a session.
    pub fn new(id: u32) -> Session {
        Session { id }
    }
    /// Returns its number.
    pub fn id(&self) -> u32 {
        self.id
    }
}
