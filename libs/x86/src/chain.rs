//! Chains of stack frames: a frame pointer points to the caller's frame pointer, behind which is the return address.

/// Iterates over the return addresses from the frame at `rbp` outwards, at most `most`. `read` returns a frame. The walk ends
/// at a frame that is not above the one before, or is more than `apart` bytes above it.
pub fn walk(
    rbp: u64,
    most: usize,
    apart: u64,
    mut read: impl FnMut(u64) -> Option<[u64; 2]>,
) -> impl Iterator<Item = u64> {
    let mut frame = Some(rbp);
    let next = move || {
        let at = frame?;
        let [outer, address] = read(at).filter(|&[_, address]| address != 0)?;
        frame = (outer > at && outer - at <= apart).then_some(outer);
        Some(address)
    };
    core::iter::from_fn(next).take(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn walked(frames: &[(u64, [u64; 2])], most: usize) -> Vec<u64> {
        let read = |at| frames.iter().find(|(place, _)| *place == at).map(|&(_, frame)| frame);
        walk(10, most, 100, read).collect()
    }

    #[test]
    fn a_chain_is_walked_to_its_end() {
        let frames = [(10, [20, 1]), (20, [120, 2]), (120, [500, 3]), (500, [0, 4])];
        assert_eq!(walked(&frames, 9), [1, 2, 3]);
        assert_eq!(walked(&frames, 2), [1, 2]);
        assert_eq!(walked(&[], 9), []);
        assert_eq!(walked(&[(10, [10, 1])], 9), [1]);
        assert_eq!(walked(&[(10, [5, 1]), (5, [6, 2])], 9), [1]);
        assert_eq!(walked(&[(10, [20, 0]), (20, [30, 1])], 9), []);
    }
}
