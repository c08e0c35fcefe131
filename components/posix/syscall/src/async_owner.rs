//! The half of fcntl and ioctl about signal-driven input and output: F_SETOWN, F_SETSIG, FIOASYNC and related commands.
use linux_raw_sys::{general as raw, ioctl as request};
use objects::socket;
use process::{
    call::Call,
    files::owner::{SignalOwner, Whom, is_signal_driven},
    signal::LAST,
};
use vfs::{Errno, OpenFile};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// `struct f_owner_ex`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct RawOwner {
    kind: i32,
    id: i32,
}

const F_GETOWNER_UIDS: u32 = 17;
const THREAD: i32 = 0;
const PROCESS: i32 = 1;
const GROUP: i32 = 2;

/// Answers fcntl's `command`.
///
/// # Errors
/// `EINVAL` for other commands, `ESRCH` for an owner that does not exist, `EFAULT`.
pub fn control(call: &Call<'_>, file: &OpenFile, command: u32) -> Result<u64, Errno> {
    match command {
        raw::F_SETOWN => set_owner(call, file, plain(call.int(2))?),
        raw::F_GETOWN => Ok(owner_of(file)? as u64),
        raw::F_SETOWN_EX => {
            let owner: RawOwner = call.memory.read(call.word(2))?;
            set_owner(call, file, (owner.kind, owner.id))
        }
        raw::F_GETOWN_EX => {
            let (kind, id) = match SignalOwner::of(file)?.whom() {
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
            SignalOwner::of(file)?.set_signal(signal.ok_or(Errno::EINVAL)?);
            Ok(0)
        }
        F_GETOWNER_UIDS => {
            call.memory.write(call.word(2), &SignalOwner::of(file)?.users()).map(|()| 0)
        }
        raw::F_GETSIG => Ok(u64::from(SignalOwner::of(file)?.signal())),
        _ => Err(Errno::EINVAL),
    }
}

/// Answers the requests of ioctl(2) about the owner: FIOASYNC for all files, the others for sockets only; returns `None` for
/// other requests.
///
/// # Errors
/// `ENOTTY` for a file that sends no signals, and those of [`control`].
pub fn request(
    call: &Call<'_>,
    file: &OpenFile,
    command: u32,
    argument: u64,
) -> Result<Option<u64>, Errno> {
    let is_socket = || socket::of(file).is_some();
    match command {
        request::FIOASYNC => {
            let is_on = call.memory.read::<u32>(argument)? != 0;
            let before = file.flags();
            if is_on == (before & raw::FASYNC != 0) {
                return Ok(Some(0));
            }
            if !is_signal_driven(file) {
                return Err(Errno::ENOTTY);
            }
            file.set_flags(before ^ raw::FASYNC);
            flag_changed(file, call.int(0), before)?;
        }
        request::FIOSETOWN | request::SIOCSPGRP if is_socket() => {
            set_owner(call, file, plain(call.memory.read(argument)?)?)?;
        }
        request::FIOGETOWN | request::SIOCGPGRP if is_socket() => {
            call.memory.write(argument, &(owner_of(file)? as i32))?;
        }
        _ => return Ok(None),
    }
    Ok(Some(0))
}

/// Called when O_ASYNC of descriptor `fd` may have changed; `before` has the old flags.
///
/// # Errors
/// Those of [`SignalOwner::of`].
pub fn flag_changed(file: &OpenFile, fd: i32, before: u32) -> Result<(), Errno> {
    let is_on = file.flags() & raw::FASYNC != 0;
    match before & raw::FASYNC != 0 {
        was_on if was_on == is_on => {}
        true => SignalOwner::of(file)?.turn_off(),
        false => SignalOwner::of(file)?.turn_on(file, fd),
    }
    Ok(())
}

/// Returns the owner as F_GETOWN does: a group as a negative number.
fn owner_of(file: &OpenFile) -> Result<i64, Errno> {
    Ok(match SignalOwner::of(file)?.whom() {
        Whom::Nobody => 0,
        Whom::Thread(id) | Whom::Process(id) => i64::from(id),
        Whom::Group(id) => -i64::from(id),
    })
}

/// Decodes the number of a process, or of a group as a negative number.
fn plain(id: i32) -> Result<(i32, i32), Errno> {
    match id {
        0.. => Ok((PROCESS, id)),
        _ => id.checked_neg().map(|id| (GROUP, id)).ok_or(Errno::EINVAL),
    }
}

fn set_owner(call: &Call<'_>, file: &OpenFile, (kind, id): (i32, i32)) -> Result<u64, Errno> {
    let number = u32::try_from(id).map_err(|_| Errno::ESRCH)?;
    let visible = call.task.visible();
    let (whom, is_there) = match kind {
        THREAD | PROCESS | GROUP if id == 0 => (Whom::Nobody, true),
        THREAD => (Whom::Thread(number), visible.task(number).is_some()),
        PROCESS => (Whom::Process(number), visible.process(number).is_some()),
        GROUP => (Whom::Group(number), !visible.group(number).is_empty()),
        _ => return Err(Errno::EINVAL),
    };
    if !is_there {
        return Err(Errno::ESRCH);
    }
    SignalOwner::of(file)?.set_whom(file, whom, call.task.credentials());
    Ok(0)
}
