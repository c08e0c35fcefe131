//! What the system description says of an isolated component: [`Plan`], and which devices of this machine
//! that means.
use crate::life::Rules;
use alloc::vec::Vec;
use rt::{device::PciAddress, thread::Policy};
use virtio::Candidate;

/// A kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// Every virtio device of that type (section 5 of the specification).
    Virtio(u32),
}

/// One isolated component: what it may touch and how it is watched. What is absent is denied.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Its name, and that of its executable in the boot archive.
    pub name: &'static str,
    /// Kernel calls, by number (`calls::Call`).
    pub calls: &'static [u64],
    /// Devices.
    pub devices: &'static [Device],
    /// Port ranges: first, count.
    pub ports: &'static [(u16, u16)],
    /// Interrupt lines.
    pub interrupts: &'static [u32],
    /// It may have memory that devices reach.
    pub can_use_dma: bool,
    /// Most memory.
    pub memory_bytes: usize,
    /// Memory that outlives it, for its successor to go on from; beyond the former.
    pub kept_bytes: usize,
    /// Most threads.
    pub threads: usize,
    /// The best policy of its threads.
    pub policy: Policy,
    /// How much of all processors' time they may have while others want it.
    pub share_percent: u8,
    /// Time between pings.
    pub ping_ns: u64,
    /// Time for an answer.
    pub ping_deadline_ns: u64,
    /// When it is started again.
    pub rules: Rules,
}

/// The PCI functions and transports (by address of their registers) of this machine that `devices` means.
#[cfg_attr(not(target_os = "none"), expect(dead_code, reason = "domains are of the kernel world"))]
pub(crate) fn find(devices: &[Device]) -> (Vec<PciAddress>, Vec<u64>) {
    let (mut functions, mut transports) = (Vec::new(), Vec::new());
    for candidate in devices.iter().flat_map(|&Device::Virtio(kind)| virtio::candidates(kind)) {
        match candidate {
            Candidate::Pci(function) => functions.push(function.address),
            Candidate::Mmio(device) => transports.push(device.base),
        }
    }
    (functions, transports)
}
