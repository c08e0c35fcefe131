//! Starts the components that the system description lists, gives each what it may touch, and hands
//! them to the personality.
//!
//! In the kernel world the components' ports and lines are granted to all of them together; devices
//! are granted by starting their drivers. Isolated components are started by the supervisor, before what depends
//! on them; what uses them is handed their clients in place of the components.
use crate::isolated;
use ::ext4::MountError;
use ::supervisor::Supervisor;
use alloc::{sync::Arc, vec::Vec};
use interfaces::{
    block::Block,
    clock::Clock,
    file_system::{FileSystem, FsError},
    terminal::Port,
};
use posix::start::{Boot, MakeFileSystem, State};
use rt::device::PciFunction;

/// One line of the system description.
#[derive(Debug)]
struct Component {
    name: &'static str,
    world: &'static str,
    implements: &'static [&'static str],
    devices: &'static [&'static str],
    ports: &'static [(u16, u16)],
    interrupts: &'static [u32],
}

impl Component {
    fn is_isolated(&self) -> bool {
        self.world == "process"
    }

    /// It was granted virtio devices of `kind`.
    fn has_virtio(&self, kind: u32) -> bool {
        let wanted = match kind {
            virtio::kind::BLOCK => "virtio:block",
            virtio::kind::CONSOLE => "virtio:console",
            _ => return false,
        };
        self.devices.contains(&wanted)
    }
}

include!(concat!(env!("OUT_DIR"), "/system.rs"));

/// The executables of the isolated components.
static ARCHIVE: &[u8] = include_bytes!(env!("SKERRY_ARCHIVE"));

fn listed(name: &str) -> Option<&'static Component> {
    COMPONENTS.iter().find(|component| component.name == name)
}

fn is_isolated(name: &str) -> bool {
    listed(name).is_some_and(Component::is_isolated)
}

/// Drivers of disks, and of consoles, of which a system has one; the second of each are for tests.
const DISKS: [&str; 2] = ["virtio-blk", "hostile-blk"];
const CONSOLES: [&str; 2] = ["virtio-console", "hostile-console"];

