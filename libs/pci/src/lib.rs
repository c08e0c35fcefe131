//! PCI configuration space: finding functions, their BARs and MSI-X.
//!
//! Works over [`Config`], whose accesses are assumed to be expensive (ports, under TCG), so only bus 0 and buses
//! behind bridges are scanned. A function is named by `bus << 8 | device << 3 | function`. Source: PCI Local Bus
//! 3.0, 6.1 to 6.8; PCI-to-PCI bridge 1.2.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod functions;
#[cfg(test)]
mod tests;

pub use functions::Functions;

use alloc::vec::Vec;
use core::{iter, ops::Range};

const ID: u16 = 0x00;
const COMMAND: u16 = 0x04;
const CLASS: u16 = 0x08;
const HEADER: u16 = 0x0c;
const FIRST_BAR: u16 = 0x10;
const BUSES: u16 = 0x18;
const SUBSYSTEM: u16 = 0x2c;
const CAPABILITIES: u16 = 0x34;
const CAPABILITY_VENDOR: u8 = 0x09;
const CAPABILITY_EXPRESS: u8 = 0x10;
const CAPABILITY_MSIX: u8 = 0x11;

const COMMAND_MEMORY: u32 = 1 << 1;
const COMMAND_MASTER: u32 = 1 << 2;
const COMMAND_NO_INTX: u32 = 1 << 10;

/// Access to configuration space, by aligned longs.
pub trait Config {
    /// Reads the long at `offset` of function `address`; returns all ones if there is no function.
    fn read(&self, address: u16, offset: u16) -> u32;
    /// Writes the long at `offset` of function `address`.
    fn write(&self, address: u16, offset: u16, value: u32);
}

/// Number of BARs of a function.
const BARS: usize = 6;

/// A function that was found.
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
    /// Physical address and size of each memory BAR; size 0 if the BAR is empty or an I/O BAR.
    bars: [(u64, u64); BARS],
}

/// Returns every function of the machine.
pub fn scan(config: &impl Config) -> Vec<Function> {
    let mut found = Vec::new();
    scan_bus(config, 0, 0, &mut found);
    found
}

/// Scans a bus and the buses behind it. `depth` keeps a bridge that names its own bus from looping.
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
    let class = config.read(address, CLASS);
    let (mut subsystem, mut bars) = (0, [(0, 0); BARS]);
    if header == 0 {
        subsystem = config.read(address, SUBSYSTEM);
        bars = measure_bars(config, address);
    }
    found.push(Function { address, id, class, subsystem, bars });
    let bus = (address >> 8) as u8;
    if header == BRIDGE && depth < DEEPEST {
        let secondary = (config.read(address, BUSES) >> 8) as u8;
        if secondary > bus {
            scan_bus(config, secondary, depth + 1, found);
        }
    }
}

/// Reads a configuration byte, word or long; all ones beyond the end.
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

/// Enables a function's registers: memory decoding on, INTx off.
pub fn enable(config: &impl Config, address: u16) {
    let command = config.read(address, COMMAND) & 0xffff;
    config.write(address, COMMAND, command | COMMAND_MEMORY | COMMAND_NO_INTX);
}

/// Lets a function access memory (bus mastering).
pub fn enable_master(config: &impl Config, address: u16) {
    let command = config.read(address, COMMAND) & 0xffff;
    config.write(address, COMMAND, command | COMMAND_MASTER);
}

/// Stops a function: MSI-X and bus mastering off. Memory decoding stays on, so that the memory map does not change.
pub fn disable(config: &impl Config, address: u16) {
    if let Some((at, control)) = find_capability(config, address, CAPABILITY_MSIX) {
        config.write(address, at, control & !MSIX_ENABLE);
    }
    let command = config.read(address, COMMAND) & 0xffff;
    config.write(address, COMMAND, command & !COMMAND_MASTER);
}

/// Returns whether a function still waits for answers of memory (PCI Express Base 5.0, 7.5.3.5: Transactions
/// Pending). A function without this bit counts as not busy.
pub fn is_busy(config: &impl Config, address: u16) -> bool {
    const DEVICE_STATUS: u16 = 8;
    const PENDING: u32 = 1 << 21;
    find_capability(config, address, CAPABILITY_EXPRESS)
        .is_some_and(|(at, _)| config.read(address, at + DEVICE_STATUS) & PENDING != 0)
}

/// Returns the physical address of the byte that resets a function. Writing 0 to it starts the reset; it reads 0
/// when the reset is done and the device accesses no memory. That is `device_status` of a virtio device; `None` for
/// any other function. Source: VIRTIO 1.2, 2.4 and 4.1.4.
pub fn reset_register(config: &impl Config, function: &Function) -> Option<u64> {
    const VIRTIO_VENDOR: u16 = 0x1af4;
    const COMMON: u32 = 1;
    const STATUS: u64 = 20;
    if function.id as u16 != VIRTIO_VENDOR {
        return None;
    }
    let is_common =
        |&(_, word): &(u16, u32)| word as u8 == CAPABILITY_VENDOR && word >> 24 == COMMON;
    let (at, _) = capabilities(config, function.address).find(is_common)?;
    let (base, bytes) = function.bar(config.read(function.address, at + 4) as u8).ok()?;
    let offset = u64::from(config.read(function.address, at + 8)) + STATUS;
    (offset < bytes).then_some(base + offset)
}

