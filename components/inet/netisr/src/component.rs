//! [`StackComponent`]: the stack as a component whose client may be in another world.
use crate::{attach, spawn, switch_loopback_off};
use alloc::{sync::Arc, vec::Vec};
use inet::{Inet, KeptArea, RealTime};
use interfaces::{
    nic::Nic,
    sockets::{
        Acceptor, DatagramProtocol, DatagramQueue, DatagramSocket, KeptDatagram, KeptStream,
        LinkTaps, Network, NetworkAdministration, ResumableNetwork, SocketError, SocketFamilies,
        SocketOwner, Stream, StreamSocket,
    },
};
use rt::{NoMemory, device::DmaBuffer};

/// The stack, with its threads.
pub struct StackComponent {
    inet: Arc<Inet>,
}

impl StackComponent {
    /// Makes the stack that `area` describes, or a new one, without cards.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn start(area: Option<Arc<dyn KeptArea>>) -> Result<StackComponent, NoMemory> {
        let mut secret = [0; 32];
        rt::entropy::fill(&mut secret);
        let clock = Arc::new(RealTime);
        let (inet, has_predecessor) = match area {
            Some(area) => Inet::resume(secret, clock, area),
            None => (Inet::new(secret, clock), false),
        };
        if !has_predecessor {
            switch_loopback_off(&inet);
        }
        let timers = Arc::clone(&inet);
        spawn("inet/timers", move || {
            loop {
                timers.wait_for_timers();
            }
        })?;
        Ok(StackComponent { inet })
    }
    /// Returns the stack.
    pub fn inet(&self) -> &Arc<Inet> {
        &self.inet
    }
}

impl Network for StackComponent {
    fn open_stream(
        &self,
        stream: Arc<Stream>,
        families: SocketFamilies,
        owner: SocketOwner,
    ) -> Result<Arc<dyn StreamSocket>, SocketError> {
        self.inet.open_stream(stream, families, owner)
    }
    fn open_datagram(
        &self,
        queue: Arc<DatagramQueue>,
        protocol: DatagramProtocol,
        families: SocketFamilies,
        owner: SocketOwner,
    ) -> Result<Arc<dyn DatagramSocket>, SocketError> {
        self.inet.open_datagram(queue, protocol, families, owner)
    }
    fn taps(&self) -> Arc<dyn LinkTaps> {
        self.inet.taps()
    }
    fn administration(&self) -> Arc<dyn NetworkAdministration> {
        self.inet.administration()
    }
}

impl ResumableNetwork for StackComponent {
    fn attach(&self, cards: Vec<Arc<dyn Nic>>) {
        if let Err(NoMemory) = attach(&self.inet, cards) {
            log::error!("inet: no memory for the cards");
        }
    }
    fn restore_stream(
        &self,
        stream: Arc<Stream>,
        kept: KeptStream,
        acceptor: Option<Arc<dyn Acceptor>>,
    ) -> Result<Arc<dyn StreamSocket>, SocketError> {
        self.inet.restore_stream(stream, kept, acceptor)
    }
    fn restore_datagram(
        &self,
        queue: Arc<DatagramQueue>,
        kept: KeptDatagram,
    ) -> Result<Arc<dyn DatagramSocket>, SocketError> {
        self.inet.restore_datagram(queue, kept)
    }
    fn go_on(&self) {
        self.inet.go_on();
    }
}

/// The memory of the component that outlives it.
pub struct KeptMemory(pub DmaBuffer);

impl KeptArea for KeptMemory {
    fn length(&self) -> usize {
        self.0.bytes()
    }
    fn write(&self, at: usize, bytes: &[u8]) {
        let room = self.0.bytes().saturating_sub(at).min(bytes.len());
        self.0.write(at, bytes.get(..room).unwrap_or_default());
    }
    fn read(&self, at: usize, out: &mut [u8]) {
        out.fill(0);
        let room = self.0.bytes().saturating_sub(at).min(out.len());
        self.0.read(at, out.get_mut(..room).unwrap_or_default());
    }
    fn refused(&self, bytes: usize) {
        log::warn!(
            "inet: {bytes} bytes of its state do not fit kept_kib: a successor would get an old one"
        );
    }
}
