//! Sockets of datagrams: UDP, ping and raw sockets. What they do is in the floors below; here they meet the clock and the cards.
use super::inet::Inet;
use crate::transport::datagram_control::DatagramHandle;
use alloc::sync::Arc;
use core::net::SocketAddr;
use interfaces::sockets::{
    DatagramProtocol, DatagramQueue, DatagramSocket, IpOptions, KeptDatagram, Membership,
    SentDatagram, SocketError, SocketFamilies, SocketOwner,
};

/// A socket of datagrams, in the hands of a client.
struct InetDatagramSocket {
    inet: Arc<Inet>,
    socket: DatagramHandle,
}

/// Makes a datagram socket; see [`interfaces::sockets::Network::open_datagram`].
pub(crate) fn open(
    inet: &Arc<Inet>,
    queue: Arc<DatagramQueue>,
    protocol: DatagramProtocol,
    families: SocketFamilies,
    owner: SocketOwner,
) -> Result<Arc<dyn DatagramSocket>, SocketError> {
    let socket = inet.stack().datagram_open(queue, protocol, families, owner);
    Ok(Arc::new(InetDatagramSocket { inet: Arc::clone(inet), socket }))
}

impl Inet {
    /// Makes the socket of a queue of datagrams, whose stack is gone, again. The addresses and routes are set before. The predecessor was
    /// retired ([`Inet::retire`]), and its handle is not used any more.
    ///
    /// # Errors
    /// `NetworkDown` for a stack that nobody holds any more.
    pub fn restore_datagram(
        &self,
        queue: Arc<DatagramQueue>,
        kept: KeptDatagram,
    ) -> Result<Arc<dyn DatagramSocket>, SocketError> {
        let inet = self.itself()?;
        let socket = inet.run(|stack, run| stack.datagram_restore(run, queue, kept));
        Ok(Arc::new(InetDatagramSocket { inet, socket }))
    }
}

impl DatagramSocket for InetDatagramSocket {
    fn bind(&self, address: SocketAddr) -> Result<(), SocketError> {
        self.inet.run(|stack, run| stack.datagram_bind(run, &self.socket, address))
    }
    fn local(&self) -> SocketAddr {
        self.inet.stack().datagram_local(&self.socket)
    }
    fn peer(&self) -> Option<SocketAddr> {
        self.inet.stack().datagram_peer(&self.socket)
    }
    fn connect(&self, peer: Option<SocketAddr>) -> Result<(), SocketError> {
        self.inet.run(|stack, run| stack.datagram_connect(run, &self.socket, peer))
    }
    fn send(&self, datagram: SentDatagram) -> Result<(), SocketError> {
        self.inet.run(|stack, run| stack.datagram_send(run, &self.socket, datagram))
    }
    fn configure(&self, options: &IpOptions) {
        self.inet.stack().datagram_configure(&self.socket, options);
    }
    fn join(&self, membership: Membership) -> Result<(), SocketError> {
        self.inet.run(|stack, run| stack.datagram_join(run, &self.socket, membership))
    }
    fn leave(&self, membership: Membership) -> Result<(), SocketError> {
        self.inet.run(|stack, run| stack.datagram_leave(run, &self.socket, membership))
    }
    fn path_mtu(&self) -> Option<u32> {
        self.inet.run(|stack, run| stack.datagram_path_mtu(run, &self.socket))
    }
    fn close(&self) {
        if !self.inet.is_retired() {
            self.inet.run(|stack, run| stack.datagram_close(run, &self.socket));
        }
    }
}

impl Drop for InetDatagramSocket {
    fn drop(&mut self) {
        self.close();
    }
}
