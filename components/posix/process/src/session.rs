//! Sessions, and what processes need of their controlling terminals. Process groups are numbers
//! kept by [`super::tree`].
use crate::{
    object::Process,
    signal::{self, Info},
};
use core::{any::Any, sync::atomic::Ordering};

/// The operations of a controlling terminal that processes need; implemented by the terminals above.
pub trait ControllingTerminal: Send + Sync {
    /// Major and minor number, for `/proc/PID/stat`.
    fn device(&self) -> (u32, u32);
    /// The foreground process group, 0 if there is none.
    fn foreground(&self) -> u32;
    /// The leader of its session ends: the session loses the terminal.
    fn leader_ended(&self, leader: &Process);
    /// For downcasts by the terminal code.
    fn as_any(&self) -> &dyn Any;
}

/// A session: named by its leader's process id.
pub struct Session {
    id: u32,
}

impl Session {
    /// A session.
    pub fn new(id: u32) -> Session {
        Session { id }
    }
    /// Its number.
    pub fn id(&self) -> u32 {
        self.id
    }
}

/// The leader of a session ends: its terminal is let go and the foreground group hung up.
pub fn leader_ended(leader: &Process) {
    if let Some(terminal) = leader.terminal() {
        return terminal.leader_ended(leader);
    }
    let lost = leader.lost_foreground.swap(0, Ordering::Relaxed);
    signal_group(lost, signal::SIGHUP);
    signal_group(lost, signal::SIGCONT);
}

/// The kernel signals every process of `group`; 0 is none.
pub fn signal_group(group: u32, number: u8) {
    if group != 0 {
        signal::send_to_group(group, Info::kernel(number));
    }
}
