//! The isolated components of a system: [`start`] starts them, and [`Supervisor`] shows and controls them.
use crate::{
    introduce,
    keeper::Keeper,
    plan::{self, Plan},
};
use alloc::{sync::Arc, vec::Vec};
use interfaces::{
    block::RunningDriver,
    supervisor::{self, Listener, Order, OrderError, Services, State, Status},
};
use rt::{NoMemory, message::Endpoint};

/// The components, in the order of starting.
pub struct Supervisor(Vec<Arc<Keeper>>);

/// Starts the component of each of `plans` from its executable in `archive`, in that order: the next one when the
/// one before answers or has failed to. The driver of a device that the machine does not have is not started.
///
/// # Errors
/// [`NoMemory`] for the supervisor itself; a component that cannot be started is only reported.
pub fn start(plans: &[Plan], archive: &'static [u8]) -> Result<Arc<Supervisor>, NoMemory> {
    let mut keepers = Vec::new();
    let machine_frames = rt::memory::statistics().total_frames as usize;
    for plan in plans {
        let (functions, transports) = plan::find(plan);
        let devices = functions.len() + transports.len();
        if plan.drives_devices_alone() && devices == 0 {
            continue;
        }
        let plan = plan.with_devices(devices, machine_frames.saturating_mul(rt::PAGE_BYTES));
        let file = archive::find(archive, plan.name).unwrap_or_default();
        let endpoint = Endpoint::new()?;
        let introducer = introduce::introducer(&plan, &endpoint, &keepers)?;
        let listener = introducer.as_ref().map(|introducer| introducer.listener.clone());
        let keeper = Keeper::start(plan, file, endpoint, listener)?;
        if let Some(introducer) = introducer {
            introducer.controlled.add(&keeper);
        }
        keeper.wait_for_service();
        keepers.push(keeper);
    }
    Ok(Arc::new(Supervisor(keepers)))
}

impl Supervisor {
    fn keeper(&self, name: &str) -> Option<&Arc<Keeper>> {
        self.0.iter().find(|keeper| keeper.name() == name)
    }
    /// Blocks until the component `name` has ended and will not be started again by itself. Returns its state, or `None` if there
    /// is no such component.
    pub fn wait_for_end(&self, name: &str) -> Option<State> {
        self.keeper(name).map(|keeper| keeper.wait_for_end())
    }
}

impl supervisor::Supervisor for Supervisor {
    fn status(&self) -> Vec<Status> {
        self.0.iter().map(|keeper| keeper.status()).collect()
    }
    fn order(&self, name: &str, order: Order) -> Result<(), OrderError> {
        self.keeper(name).ok_or(OrderError::Unknown)?.order(order)
    }
    fn changes(&self) -> u64 {
        self.0.iter().map(|keeper| keeper.changes()).sum()
    }
}

impl Services for Supervisor {
    fn endpoint(&self, name: &str) -> Option<Endpoint> {
        self.keeper(name).map(|keeper| keeper.endpoint())
    }
    fn wait_for_service(&self, name: &str) -> bool {
        self.keeper(name).is_some_and(|keeper| keeper.wait_for_service())
    }
    fn generation(&self, name: &str) -> Option<u64> {
        self.keeper(name)?.generation()
    }
    fn running(&self, name: &str) -> RunningDriver {
        self.keeper(name).map(|keeper| keeper.present()).unwrap_or_default()
    }
    fn blame(&self, name: &str, cause: &str) {
        if let Some(keeper) = self.keeper(name) {
            keeper.blame(cause);
        }
    }
    fn listen(&self, name: &str, listener: Arc<dyn Listener>) -> bool {
        self.keeper(name).map(|keeper| keeper.listen(listener)).is_some()
    }
}
