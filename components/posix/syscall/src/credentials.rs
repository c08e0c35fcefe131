//! User and group ids and supplementary groups (credentials(7)).
use super::{capabilities, entry::Entry};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::Ordering;
use linux_raw_sys::general as raw;
use memory::Dumpable;
use process::{Process, Task, call::Call, limits::Resource, tree};
use vfs::{
    Credentials, Errno,
    credentials::{Capabilities, Ids},
};
use zerocopy::IntoBytes;

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_getuid, "getuid", |call| {
        Ok(u64::from(call.task.credentials().user.real))
    }),
    Entry::whole(raw::__NR_geteuid, "geteuid", |call| {
        Ok(u64::from(call.task.credentials().user.effective))
    }),
    Entry::whole(raw::__NR_getgid, "getgid", |call| {
        Ok(u64::from(call.task.credentials().group.real))
    }),
    Entry::whole(raw::__NR_getegid, "getegid", |call| {
        Ok(u64::from(call.task.credentials().group.effective))
    }),
    Entry::whole(raw::__NR_getresuid, "getresuid", |call| {
        get_three(call, call.task.credentials().user)
    }),
    Entry::whole(raw::__NR_getresgid, "getresgid", |call| {
        get_three(call, call.task.credentials().group)
    }),
    Entry::whole(raw::__NR_setuid, "setuid", |call| set_one(call, IdKind::User)),
    Entry::whole(raw::__NR_setgid, "setgid", |call| set_one(call, IdKind::Group)),
    Entry::whole(raw::__NR_setreuid, "setreuid", |call| set_two(call, IdKind::User)),
    Entry::whole(raw::__NR_setregid, "setregid", |call| set_two(call, IdKind::Group)),
    Entry::whole(raw::__NR_setresuid, "setresuid", |call| set_three(call, IdKind::User)),
    Entry::whole(raw::__NR_setresgid, "setresgid", |call| set_three(call, IdKind::Group)),
    Entry::whole(raw::__NR_setfsuid, "setfsuid", |call| set_fs(call, IdKind::User)),
    Entry::whole(raw::__NR_setfsgid, "setfsgid", |call| set_fs(call, IdKind::Group)),
    Entry::whole(raw::__NR_getgroups, "getgroups", getgroups),
    Entry::whole(raw::__NR_setgroups, "setgroups", setgroups),
];

const UNCHANGED: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq)]
enum IdKind {
    User,
    Group,
}

impl IdKind {
    fn of(self, credentials: &Credentials) -> Ids {
        match self {
            IdKind::User => credentials.user,
            IdKind::Group => credentials.group,
        }
    }
    fn capability(self) -> Capabilities {
        match self {
            IdKind::User => Capabilities::SETUID,
            IdKind::Group => Capabilities::SETGID,
        }
    }
}

fn get_three(call: &Call<'_>, ids: Ids) -> Result<u64, Errno> {
    let memory = call.memory;
    memory.write(call.word(0), &ids.real)?;
    memory.write(call.word(1), &ids.effective)?;
    memory.write(call.word(2), &ids.saved)?;
    Ok(0)
}

/// Gives the task new ids of one kind, and changes its capabilities accordingly (capabilities(7)).
fn apply(task: &Task, kind: IdKind, ids: Ids) {
    let mut new = (*task.credentials()).clone();
    let old = new.user;
    match kind {
        IdKind::Group => new.group = ids,
        IdKind::User => {
            new.user = ids;
            capabilities::follow_user(&mut new, old);
        }
    }
    install(task, new);
}

/// Does the same as [`apply`] for the ids by which processes are counted.
fn change(task: &Task, kind: IdKind, ids: Ids) {
    if kind == IdKind::User {
        note_process_limit(&task.process, ids.real);
    }
    apply(task, kind, ids);
}

/// Records whether `user` now has more processes than the limit allows. It is checked when the process, which
/// is to be the user's, runs another program: many programs ignore the result of setuid (execve(2), EAGAIN).
fn note_process_limit(process: &Process, user: u32) {
    let count = tree::read().user_tasks(user, process.level());
    let is_over = count > process.limits.soft(Resource::Processes);
    process.exceeds_limit.store(user != 0 && is_over, Ordering::Relaxed);
}

