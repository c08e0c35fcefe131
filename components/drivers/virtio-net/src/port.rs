//! A network interface at work: its threads, its client's calls.
use crate::{
    control::{Command, ControlQueue},
    features,
    header::check,
    open::config,
    receive::{ReceiveMode, ReceiveRing},
    send::SendRing,
};
use alloc::{format, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering::*};
use interfaces::nic::{
    ADDRESSES_MAX, Ended, Filter, LinkState, MacAddress, Nic, NicError, NicInfo, NicSink,
    NicStatistics, Offloads, Packet, ReceiveBuffer, Received, SendSink, Sent, tell,
};
use rt::{
    lock_class,
    sync::{Event, Mutex},
    thread::{self, Policy, Woken},
    time,
};
use virtio::{Device, Error, Vector};

lock_class! {
    static RECEIVE = "virtio-net.receive";
    static SEND = "virtio-net.send";
    static CONTROL = "virtio-net.control";
    static TURN = "virtio-net.turn";
    static SINK = "virtio-net.sink";
    static MAC = "virtio-net.mac";
}

/// Longest time that the device may take for a command. An isolated driver answers no ping meanwhile.
const PATIENCE_NS: u64 = 500_000_000;
/// Nice value of the threads, which go before ordinary programs.
const DRIVER_NICE: i8 = -10;
/// Pause between two looks for ends of packets, in ns: an end is told after this time at the latest.
const ENDS_PERIOD_NS: u64 = 5_000_000;
const LINK_UP: u16 = 1;
const ANNOUNCE: u16 = 2;

/// A queue pair.
pub(crate) struct QueuePair {
    receive: Mutex<ReceiveRing>,
    send: Mutex<SendRing>,
}

impl QueuePair {
    pub(crate) fn new(receive: ReceiveRing, send: SendRing) -> QueuePair {
        QueuePair { receive: Mutex::new(&RECEIVE, receive), send: Mutex::new(&SEND, send) }
    }
    /// Returns the buffers and the packets that the queues hold at once.
    pub(crate) fn depths(&self) -> (usize, usize) {
        (self.receive.lock().depth(), self.send.lock().depth())
    }
    pub(crate) fn max_segments(&self) -> usize {
        self.send.lock().max_segments()
    }
}

/// The parts of an interface that is about to start.
pub(crate) struct Parts {
    pub(crate) info: NicInfo,
    pub(crate) device: Device,
    pub(crate) mode: ReceiveMode,
    pub(crate) pairs: Vec<QueuePair>,
    pub(crate) vectors: Vec<Vector>,
    pub(crate) control: Option<ControlQueue>,
}

#[derive(Default)]
struct PortCounts {
    sent_packets: AtomicU64,
    sent_bytes: AtomicU64,
    send_errors: AtomicU64,
    received_packets: AtomicU64,
    received_bytes: AtomicU64,
    receive_dropped: AtomicU64,
}

/// A network interface.
pub struct NetPort {
    /// The description at the start.
    info: NicInfo,
    device: Device,
    mode: ReceiveMode,
    pairs: Vec<QueuePair>,
    vectors: Vec<Vector>,
    control: Option<Mutex<ControlQueue>>,
    /// Held by the caller whose command is under way.
    turn: Mutex<()>,
    /// Signalled when commands may have been answered.
    answered: Event,
    /// Signalled when a packet is sent while nobody looks for ends.
    sends: Event,
    /// The thread that looks for ends waits for a packet.
    is_resting: AtomicBool,
    sink: Mutex<Option<Arc<dyn NicSink>>>,
    mac: Mutex<MacAddress>,
    /// Queue pairs in use.
    active: AtomicU16,
    is_up: AtomicBool,
    counts: PortCounts,
    /// Set once the device was reset for good.
    is_dead: AtomicBool,
    is_stopping: AtomicBool,
}

/// Lists of a thread, empty between its rounds.
#[derive(Default)]
struct Scratch {
    received: Vec<Received>,
    ended: Vec<Ended>,
    batch: Vec<Sent>,
}

