//! [`Dispositions`]: the action of a process for each signal.
use super::number::{DUMPING, IGNORED_BY_DEFAULT, LAST, SIGCONT, STOPPING, SignalSet, bit};
use alloc::sync::Arc;
use rt::{lock_class, sync::Mutex};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `SIG_DFL`.
pub const DEFAULT: u64 = 0;
/// `SIG_IGN`.
pub const IGNORE: u64 = 1;

/// Flags of an action, by their Linux names.
pub mod flags {
    #![allow(missing_docs, reason = "the names are Linux's")]
    pub const NOCLDSTOP: u64 = 1;
    pub const NOCLDWAIT: u64 = 2;
    pub const SIGINFO: u64 = 4;
    pub const RESTORER: u64 = 0x0400_0000;
    pub const ONSTACK: u64 = 0x0800_0000;
    pub const RESTART: u64 = 0x1000_0000;
    pub const NODEFER: u64 = 0x4000_0000;
    pub const RESETHAND: u64 = 0x8000_0000;
    pub const EXPOSE_TAGBITS: u64 = 0x800;
    /// The flags of an action that are kept; programs find out by them which flags exist.
    pub const KNOWN: u64 = NOCLDSTOP
        | NOCLDWAIT
        | SIGINFO
        | EXPOSE_TAGBITS
        | RESTORER
        | ONSTACK
        | RESTART
        | NODEFER
        | RESETHAND;
}

/// The kernel's `struct sigaction`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Action {
    /// Address of the handler, [`DEFAULT`] or [`IGNORE`].
    pub handler: u64,
    /// [`flags`].
    pub flags: u64,
    /// The address that the handler returns to.
    pub restorer: u64,
    /// Signals that are blocked while the handler runs.
    pub mask: SignalSet,
}

/// The effect of a signal without a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each name says it")]
pub enum DefaultEffect {
    Ignore,
    Terminate,
    Dump,
    Stop,
    Continue,
}

/// Returns the default effect of `signal`.
pub fn default_effect(signal: u8) -> DefaultEffect {
    let set = bit(signal);
    if signal == SIGCONT {
        DefaultEffect::Continue
    } else if set & IGNORED_BY_DEFAULT != 0 {
        DefaultEffect::Ignore
    } else if set & STOPPING != 0 {
        DefaultEffect::Stop
    } else if set & DUMPING != 0 {
        DefaultEffect::Dump
    } else {
        DefaultEffect::Terminate
    }
}

/// The table of actions.
#[derive(Clone, Debug)]
pub struct Dispositions([Action; LAST as usize]);

impl Default for Dispositions {
    fn default() -> Self {
        Dispositions([Action::default(); LAST as usize])
    }
}

lock_class! {
    static DISPOSITIONS = "process.dispositions";
}

impl Dispositions {
    /// Makes the table in the form in which processes share it.
    pub fn shared(table: Dispositions) -> Arc<Mutex<Dispositions>> {
        Arc::new(Mutex::new(&DISPOSITIONS, table))
    }
    /// Returns the action for `signal`; the default one for numbers that are not a signal.
    pub fn get(&self, signal: u8) -> Action {
        self.0.get(usize::from(signal).wrapping_sub(1)).copied().unwrap_or_default()
    }
    /// Returns every signal with the address of its handler.
    pub fn handlers(&self) -> impl Iterator<Item = (u8, u64)> {
        (1..).zip(self.0.iter().map(|action| action.handler))
    }
    /// Sets the action for `signal`.
    pub fn set(&mut self, signal: u8, action: Action) {
        if let Some(slot) = self.0.get_mut(usize::from(signal).wrapping_sub(1)) {
            *slot = action;
        }
    }
    /// Resets the handler of `signal` to the default; flags and mask stay.
    pub fn set_default(&mut self, signal: u8) {
        self.set(signal, Action { handler: DEFAULT, ..self.get(signal) });
    }
    /// Returns whether sending `signal` would have no effect.
    pub fn is_ignored(&self, signal: u8) -> bool {
        match self.get(signal).handler {
            IGNORE => true,
            DEFAULT => matches!(default_effect(signal), DefaultEffect::Ignore),
            _ => false,
        }
    }
    /// Sets the actions after execve: handlers become the default, ignored stays ignored.
    pub fn reset_for_exec(&mut self) {
        for action in &mut self.0 {
            *action = Action {
                handler: if action.handler == IGNORE { IGNORE } else { DEFAULT },
                ..Action::default()
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{SIGCHLD, SIGKILL, SIGTERM, SIGTSTP},
        *,
    };

    #[test]
    fn exec_keeps_what_is_ignored() {
        let mut table = Dispositions::default();
        table.set(SIGTERM, Action { handler: IGNORE, ..Action::default() });
        table.set(SIGCHLD, Action { handler: 0x1000, ..Action::default() });
        table.reset_for_exec();
        assert_eq!(table.get(SIGTERM).handler, IGNORE);
        assert_eq!(table.get(SIGCHLD).handler, DEFAULT);
    }

    #[test]
    fn defaults_are_those_of_signal_7() {
        assert_eq!(default_effect(SIGKILL), DefaultEffect::Terminate);
        assert_eq!(default_effect(SIGTSTP), DefaultEffect::Stop);
        assert_eq!(default_effect(SIGCONT), DefaultEffect::Continue);
        assert!(Dispositions::default().is_ignored(SIGCHLD));
    }
}
