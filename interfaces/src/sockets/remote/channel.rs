//! Requests and answers of any length between a stack and its client: [`ControlChannel`] is the client's side, [`ControlHandler`]
//! the stack's.
//!
//! The first byte of a request is its [`subject`], by which [`Subjects`] finds the handler of the rest.
use crate::{
    call::{Again, Failure},
    marshal::{self, Marshal},
};
use alloc::{sync::Arc, vec::Vec};

/// The subjects of requests.
pub mod subject {
    /// [`NetworkAdministration`](crate::sockets::NetworkAdministration).
    pub const ADMINISTRATION: u8 = 0;
    /// [`LinkTaps`](crate::sockets::LinkTaps).
    pub const TAPS: u8 = 1;
    /// Streams and datagrams.
    pub const SOCKETS: u8 = 2;
}

/// The client's side: a way to the handler of a server.
pub trait ControlChannel: Send + Sync {
    /// Sends a request and replaces `answer` by its answer. Blocks until then, also while a server that died has no successor yet.
    /// If a server may have died over the request, its successor is asked if `again` allows it.
    ///
    /// # Errors
    /// [`Failure`]. `Lost(Restarted)`: the server died, and whether it carried the request out is not known.
    fn exchange(&self, request: &[u8], again: Again, answer: &mut Vec<u8>) -> Result<(), Failure>;
    /// Reports that the server breaks the protocol and should be ended.
    fn report_corrupt(&self);
}

/// The server's side.
pub trait ControlHandler: Send + Sync {
    /// Carries out a request and appends the answer to `answer`, which is empty. A malformed request has an empty answer.
    fn handle(&self, request: &[u8], answer: &mut Vec<u8>);
}

/// A function that sends bytes to the client, in the order in which it is called. It must not block; bytes for which there is no room
/// are lost.
pub type Post = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// Sends a request about `subject` and returns its answer.
///
/// # Errors
/// [`Failure`]; a malformed answer was reported.
pub fn ask<T: Marshal>(
    channel: &dyn ControlChannel,
    subject: u8,
    request: &impl Marshal,
    again: Again,
) -> Result<T, Failure> {
    let (mut bytes, mut answer) = (Vec::new(), Vec::new());
    bytes.push(subject);
    request.put(&mut bytes);
    channel.exchange(&bytes, again, &mut answer)?;
    marshal::decode(&answer).ok_or_else(|| {
        channel.report_corrupt();
        Failure::Malformed
    })
}

/// Handlers, each of the subject whose number is its place.
pub struct Subjects(pub Vec<Arc<dyn ControlHandler>>);

impl ControlHandler for Subjects {
    fn handle(&self, request: &[u8], answer: &mut Vec<u8>) {
        if let Some((subject, request)) = request.split_first()
            && let Some(handler) = self.0.get(usize::from(*subject))
        {
            handler.handle(request, answer);
        }
    }
}

/// A channel to a handler of the same world, without messages.
pub struct DirectChannel(pub Arc<dyn ControlHandler>);

impl ControlChannel for DirectChannel {
    fn exchange(&self, request: &[u8], _: Again, answer: &mut Vec<u8>) -> Result<(), Failure> {
        answer.clear();
        self.0.handle(request, answer);
        Ok(())
    }
    fn report_corrupt(&self) {
        log::error!("a handler of this world gave an answer that is none");
    }
}