impl NetPort {
    pub(crate) fn start(parts: Parts) -> Result<Arc<NetPort>, Error> {
        let Parts { info, device, mode, pairs, vectors, control } = parts;
        let (mac, has_status) = (info.mac, device.has(features::STATUS));
        let port = Arc::new(NetPort {
            info,
            device,
            mode,
            pairs,
            vectors,
            control: control.map(|control| Mutex::new(&CONTROL, control)),
            turn: Mutex::new(&TURN, ()),
            answered: Event::new(),
            sends: Event::new(),
            is_resting: AtomicBool::new(false),
            sink: Mutex::new(&SINK, None),
            mac: Mutex::new(&MAC, mac),
            active: AtomicU16::new(1),
            is_up: AtomicBool::new(!has_status),
            counts: PortCounts::default(),
            is_dead: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
        });
        port.device.start();
        port.read_status();
        let policy = Policy::Fair { nice: DRIVER_NICE };
        let spawn = |name: &str, body: fn(&NetPort, usize), vector| {
            let (ours, name) = (port.clone(), format!("{}/{name}", port.info.name));
            thread::spawn(&name, policy, move || body(&ours, vector))
        };
        let mut spawned = spawn("ends", |port, _| port.watch_ends(), 0).map(drop);
        for vector in 0..port.vectors.len() {
            let one = spawn(&format!("{vector}"), NetPort::serve, vector).map(drop);
            spawned = spawned.and(one);
        }
        if spawned.is_err() {
            port.stop();
            return Err(Error::Device(rt::device::DeviceError::NoMemory));
        }
        let NicInfo { name, mac, mtu, offloads, pairs_max, .. } = &port.info;
        log::info!(
            "virtio-net: {name}: {mac:02x?}, MTU {mtu}, {pairs_max} queue pairs, {offloads:?}"
        );
        Ok(port)
    }

    /// Returns the vector of a queue pair, of `vectors`. The first is that of commands and changes, alone if there are more.
    pub(crate) fn vector_of(pair: usize, vectors: usize) -> usize {
        match vectors {
            0 | 1 => 0,
            _ => 1 + pair % (vectors - 1),
        }
    }

    /// Ends the threads and resets the device; packets in flight end as [`NicError::Restarted`].
    pub fn stop(&self) {
        self.is_stopping.store(true, Release);
        self.fail_all(NicError::Restarted);
        self.vectors.iter().for_each(Vector::wake);
        self.sends.signal();
    }

    fn serve(&self, vector: usize) {
        let Some(source) = self.vectors.get(vector) else { return };
        let mut scratch = Scratch::default();
        while !self.is_stopping.load(Acquire) {
            let served = self.service(vector, &mut scratch);
            self.check(served);
            source.wait(None);
        }
    }

    /// Gives the device up if it broke the protocol.
    fn check(&self, done: Result<(), Error>) {
        if let Err(error) = done {
            log::error!("virtio-net: {}: {error}; the interface is given up", self.info.name);
            self.fail_all(NicError::Device);
        }
    }

    /// Body of the thread that takes the ends of packets for which the device does not interrupt. It looks once a period while
    /// there are packets in flight.
    fn watch_ends(&self) {
        let mut scratch = Scratch::default();
        while !self.is_stopping.load(Acquire) {
            let ticket = self.sends.ticket();
            // A packet that is added after the look finds the flag set.
            self.is_resting.store(true, SeqCst);
            let is_busy = self.pairs.iter().any(|pair| pair.send.lock().is_busy());
            if !is_busy || self.is_dead() {
                self.sends.wait(ticket, None);
                continue;
            }
            self.is_resting.store(false, SeqCst);
            self.sends.wait(ticket, Some(time::now().after_ns(ENDS_PERIOD_NS)));
            for pair in &self.pairs {
                let taken = self.take_ended(pair, &mut scratch);
                self.check(taken);
            }
        }
    }

    fn service(&self, vector: usize, scratch: &mut Scratch) -> Result<(), Error> {
        if vector == 0 {
            self.take_answers()?;
            if self.vectors.first().is_some_and(Vector::may_be_changed) {
                self.read_status();
            }
        }
        for (index, pair) in self.pairs.iter().enumerate() {
            if NetPort::vector_of(index, self.vectors.len()) == vector {
                let is_due = pair.send.lock().has_due_ends();
                let ended = if is_due { self.take_ended(pair, scratch) } else { Ok(()) };
                let received = self.take_received(index, pair, scratch);
                ended.and(received)?;
            }
        }
        Ok(())
    }

