//! The program break (brk).
use super::{
    region::{Backing, Flags, PAGE, Region, round_up},
    space::AddressSpace,
};
use core::sync::atomic::Ordering;
use rt::user::{Protection, USER_END};
use vfs::Errno;

impl AddressSpace {
    /// Sets the program break to `wanted` if possible, and returns the resulting break (brk(2) as
    /// the kernel implements it: without errors).
    ///
    /// # Locks
    /// `memory.layout`, then `memory.map`.
    pub fn set_break(&self, wanted: u64) -> u64 {
        let mut layout = self.layout.lock();
        let before = layout.heap_end;
        if wanted < layout.heap_start || wanted > USER_END {
            return before;
        }
        let (Some(old), Some(new)) = (round_up(before), round_up(wanted)) else { return before };
        let done = match new.cmp(&old) {
            core::cmp::Ordering::Equal => Ok(()),
            core::cmp::Ordering::Less => self.unmap(new, old - new),
            core::cmp::Ordering::Greater => {
                let data = layout.data.1.saturating_sub(layout.data.0);
                match wanted - layout.heap_start + data > self.limits.get().data {
                    true => Err(Errno::ENOMEM),
                    false => self.grow_heap(old, new),
                }
            }
        };
        if done.is_ok() {
            layout.heap_end = wanted;
        }
        layout.heap_end
    }
    fn grow_heap(&self, start: u64, end: u64) -> Result<(), Errno> {
        let mut flags = Flags::WAS_WRITABLE;
        flags.set(Flags::LOCKED, self.locks_future.load(Ordering::Relaxed));
        let region = Region {
            start,
            end,
            protection: Protection::READ | Protection::WRITE,
            allowed: Protection::all(),
            flags,
            backing: Backing::Anonymous,
        };
        self.update(|map| {
            if !map.is_free(start, end + PAGE) {
                return Err(Errno::ENOMEM);
            }
            self.check_limits(map, &region)?;
            self.promise(map, &region)?;
            let mut reserved = map.reserve(1)?;
            map.insert(region.clone(), &mut reserved);
            Ok(())
        })?;
        if flags.contains(Flags::LOCKED) {
            let _ = self.populate_region(&region);
        }
        Ok(())
    }
}
