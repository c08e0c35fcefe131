//! Contents of the files of `/proc/PID`.
use super::process::Subject;
use crate::{
    memory::{AddressSpace, Label, report::Name},
    process::{Process, Task, limits::INFINITY, object::ticks, oom},
    signal::{LAST, action, state::StopState},
};
use alloc::{format, string::String, sync::Arc, vec, vec::Vec};
use core::{fmt::Write, sync::atomic::Ordering};
use rt::user::Protection;
use vfs::{Capabilities, Errno, Path, namespace::Namespace};

const PAGE_KIB: u64 = 4;

/// How a link to `path` reads, as seen from `root`; a thing without a place (a pipe) by what it is.
pub fn path_text(path: &Path, root: &Path) -> Vec<u8> {
    let own_name = path.dentry.name();
    if path.is_mount_root() && path.mount.at().is_none() && *own_name != *b"/" {
        return own_name.to_vec();
    }
    let mut name = path.describe(root);
    if name.is_deleted {
        name.text.extend_from_slice(b" (deleted)");
    }
    name.text
}

/// The program that runs.
pub fn executable(subject: &Subject) -> Option<Path> {
    let memory = subject.process.try_memory()?;
    memory.executable().map(|file| file.path().clone())
}

fn command(subject: &Subject) -> String {
    let name =
        subject.task().map(|task| task.command()).unwrap_or_else(|| subject.process.last_command());
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(name.get(..end).unwrap_or_default()).into_owned()
}

/// One letter and its word.
fn state(subject: &Subject) -> (char, &'static str) {
    let process = &subject.process;
    {
        let signals = process.signals.lock();
        if signals.ended.is_some() || signals.tasks.is_empty() {
            return ('Z', "zombie");
        }
        if matches!(signals.stop, StopState::Stopped(_)) {
            return ('T', "stopped");
        }
    }
    let own = rt::thread::current();
    match subject.task() {
        Some(task) if task.thread() == own => ('R', "running"),
        Some(task) if task.is_in_user_mode() => ('R', "running"),
        _ => ('S', "sleeping"),
    }
}

pub fn comm(subject: &Subject) -> Result<Vec<u8>, Errno> {
    Ok(format!("{}\n", command(subject)).into_bytes())
}

pub fn oom_score(subject: &Subject) -> Result<Vec<u8>, Errno> {
    Ok(format!("{}\n", oom::score(&subject.process)).into_bytes())
}

pub fn oom_adjustment(subject: &Subject) -> Result<Vec<u8>, Errno> {
    Ok(format!("{}\n", subject.process.oom_adjustment.load(Ordering::Relaxed)).into_bytes())
}

/// Anybody may make himself worse; better than before needs CAP_SYS_RESOURCE.
pub fn set_oom_adjustment(subject: &Subject, text: &[u8]) -> Result<(), Errno> {
    let text = core::str::from_utf8(text).map_err(|_| Errno::EINVAL)?.trim();
    let wanted: i32 = text.parse().map_err(|_| Errno::EINVAL)?;
    if !(oom::NEVER..=oom::ALWAYS).contains(&wanted) {
        return Err(Errno::EINVAL);
    }
    let adjustment = &subject.process.oom_adjustment;
    let task = crate::process::current().ok_or(Errno::EINVAL)?;
    let is_privileged = task.credentials().has(Capabilities::SYS_RESOURCE);
    if wanted < adjustment.load(Ordering::Relaxed) && !is_privileged {
        return Err(Errno::EACCES);
    }
    adjustment.store(wanted, Ordering::Relaxed);
    Ok(())
}

/// Terminal number as stat shows it, and the foreground group.
fn terminal(process: &Process) -> (u32, i64) {
    match process.terminal() {
        Some(terminal) => {
            let (major, minor) = terminal.device();
            let number = (minor & 0xff) | (major & 0xfff) << 8 | (minor >> 8) << 20;
            (number, i64::from(terminal.foreground()))
        }
        None => (0, -1),
    }
}

