//! Messages of the process world.
//!
//! An endpoint is a handle, which is given back with its last clone. The words beyond the first four are in the calling
//! thread's message area during a step.
use super::{
    call::{Handle, Registers, ask, ask_number, ask_with_memory, exchange, exchange_plain, until},
    memory, thread,
};
use crate::{
    NoMemory,
    memory::Region,
    message::{Capability, Endpoint, Message, Rights, Step},
    window::View,
};
use alloc::sync::Arc;
use calls::{
    Call, FOREVER, MAY_READ, MAY_SERVE, MAY_WRITE, MOVED, NO_HANDLE, PLAIN, SERVICE, Status,
};
use core::sync::atomic::Ordering::Relaxed;
use ipc::{Error, Header, INLINE_WORDS};

/// The right to an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct EndpointHandle {
    handle: Arc<Handle>,
}

impl EndpointHandle {
    fn new(handle: Handle) -> EndpointHandle {
        EndpointHandle { handle: Arc::new(handle) }
    }
    /// Returns the endpoint's handle.
    pub(super) fn number(&self) -> u64 {
        self.handle.0
    }
}

/// Returns the endpoint of the component.
pub(crate) fn service() -> EndpointHandle {
    EndpointHandle::new(Handle(SERVICE))
}

pub(crate) fn endpoint_new() -> Result<EndpointHandle, NoMemory> {
    let [handle, ..] = ask(Call::EndpointNew, &[]).map_err(|_| NoMemory)?;
    Ok(EndpointHandle::new(Handle(handle)))
}

pub(crate) fn endpoint_badged(
    handle: &EndpointHandle,
    badge: u64,
) -> Result<EndpointHandle, NoMemory> {
    let [badged, ..] = ask(Call::EndpointBadge, &[handle.handle.0, badge]).map_err(|_| NoMemory)?;
    Ok(EndpointHandle::new(Handle(badged)))
}

fn handle_of(capability: &Capability) -> u64 {
    match capability {
        Capability::Region(region) => region.0.handle.0,
        Capability::Endpoint(endpoint) => endpoint.0.handle.0,
        Capability::View(view) => view.0.0,
    }
}

/// Handle of a copy that was given; giving it back revokes the derivation.
pub(crate) type DerivationHandle = u64;

pub(crate) fn give(
    capability: &Capability,
    Rights { can_serve, can_write }: Rights,
    badge: u64,
) -> Result<(Capability, DerivationHandle), NoMemory> {
    let serve = if can_serve { MAY_SERVE } else { 0 };
    let write = if can_write { MAY_WRITE | MAY_READ } else { MAY_READ };
    let arguments = [handle_of(capability), serve | write, badge];
    let [given, ..] = ask(Call::Give, &arguments).map_err(|_| NoMemory)?;
    let copy = match capability {
        Capability::Region(region) => {
            Capability::Region(Region(memory::region_given(&region.0, Handle(given))))
        }
        Capability::Endpoint(_) => {
            Capability::Endpoint(Endpoint(EndpointHandle::new(Handle(given))))
        }
        Capability::View(_) => Capability::View(View(Arc::new(Handle(given)))),
    };
    Ok((copy, given))
}

pub(crate) fn revoke(derivation: &DerivationHandle) {
    // SAFETY: what it unmaps is others', or was got and given on here, whose words are looked at by the original handle.
    let _ = unsafe { ask_with_memory(Call::Revoke, &[*derivation]) };
}

/// Returns the handle of the capability to send. The capability is moved if nobody else in this component has it.
#[cold]
fn word_of(capability: &mut Capability) -> u64 {
    let is_alone = match capability {
        Capability::Region(region) => Arc::get_mut(&mut region.0).is_some_and(|it| it.can_leave()),
        Capability::Endpoint(endpoint) => {
            Arc::get_mut(&mut endpoint.0.handle).is_some_and(|handle| handle.can_leave())
        }
        Capability::View(_) => false,
    };
    let handle = handle_of(capability);
    if is_alone { handle | MOVED } else { handle }
}

#[cold]
fn settle_what_went(message: &mut Message, word: u64, done: Result<(), Status>) {
    let capability = message.capability.take();
    message.capability = capability.and_then(|capability| settle(word, capability, done));
}

