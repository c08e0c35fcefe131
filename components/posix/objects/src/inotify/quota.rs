//! Counts of each user's inotify instances and watches at each level, and their limits.
use alloc::collections::BTreeMap;
use memory::setting::Setting;
use rt::{lock_class, sync::Mutex};
use vfs::Errno;

lock_class! {
    static QUOTA = "inotify.quota";
}

/// The greatest number of instances of a user (`/proc/sys/fs/inotify/max_user_instances`).
pub static INSTANCES_MAX: Setting = Setting::count(128);
/// The greatest number of watches of a user (`/proc/sys/fs/inotify/max_user_watches`).
pub static WATCHES_MAX: Setting = Setting::count(8192);

/// The kinds of object that are counted for each user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counted {
    /// Instances: files of inotify_init1(2).
    Instances,
    /// Watches of such instances.
    Watches,
}

/// A user at a level, by its slot: limits hold for each level alone, so that they tell nothing of others (K1).
pub type Owner = (u32, usize);

static COUNTS: Mutex<BTreeMap<(Counted, Owner), usize>> = Mutex::new(&QUOTA, BTreeMap::new());

/// One counted object of a user, until it is dropped.
pub struct CountedObject {
    key: (Counted, Owner),
}

impl CountedObject {
    /// Counts one more object.
    ///
    /// # Errors
    /// `EMFILE` for instances, `ENOSPC` for watches.
    pub fn take(what: Counted, owner: Owner) -> Result<CountedObject, Errno> {
        let (most, refusal) = match what {
            Counted::Instances => (INSTANCES_MAX.size(), Errno::EMFILE),
            Counted::Watches => (WATCHES_MAX.size(), Errno::ENOSPC),
        };
        let mut counts = COUNTS.lock();
        let count = counts.entry((what, owner)).or_default();
        if *count >= most {
            if *count == 0 {
                counts.remove(&(what, owner));
            }
            return Err(refusal);
        }
        *count += 1;
        Ok(CountedObject { key: (what, owner) })
    }
}

impl Drop for CountedObject {
    fn drop(&mut self) {
        let mut counts = COUNTS.lock();
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}
