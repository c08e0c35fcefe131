//! States for cases, and the call itself.
use super::{CALLING, RETURNED, note};
use crate::{c, must, zeroed};
use std::arch::asm;

/// Time after which helper processes act.
const SOON_MS: i64 = 4;

/// Makes a system call. Returns its answer; an error is the negated number.
pub fn raw(number: i64, args: [i64; 6]) -> i64 {
    let answer: i64;
    // SAFETY: the cases give memory of their own, or what the kernel must refuse.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => answer,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            out("rcx") _, out("r11") _,
        );
    }
    answer
}

/// Makes the call of a case.
pub fn made(number: i64, args: [i64; 6]) -> i64 {
    note(CALLING, 0);
    let answer = raw(number, args);
    note(RETURNED, answer);
    answer
}

/// Maps new shared memory, zeroed.
pub fn map_shared(bytes: usize) -> *mut u8 {
    map(bytes, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1)
}

/// Maps new memory with `flags`, readable and writable.
pub fn map(bytes: usize, flags: i32, fd: i32) -> *mut u8 {
    const BOTH: i32 = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: new memory at a place that the kernel chooses.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, BOTH, flags, fd, 0) };
    assert_ne!(at, libc::MAP_FAILED, "mmap: {}", crate::errno());
    at.cast()
}

/// Returns the address of a value, as an argument.
pub fn at<T: ?Sized>(value: &T) -> i64 {
    std::ptr::from_ref(value).cast::<u8>() as i64
}

/// Returns the address of a value that the call stores to, as an argument.
pub fn room<T: ?Sized>(value: &mut T) -> i64 {
    std::ptr::from_mut(value).cast::<u8>() as i64
}

/// Returns every sum of some of `flags`.
pub fn subsets(flags: &[i64]) -> Vec<i64> {
    let sum = |chosen: usize| {
        let some = flags.iter().enumerate().filter(|(bit, _)| chosen >> bit & 1 != 0);
        some.fold(0, |sum, (_, flag)| sum | flag)
    };
    (0..1 << flags.len()).map(sum).collect()
}

/// Returns a time of this many milliseconds.
pub fn ms(ms: i64) -> [i64; 2] {
    [ms / 1000, ms % 1000 * 1_000_000]
}

/// Sleeps for this many milliseconds.
pub fn sleep_ms(count: i64) {
    raw(libc::SYS_nanosleep, [at(&ms(count)), 0, 0, 0, 0, 0]);
}

/// Makes another process do `act` in a moment.
pub fn soon(act: impl FnOnce()) -> libc::pid_t {
    crate::fork(|| {
        sleep_ms(SOON_MS);
        act();
    })
}

/// Makes a signal with a handler come again and again, to interrupt a call that waits.
pub fn tick() {
    extern "C" fn nothing(_: i32) {}
    crate::handle(libc::SIGALRM, nothing, 0);
    let every = libc::timeval { tv_sec: 0, tv_usec: SOON_MS * 1000 };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: a whole itimerval.
    must(unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) });
}

/// Opens a file without a name, with some bytes, for reading and writing.
pub fn file() -> i32 {
    let fd = named("file", libc::O_RDWR | libc::O_CREAT);
    for _ in 0..4 {
        must(raw(libc::SYS_write, [fd.into(), at(&[7u8; 4096]), 4096, 0, 0, 0]));
    }
    must(raw(libc::SYS_lseek, [fd.into(), 0, 0, 0, 0, 0]));
    fd
}

/// Returns a name for this process alone.
pub fn name(name: &str) -> std::ffi::CString {
    // SAFETY: a plain call.
    c(format!("{name}-{}", unsafe { libc::getpid() }))
}

/// Opens a file of this process's own.
pub fn named(what: &str, flags: i32) -> i32 {
    let name = name(what);
    // SAFETY: a NUL-terminated path.
    must(unsafe { libc::open(name.as_ptr(), flags, 0o600) }) as i32
}

/// Makes a pipe with `bytes` in it.
pub fn pipe(bytes: usize) -> [i32; 2] {
    let (reader, writer) = crate::pipe();
    if bytes > 0 {
        must(raw(libc::SYS_write, [writer.into(), at(&[1u8; 4096]), bytes as i64, 0, 0, 0]));
    }
    [reader, writer]
}

/// Returns two connected sockets.
pub fn sockets(kind: i32) -> [i32; 2] {
    let mut pair = [0; 2];
    // SAFETY: room for two descriptors.
    must(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) });
    pair
}

