//! sched_setattr and sched_getattr: policy, nice value and priority in one structure.
//!
//! ```text
//!  0 size  4 policy  8 flags  16 nice  20 priority  24 runtime  32 deadline  40 period
//! ```
use super::{Wanted, allows_nice, check_change, is_real_time, named, set_policy};
use core::sync::atomic::Ordering;
use linux_raw_sys::general as raw;
use process::call::Call;
use vfs::{Capabilities, Errno};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// `struct sched_attr` in its first version.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct RawAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    deadline: [u64; 3],
}

const BYTES: u32 = size_of::<RawAttributes>() as u32;
/// Greatest length of any version in bytes.
const BYTES_MAX: u32 = rt::PAGE_BYTES as u32;
/// Flag: the task keeps its policy, and whether its children reset theirs.
const KEEP_POLICY: u64 = 8;
const KEEP_PARAMETERS: u64 = 16;
const RESET_ON_FORK: u64 = 1;
const KNOWN_FLAGS: u64 = RESET_ON_FORK | KEEP_POLICY | KEEP_PARAMETERS;

/// Does sched_setattr(2).
///
/// # Errors
/// `EINVAL`, `ESRCH`, `EPERM`, `E2BIG` for a version with unknown fields.
pub fn set(call: &mut Call<'_>) -> Result<u64, Errno> {
    if call.word(1) == 0 || call.int(0) < 0 || call.uint(2) != 0 {
        return Err(Errno::EINVAL);
    }
    let new = read(call)?;
    let target = named(call, call.int(0))?;
    if new.flags & !KNOWN_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    let (policy, is_reset_on_fork) = if new.flags & KEEP_POLICY != 0 {
        let is_reset_on_fork = target.is_reset_on_fork.load(Ordering::Relaxed);
        (target.policy.load(Ordering::Relaxed), is_reset_on_fork)
    } else {
        (new.policy, new.flags & RESET_ON_FORK != 0)
    };
    if new.flags & KEEP_PARAMETERS != 0 {
        let priority = target.real_time_priority.load(Ordering::Relaxed);
        return set_policy(call, &target, Wanted { policy, priority, is_reset_on_fork });
    }
    let before = target.nice.load(Ordering::Relaxed);
    let has_nice = matches!(policy, raw::SCHED_NORMAL | raw::SCHED_BATCH);
    let nice = if has_nice { new.nice.clamp(-20, 19) } else { before };
    let is_allowed = nice >= before
        || allows_nice(&target, nice)
        || call.task.credentials().has(Capabilities::SYS_NICE);
    if !is_allowed {
        return Err(Errno::EPERM);
    }
    check_change(call, &target)?;
    target.nice.store(nice, Ordering::Relaxed);
    let wanted = Wanted { policy, priority: new.priority, is_reset_on_fork };
    let set = set_policy(call, &target, wanted);
    match set {
        Err(_) => target.nice.store(before, Ordering::Relaxed),
        Ok(_) if nice != before => target.follow_policy(),
        Ok(_) => {}
    }
    set
}

fn read(call: &Call<'_>) -> Result<RawAttributes, Errno> {
    let memory = call.memory;
    let size: u32 = memory.read(call.word(1))?;
    let size = if size == 0 { BYTES } else { size };
    if !(BYTES..=BYTES_MAX).contains(&size) {
        let _ = memory.write(call.word(1), &BYTES);
        return Err(Errno::E2BIG);
    }
    let mut rest = alloc::vec![0u8; (size - BYTES) as usize];
    memory.read_bytes(call.word(1).wrapping_add(u64::from(BYTES)), &mut rest)?;
    if rest.iter().any(|byte| *byte != 0) {
        let _ = memory.write(call.word(1), &BYTES);
        return Err(Errno::E2BIG);
    }
    memory.read(call.word(1))
}

/// Does sched_getattr(2).
///
/// # Errors
/// `EINVAL`, `ESRCH`, `EFAULT`.
pub fn get(call: &mut Call<'_>) -> Result<u64, Errno> {
    let size = call.uint(2);
    let is_odd = call.word(1) == 0 || call.int(0) < 0 || call.uint(3) != 0;
    if is_odd || !(BYTES..=BYTES_MAX).contains(&size) {
        return Err(Errno::EINVAL);
    }
    let target = named(call, call.int(0))?;
    let policy = target.policy.load(Ordering::Relaxed);
    let priority = target.real_time_priority.load(Ordering::Relaxed);
    let nice = if is_real_time(policy) { 0 } else { target.nice.load(Ordering::Relaxed) };
    let is_reset = target.is_reset_on_fork.load(Ordering::Relaxed);
    let flags = if is_reset { RESET_ON_FORK } else { 0 };
    let attributes =
        RawAttributes { size: BYTES, policy, flags, nice, priority, ..Default::default() };
    call.memory.write(call.word(1), &attributes)?;
    Ok(0)
}
