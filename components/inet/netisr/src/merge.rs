//! [`Merger`]: segments of TCP that follow each other in a batch become one, as of a card that merges them (Linux: GRO).
//!
//! Of bare acknowledgements of a flow that follow each other, the last stands for those before it that acknowledge less: they would
//! tell the connection nothing else, and a network may lose them (RFC 3449, section 5.2.1; Linux: the filter of CAKE). The first of a
//! batch always stays, since it may repeat one of an earlier batch: only those that are known to acknowledge more than another go, so
//! that none is lost that counts as a duplicate. While somebody watches segments, all stay.
//!
//! The headers of the first segment are copied, and say at the end what the whole is. The payload stays in its frames. A merged
//! segment has the pseudo header's sum in place of its checksum, as on Linux. A segment that is alone in its batch is not summed here.
use crate::{
    copies::Copies,
    segment::{ReceivedSegment, Seen},
};
use alloc::vec::Vec;
use inet::{Buffer, BufferChain, ReceivedFrame, TransportChecksum};
use interfaces::nic::PacketSegment;

/// Flows that are merged side by side (Linux: MAX_GRO_SKBS).
const FLOWS: usize = 8;

/// A packet that came, from its Ethernet header on.
pub struct ArrivedPacket<'p> {
    /// Its pieces in order, which are taken.
    pub pieces: &'p mut Vec<PacketSegment>,
    /// The state of its checksum.
    pub checksum: TransportChecksum,
    /// Payload bytes of each segment, if the card merged it of several.
    pub segment: Option<u16>,
    /// The buffers of a short packet are to be lent again at once.
    pub is_short: bool,
}

impl ArrivedPacket<'_> {
    /// Moves a short packet out of its buffers. Returns whether that was possible, if it had to be.
    fn leave_buffers(&mut self, copies: &mut Copies) -> bool {
        if !self.is_short {
            return true;
        }
        let copy = copies.copy(self.pieces);
        self.pieces.clear();
        self.pieces.extend(copy);
        !self.pieces.is_empty()
    }
    fn frame(&mut self) -> ReceivedFrame {
        let pieces = self.pieces.drain(..).collect();
        self.frame_of(pieces)
    }
    fn frame_of(&self, pieces: Vec<PacketSegment>) -> ReceivedFrame {
        let payload = BufferChain::from_pieces(pieces);
        ReceivedFrame { payload, checksum: self.checksum, segment: self.segment, acks: 0 }
    }
}

/// A flow, and the frame to which its next segment can be joined.
struct OpenFlow {
    /// The first segment of data, or the last acknowledgement.
    first: ReceivedSegment,
    /// Place of the frame in the list.
    place: usize,
    /// Sequence number behind the frame.
    next: u32,
    /// Payload bytes of the frame.
    length: usize,
    /// The copy of the headers, if others were joined to the first, or of an acknowledgement.
    headers: Option<PacketSegment>,
    has_push: bool,
}

/// The outcome of a try to join a segment.
enum Joining {
    /// Its pieces were taken.
    Joined,
    /// It does not continue the flow, but others may continue it.
    Restart,
    /// It is damaged, or there is no memory.
    Refused,
}

