//! The caller: user and group ids, supplementary groups, capabilities (credentials(7), capabilities(7)).
//!
//! [`Credentials`] is immutable plain data behind an `Arc`; the personality replaces it whole.
use crate::base::security::{Label, SecuritySubject};
use alloc::sync::Arc;
use bitflags::bitflags;
use labels::Context;

/// The id that stands for a user or a group of which nothing is known (overflowuid, overflowgid).
pub const OVERFLOW_ID: u32 = 65_534;

/// The four ids Linux keeps of a user or a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    /// The user that started the program.
    pub real: u32,
    /// The user id whose rights the process has.
    pub effective: u32,
    /// The user id to which `effective` may return.
    pub saved: u32,
    /// The user id whose rights the process has on files; follows `effective`.
    pub fs: u32,
}

impl Ids {
    /// Makes a set in which all four ids are `id`.
    pub const fn all(id: u32) -> Ids {
        Ids { real: id, effective: id, saved: id, fs: id }
    }
}

bitflags! {
    /// A set of capabilities; the bit numbers are those of Linux.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Capabilities: u64 {
        /// Change the owners of files.
        const CHOWN = 1 << 0;
        /// Bypass read, write and execute checks.
        const DAC_OVERRIDE = 1 << 1;
        /// Bypass read checks, and search checks of directories.
        const DAC_READ_SEARCH = 1 << 2;
        /// Use the rights of a file's owner on any file.
        const FOWNER = 1 << 3;
        /// Keep setuid and setgid bits that a change would clear.
        const FSETID = 1 << 4;
        /// Send signals to any process.
        const KILL = 1 << 5;
        /// Change group ids to any value.
        const SETGID = 1 << 6;
        /// Change user ids to any value.
        const SETUID = 1 << 7;
        /// Add capabilities to the sets and remove them.
        const SETPCAP = 1 << 8;
        /// Set the immutable and append-only flags of files.
        const LINUX_IMMUTABLE = 1 << 9;
        /// Bind sockets to ports below 1024.
        const NET_BIND_SERVICE = 1 << 10;
        /// Configure networks, and exceed limits of sockets.
        const NET_ADMIN = 1 << 12;
        /// Send and receive packets of any protocol.
        const NET_RAW = 1 << 13;
        /// Lock memory (mlock(2)).
        const IPC_LOCK = 1 << 14;
        /// Use objects of System V IPC regardless of their permissions.
        const IPC_OWNER = 1 << 15;
        /// Use the machine's I/O ports and memory directly.
        const SYS_RAWIO = 1 << 17;
        /// Call chroot(2).
        const SYS_CHROOT = 1 << 18;
        /// Trace any process.
        const SYS_PTRACE = 1 << 19;
        /// Mount, set the host name, and much more.
        const SYS_ADMIN = 1 << 21;
        /// Power the machine off and restart it.
        const SYS_BOOT = 1 << 22;
        /// Raise the priority of processes.
        const SYS_NICE = 1 << 23;
        /// Exceed resource limits.
        const SYS_RESOURCE = 1 << 24;
        /// Set the system clock.
        const SYS_TIME = 1 << 25;
        /// Configure terminals.
        const SYS_TTY_CONFIG = 1 << 26;
        /// Make device nodes.
        const MKNOD = 1 << 27;
        /// Take leases on files of other users.
        const LEASE = 1 << 28;
        /// Write messages for audit.
        const AUDIT_WRITE = 1 << 29;
        /// Control audit, and change a login uid that is set.
        const AUDIT_CONTROL = 1 << 30;
        /// Attach capabilities to files.
        const SETFCAP = 1 << 31;
        /// Read the kernel's log.
        const SYSLOG = 1 << 34;
        /// Set timers that wake the machine.
        const WAKE_ALARM = 1 << 35;
        /// Read audit's records.
        const AUDIT_READ = 1 << 37;
        /// Choose the ids of new processes.
        const CHECKPOINT_RESTORE = 1 << 40;
        /// The capabilities that are added or removed when the file-system user id changes (`CAP_FS_SET`): these, and
        /// CAP_MAC_OVERRIDE.
        const FILES = Self::CHOWN.bits() | Self::DAC_OVERRIDE.bits()
            | Self::DAC_READ_SEARCH.bits() | Self::FOWNER.bits() | Self::FSETID.bits()
            | Self::LINUX_IMMUTABLE.bits() | Self::MKNOD.bits() | 1 << 32;
        /// Every capability that Linux defines (bits 0 to 40).
        const ALL = (1 << 41) - 1;
    }
}

