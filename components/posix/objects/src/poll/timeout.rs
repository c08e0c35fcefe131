//! [`Timeout`]: the time for which a call waits, read from either of the two structures that programs use.
use memory::AddressSpace;
use rt::time::Instant;
use vfs::Errno;

const NS_A_SECOND: u64 = 1_000_000_000;
const NS_A_MICROSECOND: u64 = 1000;

/// The time at which a wait ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// At once: the call does not wait.
    Now,
    /// At this time.
    At(Instant),
    /// Never: the call waits for an event.
    Never,
}

impl Timeout {
    /// Makes a limit `ns` from now.
    pub fn after_ns(ns: u64) -> Timeout {
        if ns == 0 { Timeout::Now } else { Timeout::At(rt::time::now().after_ns(ns)) }
    }
    /// Returns the deadline for the waits of `rt`.
    pub fn deadline(self) -> Option<Instant> {
        match self {
            Timeout::Now => Some(rt::time::now()),
            Timeout::At(deadline) => Some(deadline),
            Timeout::Never => None,
        }
    }
    /// Reads the limit from the `struct timespec` at `address`; a null address means never.
    ///
    /// # Errors
    /// `EINVAL`, `EFAULT`.
    pub fn read_timespec(memory: &AddressSpace, address: u64) -> Result<Timeout, Errno> {
        if address == 0 {
            return Ok(Timeout::Never);
        }
        let [seconds, ns] = memory.read::<[i64; 2]>(address)?;
        let seconds = u64::try_from(seconds).map_err(|_| Errno::EINVAL)?;
        let ns = u64::try_from(ns).ok().filter(|ns| *ns < NS_A_SECOND).ok_or(Errno::EINVAL)?;
        Ok(Timeout::after_ns(seconds.saturating_mul(NS_A_SECOND).saturating_add(ns)))
    }
    /// Reads the limit from the `struct timeval` at `address`, whose microseconds may exceed a
    /// second.
    ///
    /// # Errors
    /// `EINVAL`, `EFAULT`.
    pub fn read_timeval(memory: &AddressSpace, address: u64) -> Result<Timeout, Errno> {
        if address == 0 {
            return Ok(Timeout::Never);
        }
        let [seconds, micros] = memory.read::<[i64; 2]>(address)?;
        let seconds = u64::try_from(seconds).map_err(|_| Errno::EINVAL)?;
        let micros = u64::try_from(micros).map_err(|_| Errno::EINVAL)?;
        let ns = micros.saturating_mul(NS_A_MICROSECOND);
        Ok(Timeout::after_ns(seconds.saturating_mul(NS_A_SECOND).saturating_add(ns)))
    }
    fn rest_ns(self) -> Option<u64> {
        match self {
            Timeout::Now => Some(0),
            Timeout::At(deadline) => Some(deadline.since(rt::time::now())),
            Timeout::Never => None,
        }
    }
    /// Writes the remaining time to the program, as Linux does; a failing write is ignored.
    pub fn write_rest(self, memory: &AddressSpace, address: u64) {
        if let Some(ns) = self.rest_ns() {
            let _ = memory.write(address, &[ns / NS_A_SECOND, ns % NS_A_SECOND]);
        }
    }
    /// Does the same as [`Timeout::write_rest`] in microseconds.
    pub fn write_rest_timeval(self, memory: &AddressSpace, address: u64) {
        if let Some(ns) = self.rest_ns() {
            let micros = ns % NS_A_SECOND / NS_A_MICROSECOND;
            let _ = memory.write(address, &[ns / NS_A_SECOND, micros]);
        }
    }
}
