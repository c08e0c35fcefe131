//! The seals of a vnode: adding them, and the checks of changes that they forbid.
//!
//! Regular files whose contents exist in the page cache only can have seals. A vnode's seals are one atomic byte; they are
//! added with its `contents` lock held to write, so that no write or change of size is under way.
use super::Vnode;
use crate::base::{errno::Errno, seals::Seals};
use core::sync::atomic::Ordering;
use interfaces::file_system::{Allocation, Backing};
use rt::PAGE_BYTES;

/// The execute permissions of all classes.
const EXECUTE_BITS: u16 = 0o111;
const PAGE: u64 = PAGE_BYTES as u64;

impl Vnode {
    /// Returns the seals of the file; `None` if it cannot have any.
    pub fn seals(&self) -> Option<Seals> {
        let pages = self.pages().filter(|pages| pages.backing() == Backing::Cache);
        pages.map(|_| self.known_seals())
    }
    /// Sets the seals of a new file that no other thread uses yet.
    pub(crate) fn set_seals(&self, seals: Seals) {
        self.seal_bits().store(seals.bits(), Ordering::Release);
    }
    /// Adds seals (`F_ADD_SEALS`).
    ///
    /// # Errors
    /// `EINVAL` if the file cannot have any, `EPERM` after [`Seals::SEAL`], `EBUSY` for [`Seals::WRITE`] while a shared
    /// mapping may be stored to.
    pub fn add_seals(&self, mut more: Seals) -> Result<(), Errno> {
        let _contents = self.contents().write();
        let before = self.seals().ok_or(Errno::EINVAL)?;
        if before.contains(Seals::SEAL) {
            return Err(Errno::EPERM);
        }
        if more.contains(Seals::EXECUTE) && self.permissions() & EXECUTE_BITS != 0 {
            more |= Seals::OF_PROGRAMS;
        }
        let is_new = more.contains(Seals::WRITE) && !before.contains(Seals::WRITE);
        if is_new && self.is_stored_to() {
            return Err(Errno::EBUSY);
        }
        self.set_seals(before | more);
        // A mapper checks the seals with the map locked: either it sees the new seals, or this check sees its mapping.
        if is_new && self.is_stored_to() {
            self.set_seals(before);
            return Err(Errno::EBUSY);
        }
        Ok(())
    }
    /// Returns whether a shared mapping of it may be stored to, now or after an mprotect.
    fn is_stored_to(&self) -> bool {
        self.pages().is_some_and(|pages| pages.is_stored_to())
    }
    #[inline]
    fn known_seals(&self) -> Seals {
        Seals::from_bits_truncate(self.seal_bits().load(Ordering::Acquire))
    }
    /// Returns whether new stores through mappings are forbidden.
    #[inline]
    pub(crate) fn refuses_stores(&self) -> bool {
        self.known_seals().intersects(Seals::NO_WRITER)
    }
    /// Returns how many of the `length` bytes at `start` may be written; `None` if no seal limits the write. A write beyond
    /// the end of a file that may not grow stops at the file's last whole page, as on Linux. The caller holds `contents`.
    ///
    /// # Errors
    /// `EPERM` if no byte may be written.
    #[inline]
    pub(crate) fn sealed_room(&self, start: u64, length: u64) -> Result<Option<u64>, Errno> {
        match self.known_seals() & Seals::OF_WRITES {
            none if none.is_empty() => Ok(None),
            seals => self.room_behind(seals, start, length),
        }
    }
    #[cold]
    fn room_behind(&self, seals: Seals, start: u64, length: u64) -> Result<Option<u64>, Errno> {
        if seals.intersects(Seals::NO_WRITER) {
            return Err(Errno::EPERM);
        }
        let size = self.size();
        if start.saturating_add(length) <= size {
            return Ok(None);
        }
        match (size - size % PAGE).checked_sub(start) {
            None | Some(0) => Err(Errno::EPERM),
            room => Ok(room),
        }
    }
    /// # Errors
    /// `EPERM` if a seal forbids it.
    pub(crate) fn check_sealed_size(&self, size: u64) -> Result<(), Errno> {
        let seals = self.known_seals();
        let is_refused = seals.contains(Seals::SHRINK) && size < self.size()
            || seals.contains(Seals::GROW) && size > self.size();
        if is_refused { Err(Errno::EPERM) } else { Ok(()) }
    }
    /// # Errors
    /// `EPERM` if a seal forbids it.
    pub(crate) fn check_sealed_space(&self, end: u64, how: Allocation) -> Result<(), Errno> {
        let seals = self.known_seals();
        let is_refused = match how {
            Allocation::Extend | Allocation::KeepSize => {
                seals.contains(Seals::GROW) && end > self.size()
            }
            _ => {
                seals.intersects(Seals::NO_WRITER)
                    || seals.contains(Seals::GROW) && how == Allocation::Zero && end > self.size()
            }
        };
        if is_refused { Err(Errno::EPERM) } else { Ok(()) }
    }
    /// # Errors
    /// `EPERM` if a seal forbids it.
    pub(crate) fn check_sealed_mode(&self, mode: u16) -> Result<(), Errno> {
        let changes = (self.permissions() ^ mode) & EXECUTE_BITS != 0;
        let is_refused = changes && self.known_seals().contains(Seals::EXECUTE);
        if is_refused { Err(Errno::EPERM) } else { Ok(()) }
    }
}
