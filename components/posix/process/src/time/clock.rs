//! Clocks by their Linux numbers, and `struct timespec`, `timeval` and related structures.
pub use super::data::Clock;
use super::data::SECOND_NS;
use crate::{task::Task, tree};
use linux_raw_sys::general as raw;
use rt::{thread::CpuTime, time::Instant};
use vfs::Errno;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

impl Clock {
    /// Returns the clock `number` for `task`.
    ///
    /// # Errors
    /// `EINVAL` for a number that is not a clock, or whose process does not exist.
    pub fn decode(task: &Task, number: i32) -> Result<Clock, Errno> {
        if number < 0 {
            return Clock::decode_dynamic(task, number);
        }
        Ok(match number as u32 {
            raw::CLOCK_REALTIME
            | raw::CLOCK_REALTIME_COARSE
            | raw::CLOCK_REALTIME_ALARM
            | raw::CLOCK_TAI => Clock::Realtime,
            raw::CLOCK_MONOTONIC
            | raw::CLOCK_MONOTONIC_RAW
            | raw::CLOCK_MONOTONIC_COARSE
            | raw::CLOCK_BOOTTIME
            | raw::CLOCK_BOOTTIME_ALARM => Clock::Monotonic,
            raw::CLOCK_PROCESS_CPUTIME_ID => Clock::Process(task.process.id()),
            raw::CLOCK_THREAD_CPUTIME_ID => Clock::Thread(task.id()),
            _ => return Err(Errno::EINVAL),
        })
    }
    /// Returns the clock `number` for a wait or a timer.
    ///
    /// # Errors
    /// Those of [`Clock::decode`]; `EOPNOTSUPP` for a clock that can only be read.
    pub fn decode_timed(task: &Task, number: i32) -> Result<Clock, Errno> {
        match number as u32 {
            _ if Clock::is_file(number) => Err(Errno::EOPNOTSUPP),
            raw::CLOCK_MONOTONIC_RAW | raw::CLOCK_MONOTONIC_COARSE | raw::CLOCK_REALTIME_COARSE => {
                Err(Errno::EOPNOTSUPP)
            }
            _ => Clock::decode(task, number),
        }
    }
    /// Checks that `number` is that of a clock, whatever operations the clock supports; the process or
    /// thread of a clock need not exist.
    ///
    /// # Errors
    /// `EINVAL`.
    pub fn check_number(number: i32) -> Result<(), Errno> {
        /// `CLOCK_SGI_CYCLE`, which was removed from Linux.
        const REMOVED: i32 = 10;
        let is_clock = match number {
            REMOVED => false,
            0.. => number as u32 <= raw::CLOCK_TAI,
            _ => !Clock::is_file(number),
        };
        if is_clock { Ok(()) } else { Err(Errno::EINVAL) }
    }
    /// Returns whether it is a clock that is an open file; there are none.
    fn is_file(number: i32) -> bool {
        const BITS: i32 = 7;
        const FILE: i32 = 3;
        number < 0 && number & BITS == FILE
    }
    /// Returns whether the clock continues while the machine sleeps and can wake it, which is a privilege.
    pub fn is_alarm(number: i32) -> bool {
        matches!(number as u32, raw::CLOCK_REALTIME_ALARM | raw::CLOCK_BOOTTIME_ALARM)
    }
    /// Decodes `~id << 3 | per-thread << 2 | which`: the clocks of clock_getcpuclockid(3).
    fn decode_dynamic(task: &Task, number: i32) -> Result<Clock, Errno> {
        const PER_THREAD: i32 = 4;
        const KIND: i32 = 3;
        let id = !(number >> 3) as u32;
        if number & KIND == KIND {
            return Err(Errno::EINVAL);
        }
        if number & PER_THREAD != 0 {
            let id = if id == 0 { task.id() } else { id };
            let is_own =
                tree::task(id).is_some_and(|other| other.process.id() == task.process.id());
            return if is_own { Ok(Clock::Thread(id)) } else { Err(Errno::EINVAL) };
        }
        let id = if id == 0 { task.process.id() } else { id };
        task.visible().process(id).map(|_| Clock::Process(id)).ok_or(Errno::EINVAL)
    }
    /// Returns the clock for relative times: setting the wall clock does not affect it.
    #[inline]
    pub fn for_relative(self) -> Clock {
        if self == Clock::Realtime { Clock::Monotonic } else { self }
    }
    /// Returns the present time of this clock in nanoseconds.
    #[inline]
    pub fn now_ns(self) -> u64 {
        let sum = |time: CpuTime| time.user_ns + time.system_ns;
        match self {
            Clock::Realtime => rt::time::wall_ns(),
            Clock::Monotonic => rt::time::now().0,
            Clock::Process(id) => tree::process(id).map_or(0, |process| sum(process.cpu_time())),
            Clock::Thread(id) => {
                tree::task(id).and_then(|task| rt::thread::cpu_time(task.thread())).map_or(0, sum)
            }
        }
    }
    /// Returns the earliest time on the monotonic clock at which this clock can show `deadline_ns`.
    #[inline]
    pub fn earliest(self, deadline_ns: u64) -> Instant {
        const LOOK_AGAIN_NS: u64 = 1_000_000;
        if self == Clock::Monotonic {
            return Instant(deadline_ns);
        }
        let left = deadline_ns.saturating_sub(self.now_ns());
        let now = rt::time::now();
        match self {
            Clock::Monotonic | Clock::Realtime => now.after_ns(left),
            Clock::Thread(_) => now.after_ns(left.max(LOOK_AGAIN_NS)),
            Clock::Process(_) => {
                let processors = rt::thread::processors().0.max(1) as u64;
                now.after_ns((left / processors).max(LOOK_AGAIN_NS))
            }
        }
    }
}

