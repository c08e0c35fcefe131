//! Directory notifications (F_NOTIFY): a signal for events of the files in a directory.
//!
//! A [`Note`] belongs to a description in a descriptor table and goes when a descriptor of it is closed there. It is told
//! under a directory's lock (see `vfs::notify`) and signals by the description's owner ([`super::notify`]).
//! Source: fcntl(2), Linux `Documentation/filesystems/dnotify.rst`.
use crate::signal::info;
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use linux_raw_sys::general as raw;
use rt::{lock_class, sync::Mutex};
use vfs::{
    OpenFile, Vnode,
    notify::{Events, Happening, Observer},
};

lock_class! {
    static NOTES = "files.notes";
}

/// `/proc/sys/fs/dir-notify-enable`.
pub static IS_ENABLED: AtomicBool = AtomicBool::new(true);

/// Events of a name in the directory, or of itself, and fcntl's names of them.
const MEANINGS: [(Events, u32); 5] = [
    (Events::ACCESS, raw::DN_ACCESS),
    (Events::MODIFY, raw::DN_MODIFY),
    (Events::CREATE.union(Events::MOVED_TO), raw::DN_CREATE),
    (Events::DELETE.union(Events::MOVED_FROM), raw::DN_DELETE),
    (Events::ATTRIBUTES, raw::DN_ATTRIB),
];

/// `si_band`: POLLIN, POLLRDNORM and POLLMSG.
const BAND: u32 = raw::EPOLLIN | raw::EPOLLRDNORM | raw::EPOLLMSG;

struct Note {
    owner: Arc<dyn NoteReceiver>,
    directory: Arc<Vnode>,
    /// The description in the table to which it belongs.
    file: Weak<OpenFile>,
    table: u64,
    fd: i32,
    /// The wanted events; none after the first event, unless DN_MULTISHOT is set.
    mask: AtomicU32,
    /// The cookie of the last name that left.
    moved: AtomicU32,
}

/// All notes; `COUNT` is their number, readable without the lock.
static ALL: Mutex<Vec<Arc<Note>>> = Mutex::new(&NOTES, Vec::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

impl Note {
    fn is_of(&self, file: &Arc<OpenFile>, table: u64) -> bool {
        self.table == table && self.file.as_ptr() == Arc::as_ptr(file)
    }
    fn bits(&self, happening: &Happening<'_>) -> u32 {
        let is_meant = |(events, _): &&(Events, u32)| happening.events.intersects(*events);
        let bits = MEANINGS.iter().filter(is_meant).fold(0, |bits, (_, bit)| bits | bit);
        if happening.events.contains(Events::MOVED_FROM) {
            self.moved.store(happening.cookie, Relaxed);
        }
        let is_renamed = happening.events.contains(Events::MOVED_TO)
            && self.moved.load(Relaxed) == happening.cookie;
        if is_renamed { bits | raw::DN_RENAME } else { bits }
    }
}

impl Observer for Note {
    fn happened(&self, happening: &Happening<'_>) {
        let is_inside = happening.name.is_some() || happening.events.contains(Events::DIRECTORY);
        let bits = if is_inside { self.bits(happening) } else { 0 };
        let told = self.mask.fetch_update(AcqRel, Acquire, |wanted| {
            let is_wanted = bits & wanted != 0;
            is_wanted.then_some(if wanted & raw::DN_MULTISHOT == 0 { 0 } else { wanted })
        });
        if told.is_ok() {
            self.owner.tell(info::POLL_MSG, BAND, self.fd);
        }
    }
}

/// The owner of a description, as the receiver of its signals.
pub trait NoteReceiver: Send + Sync {
    /// Something happened, as a signal's `si_code`, `si_band` and descriptor say.
    fn tell(&self, code: i32, band: u32, fd: i32);
}

/// Has `owner` told of `events` in the directory open as `file`, descriptor `fd` of `table`, beside those asked for before.
pub(super) fn add(
    owner: Arc<dyn NoteReceiver>,
    file: &Arc<OpenFile>,
    (table, fd): (u64, i32),
    events: u32,
) {
    let mut all = ALL.lock();
    if let Some(note) = all.iter().find(|note| note.is_of(file, table)) {
        note.mask.fetch_or(events, AcqRel);
        return;
    }
    let directory = file.vnode();
    let note = Arc::new(Note {
        owner,
        directory: directory.clone(),
        file: Arc::downgrade(file),
        table,
        fd,
        mask: AtomicU32::new(events),
        moved: AtomicU32::new(0),
    });
    let observer: Arc<dyn Observer> = note.clone();
    all.push(note);
    COUNT.store(all.len(), Release);
    drop(all);
    directory.observe(Arc::downgrade(&observer));
}

/// Called when a descriptor of `file` was closed in `table`: the table's tasks are not notified of its directory any more.
#[inline]
pub fn descriptor_closed(table: u64, file: &Arc<OpenFile>) {
    if COUNT.load(Acquire) > 0 {
        remove(table, file);
    }
}

#[cold]
fn remove(table: u64, file: &Arc<OpenFile>) {
    let note = {
        let mut all = ALL.lock();
        let Some(place) = all.iter().position(|note| note.is_of(file, table)) else { return };
        let note = all.swap_remove(place);
        COUNT.store(all.len(), Release);
        note
    };
    let directory = note.directory.clone();
    drop(note);
    directory.sweep_observers();
}
