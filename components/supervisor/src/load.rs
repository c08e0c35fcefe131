//! Making a domain of a plan and an executable: grants, segments (W^X), endpoint, first thread.
use crate::plan::{self, Plan};
use alloc::string::{String, ToString};
use archive::Executable;
use rt::{
    NoMemory,
    domain::{Call, Domain, Grants, PortAccess},
    memory::Region,
    message::{Capability, Endpoint},
    user::Protection,
};

fn grants(plan: &Plan) -> Grants {
    let (functions, transports) = plan::find(plan.devices);
    Grants {
        calls: plan.calls.iter().filter_map(|&number| Call::of(number)).collect(),
        ports: plan.ports.to_vec(),
        port_access: PortAccess::Map,
        lines: plan.interrupts.to_vec(),
        functions,
        transports,
        can_use_dma: plan.can_use_dma,
        // What outlives it is mapped into it too.
        memory_bytes: plan.memory_bytes.saturating_add(plan.kept_bytes),
        threads: plan.threads,
        policy: plan.policy,
    }
}

/// Starts `file` as `plan` says, serving at `service`, with `kept` of its predecessor's.
///
/// # Errors
/// In words, for the log.
pub(crate) fn start(
    plan: &Plan,
    file: &[u8],
    service: &Endpoint,
    kept: Option<&Region>,
) -> Result<Domain, String> {
    let refused = |NoMemory| "memory was refused".to_string();
    let executable = Executable::parse(file).map_err(|wrong| wrong.to_string())?;
    let domain = Domain::new(plan.name, grants(plan)).map_err(refused)?;
    for segment in executable.segments() {
        let bytes = usize::try_from(segment.bytes).map_err(|_| refused(NoMemory))?;
        let mut protection = Protection::READ;
        protection.set(Protection::WRITE, segment.is_writable);
        protection.set(Protection::EXECUTE, segment.is_executable);
        domain.load(segment.address, bytes, segment.data, protection).map_err(refused)?;
    }
    let handle = domain.grant(Capability::Endpoint(service.clone())).map_err(refused)?;
    if handle != calls::SERVICE {
        return Err("the endpoint has not the handle of the service".to_string());
    }
    if let Some(kept) = kept {
        let handle = domain.grant(Capability::Region(kept.clone())).map_err(refused)?;
        if handle != calls::KEPT {
            return Err("the memory that outlives it has another handle".to_string());
        }
    }
    domain.start(executable.entry()).map_err(refused)?;
    Ok(domain)
}
