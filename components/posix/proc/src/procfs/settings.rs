//! `/proc/sys/fs`, and the settings of `/proc/sys/vm` and `/proc/sys/kernel` that have no effect.
use alloc::{format, vec::Vec};
use core::{
    str::FromStr,
    sync::atomic::{AtomicBool, Ordering},
};
use memory::{
    commit::{self, Policy},
    map,
    setting::{self, Setting},
};
use objects::pipe::limits::PipeLimit;
use process::{Task, files::notes, system, totals, tree};
use rt::{lock_class, sync::Mutex, thread};
use vfs::{Capabilities, Errno, Principal, credentials::OVERFLOW_ID};

lock_class! {
    static CORE = "settings.core_pattern";
}

/// `overflowuid` and `overflowgid` of `fs`, then those of `kernel`: ids for files and processes without one. They have no
/// effect.
pub static OVERFLOW: [Setting; 4] = [const { Setting::new(OVERFLOW_ID as i64, 0, 65_535) }; 4];
/// `core_uses_pid` and `core_pipe_limit`, which have no effect: no core is dumped.
pub static CORE_USES_ID: Setting = Setting::int(0);
/// The value of `core_pipe_limit`; see [`CORE_USES_ID`].
pub static CORE_PIPE_LIMIT: Setting = Setting::int(0);
/// The value of `sched_rr_timeslice_ms`; see [`slice`].
pub static SLICE_MS: Setting = Setting::int(SLICE_MS_DEFAULT);
const SLICE_MS_DEFAULT: i32 = (thread::Policy::SLICE_NS / 1_000_000) as i32;
/// The value set as `file-max`; 0 if none was.
static FILE_MAX: Setting = Setting::new(0, 0, i64::MAX);

/// Returns a number and a newline.
pub fn number(value: impl core::fmt::Display) -> Vec<u8> {
    format!("{value}\n").into_bytes()
}

/// Does `drop_caches`: drops clean pages of files (1), names and other objects (2), or both (3); here each value drops
/// everything that is kept for speed only.
pub fn drop_caches(data: &[u8]) -> Result<(), Errno> {
    if !matches!(data.trim_ascii(), b"1" | b"2" | b"3") {
        return Err(Errno::EINVAL);
    }
    process::futex::shrink();
    vfs::drop_caches();
    Ok(())
}

/// Returns the most descriptions: as many as a tenth of memory has room for, as on Linux.
fn descriptions_max() -> u64 {
    const KIB_A_DESCRIPTION: u64 = 10;
    const KIB_A_FRAME: u64 = 4;
    rt::memory::statistics().total_frames * KIB_A_FRAME / KIB_A_DESCRIPTION
}

/// Returns `file-max`: the number of descriptions that was set, or the one that memory allows. It has no effect.
pub fn file_max() -> Vec<u8> {
    match FILE_MAX.get() {
        0 => number(descriptions_max()),
        said => number(said),
    }
}

/// Sets it.
pub fn set_file_max(data: &[u8]) -> Result<(), Errno> {
    FILE_MAX.set(data)
}

pub fn file_count(reader: &dyn Principal) -> Vec<u8> {
    let count = match totals::level_of(reader) {
        Some(level) => totals::of_level(level).descriptors,
        None => vfs::OpenFile::count() as u64,
    };
    format!("{count}\t0\t{}\n", descriptions_max()).into_bytes()
}

/// Returns a limit of pipes.
pub fn pipe_limit(which: PipeLimit) -> Vec<u8> {
    number(which.get())
}

/// Sets it.
pub fn set_pipe_limit(which: PipeLimit, data: &[u8]) -> Result<(), Errno> {
    which.set(parsed(data)?)
}

/// Parses the written number, or the first of several.
///
/// # Errors
/// `EINVAL` if it is invalid.
pub fn parsed<T: FromStr>(data: &[u8]) -> Result<T, Errno> {
    let text = core::str::from_utf8(data).map_err(|_| Errno::EINVAL)?;
    let first = text.split_ascii_whitespace().next().ok_or(Errno::EINVAL)?;
    first.parse().map_err(|_| Errno::EINVAL)
}

/// Returns `overcommit_memory`: the policy by which requests for memory are refused.
pub fn overcommit() -> Vec<u8> {
    number(commit::policy() as u8)
}

/// Sets it.
pub fn set_overcommit(data: &[u8]) -> Result<(), Errno> {
    commit::set_policy(match parsed(data)? {
        0_u8 => Policy::Heuristic,
        1 => Policy::Always,
        2 => Policy::Strict,
        _ => return Err(Errno::EINVAL),
    });
    Ok(())
}

/// Returns `overcommit_ratio`: the percentage of memory that may be committed; 0 if the limit is set in KiB.
pub fn overcommit_ratio() -> Vec<u8> {
    number(match commit::limit() {
        commit::CommitLimit::Percent(percent) => percent,
        commit::CommitLimit::Kib(_) => 0,
    })
}

/// Sets it.
pub fn set_overcommit_ratio(data: &[u8]) -> Result<(), Errno> {
    let percent: u32 = parsed(data)?;
    commit::set_limit(commit::CommitLimit::Percent(percent.into()));
    Ok(())
}

/// Returns `overcommit_kbytes`: the KiB that may be committed; 0 if the limit is set as a percentage.
pub fn overcommit_kib() -> Vec<u8> {
    number(match commit::limit() {
        commit::CommitLimit::Percent(_) => 0,
        commit::CommitLimit::Kib(kib) => kib,
    })
}

/// Sets it.
pub fn set_overcommit_kib(data: &[u8]) -> Result<(), Errno> {
    commit::set_limit(commit::CommitLimit::Kib(parsed(data)?));
    Ok(())
}

