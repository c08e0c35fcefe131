//! [`SocketCommon`]: the parts that a socket of any family has, and the settings of all sockets.
use super::interface::{Receive, SocketKind};
use crate::poll::Timeout;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use interfaces::sockets::FilterSlot;
use linux_raw_sys::net;
use memory::setting::Setting;
use process::Task;
use rt::thread::Woken;
use vfs::{
    Errno, Principal,
    poll::WaitQueue,
    security::{Level, SecuritySubject, Sequence},
};

/// The greatest number of connections that wait to be accepted (`/proc/sys/net/core/somaxconn`).
pub static BACKLOG_MAX: Setting = Setting::count(4096);
/// Bytes that a new socket may have sent and not delivered (`/proc/sys/net/core/wmem_default`).
pub static SEND_DEFAULT: Setting = Setting::new(212_992, SEND_LEAST, i32::MAX as i64);
/// Greatest value of SO_SNDBUF (`/proc/sys/net/core/wmem_max`).
pub static SEND_MAX: Setting = Setting::new(212_992, SEND_LEAST, i32::MAX as i64);
/// The value of SO_RCVBUF if none was set (`/proc/sys/net/core/rmem_default`).
pub static RECEIVE_DEFAULT: Setting = Setting::new(212_992, RECEIVE_LEAST, i32::MAX as i64);
/// Greatest value of SO_RCVBUF (`/proc/sys/net/core/rmem_max`).
pub static RECEIVE_MAX: Setting = Setting::new(212_992, RECEIVE_LEAST, i32::MAX as i64);
/// Smallest value of these settings, as on Linux.
const SEND_LEAST: i64 = 4608;
const RECEIVE_LEAST: i64 = 2304;

/// The options, and flags of options, that can be read without a lock.
#[derive(Default)]
pub struct SocketOptions {
    /// SO_PASSCRED
    pub passes_identity: AtomicBool,
    /// SO_RCVTIMEO in nanoseconds; 0 is never.
    pub receive_timeout_ns: AtomicU64,
    /// SO_SNDTIMEO in nanoseconds; 0 is never.
    pub send_timeout_ns: AtomicU64,
    /// SO_PEEK_OFF; negative if it is off.
    pub peek_offset: AtomicI32,
    /// SO_RCVLOWAT; 0 counts as 1.
    pub low_water: AtomicI32,
    /// SO_RCVBUF of families that only report it; 0 means the default.
    pub receive_buffer: AtomicI32,
    /// SO_PRIORITY, without an effect.
    pub priority: AtomicI32,
    /// SO_LINGER, without an effect on AF_UNIX; negative if it is off.
    pub linger_seconds: AtomicI32,
    /// Values of options that are flags, one bit for each number.
    pub kept: AtomicU64,
    /// SO_BINDTODEVICE: number of the interface; 0 for all.
    pub interface: AtomicU32,
    /// SO_MARK.
    pub mark: AtomicI32,
    /// SO_MAX_PACING_RATE, in bytes a second; `u64::MAX` for no limit. Streams of the Internet obey it.
    pub pacing_rate: AtomicU64,
    /// SO_BUSY_POLL, in microseconds. There are no queues of cards that a program could poll, so this and the next two have no effect.
    pub busy_poll: AtomicI32,
    /// SO_PREFER_BUSY_POLL.
    pub prefers_busy_poll: AtomicBool,
    /// SO_BUSY_POLL_BUDGET, in packets; 0 for the usual number.
    pub busy_poll_budget: AtomicI32,
    /// SO_INCOMING_CPU of families that only report it; negative if none is known.
    pub incoming_processor: AtomicI32,
}

/// Options that are kept as times of arrival; of these at most one is on.
const TIMES: [u32; 4] = [
    net::SO_TIMESTAMP_OLD,
    net::SO_TIMESTAMPNS_OLD,
    net::SO_TIMESTAMP_NEW,
    net::SO_TIMESTAMPNS_NEW,
];

/// The time of arrival that is told with a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalTime {
    /// `struct timeval`, with the number of the option as the kind of the control message.
    Micros(u32),
    /// `struct timespec`, with the number of the option.
    Nanos(u32),
}

