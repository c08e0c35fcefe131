//! The monitor's answers about the labels of the model, asked once each, and wrong answers that the model must find.
use crate::SecurityPolicy;
use alloc::format;
use interfaces::monitor::{ObjectAccess, Privileges};
use labels::{Context, Secrecy, SecrecyRange};

/// The labels: the second and the third cannot be compared.
pub const LABELS: [&str; 4] = ["s0", "s1:c0", "s1:c1", "s2:c0,c1"];
/// The label of the multilevel directory.
pub const PLACE: usize = 1;
/// The ranges of devices: one serves all labels, and one those from the second on.
pub const RANGES: [&str; 2] = ["s0-s2:c0,c1", "s1:c0-s2:c0,c1"];

const POLICY: &str = "
type file_t grade user
type place_t grade user multilevel file_t
type shell_exec_t grade tcb
type newrole_exec_t grade tcb
domain kernel_t grade tcb
domain user_t grade user
domain newrole_t grade tcb privileges set-range
domain admin_t grade tcb privileges relabel,downgrade,mount,see-all capabilities all
role system_r domains kernel_t
role user_r domains user_t,newrole_t,admin_t
user system_u roles system_r range s0-s15:c0.c1023
user user_u roles user_r range s0-s2:c0,c1
enter newrole_t from user_t by newrole_exec_t
allow user_t from newrole_t by shell_exec_t
initial kernel system_u:system_r:kernel_t:s0
initial unlabeled system_u:object_r:file_t:s15:c0.c1023
initial file system_u:object_r:file_t:s0
initial netif system_u:object_r:file_t:s0
initial netmsg system_u:object_r:file_t:s0
initial anonymous system_u:object_r:file_t:s0
";

/// A wrong decision function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    None,
    /// An object above may be written to.
    WritesUp,
    /// An object that may be read may be written to.
    WritesDown,
    /// An object above may be read.
    ReadsUp,
    /// Levels are compared, and categories are not.
    IgnoresCategories,
    /// Labels are the same if one dominates the other.
    WritesComparable,
    /// Everybody may relabel.
    RelabelsFreely,
    /// A session may begin at a lower level.
    BeginsLower,
    /// Everybody has the privilege to mount.
    MountsFreely,
    /// Everybody sees all processes.
    SeesAll,
    /// A subject changes its own label without the privilege.
    SetsOwnLabel,
    /// A device of a range serves all labels.
    IgnoresRanges,
    /// A subject above finds the multilevel directory itself, and may write there.
    SharesNames,
}

impl Mistake {
    /// All but none.
    pub const ALL: [Mistake; 12] = [
        Mistake::WritesUp,
        Mistake::WritesDown,
        Mistake::ReadsUp,
        Mistake::IgnoresCategories,
        Mistake::WritesComparable,
        Mistake::RelabelsFreely,
        Mistake::BeginsLower,
        Mistake::MountsFreely,
        Mistake::SeesAll,
        Mistake::SetsOwnLabel,
        Mistake::IgnoresRanges,
        Mistake::SharesNames,
    ];
}

type Table = [[bool; 4]; 4];

/// The answers, by the numbers of the labels of a subject and of an object.
pub struct Answers {
    pub reads: Table,
    pub writes: Table,
    /// A subject may ask for the second label when it executes a program.
    pub execs: Table,
    /// A subject may give itself the second label.
    pub sets: Table,
    /// A subject may execute a program with the label.
    pub executes: Table,
    /// The administrator may give an object with the first label the second.
    pub administrator_relabels: Table,
    /// A subject may do that: by its label, the old and the new one.
    pub relabels: [Table; 4],
    /// A subject may read and write a device: by the device.
    pub devices: [[bool; 4]; 2],
    /// The label of the directory that a subject finds in the place of the multilevel one, which has the label [`PLACE`].
    pub within: [usize; 4],
    /// A subject may mount, and sees all processes.
    pub mounts: bool,
    pub sees_all: bool,
    pub dominates: Table,
    /// The device of the second range keeps what is written, for this mistake alone.
    pub device_keeps: bool,
}

fn secrecy(label: usize) -> Secrecy {
    LABELS[label].parse().expect("a level")
}

fn context(domain: &str, label: usize) -> Context {
    format!("user_u:user_r:{domain}:{}", LABELS[label]).parse().expect("a subject")
}

