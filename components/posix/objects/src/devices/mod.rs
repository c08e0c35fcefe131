//! Devices as files: memory devices, terminals, disks, and the nodes of `/dev`.
//!
//! [`register`] tells the namespace the opener of each device number; [`NODES`] is the initial content of
//! `/dev`. Numbers are those of Linux's `devices.txt`.
mod disk;
pub mod hardware_random;
mod memory;
mod terminals;
pub mod tunnel;

pub use disk::{BlockFile, DiskDevice, find_all, run_request};
pub use memory::MemoryDevice;

use crate::{
    pipe::FifoOpener,
    tty::{Terminal, pty::devpts},
};
use alloc::sync::Arc;
use interfaces::file_system::FileType;
use vfs::devices::Registry;

/// Major number of the memory devices.
const MEMORY_MAJOR: u32 = 1;
/// Major number of `/dev/tty` and `/dev/console`.
const ALTERNATE_MAJOR: u32 = 5;
/// Major number of virtio disks: the first one that Linux assigns.
pub const DISK_MAJOR: u32 = 254;
/// Number of minor numbers of a disk (partitions).
pub const DISK_MINORS: u32 = 16;

/// Nodes of `/dev`: name, type, permissions, device number. Terminals and disks are added by their names.
pub const NODES: &[(&str, FileType, u16, (u32, u32))] = &[
    ("null", FileType::Character, 0o666, (MEMORY_MAJOR, memory::NULL)),
    ("zero", FileType::Character, 0o666, (MEMORY_MAJOR, memory::ZERO)),
    ("full", FileType::Character, 0o666, (MEMORY_MAJOR, memory::FULL)),
    ("random", FileType::Character, 0o666, (MEMORY_MAJOR, memory::RANDOM)),
    ("urandom", FileType::Character, 0o666, (MEMORY_MAJOR, memory::URANDOM)),
    ("tty", FileType::Character, 0o666, (ALTERNATE_MAJOR, terminals::CONTROLLING)),
    ("console", FileType::Character, 0o600, (ALTERNATE_MAJOR, terminals::CONSOLE)),
    ("ptmx", FileType::Character, 0o666, devpts::MULTIPLEXER),
    ("net/tun", FileType::Character, 0o666, (tunnel::MAJOR, tunnel::MINOR)),
];

/// Returns the device number of disk `index`.
fn disk_number(index: usize) -> (u32, u32) {
    (DISK_MAJOR, index as u32 * DISK_MINORS)
}

/// Registers the openers of devices and FIFOs.
pub fn register(registry: &Registry, terminals: &[Arc<Terminal>], disks: &[Arc<DiskDevice>]) {
    registry.register_fifo(Arc::new(FifoOpener));
    registry.register_character(MEMORY_MAJOR, 0..=u32::from(u8::MAX), Arc::new(memory::Memory));
    let (major, minor) = hardware_random::NUMBER;
    let opener = Arc::new(hardware_random::HardwareRandom);
    registry.register_character(major, minor..=minor, opener);
    let opener = Arc::new(tunnel::TunnelOpener);
    registry.register_character(tunnel::MAJOR, tunnel::MINOR..=tunnel::MINOR, opener);
    terminals::register(registry, terminals);
    disk::register(registry, disks);
}
