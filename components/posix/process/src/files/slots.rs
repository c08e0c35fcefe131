//! [`Slots`]: descriptors of a table, lowest free first, with their close-on-exec bits.
//!
//! `used` and `close_on_exec` have one bit for each descriptor; a search checks 64 at a time from the lowest word that may
//! have room. A reserved descriptor is in `used` and has no file yet. [`super::DescriptorTable`]'s lock guards the list.
use alloc::vec::Vec;
use memory::setting::Setting;
use rt::memory::Charge;
use vfs::Errno;

/// Greatest number of descriptors of a table.
pub const DESCRIPTORS_MAX: usize = 1 << 20;
/// Greatest limit of descriptors that may be set, and one more than the greatest new descriptor (`/proc/sys/fs/nr_open`). A
/// table never has more than [`DESCRIPTORS_MAX`].
pub static NEW_MAX: Setting = Setting::new(DESCRIPTORS_MAX as i64, 64, 0x7fff_ffc0);
const WORD_BITS: usize = u64::BITS as usize;

/// The fate of a descriptor at exec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExec {
    /// The descriptor stays open.
    Keep,
    /// The descriptor is closed (`FD_CLOEXEC`).
    Close,
}

impl OnExec {
    /// Returns `Close` if any bit of `flag` is in `flags`.
    pub fn from_flag(flags: u32, flag: u32) -> OnExec {
        if flags & flag != 0 { OnExec::Close } else { OnExec::Keep }
    }
}

/// Descriptors from 0, each empty or an `F`.
pub struct Slots<F> {
    files: Vec<Option<F>>,
    used: Vec<u64>,
    close_on_exec: Vec<u64>,
    /// Words below this one are full.
    first_free_word: usize,
    /// Number of reserved descriptors.
    reserved: usize,
    charge: Charge,
}

