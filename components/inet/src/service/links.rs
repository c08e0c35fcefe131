//! The interfaces' cards, as the service sees them: a place where packets go, and packets that come.
use crate::{
    base::{
        buffer::BufferChain,
        packets::{Departure, TransportChecksum},
    },
    tables::interface::{InterfaceIndex, LinkOffloads},
};
use alloc::{sync::Arc, vec::Vec};
use interfaces::{
    nic::{MacAddress, NicStatistics, PacketSegment},
    sockets::AdministrationError,
};
use rt::{lock_class, sync::RwLock};

lock_class! {
    static LINKS = "inet.links";
}

/// The sending side of a card.
pub trait PacketLink: Send + Sync {
    /// Takes all packets of `batch`, in order, from their Ethernet headers on. It never blocks: packets for which there is no room
    /// are dropped or wait. No lock of a connection is held.
    fn transmit(&self, batch: &mut Vec<Departure<PacketSegment>>);
    /// Returns the offloads. A packet has an offload ([`Departure::offload`]) only if the link takes it.
    fn offloads(&self) -> LinkOffloads {
        LinkOffloads::empty()
    }
    /// Returns what users see of the device.
    fn details(&self) -> LinkDetails {
        LinkDetails::default()
    }
    /// Changes the device's address.
    ///
    /// # Errors
    /// `Unsupported` if it keeps its own, `Device` if it does not answer.
    fn set_mac(&self, mac: MacAddress) -> Result<(), AdministrationError> {
        let _ = mac;
        Err(AdministrationError::Unsupported)
    }
}

/// The properties of a device that do not concern the stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkDetails {
    /// Name of the driver; empty for none.
    pub driver: &'static str,
    /// Megabits a second, if the device says so.
    pub speed_mbit: Option<u32>,
    /// Queue pairs in use; zero counts as one.
    pub pairs: u32,
    /// The greatest MTU; zero for that of Ethernet.
    pub mtu_max: u32,
    /// The address that the device was made with.
    pub permanent_mac: Option<MacAddress>,
    /// Its counts.
    pub statistics: NicStatistics,
}

/// A frame that came, from its Ethernet header on.
#[derive(Debug)]
pub struct ReceivedFrame {
    /// The bytes.
    pub payload: BufferChain<PacketSegment>,
    /// The state of the transport's checksum.
    pub checksum: TransportChecksum,
}

/// The cards, by number of their interface.
pub(crate) struct CardLinks {
    table: RwLock<Vec<(InterfaceIndex, Arc<dyn PacketLink>)>>,
}

impl CardLinks {
    pub(crate) fn new() -> CardLinks {
        CardLinks { table: RwLock::new(&LINKS, Vec::new()) }
    }
    /// Sets the card of an interface; `None` takes it away.
    pub(crate) fn set(&self, interface: InterfaceIndex, link: Option<Arc<dyn PacketLink>>) {
        let mut table = self.table.write();
        table.retain(|(index, _)| *index != interface);
        table.extend(link.map(|link| (interface, link)));
    }
    /// Returns the card of an interface.
    pub(crate) fn get(&self, interface: InterfaceIndex) -> Option<Arc<dyn PacketLink>> {
        let table = self.table.read();
        table.iter().find(|(index, _)| *index == interface).map(|(_, link)| Arc::clone(link))
    }
    /// Gives packets to their cards, one batch a card. Packets of an interface without a card are dropped.
    pub(crate) fn transmit(
        &self,
        departures: &mut Vec<(InterfaceIndex, Departure<PacketSegment>)>,
        batch: &mut Vec<Departure<PacketSegment>>,
    ) {
        let mut rest = departures.drain(..).peekable();
        while let Some((interface, first)) = rest.next() {
            batch.push(first);
            while let Some((_, next)) = rest.next_if(|(index, _)| *index == interface) {
                batch.push(next);
            }
            if let Some(link) = self.get(interface) {
                link.transmit(batch);
            }
            batch.clear();
        }
    }
}
