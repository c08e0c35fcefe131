//! The items of the tables of names, and the ids that name processes, tasks and descriptors.
use super::frames::About;
use alloc::{sync::Arc, vec::Vec};
use memory::setting::Setting;
use vfs::{
    Errno, Principal,
    generated::{Child, Viewer},
    poll::Changes,
};

/// Permissions of `/proc`.
pub(super) const PERMISSIONS: u16 = 0o555;

/// The meaning of a name in a table.
#[derive(Clone, Copy)]
pub enum Item {
    /// A file with the content that this function returns.
    File(fn() -> Vec<u8>),
    /// A file with the content that this function returns for a reader.
    Graded(fn(&dyn Principal) -> Vec<u8>),
    /// A file that root may write, too.
    Writable(fn() -> Vec<u8>, fn(&[u8]) -> Result<(), Errno>),
    /// A file like [`Item::Writable`], whose writer needs a right, which is checked at the write.
    Checked(fn() -> Vec<u8>, fn(&[u8], &dyn Principal) -> Result<(), Errno>),
    /// A file like [`Item::Writable`], whose poll reports changes.
    Name(fn() -> Vec<u8>, fn(&[u8]) -> Result<(), Errno>, fn() -> &'static Arc<Changes>),
    /// A number that root may set.
    Number(&'static Setting),
    /// A file that any user may open to write; the right to set it is checked at the write.
    Open(fn(&dyn Principal) -> Vec<u8>, fn(&[u8], &dyn Principal) -> Result<(), Errno>),
    /// A file that any user may open; the rights to read and to write it are checked then.
    Guarded(
        fn(&dyn Principal) -> Result<Vec<u8>, Errno>,
        fn(&[u8], &dyn Principal) -> Result<(), Errno>,
    ),
    /// The audit records on their medium, which only subjects that may read system-high objects open.
    Records,
    /// A file with counts of all levels together, which only subjects that may read system-high objects open.
    OfAll(fn() -> Vec<u8>),
    /// A file of words about frames, which only root may open.
    Frames(About),
    /// A file that only root may open.
    Private(fn() -> Vec<u8>, fn(&[u8]) -> Result<(), Errno>),
    /// A file that only root may open, to write.
    Trigger(fn(&[u8]) -> Result<(), Errno>),
    /// A directory with this table.
    Directory(ItemTable),
    /// A directory that is no table, made with its inode number.
    Node(fn(u64) -> Child),
    /// A symbolic link whose text depends on the caller.
    Link(fn(&Viewer<'_>) -> Vec<u8>),
}

/// A table of names with their items.
pub type ItemTable = &'static [(&'static str, Item)];

/// Parses a decimal id without leading zeroes.
pub fn parse_id(name: &[u8]) -> Option<u32> {
    if matches!(name, [] | [b'0', ..]) {
        return None;
    }
    name.iter().try_fold(0u32, |number, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(digit.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_plain_decimal() {
        assert_eq!(parse_id(b"17"), Some(17));
        for wrong in [&b"017"[..], b"", b"0", b"1x", b"99999999999"] {
            assert_eq!(parse_id(wrong), None);
        }
    }
}
