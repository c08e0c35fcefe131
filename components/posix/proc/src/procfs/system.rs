//! Contents of `/proc`'s files about the whole system.
use super::disks;
use alloc::{format, string::String, vec::Vec};
use core::fmt::Write;
use interfaces::file_system::FileType;
use memory::{anonymous, commit, fault_counts};
use objects::devices;
use process::{
    object::ticks,
    system,
    totals::{self, Totals},
    tree,
};
use rt::sync::Once;
use vfs::{Errno, Principal, digits::Text, protection::Protection, security::Level};

const PAGE_KIB: u64 = 4;
const LARGE_KIB: u64 = 2048;
const CENTISECOND_NS: u64 = 10_000_000;

/// Memory in KiB, as a caller sees it.
#[derive(Default)]
struct MemoryUse {
    total: u64,
    free: u64,
    available: u64,
    cached: u64,
    shared: u64,
    stored: u64,
    dirty: u64,
    writing: u64,
    anonymous: u64,
    heap: u64,
    stacks: u64,
    tables: u64,
    large: u64,
    committed: u64,
}

impl MemoryUse {
    fn of_all() -> MemoryUse {
        let memory = rt::memory::statistics();
        let (cached, stored) = (vfs::cached_pages() * PAGE_KIB, vfs::stored_pages() * PAGE_KIB);
        let shared = anonymous::resident_pages() * PAGE_KIB;
        let pages = vfs::dirty_pages();
        let (total, free) = (memory.total_frames * PAGE_KIB, memory.free_frames * PAGE_KIB);
        let kernel = (memory.heap_frames + memory.stack_frames + memory.table_frames) * PAGE_KIB;
        MemoryUse {
            total,
            free,
            available: (free + stored).min(total),
            cached,
            shared,
            stored,
            dirty: pages.dirty * PAGE_KIB,
            writing: pages.writing * PAGE_KIB,
            // The rest after all other counts: pages of programs, and pages that devices use.
            anonymous: total.saturating_sub(free + kernel + cached + shared),
            heap: memory.heap_frames * PAGE_KIB,
            stacks: memory.stack_frames * PAGE_KIB,
            tables: memory.table_frames * PAGE_KIB,
            large: memory.large_pages * LARGE_KIB,
            committed: commit::committed_pages() * PAGE_KIB,
        }
    }
    /// As if the machine had only the processes of the level.
    fn of_level(totals: &Totals) -> MemoryUse {
        let total = rt::memory::statistics().total_frames * PAGE_KIB;
        let used = totals.anonymous_pages * PAGE_KIB;
        let free = total.saturating_sub(used);
        MemoryUse {
            total,
            free,
            available: free,
            anonymous: used,
            committed: used,
            ..MemoryUse::default()
        }
    }
    fn for_caller(reader: &dyn Principal) -> MemoryUse {
        totals::level_of(reader)
            .map_or_else(MemoryUse::of_all, |level| MemoryUse::of_level(&totals::of_level(level)))
    }
}

pub fn meminfo(reader: &dyn Principal) -> Vec<u8> {
    let memory = MemoryUse::for_caller(reader);
    let lines = [
        ("MemTotal", memory.total),
        ("MemFree", memory.free),
        ("MemAvailable", memory.available),
        ("Buffers", 0),
        ("Cached", memory.cached + memory.shared),
        ("SwapCached", 0),
        ("Active", memory.anonymous),
        ("Inactive", memory.cached + memory.shared),
        ("SwapTotal", 0),
        ("SwapFree", 0),
        ("Dirty", memory.dirty),
        ("Writeback", memory.writing),
        ("AnonPages", memory.anonymous),
        ("Shmem", memory.cached.saturating_sub(memory.stored) + memory.shared),
        ("Slab", memory.heap),
        ("SReclaimable", 0),
        ("SUnreclaim", memory.heap),
        ("KernelStack", memory.stacks),
        ("PageTables", memory.tables),
        ("CommitLimit", commit::limit_pages() * PAGE_KIB),
        ("Committed_AS", memory.committed),
        ("AnonHugePages", memory.large),
    ];
    const ROOM_BYTES: usize = 1024;
    const COLUMN: usize = 16;
    const WIDTH: usize = 8;
    let mut text = Text::with_room(ROOM_BYTES);
    for (name, kib) in lines {
        let blanks = COLUMN.saturating_sub(name.len() + 1);
        text.put(name).put(":").right(kib, blanks + WIDTH).put(" kB\n");
    }
    text.finish()
}

