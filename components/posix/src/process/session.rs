//! Sessions and their controlling terminals. Process groups are numbers kept by [`super::tree`].
use alloc::sync::Arc;
use core::any::Any;
use rt::{lock_class, sync::Mutex};

lock_class! {
    static TERMINAL = "session.terminal";
}

/// What a session needs of its controlling terminal; implemented by [`crate::files`]'s terminals.
pub trait ControllingTerminal: Send + Sync {
    /// Major and minor number, for `/proc/PID/stat`.
    fn device(&self) -> (u32, u32);
    /// The foreground process group, 0 if there is none.
    fn foreground(&self) -> u32;
    /// The session leader ended: forget session and foreground group.
    fn released(&self);
    /// For downcasts by the terminal code.
    fn as_any(&self) -> &dyn Any;
}

/// A session: named by its leader's process id.
pub struct Session {
    id: u32,
    terminal: Mutex<Option<Arc<dyn ControllingTerminal>>>,
}

impl Session {
    /// A session without a terminal.
    pub fn new(id: u32) -> Session {
        Session { id, terminal: Mutex::new(&TERMINAL, None) }
    }
    /// Its number.
    pub fn id(&self) -> u32 {
        self.id
    }
    /// Its controlling terminal.
    pub fn terminal(&self) -> Option<Arc<dyn ControllingTerminal>> {
        self.terminal.lock().clone()
    }
    /// Sets or takes away the controlling terminal.
    pub fn set_terminal(&self, terminal: Option<Arc<dyn ControllingTerminal>>) {
        *self.terminal.lock() = terminal;
    }
}
