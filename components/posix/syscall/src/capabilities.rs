//! Capabilities: capget, capset, the options of prctl about them, and the effect of a change of
//! user (capabilities(7)).
use super::{credentials, entry::Entry};
use alloc::vec::Vec;
use linux_raw_sys::{general as raw, prctl};
use process::{Task, call::Call};
use vfs::{
    Credentials, Errno,
    credentials::{Capabilities, Ids},
};
use zerocopy::IntoBytes;

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_capget, "capget", capget),
    Entry::whole(raw::__NR_capset, "capset", capset),
];

/// `SECBIT_NO_SETUID_FIXUP`: a change of user changes no capabilities.
const NO_SETUID_FIXUP: u32 = 1 << 2;
/// `SECBIT_KEEP_CAPS`: giving up user 0 keeps the permitted set.
const KEEP_CAPS: u32 = 1 << 4;
const KEEP_CAPS_LOCKED: u32 = 1 << 5;
/// `SECBIT_NO_CAP_AMBIENT_RAISE`
const NO_AMBIENT_RAISE: u32 = 1 << 6;
/// All secure bits with their locks.
const SECURE_BITS: u32 = 0xff;
/// The lock bits among them, each next above the bit that it locks.
const SECURE_LOCKS: u32 = 0xaa;

/// Changes the capability sets after a change from the user `old`, unless `SECURE_NO_SETUID_FIXUP`
/// is set.
pub fn follow_user(new: &mut Credentials, old: Ids) {
    if new.secure_bits & NO_SETUID_FIXUP != 0 {
        return;
    }
    let had_root = old.real == 0 || old.effective == 0 || old.saved == 0;
    let has_root = new.user.real == 0 || new.user.effective == 0 || new.user.saved == 0;
    let sets = &mut new.capabilities;
    if had_root && !has_root {
        if new.secure_bits & KEEP_CAPS == 0 {
            sets.permitted = Capabilities::empty();
        }
        sets.effective = Capabilities::empty();
        sets.ambient = Capabilities::empty();
    }
    if old.effective == 0 && new.user.effective != 0 {
        sets.effective = Capabilities::empty();
    } else if old.effective != 0 && new.user.effective == 0 {
        sets.effective = sets.permitted;
    } else if old.fs == 0 && new.user.fs != 0 {
        sets.effective &= !Capabilities::FILES;
    } else if old.fs != 0 && new.user.fs == 0 {
        sets.effective |= sets.permitted & Capabilities::FILES;
    }
}

fn decode_capability(number: u64) -> Result<Capabilities, Errno> {
    let bit = u32::try_from(number).ok().filter(|bit| *bit <= 40).ok_or(Errno::EINVAL)?;
    Ok(Capabilities::from_bits_truncate(1 << bit))
}

/// Does the options of prctl(2) that are about capabilities.
///
/// # Errors
/// Those of prctl(2); `EINVAL` for any other option.
pub fn prctl(task: &Task, option: u32, arguments: [u64; 4]) -> Result<u64, Errno> {
    let [second, third, fourth, fifth] = arguments;
    match option {
        prctl::PR_CAPBSET_READ => decode_capability(second)
            .map(|one| u64::from(task.credentials().capabilities.bounding.contains(one))),
        prctl::PR_CAPBSET_DROP => drop_bounding(task, second),
        prctl::PR_CAP_AMBIENT if (fourth, fifth) != (0, 0) => Err(Errno::EINVAL),
        prctl::PR_CAP_AMBIENT => ambient(task, second, third),
        prctl::PR_GET_KEEPCAPS => Ok(u64::from(task.credentials().secure_bits & KEEP_CAPS != 0)),
        prctl::PR_SET_KEEPCAPS => keep_capabilities(task, second),
        prctl::PR_GET_SECUREBITS => Ok(u64::from(task.credentials().secure_bits)),
        prctl::PR_SET_SECUREBITS => set_secure_bits(task, second),
        _ => Err(Errno::EINVAL),
    }
}

fn drop_bounding(task: &Task, number: u64) -> Result<u64, Errno> {
    let old = task.credentials();
    if !old.has(Capabilities::SETPCAP) {
        return Err(Errno::EPERM);
    }
    let mut new = (*old).clone();
    new.capabilities.bounding &= !decode_capability(number)?;
    credentials::install(task, new);
    Ok(0)
}

