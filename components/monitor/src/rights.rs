//! The names of privileges and capabilities in policies.
use interfaces::monitor::{CapabilityMask, Privileges};

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

/// Returns the privilege of that name: `read-up` is [`Privileges::READ_UP`].
pub(crate) fn privilege(name: &str) -> Option<Privileges> {
    let is_it = |known: &str| {
        let shown = known.bytes().map(|byte| match byte {
            b'_' => b'-',
            letter => letter.to_ascii_lowercase(),
        });
        shown.eq(name.bytes())
    };
    match name {
        "all" => Some(Privileges::all()),
        _ => {
            let mut all = Privileges::all().iter_names();
            all.find(|(known, _)| is_it(known)).map(|(_, privilege)| privilege)
        }
    }
}

/// Returns the mask of the capability of that name, or of `all` or `none`.
pub(crate) fn capability(name: &str) -> Option<CapabilityMask> {
    match name {
        "all" => Some(CapabilityMask::ALL),
        "none" => Some(CapabilityMask::NONE),
        _ => {
            let number = CAPABILITIES.iter().position(|known| *known == name)?;
            Some(CapabilityMask(1 << number))
        }
    }
}
