//! Subjects and objects of each grade, and the policy that has them.
use crate::rule::Rule;
use std::fs;

/// The level of all subjects.
const LEVEL: &str = "s1:c1";
/// The privileges for which there is a domain.
pub const PRIVILEGES: [&str; 10] = [
    "read-up",
    "raw-devices",
    "relabel",
    "mount",
    "audit-control",
    "audit-write",
    "audit-read",
    "see-all",
    "set-range",
    "load-policy",
];

/// A relation of the subject's level to the object's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    Dominates,
    Equal,
    Dominated,
    Incomparable,
}

impl Relation {
    pub const ALL: [Relation; 4] =
        [Relation::Dominates, Relation::Equal, Relation::Dominated, Relation::Incomparable];

    /// Returns the object's level.
    pub fn level(self) -> &'static str {
        match self {
            Relation::Dominates => "s0",
            Relation::Equal => LEVEL,
            Relation::Dominated => "s2:c1,c2",
            Relation::Incomparable => "s1:c2",
        }
    }
}

/// A grade of integrity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    Untrusted,
    User,
    Admin,
    Tcb,
}

impl Grade {
    pub const ALL: [Grade; 4] = [Grade::Untrusted, Grade::User, Grade::Admin, Grade::Tcb];

    fn name(self) -> &'static str {
        match self {
            Grade::Untrusted => "untrusted",
            Grade::User => "user",
            Grade::Admin => "admin",
            Grade::Tcb => "tcb",
        }
    }
}

/// An object's label: the relation of the subject's level to it, and its grade.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    pub relation: Relation,
    pub grade: Grade,
}

impl Cell {
    pub fn all() -> impl Iterator<Item = Cell> {
        let each = |relation| Grade::ALL.map(|grade| Cell { relation, grade });
        Relation::ALL.into_iter().flat_map(each)
    }
    pub fn number(self) -> usize {
        self.relation as usize * Grade::ALL.len() + self.grade as usize
    }
    /// Returns the context of an object.
    pub fn object(self) -> String {
        format!("matrix_u:object_r:mo_{}_t:{}", self.grade.name(), self.relation.level())
    }
    /// Returns the context of a multilevel directory.
    pub fn multilevel(self) -> String {
        format!("matrix_u:object_r:mm_{}_t:{}", self.grade.name(), self.relation.level())
    }
    /// Returns the context of a process.
    pub fn process(self) -> String {
        format!("matrix_u:matrix_r:md_{}_t:{}", self.grade.name(), self.relation.level())
    }
}

/// A subject, with one privilege or none.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    pub grade: Grade,
    pub privilege: Option<&'static str>,
}

impl Subject {
    pub fn all() -> Vec<Subject> {
        let plain = Grade::ALL.map(|grade| Subject { grade, privilege: None });
        let other = PRIVILEGES.map(|name| Subject { grade: Grade::User, privilege: Some(name) });
        [&plain[..], &other[..]].concat()
    }
    pub fn number(self) -> i32 {
        let privileged = PRIVILEGES.iter().position(|name| Some(*name) == self.privilege);
        privileged.map_or(self.grade as i32, |at| (Grade::ALL.len() + at) as i32)
    }
    pub fn numbered(number: i32) -> Subject {
        Subject::all()[number as usize]
    }
    /// Returns whether it tries rows of a rule: one with a privilege tries those in which that matters.
    pub fn tries(self, rule: Rule) -> bool {
        rule.is_tried_with(self.privilege)
    }
    pub fn domain(self) -> String {
        match self.privilege {
            None => format!("md_{}_t", self.grade.name()),
            Some(privilege) => format!("mp_{}_t", privilege.replace('-', "_")),
        }
    }
    pub fn context(self) -> String {
        let range = match self.privilege {
            // It reads what the end of its range dominates.
            Some("read-up") => format!("{LEVEL}-s15:c0.c1023"),
            _ => LEVEL.into(),
        };
        format!("matrix_u:matrix_r:{}:{range}", self.domain())
    }
    /// Returns the context of an object that it may read, write and execute.
    pub fn own_object(self) -> String {
        Cell { relation: Relation::Equal, grade: self.grade }.object()
    }
}

/// Returns the shipped policy with what the matrix needs; network interfaces without a statement have the context `netif`.
pub fn text(netif: &str) -> String {
    let shipped = fs::read_to_string("/sys/fs/selinux/policy").expect("the policy that holds");
    let lines = shipped
        .lines()
        .filter(|line| !line.contains("/dev/net/tun") && !line.starts_with("initial netif"));
    // The lines of an earlier text of this function.
    let lines = lines.take_while(|line| *line != "# The matrix.");
    let mut text: String = lines.flat_map(|line| [line, "\n"]).collect();
    text += "# The matrix.\n";
    let mut domains = Vec::new();
    for grade in Grade::ALL.map(Grade::name) {
        text += &format!("type mo_{grade}_t grade {grade}\n");
        text += &format!("type mm_{grade}_t grade {grade} multilevel mo_{grade}_t\n");
        text += &format!("domain md_{grade}_t grade {grade} capabilities all\n");
        text += &format!("make mo_{grade}_t in device_t by md_{grade}_t\n");
        domains.push(format!("md_{grade}_t"));
    }
    for privilege in PRIVILEGES {
        let name = format!("mp_{}_t", privilege.replace('-', "_"));
        // The one that sets ranges starts programs at each level.
        let more = if privilege == "set-range" { ",downgrade" } else { "" };
        text +=
            &format!("domain {name} grade user privileges {privilege}{more} capabilities all\n");
        domains.push(name);
    }
    text += "domain mc_all_t grade user capabilities all\ndomain mc_none_t grade user\n";
    domains.extend(["mc_all_t", "mc_none_t"].map(String::from));
    for domain in &domains {
        text += &format!("allow {domain} from kernel_t by shell_exec_t\n");
    }
    for grade in Grade::ALL.map(Grade::name) {
        text += &format!("allow md_{grade}_t from mp_set_range_t by shell_exec_t\n");
    }
    text += &format!("role matrix_r domains {}\n", domains.join(","));
    text += "user matrix_u roles matrix_r range s0-s15:c0.c1023\n";
    text += "device /dev/net/tun type disk_t range s0-s15:c0.c1023\n";
    text + &format!("initial netif {netif}\n")
}

/// Loads that policy.
pub fn load() {
    load_with("system_u:object_r:net_t:s0");
}

/// Loads it with a context of network interfaces.
pub fn load_with(netif: &str) {
    fs::write("/sys/fs/selinux/load", text(netif)).expect("loading the policy");
}
