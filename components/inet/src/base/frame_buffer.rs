//! Parts of frames as buffers: the payload of packets that come from cards and from streams.
use super::buffer::Buffer;
use core::ops::Range;
use interfaces::nic::PacketSegment;
use packet::Sum;
use rt::{PAGE_BYTES, memory::Frame};

impl Buffer for PacketSegment {
    /// Copies `bytes` to a new frame. `None` also if they are more than a frame holds.
    fn copy_of(bytes: &[u8]) -> Option<PacketSegment> {
        let frame = Frame::unfilled().ok()?;
        let count = frame.write(0, bytes);
        // The rest of a frame that a program or a device may see has to be written.
        frame.zero(count, PAGE_BYTES - count);
        (count == bytes.len()).then_some(PacketSegment { frame, offset: 0, length: count as u32 })
    }
    fn length(&self) -> usize {
        self.length as usize
    }
    fn memory(&self) -> usize {
        PAGE_BYTES
    }
    fn slice(&self, range: Range<usize>) -> PacketSegment {
        let start = range.start.min(self.length as usize) as u32;
        let end = range.end.min(self.length as usize) as u32;
        PacketSegment {
            frame: self.frame.clone(),
            offset: self.offset + start,
            length: end.saturating_sub(start),
        }
    }
    fn read(&self, offset: usize, out: &mut [u8]) -> usize {
        let count = out.len().min((self.length as usize).saturating_sub(offset));
        let out = out.get_mut(..count).unwrap_or_default();
        self.frame.read(self.offset as usize + offset, out)
    }
    fn sum_of(&self, range: Range<usize>) -> Sum {
        let (start, end) = (range.start, range.end.min(self.length as usize));
        let (offset, length) = (self.offset as usize + start, end.saturating_sub(start));
        // Bytes that are not here have no sum.
        let total = self.frame.sum_words(offset, length).unwrap_or_default();
        Sum::of_words(total, offset, length)
    }
    fn as_segment(&self) -> Option<PacketSegment> {
        Some(self.clone())
    }
    fn of_segment(segment: &PacketSegment) -> Option<PacketSegment> {
        Some(segment.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::buffer::BufferChain;

    #[test]
    fn a_part_of_a_frame_reads_slices_and_sums_as_its_bytes() {
        let bytes: Vec<u8> = (0..3001u32).map(|at| (at * 7 % 251) as u8).collect();
        let whole = PacketSegment::copy_of(&bytes).unwrap();
        for (start, end) in [(0, 3001), (1, 1027), (999, 5000), (5, 5), (4000, 4001)] {
            let part = whole.slice(start..end);
            let expected = &bytes[start.min(3001)..end.min(3001)];
            let mut chain = BufferChain::default();
            chain.push(part.clone());
            assert_eq!(chain.to_vec(), expected);
            assert_eq!(chain.sum().folded(), Sum::of(expected).folded());
            assert_eq!(whole.sum_of(start..end).folded(), Sum::of(expected).folded());
            assert_eq!(
                part.sum_of(1..7).folded(),
                Sum::of(&expected[1.min(expected.len())..7.min(expected.len())]).folded()
            );
        }
        assert!(PacketSegment::copy_of(&[0; PAGE_BYTES + 1]).is_none());
    }
}
