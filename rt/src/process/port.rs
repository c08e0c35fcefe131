//! Ports of the process world. They are accessed by plain instructions if the nucleus lets these pass or emulates
//! them, else by kernel calls, of which one carries out a list of accesses.
use super::call::{ask, ask_with_memory};
use crate::device::DeviceError;
use calls::{Call, PORT_LIST_MAX, PortStep};
use core::{
    arch::asm,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

/// Whether open ports are accessed by plain instructions. The nucleus says so when ports are opened, the same for
/// all of a component.
static IS_PLAIN: AtomicBool = AtomicBool::new(false);

pub(crate) fn ports_open(first: u16, count: u16) -> Result<(), DeviceError> {
    let [is_plain, ..] = ask(Call::PortsOpen, &[u64::from(first), u64::from(count)])?;
    IS_PLAIN.store(is_plain != 0, Relaxed);
    Ok(())
}

pub(crate) fn ports_close(first: u16, count: u16) {
    // The call fails only for ports that were taken away, which are closed already.
    let _ = ask(Call::PortsClose, &[u64::from(first), u64::from(count)]);
}

macro_rules! access {
    ($read:ident, $write:ident, $type:ty, $register:tt) => {
        fn $read(port: u16) -> u32 {
            let value: $type;
            // SAFETY: changes no memory; what the device behind it may reach is what the nucleus lets it reach.
            unsafe {
                asm!(concat!("in ", $register, ", dx"), in("dx") port, out($register) value,
                    options(nostack, preserves_flags));
            }
            value.into()
        }
        fn $write(port: u16, value: u32) {
            // SAFETY: as above.
            unsafe {
                asm!(concat!("out dx, ", $register), in("dx") port, in($register) value as $type,
                    options(nostack, preserves_flags));
            }
        }
    };
}

access!(in8, out8, u8, "al");
access!(in16, out16, u16, "ax");
access!(in32, out32, u32, "eax");

#[inline]
pub(crate) fn port_read(number: u16, width: u8) -> u32 {
    if !IS_PLAIN.load(Relaxed) {
        let read = ask(Call::PortRead, &[u64::from(number), u64::from(width)]);
        return read.map_or(u32::MAX, |[value, ..]| value as u32);
    }
    match width {
        1 => in8(number),
        2 => in16(number),
        _ => in32(number),
    }
}

#[inline]
pub(crate) fn port_write(number: u16, width: u8, value: u32) {
    if !IS_PLAIN.load(Relaxed) {
        // A write to a port that was taken away has no effect.
        let _ = ask(Call::PortWrite, &[u64::from(number), u64::from(width), u64::from(value)]);
        return;
    }
    match width {
        1 => out8(number, value),
        2 => out16(number, value),
        _ => out32(number, value),
    }
}

/// Does at most [`PORT_LIST_MAX`] accesses by one call.
fn list(accesses: impl Iterator<Item = PortStep>) -> [[u8; 8]; PORT_LIST_MAX] {
    let mut steps = [[0; 8]; PORT_LIST_MAX];
    let mut count = 0;
    for (step, access) in steps.iter_mut().zip(accesses) {
        *step = access.pack();
        count += 1;
    }
    let arguments = [steps.as_mut_ptr() as u64, count];
    // SAFETY: the nucleus reads and writes these steps.
    let done = unsafe { ask_with_memory(Call::PortList, &arguments) };
    // A port that was taken away reads like one that does not exist.
    if done.is_ok() { steps } else { [[u8::MAX; 8]; PORT_LIST_MAX] }
}

/// The read of a byte.
fn read_of(port: u16) -> PortStep {
    PortStep { port, width: 1, is_write: false, value: 0 }
}

/// The write of a byte.
fn write_of(port: u16, value: u8) -> PortStep {
    PortStep { port, width: 1, is_write: true, value: value.into() }
}

/// Returns the value of a step.
fn value(step: [u8; 8]) -> u8 {
    PortStep::unpack(step).value as u8
}

pub(crate) fn port_read_all(number: u16, out: &mut [u8]) {
    if IS_PLAIN.load(Relaxed) {
        // SAFETY: fills exactly `out`.
        unsafe {
            asm!("rep insb", in("dx") number, inout("rdi") out.as_mut_ptr() => _, inout("rcx") out.len() => _,
                options(nostack, preserves_flags));
        }
        return;
    }
    for part in out.chunks_mut(PORT_LIST_MAX) {
        let read = list(part.iter().map(|_| read_of(number)));
        part.iter_mut().zip(read).for_each(|(byte, read)| *byte = value(read));
    }
}

pub(crate) fn port_write_all(number: u16, data: &[u8]) {
    if IS_PLAIN.load(Relaxed) {
        // SAFETY: reads exactly `data`.
        unsafe {
            asm!("rep outsb", in("dx") number, inout("rsi") data.as_ptr() => _, inout("rcx") data.len() => _,
                options(readonly, nostack, preserves_flags));
        }
        return;
    }
    for part in data.chunks(PORT_LIST_MAX) {
        list(part.iter().map(|&value| write_of(number, value)));
    }
}

pub(crate) fn port_read_list(first: u16, bytes: &mut [(u16, u8)]) {
    if IS_PLAIN.load(Relaxed) {
        bytes.iter_mut().for_each(|(offset, value)| *value = in8(first + *offset) as u8);
        return;
    }
    for part in bytes.chunks_mut(PORT_LIST_MAX) {
        let read = list(part.iter().map(|&(offset, _)| read_of(first + offset)));
        part.iter_mut().zip(read).for_each(|((_, byte), read)| *byte = value(read));
    }
}

pub(crate) fn port_write_list(first: u16, bytes: &[(u16, u8)]) {
    if IS_PLAIN.load(Relaxed) {
        bytes.iter().for_each(|&(offset, value)| out8(first + offset, value.into()));
        return;
    }
    for part in bytes.chunks(PORT_LIST_MAX) {
        list(part.iter().map(|&(offset, value)| write_of(first + offset, value)));
    }
}
