//! Modes, access control lists, capabilities and labels compose: an access is allowed if and only if the first three allow it together
//! (path_resolution(7), acl(5), capabilities(7)), with the capabilities that the domain leaves, and the rule of labels allows it, too.
//!
//! Each combination is tried by a user who is not root: owner or not, bits of the mode or none, no list or one that grants or denies,
//! each capability or none, kept by the domain or not, and each relation of level and grade. A system without a monitor has one
//! relation and keeps all capabilities, so that the rules of the rest are those of Linux.
use crate::{
    done, executes,
    place::{relabel, short_program},
    policy::{self, Cell, Grade, Relation, Subject},
    rule::Rule,
};
use abi::{Ended, Scratch, c, check, close, fork, isolated, mls, must, wait};
use libc::*;
use std::{
    env, fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

const TEST: &str = "rights_of_files_labels_and_capabilities_compose";
const USER: u32 = 1000;
/// Another group than the user's.
const GROUP: u32 = 5;
const CAP_CHOWN: u32 = 0;
const CAP_DAC_OVERRIDE: u32 = 1;
const CAP_DAC_READ_SEARCH: u32 = 2;
const CAP_FOWNER: u32 = 3;
/// The capabilities that a subject has before its domain takes some: none, each alone, and all.
const HELD: [&[u32]; 6] = [
    &[],
    &[CAP_DAC_OVERRIDE],
    &[CAP_DAC_READ_SEARCH],
    &[CAP_FOWNER],
    &[CAP_CHOWN],
    &[CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER],
];

/// An access control list, besides the owner's and the others' bits: an entry for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    None,
    Grants,
    Denies,
}

/// The rights of an object.
#[derive(Clone, Copy, Debug)]
struct Object {
    is_owned: bool,
    /// The owner's and the others' bits are all set, or none.
    is_open: bool,
    list: List,
    cell: Cell,
}

impl Object {
    fn all() -> Vec<Object> {
        let mut all = Vec::new();
        let grades = [Grade::Untrusted, Grade::User, Grade::Admin];
        let labels = Relation::ALL
            .into_iter()
            .flat_map(|relation| grades.map(|grade| Cell { relation, grade }));
        let labels: Vec<Cell> = match mls::is_here() {
            true => labels.collect(),
            false => vec![Cell { relation: Relation::Equal, grade: Grade::User }],
        };
        for cell in labels {
            for (is_owned, is_open) in [(false, false), (false, true), (true, false), (true, true)]
            {
                for list in [List::None, List::Grants, List::Denies] {
                    all.push(Object { is_owned, is_open, list, cell });
                }
            }
        }
        all
    }
    /// Returns whether mode and list give the user all three rights.
    fn gives(self) -> bool {
        match self.list {
            _ if self.is_owned => self.is_open,
            List::None => self.is_open,
            List::Grants => true,
            List::Denies => false,
        }
    }
    /// Sets the rights of a file or folder.
    fn set(self, path: &Path) {
        let bits = if self.is_open { 7 } else { 0 };
        let name = c(path);
        must(unsafe { chown(name.as_ptr(), if self.is_owned { USER } else { 0 }, GROUP) });
        must(unsafe { chmod(name.as_ptr(), u32::from(bits) * 0o101) });
        if self.list == List::None {
            return;
        }
        let user = if self.list == List::Grants { 7 } else { 0 };
        // The owner, the user, the group, the mask, the others.
        let entries = [
            (1, bits, u32::MAX),
            (2, user, USER),
            (4, 0, u32::MAX),
            (16, 7, u32::MAX),
            (32, bits, u32::MAX),
        ];
        let mut list = 2u32.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries {
            list.extend(u16::to_le_bytes(tag));
            list.extend(u16::to_le_bytes(permissions));
            list.extend(u32::to_le_bytes(id));
        }
        let kind = c"system.posix_acl_access";
        must(unsafe {
            setxattr(name.as_ptr(), kind.as_ptr(), list.as_ptr().cast(), list.len(), 0)
        });
    }
}

/// A subject, by the capabilities that it has at first, and whether its domain leaves them.
#[derive(Clone, Copy, Debug)]
struct User {
    held: usize,
    is_kept: bool,
}

