//! Patterns by which programs replace files without fsync, and the states of the files that a crash may leave.
//!
//! A worker owns a folder and repeats one [`Pattern`]; step `n` writes version `n` of the file. After every [`STEPS_A_MARK`]
//! steps the worker makes another file durable with fsync and reports the step. A journal commits in order, so all steps up
//! to a report are committed too. After a crash, the file must hold the version of the last reported step or a later one. It
//! must be whole if it took the name of another file, and never a mixture of versions.
use crate::Files;
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};

/// Number of steps from one mark to the next.
pub const STEPS_A_MARK: u64 = 3;
/// Number of steps for which linked files are kept; more than can be made before the host is told of a mark.
pub const LINKS_KEPT: u64 = 64;
/// Number of these that are checked.
const LINKS_JUDGED: u64 = 20;
/// Bytes of the header, which holds the version and the length.
const HEADER_BYTES: usize = 16;
const LONGEST_BYTES: u64 = 40_000;

/// The steps that a worker repeats, without fsync except in [`Pattern::SyncedRename`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Writes `new`, closes it and renames it over `file`.
    Rename,
    /// Does the same with an fsync before the rename.
    SyncedRename,
    /// Opens `file` with O_TRUNC, writes and closes it.
    Emptied,
    /// Writes at the end of `file`.
    Append,
    /// Makes `made-N` and links it to `link-N`.
    Link,
    /// Removes `file` and makes it again.
    Recreate,
}

/// All patterns; worker `n` has the one at `n` modulo their number.
pub const PATTERNS: [Pattern; 6] = [
    Pattern::Rename,
    Pattern::SyncedRename,
    Pattern::Emptied,
    Pattern::Append,
    Pattern::Link,
    Pattern::Recreate,
];

/// An allowed state of a worker's files after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// All versions are complete.
    Whole,
    /// A file that was being written is empty, missing or cut.
    Part,
}

impl Pattern {
    /// Returns the pattern of a worker.
    pub fn of(worker: u64) -> Pattern {
        PATTERNS[(worker % PATTERNS.len() as u64) as usize]
    }
}

/// Returns the contents of version `version` of a worker's file; no byte behind the header is zero.
pub fn contents(seed: u64, worker: u64, version: u64) -> Vec<u8> {
    let mut state = (seed ^ worker << 48 ^ version).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let longest = if next() % 3 == 0 { LONGEST_BYTES } else { LONGEST_BYTES / 10 };
    let length = HEADER_BYTES as u64 + next() % longest;
    let mut bytes = Vec::with_capacity(length as usize);
    bytes.extend(version.to_le_bytes());
    bytes.extend(length.to_le_bytes());
    bytes.resize_with(length as usize, || next() as u8 | 1);
    bytes
}

/// Checks that `found` can be the files of a worker after a crash, once the worker has reported `told` steps.
///
/// # Errors
/// A description of the difference if `found` cannot be these files.
pub fn judge(seed: u64, worker: u64, told: u64, found: &Files) -> Result<Left, String> {
    let file = found.get("file").map(Vec::as_slice);
    match Pattern::of(worker) {
        Pattern::Rename | Pattern::SyncedRename => match file {
            None if told == 0 => Ok(Left::Whole),
            None => Err("the file is lost".to_string()),
            // The first version replaces nothing.
            Some([]) if told == 0 => Ok(Left::Part),
            Some(bytes) => match version_of(seed, worker, bytes)? {
                (version, Left::Whole) if version >= told => Ok(Left::Whole),
                (version, left) => Err(format!("{left:?} of version {version} after {told}")),
            },
        },
        Pattern::Emptied => match file {
            None if told == 0 => Ok(Left::Whole),
            None => Err("the file is lost".to_string()),
            Some([]) => Ok(Left::Part),
            Some(bytes) => later(seed, worker, told, bytes),
        },
        Pattern::Recreate => match file {
            None | Some([]) => Ok(Left::Part),
            Some(bytes) => later(seed, worker, told, bytes),
        },
        Pattern::Append => appended(seed, worker, file.unwrap_or_default()),
        Pattern::Link => linked(seed, worker, told, found),
    }
}

