//! epoll(7): files watched over many waits.
//!
//! Each [`WatchedFile`] of an [`Epoll`] hangs as a watcher in the queues of its file; a change puts the
//! entry on the ready list (once) and wakes the threads that wait. Of the exclusive entries of a file
//! one with a waiting thread takes the change ([`Watcher::changed_alone`]). A wait takes entries off
//! the list, looks whether they are ready indeed, and puts level-triggered ones back at its end, so
//! that all get their turn. An entry holds its file weakly: it goes when the last descriptor is closed.
//! Lock order: `epoll.nesting` > `epoll.entries` > `epoll.ready`; `epoll.entry` is a leaf.
use super::nesting::{self, Nesting};
use alloc::{
    collections::VecDeque,
    format,
    string::String,
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use linux_raw_sys::general as raw;
use rt::{lock_class, sync::Mutex, thread::Woken, time::Instant};
use vfs::{
    Errno, OpenFile, Principal,
    file::{File, Ready},
    poll::{PollTable, WaitQueue, Watcher},
};

lock_class! {
    static ENTRIES = "epoll.entries";
    static READY = "epoll.ready";
    static ENTRY = "epoll.entry";
}

/// Bits of `events` that are modes, not events.
const MODE_BITS: u32 = raw::EPOLLET | raw::EPOLLONESHOT | raw::EPOLLWAKEUP | raw::EPOLLEXCLUSIVE;

/// Events that are always included, until a one-shot entry has fired (Linux `ep_insert`, `ep_modify`).
const ALWAYS: u32 = raw::EPOLLERR | raw::EPOLLHUP;

/// `struct epoll_event`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// `EPOLLIN` and other events, with the mode bits.
    pub events: u32,
    /// Value that is returned to the program unchanged.
    pub data: u64,
}

/// The operations of epoll_ctl(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// EPOLL_CTL_ADD
    Add(Interest),
    /// EPOLL_CTL_MOD
    Modify(Interest),
    /// EPOLL_CTL_DEL
    Delete,
}

/// A watched file.
struct WatchedFile {
    epoll: Weak<Epoll>,
    this: Weak<WatchedFile>,
    file: Weak<OpenFile>,
    fd: i32,
    interest: Mutex<Interest>,
    /// It is level-triggered: it is reported at each wait, as long as its file is ready.
    is_level: AtomicBool,
    is_queued: AtomicBool,
    is_deleted: AtomicBool,
}

impl Interest {
    /// Returns whether the entry is reported as long as its file is ready.
    pub fn is_level(self) -> bool {
        self.events & (raw::EPOLLONESHOT | raw::EPOLLET) == 0
    }
    /// Returns the interest with the events that are always included.
    fn with_errors(self) -> Interest {
        Interest { events: self.events | ALWAYS, ..self }
    }
}

impl WatchedFile {
    /// Returns the wanted events that its file is ready for, and the interest; `None` if there are none, or the file was
    /// closed.
    #[inline(always)]
    fn look(&self, table: Option<&PollTable>, caller: &dyn Principal) -> Option<(u32, Interest)> {
        if self.is_deleted.load(Ordering::Acquire) {
            return None;
        }
        let file = self.file.upgrade()?;
        let interest = *self.interest.lock();
        // A one-shot entry that has fired has no wanted events.
        let found = file.file().poll(table, caller) & asked(interest);
        (!found.is_empty()).then(|| (u32::from(found.bits()), interest))
    }
    /// Clears the wanted events of a one-shot entry until it is modified. Returns `false` if they were cleared already.
    fn disarm(&self) -> bool {
        let mut interest = self.interest.lock();
        let was_armed = interest.events & !MODE_BITS != 0;
        interest.events &= MODE_BITS;
        was_armed
    }
    /// Gives a one-shot entry the wanted events back, unless it was modified meanwhile.
    fn arm(&self, wanted: Interest) {
        let mut interest = self.interest.lock();
        if interest.events & !MODE_BITS == 0 {
            *interest = wanted;
        }
    }
    fn is(&self, fd: i32, file: &Arc<OpenFile>) -> bool {
        self.fd == fd && Weak::as_ptr(&self.file) == Arc::as_ptr(file)
    }
}