/// Settles a capability after a step that took `word` along. After a success a moved capability has left the component.
/// After a failure the capability is returned; a moved region, which the nucleus has unmapped, is mapped again.
fn settle(word: u64, capability: Capability, done: Result<(), Status>) -> Option<Capability> {
    match capability {
        _ if word & MOVED == 0 => done.is_err().then_some(capability),
        Capability::Endpoint(_) if done.is_err() => Some(capability),
        Capability::View(_) => None,
        Capability::Endpoint(mut endpoint) => {
            core::mem::forget(Arc::get_mut(&mut endpoint.0.handle)?.leave());
            None
        }
        Capability::Region(mut region) => {
            let handle = Arc::get_mut(&mut region.0)?.leave();
            if done.is_ok() {
                core::mem::forget(handle);
                return None;
            }
            memory::region_map(handle).ok().map(|back| Capability::Region(Region(back)))
        }
    }
}

/// Makes a capability of the handle that came along: a region is mapped; anything else is an endpoint.
#[cold]
fn take_in(handle: u64) -> Capability {
    match memory::region_map(Handle(handle)) {
        Ok(region) => Capability::Region(Region(region)),
        Err((handle, Status::Invalid | Status::Unknown)) => {
            Capability::View(View(Arc::new(handle)))
        }
        Err((handle, _)) => Capability::Endpoint(Endpoint(EndpointHandle::new(handle))),
    }
}

/// Converts a status to an error. A handle that names no endpoint counts as one whose endpoint is gone.
#[cold]
fn error(status: Status) -> Error {
    match status {
        Status::TimedOut => Error::TimedOut,
        Status::Cancelled | Status::NoMemory => Error::Cancelled,
        Status::Restarted => Error::Restarted,
        Status::NoCaller => Error::NoCaller,
        _ => Error::Gone,
    }
}

/// Does a step with `message`. If it fails the message stays as it was. A step that only sends leaves the words in the
/// message, but not the capability.
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
        // A step that only receives drops the contents of the message.
        message.reset(0);
    }
    let length = message.words().len();
    let header = Header::new(message.label, length);
    if length > INLINE_WORDS {
        give_long(message);
    }
    let mut registers = Registers {
        name: handle.handle.0,
        header: header.as_sent(message.capability.is_some()).0,
        words: message.inline_words(),
        capability: message.capability.as_mut().map_or(NO_HANDLE, word_of),
    };
    let word = registers.capability;
    let deadline = until(deadline_ns);
    let is_plain = matches!(step, Step::Call | Step::ReplyAndReceive)
        && message.capability.is_none()
        && length <= INLINE_WORDS
        && deadline == FOREVER;
    let done = if is_plain {
        // SAFETY: the area is of atomics, and nothing of it is used meanwhile.
        unsafe { exchange_plain(call, &mut registers) }
    } else {
        // SAFETY: as above.
        unsafe { exchange(call, &mut registers, deadline) }
    };
    if word != NO_HANDLE {
        settle_what_went(message, word, done);
    }
    done.map_err(error)?;
    if !matches!(step, Step::Send | Step::Reply) {
        take(message, &registers);
    }
    Ok(())
}

/// Copies the words of `message` that do not travel in registers to the message area.
#[cold]
fn give_long(message: &Message) {
    let long = message.words().iter().zip(thread::area()).skip(INLINE_WORDS);
    long.for_each(|(word, shared)| shared.store(*word, Relaxed));
}

/// Fills `message` from the registers and the message area. Inlined, so that words that came in registers stay there.
#[inline(always)]
fn take(message: &mut Message, registers: &Registers) {
    let header = Header(registers.header);
    message.label = header.label();
    (message.badge, message.is_notification) = (registers.name, header.is_notification());
    match header.words() {
        length @ ..=INLINE_WORDS => message.set_words(registers.words, length),
        length => {
            message.set_words(registers.words, INLINE_WORDS);
            take_long(message, length);
        }
    }
    if registers.capability != NO_HANDLE {
        message.capability = Some(take_in(registers.capability));
    }
}

/// Copies the words that did not come in registers from the message area.
#[cold]
fn take_long(message: &mut Message, length: usize) {
    let shared = thread::area().iter().take(length).skip(INLINE_WORDS);
    // There is room, because a header's length is at most that of a message.
    let _ = shared.take_while(|word| message.push(word.load(Relaxed))).count();
}

pub(crate) fn signal(handle: &EndpointHandle, bits: u64) {
    // The call fails only if the endpoint is gone; then no receiver is left to be told.
    // SAFETY: it changes no memory.
    let _ = unsafe { ask_number(Call::Signal as u64 | PLAIN, &[handle.handle.0, bits]) };
}
