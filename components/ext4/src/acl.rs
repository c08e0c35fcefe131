//! POSIX access control lists: from the compact form on disk to the one programs see.
//!
//! ```text
//! on disk   0 version 1 | entries: 0 tag | 2 permissions [| 4 id, of named users and groups]
//! portable  0 version 2 | entries: 0 tag | 2 permissions | 4 id, all ones where there is none
//! ```
use crate::layout::{word16, word32};
use alloc::vec::Vec;

const VERSION_ON_DISK: u32 = 1;
const VERSION_PORTABLE: u32 = 2;
const TAG_USER: u16 = 2;
const TAG_GROUP: u16 = 8;

/// Converts a list; `None` where it makes no sense.
pub(crate) fn to_portable(value: &[u8]) -> Option<Vec<u8>> {
    if word32(value, 0)? != VERSION_ON_DISK {
        return None;
    }
    let mut out = VERSION_PORTABLE.to_le_bytes().to_vec();
    let mut at = 4;
    while at < value.len() {
        let tag = word16(value, at)?;
        out.extend_from_slice(value.get(at..at + 4)?);
        at += 4;
        let id = if matches!(tag, TAG_USER | TAG_GROUP) {
            at += 4;
            word32(value, at - 4)?
        } else {
            u32::MAX
        };
        out.extend_from_slice(&id.to_le_bytes());
    }
    Some(out)
}

/// Converts a list from the form programs see; `None` where it makes no sense.
pub(crate) fn to_disk(value: &[u8]) -> Option<Vec<u8>> {
    let (entries, rest) = value.get(4..)?.as_chunks::<8>();
    if word32(value, 0)? != VERSION_PORTABLE || !rest.is_empty() {
        return None;
    }
    let mut out = VERSION_ON_DISK.to_le_bytes().to_vec();
    for entry in entries {
        let (head, id) = entry.split_at(4);
        out.extend_from_slice(head);
        if matches!(word16(head, 0)?, TAG_USER | TAG_GROUP) {
            out.extend_from_slice(id);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_entries_keep_their_id_and_others_get_none() {
        let disk = [1, 0, 0, 0, 1, 0, 6, 0, 2, 0, 4, 0, 0xe8, 3, 0, 0];
        let portable = to_portable(&disk).unwrap();
        assert_eq!(portable[..12], [2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255]);
        assert_eq!(portable[12..], [2, 0, 4, 0, 0xe8, 3, 0, 0]);
        assert_eq!(to_portable(&disk[..15]), None);
        assert_eq!(to_disk(&portable).unwrap(), disk);
        assert_eq!(to_disk(&portable[..19]), None);
    }
}
