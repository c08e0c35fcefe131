//! The programs of the noninterference test (K1). `run`, which needs all privileges of a system with a monitor, reads a seed or
//! `idle` from its stdin, and starts an observer at a low level and a worker at a high one. In turns the worker works, by its seed or not at all, and the
//! observer writes down everything that it can see. Then the observer's transcript is printed: it must not depend on the worker.
//!
//! Both stop themselves at the end of a turn (SIGSTOP), and the one that runs them lets them go on: no other object connects them.
mod counts;
mod observer;
mod worker;

use abi::{
    close, fork,
    mls::{HIGH, LOW, label},
    must, pipe, read,
};
use std::{
    env, fs, io,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
};

const TURNS: u32 = 4;
/// The folder in which both work. It does not exist when the test starts.
const STAGE: &str = "/run/stage";
/// The same on a disk.
const DISK_STAGE: &str = "/mnt/stage";

/// The folder of a level on a stage.
fn folder(stage: &str, level: &str) -> PathBuf {
    Path::new(stage).join(level)
}

/// Ends the turn of this process.
fn end_turn() {
    // SAFETY: takes no pointers.
    must(unsafe { libc::raise(libc::SIGSTOP) });
}

/// Makes the folders, each with the label of its level, and the program that may enter both.
fn prepare() -> PathBuf {
    for stage in [STAGE, DISK_STAGE] {
        fs::create_dir_all(stage).expect("making the stage");
        label(Path::new(stage), "system_u:object_r:tmp_t:s0");
        for (level, context) in
            [("low", "system_u:object_r:tmp_t:s0"), ("high", "system_u:object_r:tmp_t:s2")]
        {
            let path = folder(stage, level);
            fs::create_dir(&path).expect("making a folder");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("opening it");
            label(&path, context);
        }
    }
    let program = Path::new(STAGE).join("program");
    fs::copy("/proc/self/exe", &program).expect("copying the program");
    label(&program, "system_u:object_r:shell_exec_t:s0");
    program
}

/// Starts the program at a context, in a session of its own, and returns its id after its first turn.
fn start(program: &Path, context: &str, arguments: &[&str]) -> libc::pid_t {
    let (reader, writer) = pipe();
    for end in [reader, writer] {
        // SAFETY: takes no pointers.
        must(unsafe { libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC) });
    }
    let child = fork(|| {
        close(reader);
        // SAFETY: takes no pointers.
        must(unsafe { libc::setsid() });
        fs::write("/proc/self/attr/exec", context).expect("asking for the context");
        let null = || fs::File::options().read(true).write(true).open("/dev/null").expect("null");
        let why = Command::new(program)
            .args(arguments)
            .env_clear()
            .stdin(null())
            .stdout(null())
            .stderr(null())
            .exec();
        abi::write(writer, why.to_string().as_bytes()).expect("telling why");
    });
    close(writer);
    let why = read(reader, 200).expect("reading");
    assert!(why.is_empty(), "{}", String::from_utf8_lossy(&why));
    close(reader);
    wait_for_stop(child);
    child
}

/// Waits until a process has stopped.
fn wait_for_stop(child: libc::pid_t) {
    let mut status = 0;
    // SAFETY: the address is that of a word.
    must(unsafe { libc::waitpid(child, &mut status, libc::WUNTRACED) });
    assert!(libc::WIFSTOPPED(status), "the process ended with {status:#x}");
}

fn go_on(child: libc::pid_t) {
    // SAFETY: takes no pointers.
    must(unsafe { libc::kill(child, libc::SIGCONT) });
    wait_for_stop(child);
}

fn run(seed: &str) {
    let program = prepare();
    let worker = start(&program, HIGH, &["work", seed]);
    let observer = start(&program, LOW, &["observe"]);
    for _ in 0..TURNS {
        go_on(worker);
        go_on(observer);
    }
    for child in [worker, observer] {
        // SAFETY: takes no pointers.
        must(unsafe { libc::kill(child, libc::SIGKILL) });
        let mut status = 0;
        // SAFETY: the address is that of a word.
        must(unsafe { libc::waitpid(child, &mut status, 0) });
    }
    let transcript = fs::read(folder(STAGE, "low").join(observer::TRANSCRIPT));
    print!("{}", String::from_utf8_lossy(&transcript.expect("the transcript")));
    let report = fs::read_to_string(folder(STAGE, "high").join(worker::REPORT));
    eprintln!("the worker's calls: {}", report.expect("the worker's report"));
}

fn main() {
    let arguments: Vec<String> = env::args().collect();
    match arguments.iter().map(String::as_str).skip(1).collect::<Vec<_>>()[..] {
        ["run"] => {
            // The random numbers of all levels come from one generator; addresses would show how many were taken.
            // SAFETY: takes no pointers.
            must(unsafe { libc::personality(libc::ADDR_NO_RANDOMIZE as _) });
            panic!("{}", Command::new("/proc/self/exe").arg("direct").exec());
        }
        ["direct"] => {
            let mut seed = String::new();
            io::stdin().read_line(&mut seed).expect("a seed");
            run(seed.trim());
        }
        ["observe"] => observer::run(),
        ["work", "idle"] => worker::run(None),
        ["work", seed] => worker::run(Some(seed.parse().expect("a seed"))),
        _ => eprintln!("usage: echo SEED|idle | noninterference run"),
    }
}
