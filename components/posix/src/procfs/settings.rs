//! `/proc/sys/fs` and the settings of `/proc/sys/vm` and `/proc/sys/kernel` that are only told.
use crate::{
    files::{notes, slots::DESCRIPTORS_MAX},
    inotify,
    memory::commit::{self, Policy},
    pipe::limits::Limit,
    system,
};
use alloc::{format, vec::Vec};
use core::{
    str::FromStr,
    sync::atomic::{AtomicBool, Ordering},
};
use vfs::Errno;

/// A number and a newline.
pub fn number(value: impl core::fmt::Display) -> Vec<u8> {
    format!("{value}\n").into_bytes()
}

/// `drop_caches`: clean pages of files (1), names and other objects (2), both (3); here any is all that is kept for speed alone.
pub fn drop_caches(data: &[u8]) -> Result<(), Errno> {
    if !matches!(data.trim_ascii(), b"1" | b"2" | b"3") {
        return Err(Errno::EINVAL);
    }
    crate::futex::shrink();
    vfs::drop_caches();
    Ok(())
}

/// Descriptions there may be: as many as memory allows, by Linux's measure of a tenth of it.
fn descriptions_max() -> u64 {
    const KIB_A_DESCRIPTION: u64 = 10;
    const KIB_A_FRAME: u64 = 4;
    rt::memory::statistics().total_frames * KIB_A_FRAME / KIB_A_DESCRIPTION
}

pub fn file_max() -> Vec<u8> {
    number(descriptions_max())
}

pub fn file_count() -> Vec<u8> {
    format!("{}\t0\t{}\n", vfs::OpenFile::count(), descriptions_max()).into_bytes()
}

pub fn descriptors_max() -> Vec<u8> {
    number(DESCRIPTORS_MAX)
}

/// A limit of pipes.
pub fn pipe_limit(which: Limit) -> Vec<u8> {
    number(which.get())
}

/// Sets it.
pub fn set_pipe_limit(which: Limit, data: &[u8]) -> Result<(), Errno> {
    which.set(parsed(data)?)
}

pub fn queued_events_max() -> Vec<u8> {
    number(inotify::EVENTS_MAX)
}

pub fn inotify_instances_max() -> Vec<u8> {
    number(inotify::INSTANCES_MAX)
}

pub fn inotify_watches_max() -> Vec<u8> {
    number(inotify::WATCHES_MAX)
}

pub fn overflow_id() -> Vec<u8> {
    number(65_534)
}

/// The number that was written, or the first of several.
///
/// # Errors
/// `EINVAL` for what is none.
pub fn parsed<T: FromStr>(data: &[u8]) -> Result<T, Errno> {
    let text = core::str::from_utf8(data).map_err(|_| Errno::EINVAL)?;
    let first = text.split_ascii_whitespace().next().ok_or(Errno::EINVAL)?;
    first.parse().map_err(|_| Errno::EINVAL)
}

/// `overcommit_memory`: what is refused.
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

/// `overcommit_ratio`: hundredths of memory that are promised at most; 0 where that is said in KiB.
pub fn overcommit_ratio() -> Vec<u8> {
    number(match commit::limit() {
        commit::Limit::Percent(percent) => percent,
        commit::Limit::Kib(_) => 0,
    })
}

/// Sets it.
pub fn set_overcommit_ratio(data: &[u8]) -> Result<(), Errno> {
    let percent: u32 = parsed(data)?;
    commit::set_limit(commit::Limit::Percent(percent.into()));
    Ok(())
}

/// `overcommit_kbytes`: KiB that are promised at most; 0 where that is said in hundredths.
pub fn overcommit_kib() -> Vec<u8> {
    number(match commit::limit() {
        commit::Limit::Percent(_) => 0,
        commit::Limit::Kib(kib) => kib,
    })
}

/// Sets it.
pub fn set_overcommit_kib(data: &[u8]) -> Result<(), Errno> {
    commit::set_limit(commit::Limit::Kib(parsed(data)?));
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

/// `ctrl-alt-del`: whether the keys restart the machine at once, or ask init to (reboot(2)).
pub fn restart_keys() -> Vec<u8> {
    number(u8::from(system::RESTARTS_BY_KEYS.load(Ordering::Relaxed)))
}

/// Sets it.
pub fn set_restart_keys(data: &[u8]) -> Result<(), Errno> {
    set_switch(&system::RESTARTS_BY_KEYS, data)
}

/// `dir-notify-enable`: whether directories send notes (fcntl's F_NOTIFY).
pub fn notes() -> Vec<u8> {
    number(u8::from(notes::IS_ENABLED.load(Ordering::Relaxed)))
}

/// Sets it.
pub fn set_notes(data: &[u8]) -> Result<(), Errno> {
    set_switch(&notes::IS_ENABLED, data)
}

/// `dmesg_restrict`: whether only who has CAP_SYSLOG reads the kernel's log.
pub fn log_secrecy() -> Vec<u8> {
    number(u8::from(system::HIDES_LOG.load(Ordering::Relaxed)))
}

/// Sets it.
pub fn set_log_secrecy(data: &[u8]) -> Result<(), Errno> {
    set_switch(&system::HIDES_LOG, data)
}
