//! [`Handed`]: frames that the stack has in its hands until it says that it has dropped them.
//!
//! A packet whose frames a dead stack has neither dropped nor delivered is brought to its successor, once: a packet that ends
//! stacks ends two.
use crate::nic::{
    ChecksumState, Lead, PacketSegment, ReceiveBuffer, Received, ReceivedPiece, Segmentation,
};
use alloc::{collections::BTreeMap, vec::Vec};
use rt::{
    lock_class,
    memory::{Frame, FrameId},
    sync::Mutex,
};

lock_class! {
    static HANDED = "network.handed";
}

/// The number of stacks that a packet was brought to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// None.
    First,
    /// One, which has died.
    Again,
}

/// A packet of which a buffer holds a piece.
#[derive(Clone, Copy)]
struct PieceOf {
    /// Number of the packet, in the order of their coming.
    packet: u64,
    /// Place of the piece, and the number of pieces.
    place: [u32; 2],
    offset: u16,
    length: u16,
    checksum: ChecksumState,
    segmentation: Option<Segmentation>,
    delivery: Delivery,
}

/// A buffer of a card.
struct LentBuffer {
    card: u32,
    number: u32,
    piece: PieceOf,
}

/// A frame in the stack's hands.
struct HandedFrame {
    frame: Frame,
    /// Times that it was handed.
    count: u32,
    /// The buffer that it is, if it is one.
    buffer: Option<LentBuffer>,
    /// A stream or a queue of the client has it, too.
    is_kept: bool,
}

/// A buffer of a card that came back.
pub(super) struct ReturnedBuffer {
    /// Number of the card.
    pub(super) card: u32,
    /// Number of the buffer.
    pub(super) number: u32,
    /// Its frame, if nobody else has that.
    pub(super) frame: Option<Frame>,
}

impl HandedFrame {
    fn returned(self) -> Option<ReturnedBuffer> {
        let LentBuffer { card, number, .. } = self.buffer?;
        Some(ReturnedBuffer { card, number, frame: (!self.is_kept).then_some(self.frame) })
    }
}

/// Everything that a dead stack had in its hands.
#[derive(Default)]
pub(super) struct Returned {
    /// Buffers to be lent again.
    pub(super) buffers: Vec<ReturnedBuffer>,
    /// Packets for the successor, each with the number of its card, in the order of their coming.
    pub(super) packets: Vec<(u32, Received)>,
}

#[derive(Default)]
struct HandedFrames {
    /// The frames by the numbers by which the stack knows them.
    frames: BTreeMap<FrameId, HandedFrame>,
    packets: u64,
    /// Stacks that everything was taken back from.
    dead: u64,
}

impl HandedFrames {
    /// Takes a frame back that was handed `count` times. Returns it after the last time.
    fn take_back(&mut self, id: FrameId, count: u32) -> Option<HandedFrame> {
        let handed = self.frames.get_mut(&id)?;
        handed.count = handed.count.saturating_sub(count);
        if handed.count > 0 { None } else { self.frames.remove(&id) }
    }
}

/// A payload whose frames were handed, for [`Handed::take_payload_back`].
pub(super) struct Handing {
    /// Stacks that everything had been taken back from before.
    dead: u64,
}

/// The frames in the stack's hands.
pub(super) struct Handed(Mutex<HandedFrames>);

impl Handed {
    pub(super) fn new() -> Handed {
        Handed(Mutex::new(&HANDED, HandedFrames::default()))
    }
    /// Hands the frames of a payload, one time for each of its parts.
    pub(super) fn hand(&self, segments: &[PacketSegment]) -> Handing {
        let mut all = self.0.lock();
        for PacketSegment { frame, .. } in segments {
            let made =
                || HandedFrame { frame: frame.clone(), count: 0, buffer: None, is_kept: true };
            all.frames.entry(frame.partner_id()).or_insert_with(made).count += 1;
        }
        Handing { dead: all.dead }
    }
    /// Takes the frames of a payload back that no stack has received, unless they were taken back from a dead stack since. Returns
    /// the buffers among them.
    pub(super) fn take_payload_back(
        &self,
        handing: &Handing,
        segments: &[PacketSegment],
    ) -> Vec<ReturnedBuffer> {
        let frames: Vec<HandedFrame> = {
            let mut all = self.0.lock();
            if all.dead != handing.dead {
                return Vec::new();
            }
            segments.iter().filter_map(|part| all.take_back(part.frame.partner_id(), 1)).collect()
        };
        frames.into_iter().filter_map(HandedFrame::returned).collect()
    }
    /// Hands the buffers of a packet, each once.
    pub(super) fn hand_packet(&self, card: u32, packet: Received, delivery: Delivery) {
        let mut all = self.0.lock();
        all.packets += 1;
        let (number, pieces) = (all.packets, packet.buffers() as u32);
        let Received { first, more, checksum, segmentation } = packet;
        for (place, piece) in (0..).zip(core::iter::once(first).chain(more)) {
            let ReceivedPiece { buffer, offset, length, .. } = piece;
            let place = [place, pieces];
            let piece =
                PieceOf { packet: number, place, offset, length, checksum, segmentation, delivery };
            let (id, frame) = (buffer.frame.partner_id(), buffer.frame);
            let buffer = Some(LentBuffer { card, number: buffer.number, piece });
            let handed = HandedFrame { frame, count: 1, buffer, is_kept: false };
            all.frames.insert(id, handed);
        }
    }
    /// Notes that the client's streams or queues have the frame, if it is handed.
    pub(super) fn keep(&self, id: FrameId) {
        if let Some(handed) = self.0.lock().frames.get_mut(&id) {
            handed.is_kept = true;
        }
    }
    /// Takes a frame back that was handed `count` times. Returns the buffer, if it is one.
    pub(super) fn take_back(&self, id: FrameId, count: u32) -> Option<ReturnedBuffer> {
        let handed = self.0.lock().take_back(id, count)?;
        handed.returned()
    }
    /// Takes everything back from a stack that has died.
    pub(super) fn take_all_back(&self) -> Returned {
        let all = {
            let mut all = self.0.lock();
            all.dead += 1;
            core::mem::take(&mut all.frames)
        };
        let mut lent: Vec<(PieceOf, HandedFrame)> = all
            .into_values()
            .filter_map(|handed| Some((handed.buffer.as_ref()?.piece, handed)))
            .collect();
        lent.sort_unstable_by_key(|(piece, _)| (piece.packet, piece.place));
        let mut returned = Returned::default();
        let mut rest = lent.into_iter().peekable();
        while let Some(first) = rest.next() {
            let packet = first.0.packet;
            let mut pieces = Vec::from([first]);
            while let Some(next) = rest.next_if(|(piece, _)| piece.packet == packet) {
                pieces.push(next);
            }
            returned.add(pieces);
        }
        returned
    }
}

