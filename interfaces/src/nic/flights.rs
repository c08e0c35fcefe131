//! Packets and buffers on their way to the driver and back: the state behind the lock of [`super::remote`]'s link.
//!
//! A packet has a slot from its submission to its end. Its tag in the rings is the slot's number and, above bit 32, the number of
//! packets that the slot has had, so an end ends no other packet. `waiting` holds the slots whose packets the present driver has
//! not been sent, in the order of submission.
//!
//! A buffer's frame is lent to the driver's devices when its number is lent for the first time, and stays lent while the client
//! has the buffer, so a packet costs no change of the IOMMU's tables. A buffer that came back is unused once the client's reference
//! and that of the loan are the only ones to its frame.
use super::{
    Ended, LinkState, NUMBERS, NicError, NicInfo, Offloads, PACKET_MIN, Packet, ReceiveBuffer,
    Received, ReceivedPiece, Segmentation, SegmentationKind, SendSink, Sent,
    buffers::Lead,
    entries::{
        self, BUFFERS, BackEntry, BufferEntry, ForthEntry, PACKET_ENTRIES, SENDS, is_encodable,
    },
    packet::ChecksumState,
};
use crate::{
    AttachError,
    block::RunningDriver,
    link::{Rings, Traffic},
};
use alloc::{collections::VecDeque, sync::Arc, vec::Vec};
use rt::{
    PAGE_BYTES,
    device::{DmaWindow, Loan},
    memory::{Frame, FrameId},
    ring::{Consumer, Corrupt, Doorbell, Part, Producer},
};

/// The greatest number of entries of the driver taken under one hold of the lock.
const BATCH: usize = 64;
/// Things to tell for which the lists keep their memory.
const NEWS_KEPT: usize = 16;
/// The driver has at least this many times as many buffers as wait to be lent to it, unless a whole entry of them waits.
const LENT_SHARE: usize = 8;
/// The greatest length of a received packet: merged, with a VLAN tag.
const RECEIVED_MAX: usize = 65535 + PACKET_MIN + 4;

/// A packet that was taken from a client and has not ended.
struct Flight {
    packet: Packet,
    sink: Arc<dyn SendSink>,
    /// Number of the packet in the order of submission.
    order: u64,
    /// The driver has the packet, and its frames are lent.
    is_sent: bool,
}

impl Flight {
    fn loans(&self) -> impl Iterator<Item = Loan> {
        loans(&self.packet.segments)
    }
    fn end(self, result: Result<(), NicError>) -> Ended {
        let Packet { tag, segments, .. } = self.packet;
        Ended { sink: self.sink, sent: Sent { tag, result, segments } }
    }
}

fn loans(segments: &[super::PacketSegment]) -> impl Iterator<Item = Loan> {
    segments.iter().map(|segment| Loan { frame: segment.frame.id(), is_written: false })
}

#[derive(Default)]
struct SendSlot {
    generation: u32,
    flight: Option<Flight>,
}

/// The state of a buffer's number.
#[derive(Default)]
struct BufferSlot {
    /// The frame, while the client has lent it.
    frame: Option<Frame>,
    /// The driver has it.
    is_sent: bool,
    /// The frame that the driver's devices reach under this number.
    lent: Option<FrameId>,
}

/// A received packet of which some pieces came.
struct PartialPacket {
    packet: Received,
    bytes: usize,
}

/// Things to tell the client, without locks.
#[derive(Default)]
pub(crate) struct News {
    pub(crate) ended: Vec<Ended>,
    /// Ends for one sink, empty between two calls.
    pub(crate) batch: Vec<Sent>,
    pub(crate) received: Vec<Received>,
    pub(crate) link: Option<LinkState>,
    pub(crate) has_announcement: bool,
}

impl News {
    /// Gives a burst's memory back.
    pub(crate) fn trim(&mut self) {
        self.ended.shrink_to(NEWS_KEPT);
        self.batch.shrink_to(NEWS_KEPT);
        self.received.shrink_to(NEWS_KEPT);
    }
}

/// Received packets that a driver counts: those that made no sense, and those that nobody took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReceiveFaults {
    pub(crate) errors: u64,
    pub(crate) dropped: u64,
}

impl ReceiveFaults {
    /// Returns the counts, each changed by `change` with that of `other`.
    fn with(self, other: ReceiveFaults, change: fn(u64, u64) -> u64) -> ReceiveFaults {
        ReceiveFaults {
            errors: change(self.errors, other.errors),
            dropped: change(self.dropped, other.dropped),
        }
    }
}

