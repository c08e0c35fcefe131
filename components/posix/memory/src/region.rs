//! [`Region`]: one entry of the map of an address space, a run of pages that behave alike.
//!
//! Plain data; the lock around [`super::map::Map`] guards it. What stands behind a region is its
//! [`Backing`] (architecture.md, "Memory of programs": a map of entries over objects).
use super::segments::Segment;
use alloc::sync::Arc;
use bitflags::bitflags;
use rt::{
    PAGE_BYTES,
    memory::FrameId,
    user::{PageRange, Protection},
};
use vfs::{OpenFile, file::Mappable};

/// Bytes of a page, as addresses count.
pub const PAGE: u64 = PAGE_BYTES as u64;

bitflags! {
    /// Further properties of a region.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Flags: u16 {
        /// Stores are seen by all programs that map the object.
        const SHARED = 1 << 0;
        /// Grows down on a fault below it (the stack).
        const GROWS_DOWN = 1 << 1;
        /// The pages do not count as committed.
        const NO_RESERVE = 1 << 2;
        /// The pages are locked in memory (mlock).
        const LOCKED = 1 << 3;
        /// fork does not copy the region.
        const DONT_FORK = 1 << 4;
        /// The child of a fork sees zeroes.
        const WIPE_ON_FORK = 1 << 5;
        /// The region is not part of core dumps.
        const DONT_DUMP = 1 << 6;
        /// The region could be written to at some time, so private copies of pages may be present.
        const WAS_WRITABLE = 1 << 7;
        /// The region belongs to the system (vDSO): it does not grow, and advice is refused.
        const SPECIAL = 1 << 8;
        /// The program wants large pages.
        const LARGE = 1 << 9;
        /// The program forbids large pages.
        const NO_LARGE = 1 << 10;
    }
}

/// The name of a region without a file in `/proc/PID/maps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// The code of the vDSO.
    Vdso,
    /// The data of the vDSO.
    Vvar,
    /// Shared memory without a name.
    SharedAnonymous,
}

impl Label {
    /// Returns the name that `/proc/PID/maps` shows.
    pub fn text(self) -> &'static str {
        match self {
            Label::Vdso => "[vdso]",
            Label::Vvar => "[vvar]",
            Label::SharedAnonymous => "/dev/zero (deleted)",
        }
    }
}

/// The file or name behind an object.
#[derive(Clone)]
pub enum Origin {
    /// An open file; the region keeps it open.
    File(Arc<OpenFile>),
    /// Memory that the system made.
    System(Label),
    /// A segment of System V shared memory, which counts the regions that map it.
    Segment(Arc<dyn Segment>),
}

/// The source of a region's pages.
#[derive(Clone)]
pub enum Backing {
    /// Zeroes; the pages live in the page tables alone.
    Anonymous,
    /// An object's pages from `first` on.
    Object {
        /// The mapped object.
        object: Arc<dyn Mappable>,
        /// The object's page at the region's start.
        first: u64,
        /// The file or other source behind it.
        origin: Origin,
    },
}

impl Backing {
    /// Returns the backing `pages` pages further on.
    fn advanced(&self, pages: u64) -> Backing {
        match self {
            Backing::Anonymous => Backing::Anonymous,
            Backing::Object { object, first, origin } => Backing::Object {
                object: object.clone(),
                first: first.wrapping_add(pages),
                origin: origin.clone(),
            },
        }
    }
    /// Returns whether `next` is the backing `pages` pages after this.
    fn is_followed_by(&self, next: &Backing, pages: u64) -> bool {
        match (self, next) {
            (Backing::Anonymous, Backing::Anonymous) => true,
            (
                Backing::Object { object, first, origin },
                Backing::Object { object: other, first: second, origin: other_origin },
            ) => {
                is_same_object(object, other)
                    && first.wrapping_add(pages) == *second
                    && origin.is_same(other_origin)
            }
            _ => false,
        }
    }
}

impl Origin {
    fn is_same(&self, other: &Origin) -> bool {
        match (self, other) {
            (Origin::File(one), Origin::File(other)) => Arc::ptr_eq(one, other),
            (Origin::System(one), Origin::System(other)) => one == other,
            // Each region of a segment is an attach of its own, and is not joined.
            _ => false,
        }
    }
}

/// Returns whether both are one object (compared by address; the table of methods may be another copy).
pub fn is_same_object(one: &Arc<dyn Mappable>, other: &Arc<dyn Mappable>) -> bool {
    core::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
}

/// A run of pages that behave alike. `start < end`, both page-aligned and below `USER_END`.
#[derive(Clone)]
pub struct Region {
    /// First address of the region.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// The accesses that the program is allowed.
    pub protection: Protection,
    /// The maximum protection that mprotect may set.
    pub allowed: Protection,
    /// Its further properties.
    pub flags: Flags,
    /// The source of its pages.
    pub backing: Backing,
}

