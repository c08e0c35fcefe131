//! [`start`]: starts the components of a [`System`] and then the personality.
//!
//! In the kernel world the components' ports and lines are granted to all of them together, and a driver is granted its devices
//! by being started. The supervisor starts the isolated components before all others; clients of their interfaces stand for
//! them.
use crate::clients;
use ::supervisor::{Plan, Supervisor};
use alloc::{sync::Arc, vec::Vec};
use interfaces::{
    audit_log::AuditLog,
    block::Block,
    clock::Clock,
    entropy::Entropy,
    monitor::Monitor,
    nic::Nic,
    offer::{MakeFileSystem, Offer, Start, StartUser},
    sockets::Network,
    terminal::Port,
};
use posix::start::{Boot, ComponentState, SystemCalls};
use rt::device::PciFunction;

/// The world in which a component lives.
#[derive(Clone, Copy, Debug)]
pub enum ComponentWorld {
    /// In the kernel, with the function that starts it; `None` for the personality, which is started last.
    Kernel(Option<Start>),
    /// In the kernel, with the function that starts it and takes the offers that it uses.
    KernelUser(StartUser),
    /// In a domain of its own.
    Process,
}

/// A component of a system.
#[derive(Debug)]
pub struct Component {
    /// Its name.
    pub name: &'static str,
    /// The world that it lives in.
    pub world: ComponentWorld,
    /// Interfaces that it offers.
    pub implements: &'static [&'static str],
    /// Interfaces that it uses.
    pub uses: &'static [&'static str],
    /// Virtio device types that it drives.
    pub devices: &'static [u32],
    /// Port ranges: first, count.
    pub ports: &'static [(u16, u16)],
    /// Interrupt lines.
    pub interrupts: &'static [u32],
}

/// A system: the part of its description that the kernel needs.
#[derive(Debug)]
pub struct System {
    /// Its name.
    pub name: &'static str,
    /// The processors that run system calls.
    pub system_calls: SystemCalls,
    /// Parameters of its components in the kernel world, behind those of the command line.
    pub parameters: &'static str,
    /// Its components, in the order of starting.
    pub components: &'static [Component],
    /// Plans of the isolated components, in the order of starting.
    pub plans: &'static [Plan],
    /// The archive of their executables.
    pub archive: &'static [u8],
}

impl Component {
    /// Returns whether it drives a device, which the machine may lack.
    fn is_driver(&self) -> bool {
        !(self.devices.is_empty() && self.ports.is_empty())
    }

    /// Grants it its ports and lines, if it lives in the kernel.
    fn grant(&self) {
        if let ComponentWorld::Kernel(_) | ComponentWorld::KernelUser(_) = self.world {
            self.ports
                .iter()
                .for_each(|&(first, count)| nucleus::device::grant_ports(first, count));
            self.interrupts.iter().for_each(|&line| nucleus::device::grant_line(line));
        }
    }
}

/// The instances that all components offer.
#[derive(Default)]
struct Offers {
    disks: Vec<Arc<dyn Block>>,
    ports: Vec<Arc<dyn Port>>,
    clocks: Vec<Arc<dyn Clock>>,
    entropy: Vec<Arc<dyn Entropy>>,
    nics: Vec<Arc<dyn Nic>>,
    networks: Vec<Arc<dyn Network>>,
    monitors: Vec<Arc<dyn Monitor>>,
    audit_logs: Vec<Arc<dyn AuditLog>>,
    file_systems: Vec<(&'static str, MakeFileSystem)>,
}

impl Offers {
    /// Adds the offers of a component that started in the kernel.
    fn add(&mut self, offers: Vec<Offer>) {
        for offer in offers {
            match offer {
                Offer::Disk(disk) => self.disks.push(disk),
                Offer::Port(port) => self.ports.push(port),
                Offer::Clock(clock) => self.clocks.push(clock),
                Offer::Entropy(source) => self.entropy.push(source),
                Offer::Nic(nic) => self.nics.push(nic),
                Offer::Network(network) => self.networks.push(network),
                Offer::Monitor(monitor) => self.monitors.push(monitor),
                Offer::AuditLog(log) => self.audit_logs.push(log),
                Offer::Stack(_) => log::error!("a network stack of the kernel needs no server"),
                Offer::FileSystem(name, make) => self.file_systems.push((name, make)),
            }
        }
    }

