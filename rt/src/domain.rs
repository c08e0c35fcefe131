//! Isolated components: what the supervisor asks of the world (X1, K3). In the kernel world only.
//!
//! A [`Domain`] is loaded page by page, given capabilities, started, waited for and killed. It can do what
//! its [`Grants`] say and nothing else.
use crate::{
    NoMemory, PAGE_BYTES,
    device::DmaWindow,
    memory::Region,
    message::{Capability, Endpoint},
    time::Instant,
    user::{PageRange, Protection},
    world,
};
use alloc::sync::Arc;
pub use calls::{Call, CallSet, End, Grants, PortAccess, Usage};

/// An isolated component; killed when dropped.
#[derive(Debug)]
pub struct Domain(Arc<world::domain::DomainHandle>);

impl Domain {
    /// An empty domain.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn new(name: &str, grants: Grants) -> Result<Domain, NoMemory> {
        world::domain::DomainHandle::new(name, grants).map(Domain)
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
        let range = PageRange::new(start, bytes.div_ceil(PAGE_BYTES)).ok_or(NoMemory)?;
        self.0.load(range.start(), range.pages(), data, protection)
    }
    /// Maps `region` at page-aligned `start`, but not for writing.
    ///
    /// # Errors
    /// As [`Domain::load`].
    pub fn show(
        &self,
        start: u64,
        region: &Region,
        protection: Protection,
    ) -> Result<(), NoMemory> {
        let pages = size_of_val(region.words()).div_ceil(PAGE_BYTES);
        let range = PageRange::new(start, pages).ok_or(NoMemory)?;
        self.0.show(range.start(), &region.0, protection)
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
        self.0.start(entry)
    }
    /// Blocks until it has ended and its devices are quiet; why, or `None` at the deadline.
    pub fn wait_end(&self, deadline: Option<Instant>) -> Option<End> {
        self.0.wait_end(deadline.map(|at| at.0))
    }
    /// Ends it because of `cause`, if it has not ended, and blocks until its devices are quiet.
    pub fn kill(&self, cause: &str) {
        self.0.kill(cause);
    }
    /// Ends it because of `cause`, if it has not ended; by one of its own threads, maybe, in the nucleus.
    pub fn condemn(&self, cause: &str) {
        self.0.condemn(cause);
    }
    /// The reach of its devices, to lend it frames.
    pub fn window(&self) -> DmaWindow {
        DmaWindow(self.0.window())
    }
    /// Its memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
    /// Its usage now and its refusals so far.
    pub fn usage(&self) -> Usage {
        self.0.usage()
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
