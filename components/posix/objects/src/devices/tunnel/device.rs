//! [`TunnelDevice`]: an interface whose packets programs read and write, as the device file and the stack see it.
//!
//! Locks: `tunnel.control` is held over changes that go through the stack. The stack calls the device meanwhile, which takes the
//! others alone: `tunnel.settings`, `tunnel.queues` and the queues' own, in this order and each for one operation.
use super::{
    format::protocol_of,
    queue::TunnelQueue,
    steering::{AddressFilter, FlowTable},
};
use crate::socket::internet;
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use bpf::{PacketBytes, PacketFacts, PacketProgram};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use interfaces::{
    nic::{PACKET_MIN, Packet},
    sockets::{
        AdministrationError, LinkCounts, Tunnel, TunnelEnd, TunnelLayer, TunnelRecord,
        TunnelRequest, TunnelState, hardware,
    },
};
use labels::SecrecyId;
use rt::{
    lock_class,
    sync::{Mutex, Once, RwLock},
};
use vfs::Errno;

lock_class! {
    static CONTROL_LOCK = "tunnel.control";
    static DEVICES_LOCK = "tunnel.devices";
    static SETTINGS = "tunnel.settings";
    static QUEUES = "tunnel.queues";
    static ADDRESSES = "tunnel.addresses";
}

/// Flags of a device (`IFF_*` of `if_tun.h`).
pub mod flag {
    /// `IFF_TUN`.
    pub const NETWORK: u32 = 1;
    /// `IFF_TAP`.
    pub const LINK: u32 = 2;
    /// `IFF_NO_CARRIER`.
    pub const NO_CARRIER: u32 = 0x40;
    /// `IFF_MULTI_QUEUE`.
    pub const HAS_QUEUES: u32 = 0x100;
    /// `IFF_PERSIST`.
    pub const PERSISTS: u32 = 0x800;
    /// `IFF_NO_PI`.
    pub const NO_INFO: u32 = 0x1000;
    /// `IFF_VNET_HDR`.
    pub const VNET_HEADER: u32 = 0x4000;
    /// Those that a program chooses (`TUN_FEATURES`): with `IFF_NAPI`, `IFF_NAPI_FRAGS` and `IFF_ONE_QUEUE`.
    pub const CHOSEN: u32 = NO_INFO | VNET_HEADER | HAS_QUEUES | 0x2000 | 0x10 | 0x20;
    /// A bit of the device's own beside them: numbers of a virtio header have the lowest byte first (`TUNSETVNETLE`).
    pub const LITTLE_ENDIAN: u32 = 1 << 31;
}

/// Queues of a device, at most (`MAX_TAP_QUEUES`).
const QUEUES_MAX: usize = 256;

/// Serializes changes of devices, as Linux's RTNL lock.
pub static CONTROL: Mutex<()> = Mutex::new(&CONTROL_LOCK, ());
static DEVICES: Mutex<Vec<Weak<TunnelDevice>>> = Mutex::new(&DEVICES_LOCK, Vec::new());

/// Settings that packets do not depend on.
pub struct DeviceSettings {
    /// The user that may be at the end, beside those that may administer the network.
    pub owner: Option<u32>,
    /// The group.
    pub group: Option<u32>,
    /// `TUNSETSNDBUF`. What programs write is with the stack before a write ends, so nothing is charged to it.
    pub send_space: i32,
    /// The filter, and its `struct sock_fprog` as the program gave it.
    pub filter: Option<(Arc<PacketProgram>, [u64; 2])>,
}

/// The counts of a device.
#[derive(Default)]
pub struct DeviceCounts {
    received: [AtomicU64; 2],
    sent: [AtomicU64; 2],
    receive_dropped: AtomicU64,
    receive_errors: AtomicU64,
    send_dropped: AtomicU64,
}

/// An event that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedEvent {
    /// The stack got a packet of so many bytes.
    Received(usize),
    /// A program got a packet of so many bytes.
    Sent(usize),
    /// A packet of a program was dropped.
    ReceiveDropped,
    /// The header of a packet of a program made no sense.
    ReceiveError,
    /// A packet of the stack was dropped.
    SendDropped,
}

/// A device.
pub struct TunnelDevice {
    layer: TunnelLayer,
    tunnel: Once<Arc<dyn Tunnel>>,
    /// [`flag`]s.
    pub flags: AtomicU32,
    /// Bytes of the virtio header before a packet.
    pub vnet_bytes: AtomicU32,
    /// Settings.
    pub settings: Mutex<DeviceSettings>,
    queues: RwLock<Vec<Arc<TunnelQueue>>>,
    disabled: AtomicU32,
    is_up: AtomicBool,
    has_carrier: AtomicBool,
    is_gone: AtomicBool,
    transmit_queue: AtomicU32,
    flows: FlowTable,
    addresses: RwLock<Option<AddressFilter>>,
    has_addresses: AtomicBool,
    counts: DeviceCounts,
}

