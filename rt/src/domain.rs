//! Isolated components: the supervisor's operations on them (X1, K3). In the kernel world only.
//!
//! A [`Domain`] is loaded page by page, given capabilities, started, waited for and killed. It can do only
//! what its [`Grants`] allow.
use crate::{
    NoMemory, PAGE_BYTES,
    device::DmaWindow,
    memory::Region,
    message::{Capability, Endpoint},
    time::Instant,
    user::Protection,
    world,
};
use alloc::sync::Arc;
pub use calls::{Call, CallSet, End, Grants, PortAccess, Usage};

/// An isolated component; killed when dropped.
#[derive(Debug)]
pub struct Domain(Arc<world::domain::DomainHandle>);

impl Domain {
    /// Makes an empty domain.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn new(name: &str, grants: Grants) -> Result<Domain, NoMemory> {
        world::domain::DomainHandle::new(name, grants).map(Domain)
    }
    /// Maps `bytes` of new memory at page-aligned `start` and copies `data` to its beginning.
    ///
    /// # Errors
    /// [`NoMemory`], also if the grant is used up or the address is not a component's.
    pub fn load(
        &self,
        start: u64,
        bytes: usize,
        data: &[u8],
        protection: Protection,
    ) -> Result<(), NoMemory> {
        self.0.load(start, bytes.div_ceil(PAGE_BYTES), data, protection)
    }
    /// Maps `region` at page-aligned `start`, read-only.
    ///
    /// # Errors
    /// Those of [`Domain::load`].
    pub fn show(
        &self,
        start: u64,
        region: &Region,
        protection: Protection,
    ) -> Result<(), NoMemory> {
        self.0.show(start, &region.0, protection)
    }
    /// Maps the page that every component reads, where it looks for it.
    ///
    /// # Errors
    /// Those of [`Domain::load`].
    pub fn show_shared_page(&self) -> Result<(), NoMemory> {
        self.show(self.0.shared_page(), &crate::shared::page()?, Protection::READ)
    }
    /// Gives the domain a capability. Returns its handle in the domain's table. The first handle is
    /// [`calls::SERVICE`].
    ///
    /// # Errors
    /// [`NoMemory`] if its table is full.
    pub fn grant(&self, capability: Capability) -> Result<u64, NoMemory> {
        world::domain::grant(&self.0, capability)
    }
    /// Starts the domain's first thread at `entry`.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn start(&self, entry: u64) -> Result<(), NoMemory> {
        self.0.start(entry)
    }
    /// Blocks until the domain has ended and its devices are quiet. Returns its end, or `None` at the
    /// deadline.
    pub fn wait_end(&self, deadline: Option<Instant>) -> Option<End> {
        self.0.wait_end(deadline.map(|at| at.0))
    }
    /// Ends the domain because of `cause`, if it has not ended, and blocks until its devices are quiet.
    pub fn kill(&self, cause: &str) {
        self.0.kill(cause);
    }
    /// Ends the domain because of `cause`, if it has not ended, without waiting. The calling thread may be
    /// one of the domain's own, in the nucleus.
    pub fn condemn(&self, cause: &str) {
        self.0.condemn(cause);
    }
    /// Returns the window of the domain's devices, by which frames are lent to them.
    pub fn window(&self) -> DmaWindow {
        DmaWindow(self.0.lending().into())
    }
    /// Returns the memory that the domain has, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
    /// Returns the domain's present usage and its refusals so far.
    pub fn usage(&self) -> Usage {
        self.0.usage()
    }
}

/// Closes `service`: all threads that call, receive or wait there are told [`ipc::Error::Gone`].
pub fn close(service: &Endpoint) {
    world::domain::close(&service.0);
}

/// Opens `service` again after [`close`], for threads that come from now on.
pub fn reopen(service: &Endpoint) {
    world::domain::reopen(&service.0);
}

impl Drop for Domain {
    fn drop(&mut self) {
        self.kill("its supervisor let go of it");
    }
}
