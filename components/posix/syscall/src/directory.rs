//! Calls about directories: getdents, mkdir, rmdir, chdir, chroot, getcwd.
use super::{entry::Entry, open::mode, place::Named};
use alloc::vec::Vec;
use core::ops::Range;
use interfaces::file_system::{DirectoryEntry, FileType};
use linux_raw_sys::general as raw;
use process::{call::Call, files::Scope};
use vfs::{Capabilities, Errno, OpenFile, PATH_MAX, Path, Walk, Whence, permission::Want};
use zerocopy::{
    Immutable, IntoBytes, Unaligned,
    little_endian::{U16, U64},
};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_getdents, "getdents", getdents),
    Entry::whole(raw::__NR_getdents64, "getdents64", getdents64),
    Entry::whole(raw::__NR_mkdir, "mkdir", mkdir),
    Entry::whole(raw::__NR_mkdirat, "mkdirat", mkdirat),
    Entry::whole(raw::__NR_rmdir, "rmdir", rmdir),
    Entry::whole(raw::__NR_chdir, "chdir", chdir),
    Entry::whole(raw::__NR_fchdir, "fchdir", fchdir),
    Entry::whole(raw::__NR_chroot, "chroot", chroot),
    Entry::whole(raw::__NR_getcwd, "getcwd", getcwd),
];

/// The greatest number of bytes of entries collected at a time, for a buffer of any length.
const GATHER_BYTES: usize = 64 << 10;

/// Number of bytes reserved before the first entry.
const FIRST_BYTES: usize = 512;

/// Bytes before the type or the name: inode, offset, length.
const HEADER_BYTES: usize = 8 + 8 + 2;

/// Bytes of an entry besides its name, in both layouts: inode, offset, length, type, NUL.
const FIXED_BYTES: usize = 8 + 8 + 2 + 1 + 1;

/// The layout of a directory entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EntryLayout {
    /// `struct linux_dirent`: inode, offset, length, name, NUL, type in the last byte.
    Old,
    /// `struct linux_dirent64`: inode, offset, length, type, name, NUL.
    Wide,
}

/// The head of an entry in both layouts; the type is [`EntryLayout::Wide`]'s.
#[derive(Clone, Copy, IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    inode: U64,
    next: U64,
    length: U16,
    kind: u8,
}

impl EntryLayout {
    /// Appends `entry`, padded to 8 bytes; returns `false` if it does not fit into `max` bytes.
    fn append(self, entry: &DirectoryEntry<&[u8]>, max: usize, out: &mut Vec<u8>) -> bool {
        let length = (FIXED_BYTES + entry.name.len() + 7) & !7;
        let Ok(length_field) = u16::try_from(length) else { return true };
        let start = out.len();
        if start + length > max {
            return false;
        }
        if start == 0 {
            out.reserve(FIRST_BYTES.min(max));
        }
        let kind = entry.file_type.map_or(0, directory_type);
        let header = Header {
            inode: entry.inode.into(),
            next: entry.next.into(),
            length: length_field.into(),
            kind,
        };
        out.extend_from_slice(header.as_bytes());
        if self == EntryLayout::Old {
            out.pop();
        }
        out.extend_from_slice(entry.name);
        // The greatest possible number of zeroes is added and then shortened: a constant length is faster.
        out.extend_from_slice(&[0; 16]);
        out.truncate(start + length);
        if let (EntryLayout::Old, Some(last)) = (self, out.last_mut()) {
            *last = kind;
        }
        true
    }
}

/// Returns the `DT_` constant of a type.
fn directory_type(file_type: FileType) -> u8 {
    (file_type as u16 >> 12) as u8
}

fn getdents(call: &mut Call<'_>) -> Result<u64, Errno> {
    read_entries(call, EntryLayout::Old)
}

fn getdents64(call: &mut Call<'_>) -> Result<u64, Errno> {
    read_entries(call, EntryLayout::Wide)
}

fn read_entries(call: &Call<'_>, layout: EntryLayout) -> Result<u64, Errno> {
    let file = call.working_file(0)?;
    if !file.vnode().is_directory() {
        return Err(Errno::ENOTDIR);
    }
    // A negative size has room for no entry.
    let room = usize::try_from(call.int(2)).unwrap_or(0);
    let mut done = 0;
    loop {
        let step = gather(call, &file, layout, (done, room - done));
        match step {
            Ok((count, Rest::More)) => done += count,
            Ok((count, Rest::None)) => return Ok((done + count) as u64),
            Err(_) if done > 0 => return Ok(done as u64),
            Err(error) => return Err(error),
        }
    }
}

/// Tells whether the directory may have more entries for which there is room.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    None,
    More,
}

/// Writes entries to the program, at most `room` bytes and [`GATHER_BYTES`] of them, `done` bytes into its
/// buffer.
fn gather(
    call: &Call<'_>,
    file: &OpenFile,
    layout: EntryLayout,
    (done, room): (usize, usize),
) -> Result<(usize, Rest), Errno> {
    let (start, most) = (file.offset(), room.min(GATHER_BYTES));
    let mut bytes = Vec::new();
    let mut is_full = false;
    let count = file.read_directory(call.caller(), &mut |entry| {
        let fits = layout.append(entry, most, &mut bytes);
        is_full |= !fits;
        fits
    })?;
    if count == 0 && is_full {
        return Err(Errno::EINVAL);
    }
    let to = call.word(1).wrapping_add(done as u64);
    if let Err(error) = call.memory.write_bytes(to, &bytes) {
        return take_back(call, file, (start, to), (&bytes, error));
    }
    let rest = if is_full && most < room { Rest::More } else { Rest::None };
    Ok((bytes.len(), rest))
}

