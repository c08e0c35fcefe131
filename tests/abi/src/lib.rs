//! Helpers for the ABI tests, which are ordinary programs for Linux x86-64. The same binaries run first on
//! the host's Linux and then on Skerry. A test that fails on Linux is wrong.
//!
//! Each test runs in a process of its own ([`isolated`]), so that signals, limits, sessions and working
//! directories of one test do not affect another. If the harness runs several tests at once, that process
//! is the same binary, executed again for the one test: a fork would leave it the locks that the harness's
//! other threads held, and the standard library has some that cannot be avoided (stdout's, and the table of
//! stacks that each starting thread enters; fork(2): the child has the calling thread only).
pub mod arguments;
pub mod cases;
pub mod checked;
pub mod identity;
pub mod internet;
pub mod ipc;
pub mod jobs;
pub mod mls;
pub mod mounting;
pub mod pages;
pub mod pty;
pub mod returns;
pub mod rights;
pub mod seccomp;
pub mod smaps;
pub mod tasks;

use std::{
    ffi::CString,
    panic::PanicHookInfo,
    path::PathBuf,
    sync::{
        Once,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// The end of a child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The process exited with this status.
    Exited(i32),
    /// The process was ended by this signal.
    Signalled(i32),
}

/// Returns the last call's error number.
pub fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Returns the result of a raw call, or its error number.
///
/// # Errors
/// The error number, if the call returned -1.
pub fn check(result: impl Into<i64>) -> Result<i64, i32> {
    match result.into() {
        -1 => Err(errno()),
        value => Ok(value),
    }
}

/// Returns the result of a raw call that must succeed.
///
/// # Panics
/// Panics with the error if it fails.
#[track_caller]
pub fn must(result: impl Into<i64>) -> i64 {
    match check(result) {
        Ok(value) => value,
        Err(number) => panic!("{}", std::io::Error::from_raw_os_error(number)),
    }
}

/// Converts a path to the kernel's form.
///
/// # Panics
/// Panics if the path holds a NUL.
pub fn c(path: impl AsRef<std::path::Path>) -> CString {
    CString::new(path.as_ref().as_os_str().as_encoded_bytes()).expect("no NUL in a test's path")
}

/// Whether this process is a test's own and not the harness.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Makes a child's panics write past the standard library: its streams are locked, and the part that the
/// harness captures ends with the child.
fn install_panic_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let harness = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            if IS_CHILD.load(Relaxed) {
                let _ = write(libc::STDERR_FILENO, format!("{info}\n").as_bytes());
            } else {
                harness(info);
            }
        }));
    });
}

/// Forks. `body` runs in the child, which exits 0 after it or 101 if it panicked. Returns the child's id.
pub fn fork(body: impl FnOnce()) -> libc::pid_t {
    install_panic_hook();
    // SAFETY: the harness's only other thread waits for this one and holds nothing.
    match unsafe { libc::fork() } {
        0 => {
            IS_CHILD.store(true, Relaxed);
            // The standard library's own handlers for stack overflow are not tested.
            for signal in [libc::SIGSEGV, libc::SIGBUS] {
                // SAFETY: the default action.
                unsafe { libc::signal(signal, libc::SIG_DFL) };
            }
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            // SAFETY: ends the child without running the harness's exit handlers.
            unsafe { libc::_exit(if result.is_ok() { 0 } else { 101 }) }
        }
        child => {
            must(child);
            child
        }
    }
}

/// Waits for `child` and returns its end.
///
/// # Panics
/// Panics if there is no such child.
#[track_caller]
pub fn wait(child: libc::pid_t) -> Ended {
    let mut status = 0;
    loop {
        // SAFETY: `status` outlives the call.
        match check(unsafe { libc::waitpid(child, &mut status, 0) }) {
            Err(libc::EINTR) => {}
            Err(number) => panic!("waitpid: {number}"),
            Ok(_) => break,
        }
    }
    if libc::WIFEXITED(status) {
        Ended::Exited(libc::WEXITSTATUS(status))
    } else {
        Ended::Signalled(libc::WTERMSIG(status))
    }
}

/// The option that makes the harness run one test after the other. Without it several may run at once.
const ONE_AT_A_TIME: &str = "--test-threads=1";

/// Runs a test's body in a process of its own.
///
/// # Panics
/// Panics if the body panicked or died.
#[track_caller]
pub fn isolated(body: impl FnOnce()) {
    if !std::env::args().any(|argument| argument == ONE_AT_A_TIME) {
        return run_anew();
    }
    assert_eq!(
        wait(fork(body)),
        Ended::Exited(0),
        "the test's process failed; its message is above"
    );
}

/// Runs the calling test alone in a new process of this binary.
#[track_caller]
fn run_anew() {
    let thread = std::thread::current();
    let name = thread.name().expect("the harness names a test's thread by the test");
    let binary = std::env::current_exe().expect("/proc/self/exe");
    let output = std::process::Command::new(binary)
        .args([name, "--exact", ONE_AT_A_TIME])
        .output()
        .expect("running the test binary");
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{complaint}");
}

