//! [`EchoSettings`]: whether echo requests of IPv4 are answered (icmp(7)).
use core::sync::atomic::{AtomicBool, Ordering};

/// The settings of answers to echo requests of IPv4.
pub struct EchoSettings {
    /// None is answered (`icmp_echo_ignore_all`).
    pub ignores_all: AtomicBool,
    /// None to a group or to all hosts is answered (`icmp_echo_ignore_broadcasts`).
    pub ignores_groups: AtomicBool,
}

impl Default for EchoSettings {
    fn default() -> EchoSettings {
        EchoSettings { ignores_all: AtomicBool::new(false), ignores_groups: AtomicBool::new(true) }
    }
}

impl EchoSettings {
    /// Returns both settings.
    pub fn all(&self) -> (bool, bool) {
        let both = [&self.ignores_all, &self.ignores_groups];
        let [all, groups] = both.map(|one| one.load(Ordering::Relaxed));
        (all, groups)
    }
    /// Sets both.
    pub fn set(&self, (all, groups): (bool, bool)) {
        self.ignores_all.store(all, Ordering::Relaxed);
        self.ignores_groups.store(groups, Ordering::Relaxed);
    }
}
