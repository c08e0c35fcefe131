//! Contents of the files of `/proc/PID`.
use super::{process::Subject, status::SignalSets};
use alloc::{borrow::Cow, format, string::String, sync::Arc, vec, vec::Vec};
use core::{fmt::Write, sync::atomic::Ordering};
use memory::{ProgramLayout, report::Sizes};
use process::{
    Process, Task, io_counts, limits::INFINITY, object::ticks, oom, profile,
    signal::state::StopState, tree, visible::exists_for, wait,
};
use vfs::{Capabilities, Errno, Mount, Path, Principal, digits::Text, namespace::Namespace};

/// Returns the text of a link to `path`, as seen from `root`. An object without a place (a pipe) is shown by its own
/// name.
pub fn path_text(path: &Path, root: &Path) -> Vec<u8> {
    if path.is_anonymous() {
        return path.dentry.name().to_vec();
    }
    let mut name = path.describe(root);
    if name.is_deleted {
        name.text.extend_from_slice(b" (deleted)");
    }
    name.text
}

/// Returns the path of the running program.
pub fn executable(task: &Task) -> Option<Path> {
    let memory = task.process.try_memory()?;
    memory.executable().map(|file| file.path().clone())
}

/// Returns `/proc/PID/io`: of a thread, or of all threads and the children waited for.
pub fn io(subject: &Subject) -> Result<Vec<u8>, Errno> {
    let io = match &subject.thread {
        Some(task) => task.io.get(),
        None => {
            let mut sum = subject.process.io();
            sum += subject.process.usage.lock().children_io;
            sum
        }
    };
    let mut text = String::new();
    for (name, number) in io_counts::NAMES.iter().zip(io.0) {
        let _ = writeln!(text, "{name}: {number}");
    }
    Ok(text.into_bytes())
}

pub fn command(subject: &Subject) -> String {
    let name =
        subject.task().map(|task| task.command()).unwrap_or_else(|| subject.process.last_command());
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(name.get(..end).unwrap_or_default()).into_owned()
}

/// Returns the letter and the word of its state.
pub fn state(subject: &Subject) -> (char, &'static str) {
    let process = &subject.process;
    if subject.thread.as_ref().is_some_and(|task| !tree::is_alive(task)) {
        return ('Z', "zombie");
    }
    {
        let signals = process.signals.lock();
        if signals.ended.is_some() || signals.tasks.is_empty() {
            return ('Z', "zombie");
        }
        if matches!(signals.stop, StopState::Stopped(_)) {
            return ('T', "stopped");
        }
    }
    match subject.task().and_then(|task| rt::thread::cpu_time(task.thread())) {
        Some(time) if time.is_runnable => ('R', "running"),
        Some(time) if !time.is_interruptible => ('D', "disk sleep"),
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

/// Parses a number as Linux's kstrtoint does: up to a NUL, decimal, octal or hexadecimal.
///
/// # Errors
/// `EINVAL` for an invalid number, `ERANGE` for one that is too large.
fn number(text: &[u8]) -> Result<i32, Errno> {
    /// Number of bytes of the text that are read.
    const BYTES_MAX: usize = 12;
    let text = text.get(..BYTES_MAX).unwrap_or(text);
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = core::str::from_utf8(text).map_err(|_| Errno::EINVAL)?.trim_ascii();
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, radix) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if digits.len() > 1 && digits.starts_with('0') => (digits, 8),
        None => (digits, 10),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return Err(Errno::EINVAL);
    }
    let value = i64::from_str_radix(digits, radix).map_err(|_| Errno::ERANGE)?;
    i32::try_from(if is_negative { -value } else { value }).map_err(|_| Errno::ERANGE)
}

