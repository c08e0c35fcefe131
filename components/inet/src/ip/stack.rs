//! The stack: one object that all tables hang off, and the run of a thread through it.
//!
//! The stack has neither threads nor a clock. A caller gives the time with each call, and says in [`Surroundings`] how a packet
//! leaves and who hears of sockets. Packets to the host itself wait in the run's queue until the call ends.
use super::{
    events::{EventRow, EventTable},
    path::Path,
    statistics::{DropCounts, DropReason},
};
use crate::{
    base::{
        buffer::Buffer,
        packets::{Arrival, Departure, TransportChecksum},
        random::Random,
    },
    sockets::{
        bindings::PortRange,
        datagram_end::DatagramEnds,
        errors::{Quoted, RemoteError},
    },
    tables::{
        autoconfiguration::Autoconfiguration,
        configuration::{Configuration, ConfigurationWatcher, Publisher, View},
        echo::EchoSettings,
        error_limit::ErrorLimit,
        interface::InterfaceIndex,
        memberships::Memberships,
        neighbours::Neighbours,
        path_mtu::PathMtus,
        reassembly::Reassembly,
        timed::TimedTable,
    },
};
use alloc::{boxed::Box, collections::VecDeque, sync::Arc};
use core::{
    net::IpAddr,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};
use hash::SipKey;
use labels::SecrecyId;
use packet::Sum;
use rt::{lock_class, sync::Mutex};

lock_class! {
    static NEIGHBOURS = "inet.neighbours";
    static ERROR_LIMIT = "inet.error_limit";
    static AUTOCONFIGURATION = "inet.autoconfiguration";
    static REASSEMBLY = "inet.reassembly";
    static MEMBERSHIPS = "inet.memberships";
}

/// Counters of identification numbers of IPv4. Destinations share them by a keyed hash, as in Linux.
const IDENTIFICATIONS: usize = 256;

/// The way in which a packet reached its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cast {
    /// To one host.
    Unicast,
    /// To all hosts of the link.
    Broadcast,
    /// To a group.
    Multicast,
}

/// The way by which a packet came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketOrigin {
    /// The interface.
    pub interface: InterfaceIndex,
    /// The way in which it reached the interface.
    pub cast: Cast,
    /// This host sent it.
    pub is_looped: bool,
    /// Its secrecy; [`SecrecyId::TOLD`] until its header was looked at.
    pub label: SecrecyId,
}

/// A packet of IP for this host.
#[derive(Debug)]
pub struct Delivery<'p, B> {
    /// The way by which it came.
    pub origin: PacketOrigin,
    /// The way in which it reached this host.
    pub cast: Cast,
    /// The sender.
    pub source: IpAddr,
    /// The receiver.
    pub destination: IpAddr,
    /// The protocol above IP.
    pub protocol: u8,
    /// The place of the byte that names the protocol, counted from the header of IP.
    pub protocol_at: u32,
    /// Hops that were left.
    pub hop_limit: u8,
    /// Differentiated services and ECN.
    pub traffic_class: u8,
    /// The packet from the header of IP on.
    pub network: Arrival<'p, B>,
    /// Its payload.
    pub payload: Arrival<'p, B>,
}

impl<B: Buffer> Delivery<'_, B> {
    /// Returns whether the checksum over the pseudo header and the payload is right, or was verified before.
    pub(crate) fn is_intact(&self) -> bool {
        let payload = &self.payload;
        if payload.checksum().is_good() {
            return true;
        }
        let length = payload.length() as u32;
        let mut sum = Sum::pseudo_header(self.source, self.destination, self.protocol, length);
        sum.append(payload.sum());
        sum.is_valid()
    }
}

/// An answer to a packet of a protocol that the stack does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The packet was taken.
    Taken,
    /// Nobody knows the protocol.
    Unknown,
}

/// The world around the stack.
pub trait Surroundings<B> {
    /// Sends a packet, from its Ethernet header on.
    fn transmit(&mut self, interface: InterfaceIndex, packet: Departure<B>);
    /// Sees a packet of IP that goes to this host itself, by loopback or as the copy of one to a group.
    fn pass_by(&mut self, _origin: PacketOrigin, _packet: &Departure<B>) {}
    /// Returns whether [`Surroundings::pass_by`] looks at packets.
    fn sees_passing(&self) -> bool {
        false
    }
    /// Takes a packet of a protocol that the stack does not have.
    fn deliver(&mut self, _delivery: &Delivery<'_, B>) -> Claim {
        Claim::Unknown
    }
    /// Hears of an error about a packet of a protocol that the stack does not have. Only one about a packet that a socket did send may
    /// be taken: the path's MTU is learnt from it.
    fn hear_error(&mut self, _quoted: &Quoted<'_, B>, _error: &RemoteError) -> Claim {
        Claim::Unknown
    }
}

