//! `/proc/sys/fs` and the settings of `/proc/sys/vm` and `/proc/sys/kernel` that are only told.
use crate::{files::slots::DESCRIPTORS_MAX, inotify, pipe};
use alloc::{format, vec::Vec};
use vfs::Errno;

/// A number and a newline.
fn number(value: impl core::fmt::Display) -> Vec<u8> {
    format!("{value}\n").into_bytes()
}

/// `drop_caches`: clean pages of files (1), names and other objects (2), both (3); here any is both.
pub fn drop_caches(data: &[u8]) -> Result<(), Errno> {
    if !matches!(data.trim_ascii(), b"1" | b"2" | b"3") {
        return Err(Errno::EINVAL);
    }
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

pub fn pipe_size_max() -> Vec<u8> {
    number(pipe::SIZE_MAX)
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
