//! The caller: user and group ids, supplementary groups, capabilities (credentials(7), capabilities(7)).
//!
//! [`Credentials`] is immutable plain data behind an `Arc`; the personality replaces it whole.
use alloc::sync::Arc;
use bitflags::bitflags;

/// The four ids Linux keeps of a user or a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    /// The user that started the program.
    pub real: u32,
    /// The user whose rights it has.
    pub effective: u32,
    /// The user that `effective` may go back to.
    pub saved: u32,
    /// The user whose rights it has on files; follows `effective`.
    pub fs: u32,
}

impl Ids {
    /// All four the same.
    pub const fn all(id: u32) -> Ids {
        Ids { real: id, effective: id, saved: id, fs: id }
    }
}

bitflags! {
    /// Capabilities, by Linux's bit numbers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Capabilities: u64 {
        /// Change owners at will.
        const CHOWN = 1 << 0;
        /// Bypass read, write and execute checks.
        const DAC_OVERRIDE = 1 << 1;
        /// Bypass read checks, and search checks of directories.
        const DAC_READ_SEARCH = 1 << 2;
        /// Do what only a file's owner may.
        const FOWNER = 1 << 3;
        /// Keep setuid and setgid bits where they would be cleared.
        const FSETID = 1 << 4;
        /// Signal anyone.
        const KILL = 1 << 5;
        /// Change group ids at will.
        const SETGID = 1 << 6;
        /// Change user ids at will.
        const SETUID = 1 << 7;
        /// Add to and take from the capability sets.
        const SETPCAP = 1 << 8;
        /// Set the immutable and append-only flags.
        const LINUX_IMMUTABLE = 1 << 9;
        /// Configure networks; sockets beyond their limits.
        const NET_ADMIN = 1 << 12;
        /// Lock memory.
        const IPC_LOCK = 1 << 14;
        /// Use objects of System V IPC whatever their permissions.
        const IPC_OWNER = 1 << 15;
        /// Reach what is the machine's.
        const SYS_RAWIO = 1 << 17;
        /// chroot.
        const SYS_CHROOT = 1 << 18;
        /// Trace anyone.
        const SYS_PTRACE = 1 << 19;
        /// Mount, set the host name, and much more.
        const SYS_ADMIN = 1 << 21;
        /// Power off and restart.
        const SYS_BOOT = 1 << 22;
        /// Raise priorities.
        const SYS_NICE = 1 << 23;
        /// Pass resource limits.
        const SYS_RESOURCE = 1 << 24;
        /// Set the clock.
        const SYS_TIME = 1 << 25;
        /// Configure terminals.
        const SYS_TTY_CONFIG = 1 << 26;
        /// Make device nodes.
        const MKNOD = 1 << 27;
        /// Leases on files of others.
        const LEASE = 1 << 28;
        /// Change a login uid that is set.
        const AUDIT_CONTROL = 1 << 30;
        /// Give capabilities to files.
        const SETFCAP = 1 << 31;
        /// Read the kernel's log.
        const SYSLOG = 1 << 34;
        /// Timers that wake the machine.
        const WAKE_ALARM = 1 << 35;
        /// Choose the ids of processes.
        const CHECKPOINT_RESTORE = 1 << 40;
        /// The capabilities that a change of the file-system user takes and gives (`CAP_FS_SET`): these, and
        /// CAP_MAC_OVERRIDE.
        const FILES = Self::CHOWN.bits() | Self::DAC_OVERRIDE.bits()
            | Self::DAC_READ_SEARCH.bits() | Self::FOWNER.bits() | Self::FSETID.bits()
            | Self::LINUX_IMMUTABLE.bits() | Self::MKNOD.bits() | 1 << 32;
        /// Every capability Linux names (bits 0 to 40).
        const ALL = (1 << 41) - 1;
    }
}

/// The capability sets of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapabilitySets {
    /// The capabilities that `effective` may hold.
    pub permitted: Capabilities,
    /// The capabilities that count.
    pub effective: Capabilities,
    /// Kept across execve for files that inherit.
    pub inheritable: Capabilities,
    /// The capabilities that execve may ever give.
    pub bounding: Capabilities,
    /// Kept across execve of plain programs.
    pub ambient: Capabilities,
}

impl acl::Subject for Credentials {
    fn is_user(&self, user: u32) -> bool {
        self.user.fs == user
    }
    fn is_in_group(&self, group: u32) -> bool {
        self.is_in_group(group)
    }
}

impl CapabilitySets {
    /// As of the first process.
    pub const FULL: CapabilitySets = CapabilitySets {
        permitted: Capabilities::ALL,
        effective: Capabilities::ALL,
        inheritable: Capabilities::empty(),
        bounding: Capabilities::ALL,
        ambient: Capabilities::empty(),
    };
    /// None held, all could be given by execve.
    pub const NONE: CapabilitySets = CapabilitySets {
        permitted: Capabilities::empty(),
        effective: Capabilities::empty(),
        inheritable: Capabilities::empty(),
        bounding: Capabilities::ALL,
        ambient: Capabilities::empty(),
    };
}

/// On whose behalf something is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// User ids.
    pub user: Ids,
    /// Group ids.
    pub group: Ids,
    /// Supplementary groups, ascending.
    pub groups: Arc<[u32]>,
    /// Capability sets.
    pub capabilities: CapabilitySets,
    /// `SECBIT_` bits of prctl(2).
    pub secure_bits: u32,
}

impl Credentials {
    /// It has other rights than `old`, by its ids, or more, by its capabilities: a process that changes so is not to be
    /// looked into by its user any more (Linux's `commit_creds`).
    pub fn departs_from(&self, old: &Credentials) -> bool {
        let rights = |who: &Credentials| {
            (who.user.effective, who.user.fs, who.group.effective, who.group.fs)
        };
        rights(self) != rights(old)
            || !old.capabilities.permitted.contains(self.capabilities.permitted)
    }
    /// The superuser.
    pub fn root() -> Credentials {
        Credentials {
            user: Ids::all(0),
            group: Ids::all(0),
            groups: Arc::from([].as_slice()),
            capabilities: CapabilitySets::FULL,
            secure_bits: 0,
        }
    }
    /// An ordinary user.
    pub fn user(user: u32, group: u32, groups: &[u32]) -> Credentials {
        let mut groups = groups.to_vec();
        groups.sort_unstable();
        Credentials {
            user: Ids::all(user),
            group: Ids::all(group),
            groups: Arc::from(groups),
            capabilities: CapabilitySets::NONE,
            secure_bits: 0,
        }
    }
    /// All of `wanted` are effective.
    pub fn has(&self, wanted: Capabilities) -> bool {
        self.capabilities.effective.contains(wanted)
    }
    /// `group` is the file-system group or a supplementary one.
    pub fn is_in_group(&self, group: u32) -> bool {
        self.group.fs == group || self.groups.binary_search(&group).is_ok()
    }
    /// As access(2) looks at files: with the real ids, and capabilities only for real root.
    pub fn with_real_ids(&self) -> Credentials {
        let mut real = self.clone();
        real.user.fs = self.user.real;
        real.group.fs = self.group.real;
        real.capabilities.effective = match self.user.real {
            0 => self.capabilities.permitted,
            _ => Capabilities::empty(),
        };
        real
    }
}
