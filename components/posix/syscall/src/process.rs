//! Calls about processes: making, executing, ending, waiting; ids, groups and sessions.
use super::{entry::Entry, pidfd};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use linux_raw_sys::general as raw;
use memory::{AddressSpace, Faults};
use process::{
    ExitStatus, Process,
    call::Call,
    exec::{self, Program},
    exit,
    files::FsHold,
    fork::{self, CloneFlags, CloneRequest},
    io_counts::{Count, Io},
    object::ProcessUsage,
    signal::SIGCHLD,
    status, tree,
    wait::{self, Event, Report, WaitOptions, Which},
};
use rt::thread::CpuTime;
use vfs::Errno;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_getpid, "getpid", getpid),
    Entry::whole(raw::__NR_gettid, "gettid", gettid),
    Entry::whole(raw::__NR_getppid, "getppid", getppid),
    Entry::whole(raw::__NR_fork, "fork", fork),
    Entry::whole(raw::__NR_vfork, "vfork", vfork),
    Entry::partial(raw::__NR_clone, "clone", "namespaces", clone),
    Entry::partial(raw::__NR_clone3, "clone3", "namespaces, set_tid, CLONE_INTO_CGROUP", clone3),
    Entry::partial(raw::__NR_unshare, "unshare", "namespaces", unshare),
    Entry::whole(raw::__NR_execve, "execve", execve),
    Entry::whole(raw::__NR_execveat, "execveat", execveat),
    Entry::whole(raw::__NR_exit, "exit", exit_task),
    Entry::whole(raw::__NR_exit_group, "exit_group", exit_group),
    Entry::whole(raw::__NR_wait4, "wait4", wait4),
    Entry::whole(raw::__NR_waitid, "waitid", waitid),
    Entry::whole(raw::__NR_getpgid, "getpgid", getpgid),
    Entry::whole(raw::__NR_getpgrp, "getpgrp", getpgrp),
    Entry::whole(raw::__NR_setpgid, "setpgid", setpgid),
    Entry::whole(raw::__NR_getsid, "getsid", getsid),
    Entry::whole(raw::__NR_setsid, "setsid", setsid),
    Entry::whole(raw::__NR_set_tid_address, "set_tid_address", set_tid_address),
];

fn getpid(call: &mut Call<'_>) -> Result<u64, Errno> {
    Ok(u64::from(call.task.process.id()))
}

fn gettid(call: &mut Call<'_>) -> Result<u64, Errno> {
    Ok(u64::from(call.task.id()))
}

fn getppid(call: &mut Call<'_>) -> Result<u64, Errno> {
    Ok(u64::from(call.task.process.parent_id()))
}

fn fork(call: &mut Call<'_>) -> Result<u64, Errno> {
    fork::clone(call.task, call.context, &CloneRequest::fork())
}

fn vfork(call: &mut Call<'_>) -> Result<u64, Errno> {
    let request =
        CloneRequest { flags: CloneFlags::VM | CloneFlags::VFORK, ..CloneRequest::fork() };
    fork::clone(call.task, call.context, &request)
}

fn clone(call: &mut Call<'_>) -> Result<u64, Errno> {
    const SIGNAL_MASK: u64 = 0xff;
    let [flags, stack, parent_tid, child_tid, tls, _] = call.args();
    let bits = flags & u64::from(u32::MAX) & !SIGNAL_MASK;
    // The call has only one address for both.
    if bits & CloneFlags::PIDFD.bits() != 0 && bits & CloneFlags::PARENT_SETTID.bits() != 0 {
        return Err(Errno::EINVAL);
    }
    let request = CloneRequest {
        flags: CloneFlags::from_bits_truncate(bits),
        pidfd: parent_tid,
        exit_signal: if flags & CloneFlags::THREAD.bits() != 0 {
            0
        } else {
            (flags & SIGNAL_MASK) as u8
        },
        stack,
        parent_tid,
        child_tid,
        tls,
    };
    fork::clone(call.task, call.context, &request)
}

/// `struct clone_args`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_bytes: u64,
    tls: u64,
    set_tid: u64,
    set_tid_count: u64,
    cgroup: u64,
}

