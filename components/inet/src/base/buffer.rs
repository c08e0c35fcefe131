//! Payload: chains of buffers that are shared, not copied.
//!
//! [`Buffer`] is a part of a packet's payload. The stack sees no frames: who makes a [`crate::Stack`] chooses the buffer, frames of
//! a card's pool or, as [`SharedBytes`] has it, bytes in an allocation.
use alloc::{sync::Arc, vec::Vec};
use core::ops::Range;
use interfaces::nic::PacketSegment;
use packet::Sum;

/// A part of a packet's payload. A clone and a slice share its bytes.
pub trait Buffer: Clone {
    /// Returns a buffer with a copy of `bytes`; `None` if memory is refused.
    fn copy_of(bytes: &[u8]) -> Option<Self>;
    /// Returns the number of bytes.
    fn length(&self) -> usize;
    /// Returns the memory that the buffer keeps, in bytes: of a part of a frame, the whole frame.
    fn memory(&self) -> usize {
        self.length()
    }
    /// Returns the bytes in `range`, cut to the buffer's end.
    fn slice(&self, range: Range<usize>) -> Self;
    /// Copies bytes from `offset` on to `out`. Returns their number.
    fn read(&self, offset: usize, out: &mut [u8]) -> usize;
    /// Returns the checksum's sum of the bytes in `range`, cut to the buffer's end.
    fn sum_of(&self, range: Range<usize>) -> Sum;
    /// Returns the buffer as a part of a frame; `None` if it is none.
    fn as_segment(&self) -> Option<PacketSegment> {
        None
    }
    /// Returns a buffer of the bytes of `segment`; `None` if memory is refused.
    fn of_segment(segment: &PacketSegment) -> Option<Self> {
        let mut bytes = alloc::vec![0; segment.length as usize];
        let count = segment.frame.read(segment.offset as usize, &mut bytes);
        Self::copy_of(bytes.get(..count)?)
    }
}

/// A buffer of bytes in an allocation.
#[derive(Clone, Debug)]
pub struct SharedBytes {
    bytes: Arc<[u8]>,
    range: Range<usize>,
}

impl SharedBytes {
    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(self.range.clone()).unwrap_or_default()
    }
}

impl Buffer for SharedBytes {
    fn copy_of(bytes: &[u8]) -> Option<SharedBytes> {
        Some(SharedBytes { bytes: Arc::from(bytes), range: 0..bytes.len() })
    }
    fn length(&self) -> usize {
        self.range.len()
    }
    fn slice(&self, range: Range<usize>) -> SharedBytes {
        let at = |offset: usize| self.range.start.saturating_add(offset).min(self.range.end);
        let (start, end) = (at(range.start), at(range.end));
        SharedBytes { bytes: Arc::clone(&self.bytes), range: start..end.max(start) }
    }
    fn read(&self, offset: usize, out: &mut [u8]) -> usize {
        let bytes = self.as_slice().get(offset..).unwrap_or_default();
        let count = bytes.len().min(out.len());
        for (to, from) in out.iter_mut().zip(bytes) {
            *to = *from;
        }
        count
    }
    fn sum_of(&self, range: Range<usize>) -> Sum {
        let bytes = self.as_slice();
        let end = range.end.min(bytes.len());
        Sum::of(bytes.get(range.start.min(end)..end).unwrap_or_default())
    }
}

/// Buffers, one after another.
#[derive(Clone, Debug)]
pub struct BufferChain<B> {
    pieces: Vec<B>,
    length: usize,
}

impl<B> Default for BufferChain<B> {
    fn default() -> BufferChain<B> {
        BufferChain { pieces: Vec::new(), length: 0 }
    }
}