pub fn stat(subject: &Subject) -> Result<Vec<u8>, Errno> {
    let process = &subject.process;
    let id = subject.thread.as_ref().map_or(process.id(), |task| task.id());
    let (terminal, foreground) = terminal(process);
    let memory = process.try_memory();
    let sizes = memory.as_ref().map(|memory| memory.sizes()).unwrap_or_default();
    let layout = memory.map(|memory| memory.layout()).unwrap_or_default();
    let time = match &subject.thread {
        Some(task) => rt::thread::cpu_time(task.thread()).unwrap_or_default(),
        None => process.cpu_time(),
    };
    let usage = *process.usage.lock();
    let children = usage.children;
    let faults = match &subject.thread {
        Some(task) => task.faults.get(),
        None => process.faults(),
    };
    let task = subject.task();
    let nice = task.as_ref().map_or(0, |task| task.nice.load(Ordering::Relaxed));
    let real_time = task.as_ref().map_or(0, |task| task.real_time_priority.load(Ordering::Relaxed));
    let policy = task.as_ref().map_or(0, |task| task.policy.load(Ordering::Relaxed));
    let priority = if real_time > 0 { -1 - i64::from(real_time) } else { 20 + i64::from(nice) };
    let sets = SignalSets::of(subject);
    let exit_signal = process.exit_signal.load(Ordering::Relaxed);
    let exit_code = process.ended().map_or(0, |status| status.wait_word());
    let threads = process.tasks().len();
    let (code, data) = (layout.code, layout.data);
    let text = format!(
        "{id} ({}) {} {} {} {} {terminal} {foreground} 0 {} {} {} {} {} {} {} {} {priority} {nice} {threads} 0 {} {} {} \
         {} {} {} {} 0 0 {} {} {} {} 0 0 0 {exit_signal} 0 {real_time} {policy} 0 0 0 {} {} {} {} {} {} {} {exit_code}\n",
        command(subject),
        state(subject).0,
        process.parent_id(),
        process.group(),
        process.session().id(),
        faults.minor,
        usage.children_faults.minor,
        faults.major,
        usage.children_faults.major,
        ticks(time.user_ns),
        ticks(time.system_ns),
        ticks(children.user_ns),
        ticks(children.system_ns),
        ticks(process.started.0),
        sizes.total * rt::PAGE_BYTES as u64,
        sizes.resident,
        u64::MAX,
        code.0,
        code.1,
        layout.stack_start,
        sets.pending as u32,
        sets.blocked as u32,
        sets.ignored as u32,
        sets.caught as u32,
        data.0,
        data.1,
        layout.heap_start,
        layout.arguments.0,
        layout.arguments.1,
        layout.environment.0,
        layout.environment.1,
    );
    Ok(text.into_bytes())
}

#[derive(Default)]
struct SignalSets {
    pending: u64,
    shared: u64,
    blocked: u64,
    ignored: u64,
    caught: u64,
}

impl SignalSets {
    fn of(subject: &Subject) -> SignalSets {
        let process = &subject.process;
        let mut sets =
            SignalSets { shared: process.signals.lock().queue.pending(), ..SignalSets::default() };
        if let Some(task) = subject.task() {
            let signals = task.signals.lock();
            (sets.pending, sets.blocked) = (signals.queue.pending(), signals.mask);
        }
        for signal in 1..=LAST {
            match process.action(signal).handler {
                action::DEFAULT => {}
                action::IGNORE => sets.ignored |= crate::signal::bit(signal),
                _ => sets.caught |= crate::signal::bit(signal),
            }
        }
        sets
    }
}

pub fn status(subject: &Subject) -> Result<Vec<u8>, Errno> {
    let process = &subject.process;
    let id = subject.thread.as_ref().map_or(process.id(), |task| task.id());
    let (letter, word) = state(subject);
    let mut text = String::new();
    let task = subject.task();
    let umask = task.as_ref().map_or(0, |task| task.fs().umask());
    let _ = writeln!(
        text,
        "Name:\t{}\nUmask:\t{umask:04o}\nState:\t{letter} ({word})",
        command(subject)
    );
    let parent = process.parent_id();
    let _ = writeln!(
        text,
        "Tgid:\t{}\nNgid:\t0\nPid:\t{id}\nPPid:\t{parent}\nTracerPid:\t0",
        process.id()
    );
    if let Some(task) = &task {
        write_identity(&mut text, task);
    }
    if let Some(memory) = process.try_memory() {
        write_memory(&mut text, &memory);
    }
    write_signals(&mut text, subject);
    if let Some(task) = &task {
        write_rights(&mut text, task);
    }
    let time = process.cpu_time();
    let _ = writeln!(
        text,
        "voluntary_ctxt_switches:\t{}\nnonvoluntary_ctxt_switches:\t{}",
        time.voluntary_switches, time.forced_switches
    );
    Ok(text.into_bytes())
}