/// A fresh folder for one test, removed when dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes a new folder under /tmp.
    ///
    /// # Panics
    /// Panics if the folder cannot be made.
    #[allow(clippy::new_without_default, reason = "makes a folder; a default should do nothing")]
    pub fn new() -> Scratch {
        Scratch::under("/tmp")
    }
    /// Makes the folder on the disk the system runs from, where /tmp may be in memory.
    ///
    /// # Panics
    /// Panics if the folder cannot be made.
    pub fn on_disk() -> Scratch {
        std::fs::create_dir_all("/var/tmp").expect("making /var/tmp");
        Scratch::under("/var/tmp")
    }
    /// Makes a new folder in memory.
    ///
    /// # Panics
    /// Panics if the folder cannot be made.
    pub fn in_memory() -> Scratch {
        Scratch::under("/dev/shm")
    }
    /// Makes a new folder in memory that processes of all levels find by the same name: /tmp may be multilevel.
    ///
    /// # Panics
    /// Panics if the folder cannot be made.
    pub fn of_levels() -> Scratch {
        Scratch::under("/run")
    }
    /// Makes such a folder on the disk the system runs from.
    ///
    /// # Panics
    /// Panics if the folder cannot be made.
    pub fn of_levels_on_disk() -> Scratch {
        Scratch::under("/mnt")
    }
    fn under(folder: &str) -> Scratch {
        let mut name = format!("{folder}/abi-XXXXXX\0").into_bytes();
        // SAFETY: a writable NUL-terminated template.
        let made = unsafe { libc::mkdtemp(name.as_mut_ptr().cast()) };
        assert!(!made.is_null(), "mkdtemp: {}", errno());
        name.pop();
        Scratch(PathBuf::from(String::from_utf8(name).expect("mkdtemp keeps it ASCII")))
    }
    /// Returns a path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
    /// Makes a file in the folder.
    ///
    /// # Panics
    /// Panics if the file cannot be written.
    pub fn file(&self, name: &str, contents: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, contents).expect("writing a scratch file");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Makes a pipe. Returns its read end and its write end.
#[track_caller]
pub fn pipe() -> (i32, i32) {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors.
    must(unsafe { libc::pipe(ends.as_mut_ptr()) });
    (ends[0], ends[1])
}

/// Closes a descriptor that is open.
#[track_caller]
pub fn close(fd: i32) {
    // SAFETY: the descriptor is the test's own.
    must(unsafe { libc::close(fd) });
}

/// Reads once, up to `most` bytes.
///
/// # Errors
/// The error number.
pub fn read(fd: i32, most: usize) -> Result<Vec<u8>, i32> {
    let mut buffer = vec![0; most];
    // SAFETY: the buffer is `most` long.
    let count = check(unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), most) } as i64)?;
    buffer.truncate(count as usize);
    Ok(buffer)
}

/// Makes one write call.
///
/// # Errors
/// The error number.
pub fn write(fd: i32, data: &[u8]) -> Result<usize, i32> {
    // SAFETY: the slice is readable for its length.
    check(unsafe { libc::write(fd, data.as_ptr().cast(), data.len()) } as i64)
        .map(|count| count as usize)
}

/// Opens a path.
///
/// # Errors
/// The error number.
pub fn open(path: impl AsRef<std::path::Path>, flags: i32, mode: u32) -> Result<i32, i32> {
    // SAFETY: a NUL-terminated path.
    check(unsafe { libc::open(c(path).as_ptr(), flags, mode) }).map(|fd| fd as i32)
}

/// Returns a zeroed C structure.
///
/// # Safety
/// All zeroes must be a valid `T`.
pub unsafe fn zeroed<T>() -> T {
    // SAFETY: the caller says so.
    unsafe { std::mem::zeroed() }
}

/// Returns the status of a path.
///
/// # Errors
/// The error number.
pub fn stat(path: impl AsRef<std::path::Path>) -> Result<libc::stat, i32> {
    // SAFETY: plain numbers.
    let mut stat: libc::stat = unsafe { zeroed() };
    // SAFETY: a NUL-terminated path and room for the answer.
    check(unsafe { libc::stat(c(path).as_ptr(), &mut stat) })?;
    Ok(stat)
}

/// Reads a clock in nanoseconds.
#[track_caller]
pub fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for the answer.
    must(unsafe { libc::clock_gettime(clock, &mut time) });
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Installs a handler without siginfo.
#[track_caller]
pub fn handle(signal: i32, handler: extern "C" fn(i32), flags: i32) {
    // SAFETY: plain numbers and an empty mask.
    let mut action: libc::sigaction = unsafe { zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = flags;
    // SAFETY: a whole sigaction, and the handler lives for ever.
    must(unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) });
}
