//! Isolated components, from the kernel world.
use super::message::EndpointHandle;
use crate::{
    NoMemory, PAGE_BYTES,
    domain::{End, Grants, Usage},
    message::Capability,
    time::Instant,
    user::{PageRange, Protection},
};
use alloc::sync::Arc;
use nucleus::{domain, memory::space};

pub(crate) type DomainHandle = Arc<domain::Domain>;

pub(crate) fn new(name: &str, grants: &Grants) -> Result<DomainHandle, NoMemory> {
    let grants = domain::Grants {
        calls: grants.calls.iter().fold(0, |all, &call| all | 1 << call as u64),
        ports: grants.ports.clone(),
        lines: grants.lines.clone(),
        functions: grants.functions.iter().map(|address| address.0).collect(),
        transports: grants.transports.clone(),
        can_use_dma: grants.can_use_dma,
        pages: grants.memory_bytes / PAGE_BYTES,
        threads: grants.threads,
        policy: grants.policy,
    };
    domain::Domain::new(name, grants)
}

pub(crate) fn load(
    domain: &DomainHandle,
    start: u64,
    bytes: usize,
    data: &[u8],
    protection: Protection,
) -> Result<(), NoMemory> {
    let range = PageRange::new(start, bytes.div_ceil(PAGE_BYTES)).ok_or(NoMemory)?;
    let protection = space::Protection(protection.bits());
    domain.load(range.start(), range.pages(), data, protection)
}

pub(crate) fn grant(domain: &DomainHandle, capability: Capability) -> Result<u64, NoMemory> {
    domain.grant(super::message::to_nucleus(capability))
}

pub(crate) fn start(domain: &DomainHandle, entry: u64) -> Result<(), NoMemory> {
    domain.start(entry)
}

pub(crate) fn wait_end(domain: &DomainHandle, deadline: Option<Instant>) -> Option<End> {
    let domain::End { cause, registers, calls } = domain.wait_end(deadline.map(|at| at.0))?;
    Some(End { cause, registers, calls })
}

pub(crate) fn kill(domain: &DomainHandle, cause: &str) {
    domain.kill(cause);
}

pub(crate) fn usage(domain: &DomainHandle) -> Usage {
    let domain::Usage { pages, threads, cpu_ns, calls, refused } = domain.usage();
    Usage { memory_bytes: pages * PAGE_BYTES, threads, cpu_ns, calls, refused }
}

pub(crate) fn close(service: &EndpointHandle) {
    service.endpoint.close(ipc::Error::Gone);
}

pub(crate) fn reopen(service: &EndpointHandle) {
    service.endpoint.reopen();
}
