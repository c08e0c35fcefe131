//! Writes that keep a file within `RLIMIT_FSIZE`.
use crate::{
    process::{
        Task,
        limits::{INFINITY, Resource},
    },
    signal::{self, Info},
};
use alloc::sync::Arc;
use vfs::{Errno, OpenFile, file::IoFlags, io::Source};

/// Writes to `file` at `offset`, or at the description's, as far as the limit allows.
///
/// # Errors
/// `EFBIG` with SIGXFSZ beyond the limit; else as write(2).
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
            bounded = Bounded::new(task, source, at, limit)?;
            &mut bounded
        }
    };
    match offset {
        Some(offset) => file.write_at(offset, source, flags),
        None => file.write_with(source, flags),
    }
}

/// The size no regular file may pass by this task's writes, if there is one.
fn size_limit(task: &Task, file: &OpenFile) -> Option<u64> {
    let limit = task.process.limits.soft(Resource::FileSize);
    (limit != INFINITY && file.vnode().is_regular()).then_some(limit)
}

/// A source cut where the file may not grow further.
struct Bounded<'a> {
    source: &'a mut dyn Source,
    room: usize,
}

impl<'a> Bounded<'a> {
    /// `EFBIG` and SIGXFSZ where nothing may be written at `at`.
    fn new(
        task: &Arc<Task>,
        source: &'a mut dyn Source,
        at: u64,
        limit: u64,
    ) -> Result<Bounded<'a>, Errno> {
        if at >= limit && source.remaining() > 0 {
            let _ = signal::send_to_task(task, Info::kernel(signal::SIGXFSZ));
            return Err(Errno::EFBIG);
        }
        let room = usize::try_from(limit.saturating_sub(at)).unwrap_or(usize::MAX);
        Ok(Bounded { source, room })
    }
}

impl Source for Bounded<'_> {
    fn remaining(&self) -> usize {
        self.source.remaining().min(self.room)
    }
    fn take(&mut self, out: &mut [u8]) -> Result<usize, Errno> {
        let wanted = out.len().min(self.room);
        let count = self.source.take(out.split_at_mut(wanted).0)?;
        self.room -= count;
        Ok(count)
    }
    fn take_into_frame(
        &mut self,
        frame: &rt::memory::Frame,
        offset: usize,
        length: usize,
    ) -> Result<usize, Errno> {
        let count = self.source.take_into_frame(frame, offset, length.min(self.room))?;
        self.room -= count;
        Ok(count)
    }
}