fn set_switch(switch: &AtomicBool, data: &[u8]) -> Result<(), Errno> {
    let is_on = match data.trim_ascii() {
        b"0" => false,
        b"1" => true,
        _ => return Err(Errno::EINVAL),
    };
    switch.store(is_on, Ordering::Relaxed);
    Ok(())
}

/// Returns `ctrl-alt-del`: whether the keys restart the machine at once, or signal init (reboot(2)).
pub fn restart_keys() -> Vec<u8> {
    number(u8::from(system::RESTARTS_BY_KEYS.load(Ordering::Relaxed)))
}

/// Sets it.
pub fn set_restart_keys(data: &[u8]) -> Result<(), Errno> {
    set_switch(&system::RESTARTS_BY_KEYS, data)
}

/// Returns `dir-notify-enable`: whether directory notifications are enabled (fcntl's F_NOTIFY).
pub fn notes() -> Vec<u8> {
    number(u8::from(notes::IS_ENABLED.load(Ordering::Relaxed)))
}

/// Sets it.
pub fn set_notes(data: &[u8]) -> Result<(), Errno> {
    set_switch(&notes::IS_ENABLED, data)
}

/// Returns `dmesg_restrict`: whether only processes with CAP_SYSLOG may read the kernel's log.
pub fn log_secrecy() -> Vec<u8> {
    number(u8::from(system::HIDES_LOG.load(Ordering::Relaxed)))
}

/// Sets it.
pub fn set_log_secrecy(data: &[u8]) -> Result<(), Errno> {
    set_switch(&system::HIDES_LOG, data)
}

/// Bytes of `core_pattern`, without its end.
const PATTERN_BYTES_MAX: usize = 127;

/// The value set as `core_pattern`; `None` if none was.
static PATTERN: Mutex<Option<Vec<u8>>> = Mutex::new(&CORE, None);

/// Returns `core_pattern`: the file name for core dumps. It has no effect.
pub fn core_pattern() -> Vec<u8> {
    let mut text = PATTERN.lock().clone().unwrap_or_else(|| b"core".to_vec());
    text.push(b'\n');
    text
}

/// Sets it.
pub fn set_core_pattern(data: &[u8]) -> Result<(), Errno> {
    let line = data.split(|byte| matches!(byte, 0 | b'\n')).next().unwrap_or_default();
    let kept = line.get(..line.len().min(PATTERN_BYTES_MAX)).unwrap_or_default();
    *PATTERN.lock() = Some(kept.to_vec());
    Ok(())
}

/// Returns `printk`: the level of the console, the level of a message without one, the lowest level of the console and its
/// initial one.
pub fn console_levels() -> Vec<u8> {
    let [console, message, least, first] = system::CONSOLE_LEVELS.each_ref().map(Setting::get);
    format!("{console}\t{message}\t{least}\t{first}\n").into_bytes()
}

/// Sets as many of these levels as are given.
pub fn set_console_levels(data: &[u8]) -> Result<(), Errno> {
    let levels = &system::CONSOLE_LEVELS;
    let mut count = 0;
    for (level, value) in levels.iter().zip(setting::numbers(data)) {
        let value = i32::try_from(value?).map_err(|_| Errno::EINVAL)?;
        level.put(i64::from(value));
        count += 1;
    }
    if count == 0 { Err(Errno::EINVAL) } else { Ok(()) }
}

/// Returns `tainted`: bits that were set, and are never cleared.
pub fn taints() -> Vec<u8> {
    number(system::TAINTS.load(Ordering::Relaxed))
}

/// Sets more of these bits.
pub fn set_taints(data: &[u8]) -> Result<(), Errno> {
    const KNOWN: u64 = (1 << 20) - 1;
    let bits = setting::first_number(data)?;
    system::TAINTS.fetch_or(bits as u64 & KNOWN, Ordering::Relaxed);
    Ok(())
}

/// Returns `ns_last_pid`: the last id that a task got.
pub fn last_id(reader: &dyn Principal) -> Vec<u8> {
    number(tree::last_id_for(reader))
}

/// Makes the next task get the id after this one.
pub fn set_last_id(data: &[u8], writer: &dyn Principal) -> Result<(), Errno> {
    if !writer.has(Capabilities::CHECKPOINT_RESTORE) && !writer.has(Capabilities::SYS_ADMIN) {
        return Err(Errno::EPERM);
    }
    let id = setting::first_number(data)?;
    let id = u32::try_from(id).ok().filter(|id| i64::from(*id) <= tree::ID_MAX.get());
    let level = Task::of(writer).ok_or(Errno::EPERM)?.process.level();
    tree::write().set_last_id(level, id.ok_or(Errno::EINVAL)?);
    Ok(())
}

/// Returns `sched_rr_timeslice_ms`: the reported time slice of a task with SCHED_RR. It has no effect.
pub fn slice() -> Vec<u8> {
    SLICE_MS.text()
}

/// Sets `sched_rr_timeslice_ms`; a value that is not positive means the default.
pub fn set_slice(data: &[u8]) -> Result<(), Errno> {
    SLICE_MS.set(data)?;
    if SLICE_MS.get() <= 0 {
        SLICE_MS.put(SLICE_MS_DEFAULT.into());
    }
    Ok(())
}

/// Returns `mmap_min_addr`: the lowest address that may be mapped.
pub fn lowest() -> Vec<u8> {
    map::LOWEST.text()
}

/// Sets it.
pub fn set_lowest(data: &[u8], writer: &dyn Principal) -> Result<(), Errno> {
    match writer.has(Capabilities::SYS_RAWIO) {
        true => map::LOWEST.set(data),
        false => Err(Errno::EPERM),
    }
}