/// Returns the processes that a thread has made and not waited for, and that exist for `reader`, oldest first, each followed by a
/// blank.
pub fn children(subject: &Subject, reader: &dyn Principal) -> Result<Vec<u8>, Errno> {
    let Some(task) = &subject.thread else { return Ok(Vec::new()) };
    let tree = tree::read();
    let is_shown = |child: &Process| wait::is_of(child, task) && exists_for(child, reader);
    let own = tree.children(subject.process.id()).filter(|child| is_shown(child));
    Ok(own.flat_map(|child| format!("{} ", child.id()).into_bytes()).collect())
}

/// Sets the OOM adjustment. Any process may raise its own; a lower value than before needs CAP_SYS_RESOURCE.
pub fn set_oom_adjustment(
    subject: &Subject,
    text: &[u8],
    writer: &dyn Principal,
) -> Result<(), Errno> {
    let wanted = number(text)?;
    if !(oom::NEVER..=oom::ALWAYS).contains(&wanted) {
        return Err(Errno::EINVAL);
    }
    let adjustment = &subject.process.oom_adjustment;
    let is_privileged = writer.has(Capabilities::SYS_RESOURCE);
    if wanted < adjustment.load(Ordering::Relaxed) && !is_privileged {
        return Err(Errno::EACCES);
    }
    adjustment.store(wanted, Ordering::Relaxed);
    Ok(())
}

/// Returns the terminal number as stat shows it, and the foreground group.
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

/// Returns the sizes of a process's memory, and as much of its layout as `reader` may see.
fn visible_memory(subject: &Subject, reader: &dyn Principal) -> (Sizes, ProgramLayout) {
    // Addresses are shown only to a reader that may look into the process.
    let seen = subject.look(reader, |task| task.process.try_memory());
    let may_look = seen.is_ok();
    let memory = seen.unwrap_or_else(|_| subject.process.try_memory());
    let sizes = memory.as_ref().map(|memory| memory.sizes()).unwrap_or_default();
    let layout = if may_look {
        memory.map(|memory| memory.layout()).unwrap_or_default()
    } else {
        ProgramLayout { code: (1, 1), ..ProgramLayout::default() }
    };
    (sizes, layout)
}

/// Faults and time in the order of stat: minor faults, major faults, and ticks, each with those of the children.
fn usage_numbers(subject: &Subject) -> [u64; 8] {
    let process = &subject.process;
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
    [
        faults.minor,
        usage.children_faults.minor,
        faults.major,
        usage.children_faults.major,
        ticks(time.user_ns),
        ticks(time.system_ns),
        ticks(children.user_ns),
        ticks(children.system_ns),
    ]
}

/// The scheduling fields of stat.
struct Scheduling {
    processor: u32,
    /// As stat shows it: a real-time priority is negative.
    priority: i64,
    nice: i64,
    real_time: u32,
    policy: u32,
}

impl Scheduling {
    fn of(subject: &Subject) -> Scheduling {
        let task = subject.task();
        let last_ran = task.as_ref().and_then(|task| rt::thread::cpu_time(task.thread()));
        let nice = task.as_ref().map_or(0, |task| task.nice.load(Ordering::Relaxed)).into();
        let real_time =
            task.as_ref().map_or(0, |task| task.real_time_priority.load(Ordering::Relaxed));
        let policy = task.as_ref().map_or(0, |task| task.policy.load(Ordering::Relaxed));
        let effective = task.as_ref().map_or(0, |task| task.effective_priority());
        Scheduling {
            processor: last_ran.unwrap_or_default().processor,
            priority: if effective > 0 { -1 - i64::from(effective) } else { 20 + nice },
            nice,
            real_time,
            policy,
        }
    }
}

