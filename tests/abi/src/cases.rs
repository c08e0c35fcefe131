//! Tables of calls: number, arguments and expected answer.
use crate::{Scratch, isolated};

pub use crate::returns::setting::{at, map, raw, room};

/// An address outside the range of programs.
pub const KERNEL: i64 = -0x8000_0000_0000;
/// Number of a process that does not exist.
pub const ABSENT: i64 = 0x3fff_fff0;

/// A call, its arguments and its answer, which is negative if it is an error.
pub type Case = (i64, [i64; 6], i64);

/// Makes each call and checks its answer.
///
/// # Panics
/// Panics if a call has another answer.
#[track_caller]
pub fn all(cases: &[Case]) {
    let wrong: Vec<_> = cases
        .iter()
        .map(|(call, args, wanted)| (call, args, raw(*call, *args), wanted))
        .filter(|(.., answer, wanted)| answer != *wanted)
        .collect();
    assert!(wrong.is_empty(), "call, arguments, answer, wanted: {wrong:?}");
}

/// Returns the arguments of a call; those not given are 0.
pub fn of<const N: usize>(given: [i64; N]) -> [i64; 6] {
    let mut all = [0; 6];
    all[..N].copy_from_slice(&given);
    all
}

/// Returns an error in the form of a call's answer.
pub fn no(error: i32) -> i64 {
    -i64::from(error)
}

/// Runs a test's body in a process of its own, whose current folder is new and empty.
///
/// # Panics
/// Panics if the body panicked.
#[track_caller]
pub fn in_folder(body: impl FnOnce()) {
    isolated(|| {
        let scratch = Scratch::new();
        std::env::set_current_dir(scratch.path(".")).expect("a new folder");
        body();
    });
}