/// `struct timespec`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Timespec {
    /// Seconds.
    pub seconds: i64,
    /// Nanoseconds.
    pub nanoseconds: i64,
}

impl Timespec {
    /// The time as nanoseconds, saturating.
    ///
    /// # Errors
    /// `EINVAL` for negative times and nanoseconds of a second or more.
    pub fn to_ns(self) -> Result<u64, Errno> {
        let (Ok(seconds), Ok(nanoseconds)) =
            (u64::try_from(self.seconds), u64::try_from(self.nanoseconds))
        else {
            return Err(Errno::EINVAL);
        };
        if nanoseconds >= SECOND_NS {
            return Err(Errno::EINVAL);
        }
        Ok(seconds.saturating_mul(SECOND_NS).saturating_add(nanoseconds))
    }
    /// From nanoseconds.
    pub fn from_ns(ns: u64) -> Timespec {
        Timespec { seconds: (ns / SECOND_NS) as i64, nanoseconds: (ns % SECOND_NS) as i64 }
    }
}

/// `struct timeval`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Timeval {
    /// Seconds.
    pub seconds: i64,
    /// Microseconds.
    pub microseconds: i64,
}

impl Timeval {
    /// The time as nanoseconds, saturating.
    ///
    /// # Errors
    /// `EINVAL` for negative times and microseconds of a second or more.
    pub fn to_ns(self) -> Result<u64, Errno> {
        let nanoseconds = self.microseconds.checked_mul(1000).ok_or(Errno::EINVAL)?;
        Timespec { seconds: self.seconds, nanoseconds }.to_ns()
    }
    /// From nanoseconds.
    pub fn from_ns(ns: u64) -> Timeval {
        Timeval { seconds: (ns / SECOND_NS) as i64, microseconds: (ns % SECOND_NS / 1000) as i64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_out_of_range_are_refused() {
        assert_eq!(Timespec { seconds: 0, nanoseconds: 1_000_000_000 }.to_ns(), Err(Errno::EINVAL));
        assert_eq!(Timespec { seconds: -1, nanoseconds: 0 }.to_ns(), Err(Errno::EINVAL));
        assert_eq!(Timespec { seconds: i64::MAX, nanoseconds: 0 }.to_ns(), Ok(u64::MAX));
        assert_eq!(Timeval { seconds: 1, microseconds: 5 }.to_ns(), Ok(1_000_005_000));
    }
}