impl<F: Clone> Slots<F> {
    /// Makes an empty list.
    pub const fn new() -> Slots<F> {
        Slots {
            files: Vec::new(),
            used: Vec::new(),
            close_on_exec: Vec::new(),
            first_free_word: 0,
            reserved: 0,
            charge: Charge::none(),
        }
    }
    /// Returns the file at `fd`.
    #[inline]
    pub fn get(&self, fd: usize) -> Option<&F> {
        self.files.get(fd)?.as_ref()
    }
    /// Returns the number of descriptors for which there is room.
    pub fn size(&self) -> usize {
        self.files.len()
    }
    /// Returns whether exec closes `fd`.
    pub fn on_exec(&self, fd: usize) -> OnExec {
        let word = self.close_on_exec.get(fd / WORD_BITS).copied().unwrap_or(0);
        if word >> (fd % WORD_BITS) & 1 != 0 { OnExec::Close } else { OnExec::Keep }
    }
    /// Sets whether exec closes `fd`.
    pub fn set_on_exec(&mut self, fd: usize, on_exec: OnExec) {
        match on_exec {
            OnExec::Close => set_bit(&mut self.close_on_exec, fd),
            OnExec::Keep => clear_bit(&mut self.close_on_exec, fd),
        }
    }
    /// Returns the lowest free descriptor from `lowest` up.
    pub fn free_from(&self, lowest: usize) -> usize {
        let mut index = (lowest / WORD_BITS).max(self.first_free_word);
        let mut skipped = if index == lowest / WORD_BITS { lowest % WORD_BITS } else { 0 };
        while let Some(word) = self.used.get(index) {
            let free = !word & (u64::MAX << skipped);
            if free != 0 {
                return index * WORD_BITS + free.trailing_zeros() as usize;
            }
            index += 1;
            skipped = 0;
        }
        (index * WORD_BITS).max(lowest)
    }
    /// Puts `file` at the lowest free descriptor from `lowest` below `limit`.
    ///
    /// # Errors
    /// `EMFILE` if there is none, `ENOMEM`.
    pub fn insert(
        &mut self,
        file: F,
        lowest: usize,
        limit: usize,
        on_exec: OnExec,
    ) -> Result<usize, Errno> {
        let fd = self.free_below(lowest, limit)?;
        self.put(fd, file, on_exec)?;
        Ok(fd)
    }
    fn free_below(&self, lowest: usize, limit: usize) -> Result<usize, Errno> {
        let fd = self.free_from(lowest);
        if fd < limit.min(NEW_MAX.size()).min(DESCRIPTORS_MAX) {
            Ok(fd)
        } else {
            Err(Errno::EMFILE)
        }
    }
    /// Reserves the lowest free descriptor below `limit`, with its memory: nobody else gets it, and it is not open.
    ///
    /// # Errors
    /// `EMFILE` if there is none, `ENOMEM`.
    pub fn reserve(&mut self, limit: usize) -> Result<usize, Errno> {
        let fd = self.free_below(0, limit)?;
        self.grow(fd)?;
        self.set_used(fd);
        self.reserved += 1;
        Ok(fd)
    }
    /// Returns whether `fd` is reserved.
    pub fn is_reserved(&self, fd: usize) -> bool {
        let word = self.used.get(fd / WORD_BITS).copied().unwrap_or(0);
        word >> (fd % WORD_BITS) & 1 != 0 && self.get(fd).is_none()
    }
    /// Puts `file` at `fd`, which the caller has reserved.
    pub fn fill(&mut self, fd: usize, file: F, on_exec: OnExec) {
        if let Some(slot) = self.files.get_mut(fd) {
            *slot = Some(file);
        }
        self.reserved = self.reserved.saturating_sub(1);
        self.set_on_exec(fd, on_exec);
    }
    /// Frees `fd`, which the caller has reserved.
    pub fn release(&mut self, fd: usize) {
        self.reserved = self.reserved.saturating_sub(1);
        self.set_free(fd);
    }
    fn set_free(&mut self, fd: usize) {
        clear_bit(&mut self.used, fd);
        self.first_free_word = self.first_free_word.min(fd / WORD_BITS);
    }
    fn set_used(&mut self, fd: usize) {
        set_bit(&mut self.used, fd);
        while self.used.get(self.first_free_word) == Some(&u64::MAX) {
            self.first_free_word += 1;
        }
    }
    /// Puts `file` at `fd`; returns the file that was there.
    ///
    /// # Errors
    /// `EBADF` beyond [`DESCRIPTORS_MAX`], `ENOMEM`.
    pub fn put(&mut self, fd: usize, file: F, on_exec: OnExec) -> Result<Option<F>, Errno> {
        self.grow(fd)?;
        let slot = self.files.get_mut(fd).ok_or(Errno::EBADF)?;
        let before = slot.replace(file);
        self.set_on_exec(fd, on_exec);
        self.set_used(fd);
        Ok(before)
    }
    /// Puts `file` at `fd`, as [`Slots::put`], unless that is reserved.
    ///
    /// # Errors
    /// `EBUSY` if it is reserved; those of [`Slots::put`].
    pub fn replace(&mut self, fd: usize, file: F, on_exec: OnExec) -> Result<Option<F>, Errno> {
        if self.is_reserved(fd) {
            return Err(Errno::EBUSY);
        }
        self.put(fd, file, on_exec)
    }
    /// Empties `fd`; returns the file that was there.
    pub fn take(&mut self, fd: usize) -> Option<F> {
        let before = self.files.get_mut(fd)?.take()?;
        clear_bit(&mut self.close_on_exec, fd);
        self.set_free(fd);
        Some(before)
    }
    /// Returns the next descriptor in use from `from` up.
    pub fn next_used(&self, from: usize) -> Option<usize> {
        next_set(&self.used, from)
    }
    /// Returns the next descriptor from `from` up that exec closes.
    pub fn next_closing(&self, from: usize) -> Option<usize> {
        next_set(&self.close_on_exec, from)
    }
    /// Makes a list with the same descriptors, for fork.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn duplicate(&self) -> Result<Slots<F>, Errno> {
        let mut copy = Slots::new();
        let last = self.used.iter().rposition(|word| *word != 0);
        let Some(last) = last else { return Ok(copy) };
        copy.grow(last * WORD_BITS)?;
        for (slot, file) in copy.files.iter_mut().zip(&self.files) {
            slot.clone_from(file);
        }
        copy_words(&mut copy.used, &self.used);
        copy_words(&mut copy.close_on_exec, &self.close_on_exec);
        copy.first_free_word = self.first_free_word;
        if self.reserved > 0 {
            copy.free_reserved();
        }
        Ok(copy)
    }
    /// Frees the reserved descriptors, which belong to calls on the list of which this is a copy.
    #[cold]
    fn free_reserved(&mut self) {
        let mut from = 0;
        while let Some(fd) = self.next_used(from) {
            if self.get(fd).is_none() {
                self.set_free(fd);
            }
            from = fd + 1;
        }
    }
    /// Makes room for `fd`, in whole words, at least doubling.
    ///
    /// # Errors
    /// `EBADF` beyond [`DESCRIPTORS_MAX`], `ENOMEM`.
    fn grow(&mut self, fd: usize) -> Result<(), Errno> {
        if fd < self.files.len() {
            return Ok(());
        }
        if fd >= DESCRIPTORS_MAX {
            return Err(Errno::EBADF);
        }
        let wanted =
            (fd + 1).next_multiple_of(WORD_BITS).max(self.files.len() * 2).min(DESCRIPTORS_MAX);
        let more = wanted - self.files.len();
        self.charge.grow(more * size_of::<Option<F>>() + more / 4)?;
        self.files.resize_with(wanted, || None);
        self.used.resize(wanted / WORD_BITS, 0);
        self.close_on_exec.resize(wanted / WORD_BITS, 0);
        Ok(())
    }
}

impl<F: Clone> Default for Slots<F> {
    fn default() -> Self {
        Slots::new()
    }
}