pub fn stat(subject: &Subject, reader: &dyn Principal) -> Result<Vec<u8>, Errno> {
    const ROOM_BYTES: usize = 512;
    let process = &subject.process;
    let id = subject.thread.as_ref().map_or(process.id(), |task| task.id());
    let (terminal, foreground) = terminal(process);
    let (sizes, layout) = visible_memory(subject, reader);
    let usage = usage_numbers(subject);
    let scheduling = Scheduling::of(subject);
    let sets = SignalSets::of(subject);
    let exit_signal = process.exit_signal.load(Ordering::Relaxed);
    let exit_code = process.ended().map_or(0, |status| status.wait_word());
    let threads = process.task_count().max(1);
    let mut text = Text::with_room(ROOM_BYTES);
    text.number(id).put(" (").put(command(subject)).put(") ").put([state(subject).0 as u8]);
    let ids = [process.parent_id(), process.group(), process.session().id()];
    write_numbers(&mut text, &ids.map(u64::from));
    text.put(" ").signed(terminal.into()).put(" ").signed(foreground).put(" 0");
    write_numbers(&mut text, &usage);
    text.put(" ").signed(scheduling.priority).put(" ").signed(scheduling.nice);
    text.put(" ").number(threads as u64).put(" 0");
    let bytes = sizes.total * rt::PAGE_BYTES as u64;
    write_numbers(&mut text, &[ticks(process.started.0), bytes, sizes.resident, u64::MAX]);
    write_numbers(&mut text, &[layout.code.0, layout.code.1, layout.stack_start, 0, 0]);
    let sets = [sets.pending, sets.blocked, sets.ignored, sets.caught];
    write_numbers(&mut text, &sets.map(|set| u64::from(set as u32)));
    write_numbers(&mut text, &[0, 0, 0, exit_signal.into()]);
    let Scheduling { processor, real_time, policy, .. } = scheduling;
    write_numbers(&mut text, &[processor, real_time, policy, 0, 0, 0].map(u64::from));
    write_numbers(&mut text, &[layout.data.0, layout.data.1, layout.heap_start]);
    write_numbers(&mut text, &[layout.arguments.0, layout.arguments.1]);
    write_numbers(&mut text, &[layout.environment.0, layout.environment.1]);
    text.put(" ").signed(exit_code.into()).put("\n");
    Ok(text.finish())
}

/// Appends each number after a blank.
fn write_numbers(text: &mut Text, numbers: &[u64]) {
    for number in numbers {
        text.put(" ").number(*number);
    }
}

pub fn statm(subject: &Subject) -> Result<Vec<u8>, Errno> {
    let (sizes, pages) = match subject.process.try_memory() {
        Some(memory) => (memory.sizes(), memory.object_pages()),
        None => Default::default(),
    };
    let (shared, data) = (pages.files + pages.shared_memory, sizes.data + sizes.stack);
    Ok(format!("{} {} {shared} {} 0 {data} 0\n", sizes.total, sizes.resident, sizes.code)
        .into_bytes())
}

/// Returns the bytes between two addresses of the process's memory, at most a megabyte.
fn memory_text(subject: &Subject, range: fn(&memory::ProgramLayout) -> (u64, u64)) -> Vec<u8> {
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

/// Sets the name of a thread; only threads of the same process may.
pub fn set_comm(subject: &Subject, data: &[u8], writer: &dyn Principal) -> Result<(), Errno> {
    let own = Process::of(writer).ok_or(Errno::EINVAL)?;
    if own.id() != subject.process.id() {
        return Err(Errno::EINVAL);
    }
    let task = subject.task().ok_or(Errno::ESRCH)?;
    let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    profile::rename(&task, data.get(..end).unwrap_or_default());
    Ok(())
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
            let _ = write!(text, "{name:<26}{:<21}{:<21}", show(limit.soft), show(limit.hard));
            let width = if unit.is_empty() { 0 } else { 10 };
            let _ = writeln!(text, "{unit:<width$}");
        }
    }
    Ok(text.into_bytes())
}

fn namespace(subject: &Subject) -> Result<(Arc<Namespace>, Path), Errno> {
    let fs = subject.task().ok_or(Errno::EINVAL)?.fs();
    Ok((fs.namespace().clone(), fs.root()))
}

