//! Actors at other labels, for systems with multilevel security.
//!
//! The test, which has all privileges there, starts programs that are this binary again: they run the same test, and find the
//! name of their part in the environment.
use crate::{Ended, Scratch, c, close, fork, must, pipe, read, wait};
use std::{env, ffi::CString, fs, path::PathBuf};

/// The environment variable with the name of an actor's part.
const PART: &str = "MLS_PART";
/// The one with the name of the test.
const TEST: &str = "MLS_TEST";
/// The one with the path of the program that enters the domains of ordinary programs.
const PROGRAM: &str = "MLS_PROGRAM";
/// The type of files by whose execution the policy lets a program enter another domain.
const SHELL: &str = "system_u:object_r:shell_exec_t:s0";
/// The type of the file that logs users in.
const LOGIN: &str = "system_u:object_r:login_exec_t:s0";

/// The context of an ordinary program at the lowest level.
pub const LOW: &str = "user_u:user_r:user_t:s0";
/// The context of an ordinary program that is above [`LOW`].
pub const HIGH: &str = "user_u:user_r:user_t:s2";
/// The context of the program that logs users in: it starts programs at each level, and reads none above its own.
pub const ENTRANCE: &str = "system_u:system_r:login_t:s0-s15:c0.c1023";

/// Returns whether the system has a monitor.
pub fn is_here() -> bool {
    fs::metadata("/proc/self/attr/current").is_ok() && context_of("self").is_some()
}

/// Returns the context of a process, if the system has contexts.
pub fn context_of(process: &str) -> Option<String> {
    let text = fs::read(format!("/proc/{process}/attr/current")).ok()?;
    let text = text.strip_suffix(b"\0").unwrap_or(&text).to_vec();
    String::from_utf8(text).ok()
}

/// Returns the part that this process plays; `None` for the test itself.
pub fn part() -> Option<String> {
    env::var(PART).ok()
}

/// Returns a number that the test gave to its actors.
///
/// # Panics
/// Panics if there is none.
pub fn given(name: &str) -> i32 {
    env::var(name).expect("it is given").parse().expect("a number")
}

/// Sets the context of a file.
pub fn label(path: &std::path::Path, context: &str) {
    let (path, name, text) = (c(path), c"security.selinux", c(context));
    let bytes = text.as_bytes_with_nul().len();
    // SAFETY: the strings end with NUL, and the text has that many bytes.
    must(unsafe { libc::setxattr(path.as_ptr(), name.as_ptr(), text.as_ptr().cast(), bytes, 0) });
}

/// The test that starts actors.
pub struct Stage {
    _scratch: Scratch,
    shell: PathBuf,
    login: PathBuf,
    test: String,
    given: Vec<(String, i32)>,
}

impl Stage {
    /// Makes the program of the actors, which run the test `test`.
    ///
    /// # Panics
    /// Panics if it cannot be made.
    pub fn new(test: &str) -> Stage {
        let scratch = Scratch::new();
        let (shell, login) = (scratch.path("shell"), scratch.path("login"));
        for (path, context) in [(&shell, SHELL), (&login, LOGIN)] {
            fs::copy("/proc/self/exe", path).expect("copying the binary");
            label(path, context);
        }
        Stage { _scratch: scratch, shell, login, test: test.into(), given: Vec::new() }
    }
    /// Tells the actors that are started later a number ([`given`]).
    #[must_use]
    pub fn give(mut self, name: &str, number: i32) -> Stage {
        self.given.push((name.into(), number));
        self
    }
    /// Starts an actor that plays `part` at `context` and leads a group, and returns its id once it runs there.
    ///
    /// # Panics
    /// Panics if it does not.
    pub fn start(&self, context: &str, part: &str) -> libc::pid_t {
        let program = if context == ENTRANCE { &self.login } else { &self.shell };
        let (reader, writer) = pipe();
        for end in [reader, writer] {
            // SAFETY: takes no pointers.
            must(unsafe { libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC) });
        }
        let child = fork(|| {
            for (name, number) in &self.given {
                // SAFETY: the child has one thread.
                unsafe { env::set_var(name, number.to_string()) };
            }
            // SAFETY: as above.
            unsafe { env::set_var(PROGRAM, &self.shell) };
            // SAFETY: as above.
            unsafe { env::set_var(TEST, &self.test) };
            // SAFETY: takes no pointers.
            must(unsafe { libc::setpgid(0, 0) });
            become_part(program, context, part);
        });
        close(writer);
        assert_eq!(read(reader, 1), Ok(Vec::new()), "the end closes when the program runs");
        close(reader);
        let found = context_of(&child.to_string());
        assert_eq!(found.as_deref(), Some(context), "the program runs");
        child
    }
    /// Runs an actor to its end.
    pub fn run(&self, context: &str, part: &str) -> Ended {
        wait(self.start(context, part))
    }
}

/// Executes the actors' program at another context: an actor of [`ENTRANCE`] starts others with this.
///
/// # Panics
/// Panics if it cannot be executed.
pub fn become_other(context: &str, part: &str) {
    let program = PathBuf::from(env::var(PROGRAM).expect("it is given"));
    become_part(&program, context, part);
}

fn become_part(program: &std::path::Path, context: &str, part: &str) {
    let test = env::var(TEST).expect("it is given");
    // SAFETY: the process has one thread.
    unsafe { env::set_var(PART, part) };
    fs::write("/proc/self/attr/exec", context).expect("asking for the context");
    let arguments = [c(program), c(test), c("--exact"), c("--test-threads=1")];
    let variables: Vec<CString> =
        env::vars().map(|(name, value)| c(format!("{name}={value}"))).collect();
    let list = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
    };
    // SAFETY: lists of strings that end with null.
    unsafe {
        libc::execve(arguments[0].as_ptr(), list(&arguments).as_ptr(), list(&variables).as_ptr())
    };
    panic!("execve: {}", std::io::Error::last_os_error());
}
