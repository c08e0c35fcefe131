//! The reference monitor of multilevel security (K1): it decides what subjects may do with objects.
//!
//! A subject or an object is known here by its [`ContextId`] alone. The client enforces the decisions, and may keep each as long
//! as the policy holds that made it.
use alloc::{string::String, sync::Arc, vec::Vec};
use bitflags::bitflags;
use core::num::NonZeroU32;
use interfaces_macro::interface;
use labels::{Context, ContextId, Grade, SecrecyRange};

/// The kinds of access to an object. Sending a signal, locking and reading a FIFO are writes; looking into a process is reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectAccess {
    /// Information flows from the object to the subject.
    Read,
    /// Information flows from the subject to the object; without reading it.
    Write,
    /// The subject runs the object's instructions.
    Execute,
}

/// The rule that a refused access breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The subject does not dominate the object: it may not know of it.
    ReadUp,
    /// The secrecies are not equal: information would flow down, or the low side would learn what exists above.
    WriteAcross,
    /// The object is of a greater grade than the subject.
    WriteIntegrity,
    /// The program is of a lesser grade than the subject.
    ExecuteIntegrity,
    /// The context is none under the policy.
    Invalid,
    /// The domain has not the privilege that this needs, or the policy no way to that domain.
    Privilege,
    /// There are as many contexts as there may be.
    Full,
}

/// Subjects and objects that have a context before anything gives them one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Initial {
    /// The kernel's own threads, and the first program until it enters a domain.
    Kernel,
    /// Objects whose context is none under the policy.
    Unlabeled,
    /// Objects on file systems that store no contexts.
    File,
    /// Network interfaces without one of their own.
    Interface,
    /// Sockets and packets of nobody.
    Packet,
    /// Pipes and event files. It gives those of each subject their type.
    Anonymous,
}

impl Initial {
    /// All of them.
    pub const ALL: [Initial; 6] = [
        Initial::Kernel,
        Initial::Unlabeled,
        Initial::File,
        Initial::Interface,
        Initial::Packet,
        Initial::Anonymous,
    ];

    /// Returns the name in policies and in `selinuxfs`.
    pub fn name(self) -> &'static str {
        match self {
            Initial::Kernel => "kernel",
            Initial::Unlabeled => "unlabeled",
            Initial::File => "file",
            Initial::Interface => "netif",
            Initial::Packet => "netmsg",
            Initial::Anonymous => "anonymous",
        }
    }
}

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
        /// Gives a program a range of its user's, other than its own: a login. A range that begins lower needs `DOWNGRADE`, too.
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
    /// Returns whether a subject of the range `own` may give itself, or a program that it starts, the range `new`. Data comes down with
    /// it if that begins lower.
    pub fn may_set_range(self, own: &SecrecyRange, new: &SecrecyRange) -> bool {
        let is_not_below = new.low().dominates(own.low()) || self.contains(Privileges::DOWNGRADE);
        self.contains(Privileges::SET_RANGE) && is_not_below
    }
}

/// The capabilities of capabilities(7) that a domain leaves to its processes, a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapabilityMask(pub u64);

impl CapabilityMask {
    /// All capabilities.
    pub const ALL: CapabilityMask = CapabilityMask((1 << CAPABILITY_NAMES.len()) - 1);
    /// None.
    pub const NONE: CapabilityMask = CapabilityMask(0);

    /// Returns the capabilities of both masks together.
    #[must_use]
    pub fn with(self, other: CapabilityMask) -> CapabilityMask {
        CapabilityMask(self.0 | other.0)
    }
}

/// The names of capabilities in the order of their numbers, without `CAP_`, in lower case.
pub const CAPABILITY_NAMES: &[&str] = &[
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

/// The rights that a subject has by its domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DomainRights {
    /// Its exceptions from the rules.
    pub privileges: Privileges,
    /// The capabilities that it may have.
    pub capabilities: CapabilityMask,
}

/// The secrecies that the packets of a network interface may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkRule {
    /// The secrecies: one, unless packets tell theirs.
    pub range: SecrecyRange,
    /// The domain of interpretation by which each packet tells its secrecy (CIPSO, CALIPSO); `None` if it tells none.
    pub domain: Option<NonZeroU32>,
}

