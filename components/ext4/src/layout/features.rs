//! Feature sets of the superblock, and which of them this component understands.
//!
//! A COMPAT feature can be ignored, an unknown RO_COMPAT one forbids writing, an unknown INCOMPAT
//! one forbids mounting.
use bitflags::bitflags;

bitflags! {
    /// Features that a reader must understand.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Incompat: u32 {
        const COMPRESSION = 0x1;
        const FILETYPE = 0x2;
        const RECOVER = 0x4;
        const JOURNAL_DEV = 0x8;
        const META_BG = 0x10;
        const EXTENTS = 0x40;
        const WIDE = 0x80;
        const MMP = 0x100;
        const FLEX_BG = 0x200;
        const EA_INODE = 0x400;
        const DIRDATA = 0x1000;
        const CSUM_SEED = 0x2000;
        const LARGEDIR = 0x4000;
        const INLINE_DATA = 0x8000;
        const ENCRYPT = 0x1_0000;
        const CASEFOLD = 0x2_0000;
    }

    /// Features that a writer must understand.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct ReadOnlyCompat: u32 {
        const SPARSE_SUPER = 0x1;
        const LARGE_FILE = 0x2;
        const HUGE_FILE = 0x8;
        const GDT_CSUM = 0x10;
        const DIR_NLINK = 0x20;
        const EXTRA_ISIZE = 0x40;
        const METADATA_CSUM = 0x400;
    }

    /// Features that a reader may ignore.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Compat: u32 {
        const HAS_JOURNAL = 0x4;
        const DIR_INDEX = 0x20;
        const SPARSE_SUPER2 = 0x200;
    }
}

/// The features of a volume that can be mounted. `RECOVER` is read without replay; `MMP` guards writers only.
const READABLE: Incompat = Incompat::FILETYPE
    .union(Incompat::RECOVER)
    .union(Incompat::META_BG)
    .union(Incompat::EXTENTS)
    .union(Incompat::WIDE)
    .union(Incompat::MMP)
    .union(Incompat::FLEX_BG)
    .union(Incompat::CSUM_SEED)
    .union(Incompat::LARGEDIR)
    .union(Incompat::INLINE_DATA);

/// The features that allow writing, in addition to those that allow reading.
const WRITABLE: ReadOnlyCompat = ReadOnlyCompat::all();

/// Returns whether features keep a volume from being written: unknown ones, a guard against two writers, no
/// extents.
pub(crate) fn forbids_writing(incompat: Incompat, read_only_compat: u32) -> bool {
    read_only_compat & !WRITABLE.bits() != 0
        || incompat.contains(Incompat::MMP)
        || !incompat.contains(Incompat::EXTENTS)
}

/// The names that `mke2fs -O` and `dumpe2fs` use.
const NAMES: [(Incompat, &str); 6] = [
    (Incompat::COMPRESSION, "compression"),
    (Incompat::JOURNAL_DEV, "journal_dev"),
    (Incompat::EA_INODE, "ea_inode"),
    (Incompat::DIRDATA, "dirdata"),
    (Incompat::ENCRYPT, "encrypt"),
    (Incompat::CASEFOLD, "casefold"),
];

/// The reason why the features forbid mounting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// A feature that has a name.
    Named(&'static str),
    /// Bits that have no name.
    Unknown(u32),
}

impl Incompat {
    /// Checks the bits. Refuses those that cannot be read, by name.
    pub(crate) fn decode(bits: u32) -> Result<Incompat, Refused> {
        let known = Incompat::from_bits_truncate(bits);
        if let Some((_, name)) = NAMES.iter().find(|(feature, _)| known.contains(*feature)) {
            return Err(Refused::Named(name));
        }
        match bits & !READABLE.bits() {
            0 => Ok(known),
            unknown => Err(Refused::Unknown(unknown)),
        }
    }
}