fn write_identity(text: &mut String, task: &Task) {
    let credentials = task.credentials();
    for (name, ids) in [("Uid", credentials.user), ("Gid", credentials.group)] {
        let _ =
            writeln!(text, "{name}:\t{}\t{}\t{}\t{}", ids.real, ids.effective, ids.saved, ids.fs);
    }
    let size = task.files().descriptors(0, usize::MAX).last().map_or(0, |last| last + 1);
    let _ = write!(text, "FDSize:\t{}\nGroups:\t", size.next_multiple_of(64).max(64));
    for group in credentials.groups.iter() {
        let _ = write!(text, "{group} ");
    }
    text.push('\n');
    let process = &task.process;
    let lines = [
        ("NStgid", process.id()),
        ("NSpid", task.id()),
        ("NSpgid", process.group()),
        ("NSsid", process.session().id()),
    ];
    for (name, id) in lines {
        let _ = writeln!(text, "{name}:\t{id}");
    }
}

fn write_memory(text: &mut String, memory: &AddressSpace) {
    let sizes = memory.sizes();
    let anonymous = sizes.resident.saturating_sub(sizes.shared);
    let lines = [
        ("VmPeak", sizes.peak_total),
        ("VmSize", sizes.total),
        ("VmLck", sizes.locked),
        ("VmPin", 0),
        ("VmHWM", sizes.peak_resident),
        ("VmRSS", sizes.resident),
        ("RssAnon", anonymous),
        ("RssFile", sizes.shared),
        ("RssShmem", 0),
        ("VmData", sizes.data),
        ("VmStk", sizes.stack),
        ("VmExe", sizes.code),
        ("VmLib", sizes.libraries),
        ("VmPTE", 0),
        ("VmSwap", 0),
    ];
    for (name, pages) in lines {
        let _ = writeln!(text, "{name}:\t{:>8} kB", pages * PAGE_KIB);
    }
}

fn write_signals(text: &mut String, subject: &Subject) {
    let sets = SignalSets::of(subject);
    let limit = subject.process.limits.soft(crate::process::limits::Resource::PendingSignals);
    let queued = sets.pending.count_ones() + sets.shared.count_ones();
    let _ = writeln!(text, "Threads:\t{}\nSigQ:\t{queued}/{limit}", subject.process.tasks().len());
    let lines = [
        ("SigPnd", sets.pending),
        ("ShdPnd", sets.shared),
        ("SigBlk", sets.blocked),
        ("SigIgn", sets.ignored),
        ("SigCgt", sets.caught),
    ];
    for (name, set) in lines {
        let _ = writeln!(text, "{name}:\t{set:016x}");
    }
}

fn write_rights(text: &mut String, task: &Task) {
    let sets = task.credentials().capabilities;
    let lines = [
        ("CapInh", sets.inheritable),
        ("CapPrm", sets.permitted),
        ("CapEff", sets.effective),
        ("CapBnd", sets.bounding),
        ("CapAmb", sets.ambient),
    ];
    for (name, set) in lines {
        let _ = writeln!(text, "{name}:\t{:016x}", set.bits());
    }
    let no_new = u8::from(task.process.no_new_privileges.load(Ordering::Relaxed));
    let count = rt::thread::processors().0.min(64) as u32;
    let allowed = task.affinity.load(Ordering::Relaxed) & (u64::MAX >> (64 - count.max(1)));
    let _ = writeln!(text, "NoNewPrivs:\t{no_new}\nSeccomp:\t0\nSeccomp_filters:\t0");
    let list = processor_list(allowed);
    let _ = writeln!(text, "Cpus_allowed:\t{allowed:x}\nCpus_allowed_list:\t{list}");
    let _ = writeln!(text, "Mems_allowed:\t1\nMems_allowed_list:\t0");
}

