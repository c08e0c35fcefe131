//! The classes of objects and their permissions, with the numbers that `class` shows and `access` uses, and what each asks of the
//! monitor. Source: Linux 6.1 `security/selinux/include/classmap.h` (names).
use Right::{Capability, Contains, Execute, Needs, Never, Read, Write};
use interfaces::monitor::{
    CAPABILITY_NAMES, CapabilityMask, Denial, Monitor, ObjectAccess, Privileges,
};
use labels::Context;

/// The access or the privilege that a permission stands for.
#[derive(Clone, Copy, Debug)]
pub enum Right {
    Read,
    Write,
    Execute,
    /// A privilege of the subject's domain.
    Needs(Privileges),
    /// Capabilities that the domain leaves to its processes, by the number of the first; each has a permission.
    Capability(u8),
    /// The range of the subject includes that of the object.
    Contains,
    /// Nobody has it.
    Never,
}

/// Permissions that ask the same, in the order of their numbers.
type Group = (Right, &'static [&'static str]);

/// A class of objects.
pub struct Class {
    /// Its name.
    pub name: &'static str,
    groups: &'static [&'static [Group]],
}

const RELABEL: Right = Needs(Privileges::RELABEL);

const FILE_OR_SOCKET: &[Group] = &[
    (Read, &["ioctl", "read"]),
    (Write, &["write", "create"]),
    (Read, &["getattr"]),
    (Write, &["setattr", "lock"]),
    (RELABEL, &["relabelfrom", "relabelto"]),
    (Write, &["append"]),
    (Read, &["map"]),
];
const FILE: &[Group] = &[
    (Write, &["unlink", "link", "rename"]),
    (Execute, &["execute"]),
    (Write, &["quotaon"]),
    (Needs(Privileges::MOUNT), &["mounton"]),
    (Read, &["audit_access", "open", "execmod", "watch"]),
    (Read, &["watch_mount", "watch_sb", "watch_with_perm", "watch_reads"]),
];
const SOCKET: &[Group] = &[
    (Write, &["bind", "connect", "listen", "accept"]),
    (Read, &["getopt"]),
    (Write, &["setopt", "shutdown"]),
    (Read, &["recvfrom"]),
    (Write, &["sendto", "name_bind"]),
];
const IPC: &[Group] = &[
    (Write, &["create", "destroy"]),
    (Read, &["getattr"]),
    (Write, &["setattr"]),
    (Read, &["read"]),
    (Write, &["write", "associate"]),
    (Read, &["unix_read"]),
    (Write, &["unix_write"]),
];
/// The number of capabilities of the class `capability`; the others are of `capability2`.
const FIRST_CAPABILITIES: usize = 32;
const CAPABILITIES: &[Group] = &[(Capability(0), CAPABILITY_NAMES.split_at(FIRST_CAPABILITIES).0)];
const MORE_CAPABILITIES: &[Group] =
    &[(Capability(FIRST_CAPABILITIES as u8), CAPABILITY_NAMES.split_at(FIRST_CAPABILITIES).1)];
const OF_SECURITY: &[Group] = &[
    (Read, &["compute_av", "compute_create", "compute_member", "check_context"]),
    (Needs(Privileges::LOAD_POLICY), &["load_policy"]),
    (Read, &["compute_relabel", "compute_user"]),
    (Never, &["setenforce", "setbool", "setsecparam", "setcheckreqprot"]),
    (Read, &["read_policy", "validate_trans"]),
];
const PROCESS: &[Group] = &[
    (Write, &["fork"]),
    (Read, &["transition"]),
    (Write, &["sigchld", "sigkill", "sigstop", "signull", "signal", "ptrace"]),
    (Read, &["getsched"]),
    (Write, &["setsched"]),
    (Read, &["getsession", "getpgid"]),
    (Write, &["setpgid"]),
    (Read, &["getcap"]),
    (Write, &["setcap", "share"]),
    (Read, &["getattr"]),
    (Write, &["setexec", "setfscreate", "noatsecure", "siginh", "setrlimit", "rlimitinh"]),
    (Needs(Privileges::SET_RANGE), &["dyntransition", "setcurrent"]),
    (Write, &["execmem", "execstack", "execheap", "setkeycreate", "setsockcreate"]),
    (Read, &["getrlimit"]),
];
const SYSTEM: &[Group] = &[
    (Read, &["ipc_info", "syslog_read"]),
    (Write, &["syslog_mod", "syslog_console"]),
    (Never, &["module_request", "module_load"]),
];
const FILE_SYSTEM: &[Group] = &[
    (Needs(Privileges::MOUNT), &["mount", "remount", "unmount"]),
    (Read, &["getattr"]),
    (RELABEL, &["relabelfrom", "relabelto"]),
    (Write, &["associate", "quotamod"]),
    (Read, &["quotaget", "watch"]),
];
const PROGRAM: &[Group] = &[(Execute, &["execute_no_trans", "entrypoint"])];
const DIRECTORY: &[Group] =
    &[(Write, &["add_name", "remove_name", "reparent"]), (Read, &["search"]), (Write, &["rmdir"])];
const NAMED: &[Group] = &[(Write, &["node_bind", "name_connect"])];
const BOUND: &[Group] = &[(Write, &["node_bind"])];
const ROUTES: &[Group] = &[(Read, &["nlmsg_read"]), (Write, &["nlmsg_write"])];

