//! Calls that are not there: `ENOSYS`, named once a number in the log.
use super::{Call, NUMBERS};
use core::sync::atomic::{AtomicU64, Ordering};
use vfs::Errno;

static SEEN: [AtomicU64; NUMBERS / 64] = [const { AtomicU64::new(0) }; NUMBERS / 64];

/// The handler of every number nobody registered.
///
/// # Errors
/// Always `ENOSYS`.
#[cold]
#[inline(never)]
pub fn not_implemented(call: &mut Call<'_>) -> Result<u64, Errno> {
    let number = call.context.registers.rax as u32;
    if let Some(word) = SEEN.get((number / 64) as usize) {
        let bit = 1 << (number % 64);
        if word.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            log::warn!(
                "system call {number} is not implemented (first asked for by {})",
                call.task.id()
            );
        }
    }
    Err(Errno::ENOSYS)
}
