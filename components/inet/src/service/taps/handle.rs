//! [`StackTaps`]: the maker of taps, and the client's side of one.
use crate::{
    base::{
        buffer::BufferChain,
        packets::{Arrival, Departure, HEADERS_MAX, PacketParts, TransportChecksum},
    },
    ip::stack::{Cast, PacketOrigin},
    service::inet::Inet,
    tables::{
        configuration::ChangeError,
        interface::{Interface, InterfaceIndex},
    },
};
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use interfaces::{
    nic::{MacAddress, PacketSegment},
    sockets::{
        FrameChecksum, FrameTap, LinkLabel, LinkMembership, LinkTap, LinkTaps, SentFrame,
        SocketError, TapBinding,
    },
};
use labels::SecrecyId;
use packet::ethernet::{self, EthernetHeader, ethertype};
use rt::{PAGE_BYTES, lock_class, sync::Mutex};
use zerocopy::IntoBytes;

lock_class! {
    static MEMBERSHIPS = "inet.tap.memberships";
}

/// Memberships of a tap, at most.
const MEMBERSHIPS_MAX: usize = 256;
/// Bytes that the tag of a VLAN adds to a frame.
const TAG: usize = 4;

/// The maker of taps of a stack.
pub(crate) struct StackTaps {
    inet: Weak<Inet>,
}

impl StackTaps {
    pub(crate) fn new(inet: Weak<Inet>) -> StackTaps {
        StackTaps { inet }
    }
}

impl LinkTaps for StackTaps {
    fn open(&self, tap: Arc<dyn FrameTap>, label: SecrecyId) -> Arc<dyn LinkTap> {
        let number = self.inet.upgrade().map_or(0, |inet| inet.taps().number());
        let memberships = Mutex::new(&MEMBERSHIPS, Vec::new());
        let inet = Weak::clone(&self.inet);
        Arc::new(StackTap { inet, number, label, client: tap, memberships })
    }
}

/// A tap, in the hands of its client.
struct StackTap {
    inet: Weak<Inet>,
    number: u64,
    label: SecrecyId,
    client: Arc<dyn FrameTap>,
    memberships: Mutex<Vec<(u32, LinkMembership)>>,
}

impl StackTap {
    fn inet(&self) -> Result<Arc<Inet>, SocketError> {
        self.inet.upgrade().ok_or(SocketError::NetworkDown)
    }
}

/// Returns the interface of a number.
fn interface_of(inet: &Inet, number: u32) -> Result<Interface, SocketError> {
    let view = inet.stack().view();
    let found = view.configuration.interface(InterfaceIndex(number)).cloned();
    found.ok_or(SocketError::NoInterface)
}

/// Returns the bytes in allocations that can be parts of packets.
fn chain_of(bytes: &[u8]) -> Result<BufferChain<PacketSegment>, SocketError> {
    let mut chain = BufferChain::default();
    for part in bytes.chunks(PAGE_BYTES) {
        chain.append(BufferChain::copy_of(part).ok_or(SocketError::NoMemory)?);
    }
    Ok(chain)
}

/// Changes what an interface receives for taps.
fn count(inet: &Inet, index: u32, membership: LinkMembership, change: fn(u32) -> u32) {
    // An interface that is gone receives nothing.
    let _ = inet.stack().configure(|all| {
        all.edit_interface(InterfaceIndex(index), |one| {
            let count = match membership {
                LinkMembership::Promiscuous => &mut one.wanted.all,
                LinkMembership::AllGroups => &mut one.wanted.groups,
                LinkMembership::Address(address) => {
                    let count = one.wanted.addresses.entry(address).or_insert(0);
                    *count = change(*count);
                    one.wanted.addresses.retain(|_, count| *count > 0);
                    return;
                }
            };
            *count = change(*count);
        })?;
        Ok::<(), ChangeError>(())
    });
}