fn ambient(task: &Task, action: u64, number: u64) -> Result<u64, Errno> {
    let old = task.credentials();
    let mut new = (*old).clone();
    let action = u32::try_from(action).map_err(|_| Errno::EINVAL)?;
    if action == prctl::PR_CAP_AMBIENT_CLEAR_ALL {
        if number != 0 {
            return Err(Errno::EINVAL);
        }
        new.capabilities.ambient = Capabilities::empty();
        credentials::install(task, new);
        return Ok(0);
    }
    let one = decode_capability(number)?;
    match action {
        prctl::PR_CAP_AMBIENT_IS_SET => {
            return Ok(u64::from(old.capabilities.ambient.contains(one)));
        }
        prctl::PR_CAP_AMBIENT_RAISE => {
            let may_raise = old.capabilities.permitted & old.capabilities.inheritable;
            if !may_raise.contains(one) || old.secure_bits & NO_AMBIENT_RAISE != 0 {
                return Err(Errno::EPERM);
            }
            new.capabilities.ambient |= one;
        }
        prctl::PR_CAP_AMBIENT_LOWER => new.capabilities.ambient &= !one,
        _ => return Err(Errno::EINVAL),
    }
    credentials::install(task, new);
    Ok(0)
}

fn keep_capabilities(task: &Task, value: u64) -> Result<u64, Errno> {
    let old = task.credentials();
    let secure_bits = match value {
        0 => old.secure_bits & !KEEP_CAPS,
        1 => old.secure_bits | KEEP_CAPS,
        _ => return Err(Errno::EINVAL),
    };
    if old.secure_bits & KEEP_CAPS_LOCKED != 0 {
        return Err(Errno::EPERM);
    }
    credentials::install(task, Credentials { secure_bits, ..(*old).clone() });
    Ok(0)
}

/// Sets the secure bits. Locked bits and locks must not change, and unknown bits are refused.
fn set_secure_bits(task: &Task, value: u64) -> Result<u64, Errno> {
    let old = task.credentials();
    let wanted = u32::try_from(value).map_err(|_| Errno::EPERM)?;
    let locked = old.secure_bits & SECURE_LOCKS;
    let changes_locked = (old.secure_bits ^ wanted) & (locked >> 1) != 0;
    let unlocks = locked & !wanted != 0;
    let is_unknown = wanted & !SECURE_BITS != 0;
    if changes_locked || unlocks || is_unknown || !old.has(Capabilities::SETPCAP) {
        return Err(Errno::EPERM);
    }
    credentials::install(task, Credentials { secure_bits: wanted, ..(*old).clone() });
    Ok(0)
}

const VERSION_1: u32 = 0x1998_0330;
const VERSION_2: u32 = 0x2007_1026;
const VERSION_3: u32 = 0x2008_0522;

/// Reads the header. Returns the number of 32-bit halves and the process; a wrong version is
/// replaced by the supported one.
fn read_header(call: &Call<'_>) -> Result<(usize, u32), Errno> {
    let memory = call.memory;
    let [version, id] = memory.read::<[u32; 2]>(call.word(0))?;
    match version {
        VERSION_1 => Ok((1, id)),
        VERSION_2 | VERSION_3 => Ok((2, id)),
        _ => {
            memory.write(call.word(0), &VERSION_3)?;
            Err(Errno::EINVAL)
        }
    }
}

fn capget(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (halves, id) = match read_header(call) {
        Err(Errno::EINVAL) if call.word(1) == 0 => return Ok(0),
        other => other?,
    };
    if call.word(1) == 0 {
        return Ok(0);
    }
    let target = match id {
        0 => call.task.clone(),
        id if id > i32::MAX as u32 => return Err(Errno::EINVAL),
        id => call.task.visible().known_task(id).ok_or(Errno::ESRCH)?,
    };
    let sets = target.credentials().capabilities;
    let half = |set: Capabilities, index: usize| (set.bits() >> (32 * index)) as u32;
    let words = [0, 1].map(|index| {
        [half(sets.effective, index), half(sets.permitted, index), half(sets.inheritable, index)]
    });
    call.memory.write_bytes(call.word(1), words.get(..halves).unwrap_or(&words).as_bytes())?;
    Ok(0)
}

fn capset(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (halves, id) = read_header(call)?;
    if id != 0 && id != call.task.id() {
        return Err(Errno::EPERM);
    }
    let words: Vec<u32> = call.memory.read_array(call.word(1), halves * 3)?;
    let set = |kind: usize| {
        let word = |half: usize| u64::from(words.get(half * 3 + kind).copied().unwrap_or(0));
        Capabilities::from_bits_truncate(word(0) | word(1) << 32)
    };
    let (effective, permitted, inheritable) = (set(0), set(1), set(2));
    let old = call.task.credentials();
    let sets = old.capabilities;
    let beyond = if old.has(Capabilities::SETPCAP) { Capabilities::ALL } else { sets.permitted };
    let may_inherit = sets.inheritable | beyond & (sets.inheritable | sets.bounding);
    if !sets.permitted.contains(permitted)
        || !permitted.contains(effective)
        || !may_inherit.contains(inheritable)
    {
        return Err(Errno::EPERM);
    }
    let mut new = (*old).clone();
    new.capabilities.effective = effective;
    new.capabilities.permitted = permitted;
    new.capabilities.inheritable = inheritable;
    new.capabilities.ambient &= permitted & inheritable;
    credentials::install(call.task, new);
    Ok(0)
}
