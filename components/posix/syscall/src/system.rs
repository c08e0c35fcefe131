//! Calls about the system as a whole, and about properties of the calling process: uname, sysinfo,
//! limits, usage, prctl.
use super::{capabilities, entry::Entry, process::ResourceUsage, seccomp};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use linux_raw_sys::{general as raw, prctl, system as raw_system};
use memory::{Dumpable, UserSink, transfer::BYTES_MAX};
use process::{
    Process, Task,
    call::Call,
    files::slots::NEW_MAX,
    limits::{Limit, Resource},
    object::ticks,
    profile,
    system::{self, NAME_BYTES_MAX},
    time::timers,
    totals, tree,
};
use rt::{power::Action, user::Bases};
use vfs::{Errno, credentials::Capabilities, io::Sink};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_uname, "uname", uname),
    Entry::whole(raw::__NR_sethostname, "sethostname", |call| {
        set_name(call, system::set_host_name)
    }),
    Entry::whole(raw::__NR_setdomainname, "setdomainname", |call| {
        set_name(call, system::set_domain_name)
    }),
    Entry::whole(raw::__NR_sysinfo, "sysinfo", sysinfo),
    Entry::whole(raw::__NR_getrusage, "getrusage", getrusage),
    Entry::whole(raw::__NR_times, "times", times),
    Entry::whole(raw::__NR_getrlimit, "getrlimit", getrlimit),
    Entry::whole(raw::__NR_setrlimit, "setrlimit", setrlimit),
    Entry::whole(raw::__NR_prlimit64, "prlimit64", prlimit64),
    Entry::partial(
        raw::__NR_prctl,
        "prctl",
        "the options listed in docs/processes.md; others EINVAL",
        prctl_call,
    ),
    Entry::partial(
        raw::__NR_arch_prctl,
        "arch_prctl",
        "faults of CPUID (ENODEV, as on a processor that has none), shadow stacks",
        arch_prctl,
    ),
    Entry::partial(
        raw::__NR_personality,
        "personality",
        "only ADDR_NO_RANDOMIZE and PER_LINUX32 have an effect",
        personality,
    ),
    Entry::whole(raw::__NR_getrandom, "getrandom", getrandom),
    Entry::partial(raw::__NR_reboot, "reboot", "kexec, suspend", reboot),
];

/// `PER_MASK`.
const PERSONA_MASK: u32 = 0xff;
/// `PER_LINUX32`: the name of a 32-bit processor is reported.
const PERSONA_LINUX32: u32 = 8;

fn uname(call: &mut Call<'_>) -> Result<u64, Errno> {
    let mut names = system::names();
    let persona = call.task.process.personality.load(Ordering::Relaxed) & PERSONA_MASK;
    if persona == PERSONA_LINUX32 {
        names = names.with_machine(b"i686");
    }
    call.memory.write(call.word(0), &names)?;
    Ok(0)
}

fn set_name(call: &mut Call<'_>, set: fn(&[u8])) -> Result<u64, Errno> {
    if !call.task.credentials().has(Capabilities::SYS_ADMIN) {
        return Err(Errno::EPERM);
    }
    let bytes = usize::try_from(call.int(1))
        .ok()
        .filter(|bytes| *bytes <= NAME_BYTES_MAX)
        .ok_or(Errno::EINVAL)?;
    let mut name = [0; NAME_BYTES_MAX];
    let name = name.get_mut(..bytes).ok_or(Errno::EINVAL)?;
    call.memory.read_bytes(call.word(0), name)?;
    set(name);
    Ok(0)
}

/// `struct sysinfo`.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct SystemInformation {
    uptime_seconds: i64,
    loads: [u64; 3],
    memory: u64,
    memory_free: u64,
    memory_shared: u64,
    memory_buffers: u64,
    swap: u64,
    swap_free: u64,
    processes: u16,
    padding: [u16; 3],
    high: u64,
    high_free: u64,
    unit: u32,
    tail: u32,
}

fn sysinfo(call: &mut Call<'_>) -> Result<u64, Errno> {
    let memory = rt::memory::statistics();
    let page = rt::PAGE_BYTES as u64;
    let level = totals::level_of(&**call.task);
    let own = level.map(totals::of_level);
    let (free, tasks) = match &own {
        Some(own) => (memory.total_frames.saturating_sub(own.anonymous_pages), own.tasks),
        None => (memory.free_frames, tree::read().task_count() as u64),
    };
    let runnable = || own.map_or_else(|| rt::system::runnable_threads() as u64, |own| own.runnable);
    let information = SystemInformation {
        uptime_seconds: (rt::time::now().0 / process::time::SECOND_NS) as i64,
        // The result has 16 bits after the point, the load itself 11.
        loads: system::load(level, runnable).map(|load| load << 5),
        memory: memory.total_frames * page,
        memory_free: free * page,
        processes: u16::try_from(tasks).unwrap_or(u16::MAX),
        unit: 1,
        ..SystemInformation::default()
    };
    call.memory.write(call.word(0), &information)?;
    Ok(0)
}

