//! The capabilities that a file gives to a program of it (`security.capability`, capabilities(7)), which a write, a
//! truncation and a change of owner take away.
//!
//! A bit beside the mirrored permissions ([`HAS_CAPABILITIES`]) says that there may be some.
use super::Vnode;
use crate::base::{credentials::Capabilities, errno::Errno, rights::HAS_CAPABILITIES, time::now};
use core::sync::atomic::Ordering;
use interfaces::file_system::{FileType, FsError};

/// Name of the attribute.
pub(crate) const NAME: &[u8] = b"security.capability";

/// Sizes and revisions of `struct vfs_ns_cap_data`.
const BYTES_TWO: usize = 20;
const BYTES_THREE: usize = 24;
const REVISION_TWO: u32 = 0x0200_0000;
const REVISION_THREE: u32 = 0x0300_0000;
const REVISION_MASK: u32 = 0xff00_0000;
const EFFECTIVE: u32 = 1;

/// The capabilities that a file gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileCapabilities {
    /// The capabilities that a program gets whoever runs it.
    pub permitted: Capabilities,
    /// The capabilities that it gets if its caller may hand them on.
    pub inheritable: Capabilities,
    /// Its capabilities count from its start on.
    pub is_effective: bool,
    /// The user whose namespace the attribute is for; 0 for all.
    root: u32,
}

impl FileCapabilities {
    /// Reads the attribute.
    ///
    /// # Errors
    /// `EINVAL` for what is none.
    pub(crate) fn parse(value: &[u8]) -> Result<FileCapabilities, Errno> {
        let mut words = [0; BYTES_THREE / 4];
        for (word, bytes) in words.iter_mut().zip(value.chunks_exact(4)) {
            *word = bytes.try_into().map_or(0, u32::from_le_bytes);
        }
        let [magic, permitted_low, inheritable_low, permitted_high, inheritable_high, root] = words;
        match (magic & REVISION_MASK, value.len()) {
            (REVISION_TWO, BYTES_TWO) | (REVISION_THREE, BYTES_THREE) => {}
            _ => return Err(Errno::EINVAL),
        }
        let set =
            |low, high| Capabilities::from_bits_truncate(u64::from(low) | u64::from(high) << 32);
        Ok(FileCapabilities {
            permitted: set(permitted_low, permitted_high),
            inheritable: set(inheritable_low, inheritable_high),
            is_effective: magic & EFFECTIVE != 0,
            root,
        })
    }
}

/// The attribute as getxattr(2) shows it: one for everybody has the older form.
pub(crate) fn shown(mut value: alloc::vec::Vec<u8>) -> alloc::vec::Vec<u8> {
    if value.len() == BYTES_THREE && value.ends_with(&[0; 4]) {
        value.truncate(BYTES_TWO);
        if let Some(revision) = value.get_mut(3) {
            *revision = (REVISION_TWO >> 24) as u8;
        }
    }
    value
}

impl Vnode {
    /// The capabilities that it gives to a program of it.
    ///
    /// # Errors
    /// `EINVAL` for an attribute that makes no sense, and what the file system says.
    pub(crate) fn capabilities(&self) -> Result<Option<FileCapabilities>, Errno> {
        if self.rights() & HAS_CAPABILITIES == 0 {
            return Ok(None);
        }
        match self.instance.file_system()?.get_xattr(self.inode, NAME) {
            Err(FsError::NoAttribute | FsError::Unsupported) => Ok(None),
            Err(error) => Err(error.into()),
            // There is one namespace of users.
            Ok(value) => {
                FileCapabilities::parse(&value).map(|found| Some(found).filter(|it| it.root == 0))
            }
        }
    }
    /// Takes them away. The caller holds `contents` to write.
    ///
    /// # Errors
    /// Errors of the file system.
    #[inline]
    pub(crate) fn strip_capabilities(&self) -> Result<(), Errno> {
        if self.rights() & HAS_CAPABILITIES == 0 { Ok(()) } else { self.remove_capabilities() }
    }
    #[cold]
    fn remove_capabilities(&self) -> Result<(), Errno> {
        let now = now();
        match self.instance.file_system()?.remove_xattr(self.inode, NAME, now) {
            Ok(()) => self.note_changed(now),
            Err(FsError::NoAttribute | FsError::Unsupported) => {}
            Err(error) => return Err(error.into()),
        }
        let _state = self.state.lock();
        self.rights.fetch_and(!HAS_CAPABILITIES, Ordering::Release);
        Ok(())
    }
    /// An attribute of that name was set.
    pub(crate) fn note_capabilities(&self) {
        let _state = self.state.lock();
        if self.file_type == FileType::Regular {
            self.rights.fetch_or(HAS_CAPABILITIES, Ordering::Release);
        }
    }
}
