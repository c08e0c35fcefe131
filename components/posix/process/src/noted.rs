//! The files that a system call uses ([`NameNotes`]), as vfs tells of them ([`vfs::uses`]): the names as the call read them from the
//! program, and the objects that it found by them.
use crate::files::context::FsContext;
use alloc::{boxed::Box, vec::Vec};
use audit::{InodeFacts, NameFacts, NameRole, field};
use core::{
    ops::Range,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};
use linux_raw_sys::general as raw;
use rt::{lock_class, sync::Mutex};
use vfs::{
    Path, Vnode, security,
    uses::{self, ChangeKind, NameChange, NameUse, ObservedNames},
};

lock_class! {
    static NOTES = "process.names";
}

/// Bytes of names, and number of notes, whose memory a task keeps for its next call.
const KEPT_BYTES: usize = 512;
const KEPT_NOTES: usize = 8;

/// The object of a note.
enum NotedObject {
    /// The walk found none.
    None,
    /// The place to which the walk led.
    Place(Path),
    /// A name was made or removed: that of the directory with this place in the list.
    Changed(usize, Box<InodeFacts>),
}

struct Note {
    /// The name, in the bytes of the list.
    name: Range<usize>,
    role: NameRole,
    object: NotedObject,
}

impl Note {
    fn is_at(&self, place: &Path) -> bool {
        matches!(&self.object, NotedObject::Place(own) if own.is_same(place))
    }
}

/// The notes of a call.
#[derive(Default)]
pub(crate) struct NoteList {
    bytes: Vec<u8>,
    notes: Vec<Note>,
}

/// The notes of the present call of a task.
pub struct NameNotes {
    is_observed: AtomicBool,
    has_notes: AtomicBool,
    number: AtomicU32,
    /// Flags of openat2(2), which are in the program's memory.
    open_flags: AtomicU32,
    list: Mutex<NoteList>,
}

impl NameNotes {
    /// Makes the notes of a task whose calls are not observed.
    pub const fn new() -> NameNotes {
        NameNotes {
            is_observed: AtomicBool::new(false),
            has_notes: AtomicBool::new(false),
            number: AtomicU32::new(0),
            open_flags: AtomicU32::new(0),
            list: Mutex::new(&NOTES, NoteList { bytes: Vec::new(), notes: Vec::new() }),
        }
    }
    /// Begins to observe a call. The task itself calls this and the following.
    pub(crate) fn begin(&self, number: u32, names: ObservedNames) {
        self.number.store(number, Ordering::Relaxed);
        self.is_observed.store(true, Ordering::Relaxed);
        uses::observe(names);
    }
    /// Ends it, and returns the notes, which are to be given back.
    pub(crate) fn end(&self, names: ObservedNames) -> NoteList {
        uses::ignore(names);
        self.is_observed.store(false, Ordering::Relaxed);
        if !self.has_notes.load(Ordering::Relaxed) {
            return NoteList::default();
        }
        self.has_notes.store(false, Ordering::Relaxed);
        core::mem::take(&mut *self.list.lock())
    }
    /// Gives the memory of notes back for the next call.
    pub(crate) fn keep(&self, mut list: NoteList) {
        if list.notes.is_empty() {
            return;
        }
        list.notes.clear();
        list.bytes.clear();
        if list.bytes.capacity() <= KEPT_BYTES && list.notes.capacity() <= KEPT_NOTES {
            *self.list.lock() = list;
        }
    }
    /// Notes the flags of an openat2(2).
    pub fn note_open_flags(&self, flags: u32) {
        if uses::are_observed() {
            self.open_flags.store(flags, Ordering::Relaxed);
        }
    }
    /// Returns the flags of a call that opens a file.
    pub(crate) fn open_flags(&self, number: u32, arguments: &[u64; 6]) -> Option<u64> {
        let [_, second, third, ..] = *arguments;
        match number {
            raw::__NR_open => Some(second),
            raw::__NR_openat => Some(third),
            raw::__NR_creat => Some(u64::from(raw::O_WRONLY | raw::O_CREAT | raw::O_TRUNC)),
            raw::__NR_openat2 => Some(u64::from(self.open_flags.load(Ordering::Relaxed))),
            _ => None,
        }
    }
    /// Notes the use of a name. The task itself calls this.
    pub(crate) fn note(&self, used: &NameUse<'_>) {
        if !self.is_observed.load(Ordering::Relaxed) {
            return;
        }
        self.has_notes.store(true, Ordering::Relaxed);
        // A place that is held would keep its file system mounted.
        let holds = self.number.load(Ordering::Relaxed) != raw::__NR_umount2;
        let place = |place: Option<&Path>| match place {
            Some(place) if holds => NotedObject::Place(place.clone()),
            _ => NotedObject::None,
        };
        match *used {
            NameUse::FailedOpen(name) if self.list.lock().name_opened(name) => {}
            NameUse::FailedOpen(name) => self.put(name, NameRole::Normal, NotedObject::None),
            NameUse::Walked(name, found) => self.put(name, NameRole::Normal, place(found)),
            NameUse::Parent(name, found) => self.put(name, NameRole::Parent, place(Some(found))),
            NameUse::Opened(found) => self.put(b"", NameRole::Normal, place(Some(found))),
            NameUse::Changed(change) => {
                let facts = Box::new(facts_of(change.vnode));
                self.list.lock().put_change(&change, facts);
            }
        }
    }
    fn put(&self, name: &[u8], role: NameRole, object: NotedObject) {
        let replaced = self.list.lock().put(name, role, object);
        // No lock is held while a place is dropped.
        drop(replaced);
    }
}