impl User {
    fn has(self, capability: u32) -> bool {
        self.is_kept && HELD[self.held].contains(&capability)
    }
    fn number(self) -> usize {
        self.held * 2 + usize::from(self.is_kept)
    }
    fn context(self) -> String {
        let domain = if self.is_kept { "mc_all_t" } else { "mc_none_t" };
        format!("matrix_u:matrix_r:{domain}:{}", Relation::Equal.level())
    }
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Read,
    Write,
    Execute,
    Search,
    Chmod,
    Chown,
    Unlink,
}

impl Operation {
    const ALL: [Operation; 7] = [
        Operation::Read,
        Operation::Write,
        Operation::Execute,
        Operation::Search,
        Operation::Chmod,
        Operation::Chown,
        Operation::Unlink,
    ];

    fn is_of_folder(self) -> bool {
        matches!(self, Operation::Search | Operation::Unlink)
    }
    /// Returns the result by the rules.
    fn expected(self, user: User, object: Object) -> Result<(), i32> {
        let overrides = user.has(CAP_DAC_OVERRIDE);
        let reads = overrides || user.has(CAP_DAC_READ_SEARCH);
        // Somebody may execute it: the mask of a list counts.
        let is_program = object.is_open || object.list != List::None;
        let (is_allowed, rule, refusal) = match self {
            Operation::Read => (object.gives() || reads, Rule::Read, EACCES),
            Operation::Write => (object.gives() || overrides, Rule::Write, EACCES),
            Operation::Execute => {
                (object.gives() || overrides && is_program, Rule::Execute, EACCES)
            }
            Operation::Search => (object.gives() || reads, Rule::Read, EACCES),
            Operation::Chmod => (object.is_owned || user.has(CAP_FOWNER), Rule::Write, EPERM),
            Operation::Chown => (object.is_owned || user.has(CAP_CHOWN), Rule::Write, EPERM),
            Operation::Unlink => (object.gives() || overrides, Rule::Write, EACCES),
        };
        let subject = Subject { grade: Grade::User, privilege: None };
        match (
            Rule::Read.allows(subject, object.cell),
            is_allowed,
            rule.allows(subject, object.cell),
        ) {
            (false, ..) | (true, true, false) => Err(EACCES),
            (true, false, _) => Err(refusal),
            (true, true, true) => Ok(()),
        }
    }
    fn attempt(self, user: User, object: Object, path: &Path) -> Result<(), i32> {
        let name = c(path);
        match self {
            Operation::Read => abi::open(path, O_RDONLY, 0).map(close),
            Operation::Write => abi::open(path, O_WRONLY, 0).map(close),
            Operation::Execute => executes(path),
            Operation::Search => abi::stat(path.join("inner")).map(drop),
            // The mode and the owner are there already, so that the other subjects find the same object.
            Operation::Chmod => {
                let bits = if object.is_open { 0o101 * 7 } else { 0 };
                let mask = if object.list == List::None { 0 } else { 0o070 };
                done(check(unsafe { chmod(name.as_ptr(), bits | mask) }))
            }
            Operation::Chown => {
                let owner = if object.is_owned { USER } else { 0 };
                done(check(unsafe { chown(name.as_ptr(), owner, u32::MAX) }))
            }
            Operation::Unlink => {
                let name = c(path.join(format!("of{}", user.number())));
                done(check(unsafe { unlink(name.as_ptr()) }))
            }
        }
    }
}

fn path_of(stage: &Path, number: usize, operation: Operation) -> PathBuf {
    let kind = if operation.is_of_folder() { "folder" } else { "file" };
    stage.join(format!("{kind}{number}"))
}

/// Labels a file, if there are labels.
fn label(path: &Path, context: &str) {
    if mls::is_here() {
        relabel(path, context);
    }
}