impl Region {
    /// Returns the length in bytes.
    pub fn bytes(&self) -> u64 {
        self.end - self.start
    }
    /// Returns the length in pages.
    pub fn pages(&self) -> u64 {
        self.bytes() / PAGE
    }
    /// Gets the frames that its object has for the pages at `addresses`, which ascend, each at the same index in
    /// `own`.
    pub fn object_frames(&self, addresses: &[u64], own: &mut [Option<FrameId>]) {
        let Backing::Object { object, first, .. } = &self.backing else { return };
        let index_of = |address: u64| first.wrapping_add((address - self.start) / PAGE);
        let (Some(start), Some(end)) = (addresses.first(), addresses.last()) else { return };
        let count = ((end - start) / PAGE) as usize + 1;
        let mut places = addresses.iter().map(|address| index_of(*address)).zip(own).peekable();
        object.resident(index_of(*start), count, &mut |index, frame| {
            while places.next_if(|(place, _)| *place < index).is_some() {}
            if let Some((_, own)) = places.next_if(|(place, _)| *place == index) {
                *own = Some(frame.id());
            }
        });
    }
    /// Returns its pages.
    pub fn range(&self) -> Option<PageRange> {
        range(self.start, self.end)
    }
    /// Returns whether `address` lies in it.
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
    /// Returns whether stores are private to the program.
    pub fn is_private(&self) -> bool {
        !self.flags.contains(Flags::SHARED)
    }
    /// Returns whether stores change the object, now or after an mprotect.
    pub fn may_be_stored_to(&self) -> bool {
        !self.is_private() && self.allowed.contains(Protection::WRITE)
    }
    /// Returns whether it can be written to, or once could.
    pub fn was_writable(&self) -> bool {
        self.flags.contains(Flags::WAS_WRITABLE)
    }
    /// Returns whether it is private memory without an object.
    pub fn is_anonymous(&self) -> bool {
        matches!(self.backing, Backing::Anonymous)
    }
    /// Returns whether its object exists in memory only: a file of tmpfs, shared memory without a name.
    pub fn is_in_memory(&self) -> bool {
        match &self.backing {
            Backing::Object { origin: Origin::File(file), .. } => {
                file.vnode().instance().info().backing == interfaces::file_system::Backing::Cache
            }
            Backing::Object { origin: Origin::System(label), .. } => {
                *label == Label::SharedAnonymous
            }
            Backing::Object { origin: Origin::Segment(_), .. } => true,
            Backing::Anonymous => false,
        }
    }
    /// Returns the segment of System V shared memory that it maps.
    pub fn segment(&self) -> Option<&Arc<dyn Segment>> {
        match &self.backing {
            Backing::Object { origin: Origin::Segment(segment), .. } => Some(segment),
            _ => None,
        }
    }
    /// Returns whether private pages may be present, which fork must clone.
    pub fn may_have_copies(&self) -> bool {
        self.is_private() && (self.is_anonymous() || self.was_writable())
    }
    /// Returns whether its pages are committed, used or not: they are private and can be written to, or once
    /// could.
    pub fn is_committed(&self) -> bool {
        self.was_writable() && !self.flags.contains(Flags::NO_RESERVE)
    }
    /// Returns the number of its committed pages: all or none.
    pub fn committed_pages(&self) -> u64 {
        if self.is_committed() { self.pages() } else { 0 }
    }
    /// Returns whether it counts against `RLIMIT_DATA`: private, writable, not a stack.
    pub fn is_data(&self) -> bool {
        self.is_private()
            && self.protection.contains(Protection::WRITE)
            && !self.flags.contains(Flags::GROWS_DOWN)
    }
    /// Returns the protection of a page that may be stored to. As on every x86, any accessible page may be read.
    pub fn page_protection(&self) -> Protection {
        match self.protection.is_empty() {
            true => Protection::empty(),
            false => self.protection | Protection::READ,
        }
    }
    /// Returns the protection with which pages are made present before a store: write access to private pages is
    /// given one page at a time, once the page is the program's own.
    pub fn read_protection(&self) -> Protection {
        self.page_protection().difference(Protection::WRITE)
    }
    /// Returns the part of it from `start` to `end`, which lie in it.
    pub fn part(&self, start: u64, end: u64) -> Region {
        let backing = self.backing.advanced((start - self.start) / PAGE);
        Region { start, end, backing, ..self.clone() }
    }
    /// Returns whether `next` follows it and behaves the same, so that the two can be one.
    pub fn is_followed_by(&self, next: &Region) -> bool {
        self.end == next.start
            && self.protection == next.protection
            && self.allowed == next.allowed
            && self.flags == next.flags
            && self.backing.is_followed_by(&next.backing, self.pages())
    }
}

/// Returns the pages from `start` to `end`; `None` if they are not aligned or outside the addresses of programs.
pub fn range(start: u64, end: u64) -> Option<PageRange> {
    let pages = usize::try_from(end.checked_sub(start)? / PAGE).ok()?;
    PageRange::new(start, pages)
}

/// Returns `address` rounded down to a page.
pub fn page_of(address: u64) -> u64 {
    address & !(PAGE - 1)
}

/// Returns `length` rounded up to whole pages; `None` on overflow.
pub fn round_up(length: u64) -> Option<u64> {
    length.checked_next_multiple_of(PAGE)
}
