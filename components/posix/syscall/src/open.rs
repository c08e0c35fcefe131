//! The call open and related calls.
use super::{entry::Entry, place::Named};
use linux_raw_sys::general as raw;
use process::{
    call::Call,
    files::{OnExec, Scope, install::reserve},
};
use vfs::{
    Errno, OpenHow, Walk,
    uses::{self, NameUse},
};
use zerocopy::{FromBytes, IntoBytes};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_open, "open", open),
    Entry::whole(raw::__NR_openat, "openat", openat),
    Entry::whole(raw::__NR_openat2, "openat2", openat2),
    Entry::whole(raw::__NR_creat, "creat", creat),
];

/// `struct open_how` as of its first version.
#[derive(Clone, Copy, FromBytes, IntoBytes)]
#[repr(C)]
struct RawHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

const RAW_HOW_BYTES: usize = size_of::<RawHow>();
/// Flags of open(2); openat2 refuses others, the older calls ignore them.
const KNOWN_FLAGS: u32 = raw::O_ACCMODE
    | raw::O_CREAT
    | raw::O_EXCL
    | raw::O_NOCTTY
    | raw::O_TRUNC
    | raw::O_APPEND
    | raw::O_NONBLOCK
    | raw::O_SYNC
    | raw::FASYNC
    | raw::O_DIRECT
    | raw::O_LARGEFILE
    | raw::O_DIRECTORY
    | raw::O_NOFOLLOW
    | raw::O_NOATIME
    | raw::O_CLOEXEC
    | raw::O_PATH
    | raw::O_TMPFILE;
const KNOWN_RESOLVE: u64 = (raw::RESOLVE_NO_XDEV
    | raw::RESOLVE_NO_MAGICLINKS
    | raw::RESOLVE_NO_SYMLINKS
    | raw::RESOLVE_BENEATH
    | raw::RESOLVE_IN_ROOT
    | raw::RESOLVE_CACHED) as u64;

fn open(call: &mut Call<'_>) -> Result<u64, Errno> {
    let named = Named::cwd(call, 0)?;
    open_named(call, &named, OpenHow::with_mode(call.uint(1) & KNOWN_FLAGS, mode(call.uint(2))))
}

fn openat(call: &mut Call<'_>) -> Result<u64, Errno> {
    let named = Named::at(call, 0, 1)?;
    open_named(call, &named, OpenHow::with_mode(call.uint(2) & KNOWN_FLAGS, mode(call.uint(3))))
}

fn creat(call: &mut Call<'_>) -> Result<u64, Errno> {
    let named = Named::cwd(call, 0)?;
    let flags = raw::O_CREAT | raw::O_WRONLY | raw::O_TRUNC;
    open_named(call, &named, OpenHow::with_mode(flags, mode(call.uint(1))))
}

fn openat2(call: &mut Call<'_>) -> Result<u64, Errno> {
    let how = read_how(call)?;
    call.task.names.note_open_flags(how.flags);
    let named = Named::within(call, 0, 1, how.resolve)?;
    open_named(call, &named, how)
}

fn read_how(call: &Call<'_>) -> Result<OpenHow, Errno> {
    let (address, bytes) = (call.word(2), call.word(3));
    let memory = call.memory;
    if bytes < RAW_HOW_BYTES as u64 {
        return Err(Errno::EINVAL);
    }
    if bytes > rt::PAGE_BYTES as u64 {
        return Err(Errno::E2BIG);
    }
    let how: RawHow = memory.read(address)?;
    let beyond = bytes as usize - RAW_HOW_BYTES;
    let rest = memory.read_array::<u8>(address.wrapping_add(RAW_HOW_BYTES as u64), beyond)?;
    if rest.iter().any(|byte| *byte != 0) {
        return Err(Errno::E2BIG);
    }
    decode_how(&how)
}

fn decode_how(how: &RawHow) -> Result<OpenHow, Errno> {
    let flags = u32::try_from(how.flags).map_err(|_| Errno::EINVAL)?;
    let creates = flags & raw::O_CREAT != 0 || flags & raw::O_TMPFILE == raw::O_TMPFILE;
    let has_mode = how.mode != 0;
    let both = u64::from(raw::RESOLVE_BENEATH | raw::RESOLVE_IN_ROOT);
    if flags & !KNOWN_FLAGS != 0
        || how.resolve & !KNOWN_RESOLVE != 0
        || how.resolve & both == both
        || (has_mode && !creates)
        || how.mode & !0o7777 != 0
    {
        return Err(Errno::EINVAL);
    }
    let kept_with_path = raw::O_PATH | raw::O_DIRECTORY | raw::O_NOFOLLOW | raw::O_CLOEXEC;
    if flags & raw::O_PATH != 0 && flags & !kept_with_path != 0 {
        return Err(Errno::EINVAL);
    }
    let pairs = [
        (raw::RESOLVE_NO_XDEV, Walk::NO_MOUNTS),
        (raw::RESOLVE_NO_MAGICLINKS, Walk::NO_MAGIC_LINKS),
        (raw::RESOLVE_NO_SYMLINKS, Walk::NO_SYMLINKS),
        (raw::RESOLVE_BENEATH, Walk::BENEATH),
        (raw::RESOLVE_IN_ROOT, Walk::IN_ROOT),
    ];
    let mut resolve = Walk::empty();
    for (flag, walk) in pairs {
        resolve.set(walk, how.resolve & u64::from(flag) != 0);
    }
    Ok(OpenHow { flags, mode: how.mode as u16, resolve })
}

fn open_named(call: &Call<'_>, named: &Named, how: OpenHow) -> Result<u64, Errno> {
    let on_exec = OnExec::from_flag(how.flags, raw::O_CLOEXEC);
    // Once the file may have been created, there must be a descriptor for it: O_EXCL would find it the next time.
    let descriptor = reserve(call.task, call.files, on_exec)?;
    let scope = Scope::of(call.task);
    let file = scope.caller().open(named.base(), &named.path, how).inspect_err(|_| {
        uses::tell_failed_open(call.caller(), NameUse::FailedOpen(&named.path));
    })?;
    Ok(descriptor.fill(file))
}

/// Returns the permission bits of a mode argument.
pub fn mode(argument: u32) -> u16 {
    (argument & 0o7777) as u16
}