/// The one of `names` that is isolated.
fn isolated_of(names: [&'static str; 2]) -> Option<&'static str> {
    names.into_iter().find(|name| is_isolated(name))
}

/// A listed component that was granted the kind of device it drives.
fn drives(name: &str, device: &str) -> bool {
    listed(name).is_some_and(|component| component.devices.contains(&device))
}

fn ext4(disk: Option<Arc<dyn Block>>, options: &[u8]) -> Result<Arc<dyn FileSystem>, FsError> {
    let disk = disk.ok_or(FsError::Invalid)?;
    let name = disk.info().name;
    let options = ::ext4::Options::parse(options)?;
    let mounted = ::ext4::mount(disk, options).map_err(|error| {
        log::error!("ext4: {name}: {error}");
        match error {
            MountError::NotExt4 | MountError::TooShort => FsError::Invalid,
            MountError::Unsupported(_)
            | MountError::UnknownFeature(_)
            | MountError::BlockSize(_) => FsError::Unsupported,
            MountError::Checksum | MountError::Corrupt(_) => FsError::Corrupt,
            MountError::NeedsRecovery => FsError::ReadOnly,
            MountError::Failed(error) => error,
        }
    })?;
    Ok(mounted)
}

fn tmpfs(_disk: Option<Arc<dyn Block>>, options: &[u8]) -> Result<Arc<dyn FileSystem>, FsError> {
    let options = ::tmpfs::Options::parse(options)?;
    Ok(::tmpfs::new(options)?)
}

/// The state of the components, for the personality to show.
#[derive(Default)]
struct Report(Vec<posix::start::Component>);

impl Report {
    /// Component `name` was just started as `state` says.
    fn add(&mut self, name: &str, state: State) {
        if let Some(&Component { name, world, implements, .. }) = listed(name) {
            let started = rt::time::now();
            self.0.push(posix::start::Component { name, world, implements, state, started });
        }
    }

    /// The driver `name` was just started and found `devices`.
    fn add_driver(&mut self, name: &str, devices: usize) {
        self.add(name, if devices == 0 { State::NoDevice } else { State::Running });
    }
}

/// Lets the components of the kernel world together reach their ports and lines.
fn grant() {
    for component in COMPONENTS.iter().filter(|component| !component.is_isolated()) {
        component
            .ports
            .iter()
            .for_each(|&(first, count)| nucleus::device::grant_ports(first, count));
        component.interrupts.iter().for_each(|&line| nucleus::device::grant_line(line));
    }
}

/// Names in the log each PCI function that no component drives. Bridges need no driver, and what they lead to stands for itself.
fn report_undriven() {
    const BRIDGE: u32 = 0x06;
    const SYSTEM_PERIPHERAL: u32 = 0x08;
    let is_driven = |function: &PciFunction| {
        let kind = virtio::pci_kind(*function);
        kind.is_some_and(|kind| COMPONENTS.iter().any(|component| component.has_virtio(kind)))
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
fn start_isolated() -> Option<Arc<Supervisor>> {
    if PLANS.is_empty() {
        return None;
    }
    let started = ::supervisor::start(PLANS, ARCHIVE);
    started.inspect_err(|_| log::error!("no memory for the supervisor")).ok()
}

/// The entry that the nucleus calls on the first thread.
#[unsafe(no_mangle)]
fn skerry_start() {
    log::info!("system {SYSTEM}");
    grant();
    let supervisor = start_isolated();
    let mut report = Report::default();
    let mut disks: Vec<Arc<dyn Block>> = Vec::new();
    let mut ports: Vec<Arc<dyn Port>> = Vec::new();
    match (&supervisor, isolated_of(DISKS)) {
        (Some(supervisor), Some(name)) => disks.extend(isolated::disks(supervisor, name)),
        _ if drives("virtio-blk", "virtio:block") => {
            disks.extend(virtio_blk::probe().into_iter().map(|disk| disk as Arc<dyn Block>));
        }
        _ => {}
    }
    report.add_driver(isolated_of(DISKS).unwrap_or("virtio-blk"), disks.len());
    match (&supervisor, isolated_of(CONSOLES)) {
        (Some(supervisor), Some(name)) => ports.extend(isolated::ports(supervisor, name)),
        _ if drives("virtio-console", "virtio:console") => {
            for console in virtio_console::probe() {
                ports.extend(console.ports().into_iter().map(|port| port as Arc<dyn Port>));
            }
        }
        _ => {}
    }
    let console_ports = ports.len();
    report.add_driver(isolated_of(CONSOLES).unwrap_or("virtio-console"), console_ports);
    match &supervisor {
        Some(supervisor) if is_isolated("uart") => {
            ports.extend(isolated::ports(supervisor, "uart"));
        }
        _ if listed("uart").is_some() => {
            ports.extend(uart::probe().into_iter().map(|port| port as Arc<dyn Port>));
        }
        _ => {}
    }
    report.add_driver("uart", ports.len() - console_ports);
    let clock = match &supervisor {
        Some(supervisor) if is_isolated("rtc") => isolated::clock(supervisor, "rtc"),
        _ => listed("rtc").and_then(|_| rtc::probe()).map(|clock| clock as Arc<dyn Clock>),
    };
    report.add_driver("rtc", usize::from(clock.is_some()));
    let mut file_systems: Vec<(&'static str, MakeFileSystem)> = Vec::new();
    for (name, make) in [("ext4", ext4 as MakeFileSystem), ("tmpfs", tmpfs)] {
        if listed(name).is_some() {
            file_systems.push((name, make));
            report.add(name, State::Running);
        }
    }
    report_undriven();
    report.add("erring", State::Running);
    report.add("posix", State::Running);
    let supervisor =
        supervisor.map(|supervisor| supervisor as Arc<dyn interfaces::supervisor::Supervisor>);
    let boot = Boot {
        disks,
        ports,
        clock,
        entropy: Vec::new(),
        file_systems,
        components: report.0,
        supervisor,
        system_calls: SYSTEM_CALLS,
    };
    let Err(end) = posix::start::start(boot);
    // Nothing is wrong in the kernel: a backtrace would say nothing.
    log::error!("{end}");
    nucleus::arch::power::die()
}