/// Measures the memory of a function's BARs. They do not work meanwhile, so this is done before the function is
/// used.
fn measure_bars(config: &impl Config, address: u16) -> [(u64, u64); BARS] {
    let command = config.read(address, COMMAND) & 0xffff;
    config.write(address, COMMAND, command & !COMMAND_MEMORY);
    let mut bars = [(0, 0); BARS];
    let mut index = 0;
    while let Some(bar) = bars.get_mut(index) {
        let (found, is_wide) = measure_bar(config, address, index);
        *bar = found;
        index += if is_wide { 2 } else { 1 };
    }
    config.write(address, COMMAND, command);
    bars
}

/// Returns the physical address and size of BAR `index`, and whether it takes two places.
fn measure_bar(config: &impl Config, address: u16, index: usize) -> ((u64, u64), bool) {
    const IS_PORTS: u32 = 1;
    const TYPE: u32 = 0b110;
    const TYPE_64: u32 = 0b100;
    let offset = FIRST_BAR + 4 * index as u16;
    let low = config.read(address, offset);
    if low & IS_PORTS != 0 {
        return ((0, 0), false);
    }
    let is_wide = low & TYPE == TYPE_64 && index + 1 < BARS;
    let high = if is_wide { config.read(address, offset + 4) } else { 0 };
    let low_mask = measure(config, address, offset, low) & !0xf;
    let high_mask = if is_wide { measure(config, address, offset + 4, high) } else { u32::MAX };
    let base = u64::from(high) << 32 | u64::from(low & !0xf);
    let bytes = (!(u64::from(high_mask) << 32 | u64::from(low_mask))).wrapping_add(1);
    let is_there = base != 0 && bytes != 0 && low_mask != 0;
    (if is_there { (base, bytes) } else { (0, 0) }, is_wide)
}

/// Returns the bits of a BAR that can be written.
fn measure(config: &impl Config, address: u16, offset: u16, value: u32) -> u32 {
    config.write(address, offset, u32::MAX);
    let mask = config.read(address, offset);
    config.write(address, offset, value);
    mask
}

const MSIX_ENABLE: u32 = 1 << 31;
const MSIX_MASK_ALL: u32 = 1 << 30;

/// Iterates over capabilities: the offset of each, and its first long (kind, next, two bytes of its own).
fn capabilities(config: &impl Config, address: u16) -> impl Iterator<Item = (u16, u32)> {
    const HAS_LIST: u32 = 1 << 20;
    const MOST: usize = 48;
    let has_list = config.read(address, COMMAND) & HAS_LIST != 0;
    let mut at = if has_list { config.read(address, CAPABILITIES) as u16 & 0xfc } else { 0 };
    let next = move || {
        let here = Some(at).filter(|&at| at != 0)?;
        let word = config.read(address, here);
        at = (word >> 8) as u16 & 0xfc;
        Some((here, word))
    };
    iter::from_fn(next).take(MOST)
}

fn find_capability(config: &impl Config, address: u16, kind: u8) -> Option<(u16, u32)> {
    capabilities(config, address).find(|&(_, word)| word as u8 == kind)
}

/// Returns the number of entries of the function's MSI-X table.
pub fn msix_entries(config: &impl Config, address: u16) -> u16 {
    find_capability(config, address, CAPABILITY_MSIX)
        .map_or(0, |(_, control)| ((control >> 16) as u16 & 0x7ff) + 1)
}

/// Returns the physical address of MSI-X table entry `entry`.
pub fn msix_entry(config: &impl Config, function: &Function, entry: u16) -> Option<u64> {
    const ENTRY_BYTES: u64 = 16;
    let (at, control) = find_capability(config, function.address, CAPABILITY_MSIX)?;
    let last = (control >> 16) as u16 & 0x7ff;
    let table = config.read(function.address, at + 4);
    let (base, bytes) = function.bar((table & 7) as u8).ok()?;
    let offset = u64::from(table & !7) + u64::from(entry) * ENTRY_BYTES;
    (entry <= last && offset + ENTRY_BYTES <= bytes).then_some(base + offset)
}

/// Returns the physical addresses of the function's MSI-X table and of its pending bits; empty if it has none.
pub fn msix_areas(config: &impl Config, function: &Function) -> [Range<u64>; 2] {
    const TABLE: u16 = 4;
    const PENDING: u16 = 8;
    let entries = u64::from(msix_entries(config, function.address));
    let found = find_capability(config, function.address, CAPABILITY_MSIX);
    let area = |register: u16, bytes: u64| {
        let word = config.read(function.address, found?.0 + register);
        let (base, _) = function.bar((word & 7) as u8).ok()?;
        let start = base + u64::from(word & !7);
        Some(start..start + bytes)
    };
    [(TABLE, 16 * entries), (PENDING, 8 * entries.div_ceil(64))]
        .map(|(register, bytes)| area(register, bytes).unwrap_or(0..0))
}

/// Turns MSI-X on for the function.
pub fn msix_enable(config: &impl Config, address: u16) {
    if let Some((at, control)) = find_capability(config, address, CAPABILITY_MSIX) {
        config.write(address, at, control & !MSIX_MASK_ALL | MSIX_ENABLE);
    }
}
