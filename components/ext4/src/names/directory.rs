//! Directories: the entries of each block, or of the inode; lookup and listing of names.
//!
//! Names are listed in the order of their hashes where Linux does so ([`hash_order`]), else as they
//! lie. In the latter order a position is an offset in the directory file; 0 is the start. A reader
//! that continues in the midst of what has become one entry goes on with the next.
use crate::{
    layout::{
        features::{Compat, Incompat},
        inode::{Inode, is_nameable},
        leaf::entries_end,
        map,
        raw::{
            directory::*,
            inode::{BODY_BYTES, FLAG_INDEX, FLAG_INLINE_DATA},
        },
        volume::Volume,
    },
    names::{hash_order, htree, inline, name_index},
    store::{
        bytes::{word16, word32},
        cache::BlockRef,
        checksum::crc32c,
    },
};
use core::{
    iter,
    ops::{ControlFlow, Range},
    sync::atomic::Ordering::Relaxed,
};
use interfaces::file_system::{DirectoryEntry, FileType, FsError, TakeEntry};
use zerocopy::FromBytes;

/// The place of the first entry of an inline directory: behind the number of its parent.
const INLINE_FIRST: usize = 4;

/// One entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    /// Inode, zero if the entry is free.
    pub(crate) inode: u32,
    /// Name, not empty unless the entry is free.
    pub(crate) name: &'a [u8],
    /// Type, if the directory knows it.
    pub(crate) file_type: Option<FileType>,
    /// Offset of this entry and of the next.
    pub(crate) offset: usize,
    next: usize,
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
    /// The bytes of its name.
    pub(crate) name: &'a [u8],
    /// Number of its type.
    kind: u8,
    /// Offset of this entry and of the next.
    pub(crate) offset: usize,
    next: usize,
}

impl<'a> Span<'a> {
    /// The entry that it is, of a volume whose directories know types or not.
    fn told(&self, has_types: bool) -> Entry<'a> {
        let Span { inode, name, kind, offset, next } = *self;
        let file_type = has_types.then(|| decode_type(kind)).flatten();
        Entry { inode, name, file_type, offset, next }
    }

    /// Its bytes, with those behind its name.
    pub(crate) fn length(&self) -> usize {
        self.next - self.offset
    }

    /// Stands for `name`.
    #[inline]
    pub(crate) fn is(&self, name: &[u8]) -> bool {
        // The names of a directory more often begin alike than they end alike.
        self.name.len() == name.len()
            && self.name.iter().rev().eq(name.iter().rev())
            && self.inode != 0
    }
}

