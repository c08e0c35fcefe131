//! The entries of a directory's blocks, or of its inode: read, checked, written.
use crate::{
    layout::{
        features::Incompat,
        inode::{Inode, is_nameable},
        raw::{directory::*, inode::BODY_BYTES},
        volume::Volume,
    },
    store::bytes::{put, put16, put32},
};
use core::{iter, ops::Range};
use interfaces::file_system::{DirectoryEntry, FileType, FsError};
use zerocopy::FromBytes;

/// The place of the first entry of an inline directory: behind the number of its parent.
const INLINE_FIRST: usize = 4;

/// An entry of a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedEntry<'a> {
    /// Inode, zero if the entry is free.
    pub(crate) inode: u32,
    /// The name, which is not empty unless the entry is free.
    pub(crate) name: &'a [u8],
    /// Type, if the directory knows it.
    pub(crate) file_type: Option<FileType>,
    /// Offset of this entry and of the next.
    pub(crate) offset: usize,
    pub(crate) next: usize,
}

/// An iterator over the entries of an area, in order, which does not check their names. It ends after the first error.
/// Searches use it: a name that equals the one searched for is valid.
pub(crate) struct Spans<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

/// An entry as it is on the device; its name is not checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span<'a> {
    /// Inode, zero if the entry is free.
    pub(crate) inode: u32,
    /// The bytes of the name.
    pub(crate) name: &'a [u8],
    /// Number of the type.
    kind: u8,
    /// Offset of this entry and of the next.
    pub(crate) offset: usize,
    next: usize,
}

impl<'a> Span<'a> {
    /// Returns the entry. `has_types` tells whether the volume's directories record types.
    fn told(&self, has_types: bool) -> CheckedEntry<'a> {
        let Span { inode, name, kind, offset, next } = *self;
        let file_type = has_types.then(|| decode_type(kind)).flatten();
        CheckedEntry { inode, name, file_type, offset, next }
    }

    /// Returns the length of the entry, with the bytes behind its name.
    pub(crate) fn length(&self) -> usize {
        self.next - self.offset
    }

    /// Returns whether the entry is in use and has the name `name`.
    #[inline]
    pub(crate) fn is(&self, name: &[u8]) -> bool {
        // Names in one directory more often have the same beginning than the same end.
        self.name.len() == name.len()
            && self.name.iter().rev().eq(name.iter().rev())
            && self.inode != 0
    }
}

impl<'a> Spans<'a> {
    /// Iterates over the entries of `bytes` up to `end`.
    pub(crate) fn new(bytes: &'a [u8], end: usize) -> Spans<'a> {
        Spans { bytes, at: 0, end: end.min(bytes.len()) }
    }

    /// The entries of `bytes` within `area`.
    pub(crate) fn within(bytes: &'a [u8], area: Range<usize>) -> Spans<'a> {
        Spans { bytes, at: area.start, end: area.end }
    }

    /// Returns the entry at `at` of `bytes`, if it is valid.
    pub(crate) fn one(bytes: &'a [u8], at: usize) -> Option<Span<'a>> {
        Spans { bytes, at, end: bytes.len() }.decode()
    }

    #[inline]
    fn decode(&self) -> Option<Span<'a>> {
        let left = self.bytes.get(self.at..self.end)?;
        let (raw, rest) = RawEntry::ref_from_prefix(left).ok()?;
        let length = usize::from(raw.length.get());
        let name_length = usize::from(raw.name_length);
        let needed = (ENTRY_BYTES + name_length + 3) & !3;
        if length < needed || length > left.len() || !length.is_multiple_of(4) {
            return None;
        }
        let name = rest.get(..name_length)?;
        let (inode, kind) = (raw.inode.get(), raw.file_type);
        Some(Span { inode, name, kind, offset: self.at, next: self.at + length })
    }
}

impl<'a> Iterator for Spans<'a> {
    type Item = Result<Span<'a>, FsError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.end {
            return None;
        }
        let span = self.decode();
        // Each entry is at least eight bytes long.
        self.at = span.map_or(self.end, |span| span.next);
        Some(span.ok_or(FsError::Corrupt))
    }
}

/// The entries of an area, in order; ends after the first error.
pub(crate) struct Entries<'a> {
    spans: Spans<'a>,
    has_types: bool,
    /// The names and their inodes were checked before, and are not checked again.
    pub(crate) are_checked: bool,
}

