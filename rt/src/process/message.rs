//! Messages of the process world.
//!
//! An endpoint is a handle, given back with its last clone. The words beyond the first four lie in the calling
//! thread's message area during a step.
use super::{
    call::{Handle, Registers, ask, exchange, until},
    memory, thread,
};
use crate::{
    NoMemory,
    memory::Region,
    message::{Capability, Endpoint, Message, Step},
};
use alloc::sync::Arc;
use calls::{Call, NO_HANDLE, SERVICE, Status};
use core::sync::atomic::Ordering::Relaxed;
use ipc::{Error, Header, INLINE_WORDS};

/// The right to an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct EndpointHandle(Arc<Handle>);

impl EndpointHandle {
    fn new(handle: u64) -> EndpointHandle {
        EndpointHandle(Arc::new(Handle(handle)))
    }
}

/// Where the component serves.
pub(crate) fn service() -> EndpointHandle {
    EndpointHandle::new(SERVICE)
}

pub(crate) fn endpoint_new() -> Result<EndpointHandle, NoMemory> {
    let [handle, ..] = ask(Call::EndpointNew, &[]).map_err(|_| NoMemory)?;
    Ok(EndpointHandle::new(handle))
}

pub(crate) fn endpoint_badged(
    handle: &EndpointHandle,
    badge: u64,
) -> Result<EndpointHandle, NoMemory> {
    let [handle, ..] = ask(Call::EndpointBadge, &[handle.0.0, badge]).map_err(|_| NoMemory)?;
    Ok(EndpointHandle::new(handle))
}

fn handle_of(capability: &Capability) -> u64 {
    match capability {
        Capability::Region(region) => region.0.handle.0,
        Capability::Endpoint(endpoint) => endpoint.0.0.0,
    }
}

/// What came along: a region is mapped, anything else is an endpoint.
fn came(handle: u64) -> Option<Capability> {
    (handle != NO_HANDLE).then(|| match memory::region_map(Handle(handle)) {
        Ok(region) => Capability::Region(Region(region)),
        Err(handle) => Capability::Endpoint(Endpoint(EndpointHandle(Arc::new(handle)))),
    })
}

/// What went wrong. A handle that names no endpoint (any more) is as good as one whose endpoint is gone.
fn result(status: Status) -> Result<(), Error> {
    match status {
        Status::Ok => Ok(()),
        Status::TimedOut => Err(Error::TimedOut),
        Status::Cancelled | Status::NoMemory => Err(Error::Cancelled),
        Status::Restarted => Err(Error::Restarted),
        Status::NoCaller => Err(Error::NoCaller),
        _ => Err(Error::Gone),
    }
}

/// Does a step with `message`; where it fails the message stays as it was. What is only sent leaves nothing
/// in the message but what it was, without what went along.
#[inline(always)]
pub(crate) fn step(
    handle: &EndpointHandle,
    step: Step,
    message: &mut Message,
    deadline_ns: Option<u64>,
) -> Result<(), Error> {
    let call = match step {
        Step::Call => Call::Call,
        Step::Send => Call::Send,
        Step::Receive => Call::Receive,
        Step::Reply => Call::Reply,
        Step::ReplyAndReceive => Call::ReplyAndReceive,
    };
    if step == Step::Receive {
        // Nothing goes in: what is in the message is dropped.
        message.reset(0);
    }
    let area = thread::area();
    let header = Header::new(message.label, message.length);
    let long = message.words().iter().zip(area).skip(INLINE_WORDS);
    long.for_each(|(word, shared)| shared.store(*word, Relaxed));
    let mut registers = Registers {
        name: handle.0.0,
        header: header.as_sent(message.capability.is_some()).0,
        words: [message.words[0], message.words[1], message.words[2], message.words[3]],
        capability: message.capability.as_ref().map_or(NO_HANDLE, handle_of),
    };
    // SAFETY: the area is of atomics, and nothing of it is used meanwhile.
    result(unsafe { exchange(call, &mut registers, until(deadline_ns)) })?;
    message.capability = None;
    if !matches!(step, Step::Send | Step::Reply) {
        take(message, &registers);
    }
    Ok(())
}

/// Makes `message` what came.
fn take(message: &mut Message, registers: &Registers) {
    let area = thread::area();
    let header = Header(registers.header);
    (message.label, message.length) = (header.label(), header.words());
    (message.badge, message.is_notification) = (registers.name, header.is_notification());
    message.words[..INLINE_WORDS].copy_from_slice(&registers.words);
    let long = message.words.iter_mut().zip(area).take(message.length).skip(INLINE_WORDS);
    long.for_each(|(word, shared)| *word = shared.load(Relaxed));
    message.capability = came(registers.capability);
}

pub(crate) fn signal(handle: &EndpointHandle, bits: u64) {
    // An endpoint that is gone has nobody to tell.
    let _ = ask(Call::Signal, &[handle.0.0, bits]);
}
