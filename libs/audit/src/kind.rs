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
/// The use of covert channels that stay open: a number of Skerry's in the range of anomalies.
pub const CHANNELS: u16 = 1790;
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

/// Names of types of records, as auditd's log has them.
const NAMES: [(u16, &str); 79] = [
    (USER, "USER"),
    (LOGIN, "LOGIN"),
    (1100, "USER_AUTH"),
    (1101, "USER_ACCT"),
    (1102, "USER_MGMT"),
    (1103, "CRED_ACQ"),
    (1104, "CRED_DISP"),
    (1105, "USER_START"),
    (1106, "USER_END"),
    (USER_AVC, "USER_AVC"),
    (1108, "USER_CHAUTHTOK"),
    (1109, "USER_ERR"),
    (1110, "CRED_REFR"),
    (1111, "USYS_CONFIG"),
    (1112, "USER_LOGIN"),
    (1113, "USER_LOGOUT"),
    (1114, "ADD_USER"),
    (1115, "DEL_USER"),
    (1116, "ADD_GROUP"),
    (1117, "DEL_GROUP"),
    (1118, "DAC_CHECK"),
    (1119, "CHGRP_ID"),
    (1120, "TEST"),
    (1121, "TRUSTED_APP"),
    (1122, "USER_SELINUX_ERR"),
    (1123, "USER_CMD"),
    (USER_TTY, "USER_TTY"),
    (1125, "CHUSER_ID"),
    (1126, "GRP_AUTH"),
    (1127, "SYSTEM_BOOT"),
    (1128, "SYSTEM_SHUTDOWN"),
    (1129, "SYSTEM_RUNLEVEL"),
    (1130, "SERVICE_START"),
    (1131, "SERVICE_STOP"),
    (1132, "GRP_MGMT"),
    (1133, "GRP_CHAUTHTOK"),
    (1134, "MAC_CHECK"),
    (1135, "ACCT_LOCK"),
    (1136, "ACCT_UNLOCK"),
    (1137, "USER_DEVICE"),
    (1138, "SOFTWARE_UPDATE"),
    (SYSCALL, "SYSCALL"),
    (PATH, "PATH"),
    (1303, "IPC"),
    (1304, "SOCKETCALL"),
    (CONFIG_CHANGE, "CONFIG_CHANGE"),
    (1306, "SOCKADDR"),
    (CWD, "CWD"),
    (EXECVE, "EXECVE"),
    (1311, "IPC_SET_PERM"),
    (1312, "MQ_OPEN"),
    (1313, "MQ_SENDRECV"),
    (1314, "MQ_NOTIFY"),
    (1315, "MQ_GETSETATTR"),
    (1318, "OBJ_PID"),
    (1319, "TTY"),
    (EOE, "EOE"),
    (1321, "BPRM_FCAPS"),
    (1322, "CAPSET"),
    (1323, "MMAP"),
    (1324, "NETFILTER_PKT"),
    (1325, "NETFILTER_CFG"),
    (SECCOMP, "SECCOMP"),
    (PROCTITLE, "PROCTITLE"),
    (FEATURE_CHANGE, "FEATURE_CHANGE"),
    (REPLACE, "REPLACE"),
    (AVC, "AVC"),
    (1401, "SELINUX_ERR"),
    (1402, "AVC_PATH"),
    (MAC_POLICY_LOAD, "MAC_POLICY_LOAD"),
    (1404, "MAC_STATUS"),
    (2300, "USER_ROLE_CHANGE"),
    (2301, "ROLE_ASSIGN"),
    (2302, "ROLE_REMOVE"),
    (2303, "LABEL_OVERRIDE"),
    (2304, "LABEL_LEVEL_CHANGE"),
    (2305, "USER_LABELED_EXPORT"),
    (2306, "USER_UNLABELED_EXPORT"),
    (2307, "DEV_ALLOC"),
];

/// Returns the name of a type, as auditd's log has it; `None` for a rare one.
pub fn name(kind: u16) -> Option<&'static str> {
    NAMES.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name)
}
