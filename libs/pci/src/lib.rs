//! PCI configuration space: finding functions, their BARs and MSI-X.
//!
//! Over [`Config`], whose accesses are taken to be dear (ports, under TCG): only bus 0 and buses behind
//! bridges are looked at. A function is named by `bus << 8 | device << 3 | function`.
//! Source: PCI Local Bus 3.0, 6.1 to 6.8; PCI-to-PCI bridge 1.2.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

#[cfg(test)]
mod tests;

use alloc::vec::Vec;

const ID: u16 = 0x00;
const COMMAND: u16 = 0x04;
const CLASS: u16 = 0x08;
const HEADER: u16 = 0x0c;
const FIRST_BAR: u16 = 0x10;
const BUSES: u16 = 0x18;
const SUBSYSTEM: u16 = 0x2c;
const CAPABILITIES: u16 = 0x34;
const CAPABILITY_MSIX: u8 = 0x11;

const COMMAND_MEMORY: u32 = 1 << 1;
const COMMAND_MASTER: u32 = 1 << 2;
const COMMAND_NO_INTX: u32 = 1 << 10;

/// Access to configuration space, by aligned longs.
pub trait Config {
    /// Reads the long at `offset` of function `address`; all ones where there is no function.
    fn read(&self, address: u16, offset: u16) -> u32;
    /// Writes the long at `offset` of function `address`.
    fn write(&self, address: u16, offset: u16, value: u32);
}

/// One function found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// `bus << 8 | device << 3 | function`.
    pub address: u16,
    /// Vendor in the low half, device in the high.
    pub id: u32,
    /// Class, subclass, interface, revision.
    pub class: u32,
    /// Subsystem vendor in the low half, subsystem in the high.
    pub subsystem: u32,
}

/// Every function that is there.
pub fn scan(config: &impl Config) -> Vec<Function> {
    let mut found = Vec::new();
    scan_bus(config, 0, 0, &mut found);
    found
}

/// Depth keeps a bridge that names its own bus from looping.
fn scan_bus(config: &impl Config, bus: u8, depth: u8, found: &mut Vec<Function>) {
    for device in 0..32u16 {
        let first = u16::from(bus) << 8 | device << 3;
        let mut functions = 1;
        let mut number = 0;
        while number < functions {
            let address = first | number;
            number += 1;
            let id = config.read(address, ID);
            if id as u16 == u16::MAX {
                continue;
            }
            let header = (config.read(address, HEADER) >> 16) as u8;
            if address == first && header & 0x80 != 0 {
                functions = 8;
            }
            add_function(config, address, id, header & 0x7f, depth, found);
        }
    }
}

fn add_function(
    config: &impl Config,
    address: u16,
    id: u32,
    header: u8,
    depth: u8,
    found: &mut Vec<Function>,
) {
    const BRIDGE: u8 = 1;
    const DEEPEST: u8 = 8;
    let subsystem = if header == 0 { config.read(address, SUBSYSTEM) } else { 0 };
    found.push(Function { address, id, class: config.read(address, CLASS), subsystem });
    let bus = (address >> 8) as u8;
    if header == BRIDGE && depth < DEEPEST {
        let secondary = (config.read(address, BUSES) >> 8) as u8;
        if secondary > bus {
            scan_bus(config, secondary, depth + 1, found);
        }
    }
}

/// Reads a configuration byte, word or long; all ones where there is none.
pub fn read_part(config: &impl Config, address: u16, offset: u16, bytes: u8) -> u32 {
    const CONFIG_BYTES: u16 = 256;
    if offset >= CONFIG_BYTES || !offset.is_multiple_of(u16::from(bytes).max(1)) {
        return u32::MAX;
    }
    let word = config.read(address, offset & !3) >> (8 * (offset & 3));
    match bytes {
        1 => word & 0xff,
        2 => word & 0xffff,
        4 => word,
        _ => u32::MAX,
    }
}