/// Puts new credentials in place. If its rights have changed, the process may no longer be inspected by its
/// user.
pub(super) fn install(task: &Task, new: Credentials) {
    let old = task.credentials();
    if new.departs_from(&old) {
        // This comes before the credentials: no thread can find the new ones with a memory that may still be
        // inspected.
        if let Some(memory) = task.process.try_memory() {
            memory.set_dumpable(Dumpable::No);
        }
        task.process.parent_death_signal.store(0, Ordering::Relaxed);
    }
    tree::set_real_user(&task.process, new.user.real);
    task.set_credentials(Arc::new(new));
}

fn set_one(call: &mut Call<'_>, kind: IdKind) -> Result<u64, Errno> {
    let credentials = call.task.credentials();
    let (old, id) = (kind.of(&credentials), call.uint(0));
    if id == UNCHANGED {
        return Err(Errno::EINVAL);
    }
    let new = if credentials.has(kind.capability()) {
        Ids::all(id)
    } else if id == old.real || id == old.saved {
        Ids { effective: id, fs: id, ..old }
    } else {
        return Err(Errno::EPERM);
    };
    change(call.task, kind, new);
    Ok(0)
}

fn set_two(call: &mut Call<'_>, kind: IdKind) -> Result<u64, Errno> {
    let credentials = call.task.credentials();
    let old = kind.of(&credentials);
    let (real, effective) = (call.uint(0), call.uint(1));
    if !credentials.has(kind.capability()) {
        let real_fits = real == UNCHANGED || real == old.real || real == old.effective;
        let effective_fits =
            effective == UNCHANGED || [old.real, old.effective, old.saved].contains(&effective);
        if !real_fits || !effective_fits {
            return Err(Errno::EPERM);
        }
    }
    let mut new = old;
    if real != UNCHANGED {
        new.real = real;
    }
    if effective != UNCHANGED {
        new.effective = effective;
    }
    if real != UNCHANGED || effective != UNCHANGED && effective != old.real {
        new.saved = new.effective;
    }
    new.fs = new.effective;
    change(call.task, kind, new);
    Ok(0)
}

fn set_three(call: &mut Call<'_>, kind: IdKind) -> Result<u64, Errno> {
    let credentials = call.task.credentials();
    let old = kind.of(&credentials);
    let is_privileged = credentials.has(kind.capability());
    let choose = |id: u32, before: u32| match id {
        UNCHANGED => Ok(before),
        id if is_privileged || [old.real, old.effective, old.saved].contains(&id) => Ok(id),
        _ => Err(Errno::EPERM),
    };
    let effective = choose(call.uint(1), old.effective)?;
    let new = Ids {
        real: choose(call.uint(0), old.real)?,
        effective,
        saved: choose(call.uint(2), old.saved)?,
        fs: effective,
    };
    change(call.task, kind, new);
    Ok(0)
}

fn set_fs(call: &mut Call<'_>, kind: IdKind) -> Result<u64, Errno> {
    let credentials = call.task.credentials();
    let (old, id) = (kind.of(&credentials), call.uint(0));
    let fits = [old.real, old.effective, old.saved, old.fs].contains(&id);
    if id != UNCHANGED && (fits || credentials.has(kind.capability())) {
        apply(call.task, kind, Ids { fs: id, ..old });
    }
    Ok(u64::from(old.fs))
}

fn getgroups(call: &mut Call<'_>) -> Result<u64, Errno> {
    let credentials = call.task.credentials();
    let groups = &credentials.groups;
    let room = usize::try_from(call.int(0)).map_err(|_| Errno::EINVAL)?;
    if room != 0 {
        if room < groups.len() {
            return Err(Errno::EINVAL);
        }
        call.memory.write_bytes(call.word(1), groups.as_bytes())?;
    }
    Ok(groups.len() as u64)
}

fn setgroups(call: &mut Call<'_>) -> Result<u64, Errno> {
    const GROUPS_MAX: usize = 65536;
    let credentials = call.task.credentials();
    if !credentials.has(Capabilities::SETGID) {
        return Err(Errno::EPERM);
    }
    let count = usize::try_from(call.int(0))
        .ok()
        .filter(|count| *count <= GROUPS_MAX)
        .ok_or(Errno::EINVAL)?;
    let mut groups: Vec<u32> = call.memory.read_array(call.word(1), count)?;
    groups.sort_unstable();
    call.task.set_credentials(Arc::new(Credentials {
        groups: Arc::from(groups),
        ..(*credentials).clone()
    }));
    Ok(0)
}