/// Makes a file and a folder for each combination of rights and labels.
fn prepare(stage: &Path) {
    let own = Cell { relation: Relation::Equal, grade: Grade::User }.object();
    for (number, object) in Object::all().into_iter().enumerate() {
        let context = object.cell.object();
        let file = path_of(stage, number, Operation::Read);
        fs::write(&file, short_program()).expect("making a program");
        let folder = path_of(stage, number, Operation::Search);
        fs::create_dir(&folder).expect("making a folder");
        for user in 0..HELD.len() * 2 {
            let name = folder.join(format!("of{user}"));
            fs::write(&name, "").expect("making a file");
            label(&name, &context);
        }
        let inner = folder.join("inner");
        fs::write(&inner, "").expect("making a file");
        label(&inner, &own);
        for path in [&file, &folder] {
            object.set(path);
            label(path, &context);
        }
    }
}

/// Tries all operations as a subject.
fn play(stage: &Path, user: User) {
    assert_eq!(unsafe { getuid() }, USER);
    let (mut wrong, mut allowed, mut refused) = (Vec::new(), 0, 0);
    for operation in Operation::ALL {
        for (number, object) in Object::all().into_iter().enumerate() {
            let path = path_of(stage, number, operation);
            let found = operation.attempt(user, object, &path);
            let expected = operation.expected(user, object);
            match expected {
                Ok(()) => allowed += 1,
                Err(_) => refused += 1,
            }
            if found != expected {
                wrong.push(format!(
                    "{operation:?} {user:?} {object:?}: {found:?}, not {expected:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), allowed + refused, wrong.join("\n"));
    println!("{user:?}: {allowed} allowed, {refused} refused");
}

/// Becomes the user with these capabilities, which the next program keeps.
fn become_user(capabilities: &[u32]) {
    const PR_CAP_AMBIENT: i32 = 47;
    const PR_CAP_AMBIENT_RAISE: u64 = 2;
    must(unsafe { prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) });
    abi::identity::become_user(USER);
    let bits = capabilities.iter().fold(0u32, |bits, number| bits | 1 << number);
    let (header, sets) = ([0x2008_0522u32, 0], [[bits; 3], [0; 3]]);
    must(unsafe { syscall(SYS_capset, header.as_ptr(), sets.as_ptr()) });
    for number in capabilities {
        must(unsafe { prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, u64::from(*number), 0, 0) });
    }
}

fn run(stage: &Path, user: User) {
    let child = fork(|| {
        if mls::is_here() {
            fs::write("/proc/self/attr/exec", user.context()).expect("asking for the context");
        }
        become_user(HELD[user.held]);
        let mut command = Command::new(stage.join("program"));
        command.args([TEST, "--exact", "--test-threads=1"]);
        command.env("MLS_PART", "try").env("STAGE", stage);
        let why = command
            .env("HELD", user.held.to_string())
            .env("KEPT", i32::from(user.is_kept).to_string())
            .exec();
        panic!("{why}");
    });
    assert_eq!(wait(child), Ended::Exited(0), "{user:?}");
}

#[test]
fn rights_of_files_labels_and_capabilities_compose() {
    // SAFETY: takes no pointers.
    if unsafe { getuid() } != 0 && mls::part().is_none() {
        return;
    }
    if mls::part().is_some() {
        let user = User { held: mls::given("HELD") as usize, is_kept: mls::given("KEPT") == 1 };
        return play(Path::new(&env::var("STAGE").expect("a stage")), user);
    }
    isolated(|| {
        unsafe { umask(0) };
        let scratch = Scratch::of_levels_on_disk();
        let stage = scratch.path("");
        must(unsafe { chmod(c(&stage).as_ptr(), 0o755) });
        if mls::is_here() {
            policy::load();
            relabel(&stage, "system_u:object_r:mo_untrusted_t:s0");
        }
        let program = stage.join("program");
        open_program(&program);
        prepare(&stage);
        for held in 0..HELD.len() {
            run(&stage, User { held, is_kept: true });
            if mls::is_here() {
                run(&stage, User { held, is_kept: false });
            }
        }
    });
}

/// Makes a copy of this program that the user may execute to enter a domain.
fn open_program(path: &Path) {
    fs::copy("/proc/self/exe", path).expect("copying the program");
    must(unsafe { chmod(c(path).as_ptr(), 0o755) });
    label(path, "system_u:object_r:shell_exec_t:s0");
}