impl SocketOptions {
    /// Returns the bit of an option that is a flag. Number 64 has the bit of number 0, which is no option.
    fn bit(option: u32) -> u64 {
        1u64.rotate_left(option)
    }
    /// Returns whether an option that is a flag is on.
    pub fn is_kept(&self, option: u32) -> bool {
        self.kept.load(Ordering::Relaxed) & SocketOptions::bit(option) != 0
    }
    /// Turns an option that is a flag on, if `value` is not 0, or off. A time of arrival turns the others off.
    pub fn keep(&self, option: u32, value: i32) {
        if TIMES.contains(&option) {
            let all = TIMES.iter().fold(0, |all, time| all | SocketOptions::bit(*time));
            self.kept.fetch_and(!all, Ordering::Relaxed);
        }
        match value {
            0 => self.kept.fetch_and(!SocketOptions::bit(option), Ordering::Relaxed),
            _ => self.kept.fetch_or(SocketOptions::bit(option), Ordering::Relaxed),
        };
    }
    /// Returns the time of arrival that is wanted.
    pub fn arrival_time(&self) -> Option<ArrivalTime> {
        let on = TIMES.into_iter().find(|option| self.is_kept(*option))?;
        Some(match on {
            net::SO_TIMESTAMP_OLD | net::SO_TIMESTAMP_NEW => ArrivalTime::Micros(on),
            _ => ArrivalTime::Nanos(on),
        })
    }
    /// Takes the options over that a connection has of its listener.
    pub(super) fn inherit(&self, from: &SocketOptions) {
        let long = [
            (&self.receive_timeout_ns, &from.receive_timeout_ns),
            (&self.send_timeout_ns, &from.send_timeout_ns),
            (&self.kept, &from.kept),
            (&self.pacing_rate, &from.pacing_rate),
        ];
        for (to, from) in long {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let short = [
            (&self.low_water, &from.low_water),
            (&self.receive_buffer, &from.receive_buffer),
            (&self.linger_seconds, &from.linger_seconds),
            (&self.mark, &from.mark),
        ];
        for (to, from) in short {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.interface.store(from.interface.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// The parts that a socket of any family has.
pub struct SocketCommon {
    number: u64,
    /// The level of its maker.
    level: &'static Level,
    kind: SocketKind,
    /// The options that getsockopt(2) returns.
    pub options: SocketOptions,
    /// The filter of what the socket receives.
    pub filter: FilterSlot,
}

static MADE: AtomicU64 = AtomicU64::new(0);
static COUNT: AtomicU64 = AtomicU64::new(0);

/// Returns the number of sockets that exist, and of those that were made.
pub fn counts() -> (u64, u64) {
    (COUNT.load(Ordering::Relaxed), MADE.load(Ordering::Relaxed))
}

/// Returns the level of the sockets that `maker` makes; without a task it is the kernel's.
pub(super) fn level_of(maker: &dyn Principal) -> &'static Level {
    Task::of(maker).map_or_else(|| SecuritySubject::kernel().level(), |task| task.process.level())
}

impl SocketCommon {
    /// Makes the part of a new socket, with a number of its maker's level.
    pub(super) fn new(kind: SocketKind, level: &'static Level) -> SocketCommon {
        COUNT.fetch_add(1, Ordering::Relaxed);
        MADE.fetch_add(1, Ordering::Relaxed);
        let options = SocketOptions {
            peek_offset: AtomicI32::new(-1),
            linger_seconds: AtomicI32::new(-1),
            pacing_rate: AtomicU64::new(u64::MAX),
            incoming_processor: AtomicI32::new(-1),
            ..SocketOptions::default()
        };
        let (number, filter) = (level.next(Sequence::Sockets), FilterSlot::default());
        SocketCommon { number, level, kind, options, filter }
    }
    /// Returns the level of its maker.
    pub(super) fn level(&self) -> &'static Level {
        self.level
    }
    /// Returns the number by which `/proc` shows the socket.
    pub fn number(&self) -> u64 {
        self.number
    }
    /// Returns the transport type of the socket.
    pub fn kind(&self) -> SocketKind {
        self.kind
    }
    /// Moves the offset of peeks: a peek adds `count`, a read subtracts it.
    pub(super) fn move_peek(&self, how: Receive, count: usize) {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        let step = |now: i32| match now {
            ..0 => None,
            _ if how.is_peek => Some(now.saturating_add(count)),
            _ => Some(now.saturating_sub(count).max(0)),
        };
        let _ = self.options.peek_offset.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
    }
    /// Returns the time limit of calls that receive or accept.
    pub fn receive_deadline(&self) -> Timeout {
        deadline(&self.options.receive_timeout_ns)
    }
    /// Repeats `attempt` until it finds something, and waits on `arrived` in between.
    ///
    /// # Errors
    /// Those of `attempt`, `EAGAIN`, and for a signal `EINTR` or a restart.
    pub(super) fn receive_when<T>(
        &self,
        arrived: &WaitQueue,
        how: Receive,
        mut attempt: impl FnMut() -> Result<Option<T>, Errno>,
    ) -> Result<T, Errno> {
        let mut timeout = None;
        loop {
            let ticket = arrived.ticket();
            if let Some(found) = attempt()? {
                return Ok(found);
            }
            if how.is_nonblocking {
                return Err(Errno::EAGAIN);
            }
            let timeout = *timeout.get_or_insert_with(|| self.receive_deadline());
            wait(arrived, ticket, timeout)?;
        }
    }
    /// Returns the time limit of calls that send or connect.
    pub fn send_deadline(&self) -> Timeout {
        deadline(&self.options.send_timeout_ns)
    }
}

impl Drop for SocketCommon {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

fn deadline(option: &AtomicU64) -> Timeout {
    match option.load(Ordering::Relaxed) {
        0 => Timeout::Never,
        ns => Timeout::after_ns(ns),
    }
}

/// Waits on a queue; the end of the time limit is `EAGAIN`, as for SO_RCVTIMEO.
///
/// # Errors
/// `EAGAIN`, and for a signal `Restart`, or `EINTR` if the call has a time limit (signal(7)).
pub(super) fn wait(
    queue: &WaitQueue,
    ticket: rt::sync::Ticket,
    timeout: Timeout,
) -> Result<(), Errno> {
    match (queue.wait(ticket, timeout.deadline()), timeout) {
        (Woken::Kicked, Timeout::Never) => Err(Errno::Restart),
        (Woken::Kicked, _) => Err(Errno::EINTR),
        (_, Timeout::At(until)) if rt::time::now() >= until => Err(Errno::EAGAIN),
        _ => Ok(()),
    }
}
