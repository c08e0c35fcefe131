//! [`HeldPayload`]: received bytes out of order.
use crate::base::buffer::{Buffer, BufferChain};
use alloc::{collections::BTreeMap, vec::Vec};
use interfaces::nic::PacketSegment;
use rt::PAGE_BYTES;

/// Pieces that may be held however short they are. There are at most 128 ranges, so putting pieces together leaves fewer.
const PIECES_FREE: usize = 192;
/// Held bytes for which there may be another piece: a quarter of a frame.
const PIECE_BYTES: usize = PAGE_BYTES / 4;

/// Received bytes that wait for those before them, by stream offset. No byte is held twice: the connection bounds the window, so
/// the number of bytes is bounded, too.
///
/// A peer that brings new bytes one by one, alone or in long segments of which all other bytes are known, must not make each keep a
/// frame or an entry: when there are more pieces than `PIECES_FREE` and one for each `PIECE_BYTES`, all bytes are copied to whole
/// frames (Linux: tcp_collapse_ofo_queue). This copies less than 2 KiB for a segment on average.
#[derive(Default)]
pub(crate) struct HeldPayload {
    pieces: BTreeMap<u64, BufferChain<PacketSegment>>,
    /// Buffers in all chains.
    count: usize,
    /// Bytes in all chains.
    length: usize,
}

impl HeldPayload {
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
    /// Returns the number of held bytes.
    #[cfg(test)]
    pub(crate) fn length(&self) -> usize {
        let lengths = self.pieces.values().map(|held| (held.length(), held.pieces().len()));
        let sums = lengths.fold((0, 0), |sums, one| (sums.0 + one.0, sums.1 + one.1));
        assert_eq!((self.length, self.count), sums);
        self.length
    }
    /// Returns the number of frames in which they are.
    #[cfg(test)]
    pub(crate) fn frames(&self) -> usize {
        let pieces = self.pieces.values().flat_map(BufferChain::pieces);
        pieces.map(|piece| piece.frame.id()).collect::<std::collections::HashSet<_>>().len()
    }
    /// Returns the number of pieces, at most, of so many bytes.
    pub(crate) fn pieces_max(length: usize) -> usize {
        PIECES_FREE + length / PIECE_BYTES
    }
    /// Holds `payload`, whose first byte has the offset `start`, as far as it is not held. `pack` copies a short part elsewhere.
    pub(crate) fn insert(
        &mut self,
        start: u64,
        payload: Vec<PacketSegment>,
        mut pack: impl FnMut(&mut Vec<PacketSegment>),
    ) {
        let chain = BufferChain::from_pieces(payload);
        let end = start + chain.length() as u64;
        let before = self.pieces.range(..=start).next_back();
        let mut at = before.map_or(start, |(from, held)| start.max(from + held.length() as u64));
        let mut gaps = Vec::new();
        for (from, held) in self.pieces.range(start..end) {
            if at < *from {
                gaps.push((at, *from));
            }
            at = at.max(from + held.length() as u64);
        }
        if at < end {
            gaps.push((at, end));
        }
        for (from, to) in gaps {
            let part = chain.slice((from - start) as usize..(to - start) as usize);
            let mut pieces = part.into_pieces();
            pack(&mut pieces);
            self.add(from, BufferChain::from_pieces(pieces));
        }
        self.limit();
    }
    fn limit(&mut self) {
        if self.count > HeldPayload::pieces_max(self.length) {
            self.put_together();
        }
    }
    fn add(&mut self, start: u64, part: BufferChain<PacketSegment>) {
        self.count += part.pieces().len();
        self.length += part.length();
        self.pieces.insert(start, part);
    }
    /// Copies all bytes to whole frames. They stay as they are if memory is refused.
    #[cold]
    fn put_together(&mut self) {
        let mut runs: Vec<(u64, BufferChain<PacketSegment>)> = Vec::new();
        for (start, part) in &self.pieces {
            match runs.last_mut() {
                Some((from, run)) if *from + run.length() as u64 == *start => {
                    run.append(part.clone());
                }
                _ => runs.push((*start, part.clone())),
            }
        }
        let copied = |(start, run): (u64, BufferChain<PacketSegment>)| {
            Some((start, if run.pieces().len() > 1 { copy_of(&run)? } else { run }))
        };
        let Some(runs) = runs.into_iter().map(copied).collect::<Option<Vec<_>>>() else { return };
        *self = HeldPayload::default();
        runs.into_iter().for_each(|(start, run)| self.add(start, run));
    }
    /// Moves the bytes that follow offset `at` without a gap to `out`, and drops those before it.
    pub(crate) fn take_from(&mut self, mut at: u64, out: &mut Vec<PacketSegment>) {
        while let Some(first) = self.pieces.first_entry()
            && *first.key() <= at
        {
            let (start, held) = first.remove_entry();
            self.count -= held.pieces().len();
            self.length -= held.length();
            let skip = (at - start) as usize;
            at = at.max(start + held.length() as u64);
            if skip == 0 {
                out.extend(held.into_pieces());
            } else {
                out.extend(held.slice(skip..usize::MAX).into_pieces());
            }
        }
        self.limit();
    }
}