/// A type of descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// `/dev/null`
    Null,
    /// `/dev/zero`
    Zero,
    /// The end of an empty pipe that is read.
    PipeEmpty,
    /// The same with bytes in it.
    PipeFull,
    /// The same without a writer.
    PipeEnded,
    /// The end that is written, with a reader.
    PipeWriter,
    /// A stream socket without bytes.
    Stream,
    /// A datagram socket without a message.
    Datagram,
    /// An eventfd whose count is 0.
    EventEmpty,
    /// An eventfd whose count is 3.
    Event,
    /// A timer that is not set.
    Timer,
    /// A timer that has expired.
    TimerExpired,
    /// A signalfd without a signal.
    Signals,
    /// An inotify without an event.
    Inotify,
    /// An epoll of nothing.
    Epoll,
    /// A pidfd of a process that lives.
    Pidfd,
    /// A pseudo-terminal's master.
    Master,
    /// The terminal of a pseudo-terminal, without bytes.
    Terminal,
    /// A folder.
    Folder,
    /// No descriptor.
    Bad,
}

/// All types.
pub const KINDS: [Kind; 21] = [
    Kind::File,
    Kind::Null,
    Kind::Zero,
    Kind::PipeEmpty,
    Kind::PipeFull,
    Kind::PipeEnded,
    Kind::PipeWriter,
    Kind::Stream,
    Kind::Datagram,
    Kind::EventEmpty,
    Kind::Event,
    Kind::Timer,
    Kind::TimerExpired,
    Kind::Signals,
    Kind::Inotify,
    Kind::Epoll,
    Kind::Pidfd,
    Kind::Master,
    Kind::Terminal,
    Kind::Folder,
    Kind::Bad,
];

/// Opens a descriptor of a type. Descriptors that belong to it stay open.
pub fn open(kind: Kind) -> i32 {
    let plain = |path: &std::ffi::CStr, flags| {
        // SAFETY: a NUL-terminated path.
        must(unsafe { libc::open(path.as_ptr(), flags) }) as i32
    };
    let call = |number, first, second| must(raw(number, [first, second, 0, 0, 0, 0])) as i32;
    match kind {
        Kind::File => file(),
        Kind::Null => plain(c"/dev/null", libc::O_RDWR),
        Kind::Zero => plain(c"/dev/zero", libc::O_RDWR),
        Kind::PipeEmpty => pipe(0)[0],
        Kind::PipeFull => pipe(4096)[0],
        Kind::PipeEnded => {
            let [reader, writer] = pipe(0);
            crate::close(writer);
            reader
        }
        Kind::PipeWriter => pipe(0)[1],
        Kind::Stream => sockets(libc::SOCK_STREAM)[0],
        Kind::Datagram => sockets(libc::SOCK_DGRAM)[0],
        Kind::EventEmpty => call(libc::SYS_eventfd2, 0, 0),
        Kind::Event => call(libc::SYS_eventfd2, 3, 0),
        Kind::Timer => call(libc::SYS_timerfd_create, 1, 0),
        Kind::TimerExpired => {
            let fd = call(libc::SYS_timerfd_create, 1, 0);
            let setting = [0i64, 0, 0, 1];
            must(raw(libc::SYS_timerfd_settime, [fd.into(), 0, at(&setting), 0, 0, 0]));
            sleep_ms(1);
            fd
        }
        Kind::Signals => {
            let set = 1u64 << (libc::SIGUSR2 - 1);
            must(raw(libc::SYS_signalfd4, [-1, at(&set), 8, 0, 0, 0])) as i32
        }
        Kind::Inotify => call(libc::SYS_inotify_init1, 0, 0),
        Kind::Epoll => call(libc::SYS_epoll_create1, 0, 0),
        Kind::Pidfd => call(libc::SYS_pidfd_open, std::process::id().into(), 0),
        Kind::Master => plain(c"/dev/ptmx", libc::O_RDWR | libc::O_NOCTTY),
        Kind::Terminal => {
            const TIOCSPTLCK: i64 = 0x4004_5431;
            const TIOCGPTPEER: i64 = 0x5441;
            let master = i64::from(open(Kind::Master));
            must(raw(libc::SYS_ioctl, [master, TIOCSPTLCK, at(&0i32), 0, 0, 0]));
            let flags = i64::from(libc::O_RDWR | libc::O_NOCTTY);
            must(raw(libc::SYS_ioctl, [master, TIOCGPTPEER, flags, 0, 0, 0])) as i32
        }
        Kind::Folder => plain(c".", libc::O_RDONLY | libc::O_DIRECTORY),
        Kind::Bad => 999,
    }
}

/// Returns a zeroed `siginfo_t`.
pub fn siginfo() -> libc::siginfo_t {
    // SAFETY: plain numbers.
    unsafe { zeroed() }
}
