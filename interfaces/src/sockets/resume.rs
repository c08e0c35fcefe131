//! [`ResumableNetwork`]: a network stack that can have a successor, which gets the sockets of its predecessor from their client.
use super::{
    Acceptor, DatagramProtocol, DatagramQueue, DatagramSocket, IpOptions, Membership, Network,
    SocketError, SocketFamilies, SocketOwner, Stream, StreamOptions, StreamSocket,
};
use crate::{marshal::Marshal, nic::Nic};
use alloc::{sync::Arc, vec::Vec};
use core::net::SocketAddr;
use interfaces_macro::interface;

/// A stream socket, as its client knows it.
#[derive(Clone, Debug, PartialEq, Marshal)]
pub struct KeptStream {
    /// The families of packets that it takes.
    pub families: SocketFamilies,
    /// The owner.
    pub owner: SocketOwner,
    /// The options.
    pub options: StreamOptions,
    /// Address and port of this side. Unspecified and zero before they are chosen.
    pub local: SocketAddr,
    /// The peer, if it is or was being connected.
    pub peer: Option<SocketAddr>,
    /// The program bound the address itself.
    pub has_own_address: bool,
    /// The origin of the port.
    pub port: KeptPort,
    /// The listener, if it is one.
    pub listening: Option<KeptListening>,
    /// The program has shut its direction down.
    pub is_shut_down: bool,
}

/// The origin of a socket's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub enum KeptPort {
    /// The program named it in bind(2).
    Named,
    /// bind(2) or listen(2) chose it.
    Bound,
    /// connect(2) chose it.
    Chosen,
    /// It is that of the listener that made the socket.
    Inherited,
}

/// A listener, as its client knows it.
#[derive(Clone, Debug, PartialEq, Marshal)]
pub struct KeptListening {
    /// The backlog.
    pub backlog: u32,
    /// The ends, local and peer, of its connections that wait for accept, in order.
    pub waiting: Vec<(SocketAddr, SocketAddr)>,
}

/// A socket of datagrams, as its client knows it. The client asks for the names after each call that may choose one: bind, connect,
/// and the first datagram that is sent.
#[derive(Clone, Debug, PartialEq, Marshal)]
pub struct KeptDatagram {
    /// The protocol.
    pub protocol: DatagramProtocol,
    /// The families that it was made for.
    pub families: SocketFamilies,
    /// The owner.
    pub owner: SocketOwner,
    /// The options.
    pub options: IpOptions,
    /// The local address and port.
    pub local: SocketAddr,
    /// The peer, if it is connected.
    pub peer: Option<SocketAddr>,
    /// The program bound the address itself.
    pub has_own_address: bool,
    /// The program bound the port itself.
    pub has_own_port: bool,
    /// The groups that it takes part in.
    pub memberships: Vec<Membership>,
}

/// A network stack whose client is in another world.
///
/// A successor is given its cards, then the sockets of its predecessor, and goes on: until then it takes no frames, because it would
/// refuse those of sockets that are not there yet.
#[interface(direct)]
pub trait ResumableNetwork: Network {
    /// Gives the stack its cards, once. A client calls it before all others.
    fn attach(&self, cards: Vec<Arc<dyn Nic>>);
    /// Makes the socket of a stream, which has the words of the stack that is gone, again. A listener has an `acceptor`.
    ///
    /// # Errors
    /// `Reset` if the state that was kept contradicts itself, or another socket has the connection's ends; the stream has ended
    /// then. `Invalid` for a listener without a port or an acceptor.
    fn restore_stream(
        &self,
        stream: Arc<Stream>,
        kept: KeptStream,
        acceptor: Option<Arc<dyn Acceptor>>,
    ) -> Result<Arc<dyn StreamSocket>, SocketError>;
    /// Makes the socket of a queue of datagrams again.
    ///
    /// # Errors
    /// `NetworkDown` for a stack that nobody holds any more.
    fn restore_datagram(
        &self,
        queue: Arc<DatagramQueue>,
        kept: KeptDatagram,
    ) -> Result<Arc<dyn DatagramSocket>, SocketError>;
    /// Begins the work of a successor, whose sockets were made again.
    fn go_on(&self);
}
