//! Data that goes with the connect: MSG_FASTOPEN, and TCP_FASTOPEN_CONNECT (tcp(7); RFC 7413).
use super::{InternetStream, StreamPhase};
use crate::socket::{
    interface::{Patience, Send, SocketAddress},
    internet::{
        address::{self, AddressUse},
        network::system_value,
    },
};
use alloc::{boxed::Box, vec, vec::Vec};
use core::sync::atomic::Ordering;
use interfaces::sockets::NetworkParameter;
use vfs::{Errno, io::Source};

/// Bytes that are written before the SYN leaves, at most. It carries as many of them as one segment has room for.
const FIRST_BYTES: usize = 16 << 10;
/// The bit of `net.ipv4.tcp_fastopen` that lets programs do so.
const CLIENT: i32 = 1;

/// Returns whether data may go with a connect at all (`net.ipv4.tcp_fastopen`).
fn is_allowed() -> bool {
    system_value(NetworkParameter::TcpFastopen, CLIENT) & CLIENT != 0
}

impl InternetStream {
    /// Connects to an address with the first bytes of `source`, and waits for the end of the attempt if the call may. Returns the
    /// number of bytes that were taken: none without a cookie of the peer.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the system does not allow it, `EINVAL` without an address, `EISCONN`, `EALREADY`, `EINPROGRESS` if nothing
    /// was taken and the call does not wait, and those of connect(2).
    pub(super) fn send_opening(
        &self,
        source: &mut dyn Source,
        to: Option<&SocketAddress>,
        how: Send,
    ) -> Result<usize, Errno> {
        if !is_allowed() || to.is_some_and(SocketAddress::is_unspecified) {
            return Err(Errno::EOPNOTSUPP);
        }
        let to = to.ok_or(Errno::EINVAL)?;
        let first = self.first_bytes(source, to)?;
        {
            let _control = self.control.lock();
            match self.phase() {
                StreamPhase::Connected | StreamPhase::Listening => return Err(Errno::EISCONN),
                StreamPhase::Connecting => return Err(Errno::EALREADY),
                StreamPhase::Free | StreamPhase::Deferred => {}
            }
            self.start(to, Some(&first))?;
        }
        let patience = if how.is_nonblocking { Patience::None } else { Patience::Wait };
        match patience {
            Patience::None if first.is_empty() => Err(Errno::EINPROGRESS),
            Patience::None => Ok(first.len()),
            Patience::Wait => {
                self.await_attempt(patience, Errno::EINPROGRESS)?;
                Ok(first.len())
            }
        }
    }
    /// Copies the bytes that may go with a SYN to an address, before locks are taken.
    fn first_bytes(&self, source: &mut dyn Source, to: &SocketAddress) -> Result<Vec<u8>, Errno> {
        let length = source.remaining().min(FIRST_BYTES);
        if length == 0 || !self.has_cookie(to) {
            return Ok(Vec::new());
        }
        let mut bytes = vec![0; length];
        source.take_whole(&mut bytes)?;
        Ok(bytes)
    }
    /// Returns whether the stack has a cookie of the peer with this address.
    fn has_cookie(&self, to: &SocketAddress) -> bool {
        match address::parse(self.family, to, AddressUse::Connect) {
            Ok(Some(given)) => {
                let peer = address::or_loopback(given.address, || self.socket().local());
                self.socket().has_fast_open_cookie(peer.ip())
            }
            _ => false,
        }
    }
    /// Puts a connect off until the first bytes are written, if TCP_FASTOPEN_CONNECT is set and the peer gave a cookie. Returns
    /// whether it did. The caller holds `control`.
    pub(super) fn defer(&self, to: &SocketAddress) -> bool {
        if !self.settings.lock().defers_connect || !is_allowed() || !self.has_cookie(to) {
            return false;
        }
        *self.deferred.lock() = Some(Box::new(*to));
        self.set_phase(StreamPhase::Deferred);
        true
    }
    /// Does the connect that was put off, with the first bytes of `source`. Returns the number of bytes taken.
    ///
    /// # Errors
    /// As [`InternetStream::send_opening`]; `EALREADY` if another call does it.
    #[cold]
    pub(super) fn send_deferred(&self, source: &mut dyn Source, how: Send) -> Result<usize, Errno> {
        let to = self.deferred.lock().take().ok_or(Errno::EALREADY)?;
        let result = self.send_opening(source, Some(&to), how);
        if self.phase() == StreamPhase::Deferred {
            // Nothing was begun.
            self.phase.store(StreamPhase::Free as u8, Ordering::Release);
        }
        result
    }
}