/// A packet as filters see it.
struct SentBytes<'p>(&'p Packet);

impl PacketBytes for SentBytes<'_> {
    fn length(&self) -> usize {
        self.0.bytes()
    }
    fn read(&self, offset: i64, out: &mut [u8]) -> bool {
        let Ok(mut skip) = usize::try_from(offset) else { return false };
        let header = self.0.header.as_slice();
        let from = header.get(skip..).unwrap_or_default();
        let (front, mut rest) = out.split_at_mut(from.len().min(out.len()));
        front.copy_from_slice(from.get(..front.len()).unwrap_or_default());
        skip = skip.saturating_sub(header.len());
        for segment in &self.0.segments {
            let (start, length) = (segment.offset as usize, segment.length as usize);
            let count = length.saturating_sub(skip).min(rest.len());
            let (front, behind) = rest.split_at_mut(count);
            if segment.frame.read(start + skip.min(length), front) != count {
                return false;
            }
            (skip, rest) = (skip.saturating_sub(length), behind);
        }
        rest.is_empty()
    }
}

/// Cuts a packet to its first `length` bytes.
fn cut(packet: &mut Packet, length: usize) {
    let mut left = length.saturating_sub(packet.header.as_slice().len());
    for segment in &mut packet.segments {
        segment.length = segment.length.min(u32::try_from(left).unwrap_or(u32::MAX));
        left -= segment.length as usize;
    }
    packet.segments.retain(|segment| segment.length > 0);
}

