//! Names of a datagram socket, and its end: bind, connect, shutdown, close.
use super::InternetDatagram;
use crate::socket::{
    interface::{Shut, SocketAddress},
    internet::{
        address::{self, AddressFamily, AddressUse, GivenAddress},
        network::errno,
        settings::Flags,
        stream::check_name,
    },
};
use core::{net::SocketAddr, sync::atomic::Ordering};
use interfaces::sockets::{DatagramProtocol, SocketError};
use vfs::{Credentials, Errno};

/// Returns the number for an error of a call that may have to choose a port: a range that is used up is `EAGAIN`.
pub(super) fn errno_of_use(error: SocketError) -> Errno {
    if error == SocketError::InUse { Errno::EAGAIN } else { errno(error) }
}

impl InternetDatagram {
    /// Binds the socket (bind(2)).
    ///
    /// # Errors
    /// Those of the address, `EACCES` for a port that needs a privilege, `EADDRNOTAVAIL`, `EINVAL` if it is bound, `EADDRINUSE`.
    pub(super) fn bind_to(&self, who: &Credentials, address: &SocketAddress) -> Result<(), Errno> {
        let given = address::parse(self.family, address, AddressUse::Bind)?.ok_or(Errno::EINVAL)?;
        let _control = self.control.lock();
        let mut given = given;
        match self.protocol {
            // The port of a raw socket's address means nothing.
            DatagramProtocol::Raw(_) => given.address.set_port(0),
            // That of a ping socket is an identifier, and needs no privilege.
            DatagramProtocol::Ping => {}
            _ => check_name(who, (self.family, self.flags().contains(Flags::ONLY_V6)), given)?,
        }
        self.socket().bind(given.address).map_err(errno)
    }
    /// Sets the peer (connect(2)), or removes it for an address of AF_UNSPEC.
    ///
    /// # Errors
    /// Those of the address and the route, `EACCES` for a broadcast address without SO_BROADCAST, `EAGAIN` if no port is free.
    pub(super) fn connect_to(&self, to: &SocketAddress) -> Result<(), Errno> {
        if to.family().ok_or(Errno::EINVAL)? == 0 {
            let _control = self.control.lock();
            return self.socket().connect(None).map_err(errno_of_use);
        }
        let given = address::parse(self.family, to, AddressUse::Associate)?;
        let given = given.ok_or(Errno::EAFNOSUPPORT)?;
        let _control = self.control.lock();
        let is_plain = to.family() == Some(AddressFamily::V4.number());
        let only_v6 = if is_plain { Errno::EAFNOSUPPORT } else { Errno::ENETUNREACH };
        let peer = self.destination(given, only_v6)?;
        self.socket().connect(Some(peer)).map_err(errno_of_use)
    }
    /// Returns the destination that a given address stands for. An IPv4 address on a socket that takes only IPv6 is the error
    /// `only_v6`.
    pub(super) fn destination(
        &self,
        given: GivenAddress,
        only_v6: Errno,
    ) -> Result<SocketAddr, Errno> {
        if given.is_mapped {
            let takes_v4 = self.protocol.has_ports();
            if !takes_v4 || self.flags().contains(Flags::ONLY_V6) {
                return Err(if takes_v4 { only_v6 } else { Errno::EINVAL });
            }
        }
        if given.address.ip().is_unspecified() {
            return Ok(address::or_loopback(given.address, || self.socket().local()));
        }
        Ok(given.address)
    }
    /// Ends directions (shutdown(2)).
    ///
    /// # Errors
    /// `ENOTCONN` without a peer; the directions are ended nevertheless, as on Linux.
    pub(super) fn end_directions(&self, directions: Shut) -> Result<(), Errno> {
        self.shut.fetch_or(directions.bits(), Ordering::AcqRel);
        self.wakes.wake_all();
        self.socket().peer().map(|_| ()).ok_or(Errno::ENOTCONN)
    }
    /// Ends the use of the socket; later calls do nothing.
    pub(super) fn close(&self) {
        if self.is_closed.swap(true, Ordering::AcqRel) {
            return;
        }
        self.socket().close();
        self.queue.clear();
        self.wakes.wake_all();
    }
}
