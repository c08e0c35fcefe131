//! Pseudo-terminals for the ABI tests: both ends, settings, and the text on the screen.
use crate::{c, check, must, read, write, zeroed};

/// Longest time the line discipline may take.
const PATIENCE_MS: i32 = 5000;
/// Time without output after which a screen counts as finished.
const QUIET_MS: i32 = 40;

/// Both ends of a pseudo-terminal; the slave is not a controlling terminal.
pub struct Pty {
    /// Descriptor of the user's end.
    pub master: i32,
    /// Descriptor of the programs' end.
    pub slave: i32,
}

/// Does an ioctl with a pointer.
///
/// # Errors
/// The error number.
pub fn ioctl<T>(fd: i32, request: libc::Ioctl, argument: &mut T) -> Result<i64, i32> {
    // SAFETY: the argument is what the request takes and outlives the call.
    check(unsafe { libc::ioctl(fd, request, std::ptr::from_mut(argument)) })
}

/// Does an ioctl with a number.
///
/// # Errors
/// The error number.
pub fn ioctl_number(fd: i32, request: libc::Ioctl, argument: libc::c_ulong) -> Result<i64, i32> {
    // SAFETY: the request takes a number.
    check(unsafe { libc::ioctl(fd, request, argument) })
}

/// Opens a new master and unlocks its slave.
///
/// # Panics
/// Panics if there are no pseudo-terminals.
#[track_caller]
pub fn master(flags: i32) -> i32 {
    // SAFETY: plain numbers.
    let master = must(unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | flags) }) as i32;
    // SAFETY: the descriptor is a master.
    must(unsafe { libc::grantpt(master) });
    // SAFETY: as above.
    must(unsafe { libc::unlockpt(master) });
    master
}

/// Returns the number of a master's slave.
#[track_caller]
pub fn number(master: i32) -> u32 {
    let mut number = 0u32;
    ioctl(master, libc::TIOCGPTN, &mut number).expect("a master");
    number
}

/// Returns the path of a master's slave.
#[track_caller]
pub fn path(master: i32) -> String {
    format!("/dev/pts/{}", number(master))
}

/// Waits until `fd` is ready for `events`, at most `timeout_ms`. Returns the events that it is
/// ready for.
#[track_caller]
pub fn poll(fd: i32, events: i16, timeout_ms: i32) -> i16 {
    let mut entry = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: one entry.
    must(unsafe { libc::poll(&mut entry, 1, timeout_ms) });
    entry.revents
}

/// Returns the settings of a terminal.
#[track_caller]
pub fn settings(fd: i32) -> libc::termios {
    // SAFETY: plain numbers.
    let mut settings: libc::termios = unsafe { zeroed() };
    // SAFETY: room for the answer.
    must(unsafe { libc::tcgetattr(fd, &mut settings) });
    settings
}

/// Changes the settings of a terminal at once.
#[track_caller]
pub fn set(fd: i32, change: impl FnOnce(&mut libc::termios)) {
    let mut new = settings(fd);
    change(&mut new);
    // SAFETY: whole settings.
    must(unsafe { libc::tcsetattr(fd, libc::TCSANOW, &new) });
}

impl Pty {
    /// Opens a pair.
    #[track_caller]
    pub fn new() -> Pty {
        let master = master(0);
        let path = c(path(master));
        // SAFETY: a NUL-terminated path.
        let slave = must(unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_NOCTTY) });
        Pty { master, slave: slave as i32 }
    }
    /// Opens a pair and changes its settings by `change`.
    #[track_caller]
    pub fn with(change: impl FnOnce(&mut libc::termios)) -> Pty {
        let pty = Pty::new();
        set(pty.slave, change);
        pty
    }
    /// Opens a pair without any processing, echo or signals.
    #[track_caller]
    pub fn raw() -> Pty {
        // SAFETY: whole settings.
        Pty::with(|settings| unsafe { libc::cfmakeraw(settings) })
    }
    /// Types bytes at the terminal.
    #[track_caller]
    pub fn type_bytes(&self, bytes: &[u8]) {
        assert_eq!(write(self.master, bytes), Ok(bytes.len()));
    }
    /// Returns the text on the screen once no more comes, with control characters escaped.
    #[track_caller]
    pub fn screen(&self) -> String {
        let mut shown = Vec::new();
        while poll(self.master, libc::POLLIN, QUIET_MS) & libc::POLLIN != 0 {
            shown.extend(read(self.master, 4096).expect("reading the screen"));
        }
        shown.escape_ascii().to_string()
    }
    /// Waits for exactly this on the screen.
    #[track_caller]
    pub fn expect_screen(&self, expected: &[u8]) {
        let mut shown = Vec::new();
        while shown.len() < expected.len() {
            assert!(poll(self.master, libc::POLLIN, PATIENCE_MS) != 0, "the screen stays empty");
            shown.extend(read(self.master, expected.len() - shown.len()).expect("the screen"));
        }
        assert_eq!(shown.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }
    /// Returns the result of one read at the programs' end, escaped; `None` if nothing can be read.
    #[track_caller]
    pub fn line(&self) -> Option<String> {
        self.take(4096)
    }
    /// Reads as [`Pty::line`] does, at most `most` bytes.
    #[track_caller]
    pub fn take(&self, most: usize) -> Option<String> {
        if poll(self.slave, libc::POLLIN, QUIET_MS) & libc::POLLIN == 0 {
            return None;
        }
        let data = read(self.slave, most).expect("reading the terminal");
        Some(data.escape_ascii().to_string())
    }
    /// Waits until the programs' end can be read.
    #[track_caller]
    pub fn wait_readable(&self) {
        assert!(poll(self.slave, libc::POLLIN, PATIENCE_MS) != 0, "nothing to read");
    }
}

impl Default for Pty {
    fn default() -> Self {
        Pty::new()
    }
}
