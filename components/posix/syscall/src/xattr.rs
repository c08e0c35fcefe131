//! Calls about extended attributes.
use super::{entry::Entry, place::Named};
use alloc::{vec, vec::Vec};
use interfaces::file_system::XattrMode;
use linux_raw_sys::general as raw;
use objects::socket;
use process::{call::Call, files::Scope};
use vfs::{Errno, Path, Walk, operations::extended::is_acl_name};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_getxattr, "getxattr", getxattr),
    Entry::whole(raw::__NR_lgetxattr, "lgetxattr", lgetxattr),
    Entry::whole(raw::__NR_fgetxattr, "fgetxattr", fgetxattr),
    Entry::whole(raw::__NR_listxattr, "listxattr", listxattr),
    Entry::whole(raw::__NR_llistxattr, "llistxattr", llistxattr),
    Entry::whole(raw::__NR_flistxattr, "flistxattr", flistxattr),
    Entry::whole(raw::__NR_setxattr, "setxattr", setxattr),
    Entry::whole(raw::__NR_lsetxattr, "lsetxattr", lsetxattr),
    Entry::whole(raw::__NR_fsetxattr, "fsetxattr", fsetxattr),
    Entry::whole(raw::__NR_removexattr, "removexattr", removexattr),
    Entry::whole(raw::__NR_lremovexattr, "lremovexattr", lremovexattr),
    Entry::whole(raw::__NR_fremovexattr, "fremovexattr", fremovexattr),
];

/// Bytes of the longest name and its NUL.
const NAME_BYTES: usize = 256;
/// The two flags of setxattr.
const BOTH: u32 = raw::XATTR_CREATE | raw::XATTR_REPLACE;

/// The one attribute of a socket: the name of its protocol.
const SOCKET_NAME: &[u8] = b"system.sockprotoname";

/// Walks to the path at argument 0.
fn named(call: &Call<'_>, scope: &Scope<'_>, walk: Walk) -> Result<Path, Errno> {
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
    if let Some(socket) = socket::of(&file)
        && attribute_name(call)? == SOCKET_NAME
    {
        let name = [socket.protocol_name().as_bytes(), b"\0"].concat();
        return answer(call, &name, call.word(2), call.word(3));
    }
    call.note_opened(&file);
    get(call, &Scope::of(call.task), file.path())
}

fn get(call: &Call<'_>, scope: &Scope<'_>, place: &Path) -> Result<u64, Errno> {
    let name = attribute_name(call)?;
    let value = scope.caller().get_attribute(place, &name)?;
    answer(call, &value, call.word(2), call.word(3))
}

/// Reads the name at argument 1.
fn attribute_name(call: &Call<'_>) -> Result<Vec<u8>, Errno> {
    match call.memory.read_string(call.word(1), NAME_BYTES) {
        Err(Errno::ENAMETOOLONG) => Err(Errno::ERANGE),
        Ok(name) if name.is_empty() => Err(Errno::ERANGE),
        other => other,
    }
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
    if socket::of(&file).is_some() {
        return answer(call, &[SOCKET_NAME, b"\0"].concat(), call.word(1), call.word(2));
    }
    call.note_opened(&file);
    list(call, &Scope::of(call.task), file.path())
}

fn list(call: &Call<'_>, scope: &Scope<'_>, place: &Path) -> Result<u64, Errno> {
    let names: Vec<u8> = scope.caller().list_attributes(place)?;
    answer(call, &names, call.word(1), call.word(2))
}

/// Writes `value` to the program; a size of zero asks for the length only.
fn answer(call: &Call<'_>, value: &[u8], address: u64, room: u64) -> Result<u64, Errno> {
    if room == 0 {
        return Ok(value.len() as u64);
    }
    if value.len() as u64 > room {
        return Err(Errno::ERANGE);
    }
    call.memory.write_bytes(address, value)?;
    Ok(value.len() as u64)
}

fn setxattr(call: &mut Call<'_>) -> Result<u64, Errno> {
    let scope = Scope::of(call.task);
    let place = named(call, &scope, Walk::FOLLOW)?;
    New::read(call)?.set(&scope, &place)
}

fn lsetxattr(call: &mut Call<'_>) -> Result<u64, Errno> {
    let scope = Scope::of(call.task);
    let place = named(call, &scope, Walk::empty())?;
    New::read(call)?.set(&scope, &place)
}

fn fsetxattr(call: &mut Call<'_>) -> Result<u64, Errno> {
    let file = call.working_file(0)?;
    call.note_opened(&file);
    New::read(call)?.set(&Scope::of(call.task), file.path())
}

/// The attribute to be set by the arguments.
struct New {
    name: Vec<u8>,
    value: Vec<u8>,
    /// Whether the attribute must exist, or must not; `None` if either is allowed.
    mode: Option<XattrMode>,
}

impl New {
    /// `EINVAL` for unknown flags, `E2BIG` for a value beyond 64 KiB.
    fn read(call: &Call<'_>) -> Result<New, Errno> {
        if call.uint(4) & !BOTH != 0 {
            return Err(Errno::EINVAL);
        }
        let name = attribute_name(call)?;
        let mode = match call.uint(4) {
            _ if is_acl_name(&name) => Some(XattrMode::Set),
            raw::XATTR_CREATE => Some(XattrMode::Create),
            raw::XATTR_REPLACE => Some(XattrMode::Replace),
            BOTH => None,
            _ => Some(XattrMode::Set),
        };
        if call.word(3) > raw::XATTR_SIZE_MAX.into() {
            return Err(Errno::E2BIG);
        }
        let mut value = vec![0; call.word(3) as usize];
        call.memory.read_bytes(call.word(2), &mut value)?;
        Ok(New { name, value, mode })
    }
    fn set(&self, scope: &Scope<'_>, place: &Path) -> Result<u64, Errno> {
        let Some(mode) = self.mode else {
            scope.caller().check_attribute_change(place, &self.name)?;
            scope.caller().get_attribute(place, &self.name)?;
            return Err(Errno::EEXIST);
        };
        scope.caller().set_attribute(place, (&self.name, &self.value), mode)?;
        Ok(0)
    }
}

fn removexattr(call: &mut Call<'_>) -> Result<u64, Errno> {
    let scope = Scope::of(call.task);
    let place = named(call, &scope, Walk::FOLLOW)?;
    remove(call, &scope, &place)
}

fn lremovexattr(call: &mut Call<'_>) -> Result<u64, Errno> {
    let scope = Scope::of(call.task);
    let place = named(call, &scope, Walk::empty())?;
    remove(call, &scope, &place)
}

fn fremovexattr(call: &mut Call<'_>) -> Result<u64, Errno> {
    let file = call.working_file(0)?;
    call.note_opened(&file);
    remove(call, &Scope::of(call.task), file.path())
}

fn remove(call: &Call<'_>, scope: &Scope<'_>, place: &Path) -> Result<u64, Errno> {
    scope.caller().remove_attribute(place, &attribute_name(call)?)?;
    Ok(0)
}