    /// Adds clients of the instances that the isolated component `name` offers by `interface`.
    fn add_clients(&mut self, supervisor: &Arc<Supervisor>, name: &'static str, interface: &str) {
        match interface {
            "block" => self.disks.extend(clients::disks(supervisor, name)),
            "terminal" => self.ports.extend(clients::ports(supervisor, name)),
            "audit_log" => self.audit_logs.extend(clients::audit_logs(supervisor, name)),
            "clock" => self.clocks.extend(clients::clocks(supervisor, name)),
            "entropy" => self.entropy.extend(clients::entropy(supervisor, name)),
            "nic" => self.nics.extend(clients::nics(supervisor, name)),
            "network" => {
                self.networks.extend(clients::networks(supervisor, name, self.nics.clone()));
            }
            other => log::error!("{name}: no client of {other} between worlds"),
        }
    }

    /// Returns all offers of `interface`.
    fn of(&self, interface: &str) -> Vec<Offer> {
        match interface {
            "block" => self.disks.iter().cloned().map(Offer::Disk).collect(),
            "clock" => self.clocks.iter().cloned().map(Offer::Clock).collect(),
            "entropy" => self.entropy.iter().cloned().map(Offer::Entropy).collect(),
            "nic" => self.nics.iter().cloned().map(Offer::Nic).collect(),
            other => {
                log::error!("no component of the kernel can be given {other}");
                Vec::new()
            }
        }
    }

    fn count(&self) -> usize {
        self.disks.len()
            + self.ports.len()
            + self.clocks.len()
            + self.entropy.len()
            + self.nics.len()
            + self.networks.len()
            + self.monitors.len()
            + self.audit_logs.len()
            + self.file_systems.len()
    }
}

/// Logs each PCI function that no component drives. Bridges need no driver; the functions behind them are checked by
/// themselves.
fn report_undriven(components: &[Component]) {
    const BRIDGE: u32 = 0x06;
    const SYSTEM_PERIPHERAL: u32 = 0x08;
    let is_driven = |function: &PciFunction| {
        let kind = virtio::pci_kind(*function);
        kind.is_some_and(|kind| {
            components.iter().any(|component| component.devices.contains(&kind))
        })
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

/// Starts `component`, or the clients that stand for it, and adds its offers.
fn start_component(
    component: &'static Component,
    supervisor: Option<&Arc<Supervisor>>,
    offers: &mut Offers,
) -> posix::start::Component {
    let before = offers.count();
    let world = match component.world {
        ComponentWorld::Kernel(start) => {
            if let Some(start) = start {
                offers.add(start());
            }
            "kernel"
        }
        ComponentWorld::KernelUser(start) => {
            let used = component.uses.iter().flat_map(|interface| offers.of(interface)).collect();
            offers.add(start(used));
            "kernel"
        }
        ComponentWorld::Process => {
            for (interface, supervisor) in component.implements.iter().zip(supervisor) {
                offers.add_clients(supervisor, component.name, interface);
            }
            "process"
        }
    };
    let is_idle = component.is_driver() && offers.count() == before;
    posix::start::Component {
        name: component.name,
        world,
        implements: component.implements,
        state: if is_idle { ComponentState::NoDevice } else { ComponentState::Running },
        started: rt::time::now(),
    }
}

/// Starts `system`; the nucleus calls this on the first thread.
pub fn start(system: &'static System) {
    log::info!("system {}", system.name);
    rt::system::set_default_parameters(system.parameters);
    system.components.iter().for_each(Component::grant);
    let supervisor = start_isolated(system);
    let mut offers = Offers::default();
    let components = system
        .components
        .iter()
        .map(|component| start_component(component, supervisor.as_ref(), &mut offers))
        .collect();
    report_undriven(system.components);
    let boot = Boot {
        disks: offers.disks,
        ports: offers.ports,
        clock: offers.clocks.into_iter().next(),
        entropy: offers.entropy,
        network: offers.networks.into_iter().next(),
        monitor: offers.monitors.into_iter().next(),
        audit_log: offers.audit_logs.into_iter().next(),
        file_systems: offers.file_systems,
        components,
        supervisor: supervisor
            .map(|supervisor| supervisor as Arc<dyn interfaces::supervisor::Supervisor>),
        system_calls: system.system_calls,
    };
    let Err(end) = posix::start::start(boot);
    // The kernel itself has no fault, so a backtrace would not help.
    log::error!("{end}");
    nucleus::arch::power::die()
}