fn object(kind: &str, range: &str) -> Context {
    format!("user_u:object_r:{kind}:{range}").parse().expect("an object")
}

fn table(ask: impl Fn(usize, usize) -> bool) -> Table {
    core::array::from_fn(|own| core::array::from_fn(|other| ask(own, other)))
}

/// Decides as the monitor does, or wrongly.
fn decide(
    policy: &SecurityPolicy,
    mistake: Mistake,
    (own, other): (usize, usize),
    access: ObjectAccess,
) -> bool {
    let subject = context("user_t", own);
    let right = policy.decide(&subject, &object("file_t", LABELS[other]), access).is_ok();
    let (above, below) =
        (secrecy(other).dominates(&secrecy(own)), secrecy(own).dominates(&secrecy(other)));
    let is_write = access == ObjectAccess::Write;
    right
        || match mistake {
            Mistake::WritesUp => is_write && above,
            Mistake::WritesDown => is_write && below,
            Mistake::WritesComparable => is_write && (above || below),
            Mistake::ReadsUp => !is_write && above,
            Mistake::IgnoresCategories => {
                let (own, other) = (secrecy(own).level(), secrecy(other).level());
                if is_write { own == other } else { own >= other }
            }
            _ => false,
        }
}

/// Returns whether a subject may begin a session at another label by newrole(1).
fn begins(policy: &SecurityPolicy, own: usize, new: usize) -> bool {
    let program = |kind| object(kind, LABELS[0]);
    let entered = policy.entered(&context("user_t", own), &program("newrole_exec_t"), None);
    let newrole = entered.expect("newrole is entered");
    assert_eq!(newrole.kind(), "newrole_t");
    let wanted = context("user_t", new);
    policy.entered(&newrole, &program("shell_exec_t"), Some(&wanted)).is_ok()
}

impl Answers {
    pub fn new(mistake: Mistake) -> Answers {
        let policy = SecurityPolicy::parse(POLICY.as_bytes()).expect("a policy");
        let is = |other| mistake == other;
        let ask = |access| table(|own, other| decide(&policy, mistake, (own, other), access));
        let relabel = |subject: &Context| {
            table(|old, new| {
                let [old, new] = [old, new].map(|label| object("file_t", LABELS[label]));
                policy.relabel(subject, &old, &new).is_ok()
            })
        };
        let rights = policy.rights(&context("user_t", 0)).privileges;
        let administrator = context("admin_t", 0)
            .with_range(SecrecyRange::new(secrecy(0), secrecy(3)).expect("a range"));
        let device = |at: usize| {
            core::array::from_fn(|own| {
                let (subject, device) = (context("user_t", own), object("file_t", RANGES[at]));
                let both = [ObjectAccess::Read, ObjectAccess::Write];
                is(Mistake::IgnoresRanges)
                    || both.iter().all(|access| policy.decide(&subject, &device, *access).is_ok())
            })
        };
        let within = |own| {
            let found = policy.within(&context("user_t", own), &object("place_t", LABELS[PLACE]));
            let label = (0..4).find(|label| *found.range().low() == secrecy(*label));
            if is(Mistake::SharesNames) { PLACE } else { label.expect("a label of the model") }
        };
        let mut writes = ask(ObjectAccess::Write);
        if is(Mistake::SharesNames) {
            writes[3][PLACE] = true;
        }
        Answers {
            reads: ask(ObjectAccess::Read),
            writes,
            executes: ask(ObjectAccess::Execute),
            execs: table(|own, new| is(Mistake::BeginsLower) || begins(&policy, own, new)),
            sets: table(|own, new| {
                let [own, new] = [own, new].map(|label| SecrecyRange::single(secrecy(label)));
                is(Mistake::SetsOwnLabel) || rights.may_set_range(&own, &new)
            }),
            administrator_relabels: relabel(&administrator),
            relabels: core::array::from_fn(|own| match is(Mistake::RelabelsFreely) {
                true => relabel(&administrator),
                false => relabel(&context("user_t", own)),
            }),
            devices: [device(0), device(1)],
            within: core::array::from_fn(within),
            mounts: is(Mistake::MountsFreely) || rights.contains(Privileges::MOUNT),
            sees_all: is(Mistake::SeesAll) || rights.contains(Privileges::SEE_ALL),
            dominates: table(|own, other| secrecy(own).dominates(&secrecy(other))),
            device_keeps: is(Mistake::IgnoresRanges),
        }
    }
}
