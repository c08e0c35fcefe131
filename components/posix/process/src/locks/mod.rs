//! File locks: POSIX record locks, open-file-description locks and flock(2) locks.
//!
//! A [`FileLocks`] is in the slot of a vnode once the file was locked; `locks.list` guards it and
//! is a leaf. POSIX locks belong to a descriptor table and are removed when any descriptor of the
//! file is closed there; the others belong to a description and end with it (they hold it weakly,
//! and locks without a description are removed at the next access). Source: fcntl_locking(2),
//! flock(2).
mod range;
#[cfg(test)]
mod tests;

pub use range::{LockMode, Range};

use alloc::{
    format,
    string::String,
    sync::{Arc, Weak},
    vec::Vec,
};
use range::{FileLock, add, first_conflict, remove};
use rt::{lock_class, sync::Mutex, thread::Woken};
use vfs::{Errno, OpenFile, Principal, Vnode, poll::WaitQueue};

lock_class! {
    static LIST = "locks.list";
    static WAITING = "locks.waiting";
    static LOCKED_FILES = "locks.files";
}

/// The owner of a lock.
#[derive(Clone)]
pub enum LockOwner {
    /// A descriptor table (POSIX), by its number, with the process that asked.
    Table {
        /// The table's number, [`crate::files::DescriptorTable::id`].
        table: u64,
        /// The process that F_GETLK shows.
        process: u32,
    },
    /// A description.
    Description {
        /// The description.
        file: Weak<OpenFile>,
        /// The process that asked, which `/proc/locks` shows of flock(2) locks.
        process: u32,
    },
}

impl LockOwner {
    fn is_same(&self, other: &LockOwner) -> bool {
        match (self, other) {
            (LockOwner::Table { table, .. }, LockOwner::Table { table: other, .. }) => {
                table == other
            }
            (
                LockOwner::Description { file: one, .. },
                LockOwner::Description { file: other, .. },
            ) => Weak::ptr_eq(one, other),
            _ => false,
        }
    }
    fn is_gone(&self) -> bool {
        matches!(self, LockOwner::Description { file, .. } if file.strong_count() == 0)
    }
    /// Returns the process that F_GETLK shows; -1 for a description.
    pub fn process(&self) -> i32 {
        match self {
            LockOwner::Table { process, .. } => *process as i32,
            LockOwner::Description { .. } => -1,
        }
    }
}

/// The two kinds of locks, which do not affect each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockWorld {
    /// Locks of fcntl(2).
    Records,
    /// Locks of flock(2), which always cover the whole file.
    Whole,
}

/// The reaction to a conflicting lock of another owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// The call fails with `EAGAIN`.
    Fail,
    /// The call waits, interruptibly.
    Wait,
}

#[derive(Default)]
struct Lists {
    records: Vec<FileLock>,
    whole: Vec<FileLock>,
}

impl Lists {
    fn of(&mut self, world: LockWorld) -> &mut Vec<FileLock> {
        match world {
            LockWorld::Records => &mut self.records,
            LockWorld::Whole => &mut self.whole,
        }
    }
}

/// The locks on one file.
pub struct FileLocks {
    /// Device and inode number of the file.
    file: ((u32, u32), u64),
    lists: Mutex<Lists>,
    changed: WaitQueue,
}

/// Every locked file, for `/proc/locks`.
static LOCKED: Mutex<Vec<Weak<FileLocks>>> = Mutex::new(&LOCKED_FILES, Vec::new());

/// Tables that wait for a lock of another table: (waiter, holder), to find deadlocks.
static WAITERS: Mutex<Vec<(u64, u64)>> = Mutex::new(&WAITING, Vec::new());