impl OpenFlow {
    fn new(first: ReceivedSegment, place: usize) -> OpenFlow {
        OpenFlow {
            place,
            next: first.end(),
            length: first.length(),
            headers: None,
            has_push: first.has_push(),
            first,
        }
    }
    /// Returns whether `segment` follows, and the whole would be one that a card may make.
    fn continues(&self, segment: &ReceivedSegment) -> bool {
        segment.sequence() == self.next
            && segment.length() <= self.first.length()
            && self.first.is_like(segment)
            && self.first.can_have(self.length.saturating_add(segment.length()))
    }
    fn join(
        &mut self,
        frame: &mut ReceivedFrame,
        copies: &mut Copies,
        (segment, packet): (&ReceivedSegment, &mut ArrivedPacket<'_>),
    ) -> Joining {
        if !self.continues(segment) {
            return Joining::Restart;
        }
        let is_good =
            |one: &ReceivedSegment, checksum: TransportChecksum, pieces: &[PacketSegment]| {
                checksum.is_good() || one.is_intact(pieces)
            };
        if !is_good(&self.first, frame.checksum, frame.payload.pieces()) {
            return Joining::Restart;
        }
        if !is_good(segment, packet.checksum, packet.pieces) {
            return Joining::Refused;
        }
        if self.headers.is_none() {
            let Some(headers) = copies.copy_of(self.first.headers()) else {
                return Joining::Refused;
            };
            let mut payload = BufferChain::default();
            payload.push(headers.clone());
            let pieces = core::mem::take(&mut frame.payload).into_pieces();
            append(&mut payload, pieces.into_iter(), self.first.headers().len());
            (frame.payload, self.headers) = (payload, Some(headers));
            frame.checksum = TransportChecksum::Partial;
            frame.segment = u16::try_from(self.first.length()).ok();
        }
        append(&mut frame.payload, packet.pieces.drain(..), segment.headers().len());
        self.next = segment.end();
        self.length += segment.length();
        self.has_push |= segment.has_push();
        Joining::Joined
    }
    /// Takes an acknowledgement of more than the last one. Returns whether there was memory for it.
    fn stand_for(
        &mut self,
        frames: &mut Vec<ReceivedFrame>,
        copies: &mut Copies,
        (segment, packet): (&ReceivedSegment, &ArrivedPacket<'_>),
    ) -> bool {
        match (&self.headers, frames.get_mut(self.place)) {
            (Some(_), Some(frame)) => frame.acks = frame.acks.saturating_add(1),
            _ => {
                let Some(copy) = copies.copy_of(segment.headers()) else { return false };
                self.place = frames.len();
                frames.push(packet.frame_of(alloc::vec![copy.clone()]));
                self.headers = Some(copy);
            }
        }
        self.first.clone_from(segment);
        true
    }
    /// Returns whether segments may follow on `last`, which was joined: the sender had more to send.
    fn can_go_on(&self, last: &ReceivedSegment) -> bool {
        last.length() == self.first.length() && !last.has_push()
    }
    /// Writes the headers of the whole, if there are others than the first segment, or of the last acknowledgement.
    fn complete(mut self) {
        if let Some(copy) = self.headers {
            if !self.first.is_acknowledgement() {
                self.first.describe(self.length);
            }
            if self.has_push {
                self.first.push();
            }
            copy.frame.write(copy.offset as usize, self.first.headers());
        }
    }
}

/// Appends `pieces` without their first `skipped` bytes.
fn append(
    chain: &mut BufferChain<PacketSegment>,
    pieces: impl Iterator<Item = PacketSegment>,
    mut skipped: usize,
) {
    for piece in pieces {
        let of_piece = skipped.min(piece.length());
        skipped -= of_piece;
        let (cut, PacketSegment { frame, offset, length }) = (of_piece as u32, piece);
        chain.push(PacketSegment { frame, offset: offset + cut, length: length - cut });
    }
}

/// The flows of a batch whose segments may go on.
pub struct Merger {
    flows: Vec<OpenFlow>,
    /// The headers of the packet at hand.
    seen: ReceivedSegment,
    /// Somebody watches segments: all acknowledgements stay.
    is_watched: bool,
}

impl Default for Merger {
    fn default() -> Merger {
        let flows = Vec::with_capacity(FLOWS);
        Merger { flows, seen: ReceivedSegment::new(), is_watched: false }
    }
}

impl Merger {
    /// Begins a batch, which somebody may watch.
    pub fn begin(&mut self, is_watched: bool) {
        self.is_watched = is_watched;
    }
    /// Joins a packet to its flow's frame in `frames`, or appends it there. The headers of `frames` are whole after [`Merger::finish`].
    /// Returns whether there was memory for it.
    pub fn take(
        &mut self,
        frames: &mut Vec<ReceivedFrame>,
        copies: &mut Copies,
        mut packet: ArrivedPacket<'_>,
    ) -> bool {
        let last = self.flows.last().map(|flow| &flow.first);
        let seen = self.seen.look(packet.pieces, last);
        let is_acknowledgement = seen == Seen::Flow && self.seen.is_acknowledgement();
        if is_acknowledgement && self.acknowledge(frames, copies, &packet) {
            packet.pieces.clear();
            return true;
        }
        if !packet.leave_buffers(copies) {
            return false;
        }
        match seen {
            Seen::Unclear => self.finish(),
            Seen::Flow if !is_acknowledgement => match self.join(frames, copies, &mut packet) {
                Joining::Joined => return true,
                Joining::Restart => self.start(frames.len()),
                Joining::Refused => {}
            },
            _ => {}
        }
        frames.push(packet.frame());
        true
    }
    /// Takes the acknowledgement at hand if it acknowledges more than the last one of its flow in this batch: in the place of that, if
    /// that did so as well, or behind it. Returns whether it did.
    fn acknowledge(
        &mut self,
        frames: &mut Vec<ReceivedFrame>,
        copies: &mut Copies,
        packet: &ArrivedPacket<'_>,
    ) -> bool {
        let is_good =
            !self.is_watched && (packet.checksum.is_good() || self.seen.is_intact(packet.pieces));
        if let Some(place) = self.position() {
            if is_good
                && let Some(flow) = self.flows.get_mut(place)
                && self.seen.acknowledges_more(&flow.first)
                && flow.stand_for(frames, copies, (&self.seen, packet))
            {
                return true;
            }
            self.flows.remove(place).complete();
        }
        if is_good {
            self.start(frames.len());
        }
        false
    }
    /// Returns the place of the flow of the packet at hand.
    fn position(&self) -> Option<usize> {
        self.flows.iter().position(|flow| flow.first.is_of_flow(&self.seen))
    }
    fn join(
        &mut self,
        frames: &mut [ReceivedFrame],
        copies: &mut Copies,
        packet: &mut ArrivedPacket<'_>,
    ) -> Joining {
        let can_merge = self.seen.can_merge() && packet.segment.is_none();
        let unjoined = if can_merge { Joining::Restart } else { Joining::Refused };
        let Some(place) = self.position() else {
            return unjoined;
        };
        let mut joining = unjoined;
        let mut goes_on = false;
        if can_merge
            && let Some(flow) = self.flows.get_mut(place)
            && let Some(frame) = frames.get_mut(flow.place)
        {
            joining = flow.join(frame, copies, (&self.seen, packet));
            goes_on = matches!(joining, Joining::Joined) && flow.can_go_on(&self.seen);
        }
        if !goes_on {
            self.flows.remove(place).complete();
        }
        joining
    }
    /// Opens a flow whose first segment, the packet at hand, gets `place` in the list of frames.
    fn start(&mut self, place: usize) {
        if self.flows.len() >= FLOWS {
            self.flows.remove(0).complete();
        }
        self.flows.push(OpenFlow::new(self.seen.clone(), place));
    }
    /// Ends all merges.
    pub fn finish(&mut self) {
        self.flows.drain(..).for_each(OpenFlow::complete);
    }
}
