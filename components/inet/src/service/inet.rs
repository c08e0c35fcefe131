//! [`Inet`]: a network stack with its clock, its cards and its sockets.
use super::{
    administration::observers::AdministrationObservers,
    kept::{
        ImageWriter,
        flows::{KeptFlow, KeptFlows, KeptSlot},
    },
    links::{CardLinks, PacketLink, ReceivedFrame},
    outside::Outside,
    passage::{LIST_ROOM, Passage, PassagePool, PendingPacket},
    streams::Streams,
    taps::Taps,
    tunnel_table::TunnelTable,
};
use crate::{
    base::packets::{Arrival, HEAD_MIN},
    ip::stack::{Stack, StackRun},
    tables::{
        configuration::ChangeError,
        interface::{InterfaceFlags, InterfaceIndex, LinkOffloads},
    },
};
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use interfaces::{
    nic::{LinkState, PacketSegment},
    sockets::SocketError,
};
use rt::{
    sync::{Event, Once},
    time::Instant,
};

/// The clock of a stack.
pub trait InetClock: Send + Sync {
    /// Returns the time in nanoseconds. It never goes back.
    fn now_ns(&self) -> u64;
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealTime;

/// The phase of a stack's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum StackPhase {
    /// It works.
    Running,
    /// It gets the sockets of its predecessor. Frames and timers wait for its work.
    Restoring,
    /// It has a successor.
    Retired,
}

impl InetClock for RealTime {
    fn now_ns(&self) -> u64 {
        rt::time::now().0
    }
}

/// A network stack: [`Stack`] with a clock, cards, and sockets.
///
/// A call into it does its work at once, together with everything that this causes on the same host: a byte that is sent over
/// loopback is in the receiver's stream when the call ends. Packets go to the cards at the end of the call, when no lock is held.
///
/// # Threads
/// The drivers' threads call [`Inet::received`]. One thread calls [`Inet::poll`] at the times that it returns
/// ([`Inet::wait_for_timers`]). Programs call the sockets.
pub struct Inet {
    itself: Weak<Inet>,
    stack: Stack<PacketSegment>,
    streams: Arc<Streams>,
    links: CardLinks,
    clock: Arc<dyn InetClock>,
    passages: PassagePool,
    observers: AdministrationObservers,
    taps: Arc<Taps>,
    tunnels: Arc<TunnelTable>,
    /// The time at which the thread of timers looks again.
    next_poll_ns: AtomicU64,
    timer_event: Event,
    /// The phase of its life: a [`StackPhase`].
    phase: AtomicU8,
    /// Writes what a successor needs, if there will be one.
    writer: Once<Arc<ImageWriter>>,
}

