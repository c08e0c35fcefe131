//! What /proc shows of an address space.
use super::{
    AddressSpace, Faults,
    region::{Backing, Flags, Label, Origin, PAGE, Region},
};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::Ordering;
use rt::user::Protection;
use vfs::{OpenFile, file::Mappable};

/// Sizes, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Mapped.
    pub total: u64,
    /// Most mapped so far.
    pub peak_total: u64,
    /// Present.
    pub resident: u64,
    /// Most present so far.
    pub peak_resident: u64,
    /// Present pages of objects in regions that are not anonymous (an upper bound).
    pub shared: u64,
    /// Private and writable, stacks apart.
    pub data: u64,
    /// The stack.
    pub stack: u64,
    /// Code of the program.
    pub code: u64,
    /// Executable pages of other files.
    pub libraries: u64,
    /// Locked.
    pub locked: u64,
}

/// What a line of `/proc/PID/maps` names.
#[derive(Clone)]
pub enum Name {
    /// Nothing.
    None,
    /// `[heap]`.
    Heap,
    /// `[stack]`.
    Stack,
    /// `[vdso]`, `[vvar]`, `/dev/zero (deleted)`.
    System(Label),
    /// A file.
    File(Arc<OpenFile>),
}

/// A line of `/proc/PID/maps`.
#[derive(Clone)]
pub struct RegionReport {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// What the program may do.
    pub protection: Protection,
    /// Shared.
    pub is_shared: bool,
    /// Byte offset in the file.
    pub offset: u64,
    /// Its name.
    pub name: Name,
    /// Flags.
    pub flags: Flags,
}

impl AddressSpace {
    /// Faults resolved so far.
    pub fn faults(&self) -> Faults {
        self.faults.get()
    }
    /// Sizes of it now.
    pub fn sizes(&self) -> Sizes {
        self.note_resident();
        let layout = self.layout();
        let map = self.map.read();
        let resident = self.space.resident_pages() as u64;
        let sum = |is_wanted: &dyn Fn(&Region) -> bool| -> u64 {
            map.iter().filter(|region| is_wanted(region)).map(Region::pages).sum()
        };
        let executable = sum(&|region| {
            region.protection.contains(Protection::EXECUTE) && !region.is_anonymous()
        });
        let code = layout.code.1.saturating_sub(layout.code.0).div_ceil(PAGE);
        Sizes {
            total: map.total_pages,
            peak_total: self.peak_total_pages.load(Ordering::Relaxed),
            resident,
            peak_resident: self.peak_pages.load(Ordering::Relaxed),
            shared: sum(&|region| !region.is_anonymous()).min(resident),
            data: map.data_pages,
            stack: sum(&|region| region.flags.contains(Flags::GROWS_DOWN)),
            code,
            libraries: executable.saturating_sub(code),
            locked: map.locked_pages,
        }
    }
    /// Every region, in order.
    pub fn regions(&self) -> Vec<RegionReport> {
        let layout = self.layout();
        let map = self.map.read();
        map.iter()
            .map(|region| {
                let mut report = describe(region, layout.stack_start);
                let heap = layout.heap_start..layout.heap_end;
                if region.is_anonymous()
                    && !heap.is_empty()
                    && region.start < heap.end
                    && heap.start < region.end
                {
                    report.name = Name::Heap;
                }
                report
            })
            .collect()
    }
    /// What `take` makes of the place in a shared object that `address` stands for, by which futexes of several
    /// processes meet: the object and the byte offset. `None` in private memory.
    ///
    /// # Locks
    /// `memory.map`, to read, over `take`.
    pub fn shared_place<T>(
        &self,
        address: u64,
        take: impl FnOnce(&Arc<dyn Mappable>, u64) -> T,
    ) -> Option<T> {
        let map = self.map.read();
        let region = map.find(address).filter(|region| !region.is_private())?;
        match &region.backing {
            Backing::Anonymous => None,
            Backing::Object { object, first, .. } => {
                let offset = first.wrapping_mul(PAGE).wrapping_add(address - region.start);
                Some(take(object, offset))
            }
        }
    }
    /// Present pages between `start` and `end` (`/proc/PID/smaps`).
    pub fn resident_between(&self, start: u64, end: u64) -> u64 {
        let pages = (start..end).step_by(PAGE as usize);
        pages.filter(|page| self.space.query(*page).is_some()).count() as u64
    }
}

fn describe(region: &Region, stack_start: u64) -> RegionReport {
    let (name, offset) = match &region.backing {
        Backing::Anonymous if region.contains(stack_start) => (Name::Stack, 0),
        Backing::Anonymous => (Name::None, 0),
        Backing::Object { first, origin, .. } => match origin {
            Origin::File(file) => (Name::File(file.clone()), first.wrapping_mul(PAGE)),
            Origin::System(label) => (Name::System(*label), 0),
        },
    };
    RegionReport {
        start: region.start,
        end: region.end,
        protection: region.protection,
        is_shared: !region.is_private(),
        offset,
        name,
        flags: region.flags,
    }
}
