//! Types of messages and records, with Linux's numbers (`AUDIT_...`).

/// Asks for the state of audit.
pub const GET: u16 = 1000;
/// Changes the state of audit.
pub const SET: u16 = 1001;
/// Lists rules in an old form.
pub const LIST: u16 = 1002;
/// Adds a rule in an old form.
pub const ADD: u16 = 1003;
/// Deletes a rule in an old form.
pub const DEL: u16 = 1004;
/// A message of a program, in an old form.
pub const USER: u16 = 1005;
/// A user logged in.
pub const LOGIN: u16 = 1006;
/// Asks for the sender of the last signal to the audit daemon.
pub const SIGNAL_INFO: u16 = 1010;
/// Adds a rule.
pub const ADD_RULE: u16 = 1011;
/// Deletes a rule.
pub const DEL_RULE: u16 = 1012;
/// Lists the rules.
pub const LIST_RULES: u16 = 1013;
/// Forgets trees of directories that are gone.
pub const TRIM: u16 = 1014;
/// Watches a tree at two places.
pub const MAKE_EQUIV: u16 = 1015;
/// Asks whether the input of terminals is audited.
pub const TTY_GET: u16 = 1016;
/// Audits the input of terminals.
pub const TTY_SET: u16 = 1017;
/// Changes features.
pub const SET_FEATURE: u16 = 1018;
/// Asks for features.
pub const GET_FEATURE: u16 = 1019;
/// First type of messages of programs.
pub const FIRST_USER: u16 = 1100;
/// A user-space object manager refused an access.
pub const USER_AVC: u16 = 1107;
/// Input of a terminal, told by a program.
pub const USER_TTY: u16 = 1124;
/// Last type of messages of programs.
pub const LAST_USER: u16 = 1199;
/// First type of the second range of messages of programs.
pub const FIRST_USER2: u16 = 2100;
/// Last type of the second range of messages of programs.
pub const LAST_USER2: u16 = 2999;
/// A system call.
pub const SYSCALL: u16 = 1300;
/// A path of a system call.
pub const PATH: u16 = 1302;
/// The state of audit changed.
pub const CONFIG_CHANGE: u16 = 1305;
/// The working directory of a system call.
pub const CWD: u16 = 1307;
/// The arguments of a program.
pub const EXECVE: u16 = 1309;
/// The end of an event of several records.
pub const EOE: u16 = 1320;
/// A system call that a guard refused or was to tell of.
pub const SECCOMP: u16 = 1326;
/// The command line of a process.
pub const PROCTITLE: u16 = 1327;
/// A feature changed.
pub const FEATURE_CHANGE: u16 = 1328;
/// Another audit daemon wants to take the place of this one.
pub const REPLACE: u16 = 1329;
/// The monitor refused an access.
pub const AVC: u16 = 1400;
/// A policy was loaded.
pub const MAC_POLICY_LOAD: u16 = 1403;

/// Returns whether programs may send messages of this type.
pub fn is_of_program(kind: u16) -> bool {
    kind == USER
        || (FIRST_USER..=LAST_USER).contains(&kind)
        || (FIRST_USER2..=LAST_USER2).contains(&kind)
}