impl Inet {
    /// Makes a stack that tells no observer of changes. The rest is as for [`Inet::new`].
    pub(super) fn unobserved(secret: [u8; 32], clock: Arc<dyn InetClock>) -> Arc<Inet> {
        let (first, second) = secret.split_at(16);
        let key = |part: &[u8]| part.try_into().unwrap_or_default();
        let streams = Arc::new(Streams::new(key(second)));
        Arc::new_cyclic(|itself| Inet {
            itself: Weak::clone(itself),
            stack: Stack::new(key(first)),
            streams,
            links: CardLinks::new(),
            clock,
            passages: PassagePool::new(),
            observers: AdministrationObservers::new(),
            taps: Arc::new(Taps::new()),
            tunnels: Arc::new(TunnelTable::new()),
            next_poll_ns: AtomicU64::new(u64::MAX),
            timer_event: Event::new(),
            phase: AtomicU8::new(StackPhase::Running as u8),
            writer: Once::new(),
        })
    }
    /// Returns the stack: interfaces, addresses, routes, neighbours.
    pub fn stack(&self) -> &Stack<PacketSegment> {
        &self.stack
    }
    /// Returns the time in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }
    /// Sets the card of an interface of [`Inet::stack`]; `None` takes it away.
    pub fn set_link(&self, interface: InterfaceIndex, link: Option<Arc<dyn PacketLink>>) {
        let offloads = link.as_ref().map_or(LinkOffloads::empty(), |link| link.offloads());
        self.links.set(interface, link);
        // An interface that is gone needs none.
        let _ = self
            .stack
            .configure(|all| all.edit_interface(interface, |one| one.offloads = offloads));
    }
    /// Sets the state of the link of an interface: up if it has a carrier. Neighbours behind a link that went may be others when it comes back.
    pub fn set_carrier(&self, interface: InterfaceIndex, link: LinkState) {
        let has_carrier = link == LinkState::Up;
        let result = self.stack.configure(|all| {
            let found = all.interface(interface).ok_or(ChangeError::Missing)?;
            if found.flags.contains(InterfaceFlags::RUNNING) == has_carrier {
                return Err(ChangeError::Exists);
            }
            let is_up = found.is_up();
            all.edit_interface(interface, |one| {
                one.flags.set(InterfaceFlags::RUNNING, has_carrier);
                one.carrier_changes = one.carrier_changes.saturating_add(1);
            })?;
            Ok(is_up)
        });
        match result {
            Ok(_) if !has_carrier => self.stack.flush_neighbours(interface),
            Ok(true) => self.run(|stack, run| stack.start_ipv6(run, interface)),
            // It is off, or as it was, or gone.
            _ => {}
        }
    }
    /// Makes the stack one that has a successor, or is about to get one ([`Inet::restore_stream`]): it takes no frames, runs no
    /// timers, and the end of a handle does not end the connection.
    pub fn retire(&self) {
        self.enter(StackPhase::Retired);
        if let Some(writer) = self.writer.get() {
            writer.leave();
        }
    }
    /// Returns whether it has a successor.
    pub(crate) fn is_retired(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == StackPhase::Retired as u8
    }
    fn enter(&self, phase: StackPhase) {
        // The others may be with the predecessor's client yet, or with the successor.
        self.stack.set_lacks_sockets(phase != StackPhase::Running);
        self.phase.store(phase as u8, Ordering::SeqCst);
        self.timer_event.signal();
    }
    /// Makes the stack one that gets the sockets of its predecessor.
    pub(super) fn begin_restoring(&self) {
        self.enter(StackPhase::Restoring);
    }
    /// Ends [`Inet::begin_restoring`].
    pub(super) fn end_restoring(&self) {
        self.enter(StackPhase::Running);
    }
    /// Returns whether it has all sockets, and no successor.
    fn is_running(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == StackPhase::Running as u8
    }
    /// Returns whether there will be a successor that gets what is kept.
    #[inline]
    pub(crate) fn is_kept(&self) -> bool {
        self.writer.get().is_some()
    }
    /// Returns the slots for connections that no client knows of, if they are kept.
    pub(crate) fn kept_flows(&self) -> Option<&Arc<KeptFlows>> {
        self.writer.get().map(|writer| writer.flows())
    }
    /// Takes the connections of the predecessor that no client knows of.
    pub(super) fn take_found(&self) -> Vec<(KeptFlow, KeptSlot)> {
        self.writer.get().map(|writer| writer.take_found()).unwrap_or_default()
    }
    /// Sets the writer of what a successor needs.
    pub(super) fn set_writer(&self, writer: Arc<ImageWriter>) {
        self.writer.get_or_init(|| writer);
    }
    /// Keeps a change that is none of the configuration, for a successor.
    pub(crate) fn keep(&self) {
        if let Some(writer) = self.writer.get() {
            writer.keep();
        }
    }
    /// Keeps neighbours that were learnt. Returns the time at which that is to be done next.
    fn keep_neighbours(&self) -> u64 {
        let Some(writer) = self.writer.get() else { return u64::MAX };
        let now_ns = self.now_ns();
        if writer.neighbours_due_ns(&self.stack) <= now_ns {
            writer.keep_neighbours(&self.stack, now_ns);
        }
        writer.neighbours_due_ns(&self.stack)
    }
    /// Takes frames that came by an interface, and empties `batch`.
    pub fn received(&self, interface: InterfaceIndex, batch: &mut Vec<ReceivedFrame>) {
        if !self.is_running() {
            return batch.clear();
        }
        self.pass(|passage| {
            self.run_in(passage, |stack, run| {
                for frame in batch.drain(..) {
                    // A device may still write to the frame: headers are copied before they are checked.
                    let mut head = [0; HEAD_MIN];
                    let count = frame.payload.read(0, &mut head);
                    let head = head.get(..count).unwrap_or_default();
                    if let Some(arrival) = Arrival::new(head, &frame.payload, 0) {
                        let arrival = arrival
                            .with_checksum(frame.checksum)
                            .with_segment(frame.segment)
                            .with_acks(frame.acks);
                        if self.taps.are_watching()
                            && let Some(interface) = stack.up(run, interface)
                        {
                            self.taps.received(interface, &arrival);
                        }
                        stack.input(run, interface, &arrival);
                    }
                }
            });
        });
    }
    /// Does what time demands. Returns the time of the next call, in nanoseconds.
    pub fn poll(&self) -> u64 {
        if !self.is_running() {
            return u64::MAX;
        }
        // Nothing that is armed before the tables are asked has to wake the thread.
        self.next_poll_ns.store(0, Ordering::SeqCst);
        self.pass(|passage| {
            self.run_in(passage, |stack, run| stack.poll(run));
            self.expire_streams(passage);
        });
        self.next_poll_ns.store(u64::MAX, Ordering::SeqCst);
        let next = self.streams.earliest_ns().min(self.stack.earliest_ns());
        let next = next.min(self.keep_neighbours());
        self.next_poll_ns.fetch_min(next, Ordering::SeqCst);
        self.next_poll_ns.load(Ordering::SeqCst)
    }
    /// Calls [`Inet::poll`], and waits until it is to be called again. The thread of timers calls it again and again.
    pub fn wait_for_timers(&self) {
        let ticket = self.timer_event.ticket();
        let next = self.poll();
        let deadline = (next != u64::MAX).then_some(Instant(next));
        self.timer_event.wait(ticket, deadline);
    }
    /// Does `work` in a run of the stack, then everything that it causes.
    pub fn run<T>(
        &self,
        work: impl FnOnce(&Stack<PacketSegment>, &mut StackRun<'_, PacketSegment>) -> T,
    ) -> T {
        self.pass(|passage| self.run_in(passage, work))
    }
    /// Returns the streams.
    pub(crate) fn streams(&self) -> &Arc<Streams> {
        &self.streams
    }
    /// Returns the taps.
    pub(crate) fn taps(&self) -> &Arc<Taps> {
        &self.taps
    }
    /// Returns the tunnels.
    pub(crate) fn tunnel_table(&self) -> &Arc<TunnelTable> {
        &self.tunnels
    }
    /// Returns the observers of changes.
    pub(crate) fn observers(&self) -> &AdministrationObservers {
        &self.observers
    }
    /// Returns the card of an interface, if it has one.
    pub(crate) fn link(&self, interface: InterfaceIndex) -> Option<Arc<dyn PacketLink>> {
        self.links.get(interface)
    }
    /// Does `work` with the tools of a call, then everything that it causes, and gives packets to the cards.
    pub(crate) fn pass<T>(&self, work: impl FnOnce(&mut Passage) -> T) -> T {
        let outside = || Outside::new(Arc::clone(&self.streams), Arc::clone(&self.taps));
        let mut passage = self.passages.take(&self.stack, outside);
        passage.now_ns = self.clock.now_ns();
        let result = work(&mut passage);
        self.settle(&mut passage);
        self.passages.put(passage);
        self.arm(self.stack.earliest_ns());
        if let Some(writer) = self.writer.get() {
            self.arm(writer.neighbours_due_ns(&self.stack));
        }
        result
    }
    /// Does `work` in a run of the stack.
    pub(crate) fn run_in<T>(
        &self,
        passage: &mut Passage,
        work: impl FnOnce(&Stack<PacketSegment>, &mut StackRun<'_, PacketSegment>) -> T,
    ) -> T {
        let Passage { worker, outside, now_ns, .. } = passage;
        self.stack.run(worker, outside, *now_ns, |run| work(&self.stack, run))
    }
    /// Brings segments to their connections and packets to IP until there are none. It is a loop: each turn's locks are released
    /// before the next.
    fn settle(&self, passage: &mut Passage) {
        let mut most = 0;
        loop {
            while let Some(arrival) = passage.outside.segments.pop_front() {
                if arrival.is_local && (self.taps.are_watching() || self.stack.hears_tcp()) {
                    self.capture(passage, &arrival);
                }
                self.take_segment(passage, arrival);
            }
            while let Some((socket, error, seq)) = passage.outside.errors.pop() {
                socket.with(self, passage, |state, passage| {
                    state.hear_error(self, passage, &socket, (&error, seq));
                });
            }
            while let Some(socket) = passage.outside.awaited.pop() {
                socket.with(self, passage, |_, _| ());
            }
            if !passage.outside.segments.is_empty() {
                continue;
            }
            if passage.sends.is_empty() {
                break;
            }
            most = most.max(passage.sends.len());
            self.send_pending(passage);
        }
        most = most.max(passage.outside.departures.len());
        if !passage.outside.departures.is_empty() {
            let Passage { outside, batch, .. } = passage;
            self.links.transmit(&mut outside.departures, batch);
        }
        if most > LIST_ROOM {
            passage.trim();
        }
    }
    fn send_pending(&self, passage: &mut Passage) {
        let mut sends = core::mem::take(&mut passage.sends);
        self.run_in(passage, |stack, run| {
            for PendingPacket { path, request, packet } in sends.drain(..) {
                // A segment that cannot be sent is lost, as it would be on the way.
                let _ = stack.send_on(run, &path, &request, packet);
            }
        });
        // The work may have made packets meanwhile.
        sends.append(&mut passage.sends);
        passage.sends = sends;
    }
    /// Wakes the thread of timers if `deadline_ns` comes before its next look. The table that has the deadline was told of it before:
    /// then either this load finds the thread's next look, or [`Inet::poll`], which stores that, finds the deadline.
    pub(crate) fn arm(&self, deadline_ns: u64) {
        if deadline_ns < self.next_poll_ns.load(Ordering::SeqCst) {
            self.next_poll_ns.fetch_min(deadline_ns, Ordering::SeqCst);
            self.timer_event.signal();
        }
    }
    /// Returns a reference to itself that does not keep it.
    pub(crate) fn weak(&self) -> Weak<Inet> {
        Weak::clone(&self.itself)
    }
    /// Returns a counted reference to itself.
    pub(crate) fn itself(&self) -> Result<Arc<Inet>, SocketError> {
        self.itself.upgrade().ok_or(SocketError::NetworkDown)
    }
}
