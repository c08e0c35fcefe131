//! The file workload of `./x crash`: steps that are computed from a seed, and the allowed contents of
//! the disk after any of them.
//!
//! A worker owns a folder. Each [`Step`] changes one file, which is then made durable (fsync of the
//! file, and of the folder if names changed); only then is the step's number reported. So once step
//! `n` was reported, the disk must hold all of steps `0..=n`, while step `n + 1` may have been done in
//! part. [`Model`] computes both states, and [`Model::judge`] compares them with the files found.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
extern crate alloc;
pub mod patterns;
pub mod transfers;

use alloc::{borrow::ToOwned, collections::BTreeMap, format, string::String, vec::Vec};

/// Number of names that a worker uses.
const NAMES: u64 = 24;
/// Greatest length of a file made in one piece.
const LONGEST_BYTES: u64 = 300_000;
/// The greatest number of steps that may have been finished although the host has not received their reports yet.
const UNHEARD_STEPS: u64 = 8;

/// Files by name, relative to the worker's folder.
pub type Files = BTreeMap<String, Vec<u8>>;

/// The change that a step makes to its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Creates the file, or truncates it and writes it anew in place.
    Write(Vec<u8>),
    /// Writes the contents under another name, which is then renamed to the file's.
    Replace(Vec<u8>),
    /// Appends bytes.
    Append(Vec<u8>),
    /// Writes bytes in the middle, or past the end, which leaves a hole.
    Overwrite(usize, Vec<u8>),
    /// Cuts the file, or extends it with zeroes.
    Truncate(usize),
    /// Removes the file.
    Delete,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The file.
    pub name: String,
    /// The change to the file.
    pub change: Change,
}

/// Returns the name that a file has until it replaces another.
pub fn replacement_name(name: &str) -> String {
    format!("{name}.new")
}

/// Labels that a system with a monitor gives the files, of several types and levels.
const LABELS: [&str; 4] = [
    "user_u:object_r:tmp_t:s0",
    "user_u:object_r:tmp_t:s1",
    "user_u:object_r:home_t:s2:c1",
    "staff_u:object_r:home_t:s3:c0.c5",
];

/// Returns the label with which the file is made, in a system with a monitor.
pub fn label_of(name: &str) -> &'static str {
    let name = name.strip_suffix(".new").unwrap_or(name);
    let sum = name.bytes().map(usize::from).sum::<usize>();
    LABELS.get(sum % LABELS.len()).copied().unwrap_or_default()
}

/// The levels of the workers that share a multilevel directory.
pub const LEVELS: [&str; 3] = ["s0", "s1", "s2:c1"];
/// The label of that directory, whose level is the first one.
pub const SHARED_LABEL: &str = "system_u:object_r:tmp_root_t:s0";

/// Returns the context of a worker of a level.
pub fn subject_at(level: &str) -> String {
    format!("user_u:user_r:user_t:{level}")
}

/// Returns the label of all that such a worker makes in the multilevel directory.
pub fn label_at(level: &str) -> String {
    format!("user_u:object_r:tmp_t:{level}")
}

/// Returns the name and the label of the directory in which a worker of a level finds itself there: none for the level of the
/// multilevel directory.
pub fn hidden_at(level: &str) -> Option<(String, String)> {
    let label = SHARED_LABEL.strip_suffix(level).is_none();
    label.then(|| (format!(".mls:{level}"), SHARED_LABEL.replace("s0", level)))
}

/// The state of a worker: its files after the steps taken so far.
#[derive(Clone, Debug)]
pub struct Model {
    state: u64,
    files: Files,
}

