//! [`EventCounter`]: the file of eventfd2(2).
use alloc::{format, string::String};
use core::sync::atomic::{AtomicU64, Ordering};
use rt::{lock_class, sync::Mutex, thread::Woken};
use vfs::{
    Errno, Principal,
    file::{File, IoFlags, Ready},
    io::{Sink, Source},
    poll::{PollTable, WaitQueue},
};

lock_class! {
    static COUNT = "eventfd.count";
}

/// Bytes of the number read and written.
const NUMBER_BYTES: usize = size_of::<u64>();
/// Greatest value of the counter.
const COUNT_MAX: u64 = u64::MAX - 1;

/// The amount that a read takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// A read returns the whole count.
    Whole,
    /// A read returns one (EFD_SEMAPHORE).
    One,
}

/// A counter that can be waited for.
pub struct EventCounter {
    count: Mutex<u64>,
    mode: ReadMode,
    id: u64,
    changed: WaitQueue,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

impl EventCounter {
    /// Makes a counter that begins at `count`.
    pub fn new(count: u64, mode: ReadMode) -> EventCounter {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        EventCounter { count: Mutex::new(&COUNT, count), mode, id, changed: WaitQueue::new() }
    }
    fn take(&self) -> Option<u64> {
        let mut count = self.count.lock();
        let taken = match self.mode {
            ReadMode::Whole => *count,
            ReadMode::One => (*count).min(1),
        };
        *count -= taken;
        (taken > 0).then_some(taken)
    }
    fn add(&self, more: u64) -> bool {
        let mut count = self.count.lock();
        match count.checked_add(more).filter(|sum| *sum <= COUNT_MAX) {
            Some(sum) => {
                *count = sum;
                true
            }
            None => false,
        }
    }
    /// Repeats `step` until it succeeds, waiting between the attempts.
    fn until<T>(&self, flags: IoFlags, mut step: impl FnMut() -> Option<T>) -> Result<T, Errno> {
        loop {
            let ticket = self.changed.ticket();
            if let Some(done) = step() {
                self.changed.wake();
                return Ok(done);
            }
            if flags.is_nonblocking {
                return Err(Errno::EAGAIN);
            }
            if self.changed.wait(ticket, None) == Woken::Kicked {
                return Err(Errno::Restart);
            }
        }
    }
}

impl File for EventCounter {
    /// Tells that lseek has no effect.
    fn places(&self) -> vfs::file::Places {
        vfs::file::Places::Start
    }
    fn read(&self, _: u64, sink: &mut dyn Sink, flags: IoFlags) -> Result<usize, Errno> {
        if sink.remaining() < NUMBER_BYTES {
            return Err(Errno::EINVAL);
        }
        let taken = self.until(flags, || self.take())?;
        sink.put_whole(&taken.to_le_bytes())
    }
    fn write(
        &self,
        _: u64,
        source: &mut dyn Source,
        flags: IoFlags,
    ) -> Result<(usize, u64), Errno> {
        let mut bytes = [0; NUMBER_BYTES];
        if source.remaining() < NUMBER_BYTES {
            return Err(Errno::EINVAL);
        }
        source.take_whole(&mut bytes)?;
        let more = u64::from_le_bytes(bytes);
        if more > COUNT_MAX {
            return Err(Errno::EINVAL);
        }
        self.until(flags, || self.add(more).then_some(()))?;
        Ok((NUMBER_BYTES, 0))
    }
    fn takes_spliced(&self) -> bool {
        false
    }
    fn gives_spliced(&self) -> bool {
        false
    }
    fn poll(&self, table: Option<&PollTable>, _: &dyn Principal) -> Ready {
        if let Some(table) = table {
            table.add(&self.changed);
        }
        let count = *self.count.lock();
        let mut ready = Ready::empty();
        ready.set(Ready::IN | Ready::READ_NORMAL, count > 0);
        ready.set(Ready::OUT | Ready::WRITE_NORMAL, count < COUNT_MAX);
        ready
    }
    fn details(&self) -> String {
        let is_semaphore = u8::from(self.mode == ReadMode::One);
        let count = *self.count.lock();
        format!(
            "eventfd-count: {count:16x}\neventfd-id: {}\neventfd-semaphore: {is_semaphore}\n",
            self.id
        )
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}