/// Appends `hundredths` of a unit with two digits after the point.
fn write_hundredths(text: &mut Text, hundredths: u64) -> &mut Text {
    text.number(hundredths / 100).put(".").two_digits(hundredths % 100)
}

/// The work of the processors, as a caller sees it.
struct Work {
    /// Times in programs, in the kernel and idle, in nanoseconds, of each processor.
    processors: Vec<(u64, u64, u64)>,
    switches: u64,
    interrupts: u64,
    forks: u64,
    running: u64,
}

impl Work {
    fn of_all() -> Work {
        let times = rt::system::processor_times();
        let (runnable, interrupts) = rt::system::runnable_and_interrupts();
        Work {
            processors: times
                .iter()
                .map(|time| (time.user_ns, time.system_ns, time.idle_ns))
                .collect(),
            switches: times.iter().map(|time| time.switches).sum(),
            interrupts,
            forks: tree::read().forks(),
            running: runnable as u64,
        }
    }
    /// Each processor has the same part of the level's time, and is idle in the rest.
    fn of_level(level: &Level) -> Work {
        let (totals, now) = (totals::of_level(level), rt::time::now().0);
        let count = rt::thread::processors().0.max(1);
        let part = |of: u64| of / count as u64;
        let (user, system) = (part(totals.user_ns), part(totals.system_ns));
        let idle = now.saturating_sub(user + system);
        Work {
            processors: (0..count).map(|_| (user, system, idle)).collect(),
            switches: totals.switches,
            interrupts: 0,
            forks: level.forks(),
            running: totals.runnable,
        }
    }
    fn for_caller(reader: &dyn Principal) -> Work {
        totals::level_of(reader).map_or_else(Work::of_all, Work::of_level)
    }
}

pub fn uptime(reader: &dyn Principal) -> Vec<u8> {
    let idle: u64 = match totals::level_of(reader) {
        Some(level) => Work::of_level(level).processors.iter().map(|(.., idle)| idle).sum(),
        None => rt::system::processor_times().iter().map(|time| time.idle_ns).sum(),
    };
    let mut text = Text::with_room(32);
    write_hundredths(&mut text, rt::time::now().0 / CENTISECOND_NS).put(" ");
    write_hundredths(&mut text, idle / CENTISECOND_NS).put("\n");
    text.finish()
}

pub fn loadavg(reader: &dyn Principal) -> Vec<u8> {
    let level = totals::level_of(reader);
    let (tasks, runnable) = match level.map(totals::of_level) {
        Some(totals) => (totals.tasks, totals.runnable),
        None => (tree::read().task_count() as u64, rt::system::runnable_threads() as u64),
    };
    let mut text = Text::with_room(32);
    for load in system::load(level, || runnable) {
        write_hundredths(&mut text, (load * 100) >> 11).put(" ");
    }
    text.number(runnable).put("/").number(tasks);
    text.put(" ").number(tree::last_id_for(reader)).put("\n");
    text.finish()
}

pub fn stat(reader: &dyn Principal) -> Vec<u8> {
    let work = Work::for_caller(reader);
    let line = |text: &mut Text, (user, system, idle): (u64, u64, u64)| {
        text.put(" ").number(ticks(user)).put(" 0 ").number(ticks(system));
        text.put(" ").number(ticks(idle)).put(" 0 0 0 0 0 0\n");
    };
    let sum = work
        .processors
        .iter()
        .fold((0, 0, 0), |sum, (user, system, idle)| (sum.0 + user, sum.1 + system, sum.2 + idle));
    let mut text = Text::with_room(256);
    line(text.put("cpu "), sum);
    for (index, times) in work.processors.iter().enumerate() {
        let text = text.put("cpu").number(index as u64);
        line(text, *times);
    }
    let boot_seconds = rt::time::wall_ns().saturating_sub(rt::time::now().0) / 1_000_000_000;
    text.put("intr ").number(work.interrupts).put("\nctxt ").number(work.switches);
    text.put("\nbtime ").number(boot_seconds).put("\nprocesses ").number(work.forks);
    text.put("\nprocs_running ").number(work.running).put("\nprocs_blocked 0\n");
    // There are no soft interrupts in Linux's sense.
    text.put("softirq 0 0 0 0 0 0 0 0 0 0 0\n");
    text.finish()
}

