//! Operations on isolated components from the kernel world.
use super::message::{EndpointHandle, to_nucleus};
use crate::{NoMemory, message::Capability};
pub(crate) use nucleus::domain::Domain as DomainHandle;

pub(crate) fn grant(domain: &DomainHandle, capability: Capability) -> Result<u64, NoMemory> {
    domain.grant(to_nucleus(capability))
}

pub(crate) fn close(service: &EndpointHandle) {
    service.endpoint.close(ipc::Error::Gone);
}

pub(crate) fn reopen(service: &EndpointHandle) {
    service.endpoint.reopen();
}
