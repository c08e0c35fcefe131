//! [`QueueFile`]: an open message queue. Read as a file it tells of itself; messages go by the `mq_` calls.
use super::{PosixQueue, Times};
use alloc::{format, string::String, sync::Arc};
use core::sync::atomic::Ordering;
use process::Process;
use vfs::{
    Errno, Principal,
    file::{File, IoFlags, Ready},
    io::Sink,
    poll::PollTable,
};

/// SIGEV_SIGNAL and SIGEV_NONE.
const BY_SIGNAL: i32 = 0;
const NOT_AT_ALL: i32 = 1;

/// An open queue.
pub struct QueueFile(Arc<PosixQueue>);

impl QueueFile {
    /// Makes the file of `queue`.
    pub fn new(queue: Arc<PosixQueue>) -> QueueFile {
        QueueFile(queue)
    }
    /// Returns the queue.
    pub fn queue(&self) -> &PosixQueue {
        &self.0
    }
    fn text(&self) -> String {
        let state = self.0.state.lock();
        let (how, signal, process) = match &state.notice {
            None => (0, 0, 0),
            Some(notice) => match &notice.signal {
                Some(signal) => (BY_SIGNAL, signal.number, notice.id),
                None => (NOT_AT_ALL, 0, notice.id),
            },
        };
        let bytes = state.queue.bytes();
        format!("QSIZE:{bytes:<10} NOTIFY:{how:<5} SIGNO:{signal:<5} NOTIFY_PID:{process:<6}\n")
    }
}

impl File for QueueFile {
    fn descriptor_closed(&self, caller: &dyn Principal) {
        if super::NOTICES.load(Ordering::Relaxed) != 0
            && let Some(process) = Process::of(caller)
        {
            self.0.forget_notice(process.id());
        }
    }
    fn is_seekable(&self) -> bool {
        true
    }
    fn is_watchable(&self) -> bool {
        true
    }
    fn size(&self) -> u64 {
        super::FILE_BYTES
    }
    fn read(&self, offset: u64, sink: &mut dyn Sink, _: IoFlags) -> Result<usize, Errno> {
        let text = self.text();
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
        let rest = text.as_bytes().get(start..).unwrap_or_default();
        let count = if rest.is_empty() { 0 } else { sink.put(rest)? };
        self.0.touch(Times::Access);
        Ok(count)
    }
    /// Has no effect, as on Linux, which only changes the size that stat(2) reports.
    fn truncate(&self, _: u64, _: &dyn Principal) -> Result<(), Errno> {
        Ok(())
    }
    fn poll(&self, table: Option<&PollTable>, _: &dyn Principal) -> Ready {
        if let Some(table) = table {
            table.add(&self.0.changed);
        }
        let state = self.0.state.lock();
        let mut ready = Ready::empty();
        ready.set(Ready::IN | Ready::READ_NORMAL, state.queue.count() > 0);
        ready.set(Ready::OUT | Ready::WRITE_NORMAL, !state.queue.is_full());
        ready
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}