impl Model {
    /// Makes worker `number` of the run with `seed`, before its first step.
    pub fn new(seed: u64, number: u64) -> Model {
        let state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ (number + 1).wrapping_mul(0xd134_2543_de82_ef95);
        Model { state: state | 1, files: Files::new() }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) % limit.max(1)
    }

    fn bytes(&mut self, limit: u64) -> Vec<u8> {
        // Files are mostly small, and now and then of many blocks.
        let limit = if self.below(4) == 0 { limit } else { limit / 30 };
        let length = self.below(limit) + 1;
        let mut state = self.state | 1;
        let word = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Bytes are never zero, so that a hole differs from data.
            (state as u8) | 1
        };
        core::iter::repeat_with(word).take(length as usize).collect()
    }

    /// Takes the next step.
    pub fn step(&mut self) -> Step {
        let number = self.below(NAMES);
        let name = format!("d{}/f{number}", number % 4);
        let length = self.files.get(&name).map(Vec::len);
        let change = match (self.below(10), length) {
            (0..=2, _) | (_, None) => Change::Write(self.bytes(LONGEST_BYTES)),
            (3..=4, _) => Change::Replace(self.bytes(LONGEST_BYTES)),
            (5, _) => Change::Append(self.bytes(LONGEST_BYTES / 4)),
            (6..=7, Some(length)) => {
                let at = self.below(length as u64 + 20_000) as usize;
                Change::Overwrite(at, self.bytes(LONGEST_BYTES / 8))
            }
            (8, Some(length)) => Change::Truncate(self.below(2 * length as u64) as usize),
            _ => Change::Delete,
        };
        let step = Step { name, change };
        apply(&mut self.files, &step);
        step
    }

    /// Checks that `found` can be this worker's files once the steps before `told` were reported as
    /// durable (none if `told` is 0).
    ///
    /// # Errors
    /// A description of the difference, for the smallest possible number of steps.
    pub fn judge(mut self, told: u64, found: &Files) -> Result<(), String> {
        for _ in 0..told {
            self.step();
        }
        let mut complaint = None;
        for _ in 0..=UNHEARD_STEPS {
            let before = self.files.clone();
            let step = self.step();
            match fits(&before, &step, found) {
                Ok(()) => return Ok(()),
                Err(why) => {
                    complaint = complaint.or(Some(format!("{why} (next step: {})", brief(&step))))
                }
            }
        }
        Err(complaint.unwrap_or_default())
    }
}

fn brief(step: &Step) -> String {
    let what = match &step.change {
        Change::Write(bytes) => format!("write {}", bytes.len()),
        Change::Replace(bytes) => format!("replace by {}", bytes.len()),
        Change::Append(bytes) => format!("append {}", bytes.len()),
        Change::Overwrite(at, bytes) => format!("overwrite {} at {at}", bytes.len()),
        Change::Truncate(length) => format!("truncate to {length}"),
        Change::Delete => "delete".to_owned(),
    };
    format!("{what} {}", step.name)
}

