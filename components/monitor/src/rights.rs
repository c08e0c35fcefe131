//! The rights of domains: [`Privileges`] and [`CapabilityMask`].
use bitflags::bitflags;

bitflags! {
    /// Exceptions from the rules that a domain has, each by name.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Privileges: u32 {
        /// Reads what the greatest secrecy of its range dominates.
        const READ_UP = 1 << 0;
        /// Writes objects of each secrecy in its range. So information can flow down.
        const WRITE_RANGE = 1 << 1;
        /// Writes objects of a greater grade than its own.
        const RAISE_INTEGRITY = 1 << 2;
        /// Executes programs of a lesser grade than its own.
        const EXECUTE_UNTRUSTED = 1 << 3;
        /// Gives objects of its range other contexts.
        const RELABEL = 1 << 4;
        /// Gives objects contexts with a lesser secrecy, or one that does not dominate the old.
        const DOWNGRADE = 1 << 5;
        /// Gives a program a range of its user's, other than its own: a login.
        const SET_RANGE = 1 << 6;
        /// Changes the user and the role at exec.
        const SET_USER = 1 << 7;
        /// Sees and signals processes that it does not dominate.
        const SEE_ALL = 1 << 8;
        /// Reads audit records.
        const AUDIT_READ = 1 << 9;
        /// Changes what is audited.
        const AUDIT_CONTROL = 1 << 10;
        /// Writes audit records of its own.
        const AUDIT_WRITE = 1 << 11;
        /// Loads a policy.
        const LOAD_POLICY = 1 << 12;
        /// Uses raw devices: imports and exports data without labels.
        const RAW_DEVICES = 1 << 13;
        /// Mounts file systems.
        const MOUNT = 1 << 14;
    }
}

impl Privileges {
    /// Returns the privilege of that name in a policy: `read-up` is [`Privileges::READ_UP`].
    pub fn named(name: &str) -> Option<Privileges> {
        let is_it = |known: &str| {
            let shown = known.bytes().map(|byte| match byte {
                b'_' => b'-',
                letter => letter.to_ascii_lowercase(),
            });
            shown.eq(name.bytes())
        };
        let mut all = Privileges::all().iter_names();
        all.find(|(known, _)| is_it(known)).map(|(_, privilege)| privilege)
    }
}

/// The capabilities of capabilities(7) that a domain leaves to its processes, a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapabilityMask(pub u64);

/// The names of capabilities in the order of their numbers, without `CAP_`, in lower case.
const CAPABILITIES: [&str; 41] = [
    "chown",
    "dac_override",
    "dac_read_search",
    "fowner",
    "fsetid",
    "kill",
    "setgid",
    "setuid",
    "setpcap",
    "linux_immutable",
    "net_bind_service",
    "net_broadcast",
    "net_admin",
    "net_raw",
    "ipc_lock",
    "ipc_owner",
    "sys_module",
    "sys_rawio",
    "sys_chroot",
    "sys_ptrace",
    "sys_pacct",
    "sys_admin",
    "sys_boot",
    "sys_nice",
    "sys_resource",
    "sys_time",
    "sys_tty_config",
    "mknod",
    "lease",
    "audit_write",
    "audit_control",
    "setfcap",
    "mac_override",
    "mac_admin",
    "syslog",
    "wake_alarm",
    "block_suspend",
    "audit_read",
    "perfmon",
    "bpf",
    "checkpoint_restore",
];

impl CapabilityMask {
    /// All capabilities.
    pub const ALL: CapabilityMask = CapabilityMask((1 << CAPABILITIES.len()) - 1);
    /// None.
    pub const NONE: CapabilityMask = CapabilityMask(0);

    /// Returns the mask of the capability of that name, or of `all` or `none`.
    pub fn named(name: &str) -> Option<CapabilityMask> {
        match name {
            "all" => Some(CapabilityMask::ALL),
            "none" => Some(CapabilityMask::NONE),
            _ => {
                let number = CAPABILITIES.iter().position(|known| *known == name)?;
                Some(CapabilityMask(1 << number))
            }
        }
    }
    /// Returns the capabilities of both masks together.
    #[must_use]
    pub fn with(self, other: CapabilityMask) -> CapabilityMask {
        CapabilityMask(self.0 | other.0)
    }
}