    fn is_dead(&self) -> bool {
        self.is_dead.load(Acquire)
    }

    fn take_answers(&self) -> Result<(), Error> {
        let Some(control) = &self.control else { return Ok(()) };
        let taken = {
            let mut control = control.lock();
            if self.is_dead() { Ok(()) } else { control.take_all() }
        };
        self.answered.signal();
        taken
    }

    /// Returns whether ends are to be taken, of the device or made up by it.
    #[cfg(test)]
    pub(crate) fn has_ends(&self) -> bool {
        self.pairs.iter().any(|pair| pair.send.lock().has_ends())
    }

    /// Takes the ends of a ring's packets to `ended`, and counts them.
    fn take_from(&self, ring: &mut SendRing, ended: &mut Vec<Ended>) -> Result<(), Error> {
        let (packets, bytes) = ring.take_all(ended)?;
        self.counts.sent_packets.fetch_add(packets, Relaxed);
        self.counts.sent_bytes.fetch_add(bytes, Relaxed);
        Ok(())
    }

    fn take_ended(&self, pair: &QueuePair, scratch: &mut Scratch) -> Result<(), Error> {
        let taken = {
            let mut ring = pair.send.lock();
            if self.is_dead() { Ok(()) } else { self.take_from(&mut ring, &mut scratch.ended) }
        };
        tell(&mut scratch.ended, &mut scratch.batch);
        taken
    }

    fn take_received(
        &self,
        index: usize,
        pair: &QueuePair,
        scratch: &mut Scratch,
    ) -> Result<(), Error> {
        let received = &mut scratch.received;
        let taken = {
            let mut ring = pair.receive.lock();
            if self.is_dead() { Ok(()) } else { ring.take_all(received) }
        };
        if !received.is_empty() {
            let sink = self.sink.lock().clone();
            if let Some(sink) = sink {
                let bytes: usize = received.iter().map(Received::bytes).sum();
                self.counts.received_packets.fetch_add(received.len() as u64, Relaxed);
                self.counts.received_bytes.fetch_add(bytes as u64, Relaxed);
                sink.received(received);
            }
            self.recycle(index, received);
        }
        taken
    }

    /// Gives the buffers of packets that no sink took to the device again.
    fn recycle(&self, index: usize, received: &mut Vec<Received>) {
        if received.is_empty() {
            return;
        }
        self.counts.receive_dropped.fetch_add(received.len() as u64, Relaxed);
        let buffers = received.drain(..).flat_map(Received::into_buffers);
        self.lend_to(index, buffers);
    }

    fn lend_to(&self, index: usize, buffers: impl Iterator<Item = ReceiveBuffer>) {
        let Some(pair) = self.pairs.get(index) else { return };
        let mut ring = pair.receive.lock();
        if !self.is_dead() {
            buffers.for_each(|buffer| ring.lend(buffer));
            ring.post();
        }
    }

    /// Reads the state of the link and tells the sink of changes.
    fn read_status(&self) {
        if !self.device.has(features::STATUS) || self.is_dead() {
            return;
        }
        let status = u16::from_le_bytes(self.device.config(config::STATUS));
        self.set_link(status & LINK_UP != 0);
        if status & ANNOUNCE != 0 && self.device.has(features::ANNOUNCE) {
            let sink = self.sink.lock().clone();
            if let Some(sink) = sink {
                sink.announce();
            }
            if let Some(control) = &self.control {
                control.lock().announced();
            }
        }
    }

    fn set_link(&self, is_up: bool) {
        if self.is_up.swap(is_up, AcqRel) == is_up {
            return;
        }
        let sink = self.sink.lock().clone();
        if let Some(sink) = sink {
            sink.link(link_state(is_up));
        }
    }