pub fn version() -> Vec<u8> {
    format!("Linux version {} (skerry@skerry) {}\n", system::RELEASE, system::VERSION).into_bytes()
}

pub fn file_locks() -> Vec<u8> {
    let mut text = String::new();
    for (number, lock) in (1..).zip(process::locks::report()) {
        let _ = writeln!(text, "{number}: {lock}");
    }
    text.into_bytes()
}

/// Returns the events of Linux's list that exist here, in its order. Nothing is ever swapped.
pub fn memory_events() -> Vec<u8> {
    let memory = rt::memory::statistics();
    let (pages, limits) = (vfs::dirty_pages(), vfs::limits());
    let (read_kib, written_kib) = disks::paged_kib();
    let faults = fault_counts::of_system();
    let lines = [
        ("nr_free_pages", memory.free_frames),
        ("nr_slab_unreclaimable", memory.heap_frames),
        ("nr_file_pages", vfs::cached_pages()),
        ("nr_dirty", pages.dirty),
        ("nr_writeback", pages.writing),
        ("nr_dirtied", pages.dirtied),
        ("nr_written", pages.written),
        ("nr_kernel_stack", memory.stack_frames * PAGE_KIB),
        ("nr_page_table_pages", memory.table_frames),
        ("nr_dirty_threshold", limits.hard),
        ("nr_dirty_background_threshold", limits.background),
        ("pgpgin", read_kib),
        ("pgpgout", written_kib),
        ("pswpin", 0),
        ("pswpout", 0),
        ("pgfault", faults.minor + faults.major),
        ("pgmajfault", faults.major),
    ];
    let mut text = String::new();
    for (name, count) in lines {
        let _ = writeln!(text, "{name} {count}");
    }
    text.into_bytes()
}

pub fn cmdline() -> Vec<u8> {
    format!("{}\n", rt::system::command_line()).into_bytes()
}

pub fn interrupts() -> Vec<u8> {
    let count = rt::thread::processors().0;
    let mut text = String::from("     ");
    for processor in 0..count {
        let _ = write!(text, "{:>11}", format!("CPU{processor}"));
    }
    text.push('\n');
    for (index, (name, counts)) in rt::system::interrupts().iter().enumerate() {
        let _ = write!(text, "{index:>4}:");
        for number in counts {
            let _ = write!(text, "{number:>11}");
        }
        let _ = writeln!(text, "  {name}");
    }
    text.into_bytes()
}

pub fn devices() -> Vec<u8> {
    let mut text = String::from("Character devices:\n");
    let mut majors: Vec<(u32, &str)> = devices::NODES
        .iter()
        .filter(|(_, file_type, ..)| *file_type == FileType::Character)
        .map(|(name, _, _, (major, _))| (*major, *name))
        .collect();
    // Serial ports have their major number even if the machine has none.
    majors.push((4, "ttyS"));
    majors.sort_unstable_by_key(|(major, _)| *major);
    for (major, name) in majors {
        let shown = match major {
            1 => "mem",
            5 => &format!("/dev/{name}"),
            devices::tunnel::MAJOR => "misc",
            _ => name.trim_end_matches(|letter: char| letter.is_ascii_digit()),
        };
        let line = format!("{major:3} {shown}\n");
        if !text.ends_with(&line) {
            text.push_str(&line);
        }
    }
    text.push_str("128 ptm\n136 pts\n\nBlock devices:\n");
    let _ = writeln!(text, "{:3} virtblk", devices::DISK_MAJOR);
    text.into_bytes()
}

fn line(mut name: Vec<u8>) -> Vec<u8> {
    name.push(b'\n');
    name
}

pub fn host_name() -> Vec<u8> {
    line(system::host_name())
}

pub fn domain_name() -> Vec<u8> {
    line(system::domain_name())
}

fn first_line(data: &[u8]) -> &[u8] {
    let end = data.iter().position(|byte| *byte == b'\n' || *byte == 0).unwrap_or(data.len());
    data.get(..end.min(system::NAME_BYTES_MAX)).unwrap_or_default()
}

pub fn set_host_name(data: &[u8]) -> Result<(), Errno> {
    system::set_host_name(first_line(data));
    Ok(())
}

pub fn set_domain_name(data: &[u8]) -> Result<(), Errno> {
    system::set_domain_name(first_line(data));
    Ok(())
}

/// Returns the level of a rule for sticky directories.
pub fn protection(which: Protection) -> Vec<u8> {
    format!("{}\n", which.level()).into_bytes()
}