/// Returns the version whose contents, or a beginning of which, the bytes are.
fn version_of(seed: u64, worker: u64, bytes: &[u8]) -> Result<(u64, Left), String> {
    if bytes.is_empty() {
        return Err("the file is empty".to_string());
    }
    let Some(version) = bytes.first_chunk().map(|word| u64::from_le_bytes(*word)) else {
        return Err(format!("{} bytes are no version", bytes.len()));
    };
    let wanted = contents(seed, worker, version);
    if bytes == wanted {
        return Ok((version, Left::Whole));
    }
    if wanted.starts_with(bytes) {
        return Ok((version, Left::Part));
    }
    let at = wanted.iter().zip(bytes).position(|(one, other)| one != other).unwrap_or(wanted.len());
    let zeroes = bytes.iter().skip(at).all(|byte| *byte == 0);
    let what = if zeroes { "zeroes" } else { "others" };
    Err(format!("{} bytes of version {version} are {what} from {at} on", bytes.len()))
}

/// Checks for a complete version that is at least the one reported, or the beginning of a later one.
fn later(seed: u64, worker: u64, told: u64, bytes: &[u8]) -> Result<Left, String> {
    match version_of(seed, worker, bytes)? {
        (version, Left::Whole) if version >= told => Ok(Left::Whole),
        (version, Left::Part) if version > told => Ok(Left::Part),
        (version, left) => Err(format!("{left:?} of version {version} after {told}")),
    }
}

/// Checks for a beginning of all versions, one behind the other.
fn appended(seed: u64, worker: u64, bytes: &[u8]) -> Result<Left, String> {
    let (mut at, mut version) = (0, 1);
    while at < bytes.len() {
        let wanted = contents(seed, worker, version);
        let part = &bytes[at..bytes.len().min(at + wanted.len())];
        if !wanted.starts_with(part) {
            return Err(format!("the records from byte {at} on are not what was appended"));
        }
        (at, version) = (at + wanted.len(), version + 1);
    }
    Ok(Left::Whole)
}

/// Checks that the latest reported files have both names, and the right contents as far as these were written.
fn linked(seed: u64, worker: u64, told: u64, found: &Files) -> Result<Left, String> {
    let mut left = Left::Whole;
    for version in told.saturating_sub(LINKS_JUDGED).max(1)..=told {
        let names = [format!("made-{version}"), format!("link-{version}")];
        let [Some(made), Some(link)] = names.each_ref().map(|name| found.get(name)) else {
            return Err(format!("a name of file {version} is lost after {told}"));
        };
        if made != link {
            return Err(format!("the names of file {version} stand for different files"));
        }
        match made.is_empty() || made.iter().all(|byte| *byte == 0) {
            true => left = Left::Part,
            false if version_of(seed, worker, made)?.0 != version => {
                return Err(format!("file {version} has the contents of another"));
            }
            false => {}
        }
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(name: &str, bytes: &[u8]) -> Files {
        Files::from([(name.to_string(), bytes.to_vec())])
    }

    #[test]
    fn a_renamed_file_is_whole_and_not_older_than_told() {
        let version = contents(7, 0, 5);
        assert_eq!(judge(7, 0, 5, &files("file", &version)), Ok(Left::Whole));
        assert!(judge(7, 0, 6, &files("file", &version)).is_err(), "older");
        assert!(judge(7, 0, 3, &files("file", &[])).is_err(), "empty");
        assert!(judge(7, 0, 3, &files("file", &version[..version.len() - 1])).is_err(), "cut");
        assert!(judge(7, 0, 3, &Files::new()).is_err(), "lost");
        let mut mixed = version;
        mixed[HEADER_BYTES] ^= 2;
        assert!(judge(7, 0, 3, &files("file", &mixed)).is_err(), "mixed");
    }

    #[test]
    fn an_emptied_file_may_be_empty_but_not_mixed() {
        let version = contents(7, 2, 5);
        assert_eq!(judge(7, 2, 4, &files("file", &[])), Ok(Left::Part));
        assert_eq!(judge(7, 2, 4, &files("file", &version)), Ok(Left::Whole));
        assert!(judge(7, 2, 5, &files("file", &version[..20])).is_err(), "it was told");
        let mut mixed = version;
        mixed[HEADER_BYTES] ^= 2;
        assert!(judge(7, 2, 4, &files("file", &mixed)).is_err());
    }

    #[test]
    fn appended_records_follow_each_other() {
        let stream = [contents(7, 3, 1), contents(7, 3, 2)].concat();
        assert_eq!(judge(7, 3, 9, &files("file", &stream[..stream.len() - 3])), Ok(Left::Whole));
        assert!(judge(7, 3, 9, &files("file", &contents(7, 3, 2))).is_err());
    }
}