    /// Resets the device permanently and ends every packet.
    fn fail_all(&self, error: NicError) {
        self.is_dead.store(true, Release);
        // Memory in flight is freed only when the device cannot access it any more.
        let is_quiet = self.device.reset();
        for pair in &self.pairs {
            let buffers = pair.receive.lock().abandon();
            let mut ended = pair.send.lock().abandon(error);
            if !is_quiet {
                ended.iter().for_each(|ended| core::mem::forget(ended.sent.segments.clone()));
                buffers.iter().for_each(|buffer| core::mem::forget(buffer.frame.clone()));
            }
            self.counts.send_errors.fetch_add(ended.len() as u64, Relaxed);
            tell(&mut ended, &mut Vec::new());
        }
        self.answered.signal();
        self.set_link(false);
    }

    fn dead_error(&self) -> NicError {
        if self.is_stopping.load(Acquire) { NicError::Restarted } else { NicError::Device }
    }

    /// Puts packets of `batch` into the queue of a pair, in order, as long as there is room. The ends of packets that are refused,
    /// and due ends of earlier ones, go to `ended`.
    fn submit_to(
        &self,
        pair: &QueuePair,
        batch: &mut Vec<Packet>,
        sink: &Arc<dyn SendSink>,
        ended: &mut Vec<Ended>,
    ) {
        let mut packets = core::mem::take(batch).into_iter();
        let mut ring = pair.send.lock();
        let mut taken = Ok(());
        if !self.is_dead() && ring.has_due_ends() {
            taken = self.take_from(&mut ring, ended);
        }
        while taken.is_ok()
            && let Some(packet) = packets.as_slice().first()
        {
            let checked = match self.is_dead() {
                true => Err(self.dead_error()),
                false => check(packet, &self.info),
            };
            if checked.is_ok() && !ring.has_room(packet) {
                // The next end interrupts, unless it is there.
                if !ring.await_room() {
                    break;
                }
                taken = self.take_from(&mut ring, ended);
                continue;
            }
            let Some(packet) = packets.next() else { break };
            let added = match checked {
                Ok(bytes) => ring.add(packet, (bytes, sink)),
                Err(error) => {
                    let Packet { tag, segments, .. } = packet;
                    let (sink, result) = (sink.clone(), Err(error));
                    Err(Ended { sink, sent: Sent { tag, result, segments } })
                }
            };
            self.counts.send_errors.fetch_add(added.is_err().into(), Relaxed);
            ended.extend(added.err());
        }
        if !self.is_dead() {
            ring.publish();
        }
        drop(ring);
        *batch = packets.collect();
        self.check(taken);
        if self.is_resting.load(SeqCst) && self.is_resting.swap(false, SeqCst) {
            self.sends.signal();
        }
    }

    /// Has the device do a command. Blocks until it has answered, for at most half a second.
    fn command(&self, feature: u64, command: &Command) -> Result<(), NicError> {
        let control = self.control.as_ref().filter(|_| self.device.has(feature));
        let control = control.ok_or(NicError::Unsupported)?;
        let _turn = self.turn.lock();
        let deadline = time::now().after_ns(PATIENCE_NS);
        let mut number = None;
        loop {
            let ticket = self.answered.ticket();
            {
                let mut control = control.lock();
                if self.is_dead() {
                    return Err(self.dead_error());
                }
                if number.is_none() {
                    number = control.begin(command);
                }
                if let Some(answer) = number.and_then(|number| control.answer(number)) {
                    return answer;
                }
            }
            if time::now() >= deadline {
                log::warn!("virtio-net: {}: a command is not answered", self.info.name);
                return Err(NicError::TimedOut);
            }
            if self.answered.wait(ticket, Some(deadline)) == Woken::TimedOut
                && let Some(vector) = self.vectors.first()
            {
                // The interrupt may have been lost.
                vector.wake();
            }
        }
    }
}

fn link_state(is_up: bool) -> LinkState {
    if is_up { LinkState::Up } else { LinkState::Down }
}

impl Nic for NetPort {
    fn info(&self) -> NicInfo {
        NicInfo {
            mac: *self.mac.lock(),
            link: link_state(self.is_up.load(Acquire)),
            pairs: self.active.load(Acquire),
            ..self.info.clone()
        }
    }

