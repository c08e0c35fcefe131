//! The plan of the interrupt vectors, and the state of a device's vector ([`DeviceVector`]).
//!
//! Vectors below 32 are the processor's exceptions. A handler counts its device's interrupts up; the waiter compares the count
//! with the one that it saw last, so no interrupt is lost between two waits.
use alloc::{format, string::String, vec, vec::Vec};
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// First vector of devices.
pub const FIRST_DEVICE: u8 = 0x30;
/// The vector after those of devices.
pub const AFTER_DEVICES: u8 = 0xe0;
/// Number of vectors of devices.
pub const DEVICES: usize = (AFTER_DEVICES - FIRST_DEVICE) as usize;
/// Vector of the timer.
pub const TIMER_VECTOR: u8 = 0xef;
/// Vector at which a processor checks whether another thread should run.
pub const RESCHEDULE_VECTOR: u8 = 0xf0;
/// Vector of a TLB shootdown.
pub const SHOOTDOWN_VECTOR: u8 = 0xf1;
/// Vector that stops a processor because another panics.
pub const STOP_VECTOR: u8 = 0xf2;
/// Vector of the timer while it samples, and of the interrupt that starts sampling.
pub const SAMPLE_VECTOR: u8 = 0xf3;
/// Vector of interrupts that vanished before they were taken; needs no end of interrupt.
pub const SPURIOUS_VECTOR: u8 = 0xff;

const NO_LINE: u32 = u32::MAX;

/// State of a device's vector and its interrupt. Interrupt handlers may use all of it.
#[derive(Debug)]
pub struct DeviceVector {
    is_taken: AtomicBool,
    /// The global line to mask when the interrupt comes, or `NO_LINE`.
    level_line: AtomicU32,
    /// Counted up by each interrupt, and by what stands for one.
    pending: AtomicU32,
    /// `pending` at the last wait.
    seen: AtomicU32,
    /// Number of the line or message that the interrupt comes from, to be shown to users.
    source: AtomicU32,
    cpu: AtomicU32,
    count: AtomicU64,
}

impl DeviceVector {
    /// Makes a vector that is free.
    pub const fn new() -> DeviceVector {
        DeviceVector {
            is_taken: AtomicBool::new(false),
            level_line: AtomicU32::new(NO_LINE),
            pending: AtomicU32::new(0),
            seen: AtomicU32::new(0),
            source: AtomicU32::new(0),
            cpu: AtomicU32::new(0),
            count: AtomicU64::new(0),
        }
    }

    /// Takes the vector, if it is free, for interrupts of `source`. Returns whether it did.
    pub fn take(&self, source: u32) -> bool {
        let is_ours = self.is_taken.compare_exchange(false, true, AcqRel, Relaxed).is_ok();
        if is_ours {
            self.level_line.store(NO_LINE, Relaxed);
            self.seen.store(self.pending.load(Relaxed), Relaxed);
            self.source.store(source, Relaxed);
            self.count.store(0, Relaxed);
        }
        is_ours
    }

    /// Frees the vector.
    pub fn release(&self) {
        self.is_taken.store(false, Release);
    }

    /// Notes the processor to which the interrupts go.
    pub fn set_cpu(&self, cpu: usize) {
        self.cpu.store(cpu as u32, Relaxed);
    }

    /// Notes that the interrupts come from a level-triggered global line.
    pub fn set_level_line(&self, line: u32) {
        self.level_line.store(line, Release);
    }

    /// Returns the global line, if it is level-triggered.
    pub fn level_line(&self) -> Option<u32> {
        Some(self.level_line.load(Acquire)).filter(|&line| line != NO_LINE)
    }

    /// Counts an interrupt for [`DeviceVector::report`].
    pub fn count(&self) {
        self.count.fetch_add(1, Relaxed);
    }

    /// Notes an interrupt, or what stands for one. Returns the word on which the waiter waits.
    pub fn notify(&self) -> &AtomicU32 {
        self.pending.fetch_add(1, AcqRel);
        &self.pending
    }

    /// Returns the word on which to wait and its value, unless an interrupt was noted since the last call.
    pub fn awaited(&self) -> Option<(&AtomicU32, u32)> {
        let pending = self.pending.load(Acquire);
        (self.seen.swap(pending, Relaxed) == pending).then_some((&self.pending, pending))
    }

    /// Returns the number of its interrupts; 0 if it is not taken.
    pub fn interrupts(&self) -> u64 {
        if self.is_taken.load(Relaxed) { self.count.load(Relaxed) } else { 0 }
    }

    /// Returns the name of the vector, which is number `index` of the devices', and its interrupts on each of `processors`, if
    /// it is taken.
    pub fn report(&self, index: usize, processors: usize) -> Option<(String, Vec<u64>)> {
        self.is_taken.load(Relaxed).then_some(())?;
        let mut counts = vec![0; processors];
        if let Some(count) = counts.get_mut(self.cpu.load(Relaxed) as usize) {
            *count = self.count.load(Relaxed);
        }
        let vector = index + usize::from(FIRST_DEVICE);
        let name = format!("{vector:#x} device {:#x}", self.source.load(Relaxed));
        Some((name, counts))
    }
}

impl Default for DeviceVector {
    fn default() -> Self {
        DeviceVector::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_vector_has_two_uses_or_is_an_exceptions() {
        let single = [
            TIMER_VECTOR,
            RESCHEDULE_VECTOR,
            SHOOTDOWN_VECTOR,
            STOP_VECTOR,
            SAMPLE_VECTOR,
            SPURIOUS_VECTOR,
        ];
        let mut all: Vec<u8> = (FIRST_DEVICE..AFTER_DEVICES).chain(single).collect();
        assert!(all.iter().all(|&vector| vector >= 32));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn a_vector_has_one_owner() {
        let vector = DeviceVector::new();
        assert!(vector.take(5) && !vector.take(6));
        vector.set_level_line(9);
        assert_eq!(vector.level_line(), Some(9));
        vector.release();
        assert_eq!(vector.report(0, 1), None);
        assert!(vector.take(6));
        assert_eq!(vector.level_line(), None, "nothing is left of the last owner");
    }

    #[test]
    fn an_interrupt_between_two_waits_is_seen_once() {
        let vector = DeviceVector::new();
        vector.notify();
        assert!(vector.take(1));
        assert!(vector.awaited().is_some(), "one for the last owner");
        let word = vector.notify().load(Relaxed);
        vector.notify();
        assert!(vector.awaited().is_none());
        assert_eq!(vector.awaited().map(|(_, value)| value), Some(word + 1));
    }

    #[test]
    fn a_report_counts_where_the_interrupts_come() {
        let vector = DeviceVector::new();
        assert!(vector.take(0x18));
        vector.set_cpu(2);
        (0..3).for_each(|_| vector.count());
        let name = String::from("0x35 device 0x18");
        assert_eq!(vector.report(5, 4), Some((name.clone(), vec![0, 0, 3, 0])));
        assert_eq!(vector.interrupts(), 3);
        assert_eq!(vector.report(5, 1), Some((name, vec![0])), "that processor is not counted");
    }

    #[test]
    fn a_waiter_sees_the_last_of_many_interrupts() {
        const COUNT: u32 = 100_000;
        let vector = DeviceVector::new();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..COUNT).for_each(|_| _ = vector.notify()));
            while vector.awaited().is_none_or(|(_, value)| value < COUNT) {
                std::hint::spin_loop();
            }
        });
        assert!(vector.awaited().is_some());
    }
}
