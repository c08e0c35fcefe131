//! Calls that are not implemented: they fail with `ENOSYS`, and each number is logged once, with the program
//! that called it.
use core::sync::atomic::{AtomicU64, Ordering};
use process::call::{Call, NUMBERS};
use vfs::Errno;

static SEEN: [AtomicU64; NUMBERS / 64] = [const { AtomicU64::new(0) }; NUMBERS / 64];

/// The handler of every number without a call.
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
            let command = call.task.command();
            let command = command.split(|byte| *byte == 0).next().unwrap_or_default();
            log::warn!(
                "{} is not implemented: asked for by {} ({})",
                name(number).unwrap_or("a system call without a name"),
                command.escape_ascii(),
                call.task.id()
            );
        }
    }
    Err(Errno::ENOSYS)
}

/// Linux's calls, one `NUMBER NAME` on each line.
const LINUX_CALLS: &str = include_str!("../tests/linux_calls.txt");

/// Returns the name of the system call `number` on Linux.
fn name(number: u32) -> Option<&'static str> {
    let lines = LINUX_CALLS.lines().filter_map(|line| line.split_once(' '));
    let mut named = lines.filter(|(text, _)| text.parse() == Ok(number));
    named.next().map(|(_, name)| name.trim())
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn calls_are_named_as_in_linux() {
        assert_eq!(name(64), Some("semget"));
        assert_eq!(name(0), Some("read"));
        assert_eq!(name(511), None);
    }
}