/// Counts of packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlightCounts {
    pub(crate) sent_packets: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) send_errors: u64,
    pub(crate) received_packets: u64,
    pub(crate) received_bytes: u64,
    /// The counts of all drivers before the present one, as they were last known, and the packets that the client did not take.
    before: ReceiveFaults,
    /// The last known counts of the present driver.
    present: ReceiveFaults,
}

impl FlightCounts {
    /// Notes the counts that the present driver gives. They never go back.
    pub(crate) fn note(&mut self, faults: ReceiveFaults) {
        self.present = self.present.with(faults, u64::max);
    }

    /// Counts packets that the client did not take.
    pub(crate) fn count_dropped(&mut self, packets: usize) {
        self.before.dropped = self.before.dropped.saturating_add(packets as u64);
    }

    /// Returns the counts of all drivers together.
    pub(crate) fn faults(&self) -> ReceiveFaults {
        self.before.with(self.present, u64::saturating_add)
    }

    /// The driver has a successor, which counts from zero.
    fn succeed(&mut self) {
        (self.before, self.present) = (self.faults(), ReceiveFaults::default());
    }
}

/// State of both directions, guarded by the link's lock.
pub(crate) struct Flights {
    received: Consumer<Part, BackEntry>,
    sends: Vec<SendSlot>,
    free: Vec<u32>,
    waiting: VecDeque<u32>,
    next_order: u64,
    buffers: Vec<BufferSlot>,
    /// Buffers that the present driver has.
    lent: usize,
    /// Numbers of buffers that the present driver has not been lent.
    lending: VecDeque<u32>,
    partial: Option<PartialPacket>,
    offloads: Offloads,
    max_segments: usize,
    /// A frame could not be lent.
    is_refused: bool,
    /// The present driver.
    runs: RunningDriver,
    pub(crate) counts: FlightCounts,
    /// Scratch lists.
    loans: Vec<Loan>,
    returns: Vec<Loan>,
}

impl Traffic for Flights {
    type Sent = ForthEntry;

    /// Queues every packet to be sent again, in the old order, and every buffer to be lent again. A packet that the driver sent
    /// without saying so is sent twice.
    fn renew(
        &mut self,
        _: &Producer<Part, ForthEntry>,
        rings: &Rings,
    ) -> Result<Producer<Part, ForthEntry>, AttachError> {
        self.take_all_back();
        self.counts.succeed();
        let mut order: Vec<(u64, u32)> = (0..)
            .zip(&self.sends)
            .filter_map(|(number, slot)| Some((slot.flight.as_ref()?.order, number)))
            .collect();
        order.sort_unstable();
        self.waiting = order.into_iter().map(|(_, number)| number).collect();
        rings.clear();
        let (sent, received) = rings.client()?;
        self.received = received;
        Ok(sent)
    }

    fn send(&mut self, ring: &mut Producer<Part, ForthEntry>) -> Result<Doorbell, Corrupt> {
        let mut doorbell = Doorbell::Silent;
        self.is_refused = false;
        let mut push = |ring: &mut Producer<Part, ForthEntry>, entry: &ForthEntry| {
            // There is room, unless the driver's count is wrong.
            if ring.push(entry).map_err(|_| Corrupt)? == Doorbell::Ring {
                doorbell = Doorbell::Ring;
            }
            Ok(())
        };
        while self.must_lend() && has_room_for_buffers(ring)? {
            match self.lend_some() {
                Some(entry) => push(ring, &entry)?,
                None => {
                    self.is_refused = true;
                    break;
                }
            }
        }
        while let Some(number) = self.waiting.front().copied() {
            let Some(SendSlot { generation, flight: Some(flight) }) =
                self.sends.get_mut(number as usize)
            else {
                self.waiting.pop_front();
                continue;
            };
            self.loans.clear();
            self.loans.extend(flight.loans());
            if self.runs.window.lend(&self.loans).is_err() {
                // Others lend a frame too often.
                self.is_refused = true;
                break;
            }
            self.waiting.pop_front();
            flight.is_sent = true;
            let tag = u64::from(*generation) << 32 | u64::from(number);
            let (first, second) = ForthEntry::of(&flight.packet, tag);
            push(ring, &first)?;
            second.iter().try_for_each(|second| push(ring, second))?;
        }
        Ok(doorbell)
    }
}

/// Returns whether an entry of buffers leaves room for all packets.
fn has_room_for_buffers(ring: &Producer<Part, ForthEntry>) -> Result<bool, Corrupt> {
    let used = ring.written().wrapping_sub(ring.taken()?);
    Ok(used + ((PACKET_ENTRIES * SENDS) as u64) < ring.capacity())
}

