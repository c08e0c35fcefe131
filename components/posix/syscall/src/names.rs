//! Calls about names: unlink, rename, link, symlink, readlink, mknod.
use super::{entry::Entry, place::Named, stat::decode_device};
use alloc::vec::Vec;
use interfaces::file_system::FileType;
use linux_raw_sys::general as raw;
use process::{call::Call, files::Scope};
use vfs::{Capabilities, Errno, PATH_MAX, Path, Walk, operations::RenameMode};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_unlink, "unlink", unlink),
    Entry::whole(raw::__NR_unlinkat, "unlinkat", unlinkat),
    Entry::whole(raw::__NR_rename, "rename", rename),
    Entry::whole(raw::__NR_renameat, "renameat", renameat),
    Entry::partial(raw::__NR_renameat2, "renameat2", "RENAME_WHITEOUT", renameat2),
    Entry::whole(raw::__NR_link, "link", link),
    Entry::whole(raw::__NR_linkat, "linkat", linkat),
    Entry::whole(raw::__NR_symlink, "symlink", symlink),
    Entry::whole(raw::__NR_symlinkat, "symlinkat", symlinkat),
    Entry::whole(raw::__NR_readlink, "readlink", readlink),
    Entry::whole(raw::__NR_readlinkat, "readlinkat", readlinkat),
    Entry::whole(raw::__NR_mknod, "mknod", mknod),
    Entry::whole(raw::__NR_mknodat, "mknodat", mknodat),
    Entry::partial(
        raw::__NR_name_to_handle_at,
        "name_to_handle_at",
        "handles: no file system gives any (EOPNOTSUPP)",
        name_to_handle,
    ),
];

fn unlink(call: &mut Call<'_>) -> Result<u64, Errno> {
    let named = Named::cwd(call, 0)?;
    remove(call, &named)
}

fn unlinkat(call: &mut Call<'_>) -> Result<u64, Errno> {
    let flags = call.uint(2);
    if flags & !raw::AT_REMOVEDIR != 0 {
        return Err(Errno::EINVAL);
    }
    let named = Named::from_directory(call, 0, 1)?;
    if flags == 0 {
        return remove(call, &named);
    }
    let scope = Scope::of(call.task);
    scope.caller().remove_directory(named.base(), &named.path)?;
    Ok(0)
}

fn remove(call: &Call<'_>, named: &Named) -> Result<u64, Errno> {
    let scope = Scope::of(call.task);
    scope.caller().unlink(named.base(), &named.path)?;
    Ok(0)
}

fn rename(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (from, to) = (Named::cwd(call, 0)?, Named::cwd(call, 1)?);
    move_name(call, &from, &to, RenameMode::Replace)
}

fn renameat(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (from, to) = both_names(call)?;
    move_name(call, &from, &to, RenameMode::Replace)
}

fn renameat2(call: &mut Call<'_>) -> Result<u64, Errno> {
    const KEEPS: u32 = raw::RENAME_NOREPLACE | raw::RENAME_WHITEOUT;
    let flags = call.uint(4);
    let mode = match flags {
        raw::RENAME_EXCHANGE => RenameMode::Exchange,
        _ if flags & !KEEPS != 0 => return Err(Errno::EINVAL),
        0 => RenameMode::Replace,
        _ => RenameMode::NoReplace,
    };
    let (from, to) = both_names(call)?;
    if flags & raw::RENAME_WHITEOUT != 0 {
        // The error is that of a file system without such files, and is reported after errors of the names.
        let scope = Scope::of(call.task);
        scope.caller().check_parent(from.base(), &from.path)?;
        scope.caller().check_parent(to.base(), &to.path)?;
        return Err(Errno::EINVAL);
    }
    move_name(call, &from, &to, mode)
}

/// Returns the old name and the new one. The walk to the old one is checked before the new one's descriptor.
fn both_names(call: &Call<'_>) -> Result<(Named, Named), Errno> {
    let from = Named::from_directory(call, 0, 1)?;
    match Named::from_directory(call, 2, 3) {
        Ok(to) => Ok((from, to)),
        Err(error) => {
            Scope::of(call.task).caller().check_parent(from.base(), &from.path)?;
            Err(error)
        }
    }
}

fn move_name(call: &Call<'_>, from: &Named, to: &Named, mode: RenameMode) -> Result<u64, Errno> {
    let scope = Scope::of(call.task);
    scope.caller().rename((from.base(), &from.path), (to.base(), &to.path), mode)?;
    Ok(0)
}

fn link(call: &mut Call<'_>) -> Result<u64, Errno> {
    let scope = Scope::of(call.task);
    let place = Named::cwd(call, 0)?.walk(&scope, Walk::empty())?;
    let to = Named::cwd(call, 1)?;
    scope.caller().link(&place, to.base(), &to.path)?;
    Ok(0)
}