fn getrusage(call: &mut Call<'_>) -> Result<u64, Errno> {
    let process = &call.task.process;
    let peak = || {
        let now = process.try_memory().map_or(0, |memory| memory.peak_resident());
        now.max(process.usage.lock().peak_pages)
    };
    let answer = match call.int(0) {
        0 => ResourceUsage::new(&process.cpu_time(), process.faults(), process.io(), peak()),
        -1 => {
            let usage = process.usage.lock();
            ResourceUsage::new(
                &usage.children,
                usage.children_faults,
                usage.children_io,
                usage.children_peak_pages,
            )
        }
        1 => {
            let time = rt::thread::cpu_time(call.task.thread()).unwrap_or_default();
            ResourceUsage::new(&time, call.task.faults.get(), call.task.io.get(), peak())
        }
        _ => return Err(Errno::EINVAL),
    };
    call.memory.write(call.word(1), &answer)?;
    Ok(0)
}

fn times(call: &mut Call<'_>) -> Result<u64, Errno> {
    let process = &call.task.process;
    if call.word(0) != 0 {
        let (own, children) = (process.cpu_time(), process.usage.lock().children);
        let words = [own.user_ns, own.system_ns, children.user_ns, children.system_ns].map(ticks);
        call.memory.write(call.word(0), &words)?;
    }
    Ok(ticks(rt::time::now().0))
}

fn getrlimit(call: &mut Call<'_>) -> Result<u64, Errno> {
    let limit = call.task.process.limits.get(call.uint(0)).ok_or(Errno::EINVAL)?;
    call.memory.write(call.word(1), &[limit.soft, limit.hard])?;
    Ok(0)
}

fn setrlimit(call: &mut Call<'_>) -> Result<u64, Errno> {
    let [soft, hard] = call.memory.read::<[u64; 2]>(call.word(1))?;
    set_limit(call, &call.task.process, call.uint(0), Limit { soft, hard })?;
    Ok(0)
}

fn prlimit64(call: &mut Call<'_>) -> Result<u64, Errno> {
    let memory = call.memory;
    let new = match call.word(2) {
        0 => None,
        at => Some(memory.read::<[u64; 2]>(at)?),
    };
    let target = match call.int(0) {
        0 => call.task.process.clone(),
        id => find_process(call, id as u64).ok_or(Errno::ESRCH)?,
    };
    check_limit_access(call.task, &target)?;
    let old = target.limits.get(call.uint(1)).ok_or(Errno::EINVAL)?;
    if let Some([soft, hard]) = new {
        call.task.visible().check_change(&target)?;
        set_limit(call, &target, call.uint(1), Limit { soft, hard })?;
    }
    if call.word(3) != 0 {
        memory.commit(call.word(3), &[old.soft, old.hard])?;
    }
    Ok(0)
}

fn check_limit_access(task: &Task, target: &Process) -> Result<(), Errno> {
    let own = task.credentials();
    if target.id() == task.process.id() || own.has(Capabilities::SYS_RESOURCE) {
        return Ok(());
    }
    let their = target.tasks().first().map(|task| task.credentials()).ok_or(Errno::ESRCH)?;
    let same = |own: u32, ids: vfs::credentials::Ids| {
        ids.real == own && ids.effective == own && ids.saved == own
    };
    let is_same = same(own.user.real, their.user) && same(own.group.real, their.group);
    if is_same { Ok(()) } else { Err(Errno::EPERM) }
}

fn set_limit(
    call: &Call<'_>,
    process: &Arc<Process>,
    resource: u32,
    new: Limit,
) -> Result<(), Errno> {
    let old = process.limits.get(resource).ok_or(Errno::EINVAL)?;
    if new.soft > new.hard {
        return Err(Errno::EINVAL);
    }
    let is_beyond = resource == Resource::OpenFiles as u32 && new.hard > NEW_MAX.size() as u64;
    if is_beyond || new.hard > old.hard && !call.task.credentials().has(Capabilities::SYS_RESOURCE)
    {
        return Err(Errno::EPERM);
    }
    process.limits.set(resource, new);
    if resource == Resource::CpuSeconds as u32 {
        timers::watch_cpu_limit(process);
    }
    process::exec::replace::apply_limits(process);
    Ok(())
}

