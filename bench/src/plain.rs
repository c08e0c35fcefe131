//! The messages of [`Adder`], written by hand with the same checks as the macro's.
use crate::adder::{Adder, AdderClient, Sum};
use interfaces::{
    call::{DONE, Refusal},
    service::ServiceClient,
};
use rt::message::{Endpoint, Error, Message};

const LABEL: u64 = (AdderClient::INTERFACE as u64) << 16;

/// Calls `instance` behind `endpoint` for the sum.
#[inline]
pub fn add(endpoint: &Endpoint, instance: u64, [first, second, third]: [u64; 3]) -> Option<u64> {
    let mut message = Message::new(LABEL);
    let has_room = message.push(instance)
        && message.push(first)
        && message.push(second)
        && message.push(third);
    if !has_room || endpoint.call(&mut message, None).is_err() || message.label() != DONE {
        return None;
    }
    match *message.words() {
        [1, sum] if message.capability.is_none() => Some(sum),
        _ => None,
    }
}

/// Serves `instances` at `endpoint` as [`interfaces::service::run`] does, with the other messages and bits of a
/// component.
///
/// # Errors
/// [`Error`]: no more messages will come.
pub fn serve(endpoint: &Endpoint, instances: &[Sum]) -> Result<u64, Error> {
    let mut message = Message::new(0);
    let mut received = endpoint.receive(&mut message, None);
    loop {
        match received {
            Ok(()) => {}
            Err(Error::Cancelled | Error::TimedOut) => {
                received = endpoint.receive(&mut message, None);
                continue;
            }
            Err(error) => return Err(error),
        }
        if let Some(bits) = message.bits() {
            return Ok(bits);
        }
        if let Err(refusal) = answer(instances, &mut message) {
            message.reset(refusal as u64);
        }
        received = endpoint.reply_and_receive(&mut message, None);
    }
}

#[inline]
fn answer(instances: &[Sum], message: &mut Message) -> Result<(), Refusal> {
    let (interface, method) = (message.label() >> 16, message.label() as u16);
    let interface = u16::try_from(interface).map_err(|_| Refusal::NoInterface)?;
    let instance = *message.words().first().ok_or(Refusal::Malformed)?;
    if interface == ServiceClient::INTERFACE {
        return ping(method, message);
    }
    let instance = usize::try_from(instance).ok().and_then(|index| instances.get(index));
    let instance = instance.ok_or(Refusal::NoInstance)?;
    if interface != AdderClient::INTERFACE {
        return Err(Refusal::NoInterface);
    }
    if method != 0 {
        return Err(Refusal::NoMethod);
    }
    let &[_, first, second, third] = message.words() else { return Err(Refusal::Malformed) };
    if message.capability.is_some() {
        return Err(Refusal::Malformed);
    }
    let sum = instance.add(first, second, third);
    message.reset(DONE);
    let has_room = message.push(u64::from(sum.is_some())) && message.push(sum.unwrap_or(0));
    if has_room { Ok(()) } else { Err(Refusal::Malformed) }
}

fn ping(method: u16, message: &mut Message) -> Result<(), Refusal> {
    if method != 0 {
        return Err(Refusal::NoMethod);
    }
    message.reset(DONE);
    if message.push(1) { Ok(()) } else { Err(Refusal::Malformed) }
}
