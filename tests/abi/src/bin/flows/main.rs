//! Random system calls of subjects at several labels, beside each other, which look for flows that the lattice forbids:
//! `flows COUNT SEED`, with all privileges of a system with a monitor, starts a subject of each kind ([`lattice::SUBJECTS`]).
//!
//! A subject puts its token into everything that it writes: bytes, names, attributes, targets of links, messages, memory. It looks for
//! tokens in everything that it receives; one of a subject that it does not dominate is a flow. So is a change, a lock or a signal that
//! must be refused, and a process that must not be found. At the end the files are read: each has only tokens of subjects that its
//! level dominates. Half of the calls are such deeds (`deeds`), half are any calls with arguments of the right types.
#[path = "../random_calls/children.rs"]
mod children;
mod deeds;
mod labels;
mod lattice;
mod objects;
#[path = "../random_calls/shapes.rs"]
mod shapes;
mod subject;

use abi::{close, fork, mls::label, must};
use labels::{attributes_of, label_of};
use lattice::{FOLDERS, SUBJECTS, first_bad, tokens};
use std::{
    env, fs,
    io::Read,
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

/// Places of folders: in memory and on a disk. They do not exist when the test starts.
const STAGES: [&str; 2] = ["/run/flows", "/mnt/flows"];
/// The user of all subjects, so that no mode of a file keeps one from another's.
const USER: u32 = 65534;
/// The lowest of the descriptors that all subjects are given.
const GIVEN: i32 = 100;
/// Their number.
const GIVEN_COUNT: i32 = 6;

fn report(name: &str) -> PathBuf {
    Path::new(STAGES[0]).join(format!("report-{name}"))
}

/// The file with the processes of the subjects.
fn processes() -> PathBuf {
    Path::new(STAGES[0]).join("processes")
}

/// Makes the folders, the reports and the program that may enter the subjects' domains.
fn prepare() -> PathBuf {
    for stage in STAGES {
        fs::create_dir(stage).expect("making the stage");
        label(Path::new(stage), "system_u:object_r:tmp_t:s0");
        for folder in FOLDERS {
            let path = Path::new(stage).join(folder.name);
            fs::create_dir(&path).expect("making a folder");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("opening it");
            label(&path, folder.label);
        }
    }
    for subject in SUBJECTS {
        let path = report(subject.name);
        fs::write(&path, "").expect("making a report");
        chown(&path, Some(USER), Some(USER)).expect("giving it away");
        let level = subject.context.splitn(4, ':').nth(3).unwrap_or_default();
        label(&path, &format!("system_u:object_r:tmp_t:{level}"));
    }
    let program = Path::new(STAGES[0]).join("program");
    fs::copy("/proc/self/exe", &program).expect("copying the program");
    label(&program, "system_u:object_r:shell_exec_t:s0");
    program
}

/// Opens objects that all subjects are given: the system takes from each those that it may not have.
fn give() {
    let (mut ends, mut pair) = ([0; 2], [0; 2]);
    // SAFETY: room for two descriptors.
    must(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK) });
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
    // SAFETY: as above.
    must(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) });
    let high = Path::new(STAGES[1]).join("high").join("given");
    let high = abi::open(high, libc::O_RDWR | libc::O_CREAT, 0o666).expect("a file above");
    // SAFETY: the name ends with NUL.
    let memory = must(unsafe { libc::memfd_create(c"given".as_ptr(), 0) }) as i32;
    for (place, file) in [ends[0], ends[1], pair[0], pair[1], high, memory].iter().enumerate() {
        // SAFETY: takes no pointers.
        must(unsafe { libc::dup2(*file, GIVEN + place as i32) });
        close(*file);
    }
}

/// Starts a subject, and returns its process.
fn start(program: &Path, place: usize, count: &str, seed: u64) -> libc::pid_t {
    fork(|| {
        // SAFETY: takes no pointers.
        must(unsafe { libc::setsid() });
        fs::write("/proc/self/attr/exec", SUBJECTS[place].context).expect("asking for a context");
        // SAFETY: no groups are read.
        must(unsafe { libc::setgroups(0, std::ptr::null()) });
        // SAFETY: plain numbers.
        must(unsafe { libc::setresgid(USER, USER, USER) });
        // SAFETY: plain numbers.
        must(unsafe { libc::setresuid(USER, USER, USER) });
        let words = ["subject", &place.to_string(), count, &seed.to_string()];
        panic!("{}", Command::new(program).args(words).env_clear().exec());
    })
}

/// Waits for the end of a process, which keeps its number: subjects must find no other process by it.
fn wait_for_end(child: libc::pid_t) {
    // SAFETY: all zeroes are an empty report.
    let mut report: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOWAIT;
    // SAFETY: there is room for the report.
    must(unsafe { libc::waitid(libc::P_PID, child as libc::id_t, &mut report, options) });
}

