//! The program that is executed: it reports its rights.
use abi::{c, check, stat};
use libc::{c_long, c_ulong};
use std::{
    ffi::CString,
    time::{Duration, Instant},
};

/// The first argument of the program that is executed.
pub const NAME: &str = "program";
/// The first argument of a program that another thread executes; it ends at once.
pub const OTHER_NAME: &str = "another";
/// Descriptor to which it reports.
pub const REPORT_FD: i32 = 9;
/// The descriptor of the file that only root may read.
pub const KEY_FD: i32 = 30;
/// A file that only root may read.
pub const KEY: &str = "/tmp/rights-key";
/// The contents of [`KEY`].
pub const KEY_TEXT: &[u8; 16] = b"root's alone....";

const ROUNDS: usize = 20;
const UMASK: u32 = 0o027;

/// The report of a program about itself.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Report {
    /// Real, effective and saved user.
    pub users: [u32; 3],
    /// Real, effective and saved group.
    pub groups: [u32; 3],
    /// Permitted capabilities.
    pub permitted: u64,
    /// `AT_SECURE`.
    pub secure: u32,
    /// `PR_GET_DUMPABLE`.
    pub dumpable: u32,
    /// `PR_GET_SECCOMP`.
    pub filter: u32,
    /// `PR_GET_NO_NEW_PRIVS`.
    pub confined: u32,
    /// `PR_GET_PDEATHSIG`.
    pub death_signal: u32,
    /// personality(2).
    pub personality: u32,
    /// Its umask, directory or a descriptor changed without its doing.
    pub moved: u32,
    /// Makes the size a multiple of the alignment.
    pub unused: u32,
}

const REPORT_BYTES: usize = size_of::<Report>();

/// Executes `path`, which is the program.
pub fn become_program(path: &CString) {
    become_named(path, NAME);
}

/// Executes `path` with `name` as its first argument.
pub fn become_named(path: &CString, name: &str) {
    let words = [c(name).into_raw().cast_const(), std::ptr::null()];
    // A large environment, which must be copied, makes the exec longer.
    let long = c("x".repeat(100 << 10)).into_raw().cast_const();
    let environment = [long, long, long, long, std::ptr::null()];
    // SAFETY: NUL-terminated strings, and lists that end with a null pointer.
    unsafe { libc::execve(path.as_ptr(), words.as_ptr(), environment.as_ptr()) };
}

/// Reads the report of `child`; `None` if the child has ended without one, or sends none in time.
pub fn read_report(from: i32, child: i32, patience: Duration) -> Option<Report> {
    const LOOK_MS: i32 = 10;
    let start = Instant::now();
    let mut poll = libc::pollfd { fd: from, events: libc::POLLIN, revents: 0 };
    let mut has_ended = false;
    while start.elapsed() < patience {
        // SAFETY: one structure.
        if unsafe { libc::poll(&mut poll, 1, LOOK_MS) } > 0 {
            let mut report = Report::default();
            // SAFETY: room for a report, all bit patterns of which are values.
            let count = unsafe { libc::read(from, (&raw mut report).cast(), REPORT_BYTES) };
            return (count == REPORT_BYTES as isize).then_some(report);
        }
        // Other processes may hold the descriptor open. A report that came before the end is found in one
        // more round.
        if has_ended {
            return None;
        }
        // SAFETY: asks for no status.
        has_ended = unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::WNOHANG) } == child;
    }
    None
}

fn control(option: i32) -> u32 {
    // SAFETY: options without arguments.
    unsafe { libc::prctl(option, 0 as c_ulong, 0 as c_ulong, 0 as c_ulong, 0 as c_ulong) as u32 }
}

fn permitted() -> u64 {
    let header = [0x2008_0522u32, 0];
    let mut data = [0u32; 6];
    // SAFETY: a header and two structures of three words.
    unsafe { libc::syscall(libc::SYS_capget as c_long, header.as_ptr(), data.as_mut_ptr()) };
    u64::from(data[1]) | u64::from(data[4]) << 32
}

/// Returns whether state that only this process may change has changed.
fn is_moved() -> bool {
    // SAFETY: plain numbers.
    unsafe { libc::umask(UMASK) };
    let places = || {
        (
            std::env::current_dir().ok(),
            stat(format!("/proc/self/fd/{REPORT_FD}")).map(|it| it.st_ino),
        )
    };
    let before = places();
    (0..ROUNDS).any(|_| {
        std::thread::yield_now();
        // SAFETY: plain numbers.
        unsafe { libc::umask(UMASK) != UMASK || places() != before }
    })
}

/// Writes the report, and waits to be ended.
pub fn run() {
    let mut report = Report::default();
    let [real, effective, saved] = &mut report.users;
    // SAFETY: room for the answers.
    unsafe { libc::getresuid(real, effective, saved) };
    let [real, effective, saved] = &mut report.groups;
    // SAFETY: room for the answers.
    unsafe { libc::getresgid(real, effective, saved) };
    report.permitted = permitted();
    // SAFETY: no conditions.
    report.secure = unsafe { libc::getauxval(libc::AT_SECURE) } as u32;
    report.dumpable = control(libc::PR_GET_DUMPABLE);
    report.filter = control(libc::PR_GET_SECCOMP);
    report.confined = control(libc::PR_GET_NO_NEW_PRIVS);
    // SAFETY: room for the answer.
    unsafe { libc::prctl(libc::PR_GET_PDEATHSIG, &raw mut report.death_signal) };
    // SAFETY: asks only.
    report.personality = unsafe { libc::personality(0xffff_ffff) } as u32;
    // SAFETY: a NUL-terminated path; a descriptor of this process.
    if let Ok(key) = check(unsafe { libc::open(c(KEY).as_ptr(), libc::O_RDONLY) }) {
        // SAFETY: a descriptor of this process.
        unsafe { libc::dup2(key as i32, KEY_FD) };
    }
    report.moved = u32::from(is_moved());
    // SAFETY: a whole report.
    unsafe { libc::write(REPORT_FD, (&raw const report).cast(), REPORT_BYTES) };
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(0) }
}
