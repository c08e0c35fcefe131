//! The calls of epoll and eventfd.
use super::{entry::Entry, poll::set_mask};
use alloc::sync::Arc;
use linux_raw_sys::general as raw;
use memory::{AddressSpace, transfer::check_place};
use objects::poll::{Change, Epoll, EventCounter, Interest, ReadMode, Timeout};
use process::{
    call::Call,
    files::{
        anonymous::{EVENTFD, EVENTPOLL},
        install::install_anonymous,
    },
};
use vfs::{Errno, OpenFile};
use zerocopy::{Immutable, IntoBytes};

/// The system calls that this file implements.
pub const CALLS: &[Entry] = &[
    Entry::whole(raw::__NR_epoll_create, "epoll_create", create),
    Entry::whole(raw::__NR_epoll_create1, "epoll_create1", create1),
    Entry::whole(raw::__NR_epoll_ctl, "epoll_ctl", control),
    Entry::whole(raw::__NR_epoll_wait, "epoll_wait", wait),
    Entry::whole(raw::__NR_epoll_pwait, "epoll_pwait", pwait),
    Entry::whole(raw::__NR_epoll_pwait2, "epoll_pwait2", pwait2),
    Entry::whole(raw::__NR_eventfd, "eventfd", eventfd),
    Entry::whole(raw::__NR_eventfd2, "eventfd2", eventfd2),
];

/// `struct epoll_event`, packed on x86-64.
#[derive(Clone, Copy, Default, IntoBytes, Immutable)]
#[repr(C, packed)]
struct RawEvent {
    events: u32,
    data: u64,
}

const EVENT_BYTES: usize = size_of::<RawEvent>();
const _: () = assert!(EVENT_BYTES == 12);
/// Number of events written at once.
const EVENTS_A_WRITE: usize = 4;
/// Greatest number of events of one wait.
const EVENTS_MAX: usize = i32::MAX as usize / EVENT_BYTES;
const NS_A_MILLISECOND: u64 = 1_000_000;

fn create(call: &mut Call<'_>) -> Result<u64, Errno> {
    if call.int(0) <= 0 {
        return Err(Errno::EINVAL);
    }
    install_anonymous(call.task, Epoll::new(), &EVENTPOLL, raw::O_RDWR)
}

fn create1(call: &mut Call<'_>) -> Result<u64, Errno> {
    let flags = call.uint(0);
    if flags & !raw::EPOLL_CLOEXEC != 0 {
        return Err(Errno::EINVAL);
    }
    install_anonymous(call.task, Epoll::new(), &EVENTPOLL, raw::O_RDWR | flags)
}

fn control(call: &mut Call<'_>) -> Result<u64, Errno> {
    let (operation, fd) = (call.uint(1), call.int(2));
    let interest = match operation {
        raw::EPOLL_CTL_DEL => None,
        _ => Some(read_interest(call, call.word(3))?),
    };
    let (file, watched) = (call.working_file(0)?, call.working_file(2)?);
    Epoll::check_watchable(&watched)?;
    let epoll = epoll_of(&file)?;
    if Arc::ptr_eq(&file, &watched) {
        return Err(Errno::EINVAL);
    }
    let change = match (operation, interest) {
        (raw::EPOLL_CTL_ADD, Some(interest)) => Change::Add(interest),
        (raw::EPOLL_CTL_MOD, Some(interest)) => Change::Modify(interest),
        (raw::EPOLL_CTL_DEL, _) => Change::Delete,
        _ => return Err(Errno::EINVAL),
    };
    epoll.control(fd, &watched, change, call.caller())?;
    Ok(0)
}

fn read_interest(call: &Call<'_>, address: u64) -> Result<Interest, Errno> {
    let words: [u32; 3] = call.memory.read(address)?;
    let [events, low, high] = words;
    Ok(Interest { events, data: u64::from(low) | u64::from(high) << 32 })
}

fn epoll_of(file: &OpenFile) -> Result<&Epoll, Errno> {
    file.file().as_any().downcast_ref::<Epoll>().ok_or(Errno::EINVAL)
}

fn wait(call: &mut Call<'_>) -> Result<u64, Errno> {
    let timeout = milliseconds(call.int(3));
    wait_until(call, timeout)
}

fn pwait(call: &mut Call<'_>) -> Result<u64, Errno> {
    let timeout = milliseconds(call.int(3));
    set_mask(call, call.word(4), call.word(5))?;
    wait_until(call, timeout)
}

fn pwait2(call: &mut Call<'_>) -> Result<u64, Errno> {
    let timeout = Timeout::read_timespec(call.memory, call.word(3))?;
    set_mask(call, call.word(4), call.word(5))?;
    wait_until(call, timeout)
}