/// A mount, and its path from a root.
type SeenMount = (Arc<Mount>, Vec<u8>);

/// Returns the mounts that can be reached from the root of the process.
fn seen_mounts(subject: &Subject) -> Result<Vec<SeenMount>, Errno> {
    let (namespace, root) = namespace(subject)?;
    let seen = |mount: Arc<Mount>| {
        let top = Path { mount: mount.clone(), dentry: mount.root().clone() };
        let name = top.describe(&root);
        name.is_reachable.then_some((mount, name.text))
    };
    Ok(namespace.mounts().into_iter().filter_map(seen).collect())
}

/// Typical upper bound of the length of a line about a mount.
const MOUNT_LINE_BYTES: usize = 128;

pub fn mounts(subject: &Subject) -> Result<Vec<u8>, Errno> {
    let seen = seen_mounts(subject)?;
    let mut text = Text::with_room(seen.len() * MOUNT_LINE_BYTES);
    for (mount, place) in seen {
        let instance = mount.instance();
        text.put(mount.source()).put(" ").put(escaped(&place)).put(" ");
        text.put(instance.info().type_name).put(" ");
        let flags = mount.seen_flags().describe();
        // The first word is `rw` or `ro`.
        let (access, others) = flags.split_at_checked(2).unwrap_or((&flags, ""));
        text.put(access).put(instance.labels().describe()).put(others);
        text.put(instance.options()).put(" 0 0\n");
    }
    Ok(text.finish())
}

pub fn mountinfo(subject: &Subject) -> Result<Vec<u8>, Errno> {
    let seen = seen_mounts(subject)?;
    let mut text = Text::with_room(seen.len() * MOUNT_LINE_BYTES);
    for (mount, place) in seen {
        let parent = mount.at().map_or(mount.id(), |at| at.mount.id());
        let instance = mount.instance();
        let (major, minor) = instance.device();
        text.number(mount.id()).put(" ").number(parent).put(" ");
        text.number(major).put(":").number(minor).put(" ");
        text.put(escaped(&mount.root_name())).put(" ").put(escaped(&place)).put(" ");
        text.put(mount.seen_flags().describe()).put(" - ");
        text.put(instance.info().type_name).put(" ").put(mount.source());
        text.put(if instance.refuses_changes() { " ro" } else { " rw" });
        text.put(instance.labels().describe());
        text.put(instance.options()).put("\n");
    }
    Ok(text.finish())
}

/// Returns the mounted file systems as sentences.
pub fn mountstats(subject: &Subject) -> Result<Vec<u8>, Errno> {
    let mut text = Vec::new();
    for (mount, place) in seen_mounts(subject)? {
        text.extend_from_slice(format!("device {} mounted on ", mount.source()).as_bytes());
        text.extend_from_slice(&escaped(&place));
        let type_name = mount.instance().info().type_name;
        text.extend_from_slice(format!(" with fstype {type_name}\n").as_bytes());
    }
    Ok(text)
}

/// Returns the map in which every user and group id is mapped to itself.
pub fn identity_map(_: &Subject) -> Result<Vec<u8>, Errno> {
    Ok(format!("{:10} {:10} {:10}\n", 0, 0, u32::MAX).into_bytes())
}

/// Replaces blanks, newlines and backslashes by octal codes, as fstab(5) requires.
fn escaped(name: &[u8]) -> Cow<'_, [u8]> {
    const SPECIAL: &[u8] = b" \t\n\\";
    if !name.iter().any(|byte| SPECIAL.contains(byte)) {
        return Cow::Borrowed(name);
    }
    let mut text = Vec::new();
    for byte in name {
        match SPECIAL.contains(byte) {
            true => text.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
            false => text.push(*byte),
        }
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_escaped() {
        assert_eq!(&*escaped(b"/a b\\"), b"/a\\040b\\134");
        assert_eq!(&*escaped(b"/a/b"), b"/a/b");
    }
}
