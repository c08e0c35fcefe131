//! Interrupts: vectors, the threads that wait for them, and the handling of arriving interrupts.
//!
//! A handler here acknowledges and notifies; all other work is done in threads (M2). Each device vector has a counter
//! that its handler counts up and its waiter compares with the last value that it saw. The vector may also be bound to
//! bits of an endpoint. Vectors are the same on every processor; an interrupt is delivered to one.
use crate::{
    arch::{acpi, apic, cpu, ioapic, iommu, percpu, smp},
    capability::EndpointRight,
    memory,
    objects::{self, Kind},
    spin::SpinLock,
    thread,
};
use ::calls::Held;
use alloc::{string::String, vec::Vec};
use core::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed},
};
use program::DeviceError;
use sync::{Outcome, Sleep};
use vtd::Route;
use x86::vectors::{AFTER_DEVICES, DEVICES, DeviceVector, FIRST_DEVICE};

/// State of a device vector and its interrupt.
#[derive(Debug)]
struct Slot {
    state: DeviceVector,
    /// The endpoint that the interrupt signals, and the bits.
    bound: SpinLock<Option<(EndpointRight, u64)>>,
}

impl Slot {
    const fn new() -> Slot {
        Slot { state: DeviceVector::new(), bound: SpinLock::new(class!("nucleus.irq.bound"), None) }
    }

    /// Counts an interrupt, or a wake that stands for one, and wakes the waiter.
    fn notify(&self) {
        thread::wake(self.state.notify(), 1);
        if let Some((to, bits)) = &*self.bound.lock() {
            to.signal(*bits);
        }
    }
}

static SLOTS: [Slot; DEVICES] = [const { Slot::new() }; DEVICES];
static NEXT_CPU: AtomicUsize = AtomicUsize::new(0);

/// Counts of interrupts that do not come from devices, by [`NAMES`] and processor.
static COUNTS: [[AtomicU64; percpu::MAX_CPUS]; 3] =
    [const { [const { AtomicU64::new(0) }; percpu::MAX_CPUS] }; 3];
const NAMES: [&str; 3] = ["LOC timer", "RES reschedule", "TLB shootdown"];

/// The address and the data that a message-signalled interrupt writes.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Address.
    pub address: u64,
    /// Data.
    pub data: u32,
}

/// The right to a device vector; given back when dropped.
#[derive(Debug)]
pub struct Interrupt {
    vector: u8,
    line: Option<u32>,
    /// Charge to the quota of vectors of the domain that opened it.
    held: Option<Held>,
}

/// Handles interrupt `vector` (32 and above) on this processor, with interrupts off.
pub fn dispatch(vector: u8) {
    percpu::forget_ready_space();
    match vector {
        apic::TIMER_VECTOR => {
            acknowledge(0);
            thread::timer_interrupt(crate::time::now_ns());
        }
        apic::SAMPLE_VECTOR => {
            acknowledge(0);
            thread::sample_interrupt(crate::time::now_ns());
        }
        apic::RESCHEDULE_VECTOR => acknowledge(1),
        apic::SHOOTDOWN_VECTOR => {
            acknowledge(2);
            memory::shootdown_interrupt();
        }
        apic::STOP_VECTOR if smp::IS_STOPPING.load(Acquire) => cpu::halt_forever(),
        FIRST_DEVICE..AFTER_DEVICES => dispatch_device(&SLOTS[usize::from(vector - FIRST_DEVICE)]),
        // A spurious interrupt needs no end of interrupt.
        _ => _ = apic::end_stray(vector),
    }
}

fn acknowledge(which: usize) {
    let counter = &COUNTS[which][percpu::cpu()];
    counter.store(counter.load(Relaxed) + 1, Relaxed);
    apic::end_of_interrupt();
}

fn dispatch_device(slot: &Slot) {
    slot.state.count();
    if let Some(line) = slot.state.level_line() {
        ioapic::mask(line);
    }
    apic::end_of_interrupt();
    slot.notify();
}

fn take_slot(source: u32) -> Option<Route> {
    let index = SLOTS.iter().position(|slot| slot.state.take(source))?;
    let cpu = NEXT_CPU.fetch_add(1, Relaxed) % smp::online();
    SLOTS[index].state.set_cpu(cpu);
    objects::count(Kind::Interrupt, 1);
    let destination = percpu::of(cpu).apic_id.load(Relaxed) as u8;
    Some(Route { vector: FIRST_DEVICE + index as u8, destination, is_level: false, sender: None })
}