impl<'a> Spans<'a> {
    /// The entries of `bytes` up to `end`.
    pub(crate) fn new(bytes: &'a [u8], end: usize) -> Spans<'a> {
        Spans { bytes, at: 0, end: end.min(bytes.len()) }
    }

    /// The entry at `at` of `bytes`, where one is.
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
    /// The entries of `bytes` from `at` to `end`.
    pub(crate) fn new(volume: &Volume, bytes: &'a [u8], at: usize, end: usize) -> Entries<'a> {
        let has_types = volume.geometry.incompat.contains(Incompat::FILETYPE);
        let spans = Spans { bytes, at, end: end.min(bytes.len()) };
        Entries { spans, has_types, are_checked: false }
    }

    /// Those that are names: not the free ones, `.` and `..`. An inode that a directory may not
    /// name makes no sense.
    pub(crate) fn names(
        mut self,
        volume: &Volume,
    ) -> impl Iterator<Item = Result<Entry<'a>, FsError>> {
        iter::from_fn(move || self.next_name(volume))
    }

    /// The next of [`Entries::names`].
    #[inline(always)]
    fn next_name(&mut self, volume: &Volume) -> Option<Result<Entry<'a>, FsError>> {
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

    fn check(&self, span: &Span<'a>) -> Option<Entry<'a>> {
        let is_sound = self.are_checked || span.inode == 0 || is_name(span.name);
        is_sound.then(|| span.told(self.has_types))
    }
}

impl<'a> Entry<'a> {
    /// As the interface has it, `next` being the position after it.
    pub(crate) fn shown(&self, next: u64) -> DirectoryEntry<&'a [u8]> {
        let Entry { inode, name, file_type, .. } = *self;
        DirectoryEntry { inode: u64::from(inode), file_type, name, next }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, FsError>;

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

/// The callback of [`scan`]: it gets the position after the entry, and the entry. Free entries, `.` and `..`
/// are left out.
pub(crate) type Visit<'v> = dyn FnMut(u64, &Entry<'_>) -> ControlFlow<()> + 'v;

/// Visits every entry from `position` on.
///
/// # Errors
/// [`FsError::Corrupt`] where a block or an entry makes no sense; as [`crate::store::Store::block`].
pub(crate) fn scan(
    volume: &Volume,
    directory: &Inode,
    position: u64,
    visit: &mut Visit<'_>,
) -> Result<(), FsError> {
    directory.check_directory()?;
    if directory.has_flag(FLAG_INLINE_DATA) {
        let bytes = inline::load(volume, directory)?;
        for area in inline_areas(directory, &bytes) {
            let entries = Entries::new(volume, &bytes, area.start, area.end);
            if scan_area(volume, entries, (0, position), visit)?.is_break() {
                break;
            }
        }
        return Ok(());
    }
    let block_bytes = volume.geometry.block_bytes as u64;
    // The inode's check keeps this below the number of blocks of the volume.
    for logical in position / block_bytes..directory.attributes.size / block_bytes {
        let block = load(volume, directory, logical)?;
        let mut entries = Entries::new(volume, block.bytes(), 0, block.bytes().len());
        entries.are_checked = block.is_sound();
        let is_new = !entries.are_checked;
        if scan_area(volume, entries, (logical * block_bytes, position), visit)?.is_break() {
            break;
        }
        if is_new {
            block.set_sound();
        }
    }
    Ok(())
}

/// The places of the entries of an inline directory: in the inode's body, and behind it.
pub(crate) fn inline_areas(directory: &Inode, bytes: &[u8]) -> [Range<usize>; 2] {
    let end = bytes.len().min(directory.attributes.size as usize);
    let middle = end.min(BODY_BYTES);
    [INLINE_FIRST..middle, middle..end]
}

/// Visits the entries of one area that begins at `base` of the directory.
fn scan_area(
    volume: &Volume,
    mut entries: Entries<'_>,
    (base, position): (u64, u64),
    visit: &mut Visit<'_>,
) -> Result<ControlFlow<()>, FsError> {
    while let Some(entry) = entries.next_name(volume) {
        let entry = entry?;
        if base + (entry.offset as u64) < position {
            continue;
        }
        if visit(base + entry.next as u64, &entry).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Hands the names from `position` on to `take`.
///
/// # Errors
/// As [`scan`]; [`FsError::NoMemory`].
pub(crate) fn list(
    volume: &Volume,
    directory: &Inode,
    position: u64,
    take: &mut TakeEntry<'_>,
) -> Result<(), FsError> {
    directory.check_directory()?;
    if hash_order::list(volume, directory, position, take)? {
        return Ok(());
    }
    scan(volume, directory, position, &mut |next, entry| take(&entry.shown(next)))
}

/// Has a hash tree that is kept in step with its names.
pub(crate) fn has_tree(volume: &Volume, directory: &Inode) -> bool {
    volume.geometry.compat.contains(Compat::DIR_INDEX)
        && directory.has_flag(FLAG_INDEX)
        && !directory.has_flag(FLAG_INLINE_DATA)
}

/// The inode `name` stands for: by the hash tree where there is one, else by reading all.
///
/// # Errors
/// [`FsError::NotFound`]; else as [`scan`].
pub(crate) fn find(volume: &Volume, directory: &Inode, name: &[u8]) -> Result<u32, FsError> {
    directory.check_directory()?;
    if name.len() > 255 {
        return Err(FsError::NameTooLong);
    }
    if has_tree(volume, directory) {
        match htree::find(volume, directory, name)? {
            htree::Search::Found(place) => return Ok(place.inode),
            htree::Search::Absent => return Err(FsError::NotFound),
            htree::Search::NoTree => {}
        }
    }
    match find_linearly(volume, directory, name)? {
        Some(inode) if is_nameable(&volume.geometry, inode) => Ok(inode),
        Some(_) => Err(FsError::Corrupt),
        None => Err(FsError::NotFound),
    }
}

/// The inode of `name`, from one block or area to the next. Blocks are searched from the one on where a name was found last: names
/// are often looked up in the order in which they are listed.
fn find_linearly(volume: &Volume, directory: &Inode, name: &[u8]) -> Result<Option<u32>, FsError> {
    if matches!(name, b"." | b"..") {
        return Ok(None);
    }
    if directory.has_flag(FLAG_INLINE_DATA) {
        let bytes = inline::load(volume, directory)?;
        for area in inline_areas(directory, &bytes) {
            let spans = Spans { bytes: &bytes, at: area.start, end: area.end };
            if let Some(found) = find_in(spans, name)? {
                return Ok(Some(found.inode));
            }
        }
        return Ok(None);
    }
    // The inode's check keeps this below the number of blocks of the volume.
    let blocks = directory.attributes.size / volume.geometry.block_bytes as u64;
    let last = u64::from(directory.last_found.load(Relaxed)).min(blocks);
    for logical in (last..blocks).chain(0..last) {
        let block = load(volume, directory, logical)?;
        if let Some(found) = find_in_block(volume, &block, name)? {
            directory.last_found.store(logical as u32, Relaxed);
            return Ok(Some(found.inode));
        }
    }
    Ok(None)
}

/// The entry of a block that stands for `name`: by its index where it has one, else by looking at one after the other.
///
/// # Errors
/// [`FsError::Corrupt`] where an entry before it makes no sense.
pub(crate) fn find_in_block<'a>(
    volume: &Volume,
    block: &'a BlockRef,
    name: &[u8],
) -> Result<Option<Span<'a>>, FsError> {
    let (bytes, end) = (block.bytes(), entries_end(&volume.geometry));
    match block.index(|| name_index::make(bytes.get(..end)?)) {
        Some(index) => Ok(name_index::find(index, bytes, name)),
        None => find_in(Spans::new(bytes, end), name),
    }
}

fn find_in<'a>(spans: Spans<'a>, name: &[u8]) -> Result<Option<Span<'a>>, FsError> {
    for entry in spans {
        let entry = entry?;
        if entry.is(name) {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

/// Block `logical` of a directory, its checksum verified. A hole makes no sense here.
pub(crate) fn load(volume: &Volume, directory: &Inode, logical: u64) -> Result<BlockRef, FsError> {
    load_placed(volume, directory, logical).map(|(_, block)| block)
}

/// [`load`], with where the block is on the volume.
pub(crate) fn load_placed(
    volume: &Volume,
    directory: &Inode,
    logical: u64,
) -> Result<(u64, BlockRef), FsError> {
    let place = map::map(volume, directory, logical, 1)?.start.ok_or(FsError::Corrupt)?;
    let block = volume.store.block(place)?;
    if volume.geometry.has_checksums() {
        let is_root = logical == 0 && directory.has_flag(FLAG_INDEX);
        block.verify(|bytes| {
            if is_root {
                htree::is_sum_right(directory.seed, bytes, ROOT_COUNT_OFFSET)
            } else if is_node(bytes) {
                htree::is_sum_right(directory.seed, bytes, NODE_COUNT_OFFSET)
            } else {
                is_sum_right(directory.seed, bytes)
            }
        })?;
    }
    Ok((place, block))
}

/// One free entry as long as the block: a node of the hash tree (a leaf ends with its tail).
fn is_node(bytes: &[u8]) -> bool {
    word32(bytes, 0) == Some(0) && word16(bytes, 4).map(usize::from) == Some(bytes.len())
}

fn is_sum_right(seed: u32, bytes: &[u8]) -> bool {
    let Some((covered, tail)) = bytes.split_last_chunk::<TAIL_BYTES>() else { return false };
    let is_tail = word32(tail, 0) == Some(0)
        && word16(tail, 4) == Some(TAIL_BYTES as u16)
        && tail.get(7) == Some(&TAIL_TYPE);
    is_tail && word32(tail, 8) == Some(crc32c(seed, covered))
}