impl TunnelDevice {
    /// Makes the device of a new interface, with the first description's queue at its end.
    ///
    /// # Errors
    /// `EEXIST` for a name in use, `EBUSY` for a number in use, `EINVAL`, `ENODEV` without a network, `ENOBUFS` if there are too many.
    pub fn make(
        (name, number, label): (&str, Option<u32>, SecrecyId),
        layer: TunnelLayer,
        flags: u32,
        queue: &Arc<TunnelQueue>,
    ) -> Result<Arc<TunnelDevice>, Errno> {
        let tunnels = internet::tunnels().ok_or(Errno::ENODEV)?;
        let device = Arc::new(TunnelDevice {
            layer,
            tunnel: Once::new(),
            flags: AtomicU32::new(flags),
            vnet_bytes: AtomicU32::new(super::format::VNET_BYTES as u32),
            settings: Mutex::new(
                &SETTINGS,
                DeviceSettings { owner: None, group: None, send_space: i32::MAX, filter: None },
            ),
            queues: RwLock::new(&QUEUES, Vec::new()),
            disabled: AtomicU32::new(0),
            is_up: AtomicBool::new(false),
            has_carrier: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
            transmit_queue: AtomicU32::new(0),
            flows: FlowTable::new(),
            addresses: RwLock::new(&ADDRESSES, None),
            has_addresses: AtomicBool::new(false),
            counts: DeviceCounts::default(),
        });
        device.queues.write().push(Arc::clone(queue));
        queue.set_shut(false);
        let has_carrier = flags & flag::NO_CARRIER == 0;
        device.set_flags(flag::NO_CARRIER, 0);
        let mac = random_mac();
        let request = TunnelRequest { name, number, layer, mac, has_carrier, label };
        let tunnel = tunnels.open(&request, device.clone()).map_err(|error| match error {
            AdministrationError::Exists => Errno::EEXIST,
            AdministrationError::Busy => Errno::EBUSY,
            AdministrationError::Invalid => Errno::EINVAL,
            AdministrationError::NoMemory => Errno::ENOBUFS,
            _ => Errno::ENODEV,
        })?;
        device.tunnel.get_or_init(|| tunnel);
        let mut devices = DEVICES.lock();
        devices.retain(|one| one.strong_count() > 0);
        devices.push(Arc::downgrade(&device));
        Ok(device)
    }
    /// Returns the device of the interface of a number.
    pub fn of_interface(number: u32) -> Option<Arc<TunnelDevice>> {
        let devices = DEVICES.lock();
        let mut all = devices.iter().filter_map(Weak::upgrade);
        all.find(|one| !one.is_gone() && one.tunnel.get().is_some_and(|it| it.index() == number))
    }
    /// Returns the layer.
    pub fn layer(&self) -> TunnelLayer {
        self.layer
    }
    /// Returns whether a flag is set.
    pub fn has(&self, flag: u32) -> bool {
        self.flags.load(Ordering::Relaxed) & flag != 0
    }
    /// Sets the bits of `mask` in the flags to those of `value`.
    pub fn set_flags(&self, mask: u32, value: u32) {
        let change = |old: u32| Some(old & !mask | value & mask);
        // The change is never refused.
        let _ = self.flags.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
    }
    /// Returns the flags as programs see them.
    pub fn shown_flags(&self) -> u32 {
        let shown = flag::CHOSEN | flag::PERSISTS | flag::NETWORK | flag::LINK;
        self.flags.load(Ordering::Relaxed) & shown
    }
    /// Returns the stack's side.
    ///
    /// # Errors
    /// `EBADFD` if there is none.
    pub fn tunnel(&self) -> Result<&Arc<dyn Tunnel>, Errno> {
        self.tunnel.get().ok_or(Errno::EBADFD)
    }
    /// Returns whether the interface is gone.
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::SeqCst)
    }
    /// Returns whether the interface is switched on.
    pub fn is_up(&self) -> bool {
        self.is_up.load(Ordering::SeqCst)
    }
    /// Returns the numbers of queues in use and out of use.
    pub fn queue_counts(&self) -> (usize, usize) {
        (self.queues.read().len(), self.disabled.load(Ordering::Relaxed) as usize)
    }
    /// Puts a queue into use. `was_disabled` tells that it was taken out of use before.
    ///
    /// # Errors
    /// `EBUSY` for a second one without `IFF_MULTI_QUEUE`, `E2BIG`.
    pub fn attach(&self, queue: &Arc<TunnelQueue>, since: QueueOrigin) -> Result<(), Errno> {
        let disabled = self.disabled.load(Ordering::Relaxed) as usize;
        let mut queues = self.queues.write();
        if !self.has(flag::HAS_QUEUES) && !queues.is_empty() {
            return Err(Errno::EBUSY);
        }
        if since == QueueOrigin::New && queues.len() + disabled >= QUEUES_MAX {
            return Err(Errno::E2BIG);
        }
        if since == QueueOrigin::Disabled {
            self.disabled.fetch_sub(1, Ordering::Relaxed);
        }
        let filter = self.settings.lock().filter.as_ref().map(|(program, _)| Arc::clone(program));
        if filter.is_some() {
            queue.filter.set(filter);
        }
        queue.set_limit(self.transmit_queue.load(Ordering::Relaxed));
        queue.set_shut(false);
        queues.push(Arc::clone(queue));
        Ok(())
    }
    /// Takes a queue out of use, for a while or for good. Returns whether it was in use.
    pub fn detach(&self, queue: &Arc<TunnelQueue>, until: QueueEnd) -> bool {
        let mut queues = self.queues.write();
        let place = queues.iter().position(|one| Arc::ptr_eq(one, queue));
        if let Some(place) = place {
            queues.swap_remove(place);
        }
        if until == QueueEnd::Disabled && place.is_some() {
            self.disabled.fetch_add(1, Ordering::Relaxed);
        }
        if until == QueueEnd::Closed && place.is_none() {
            self.disabled.fetch_sub(1, Ordering::Relaxed);
        }
        drop(queues);
        queue.clear();
        place.is_some()
    }
    /// Calls `act` for the queues in use.
    pub fn each_queue(&self, act: impl FnMut(&Arc<TunnelQueue>)) {
        self.queues.read().iter().for_each(act);
    }
    /// Sets the receivers of frames that programs want.
    pub fn set_addresses(&self, filter: Option<AddressFilter>) {
        let mut addresses = self.addresses.write();
        self.has_addresses.store(filter.is_some(), Ordering::Relaxed);
        *addresses = filter;
    }
    /// Counts an event.
    pub fn count(&self, event: CountedEvent) {
        let add = |[packets, bytes]: &[AtomicU64; 2], length: usize| {
            packets.fetch_add(1, Ordering::Relaxed);
            bytes.fetch_add(length as u64, Ordering::Relaxed);
        };
        let once = |count: &AtomicU64| {
            count.fetch_add(1, Ordering::Relaxed);
        };
        match event {
            CountedEvent::Received(length) => add(&self.counts.received, length),
            CountedEvent::Sent(length) => add(&self.counts.sent, length),
            CountedEvent::ReceiveDropped => once(&self.counts.receive_dropped),
            CountedEvent::ReceiveError => once(&self.counts.receive_errors),
            CountedEvent::SendDropped => once(&self.counts.send_dropped),
        }
    }
    /// Notes the queue by which a packet with these first bytes was written, if there are several.
    pub fn note_flow(&self, head: &[u8], queue: &Arc<TunnelQueue>) {
        if !self.has(flag::HAS_QUEUES) {
            return;
        }
        let place = self.queues.read().iter().position(|one| Arc::ptr_eq(one, queue));
        if let (Some(place), Some(head)) = (place, head.get(self.header_length()..)) {
            self.flows.note(self.flows.hash(head), place);
        }
    }
    fn header_length(&self) -> usize {
        if self.layer == TunnelLayer::Link { PACKET_MIN } else { 0 }
    }
    /// Returns the EtherType of a packet.
    pub fn protocol(&self, packet: &Packet) -> u16 {
        let header = packet.header.as_slice();
        match self.layer {
            TunnelLayer::Network => header.first().and_then(|first| protocol_of(*first)),
            TunnelLayer::Link => header
                .get(12..)
                .and_then(|rest| rest.first_chunk())
                .copied()
                .map(u16::from_be_bytes),
        }
        .unwrap_or(0)
    }
    /// Puts a packet into a queue. Returns the queue if it took the packet.
    fn queue<'q>(
        &self,
        queues: &'q [Arc<TunnelQueue>],
        mut packet: Packet,
    ) -> Option<&'q Arc<TunnelQueue>> {
        let header = packet.header.as_slice();
        let place = match queues {
            [_] => 0,
            _ => {
                let head = header.get(self.header_length()..).unwrap_or_default();
                self.flows.queue(self.flows.hash(head), queues.len())
            }
        };
        let queue = queues.get(place)?;
        if self.has_addresses.load(Ordering::Relaxed)
            && self.addresses.read().is_some_and(|filter| !filter.wants(header))
        {
            return None;
        }
        if let Some(program) = queue.filter.get() {
            let facts = PacketFacts {
                protocol: self.protocol(&packet),
                interface: self.tunnel.get().map(|it| (it.index(), hardware::ETHERNET)),
                network: self.header_length() as i32,
                link: Some(0),
                ..PacketFacts::default()
            };
            let kept = program.admit(&SentBytes(&packet), &facts)?;
            cut(&mut packet, kept);
        }
        queue.put(packet).then_some(queue)
    }
}

