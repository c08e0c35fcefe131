//! User and group ids, supplementary groups, capabilities.
use super::{Call, Entry};
use crate::process::{Task, tree};
use alloc::{sync::Arc, vec::Vec};
use linux_raw_sys::general as raw;
use vfs::{
    Credentials, Errno,
    credentials::{Capabilities, Ids},
};

/// The calls of this file.
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
    Entry::whole(raw::__NR_setuid, "setuid", |call| set_one(call, Kind::User)),
    Entry::whole(raw::__NR_setgid, "setgid", |call| set_one(call, Kind::Group)),
    Entry::whole(raw::__NR_setreuid, "setreuid", |call| set_two(call, Kind::User)),
    Entry::whole(raw::__NR_setregid, "setregid", |call| set_two(call, Kind::Group)),
    Entry::whole(raw::__NR_setresuid, "setresuid", |call| set_three(call, Kind::User)),
    Entry::whole(raw::__NR_setresgid, "setresgid", |call| set_three(call, Kind::Group)),
    Entry::whole(raw::__NR_setfsuid, "setfsuid", |call| set_fs(call, Kind::User)),
    Entry::whole(raw::__NR_setfsgid, "setfsgid", |call| set_fs(call, Kind::Group)),
    Entry::whole(raw::__NR_getgroups, "getgroups", getgroups),
    Entry::whole(raw::__NR_setgroups, "setgroups", setgroups),
    Entry::whole(raw::__NR_capget, "capget", capget),
    Entry::whole(raw::__NR_capset, "capset", capset),
];

const UNCHANGED: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    User,
    Group,
}

impl Kind {
    fn of(self, credentials: &Credentials) -> Ids {
        match self {
            Kind::User => credentials.user,
            Kind::Group => credentials.group,
        }
    }
    fn capability(self) -> Capabilities {
        match self {
            Kind::User => Capabilities::SETUID,
            Kind::Group => Capabilities::SETGID,
        }
    }
}

fn get_three(call: &Call<'_>, ids: Ids) -> Result<u64, Errno> {
    let memory = call.task.memory();
    memory.write(call.word(0), &ids.real)?;
    memory.write(call.word(1), &ids.effective)?;
    memory.write(call.word(2), &ids.saved)?;
    Ok(0)
}

/// Gives the task new ids of one kind, with what follows for capabilities (capabilities(7)).
fn apply(task: &Task, kind: Kind, ids: Ids) {
    let mut new = (*task.credentials()).clone();
    let old = new.user;
    match kind {
        Kind::Group => new.group = ids,
        Kind::User => {
            new.user = ids;
            fix_capabilities(&mut new, old);
            task.process.set_real_user(ids.real);
        }
    }
    task.set_credentials(Arc::new(new));
}

fn fix_capabilities(new: &mut Credentials, old: Ids) {
    const NO_SETUID_FIXUP: u32 = 1 << 2;
    const KEEP_CAPS: u32 = 1 << 4;
    if new.secure_bits & NO_SETUID_FIXUP != 0 {
        return;
    }
    let had_root = old.real == 0 || old.effective == 0 || old.saved == 0;
    let has_root = new.user.real == 0 || new.user.effective == 0 || new.user.saved == 0;
    let sets = &mut new.capabilities;
    if had_root && !has_root {
        if new.secure_bits & KEEP_CAPS == 0 {
            sets.permitted = Capabilities::empty();
        }
        sets.effective = Capabilities::empty();
        sets.ambient = Capabilities::empty();
    }
    if old.effective == 0 && new.user.effective != 0 {
        sets.effective = Capabilities::empty();
    } else if old.effective != 0 && new.user.effective == 0 {
        sets.effective = sets.permitted;
    }
}

fn set_one(call: &mut Call<'_>, kind: Kind) -> Result<u64, Errno> {
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
    apply(call.task, kind, new);
    Ok(0)
}

fn set_two(call: &mut Call<'_>, kind: Kind) -> Result<u64, Errno> {
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
    apply(call.task, kind, new);
    Ok(0)
}

fn set_three(call: &mut Call<'_>, kind: Kind) -> Result<u64, Errno> {
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
    apply(call.task, kind, new);
    Ok(0)
}

