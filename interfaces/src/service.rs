//! The server's side of messages: the loop of a component that serves instances ([`run`]), and the
//! messages that every component answers ([`Service`]).
use crate::{
    call::Refusal,
    wire::{Name, Wire},
};
use interfaces_macro::interface;
use rt::message::{Endpoint, Error, Message};

/// An instance that a component serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct Description {
    /// The number of its interface.
    pub interface: u16,
    /// The component's name for it.
    pub name: Name,
}

/// The calls that every component answers, whatever the instance.
#[interface(number = 0)]
pub trait Service {
    /// It is there and takes messages.
    #[idempotent]
    fn ping(&self) -> Option<()>;
    /// Instance number `index`; none behind the last.
    #[idempotent]
    fn describe(&self, index: u64) -> Option<Description>;
}

/// An instance that answers messages.
pub trait Serve {
    /// The description of the service.
    fn description(&self) -> Description;
    /// Carries out `message` and writes the answer in its place.
    ///
    /// # Errors
    /// [`Refusal`]: nothing was done.
    fn serve(&self, message: &mut Message) -> Result<(), Refusal>;
}

impl<S: Serve + ?Sized> Serve for alloc::boxed::Box<S> {
    fn description(&self) -> Description {
        (**self).description()
    }
    fn serve(&self, message: &mut Message) -> Result<(), Refusal> {
        (**self).serve(message)
    }
}

/// The instances of a component, which answers [`Service`] with them.
struct Directory<'i, S>(&'i [S]);

impl<S: Serve> Service for Directory<'_, S> {
    fn ping(&self) -> Option<()> {
        // The supervisor looks at the component's memory after each answer.
        if rt::memory::is_full() {
            rt::memory::shrink();
        }
        Some(())
    }
    fn describe(&self, index: u64) -> Option<Description> {
        self.0.get(usize::try_from(index).ok()?).map(Serve::description)
    }
}

/// Serves `instances` at `endpoint`, one message after the other, until bits are signalled there. Returns
/// these bits. A malformed message is answered with its [`Refusal`].
///
/// # Errors
/// [`Error`]: no more messages will come.
pub fn run<S: Serve>(endpoint: &Endpoint, instances: &[S]) -> Result<u64, Error> {
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
        respond(instances, &mut message);
        received = endpoint.reply_and_receive(&mut message, None);
    }
}

/// Replaces a message by its answer.
#[inline]
pub fn respond<S: Serve>(instances: &[S], message: &mut Message) {
    if let Err(refusal) = dispatch(instances, message) {
        message.reset(refusal as u64);
    }
}

#[inline]
fn dispatch<S: Serve>(instances: &[S], message: &mut Message) -> Result<(), Refusal> {
    let instance = *message.words().first().ok_or(Refusal::Malformed)?;
    if message.label() >> 16 == u64::from(ServiceClient::INTERFACE) {
        return ServiceServer::dispatch(&Directory(instances), message);
    }
    let instance = usize::try_from(instance).ok().and_then(|index| instances.get(index));
    instance.ok_or(Refusal::NoInstance)?.serve(message)
}