impl Flights {
    /// Makes an empty state. All memory that its tables will ever need is allocated here.
    pub(crate) fn new(received: Consumer<Part, BackEntry>, info: &NicInfo) -> Flights {
        Flights {
            received,
            sends: (0..SENDS).map(|_| SendSlot::default()).collect(),
            free: (0..SENDS as u32).rev().collect(),
            waiting: VecDeque::with_capacity(SENDS),
            next_order: 0,
            buffers: (0..NUMBERS).map(|_| BufferSlot::default()).collect(),
            lent: 0,
            lending: VecDeque::with_capacity(NUMBERS as usize),
            partial: None,
            offloads: info.offloads,
            max_segments: info.max_segments,
            is_refused: false,
            runs: RunningDriver::default(),
            counts: FlightCounts::default(),
            loans: Vec::with_capacity(BUFFERS),
            returns: Vec::with_capacity(BUFFERS),
        }
    }

    /// Sends to that driver from now on. Its devices reach the memory that is lent to its window.
    pub(crate) fn set_driver(&mut self, runs: RunningDriver) {
        self.runs = runs;
    }

    /// Returns the window of the present driver.
    pub(crate) fn window(&self) -> DmaWindow {
        self.runs.window.clone()
    }

    /// Takes packets, as many as there is room for. The ends of those that cannot be sent go to `refused`.
    pub(crate) fn admit(
        &mut self,
        batch: &mut Vec<Packet>,
        sink: &Arc<dyn SendSink>,
        refused: &mut Vec<Ended>,
    ) {
        let mut packets = core::mem::take(batch).into_iter();
        while let Some(packet) = packets.as_slice().first() {
            let is_good = is_encodable(packet) && packet.segments.len() <= self.max_segments;
            if is_good && self.free.is_empty() {
                break;
            }
            let (Some(packet), sink, order) = (packets.next(), sink.clone(), self.next_order)
            else {
                break;
            };
            let flight = Flight { packet, sink, order, is_sent: false };
            if !is_good {
                self.counts.send_errors += 1;
                refused.push(flight.end(Err(NicError::Invalid)));
                continue;
            }
            let Some(number) = self.free.pop() else { break };
            if let Some(slot) = self.sends.get_mut(number as usize) {
                slot.flight = Some(flight);
                self.waiting.push_back(number);
                self.next_order += 1;
            }
        }
        *batch = packets.collect();
    }

    /// Takes buffers to be lent. One with a number that is lent, or that is no number, is dropped.
    pub(crate) fn lend(&mut self, buffers: &mut Vec<ReceiveBuffer>) {
        for ReceiveBuffer { number, frame } in buffers.drain(..) {
            match self.buffers.get_mut(number as usize) {
                Some(slot) if slot.frame.is_none() => {
                    slot.frame = Some(frame);
                    self.lending.push_back(number);
                }
                _ => log::error!("buffer {number} cannot be lent"),
            }
        }
    }

    /// Returns whether nobody but the client itself has the buffer's frame. The loan to the driver's devices does not count.
    pub(crate) fn is_unused(&self, buffer: &ReceiveBuffer) -> bool {
        let slot = self.buffers.get(buffer.number as usize);
        let is_lent = slot.is_some_and(|slot| slot.lent == Some(buffer.frame.id()));
        let of_loan = u32::from(is_lent && self.runs.window.holds_loans());
        buffer.frame.references() == 1 + of_loan
    }

    /// Returns whether buffers are lent to the driver now. While it has enough they wait for further ones, because an entry for each
    /// would wake the driver for each.
    fn must_lend(&self) -> bool {
        let waiting = self.lending.len();
        waiting >= BUFFERS || self.lent < LENT_SHARE * waiting
    }

    /// Lends the frames of some buffers and returns the entry for them; `None` if a frame could not be lent.
    fn lend_some(&mut self) -> Option<ForthEntry> {
        let mut said = [BufferEntry::default(); BUFFERS];
        self.loans.clear();
        self.returns.clear();
        let mut count = 0;
        for (entry, number) in said.iter_mut().zip(&self.lending) {
            let Some(slot) = self.buffers.get_mut(*number as usize) else { break };
            let Some((frame, known)) = slot.frame.as_ref().map(|it| (it.id(), it.partner_id()))
            else {
                break;
            };
            if slot.lent != Some(frame) {
                let before = slot.lent.take();
                self.returns.extend(before.map(|frame| Loan { frame, is_written: true }));
                self.loans.push(Loan { frame, is_written: true });
            }
            *entry = BufferEntry { number: *number, frame: known.0 };
            count += 1;
        }
        if !self.returns.is_empty() {
            self.runs.window.take_back(&self.returns);
        }
        if !self.loans.is_empty() {
            self.runs.window.lend(&self.loans).ok()?;
        }
        self.lent += count;
        for number in self.lending.drain(..count) {
            if let Some(slot) = self.buffers.get_mut(number as usize) {
                slot.is_sent = true;
                slot.lent = slot.frame.as_ref().map(Frame::id);
            }
        }
        Some(ForthEntry::of_buffers(said.get(..count)?))
    }

