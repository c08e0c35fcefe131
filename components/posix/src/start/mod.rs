//! The start of the personality: from block devices, ports and file systems to a running session, and the shutdown when
//! the session has ended.
//!
//! [`start`] is called once by the image, after it has connected the components. Kernel parameters: `root=` (a disk's
//! name, the first if absent), `init=` (the program that is process 1), `skerry.shell=` (another program than the shell),
//! `skerry.exec` (a session on named ports instead of the terminal: [`session`]), `skerry.rows`, `skerry.columns`.
mod clock;
mod control;
mod mounts;
mod parameters;
mod security;
mod session;
mod trusted;
mod upcalls;
mod window;

use alloc::{string::String, sync::Arc, vec::Vec};
use core::convert::Infallible;
use interfaces::{
    audit_log::AuditLog, block::Block, clock::Clock, entropy::Entropy, monitor::Monitor,
    offer::MakeFileSystem, sockets::Network, supervisor::Supervisor, terminal::Port,
};
use proc::procfs::registry;
use rt::power::{self, Action};

pub use proc::procfs::registry::{Component, ComponentState};
pub use process::run::SystemCalls;

/// The parts with which the personality is started.
pub struct Boot {
    /// The disks, in order of discovery.
    pub disks: Vec<Arc<dyn Block>>,
    /// Byte streams: terminals and the session's.
    pub ports: Vec<Arc<dyn Port>>,
    /// The clock that runs while the machine is off.
    pub clock: Option<Arc<dyn Clock>>,
    /// Sources of entropy besides the processor.
    pub entropy: Vec<Arc<dyn Entropy>>,
    /// The network stack.
    pub network: Option<Arc<dyn Network>>,
    /// The reference monitor, if the system has multilevel security.
    pub monitor: Option<Arc<dyn Monitor>>,
    /// The writer of audit records.
    pub audit_log: Option<Arc<dyn AuditLog>>,
    /// File systems by type name.
    pub file_systems: Vec<(&'static str, MakeFileSystem)>,
    /// Every component, in the order of starting.
    pub components: Vec<Component>,
    /// The supervisor of isolated components.
    pub supervisor: Option<Arc<dyn Supervisor>>,
    /// The processors that run system calls.
    pub system_calls: SystemCalls,
}

/// The reason for which the machine stops although no program asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The system could not start.
    Unstarted(String),
    /// Process 1 could not be started, or has ended.
    NoInit(String),
}

impl core::fmt::Display for End {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            End::Unstarted(why) => write!(f, "cannot start: {why}"),
            End::NoInit(why) => write!(f, "Kernel panic - not syncing: {why}"),
        }
    }
}

/// Runs the system until its session ends or a program asks for a power action, then shuts the machine down.
///
/// # Errors
/// The reason for which there is nothing to run; the caller stops the machine with this message.
pub fn start(mut boot: Boot) -> Result<Infallible, End> {
    vfs::uses::report(process::audit::name_used);
    if let Some(monitor) = boot.monitor.take() {
        vfs::security::announce(monitor);
        process::tree::give_levels_room();
        vfs::security::witness(process::audit::witnessed);
        process::audit::keep_all();
        process::audit::channels::start();
    }
    let started = core::mem::take(&mut boot.components);
    registry::announce(started, boot.supervisor.take(), boot.clock.clone());
    boot.system_calls.choose();
    clock::set_wall(boot.clock.as_ref());
    objects::devices::hardware_random::announce(&boot.entropy);
    if let Some(network) = boot.network.take() {
        objects::socket::internet::set_network(network);
    }
    parameters::report_unknown();
    let action = run(&boot)?;
    objects::audit_log::drain();
    power::down(action)
}

fn run(boot: &Boot) -> Result<Action, End> {
    let session = session::BootSession::prepare(&boot.ports).map_err(End::Unstarted)?;
    let namespace = mounts::mount_all(boot, session.terminals()).map_err(End::Unstarted)?;
    session.run(namespace)
}
