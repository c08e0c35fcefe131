//! [`Info`]: the fields of Linux x86-64's `siginfo_t`, 48 bytes; [`UserInfo`]: the whole of it, 128
//! bytes.
//!
//! ```text
//!   0 si_signo  4 si_errno  8 si_code  12 (pad)  16 fields:
//!   kill, rt:  16 pid  20 uid  24 value           SIGCHLD: 16 pid 20 uid 24 status 32 utime 40 stime
//!   timer:     16 id   20 overrun  24 value       fault:   16 address
//!   SIGSYS:    16 address  24 number  28 architecture
//! ```
use super::number::{SIGBUS, SIGCHLD, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Code: sent by kill(2).
pub const SI_USER: i32 = 0;
/// Code: sent by the kernel.
pub const SI_KERNEL: i32 = 0x80;
/// Code: sent by sigqueue(3).
pub const SI_QUEUE: i32 = -1;
/// Code: sent by a POSIX timer.
pub const SI_TIMER: i32 = -2;
/// Code: a message came into an empty queue (mq_notify(3)).
pub const SI_MESGQ: i32 = -3;
/// Code: sent by tkill(2).
pub const SI_TKILL: i32 = -6;

/// Code of signal-driven I/O with a chosen signal: there is data to read.
pub const POLL_IN: i32 = 1;
/// Code of signal-driven I/O: there is room to write.
pub const POLL_OUT: i32 = 2;
/// Code of signal-driven I/O: an urgent byte was announced.
pub const POLL_PRI: i32 = 5;
/// Code of directory notifications: an event in a directory.
pub const POLL_MSG: i32 = 3;

const POLL_CODE_MAX: i32 = 6;
const SYS_CODE_MAX: i32 = 2;

/// The members of the union that a `siginfo_t` has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Process, user, and a value if the code is negative.
    Sender,
    /// Timer, overrun, value.
    Timer,
    /// A child's process, user, status and times.
    Child,
    /// An address.
    Fault,
    /// Band and descriptor.
    Poll,
    /// Address, number and architecture of a refused system call.
    Call,
}

/// The values of `si_code` for a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs, reason = "the names are Linux's")]
pub enum ChildCode {
    Exited = 1,
    Killed = 2,
    Dumped = 3,
    Trapped = 4,
    Stopped = 5,
    Continued = 6,
}

/// The mark of a POSIX timer's own signal.
const OF_TIMER: u32 = 1;

/// The part of a `siginfo_t` that has a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Info {
    /// `si_signo`.
    pub signal: i32,
    /// `si_errno`.
    pub error: i32,
    /// `si_code`.
    pub code: i32,
    /// [`OF_TIMER`] while the kernel holds it, else 0. Programs see padding here.
    mark: u32,
    fields: [u64; 4],
}

/// A `siginfo_t` as programs have it.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UserInfo {
    /// Its information.
    pub info: Info,
    expansion: [u64; 10],
}

impl UserInfo {
    /// Returns whether all members are in `info`.
    pub fn is_whole(&self) -> bool {
        self.info.is_known() || self.expansion == [0; 10]
    }
}

impl From<Info> for UserInfo {
    fn from(info: Info) -> UserInfo {
        UserInfo { info, expansion: [0; 10] }
    }
}

const _: () = assert!(size_of::<Info>() == 48);
const _: () = assert!(size_of::<UserInfo>() == 128);

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

