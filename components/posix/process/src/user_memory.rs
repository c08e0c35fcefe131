//! [`User`]: memory of the kernel that a user's pipes and messages take, and its limits.
//!
//! In a system with a monitor a user has an account at each level, so that no level learns from its limits what another one uses.
//!
//! A pipe charges the pages that it may hold to the user who made it (pipe(7)). A message of a socket charges its cost to the
//! user who made the sending socket, and one of a message queue to its sender, until it is received. Counts are atomic;
//! `user_memory.users` guards the table of users alone. A task that makes a pipe, a socket or a message keeps its user's
//! account, so the table is looked at once for a task and when the last holder of an account goes.
use alloc::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use rt::{
    PAGE_BYTES, lock_class,
    sync::{Mutex, Once},
};
use vfs::{Errno, security::Level};

lock_class! {
    static LOCK = "user_memory.users";
}

/// Messages of one user may use one part in this many of memory.
const MESSAGES_SHARE: usize = 4;

/// The accounts, by the user's id and the slot of the level.
static USERS: Mutex<BTreeMap<(u32, usize), Weak<User>>> = Mutex::new(&LOCK, BTreeMap::new());

/// The account of one user at one level.
#[derive(Debug)]
pub struct User {
    id: u32,
    /// The slot of the level.
    slot: usize,
    pipe_pages: AtomicUsize,
    message_bytes: AtomicUsize,
    locked_pages: AtomicU64,
    queue_bytes: AtomicU64,
}

impl User {
    /// Returns the account of the user with the real id `id` at `level`.
    pub fn of(id: u32, level: &Level) -> Arc<User> {
        let (mut users, slot) = (USERS.lock(), level.slot());
        if let Some(user) = users.get(&(id, slot)).and_then(Weak::upgrade) {
            return user;
        }
        let (pipe_pages, message_bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (locked_pages, queue_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        let user =
            Arc::new(User { id, slot, pipe_pages, message_bytes, locked_pages, queue_bytes });
        users.insert((id, slot), Arc::downgrade(&user));
        user
    }
    /// Returns the user id.
    pub fn id(&self) -> u32 {
        self.id
    }
    /// Returns whether it is that of the user `id` at `level`.
    #[inline]
    pub fn is_of(&self, id: u32, level: &Level) -> bool {
        self.id == id && self.slot == level.slot()
    }
    /// Adds `by` to the number of pages that the user's pipes may hold. Returns the sum.
    pub fn add_pipe_pages(&self, by: isize) -> usize {
        self.pipe_pages.fetch_add(by as usize, Relaxed).wrapping_add_signed(by)
    }
    /// Charges pages of segments that are locked (SHM_LOCK).
    ///
    /// # Errors
    /// `ENOMEM` if the user would have more than `most`.
    pub fn add_locked_pages(&self, pages: u64, most: u64) -> Result<(), Errno> {
        let sum = |now: u64| now.checked_add(pages).filter(|sum| *sum <= most);
        match self.locked_pages.fetch_update(Relaxed, Relaxed, sum) {
            Ok(_) => Ok(()),
            Err(_) => Err(Errno::ENOMEM),
        }
    }
    /// Charges the greatest content of a POSIX message queue.
    ///
    /// # Errors
    /// `EMFILE` if the user's queues would hold more than `most`.
    pub fn add_queue_bytes(&self, bytes: u64, most: u64) -> Result<(), Errno> {
        let sum = |now: u64| now.checked_add(bytes).filter(|sum| *sum <= most);
        match self.queue_bytes.fetch_update(Relaxed, Relaxed, sum) {
            Ok(_) => Ok(()),
            Err(_) => Err(Errno::EMFILE),
        }
    }
    /// Reverses such a charge.
    pub fn remove_queue_bytes(&self, bytes: u64) {
        self.queue_bytes.fetch_sub(bytes, Relaxed);
    }
    /// Reverses a charge of [`User::add_locked_pages`].
    pub fn remove_locked_pages(&self, pages: u64) {
        self.locked_pages.fetch_sub(pages, Relaxed);
    }
    /// Charges a message of `bytes`.
    ///
    /// # Errors
    /// `ENOBUFS` where the user's messages would take more than a quarter of memory, or half of it unless the sender
    /// `is_unprivileged`.
    #[inline]
    pub fn add_message(
        &self,
        bytes: usize,
        is_unprivileged: impl FnOnce() -> bool,
    ) -> Result<(), Errno> {
        let now = self.message_bytes.fetch_add(bytes, Relaxed).wrapping_add(bytes);
        let most = messages_max();
        if now > most && (now > 2 * most || is_unprivileged()) {
            self.remove_message(bytes);
            return Err(Errno::ENOBUFS);
        }
        Ok(())
    }
    /// Reverses the charge of a message.
    #[inline]
    pub fn remove_message(&self, bytes: usize) {
        self.message_bytes.fetch_sub(bytes, Relaxed);
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let mut users = USERS.lock();
        // Another account may have replaced it meanwhile.
        let key = (self.id, self.slot);
        if users.get(&key).is_some_and(|user| user.strong_count() == 0) {
            users.remove(&key);
        }
    }
}

/// Returns the number of bytes that messages of one user may take.
fn messages_max() -> usize {
    static MAX: Once<usize> = Once::new();
    *MAX.get_or_init(|| frames() * PAGE_BYTES / MESSAGES_SHARE)
}

/// Returns the number of frames of the machine.
pub fn frames() -> usize {
    rt::memory::statistics().total_frames as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::security::SecuritySubject;

    #[test]
    fn a_user_has_one_account_as_long_as_anything_is_charged() {
        let subject = SecuritySubject::kernel();
        let of = |id| User::of(id, subject.level());
        let one = of(4711);
        assert_eq!(one.add_pipe_pages(16), 16);
        assert_eq!(of(4711).add_pipe_pages(-6), 10);
        assert_eq!(of(4712).add_pipe_pages(0), 0);
        drop(one);
        assert_eq!(of(4711).add_pipe_pages(0), 0);
        assert!(!USERS.lock().contains_key(&(4711, 0)));
    }
}