fn wait_for(child: libc::pid_t, options: i32) -> i32 {
    let mut status = 0;
    // SAFETY: the address is that of a word.
    must(unsafe { libc::waitpid(child, &mut status, options) });
    status
}

/// Runs all subjects, and returns the flows that were found.
fn run(count: u64, seed: u64) -> Vec<String> {
    let program = prepare();
    give();
    let each = (count / SUBJECTS.len() as u64).to_string();
    let started: Vec<_> = (0..SUBJECTS.len())
        .map(|place| start(&program, place, &each, seed.wrapping_mul(64) + place as u64))
        .collect();
    let mut flows = Vec::new();
    for (child, subject) in started.iter().zip(SUBJECTS) {
        let status = wait_for(*child, libc::WUNTRACED);
        assert!(libc::WIFSTOPPED(status), "{} does not start: {status:#x}", subject.name);
    }
    let known: Vec<String> = started.iter().map(ToString::to_string).collect();
    fs::write(processes(), known.join(" ")).expect("telling the processes");
    for child in &started {
        // SAFETY: takes no pointers.
        must(unsafe { libc::kill(*child, libc::SIGCONT) });
    }
    started.iter().for_each(|child| wait_for_end(*child));
    for (child, subject) in started.iter().zip(SUBJECTS) {
        let status = wait_for(*child, 0);
        // Subjects of its level can write to it, so there are other lines.
        let text = fs::read(report(subject.name)).expect("a report");
        let text = String::from_utf8_lossy(&text).into_owned();
        let told = text.lines().find(|line| line.contains("children died"));
        println!("{}: {}", subject.name, told.unwrap_or("no report"));
        if status != 0 {
            flows.push(format!("{} ended with {status:#x}", subject.name));
        }
        flows.extend(text.lines().filter(|line| line.starts_with("flow: ")).map(str::to_owned));
    }
    for place in STAGES.iter().chain(&["/tmp", "/var/tmp", "/dev/shm"]) {
        look_through(Path::new(place), &mut flows);
    }
    flows
}

/// Looks for tokens of subjects that may not write to a directory or to the files in it, but for the program, which has the tokens'
/// first bytes.
fn look_through(directory: &Path, flows: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let holder = label_of(directory);
    for entry in entries.flatten().filter(|entry| entry.file_name() != "program") {
        let (path, name) = (entry.path(), entry.file_name());
        check(&path, &holder, name.as_bytes(), flows);
        let Ok(kind) = entry.file_type() else { continue };
        let own = label_of(&path);
        for value in attributes_of(&path) {
            check(&path, &own, &value, flows);
        }
        if kind.is_dir() {
            look_through(&path, flows);
        } else if kind.is_symlink() {
            let target = fs::read_link(&path).unwrap_or_default();
            check(&path, &own, target.as_os_str().as_bytes(), flows);
        } else if kind.is_file() {
            check(&path, &own, &head(&path), flows);
        }
    }
}

/// Returns the first bytes of a file: calls make files longer than memory, and write to their start.
fn head(path: &Path) -> Vec<u8> {
    const MOST: u64 = 8 << 20;
    let mut bytes = Vec::new();
    let _ = fs::File::open(path).map(|file| file.take(MOST).read_to_end(&mut bytes));
    bytes
}

/// Checks that all tokens in `bytes` are of subjects that the level of an object with the label `context` dominates: others may copy
/// what they may read.
fn check(path: &Path, context: &str, bytes: &[u8], flows: &mut Vec<String>) {
    let level = context.splitn(4, ':').nth(3).unwrap_or_default();
    let Some(folder) = FOLDERS.iter().find(|folder| folder.label.ends_with(&format!(":{level}")))
    else {
        return;
    };
    if let Some(bad) = first_bad(tokens(bytes), |by| folder.secrecy.dominates(by.secrecy)) {
        let name = SUBJECTS[bad].name;
        flows.push(format!("flow: {} ({context}) holds what {name} wrote", path.display()));
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse().ok());
    if words.get(1).is_some_and(|word| word == "subject") {
        let given = (number(2), number(3), number(4));
        let (Some(place), Some(count), Some(seed)) = given else { return ExitCode::FAILURE };
        let is_good = subject::run(place as usize, count, seed);
        return ExitCode::from(u8::from(!is_good));
    }
    let (Some(count), Some(seed)) = (number(1), number(2)) else {
        eprintln!("usage: flows COUNT SEED");
        return ExitCode::FAILURE;
    };
    let flows = run(count, seed);
    flows.iter().for_each(|flow| println!("{flow}"));
    println!("{count} calls, {} flows", flows.len());
    ExitCode::from(u8::from(!flows.is_empty()))
}
