//! inotify(7): an [`Inotify`] queues the events of the vnodes it watches.
//!
//! A [`Watch`] is the observer at the vnode and is kept, with the vnode, by its instance. Events
//! come under locks of the file system (see `vfs::notify`), so only leaves are taken then:
//! `inotify.watches` (the table of watches) and `inotify.queue` (the events that wait to be read),
//! never both. A watch that leaves the table is dropped after its lock.
mod queue;
mod quota;

pub use queue::EVENTS_MAX;
pub use quota::{INSTANCES_MAX, WATCHES_MAX};

use alloc::{
    collections::BTreeMap,
    format,
    string::String,
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::{AtomicU32, Ordering};
use linux_raw_sys::general as raw;
use queue::{Event, EventQueue};
use quota::{Counted, CountedObject, Owner};
use rt::{lock_class, sync::Mutex, thread::Woken};
use vfs::{
    Errno, Principal, Vnode,
    file::{File, IoFlags, Ready, SignalSource},
    io::Sink,
    notify::{Events, Happening, Observer},
    poll::{PollTable, WaitQueue},
};

lock_class! {
    static WATCHES = "inotify.watches";
    static QUEUE = "inotify.queue";
}

/// Bits of a watch's mask that are modes, not events.
const MODES: u32 = raw::IN_ONESHOT | raw::IN_EXCL_UNLINK;
/// Events that are reported even if they were not asked for.
const ALWAYS: u32 = raw::IN_UNMOUNT | raw::IN_ISDIR;

/// A vnode watched by an instance.
struct Watch {
    inotify: Weak<Inotify>,
    number: i32,
    mask: AtomicU32,
    _share: CountedObject,
}

struct WatchEntry {
    watch: Arc<Watch>,
    vnode: Arc<Vnode>,
}

#[derive(Default)]
struct Watches {
    by_number: BTreeMap<i32, WatchEntry>,
    /// Numbers of watches by address of the vnode, which the watch keeps alive.
    by_vnode: BTreeMap<usize, i32>,
    last_number: i32,
}

impl Watches {
    fn take(&mut self, number: i32) -> Option<WatchEntry> {
        let entry = self.by_number.remove(&number)?;
        self.by_vnode.remove(&address(&entry.vnode));
        Some(entry)
    }
    /// Returns the next free number; numbers are used again only after all others were.
    fn next_number(&mut self) -> i32 {
        loop {
            self.last_number = self.last_number.checked_add(1).unwrap_or(1);
            if !self.by_number.contains_key(&self.last_number) {
                return self.last_number;
            }
        }
    }
}

fn address(vnode: &Arc<Vnode>) -> usize {
    Arc::as_ptr(vnode).addr()
}

/// The file of inotify_init1(2).
pub struct Inotify {
    this: Weak<Inotify>,
    owner: Owner,
    watches: Mutex<Watches>,
    queue: Mutex<EventQueue>,
    changed: WaitQueue,
    _share: CountedObject,
}

impl Inotify {
    /// Makes an instance of `owner` without watches.
    ///
    /// # Errors
    /// `EMFILE` if the user has too many.
    pub fn new(owner: Owner) -> Result<Arc<Inotify>, Errno> {
        let share = CountedObject::take(Counted::Instances, owner)?;
        Ok(Arc::new_cyclic(|this| Inotify {
            this: this.clone(),
            owner,
            watches: Mutex::new(&WATCHES, Watches::default()),
            queue: Mutex::new(&QUEUE, EventQueue::new()),
            changed: WaitQueue::new(),
            _share: share,
        }))
    }
    /// Watches `vnode` for the events in `mask`, or changes the mask. Returns the watch's number.
    ///
    /// # Errors
    /// `EEXIST` with `IN_MASK_CREATE`, `ENOSPC` if the user has too many watches.
    pub fn add(&self, vnode: &Arc<Vnode>, mask: u32) -> Result<i32, Errno> {
        let kept = mask & (raw::IN_ALL_EVENTS | MODES);
        let mut watches = self.watches.lock();
        let known = watches.by_vnode.get(&address(vnode)).copied();
        if let Some(entry) = known.and_then(|number| watches.by_number.get(&number)) {
            if mask & raw::IN_MASK_CREATE != 0 {
                return Err(Errno::EEXIST);
            }
            let before = match mask & raw::IN_MASK_ADD {
                0 => 0,
                _ => entry.watch.mask.load(Ordering::Relaxed),
            };
            entry.watch.mask.store(before | kept, Ordering::Relaxed);
            return Ok(entry.watch.number);
        }
        let share = CountedObject::take(Counted::Watches, self.owner)?;
        let number = watches.next_number();
        let (inotify, mask) = (self.this.clone(), AtomicU32::new(kept));
        let watch = Arc::new(Watch { inotify, number, mask, _share: share });
        let observer: Arc<dyn Observer> = watch.clone();
        watches.by_vnode.insert(address(vnode), number);
        watches.by_number.insert(number, WatchEntry { watch, vnode: vnode.clone() });
        drop(watches);
        vnode.observe(Arc::downgrade(&observer));
        Ok(number)
    }
    /// Removes a watch; its last event reports that.
    ///
    /// # Errors
    /// `EINVAL` if there is no such watch.
    pub fn remove(&self, number: i32) -> Result<(), Errno> {
        let WatchEntry { watch, vnode } = self.watches.lock().take(number).ok_or(Errno::EINVAL)?;
        drop(watch);
        vnode.sweep_observers();
        self.push(Event::own(number, raw::IN_IGNORED));
        Ok(())
    }
    /// Returns the number of bytes that can be read (`FIONREAD`).
    pub fn readable_bytes(&self) -> usize {
        self.queue.lock().bytes()
    }
    fn push(&self, event: Event) {
        let is_added = self.queue.lock().push(event);
        if is_added {
            self.changed.wake();
        }
    }
    /// Removes the events that fit into `room` bytes and returns them in the format of a read.
    ///
    /// # Errors
    /// `EINVAL` if the first does not fit; `EAGAIN` if there are none.
    fn take(&self, room: usize) -> Result<Vec<u8>, Errno> {
        let mut queue = self.queue.lock();
        if queue.is_empty() {
            return Err(Errno::EAGAIN);
        }
        let mut bytes = Vec::new();
        while let Some(event) = queue.take(room - bytes.len()) {
            event.encode(&mut bytes);
        }
        if bytes.is_empty() { Err(Errno::EINVAL) } else { Ok(bytes) }
    }
}

impl Observer for Watch {
    fn happened(&self, happening: &Happening<'_>) {
        let Some(inotify) = self.inotify.upgrade() else { return };
        let wanted = self.mask.load(Ordering::Relaxed);
        let events = happening.events.bits();
        let mask = match happening.is_unlinked && wanted & raw::IN_EXCL_UNLINK != 0 {
            true => 0,
            false => events & (wanted | ALWAYS) & (raw::IN_ALL_EVENTS | ALWAYS),
        };
        let is_end = happening.events.intersects(Events::DELETE_SELF | Events::UNMOUNT);
        let is_told = mask & !raw::IN_ISDIR != 0;
        if is_told {
            // Linux does not set the directory bit in events about the move or deletion of the
            // watched file itself.
            let is_silent = mask & (raw::IN_DELETE_SELF | raw::IN_MOVE_SELF) != 0;
            let mask = if is_silent { mask & !raw::IN_ISDIR } else { mask };
            let mask = if mask & raw::IN_UNMOUNT != 0 { raw::IN_UNMOUNT } else { mask };
            let name = happening.name.map(Arc::from);
            let cookie = happening.cookie;
            inotify.push(Event { watch: self.number, mask, cookie, name });
        }
        if is_end || is_told && wanted & raw::IN_ONESHOT != 0 {
            // Another thread may have removed it meanwhile.
            let _ = inotify.remove(self.number);
        }
    }
}

impl File for Inotify {
    fn signal_source(&self) -> Option<SignalSource<'_>> {
        Some(SignalSource::Readiness)
    }
    /// Tells that lseek has no effect.
    fn places(&self) -> vfs::file::Places {
        vfs::file::Places::Start
    }
    fn read(&self, _: u64, sink: &mut dyn Sink, flags: IoFlags) -> Result<usize, Errno> {
        loop {
            let ticket = self.changed.ticket();
            match self.take(sink.remaining()) {
                Ok(bytes) => return sink.put_whole(&bytes),
                Err(Errno::EAGAIN) if !flags.is_nonblocking => {}
                Err(error) => return Err(error),
            }
            if self.changed.wait(ticket, None) == Woken::Kicked {
                return Err(Errno::Restart);
            }
        }
    }
    fn gives_spliced(&self) -> bool {
        false
    }
    fn poll(&self, table: Option<&PollTable>, _: &dyn Principal) -> Ready {
        if let Some(table) = table {
            table.add(&self.changed);
        }
        match self.queue.lock().is_empty() {
            true => Ready::empty(),
            false => Ready::IN | Ready::READ_NORMAL,
        }
    }
    fn details(&self) -> String {
        let watches = self.watches.lock();
        let line = |entry: &WatchEntry| {
            let (major, minor) = entry.vnode.instance().device();
            format!(
                "inotify wd:{} ino:{:x} sdev:{:x} mask:{:x} ignored_mask:0\n",
                entry.watch.number,
                entry.vnode.inode(),
                major << 20 | minor,
                entry.watch.mask.load(Ordering::Relaxed),
            )
        };
        watches.by_number.values().rev().map(line).collect()
    }
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
    fn closed(&self) {
        let watches = core::mem::take(&mut *self.watches.lock());
        for WatchEntry { watch, vnode } in watches.by_number.into_values() {
            drop(watch);
            vnode.sweep_observers();
        }
    }
}