fn linkat(call: &mut Call<'_>) -> Result<u64, Errno> {
    let flags = call.uint(4);
    if flags & !(raw::AT_SYMLINK_FOLLOW | raw::AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL);
    }
    let mut walk = Walk::empty();
    walk.set(Walk::FOLLOW, flags & raw::AT_SYMLINK_FOLLOW != 0);
    walk.set(Walk::EMPTY, flags & raw::AT_EMPTY_PATH != 0);
    let can_search = call.task.credentials().has(Capabilities::DAC_READ_SEARCH);
    if walk.contains(Walk::EMPTY) && !can_search {
        return Err(Errno::ENOENT);
    }
    // The file is found before the new name is checked.
    let scope = Scope::of(call.task);
    let place = Named::at(call, 0, 1)?.walk(&scope, walk)?;
    let to = Named::from_directory(call, 2, 3)?;
    scope.caller().link(&place, to.base(), &to.path)?;
    Ok(0)
}

fn symlink(call: &mut Call<'_>) -> Result<u64, Errno> {
    let target = link_target(call)?;
    make_link(call, &target, &Named::cwd(call, 1)?)
}

fn symlinkat(call: &mut Call<'_>) -> Result<u64, Errno> {
    let target = link_target(call)?;
    make_link(call, &target, &Named::from_directory(call, 1, 2)?)
}

/// Returns the target of a symbolic link, which is read before the name.
fn link_target(call: &Call<'_>) -> Result<Vec<u8>, Errno> {
    let target = call.memory.read_string(call.word(0), PATH_MAX)?;
    if target.is_empty() { Err(Errno::ENOENT) } else { Ok(target) }
}

fn make_link(call: &Call<'_>, target: &[u8], named: &Named) -> Result<u64, Errno> {
    let scope = Scope::of(call.task);
    scope.caller().make_link(target, named.base(), &named.path)?;
    Ok(0)
}

fn readlink(call: &mut Call<'_>) -> Result<u64, Errno> {
    let room = read_size(call.int(2))?;
    let scope = Scope::of(call.task);
    let place = Named::cwd(call, 0)?.walk(&scope, Walk::empty())?;
    read_target(call, &scope, &place, call.word(1), room)
}

fn readlinkat(call: &mut Call<'_>) -> Result<u64, Errno> {
    let room = read_size(call.int(3))?;
    let scope = Scope::of(call.task);
    let named = Named::at(call, 0, 1)?;
    let place = named.walk(&scope, Walk::EMPTY)?;
    let result = read_target(call, &scope, &place, call.word(2), room);
    match result {
        Err(Errno::EINVAL) if named.path.is_empty() => Err(Errno::ENOENT),
        other => other,
    }
}

fn read_size(size: i32) -> Result<usize, Errno> {
    usize::try_from(size).ok().filter(|size| *size > 0).ok_or(Errno::EINVAL)
}

fn read_target(
    call: &Call<'_>,
    scope: &Scope<'_>,
    place: &Path,
    address: u64,
    room: usize,
) -> Result<u64, Errno> {
    let target = scope.caller().read_link(place)?;
    let shown = target.get(..room.min(target.len())).unwrap_or_default();
    call.memory.write_bytes(address, shown)?;
    Ok(shown.len() as u64)
}

fn mknod(call: &mut Call<'_>) -> Result<u64, Errno> {
    let named = Named::cwd(call, 0)?;
    make_node(call, &named, call.uint(1), call.word(2))
}

fn mknodat(call: &mut Call<'_>) -> Result<u64, Errno> {
    let named = Named::from_directory(call, 0, 1)?;
    make_node(call, &named, call.uint(2), call.word(3))
}

fn make_node(call: &Call<'_>, named: &Named, mode: u32, device: u64) -> Result<u64, Errno> {
    let file_type = match mode & raw::S_IFMT {
        0 | raw::S_IFREG => FileType::Regular,
        raw::S_IFIFO => FileType::Fifo,
        raw::S_IFCHR => FileType::Character,
        raw::S_IFBLK => FileType::Block,
        raw::S_IFSOCK => FileType::Socket,
        raw::S_IFDIR => return Err(Errno::EPERM),
        _ => return Err(Errno::EINVAL),
    };
    let has_device = matches!(file_type, FileType::Character | FileType::Block);
    let device = if has_device { decode_device(device & 0xffff_ffff) } else { (0, 0) };
    let scope = Scope::of(call.task);
    let new = (file_type, super::open::mode(mode));
    scope.caller().make_node(named.base(), &named.path, new, device)?;
    Ok(0)
}

fn name_to_handle(call: &mut Call<'_>) -> Result<u64, Errno> {
    let flags = call.uint(4);
    if flags & !(raw::AT_SYMLINK_FOLLOW | raw::AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL);
    }
    let mut walk = Walk::empty();
    walk.set(Walk::FOLLOW, flags & raw::AT_SYMLINK_FOLLOW != 0);
    walk.set(Walk::EMPTY, flags & raw::AT_EMPTY_PATH != 0);
    Named::at(call, 0, 1)?.walk(&Scope::of(call.task), walk)?;
    Err(Errno::EOPNOTSUPP)
}