impl<'a> Entries<'a> {
    /// Iterates over the entries of `bytes` from `at` to `end`.
    pub(crate) fn new(volume: &Volume, bytes: &'a [u8], at: usize, end: usize) -> Entries<'a> {
        let has_types = volume.geometry.incompat.contains(Incompat::FILETYPE);
        let spans = Spans { bytes, at, end: end.min(bytes.len()) };
        Entries { spans, has_types, are_checked: false }
    }

    /// Iterates over the entries that are names, without free ones, `.` and `..`. An inode that a directory may not name is an
    /// error.
    pub(crate) fn names(
        mut self,
        volume: &Volume,
    ) -> impl Iterator<Item = Result<CheckedEntry<'a>, FsError>> {
        iter::from_fn(move || self.next_name(volume))
    }

    /// Returns the next entry of [`Entries::names`].
    #[inline(always)]
    pub(crate) fn next_name(
        &mut self,
        volume: &Volume,
    ) -> Option<Result<CheckedEntry<'a>, FsError>> {
        loop {
            let entry = match self.next()? {
                Ok(entry) if entry.inode == 0 || matches!(entry.name, b"." | b"..") => continue,
                Ok(entry) => entry,
                Err(error) => return Some(Err(error)),
            };
            let is_right = self.are_checked || is_nameable(&volume.geometry, entry.inode);
            return Some(if is_right { Ok(entry) } else { Err(FsError::Corrupt) });
        }
    }

    fn check(&self, span: &Span<'a>) -> Option<CheckedEntry<'a>> {
        let is_sound = self.are_checked || span.inode == 0 || is_name(span.name);
        is_sound.then(|| span.told(self.has_types))
    }
}

impl<'a> CheckedEntry<'a> {
    /// Converts the entry to the interface's form, with `next` as the position after it.
    pub(crate) fn shown(&self, next: u64) -> DirectoryEntry<&'a [u8]> {
        let CheckedEntry { inode, name, file_type, .. } = *self;
        DirectoryEntry { inode: u64::from(inode), file_type, name, next }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<CheckedEntry<'a>, FsError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let checked = self.spans.next()?.and_then(|span| self.check(&span).ok_or(FsError::Corrupt));
        if checked.is_err() {
            self.spans.at = self.spans.end;
        }
        Some(checked)
    }
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}

fn decode_type(value: u8) -> Option<FileType> {
    use FileType::*;
    static TYPES: [FileType; 7] = [Regular, Directory, Character, Block, Fifo, Socket, Symlink];
    TYPES.get(usize::from(value).checked_sub(1)?).copied()
}

/// Returns the areas with the entries of an inline directory: in the inode's body, and behind it.
pub(crate) fn inline_areas(directory: &Inode, bytes: &[u8]) -> [Range<usize>; 2] {
    let end = bytes.len().min(directory.attributes.size as usize);
    let middle = end.min(BODY_BYTES);
    [INLINE_FIRST..middle, middle..end]
}

/// The first of some entries that stands for `name`.
///
/// # Errors
/// [`FsError::Corrupt`] where an entry before it makes no sense.
pub(crate) fn find_in<'a>(spans: Spans<'a>, name: &[u8]) -> Result<Option<Span<'a>>, FsError> {
    for entry in spans {
        let entry = entry?;
        if entry.is(name) {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

/// The place of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryPlace {
    /// Block of the directory, and on the volume.
    pub(crate) logical: u64,
    /// Offset in the block.
    pub(crate) offset: usize,
    /// Inode it names.
    pub(crate) inode: u32,
}

/// An entry that is to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewEntry<'a> {
    /// Name of the entry.
    pub(crate) name: &'a [u8],
    /// Inode it names.
    pub(crate) inode: u32,
    /// Type of the inode.
    pub(crate) file_type: FileType,
}

/// Returns the number of a type in entries.
pub(crate) fn encode_type(volume: &Volume, file_type: FileType) -> u8 {
    if !volume.geometry.incompat.contains(Incompat::FILETYPE) {
        return 0;
    }
    match file_type {
        FileType::Regular => 1,
        FileType::Directory => 2,
        FileType::Character => 3,
        FileType::Block => 4,
        FileType::Fifo => 5,
        FileType::Socket => 6,
        FileType::Symlink => 7,
    }
}

/// Returns the bytes that an entry with that name needs.
pub(crate) fn needed(name: &[u8]) -> usize {
    (ENTRY_BYTES + name.len()).next_multiple_of(4)
}

/// Writes an entry of `length` bytes.
pub(crate) fn write_entry(
    bytes: &mut [u8],
    offset: usize,
    length: usize,
    (inode, file_type, name): (u32, u8, &[u8]),
) {
    put32(bytes, offset, inode);
    put16(bytes, offset + 4, length as u16);
    put(bytes, offset + 6, &[name.len() as u8, file_type]);
    put(bytes, offset + ENTRY_BYTES, name);
}
