//! The buddy allocator's arithmetic: free blocks of 2^order frames in lists threaded through a table.
//!
//! [`Buddy`] knows frame numbers only, never memory. The table has one [`Link`] a frame; a free block is described by the link
//! of its first frame. The caller locks. [`sizes`] has the object sizes of the kernel heap, [`Slots`] numbered slots of one
//! size that are reused, [`Parts`] addresses for runs of pages. Source: Knuth, TAOCP volume 1, 2.5 (buddy system); Linux `mm/page_alloc.c`.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

mod parts;
pub mod sizes;
mod slots;

pub use parts::Parts;
pub use slots::Slots;

/// Largest order: blocks of 1024 frames, 4 MiB.
pub const MAX_ORDER: usize = 10;
const ORDERS: usize = MAX_ORDER + 1;
const NONE: u32 = u32::MAX;
const NOT_FREE: u32 = u32::MAX;

/// The table's record of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    next: u32,
    previous: u32,
    /// Order of the free block that starts at this frame, or `NOT_FREE`.
    order: u32,
}

impl Link {
    /// The link of a frame that is not free.
    pub const TAKEN: Link = Link { next: NONE, previous: NONE, order: NOT_FREE };
}

/// The allocator over a table of links.
#[derive(Debug)]
pub struct Buddy<'a> {
    links: &'a mut [Link],
    heads: [u32; ORDERS],
    free_frames: usize,
}

/// Returns the smallest order whose blocks hold `frames`.
pub const fn order_for(frames: usize) -> usize {
    frames.next_power_of_two().trailing_zeros() as usize
}

impl<'a> Buddy<'a> {
    /// Makes an allocator with no free frames; every link must be [`Link::TAKEN`].
    pub fn new(links: &'a mut [Link]) -> Buddy<'a> {
        Buddy { links, heads: [NONE; ORDERS], free_frames: 0 }
    }

    /// Returns the number of free frames.
    pub fn free_frames(&self) -> usize {
        self.free_frames
    }

    /// Takes a block of 2^`order` frames, aligned to its size.
    pub fn allocate(&mut self, order: usize) -> Option<u32> {
        let mut found = (order..ORDERS).find(|&order| self.heads[order] != NONE)?;
        let frame = self.heads[found];
        self.unlink(frame, found);
        while found > order {
            found -= 1;
            self.link(frame + (1 << found), found);
        }
        self.free_frames -= 1 << order;
        Some(frame)
    }

    /// Takes single frames while there are some, a block at a time. Returns how many of `frames` were filled. The last have
    /// the lowest numbers, so that a stack of them is taken in the order of their numbers.
    pub fn allocate_each(&mut self, frames: &mut [u32]) -> usize {
        let mut filled = 0;
        while let Some(rest) = frames.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let Some(found) = (0..ORDERS).find(|&order| self.heads[order] != NONE) else { break };
            let order = found.min(rest.len().ilog2() as usize);
            let Some(start) = self.allocate(order) else { break };
            let mut frame = start + (1 << order);
            for place in &mut rest[..1 << order] {
                frame -= 1;
                *place = frame;
            }
            filled += 1 << order;
        }
        filled
    }

    /// Gives back single frames. Frames in a run of ascending numbers are freed together.
    pub fn free_each(&mut self, frames: &[u32]) {
        let mut rest = frames.iter();
        let Some(mut first) = rest.next().copied() else { return };
        let mut end = first + 1;
        for &frame in rest {
            if frame != end {
                self.free_range(first, (end - first) as usize);
                first = frame;
            }
            end = frame + 1;
        }
        self.free_range(first, (end - first) as usize);
    }

    /// Gives back the block of 2^`order` frames at `frame`, joining it with its free buddies.
    ///
    /// # Panics
    /// Panics if the block is free already or outside the table: a bug of the caller.
    pub fn free(&mut self, frame: u32, order: usize) {
        assert!(self.links[frame as usize].order == NOT_FREE, "frame {frame:#x} freed twice");
        self.free_frames += 1 << order;
        let (mut frame, mut order) = (frame, order);
        while order < MAX_ORDER {
            let buddy = frame ^ (1 << order);
            match self.links.get(buddy as usize) {
                Some(link) if link.order == order as u32 => self.unlink(buddy, order),
                _ => break,
            }
            frame = frame.min(buddy);
            order += 1;
        }
        self.link(frame, order);
    }

    /// Frees `count` frames from `start`, as the largest aligned blocks there are.
    pub fn free_range(&mut self, start: u32, count: usize) {
        let (mut frame, end) = (start as usize, start as usize + count);
        while frame < end {
            let by_size = (end - frame).ilog2() as usize;
            let order = by_size.min(frame.trailing_zeros() as usize).min(MAX_ORDER);
            self.free(frame as u32, order);
            frame += 1 << order;
        }
    }

