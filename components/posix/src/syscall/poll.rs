//! poll and ppoll.
use super::{Call, Entry, place::descriptor_limit};
use crate::{
    poll::{Timeout, Wanted, wait_ready},
    signal,
};
use alloc::vec::Vec;
use linux_raw_sys::general as raw;
use rt::time::Instant;
use vfs::{Errno, file::Ready};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The family's calls.
pub const CALLS: &[Entry] =
    &[Entry::whole(raw::__NR_poll, "poll", poll), Entry::whole(raw::__NR_ppoll, "ppoll", ppoll)];

/// `struct pollfd`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct RawPoll {
    fd: i32,
    wanted: u16,
    found: u16,
}

/// So many descriptors are looked up under one lock.
const LOOKED_UP: usize = 64;
const NS_A_MILLISECOND: u64 = 1_000_000;

fn poll(call: &mut Call<'_>) -> Result<u64, Errno> {
    let timeout = match u64::try_from(call.int(2)) {
        Ok(milliseconds) => Timeout::after_ns(milliseconds * NS_A_MILLISECOND),
        Err(_) => Timeout::Never,
    };
    poll_restartable(call, timeout)
}

/// What an interrupted poll goes on as: with the moment at which it ends.
fn poll_again(call: &mut Call<'_>) -> Result<u64, Errno> {
    let timeout = match call.word(2) {
        u64::MAX => Timeout::Never,
        deadline_ns => Timeout::At(Instant(deadline_ns)),
    };
    poll_restartable(call, timeout)
}

fn poll_restartable(call: &mut Call<'_>, timeout: Timeout) -> Result<u64, Errno> {
    match poll_until(call, timeout) {
        Err(Errno::RESTART_NO_HANDLER) => {
            let deadline_ns = timeout.deadline().map_or(u64::MAX, |at| at.0);
            let args = [call.word(0), call.word(1), deadline_ns, 0, 0, 0];
            Err(call.task.restart_as(poll_again, args))
        }
        other => other,
    }
}

fn ppoll(call: &mut Call<'_>) -> Result<u64, Errno> {
    let timeout = Timeout::read_timespec(call.memory, call.word(2))?;
    set_mask(call, call.word(3), call.word(4))?;
    let result = poll_until(call, timeout);
    timeout.write_rest(call.memory, call.word(2));
    result
}

/// Blocks the signals of the set at `address` for the length of the call; null leaves the mask.
///
/// # Errors
/// `EINVAL` for a set that is not 8 bytes long, `EFAULT`.
pub fn set_mask(call: &Call<'_>, address: u64, bytes: u64) -> Result<(), Errno> {
    if address == 0 {
        return Ok(());
    }
    if bytes != size_of::<u64>() as u64 {
        return Err(Errno::EINVAL);
    }
    signal::set_temporary_mask(call.task, call.memory.read::<u64>(address)?);
    if call.task.has_signal() {
        // A signal that was blocked until now ends the wait as one that comes during it.
        rt::thread::kick(call.task.thread());
    }
    Ok(())
}

fn poll_until(call: &Call<'_>, timeout: Timeout) -> Result<u64, Errno> {
    let (address, count) = (call.word(0), call.uint(1) as usize);
    if count > descriptor_limit(call.task) {
        return Err(Errno::EINVAL);
    }
    let memory = call.memory;
    let mut entries: Vec<RawPoll> = memory.read_array(address, count)?;
    let mut wanted = Vec::with_capacity(count);
    for some in entries.chunks(LOOKED_UP) {
        let files = call.files.look_up();
        wanted.extend(some.iter().map(|entry| {
            if entry.fd < 0 {
                return Wanted::NOTHING;
            }
            let events = Ready::from_bits_truncate(entry.wanted) | Ready::ERROR | Ready::HANGUP;
            Wanted::new(files.get(entry.fd).ok().cloned(), events)
        }));
    }
    wait_ready(&mut wanted, timeout)?;
    let mut found = 0;
    for (entry, want) in entries.iter_mut().zip(&wanted) {
        entry.found = want.found().bits();
        found += u64::from(entry.found != 0);
    }
    for (index, entry) in entries.iter().enumerate() {
        let place = address.wrapping_add((index * size_of::<RawPoll>()) as u64);
        memory.write(place.wrapping_add(6), &entry.found)?;
    }
    Ok(found)
}
