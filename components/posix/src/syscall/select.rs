//! select and pselect6.
use super::{Call, Entry, poll::set_mask};
use crate::poll::{Timeout, Wanted, wait_ready};
use alloc::{vec, vec::Vec};
use core::ops::Range;
use linux_raw_sys::general as raw;
use vfs::{Errno, file::Ready};

/// The family's calls.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_select, "select", select),
    Entry::whole(raw::__NR_pselect6, "pselect6", pselect),
];

const WORD_BITS: usize = u64::BITS as usize;
/// What makes a descriptor readable, writable, exceptional; one that cannot be polled is all of them.
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
    let timeout = Timeout::read_timespec(memory, call.word(4))?;
    if call.word(5) != 0 {
        let [address, bytes] = memory.read::<[u64; 2]>(call.word(5))?;
        set_mask(call, address, bytes)?;
    }
    let result = select_until(call, timeout);
    timeout.write_rest(memory, call.word(4));
    result
}

fn select_until(call: &Call<'_>, timeout: Timeout) -> Result<u64, Errno> {
    let files = call.files;
    let count = usize::try_from(call.int(0)).map_err(|_| Errno::EINVAL)?;
    let count = count.min(files.size());
    let memory = call.memory;
    let words = count.div_ceil(WORD_BITS);
    let addresses = [call.word(1), call.word(2), call.word(3)];
    let mut asked: [Vec<u64>; 3] = [vec![], vec![], vec![]];
    for (set, address) in asked.iter_mut().zip(addresses) {
        if address != 0 {
            *set = memory.read_array(address, words)?;
        }
        clear_from(set, count);
    }
    let mut wanted: Vec<Wanted> = Vec::with_capacity(descriptors(&asked, 0..words).count());
    for word in 0..words {
        let files = files.look_up();
        for fd in descriptors(&asked, word..word + 1) {
            let of = asked.iter().zip(EVENTS).filter(|(set, _)| has(set, fd));
            let events = of.fold(Ready::empty(), |sum, (_, events)| sum | events);
            wanted.push(Wanted::new(Some(files.get(fd as i32)?.clone()), events));
        }
    }
    wait_ready(&mut wanted, timeout)?;
    let mut found = 0;
    for ((set, events), address) in asked.clone().iter_mut().zip(EVENTS).zip(addresses) {
        if address == 0 {
            continue;
        }
        for (want, fd) in wanted.iter().zip(descriptors(&asked, 0..words)) {
            match want.found().intersects(events) {
                true => found += u64::from(has(set, fd)),
                false => clear(set, fd),
            }
        }
        memory.write_bytes(address, zerocopy::IntoBytes::as_bytes(set.as_slice()))?;
    }
    Ok(found)
}

/// The descriptors of `words` that are in any set, upwards.
fn descriptors(sets: &[Vec<u64>; 3], words: Range<usize>) -> impl Iterator<Item = usize> {
    let word = |at| sets.iter().fold(0, |sum, set| sum | set.get(at).copied().unwrap_or(0));
    words.flat_map(move |at| bits(word(at)).map(move |bit| at * WORD_BITS + bit))
}

/// The numbers of the bits that are set.
fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let lowest = word.trailing_zeros() as usize;
        word &= word.checked_sub(1)?;
        Some(lowest)
    })
}

fn clear(set: &mut [u64], fd: usize) {
    if let Some(word) = set.get_mut(fd / WORD_BITS) {
        *word &= !(1 << (fd % WORD_BITS));
    }
}

/// Takes out what is not below `count`.
fn clear_from(set: &mut [u64], count: usize) {
    if let Some(last) = set.get_mut(count / WORD_BITS) {
        *last &= (1 << (count % WORD_BITS)) - 1;
    }
}

fn has(set: &[u64], fd: usize) -> bool {
    set.get(fd / WORD_BITS).is_some_and(|word| word >> (fd % WORD_BITS) & 1 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_those_of_all_sets_below_the_count() {
        let mut sets = [vec![0b101, 1 << 63], vec![], vec![0b10, 1]];
        assert!(descriptors(&sets, 0..2).eq([0, 1, 2, 64, 127]));
        sets.iter_mut().for_each(|set| clear_from(set, 127));
        assert!(descriptors(&sets, 0..2).eq([0, 1, 2, 64]));
        clear(&mut sets[0], 2);
        assert!(!has(&sets[0], 2) && has(&sets[0], 0));
        assert!(bits(u64::MAX).eq(0..64));
    }
}