    /// Returns whether packets or buffers wait to be sent.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.waiting.is_empty() || !self.lending.is_empty()
    }

    /// Returns whether [`Flights::send`] must be tried again although no news come.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused && self.has_unsent()
    }

    /// Returns the order and the tag of the oldest packet at the driver.
    pub(crate) fn oldest(&self) -> Option<(u64, u64)> {
        let order_and_tag = |(number, slot): (u64, &SendSlot)| {
            let flight = slot.flight.as_ref().filter(|flight| flight.is_sent)?;
            Some((flight.order, u64::from(slot.generation) << 32 | number))
        };
        (0..).zip(&self.sends).filter_map(order_and_tag).min()
    }

    /// Number of the next packet in the order of all packets.
    pub(crate) fn next_order(&self) -> u64 {
        self.next_order
    }

    /// Takes the driver's entries, up to a batch. Returns whether there are none any more, and the wait for more is announced.
    ///
    /// # Errors
    /// [`Corrupt`]: the driver lies. What came before is in `news`.
    pub(crate) fn take(&mut self, news: &mut News) -> Result<bool, Corrupt> {
        let waiting = (self.received.waiting()? as usize).min(BATCH);
        for _ in 0..waiting {
            let Some((entry, _)) = self.received.pop()? else { break };
            match entry.kind {
                entries::SENT => news.ended.extend(self.end(&entry)?),
                entries::PIECE => news.received.extend(self.take_piece(&entry)?),
                entries::LINK => {
                    news.link = Some(match entry.result {
                        0 => LinkState::Down,
                        1 => LinkState::Up,
                        _ => return Err(Corrupt),
                    });
                }
                entries::ANNOUNCE => news.has_announcement = true,
                _ => return Err(Corrupt),
            }
        }
        if waiting < BATCH { self.received.wait_begins() } else { Ok(false) }
    }

    /// Ends the packet that an entry is about. Its frames must be taken back then. A driver that stops did not send its last
    /// packets: `None` for these, which are kept for its successor. If it lives on, it denies that it has them and is ended
    /// ([`crate::overdue`]).
    fn end(&mut self, entry: &BackEntry) -> Result<Option<Ended>, Corrupt> {
        let result = entry.result().ok_or(Corrupt)?;
        let number = entry.tag as u32;
        let slot = self.sends.get_mut(number as usize).ok_or(Corrupt)?;
        let is_ours = u64::from(slot.generation) == entry.tag >> 32;
        let is_at_driver = |flight: &mut Flight| flight.is_sent && is_ours;
        if result == Err(NicError::Restarted) {
            let is_kept = slot.flight.as_mut().is_some_and(is_at_driver);
            return if is_kept { Ok(None) } else { Err(Corrupt) };
        }
        let flight = slot.flight.take_if(is_at_driver).ok_or(Corrupt)?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(number);
        match result {
            Ok(()) => {
                self.counts.sent_packets += 1;
                self.counts.sent_bytes += flight.packet.bytes() as u64;
            }
            Err(_) => self.counts.send_errors += 1,
        }
        Ok(Some(flight.end(result)))
    }

    /// Takes a piece of a packet. Returns the packet if it is whole.
    fn take_piece(&mut self, entry: &BackEntry) -> Result<Option<Received>, Corrupt> {
        let piece = self.piece(entry)?;
        let bytes = piece.bytes();
        let (checksum, segmentation) = entry.meaning().ok_or(Corrupt)?;
        let partial = match &mut self.partial {
            Some(partial) => {
                partial.packet.more.push(piece);
                partial.bytes += bytes;
                partial
            }
            none => {
                let more = Vec::new();
                let packet = Received { first: piece, more, checksum, segmentation };
                none.insert(PartialPacket { packet, bytes })
            }
        };
        if bytes == 0 || partial.bytes > RECEIVED_MAX {
            return Err(Corrupt);
        }
        if entry.flags & entries::MORE != 0 {
            return Ok(None);
        }
        let mut partial = self.partial.take().ok_or(Corrupt)?;
        let is_inside = match partial.packet.checksum {
            ChecksumState::Partial(checksum) => checksum.is_inside(partial.bytes),
            ChecksumState::Valid | ChecksumState::Unknown => true,
        };
        let is_agreed = partial.packet.segmentation.is_none_or(|one| self.is_agreed(&one));
        if partial.bytes < PACKET_MIN || !is_inside || !is_agreed {
            return Err(Corrupt);
        }
        if let Some(segmentation) = &mut partial.packet.segmentation {
            let longest = partial.bytes.min(u16::MAX.into()) as u16;
            segmentation.header_length = segmentation.header_length.min(longest);
        }
        self.counts.received_packets += 1;
        self.counts.received_bytes += partial.bytes as u64;
        Ok(Some(partial.packet))
    }

    /// Returns whether the device may have merged a packet so.
    fn is_agreed(&self, segmentation: &Segmentation) -> bool {
        let needed = match segmentation.kind {
            SegmentationKind::Tcp4 => Offloads::RECEIVE_TCP4,
            SegmentationKind::Tcp6 => Offloads::RECEIVE_TCP6,
            SegmentationKind::Udp => Offloads::RECEIVE_UDP,
        };
        segmentation.size > 0 && self.offloads.contains(needed)
    }

    /// Takes the buffer of a piece from the driver, and writes its lead into the frame.
    fn piece(&mut self, entry: &BackEntry) -> Result<ReceivedPiece, Corrupt> {
        let number = u32::try_from(entry.tag).map_err(|_| Corrupt)?;
        let lead = entry.lead.get(..entry.lead_length.into()).ok_or(Corrupt)?;
        let end = usize::from(entry.offset) + usize::from(entry.length);
        let slot = self.buffers.get_mut(number as usize).filter(|slot| slot.is_sent);
        let slot = slot.ok_or(Corrupt)?;
        if end > PAGE_BYTES || lead.len() > entry.offset.into() {
            return Err(Corrupt);
        }
        slot.is_sent = false;
        self.lent = self.lent.saturating_sub(1);
        let buffer = ReceiveBuffer { number, frame: slot.frame.take().ok_or(Corrupt)? };
        let lead = Lead::new(lead).ok_or(Corrupt)?;
        let mut piece = ReceivedPiece { buffer, offset: entry.offset, length: entry.length, lead };
        piece.settle();
        Ok(piece)
    }

    /// Takes everything back from a driver that cannot touch it any more: all frames, and the buffers of a packet of which some
    /// pieces came.
    fn take_all_back(&mut self) {
        let window = self.runs.window.clone();
        for flight in self.sends.iter_mut().filter_map(|slot| slot.flight.as_mut()) {
            if core::mem::take(&mut flight.is_sent) {
                self.loans.clear();
                self.loans.extend(flight.loans());
                window.take_back(&self.loans);
            }
        }
        if let Some(partial) = self.partial.take() {
            for ReceiveBuffer { number, frame } in partial.packet.into_buffers() {
                if let Some(slot) = self.buffers.get_mut(number as usize) {
                    slot.frame = Some(frame);
                    self.lending.push_back(number);
                }
            }
        }
        self.lent = 0;
        for (number, slot) in (0..).zip(&mut self.buffers) {
            if let Some(frame) = slot.lent.take() {
                window.take_back(&[Loan { frame, is_written: true }]);
            }
            if core::mem::take(&mut slot.is_sent) {
                self.lending.push_back(number);
            }
        }
    }

    /// Ends every packet with `error`, and drops all buffers.
    pub(crate) fn give_up(&mut self, error: NicError) -> Vec<Ended> {
        self.take_all_back();
        self.waiting.clear();
        self.lending.clear();
        self.buffers.iter_mut().for_each(|slot| slot.frame = None);
        let mut ended = Vec::new();
        for (number, slot) in (0..).zip(&mut self.sends) {
            if let Some(flight) = slot.flight.take() {
                slot.generation = slot.generation.wrapping_add(1);
                self.free.push(number);
                ended.push(flight.end(Err(error)));
            }
        }
        self.counts.send_errors += ended.len() as u64;
        ended
    }
}

/// Takes back the frames of `ended` that were lent to `window`. This is expensive, because the hardware must flush its cached
/// entries; call it without locks.
pub(crate) fn give_back(window: &DmaWindow, ended: &[Ended]) {
    let all: Vec<Loan> = ended.iter().flat_map(|ended| loans(&ended.sent.segments)).collect();
    if !all.is_empty() {
        window.take_back(&all);
    }
}

impl core::fmt::Debug for Flights {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Flights").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}
