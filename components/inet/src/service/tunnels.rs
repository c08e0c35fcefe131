//! Tunnels: interfaces that come and go at run time, with a program at their other end ([`interfaces::sockets::Tunnel`]).
//!
//! [`TunnelLink`] is the card of such an interface. What the stack sends goes to the client in the call that sends it, and what the
//! program writes goes through the stack in the call that brings it, so a tunnel has no thread.
//!
//! Locks: `inet.tunnels` is held over no call.
use super::{
    administration::links::take_away,
    inet::Inet,
    links::{LinkDetails, PacketLink, ReceivedFrame, device_work},
};
use crate::{
    base::{
        buffer::BufferChain,
        packets::{Arrival, Departure, HEAD_MIN, TransportChecksum},
    },
    ip::statistics::DropReason,
    tables::{
        configuration::{ChangeError, Configuration, ConfigurationWatcher},
        interface::{Interface, InterfaceFlags, InterfaceIndex, LinkOffloads},
    },
};
use alloc::{
    format,
    string::String,
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use interfaces::{
    nic::{ChecksumState, HeaderBytes, MacAddress, Offloads, Packet, PacketSegment, Segmentation},
    sockets::{
        AdministrationError, NetworkNotice, SocketError, Tunnel, TunnelArrival, TunnelEnd,
        TunnelLayer, TunnelRequest, TunnelState, Tunnels,
    },
};
use packet::ethernet::{self, ethertype};
use rt::{lock_class, sync::RwLock};

lock_class! {
    static TUNNELS = "inet.tunnels";
}

/// Tunnels of a stack, at most.
const TUNNELS_MAX: usize = 1024;
/// Numbers that are tried for a `%d` in a name, as many as Linux tries.
const NAMES_MAX: u32 = 32_768;
/// Bytes of a name, at most.
const NAME_MAX: usize = 15;
/// MTU at first, and the greatest one of frames.
const MTU: u32 = 1500;
const MTU_MAX: u32 = u16::MAX as u32 - ethernet::HEADER_LENGTH as u32;
/// Packets that wait for the program, at most, if they are no frames.
const QUEUE: u32 = 500;
/// `NET_ADDR_RANDOM` and `NET_ADDR_SET`.
const RANDOM: u8 = 1;
const SET: u8 = 3;
/// Name of Linux's driver.
const DRIVER: &str = "tun";
/// Speed that Linux tells, in megabits a second.
const SPEED: u32 = 10_000;

/// The card of a tunnel.
pub(crate) struct TunnelLink {
    layer: TunnelLayer,
    end: Arc<dyn TunnelEnd>,
    is_up: AtomicBool,
    /// A user has set the address on the link.
    has_own_mac: AtomicBool,
    /// [`Offloads::SEND_ECN`] is among the work that the program does.
    knows_ecn: AtomicBool,
}

/// The tunnels of a stack.
pub(crate) struct TunnelTable {
    entries: RwLock<Vec<(InterfaceIndex, Arc<TunnelLink>)>>,
    /// The number of the next interface, which none had before.
    next: AtomicU32,
}

impl TunnelTable {
    pub(crate) fn new() -> TunnelTable {
        TunnelTable { entries: RwLock::new(&TUNNELS, Vec::new()), next: AtomicU32::new(0) }
    }
    /// Returns a number for a new interface, above those of all that there are.
    fn number(&self, all: &Configuration) -> InterfaceIndex {
        let greatest = all.interfaces().map(|one| one.index.0).max().unwrap_or(0);
        self.next.fetch_max(greatest.saturating_add(1), Ordering::Relaxed);
        InterfaceIndex(self.next.fetch_add(1, Ordering::Relaxed))
    }
    fn add(&self, index: InterfaceIndex, link: &Arc<TunnelLink>) -> Result<(), SocketError> {
        let mut entries = self.entries.write();
        if entries.len() >= TUNNELS_MAX {
            return Err(SocketError::NoMemory);
        }
        entries.push((index, Arc::clone(link)));
        Ok(())
    }
    fn take(&self, index: InterfaceIndex) -> Option<Arc<TunnelLink>> {
        let mut entries = self.entries.write();
        let place = entries.iter().position(|(one, _)| *one == index)?;
        Some(entries.swap_remove(place).1)
    }
}

/// Tells the ends of tunnels of the states of their interfaces.
impl ConfigurationWatcher for TunnelTable {
    fn configured(&self, old: &Configuration, new: &Configuration) {
        let entries = self.entries.read().clone();
        for (index, link) in entries {
            let Some(next) = new.interface(index) else { continue };
            let state = state_of(next);
            if old.interface(index).map(state_of) != Some(state) {
                link.is_up.store(state.is_up, Ordering::SeqCst);
                link.end.changed(state);
            }
        }
    }
}

fn state_of(interface: &Interface) -> TunnelState {
    TunnelState {
        is_up: interface.is_up(),
        has_carrier: interface.flags.contains(InterfaceFlags::RUNNING),
        transmit_queue: interface.transmit_queue,
    }
}

impl TunnelLink {
    fn header_length(&self) -> usize {
        match self.layer {
            TunnelLayer::Network => 0,
            TunnelLayer::Link => ethernet::HEADER_LENGTH,
        }
    }
    /// Returns a packet in the form of devices; `None` if its headers do not have what is left to be done.
    fn packet(&self, departure: Departure<PacketSegment>) -> Option<Packet> {
        let Departure { headers, payload, offload } = departure;
        let headers = headers.as_slice();
        let work = match offload {
            Some(offload) => Some(device_work(headers, self.header_length(), offload)?),
            None => None,
        };
        let knows_ecn = self.knows_ecn.load(Ordering::Relaxed);
        let segmentation = work.and_then(|(_, segmentation)| segmentation);
        Some(Packet {
            tag: 0,
            header: HeaderBytes::new(headers)?,
            segments: payload.into_pieces(),
            checksum: work.map(|(checksum, _)| checksum),
            segmentation: segmentation
                .map(|one| Segmentation { has_ecn: one.has_ecn && knows_ecn, ..one }),
            flow: 0,
        })
    }
}

impl PacketLink for TunnelLink {
    fn transmit(&self, batch: &mut Vec<Departure<PacketSegment>>) {
        let mut packets = batch.drain(..).filter_map(|one| self.packet(one)).collect();
        self.end.transmit(&mut packets);
    }
    fn details(&self) -> LinkDetails {
        let is_set = self.has_own_mac.load(Ordering::Relaxed);
        let (mtu_max, mac_origin) = match self.layer {
            TunnelLayer::Network => (0, 0),
            TunnelLayer::Link => (MTU_MAX, if is_set { SET } else { RANDOM }),
        };
        LinkDetails {
            driver: DRIVER,
            speed_mbit: Some(SPEED),
            pairs: 1,
            mtu_max,
            mac_origin,
            tunnel: Some((self.end.record(), self.end.counts())),
            ..LinkDetails::default()
        }
    }
    fn set_mac(&self, _: MacAddress) -> Result<(), AdministrationError> {
        match self.layer {
            TunnelLayer::Network => Err(AdministrationError::Unsupported),
            TunnelLayer::Link => {
                self.has_own_mac.store(true, Ordering::Relaxed);
                Ok(())
            }
        }
    }
    fn check_carrier(&self, has_carrier: bool) -> Result<(), AdministrationError> {
        match has_carrier && !self.end.can_have_carrier() {
            true => Err(AdministrationError::NotPermitted),
            false => Ok(()),
        }
    }
}

/// Removes the interface of a tunnel. Returns whether it was one.
pub(super) fn remove(inet: &Inet, index: InterfaceIndex) -> bool {
    let Some(link) = inet.tunnel_table().take(index) else { return false };
    take_away(inet, index);
    link.end.removed();
    true
}

/// Returns the name for a new interface.
fn name_for(all: &Configuration, wanted: &str) -> Result<String, AdministrationError> {
    let is_free = |name: &str| !all.interfaces().any(|one| one.name == name);
    let Some((front, rest)) = wanted.split_once('%') else {
        return match is_free(wanted) {
            true => Ok(wanted.into()),
            false => Err(AdministrationError::Exists),
        };
    };
    let rest = rest.strip_prefix('d').filter(|rest| !rest.contains('%'));
    let rest = rest.ok_or(AdministrationError::Invalid)?;
    let mut names = (0..NAMES_MAX).map(|number| format!("{front}{number}{rest}"));
    let found = names.find(|name| is_free(name)).filter(|name| name.len() <= NAME_MAX);
    found.ok_or(AdministrationError::NoMemory)
}

/// The maker of tunnels of a stack.
pub(super) struct StackTunnels {
    inet: Weak<Inet>,
}

impl StackTunnels {
    pub(super) fn new(inet: Weak<Inet>) -> StackTunnels {
        StackTunnels { inet }
    }
}

impl Tunnels for StackTunnels {
    fn open(
        &self,
        request: &TunnelRequest<'_>,
        end: Arc<dyn TunnelEnd>,
    ) -> Result<Arc<dyn Tunnel>, AdministrationError> {
        let inet = self.inet.upgrade().ok_or(AdministrationError::NetworkDown)?;
        let index = match request.number {
            Some(number) => InterfaceIndex(number),
            None => inet.tunnel_table().number(&inet.stack().view().configuration),
        };
        if inet.stack().view().configuration.interface(index).is_some() {
            return Err(AdministrationError::Busy);
        }
        let link = Arc::new(TunnelLink {
            layer: request.layer,
            end,
            is_up: AtomicBool::new(false),
            has_own_mac: AtomicBool::new(false),
            knows_ecn: AtomicBool::new(false),
        });
        inet.tunnel_table().add(index, &link).map_err(|_| AdministrationError::NoMemory)?;
        // The notice of the interface tells what its card says.
        inet.set_link(index, Some(link.clone()));
        let added = inet.stack().configure(|all| {
            let name = name_for(all, request.name)?;
            let mut interface = match request.layer {
                TunnelLayer::Network => {
                    Interface { transmit_queue: QUEUE, ..Interface::headerless(index, &name, MTU) }
                }
                TunnelLayer::Link => Interface::ethernet(index, &name, request.mac, MTU),
            };
            interface.flags.set(InterfaceFlags::RUNNING, request.has_carrier);
            interface.carrier_changes = u32::from(!request.has_carrier);
            all.add_interface(interface).map_err(AdministrationError::from)
        });
        if let Err(error) = added {
            inet.tunnel_table().take(index);
            inet.set_link(index, None);
            return Err(error);
        }
        Ok(Arc::new(StackTunnel { inet: Weak::clone(&self.inet), index, link }))
    }
}

/// A tunnel, in the hands of its client.
struct StackTunnel {
    inet: Weak<Inet>,
    index: InterfaceIndex,
    link: Arc<TunnelLink>,
}

impl StackTunnel {
    fn edit(&self, change: impl FnOnce(&mut Interface)) {
        if let Some(inet) = self.inet.upgrade() {
            // An interface that is gone has nothing to be changed.
            let _ = inet.stack().configure(|all| all.edit_interface(self.index, change));
        }
    }
}

/// Returns the EtherType that a packet of IP has; zero for another one.
pub(super) fn protocol_of(head: &[u8]) -> u16 {
    match head.first().map(|byte| byte >> 4) {
        Some(4) => ethertype::IPV4,
        Some(6) => ethertype::IPV6,
        _ => 0,
    }
}

/// Shows taps a packet that is none of IP, and drops it.
fn refuse(inet: &Inet, index: InterfaceIndex, protocol: u16, frame: &ReceivedFrame) {
    let mut head = [0; HEAD_MIN];
    let count = frame.payload.read(0, &mut head);
    let view = inet.stack().view();
    if inet.taps().are_watching()
        && let Some(interface) = view.configuration.interface(index)
        && let Some(arrival) =
            Arrival::new(head.get(..count).unwrap_or_default(), &frame.payload, 0)
    {
        inet.taps().received_as(interface, &arrival, protocol);
    }
    inet.stack().dropped(DropReason::UnknownEthertype);
}

impl Tunnel for StackTunnel {
    fn index(&self) -> u32 {
        self.index.0
    }
    fn receive(&self, arrival: TunnelArrival) -> Result<(), SocketError> {
        let inet = self.inet.upgrade().ok_or(SocketError::NoInterface)?;
        if !self.link.is_up.load(Ordering::SeqCst) {
            return Err(SocketError::NetworkDown);
        }
        let TunnelArrival { protocol, segments, checksum } = arrival;
        let mut payload = BufferChain::default();
        segments.into_iter().for_each(|segment| payload.push(segment));
        let checksum = match checksum {
            ChecksumState::Unknown => TransportChecksum::Unverified,
            ChecksumState::Valid => TransportChecksum::Verified,
            ChecksumState::Partial(_) => TransportChecksum::Partial,
        };
        let mut first = [0];
        payload.read(0, &mut first);
        let frame = ReceivedFrame { payload, checksum };
        if self.link.layer == TunnelLayer::Network && protocol != protocol_of(&first) {
            refuse(&inet, self.index, protocol, &frame);
        } else {
            inet.received(self.index, &mut Vec::from([frame]));
        }
        Ok(())
    }
    fn set_offloads(&self, offloads: Offloads) {
        self.link.knows_ecn.store(offloads.contains(Offloads::SEND_ECN), Ordering::Relaxed);
        let pairs = [
            (Offloads::SEND_CHECKSUM, LinkOffloads::CHECKSUM),
            (Offloads::SEND_TCP4, LinkOffloads::TCP4),
            (Offloads::SEND_TCP6, LinkOffloads::TCP6),
        ];
        let has = pairs.into_iter().filter(|(wanted, _)| offloads.contains(*wanted));
        let all = has.fold(LinkOffloads::empty(), |all, (_, one)| all | one);
        self.edit(|one| one.offloads = all);
    }
    fn set_carrier(&self, has_carrier: bool) {
        if let Some(inet) = self.inet.upgrade() {
            inet.set_carrier(self.index, has_carrier);
        }
    }
    fn set_hardware(&self, hardware: u16) -> Result<(), SocketError> {
        let inet = self.inet.upgrade().ok_or(SocketError::NoInterface)?;
        inet.stack().configure(|all| {
            match all.interface(self.index) {
                None => return Err(SocketError::NoInterface),
                Some(interface) if interface.is_up() => return Err(SocketError::InUse),
                Some(_) => {}
            }
            let change = |one: &mut Interface| one.hardware = hardware;
            all.edit_interface(self.index, change)
                .map_err(|_: ChangeError| SocketError::NoInterface)
        })
    }
    fn announce(&self) {
        let Some(inet) = self.inet.upgrade() else { return };
        let view = inet.stack().view();
        if let Some(interface) = view.configuration.interface(self.index) {
            let record = super::administration::records::link(&inet, interface);
            inet.observers().tell(&NetworkNotice::Link(record, 0));
        }
    }
    fn close(&self) {
        if let Some(inet) = self.inet.upgrade() {
            remove(&inet, self.index);
        }
    }
}