/// The processors of a mask as ranges: `0-2,5`.
fn processor_list(mask: u64) -> String {
    let has = |at: u32| mask.checked_shr(at).is_some_and(|rest| rest & 1 != 0);
    let mut text = String::new();
    let mut at = 0;
    while at < u64::BITS {
        let first = at;
        while has(at) {
            at += 1;
        }
        if at > first {
            let comma = if text.is_empty() { "" } else { "," };
            let _ = match at - first {
                1 => write!(text, "{comma}{first}"),
                _ => write!(text, "{comma}{first}-{}", at - 1),
            };
        }
        at += 1;
    }
    text
}

pub fn statm(subject: &Subject) -> Result<Vec<u8>, Errno> {
    let sizes = subject.process.try_memory().map(|memory| memory.sizes()).unwrap_or_default();
    let data = sizes.data + sizes.stack;
    Ok(format!("{} {} {} {} 0 {data} 0\n", sizes.total, sizes.resident, sizes.shared, sizes.code)
        .into_bytes())
}

/// Bytes between two addresses of the process's memory, at most a megabyte.
fn memory_text(subject: &Subject, range: fn(&crate::memory::Layout) -> (u64, u64)) -> Vec<u8> {
    const BYTES_MAX: u64 = 1 << 20;
    let Some(memory) = subject.process.try_memory() else { return Vec::new() };
    let (start, end) = range(&memory.layout());
    let mut text = vec![0; end.saturating_sub(start).min(BYTES_MAX) as usize];
    match memory.read_bytes(start, &mut text) {
        Ok(()) => text,
        Err(_) => Vec::new(),
    }
}

pub fn cmdline(subject: &Subject) -> Result<Vec<u8>, Errno> {
    Ok(memory_text(subject, |layout| layout.arguments))
}

pub fn personality(subject: &Subject) -> Result<Vec<u8>, Errno> {
    let personality = subject.process.personality.load(Ordering::Relaxed);
    Ok(format!("{personality:08x}\n").into_bytes())
}

/// A thread of the same process may rename it.
pub fn set_comm(subject: &Subject, data: &[u8]) -> Result<(), Errno> {
    let own = crate::process::current().ok_or(Errno::EINVAL)?;
    if own.process.id() != subject.process.id() {
        return Err(Errno::EINVAL);
    }
    let task = subject.task().ok_or(Errno::ESRCH)?;
    let end = data.iter().position(|byte| matches!(byte, 0 | b'\n')).unwrap_or(data.len());
    task.set_command(data.get(..end).unwrap_or_default());
    Ok(())
}

pub fn maps(subject: &Subject) -> Result<Vec<u8>, Errno> {
    const NAME_COLUMN: usize = 73;
    let Some(memory) = subject.process.try_memory() else { return Ok(Vec::new()) };
    let root = subject.task().map(|task| task.fs().root());
    let mut text = Vec::new();
    for region in memory.regions() {
        let flag = |wanted, letter| if region.protection.contains(wanted) { letter } else { '-' };
        let (device, inode, name) = match &region.name {
            Name::None => ((0, 0), 0, Vec::new()),
            Name::Heap => ((0, 0), 0, b"[heap]".to_vec()),
            Name::Stack => ((0, 0), 0, b"[stack]".to_vec()),
            Name::System(label) => ((0, 0), 0, label_text(*label).to_vec()),
            Name::File(file) => {
                let name =
                    root.as_ref().map(|root| path_text(file.path(), root)).unwrap_or_default();
                let status = file.path().status();
                (status.device, status.attributes.inode, name)
            }
        };
        let mut line = format!(
            "{:08x}-{:08x} {}{}{}{} {:08x} {:02x}:{:02x} {inode} ",
            region.start,
            region.end,
            flag(Protection::READ, 'r'),
            flag(Protection::WRITE, 'w'),
            flag(Protection::EXECUTE, 'x'),
            if region.is_shared { 's' } else { 'p' },
            region.offset,
            device.0,
            device.1,
        );
        if !name.is_empty() {
            line = format!("{line:<NAME_COLUMN$}");
        }
        text.extend_from_slice(line.as_bytes());
        text.extend(name);
        text.push(b'\n');
    }
    Ok(text)
}

