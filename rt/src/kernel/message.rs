//! Messages of the kernel world.
use crate::{
    NoMemory,
    device::DmaWindow,
    memory::Region,
    message::{Capability, Endpoint, Message, Rights, Step},
};
use alloc::sync::Arc;
use ipc::{Error, Header};
pub(crate) use nucleus::capability::EndpointRight as EndpointHandle;
use nucleus::{
    capability, domain,
    thread::{self, Along, Sleep, Wait},
};

pub(crate) fn endpoint_new() -> Result<EndpointHandle, NoMemory> {
    Ok(EndpointHandle::to(Arc::default()))
}

pub(crate) fn endpoint_badged(
    handle: &EndpointHandle,
    badge: u64,
) -> Result<EndpointHandle, NoMemory> {
    Ok(handle.badged(badge))
}

pub(crate) type DerivationHandle = Arc<capability::Derivation>;

pub(crate) fn give(
    capability: &Capability,
    Rights { can_serve, can_write }: Rights,
    badge: u64,
) -> Result<(Capability, DerivationHandle), NoMemory> {
    let serve = if can_serve { calls::MAY_SERVE } else { 0 };
    let write = if can_write { calls::MAY_WRITE } else { 0 };
    let (copy, derivation) =
        to_nucleus(capability.clone()).give(serve | write, badge).ok_or(NoMemory)?;
    Ok((from_nucleus(copy).ok_or(NoMemory)?, derivation))
}

pub(crate) fn revoke(derivation: &DerivationHandle) {
    domain::revoke([derivation.clone()]);
}

pub(super) fn to_nucleus(capability: Capability) -> capability::Capability {
    match capability {
        Capability::Region(region) => capability::Capability::Region(region.0),
        Capability::Endpoint(endpoint) => capability::Capability::Endpoint(endpoint.0),
        Capability::Lender(window) => capability::Capability::Lender(window.0),
    }
}

fn from_nucleus(capability: capability::Capability) -> Option<Capability> {
    match capability {
        _ if capability.is_over() => None,
        capability::Capability::Region(region) => Some(Capability::Region(Region(region))),
        capability::Capability::Endpoint(right) => Some(Capability::Endpoint(Endpoint(right))),
        capability::Capability::Lender(lender) => Some(Capability::Lender(DmaWindow(lender))),
        _ => None,
    }
}

/// Does `step` with `message`, which is replaced by the message that came back.
#[inline(always)]
pub(crate) fn step(
    handle: &EndpointHandle,
    step: Step,
    message: &mut Message,
    deadline_ns: Option<u64>,
) -> Result<(), Error> {
    if handle.is_over() {
        return Err(Error::Gone);
    }
    let capability = message.capability.take().map(to_nucleus);
    let header = Header::new(message.label, message.words().len()).as_sent(capability.is_some());
    let words = message.inline_words();
    let mut short = ipc::Message { header, badge: handle.badge, words };
    let mut along = Along { area: message.area(), capability };
    let (endpoint, wait) = (&handle.endpoint, Wait { deadline_ns, sleep: Sleep::Interruptible });
    let result = thread::with_along(&mut along, || match step {
        Step::Call => endpoint.call(&mut short, wait),
        Step::Send => endpoint.send(&mut short, wait),
        Step::Receive => endpoint.receive(&mut short, wait),
        Step::Reply => endpoint.reply(&mut short),
        Step::ReplyAndReceive => endpoint.reply_and_receive(&mut short, wait),
    });
    message.capability = along.capability.and_then(from_nucleus);
    message.label = short.header.label();
    // SAFETY: the nucleus wrote what is beyond the first words, or they are still the sender's own.
    unsafe { message.came(short.words, short.header.words()) };
    message.badge = short.badge;
    message.is_notification = short.header.is_notification();
    result
}

pub(crate) fn signal(handle: &EndpointHandle, bits: u64) {
    handle.signal(bits);
}