/// Lets a function be used: memory decoding and bus mastering on, INTx off.
pub fn enable(config: &impl Config, address: u16) {
    let command = config.read(address, COMMAND) & 0xffff;
    config.write(address, COMMAND, command | COMMAND_MEMORY | COMMAND_MASTER | COMMAND_NO_INTX);
}

/// Stops a function: MSI-X and bus mastering off.
pub fn disable(config: &impl Config, address: u16) {
    if let Some(at) = msix_capability(config, address) {
        config.write(address, at, config.read(address, at) & !MSIX_ENABLE);
    }
    let command = config.read(address, COMMAND) & 0xffff;
    config.write(address, COMMAND, command & !COMMAND_MASTER);
}

/// Physical address and bytes of memory BAR `index`; `None` where it is empty or of ports.
pub fn bar(config: &impl Config, address: u16, index: u8) -> Option<(u64, u64)> {
    const IS_PORTS: u32 = 1;
    const TYPE: u32 = 0b110;
    const TYPE_64: u32 = 0b100;
    if index > 5 {
        return None;
    }
    let offset = FIRST_BAR + 4 * u16::from(index);
    let low = config.read(address, offset);
    let is_64 = low & TYPE == TYPE_64 && index < 5;
    if low & IS_PORTS != 0 {
        return None;
    }
    let high = if is_64 { config.read(address, offset + 4) } else { 0 };
    let command = config.read(address, COMMAND) & 0xffff;
    config.write(address, COMMAND, command & !COMMAND_MEMORY);
    let low_mask = measure(config, address, offset, low);
    let high_mask = if is_64 { measure(config, address, offset + 4, high) } else { u32::MAX };
    config.write(address, COMMAND, command);
    let base = u64::from(high) << 32 | u64::from(low & !0xf);
    let bytes = (!(u64::from(high_mask) << 32 | u64::from(low_mask & !0xf))).wrapping_add(1);
    (base != 0 && bytes != 0 && low_mask & !0xf != 0).then_some((base, bytes))
}

/// Which bits of a BAR can be written.
fn measure(config: &impl Config, address: u16, offset: u16, value: u32) -> u32 {
    config.write(address, offset, u32::MAX);
    let mask = config.read(address, offset);
    config.write(address, offset, value);
    mask
}

const MSIX_ENABLE: u32 = 1 << 31;
const MSIX_MASK_ALL: u32 = 1 << 30;

fn msix_capability(config: &impl Config, address: u16) -> Option<u16> {
    const HAS_LIST: u32 = 1 << 20;
    const MOST: usize = 48;
    if config.read(address, COMMAND) & HAS_LIST == 0 {
        return None;
    }
    let mut at = config.read(address, CAPABILITIES) as u16 & 0xfc;
    for _ in 0..MOST {
        if at == 0 {
            return None;
        }
        let word = config.read(address, at);
        if word as u8 == CAPABILITY_MSIX {
            return Some(at);
        }
        at = (word >> 8) as u16 & 0xfc;
    }
    None
}

/// Entries of the function's MSI-X table.
pub fn msix_entries(config: &impl Config, address: u16) -> u16 {
    msix_capability(config, address)
        .map_or(0, |at| ((config.read(address, at) >> 16) as u16 & 0x7ff) + 1)
}

/// Physical address of MSI-X table entry `entry`.
pub fn msix_entry(config: &impl Config, address: u16, entry: u16) -> Option<u64> {
    const ENTRY_BYTES: u64 = 16;
    let at = msix_capability(config, address)?;
    let entries = (config.read(address, at) >> 16) as u16 & 0x7ff;
    let table = config.read(address, at + 4);
    let (base, bytes) = bar(config, address, (table & 7) as u8)?;
    let offset = u64::from(table & !7) + u64::from(entry) * ENTRY_BYTES;
    (entry <= entries && offset + ENTRY_BYTES <= bytes).then_some(base + offset)
}

/// Turns MSI-X on for the function.
pub fn msix_enable(config: &impl Config, address: u16) {
    if let Some(at) = msix_capability(config, address) {
        config.write(address, at, config.read(address, at) & !MSIX_MASK_ALL | MSIX_ENABLE);
    }
}
