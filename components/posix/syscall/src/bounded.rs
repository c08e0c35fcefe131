//! Writes that keep a file within `RLIMIT_FSIZE`.
use alloc::sync::Arc;
use process::{
    Task,
    limits::{INFINITY, Resource},
    signal::{self, Info},
};
use vfs::{
    Errno, OpenFile,
    file::IoFlags,
    io::{Limited, Source},
};

/// Writes to `file` at `offset`, or at the description's offset, up to the limit.
///
/// # Errors
/// `EFBIG` with SIGXFSZ beyond the limit; else those of write(2).
pub fn write(
    task: &Arc<Task>,
    file: &OpenFile,
    offset: Option<u64>,
    source: &mut dyn Source,
    flags: IoFlags,
) -> Result<usize, Errno> {
    let mut bounded;
    let source: &mut dyn Source = match size_limit(task, file) {
        None => source,
        Some(limit) => {
            let at = if flags.is_append {
                file.vnode().size()
            } else {
                offset.unwrap_or_else(|| file.offset())
            };
            bounded = bound(task, source, at, limit)?;
            &mut bounded
        }
    };
    match offset {
        Some(offset) => file.write_at(offset, source, flags),
        None => file.write_with(source, flags),
    }
}

/// Returns the number of bytes that may be written to `file` at `position`.
///
/// # Errors
/// `EFBIG` if none may be, with SIGXFSZ beyond the task's limit.
pub fn room(task: &Arc<Task>, file: &OpenFile, position: u64) -> Result<u64, Errno> {
    const LARGEST: u64 = i64::MAX as u64;
    if let Some(limit) = size_limit(task, file)
        && position as i64 >= limit.min(LARGEST) as i64
    {
        let _ = signal::send_to_task(task, Info::kernel(signal::SIGXFSZ));
        return Err(Errno::EFBIG);
    }
    if position == LARGEST {
        return Err(Errno::EFBIG);
    }
    let limit = size_limit(task, file).unwrap_or(LARGEST).min(LARGEST);
    Ok(limit.wrapping_sub(position))
}

/// Returns the greatest size that this task may give to the file, if there is a limit.
fn size_limit(task: &Task, file: &OpenFile) -> Option<u64> {
    let limit = task.process.limits.soft(Resource::FileSize);
    (limit != INFINITY && file.vnode().is_regular()).then_some(limit)
}

/// Sends SIGXFSZ. Returns the error that belongs to it.
pub fn too_large(task: &Arc<Task>) -> Errno {
    signal::send_own(task, signal::SIGXFSZ);
    Errno::EFBIG
}

/// Limits a source at position `at` to the limit.
///
/// # Errors
/// `EFBIG` with SIGXFSZ if no byte may be written.
fn bound<'a>(
    task: &Arc<Task>,
    source: &'a mut dyn Source,
    at: u64,
    limit: u64,
) -> Result<Limited<'a>, Errno> {
    if at >= limit && source.remaining() > 0 {
        return Err(too_large(task));
    }
    Ok(Limited::new(source, limit.saturating_sub(at)))
}