impl Interrupt {
    /// Takes a line; `source` is its number as shown to users. Returns `None` if no controller has the line or vectors
    /// ran out.
    pub fn line(source: u32, line: ioapic::Line) -> Option<Interrupt> {
        let sender = acpi::tables().sender(line.global);
        let route = Route { is_level: line.is_level, sender, ..take_slot(source)? };
        let mut interrupt = Interrupt { vector: route.vector, line: None, held: None };
        // This is set before the route is live, because the handler must know whether to mask.
        if line.is_level {
            interrupt.slot().state.set_level_line(line.global);
        }
        let high = match iommu::route(route) {
            Some(_) => ioapic::remapped(route.vector),
            None => ioapic::to(route.destination.into()),
        };
        ioapic::route(line, route.vector, high)?;
        interrupt.line = Some(line.global);
        Some(interrupt)
    }

    /// Takes a vector for a message; `source` is its number as shown to users. An IOMMU that remaps interrupts lets only
    /// the function `sender` raise it; the IOMMU's own interrupt has no sender.
    pub fn message(source: u32, sender: Option<u16>) -> Option<(Interrupt, Message)> {
        let route = Route { sender, ..take_slot(source)? };
        let Route { vector, destination, .. } = route;
        let remapped = sender.and_then(|_| iommu::route(route));
        let old = (apic::DEFAULT_ADDRESS | u64::from(destination) << 12, u32::from(vector));
        let (address, data) = remapped.map_or(old, |address| (address, 0));
        Some((Interrupt { vector, line: None, held: None }, Message { address, data }))
    }

    /// Attaches the charge `held` to the interrupt.
    pub fn held_as(mut self, held: Held) -> Interrupt {
        self.held = Some(held);
        self
    }

    fn slot(&self) -> &'static Slot {
        &SLOTS[usize::from(self.vector - FIRST_DEVICE)]
    }

    /// Blocks until the interrupt (or [`Interrupt::wake`]) has come since the last wait, the deadline or,
    /// if interruptible, a kick.
    pub fn wait(&self, deadline_ns: Option<u64>, sleep: Sleep) -> Outcome {
        while let Some((word, value)) = self.slot().state.awaited() {
            match thread::wait_on(word, value, deadline_ns, sleep) {
                Outcome::Signalled => {}
                other => return other,
            }
        }
        Outcome::Signalled
    }

    /// Unmasks a level-triggered line, so that it can come again.
    pub fn acknowledge(&self) {
        if let Some(line) = self.slot().state.level_line() {
            ioapic::unmask(line);
        }
    }

    /// Ends the wait under way, or the next one.
    pub fn wake(&self) {
        self.slot().notify();
    }

    /// Signals `bits` by `to` whenever the interrupt comes from now on; at once if it has come since the last wait.
    ///
    /// # Errors
    /// [`DeviceError::Refused`] if the right was taken back.
    pub fn bind_to(&self, to: &EndpointRight, bits: u64) -> Result<(), DeviceError> {
        let slot = self.slot();
        let before = slot.bound.lock().replace((to.clone(), bits));
        drop(before);
        if slot.state.awaited().is_none() {
            to.signal(bits);
        }
        if to.is_over() { Err(DeviceError::Refused) } else { Ok(()) }
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        if let Some(line) = self.line {
            ioapic::mask(line);
        }
        let bound = self.slot().bound.lock().take();
        drop(bound);
        iommu::unroute(self.vector);
        objects::count(Kind::Interrupt, -1);
        self.slot().state.release();
    }
}

/// Returns the interrupts taken, by name, with one count for each processor.
pub fn statistics() -> Vec<(String, Vec<u64>)> {
    let online = smp::online();
    let devices = SLOTS.iter().enumerate();
    let devices = devices.filter_map(|(index, slot)| slot.state.report(index, online));
    let counts = |all: &[AtomicU64]| all[..online].iter().map(|one| one.load(Relaxed)).collect();
    let named = NAMES.into_iter().zip(&COUNTS);
    devices.chain(named.map(|(name, all)| (String::from(name), counts(all)))).collect()
}

/// Returns the number of all interrupts taken.
pub fn total() -> u64 {
    let devices = SLOTS.iter().map(|slot| slot.state.interrupts());
    let others = COUNTS.iter().flat_map(|all| &all[..smp::online()]);
    devices.chain(others.map(|count| count.load(Relaxed))).sum()
}
