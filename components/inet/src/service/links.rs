//! The interfaces' cards, as the service sees them: a place where packets go, and packets that come.
use crate::{
    base::{
        buffer::BufferChain,
        packets::{Departure, TransportChecksum, TransportOffload},
    },
    tables::interface::{InterfaceIndex, LinkOffloads},
};
use alloc::{sync::Arc, vec::Vec};
use interfaces::{
    nic::{
        MacAddress, NicStatistics, PacketSegment, PartialChecksum, Segmentation, SegmentationKind,
    },
    sockets::{AdministrationError, LinkCounts, TunnelRecord},
};
use packet::tcp::{self, TcpFlags};
use rt::{lock_class, sync::RwLock};

lock_class! {
    static LINKS = "inet.links";
}

/// Returns the work that is left to the device that gets a packet of these headers, of which the link has the first `link_length`
/// bytes. `None` if the headers do not have what the work is about.
pub fn device_work(
    headers: &[u8],
    link_length: usize,
    offload: TransportOffload,
) -> Option<(PartialChecksum, Option<Segmentation>)> {
    let start = headers.len().checked_sub(offload.header_length.into())?;
    let transport = headers.get(start..)?;
    // UDP has its checksum elsewhere.
    let is_tcp = usize::from(offload.checksum_offset) == tcp::CHECKSUM_OFFSET;
    let is_version6 = headers.get(link_length)? >> 4 == 6;
    let kind = match (is_tcp, is_version6) {
        (true, false) => SegmentationKind::Tcp4,
        (true, true) => SegmentationKind::Tcp6,
        (false, _) => SegmentationKind::Udp,
    };
    let flags =
        transport.get(tcp::FLAGS_OFFSET).map(|flags| TcpFlags::from_bits_truncate((*flags).into()));
    let has_ecn = is_tcp && flags.is_some_and(|flags| flags.contains(TcpFlags::CWR));
    let header_length = u16::try_from(headers.len()).ok()?;
    let segmentation =
        offload.segment.map(|size| Segmentation { kind, size, header_length, has_ecn });
    let offset = offload.checksum_offset.into();
    Some((PartialChecksum { start: u16::try_from(start).ok()?, offset }, segmentation))
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
    /// Returns whether a user may give the link a carrier, or take it.
    ///
    /// # Errors
    /// `Unsupported` if the device has its own, `NotPermitted` if nobody is at the other end.
    fn check_carrier(&self, has_carrier: bool) -> Result<(), AdministrationError> {
        let _ = has_carrier;
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
    /// Origin of the address that it has (`NET_ADDR_*`).
    pub mac_origin: u8,
    /// Properties and counts of an interface whose other end is a program.
    pub tunnel: Option<(TunnelRecord, LinkCounts)>,
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
    /// Payload bytes of each segment of TCP but the last that it was merged from; `None` if it came as it is.
    pub segment: Option<u16>,
    /// Acknowledgements without data before it that it stands for as well.
    pub acks: u16,
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