/// The capability sets of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapabilitySets {
    /// The capabilities that `effective` may hold.
    pub permitted: Capabilities,
    /// Capabilities that permission checks use.
    pub effective: Capabilities,
    /// Capabilities kept across execve of files that have them in their inheritable set.
    pub inheritable: Capabilities,
    /// The capabilities that execve may give at most.
    pub bounding: Capabilities,
    /// Capabilities kept across execve of programs without file capabilities.
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
    /// The sets of the first process.
    pub const FULL: CapabilitySets = CapabilitySets {
        permitted: Capabilities::ALL,
        effective: Capabilities::ALL,
        inheritable: Capabilities::empty(),
        bounding: Capabilities::ALL,
        ambient: Capabilities::empty(),
    };
    /// The sets of a process that holds no capability and may get any of them by execve.
    pub const NONE: CapabilitySets = CapabilitySets {
        permitted: Capabilities::empty(),
        effective: Capabilities::empty(),
        inheritable: Capabilities::empty(),
        bounding: Capabilities::ALL,
        ambient: Capabilities::empty(),
    };
}

/// The contexts that a process asks for, instead of the policy's (`/proc/PID/attr`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskedContexts {
    /// The context of the next program (setexeccon(3)).
    pub exec: Option<Arc<Context>>,
    /// The label of files that it makes (setfscreatecon(3)).
    pub file: Option<&'static Label>,
    /// The label of sockets that it makes (setsockcreatecon(3)).
    pub socket: Option<&'static Label>,
    /// The context of keys that it makes (setkeycreatecon(3)). There are no keys.
    pub key: Option<Arc<Context>>,
}

/// Identity and rights with which an operation is done: user, groups and capabilities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The user ids.
    pub user: Ids,
    /// The group ids.
    pub group: Ids,
    /// The supplementary groups in ascending order.
    pub groups: Arc<[u32]>,
    /// The capability sets.
    pub capabilities: CapabilitySets,
    /// The `SECBIT_` bits of prctl(2).
    pub secure_bits: u32,
    /// The subject of mandatory access control.
    pub subject: Arc<SecuritySubject>,
    /// The contexts that the process asked for, until it executes a program.
    pub asked: Option<Arc<AskedContexts>>,
    /// The label of the subject that executed the program.
    pub previous: Option<&'static Label>,
}

impl Credentials {
    /// Returns whether these credentials have other ids or more capabilities than `old`. After such a change the
    /// process may no longer be inspected by its own user (Linux's `commit_creds`).
    pub fn departs_from(&self, old: &Credentials) -> bool {
        let rights = |who: &Credentials| {
            (who.user.effective, who.user.fs, who.group.effective, who.group.fs)
        };
        rights(self) != rights(old)
            || !old.capabilities.permitted.contains(self.capabilities.permitted)
    }
    /// Makes the credentials of the superuser.
    pub fn root() -> Credentials {
        Credentials {
            user: Ids::all(0),
            group: Ids::all(0),
            groups: Arc::from([].as_slice()),
            capabilities: CapabilitySets::FULL,
            secure_bits: 0,
            subject: SecuritySubject::kernel(),
            asked: None,
            previous: None,
        }
    }
    /// Makes the credentials of an ordinary user.
    pub fn user(user: u32, group: u32, groups: &[u32]) -> Credentials {
        let mut groups = groups.to_vec();
        groups.sort_unstable();
        Credentials {
            user: Ids::all(user),
            group: Ids::all(group),
            groups: Arc::from(groups),
            capabilities: CapabilitySets::NONE,
            secure_bits: 0,
            subject: SecuritySubject::kernel(),
            asked: None,
            previous: None,
        }
    }
    /// Returns the label of sockets that it makes: the one asked for (setsockcreatecon(3)), or that of its subject.
    pub fn label_of_socket(&self) -> &'static Label {
        let asked = self.asked.as_ref().and_then(|asked| asked.socket);
        asked.unwrap_or_else(|| self.subject.label())
    }
    /// Returns whether all of `wanted` are effective.
    pub fn has(&self, wanted: Capabilities) -> bool {
        self.capabilities.effective.contains(wanted)
    }
    /// Returns whether `group` is the file-system group or a supplementary group.
    pub fn is_in_group(&self, group: u32) -> bool {
        self.group.fs == group || self.groups.binary_search(&group).is_ok()
    }
    /// Returns the credentials that access(2) uses: with the real ids, and with capabilities only if the real user is
    /// root.
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