/// Returns the process with that number, if there is one for the caller.
fn find_process(call: &Call<'_>, number: u64) -> Option<Arc<Process>> {
    u32::try_from(number).ok().and_then(|number| call.task.visible().process(number))
}

fn set_command(call: &Call<'_>, name: u64) -> Result<(), Errno> {
    match call.memory.read_text(name, 16) {
        Err(Errno::ENAMETOOLONG) => {
            profile::rename(call.task, &call.memory.read::<[u8; 15]>(name)?);
        }
        name => profile::rename(call.task, &name?),
    }
    Ok(())
}

fn set_parent_death_signal(process: &Process, number: u64) -> Result<(), Errno> {
    let signal = u8::try_from(number).ok().filter(|signal| *signal <= process::signal::LAST);
    process.parent_death_signal.store(signal.ok_or(Errno::EINVAL)?, Ordering::Relaxed);
    Ok(())
}

fn prctl_call(call: &mut Call<'_>) -> Result<u64, Errno> {
    let [_, second, third, fourth, fifth, _] = call.args();
    let process = &call.task.process;
    let memory = call.memory;
    let rest = [second, third, fourth, fifth];
    match call.uint(0) {
        prctl::PR_SET_NAME => set_command(call, second)?,
        prctl::PR_GET_NAME => memory.write(second, &call.task.command())?,
        prctl::PR_SET_PDEATHSIG => set_parent_death_signal(process, second)?,
        prctl::PR_GET_PDEATHSIG => {
            memory
                .write(second, &u32::from(process.parent_death_signal.load(Ordering::Relaxed)))?;
        }
        prctl::PR_SET_CHILD_SUBREAPER => process.is_subreaper.store(second != 0, Ordering::Relaxed),
        prctl::PR_GET_CHILD_SUBREAPER => {
            memory.write(second, &u32::from(process.is_subreaper.load(Ordering::Relaxed)))?;
        }
        prctl::PR_SET_DUMPABLE if second <= 1 => {
            memory.set_dumpable(if second == 1 { Dumpable::Yes } else { Dumpable::No });
        }
        prctl::PR_GET_DUMPABLE => return Ok(u64::from(memory.dumpable() == Dumpable::Yes)),
        prctl::PR_SET_NO_NEW_PRIVS if rest == [1, 0, 0, 0] => {
            call.task.no_new_privileges.store(true, Ordering::Relaxed);
        }
        prctl::PR_GET_NO_NEW_PRIVS if rest == [0; 4] => {
            return Ok(u64::from(call.task.no_new_privileges.load(Ordering::Relaxed)));
        }
        prctl::PR_SET_SECCOMP => return seccomp::set_by_prctl(call, second, third),
        prctl::PR_GET_SECCOMP => return Ok(seccomp::mode(call.task)),
        prctl::PR_SET_TIMERSLACK => {}
        prctl::PR_SET_THP_DISABLE if (third, fourth, fifth) == (0, 0, 0) => {
            memory.set_large_pages(second == 0);
        }
        prctl::PR_GET_THP_DISABLE if rest == [0; 4] => {
            return Ok(u64::from(!memory.has_large_pages()));
        }
        prctl::PR_GET_TIMERSLACK => return Ok(50_000),
        // There is only one way of accounting time, and every program may read the time stamp
        // counter.
        prctl::PR_GET_TIMING => return Ok(u64::from(prctl::PR_TIMING_STATISTICAL)),
        prctl::PR_SET_TIMING if second == u64::from(prctl::PR_TIMING_STATISTICAL) => {}
        prctl::PR_GET_TSC => memory.write(second, &prctl::PR_TSC_ENABLE)?,
        prctl::PR_SET_TSC if second == u64::from(prctl::PR_TSC_ENABLE) => {}
        prctl::PR_GET_TID_ADDRESS => {
            memory.write(second, &call.task.clear_child_tid.load(Ordering::Relaxed))?;
        }
        prctl::PR_SET_SYSCALL_USER_DISPATCH if rest == [0; 4] => {}
        prctl::PR_SET_IO_FLUSHER | prctl::PR_GET_IO_FLUSHER
            if !call.task.credentials().has(Capabilities::SYS_RESOURCE) =>
        {
            return Err(Errno::EPERM);
        }
        // There are no tracers, so the choice of one has no effect.
        prctl::PR_SET_PTRACER
            if matches!(second, 0 | u64::MAX) || find_process(call, second).is_some() => {}
        // This arm also takes an option from above with arguments that it refuses. Both answers are EINVAL.
        option => return capabilities::prctl(call.task, option, rest),
    }
    Ok(0)
}

