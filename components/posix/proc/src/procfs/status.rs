//! The content of `/proc/PID/status`.
use super::{
    process::Subject,
    report::{command, state},
};
use alloc::{format, string::String, sync::Arc, vec::Vec};
use core::{fmt::Write, sync::atomic::Ordering};
use memory::AddressSpace;
use process::{Task, signal::action, tree};
use vfs::{Errno, digits::Text};

const PAGE_KIB: u64 = 4;

#[derive(Default)]
pub struct SignalSets {
    pub pending: u64,
    shared: u64,
    pub blocked: u64,
    pub ignored: u64,
    pub caught: u64,
}

impl SignalSets {
    pub fn of(subject: &Subject) -> SignalSets {
        let process = &subject.process;
        let mut sets =
            SignalSets { shared: process.signals.lock().queue.pending(), ..SignalSets::default() };
        if let Some(task) = subject.task() {
            let signals = task.signals.lock();
            (sets.pending, sets.blocked) = (signals.queue.pending(), signals.mask);
        }
        let state = process.signals.lock();
        let actions = state.actions.lock();
        for (signal, handler) in actions.handlers() {
            match handler {
                action::DEFAULT => {}
                action::IGNORE => sets.ignored |= process::signal::bit(signal),
                _ => sets.caught |= process::signal::bit(signal),
            }
        }
        sets
    }
}

pub fn status(subject: &Subject) -> Result<Vec<u8>, Errno> {
    const ROOM_BYTES: usize = 2048;
    let process = &subject.process;
    let id = subject.thread.as_ref().map_or(process.id(), |task| task.id());
    let (letter, word) = state(subject);
    let mut text = Text::with_room(ROOM_BYTES);
    let task = subject.known_task();
    text.put("Name:\t").put(command(subject)).put("\n");
    if let Some(task) = subject.task().filter(tree::is_alive) {
        text.put(format!("Umask:\t{:04o}\n", task.fs().umask()));
    }
    text.put("State:\t").put([letter as u8]).put(" (").put(word).put(")\n");
    text.line("Tgid", process.id()).put("Ngid:\t0\n").line("Pid", id);
    text.line("PPid", process.parent_id()).put("TracerPid:\t0\n");
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
    text.line("voluntary_ctxt_switches", time.voluntary_switches);
    text.line("nonvoluntary_ctxt_switches", time.forced_switches);
    Ok(text.finish())
}

fn write_identity(text: &mut Text, task: &Arc<Task>) {
    let credentials = task.credentials();
    for (name, ids) in [("Uid", credentials.user), ("Gid", credentials.group)] {
        text.put(name).put(":");
        for id in [ids.real, ids.effective, ids.saved, ids.fs] {
            text.put("\t").number(id);
        }
        text.put("\n");
    }
    let has_ended = !tree::is_alive(task);
    let size = if has_ended { 0 } else { task.files().size().max(64) };
    text.line("FDSize", size as u64).put("Groups:\t");
    // Linux ends the list with a blank, even an empty one.
    for group in credentials.groups.iter() {
        text.number(*group).put(" ");
    }
    text.put(if credentials.groups.is_empty() { " \n" } else { "\n" });
    let process = &task.process;
    text.line("NStgid", process.id()).line("NSpid", task.id());
    text.line("NSpgid", process.group()).line("NSsid", process.session().id());
}

fn write_memory(text: &mut Text, memory: &AddressSpace) {
    let (sizes, pages) = (memory.sizes(), memory.object_pages());
    let anonymous = sizes.resident.saturating_sub(pages.files + pages.shared_memory);
    let lines = [
        ("VmPeak", sizes.peak_total),
        ("VmSize", sizes.total),
        ("VmLck", sizes.locked),
        ("VmPin", 0),
        ("VmHWM", sizes.peak_resident),
        ("VmRSS", sizes.resident),
        ("RssAnon", anonymous),
        ("RssFile", pages.files),
        ("RssShmem", pages.shared_memory),
        ("VmData", sizes.data),
        ("VmStk", sizes.stack),
        ("VmExe", sizes.code),
        ("VmLib", sizes.libraries),
        ("VmPTE", sizes.tables),
        ("VmSwap", 0),
    ];
    for (name, pages) in lines {
        text.put(name).put(":\t").right(pages * PAGE_KIB, 8).put(" kB\n");
    }
    text.put("HugetlbPages:\t       0 kB\nCoreDumping:\t0\n");
    text.line("THP_enabled", u64::from(memory.has_large_pages()));
}

fn write_signals(text: &mut Text, subject: &Subject) {
    let sets = SignalSets::of(subject);
    let limit = subject.process.limits.soft(process::limits::Resource::PendingSignals);
    let queued = sets.pending.count_ones() + sets.shared.count_ones();
    text.line("Threads", subject.process.task_count().max(1) as u64);
    text.put("SigQ:\t").number(queued).put("/").number(limit).put("\n");
    let lines = [
        ("SigPnd", sets.pending),
        ("ShdPnd", sets.shared),
        ("SigBlk", sets.blocked),
        ("SigIgn", sets.ignored),
        ("SigCgt", sets.caught),
    ];
    for (name, set) in lines {
        write_set(text, name, set);
    }
}

/// Writes a line with a set of 64 members.
fn write_set(text: &mut Text, name: &str, set: u64) {
    text.put(name).put(":\t").hex(set, 16).put("\n");
}

fn write_rights(text: &mut Text, task: &Task) {
    let sets = task.credentials().capabilities;
    let lines = [
        ("CapInh", sets.inheritable),
        ("CapPrm", sets.permitted),
        ("CapEff", sets.effective),
        ("CapBnd", sets.bounding),
        ("CapAmb", sets.ambient),
    ];
    for (name, set) in lines {
        write_set(text, name, set.bits());
    }
    let count = rt::thread::processors().0.min(64) as u32;
    let allowed = task.affinity.load(Ordering::Relaxed) & (u64::MAX >> (64 - count.max(1)));
    let guard = task.guard();
    let (mode, filters) = guard.map_or((0, 0), |guard| (guard.mode(), guard.filters()));
    text.line("NoNewPrivs", u64::from(task.no_new_privileges.load(Ordering::Relaxed)));
    text.line("Seccomp", mode as u64).line("Seccomp_filters", filters as u64);
    text.put("Cpus_allowed:\t").hex(allowed, 1).put("\nCpus_allowed_list:\t");
    text.put(processor_list(allowed)).put("\nMems_allowed:\t1\nMems_allowed_list:\t0\n");
}

/// Returns the processors of a mask as ranges: `0-2,5`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_listed_as_ranges() {
        assert_eq!(processor_list(0b10_0111), "0-2,5");
        assert_eq!(processor_list(1), "0");
        assert_eq!(processor_list(u64::MAX), "0-63");
    }
}
