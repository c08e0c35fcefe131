//! The task that runs on the calling thread, where a call's task is not at hand (openers of devices, generated files): [`current`].
use crate::{io_counts::Count, task::Task, user_memory::User};
use alloc::sync::Arc;
use hashbrown::HashMap;
use interfaces::file_system::ReservedFor;
use rt::{lock_class, sync::RwLock};
use vfs::{Capabilities, StorageIo};

lock_class! {
    static CURRENT = "task.current";
}

static RUNNING: rt::sync::Once<RwLock<HashMap<u64, Arc<Task>>>> = rt::sync::Once::new();

fn running() -> &'static RwLock<HashMap<u64, Arc<Task>>> {
    RUNNING.get_or_init(|| RwLock::new(&CURRENT, HashMap::new()))
}

/// Returns the task whose rt thread is calling, for code that is not given the task of a system call (device openers,
/// procfs); `None` on the personality's own threads.
pub fn current() -> Option<Arc<Task>> {
    running().read().get(&rt::thread::current().0).cloned()
}

/// Returns whether the calling task is to end; `false` on the personality's own threads.
pub fn is_current_ending() -> bool {
    current().is_some_and(|task| task.is_ending())
}

/// Returns whether the calling task may use blocks that a volume reserves: as the user or in the group for which they are
/// reserved, or with `CAP_SYS_RESOURCE` (mke2fs(8), tune2fs(8)). The personality's own threads may not.
pub fn may_use_reserved(reserved: ReservedFor) -> bool {
    current().is_some_and(|task| {
        let credentials = task.credentials();
        credentials.user.fs == reserved.user
            || (reserved.group != 0 && credentials.is_in_group(reserved.group))
            || credentials.has(Capabilities::SYS_RESOURCE)
    })
}

/// Makes [`current`] return `task` on this thread.
pub fn enter(task: &Arc<Task>) {
    running().write().insert(rt::thread::current().0, task.clone());
}

/// Reverses [`enter`].
pub fn leave() {
    let task = running().write().remove(&rt::thread::current().0);
    // This is done without the lock: objects that are dropped with it may ask for the current task.
    drop(task);
}

/// Charges I/O of storage to the task of the calling thread, if it has one.
pub fn charge(io: StorageIo, bytes: u64) {
    let count = match io {
        StorageIo::Read => Count::BytesRead,
        StorageIo::Write => Count::BytesWritten,
        StorageIo::Cancelled => Count::BytesCancelled,
    };
    if let Some(task) = current() {
        task.io.add(count, bytes);
    }
}

/// The account of the calling task's real user, or root's where no task calls.
pub fn account() -> Arc<User> {
    current().map_or_else(|| User::of(0), |task| task.account())
}

/// Whether the limits of users hold for the calling task; not on the personality's own threads.
#[cold]
pub fn is_unprivileged() -> bool {
    current().is_some_and(|task| task.is_unprivileged())
}
