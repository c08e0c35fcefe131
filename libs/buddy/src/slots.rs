//! Numbered slots that are expensive to fill. Free slots are reused, those that are still filled first.

/// A set of at most `MOST` slots (65,536 at most).
#[derive(Debug)]
pub struct Slots<const MOST: usize> {
    /// Slots that are free and filled, most recently used last.
    filled: [u16; MOST],
    filled_count: usize,
    /// Slots that are free and bare.
    bare: [u16; MOST],
    bare_count: usize,
    /// First slot that was never used.
    next: u16,
}

impl<const MOST: usize> Slots<MOST> {
    /// Makes a set of which no slot was ever used.
    pub const fn new() -> Slots<MOST> {
        Slots { filled: [0; MOST], filled_count: 0, bare: [0; MOST], bare_count: 0, next: 0 }
    }

    /// Returns the number of free slots that are filled.
    pub fn filled(&self) -> usize {
        self.filled_count
    }

    /// Takes the free filled slot that was used last.
    pub fn take_filled(&mut self) -> Option<u16> {
        self.filled_count = self.filled_count.checked_sub(1)?;
        self.filled.get(self.filled_count).copied()
    }

    /// Takes free filled slots while more than `keep` are left. Returns how many of `slots` were filled: all or none.
    pub fn take_beyond(&mut self, keep: usize, slots: &mut [u16]) -> usize {
        let rest = self.filled_count.checked_sub(slots.len()).filter(|&rest| rest >= keep);
        let Some((rest, taken)) = rest.and_then(|rest| Some((rest, self.filled.get(rest..)?)))
        else {
            return 0;
        };
        slots.iter_mut().zip(taken).for_each(|(slot, &filled)| *slot = filled);
        self.filled_count = rest;
        slots.len()
    }

    /// Takes a bare slot; `None` if all slots are taken or filled.
    pub fn take_bare(&mut self) -> Option<u16> {
        if let Some(rest) = self.bare_count.checked_sub(1) {
            self.bare_count = rest;
            return self.bare.get(rest).copied();
        }
        let slot = self.next;
        (usize::from(slot) < MOST).then(|| {
            self.next += 1;
            slot
        })
    }

    /// Gives back a taken slot that is filled.
    pub fn put_filled(&mut self, slot: u16) {
        if let Some(place) = self.filled.get_mut(self.filled_count) {
            *place = slot;
            self.filled_count += 1;
        }
    }

    /// Gives back a taken slot that is bare.
    pub fn put_bare(&mut self, slot: u16) {
        if let Some(place) = self.bare.get_mut(self.bare_count) {
            *place = slot;
            self.bare_count += 1;
        }
    }
}

impl<const MOST: usize> Default for Slots<MOST> {
    fn default() -> Self {
        Slots::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_is_taken_once() {
        let mut slots = Slots::<3>::new();
        assert_eq!([(); 4].map(|()| slots.take_bare()), [Some(0), Some(1), Some(2), None]);
        slots.put_bare(1);
        assert_eq!([(); 2].map(|()| slots.take_bare()), [Some(1), None]);
    }

    #[test]
    fn those_beyond_what_is_kept_are_taken_in_batches() {
        let mut slots = Slots::<8>::new();
        let all = [(); 5].map(|()| slots.take_bare().unwrap());
        all.into_iter().for_each(|slot| slots.put_filled(slot));
        let mut batch = [99; 2];
        assert_eq!((slots.take_beyond(4, &mut batch), batch), (0, [99; 2]));
        assert_eq!((slots.take_beyond(3, &mut batch), batch, slots.filled()), (2, [3, 4], 3));
        assert_eq!((slots.take_beyond(3, &mut batch), slots.filled()), (0, 3));
        assert_eq!(slots.take_beyond(0, &mut [0; 9]), 0);
    }

    #[test]
    fn filled_slots_come_back_filled_last_first() {
        let mut slots = Slots::<3>::new();
        let all = [(); 3].map(|()| slots.take_bare().unwrap());
        all.into_iter().for_each(|slot| slots.put_filled(slot));
        assert_eq!((slots.filled(), slots.take_bare()), (3, None));
        assert_eq!([(); 4].map(|()| slots.take_filled()), [Some(2), Some(1), Some(0), None]);
    }
}
