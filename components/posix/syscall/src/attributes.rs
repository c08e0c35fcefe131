//! Calls about attributes: chmod, chown, times, umask.
use super::{
    entry::Entry,
    open::mode,
    place::{Named, walk_flags},
};
use alloc::sync::Arc;
use interfaces::file_system::FileTime;
use linux_raw_sys::general as raw;
use process::{call::Call, files::Scope};
use vfs::{Errno, OpenFile, Path, Walk, operations::attributes::TimeSetting};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_chmod, "chmod", chmod),
    Entry::whole(raw::__NR_fchmod, "fchmod", fchmod),
    Entry::whole(raw::__NR_fchmodat, "fchmodat", fchmodat),
    Entry::whole(NR_FCHMODAT2, "fchmodat2", fchmodat2),
    Entry::whole(raw::__NR_chown, "chown", chown),
    Entry::whole(raw::__NR_lchown, "lchown", lchown),
    Entry::whole(raw::__NR_fchown, "fchown", fchown),
    Entry::whole(raw::__NR_fchownat, "fchownat", fchownat),
    Entry::whole(raw::__NR_umask, "umask", umask),
    Entry::whole(raw::__NR_utime, "utime", utime),
    Entry::whole(raw::__NR_utimes, "utimes", utimes),
    Entry::whole(raw::__NR_futimesat, "futimesat", futimesat),
    Entry::whole(raw::__NR_utimensat, "utimensat", utimensat),
];

const NR_FCHMODAT2: u32 = 452;
const NS_A_SECOND: i64 = 1_000_000_000;
const MICROS_A_SECOND: i64 = 1_000_000;

fn chmod(call: &mut Call<'_>) -> Result<u64, Errno> {
    let named = Named::cwd(call, 0)?;
    change_mode(call, &named, Walk::FOLLOW, call.uint(1))
}

fn fchmodat(call: &mut Call<'_>) -> Result<u64, Errno> {
    let named = Named::from_directory(call, 0, 1)?;
    change_mode(call, &named, Walk::FOLLOW, call.uint(2))
}

fn fchmodat2(call: &mut Call<'_>) -> Result<u64, Errno> {
    let walk = walk_flags(call.uint(3), raw::AT_SYMLINK_NOFOLLOW | raw::AT_EMPTY_PATH)?;
    let named = Named::at(call, 0, 1)?;
    change_mode(call, &named, walk, call.uint(2))
}

fn change_mode(call: &Call<'_>, named: &Named, walk: Walk, bits: u32) -> Result<u64, Errno> {
    let scope = Scope::of(call.task);
    let place = named.walk(&scope, walk)?;
    scope.caller().change_mode(&place, mode(bits))?;
    Ok(0)
}

fn fchmod(call: &mut Call<'_>) -> Result<u64, Errno> {
    let file = call.working_file(0)?;
    call.note_opened(&file);
    Scope::of(call.task).caller().change_mode(file.path(), mode(call.uint(1)))?;
    Ok(0)
}

/// Decodes an id argument; all ones leaves the id unchanged.
fn id(argument: u32) -> Option<u32> {
    (argument != u32::MAX).then_some(argument)
}

fn chown(call: &mut Call<'_>) -> Result<u64, Errno> {
    let named = Named::cwd(call, 0)?;
    change_owner(call, &named, Walk::FOLLOW, (call.uint(1), call.uint(2)))
}

fn lchown(call: &mut Call<'_>) -> Result<u64, Errno> {
    let named = Named::cwd(call, 0)?;
    change_owner(call, &named, Walk::empty(), (call.uint(1), call.uint(2)))
}

fn fchownat(call: &mut Call<'_>) -> Result<u64, Errno> {
    let walk = walk_flags(call.uint(4), raw::AT_SYMLINK_NOFOLLOW | raw::AT_EMPTY_PATH)?;
    let named = Named::at(call, 0, 1)?;
    change_owner(call, &named, walk, (call.uint(2), call.uint(3)))
}

fn change_owner(
    call: &Call<'_>,
    named: &Named,
    walk: Walk,
    (user, group): (u32, u32),
) -> Result<u64, Errno> {
    let scope = Scope::of(call.task);
    let place = named.walk(&scope, walk)?;
    scope.caller().change_owner(&place, id(user), id(group))?;
    Ok(0)
}

fn fchown(call: &mut Call<'_>) -> Result<u64, Errno> {
    let file = call.working_file(0)?;
    let (user, group) = (id(call.uint(1)), id(call.uint(2)));
    call.note_opened(&file);
    Scope::of(call.task).caller().change_owner(file.path(), user, group)?;
    Ok(0)
}