impl Returned {
    /// Adds the buffers of a packet.
    fn add(&mut self, pieces: Vec<(PieceOf, HandedFrame)>) {
        let is_whole = pieces.iter().all(|(piece, handed)| {
            let [_, count] = piece.place;
            count as usize == pieces.len() && piece.delivery == Delivery::First && !handed.is_kept
        });
        if !is_whole {
            let buffers = pieces.into_iter().filter_map(|(_, handed)| handed.returned());
            return self.buffers.extend(buffers);
        }
        let mut packet: Option<(u32, Received)> = None;
        for (PieceOf { offset, length, checksum, segmentation, .. }, handed) in pieces {
            let Some(LentBuffer { card, number, .. }) = handed.buffer else { continue };
            let buffer = ReceiveBuffer { number, frame: handed.frame };
            let piece = ReceivedPiece { buffer, offset, length, lead: Lead::default() };
            match &mut packet {
                Some((_, packet)) => packet.more.push(piece),
                None => {
                    let more = Vec::new();
                    packet = Some((card, Received { first: piece, more, checksum, segmentation }));
                }
            }
        }
        self.packets.extend(packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    /// Returns a packet of buffers with these numbers.
    fn packet(numbers: &[u32]) -> Received {
        let mut pieces = numbers.iter().map(|number| {
            let buffer = ReceiveBuffer { number: *number, frame: Frame::zeroed().unwrap() };
            let (offset, length) = (16, *number as u16);
            ReceivedPiece { buffer, offset, length, lead: Lead::default() }
        });
        let first = pieces.next().unwrap();
        let more = pieces.collect();
        Received { first, more, checksum: ChecksumState::Valid, segmentation: None }
    }

    fn ids(packet: &Received) -> Vec<FrameId> {
        packet.pieces().map(|piece| piece.buffer.frame.partner_id()).collect()
    }

    fn numbers(returned: &Returned) -> Vec<(u32, Vec<u32>)> {
        let pieces = |packet: &Received| packet.pieces().map(|one| one.buffer.number).collect();
        returned.packets.iter().map(|(card, packet)| (*card, pieces(packet))).collect()
    }

    #[test]
    fn packets_in_the_hands_of_a_dead_stack_come_back_in_order() {
        let handed = Handed::new();
        for (card, buffers) in [(0, vec![9, 8, 7]), (1, vec![3]), (0, vec![5])] {
            handed.hand_packet(card, packet(&buffers), Delivery::First);
        }
        let returned = handed.take_all_back();
        assert_eq!(numbers(&returned), [(0, vec![9, 8, 7]), (1, vec![3]), (0, vec![5])]);
        assert!(returned.buffers.is_empty());
        let lengths: Vec<_> =
            returned.packets.iter().map(|(_, packet)| (packet.bytes(), packet.checksum)).collect();
        assert_eq!(lengths, [24, 3, 5].map(|bytes| (bytes, ChecksumState::Valid)));
        assert!(handed.take_all_back().packets.is_empty());
    }

    #[test]
    fn a_packet_that_was_delivered_or_dropped_or_ended_two_stacks_does_not_come_again() {
        let handed = Handed::new();
        let [delivered, dropped, deadly] = [packet(&[1, 2]), packet(&[3, 4]), packet(&[5])];
        let [kept, gone] = [ids(&delivered)[1], ids(&dropped)[0]];
        handed.hand_packet(0, delivered, Delivery::First);
        handed.hand_packet(0, dropped, Delivery::First);
        handed.hand_packet(0, deadly, Delivery::Again);
        handed.keep(kept);
        assert_eq!(handed.take_back(gone, 1).map(|buffer| buffer.number), Some(3));
        let Returned { buffers, packets } = handed.take_all_back();
        assert!(packets.is_empty());
        let buffers: Vec<_> = buffers.iter().map(|one| (one.number, one.frame.is_some())).collect();
        assert_eq!(buffers, [(1, true), (2, false), (4, true), (5, true)]);
    }
    #[test]
    fn a_payload_comes_back_once_from_the_stack_that_it_was_handed_to() {
        let handed = Handed::new();
        let frame = Frame::zeroed().unwrap();
        let payload: Vec<PacketSegment> =
            [0, 8].map(|offset| PacketSegment { frame: frame.clone(), offset, length: 8 }).into();
        let count = || handed.0.lock().frames.get(&frame.partner_id()).map(|one| one.count);
        let before = handed.hand(&payload);
        handed.take_all_back();
        let after = handed.hand(&payload);
        handed.take_payload_back(&before, &payload);
        assert_eq!(count(), Some(2), "the successor has the second one");
        handed.take_payload_back(&after, &payload);
        assert_eq!(count(), None);
    }
}
