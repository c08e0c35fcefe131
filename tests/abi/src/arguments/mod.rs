//! A table of every argument. `descriptions/*.txt` describe the calls of each family by the classes of their arguments
//! ([`describe`]); cases are generated from them. Each case runs in a new process with the same objects ([`state`]), makes one
//! call, and reports its answer and its changes to the visible state ([`effect`]).
//!
//! `./x campaign arguments` runs all cases on Debian's Linux and on Skerry and compares the reports. The watchdog is that of
//! [`crate::returns`].
mod describe;
mod effect;
mod state;

use crate::returns::{
    Case, Outcome, Watchdog, case,
    setting::{made, map_shared, raw, tick},
};
use describe::Call;
use std::{path::PathBuf, time::Duration};

pub use describe::described;

/// Length of a report in bytes; a longer effect is cut.
const REPORT_BYTES: usize = 4096;

/// A described call with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// The call and the names of its arguments.
    pub name: String,
    call: Call,
    arguments: [i64; 6],
}

/// Runs described cases in its own folder, one after the other.
pub struct Runner {
    watchdog: Watchdog,
    folder: PathBuf,
    report: *mut u8,
}

impl Runner {
    /// Makes a runner that gives each case `bound` and works in the folder `name` of the current one.
    ///
    /// # Panics
    /// Panics if the current folder cannot be determined.
    pub fn new(bound: Duration, name: &str) -> Runner {
        let folder = std::env::current_dir().expect("a folder").join(name);
        Runner { watchdog: Watchdog::new(bound), folder, report: map_shared(REPORT_BYTES) }
    }

    /// Runs `described`. Returns its answer and its effect in one line.
    pub fn run(&self, described: &Described) -> String {
        let _turn = described.call.is_of_all().then(state::Turn::take);
        state::remove(&self.folder);
        // SAFETY: the report is shared memory of this runner; no case is running.
        unsafe { self.report.write_bytes(0, REPORT_BYTES) };
        let (it, folder, report) = (described.clone(), self.folder.clone(), self.report);
        let case: Case = case(described.name.clone(), move || perform(&it, &folder, report));
        let outcome = self.watchdog.run(&case);
        // SAFETY: as above; the case has ended.
        let bytes = unsafe { std::slice::from_raw_parts(self.report, REPORT_BYTES) };
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(REPORT_BYTES);
        let effect = String::from_utf8_lossy(&bytes[..end]).into_owned();
        match outcome {
            Outcome::Returned(value) => format!("{}{effect}", answer(&described.call, value)),
            Outcome::Hung => "DID NOT RETURN".to_owned(),
            Outcome::HungBefore => "NOT PREPARED".to_owned(),
            Outcome::Died(status) => format!("DIED {status:#x}"),
        }
    }
}

/// Prepares the state, makes the call, and stores the effect in `report`.
fn perform(described: &Described, folder: &std::path::Path, report: *mut u8) -> i64 {
    state::prepare(folder);
    let mut maps = [effect::Maps::new(), effect::Maps::new()];
    let is_volatile = described.call.is_storing_volatile;
    let before = effect::look(folder, is_volatile);
    tick();
    maps[0].read();
    let answer = made(described.call.number, described.arguments);
    stop_ticking();
    maps[1].read();
    let before = effect::with_maps(before, &maps[0]);
    let after = effect::with_maps(effect::look(folder, is_volatile), &maps[1]);
    let text = effect::difference(&before, &after, is_volatile);
    let bytes = &text.as_bytes()[..text.len().min(REPORT_BYTES - 1)];
    // SAFETY: the report has room for them.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), report, bytes.len()) };
    answer
}

fn stop_ticking() {
    let never = [0i64; 4];
    raw(libc::SYS_setitimer, [0, never.as_ptr() as i64, 0, 0, 0, 0]);
}

/// Formats an answer: an error's number, or the value, masked if it differs from run to run.
fn answer(call: &Call, value: i64) -> String {
    const LAST_ERROR: i64 = -4095;
    /// Least address that a call may return.
    const FIRST_PLACE: i64 = 1 << 16;
    match value {
        LAST_ERROR..=-1 => format!("error {}", -value),
        0.. if call.is_identifier() => "an identifier".to_owned(),
        1.. if call.is_value_volatile => "positive".to_owned(),
        _ if value > FIRST_PLACE && !state::is_prepared(value) && call.is_address() => {
            "a place".to_owned()
        }
        value => format!("{value:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_cases_enough_and_none_twice() {
        let all = described(None);
        assert!(all.len() >= 20_000, "{}", all.len());
        let mut names: Vec<_> = all.iter().map(|case| &case.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all.len());
    }
}