/// Returns the contents of `old` after the step; `None` if it is removed.
fn changed(old: Option<&Vec<u8>>, change: &Change) -> Option<Vec<u8>> {
    let mut new = old.cloned().unwrap_or_default();
    match change {
        Change::Write(bytes) | Change::Replace(bytes) => new = bytes.clone(),
        Change::Append(bytes) => new.extend_from_slice(bytes),
        Change::Overwrite(at, bytes) => {
            new.resize(new.len().max(at + bytes.len()), 0);
            new[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        Change::Truncate(length) => new.resize(*length, 0),
        Change::Delete => return None,
    }
    Some(new)
}

fn apply(files: &mut Files, step: &Step) {
    match changed(files.get(&step.name), &step.change) {
        Some(bytes) => files.insert(step.name.clone(), bytes),
        None => files.remove(&step.name),
    };
}

/// Checks that `found` is a state between `before` and the end of `step`.
fn fits(before: &Files, step: &Step, found: &Files) -> Result<(), String> {
    let replacement = replacement_name(&step.name);
    for (name, bytes) in before.iter().filter(|(name, _)| **name != step.name) {
        match found.get(name) {
            None => return Err(format!("{name} is lost")),
            Some(other) if other != bytes => return Err(difference(name, bytes, other)),
            Some(_) => {}
        }
    }
    for name in found.keys() {
        let is_touched = *name == step.name
            || (*name == replacement && matches!(step.change, Change::Replace(_)));
        if !before.contains_key(name) && !is_touched {
            return Err(format!("{name} should not be there"));
        }
    }
    fits_between(before.get(&step.name), step, found.get(&step.name))
}

fn difference(name: &str, expected: &[u8], found: &[u8]) -> String {
    let at = expected.iter().zip(found).position(|(a, b)| a != b);
    let lengths = format!("{} bytes expected, {} found", expected.len(), found.len());
    match at {
        Some(at) => format!(
            "{name} differs at byte {at} ({:#x}, found {:#x}; {lengths})",
            expected[at], found[at]
        ),
        None => format!("{name}: {lengths}"),
    }
}

/// Checks that `found` is a possible state of the step's file while the step is under way.
fn fits_between(old: Option<&Vec<u8>>, step: &Step, found: Option<&Vec<u8>>) -> Result<(), String> {
    let new = changed(old, &step.change);
    if found == old || found == new.as_ref() {
        return Ok(());
    }
    let wrong = || Err(format!("{} is neither before nor after", step.name));
    let Some(found) = found else { return wrong() };
    let old = old.map_or(&[][..], Vec::as_slice);
    let new = new.unwrap_or_default();
    let longest = old.len().max(new.len());
    let is_possible = |(at, byte): (usize, &u8)| {
        *byte == 0 || old.get(at) == Some(byte) || new.get(at) == Some(byte)
    };
    match step.change {
        // The change is done completely or not at all.
        Change::Replace(_) | Change::Delete => wrong(),
        // The old contents stay.
        Change::Append(_) if !found.starts_with(old) => wrong(),
        // A byte is never one that neither version had, except that a byte not yet written may be
        // zero.
        _ if found.len() <= longest && found.iter().enumerate().all(is_possible) => Ok(()),
        _ => wrong(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(steps: u64) -> (Files, Step) {
        let mut model = Model::new(7, 0);
        for _ in 0..steps {
            model.step();
        }
        let files = model.files.clone();
        (files, model.step())
    }

    #[test]
    fn what_was_told_must_be_there() {
        let (files, _) = after(60);
        assert_eq!(Model::new(7, 0).judge(60, &files), Ok(()));
        let mut lost = files.clone();
        let name = lost.keys().next().expect("sixty steps leave files").clone();
        lost.remove(&name);
        assert!(Model::new(7, 0).judge(60, &lost).is_err());
        let mut torn = files;
        torn.get_mut(&name).expect("the same files")[0] ^= 0x80;
        assert!(Model::new(7, 0).judge(60, &torn).is_err());
    }

    #[test]
    fn more_steps_than_were_told_are_fine() {
        let (files, _) = after(65);
        assert_eq!(Model::new(7, 0).judge(60, &files), Ok(()));
        assert!(Model::new(7, 0).judge(66, &files).is_err() || files == after(66).0);
    }

    #[test]
    fn an_unknown_file_is_refused() {
        let (mut files, _) = after(10);
        files.insert("d0/stranger".to_owned(), Vec::new());
        assert!(Model::new(7, 0).judge(10, &files).is_err());
    }

    #[test]
    fn an_append_keeps_what_was_there() {
        let step = Step { name: "f".to_owned(), change: Change::Append(vec![3, 5]) };
        let old = vec![1];
        for (found, is_fine) in [
            (vec![1], true),
            (vec![1, 3], true),
            (vec![1, 0], true),
            (vec![0, 3], false),
            (vec![1, 7], false),
        ] {
            assert_eq!(fits_between(Some(&old), &step, Some(&found)).is_ok(), is_fine, "{found:?}");
        }
        assert!(fits_between(Some(&old), &step, None).is_err());
    }
}
