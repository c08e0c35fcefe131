//! Makes a domain of a plan and an executable: grants, segments (W^X), endpoint, first thread.
use crate::{
    image::Image,
    plan::{self, Plan},
};
use alloc::{
    format,
    string::{String, ToString},
};
use rt::{
    NoMemory,
    domain::{Call, CallSet, Domain, Grants, PortAccess},
    memory::Region,
    message::{Capability, Endpoint},
    system,
    user::Protection,
};

/// Returns the command line of a component that was started again `restarts` times.
fn command_line(plan: &Plan, restarts: u64) -> String {
    let given = system::command_line();
    match restarts {
        0 => format!("{} {given}", plan.parameters),
        _ => format!("{} skerry.restarts={restarts} {given}", plan.parameters),
    }
}

fn grants(plan: &Plan, restarts: u64) -> Grants {
    let (functions, transports) = plan::find(plan);
    let calls: CallSet = plan.calls.iter().filter_map(|&number| Call::of(number)).collect();
    Grants {
        command_line: command_line(plan, restarts),
        calls,
        ports: plan.ports.to_vec(),
        port_access: PortAccess::Map,
        lines: plan.interrupts.to_vec(),
        functions,
        transports,
        can_use_dma: plan.can_use_dma,
        can_run: calls.contains(Call::SpaceNew),
        // The memory that outlives the component is mapped into it, too.
        memory_bytes: plan.memory_bytes.saturating_add(plan.kept_bytes),
        vectors: plan.vectors,
        log_lines: plan.log_lines,
        threads: plan.threads,
        policy: plan.policy,
        share_percent: plan.share_percent,
    }
}

pub(crate) fn refused(_: NoMemory) -> String {
    "memory was refused".to_string()
}

/// Makes a domain with `image` and the grants of `plan`, to be started at its entry. It serves at `service`. It has the memory of
/// its predecessor, and is told their number.
///
/// # Errors
/// A description for the log.
pub(crate) fn load(
    plan: &Plan,
    image: &Image<'_>,
    service: &Endpoint,
    (kept, restarts): (Option<&Region>, u64),
) -> Result<Domain, String> {
    let domain = Domain::new(plan.name, grants(plan, restarts)).map_err(refused)?;
    for (segment, region) in &image.segments {
        let mut protection = Protection::READ;
        protection.set(Protection::WRITE, segment.is_writable);
        protection.set(Protection::EXECUTE, segment.is_executable);
        let bytes = usize::try_from(segment.bytes).unwrap_or(usize::MAX);
        let loaded = match region {
            Some(region) => domain.show(segment.address, region, protection),
            None => domain.load(segment.address, bytes, segment.data, protection),
        };
        loaded.map_err(refused)?;
    }
    domain.show_shared_page().map_err(refused)?;
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
    Ok(domain)
}
