//! The calls select and pselect6.
use super::{entry::Entry, poll::set_mask};
use alloc::{vec, vec::Vec};
use linux_raw_sys::general as raw;
use objects::poll::{self, PolledFile, Timeout, wait_ready};
use process::call::Call;
use rt::memory::Charge;
use vfs::{Errno, file::Ready};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_select, "select", select),
    Entry::whole(raw::__NR_pselect6, "pselect6", pselect),
];

const WORD_BITS: usize = u64::BITS as usize;
/// The events for which a descriptor is readable, writable, exceptional; one that cannot be polled is in all
/// three sets.
const EVENTS: [Ready; 3] = [
    Ready::IN
        .union(Ready::READ_NORMAL)
        .union(Ready::HANGUP)
        .union(Ready::ERROR)
        .union(Ready::INVALID),
    Ready::OUT.union(Ready::WRITE_NORMAL).union(Ready::ERROR).union(Ready::INVALID),
    Ready::PRIORITY.union(Ready::INVALID),
];

fn select(call: &mut Call<'_>) -> Result<u64, Errno> {
    let memory = call.memory;
    let timeout = Timeout::read_timeval(memory, call.word(4))?;
    let result = select_until(call, timeout);
    timeout.write_rest_timeval(memory, call.word(4));
    result
}

fn pselect(call: &mut Call<'_>) -> Result<u64, Errno> {
    let memory = call.memory;
    let [mask, bytes] = match call.word(5) {
        0 => [0; 2],
        at => memory.read(at)?,
    };
    let timeout = Timeout::read_timespec(memory, call.word(4))?;
    set_mask(call, mask, bytes)?;
    let result = select_until(call, timeout);
    timeout.write_rest(memory, call.word(4));
    result
}

/// Number of words of each set up to which no heap is used.
const FEW: usize = 4;

/// Returns the events that are wanted of the descriptor whose bit in the words is `bit`.
#[inline]
fn wanted(words: [u64; EVENTS.len()], bit: u64) -> Ready {
    let mut wanted = Ready::empty();
    for (word, events) in words.into_iter().zip(EVENTS) {
        if word & bit != 0 {
            wanted |= events;
        }
    }
    wanted
}

/// The sets of a call: the wanted descriptors and the ready ones, each for every kind of [`EVENTS`], `words`
/// long.
struct Sets<'a> {
    asked: &'a mut [u64],
    found: &'a mut [u64],
    words: usize,
    count: u64,
}

impl Sets<'_> {
    /// Returns words `at` of the wanted descriptors.
    fn asked(&self, at: usize) -> [u64; EVENTS.len()] {
        core::array::from_fn(|kind| self.asked.get(kind * self.words + at).copied().unwrap_or(0))
    }
    /// Returns a number of descriptors that are not fewer than the wanted ones.
    fn asked_count(&self) -> usize {
        self.asked.iter().map(|word| word.count_ones() as usize).sum()
    }
    /// Records that `fd` is `ready`.
    #[inline]
    fn found(&mut self, fd: usize, ready: Ready) {
        let (at, bit) = (fd / WORD_BITS, 1 << (fd % WORD_BITS));
        for (kind, events) in EVENTS.into_iter().enumerate() {
            let place = kind * self.words + at;
            let is_asked = self.asked.get(place).is_some_and(|word| word & bit != 0);
            if let Some(found) = self.found.get_mut(place)
                && is_asked
                && ready.intersects(events)
            {
                *found |= bit;
                self.count += 1;
            }
        }
    }
}

fn select_until(call: &Call<'_>, timeout: Timeout) -> Result<u64, Errno> {
    let count = usize::try_from(call.int(0)).map_err(|_| Errno::EINVAL)?;
    let count = count.min(call.files.size());
    let words = count.div_ceil(WORD_BITS);
    let (mut few, mut many) = ([0; 2 * EVENTS.len() * FEW], vec![]);
    let bytes = 2 * EVENTS.len() * words * size_of::<u64>();
    let mut charge = Charge::none();
    let room = match few.get_mut(..2 * EVENTS.len() * words) {
        Some(room) => room,
        None => {
            charge.grow(bytes)?;
            many.resize(2 * EVENTS.len() * words, 0);
            &mut many
        }
    };
    let (asked, found) = room.split_at_mut(EVENTS.len() * words);
    let mut sets = Sets { asked, found, words, count: 0 };
    read_sets(call, &mut sets, count)?;
    let mut pending = Vec::new();
    for at in 0..words {
        let of_word = sets.asked(at);
        let mut rest = of_word.iter().fold(0, |sum, word| sum | word);
        if rest == 0 {
            continue;
        }
        let files = call.files.look_up();
        while rest != 0 {
            let fd = at * WORD_BITS + rest.trailing_zeros() as usize;
            let bit = rest & rest.wrapping_neg();
            rest ^= bit;
            let file = files.get(fd as i32)?;
            match poll::known(Some(file), Ready::ALWAYS) {
                Some(ready) => sets.found(fd, ready),
                None => {
                    if pending.is_empty() {
                        pending.reserve(sets.asked_count());
                    }
                    let events = wanted(of_word, bit);
                    pending.push(PolledFile::new(file.clone(), events, fd));
                }
            }
        }
    }
    let is_found = sets.count > 0;
    if !is_found || !pending.is_empty() {
        wait_ready(&mut pending, if is_found { Timeout::Now } else { timeout }, call.caller())?;
    }
    for want in pending.iter().filter(|want| !want.found().is_empty()) {
        sets.found(want.at(), want.found());
    }
    for (kind, address) in addresses(call).into_iter().enumerate() {
        if address != 0 {
            let found = sets.found.get(kind * words..(kind + 1) * words).unwrap_or_default();
            call.memory.write_bytes(address, zerocopy::IntoBytes::as_bytes(found))?;
        }
    }
    Ok(sets.count)
}

fn addresses(call: &Call<'_>) -> [u64; EVENTS.len()] {
    [call.word(1), call.word(2), call.word(3)]
}

/// Reads the sets that are given, up to descriptor `count`.
fn read_sets(call: &Call<'_>, sets: &mut Sets<'_>, count: usize) -> Result<(), Errno> {
    let words = sets.words;
    for (kind, address) in addresses(call).into_iter().enumerate() {
        let set = sets.asked.get_mut(kind * words..(kind + 1) * words).unwrap_or_default();
        if address != 0 {
            call.memory.read_bytes(address, zerocopy::IntoBytes::as_mut_bytes(set))?;
            clear_from(set, count);
        }
    }
    Ok(())
}

/// Clears the bits from `count` on.
fn clear_from(set: &mut [u64], count: usize) {
    if let Some(last) = set.get_mut(count / WORD_BITS) {
        *last &= (1 << (count % WORD_BITS)) - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_is_of_what_is_asked() {
        let mut asked = [0b101, 1 << 63, 0, 0, 0b10, 1];
        clear_from(&mut asked[..2], 127);
        assert_eq!(asked[..2], [0b101, 0]);
        let mut found = [0; 6];
        let mut sets = Sets { asked: &mut asked, found: &mut found, words: 2, count: 0 };
        assert_eq!(sets.asked(1), [0, 0, 1]);
        sets.found(2, Ready::ALWAYS);
        sets.found(1, Ready::ALWAYS);
        sets.found(64, Ready::INVALID);
        assert_eq!(sets.count, 2);
        assert_eq!(found, [0b100, 0, 0, 0, 0, 1]);
    }
}