impl Watcher for WatchedFile {
    fn changed(&self) {
        self.changed_alone();
    }
    fn changed_alone(&self) -> bool {
        let (Some(epoll), Some(entry)) = (self.epoll.upgrade(), self.this.upgrade()) else {
            return false;
        };
        epoll.queue(entry);
        // A removed interest, or one of a closed file, takes no wakeup from another.
        epoll.wake() && !self.is_deleted.load(Ordering::Acquire) && self.file.strong_count() > 0
    }
}

/// The file of epoll_create1(2).
pub struct Epoll {
    this: Weak<Epoll>,
    entries: Mutex<Vec<Arc<WatchedFile>>>,
    ready: Mutex<VecDeque<Arc<WatchedFile>>>,
    changed: WaitQueue,
    /// Number of threads in [`Epoll::wait`] that found no ready entry.
    waiting: AtomicUsize,
    /// A waiting thread was not woken yet.
    is_awaited: AtomicBool,
    nesting: Nesting,
}

impl Epoll {
    /// Makes an epoll without entries.
    pub fn new() -> Arc<Epoll> {
        Arc::new_cyclic(|this| Epoll {
            this: this.clone(),
            entries: Mutex::new(&ENTRIES, Vec::new()),
            ready: Mutex::new(&READY, VecDeque::new()),
            changed: WaitQueue::new(),
            waiting: AtomicUsize::new(0),
            is_awaited: AtomicBool::new(false),
            nesting: Nesting::new(),
        })
    }
    /// Checks that an epoll may watch `file`.
    ///
    /// # Errors
    /// `EPERM` for a file that is always ready.
    pub fn check_watchable(file: &OpenFile) -> Result<(), Errno> {
        match file.vnode().is_directory() || !file.file().is_watchable() {
            true => Err(Errno::EPERM),
            false => Ok(()),
        }
    }
    /// Does epoll_ctl(2) of `caller` for `fd`, a descriptor of `file`.
    ///
    /// # Errors
    /// `EEXIST`, `ENOENT`, `EPERM` for a file that is always ready, `ELOOP`, `EINVAL`.
    pub fn control(
        &self,
        fd: i32,
        file: &Arc<OpenFile>,
        change: Change,
        caller: &dyn Principal,
    ) -> Result<(), Errno> {
        Self::check_watchable(file)?;
        // If two epolls are added to each other at once, only one may succeed.
        let mut nesting = None;
        let inner = file.file().as_any().downcast_ref::<Epoll>();
        if let Change::Add(interest) = change {
            check_exclusive(interest, file)?;
            if let Some(inner) = inner {
                nesting = Some(nesting::check(self, inner)?);
            }
        }
        let mut entries = self.entries.lock();
        entries.retain(|entry| entry.file.strong_count() > 0);
        let known = entries.iter().position(|entry| entry.is(fd, file));
        match (change, known) {
            (Change::Add(_), Some(_)) => return Err(Errno::EEXIST),
            (Change::Modify(_) | Change::Delete, None) => return Err(Errno::ENOENT),
            (Change::Add(interest), None) => {
                let entry = self.entry(fd, file, interest.with_errors());
                entries.push(entry.clone());
                drop(entries);
                if let Some(inner) = inner {
                    inner.nesting.add_above(&self.this);
                }
                drop(nesting);
                let watcher: Arc<dyn Watcher> = entry.clone();
                let watcher = Arc::downgrade(&watcher);
                let table = match interest.events & raw::EPOLLEXCLUSIVE {
                    0 => PollTable::telling(watcher),
                    _ => PollTable::telling_alone(watcher, asked(interest.with_errors())),
                };
                self.look_at(entry, Some(&table), caller);
            }
            (Change::Modify(interest), Some(at)) => {
                let Some(entry) = entries.get(at).cloned() else { return Err(Errno::ENOENT) };
                drop(entries);
                let both = interest.events | entry.interest.lock().events;
                if both & raw::EPOLLEXCLUSIVE != 0 {
                    return Err(Errno::EINVAL);
                }
                *entry.interest.lock() = interest.with_errors();
                entry.is_level.store(interest.is_level(), Ordering::Release);
                self.look_at(entry, None, caller);
            }
            (Change::Delete, Some(at)) => {
                entries.swap_remove(at).is_deleted.store(true, Ordering::Release);
            }
        }
        Ok(())
    }
    fn entry(&self, fd: i32, file: &Arc<OpenFile>, interest: Interest) -> Arc<WatchedFile> {
        Arc::new_cyclic(|this| WatchedFile {
            epoll: self.this.clone(),
            this: this.clone(),
            file: Arc::downgrade(file),
            fd,
            interest: Mutex::new(&ENTRY, interest),
            is_level: AtomicBool::new(interest.is_level()),
            is_queued: AtomicBool::new(false),
            is_deleted: AtomicBool::new(false),
        })
    }
    fn look_at(&self, entry: Arc<WatchedFile>, table: Option<&PollTable>, caller: &dyn Principal) {
        if entry.look(table, caller).is_some() {
            self.queue(entry);
            self.wake();
        }
    }
    fn queue(&self, entry: Arc<WatchedFile>) {
        if !entry.is_queued.swap(true, Ordering::AcqRel) {
            self.ready.lock().push_back(entry);
        }
    }
    /// Wakes the waiting threads. Returns whether there was one that was not woken yet.
    #[inline]
    fn wake(&self) -> bool {
        let was_awaited =
            self.is_awaited.load(Ordering::SeqCst) && self.is_awaited.swap(false, Ordering::SeqCst);
        self.changed.wake();
        was_awaited
    }
    /// Returns its part in the nesting of epolls.
    pub(super) fn nesting(&self) -> &Nesting {
        &self.nesting
    }
    /// Returns the watched files that are epolls.
    pub(super) fn inner(&self) -> Vec<Arc<OpenFile>> {
        let mut files: Vec<_> =
            self.entries.lock().iter().filter_map(|entry| entry.file.upgrade()).collect();
        files.retain(|file| file.file().as_any().is::<Epoll>());
        files
    }
    /// Returns whether it watches `inner`.
    pub(super) fn watches(&self, inner: &Epoll) -> bool {
        let is_it = |file: &Arc<OpenFile>| {
            file.file()
                .as_any()
                .downcast_ref()
                .is_some_and(|epoll| core::ptr::eq::<Epoll>(epoll, inner))
        };
        self.inner().iter().any(is_it)
    }
    /// Waits until a file is ready for `caller`, and calls `tell` for at most `max` ready entries, with the ready events and
    /// the interest; returns without any after `deadline`. If `tell` returns `false`, the wait ends and the entry is ready as
    /// before. No lock is held during `tell`.
    ///
    /// # Errors
    /// `EINTR` for a signal.
    #[inline]
    pub fn wait(
        &self,
        (max, deadline): (usize, Option<Instant>),
        caller: &dyn Principal,
        mut tell: impl FnMut(u32, Interest) -> bool,
    ) -> Result<(), Errno> {
        if self.harvest(max, caller, &mut tell) || deadline.is_some_and(|at| rt::time::now() >= at)
        {
            return Ok(());
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let result = self.wait_and_harvest((max, deadline), caller, &mut tell);
        if self.waiting.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.is_awaited.store(false, Ordering::SeqCst);
        }
        result
    }
    fn wait_and_harvest(
        &self,
        (max, deadline): (usize, Option<Instant>),
        caller: &dyn Principal,
        tell: &mut impl FnMut(u32, Interest) -> bool,
    ) -> Result<(), Errno> {
        let mut woken = Woken::Signalled;
        loop {
            // The flag is set before the files are checked: a change after the check clears it.
            self.is_awaited.store(true, Ordering::SeqCst);
            let ticket = self.changed.ticket();
            let has_told = self.harvest(max, caller, tell);
            if has_told || deadline.is_some_and(|deadline| rt::time::now() >= deadline) {
                return Ok(());
            }
            if woken == Woken::Kicked {
                return Err(Errno::EINTR);
            }
            woken = self.changed.wait(ticket, deadline);
        }
    }
    /// Removes ready entries from the list and reports them; level-triggered ones are added to its end again. Returns
    /// whether there was any.
    fn harvest(
        &self,
        max: usize,
        caller: &dyn Principal,
        tell: &mut impl FnMut(u32, Interest) -> bool,
    ) -> bool {
        let mut told = 0;
        let mut ready = self.ready.lock();
        // A single level-triggered entry stays in its place.
        if ready.len() == 1
            && let Some(only) = ready.front().filter(|only| only.is_level.load(Ordering::Acquire))
        {
            let only = only.clone();
            drop(ready);
            if let Some((events, interest)) = only.look(None, caller)
                && interest.is_level()
            {
                tell(events, interest);
                return true;
            }
            ready = self.ready.lock();
        }
        for _ in 0..ready.len() {
            if told == max {
                break;
            }
            let Some(entry) = ready.pop_front() else { break };
            drop(ready);
            entry.is_queued.store(false, Ordering::Release);
            let found = entry.look(None, caller);
            let mode = found.map_or(raw::EPOLLET, |(_, interest)| interest.events);
            // If several waits find a one-shot entry at once, the one that disarms it reports it.
            let is_told = mode & raw::EPOLLONESHOT == 0 || entry.disarm();
            if let Some((events, interest)) = found
                && is_told
            {
                told += 1;
                if !tell(events, interest) {
                    entry.arm(interest);
                    if !entry.is_queued.swap(true, Ordering::AcqRel) {
                        self.ready.lock().push_front(entry);
                    }
                    break;
                }
            }
            ready = self.ready.lock();
            let is_level = found.is_some_and(|(_, interest)| interest.is_level());
            if is_level && !entry.is_queued.swap(true, Ordering::AcqRel) {
                ready.push_back(entry);
            }
        }
        told > 0
    }
}