const fn class(name: &'static str, groups: &'static [&'static [Group]]) -> Class {
    Class { name, groups }
}

/// The classes; the number of each is its place, from 1 on.
pub const CLASSES: &[Class] = &[
    class("security", &[OF_SECURITY]),
    class("process", &[PROCESS]),
    class("system", &[SYSTEM]),
    class("capability", &[CAPABILITIES]),
    class("filesystem", &[FILE_SYSTEM]),
    class("file", &[FILE_OR_SOCKET, FILE, PROGRAM]),
    class("dir", &[FILE_OR_SOCKET, FILE, DIRECTORY]),
    class("fd", &[&[(Read, &["use"])]]),
    class("lnk_file", &[FILE_OR_SOCKET, FILE]),
    class("chr_file", &[FILE_OR_SOCKET, FILE]),
    class("blk_file", &[FILE_OR_SOCKET, FILE]),
    class("sock_file", &[FILE_OR_SOCKET, FILE]),
    class("fifo_file", &[FILE_OR_SOCKET, FILE]),
    class("socket", &[FILE_OR_SOCKET, SOCKET]),
    class("tcp_socket", &[FILE_OR_SOCKET, SOCKET, NAMED]),
    class("udp_socket", &[FILE_OR_SOCKET, SOCKET, BOUND]),
    class("rawip_socket", &[FILE_OR_SOCKET, SOCKET, BOUND]),
    class("netlink_socket", &[FILE_OR_SOCKET, SOCKET]),
    class("packet_socket", &[FILE_OR_SOCKET, SOCKET]),
    class("unix_stream_socket", &[FILE_OR_SOCKET, SOCKET, &[(Write, &["connectto"])]]),
    class("unix_dgram_socket", &[FILE_OR_SOCKET, SOCKET]),
    class("sem", &[IPC]),
    class("msg", &[&[(Write, &["send"]), (Read, &["receive"])]]),
    class("msgq", &[IPC, &[(Write, &["enqueue"])]]),
    class("shm", &[IPC, &[(Write, &["lock"])]]),
    class("ipc", &[IPC]),
    class("netlink_route_socket", &[FILE_OR_SOCKET, SOCKET, ROUTES]),
    class("netlink_tcpdiag_socket", &[FILE_OR_SOCKET, SOCKET, ROUTES]),
    class("netlink_selinux_socket", &[FILE_OR_SOCKET, SOCKET]),
    class("capability2", &[MORE_CAPABILITIES]),
    class("context", &[&[(Read, &["translate"]), (Contains, &["contains"])]]),
];

impl Class {
    /// Returns the class with a number.
    pub fn numbered(number: usize) -> Option<&'static Class> {
        CLASSES.get(number.checked_sub(1)?)
    }
    /// Returns its permissions in the order of their numbers, which begin at 1.
    pub fn permissions(&self) -> impl Iterator<Item = (&'static str, Right)> {
        self.groups.iter().copied().flatten().flat_map(|(right, names)| {
            names.iter().zip(0u8..).map(|(name, place)| match *right {
                Capability(first) => (*name, Capability(first + place)),
                right => (*name, right),
            })
        })
    }
    /// Returns the permissions that a subject has on an object of the class, a bit each.
    pub fn allowed(&self, monitor: &dyn Monitor, subject: &Context, object: &Context) -> u32 {
        let rights = monitor.rights_of(subject);
        let may = |access| monitor.decide_between(subject, object, access).is_ok();
        let (reads, writes) = (may(ObjectAccess::Read), may(ObjectAccess::Write));
        let executes = may(ObjectAccess::Execute);
        self.permissions().zip(0u32..).fold(0, |bits, ((_, right), place)| {
            let is_allowed = match right {
                Read => reads,
                Write => writes,
                Execute => executes,
                Needs(privilege) => rights.privileges.contains(privilege),
                Capability(number) => {
                    rights.capabilities.with(CapabilityMask(1 << number)) == rights.capabilities
                }
                Contains => subject.range().includes(object.range()),
                Never => false,
            };
            bits | u32::from(is_allowed) << place
        })
    }
    /// Returns whether its objects are processes.
    pub fn is_of_processes(&self) -> bool {
        self.name == "process"
    }
}

/// Returns the context of a new object of a class.
///
/// # Errors
/// [`Denial`].
pub fn created(
    monitor: &dyn Monitor,
    subject: &Context,
    place: &Context,
    class: &Class,
) -> Result<Context, Denial> {
    match class.is_of_processes() {
        true => monitor.entered_by(subject, place),
        false => monitor.made_by(subject, place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn permissions_of_a_class_fit_a_word_and_have_names_of_their_own() {
        for class in CLASSES {
            let names: BTreeSet<_> = class.permissions().map(|(name, _)| name).collect();
            assert_eq!(names.len(), class.permissions().count(), "{}", class.name);
            assert!(names.len() <= 32, "{}", class.name);
        }
    }

    #[test]
    fn a_capability_has_its_own_number() {
        let number = |class: usize, wanted| {
            let mut all = Class::numbered(class).unwrap().permissions();
            let (_, right) = all.find(|(name, _)| *name == wanted).unwrap();
            let Capability(number) = right else { panic!("{wanted} is a capability") };
            number
        };
        assert_eq!((number(4, "chown"), number(4, "setfcap")), (0, 31));
        assert_eq!((number(30, "mac_override"), number(30, "checkpoint_restore")), (32, 40));
    }
}
