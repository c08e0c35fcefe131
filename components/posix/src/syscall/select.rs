//! select and pselect6.
use super::{Call, Entry, poll::set_mask};
use crate::poll::{Timeout, Wanted, wait_ready};
use alloc::{vec, vec::Vec};
use linux_raw_sys::general as raw;
use vfs::{Errno, file::Ready};

/// The family's calls.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_select, "select", select),
    Entry::whole(raw::__NR_pselect6, "pselect6", pselect),
];

const WORD_BITS: usize = u64::BITS as usize;
/// What makes a descriptor readable, writable, exceptional.
const EVENTS: [Ready; 3] = [
    Ready::IN.union(Ready::READ_NORMAL).union(Ready::HANGUP).union(Ready::ERROR),
    Ready::OUT.union(Ready::WRITE_NORMAL).union(Ready::ERROR),
    Ready::PRIORITY,
];

fn select(call: &mut Call<'_>) -> Result<u64, Errno> {
    let memory = call.task.memory();
    let timeout = Timeout::read_timeval(&memory, call.word(4))?;
    let result = select_until(call, timeout);
    timeout.write_rest_timeval(&memory, call.word(4));
    result
}

fn pselect(call: &mut Call<'_>) -> Result<u64, Errno> {
    let memory = call.task.memory();
    let timeout = Timeout::read_timespec(&memory, call.word(4))?;
    if call.word(5) != 0 {
        let [address, bytes] = memory.read::<[u64; 2]>(call.word(5))?;
        set_mask(call, address, bytes)?;
    }
    let result = select_until(call, timeout);
    timeout.write_rest(&memory, call.word(4));
    result
}

fn select_until(call: &Call<'_>, timeout: Timeout) -> Result<u64, Errno> {
    let files = call.task.files();
    let count = usize::try_from(call.int(0)).map_err(|_| Errno::EINVAL)?;
    let count = count.min(files.size());
    let memory = call.task.memory();
    let words = count.div_ceil(WORD_BITS);
    let addresses = [call.word(1), call.word(2), call.word(3)];
    let mut asked: [Vec<u64>; 3] = [vec![], vec![], vec![]];
    for (set, address) in asked.iter_mut().zip(addresses) {
        if address != 0 {
            *set = memory.read_array(address, words)?;
        }
    }
    let mut wanted: Vec<Wanted> = Vec::new();
    let mut descriptors = Vec::new();
    for fd in 0..count {
        let events = asked
            .iter()
            .zip(EVENTS)
            .filter(|(set, _)| has(set, fd))
            .fold(Ready::empty(), |sum, (_, events)| sum | events);
        if !events.is_empty() {
            let file = Some(files.get(fd as i32)?);
            wanted.push(Wanted { file, events, found: Ready::empty() });
            descriptors.push(fd);
        }
    }
    wait_ready(&mut wanted, timeout)?;
    let mut found = 0;
    for ((set, events), address) in asked.iter().zip(EVENTS).zip(addresses) {
        if address == 0 {
            continue;
        }
        let mut answer = vec![0; words];
        for (want, fd) in wanted.iter().zip(&descriptors) {
            if has(set, *fd) && want.found.intersects(events) {
                found += 1;
                if let Some(word) = answer.get_mut(fd / WORD_BITS) {
                    *word |= 1u64 << (fd % WORD_BITS);
                }
            }
        }
        memory.write_bytes(address, zerocopy::IntoBytes::as_bytes(answer.as_slice()))?;
    }
    Ok(found)
}

fn has(set: &[u64], fd: usize) -> bool {
    set.get(fd / WORD_BITS).is_some_and(|word| word >> (fd % WORD_BITS) & 1 != 0)
}