fn label_text(label: Label) -> &'static [u8] {
    match label {
        Label::Vdso => b"[vdso]",
        Label::Vvar => b"[vvar]",
        Label::SharedAnonymous => b"/dev/zero (deleted)",
    }
}

pub fn limits(subject: &Subject) -> Result<Vec<u8>, Errno> {
    const ROWS: [(&str, &str); 16] = [
        ("Max cpu time", "seconds"),
        ("Max file size", "bytes"),
        ("Max data size", "bytes"),
        ("Max stack size", "bytes"),
        ("Max core file size", "bytes"),
        ("Max resident set", "bytes"),
        ("Max processes", "processes"),
        ("Max open files", "files"),
        ("Max locked memory", "bytes"),
        ("Max address space", "bytes"),
        ("Max file locks", "locks"),
        ("Max pending signals", "signals"),
        ("Max msgqueue size", "bytes"),
        ("Max nice priority", ""),
        ("Max realtime priority", ""),
        ("Max realtime timeout", "us"),
    ];
    let show =
        |value: u64| if value == INFINITY { String::from("unlimited") } else { format!("{value}") };
    let mut text =
        format!("{:<26}{:<21}{:<21}{:<10}\n", "Limit", "Soft Limit", "Hard Limit", "Units");
    for (number, (name, unit)) in (0..).zip(ROWS) {
        if let Some(limit) = subject.process.limits.get(number) {
            let _ = writeln!(
                text,
                "{name:<26}{:<21}{:<21}{unit:<10}",
                show(limit.soft),
                show(limit.hard)
            );
        }
    }
    Ok(text.into_bytes())
}

fn namespace(subject: &Subject) -> Result<(Arc<Namespace>, Path), Errno> {
    let fs = subject.task().ok_or(Errno::EINVAL)?.fs();
    Ok((fs.namespace().clone(), fs.root()))
}

pub fn mounts(subject: &Subject) -> Result<Vec<u8>, Errno> {
    let (namespace, root) = namespace(subject)?;
    let mut text = Vec::new();
    for mount in namespace.mounts() {
        let place = mount.at().map_or_else(|| b"/".to_vec(), |at| path_text(&at, &root));
        text.extend_from_slice(mount.source().as_bytes());
        text.push(b' ');
        text.extend(escaped(&place));
        let rest = format!(
            " {} {} 0 0\n",
            mount.instance().info().type_name,
            mount.seen_flags().describe()
        );
        text.extend_from_slice(rest.as_bytes());
    }
    Ok(text)
}

pub fn mountinfo(subject: &Subject) -> Result<Vec<u8>, Errno> {
    let (namespace, root) = namespace(subject)?;
    let mut text = Vec::new();
    for mount in namespace.mounts() {
        let at = mount.at();
        let place = at.as_ref().map_or_else(|| b"/".to_vec(), |at| path_text(at, &root));
        let parent = at.map_or(mount.id(), |at| at.mount.id());
        let (major, minor) = mount.instance().device();
        text.extend_from_slice(format!("{} {parent} {major}:{minor} / ", mount.id()).as_bytes());
        text.extend(escaped(&place));
        let flags = mount.seen_flags().describe();
        let rest = format!(
            " {flags} - {} {} {flags}\n",
            mount.instance().info().type_name,
            mount.source()
        );
        text.extend_from_slice(rest.as_bytes());
    }
    Ok(text)
}

/// Blanks, newlines and backslashes as octal, as fstab(5) wants.
fn escaped(name: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    for byte in name {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => {
                text.extend_from_slice(format!("\\{byte:03o}").as_bytes())
            }
            other => text.push(*other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_listed_as_ranges() {
        assert_eq!(processor_list(0b10_0111), "0-2,5");
        assert_eq!(processor_list(1), "0");
        assert_eq!(processor_list(u64::MAX), "0-63");
    }

    #[test]
    fn mount_points_are_escaped() {
        assert_eq!(escaped(b"/a b\\"), b"/a\\040b\\134");
    }
}