fn clone3(call: &mut Call<'_>) -> Result<u64, Errno> {
    let arguments = read_clone_arguments(call.memory, call.word(0), call.word(1))?;
    let flags = CloneFlags::from_bits(arguments.flags).ok_or(Errno::EINVAL)?;
    let has_wrong_signal = arguments.exit_signal > u64::from(process::signal::LAST)
        || flags.intersects(CloneFlags::THREAD | CloneFlags::PARENT) && arguments.exit_signal != 0;
    let has_wrong_stack = (arguments.stack == 0) != (arguments.stack_bytes == 0);
    if has_wrong_signal
        || has_wrong_stack
        || arguments.set_tid_count != 0
        || flags.contains(CloneFlags::DETACHED)
    {
        return Err(Errno::EINVAL);
    }
    let request = CloneRequest {
        flags,
        pidfd: arguments.pidfd,
        exit_signal: arguments.exit_signal as u8,
        stack: arguments.stack.wrapping_add(arguments.stack_bytes),
        parent_tid: arguments.parent_tid,
        child_tid: arguments.child_tid,
        tls: arguments.tls,
    };
    fork::clone(call.task, call.context, &request)
}

fn read_clone_arguments(
    memory: &AddressSpace,
    address: u64,
    bytes: u64,
) -> Result<CloneArguments, Errno> {
    const FIRST_VERSION_BYTES: usize = 64;
    let bytes = usize::try_from(bytes).map_err(|_| Errno::E2BIG)?;
    if bytes > rt::PAGE_BYTES {
        return Err(Errno::E2BIG);
    }
    if bytes < FIRST_VERSION_BYTES {
        return Err(Errno::EINVAL);
    }
    let mut given = alloc::vec![0; bytes];
    memory.read_bytes(address, &mut given)?;
    let known = bytes.min(size_of::<CloneArguments>());
    let (known, unknown) = given.split_at(known);
    if unknown.iter().any(|byte| *byte != 0) {
        return Err(Errno::E2BIG);
    }
    let mut arguments = CloneArguments::new_zeroed();
    if let Some(place) = arguments.as_mut_bytes().get_mut(..known.len()) {
        place.copy_from_slice(known);
    }
    Ok(arguments)
}

fn unshare(call: &mut Call<'_>) -> Result<u64, Errno> {
    let flags = CloneFlags::from_bits(call.word(0)).ok_or(Errno::EINVAL)?;
    let harmless = CloneFlags::FS | CloneFlags::FILES | CloneFlags::SYSVSEM;
    let alone = CloneFlags::THREAD | CloneFlags::SIGHAND | CloneFlags::VM;
    fork::check_namespaces(call.task, flags)?;
    if !(harmless | alone).contains(flags) {
        return Err(Errno::EINVAL);
    }
    if flags.intersects(alone) && call.task.process.task_count() > 1 {
        return Err(Errno::EINVAL);
    }
    if flags.contains(CloneFlags::FILES) {
        call.task.set_files(Arc::new(call.files.duplicate()?));
    }
    if flags.contains(CloneFlags::SYSVSEM) {
        exit::leave_undo_list(call.task);
    }
    if flags.contains(CloneFlags::FS) {
        call.task.set_fs(FsHold::first(Arc::new(call.task.fs().duplicate())));
    }
    Ok(0)
}

fn execve(call: &mut Call<'_>) -> Result<u64, Errno> {
    let [path, arguments, environment, ..] = call.args();
    execute(call, raw::AT_FDCWD, path, (arguments, environment), 0)
}

fn execveat(call: &mut Call<'_>) -> Result<u64, Errno> {
    let [_, path, arguments, environment, flags, _] = call.args();
    execute(call, call.int(0), path, (arguments, environment), flags as u32)
}

fn execute(
    call: &mut Call<'_>,
    directory: i32,
    path: u64,
    (arguments, environment): (u64, u64),
    flags: u32,
) -> Result<u64, Errno> {
    const PATH_BYTES_MAX: usize = 4096;
    let memory = call.memory;
    let name = memory.read_string(path, PATH_BYTES_MAX)?;
    if name.is_empty() && flags & raw::AT_EMPTY_PATH == 0 {
        return Err(Errno::ENOENT);
    }
    let arguments = exec::read_strings(memory, arguments)?;
    let environment = exec::read_strings(memory, environment)?;
    let program = Program { directory, name, flags, arguments, environment };
    process::exec::replace::execute(call.task, call.context, program)?;
    Ok(0)
}

fn exit_task(call: &mut Call<'_>) -> Result<u64, Errno> {
    exit::end_task(call.task, ExitStatus::Exited(call.word(0) as u8));
    Ok(0)
}

