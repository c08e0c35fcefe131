//! Descriptors on their way (SCM_RIGHTS), and the collection of sockets that only reach each other.
//!
//! [`Rights`] are counted from when their message is put into an inbox until it is taken out (both under
//! `socket.flight`, above every `socket.state`). A socket's description that nobody but messages holds can be had only
//! by receiving it; where that needs a socket of which the same is true, it never can, and [`collect`] takes their
//! messages away. Source: unix(7); the idea is that of Linux's net/unix/garbage.c.
//! Descriptions are closed in a loop ([`close`]), not one within the other: a chain of them may be longer than a stack.
use super::Socket;
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

/// Most descriptors of one message (`SCM_MAX_FD`).
pub const RIGHTS_MAX: usize = 253;

/// A description in messages, and in how many.
struct Flying {
    file: Weak<OpenFile>,
    count: usize,
}

/// Descriptors in inboxes.
#[derive(Default)]
pub(super) struct Flight {
    by_user: BTreeMap<u32, usize>,
    /// Sockets alone, by the address of their description.
    sockets: BTreeMap<usize, Flying>,
}

static IN_FLIGHT: Mutex<Flight> =
    Mutex::new(&FLIGHT, Flight { by_user: BTreeMap::new(), sockets: BTreeMap::new() });
/// Sockets in flight, so that closing others need not look.
static SOCKETS: AtomicUsize = AtomicUsize::new(0);

/// So few sockets in flight are looked at whenever a socket is closed; more only when they have doubled since. Then sending
/// descriptors looks at them as well, so that a program which closes nothing leaves no more than that.
const FEW: usize = 64;
/// Number of sockets in flight at which they are looked at again.
static LOOK_AT: AtomicUsize = AtomicUsize::new(FEW);

/// Descriptors of a message.
pub struct Rights {
    files: Vec<Arc<OpenFile>>,
    user: u32,
    is_counted: bool,
}

/// Descriptors that `user` has in flight.
pub fn count_of(user: u32) -> usize {
    IN_FLIGHT.lock().by_user.get(&user).copied().unwrap_or(0)
}

fn socket_of(file: &OpenFile) -> Option<&Socket> {
    file.file().as_any().downcast_ref::<Socket>()
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
    /// `files`, sent by `user`.
    pub fn new(files: Vec<Arc<OpenFile>>, user: u32) -> Rights {
        Rights { files, user, is_counted: false }
    }
    /// Runs `put`, which puts them into an inbox, and counts them if it did.
    pub(super) fn launch<T>(put: impl FnOnce(&mut Launch<'_>) -> T) -> T {
        let mut flight = IN_FLIGHT.lock();
        put(&mut Launch(&mut flight))
    }
    /// The descriptions, for who received them.
    fn land(mut self, flight: &mut Flight) -> Vec<Arc<OpenFile>> {
        if self.is_counted {
            flight.remove(&mut self);
        }
        core::mem::take(&mut self.files)
    }
    /// The descriptions once more, for who peeks.
    fn copy(&self) -> Vec<Arc<OpenFile>> {
        self.files.clone()
    }
    /// The descriptions.
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

/// Descriptors may be put into inboxes and taken out.
pub(super) struct Launch<'a>(&'a mut Flight);

impl Launch<'_> {
    /// Counts what was put into an inbox.
    pub(super) fn count(&mut self, rights: &mut Option<Rights>) {
        if let Some(rights) = rights {
            self.0.add(rights);
        }
    }
    /// Takes what a message brought.
    pub(super) fn land(&mut self, rights: Option<Rights>) -> Vec<Arc<OpenFile>> {
        rights.map(|rights| rights.land(self.0)).unwrap_or_default()
    }
    /// The files that a message brought, which stay in it.
    pub(super) fn copy(&mut self, rights: &Option<Rights>) -> Vec<Arc<OpenFile>> {
        rights.as_ref().map(Rights::copy).unwrap_or_default()
    }
}

/// Descriptions to be closed.
static DOOMED: Mutex<Vec<Arc<OpenFile>>> = Mutex::new(&CLOSING, Vec::new());
/// Somebody closes them.
static IS_CLOSING: AtomicBool = AtomicBool::new(false);

/// Lets go of descriptions: whoever is first closes what comes meanwhile, too.
fn close(files: Vec<Arc<OpenFile>>) {
    if files.is_empty() {
        return;
    }
    DOOMED.lock().extend(files);
    while !DOOMED.lock().is_empty() {
        if IS_CLOSING.swap(true, Ordering::AcqRel) {
            // Somebody else does, or this thread further up, and looks once more at the end.
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
    /// Messages that hold it in inboxes of others than candidates.
    outside: usize,
    holds: Vec<usize>,
}

/// Collects where a socket was closed.
pub(super) fn collect_at_close() {
    let count = SOCKETS.load(Ordering::Relaxed);
    if count > 0 && (count <= FEW || count >= LOOK_AT.load(Ordering::Relaxed)) {
        collect();
    }
}

/// Collects before descriptors are sent. The caller holds no lock.
pub fn collect_at_send() {
    let count = SOCKETS.load(Ordering::Relaxed);
    if count > FEW && count >= LOOK_AT.load(Ordering::Relaxed) {
        collect();
    }
}

/// Collects where memory is short. The caller holds no lock. Returns whether memory may have become free.
pub fn collect_for_memory() -> bool {
    SOCKETS.load(Ordering::Relaxed) > 0 && collect() > 0
}

/// Takes their messages from sockets that can be reached only through each other. Returns the number of these sockets.
fn collect() -> usize {
    let flight = IN_FLIGHT.lock();
    let mut candidates = BTreeMap::new();
    let mut others = Vec::new();
    for (key, flying) in &flight.sockets {
        let Some(file) = flying.file.upgrade() else { continue };
        // One of the references is ours.
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
        lost.iter().filter_map(|file| socket_of(file)).map(Socket::take_messages).collect();
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
