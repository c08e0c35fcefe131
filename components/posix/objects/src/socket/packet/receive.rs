//! [`FrameReceiver`]: the frames that a socket received, in a queue or in the ring of its program.
use super::{
    address::LinkAddress,
    ring::{CutFrames, Placed, ReceiveRing},
    zeroes,
};
use crate::socket::{common::RECEIVE_DEFAULT, interface::SocketKind, internet::errno};
use alloc::{boxed::Box, collections::VecDeque, sync::Arc};
use bpf::{PacketBytes, PacketFacts};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use interfaces::sockets::{
    FilterSlot, FrameChecksum, FrameTap, SeenFrame, SocketError, packet_kind,
};
use rt::{lock_class, sync::Mutex};
use vfs::{Errno, poll::WaitQueue};

lock_class! {
    static RECEIVED = "packet.received";
}

/// Memory of a queued frame beside its bytes, as it is charged to the socket, in bytes.
const OVERHEAD: usize = 512;

/// Bits of a frame's state for programs (`TP_STATUS_*`).
pub(super) mod status {
    /// The program may read it.
    pub(in crate::socket::packet) const USER: u32 = 1;
    /// A copy of the whole frame is in the queue.
    pub(in crate::socket::packet) const COPY: u32 = 1 << 1;
    /// Frames were lost.
    pub(in crate::socket::packet) const LOSING: u32 = 1 << 2;
    /// The transport's checksum is not written yet.
    pub(in crate::socket::packet) const CHECKSUM_NOT_READY: u32 = 1 << 3;
    /// The card has verified the transport's checksum.
    pub(in crate::socket::packet) const CHECKSUM_VALID: u32 = 1 << 7;
}

/// The properties of a received frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameInfo {
    /// The sender.
    pub(super) from: LinkAddress,
    /// Bytes of the frame, of which the socket got a part.
    pub(super) length: usize,
    /// Bytes of the link's header before the network's.
    pub(super) link_length: usize,
    /// `TP_STATUS_*` of the checksum.
    pub(super) status: u32,
    /// Wall-clock time of arrival, in nanoseconds.
    pub(super) at_ns: u64,
}

/// A frame in the queue.
#[derive(Clone)]
pub(super) struct QueuedFrame {
    pub(super) info: FrameInfo,
    pub(super) bytes: Arc<[u8]>,
    /// Frames that were lost before this one.
    pub(super) dropped: u32,
}

impl QueuedFrame {
    fn charge(&self) -> usize {
        self.bytes.len().saturating_add(OVERHEAD)
    }
}

/// Counts since they were asked for (PACKET_STATISTICS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FrameCounts {
    pub(super) seen: u32,
    pub(super) dropped: u32,
    /// The number of times that no block of a ring was free.
    pub(super) frozen: u32,
}

/// The room of a receiver for one more frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameRoom {
    /// None.
    Full,
    /// A quarter of all or less stays.
    Low,
    /// More.
    Normal,
}

/// The part of a receiver that its lock guards.
pub(super) struct ReceivedPart {
    queue: VecDeque<QueuedFrame>,
    charged: usize,
    error: Option<Errno>,
    pub(super) counts: FrameCounts,
    pub(super) ring: Option<Box<ReceiveRing>>,
    dropped: u32,
}

/// Options that a frame depends on.
pub(super) mod option_bit {
    /// PACKET_AUXDATA.
    pub(in crate::socket::packet) const AUXDATA: u32 = 1;
    /// PACKET_ORIGDEV.
    pub(in crate::socket::packet) const ORIGINAL: u32 = 2;
    /// PACKET_IGNORE_OUTGOING.
    pub(in crate::socket::packet) const IGNORE_SENT: u32 = 4;
    /// PACKET_LOSS.
    pub(in crate::socket::packet) const LOSS: u32 = 8;
    /// PACKET_TX_HAS_OFF.
    pub(in crate::socket::packet) const HAS_OFFSET: u32 = 16;
    /// PACKET_QDISC_BYPASS.
    pub(in crate::socket::packet) const BYPASS: u32 = 32;
}

/// The side of a socket that the stack fills.
pub(super) struct FrameReceiver {
    kind: SocketKind,
    /// Woken when a frame or an error came.
    pub(super) arrived: WaitQueue,
    pub(super) filter: FilterSlot,
    pub(super) options: AtomicU32,
    /// PACKET_COPY_THRESH.
    pub(super) copy_threshold: AtomicU32,
    limit: AtomicUsize,
    pub(super) state: Mutex<ReceivedPart>,
}

