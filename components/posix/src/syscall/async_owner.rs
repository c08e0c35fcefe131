//! The half of fcntl about signal-driven input and output: F_SETOWN, F_SETSIG and their kin.
use super::Call;
use crate::{
    files::owner::{Owner, Whom},
    process::tree,
    signal::LAST,
};
use linux_raw_sys::general as raw;
use vfs::{Errno, OpenFile};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// `struct f_owner_ex`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct RawOwner {
    kind: i32,
    id: i32,
}

const THREAD: i32 = 0;
const PROCESS: i32 = 1;
const GROUP: i32 = 2;

/// Answers fcntl's `command`.
///
/// # Errors
/// `EINVAL` for other commands, `ESRCH` for an owner that is not there, `EFAULT`.
pub fn control(call: &Call<'_>, file: &OpenFile, command: u32) -> Result<u64, Errno> {
    match command {
        raw::F_SETOWN => set_owner(call, file, plain(call.int(2))?),
        raw::F_GETOWN => {
            let owner = match Owner::of(file)?.whom() {
                Whom::Nobody => 0,
                Whom::Thread(id) | Whom::Process(id) => i64::from(id),
                Whom::Group(id) => -i64::from(id),
            };
            Ok(owner as u64)
        }
        raw::F_SETOWN_EX => {
            let owner: RawOwner = call.memory.read(call.word(2))?;
            set_owner(call, file, (owner.kind, owner.id))
        }
        raw::F_GETOWN_EX => {
            let (kind, id) = match Owner::of(file)?.whom() {
                Whom::Nobody => (THREAD, 0),
                Whom::Thread(id) => (THREAD, id),
                Whom::Process(id) => (PROCESS, id),
                Whom::Group(id) => (GROUP, id),
            };
            call.memory.write(call.word(2), &RawOwner { kind, id: id as i32 })?;
            Ok(0)
        }
        raw::F_SETSIG => {
            let signal = u8::try_from(call.int(2)).ok().filter(|signal| *signal <= LAST);
            Owner::of(file)?.set_signal(signal.ok_or(Errno::EINVAL)?);
            Ok(0)
        }
        raw::F_GETSIG => Ok(u64::from(Owner::of(file)?.signal())),
        _ => Err(Errno::EINVAL),
    }
}

/// A process, or a group as a negative number.
fn plain(id: i32) -> Result<(i32, i32), Errno> {
    match id {
        0.. => Ok((PROCESS, id)),
        _ => id.checked_neg().map(|id| (GROUP, id)).ok_or(Errno::EINVAL),
    }
}

fn set_owner(call: &Call<'_>, file: &OpenFile, (kind, id): (i32, i32)) -> Result<u64, Errno> {
    let number = u32::try_from(id).map_err(|_| Errno::ESRCH)?;
    let (whom, is_there) = match kind {
        THREAD | PROCESS | GROUP if id == 0 => (Whom::Nobody, true),
        THREAD => (Whom::Thread(number), tree::task(number).is_some()),
        PROCESS => (Whom::Process(number), tree::process(number).is_some()),
        GROUP => (Whom::Group(number), tree::read().group(number).next().is_some()),
        _ => return Err(Errno::EINVAL),
    };
    if !is_there {
        return Err(Errno::ESRCH);
    }
    Owner::of(file)?.set_whom(whom, call.task.credentials());
    Ok(0)
}