/// A thread's part of the stack.
#[derive(Debug)]
pub struct Worker<B> {
    view: View,
    looped: VecDeque<(PacketOrigin, Departure<B>)>,
    events: Arc<EventRow>,
}

impl<B> Worker<B> {
    /// Returns the snapshot that the thread last used.
    pub fn view(&self) -> &View {
        &self.view
    }
    /// Returns the thread's counts of events.
    pub fn events(&self) -> &EventRow {
        &self.events
    }
}

/// One call into the stack.
pub struct StackRun<'r, B> {
    /// The snapshot.
    pub configuration: &'r Configuration,
    /// The number of the snapshot.
    pub version: u64,
    /// The time, in nanoseconds.
    pub now_ns: u64,
    /// The thread's counts of events.
    pub events: &'r EventRow,
    /// The world around.
    pub surroundings: &'r mut dyn Surroundings<B>,
    /// Packets to the host itself.
    pub(crate) looped: &'r mut VecDeque<(PacketOrigin, Departure<B>)>,
}

/// The Internet protocols of a network namespace.
///
/// # Locks
/// Each table has a lock of its own, which its users hold for one operation on the table, and never while they call out or into
/// another table. The exception are sockets of datagrams: `inet.datagram`, the lock of one, is taken before those of the tables.
pub struct Stack<B> {
    pub(crate) publisher: Publisher,
    pub(crate) neighbours: TimedTable<Neighbours<B>>,
    /// The address of a neighbour was learnt since this was cleared.
    pub(crate) has_new_neighbours: AtomicBool,
    pub(crate) error_limit: Mutex<ErrorLimit>,
    pub(crate) autoconfiguration: TimedTable<Autoconfiguration>,
    pub(crate) memberships: TimedTable<Memberships>,
    pub(crate) reassembly: TimedTable<Reassembly<B>>,
    pub(crate) path_mtus: PathMtus,
    pub(crate) datagrams: DatagramEnds<Path>,
    /// The ports that the stack chooses from.
    pub(crate) port_range: PortRange,
    pub(crate) echo: EchoSettings,
    pub(crate) random: Random,
    /// Sockets are to come from a predecessor, or have gone to a successor: packets of nobody may be theirs, and are dropped without
    /// an answer.
    lacks_sockets: AtomicBool,
    identifications: Box<[AtomicU32]>,
    /// Counts of dropped packets.
    pub drops: DropCounts,
    /// Counts of events.
    pub events: EventTable,
}