impl LinkTap for StackTap {
    fn bind(&self, binding: TapBinding) -> Result<(), SocketError> {
        let inet = self.inet()?;
        let bound = binding.interface.map(|index| interface_of(&inet, index)).transpose()?;
        inet.taps().bind((self.number, self.label), binding, &self.client);
        if bound.is_some_and(|interface| !interface.is_up()) && binding.protocol.is_some() {
            self.client.failed(SocketError::NetworkDown);
        }
        Ok(())
    }
    fn send(&self, frame: SentFrame) -> Result<(), SocketError> {
        let inet = self.inet()?;
        let interface = interface_of(&inet, frame.interface)?;
        if !interface.is_up() {
            return Err(SocketError::NetworkDown);
        }
        let bytes = with_header(&interface, frame)?;
        let header = bytes.get(..interface.header_length()).ok_or(SocketError::Invalid)?;
        let is_tagged = header.get(12..14) == Some(&ethertype::VLAN.to_be_bytes()[..]);
        let room = interface.mtu as usize + interface.header_length();
        if bytes.len() > room + if is_tagged { TAG } else { 0 } {
            return Err(SocketError::MessageSize);
        }
        if interface.is_loopback() {
            self.loop_back(&inet, &bytes)
        } else if interface.label != LinkLabel::Single(self.label) {
            // A frame tells no secrecy but that of its link.
            Err(SocketError::Forbidden)
        } else {
            self.send_by_card(&inet, interface.index, &bytes)
        }
    }
    fn join(&self, interface: u32, membership: LinkMembership) -> Result<(), SocketError> {
        let inet = self.inet()?;
        interface_of(&inet, interface)?;
        {
            let mut memberships = self.memberships.lock();
            if memberships.len() >= MEMBERSHIPS_MAX {
                return Err(SocketError::NoMemory);
            }
            memberships.push((interface, membership));
        }
        count(&inet, interface, membership, |count| count.saturating_add(1));
        Ok(())
    }
    fn leave(&self, interface: u32, membership: LinkMembership) {
        let removed = {
            let mut memberships = self.memberships.lock();
            let place = memberships.iter().position(|one| *one == (interface, membership));
            place.map(|place| memberships.swap_remove(place))
        };
        if removed.is_some()
            && let Ok(inet) = self.inet()
        {
            count(&inet, interface, membership, |count| count.saturating_sub(1));
        }
    }
    fn close(&self) {
        let Ok(inet) = self.inet() else { return };
        inet.taps().remove(self.number);
        let memberships = core::mem::take(&mut *self.memberships.lock());
        for (interface, membership) in memberships {
            count(&inet, interface, membership, |count| count.saturating_sub(1));
        }
    }
}

impl StackTap {
    fn send_by_card(
        &self,
        inet: &Inet,
        index: InterfaceIndex,
        bytes: &[u8],
    ) -> Result<(), SocketError> {
        let (head, rest) = bytes.split_at(bytes.len().min(HEADERS_MAX));
        let packet = Departure::new(head, chain_of(rest)?).ok_or(SocketError::NoMemory)?;
        if inet.taps().are_watching() {
            inet.taps().sent(index, &packet, Some(self.number));
        }
        inet.pass(|passage| passage.outside.departures.push((index, packet)));
        Ok(())
    }
    /// Sends over loopback: the frame comes back.
    fn loop_back(&self, inet: &Inet, bytes: &[u8]) -> Result<(), SocketError> {
        let (head, rest) = bytes.split_at(bytes.len().min(HEADERS_MAX));
        let payload = chain_of(rest)?;
        if inet.taps().are_watching() {
            let parts = PacketParts { headers: [head, &[]], payload: &payload };
            let sender = (Some(self.number), self.label);
            inet.taps().passed((head, &parts), FrameChecksum::Partial, sender);
        }
        let kind = bytes.get(12..14).and_then(|kind| kind.first_chunk());
        let kind = kind.map_or(0, |kind| u16::from_be_bytes(*kind));
        if matches!(kind, ethertype::IPV4 | ethertype::IPV6) {
            inet.run(|stack, run| {
                // The stack did not make the packet, so its addresses are checked as those of one from outside.
                let origin = PacketOrigin {
                    interface: InterfaceIndex::LOOPBACK,
                    cast: Cast::Unicast,
                    is_looped: false,
                    label: self.label,
                };
                if let Some(arrival) = Arrival::new(head, &payload, head.len()) {
                    // Loopback verifies no checksums, as on Linux.
                    let arrival = arrival.with_checksum(TransportChecksum::Verified);
                    let packet = arrival.part(ethernet::HEADER_LENGTH..usize::MAX);
                    stack.input_packet(run, origin, &packet);
                }
            });
        }
        Ok(())
    }
}

impl Drop for StackTap {
    fn drop(&mut self) {
        self.close();
    }
}

/// Returns the bytes of a frame with the header of the link.
fn with_header(interface: &Interface, frame: SentFrame) -> Result<Vec<u8>, SocketError> {
    let SentFrame { protocol, destination, bytes, .. } = frame;
    let Some(destination) = destination.filter(|_| !interface.is_headerless()) else {
        return Ok(bytes);
    };
    let destination: MacAddress = destination;
    let header = EthernetHeader::new(destination, interface.mac, protocol);
    let mut whole = Vec::new();
    let room = ethernet::HEADER_LENGTH.saturating_add(bytes.len());
    whole.try_reserve(room).map_err(|_| SocketError::NoMemory)?;
    whole.extend_from_slice(header.as_bytes());
    whole.extend_from_slice(&bytes);
    Ok(whole)
}
