//! The registry of what the machine was started with: its components, their supervisor and the real-time clock. The start
//! fills it ([`announce`]); `/proc/skerry` and `/proc/driver` show it.
use alloc::{sync::Arc, vec::Vec};
use interfaces::{clock::Clock, supervisor::Supervisor};
use rt::{sync::Once, time::Instant};

/// State of a component after its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComponentState {
    /// The component was started and can be used.
    Running,
    /// The component is a driver that found no device.
    NoDevice,
}

/// A component of the system description, as it was started.
#[derive(Clone, Debug)]
pub struct Component {
    /// Its name.
    pub name: &'static str,
    /// The world in which it runs.
    pub world: &'static str,
    /// The interfaces that it implements.
    pub implements: &'static [&'static str],
    /// Its state after the start.
    pub state: ComponentState,
    /// The time at which it was started.
    pub started: Instant,
}

struct Registry {
    components: Vec<Component>,
    supervisor: Option<Arc<dyn Supervisor>>,
    clock: Option<Arc<dyn Clock>>,
}

static REGISTRY: Once<Registry> = Once::new();

/// Fills the registry; called once, before the first program runs.
pub fn announce(
    components: Vec<Component>,
    supervisor: Option<Arc<dyn Supervisor>>,
    clock: Option<Arc<dyn Clock>>,
) {
    REGISTRY.get_or_init(|| Registry { components, supervisor, clock });
}

/// Returns the supervisor of the isolated components, if there are any.
pub fn supervisor() -> Option<&'static Arc<dyn Supervisor>> {
    REGISTRY.get()?.supervisor.as_ref()
}

/// Returns every component, in the order of starting.
pub fn components() -> &'static [Component] {
    REGISTRY.get().map_or(&[], |registry| &registry.components)
}

/// Returns the clock that runs while the machine is off, if there is one.
pub fn clock() -> Option<&'static Arc<dyn Clock>> {
    REGISTRY.get()?.clock.as_ref()
}