/// Returns the events among the bits of an interest.
fn asked(interest: Interest) -> Ready {
    Ready::from_bits_truncate(interest.events as u16)
}

/// Checks that EPOLLEXCLUSIVE is used with simple files and simple events only.
fn check_exclusive(interest: Interest, file: &OpenFile) -> Result<(), Errno> {
    const ALLOWED: u32 = raw::EPOLLIN
        | raw::EPOLLOUT
        | raw::EPOLLERR
        | raw::EPOLLHUP
        | raw::EPOLLWAKEUP
        | raw::EPOLLET
        | raw::EPOLLEXCLUSIVE;
    let is_exclusive = interest.events & raw::EPOLLEXCLUSIVE != 0;
    let is_odd = interest.events & !ALLOWED != 0 || file.file().as_any().is::<Epoll>();
    if is_exclusive && is_odd { Err(Errno::EINVAL) } else { Ok(()) }
}

impl File for Epoll {
    fn lacks_read(&self) -> bool {
        true
    }
    fn lacks_write(&self) -> bool {
        true
    }
    /// Tells that lseek has no effect.
    fn places(&self) -> vfs::file::Places {
        vfs::file::Places::Start
    }
    fn gives_spliced(&self) -> bool {
        false
    }
    fn poll(&self, table: Option<&PollTable>, caller: &dyn Principal) -> Ready {
        if let Some(table) = table {
            table.add(&self.changed);
        }
        let queued: Vec<_> = self.ready.lock().iter().cloned().collect();
        let is_ready = queued.iter().any(|entry| entry.look(None, caller).is_some());
        if is_ready { Ready::IN | Ready::READ_NORMAL } else { Ready::empty() }
    }
    fn details(&self) -> String {
        let line = |entry: &Arc<WatchedFile>| {
            let file = entry.file.upgrade()?;
            let Interest { events, data } = *entry.interest.lock();
            let (major, minor) = file.path().mount.instance().device();
            Some(format!(
                "tfd: {:8} events: {events:8x} data: {data:16x}  pos:{} ino:{:x} sdev:{:x}\n",
                entry.fd,
                if file.file().is_seekable() { file.offset() } else { 0 },
                file.vnode().inode(),
                major << 20 | minor,
            ))
        };
        self.entries.lock().iter().filter_map(line).collect()
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}