/// Sets the level of a rule for sticky directories.
pub fn set_protection(which: Protection, data: &[u8]) -> Result<(), Errno> {
    let text = core::str::from_utf8(data).map_err(|_| Errno::EINVAL)?;
    which.set_level(text.trim().parse().map_err(|_| Errno::EINVAL)?)
}

/// Returns a random UUID of version 4.
pub fn uuid() -> Vec<u8> {
    let mut bytes = [0; 16];
    rt::entropy::fill(&mut bytes);
    let number = u128::from_be_bytes(bytes) & !(0xf << 76) & !(3 << 62) | 4 << 76 | 2 << 62;
    let hex = format!("{number:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}\n", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
        .into_bytes()
}

pub fn boot_id() -> Vec<u8> {
    static BOOT_ID: Once<Vec<u8>> = Once::new();
    BOOT_ID.get_or_init(uuid).clone()
}

/// Returns counts of pages of files under way, and of the bytes that components copied (contents of
/// files are not copied).
pub fn pages() -> Vec<u8> {
    let (pages, limits) = (vfs::dirty_pages(), vfs::limits());
    let rows = [
        ("cached", vfs::cached_pages()),
        ("stored", vfs::stored_pages()),
        ("dirty", pages.dirty),
        ("writing", pages.writing),
        ("dirty_background", limits.background),
        ("dirty_hard", limits.hard),
        ("soiled_total", pages.dirtied),
        ("written_total", pages.written),
        ("read_total", pages.read),
        ("ends_awaited_total", pages.awaited),
        ("ends_unawaited_total", pages.unawaited),
        ("copied_bytes_total", rt::memory::copied_bytes()),
    ];
    let lines: String = rows.iter().map(|(name, value)| format!("{name} {value}\n")).collect();
    lines.into_bytes()
}

/// Returns the time that each processor spent on each activity since boot, in nanoseconds.
pub fn processors() -> Vec<u8> {
    let mut text =
        format!("{:<9} {:>16} {:>16} {:>12}\n", "processor", "busy_ns", "idle_ns", "switches");
    for (index, time) in rt::system::processor_times().iter().enumerate() {
        let (busy, idle, switches) = (time.user_ns + time.system_ns, time.idle_ns, time.switches);
        let _ = writeln!(text, "{index:<9} {busy:>16} {idle:>16} {switches:>12}");
    }
    text.into_bytes()
}

pub fn objects() -> Vec<u8> {
    let mut text = format!("{:<24}{:>12}{:>14}\n", "object", "live", "made");
    for count in rt::system::objects() {
        let _ = writeln!(text, "{:<24}{:>12}{:>14}", count.name, count.live, count.made);
    }
    let (processes, tasks, forks) = {
        let tree = tree::read();
        (tree.processes().count() as u64, tree.task_count() as u64, tree.forks())
    };
    let memory = rt::memory::statistics();
    let pools = rt::memory::pool_usage();
    let (ptys, ptys_made) = objects::tty::pty::counts();
    let (sockets, sockets_made) = objects::socket::common::counts();
    let rest = [
        ("pty", ptys, ptys_made),
        ("socket", sockets, sockets_made),
        ("process", processes, forks),
        ("task", tasks, forks),
        ("vnode", vfs::vnode_count(), 0),
        ("name", vfs::name_count(), 0),
        ("cached_pages", vfs::cached_pages(), 0),
        ("pool frame", pools.used, 0),
        ("pool_frames", pools.frames, 0),
        ("heap_frames", memory.heap_frames, 0),
        ("table_frames", memory.table_frames, 0),
        ("free_frames", memory.free_frames, 0),
    ];
    for (name, live, made) in rest {
        let _ = writeln!(text, "{name:<24}{live:>12}{made:>14}");
    }
    text.into_bytes()
}

pub fn locks() -> Vec<u8> {
    let mut text = format!(
        "{:<24}{:>12}{:>10}{:>12}{:>12}{:>12}{:>14}\n",
        "class", "attempts", "misses", "reschedules", "shortest_ns", "longest_ns", "total_ns"
    );
    for report in rt::system::locks() {
        let _ = writeln!(
            text,
            "{:<24}{:>12}{:>10}{:>12}{:>12}{:>12}{:>14}",
            report.name,
            report.attempts,
            report.misses,
            report.reschedules,
            report.shortest_ns,
            report.longest_ns,
            report.total_ns
        );
    }
    text.into_bytes()
}
