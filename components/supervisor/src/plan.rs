//! The plan of an isolated component ([`Plan`]), which is its part of the system description, and the devices of this machine
//! that it is granted.
use crate::life::Rules;
use alloc::vec::Vec;
use rt::{device::PciAddress, thread::Policy};
use virtio::Candidate;

/// A kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// Every virtio device of that type (section 5 of the specification).
    Virtio(u32),
    /// The virtio device of that type and number among the machine's, from 0.
    OneVirtio(u32, usize),
}

impl DeviceKind {
    fn candidates(self) -> Vec<Candidate> {
        match self {
            DeviceKind::Virtio(kind) => virtio::candidates(kind),
            DeviceKind::OneVirtio(kind, number) => {
                virtio::candidates(kind).into_iter().skip(number).take(1).collect()
            }
        }
    }
}

/// The plan of an isolated component: its grants, and the rules by which it is watched. An absent grant is denied.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Its name, and that of its executable in the boot archive.
    pub name: &'static str,
    /// Its own parameters (`name=value`, separated by spaces). Those of the same name on the command line go before them.
    pub parameters: &'static str,
    /// Kernel calls, by number (`calls::Call`).
    pub calls: &'static [u64],
    /// The components that it calls, by name.
    pub partners: &'static [&'static str],
    /// It may power the machine down. Another component that administers the machine is stopped if it tries to.
    pub may_power_down: bool,
    /// Types of devices.
    pub devices: &'static [DeviceKind],
    /// Port ranges: first, count.
    pub ports: &'static [(u16, u16)],
    /// Interrupt lines.
    pub interrupts: &'static [u32],
    /// The component may allocate memory that devices reach, and its devices reach its kept memory.
    pub can_use_dma: bool,
    /// The greatest amount of memory, in bytes.
    pub memory_bytes: usize,
    /// Percentage of the machine's memory that it may have in addition to `memory_bytes`.
    pub memory_percent: u8,
    /// Memory that outlives it, for its successor, in addition to `memory_bytes`.
    pub kept_bytes: usize,
    /// The greatest number of interrupt vectors at once.
    pub vectors: usize,
    /// The greatest number of lines of the log in a second, and at once after a pause.
    pub log_lines: (u32, u32),
    /// The greatest number of threads.
    pub threads: usize,
    /// Memory for each of its devices, in addition to `memory_bytes`.
    pub device_memory_bytes: usize,
    /// Threads for each of its devices, in addition to `threads`.
    pub device_threads: usize,
    /// The greatest number of devices that it is granted.
    pub devices_max: usize,
    /// Best policy of its threads.
    pub policy: Policy,
    /// Share of all processors' time that they may have while other threads want it, in percent.
    pub share_percent: u8,
    /// Time between pings.
    pub ping_ns: u64,
    /// Time for the answer to a ping.
    pub ping_deadline_ns: u64,
    /// Age at which it is asked for a request that it has not done ([`interfaces::overdue`]).
    pub request_ns: u64,
    /// Rules by which it is started again.
    pub rules: Rules,
}

/// The memory that an isolated component gets for its devices is at most one part in this many of the machine's.
const DEVICE_MEMORY_SHARE: usize = 8;

impl Plan {
    /// Returns whether it is of no use to a machine without its devices.
    pub fn drives_devices_alone(&self) -> bool {
        !self.devices.is_empty() && self.ports.is_empty()
    }
    /// Returns the plan for a machine that has `devices` of the component's devices and `machine_bytes` of memory: the grants
    /// for each device and its percentage of memory are added. If the machine has too little memory for all devices, fewer are granted, and the limit is
    /// logged.
    #[must_use]
    pub fn with_devices(self, devices: usize, machine_bytes: usize) -> Plan {
        let most_bytes = machine_bytes / DEVICE_MEMORY_SHARE;
        let devices_max = most_bytes.checked_div(self.device_memory_bytes).unwrap_or(usize::MAX);
        if devices > devices_max {
            log::warn!(
                "{}: {devices} devices, of which {devices_max} are used: the limit is an eighth of the machine's memory, {} KiB a device",
                self.name,
                self.device_memory_bytes >> 10,
            );
        }
        let used = devices.min(devices_max);
        Plan {
            memory_bytes: self
                .memory_bytes
                .saturating_add(self.device_memory_bytes * used)
                .saturating_add(machine_bytes / 100 * usize::from(self.memory_percent)),
            memory_percent: 0,
            threads: self.threads.saturating_add(self.device_threads.saturating_mul(used)),
            vectors: self.vectors.saturating_add(used),
            devices_max,
            ..self
        }
    }
}

/// Returns the first `devices_max` PCI functions and transports (by address of their registers) of this machine that match the
/// plan.
#[cfg_attr(not(target_os = "none"), expect(dead_code, reason = "domains are of the kernel world"))]
pub(crate) fn find(plan: &Plan) -> (Vec<PciAddress>, Vec<u64>) {
    let (mut functions, mut transports) = (Vec::new(), Vec::new());
    let found = plan.devices.iter().flat_map(|&kind| kind.candidates());
    for candidate in found.take(plan.devices_max) {
        match candidate {
            Candidate::Pci(function) => functions.push(function.address),
            Candidate::Mmio(device) => transports.push(device.base),
        }
    }
    (functions, transports)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan {
        name: "disks",
        parameters: "",
        calls: &[],
        partners: &[],
        may_power_down: false,
        devices: &[],
        ports: &[],
        interrupts: &[],
        can_use_dma: true,
        memory_bytes: 4 << 20,
        memory_percent: 0,
        kept_bytes: 0,
        vectors: 64,
        log_lines: (10, 100),
        threads: 40,
        device_memory_bytes: 256 << 10,
        device_threads: 2,
        devices_max: usize::MAX,
        policy: Policy::Fair { nice: 0 },
        share_percent: 50,
        ping_ns: 1,
        ping_deadline_ns: 1,
        request_ns: 1,
        rules: Rules { restarts_max: 0, window_ns: 1, pause_ns: 1, pause_ns_max: 1 },
    };

    #[test]
    fn grants_grow_with_the_devices() {
        let plan = PLAN.with_devices(21, 512 << 20);
        assert_eq!((plan.memory_bytes, plan.threads), ((4 << 20) + 21 * (256 << 10), 82));
        assert_eq!(plan.vectors, 85);
        assert!(plan.devices_max >= 21);
    }

    #[test]
    fn a_small_machine_limits_the_devices() {
        let plan = PLAN.with_devices(101, 128 << 20);
        assert_eq!((plan.devices_max, plan.memory_bytes), (64, 20 << 20));
    }

    #[test]
    fn a_percentage_of_memory_grows_with_the_machine() {
        let plan = Plan { memory_percent: 50, ..PLAN }.with_devices(0, 200 << 20);
        assert_eq!(plan.memory_bytes, (4 << 20) + (200 << 20) / 100 * 50);
    }

    #[test]
    fn a_component_without_grants_for_devices_has_no_limit() {
        let plan = Plan { device_memory_bytes: 0, ..PLAN }.with_devices(101, 128 << 20);
        assert_eq!((plan.devices_max, plan.memory_bytes), (usize::MAX, 4 << 20));
    }
}