/// A frame as a program sees it: without its first bytes, which are the header of the link for SOCK_DGRAM.
pub(super) struct FilteredFrame<'f> {
    pub(super) bytes: &'f dyn PacketBytes,
    pub(super) skip: usize,
}

/// Returns the properties of a frame of which a program does not see the first `skip` bytes.
pub(super) fn facts_of(frame: &SeenFrame<'_>, skip: usize) -> PacketFacts {
    PacketFacts {
        protocol: frame.protocol,
        kind: frame.kind,
        interface: Some((frame.interface, frame.hardware)),
        network: (frame.link_length as i32).wrapping_sub(skip as i32),
        link: Some((skip as i32).wrapping_neg()),
        ..PacketFacts::default()
    }
}

impl PacketBytes for FilteredFrame<'_> {
    fn length(&self) -> usize {
        self.bytes.length().saturating_sub(self.skip)
    }
    fn read(&self, offset: i64, out: &mut [u8]) -> bool {
        let at = i64::try_from(self.skip).ok().and_then(|skip| skip.checked_add(offset));
        at.is_some_and(|at| self.bytes.read(at, out))
    }
}

impl FrameReceiver {
    pub(super) fn new(kind: SocketKind) -> Arc<FrameReceiver> {
        Arc::new(FrameReceiver {
            kind,
            arrived: WaitQueue::new(),
            filter: FilterSlot::default(),
            options: AtomicU32::new(0),
            copy_threshold: AtomicU32::new(0),
            limit: AtomicUsize::new(RECEIVE_DEFAULT.size()),
            state: Mutex::new(
                &RECEIVED,
                ReceivedPart {
                    queue: VecDeque::new(),
                    charged: 0,
                    error: None,
                    counts: FrameCounts::default(),
                    ring: None,
                    dropped: 0,
                },
            ),
        })
    }
    pub(super) fn is_on(&self, bit: u32) -> bool {
        self.options.load(Ordering::Relaxed) & bit != 0
    }
    /// Returns the room for one more frame of some bytes (`__packet_rcv_has_room`).
    pub(super) fn room(&self, length: usize) -> FrameRoom {
        let state = self.state.lock();
        if let Some(ring) = &state.ring {
            return ring.room();
        }
        let (limit, charge) = (self.limit(), length.saturating_add(OVERHEAD));
        match limit.saturating_sub(state.charged).saturating_sub(charge) {
            0 => FrameRoom::Full,
            left if left > limit / 4 => FrameRoom::Normal,
            _ => FrameRoom::Low,
        }
    }
    /// Returns the bytes from which on frames that a ring cuts are queued (PACKET_COPY_THRESH).
    pub(super) fn copy_threshold(&self) -> u32 {
        self.copy_threshold.load(Ordering::Relaxed)
    }
    /// Returns the memory of queued frames in bytes, and the number of frames that were lost.
    pub(super) fn usage(&self) -> (usize, u32) {
        let state = self.state.lock();
        (state.charged, state.dropped)
    }
    pub(super) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }
    pub(super) fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
    }
    /// Takes the first frame; before it, once, the error.
    pub(super) fn take(&self) -> Result<Option<QueuedFrame>, Errno> {
        let mut state = self.state.lock();
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        let Some(frame) = state.queue.pop_front() else { return Ok(None) };
        state.charged = state.charged.saturating_sub(frame.charge());
        Ok(Some(frame))
    }
    /// Returns the first frame, and leaves it in the queue.
    pub(super) fn peek(&self) -> Result<Option<QueuedFrame>, Errno> {
        let mut state = self.state.lock();
        match state.error.take() {
            Some(error) => Err(error),
            None => Ok(state.queue.front().cloned()),
        }
    }
    /// Returns and clears the error.
    pub(super) fn take_error(&self) -> Option<Errno> {
        self.state.lock().error.take()
    }
    /// Returns the length of the first frame.
    pub(super) fn first_length(&self) -> Option<usize> {
        self.state.lock().queue.front().map(|frame| frame.bytes.len())
    }
    /// Returns whether there is a frame to read, in the queue or in the ring, and whether there is an error.
    pub(super) fn readiness(&self) -> (bool, bool) {
        let mut state = self.state.lock();
        let in_ring = state.ring.as_mut().is_some_and(|ring| ring.is_ready());
        (in_ring || !state.queue.is_empty(), state.error.is_some())
    }
    /// Returns the counts since the last call.
    pub(super) fn take_counts(&self) -> FrameCounts {
        core::mem::take(&mut self.state.lock().counts)
    }
    /// Drops all frames, and the ring.
    pub(super) fn clear(&self) {
        let mut state = self.state.lock();
        let (queue, ring) = (core::mem::take(&mut state.queue), state.ring.take());
        state.charged = 0;
        drop(state);
        drop((queue, ring));
    }
    /// Keeps `kept` bytes of a frame from `skip` on. Returns whether the program has something to read then.
    fn keep(&self, frame: &SeenFrame<'_>, info: FrameInfo, (skip, kept): (usize, usize)) -> bool {
        let mut state = self.state.lock();
        state.counts.seen = state.counts.seen.wrapping_add(1);
        let has_room = state.charged < self.limit();
        if let Some(mut ring) = state.ring.take() {
            let cut = match has_room && self.copy_threshold.load(Ordering::Relaxed) > 0 {
                true => CutFrames::Queued,
                false => CutFrames::Lost,
            };
            let info = FrameInfo {
                status: info.status | if state.counts.dropped > 0 { status::LOSING } else { 0 },
                ..info
            };
            let placed = ring.put(frame.bytes, &info, (skip, kept), cut);
            state.ring = Some(ring);
            match placed {
                Placed::Whole => return true,
                Placed::Cut if cut == CutFrames::Queued => {}
                Placed::Cut => return true,
                Placed::Full { is_first } => {
                    state.counts.frozen = state.counts.frozen.wrapping_add(u32::from(is_first));
                    state.lose();
                    return false;
                }
            }
        }
        let room = if has_room { zeroes(kept).ok() } else { None };
        let copied =
            room.and_then(|mut room| frame.bytes.read(skip as i64, &mut room).then_some(room));
        let Some(bytes) = copied else {
            state.lose();
            return false;
        };
        let frame = QueuedFrame { info, bytes: bytes.into(), dropped: state.dropped };
        state.charged = state.charged.saturating_add(frame.charge());
        state.queue.push_back(frame);
        true
    }
}