fn set_fs(call: &mut Call<'_>, kind: Kind) -> Result<u64, Errno> {
    let credentials = call.task.credentials();
    let (old, id) = (kind.of(&credentials), call.uint(0));
    let fits = [old.real, old.effective, old.saved, old.fs].contains(&id);
    if id != UNCHANGED && (fits || credentials.has(kind.capability())) {
        apply(call.task, kind, Ids { fs: id, ..old });
    }
    Ok(u64::from(old.fs))
}

fn getgroups(call: &mut Call<'_>) -> Result<u64, Errno> {
    let groups = call.task.credentials().groups.clone();
    let room = usize::try_from(call.int(0)).map_err(|_| Errno::EINVAL)?;
    if room != 0 {
        if room < groups.len() {
            return Err(Errno::EINVAL);
        }
        let bytes: Vec<u8> = groups.iter().flat_map(|group| group.to_le_bytes()).collect();
        call.task.memory().write_bytes(call.word(1), &bytes)?;
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
    let mut groups: Vec<u32> = call.task.memory().read_array(call.word(1), count)?;
    groups.sort_unstable();
    call.task.set_credentials(Arc::new(Credentials {
        groups: Arc::from(groups),
        ..(*credentials).clone()
    }));
    Ok(0)
}

const VERSION_1: u32 = 0x1998_0330;
const VERSION_2: u32 = 0x2007_1026;
const VERSION_3: u32 = 0x2008_0522;

/// Reads the header: number of 32-bit halves and the process; answers a wrong version with ours.
fn read_header(call: &Call<'_>) -> Result<(usize, u32), Errno> {
    let memory = call.task.memory();
    let [version, id] = memory.read::<[u32; 2]>(call.word(0))?;
    match version {
        VERSION_1 => Ok((1, id)),
        VERSION_2 | VERSION_3 => Ok((2, id)),
        _ => {
            memory.write(call.word(0), &VERSION_3)?;
            Err(Errno::EINVAL)
        }
    }
}

fn capget(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (halves, id) = match read_header(call) {
        Err(Errno::EINVAL) if call.word(1) == 0 => return Ok(0),
        other => other?,
    };
    if call.word(1) == 0 {
        return Ok(0);
    }
    let target = match id {
        0 => call.task.clone(),
        id if id > i32::MAX as u32 => return Err(Errno::EINVAL),
        id => tree::task(id).ok_or(Errno::ESRCH)?,
    };
    let sets = target.credentials().capabilities;
    let half = |set: Capabilities, index: usize| (set.bits() >> (32 * index)) as u32;
    let bytes: Vec<u8> = (0..halves)
        .flat_map(|index| {
            [
                half(sets.effective, index),
                half(sets.permitted, index),
                half(sets.inheritable, index),
            ]
        })
        .flat_map(u32::to_le_bytes)
        .collect();
    call.task.memory().write_bytes(call.word(1), &bytes)?;
    Ok(0)
}

fn capset(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (halves, id) = read_header(call)?;
    if id != 0 && id != call.task.id() {
        return Err(Errno::EPERM);
    }
    let words: Vec<u32> = call.task.memory().read_array(call.word(1), halves * 3)?;
    let set = |kind: usize| {
        let word = |half: usize| u64::from(words.get(half * 3 + kind).copied().unwrap_or(0));
        Capabilities::from_bits_truncate(word(0) | word(1) << 32)
    };
    let (effective, permitted, inheritable) = (set(0), set(1), set(2));
    let old = call.task.credentials();
    let sets = old.capabilities;
    let may_inherit = sets.inheritable
        | if old.has(Capabilities::SETPCAP) { sets.bounding } else { sets.permitted };
    if !sets.permitted.contains(permitted)
        || !permitted.contains(effective)
        || !may_inherit.contains(inheritable)
    {
        return Err(Errno::EPERM);
    }
    let mut new = (*old).clone();
    new.capabilities.effective = effective;
    new.capabilities.permitted = permitted;
    new.capabilities.inheritable = inheritable;
    new.capabilities.ambient &= permitted & inheritable;
    call.task.set_credentials(Arc::new(new));
    Ok(0)
}
