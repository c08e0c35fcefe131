//! Information on threads, processors, memory and devices that the nucleus reports, and its errors.
use core::fmt;

/// Memory was refused: the charge did not fit. `ENOMEM` or `EAGAIN` to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

/// Shift of the factor that converts counts of the time-stamp counter to nanoseconds.
pub const SCALE_SHIFT: u32 = 32;

/// The scheduling policy of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Shares the processor by weight; `nice` from -20 to 19 as in POSIX.
    Fair {
        /// The nice value.
        nice: i8,
    },
    /// Runs until it blocks. The priority is 1 to 99; a higher one goes first.
    Fifo(u8),
    /// Runs like `Fifo`, but for at most a time slice among equals.
    RoundRobin(u8),
}

impl Default for Policy {
    fn default() -> Self {
        Policy::Fair { nice: 0 }
    }
}

impl Policy {
    /// Packs the policy into a word. Numbers out of range are brought into it.
    pub fn pack(self) -> u32 {
        match self {
            Policy::Fair { nice } => u32::from(nice.clamp(-20, 19) as u8),
            Policy::Fifo(priority) => 0x100 | u32::from(priority.clamp(1, 99)),
            Policy::RoundRobin(priority) => 0x200 | u32::from(priority.clamp(1, 99)),
        }
    }

    /// Unpacks the policy of `word`.
    pub fn unpack(word: u32) -> Option<Policy> {
        match word >> 8 {
            0 => Some(Policy::Fair { nice: word as u8 as i8 }),
            1 => Some(Policy::Fifo(word as u8)),
            2 => Some(Policy::RoundRobin(word as u8)),
            _ => None,
        }
    }

    /// Returns the real-time priority of the policy [packed](Policy::pack) in `word`; 0 for a fair one.
    #[inline(always)]
    pub const fn real_time_of(word: u32) -> u8 {
        if Policy::is_fair(word) { 0 } else { word as u8 }
    }

    /// Returns whether the policy [packed](Policy::pack) in `word` is a fair one.
    pub const fn is_fair(word: u32) -> bool {
        word >> 8 == 0
    }

    /// Returns the rank of the policy: the higher one runs first.
    pub fn rank(self) -> i32 {
        match self {
            Policy::Fair { nice } => -i32::from(nice),
            Policy::Fifo(priority) | Policy::RoundRobin(priority) => 100 + i32::from(priority),
        }
    }

    /// Returns the real-time priority; 0 for a fair policy.
    pub fn real_time(self) -> u8 {
        match self {
            Policy::Fair { .. } => 0,
            Policy::Fifo(priority) | Policy::RoundRobin(priority) => priority,
        }
    }

    /// Nanoseconds of a slice of a round-robin thread: Linux's `RR_TIMESLICE`.
    pub const SLICE_NS: u64 = 100_000_000;

    /// Returns whether a thread of this policy gives way to its equals.
    pub fn is_turn_over(self, turn: Turn) -> bool {
        match self {
            Policy::Fair { .. } => turn.is_behind,
            Policy::Fifo(_) => false,
            Policy::RoundRobin(_) => turn.is_slice_over,
        }
    }
}

/// The progress of a running thread.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The best of its equals has had less of the processor.
    pub is_behind: bool,
    /// It ran for a whole slice ([`Policy::SLICE_NS`]).
    pub is_slice_over: bool,
}

/// Estimates the part of `run_ns` that was in user mode from the numbers of ticks that came in user mode and in the kernel.
/// Returns all of it if no tick came.
pub fn user_ns(run_ns: u64, user_ticks: u64, system_ticks: u64) -> u64 {
    match u128::from(user_ticks) + u128::from(system_ticks) {
        0 => run_ns,
        all => (u128::from(run_ns) * u128::from(user_ticks) / all) as u64,
    }
}

