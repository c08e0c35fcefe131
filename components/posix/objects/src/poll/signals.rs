//! [`SignalFile`]: the file of signalfd4(2).
//!
//! It has no signals of its own: a task that reads or polls it is told of its own pending signals.
//! A waiter is woken by [`process::Process::signal_arrived`]. Layout of the result of a read:
//!
//! ```text
//!  0 signo  4 errno  8 code  12 pid  16 uid  20 fd  24 tid  28 band  32 overrun  36 trapno
//! 40 status  44 int  48 ptr  56 utime  64 stime  72 addr  80 .. 128 unused
//! ```
use alloc::{format, string::String};
use core::sync::atomic::{AtomicU64, Ordering};
use process::{
    self, Task,
    signal::{self, Info, SignalSet},
};
use rt::thread::Woken;
use vfs::{
    Errno, Principal,
    file::{File, IoFlags, Ready},
    io::Sink,
    poll::PollTable,
};

/// Bytes of `struct signalfd_siginfo`.
const RECORD_BYTES: usize = 128;

/// Signals that can be read instead of being handled.
pub struct SignalFile {
    wanted: AtomicU64,
}

impl SignalFile {
    /// Makes a file that takes the signals in `wanted`.
    pub fn new(wanted: SignalSet) -> SignalFile {
        SignalFile { wanted: AtomicU64::new(wanted & !signal::UNBLOCKABLE) }
    }
    /// Changes the set of signals to `wanted` from now on; waits in the process of `caller` look again.
    pub fn set(&self, wanted: SignalSet, caller: &Task) {
        self.wanted.store(wanted & !signal::UNBLOCKABLE, Ordering::Release);
        caller.process.signal_arrived.wake();
    }
    fn take(&self, task: &Task) -> Option<Info> {
        signal::take_wanted(task, self.wanted.load(Ordering::Acquire))
    }
    /// Takes a further signal of the task that reads.
    fn next(&self, sink: &dyn Sink) -> Option<Info> {
        self.take(Task::of(sink.caller())?)
    }
    /// Waits for the first signal.
    fn first(&self, task: &Task, flags: IoFlags) -> Result<Info, Errno> {
        loop {
            let ticket = task.process.signal_arrived.ticket();
            if let Some(info) = self.take(task) {
                return Ok(info);
            }
            if flags.is_nonblocking {
                return Err(Errno::EAGAIN);
            }
            if task.process.signal_arrived.wait(ticket, None) == Woken::Kicked {
                return Err(Errno::Restart);
            }
        }
    }
}

impl File for SignalFile {
    fn lacks_write(&self) -> bool {
        true
    }
    /// Tells that lseek has no effect.
    fn places(&self) -> vfs::file::Places {
        vfs::file::Places::Start
    }
    fn read(&self, _: u64, sink: &mut dyn Sink, flags: IoFlags) -> Result<usize, Errno> {
        if sink.remaining() < RECORD_BYTES {
            return Err(Errno::EINVAL);
        }
        let task = Task::of(sink.caller()).ok_or(Errno::EAGAIN)?;
        let mut next = Some(self.first(task, flags)?);
        let mut done = 0;
        while let Some(info) = next {
            match sink.put_whole(&record(&info)) {
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
                Ok(count) => done += count,
            }
            next = if sink.remaining() < RECORD_BYTES { None } else { self.next(sink) };
        }
        Ok(done)
    }
    fn gives_spliced(&self) -> bool {
        false
    }
    fn poll(&self, table: Option<&PollTable>, caller: &dyn Principal) -> Ready {
        let Some(task) = Task::of(caller) else { return Ready::empty() };
        if let Some(table) = table {
            table.add(&task.process.signal_arrived);
        }
        let pending = signal::pending(task);
        match pending & self.wanted.load(Ordering::Acquire) {
            0 => Ready::empty(),
            _ => Ready::IN | Ready::READ_NORMAL,
        }
    }
    fn details(&self) -> String {
        format!("sigmask:\t{:016x}\n", self.wanted.load(Ordering::Acquire))
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}

/// Returns a `struct signalfd_siginfo`; the code decides which fields have a meaning.
fn record(info: &Info) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    put(&mut record, 0, &info.signal.to_le_bytes());
    put(&mut record, 4, &info.error.to_le_bytes());
    put(&mut record, 8, &info.code.to_le_bytes());
    let (first, second) = info.sender();
    match info.shape() {
        signal::Shape::Fault => put(&mut record, 72, &info.address().to_le_bytes()),
        signal::Shape::Call => {
            put(&mut record, 84, &(info.word(1) as u32).to_le_bytes());
            put(&mut record, 88, &info.address().to_le_bytes());
            put(&mut record, 96, &((info.word(1) >> 32) as u32).to_le_bytes());
        }
        signal::Shape::Timer => {
            put(&mut record, 24, &first.to_le_bytes());
            put(&mut record, 32, &second.to_le_bytes());
            put(&mut record, 44, &(info.word(1) as u32).to_le_bytes());
            put(&mut record, 48, &info.word(1).to_le_bytes());
        }
        signal::Shape::Poll => {
            put(&mut record, 28, &first.to_le_bytes());
            put(&mut record, 20, &(info.word(1) as u32).to_le_bytes());
        }
        signal::Shape::Child => {
            put(&mut record, 12, &first.to_le_bytes());
            put(&mut record, 16, &second.to_le_bytes());
            put(&mut record, 40, &(info.word(1) as u32).to_le_bytes());
            put(&mut record, 56, &info.word(2).to_le_bytes());
            put(&mut record, 64, &info.word(3).to_le_bytes());
        }
        signal::Shape::Sender => {
            put(&mut record, 12, &first.to_le_bytes());
            put(&mut record, 16, &second.to_le_bytes());
            if info.code < 0 {
                put(&mut record, 44, &(info.word(1) as u32).to_le_bytes());
                put(&mut record, 48, &info.word(1).to_le_bytes());
            }
        }
    }
    record
}

fn put(record: &mut [u8; RECORD_BYTES], at: usize, bytes: &[u8]) {
    if let Some(field) = record.get_mut(at..at + bytes.len()) {
        field.copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(record: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(record[at..at + 4].try_into().unwrap())
    }

    #[test]
    fn a_record_shows_the_fields_of_its_kind_only() {
        let sent = record(&Info::from_process(10, 0, 7, 1000));
        assert_eq!([word(&sent, 0), word(&sent, 12), word(&sent, 16)], [10, 7, 1000]);
        let timer = record(&Info::timer(34, 3, 2, 99));
        assert_eq!([word(&timer, 12), word(&timer, 24), word(&timer, 32)], [0, 3, 2]);
        assert_eq!([word(&timer, 44), word(&timer, 48)], [99, 99]);
        let refused = record(&Info::refused_call(5, 0x1_0000_0002, 39, 0xc000_003e));
        assert_eq!([word(&refused, 0), word(&refused, 4), word(&refused, 8)], [31, 5, 1]);
        assert_eq!([word(&refused, 84), word(&refused, 96)], [39, 0xc000_003e]);
        assert_eq!([word(&refused, 88), word(&refused, 92), word(&refused, 12)], [2, 1, 0]);
    }
}
