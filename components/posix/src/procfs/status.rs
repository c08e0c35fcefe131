//! `/proc/PID/status`.
use super::{
    process::Subject,
    report::{command, state},
};
use crate::{
    memory::AddressSpace,
    process::{Task, tree},
    signal::{LAST, action},
};
use alloc::{string::String, sync::Arc, vec::Vec};
use core::{fmt::Write, sync::atomic::Ordering};
use vfs::Errno;

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
    let task = subject.known_task();
    let _ = writeln!(text, "Name:\t{}", command(subject));
    if let Some(task) = subject.task().filter(tree::is_alive) {
        let _ = writeln!(text, "Umask:\t{:04o}", task.fs().umask());
    }
    let _ = writeln!(text, "State:\t{letter} ({word})");
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

fn write_identity(text: &mut String, task: &Arc<Task>) {
    let credentials = task.credentials();
    for (name, ids) in [("Uid", credentials.user), ("Gid", credentials.group)] {
        let _ =
            writeln!(text, "{name}:\t{}\t{}\t{}\t{}", ids.real, ids.effective, ids.saved, ids.fs);
    }
    let has_ended = !tree::is_alive(task);
    let size = if has_ended { 0 } else { task.files().size().max(64) };
    let _ = write!(text, "FDSize:\t{size}\nGroups:\t");
    // Linux ends the list with a blank, even an empty one.
    for group in credentials.groups.iter() {
        let _ = write!(text, "{group} ");
    }
    text.push_str(if credentials.groups.is_empty() { " \n" } else { "\n" });
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
        let _ = writeln!(text, "{name}:\t{:>8} kB", pages * PAGE_KIB);
    }
    text.push_str("HugetlbPages:\t       0 kB\nCoreDumping:\t0\n");
    let _ = writeln!(text, "THP_enabled:\t{}", u8::from(memory.has_large_pages()));
}

fn write_signals(text: &mut String, subject: &Subject) {
    let sets = SignalSets::of(subject);
    let limit = subject.process.limits.soft(crate::process::limits::Resource::PendingSignals);
    let queued = sets.pending.count_ones() + sets.shared.count_ones();
    let _ = writeln!(
        text,
        "Threads:\t{}\nSigQ:\t{queued}/{limit}",
        subject.process.tasks().len().max(1)
    );
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
    let no_new = u8::from(task.no_new_privileges.load(Ordering::Relaxed));
    let count = rt::thread::processors().0.min(64) as u32;
    let allowed = task.affinity.load(Ordering::Relaxed) & (u64::MAX >> (64 - count.max(1)));
    let guard = task.guard();
    let (mode, filters) = guard.map_or((0, 0), |guard| (guard.mode(), guard.filters()));
    let _ = writeln!(text, "NoNewPrivs:\t{no_new}\nSeccomp:\t{mode}\nSeccomp_filters:\t{filters}");
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