/// The processor time of a thread, and its state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// Nanoseconds in user mode.
    pub user_ns: u64,
    /// Nanoseconds in the kernel.
    pub system_ns: u64,
    /// Switches away because the thread blocked.
    pub voluntary_switches: u64,
    /// Switches away because the scheduler took the processor.
    pub forced_switches: u64,
    /// The processor that the thread runs on or last ran on.
    pub processor: u32,
    /// The thread runs or is ready to; otherwise it waits.
    pub is_runnable: bool,
    /// The thread waits, and a kick would end the wait.
    pub is_interruptible: bool,
}

impl CpuTime {
    /// Bits of a number of switches in [`CpuTime::words`].
    pub const SWITCHES_BITS: u32 = 27;
    /// Greatest number of switches in [`CpuTime::words`].
    pub const SWITCHES_MAX: u64 = (1 << Self::SWITCHES_BITS) - 1;
    /// Greatest processor number in [`CpuTime::words`].
    pub const PROCESSOR_MAX: u32 = 0x7f;
    /// Flag in the last of [`CpuTime::words`]: the thread is runnable.
    pub const RUNNABLE: u64 = 1 << 63;
    /// Flag in the last of [`CpuTime::words`]: a kick would end the thread's wait.
    pub const INTERRUPTIBLE: u64 = 1 << 62;

    /// Packs the times into the words of a kernel call's answer. Numbers of switches are cut to 2^27 - 1, processors to 127.
    pub fn words(&self) -> [u64; 3] {
        let voluntary = self.voluntary_switches.min(Self::SWITCHES_MAX);
        let forced = self.forced_switches.min(Self::SWITCHES_MAX);
        let processor = u64::from(self.processor.min(Self::PROCESSOR_MAX));
        let bit = |is_so, bit| if is_so { bit } else { 0 };
        let state =
            bit(self.is_runnable, Self::RUNNABLE) | bit(self.is_interruptible, Self::INTERRUPTIBLE);
        let last = state
            | processor << (2 * Self::SWITCHES_BITS)
            | voluntary << Self::SWITCHES_BITS
            | forced;
        [self.user_ns, self.system_ns, last]
    }
}

/// A type of object of the nucleus or rt, with its counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectCount {
    /// Name of the type.
    pub name: &'static str,
    /// Objects alive now.
    pub live: u64,
    /// Objects made since boot.
    pub made: u64,
}

/// A trace point that was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// Monotonic time of the record.
    pub at_ns: u64,
    /// Processor that passed the trace point.
    pub processor: usize,
    /// Name of the trace point.
    pub name: &'static str,
    /// The numbers recorded with it.
    pub numbers: [u64; 2],
}

impl fmt::Display for TraceRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TraceRecord { at_ns, processor, name, numbers: [first, second] } = self;
        write!(f, "{at_ns} ns, cpu {processor}: {name} {first:#x} {second:#x}")
    }
}

/// The time that a processor spent since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// Nanoseconds in user mode.
    pub user_ns: u64,
    /// Nanoseconds in the kernel.
    pub system_ns: u64,
    /// Nanoseconds idle.
    pub idle_ns: u64,
    /// Context switches.
    pub switches: u64,
}

/// The amounts of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames of RAM under management.
    pub total_frames: u64,
    /// Frames free now, per-CPU caches included.
    pub free_frames: u64,
    /// Frames held by the kernel heap (slabs and large allocations).
    pub heap_frames: u64,
    /// Frames of page tables.
    pub table_frames: u64,
    /// Frames of kernel stacks.
    pub stack_frames: u64,
    /// Bytes charged now.
    pub charged_bytes: u64,
    /// Large pages of programs.
    pub large_pages: u64,
}

/// Address of a PCI function: segment 0, `bus << 8 | device << 3 | function`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PciAddress(pub u16);

impl core::fmt::Display for PciAddress {
    /// Writes `BUS:DEVICE.FUNCTION`, the format of lspci.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:02x}:{:02x}.{}", self.0 >> 8, self.0 >> 3 & 0x1f, self.0 & 7)
    }
}

/// One PCI function found at boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PciFunction {
    /// Address of the function.
    pub address: PciAddress,
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
    /// Class, subclass, programming interface, revision.
    pub class: u32,
    /// Subsystem device id.
    pub subsystem: u16,
}