/// Returns the length of a path without its last name (`parent_len`).
fn parent_length(path: &[u8]) -> usize {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let whole = path.get(..end).unwrap_or_default();
    whole.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1)
}

/// Returns the last name of a path.
fn last_name(path: &[u8]) -> &[u8] {
    let name = path.get(parent_length(path)..).unwrap_or_default();
    name.split(|byte| *byte == b'/').next().unwrap_or_default()
}

impl NoteList {
    fn name(&self, note: &Note) -> &[u8] {
        self.bytes.get(note.name.clone()).unwrap_or_default()
    }
    /// Adds a note. A name that is walked again has one note. Returns an object that is not used any more.
    fn put(&mut self, name: &[u8], role: NameRole, object: NotedObject) -> NotedObject {
        let is_same = |note: &&mut Note| {
            let known = self.bytes.get(note.name.clone()).unwrap_or_default();
            known == name && (note.role == role || matches!(object, NotedObject::None))
        };
        if let NotedObject::Place(place) = &object
            && name.is_empty()
            && self.notes.iter().any(|note| note.is_at(place))
        {
            return object;
        }
        if !name.is_empty()
            && let Some(known) = self.notes.iter_mut().find(is_same)
        {
            return match object {
                NotedObject::None => object,
                object => core::mem::replace(&mut known.object, object),
            };
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        self.notes.push(Note { name: start..self.bytes.len(), role, object });
        NotedObject::None
    }
    /// Gives its name to the place of an open(2) that failed: the place was told of first. Returns whether there is one.
    fn name_opened(&mut self, name: &[u8]) -> bool {
        let start = self.bytes.len();
        let Some(note) = self.notes.iter_mut().find(|note| note.name.is_empty()) else {
            return false;
        };
        self.bytes.extend_from_slice(name);
        note.name = start..self.bytes.len();
        true
    }
    /// Adds the note of a change of a name, beside that of the directory, which has the whole name.
    fn put_change(&mut self, change: &NameChange<'_>, facts: Box<InodeFacts>) {
        let is_parent = |note: &Note| match &note.object {
            NotedObject::Place(place) => {
                note.role == NameRole::Parent
                    && core::ptr::eq(&**place.vnode(), change.directory)
                    && last_name(self.name(note)) == change.name
            }
            _ => false,
        };
        let Some(parent) = self.notes.iter().position(is_parent) else { return };
        let role = match change.kind {
            ChangeKind::Made => NameRole::Create,
            ChangeKind::Removed => NameRole::Delete,
        };
        let name = self.notes.get(parent).map_or(0..0, |note| note.name.clone());
        self.notes.push(Note { name, role, object: NotedObject::Changed(parent, facts) });
    }
    /// Returns whether a note may be about the file at a path, or below it: the condition of a rule.
    pub(crate) fn may_name(&self, fs: &FsContext, (number, path): (u32, &[u8])) -> bool {
        let last = last_name(path);
        self.notes.iter().any(|note| match (&note.object, number) {
            (NotedObject::None, _) => is_at(self.name(note), (number, path)),
            (NotedObject::Place(place), field::WATCH) => place.may_be_called(last),
            (NotedObject::Changed(..), field::WATCH) => last_name(self.name(note)) == last,
            _ => is_at(&self.path(fs, note), (number, path)),
        })
    }
    /// Returns the path of the object.
    fn path(&self, fs: &FsContext, note: &Note) -> Vec<u8> {
        match &note.object {
            NotedObject::None => self.name(note).to_vec(),
            NotedObject::Place(place) => place.describe(&fs.root()).text,
            NotedObject::Changed(parent, _) => {
                let directory = self.notes.get(*parent);
                let mut path = directory.map_or(Vec::new(), |directory| self.path(fs, directory));
                if path.last() != Some(&b'/') {
                    path.push(b'/');
                }
                path.extend_from_slice(last_name(self.name(note)));
                path
            }
        }
    }
    /// Returns the facts of all notes.
    pub(crate) fn facts(&self, fs: &FsContext) -> Vec<NameFacts> {
        let facts = |note: &Note| {
            let whole = self.name(note);
            let name = match note.role {
                NameRole::Parent => match whole.get(..parent_length(whole)).unwrap_or_default() {
                    b"" => fs.working().describe(&fs.root()).text.into(),
                    directory => directory.into(),
                },
                _ => whole.into(),
            };
            let file = match &note.object {
                NotedObject::None => None,
                NotedObject::Place(place) => Some(facts_of(place.vnode())),
                NotedObject::Changed(_, facts) => Some((**facts).clone()),
            };
            NameFacts { name, path: self.path(fs, note).into(), role: note.role, file }
        };
        self.notes.iter().map(facts).collect()
    }
}

/// Returns whether a path is that of a rule, or below it.
fn is_at(path: &[u8], (number, wanted): (u32, &[u8])) -> bool {
    path.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || number == field::DIR)
}

fn facts_of(vnode: &Vnode) -> InodeFacts {
    let attributes = vnode.attributes();
    let label = vnode.label().ok().and_then(|label| label.context());
    let context = label.zip(security::monitor().filter(|_| security::is_enforced()));
    InodeFacts {
        inode: attributes.inode,
        device: vnode.instance().device(),
        mode: u32::from(attributes.file_type as u16 | attributes.permissions),
        user: attributes.user,
        group: attributes.group,
        special: attributes.device,
        context: context.map(|(context, monitor)| monitor.context(context)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_name_of_a_path_is_found_as_on_linux() {
        let table: [(&[u8], usize, &[u8]); 6] = [
            (b"/tmp/a", 5, b"a"),
            (b"a", 0, b"a"),
            (b"a/b//", 2, b"b"),
            (b"/", 0, b""),
            (b"/a", 1, b"a"),
            (b"", 0, b""),
        ];
        for (path, length, name) in table {
            assert_eq!((parent_length(path), last_name(path)), (length, name), "{path:?}");
        }
    }
}
