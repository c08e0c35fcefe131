//! The calls poll and ppoll.
use super::entry::Entry;
use alloc::vec::Vec;
use linux_raw_sys::general as raw;
use memory::transfer::check_place;
use objects::poll::{self, PolledFile, Timeout, wait_ready};
use process::{call::Call, files::install::descriptor_limit, signal};
use rt::{PAGE_BYTES, time::Instant};
use vfs::{Errno, file::Ready};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The system calls that this file implements.
pub const CALLS: &[Entry] =
    &[Entry::whole(raw::__NR_poll, "poll", poll), Entry::whole(raw::__NR_ppoll, "ppoll", ppoll)];

/// `struct pollfd`. During the call the wanted events are replaced by those that are found; `found` keeps its old value.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct RawPoll {
    fd: i32,
    wanted: u16,
    found: u16,
}

impl RawPoll {
    /// Removes the wanted events, and adds errors, which are always wanted.
    fn take_wanted(&mut self) -> Ready {
        let wanted = core::mem::take(&mut self.wanted);
        Ready::from_bits_truncate(wanted) | Ready::ERROR | Ready::HANGUP
    }
}

/// Number of entries up to which no heap is used.
const FEW: usize = 16;
/// Number of descriptors that are looked up under one lock.
const LOOKED_UP: usize = 64;
const NS_A_MILLISECOND: u64 = 1_000_000;

fn poll(call: &mut Call<'_>) -> Result<u64, Errno> {
    let timeout = match u64::try_from(call.int(2)) {
        Ok(milliseconds) => Timeout::after_ns(milliseconds * NS_A_MILLISECOND),
        Err(_) => Timeout::Never,
    };
    poll_restartable(call, timeout)
}

/// Continues an interrupted poll, given the time at which it ends.
fn poll_again(call: &mut Call<'_>) -> Result<u64, Errno> {
    let timeout = match call.word(2) {
        u64::MAX => Timeout::Never,
        deadline_ns => Timeout::At(Instant(deadline_ns)),
    };
    poll_restartable(call, timeout)
}

fn poll_restartable(call: &mut Call<'_>, timeout: Timeout) -> Result<u64, Errno> {
    match poll_until(call, timeout) {
        Err(Errno::RestartUnhandled) => {
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
        // A signal that was blocked until now ends the wait as one that comes during it does.
        rt::thread::kick(call.task.thread());
    }
    Ok(())
}

fn poll_until(call: &Call<'_>, timeout: Timeout) -> Result<u64, Errno> {
    let (address, count) = (call.word(0), call.uint(1) as usize);
    if count > descriptor_limit(call.task) {
        return Err(Errno::EINVAL);
    }
    check_place(address, (count * size_of::<RawPoll>()) as u64)?;
    if count == 1 {
        let mut entry = call.memory.read(address)?;
        poll_one(call, &mut entry, timeout)?;
        return tell(call, address, &[entry]);
    }
    let mut few = [RawPoll::default(); FEW];
    let mut many: Vec<RawPoll>;
    let entries = match few.get_mut(..count) {
        Some(entries) => {
            call.memory.read_bytes(address, entries.as_mut_bytes())?;
            entries
        }
        None => {
            many = call.memory.read_array(address, count)?;
            &mut many
        }
    };
    let (mut pending, mut is_found) = (Vec::new(), false);
    for (part, some) in entries.chunks_mut(LOOKED_UP).enumerate() {
        let files = call.files.look_up();
        for (at, entry) in some.iter_mut().enumerate() {
            let events = entry.take_wanted();
            if entry.fd < 0 {
                continue;
            }
            let file = files.get(entry.fd).ok();
            match (poll::known(file, events), file) {
                (None, Some(file)) => {
                    if pending.is_empty() {
                        pending.reserve(count.min(LOOKED_UP));
                    }
                    pending.push(PolledFile::new(file.clone(), events, part * LOOKED_UP + at));
                }
                (found, _) => entry.wanted = found.unwrap_or(Ready::INVALID).bits(),
            }
            is_found |= entry.wanted != 0;
        }
    }
    if !is_found || !pending.is_empty() {
        wait_ready(&mut pending, if is_found { Timeout::Now } else { timeout }, call.caller())?;
    }
    for want in pending {
        if let Some(entry) = entries.get_mut(want.at()) {
            entry.wanted = want.found().bits();
        }
    }
    tell(call, address, entries)
}

/// Does the same as [`poll_until`] for a single descriptor, without a list.
fn poll_one(call: &Call<'_>, entry: &mut RawPoll, timeout: Timeout) -> Result<(), Errno> {
    let events = entry.take_wanted();
    if entry.fd < 0 {
        return wait_ready(&mut [], timeout, call.caller());
    }
    let found = {
        let files = call.files.look_up();
        let file = files.get(entry.fd).ok();
        match (poll::known(file, events), file) {
            (None, Some(file)) => Err(file.clone()),
            (found, _) => Ok(found.unwrap_or(Ready::INVALID)),
        }
    };
    let found = match found {
        Ok(found) if !found.is_empty() => found,
        Ok(nothing) => wait_ready(&mut [], timeout, call.caller()).map(|()| nothing)?,
        Err(file) => {
            let mut wanted = PolledFile::new(file, events, 0);
            wait_ready(core::slice::from_mut(&mut wanted), timeout, call.caller())?;
            wanted.found()
        }
    };
    entry.wanted = found.bits();
    Ok(())
}

/// Writes the events that were found, and counts the entries with events. An unchanged value is written once for each page,
/// so that memory that cannot be written is noticed.
fn tell(call: &Call<'_>, address: u64, entries: &[RawPoll]) -> Result<u64, Errno> {
    const WORD: usize = core::mem::offset_of!(RawPoll, found);
    let (mut count, mut page) = (0, None);
    for (index, entry) in entries.iter().enumerate() {
        count += u64::from(entry.wanted != 0);
        let place = address.wrapping_add((index * size_of::<RawPoll>() + WORD) as u64);
        let its_page = Some(place / PAGE_BYTES as u64);
        if entry.wanted != entry.found || page != its_page {
            call.memory.write(place, &entry.wanted)?;
            page = its_page;
        }
    }
    Ok(count)
}
