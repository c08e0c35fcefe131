//! `audit_load TAG COUNT`: makes so many accesses that the monitor refuses, each of which has an audit record with `comm="TAG-NUMBER"`,
//! and prints the number once the call has returned. COUNT 0 goes on for ever. It is started in a domain with all privileges, and makes the
//! accesses as an ordinary user's program of the lowest level.
use std::{
    env, fs,
    io::{self, Write},
    os::unix::process::CommandExt,
    process::Command,
};

/// A file that no such program reads.
const TARGET: &str = "/proc/skerry/audit_records";
/// The argument of the program in the other domain.
const INSIDE: &str = "inside";

fn main() {
    let arguments: Vec<String> = env::args().collect();
    let [_, tag, count, rest @ ..] = arguments.as_slice() else {
        panic!("audit_load TAG COUNT");
    };
    if rest.first().is_some_and(|word| word == INSIDE) {
        return work(tag, count.parse().expect("a number"));
    }
    let program = env::temp_dir().join(format!("audit-load-{}", std::process::id()));
    fs::copy("/proc/self/exe", &program).expect("copying the program");
    abi::mls::label(&program, "system_u:object_r:shell_exec_t:s0");
    fs::write("/proc/self/attr/exec", abi::mls::LOW).expect("asking for the context");
    let error = Command::new(&program).args([tag.as_str(), count, INSIDE]).exec();
    panic!("{}: {error}", program.display());
}

fn work(tag: &str, count: u64) {
    let numbers = 0..if count == 0 { u64::MAX } else { count };
    for number in numbers {
        let name = abi::c(format!("{tag}-{number}"));
        // SAFETY: the string ends with NUL and lives until the call ends.
        abi::must(unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) });
        let refusal = fs::File::open(TARGET).expect_err("it is above");
        assert_eq!(refusal.raw_os_error(), Some(libc::EACCES));
        io::stdout().write_all(format!("{number}\n").as_bytes()).expect("telling");
    }
}