/// Writes the whole entries of `bytes` before the bad address, and sets the position after them.
#[cold]
fn take_back(
    call: &Call<'_>,
    file: &OpenFile,
    (start, to): (u64, u64),
    (bytes, error): (&[u8], Errno),
) -> Result<(usize, Rest), Errno> {
    let (mut taken, mut next) = (0, start);
    while let Some(header) = bytes.get(taken..taken + HEADER_BYTES) {
        let field = |range: Range<usize>| header.get(range).unwrap_or_default();
        let length = field(16..18).try_into().map_or(0, u16::from_le_bytes) as usize;
        let entry = bytes.get(taken..taken + length).filter(|_| length > 0).unwrap_or_default();
        let at = to.wrapping_add(taken as u64);
        if entry.is_empty() || call.memory.write_bytes(at, entry).is_err() {
            break;
        }
        next = field(8..16).try_into().map_or(next, u64::from_le_bytes);
        taken += length;
    }
    file.seek(next as i64, Whence::Start)?;
    if taken > 0 { Ok((taken, Rest::None)) } else { Err(error) }
}

fn mkdir(call: &mut Call<'_>) -> Result<u64, Errno> {
    let named = Named::cwd(call, 0)?;
    make(call, &named, call.uint(1))
}

fn mkdirat(call: &mut Call<'_>) -> Result<u64, Errno> {
    let named = Named::from_directory(call, 0, 1)?;
    make(call, &named, call.uint(2))
}

fn make(call: &Call<'_>, named: &Named, bits: u32) -> Result<u64, Errno> {
    let scope = Scope::of(call.task);
    scope.caller().make_directory(named.base(), &named.path, mode(bits))?;
    Ok(0)
}

fn rmdir(call: &mut Call<'_>) -> Result<u64, Errno> {
    let named = Named::cwd(call, 0)?;
    let scope = Scope::of(call.task);
    scope.caller().remove_directory(named.base(), &named.path)?;
    Ok(0)
}

fn chdir(call: &mut Call<'_>) -> Result<u64, Errno> {
    let scope = Scope::of(call.task);
    let place = Named::cwd(call, 0)?.walk(&scope, Walk::FOLLOW | Walk::DIRECTORY)?;
    enter(&scope, place)
}

fn fchdir(call: &mut Call<'_>) -> Result<u64, Errno> {
    let file = call.file(0)?;
    call.note_opened(&file);
    if !file.vnode().is_directory() {
        return Err(Errno::ENOTDIR);
    }
    enter(&Scope::of(call.task), file.path().clone())
}

fn enter(scope: &Scope<'_>, place: Path) -> Result<u64, Errno> {
    scope.caller().check(place.vnode(), Want::EXECUTE)?;
    scope.fs().set_working(place);
    Ok(0)
}

fn chroot(call: &mut Call<'_>) -> Result<u64, Errno> {
    let scope = Scope::of(call.task);
    let place = Named::cwd(call, 0)?.walk(&scope, Walk::FOLLOW | Walk::DIRECTORY)?;
    scope.caller().check(place.vnode(), Want::EXECUTE)?;
    if !scope.credentials().has(Capabilities::SYS_CHROOT) {
        return Err(Errno::EPERM);
    }
    scope.fs().set_root(place);
    Ok(0)
}

fn getcwd(call: &mut Call<'_>) -> Result<u64, Errno> {
    let places = call.task.fs().places();
    let name = places.working.describe(&places.root);
    if name.is_deleted {
        return Err(Errno::ENOENT);
    }
    let mut text = name.text;
    if !name.is_reachable {
        text.splice(0..0, *b"(unreachable)");
    }
    text.push(0);
    if text.len() > PATH_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    if text.len() as u64 > call.word(1) {
        return Err(Errno::ERANGE);
    }
    call.memory.write_bytes(call.word(0), &text)?;
    Ok(text.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> DirectoryEntry<&[u8]> {
        let (inode, file_type) = (7, Some(FileType::Regular));
        DirectoryEntry { inode, file_type, name: name.as_bytes(), next: 3 }
    }

    #[test]
    fn a_wide_entry_has_its_type_before_its_name() {
        let mut out = Vec::new();
        assert!(EntryLayout::Wide.append(&entry("abc"), 100, &mut out));
        assert_eq!(out.len(), 24);
        assert_eq!(&out[16..], b"\x18\x00\x08abc\0\0");
    }

    #[test]
    fn an_old_entry_has_its_type_in_its_last_byte() {
        let mut out = Vec::new();
        assert!(EntryLayout::Old.append(&entry("abcd"), 100, &mut out));
        assert_eq!(out.len(), 24);
        assert_eq!(&out[16..], b"\x18\x00abcd\0\x08");
    }

    #[test]
    fn an_entry_that_does_not_fit_is_left() {
        let mut out = Vec::new();
        assert!(!EntryLayout::Wide.append(&entry("abc"), 23, &mut out));
        assert!(out.is_empty());
    }
}
