//! Kernel parameters: the command line from the boot loader, kept for ever.
use firmware::parameters;
use sync::boot::BootCell;

/// Longest command line; a longer one is cut.
pub const MAX_BYTES: usize = 2048;

static LINE: BootCell<[u8; MAX_BYTES]> = BootCell::new();

/// Keeps a copy of `line`.
///
/// # Safety
/// Once, while one processor runs.
pub unsafe fn set(line: &[u8]) {
    let mut kept = [0; MAX_BYTES];
    kept.iter_mut().zip(line).for_each(|(to, &byte)| *to = byte);
    // SAFETY: as the caller says.
    unsafe { LINE.set(kept) };
}

/// Returns the command line; empty before [`set`].
pub fn command_line() -> &'static str {
    LINE.get().map_or("", |line| parameters::text(line))
}

/// Returns the value of the last `name=value`, or `""` for a bare `name`.
pub fn get(name: &str) -> Option<&'static str> {
    parameters::find(command_line(), name)
}

/// Returns the value of the last `name=value` as a number, decimal or `0x` hexadecimal.
pub fn number(name: &str) -> Option<u64> {
    parameters::number(get(name)?)
}
