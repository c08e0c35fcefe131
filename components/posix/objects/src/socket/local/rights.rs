//! Descriptors under way in messages (SCM_RIGHTS), and the collection of sockets that only refer to each other.
//!
//! [`Rights`] are counted from the moment when their message is put into an inbox until it is removed (both under
//! `socket.flight`, above every `socket.state`). A description of a socket that only messages hold can be reached only by
//! receiving it; if that needs a socket of which the same is true, it never can be, and [`collect`] removes their messages.
//! Source: unix(7); the idea is that of Linux's net/unix/garbage.c. Descriptions are closed in a loop ([`close`]), not by
//! recursion: a chain of them may be longer than a stack.
use super::LocalSocket;
use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use rt::{lock_class, sync::Mutex};
use vfs::OpenFile;

lock_class! {
    static FLIGHT = "socket.flight";
    static CLOSING = "socket.closing";
}

/// The greatest number of descriptors of one message (`SCM_MAX_FD`).
pub const RIGHTS_MAX: usize = 253;

/// A description in messages, and the number of these messages.
struct Flying {
    file: Weak<OpenFile>,
    count: usize,
}

/// The descriptors in inboxes.
#[derive(Default)]
pub(super) struct Flight {
    by_user: BTreeMap<u32, usize>,
    /// Only the sockets, by the address of their description.
    sockets: BTreeMap<usize, Flying>,
}

static IN_FLIGHT: Mutex<Flight> =
    Mutex::new(&FLIGHT, Flight { by_user: BTreeMap::new(), sockets: BTreeMap::new() });
/// Number of sockets in flight, so that closing other sockets need not check.
static SOCKETS: AtomicUsize = AtomicUsize::new(0);

/// Up to this number of sockets in flight, every close of a socket runs the collection; above it only when their number has
/// doubled since the last one. Then sending descriptors runs it as well, so that a program which closes nothing keeps no
/// more than that.
const FEW: usize = 64;
/// Number of sockets in flight at which the collection runs again.
static LOOK_AT: AtomicUsize = AtomicUsize::new(FEW);

/// The descriptors of a message.
pub struct Rights {
    files: Vec<Arc<OpenFile>>,
    user: u32,
    is_counted: bool,
}

/// Returns the number of descriptors that `user` has in flight.
pub fn count_of(user: u32) -> usize {
    IN_FLIGHT.lock().by_user.get(&user).copied().unwrap_or(0)
}

fn socket_of(file: &OpenFile) -> Option<&LocalSocket> {
    file.file().as_any().downcast_ref::<LocalSocket>()
}

fn key(file: &Arc<OpenFile>) -> usize {
    Arc::as_ptr(file).addr()
}

impl Flight {
    fn add(&mut self, rights: &mut Rights) {
        rights.is_counted = true;
        *self.by_user.entry(rights.user).or_default() += rights.files.len();
        for file in rights.files.iter().filter(|file| socket_of(file).is_some()) {
            let fresh = || Flying { file: Arc::downgrade(file), count: 0 };
            self.sockets.entry(key(file)).or_insert_with(fresh).count += 1;
        }
        SOCKETS.store(self.sockets.len(), Ordering::Relaxed);
    }
    fn remove(&mut self, rights: &mut Rights) {
        rights.is_counted = false;
        if let Some(count) = self.by_user.get_mut(&rights.user) {
            *count = count.saturating_sub(rights.files.len());
            if *count == 0 {
                self.by_user.remove(&rights.user);
            }
        }
        for file in rights.files.iter().filter(|file| socket_of(file).is_some()) {
            let key = key(file);
            if let Some(flying) = self.sockets.get_mut(&key) {
                flying.count = flying.count.saturating_sub(1);
                if flying.count == 0 {
                    self.sockets.remove(&key);
                }
            }
        }
        SOCKETS.store(self.sockets.len(), Ordering::Relaxed);
    }
}

impl Rights {
    /// Makes the rights of `files`, sent by `user`.
    pub fn new(files: Vec<Arc<OpenFile>>, user: u32) -> Rights {
        Rights { files, user, is_counted: false }
    }
    /// Runs `put`, which puts the rights into an inbox, and counts them if it did.
    pub(super) fn launch<T>(put: impl FnOnce(&mut Launch<'_>) -> T) -> T {
        let mut flight = IN_FLIGHT.lock();
        put(&mut Launch(&mut flight))
    }
    /// Returns the descriptions, for the receiver.
    fn land(mut self, flight: &mut Flight) -> Vec<Arc<OpenFile>> {
        if self.is_counted {
            flight.remove(&mut self);
        }
        core::mem::take(&mut self.files)
    }
    /// Returns copies of the descriptions, for a peek.
    fn copy(&self) -> Vec<Arc<OpenFile>> {
        self.files.clone()
    }
    /// Returns the descriptions.
    pub(super) fn files(&self) -> &[Arc<OpenFile>] {
        &self.files
    }
}

impl Drop for Rights {
    fn drop(&mut self) {
        if self.is_counted {
            IN_FLIGHT.lock().remove(self);
        }
        close(core::mem::take(&mut self.files));
    }
}

/// The right to put descriptors into inboxes and to remove them; it holds the lock.
pub(super) struct Launch<'a>(&'a mut Flight);

