//! The start of the components of a system and then of the personality, the same in the kernel and in a process: [`Component`]
//! is a line of the system's description, and [`personality`] runs the system.
//!
//! Components that are linked with the personality are started by calls; clients of their interfaces stand for isolated ones.
use crate::{clients, lenders};
use alloc::{
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};
use interfaces::{
    audit_log::AuditLog,
    block::Block,
    clock::Clock,
    entropy::Entropy,
    monitor::Monitor,
    nic::Nic,
    offer::{MakeFileSystem, Offer, Start, StartUser},
    sockets::Network,
    supervisor::{Services, Supervisor},
    terminal::Port,
};
use posix::start::{Boot, ComponentState, SystemCalls};

/// The way to start a component.
#[derive(Clone, Copy, Debug)]
pub enum Starter {
    /// It is linked with the personality, and this function starts it.
    Plain(Start),
    /// It is linked with the personality, and this function starts it and takes the offers that it uses.
    User(StartUser),
    /// It is the personality, which is started last.
    Personality,
    /// The supervisor has started it in a domain of its own.
    Isolated,
}

/// A component of a system.
#[derive(Debug)]
pub struct Component {
    /// Its name.
    pub name: &'static str,
    /// The world that it lives in, as the system's description has it.
    pub world: &'static str,
    /// The way to start it.
    pub starter: Starter,
    /// Interfaces that it offers.
    pub implements: &'static [&'static str],
    /// Interfaces that it uses.
    pub uses: &'static [&'static str],
    /// It drives a device, which the machine may lack.
    pub is_driver: bool,
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
    /// Adds the offers of a component that was started here.
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
                Offer::Stack(_) => log::error!("a network stack of this world needs no server"),
                Offer::FileSystem(name, make) => self.file_systems.push((name, make)),
            }
        }
    }

    /// Adds clients of the instances that the isolated component `name` offers by `interface`.
    fn add_clients(&mut self, services: &Arc<dyn Services>, name: &'static str, interface: &str) {
        match interface {
            "block" => self.disks.extend(lenders::disks(services, name)),
            "terminal" => self.ports.extend(clients::ports(services, name)),
            "audit_log" => self.audit_logs.extend(clients::audit_logs(services, name)),
            "clock" => self.clocks.extend(clients::clocks(services, name)),
            "entropy" => self.entropy.extend(clients::entropy(services, name)),
            "nic" => self.nics.extend(lenders::nics(services, name)),
            "network" => {
                self.networks.extend(lenders::networks(services, name, self.nics.clone()));
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
                log::error!("no component can be given {other}");
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

/// Starts `component`, or the clients that stand for it, and adds its offers.
fn start_component(
    component: &'static Component,
    services: Option<&Arc<dyn Services>>,
    offers: &mut Offers,
) -> posix::start::Component {
    let before = offers.count();
    match component.starter {
        Starter::Plain(start) => offers.add(start()),
        Starter::User(start) => {
            let used = component.uses.iter().flat_map(|interface| offers.of(interface)).collect();
            offers.add(start(used));
        }
        Starter::Personality => {}
        Starter::Isolated => {
            for (interface, services) in component.implements.iter().zip(services) {
                offers.add_clients(services, component.name, interface);
            }
        }
    }
    let is_idle = component.is_driver && offers.count() == before;
    posix::start::Component {
        name: component.name,
        world: component.world,
        implements: component.implements,
        state: if is_idle { ComponentState::NoDevice } else { ComponentState::Running },
        started: rt::time::now(),
    }
}

/// Starts `components` and runs the personality with their offers. `services` are the isolated components, and `supervisor`
/// shows and controls them. Returns the reason why there is nothing to run; otherwise the machine is taken down in the end.
pub(crate) fn personality(
    components: &'static [Component],
    system_calls: SystemCalls,
    services: Option<Arc<dyn Services>>,
    supervisor: Option<Arc<dyn Supervisor>>,
) -> String {
    let mut offers = Offers::default();
    let started = components
        .iter()
        .map(|component| start_component(component, services.as_ref(), &mut offers))
        .collect();
    let boot = Boot {
        disks: offers.disks,
        ports: offers.ports,
        clock: offers.clocks.into_iter().next(),
        entropy: offers.entropy,
        network: offers.networks.into_iter().next(),
        monitor: offers.monitors.into_iter().next(),
        audit_log: offers.audit_logs.into_iter().next(),
        file_systems: offers.file_systems,
        components: started,
        supervisor,
        system_calls,
    };
    let Err(end) = posix::start::start(boot);
    end.to_string()
}