fn set_bit(words: &mut [u64], at: usize) {
    if let Some(word) = words.get_mut(at / WORD_BITS) {
        *word |= 1 << (at % WORD_BITS);
    }
}

fn clear_bit(words: &mut [u64], at: usize) {
    if let Some(word) = words.get_mut(at / WORD_BITS) {
        *word &= !(1 << (at % WORD_BITS));
    }
}

fn copy_words(to: &mut [u64], from: &[u64]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}

fn next_set(words: &[u64], from: usize) -> Option<usize> {
    let mut skipped = from % WORD_BITS;
    for (index, word) in words.iter().enumerate().skip(from / WORD_BITS) {
        let set = word & (u64::MAX << skipped);
        if set != 0 {
            return Some(index * WORD_BITS + set.trailing_zeros() as usize);
        }
        skipped = 0;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(count: usize) -> Slots<usize> {
        let mut slots = Slots::new();
        for value in 0..count {
            assert_eq!(slots.insert(value, 0, 1 << 20, OnExec::Keep), Ok(value));
        }
        slots
    }

    #[test]
    fn the_lowest_free_descriptor_is_given() {
        let mut slots = filled(200);
        assert_eq!(slots.take(130), Some(130));
        assert_eq!(slots.take(3), Some(3));
        assert_eq!(slots.insert(0, 0, 1024, OnExec::Keep), Ok(3));
        assert_eq!(slots.insert(0, 0, 1024, OnExec::Keep), Ok(130));
        assert_eq!(slots.insert(0, 0, 1024, OnExec::Keep), Ok(200));
    }

    #[test]
    fn a_search_may_start_above_the_lowest() {
        let mut slots = filled(10);
        assert_eq!(slots.insert(0, 100, 1024, OnExec::Keep), Ok(100));
        assert_eq!(slots.insert(0, 100, 1024, OnExec::Keep), Ok(101));
        assert_eq!(slots.insert(0, 0, 1024, OnExec::Keep), Ok(10));
        assert_eq!(slots.free_from(5000), 5000);
    }

    #[test]
    fn the_limit_is_kept_and_changes_nothing() {
        let mut slots = filled(8);
        assert_eq!(slots.insert(0, 0, 8, OnExec::Keep), Err(Errno::EMFILE));
        assert_eq!(slots.put(DESCRIPTORS_MAX, 0, OnExec::Keep), Err(Errno::EBADF));
        assert_eq!(slots.next_used(8), None);
    }

    #[test]
    fn putting_replaces_and_resets_the_close_on_exec_bit() {
        let mut slots = filled(3);
        slots.set_on_exec(1, OnExec::Close);
        assert_eq!(slots.put(1, 9, OnExec::Keep), Ok(Some(1)));
        assert_eq!(slots.on_exec(1), OnExec::Keep);
        assert_eq!(slots.put(1, 9, OnExec::Close), Ok(Some(9)));
        assert_eq!(slots.next_closing(0), Some(1));
        slots.take(1);
        assert_eq!(slots.next_closing(0), None);
    }

    #[test]
    fn a_duplicate_has_the_same_descriptors_and_bits_and_is_independent() {
        let mut slots = filled(70);
        slots.set_on_exec(65, OnExec::Close);
        slots.take(5);
        let mut copy = slots.duplicate().unwrap();
        assert_eq!(copy.get(69), Some(&69));
        assert_eq!(copy.on_exec(65), OnExec::Close);
        assert_eq!(copy.insert(0, 0, 1024, OnExec::Keep), Ok(5));
        assert_eq!(slots.get(5), None);
    }

    #[test]
    fn a_reserved_descriptor_is_neither_free_nor_open() {
        let mut slots = filled(2);
        assert_eq!(slots.reserve(1024), Ok(2));
        assert_eq!((slots.take(2), slots.get(2).is_none()), (None, true));
        assert!(slots.is_reserved(2));
        assert_eq!(slots.insert(0, 0, 1024, OnExec::Keep), Ok(3));
        assert!(!slots.duplicate().unwrap().is_reserved(2));
        slots.release(2);
        assert_eq!((slots.is_reserved(2), slots.reserve(1024)), (false, Ok(2)));
        slots.fill(2, 7, OnExec::Close);
        assert_eq!((slots.get(2), slots.on_exec(2)), (Some(&7), OnExec::Close));
        assert_eq!(slots.reserve(4), Err(Errno::EMFILE));
    }

    #[test]
    fn used_descriptors_are_walked_in_order() {
        let mut slots = filled(0);
        for fd in [0, 63, 64, 300] {
            slots.put(fd, fd, OnExec::Keep).unwrap();
        }
        let mut seen = Vec::new();
        let mut from = 0;
        while let Some(fd) = slots.next_used(from) {
            seen.push(fd);
            from = fd + 1;
        }
        assert_eq!(seen, [0, 63, 64, 300]);
    }
}
