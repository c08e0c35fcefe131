//! The boot archive: the executables of the isolated components, inside the kernel image.
//!
//! ```text
//! archive   0 magic "SKAR0001" | 8 entries
//! entry     0 name bytes 4 | 4 data bytes 8 | 12 name | data
//! ```
//! Numbers are little-endian, nothing is padded, an entry begins where the one before ends, and the last one ends the
//! archive. [`pack`] makes it, [`entries`] and [`find`] read it, [`Executable`] reads what is in it.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
extern crate alloc;

mod executable;

pub use executable::{Executable, Malformed, Segment};

use alloc::vec::Vec;

const MAGIC: &[u8; 8] = b"SKAR0001";

/// One file of the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveEntry<'a> {
    /// Name of the file: that of the component.
    pub name: &'a str,
    /// Contents of the file.
    pub data: &'a [u8],
}

/// Makes the archive of `files`.
pub fn pack(files: &[ArchiveEntry<'_>]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    for ArchiveEntry { name, data } in files {
        bytes.extend((name.len() as u32).to_le_bytes());
        bytes.extend((data.len() as u64).to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.extend(*data);
    }
    bytes
}

/// Iterates over the entries in order. It ends early if the archive is cut off, and has no entries if the bytes are
/// not an archive.
pub fn entries(archive: &[u8]) -> impl Iterator<Item = ArchiveEntry<'_>> {
    let mut rest = archive.strip_prefix(MAGIC).unwrap_or_default();
    core::iter::from_fn(move || {
        let (entry, after) = split_entry(rest)?;
        rest = after;
        Some(entry)
    })
}

/// Returns the contents of the entry called `name`.
pub fn find<'a>(archive: &'a [u8], name: &str) -> Option<&'a [u8]> {
    entries(archive).find(|entry| entry.name == name).map(|entry| entry.data)
}

fn split_entry(bytes: &[u8]) -> Option<(ArchiveEntry<'_>, &[u8])> {
    let (name_bytes, rest) = bytes.split_first_chunk::<4>()?;
    let (data_bytes, rest) = rest.split_first_chunk::<8>()?;
    let name_bytes = u32::from_le_bytes(*name_bytes) as usize;
    let data_bytes = usize::try_from(u64::from_le_bytes(*data_bytes)).ok()?;
    let (name, rest) = rest.split_at_checked(name_bytes)?;
    let (data, rest) = rest.split_at_checked(data_bytes)?;
    Some((ArchiveEntry { name: core::str::from_utf8(name).ok()?, data }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_was_packed_is_found() {
        let files = [
            ArchiveEntry { name: "rtc", data: b"one" },
            ArchiveEntry { name: "empty", data: b"" },
            ArchiveEntry { name: "uart", data: b"two" },
        ];
        let archive = pack(&files);
        assert!(entries(&archive).eq(files));
        assert_eq!(find(&archive, "uart"), Some(&b"two"[..]));
        assert_eq!(find(&archive, "nobody"), None);
        assert_eq!(entries(&pack(&[])).count(), 0);
    }

    #[test]
    fn a_cut_archive_ends_early() {
        let archive = pack(&[
            ArchiveEntry { name: "rtc", data: b"one" },
            ArchiveEntry { name: "b", data: b"two" },
        ]);
        for length in 0..archive.len() {
            assert!(entries(&archive[..length]).count() < 2);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(bytes: Vec<u8>) {
            let mut archive = MAGIC.to_vec();
            archive.extend(&bytes);
            let total: usize = entries(&archive).map(|entry| entry.data.len()).sum();
            prop_assert!(total <= bytes.len());
        }
    }
}