fn arch_prctl(call: &mut Call<'_>) -> Result<u64, Errno> {
    const SET_GS: u32 = 0x1001;
    const SET_FS: u32 = 0x1002;
    const GET_FS: u32 = 0x1003;
    const GET_GS: u32 = 0x1004;
    const GET_CPUID: u32 = 0x1011;
    const SET_CPUID: u32 = 0x1012;
    let address = call.word(1);
    let bases = rt::user::bases();
    match call.uint(0) {
        SET_FS | SET_GS if address >= rt::user::USER_END => return Err(Errno::EPERM),
        SET_FS => rt::user::set_bases(Bases { fs: address, ..bases }),
        SET_GS => rt::user::set_bases(Bases { gs: address, ..bases }),
        GET_FS => call.memory.write(address, &bases.fs)?,
        GET_GS => call.memory.write(address, &bases.gs)?,
        GET_CPUID => return Ok(1),
        // The error is Linux's on a processor that cannot make the instruction fault.
        SET_CPUID => return Err(Errno::ENODEV),
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

fn personality(call: &mut Call<'_>) -> Result<u64, Errno> {
    const QUERY: u32 = u32::MAX;
    let personality = &call.task.process.personality;
    Ok(u64::from(match call.uint(0) {
        QUERY => personality.load(Ordering::Relaxed),
        new => personality.swap(new, Ordering::Relaxed),
    }))
}

fn getrandom(call: &mut Call<'_>) -> Result<u64, Errno> {
    const CHUNK_BYTES: usize = 256;
    const KNOWN: u32 = raw::GRND_NONBLOCK | raw::GRND_RANDOM | raw::GRND_INSECURE;
    const BOTH: u32 = raw::GRND_RANDOM | raw::GRND_INSECURE;
    if call.uint(2) & !KNOWN != 0 || call.uint(2) & BOTH == BOTH {
        return Err(Errno::EINVAL);
    }
    let mut sink =
        UserSink::new(call.caller(), call.memory, call.word(0), call.word(1).min(BYTES_MAX))?;
    let mut done = 0;
    while sink.remaining() > 0 {
        let mut chunk = [0; CHUNK_BYTES];
        let bytes = sink.remaining().min(CHUNK_BYTES);
        let part = chunk.get_mut(..bytes).unwrap_or_default();
        rt::entropy::fill(part);
        match sink.put(part) {
            Err(errno) if done == 0 => return Err(errno),
            put => done += put.unwrap_or(0),
        }
        if done % CHUNK_BYTES != 0 || call.task.has_signal() {
            break;
        }
    }
    Ok(done as u64)
}

fn reboot(call: &mut Call<'_>) -> Result<u64, Errno> {
    const MAGIC: u32 = 0xfee1_dead;
    const MAGICS: [u32; 4] = [672_274_793, 85_072_278, 369_367_448, 537_993_216];
    const RESTART: u32 = 0x0123_4567;
    const HALT: u32 = 0xcdef_0123;
    const POWER_OFF: u32 = 0x4321_fedc;
    /// The command with a text for the firmware, which is read and not used.
    const RESTART_SAYING: u32 = 0xa1b2_c3d4;
    const WORDS_BYTES: usize = 256;
    const CAD_ON: u32 = 0x89ab_cdef;
    const CAD_OFF: u32 = 0;
    if !call.task.credentials().has(Capabilities::SYS_BOOT) {
        return Err(Errno::EPERM);
    }
    if call.uint(0) != MAGIC || !MAGICS.contains(&call.uint(1)) {
        return Err(Errno::EINVAL);
    }
    let action = match call.uint(2) {
        keys @ (CAD_OFF | CAD_ON) => {
            process::system::RESTARTS_BY_KEYS.store(keys == CAD_ON, Ordering::Relaxed);
            return Ok(0);
        }
        RESTART => Action::Restart,
        RESTART_SAYING => {
            match call.memory.read_string(call.word(3), WORDS_BYTES) {
                Ok(_) | Err(Errno::ENAMETOOLONG) => {}
                Err(errno) => return Err(errno),
            }
            Action::Restart
        }
        HALT => Action::Halt,
        POWER_OFF => Action::Off,
        _ => return Err(Errno::EINVAL),
    };
    process::power::ask(action);
    while !call.task.is_ending() {
        rt::thread::park_interruptible(None);
    }
    Ok(0)
}

const _: () = assert!(size_of::<SystemInformation>() == size_of::<raw_system::sysinfo>());
