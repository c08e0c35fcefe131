//! The messages to a block driver: they ask for the description of its disk and hand over the rings.
use super::{BlockInfo, SECTOR_BYTES, entries::SEGMENTS_MAX};
use crate::{
    AttachError,
    wire::{Name, Wire},
};
use alloc::string::ToString;
use interfaces_macro::interface;
use rt::memory::Region;

/// The greatest number of sectors of a disk. A position in the disk, in bytes, must fit a file's offset.
const SECTORS_MAX: u64 = i64::MAX as u64 / SECTOR_BYTES as u64;
/// Block sizes that a device may have: from a sector to a large page.
const BLOCK_BYTES: core::ops::RangeInclusive<u32> = 512..=2 << 20;

/// [`BlockInfo`] in the form of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub struct BlockDescription {
    name: Name,
    sectors: u64,
    block_bytes: u32,
    is_read_only: bool,
    has_flush: bool,
    has_discard: bool,
    has_write_zeroes: bool,
    max_segments: usize,
    depth: usize,
}

impl BlockDescription {
    /// Describes `info`; a long name is cut.
    pub fn of(info: &BlockInfo) -> BlockDescription {
        BlockDescription {
            name: Name::cut(&info.name),
            sectors: info.sectors,
            block_bytes: info.block_bytes,
            is_read_only: info.is_read_only,
            has_flush: info.has_flush,
            has_discard: info.has_discard,
            has_write_zeroes: info.has_write_zeroes,
            max_segments: info.max_segments,
            depth: info.depth,
        }
    }
    /// Converts the description to [`BlockInfo`]. Returns `None` if no disk can be like that, so clients need not check
    /// again.
    pub fn info(&self) -> Option<BlockInfo> {
        let is_named = !self.name.as_str().is_empty()
            && self.name.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric());
        let is_sound = is_named
            && self.sectors <= SECTORS_MAX
            && self.block_bytes.is_power_of_two()
            && BLOCK_BYTES.contains(&self.block_bytes)
            && self.max_segments > 0
            && self.depth > 0;
        is_sound.then(|| BlockInfo {
            name: self.name.as_str().to_string(),
            sectors: self.sectors,
            block_bytes: self.block_bytes,
            is_read_only: self.is_read_only,
            has_flush: self.has_flush,
            has_discard: self.has_discard,
            has_write_zeroes: self.has_write_zeroes,
            max_segments: self.max_segments.min(SEGMENTS_MAX),
            depth: self.depth,
        })
    }
}

/// The state of a request at its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub enum Whereabouts {
    /// The driver has no rings.
    NoRings,
    /// No such request came out of the ring.
    Unknown,
    /// The request came out of the ring, and its client does not know yet that it ended.
    UnderWay,
}

/// A block device whose requests come through rings.
#[interface(number = 2)]
pub trait BlockControl: Send + Sync {
    /// The description of its disk.
    #[idempotent]
    fn describe(&self) -> Option<BlockDescription>;
    /// Takes requests from no rings any more; what came through rings before is done when it answers.
    #[idempotent]
    fn detach(&self) -> Option<()>;
    /// Takes requests from the rings in `rings`, which are new, from now on, and from no others, as after
    /// [`BlockControl::detach`].
    #[idempotent]
    fn attach(&self, rings: Region) -> Result<(), AttachError>;
    /// Returns the whereabouts of the request with tag `tag`. The driver also looks again for requests that its device has
    /// done, and for new ones in the ring.
    #[idempotent]
    fn find(&self, tag: u64) -> Option<Whereabouts>;
}
