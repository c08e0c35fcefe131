//! The call mprotect.
use super::{
    map::Map,
    mapping::checked_end,
    region::{Flags, PAGE, Region, range},
    space::AddressSpace,
};
use rt::user::Protection;
use vfs::Errno;

impl AddressSpace {
    /// Changes the access that is allowed between `start` and `start + bytes`. As on Linux, the
    /// part before a hole or a refusal is changed already when the call fails.
    ///
    /// # Errors
    /// `EINVAL` for a misaligned start; `ENOMEM` for a hole, a limit or too many regions; `EACCES`
    /// if the object does not allow it.
    pub fn protect(&self, start: u64, bytes: u64, protection: Protection) -> Result<(), Errno> {
        if !start.is_multiple_of(PAGE) {
            return Err(Errno::EINVAL);
        }
        let end = checked_end(start, bytes).ok_or(Errno::ENOMEM)?;
        if end == start {
            return Ok(());
        }
        self.update(|map| self.protect_range(map, start, end, protection))
    }
    /// Returns the start of the region at `address` that grows down, for `PROT_GROWSDOWN`.
    ///
    /// # Errors
    /// `ENOMEM` if nothing is mapped, `EINVAL` if the region does not grow.
    pub fn growing_start(&self, address: u64) -> Result<u64, Errno> {
        let map = self.map.read();
        let region = map.find(address).ok_or(Errno::ENOMEM)?;
        match region.flags.contains(Flags::GROWS_DOWN) {
            true => Ok(region.start),
            false => Err(Errno::EINVAL),
        }
    }
    fn protect_range(
        &self,
        map: &mut Map,
        start: u64,
        end: u64,
        protection: Protection,
    ) -> Result<(), Errno> {
        let mut at = start;
        while at < end {
            let region = map.find(at).ok_or(Errno::ENOMEM)?;
            let until = region.end.min(end);
            if !region.allowed.contains(protection) {
                return Err(Errno::EACCES);
            }
            if region.protection != protection {
                let mut part = region.part(at, until);
                let (was_data, was_committed) = (part.is_data(), part.is_committed());
                part.protection = protection;
                if protection.contains(Protection::WRITE) && part.is_private() {
                    part.flags |= Flags::WAS_WRITABLE;
                }
                if part.is_data() && !was_data {
                    self.check_data(map, &part)?;
                }
                if !was_committed {
                    self.promise(map, &part)?;
                }
                self.apply_protection(map, &part)?;
            }
            at = until;
        }
        Ok(())
    }
    /// Checks that `RLIMIT_DATA` allows the part to become data.
    fn check_data(&self, map: &Map, part: &Region) -> Result<(), Errno> {
        match (map.data_pages + part.pages()).saturating_mul(PAGE) > self.limits.get().data {
            true => Err(Errno::ENOMEM),
            false => Ok(()),
        }
    }
    fn apply_protection(&self, map: &mut Map, part: &Region) -> Result<(), Errno> {
        let mut reserved = map.reserve(2)?;
        if let Some(pages) = range(part.start, part.end) {
            self.space.protect(pages, part.read_protection())?;
        }
        map.change(part.start, part.end, &mut reserved, |region| {
            (region.protection, region.flags) = (part.protection, part.flags);
        });
        Ok(())
    }
}
