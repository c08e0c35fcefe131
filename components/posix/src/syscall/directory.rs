//! Directories: getdents, mkdir, rmdir, chdir, chroot, getcwd.
use super::{Call, Entry, open::mode, place::Named};
use crate::files::Scope;
use alloc::vec::Vec;
use interfaces::file_system::{DirectoryEntry, FileType};
use linux_raw_sys::general as raw;
use vfs::{
    Capabilities, Errno, PATH_MAX, Path, Walk,
    permission::{self, Want},
};

/// The family's calls.
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

/// Most bytes of entries gathered by one call, whatever the program's buffer.
const GATHER_BYTES: usize = 64 << 10;

/// Bytes of an entry beside its name, in both layouts: inode, offset, length, type, NUL.
const FIXED_BYTES: usize = 8 + 8 + 2 + 1 + 1;

/// How one entry is laid out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// `struct linux_dirent`: inode, offset, length, name, NUL, type in the last byte.
    Old,
    /// `struct linux_dirent64`: inode, offset, length, type, name, NUL.
    Wide,
}

impl Layout {
    /// Appends `entry`, padded to 8 bytes; `false` if it does not fit into `max` bytes.
    fn append(self, entry: &DirectoryEntry<&[u8]>, max: usize, out: &mut Vec<u8>) -> bool {
        let length = (FIXED_BYTES + entry.name.len()).next_multiple_of(8);
        let Ok(length_field) = u16::try_from(length) else { return true };
        let start = out.len();
        if start + length > max {
            return false;
        }
        let kind = entry.file_type.map_or(0, directory_type);
        out.extend_from_slice(&entry.inode.to_le_bytes());
        out.extend_from_slice(&entry.next.to_le_bytes());
        out.extend_from_slice(&length_field.to_le_bytes());
        if self == Layout::Wide {
            out.push(kind);
        }
        out.extend_from_slice(entry.name);
        out.resize(start + length, 0);
        if let (Layout::Old, Some(last)) = (self, out.last_mut()) {
            *last = kind;
        }
        true
    }
}

/// `DT_` of a type.
fn directory_type(file_type: FileType) -> u8 {
    (file_type as u16 >> 12) as u8
}

fn getdents(call: &mut Call<'_>) -> Result<u64, Errno> {
    read_entries(call, Layout::Old)
}

fn getdents64(call: &mut Call<'_>) -> Result<u64, Errno> {
    read_entries(call, Layout::Wide)
}

fn read_entries(call: &Call<'_>, layout: Layout) -> Result<u64, Errno> {
    let file = call.working_file(0)?;
    if !file.vnode().is_directory() {
        return Err(Errno::ENOTDIR);
    }
    let max = (call.uint(2) as usize).min(GATHER_BYTES);
    let mut bytes = Vec::with_capacity(max.min(4096));
    let mut is_too_small = false;
    let count = file.read_directory(&mut |entry| {
        let fits = layout.append(entry, max, &mut bytes);
        is_too_small |= !fits;
        fits
    })?;
    if count == 0 && is_too_small {
        return Err(Errno::EINVAL);
    }
    call.memory.write_bytes(call.word(1), &bytes)?;
    Ok(bytes.len() as u64)
}

fn mkdir(call: &mut Call<'_>) -> Result<u64, Errno> {
    let named = Named::cwd(call, 0)?;
    make(call, &named, call.uint(1))
}

fn mkdirat(call: &mut Call<'_>) -> Result<u64, Errno> {
    let named = Named::at(call, 0, 1)?;
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
    if !file.vnode().is_directory() {
        return Err(Errno::ENOTDIR);
    }
    enter(&Scope::of(call.task), file.path().clone())
}

fn enter(scope: &Scope, place: Path) -> Result<u64, Errno> {
    permission::check(place.vnode(), scope.credentials(), Want::EXECUTE)?;
    scope.fs().set_working(place);
    Ok(0)
}

fn chroot(call: &mut Call<'_>) -> Result<u64, Errno> {
    let scope = Scope::of(call.task);
    let place = Named::cwd(call, 0)?.walk(&scope, Walk::FOLLOW | Walk::DIRECTORY)?;
    permission::check(place.vnode(), scope.credentials(), Want::EXECUTE)?;
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
    let mut text = if name.is_reachable { Vec::new() } else { b"(unreachable)".to_vec() };
    text.extend_from_slice(&name.text);
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
        assert!(Layout::Wide.append(&entry("abc"), 100, &mut out));
        assert_eq!(out.len(), 24);
        assert_eq!(&out[16..], b"\x18\x00\x08abc\0\0");
    }

    #[test]
    fn an_old_entry_has_its_type_in_its_last_byte() {
        let mut out = Vec::new();
        assert!(Layout::Old.append(&entry("abcd"), 100, &mut out));
        assert_eq!(out.len(), 24);
        assert_eq!(&out[16..], b"\x18\x00abcd\0\x08");
    }

    #[test]
    fn an_entry_that_does_not_fit_is_left() {
        let mut out = Vec::new();
        assert!(!Layout::Wide.append(&entry("abc"), 23, &mut out));
        assert!(out.is_empty());
    }
}
