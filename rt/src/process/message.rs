//! Messages of the process world.
//!
//! An endpoint is a handle, given back with its last clone. The words beyond the first four lie in the calling
//! thread's message area during a step.
use super::{
    call::{Handle, Registers, ask, exchange, exchange_here, until},
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
pub(crate) struct EndpointHandle {
    handle: Arc<Handle>,
    /// Made here, so that the partner is likely to be a thread of the component.
    is_own: bool,
}

impl EndpointHandle {
    fn new(handle: u64, is_own: bool) -> EndpointHandle {
        EndpointHandle { handle: Arc::new(Handle(handle)), is_own }
    }
}

/// Where the component serves.
pub(crate) fn service() -> EndpointHandle {
    EndpointHandle::new(SERVICE, false)
}

pub(crate) fn endpoint_new() -> Result<EndpointHandle, NoMemory> {
    let [handle, ..] = ask(Call::EndpointNew, &[]).map_err(|_| NoMemory)?;
    Ok(EndpointHandle::new(handle, true))
}

pub(crate) fn endpoint_badged(
    handle: &EndpointHandle,
    badge: u64,
) -> Result<EndpointHandle, NoMemory> {
    let [badged, ..] = ask(Call::EndpointBadge, &[handle.handle.0, badge]).map_err(|_| NoMemory)?;
    Ok(EndpointHandle::new(badged, handle.is_own))
}

fn handle_of(capability: &Capability) -> u64 {
    match capability {
        Capability::Region(region) => region.0.handle.0,
        Capability::Endpoint(endpoint) => endpoint.0.handle.0,
    }
}

/// What came along: a region is mapped, anything else is an endpoint.
#[inline]
fn came(handle: u64) -> Option<Capability> {
    (handle != NO_HANDLE).then(|| take_in(handle))
}

#[cold]
fn take_in(handle: u64) -> Capability {
    match memory::region_map(Handle(handle)) {
        Ok(region) => Capability::Region(Region(region)),
        Err(handle) => Capability::Endpoint(Endpoint(EndpointHandle {
            handle: Arc::new(handle),
            is_own: false,
        })),
    }
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
    let length = message.words().len();
    let header = Header::new(message.label, length);
    if length > INLINE_WORDS {
        let long = message.words().iter().zip(thread::area()).skip(INLINE_WORDS);
        long.for_each(|(word, shared)| shared.store(*word, Relaxed));
    }
    let mut registers = Registers {
        name: handle.handle.0,
        header: header.as_sent(message.capability.is_some()).0,
        words: message.inline_words(),
        capability: message.capability.as_ref().map_or(NO_HANDLE, handle_of),
    };
    let may_pass = handle.is_own && matches!(step, Step::Call | Step::ReplyAndReceive);
    let is_plain = message.capability.is_none() && length <= INLINE_WORDS;
    let status = if may_pass && is_plain && deadline_ns.is_none() {
        // SAFETY: the area is of atomics, and nothing of it is used meanwhile.
        unsafe { exchange_here(call, &mut registers) }
    } else {
        // SAFETY: as above.
        unsafe { exchange(call, &mut registers, until(deadline_ns)) }
    };
    result(status)?;
    message.capability = None;
    if !matches!(step, Step::Send | Step::Reply) {
        take(message, &registers);
    }
    Ok(())
}

/// Makes `message` what came.
#[inline]
fn take(message: &mut Message, registers: &Registers) {
    let header = Header(registers.header);
    message.label = header.label();
    (message.badge, message.is_notification) = (registers.name, header.is_notification());
    let length = header.words();
    if length > INLINE_WORDS {
        let long = thread::area().iter().skip(INLINE_WORDS).map(|word| word.load(Relaxed));
        message.set_words(registers.words, length, long);
    } else {
        message.set_words(registers.words, length, core::iter::empty());
    }
    message.capability = came(registers.capability);
}

pub(crate) fn signal(handle: &EndpointHandle, bits: u64) {
    // An endpoint that is gone has nobody to tell.
    let _ = ask(Call::Signal, &[handle.handle.0, bits]);
}
