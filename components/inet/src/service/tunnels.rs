//! Tunnels: interfaces that come and go at run time, with a program at their other end ([`interfaces::sockets::Tunnel`]).
//!
//! [`TunnelLink`](super::tunnel_table::TunnelLink) is the card of such an interface. What the stack sends goes to the client in the call that sends it, and what the
//! program writes goes through the stack in the call that brings it, so a tunnel has no thread.
use super::{
    administration::links::take_away, inet::Inet, links::ReceivedFrame, tunnel_table::TunnelLink,
};
use crate::{
    base::{
        buffer::BufferChain,
        packets::{Arrival, HEAD_MIN, TransportChecksum},
    },
    ip::statistics::DropReason,
    tables::{
        configuration::{ChangeError, Configuration},
        interface::{Interface, InterfaceFlags, InterfaceIndex, LinkOffloads},
    },
};
use alloc::{
    format,
    string::String,
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::{AtomicBool, Ordering};
use interfaces::{
    nic::{ChecksumState, LinkState, Offloads},
    sockets::{
        AdministrationError, LinkLabel, NetworkNotice, SocketError, Tunnel, TunnelArrival,
        TunnelEnd, TunnelLayer, TunnelRequest, Tunnels,
    },
};
use labels::SecrecyId;
use packet::ethernet::ethertype;

/// Numbers that are tried for a `%d` in a name, as many as Linux tries.
const NAMES_MAX: u32 = 32_768;
/// Bytes of a name, at most.
const NAME_MAX: usize = 15;
/// MTU at first.
const MTU: u32 = 1500;
/// Packets that wait for the program, at most, if they are no frames.
const QUEUE: u32 = 500;

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
            interface.has_maker_label = request.label != SecrecyId::NONE;
            interface.label = LinkLabel::Single(request.label);
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
        let frame = ReceivedFrame { payload, checksum, segment: None, acks: 0 };
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
            inet.set_carrier(self.index, LinkState::of(has_carrier));
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
