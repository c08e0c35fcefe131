//! A node of an extent tree, in the inode's body or in a block of its own.
//!
//! ```text
//! header  0 magic f30a | 2 entries | 4 most entries | 6 depth | 8 generation      12 bytes
//! index   0 first logical block | 4 child (low) | 8 child (high) | 10 unused      12 bytes
//! leaf    0 first logical block | 4 length | 6 start (high) | 8 start (low)       12 bytes
//! tail    after the most entries: checksum (blocks only)                          4 bytes
//! ```
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Magic number of a header (`eh_magic`).
pub(crate) const MAGIC: u16 = 0xf30a;
/// Bytes of a header and of an entry.
pub(crate) const ENTRY_BYTES: usize = 12;
/// Deepest tree: 32-bit logical blocks need no more with 1 KiB nodes.
pub(crate) const DEPTH_MAX: u16 = 5;
/// Lengths above this are of extents allocated but never written.
pub(crate) const WRITTEN_MAX: u16 = 32768;

/// The header.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawHeader {
    pub(crate) magic: U16,
    pub(crate) entries: U16,
    pub(crate) max: U16,
    pub(crate) depth: U16,
    generation: U32,
}

/// An entry of an inner node.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawIndex {
    pub(crate) first: U32,
    pub(crate) child_low: U32,
    pub(crate) child_high: U16,
    unused: U16,
}

/// An entry of a leaf.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawExtent {
    pub(crate) first: U32,
    pub(crate) length: U16,
    pub(crate) start_high: U16,
    pub(crate) start_low: U32,
}

const _: () = assert!(size_of::<RawHeader>() == ENTRY_BYTES);
const _: () = assert!(size_of::<RawIndex>() == ENTRY_BYTES);
const _: () = assert!(size_of::<RawExtent>() == ENTRY_BYTES);
