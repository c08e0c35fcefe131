//! [`start`]: gives the components of the kernel world their grants, and starts the isolated components of a [`System`] and
//! then its personality.
//!
//! In the kernel world the components' ports and lines are granted to all of them together, and a driver is granted its devices
//! by being started. The supervisor starts the isolated components before all others, and the process of an isolated
//! personality last of them.
use ::supervisor::{Plan, Supervisor};
use alloc::{string::String, sync::Arc};
use interfaces::supervisor::State;
use rt::{
    device::PciFunction,
    power::{self, Action},
};

/// The place of the personality.
#[derive(Clone, Copy, Debug)]
pub enum PersonalityPlace {
    /// The kernel. The function starts the components of the kernel world and the personality (`launch`). It returns only if
    /// there is nothing to run, with the reason.
    Kernel(fn(Option<Arc<Supervisor>>) -> String),
    /// The processes of those names, one for each personality.
    Processes(&'static [&'static str]),
}

/// A system: the part of its description that the kernel needs.
#[derive(Debug)]
pub struct System {
    /// Its name.
    pub name: &'static str,
    /// Parameters of its components in the kernel world, behind those of the command line.
    pub parameters: &'static str,
    /// Port ranges of its components in the kernel world: first, count.
    pub ports: &'static [(u16, u16)],
    /// Interrupt lines of its components in the kernel world.
    pub interrupts: &'static [u32],
    /// Virtio device types that one of its components drives.
    pub driven: &'static [u32],
    /// The place of its personality.
    pub personality: PersonalityPlace,
    /// Plans of the isolated components, in the order of starting.
    pub plans: &'static [Plan],
    /// The archive of their executables.
    pub archive: &'static [u8],
}

/// Logs each PCI function that no component drives. Bridges need no driver; the functions behind them are checked by
/// themselves.
fn report_undriven(driven: &[u32]) {
    const BRIDGE: u32 = 0x06;
    const SYSTEM_PERIPHERAL: u32 = 0x08;
    let is_driven = |function: &PciFunction| {
        let kind = virtio::pci_kind(*function);
        kind.is_some_and(|kind| driven.contains(&kind))
    };
    for function in rt::device::pci_functions().iter().filter(|function| !is_driven(function)) {
        let PciFunction { address, vendor, device, class, .. } = function;
        if !matches!(class >> 24, BRIDGE | SYSTEM_PERIPHERAL) {
            log::info!(
                "PCI {address}: {vendor:04x}:{device:04x}, class {:04x}: no driver",
                class >> 16
            );
        }
    }
}

/// Starts the isolated components, if there are any.
fn start_isolated(system: &System) -> Option<Arc<Supervisor>> {
    if system.plans.is_empty() {
        return None;
    }
    let started = ::supervisor::start(system.plans, system.archive);
    started.inspect_err(|_| log::error!("no memory for the supervisor")).ok()
}

/// Waits for the end of the personalities' processes. Returns only if the machine does not go down on request: one of them was
/// given up.
fn wait_for(names: &[&str], supervisor: Option<&Supervisor>) -> String {
    let mut end = None;
    for name in names {
        match supervisor.and_then(|supervisor| supervisor.wait_for_end(name)) {
            Some(State::Stopped) => log::info!("{name} was stopped"),
            Some(_) => end = Some(alloc::format!("{name} has ended")),
            None => end = Some(alloc::format!("{name} cannot be started")),
        }
    }
    end.unwrap_or_else(|| power::down(Action::Off))
}

/// Starts `system`; the nucleus calls this on the first thread.
pub fn start(system: &'static System) {
    log::info!("system {}", system.name);
    rt::system::set_default_parameters(system.parameters);
    system.ports.iter().for_each(|&(first, count)| nucleus::device::grant_ports(first, count));
    system.interrupts.iter().for_each(|&line| nucleus::device::grant_line(line));
    let supervisor = start_isolated(system);
    report_undriven(system.driven);
    let end = match system.personality {
        PersonalityPlace::Kernel(start) => start(supervisor),
        PersonalityPlace::Processes(names) => wait_for(names, supervisor.as_deref()),
    };
    // The kernel itself has no fault, so a backtrace would not help.
    log::error!("{end}");
    nucleus::arch::power::die()
}