impl ReceivedPart {
    fn lose(&mut self) {
        self.counts.dropped = self.counts.dropped.wrapping_add(1);
        self.dropped = self.dropped.wrapping_add(1);
    }
}

impl FrameReceiver {
    /// Takes a frame, if the filter leaves something of it.
    pub(super) fn accept(&self, frame: &SeenFrame<'_>) {
        let skip = if self.kind == SocketKind::Datagram { frame.link_length } else { 0 };
        let seen = FilteredFrame { bytes: frame.bytes, skip };
        let length = seen.length();
        let program = self.filter.get();
        let kept =
            program.map_or(Some(length), |program| program.admit(&seen, &facts_of(frame, skip)));
        let Some(kept) = kept else { return };
        let of_checksum = match frame.checksum {
            FrameChecksum::Partial => status::CHECKSUM_NOT_READY,
            FrameChecksum::Verified if frame.kind != packet_kind::OUTGOING => {
                status::CHECKSUM_VALID
            }
            _ => 0,
        };
        let mut from = LinkAddress {
            interface: frame.interface,
            protocol: frame.protocol,
            hardware: frame.hardware,
            kind: frame.kind,
            length: if frame.link_length == 0 { 0 } else { frame.source.len() as u8 },
            bytes: [0; 8],
        };
        from.set_bytes(&frame.source);
        let info = FrameInfo {
            from,
            length,
            link_length: frame.link_length - skip,
            status: status::USER | of_checksum,
            at_ns: frame.at_ns,
        };
        if self.keep(frame, info, (skip, kept)) {
            self.arrived.wake();
        }
    }
}

impl FrameTap for FrameReceiver {
    fn see(&self, frame: &SeenFrame<'_>) {
        if frame.kind != packet_kind::OUTGOING || !self.is_on(option_bit::IGNORE_SENT) {
            self.accept(frame);
        }
    }
    fn failed(&self, error: SocketError) {
        self.state.lock().error = Some(errno(error));
        self.arrived.wake();
    }
}