fn exit_group(call: &mut Call<'_>) -> Result<u64, Errno> {
    exit::end_group(call.task, ExitStatus::Exited(call.word(0) as u8));
    Ok(0)
}

/// Does wait4(2). As on Linux, a child that has ended is gone even if the call then fails for a bad address.
fn wait4(call: &mut Call<'_>) -> Result<u64, Errno> {
    let options = WaitOptions::from_bits(call.uint(2)).ok_or(Errno::EINVAL)?;
    if options.intersects(WaitOptions::EXITED | WaitOptions::NO_WAIT) {
        return Err(Errno::EINVAL);
    }
    let which = match call.int(0) {
        -1 => Which::Any,
        0 => Which::Group(call.task.process.group()),
        i32::MIN => return Err(Errno::ESRCH),
        id if id < 0 => Which::Group(id.unsigned_abs()),
        id => Which::Process(id as u32),
    };
    let Some(report) = wait::wait(call.task, which, options | WaitOptions::EXITED)? else {
        return Ok(0);
    };
    let (status_at, usage_at) = (call.word(1), call.word(3));
    let memory = call.memory;
    if status_at != 0 {
        memory.commit(status_at, &wait_word(report.event))?;
    }
    if usage_at != 0 {
        memory.commit(usage_at, &usage_of_child(&report.usage))?;
    }
    Ok(u64::from(report.id))
}

fn wait_word(event: Event) -> u32 {
    match event {
        Event::Ended(status) => status.wait_word(),
        Event::Stopped(signal) => status::stopped_word(signal),
        Event::Continued => status::CONTINUED_WORD,
    }
}

/// Does waitid(2). As Linux does, it stores zeroes if no child is reported, also if the call fails.
fn waitid(call: &mut Call<'_>) -> Result<u64, Errno> {
    let report = report_by_id(call);
    let (info_at, usage_at) = (call.word(2), call.word(4));
    let memory = call.memory;
    let found = report.as_ref().ok().and_then(Option::as_ref);
    if let Some(report) = found
        && usage_at != 0
    {
        memory.commit(usage_at, &usage_of_child(&report.usage))?;
    }
    if info_at != 0 {
        // The kernel writes these words only; the program's other bytes stay.
        let (number, code, pid, user, status) = found.map_or((0, 0, 0, 0, 0), info_words);
        memory.commit(info_at, &[number, 0, code])?;
        memory.commit(info_at.wrapping_add(16), &[pid, user, status])?;
    }
    report.map(|_| 0)
}

/// Waits according to the arguments of waitid(2).
fn report_by_id(call: &Call<'_>) -> Result<Option<Report>, Errno> {
    let options = WaitOptions::from_bits(call.uint(3)).ok_or(Errno::EINVAL)?;
    if !options.intersects(WaitOptions::EXITED | WaitOptions::UNTRACED | WaitOptions::CONTINUED) {
        return Err(Errno::EINVAL);
    }
    let id = call.int(1);
    let file = if call.uint(0) == raw::P_PIDFD { Some(call.file(1)?) } else { None };
    let named = file.as_deref().map(pidfd::of).transpose()?;
    let is_nonblocking = file.as_ref().is_some_and(|file| file.flags() & raw::O_NONBLOCK != 0);
    let which = match call.uint(0) {
        raw::P_ALL => Which::Any,
        raw::P_PID if id > 0 => Which::Process(id as u32),
        raw::P_PGID if id == 0 => Which::Group(call.task.process.group()),
        raw::P_PGID if id > 0 => Which::Group(id as u32),
        raw::P_PIDFD => {
            Which::Exactly(named.ok_or(Errno::EBADF)?.process().map_err(|_| Errno::ECHILD)?)
        }
        _ => return Err(Errno::EINVAL),
    };
    let waiting = if is_nonblocking { options | WaitOptions::NO_HANG } else { options };
    let report = wait::wait(call.task, which, waiting)?;
    if report.is_none() && !options.contains(WaitOptions::NO_HANG) {
        return Err(Errno::EAGAIN);
    }
    Ok(report)
}

/// Returns `si_signo`, `si_code`, `si_pid`, `si_uid`, `si_status`.
fn info_words(report: &Report) -> (u32, u32, u32, u32, u32) {
    let (code, status) = match report.event {
        Event::Ended(ExitStatus::Exited(code)) => (1, code),
        Event::Ended(ExitStatus::Signalled(signal)) => (2, signal),
        Event::Stopped(signal) => (5, signal),
        Event::Continued => (6, process::signal::SIGCONT),
    };
    (u32::from(SIGCHLD), code, report.id, report.user, u32::from(status))
}

