//! The end of a client: a component that served it lets go of the client's memory.
use interfaces::{
    audit_log::AuditLogClient,
    block::{BlockControl, BlockControlClient},
    call::Caller,
    clock::ClockClient,
    entropy::EntropyClient,
    nic::{NicControl, NicControlClient},
    service::ServiceClient,
    terminal::{PortControl, PortControlClient},
};
use rt::message::Endpoint;

/// Timeout of a message to a component.
const ASK_NS: u64 = 1_000_000_000;
/// The greatest number of instances of a component that are asked.
const INSTANCES_MAX: u64 = 256;

/// Asks the component at `endpoint` to let go of the memory that its client shared with it or lent to its devices. Returns whether
/// the component has done so; if not, the caller ends it.
pub(crate) fn has_let_go(endpoint: &Endpoint) -> bool {
    let caller = |instance| Caller::new(endpoint.clone(), instance, Some(ASK_NS));
    let service = ServiceClient::new(caller(0));
    for instance in 0..INSTANCES_MAX {
        match service.call_describe(instance) {
            Ok(Some(description)) if is_detached(description.interface, caller(instance)) => {}
            Ok(None) => return true,
            _ => return false,
        }
    }
    false
}

/// Detaches the client of an instance of `interface`. Returns `false` if that is not possible.
fn is_detached(interface: u16, instance: Caller) -> bool {
    match interface {
        BlockControlClient::INTERFACE => BlockControlClient::new(instance).detach().is_some(),
        PortControlClient::INTERFACE => PortControlClient::new(instance).detach().is_some(),
        // A driver whose device has buffers of the client refuses.
        NicControlClient::INTERFACE => NicControlClient::new(instance).detach().is_some(),
        // These share no memory.
        AuditLogClient::INTERFACE | ClockClient::INTERFACE | EntropyClient::INTERFACE => true,
        // A network stack takes rings once in its life, and has sockets and addresses of the client.
        _ => false,
    }
}
