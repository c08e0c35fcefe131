//! The start in the kernel world ([`start`]).
use crate::{Component, SystemCalls, start::personality};
use alloc::{string::String, sync::Arc};
use interfaces::supervisor::{Services, Supervisor};

/// Starts `components` and the personality; `supervisor` keeps the isolated ones. Returns the reason if there is nothing to run.
pub fn start<S: Services + Supervisor + 'static>(
    supervisor: Option<Arc<S>>,
    components: &'static [Component],
    system_calls: SystemCalls,
) -> String {
    let services = supervisor.clone().map(|supervisor| supervisor as Arc<dyn Services>);
    let supervisor = supervisor.map(|supervisor| supervisor as Arc<dyn Supervisor>);
    personality(components, system_calls, services, supervisor)
}