    /// Takes `count` contiguous frames (at most 2^[`MAX_ORDER`]). Frames beyond `count` in the block are given back.
    pub fn allocate_contiguous(&mut self, count: usize) -> Option<u32> {
        let order = order_for(count.max(1));
        if order > MAX_ORDER {
            return None;
        }
        let start = self.allocate(order)?;
        self.free_range(start + count as u32, (1 << order) - count);
        Some(start)
    }

    fn link(&mut self, frame: u32, order: usize) {
        let next = self.heads[order];
        self.links[frame as usize] = Link { next, previous: NONE, order: order as u32 };
        if next != NONE {
            self.links[next as usize].previous = frame;
        }
        self.heads[order] = frame;
    }

    fn unlink(&mut self, frame: u32, order: usize) {
        let Link { next, previous, .. } = self.links[frame as usize];
        if previous == NONE {
            self.heads[order] = next;
        } else {
            self.links[previous as usize].next = next;
        }
        if next != NONE {
            self.links[next as usize].previous = previous;
        }
        self.links[frame as usize] = Link::TAKEN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_blocks_join_to_the_largest() {
        let mut links = vec![Link::TAKEN; 3000];
        let mut buddy = Buddy::new(&mut links);
        buddy.free_range(5, 2990);
        assert_eq!(buddy.free_frames(), 2990);
        let mut taken = Vec::new();
        while let Some(frame) = buddy.allocate(0) {
            taken.push(frame);
        }
        taken.sort_unstable();
        assert_eq!(taken, (5..2995).collect::<Vec<u32>>());
        for frame in taken.iter().rev() {
            buddy.free(*frame, 0);
        }
        assert_eq!(buddy.allocate(MAX_ORDER), Some(1024));
    }

    #[test]
    fn blocks_never_overlap_and_are_aligned() {
        let mut links = vec![Link::TAKEN; 1 << 12];
        let mut buddy = Buddy::new(&mut links);
        buddy.free_range(0, 1 << 12);
        let (mut held, mut seed) = (Vec::<(u32, usize)>::new(), 12345u64);
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let random = (seed >> 33) as usize;
            if random.is_multiple_of(2) || held.is_empty() {
                let order = random / 2 % 6;
                if let Some(frame) = buddy.allocate(order) {
                    assert_eq!(frame % (1 << order), 0);
                    let end = frame + (1 << order);
                    assert!(
                        held.iter().all(|&(other, o)| end <= other || other + (1 << o) <= frame)
                    );
                    held.push((frame, order));
                }
            } else {
                let (frame, order) = held.swap_remove(random % held.len());
                buddy.free(frame, order);
            }
        }
        for (frame, order) in held {
            buddy.free(frame, order);
        }
        assert_eq!(buddy.free_frames(), 1 << 12);
    }

    #[test]
    fn single_frames_come_by_blocks_and_go_by_runs() {
        let mut links = vec![Link::TAKEN; 256];
        let mut buddy = Buddy::new(&mut links);
        buddy.free_range(3, 200);
        let mut taken = [0; 40];
        assert_eq!(buddy.allocate_each(&mut taken), 40);
        assert_eq!(buddy.free_frames(), 160);
        let mut sorted = taken;
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|pair| pair[0] < pair[1]), "each once");
        assert!(sorted.iter().all(|frame| (3..203).contains(frame)));
        buddy.free_each(&taken[..20]);
        buddy.free_each(&taken[20..]);
        assert_eq!(buddy.free_frames(), 200);
        let mut all = [0; 300];
        assert_eq!(buddy.allocate_each(&mut all), 200);
        assert_eq!(buddy.allocate_each(&mut all), 0);
    }

    #[test]
    fn a_block_taken_as_frames_is_popped_upwards() {
        let mut links = vec![Link::TAKEN; 64];
        let mut buddy = Buddy::new(&mut links);
        buddy.free_range(32, 32);
        let mut taken = [0; 32];
        assert_eq!(buddy.allocate_each(&mut taken), 32);
        assert!(taken.iter().rev().copied().eq(32..64));
    }

    #[test]
    fn contiguous_allocation_gives_back_the_tail() {
        let mut links = vec![Link::TAKEN; 64];
        let mut buddy = Buddy::new(&mut links);
        buddy.free_range(0, 64);
        let start = buddy.allocate_contiguous(19).unwrap();
        assert_eq!(buddy.free_frames(), 45);
        buddy.free_range(start, 19);
        assert_eq!(buddy.allocate(6), Some(0));
    }
}