impl<B: Buffer> BufferChain<B> {
    /// Returns a chain with a copy of `bytes`; `None` if memory is refused.
    pub fn copy_of(bytes: &[u8]) -> Option<BufferChain<B>> {
        let mut chain = BufferChain::default();
        if !bytes.is_empty() {
            chain.push(B::copy_of(bytes)?);
        }
        Some(chain)
    }
    /// Returns a chain of `pieces`, of which none is empty.
    pub fn from_pieces(pieces: Vec<B>) -> BufferChain<B> {
        let length = pieces.iter().fold(0usize, |all, piece| all.saturating_add(piece.length()));
        BufferChain { pieces, length }
    }
    /// Returns the buffers, and gives up the chain.
    pub fn into_pieces(self) -> Vec<B> {
        self.pieces
    }
    /// Returns the number of bytes.
    pub fn length(&self) -> usize {
        self.length
    }
    /// Returns the memory that its buffers keep, in bytes.
    pub fn memory(&self) -> usize {
        self.pieces.iter().fold(0, |all, piece| all.saturating_add(piece.memory()))
    }
    /// Returns the buffers.
    pub fn pieces(&self) -> &[B] {
        &self.pieces
    }
    /// Appends a buffer. An empty one is dropped.
    pub fn push(&mut self, piece: B) {
        let length = piece.length();
        if length > 0 {
            self.length = self.length.saturating_add(length);
            self.pieces.push(piece);
        }
    }
    /// Appends a chain.
    pub fn append(&mut self, other: BufferChain<B>) {
        self.length = self.length.saturating_add(other.length);
        self.pieces.extend(other.pieces);
    }
    /// Returns the bytes in `range`, cut to the chain's end.
    pub fn slice(&self, range: Range<usize>) -> BufferChain<B> {
        let mut chain = BufferChain::default();
        let mut at = 0usize;
        for piece in &self.pieces {
            let length = piece.length();
            let from = range.start.saturating_sub(at).min(length);
            let to = range.end.saturating_sub(at).min(length);
            if (from, to) == (0, length) {
                chain.push(piece.clone());
            } else if from < to {
                chain.push(piece.slice(from..to));
            }
            at = at.saturating_add(length);
        }
        chain
    }
    /// Returns a reader that takes the bytes from the front, part by part.
    pub fn cursor(&self) -> ChainCursor<'_, B> {
        ChainCursor { pieces: &self.pieces, at: 0 }
    }
    /// Copies bytes from `offset` on to `out`. Returns their number.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> usize {
        let (mut skip, mut done) = (offset, 0);
        for piece in &self.pieces {
            if done == out.len() {
                break;
            }
            let length = piece.length();
            if skip < length {
                done += piece.read(skip, out.get_mut(done..).unwrap_or_default());
            }
            skip = skip.saturating_sub(length);
        }
        done
    }
    /// Returns the checksum's sum of all bytes.
    pub fn sum(&self) -> Sum {
        self.sum_of(0..self.length)
    }
    /// Returns the checksum's sum of the bytes in `range`, cut to the chain's end.
    pub fn sum_of(&self, range: Range<usize>) -> Sum {
        let (mut sum, mut at) = (Sum::new(), 0usize);
        for piece in &self.pieces {
            let length = piece.length();
            let from = range.start.saturating_sub(at).min(length);
            let to = range.end.saturating_sub(at).min(length);
            if from < to {
                sum.append(piece.sum_of(from..to));
            }
            at = at.saturating_add(length);
        }
        sum
    }
    /// Returns a copy of all bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = alloc::vec![0; self.length];
        let count = self.read(0, &mut bytes);
        bytes.truncate(count);
        bytes
    }
}

/// The bytes of a chain that were not taken yet. To take all of them part by part looks at each buffer once, unlike slices.
pub struct ChainCursor<'c, B> {
    pieces: &'c [B],
    /// First byte of the first piece.
    at: usize,
}

impl<B: Buffer> ChainCursor<'_, B> {
    /// Takes the next `count` bytes, or those that are left.
    pub fn take(&mut self, count: usize) -> BufferChain<B> {
        // Mostly it is in one buffer, or passes from one to the next.
        let mut part = BufferChain { pieces: Vec::with_capacity(2), length: 0 };
        while part.length < count
            && let Some((piece, rest)) = self.pieces.split_first()
        {
            let end = piece.length().min(self.at + count - part.length);
            part.push(piece.slice(self.at..end));
            if end < piece.length() {
                self.at = end;
                break;
            }
            (self.pieces, self.at) = (rest, 0);
        }
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_slice_of_a_chain_is_the_slice_of_its_bytes(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..9), 0..6),
            start in 0usize..60, length in 0usize..60, offset in 0usize..60,
        ) {
            let mut chain = BufferChain::<SharedBytes>::default();
            pieces.iter().for_each(|piece| chain.append(BufferChain::copy_of(piece).unwrap()));
            let bytes = pieces.concat();
            prop_assert_eq!(chain.to_vec(), bytes.clone());
            prop_assert_eq!(chain.sum().folded(), Sum::of(&bytes).folded());
            let cut = |at: usize| at.min(bytes.len());
            let slice = chain.slice(start..start + length);
            prop_assert_eq!(slice.to_vec(), bytes[cut(start)..cut(start + length)].to_vec());
            let mut out = vec![0; length];
            let count = chain.read(offset, &mut out);
            prop_assert_eq!(&out[..count], &bytes[cut(offset)..cut(offset + length)]);
            let mut cursor = chain.cursor();
            for place in (0..bytes.len() + 2).step_by(length.max(1)) {
                let part = cursor.take(length.max(1));
                prop_assert_eq!(part.to_vec(), bytes[cut(place)..cut(place + length.max(1))].to_vec());
            }
        }
    }
}
