//! Isolated components: what the supervisor asks of the world (X1, K3). In the kernel world only.
//!
//! A [`Domain`] is loaded page by page, given capabilities, started, waited for and killed. It can do what
//! its [`Grants`] say and nothing else.
use crate::{
    NoMemory,
    device::PciAddress,
    message::{Capability, Endpoint},
    thread::Policy,
    time::Instant,
    user::Protection,
    world,
};
use alloc::{string::String, vec::Vec};
pub use calls::Call;
use program::Registers;

/// What a domain may do; what is absent is denied.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    /// Kernel calls.
    pub calls: Vec<Call>,
    /// Port ranges: first, count.
    pub ports: Vec<(u16, u16)>,
    /// Interrupt lines.
    pub lines: Vec<u32>,
    /// PCI functions.
    pub functions: Vec<PciAddress>,
    /// Virtio-mmio transports, by address of their registers.
    pub transports: Vec<u64>,
    /// It may have memory that devices reach.
    pub can_use_dma: bool,
    /// Most memory, in bytes.
    pub memory_bytes: usize,
    /// Most threads.
    pub threads: usize,
    /// The best policy its threads may have.
    pub policy: Policy,
}

/// Why a domain ended.
#[derive(Clone, Debug)]
pub struct End {
    /// In words.
    pub cause: String,
    /// Where the thread was, if it was its doing.
    pub registers: Registers,
    /// Return addresses from there outwards.
    pub calls: Vec<u64>,
}

/// What a domain uses and was refused.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// Memory, in bytes.
    pub memory_bytes: usize,
    /// Threads.
    pub threads: usize,
    /// Processor time of its present threads.
    pub cpu_ns: u64,
    /// Kernel calls made.
    pub calls: u64,
    /// Kernel calls refused, by name.
    pub refused: Vec<(&'static str, u32)>,
}

/// An isolated component; killed when dropped.
#[derive(Debug)]
pub struct Domain(world::domain::DomainHandle);

impl Domain {
    /// An empty domain.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn new(name: &str, grants: &Grants) -> Result<Domain, NoMemory> {
        world::domain::new(name, grants).map(Domain)
    }
    /// Maps `bytes` of new memory at page-aligned `start` and copies `data` to its beginning.
    ///
    /// # Errors
    /// [`NoMemory`], also where the grant is used up or the address is not a component's.
    pub fn load(
        &self,
        start: u64,
        bytes: usize,
        data: &[u8],
        protection: Protection,
    ) -> Result<(), NoMemory> {
        world::domain::load(&self.0, start, bytes, data, protection)
    }
    /// Gives it a capability; the handle under which it has it. The first is [`calls::SERVICE`].
    ///
    /// # Errors
    /// [`NoMemory`] where its table is full.
    pub fn grant(&self, capability: Capability) -> Result<u64, NoMemory> {
        world::domain::grant(&self.0, capability)
    }
    /// Starts its first thread at `entry`.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn start(&self, entry: u64) -> Result<(), NoMemory> {
        world::domain::start(&self.0, entry)
    }
    /// Blocks until it has ended and its devices are quiet; why, or `None` at the deadline.
    pub fn wait_end(&self, deadline: Option<Instant>) -> Option<End> {
        world::domain::wait_end(&self.0, deadline)
    }
    /// Ends it because of `cause`, if it has not ended, and blocks until its devices are quiet.
    pub fn kill(&self, cause: &str) {
        world::domain::kill(&self.0, cause);
    }
    /// What it uses now and was refused so far.
    pub fn usage(&self) -> Usage {
        world::domain::usage(&self.0)
    }
}

/// From now on whoever calls or receives at `service` is told [`ipc::Error::Gone`], as is who waits there.
pub fn close(service: &Endpoint) {
    world::domain::close(&service.0);
}

/// Takes back [`close`] for whoever comes from now on.
pub fn reopen(service: &Endpoint) {
    world::domain::reopen(&service.0);
}

impl Drop for Domain {
    fn drop(&mut self) {
        self.kill("its supervisor let go of it");
    }
}