    fn set_sink(&self, sink: Arc<dyn NicSink>) {
        *self.sink.lock() = Some(sink);
    }

    fn submit(&self, batch: &mut Vec<Packet>, sink: &Arc<dyn SendSink>) {
        let mut ended = Vec::new();
        let active = self.active.load(Acquire);
        if let ([pair, ..], 1) = (self.pairs.as_slice(), active) {
            self.submit_to(pair, batch, sink, &mut ended);
        } else {
            let mut all = core::mem::take(batch);
            for (index, pair) in (0..active).zip(&self.pairs) {
                let is_ours = |packet: &mut Packet| packet.flow % u32::from(active) == index.into();
                let mut ours: Vec<Packet> = all.extract_if(.., is_ours).collect();
                if !ours.is_empty() {
                    self.submit_to(pair, &mut ours, sink, &mut ended);
                    batch.append(&mut ours);
                }
            }
        }
        if !ended.is_empty() {
            tell(&mut ended, &mut Vec::new());
        }
    }

    fn lend(&self, buffers: &mut Vec<ReceiveBuffer>) {
        let active = u32::from(self.active.load(Acquire));
        for index in 0..active {
            // The locks of pairs that get nothing are not taken.
            if buffers.is_empty() {
                return;
            }
            let is_ours = |buffer: &mut ReceiveBuffer| buffer.number % active == index;
            let mut ours = buffers.extract_if(.., is_ours).peekable();
            if ours.peek().is_some() {
                self.lend_to(index as usize, ours);
            }
        }
    }

    fn set_mac(&self, mac: &MacAddress) -> Result<(), NicError> {
        let [first, ..] = mac;
        if first & 1 != 0 || mac.iter().all(|byte| *byte == 0) {
            return Err(NicError::Invalid);
        }
        self.command(features::CONTROL_MAC, &Command::mac(mac))?;
        *self.mac.lock() = *mac;
        Ok(())
    }

    fn set_filter(&self, filter: &Filter) -> Result<(), NicError> {
        if filter.unicast.len() + filter.multicast.len() > ADDRESSES_MAX {
            return Err(NicError::Invalid);
        }
        let commands = Command::filter(filter);
        commands.iter().try_for_each(|command| self.command(features::CONTROL_FILTER, command))
    }

    fn set_offloads(&self, offloads: Offloads) -> Result<(), NicError> {
        let merging = Offloads::RECEIVE.difference(Offloads::RECEIVE_CHECKSUM);
        if !Offloads::RECEIVE.contains(offloads) || !self.mode.offloads.contains(offloads) {
            return Err(NicError::Unsupported);
        }
        let is_sound =
            !offloads.intersects(merging) || offloads.contains(Offloads::RECEIVE_CHECKSUM);
        if !is_sound {
            return Err(NicError::Invalid);
        }
        let features = features::guest_features(offloads);
        self.command(features::CONTROL_OFFLOADS, &Command::offloads(features))
    }

    fn set_pairs(&self, pairs: u16) -> Result<(), NicError> {
        if !(1..=self.info.pairs_max).contains(&pairs) {
            return Err(NicError::Invalid);
        }
        self.command(features::PAIRS, &Command::pairs(pairs))?;
        self.active.store(pairs, Release);
        Ok(())
    }

    fn statistics(&self) -> NicStatistics {
        let PortCounts { sent_packets, sent_bytes, send_errors, .. } = &self.counts;
        let PortCounts { received_packets, received_bytes, receive_dropped, .. } = &self.counts;
        NicStatistics {
            sent_packets: sent_packets.load(Relaxed),
            sent_bytes: sent_bytes.load(Relaxed),
            send_errors: send_errors.load(Relaxed),
            received_packets: received_packets.load(Relaxed),
            received_bytes: received_bytes.load(Relaxed),
            receive_errors: self.pairs.iter().map(|pair| pair.receive.lock().errors).sum(),
            receive_dropped: receive_dropped.load(Relaxed),
        }
    }

    fn look_again(&self) {
        self.vectors.iter().for_each(Vector::wake);
    }
}

impl core::fmt::Debug for NetPort {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("NetPort").field("info", &self.info).finish_non_exhaustive()
    }
}
