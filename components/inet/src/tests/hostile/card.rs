//! The buffers of the card of the host under test, which come back when the last reference is gone.
use crate::{BufferChain, ReceivedFrame, TransportChecksum};
use interfaces::nic::PacketSegment;
use rt::{PAGE_BYTES, memory::Frame};
use xorshift::Xorshift;

/// Frames that are lent to the stack.
#[derive(Default)]
pub struct Buffers {
    free: Vec<Frame>,
    lent: Vec<Frame>,
}

impl Buffers {
    /// Fills buffers with the bytes of a frame, the headers in the first, as a card does that merges segments.
    pub fn fill(&mut self, numbers: &mut Xorshift, bytes: &[u8]) -> ReceivedFrame {
        let mut pieces = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            // The headers may be in a buffer of their own.
            let lengths =
                if pieces.is_empty() { [120, 2048, PAGE_BYTES] } else { [2048, 2048, PAGE_BYTES] };
            let part = lengths[numbers.below(3)].min(rest.len());
            let (now, later) = rest.split_at(part);
            let frame = self.free.pop().unwrap_or_else(|| Frame::zeroed().unwrap());
            let offset = numbers.below(PAGE_BYTES - part + 1);
            frame.write(offset, now);
            let (offset, length) = (offset as u32, part as u32);
            pieces.push(PacketSegment { frame: frame.clone(), offset, length });
            self.lent.push(frame);
            rest = later;
        }
        let payload = BufferChain::from_pieces(pieces);
        let checksum = match numbers.below(16) {
            0 => TransportChecksum::Verified,
            _ => TransportChecksum::Unverified,
        };
        let segment = (numbers.below(4) == 0).then(|| numbers.below(1 << 16) as u16);
        ReceivedFrame { payload, checksum, segment, acks: 0 }
    }
    /// Takes back what the stack has dropped. Returns the number of buffers that are still lent.
    pub fn take_back(&mut self) -> usize {
        let lent = std::mem::take(&mut self.lent);
        let (lent, free): (Vec<_>, Vec<_>) =
            lent.into_iter().partition(|frame| frame.references() > 1);
        self.free.extend(free);
        self.lent = lent;
        self.lent.len()
    }
}
