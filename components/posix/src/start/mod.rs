//! The start of the personality: from block devices, ports and file systems to a running session,
//! and down again when the session has ended.
//!
//! [`start`] is called once by whoever wired the components. Kernel parameters: `root=` (a disk's
//! name, the first if absent), `init=` (the program that is process 1), `skerry.shell=` (another program than the shell),
//! `skerry.exec` (a session on named ports instead of the terminal: [`session`]), `skerry.rows`, `skerry.columns`.
mod clock;
mod control;
mod mounts;
mod parameters;
mod session;
mod window;

use alloc::{string::String, sync::Arc, vec::Vec};
use core::convert::Infallible;
use interfaces::{
    block::Block, clock::Clock, entropy::Entropy, offer::MakeFileSystem, supervisor::Supervisor,
    terminal::Port,
};
use rt::{
    power::{self, Action},
    sync::Once,
    time::Instant,
};

pub use crate::process::run::SystemCalls;

/// State of a component after its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Started, and there for whoever uses it.
    Running,
    /// A driver that found nothing to drive.
    NoDevice,
}

/// A component of the system description, as it was started.
#[derive(Clone, Debug)]
pub struct Component {
    /// Its name.
    pub name: &'static str,
    /// The world it lives in.
    pub world: &'static str,
    /// Interfaces it offers.
    pub implements: &'static [&'static str],
    /// Its state after the start.
    pub state: State,
    /// When it was started.
    pub started: Instant,
}

static COMPONENTS: Once<Vec<Component>> = Once::new();
static CLOCK: Once<Option<Arc<dyn Clock>>> = Once::new();
static SUPERVISOR: Once<Option<Arc<dyn Supervisor>>> = Once::new();

/// The supervisor of the isolated components, if there are any.
pub fn supervisor() -> Option<&'static Arc<dyn Supervisor>> {
    SUPERVISOR.get_or_init(|| None).as_ref()
}

/// Every component that was started, in that order.
pub fn components() -> &'static [Component] {
    COMPONENTS.get_or_init(Vec::new)
}

/// The clock that runs while the machine is off, if there is one.
pub fn clock() -> Option<&'static Arc<dyn Clock>> {
    CLOCK.get_or_init(|| None).as_ref()
}

/// The parts that the personality is started with.
pub struct Boot {
    /// Disks, in order of discovery.
    pub disks: Vec<Arc<dyn Block>>,
    /// Byte streams: terminals and the session's.
    pub ports: Vec<Arc<dyn Port>>,
    /// The clock that runs while the machine is off.
    pub clock: Option<Arc<dyn Clock>>,
    /// Sources of entropy beside the processor.
    pub entropy: Vec<Arc<dyn Entropy>>,
    /// File systems by type name.
    pub file_systems: Vec<(&'static str, MakeFileSystem)>,
    /// Every component, in the order of starting.
    pub components: Vec<Component>,
    /// The supervisor of isolated components.
    pub supervisor: Option<Arc<dyn Supervisor>>,
    /// The processors that run system calls.
    pub system_calls: SystemCalls,
}

/// Why the machine stops although nobody asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It could not start.
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

/// Runs the system until its session ends or a program asks for the end, then takes the machine down.
///
/// # Errors
/// Why there is nothing to run; the caller stops the machine with these words.
pub fn start(mut boot: Boot) -> Result<Infallible, End> {
    let started = core::mem::take(&mut boot.components);
    COMPONENTS.get_or_init(|| started);
    let supervisor = boot.supervisor.take();
    SUPERVISOR.get_or_init(|| supervisor);
    boot.system_calls.choose();
    let clock = boot.clock.clone();
    CLOCK.get_or_init(|| clock);
    clock::set_wall(boot.clock.as_ref());
    crate::devices::hardware_random::announce(&boot.entropy);
    parameters::report_unknown();
    power::down(run(&boot)?)
}

fn run(boot: &Boot) -> Result<Action, End> {
    let session = session::Session::prepare(&boot.ports).map_err(End::Unstarted)?;
    let namespace = mounts::mount_all(boot, session.terminals()).map_err(End::Unstarted)?;
    session.run(namespace)
}
