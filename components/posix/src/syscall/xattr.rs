//! Extended attributes.
use super::{Call, Entry, place::Named};
use crate::files::Scope;
use alloc::vec::Vec;
use linux_raw_sys::general as raw;
use vfs::{Errno, Path, Walk};

/// The family's calls.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_getxattr, "getxattr", getxattr),
    Entry::whole(raw::__NR_lgetxattr, "lgetxattr", lgetxattr),
    Entry::whole(raw::__NR_fgetxattr, "fgetxattr", fgetxattr),
    Entry::whole(raw::__NR_listxattr, "listxattr", listxattr),
    Entry::whole(raw::__NR_llistxattr, "llistxattr", llistxattr),
    Entry::whole(raw::__NR_flistxattr, "flistxattr", flistxattr),
];

/// Bytes of the longest name and its NUL.
const NAME_BYTES: usize = 256;

/// Walks to argument 0.
fn named(call: &Call<'_>, scope: &Scope, walk: Walk) -> Result<Path, Errno> {
    Named::cwd(call, 0)?.walk(scope, walk)
}

fn getxattr(call: &mut Call<'_>) -> Result<u64, Errno> {
    let scope = Scope::of(call.task);
    let place = named(call, &scope, Walk::FOLLOW)?;
    get(call, &scope, &place)
}

fn lgetxattr(call: &mut Call<'_>) -> Result<u64, Errno> {
    let scope = Scope::of(call.task);
    let place = named(call, &scope, Walk::empty())?;
    get(call, &scope, &place)
}

fn fgetxattr(call: &mut Call<'_>) -> Result<u64, Errno> {
    let file = call.working_file(0)?;
    get(call, &Scope::of(call.task), file.path())
}

fn get(call: &Call<'_>, scope: &Scope, place: &Path) -> Result<u64, Errno> {
    let name = match call.task.memory().read_string(call.word(1), NAME_BYTES) {
        Err(Errno::ENAMETOOLONG) => return Err(Errno::ERANGE),
        other => other?,
    };
    let value = scope.caller().get_attribute(place, &name)?;
    answer(call, &value, call.word(2), call.word(3))
}

fn listxattr(call: &mut Call<'_>) -> Result<u64, Errno> {
    let scope = Scope::of(call.task);
    let place = named(call, &scope, Walk::FOLLOW)?;
    list(call, &scope, &place)
}

fn llistxattr(call: &mut Call<'_>) -> Result<u64, Errno> {
    let scope = Scope::of(call.task);
    let place = named(call, &scope, Walk::empty())?;
    list(call, &scope, &place)
}

fn flistxattr(call: &mut Call<'_>) -> Result<u64, Errno> {
    let file = call.working_file(0)?;
    list(call, &Scope::of(call.task), file.path())
}

fn list(call: &Call<'_>, scope: &Scope, place: &Path) -> Result<u64, Errno> {
    let names: Vec<u8> = scope.caller().list_attributes(place)?;
    answer(call, &names, call.word(1), call.word(2))
}

/// Hands `value` out; a size of zero asks for the length only.
fn answer(call: &Call<'_>, value: &[u8], address: u64, room: u64) -> Result<u64, Errno> {
    if room == 0 {
        return Ok(value.len() as u64);
    }
    if value.len() as u64 > room {
        return Err(Errno::ERANGE);
    }
    call.task.memory().write_bytes(address, value)?;
    Ok(value.len() as u64)
}