/// A monitor, which has a policy at every moment: at first the one that it ships.
#[interface(direct)]
pub trait Monitor: Send + Sync {
    /// Puts the policy of a text in the place of the present one. What was decided before holds no more.
    ///
    /// # Errors
    /// The line and the reason for which the policy is refused; the present one stays.
    fn load(&self, text: &[u8]) -> Result<(), String>;
    /// Returns an initial context.
    ///
    /// # Errors
    /// [`Denial::Full`].
    fn initial(&self, of: Initial) -> Result<ContextId, Denial>;
    /// Returns the context that a text is, if it is one of a subject or an object under the policy.
    ///
    /// # Errors
    /// [`Denial::Invalid`].
    fn check(&self, text: &[u8]) -> Result<Context, Denial>;
    /// Returns the number of a context.
    ///
    /// # Errors
    /// [`Denial::Full`].
    fn number(&self, context: &Context) -> Result<ContextId, Denial>;
    /// Returns the context of a number; that of unlabeled objects if it is none under the policy.
    fn context(&self, number: ContextId) -> Arc<Context>;
    /// Returns whether a context is one of subjects.
    fn is_subject(&self, context: &Context) -> bool;
    /// Returns the integrity of a context.
    fn grade(&self, number: ContextId) -> Grade;
    /// Returns the rights of a subject.
    fn rights(&self, subject: ContextId) -> DomainRights;
    /// Decides whether a subject may access an object.
    ///
    /// # Errors
    /// [`Denial`].
    fn decide(
        &self,
        subject: ContextId,
        object: ContextId,
        access: ObjectAccess,
    ) -> Result<(), Denial>;
    /// Decides whether a subject may give an object the context `new` instead of `old`. The caller ensures that nobody else has
    /// the object open.
    ///
    /// # Errors
    /// [`Denial`].
    fn relabel(&self, subject: ContextId, old: ContextId, new: &Context) -> Result<(), Denial>;
    /// Returns the context of a process of `subject` that executes a file with the context `file`; `wanted` is the one that it
    /// asked for (setexeccon(3)).
    ///
    /// # Errors
    /// [`Denial`].
    fn entered(
        &self,
        subject: ContextId,
        file: ContextId,
        wanted: Option<&Context>,
    ) -> Result<ContextId, Denial>;
    /// Returns the context of an object that a subject makes in a place with the context `place`.
    ///
    /// # Errors
    /// [`Denial::Full`].
    fn made(&self, subject: ContextId, place: ContextId) -> Result<ContextId, Denial>;
    /// Returns whether directories with a context are multilevel.
    fn is_multilevel(&self, place: ContextId) -> bool;
    /// Returns the context of the directory that a subject finds in the place of one with the context `place`: `place`, or that of
    /// a hidden directory in a multilevel one.
    ///
    /// # Errors
    /// [`Denial::Full`].
    fn within(&self, subject: ContextId, place: ContextId) -> Result<ContextId, Denial>;
    /// Returns the context of the device at `path`, if the policy names it.
    fn device(&self, path: &str) -> Option<ContextId>;
    /// Returns the rule of the network interface called `name`.
    fn link(&self, name: &str) -> LinkRule;
    /// Returns the contexts that a user may have after entering from `subject`.
    fn contexts_of(&self, subject: &Context, user: &str) -> Vec<Context>;
    /// Returns the policy's text.
    fn policy(&self) -> Arc<[u8]>;
    /// Returns the rights of a subject. Like the methods that follow it gives no context a number: a program may ask about any.
    fn rights_of(&self, subject: &Context) -> DomainRights;
    /// Decides as [`Monitor::decide`].
    ///
    /// # Errors
    /// [`Denial`].
    fn decide_between(
        &self,
        subject: &Context,
        object: &Context,
        access: ObjectAccess,
    ) -> Result<(), Denial>;
    /// Returns what [`Monitor::entered`] says for a program that asks for no context.
    ///
    /// # Errors
    /// [`Denial`].
    fn entered_by(&self, subject: &Context, file: &Context) -> Result<Context, Denial>;
    /// Returns what [`Monitor::made`] says.
    ///
    /// # Errors
    /// [`Denial::Invalid`].
    fn made_by(&self, subject: &Context, place: &Context) -> Result<Context, Denial>;
}
