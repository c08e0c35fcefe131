//! [`Inet`] as programs get it: complete, with its sockets and its administration.
use super::{
    administration::{ConfigurationTeller, StackAdministration},
    datagrams,
    inet::{Inet, InetClock},
    streams::handle,
    taps::StackTaps,
    tunnels::StackTunnels,
};
use crate::tables::{configuration::Configuration, labels::LabelSource};
use alloc::sync::Arc;
use interfaces::sockets::{
    DatagramProtocol, DatagramQueue, DatagramSocket, LinkTaps, Network, NetworkAdministration,
    PacketLabels, SocketError, SocketFamilies, SocketOwner, Stream, StreamSocket, Tunnels,
};

impl Inet {
    /// Makes a stack with the loopback interface. `secret` are random bytes, which nobody else may know.
    pub fn new(secret: [u8; 32], clock: Arc<dyn InetClock>) -> Arc<Inet> {
        let inet = Inet::unobserved(secret, clock);
        let teller = ConfigurationTeller::new(Arc::downgrade(&inet));
        inet.stack().watch(Arc::new(teller));
        inet.stack().watch(inet.taps().clone());
        inet.stack().watch(inet.tunnel_table().clone());
        inet
    }
}

impl Network for Inet {
    fn open_stream(
        &self,
        stream: Arc<Stream>,
        families: SocketFamilies,
        owner: SocketOwner,
    ) -> Result<Arc<dyn StreamSocket>, SocketError> {
        Ok(handle::open(&self.itself()?, stream, families, owner))
    }
    fn open_datagram(
        &self,
        queue: Arc<DatagramQueue>,
        protocol: DatagramProtocol,
        families: SocketFamilies,
        owner: SocketOwner,
    ) -> Result<Arc<dyn DatagramSocket>, SocketError> {
        datagrams::open(&self.itself()?, queue, protocol, families, owner)
    }
    fn taps(&self) -> Arc<dyn LinkTaps> {
        Arc::new(StackTaps::new(self.weak()))
    }
    fn tunnels(&self) -> Option<Arc<dyn Tunnels>> {
        Some(Arc::new(StackTunnels::new(self.weak())))
    }
    fn set_labels(&self, labels: Arc<dyn PacketLabels>) -> Result<(), SocketError> {
        let set = |all: &mut Configuration| {
            all.set_labels(LabelSource::new(labels));
            Ok::<(), SocketError>(())
        };
        self.stack().configure(set)
    }
    fn administration(&self) -> Arc<dyn NetworkAdministration> {
        Arc::new(StackAdministration::new(self.weak()))
    }
}
