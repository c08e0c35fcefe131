//! The calls inotify_init1, inotify_add_watch, inotify_rm_watch.
use super::{entry::Entry, place::Named};
use linux_raw_sys::general as raw;
use objects::inotify::Inotify;
use process::{
    call::Call,
    files::{Scope, anonymous::INOTIFY, install::install_anonymous},
};
use vfs::{Errno, OpenFile, Walk, permission::Want};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_inotify_init, "inotify_init", init),
    Entry::whole(raw::__NR_inotify_init1, "inotify_init1", init1),
    Entry::whole(raw::__NR_inotify_add_watch, "inotify_add_watch", add),
    Entry::whole(raw::__NR_inotify_rm_watch, "inotify_rm_watch", remove),
];

/// Every bit that a watch's mask may have.
const KNOWN: u32 = raw::IN_ALL_EVENTS
    | raw::IN_UNMOUNT
    | raw::IN_Q_OVERFLOW
    | raw::IN_IGNORED
    | raw::IN_ONLYDIR
    | raw::IN_DONT_FOLLOW
    | raw::IN_EXCL_UNLINK
    | raw::IN_MASK_CREATE
    | raw::IN_MASK_ADD
    | raw::IN_ISDIR
    | raw::IN_ONESHOT;

fn init(call: &mut Call<'_>) -> Result<u64, Errno> {
    open(call, 0)
}

fn init1(call: &mut Call<'_>) -> Result<u64, Errno> {
    open(call, call.uint(0))
}

fn open(call: &Call<'_>, flags: u32) -> Result<u64, Errno> {
    if flags & !(raw::O_CLOEXEC | raw::O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    let credentials = call.task.credentials();
    let owner = (credentials.user.real, credentials.subject.level().slot());
    let inotify = Inotify::new(owner)?;
    install_anonymous(call.task, inotify, &INOTIFY, raw::O_RDONLY | flags)
}

fn inotify_of(file: &OpenFile) -> Result<&Inotify, Errno> {
    file.file().as_any().downcast_ref::<Inotify>().ok_or(Errno::EINVAL)
}

fn add(call: &mut Call<'_>) -> Result<u64, Errno> {
    const BOTH: u32 = raw::IN_MASK_ADD | raw::IN_MASK_CREATE;
    let mask = call.uint(2);
    if mask & KNOWN == 0 || mask & !KNOWN != 0 {
        return Err(Errno::EINVAL);
    }
    let file = call.working_file(0)?;
    if mask & BOTH == BOTH {
        return Err(Errno::EINVAL);
    }
    let inotify = inotify_of(&file)?;
    let mut walk = Walk::empty();
    walk.set(Walk::FOLLOW, mask & raw::IN_DONT_FOLLOW == 0);
    walk.set(Walk::DIRECTORY, mask & raw::IN_ONLYDIR != 0);
    let scope = Scope::of(call.task);
    let place = Named::cwd(call, 1)?.walk(&scope, walk)?;
    scope.caller().check_path(&place, Want::READ)?;
    Ok(inotify.add(place.vnode(), mask)? as u64)
}

fn remove(call: &mut Call<'_>) -> Result<u64, Errno> {
    let file = call.working_file(0)?;
    inotify_of(&file)?.remove(call.int(1))?;
    Ok(0)
}