impl Launch<'_> {
    /// Counts the rights of a message that was put into an inbox.
    pub(super) fn count(&mut self, rights: &mut Option<Rights>) {
        if let Some(rights) = rights {
            self.0.add(rights);
        }
    }
    /// Removes and returns the descriptions of a message.
    pub(super) fn land(&mut self, rights: Option<Rights>) -> Vec<Arc<OpenFile>> {
        rights.map(|rights| rights.land(self.0)).unwrap_or_default()
    }
    /// Returns the descriptions of a message, which stay in it.
    pub(super) fn copy(&mut self, rights: &Option<Rights>) -> Vec<Arc<OpenFile>> {
        rights.as_ref().map(Rights::copy).unwrap_or_default()
    }
}

/// Descriptions to be closed.
static DOOMED: Mutex<Vec<Arc<OpenFile>>> = Mutex::new(&CLOSING, Vec::new());
/// A thread is closing them.
static IS_CLOSING: AtomicBool = AtomicBool::new(false);

/// Drops descriptions: the first thread to do so also closes those that are added meanwhile.
fn close(files: Vec<Arc<OpenFile>>) {
    if files.is_empty() {
        return;
    }
    DOOMED.lock().extend(files);
    while !DOOMED.lock().is_empty() {
        if IS_CLOSING.swap(true, Ordering::AcqRel) {
            // Another thread closes them, or an outer call on this thread; it checks the list once more at the end.
            return;
        }
        loop {
            let next = DOOMED.lock().pop();
            match next {
                Some(file) => drop(file),
                None => break,
            }
        }
        IS_CLOSING.store(false, Ordering::Release);
    }
}

/// A socket that only messages hold.
struct Candidate {
    file: Arc<OpenFile>,
    /// Number of messages that hold it in inboxes of sockets that are not candidates.
    outside: usize,
    holds: Vec<usize>,
}

/// Runs the collection when a socket was closed.
pub(super) fn collect_at_close() {
    let count = SOCKETS.load(Ordering::Relaxed);
    if count > 0 && (count <= FEW || count >= LOOK_AT.load(Ordering::Relaxed)) {
        collect();
    }
}

/// Runs the collection before descriptors are sent. The caller holds no lock.
pub fn collect_at_send() {
    let count = SOCKETS.load(Ordering::Relaxed);
    if count > FEW && count >= LOOK_AT.load(Ordering::Relaxed) {
        collect();
    }
}

/// Runs the collection if memory is short. The caller holds no lock. Returns whether memory may have become free.
pub fn collect_for_memory() -> bool {
    SOCKETS.load(Ordering::Relaxed) > 0 && collect() > 0
}

/// Removes the messages of sockets that can be reached only through each other. Returns the number of these sockets.
fn collect() -> usize {
    let flight = IN_FLIGHT.lock();
    let mut candidates = BTreeMap::new();
    let mut others = Vec::new();
    for (key, flying) in &flight.sockets {
        let Some(file) = flying.file.upgrade() else { continue };
        // One of the references is held here.
        if Arc::strong_count(&file) - 1 == flying.count {
            let holds = Vec::new();
            candidates.insert(*key, Candidate { file, outside: flying.count, holds });
        } else {
            others.push(file);
        }
    }
    let keys: BTreeSet<usize> = candidates.keys().copied().collect();
    let mut inside = Vec::new();
    for candidate in candidates.values_mut() {
        if let Some(socket) = socket_of(&candidate.file) {
            socket.each_rights(&mut |rights| {
                let held = rights.files().iter().map(key).filter(|key| keys.contains(key));
                candidate.holds.extend(held);
            });
        }
        inside.extend_from_slice(&candidate.holds);
    }
    for key in inside {
        if let Some(candidate) = candidates.get_mut(&key) {
            candidate.outside = candidate.outside.saturating_sub(1);
        }
    }
    let mut reached: Vec<usize> =
        candidates.iter().filter(|(_, one)| one.outside > 0).map(|(key, _)| *key).collect();
    let mut kept = Vec::new();
    while let Some(key) = reached.pop() {
        if let Some(candidate) = candidates.remove(&key) {
            reached.extend_from_slice(&candidate.holds);
            kept.push(candidate.file);
        }
    }
    let lost: Vec<_> = candidates.into_values().map(|candidate| candidate.file).collect();
    let messages: Vec<_> =
        lost.iter().filter_map(|file| socket_of(file)).map(LocalSocket::take_messages).collect();
    let count = lost.len();
    let left = flight.sockets.len().saturating_sub(count);
    LOOK_AT.store(left.max(FEW).saturating_mul(2), Ordering::Relaxed);
    drop(flight);
    drop(messages);
    close(lost);
    close(kept);
    close(others);
    count
}
