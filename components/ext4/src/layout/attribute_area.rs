//! The entries of an area of extended attributes, and what their names say about an inode.
//!
//! Key types: [`AttributeEntry`], [`Hints`].
use crate::{layout::raw::xattr::*, store::bytes::word32};
use core::ops::Range;
use interfaces::file_system::{Attributes, FsError};
use zerocopy::FromBytes;

/// Name of the attribute with a program's capabilities, without the prefix of its class.
const CAPABILITY_NAME: &[u8] = b"capability";

/// An entry of an area.
pub(crate) struct AttributeEntry {
    pub(crate) raw: RawEntry,
    /// Place of its name, without the prefix of its class.
    pub(crate) name: Range<usize>,
}

impl AttributeEntry {
    /// Returns the entry at `at`; `None` at the end of the entries. The next one begins at [`AttributeEntry::end`].
    ///
    /// # Errors
    /// [`FsError::Corrupt`] for an entry that passes the end of the area.
    pub(crate) fn decode(bytes: &[u8], at: usize) -> Result<Option<AttributeEntry>, FsError> {
        // A last entry that ends with the area needs no end mark.
        if word32(bytes, at).is_none_or(|word| word == 0) {
            return Ok(None);
        }
        let rest = bytes.get(at..).unwrap_or(&[]);
        let (raw, _) = RawEntry::read_from_prefix(rest).map_err(|_| FsError::Corrupt)?;
        let name = at + ENTRY_BYTES..at + ENTRY_BYTES + usize::from(raw.name_length);
        if name.end > bytes.len() {
            return Err(FsError::Corrupt);
        }
        Ok(Some(AttributeEntry { raw, name }))
    }

    /// Returns the place behind the entry.
    pub(crate) fn end(&self) -> usize {
        self.name.end.next_multiple_of(4)
    }
}

/// The attributes that an inode may have and that checks of rights ask for. The label is none of them: every inode may
/// have it, and nobody searches for a list because of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hints {
    /// An access control list.
    pub(crate) acls: bool,
    /// The attribute `security.capability`.
    pub(crate) capabilities: bool,
}

impl Hints {
    /// All attributes; for a block of attributes that is not read yet.
    pub(crate) const ALL: Hints = Hints { acls: true, capabilities: true };

    /// Returns these hints and that of one more attribute.
    pub(crate) fn with(self, class: u8, name: &[u8]) -> Hints {
        Hints {
            acls: self.acls || matches!(class, ACL_ACCESS | ACL_DEFAULT),
            capabilities: self.capabilities || class == SECURITY && name == CAPABILITY_NAME,
        }
    }

    /// Puts the hints in the attributes of their inode.
    pub(crate) fn put_in(self, attributes: &mut Attributes) {
        attributes.may_have_acls = self.acls;
        attributes.may_have_capabilities = self.capabilities;
    }

    /// Returns the hints of the attributes in an inode; `area` follows the inode's extra part. A malformed area
    /// may have any attribute: a search in it says that it is malformed.
    pub(crate) fn of_inner(area: &[u8]) -> Hints {
        if word32(area, 0) != Some(MAGIC) {
            return Hints::default();
        }
        let (mut hints, mut at) = (Hints::default(), 4);
        loop {
            match AttributeEntry::decode(area, at) {
                Ok(None) => return hints,
                Ok(Some(entry)) => {
                    at = entry.end();
                    hints = hints.with(entry.raw.class, area.get(entry.name).unwrap_or(&[]));
                }
                Err(_) => return Hints::ALL,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn area(names: &[(u8, &[u8])]) -> Vec<u8> {
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        for (class, name) in names {
            bytes.extend([name.len() as u8, *class]);
            bytes.extend([0; ENTRY_BYTES - 2]);
            bytes.extend(*name);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes.extend([0; 4]);
        bytes
    }

    #[test]
    fn only_lists_and_capabilities_set_their_hints() {
        let hints = |names: &[(u8, &[u8])]| {
            let Hints { acls, capabilities } = Hints::of_inner(&area(names));
            (acls, capabilities)
        };
        assert_eq!(hints(&[]), (false, false));
        assert_eq!(hints(&[(SECURITY, b"selinux"), (1, b"capability")]), (false, false));
        assert_eq!(hints(&[(SECURITY, b"selinux"), (ACL_ACCESS, b"")]), (true, false));
        assert_eq!(hints(&[(ACL_DEFAULT, b"")]), (true, false));
        assert_eq!(hints(&[(1, b"x"), (SECURITY, b"capability")]), (false, true));
    }

    #[test]
    fn a_malformed_area_may_have_any() {
        let mut bytes = area(&[(SECURITY, b"selinux")]);
        bytes[4] = 200;
        assert_eq!(Hints::of_inner(&bytes), Hints::ALL);
        assert_eq!(Hints::of_inner(&[0; 40]), Hints::default(), "no area at all");
    }
}
