//! Messages of the kernel world.
use crate::{
    NoMemory,
    memory::Region,
    message::{Capability, Endpoint, Message},
    time::Instant,
};
use alloc::sync::Arc;
use ipc::{Error, Header, INLINE_WORDS};
use nucleus::{
    capability::{self, Right},
    thread::{self, Along, Wait},
};

/// The right to an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct EndpointHandle {
    pub(crate) endpoint: Arc<thread::Endpoint>,
    badge: u64,
    right: Right,
}

pub(crate) fn endpoint_new() -> Result<EndpointHandle, NoMemory> {
    let endpoint = Arc::new(thread::Endpoint::new());
    Ok(EndpointHandle { endpoint, badge: 0, right: Right::Serve })
}

pub(crate) fn endpoint_badged(
    handle: &EndpointHandle,
    badge: u64,
) -> Result<EndpointHandle, NoMemory> {
    Ok(EndpointHandle { endpoint: handle.endpoint.clone(), badge, right: Right::Call })
}

pub(super) fn to_nucleus(capability: Capability) -> capability::Capability {
    match capability {
        Capability::Region(region) => capability::Capability::Region(region.0),
        Capability::Endpoint(Endpoint(EndpointHandle { endpoint, badge, right })) => {
            capability::Capability::Endpoint { endpoint, badge, right }
        }
    }
}

fn from_nucleus(capability: capability::Capability) -> Option<Capability> {
    match capability {
        capability::Capability::Region(region) => Some(Capability::Region(Region(region))),
        capability::Capability::Endpoint { endpoint, badge, right } => {
            Some(Capability::Endpoint(Endpoint(EndpointHandle { endpoint, badge, right })))
        }
        capability::Capability::Interrupt(_) => None,
    }
}

/// Does a step with `message`, which becomes what came back.
fn step(
    handle: &EndpointHandle,
    message: &mut Message,
    act: impl FnOnce(&mut ipc::Message) -> Result<(), Error>,
) -> Result<(), Error> {
    let capability = message.capability.take().map(to_nucleus);
    let header = Header::new(message.label, message.length).as_sent(capability.is_some());
    let mut short = ipc::Message { header, badge: handle.badge, ..ipc::Message::default() };
    short.words.copy_from_slice(&message.words[..INLINE_WORDS]);
    let mut along = Along { area: &mut message.words, capability };
    let result = thread::with_along(&mut along, || act(&mut short));
    message.capability = along.capability.and_then(from_nucleus);
    message.words[..INLINE_WORDS].copy_from_slice(&short.words);
    message.label = short.header.label();
    message.length = short.header.words();
    message.badge = short.badge;
    message.is_notification = short.header.is_notification();
    result
}

fn until(deadline: Option<Instant>) -> Wait {
    Wait { deadline_ns: deadline.map(|at| at.0), is_interruptible: true }
}

pub(crate) fn call(
    handle: &EndpointHandle,
    message: &mut Message,
    deadline: Option<Instant>,
) -> Result<(), Error> {
    step(handle, message, |short| handle.endpoint.call(short, until(deadline)))
}

pub(crate) fn send(
    handle: &EndpointHandle,
    message: &mut Message,
    deadline: Option<Instant>,
) -> Result<(), Error> {
    step(handle, message, |short| handle.endpoint.send(short, until(deadline)))
}

pub(crate) fn receive(
    handle: &EndpointHandle,
    message: &mut Message,
    deadline: Option<Instant>,
) -> Result<(), Error> {
    step(handle, message, |short| handle.endpoint.receive(short, until(deadline)))
}

pub(crate) fn reply(handle: &EndpointHandle, message: &mut Message) -> Result<(), Error> {
    step(handle, message, |short| handle.endpoint.reply(short))
}

pub(crate) fn reply_and_receive(
    handle: &EndpointHandle,
    message: &mut Message,
    deadline: Option<Instant>,
) -> Result<(), Error> {
    step(handle, message, |short| handle.endpoint.reply_and_receive(short, until(deadline)))
}

pub(crate) fn signal(handle: &EndpointHandle, bits: u64) {
    handle.endpoint.signal(bits);
}
