//! Capabilities that a file gives to a process that executes it (`security.capability`, capabilities(7)). A write, a
//! truncation and a change of owner remove them.
//!
//! A bit beside the mirrored permissions ([`HAS_CAPABILITIES`]) says that there may be some.
use super::Vnode;
use crate::base::{credentials::Capabilities, errno::Errno, rights::HAS_CAPABILITIES, time::now};
use core::sync::atomic::Ordering;
use interfaces::file_system::{FileType, FsError};

/// Name of the extended attribute.
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
    /// The capabilities that a process gets in any case.
    pub permitted: Capabilities,
    /// The capabilities that a process gets if they are in its inheritable set.
    pub inheritable: Capabilities,
    /// The capabilities are effective from the start of the program.
    pub is_effective: bool,
    /// The root user of the user namespace that the attribute is for; 0 for all.
    root: u32,
}

impl FileCapabilities {
    /// Parses the attribute.
    ///
    /// # Errors
    /// `EINVAL` if it is malformed.
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

/// Returns the attribute as getxattr(2) shows it: one for all namespaces has the older format.
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
    /// Returns the capabilities that it gives to a process that executes it.
    ///
    /// # Errors
    /// `EINVAL` for a malformed attribute, and errors of the file system.
    pub(crate) fn capabilities(&self) -> Result<Option<FileCapabilities>, Errno> {
        if self.rights() & HAS_CAPABILITIES == 0 {
            return Ok(None);
        }
        match self.instance.file_system()?.get_xattr(self.inode, NAME) {
            Err(FsError::NoAttribute | FsError::Unsupported) => Ok(None),
            Err(error) => Err(error.into()),
            // There is only one user namespace.
            Ok(value) => {
                FileCapabilities::parse(&value).map(|found| Some(found).filter(|it| it.root == 0))
            }
        }
    }
    /// Removes them. The caller holds `contents` to write.
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
    /// Records that the attribute was set.
    pub(crate) fn note_capabilities(&self) {
        let _state = self.state.lock();
        if self.file_type == FileType::Regular {
            self.rights.fetch_or(HAS_CAPABILITIES, Ordering::Release);
        }
    }
}