fn umask(call: &mut Call<'_>) -> Result<u64, Errno> {
    Ok(u64::from(call.task.fs().set_umask(mode(call.uint(0)))))
}

/// The times of access and modification that a call sets.
type Times = (TimeSetting, TimeSetting);

const BOTH_NOW: Times = (TimeSetting::Now, TimeSetting::Now);

fn utime(call: &mut Call<'_>) -> Result<u64, Errno> {
    let times = match call.word(1) {
        0 => BOTH_NOW,
        address => {
            let [accessed, modified] = call.memory.read::<[i64; 2]>(address)?;
            let at = |seconds| TimeSetting::At(FileTime { seconds, nanoseconds: 0 });
            (at(accessed), at(modified))
        }
    };
    let scope = Scope::of(call.task);
    let place = Named::cwd(call, 0)?.walk(&scope, Walk::FOLLOW)?;
    set_times(&scope, &place, times)
}

fn utimes(call: &mut Call<'_>) -> Result<u64, Errno> {
    let times = read_timevals(call, call.word(1))?;
    let scope = Scope::of(call.task);
    let place = Named::cwd(call, 0)?.walk(&scope, Walk::FOLLOW)?;
    set_times(&scope, &place, times)
}

fn futimesat(call: &mut Call<'_>) -> Result<u64, Errno> {
    let times = read_timevals(call, call.word(2))?;
    let scope = Scope::of(call.task);
    if let Some(file) = itself(call)? {
        return set_times(&scope, file.path(), times);
    }
    let place = Named::from_directory(call, 0, 1)?.walk(&scope, Walk::FOLLOW)?;
    set_times(&scope, &place, times)
}

fn read_timevals(call: &Call<'_>, address: u64) -> Result<Times, Errno> {
    if address == 0 {
        return Ok(BOTH_NOW);
    }
    let [seconds, micros, then_seconds, then_micros] = call.memory.read::<[i64; 4]>(address)?;
    let time = |seconds, micros: i64| match micros {
        0..MICROS_A_SECOND => {
            Ok(TimeSetting::At(FileTime { seconds, nanoseconds: micros as u32 * 1000 }))
        }
        _ => Err(Errno::EINVAL),
    };
    Ok((time(seconds, micros)?, time(then_seconds, then_micros)?))
}

/// Returns the descriptor for which a null path stands; it is not the working directory.
fn itself(call: &Call<'_>) -> Result<Option<Arc<OpenFile>>, Errno> {
    let is_itself = call.word(1) == 0 && call.int(0) != raw::AT_FDCWD;
    if is_itself { call.working_file(0).map(Some) } else { Ok(None) }
}

fn utimensat(call: &mut Call<'_>) -> Result<u64, Errno> {
    let times = match call.word(2) {
        0 => None,
        at => Some(call.memory.read::<[i64; 4]>(at)?),
    };
    const OMIT: i64 = raw::UTIME_OMIT as i64;
    if matches!(times, Some([_, OMIT, _, OMIT])) {
        return Ok(0);
    }
    let scope = Scope::of(call.task);
    let is_itself = call.word(1) == 0 && call.int(0) != raw::AT_FDCWD;
    if is_itself && call.uint(3) != 0 {
        return Err(Errno::EINVAL);
    }
    // The times are read after the file was found.
    if let Some(file) = itself(call)? {
        return set_times(&scope, file.path(), times_of(times)?);
    }
    let walk = walk_flags(call.uint(3), raw::AT_SYMLINK_NOFOLLOW | raw::AT_EMPTY_PATH)?;
    let place = Named::at(call, 0, 1)?.walk(&scope, walk)?;
    set_times(&scope, &place, times_of(times)?)
}

fn times_of(words: Option<[i64; 4]>) -> Result<Times, Errno> {
    let Some([seconds, ns, then_seconds, then_ns]) = words else { return Ok(BOTH_NOW) };
    let time = |seconds, ns: i64| match ns {
        _ if ns == i64::from(raw::UTIME_NOW) => Ok(TimeSetting::Now),
        _ if ns == i64::from(raw::UTIME_OMIT) => Ok(TimeSetting::Omit),
        0..NS_A_SECOND => Ok(TimeSetting::At(FileTime { seconds, nanoseconds: ns as u32 })),
        _ => Err(Errno::EINVAL),
    };
    Ok((time(seconds, ns)?, time(then_seconds, then_ns)?))
}

fn set_times(scope: &Scope<'_>, place: &Path, (accessed, modified): Times) -> Result<u64, Errno> {
    scope.caller().set_times(place, accessed, modified)?;
    Ok(0)
}
