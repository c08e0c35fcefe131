//! I/O APICs: they route global interrupt lines to vectors. A line is masked until a component opens it.
//!
//! Each register access is an index write and a data access; one spin lock guards all I/O APICs. Source: Intel 82093AA data
//! sheet; ACPI 6.5, 5.2.12.5 for the overrides.
use super::{acpi, cpu};
use crate::{memory, spin::SpinLock};
pub use firmware::acpi::Line;
use x86::ioapic::{DATA, MASKED, SELECT, Signal, VERSION, entry, lines, redirection};
pub use x86::ioapic::{remapped, to};

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

static CONTROLLERS: SpinLock<[Option<Controller>; 4]> =
    SpinLock::new(class!("nucleus.ioapic"), [None; 4]);

/// Maps every I/O APIC and masks its lines.
pub fn init() {
    let mut controllers = CONTROLLERS.lock();
    for (slot, found) in controllers.iter_mut().zip(acpi::tables().io_apics.as_slice()) {
        let registers = memory::map_device(found.address, 4096);
        let mut controller = Controller { registers, first_line: found.first_line, lines: 0 };
        controller.lines = lines(controller.read(VERSION));
        for line in 0..controller.lines {
            if controller.read(entry(line)) & MASKED == 0 {
                controller.write(entry(line), MASKED);
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

fn with_entry<R>(global: u32, action: impl FnOnce(&Controller, u32) -> R) -> Option<R> {
    let controllers = CONTROLLERS.lock();
    let controller = controllers
        .iter()
        .flatten()
        .find(|found| (found.first_line..found.first_line + found.lines).contains(&global))?;
    Some(action(controller, entry(global - controller.first_line)))
}

/// Routes `line` to `vector`, unmasked. `high` is the upper half of the entry, which gives the destination ([`to`],
/// [`remapped`]). Returns `None` if no I/O APIC has the line.
pub fn route(line: Line, vector: u8, high: u32) -> Option<()> {
    with_entry(line.global, |controller, entry| {
        controller.write(entry + 1, high);
        let Line { is_level, is_active_low, .. } = line;
        controller.write(entry, redirection(vector, Signal { is_level, is_active_low }));
    })
}

fn change(global: u32, by: impl FnOnce(u32) -> u32) {
    let _ = with_entry(global, |controller, at| controller.write(at, by(controller.read(at))));
}

/// Masks a global line.
pub fn mask(global: u32) {
    change(global, |low| low | MASKED);
}

/// Unmasks a global line.
pub fn unmask(global: u32) {
    change(global, |low| low & !MASKED);
}
