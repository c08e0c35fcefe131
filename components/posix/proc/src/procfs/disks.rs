//! `/proc/diskstats`, `partitions`, `swaps` and `filesystems`.
use alloc::{format, string::String, vec::Vec};
use core::fmt::Write;
use objects::file_systems;

const SECTORS_A_BLOCK: u64 = 2;

pub fn statistics() -> Vec<u8> {
    let mut text = String::new();
    for device in file_systems::devices() {
        let (major, minor) = device.number;
        let columns = device.statistics.columns();
        let _ = writeln!(text, "{major:4} {minor:7} {} {columns}", device.name);
    }
    text.into_bytes()
}

pub fn partitions() -> Vec<u8> {
    let mut text = String::from("major minor  #blocks  name\n\n");
    for device in file_systems::devices() {
        let (major, minor) = device.number;
        let blocks = device.block.info().sectors / SECTORS_A_BLOCK;
        let _ = writeln!(text, "{major:4}  {minor:7} {blocks:10} {}", device.name);
    }
    text.into_bytes()
}

/// Returns the KiB read from and written to all disks. Traffic of a partition counts as its disk's,
/// too.
pub fn paged_kib() -> (u64, u64) {
    let disks = file_systems::devices().iter().filter(|device| !device.is_partition);
    disks.map(|disk| disk.statistics.sectors()).fold((0, 0), |sum, (read, written)| {
        (sum.0 + read / SECTORS_A_BLOCK, sum.1 + written / SECTORS_A_BLOCK)
    })
}

/// Returns an empty list: there is no swap.
pub fn swaps() -> Vec<u8> {
    b"Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n".to_vec()
}

pub fn types() -> Vec<u8> {
    let line = |(name, is_without_disk): (&str, bool)| {
        format!("{}\t{name}\n", if is_without_disk { "nodev" } else { "" })
    };
    file_systems::types().into_iter().map(line).collect::<String>().into_bytes()
}