/// Copies the bytes of a chain to whole frames; `None` if memory is refused.
fn copy_of(chain: &BufferChain<PacketSegment>) -> Option<BufferChain<PacketSegment>> {
    let mut copy = BufferChain::default();
    let mut bytes = alloc::vec![0; chain.length().min(PAGE_BYTES)];
    for start in (0..chain.length()).step_by(PAGE_BYTES) {
        let count = chain.read(start, &mut bytes);
        copy.push(PacketSegment::copy_of(bytes.get(..count)?)?);
    }
    (copy.length() == chain.length()).then_some(copy)
}

/// Cuts `pieces` to the bytes in `skip..skip + length`.
pub(crate) fn trim(pieces: &mut Vec<PacketSegment>, skip: u32, length: u32) {
    let total: u64 = pieces.iter().map(|piece| u64::from(piece.length)).sum();
    if skip == 0 && total <= u64::from(length) {
        return;
    }
    let chain = BufferChain::from_pieces(core::mem::take(pieces));
    let (start, end) = (skip as usize, (skip as usize).saturating_add(length as usize));
    *pieces = chain.slice(start..end).into_pieces();
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Each byte is held once and comes out in order, for parts of any size in any order.
        #[test]
        fn bytes_come_out_in_order_and_once(parts in prop::collection::vec((1u64..200, 1usize..60), 0..40)) {
            let bytes: Vec<u8> = (0..400u32).map(|at| (at * 7 % 251) as u8).collect();
            let mut held = HeldPayload::default();
            let mut is_held = vec![false; 400];
            for (start, length) in parts {
                let end = start as usize + length;
                let piece = PacketSegment::copy_of(&bytes[start as usize..end]).unwrap();
                held.insert(start, vec![piece], |_| ());
                is_held[start as usize..end].fill(true);
                prop_assert_eq!(held.length(), is_held.iter().filter(|one| **one).count());
            }
            is_held[0] = true;
            let end = is_held.iter().position(|one| !one).unwrap();
            let mut out = Vec::new();
            held.take_from(1, &mut out);
            prop_assert_eq!(BufferChain::from_pieces(out).to_vec(), &bytes[1..end]);
            prop_assert_eq!(held.length(), is_held[end..].iter().filter(|one| **one).count());
        }
    }

    /// Bytes that come one by one, as a part of long segments, keep few frames, and come out as they came.
    #[test]
    fn bytes_that_creep_do_not_keep_a_frame_each() {
        let bytes: Vec<u8> = (0..40_000u32).map(|at| (at * 7 % 251) as u8).collect();
        for step in [1usize, 3, 700] {
            for is_from_behind in [false, true] {
                let mut held = HeldPayload::default();
                let starts = (1..bytes.len() - 1448).step_by(step);
                let starts: Vec<_> =
                    if is_from_behind { starts.rev().collect() } else { starts.collect() };
                for start in starts {
                    let part = &bytes[start..start + 1448];
                    let payload = vec![PacketSegment::copy_of(part).unwrap()];
                    held.insert(start as u64, payload, |_| ());
                    assert!(held.frames() <= HeldPayload::pieces_max(held.length()));
                }
                let (mut out, length) = (Vec::new(), held.length());
                held.take_from(1, &mut out);
                assert_eq!(BufferChain::from_pieces(out).to_vec(), bytes[1..1 + length]);
                assert_eq!(held.length(), 0);
            }
        }
    }
}
