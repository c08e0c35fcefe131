//! [`TunnelTable`]: the cards of interfaces whose other end is a program.
//!
//! Locks: `inet.tunnels` is held over no call.
use super::links::{LinkDetails, PacketLink, device_work};
use crate::{
    base::packets::Departure,
    tables::{
        configuration::{Configuration, ConfigurationWatcher},
        interface::{Interface, InterfaceFlags, InterfaceIndex},
    },
};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use interfaces::{
    nic::{HeaderBytes, MacAddress, Packet, PacketSegment, Segmentation},
    sockets::{AdministrationError, SocketError, TunnelEnd, TunnelLayer, TunnelState},
};
use packet::ethernet;
use rt::{lock_class, sync::RwLock};

lock_class! {
    static TUNNELS = "inet.tunnels";
}

/// Tunnels of a stack, at most.
const TUNNELS_MAX: usize = 1024;
/// The greatest MTU of frames.
const MTU_MAX: u32 = u16::MAX as u32 - ethernet::HEADER_LENGTH as u32;
/// `NET_ADDR_RANDOM` and `NET_ADDR_SET`.
const RANDOM: u8 = 1;
const SET: u8 = 3;
/// Name of Linux's driver.
const DRIVER: &str = "tun";
/// Speed that Linux tells, in megabits a second.
const SPEED: u32 = 10_000;

/// The card of a tunnel.
pub(crate) struct TunnelLink {
    pub(super) layer: TunnelLayer,
    pub(super) end: Arc<dyn TunnelEnd>,
    pub(super) is_up: AtomicBool,
    /// A user has set the address on the link.
    pub(super) has_own_mac: AtomicBool,
    /// [`Offloads::SEND_ECN`] is among the work that the program does.
    pub(super) knows_ecn: AtomicBool,
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
    pub(super) fn number(&self, all: &Configuration) -> InterfaceIndex {
        let greatest = all.interfaces().map(|one| one.index.0).max().unwrap_or(0);
        self.next.fetch_max(greatest.saturating_add(1), Ordering::Relaxed);
        InterfaceIndex(self.next.fetch_add(1, Ordering::Relaxed))
    }
    pub(super) fn add(
        &self,
        index: InterfaceIndex,
        link: &Arc<TunnelLink>,
    ) -> Result<(), SocketError> {
        let mut entries = self.entries.write();
        if entries.len() >= TUNNELS_MAX {
            return Err(SocketError::NoMemory);
        }
        entries.push((index, Arc::clone(link)));
        Ok(())
    }
    pub(super) fn take(&self, index: InterfaceIndex) -> Option<Arc<TunnelLink>> {
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

pub(super) fn state_of(interface: &Interface) -> TunnelState {
    TunnelState {
        is_up: interface.is_up(),
        has_carrier: interface.flags.contains(InterfaceFlags::RUNNING),
        transmit_queue: interface.transmit_queue,
    }
}

impl TunnelLink {
    pub(super) fn header_length(&self) -> usize {
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