/// `struct rusage`.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ResourceUsage {
    user: [u64; 2],
    system: [u64; 2],
    peak_kib: u64,
    shared_text: [u64; 3],
    faults: [u64; 2],
    swaps: u64,
    /// Blocks of 512 bytes: read from storage, and to be written there.
    blocks: [u64; 2],
    messages: [u64; 2],
    signals: u64,
    voluntary_switches: u64,
    forced_switches: u64,
}

impl ResourceUsage {
    /// Makes the structure from times, faults, bytes read and written, and the largest resident
    /// size.
    pub fn new(time: &CpuTime, faults: Faults, io: Io, peak_pages: u64) -> ResourceUsage {
        const PAGE_KIB: u64 = 4;
        const BLOCK_BYTES: u64 = 512;
        let split = |ns: u64| [ns / 1_000_000_000, ns % 1_000_000_000 / 1000];
        ResourceUsage {
            user: split(time.user_ns),
            system: split(time.system_ns),
            peak_kib: peak_pages * PAGE_KIB,
            faults: [faults.minor, faults.major],
            blocks: [Count::BytesRead, Count::BytesWritten].map(|count| io.of(count) / BLOCK_BYTES),
            voluntary_switches: time.voluntary_switches,
            forced_switches: time.forced_switches,
            ..ResourceUsage::default()
        }
    }
}

fn usage_of_child(usage: &ProcessUsage) -> ResourceUsage {
    let mut time = usage.own;
    process::object::add_time(&mut time, &usage.children);
    let mut faults = usage.faults;
    faults += usage.children_faults;
    let mut io = usage.io;
    io += usage.children_io;
    ResourceUsage::new(&time, faults, io, usage.peak_pages.max(usage.children_peak_pages))
}

/// Returns the process `id` of a call, 0 being the caller's.
fn named(call: &Call<'_>, id: i32) -> Result<Arc<Process>, Errno> {
    match id {
        0 => Ok(call.task.process.clone()),
        id => {
            let visible = call.task.visible();
            u32::try_from(id).ok().and_then(|id| visible.process(id)).ok_or(Errno::ESRCH)
        }
    }
}

fn getpgid(call: &mut Call<'_>) -> Result<u64, Errno> {
    Ok(u64::from(named(call, call.int(0))?.group()))
}

fn getpgrp(call: &mut Call<'_>) -> Result<u64, Errno> {
    Ok(u64::from(call.task.process.group()))
}

fn setpgid(call: &mut Call<'_>) -> Result<u64, Errno> {
    let own = &call.task.process;
    let wanted = if call.int(1) == 0 { call.int(0) } else { call.int(1) };
    if wanted < 0 {
        return Err(Errno::EINVAL);
    }
    let process = named(call, call.int(0))?;
    let group = if wanted == 0 { process.id() } else { wanted as u32 };
    let mut tree = tree::write();
    if process.id() != own.id() {
        if process.parent_id() != own.id() || process.ended().is_some() {
            return Err(Errno::ESRCH);
        }
        if process.session().id() != own.session().id() {
            return Err(Errno::EPERM);
        }
        if process.has_executed.load(Ordering::Relaxed) {
            return Err(Errno::EACCES);
        }
    }
    if process.session().id() == process.id() {
        return Err(Errno::EPERM);
    }
    let session = process.session().id();
    if group != process.id() && !tree.group(group).any(|member| member.session().id() == session) {
        return Err(Errno::EPERM);
    }
    if group != process.group() {
        tree.set_group(&process, group);
    }
    Ok(0)
}

fn getsid(call: &mut Call<'_>) -> Result<u64, Errno> {
    Ok(u64::from(named(call, call.int(0))?.session().id()))
}

fn setsid(call: &mut Call<'_>) -> Result<u64, Errno> {
    let process = &call.task.process;
    let mut tree = tree::write();
    if tree.has_group(process.id()) {
        return Err(Errno::EPERM);
    }
    tree.start_session(process);
    Ok(u64::from(process.id()))
}

fn set_tid_address(call: &mut Call<'_>) -> Result<u64, Errno> {
    call.task.clear_child_tid.store(call.word(0), Ordering::Relaxed);
    Ok(u64::from(call.task.id()))
}
