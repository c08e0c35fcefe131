//! Ending the system: QEMU's exit port, ACPI power off, reset.
//!
//! The kernel parameter `skerry.exit_port` names the port of QEMU's `isa-debug-exit` device: a value
//! V written there ends QEMU with status 2 V + 1.
use super::{acpi, cpu};
use crate::params;

const EXIT_OK: u8 = 0;
const EXIT_PANIC: u8 = 0x55;

fn exit_by_port(value: u8) {
    if let Some(port) = params::number("skerry.exit_port") {
        // SAFETY: the user named the port; QEMU ends there.
        unsafe { cpu::out8(port as u16, value) };
    }
}

/// Ends the system after a panic.
pub fn die() -> ! {
    exit_by_port(EXIT_PANIC);
    cpu::halt_forever()
}

/// Powers the machine off; halts if that is not possible.
pub fn off() -> ! {
    cpu::disable_interrupts();
    exit_by_port(EXIT_OK);
    sleep_5();
    cpu::halt_forever()
}

/// Enters ACPI state S5, power off (ACPI 6.5, 4.8.3.2 and 4.8.3.7).
fn sleep_5() {
    const ENABLE_PM1: u16 = 1 << 13;
    const ENABLE_REDUCED: u8 = 1 << 5;
    let tables = acpi::tables();
    let Some(types) = tables.sleep_type_5 else { return };
    for (register, sleep_type) in tables.pm1_control.iter().zip(types) {
        if let acpi::Register::Port(port) = *register {
            // SAFETY: PM1 control of the FADT; the machine goes off.
            unsafe { cpu::out16(port, u16::from(sleep_type) << 10 | ENABLE_PM1) };
        }
    }
    write_register(tables.sleep_control, types[0] << 2 | ENABLE_REDUCED);
}

fn write_register(register: acpi::Register, value: u8) {
    match register {
        acpi::Register::None => {}
        // SAFETY: a register of the FADT for this purpose.
        acpi::Register::Port(port) => unsafe { cpu::out8(port, value) },
        acpi::Register::Memory(address) => {
            let at = crate::memory::map_device(address & !0xfff, 4096) + (address & 0xfff);
            // SAFETY: just mapped, a register of the FADT for this purpose.
            unsafe { (at as *mut u8).write_volatile(value) };
        }
    }
}

/// Restarts the machine by the FADT's register, the chip set's, the keyboard controller, or a triple fault.
pub fn restart() -> ! {
    cpu::disable_interrupts();
    let (register, value) = acpi::tables().reset;
    write_register(register, value);
    for (port, value) in [(0xcf9, 6), (0x64, 0xfe)] {
        // SAFETY: resets the machine.
        unsafe { cpu::out8(port, value) };
    }
    let empty = [0u8; 10];
    // SAFETY: an empty IDT turns the breakpoint into a triple fault, which resets the processor.
    unsafe { core::arch::asm!("lidt [{}]", "int3", in(reg) &empty) };
    cpu::halt_forever()
}

/// Stops every processor.
pub fn halt() -> ! {
    super::smp::stop_others();
    cpu::halt_forever()
}
