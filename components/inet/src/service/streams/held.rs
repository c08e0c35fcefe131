//! [`HeldPayload`]: received bytes out of order.
use crate::base::buffer::{Buffer, BufferChain};
use alloc::{collections::BTreeMap, vec::Vec};
use interfaces::nic::PacketSegment;

/// Received bytes that wait for those before them, by stream offset. No byte is held twice: the connection bounds the window, so
/// the memory is bounded, too.
#[derive(Default)]
pub(crate) struct HeldPayload {
    pieces: BTreeMap<u64, BufferChain<PacketSegment>>,
}

impl HeldPayload {
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
    /// Returns the number of held bytes.
    #[cfg(test)]
    pub(crate) fn length(&self) -> usize {
        self.pieces.values().map(BufferChain::length).sum()
    }
    /// Holds `payload`, whose first byte has the offset `start`, as far as it is not held.
    pub(crate) fn insert(&mut self, start: u64, payload: Vec<PacketSegment>) {
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
            self.pieces.insert(from, part);
        }
    }
    /// Moves the bytes that follow offset `at` without a gap to `out`, and drops those before it.
    pub(crate) fn take_from(&mut self, mut at: u64, out: &mut Vec<PacketSegment>) {
        while let Some(first) = self.pieces.first_entry()
            && *first.key() <= at
        {
            let (start, held) = first.remove_entry();
            let skip = (at - start) as usize;
            at = at.max(start + held.length() as u64);
            if skip == 0 {
                out.extend(held.into_pieces());
            } else {
                out.extend(held.slice(skip..usize::MAX).into_pieces());
            }
        }
    }
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

/// Returns the number of bytes of `pieces`.
pub(crate) fn length_of(pieces: &[PacketSegment]) -> usize {
    pieces.iter().map(Buffer::length).sum()
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
                held.insert(start, vec![piece]);
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
}