/// The past of a queue that is put into use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueOrigin {
    /// It had no device.
    New,
    /// It was taken out of use.
    Disabled,
}

/// The reason for which a queue is taken out of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueEnd {
    /// The program wants that, and may put it into use again.
    Disabled,
    /// Its description is closed.
    Closed,
}

impl TunnelEnd for TunnelDevice {
    fn transmit(&self, batch: &mut Vec<Packet>) {
        // As on Linux, what is sent without a carrier never comes to the device.
        if !self.has_carrier.load(Ordering::SeqCst) {
            return batch.clear();
        }
        let queues = self.queues.read();
        for packet in batch.drain(..) {
            match self.queue(&queues, packet) {
                Some(queue) => queue.changed.wake(),
                None => self.count(CountedEvent::SendDropped),
            }
        }
    }
    fn changed(&self, state: TunnelState) {
        self.is_up.store(state.is_up, Ordering::SeqCst);
        self.has_carrier.store(state.has_carrier, Ordering::SeqCst);
        self.transmit_queue.store(state.transmit_queue, Ordering::Relaxed);
        for queue in self.queues.read().iter() {
            queue.set_limit(state.transmit_queue);
            queue.changed.wake();
        }
    }
    fn removed(&self) {
        self.is_gone.store(true, Ordering::SeqCst);
        let queues = core::mem::take(&mut *self.queues.write());
        for queue in queues {
            queue.clear();
            queue.set_shut(true);
        }
    }
    fn can_have_carrier(&self) -> bool {
        !self.queues.read().is_empty()
    }
    fn record(&self) -> TunnelRecord {
        let (queues, disabled) = self.queue_counts();
        let settings = self.settings.lock();
        TunnelRecord {
            flags: self.shown_flags(),
            owner: settings.owner,
            group: settings.group,
            queues: queues as u32,
            disabled_queues: disabled as u32,
        }
    }
    fn counts(&self) -> LinkCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let [rx_packets, rx_bytes] = self.counts.received.each_ref().map(of);
        let [tx_packets, tx_bytes] = self.counts.sent.each_ref().map(of);
        LinkCounts {
            rx_packets,
            rx_bytes,
            tx_packets,
            tx_bytes,
            rx_dropped: of(&self.counts.receive_dropped),
            rx_frame_errors: of(&self.counts.receive_errors),
            tx_dropped: of(&self.counts.send_dropped),
            ..LinkCounts::default()
        }
    }
}

/// Returns an address that no other host has by all chances (`eth_random_addr`).
fn random_mac() -> [u8; 6] {
    let mut mac = [0; 6];
    rt::entropy::fill(&mut mac);
    mac[0] = mac[0] & 0xfe | 2;
    mac
}
