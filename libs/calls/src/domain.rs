//! The grants of a domain, its usage and the reason of its end, as the supervisor and the nucleus exchange them.
use crate::{Call, GRANTED, Status};
use alloc::{format, string::String, vec::Vec};
use program::{PciAddress, Policy, Registers, Trap};

/// A set of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallSet(u64);

impl CallSet {
    /// The set of all calls.
    pub const ALL: CallSet = CallSet(u64::MAX >> (64 - Call::ALL.len()));

    /// Returns whether `call` is in the set.
    #[inline]
    pub const fn contains(self, call: Call) -> bool {
        self.0 & 1 << call as u64 != 0
    }

    /// Returns the set without `call`.
    #[must_use]
    pub const fn without(self, call: Call) -> CallSet {
        CallSet(self.0 & !(1 << call as u64))
    }
}

impl FromIterator<Call> for CallSet {
    fn from_iter<I: IntoIterator<Item = Call>>(calls: I) -> CallSet {
        CallSet(calls.into_iter().fold(0, |all, call| all | 1 << call as u64))
    }
}

/// The way in which threads of a domain access its ports, besides kernel calls, which always work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortAccess {
    /// By plain instructions, which the processor allows (its permission map).
    #[default]
    Map,
    /// By plain instructions, which the processor refuses and the nucleus emulates.
    Trap,
    /// By kernel calls alone. The nucleus emulates plain instructions nevertheless.
    Call,
}

/// The grants of a domain; the default of each denies it.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    /// The command line that the domain sees: its own parameters behind the system's.
    pub command_line: String,
    /// Allowed kernel calls.
    pub calls: CallSet,
    /// Port ranges: first, count.
    pub ports: Vec<(u16, u16)>,
    /// Way in which ports are accessed.
    pub port_access: PortAccess,
    /// Interrupt lines.
    pub lines: Vec<u32>,
    /// PCI functions.
    pub functions: Vec<PciAddress>,
    /// Virtio-mmio transports, by address of their registers.
    pub transports: Vec<u64>,
    /// The domain may allocate memory that devices reach, and its devices reach its kept memory.
    pub can_use_dma: bool,
    /// The greatest amount of memory, in bytes: pages, shared memory that it made or mapped, and page tables.
    pub memory_bytes: usize,
    /// The greatest number of interrupt vectors at once.
    pub vectors: usize,
    /// The greatest number of lines of the log in a second, and at once after a pause.
    pub log_lines: (u32, u32),
    /// The greatest number of threads.
    pub threads: usize,
    /// Best policy that its threads may have.
    pub policy: Policy,
    /// The domain runs programs: its memory is at [`crate::SERVER_BASE`].
    pub can_run: bool,
    /// Share of all processors' time that its threads may have together while other threads want it, in percent.
    pub share_percent: u8,
}

impl Grants {
    /// Returns the policy that `word` of a call stands for.
    ///
    /// # Errors
    /// [`Status::Invalid`] if it stands for none, [`Status::Refused`] if the policy is better than the granted one.
    pub fn policy(&self, word: u64) -> Result<Policy, Status> {
        if word == GRANTED {
            return Ok(self.policy);
        }
        let policy = u32::try_from(word).ok().and_then(Policy::unpack).ok_or(Status::Invalid)?;
        if policy.rank() > self.policy.rank() { Err(Status::Refused) } else { Ok(policy) }
    }
}

/// The reason and the circumstances of a domain's end.
#[derive(Clone, Debug)]
pub struct End {
    /// Cause, in words.
    pub cause: String,
    /// Registers of the thread that caused the end; zeroes if none did.
    pub registers: Registers,
    /// Return addresses of that thread, innermost first.
    pub calls: Vec<u64>,
}

impl End {
    /// Makes an end that no thread of the domain caused.
    pub fn because(cause: &str) -> End {
        End { cause: cause.into(), registers: Registers::default(), calls: Vec::new() }
    }

    /// Returns a description of the fault or exception of `trap`.
    pub fn cause_of(trap: Trap) -> String {
        match trap {
            Trap::PageFault { address, access, .. } => {
                format!("page fault: {access:?} of {address:#x}")
            }
            Trap::Exception { vector, error_code } => {
                format!("exception {vector}, code {error_code:#x}")
            }
            Trap::Syscall | Trap::Kicked => String::from("none"),
        }
    }
}

/// The usage of a domain, and its refusals.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// Memory, in bytes.
    pub memory_bytes: usize,
    /// Threads.
    pub threads: usize,
    /// Processor time of its present threads.
    pub cpu_ns: u64,
    /// Kernel calls made.
    pub calls: u64,
    /// Refusals: kernel calls by name, the times that devices accessed memory that was not lent to them (`dma`), and
    /// the periods in which threads had to wait because of the domain's share (`share`).
    pub refused: Vec<(&'static str, u32)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_in_and_no_more() {
        let set: CallSet = [Call::Call, Call::CommandLine].into_iter().collect();
        let has: Vec<Call> = Call::ALL.iter().copied().filter(|&call| set.contains(call)).collect();
        assert_eq!(has, [Call::Call, Call::CommandLine]);
        assert!(!set.without(Call::Call).contains(Call::Call));
    }

    #[test]
    fn a_policy_is_no_better_than_granted() {
        let grants = Grants { policy: Policy::Fifo(10), ..Grants::default() };
        let policy = |wanted: Policy| grants.policy(wanted.pack().into());
        assert_eq!(grants.policy(GRANTED), Ok(Policy::Fifo(10)));
        assert_eq!(policy(Policy::RoundRobin(10)), Ok(Policy::RoundRobin(10)));
        assert_eq!(policy(Policy::Fair { nice: -20 }), Ok(Policy::Fair { nice: -20 }));
        assert_eq!(policy(Policy::Fifo(11)), Err(Status::Refused));
        assert_eq!(grants.policy(0x300), Err(Status::Invalid));
        assert_eq!(grants.policy(1 << 32), Err(Status::Invalid));
    }

    #[test]
    fn a_cause_says_what_the_processor_refused() {
        let access = program::Access::Write;
        let fault = Trap::PageFault { address: 0x1000, access, is_present: true };
        assert_eq!(End::cause_of(fault), "page fault: Write of 0x1000");
        let exception = Trap::Exception { vector: 6, error_code: 0 };
        assert_eq!(End::cause_of(exception), "exception 6, code 0x0");
    }

    #[test]
    fn every_call_is_in_the_set_of_all() {
        assert!(Call::ALL.iter().all(|&call| CallSet::ALL.contains(call)));
        assert_eq!(CallSet::ALL, Call::ALL.iter().copied().collect());
    }
}
