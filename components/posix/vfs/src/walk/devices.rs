//! The [`Opener`] of each device number, and of FIFOs.
//!
//! One [`Registry`] a [`crate::walk::namespace::Namespace`], filled at start, read at each open of a node.
use crate::{
    base::{errno::Errno, file::File},
    tree::{mount::Path, vnode::Vnode},
    walk::caller::Caller,
};
use alloc::{sync::Arc, vec::Vec};
use core::ops::RangeInclusive;
use interfaces::file_system::FileType;
use rt::{lock_class, sync::RwLock};

lock_class! {
    static REGISTRY = "vfs.devices";
}

/// An object behind a vnode that holds no data itself: it makes the open file of a device node, FIFO or procfs file.
pub trait Opener: Send + Sync {
    /// Opens `vnode` (a FIFO or device node) for `caller`; may block, interruptibly (FIFO).
    ///
    /// # Errors
    /// `ENXIO` for no such device, and those of open(2).
    fn open(
        &self,
        vnode: &Arc<Vnode>,
        flags: u32,
        caller: &Caller<'_>,
    ) -> Result<Arc<dyn File>, Errno>;
    /// Does the same as [`Opener::open`], for openers that need the place at which the node was found (`/dev/ptmx`).
    ///
    /// # Errors
    /// Those of [`Opener::open`].
    fn open_at(
        &self,
        place: &Path,
        flags: u32,
        caller: &Caller<'_>,
    ) -> Result<Arc<dyn File>, Errno> {
        self.open(place.vnode(), flags, caller)
    }
}

/// A range of device numbers with their opener.
#[derive(Clone)]
struct Range {
    file_type: FileType,
    major: u32,
    minors: RangeInclusive<u32>,
    opener: Arc<dyn Opener>,
}

/// The openers by device number, and the opener of FIFOs.
pub struct Registry {
    ranges: RwLock<Vec<Range>>,
    fifo: RwLock<Option<Arc<dyn Opener>>>,
}

impl Registry {
    /// Makes an empty registry: every open of a node fails with `ENXIO`.
    pub const fn new() -> Registry {
        Registry { ranges: RwLock::new(&REGISTRY, Vec::new()), fifo: RwLock::new(&REGISTRY, None) }
    }
    /// Makes `opener` the opener of character devices `major`:`minors`. The latest registration
    /// wins.
    pub fn register_character(
        &self,
        major: u32,
        minors: RangeInclusive<u32>,
        opener: Arc<dyn Opener>,
    ) {
        self.register(FileType::Character, major, minors, opener);
    }
    /// Makes `opener` the opener of block devices `major`:`minors`.
    pub fn register_block(&self, major: u32, minors: RangeInclusive<u32>, opener: Arc<dyn Opener>) {
        self.register(FileType::Block, major, minors, opener);
    }
    /// Makes `opener` the opener of every FIFO.
    pub fn register_fifo(&self, opener: Arc<dyn Opener>) {
        *self.fifo.write() = Some(opener);
    }
    fn register(
        &self,
        file_type: FileType,
        major: u32,
        minors: RangeInclusive<u32>,
        opener: Arc<dyn Opener>,
    ) {
        self.ranges.write().push(Range { file_type, major, minors, opener });
    }
    /// Returns the opener of a node of `file_type` with device number `device`.
    ///
    /// # Errors
    /// `ENXIO` if no opener is registered (also for socket nodes).
    pub fn opener(
        &self,
        file_type: FileType,
        device: (u32, u32),
    ) -> Result<Arc<dyn Opener>, Errno> {
        if file_type == FileType::Fifo {
            return self.fifo.read().clone().ok_or(Errno::ENXIO);
        }
        let ranges = self.ranges.read();
        let is_match = |range: &&Range| {
            range.file_type == file_type
                && range.major == device.0
                && range.minors.contains(&device.1)
        };
        ranges.iter().rev().find(is_match).map(|range| range.opener.clone()).ok_or(Errno::ENXIO)
    }
}

impl Default for Registry {
    fn default() -> Self {
        Registry::new()
    }
}