fn milliseconds(count: i32) -> Timeout {
    match u64::try_from(count) {
        Ok(count) => Timeout::after_ns(count * NS_A_MILLISECOND),
        Err(_) => Timeout::Never,
    }
}

#[inline]
fn wait_until(call: &Call<'_>, timeout: Timeout) -> Result<u64, Errno> {
    let max = usize::try_from(call.int(2)).ok().filter(|max| (1..=EVENTS_MAX).contains(max));
    let max = max.ok_or(Errno::EINVAL)?;
    check_place(call.word(1), (max * EVENT_BYTES) as u64)?;
    let file = call.working_file(0)?;
    let mut answer = ReadyEvents::new(call.memory, call.word(1));
    let until = (max, timeout.deadline());
    epoll_of(&file)?
        .wait(until, call.caller(), |events, interest| answer.push(events, interest))?;
    answer.finish()
}

/// Writes events to the program.
struct ReadyEvents<'a> {
    memory: &'a AddressSpace,
    /// Address of the next event.
    at: u64,
    batch: [RawEvent; EVENTS_A_WRITE],
    held: usize,
    written: u64,
    failed: Option<Errno>,
}

impl<'a> ReadyEvents<'a> {
    #[inline]
    fn new(memory: &'a AddressSpace, at: u64) -> ReadyEvents<'a> {
        let batch = [RawEvent::default(); EVENTS_A_WRITE];
        ReadyEvents { memory, at, batch, held: 0, written: 0, failed: None }
    }
    /// Takes an event. Returns `false` if it has no place, so that it is to be reported again. An event that is not reported again
    /// by itself is written at once.
    #[inline]
    fn push(&mut self, events: u32, interest: Interest) -> bool {
        if !interest.is_level() {
            return self.push_at_once(RawEvent { events, data: interest.data });
        }
        if let Some(place) = self.batch.get_mut(self.held) {
            *place = RawEvent { events, data: interest.data };
            self.held += 1;
        }
        if self.held == EVENTS_A_WRITE {
            self.flush();
        }
        self.failed.is_none()
    }
    #[inline(never)]
    fn push_at_once(&mut self, event: RawEvent) -> bool {
        if self.held > 0 {
            self.flush();
        }
        if self.failed.is_none() {
            self.write_each(&[event]);
        }
        self.failed.is_none()
    }
    fn flush(&mut self) {
        let events = self.batch.get(..core::mem::take(&mut self.held)).unwrap_or_default();
        if self.failed.is_some() {
            return;
        }
        match self.memory.write_bytes(self.at, events.as_bytes()) {
            Ok(()) => {
                self.at = self.at.wrapping_add(size_of_val(events) as u64);
                self.written += events.len() as u64;
            }
            Err(_) => {
                let (batch, count) = (self.batch, events.len());
                self.write_each(batch.get(..count).unwrap_or_default());
            }
        }
    }
    /// Writes events one by one, up to a bad address.
    #[inline(never)]
    fn write_each(&mut self, events: &[RawEvent]) {
        for event in events {
            match self.memory.write(self.at, event) {
                Ok(()) => {
                    self.at = self.at.wrapping_add(EVENT_BYTES as u64);
                    self.written += 1;
                }
                Err(error) => return self.failed = Some(error),
            }
        }
    }
    /// Writes the events that are still held. Returns the number of events written, or the error if none could be written.
    fn finish(&mut self) -> Result<u64, Errno> {
        if self.held > 0 {
            self.flush();
        }
        match self.failed {
            Some(error) if self.written == 0 => Err(error),
            _ => Ok(self.written),
        }
    }
}

fn eventfd(call: &mut Call<'_>) -> Result<u64, Errno> {
    open_event(call, 0)
}

fn eventfd2(call: &mut Call<'_>) -> Result<u64, Errno> {
    open_event(call, call.uint(1))
}

fn open_event(call: &Call<'_>, flags: u32) -> Result<u64, Errno> {
    if flags & !(raw::EFD_SEMAPHORE | raw::EFD_CLOEXEC | raw::EFD_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    let is_semaphore = flags & raw::EFD_SEMAPHORE != 0;
    let mode = if is_semaphore { ReadMode::One } else { ReadMode::Whole };
    let counter = Arc::new(EventCounter::new(u64::from(call.uint(0)), mode));
    let open_flags = raw::O_RDWR | flags & (raw::O_NONBLOCK | raw::O_CLOEXEC);
    install_anonymous(call.task, counter, &EVENTFD, open_flags)
}