/// One virtio-mmio transport (microvm): from the kernel parameter `virtio_mmio.device=SIZE@BASE:IRQ` or ACPI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MmioDevice {
    /// Physical address of its registers.
    pub base: u64,
    /// Bytes of registers.
    pub bytes: u64,
    /// Global interrupt number.
    pub interrupt: u32,
}

/// The reason why access to a device was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceError {
    /// No such device, region or interrupt.
    NotFound,
    /// It has another owner, or was not granted.
    Refused,
    /// Memory was refused.
    NoMemory,
}

impl core::fmt::Display for DeviceError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            DeviceError::NotFound => "there is no such device, region or interrupt",
            DeviceError::Refused => "it is not granted, or in use already",
            DeviceError::NoMemory => "memory or a thread was refused",
        })
    }
}

impl From<NoMemory> for DeviceError {
    fn from(_: NoMemory) -> Self {
        DeviceError::NoMemory
    }
}

/// One access to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortStep {
    /// The port.
    pub port: u16,
    /// Width of the access: 1, 2 or 4 bytes.
    pub width: u8,
    /// The access writes `value`; otherwise it reads it.
    pub is_write: bool,
    /// The value that is written or was read.
    pub value: u32,
}

impl PortStep {
    /// Packs the step into the form of kernel calls: `value << 32 | is_write << 24 | width << 16 | port`, least byte first.
    pub const fn pack(self) -> [u8; 8] {
        let head = (self.is_write as u64) << 24 | (self.width as u64) << 16 | self.port as u64;
        ((self.value as u64) << 32 | head).to_le_bytes()
    }
    /// Makes the step from the result of [`PortStep::pack`].
    pub const fn unpack(packed: [u8; 8]) -> PortStep {
        let word = u64::from_le_bytes(packed);
        let value = (word >> 32) as u32;
        PortStep { port: word as u16, width: packed[2], is_write: packed[3] != 0, value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_access_comes_out_as_it_was_packed() {
        for is_write in [false, true] {
            let step = PortStep { port: 0x2f8, width: 4, is_write, value: 0x8182_8384 };
            assert_eq!(PortStep::unpack(step.pack()), step);
        }
    }

    #[test]
    fn a_policy_comes_back_from_its_word() {
        let all = [Policy::Fair { nice: -20 }, Policy::Fifo(1), Policy::RoundRobin(99)];
        for policy in all {
            assert_eq!(Policy::unpack(policy.pack()), Some(policy));
            assert_eq!(Policy::is_fair(policy.pack()), matches!(policy, Policy::Fair { .. }));
            assert_eq!(Policy::real_time_of(policy.pack()), policy.real_time());
        }
        assert_eq!(Policy::unpack(0x300), None);
        assert_eq!(Policy::Fair { nice: 100 }.pack(), 19);
    }

    #[test]
    fn real_time_goes_before_fair() {
        assert!(Policy::Fifo(1).rank() > Policy::Fair { nice: -20 }.rank());
        assert!(Policy::Fair { nice: 0 }.rank() > Policy::Fair { nice: 1 }.rank());
    }

    #[test]
    fn whose_turn_is_over() {
        let fair = Policy::Fair { nice: 0 };
        let behind = Turn { is_behind: true, is_slice_over: false };
        let slice_over = Turn { is_behind: false, is_slice_over: true };
        assert!(fair.is_turn_over(behind) && !fair.is_turn_over(slice_over));
        assert!(!Policy::Fifo(5).is_turn_over(Turn { is_behind: true, is_slice_over: true }));
        let round = Policy::RoundRobin(5);
        assert!(round.is_turn_over(slice_over) && !round.is_turn_over(behind));
    }

    #[test]
    fn time_is_split_by_ticks() {
        assert_eq!(user_ns(1000, 1, 3), 250);
        assert_eq!(user_ns(1000, 0, 0), 1000);
        assert_eq!(user_ns(u64::MAX, u64::MAX, 0), u64::MAX);
    }
}
