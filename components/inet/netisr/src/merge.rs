//! [`Merger`]: segments of TCP that follow each other in a batch become one, as of a card that merges them (Linux: GRO).
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
}

impl ArrivedPacket<'_> {
    fn into_frame(self) -> ReceivedFrame {
        let payload = BufferChain::from_pieces(self.pieces.drain(..).collect());
        ReceivedFrame { payload, checksum: self.checksum, segment: self.segment }
    }
}

/// A flow, and the frame to which its next segment can be joined.
struct OpenFlow {
    /// The first segment.
    first: ReceivedSegment,
    /// Place of the frame in the list.
    place: usize,
    /// Sequence number behind the frame.
    next: u32,
    /// Payload bytes of the frame.
    length: usize,
    /// The copy of the headers, if others were joined to the first.
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
    /// Returns whether segments may follow on `last`, which was joined: the sender had more to send.
    fn can_go_on(&self, last: &ReceivedSegment) -> bool {
        last.length() == self.first.length() && !last.has_push()
    }
    /// Writes the headers of the whole, if there are others than the first segment.
    fn complete(mut self) {
        if let Some(copy) = self.headers {
            self.first.describe(self.length);
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
}

impl Default for Merger {
    fn default() -> Merger {
        Merger { flows: Vec::with_capacity(FLOWS) }
    }
}

impl Merger {
    /// Joins a packet to its flow's frame in `frames`, or appends it there. The headers of `frames` are whole after [`Merger::finish`].
    pub fn take(
        &mut self,
        frames: &mut Vec<ReceivedFrame>,
        copies: &mut Copies,
        mut packet: ArrivedPacket<'_>,
    ) {
        match ReceivedSegment::look(packet.pieces) {
            Seen::Other => {}
            Seen::Unclear => self.finish(),
            Seen::Flow(segment) => match self.join(frames, copies, (&segment, &mut packet)) {
                Joining::Joined => return,
                Joining::Restart => self.start(segment, frames.len()),
                Joining::Refused => {}
            },
        }
        frames.push(packet.into_frame());
    }
    fn join(
        &mut self,
        frames: &mut [ReceivedFrame],
        copies: &mut Copies,
        (segment, packet): (&ReceivedSegment, &mut ArrivedPacket<'_>),
    ) -> Joining {
        let can_merge = segment.can_merge() && packet.segment.is_none();
        let unjoined = if can_merge { Joining::Restart } else { Joining::Refused };
        let Some(place) = self.flows.iter().position(|flow| flow.first.is_of_flow(segment)) else {
            return unjoined;
        };
        let mut joining = unjoined;
        let mut goes_on = false;
        if can_merge
            && let Some(flow) = self.flows.get_mut(place)
            && let Some(frame) = frames.get_mut(flow.place)
        {
            joining = flow.join(frame, copies, (segment, packet));
            goes_on = matches!(joining, Joining::Joined) && flow.can_go_on(segment);
        }
        if !goes_on {
            self.flows.remove(place).complete();
        }
        joining
    }
    /// Opens a flow whose first segment gets `place` in the list of frames.
    fn start(&mut self, first: ReceivedSegment, place: usize) {
        if self.flows.len() >= FLOWS {
            self.flows.remove(0).complete();
        }
        self.flows.push(OpenFlow::new(first, place));
    }
    /// Ends all merges.
    pub fn finish(&mut self) {
        self.flows.drain(..).for_each(OpenFlow::complete);
    }
}