impl Info {
    fn new(signal: u8, code: i32) -> Info {
        Info { signal: i32::from(signal), error: 0, code, mark: 0, fields: [0; 4] }
    }
    /// Makes the information of a signal of the kernel, without a sender.
    pub fn kernel(signal: u8) -> Info {
        Info::new(signal, SI_KERNEL)
    }
    /// Returns whether it was made by [`Info::kernel`].
    pub fn is_of_kernel(&self) -> bool {
        self.code == SI_KERNEL
    }
    /// Makes the information of a signal from a process, by kill (`SI_USER`) or tkill (`SI_TKILL`).
    pub fn from_process(signal: u8, code: i32, pid: u32, uid: u32) -> Info {
        let mut info = Info::new(signal, code);
        info.set(0, pair(pid, uid));
        info
    }
    /// Makes the information of a fault at `address`; `code` is `SEGV_MAPERR` or a similar one.
    pub fn fault(signal: u8, code: i32, address: u64) -> Info {
        let mut info = Info::new(signal, code);
        info.set(0, address);
        info
    }
    /// Makes the information of a system call that a filter refused with `reason`; `address` is after
    /// its instruction.
    pub fn refused_call(reason: u16, address: u64, number: u32, architecture: u32) -> Info {
        const SYS_SECCOMP: i32 = 1;
        let mut info = Info::new(SIGSYS, SYS_SECCOMP);
        info.error = i32::from(reason);
        info.set(0, address);
        info.set(1, pair(number, architecture));
        info
    }
    /// Makes the information of a child's change of state; the times are in clock ticks.
    pub fn child(code: ChildCode, pid: u32, uid: u32, status: i32, times: (u64, u64)) -> Info {
        let mut info = Info::new(SIGCHLD, code as i32);
        info.set(0, pair(pid, uid));
        info.set(1, u64::from(status as u32));
        info.set(2, times.0);
        info.set(3, times.1);
        info
    }
    /// Makes the information of an expiration of a POSIX timer.
    pub fn timer(signal: u8, id: u32, overrun: u32, value: u64) -> Info {
        let mut info = Info { mark: OF_TIMER, ..Info::new(signal, SI_TIMER) };
        info.set(0, pair(id, overrun));
        info.set(1, value);
        info
    }
    /// Returns whether it was made by [`Info::timer`], and not by a program with the code `SI_TIMER`.
    pub fn is_of_timer(&self) -> bool {
        self.mark == OF_TIMER
    }
    /// Returns it in the form for programs, without the mark.
    pub fn unmarked(self) -> Info {
        Info { mark: 0, ..self }
    }
    /// Makes the information of a message that process and user `from` put into an empty queue.
    pub fn message_queue(signal: u8, from: (u32, u32), value: u64) -> Info {
        let mut info = Info::new(signal, SI_MESGQ);
        info.set(0, pair(from.0, from.1));
        info.set(1, value);
        info
    }
    /// Makes the information of signal-driven I/O on descriptor `fd`; `code` is [`POLL_IN`],
    /// [`POLL_OUT`] or [`POLL_MSG`].
    pub fn poll(signal: u8, code: i32, band: u32, fd: i32) -> Info {
        let mut info = Info::new(signal, code);
        info.set(0, u64::from(band));
        info.set(1, u64::from(fd as u32));
        info
    }
    /// Returns whether the fields of its code are known (Linux's `known_siginfo_layout`).
    fn is_known(&self) -> bool {
        const SI_ASYNCNL: i32 = -60;
        const SI_DETHREAD: i32 = -7;
        let highest = match self.number() {
            SIGILL => 11,
            SIGFPE => 15,
            SIGSEGV => 10,
            SIGBUS => 5,
            SIGSYS => SYS_CODE_MAX,
            _ => POLL_CODE_MAX,
        };
        matches!(self.code, SI_KERNEL | SI_ASYNCNL) || (SI_DETHREAD..=highest).contains(&self.code)
    }
    /// Returns which members it has besides signal, error and code.
    pub fn shape(&self) -> Shape {
        let is_positive = self.code > 0 && self.code != SI_KERNEL;
        match self.number() {
            _ if self.code == SI_TIMER => Shape::Timer,
            SIGCHLD if is_positive => Shape::Child,
            SIGILL | SIGFPE | SIGSEGV | SIGBUS | SIGTRAP if is_positive => Shape::Fault,
            SIGSYS if is_positive && self.code <= SYS_CODE_MAX => Shape::Call,
            _ if is_positive && self.code <= POLL_CODE_MAX => Shape::Poll,
            _ => Shape::Sender,
        }
    }
    /// Returns word `index` of the union.
    pub fn word(&self, index: usize) -> u64 {
        self.fields.get(index).copied().unwrap_or(0)
    }
    /// Returns `si_pid` and `si_uid` of the forms that have them.
    pub fn sender(&self) -> (u32, u32) {
        let word = self.fields.first().copied().unwrap_or(0);
        (word as u32, (word >> 32) as u32)
    }
    /// Sets the words that [`Info::sender`] returns (id and overrun of a timer).
    pub fn set_sender(&mut self, first: u32, second: u32) {
        self.set(0, pair(first, second));
    }
    /// Returns `si_addr`, or the first word of the other forms.
    pub fn address(&self) -> u64 {
        self.fields.first().copied().unwrap_or(0)
    }
    /// Returns the signal's number, 0 if it is not a signal.
    pub fn number(&self) -> u8 {
        u8::try_from(self.signal).unwrap_or(0)
    }
    fn set(&mut self, index: usize, value: u64) {
        if let Some(field) = self.fields.get_mut(index) {
            *field = value;
        }
    }
}