impl FileLocks {
    fn new(file: ((u32, u32), u64)) -> Arc<FileLocks> {
        let lists = Mutex::new(&LIST, Lists::default());
        let locks = Arc::new(FileLocks { file, lists, changed: WaitQueue::new() });
        let mut known = LOCKED.lock();
        known.retain(|known| known.strong_count() > 0);
        known.push(Arc::downgrade(&locks));
        locks
    }
    /// Returns the locks on `vnode`.
    ///
    /// # Errors
    /// `ENOLCK` if its slot is used for something else.
    pub fn of(vnode: &Vnode) -> Result<Arc<FileLocks>, Errno> {
        let mut slot = vnode.locks().lock();
        let kept = slot
            .get_or_insert_with(|| FileLocks::new((vnode.instance().device(), vnode.inode())))
            .clone();
        kept.downcast::<FileLocks>().map_err(|_| Errno::ENOLCK)
    }
    #[inline]
    fn existing(vnode: &Vnode) -> Option<Arc<FileLocks>> {
        vnode.locks().lock().clone()?.downcast::<FileLocks>().ok()
    }
    /// Returns the locks as `/proc/locks` shows them, without their numbers.
    fn lines(&self) -> Vec<String> {
        let mut lists = self.lists.lock();
        let mut lines = Vec::new();
        for world in [LockWorld::Records, LockWorld::Whole] {
            let list = lists.of(world);
            list.retain(|held| !held.owner.is_gone());
            lines.extend(list.iter().map(|held| self.line(world, held)));
        }
        lines
    }
    fn line(&self, world: LockWorld, held: &FileLock) -> String {
        let (kind, process) = match (world, &held.owner) {
            (LockWorld::Whole, LockOwner::Description { process, .. }) => {
                ("FLOCK ", *process as i32)
            }
            (_, LockOwner::Description { .. }) => ("OFDLCK", -1),
            (_, owner) => ("POSIX ", owner.process()),
        };
        let access = if held.kind == LockMode::Shared { "READ" } else { "WRITE" };
        let ((major, minor), inode) = self.file;
        let last = match held.range.last {
            last if last == Range::ALL.last => String::from("EOF"),
            last => format!("{last}"),
        };
        let first = held.range.first;
        format!(
            "{kind} ADVISORY  {access} {process} {major:02x}:{minor:02x}:{inode} {first} {last}"
        )
    }
    /// Returns a lock of another owner that conflicts with a lock of `kind` on `range` for `owner`.
    pub fn conflict(
        &self,
        world: LockWorld,
        owner: &LockOwner,
        kind: LockMode,
        range: Range,
    ) -> Option<FileLock> {
        let mut lists = self.lists.lock();
        let list = lists.of(world);
        list.retain(|held| !held.owner.is_gone());
        first_conflict(list, owner, kind, range).cloned()
    }
    /// Removes the locks of `owner` on `range`.
    pub fn unlock(&self, world: LockWorld, owner: &LockOwner, range: Range) {
        remove(self.lists.lock().of(world), owner, range);
        self.changed.wake();
    }
    /// Locks `range` for `owner`, in place of its previous locks on it.
    ///
    /// # Errors
    /// `EAGAIN`, `EDEADLK` if the wait would never end, `Restart`.
    pub fn lock(
        &self,
        world: LockWorld,
        owner: &LockOwner,
        kind: LockMode,
        range: Range,
        on_conflict: OnConflict,
    ) -> Result<(), Errno> {
        loop {
            let ticket = self.changed.ticket();
            let holder = {
                let mut lists = self.lists.lock();
                let list = lists.of(world);
                list.retain(|held| !held.owner.is_gone());
                match first_conflict(list, owner, kind, range) {
                    Some(held) => held.owner.clone(),
                    None => {
                        remove(list, owner, range);
                        add(list, FileLock { owner: owner.clone(), kind, range });
                        drop(lists);
                        self.changed.wake();
                        return Ok(());
                    }
                }
            };
            if on_conflict == OnConflict::Fail {
                return Err(Errno::EAGAIN);
            }
            let waiting = Waiting::start(owner, &holder)?;
            let woken = self.changed.wait(ticket, None);
            drop(waiting);
            if woken == Woken::Kicked {
                return Err(Errno::Restart);
            }
        }
    }
}

/// Returns every lock, one line each (`/proc/locks`).
pub fn report() -> Vec<String> {
    let files: Vec<_> = LOCKED.lock().iter().filter_map(Weak::upgrade).collect();
    files.iter().flat_map(|locks| locks.lines()).collect()
}

/// Returns the locks on `vnode`, one line each (`/proc/PID/fdinfo`).
pub fn report_of(vnode: &Vnode) -> Vec<String> {
    FileLocks::existing(vnode).map(|locks| locks.lines()).unwrap_or_default()
}

/// An entry of a waiting table, removed when this is dropped.
struct Waiting(Option<(u64, u64)>);

impl Waiting {
    fn start(waiter: &LockOwner, holder: &LockOwner) -> Result<Waiting, Errno> {
        let (LockOwner::Table { table: waiter, .. }, LockOwner::Table { table: holder, .. }) =
            (waiter, holder)
        else {
            return Ok(Waiting(None));
        };
        let mut waiters = WAITERS.lock();
        let mut at = *holder;
        for _ in 0..=waiters.len() {
            if at == *waiter {
                return Err(Errno::EDEADLK);
            }
            match waiters.iter().find(|(waiter, _)| *waiter == at) {
                Some((_, next)) => at = *next,
                None => break,
            }
        }
        waiters.push((*waiter, *holder));
        Ok(Waiting(Some((*waiter, *holder))))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(entry) = self.0 else { return };
        let mut waiters = WAITERS.lock();
        if let Some(position) = waiters.iter().position(|waiting| *waiting == entry) {
            waiters.swap_remove(position);
        }
    }
}

/// Called when a descriptor of `file` was closed in `table`: removes its POSIX locks on the file,
/// and with the last reference those of the description.
#[inline]
pub fn descriptor_closed(table: u64, file: Arc<OpenFile>, caller: &dyn Principal) {
    match FileLocks::existing(file.vnode()) {
        Some(locks) => close_locked(table, file, &locks, caller),
        None => file.close(caller),
    }
}

#[inline(never)]
fn close_locked(table: u64, file: Arc<OpenFile>, locks: &FileLocks, caller: &dyn Principal) {
    let owner = LockOwner::Table { table, process: 0 };
    remove(&mut locks.lists.lock().records, &owner, Range::ALL);
    file.close(caller);
    locks.changed.wake();
}