impl<B: Buffer> Stack<B> {
    /// Makes a stack with the loopback interface. `secret` are random bytes.
    pub fn new(secret: [u8; 16]) -> Stack<B> {
        Stack {
            publisher: Publisher::new(),
            neighbours: TimedTable::new(
                &NEIGHBOURS,
                Neighbours::default(),
                Neighbours::earliest_ns,
            ),
            has_new_neighbours: AtomicBool::new(false),
            error_limit: Mutex::new(&ERROR_LIMIT, ErrorLimit::new()),
            autoconfiguration: TimedTable::new(
                &AUTOCONFIGURATION,
                Autoconfiguration::default(),
                Autoconfiguration::earliest_ns,
            ),
            memberships: TimedTable::new(
                &MEMBERSHIPS,
                Memberships::default(),
                Memberships::earliest_ns,
            ),
            reassembly: TimedTable::new(
                &REASSEMBLY,
                Reassembly::default(),
                Reassembly::earliest_ns,
            ),
            path_mtus: PathMtus::new(),
            datagrams: DatagramEnds::default(),
            port_range: PortRange::new(),
            echo: EchoSettings::default(),
            random: Random::new(SipKey::new(secret)),
            lacks_sockets: AtomicBool::new(false),
            identifications: (0..IDENTIFICATIONS).map(|_| AtomicU32::new(0)).collect(),
            drops: DropCounts::default(),
            events: EventTable::new(),
        }
    }
    /// Notes whether sockets are to come from a predecessor, or have gone to a successor.
    pub(crate) fn set_lacks_sockets(&self, lacks: bool) {
        self.lacks_sockets.store(lacks, Ordering::SeqCst);
    }
    /// Returns whether a packet of nobody is dropped without an answer, because its socket may be elsewhere.
    pub(crate) fn lacks_sockets(&self) -> bool {
        self.lacks_sockets.load(Ordering::Relaxed)
    }
    /// Makes the part of a thread.
    pub fn worker(&self) -> Worker<B> {
        let events = self.events.row();
        Worker { view: self.publisher.view(), looped: VecDeque::new(), events }
    }
    /// Returns the newest configuration.
    pub fn view(&self) -> View {
        self.publisher.view()
    }
    /// Brings a thread's part up to date. Returns the versions of the tables that a path is made of.
    pub(crate) fn refresh(&self, worker: &mut Worker<B>) -> (u64, u64) {
        self.publisher.refresh(&mut worker.view);
        (worker.view.version(), self.path_mtus.version())
    }
    /// Returns the versions of the tables that a path is made of.
    #[inline]
    pub(crate) fn newest_versions(&self) -> (u64, u64) {
        (self.publisher.version(), self.path_mtus.version())
    }
    /// Adds an observer of changes of the configuration, for good.
    pub fn watch(&self, watcher: Arc<dyn ConfigurationWatcher>) {
        self.publisher.watch(watcher);
    }
    /// Changes interfaces, addresses and routes by `change`.
    ///
    /// # Errors
    /// Those of `change`. Nothing is changed then.
    pub fn configure<T, E>(
        &self,
        change: impl FnOnce(&mut Configuration) -> Result<T, E>,
    ) -> Result<T, E> {
        self.publisher.change(change)
    }
    /// Does `work` with the newest configuration, then brings the packets that it sent to this host.
    pub fn run<T>(
        &self,
        worker: &mut Worker<B>,
        surroundings: &mut dyn Surroundings<B>,
        now_ns: u64,
        work: impl FnOnce(&mut StackRun<'_, B>) -> T,
    ) -> T {
        self.publisher.refresh(&mut worker.view);
        let Worker { view, looped, events } = worker;
        let version = view.version();
        let configuration = &view.configuration;
        let mut run = StackRun { configuration, version, now_ns, events, surroundings, looped };
        let result = work(&mut run);
        self.bring_looped(&mut run);
        result
    }
    /// Takes a frame from the Ethernet header on.
    pub fn input(
        &self,
        run: &mut StackRun<'_, B>,
        interface: InterfaceIndex,
        frame: &Arrival<'_, B>,
    ) {
        self.input_frame(run, interface, frame);
        self.bring_looped(run);
    }
    /// Does what time demands. Returns the time of the next call, in nanoseconds.
    pub fn poll(&self, run: &mut StackRun<'_, B>) -> u64 {
        self.poll_neighbours(run);
        self.poll_addresses(run);
        self.poll_groups(run);
        self.poll_fragments(run);
        self.bring_looped(run);
        self.earliest_ns()
    }
    /// Returns the time of the next call of [`Stack::poll`], in nanoseconds. Takes no lock.
    pub fn earliest_ns(&self) -> u64 {
        let of_tables = [
            self.neighbours.next_ns(),
            self.autoconfiguration.next_ns(),
            self.memberships.next_ns(),
            self.reassembly.next_ns(),
        ];
        of_tables.into_iter().fold(self.publisher.earliest_ns(), u64::min)
    }
    fn bring_looped(&self, run: &mut StackRun<'_, B>) {
        while let Some((origin, packet)) = run.looped.pop_front() {
            run.surroundings.pass_by(origin, &packet);
            let head = packet.headers.as_slice();
            if let Some(arrival) = Arrival::new(head, &packet.payload, head.len()) {
                // A packet that is left to the interface has no whole checksum.
                let arrival = match packet.offload {
                    Some(offload) => arrival
                        .with_checksum(TransportChecksum::Partial)
                        .with_segment(offload.segment),
                    None => arrival,
                };
                self.input_packet(run, origin, &arrival);
            }
        }
    }
    /// Counts a dropped packet.
    pub(crate) fn dropped(&self, reason: DropReason) {
        self.drops.add(reason);
    }
    /// Returns the first of `count` numbers for fragments, one for each packet. An observer of those of one destination learns
    /// nothing of another's.
    pub(crate) fn identifications(
        &self,
        (source, destination): (IpAddr, IpAddr),
        protocol: u8,
        count: u32,
    ) -> u32 {
        let mut bytes = [0; 33];
        let ends = [source, destination].map(crate::base::address::bits);
        let octets = ends.iter().flat_map(|bits| bits.to_be_bytes());
        for (to, from) in bytes.iter_mut().zip(octets.chain([protocol])) {
            *to = from;
        }
        let hash = self.random.hash(&bytes);
        let counter = self.identifications.get(hash as usize % IDENTIFICATIONS);
        let count = counter.map_or(0, |counter| counter.fetch_add(count, Ordering::Relaxed));
        count.wrapping_add((hash >> 32) as u32)
    }
}
