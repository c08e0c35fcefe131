//! I/O APICs: global interrupt lines to vectors, masked until somebody opens them.
//!
//! Each register access is an index write and a data access, guarded by one spin lock a system.
//! Source: Intel 82093AA data sheet; ACPI 6.5, 5.2.12.5 for the overrides.
use super::{acpi, cpu};
use crate::{memory, spin::SpinLock};

const SELECT: usize = 0x00;
const DATA: usize = 0x10;
const VERSION: u32 = 1;
const REDIRECTION: u32 = 0x10;
const MASKED: u32 = 1 << 16;
const LEVEL: u32 = 1 << 15;
const ACTIVE_LOW: u32 = 1 << 13;

/// How a line signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A change is one interrupt.
    Edge,
    /// Interrupts as long as it is asserted: masked while being handled.
    Level,
}

#[derive(Clone, Copy, Debug)]
struct Controller {
    registers: u64,
    first_line: u32,
    lines: u32,
}

impl Controller {
    fn read(&self, index: u32) -> u32 {
        // SAFETY: the mapped select register of an I/O APIC.
        unsafe { ((self.registers as usize + SELECT) as *mut u32).write_volatile(index) };
        // SAFETY: its mapped data register.
        unsafe { ((self.registers as usize + DATA) as *const u32).read_volatile() }
    }
    fn write(&self, index: u32, value: u32) {
        // SAFETY: as in `read`.
        unsafe { ((self.registers as usize + SELECT) as *mut u32).write_volatile(index) };
        // SAFETY: as in `read`; redirection entries name vectors that have handlers.
        unsafe { ((self.registers as usize + DATA) as *mut u32).write_volatile(value) };
    }
}

static CONTROLLERS: SpinLock<[Option<Controller>; 4]> = SpinLock::new(&CLASS, [None; 4]);
static CLASS: sync::class::LockClass = sync::class::LockClass::new("nucleus.ioapic");

/// Maps every I/O APIC and masks its lines.
pub fn init() {
    let mut controllers = CONTROLLERS.lock();
    for (slot, found) in controllers.iter_mut().zip(acpi::tables().io_apics.as_slice()) {
        let registers = memory::map_device(found.address, 4096);
        let mut controller = Controller { registers, first_line: found.first_line, lines: 0 };
        controller.lines = (controller.read(VERSION) >> 16 & 0xff) + 1;
        for line in 0..controller.lines {
            if controller.read(REDIRECTION + 2 * line) & MASKED == 0 {
                controller.write(REDIRECTION + 2 * line, MASKED);
            }
        }
        *slot = Some(controller);
    }
    drop(controllers);
    mask_legacy_controllers();
}

/// Masks the two 8259s, which would otherwise deliver to vectors of exceptions.
fn mask_legacy_controllers() {
    for port in [0x21, 0xa1] {
        // SAFETY: the mask register of an 8259 (or nothing).
        unsafe { cpu::out8(port, 0xff) };
    }
}

/// The global line and trigger of `line`, which below 16 is an ISA interrupt.
fn resolve(line: u32) -> (u32, Trigger, bool) {
    let tables = acpi::tables();
    if tables.transports.as_slice().iter().any(|transport| transport.interrupt == line) {
        return (line, Trigger::Level, false);
    }
    let found = tables.overrides.as_slice().iter().find(|entry| u32::from(entry.source) == line);
    match found {
        Some(entry) => {
            let trigger =
                if entry.flags & 0b1100 == 0b1100 { Trigger::Level } else { Trigger::Edge };
            (entry.line, trigger, entry.flags & 0b11 == 0b11)
        }
        None if line < 16 => (line, Trigger::Edge, false),
        None => (line, Trigger::Level, true),
    }
}

/// The global line of `line` and how it signals, unless `trigger` says otherwise.
pub fn resolved(line: u32, trigger: Option<Trigger>) -> (u32, Trigger) {
    let (global, found, _) = resolve(line);
    (global, trigger.unwrap_or(found))
}

fn with_entry<R>(global: u32, action: impl FnOnce(&Controller, u32) -> R) -> Option<R> {
    let controllers = CONTROLLERS.lock();
    let controller = controllers
        .iter()
        .flatten()
        .find(|found| (found.first_line..found.first_line + found.lines).contains(&global))?;
    Some(action(controller, REDIRECTION + 2 * (global - controller.first_line)))
}

/// Routes `line` (an ISA interrupt below 16, else a global line) to `vector` on the processor with
/// local APIC `destination`, unmasked, triggered as `trigger` says or as the platform does. `None`
/// where no I/O APIC has it.
pub fn route(line: u32, vector: u8, destination: u32, trigger: Option<Trigger>) -> Option<()> {
    let (global, found, is_low) = resolve(line);
    let trigger = trigger.unwrap_or(found);
    let mut low = u32::from(vector);
    if trigger == Trigger::Level {
        low |= LEVEL;
    }
    if is_low {
        low |= ACTIVE_LOW;
    }
    with_entry(global, |controller, entry| {
        controller.write(entry + 1, destination << 24);
        controller.write(entry, low);
    })
}

/// Masks a global line.
pub fn mask(global: u32) {
    let _ = with_entry(global, |controller, entry| {
        let low = controller.read(entry);
        controller.write(entry, low | MASKED);
    });
}

/// Unmasks a global line.
pub fn unmask(global: u32) {
    let _ = with_entry(global, |controller, entry| {
        let low = controller.read(entry);
        controller.write(entry, low & !MASKED);
    });
}
