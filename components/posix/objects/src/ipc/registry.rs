//! [`Registry`]: the objects of one kind, by identifier and key; what the `get` calls have in common (`ipcget`).
use super::{CREATE, EXCLUSIVE, Who, errno};
use alloc::{sync::Arc, vec::Vec};
use interfaces::monitor::ObjectAccess;
use process::Task;
use rt::{
    lock_class,
    sync::{ReadGuard, RwLock, WriteGuard},
};
use sysv::{
    permission::{Permission, READ},
    table::{ObjectTable, PRIVATE},
};
use vfs::{
    Errno, Principal,
    security::{self, Label, flows},
};

lock_class! {
    static REGISTRY = "ipc.registry";
}

/// Bytes of memory that an object needs besides those that it counts itself.
pub const OBJECT_BYTES: usize = 512;

/// An object with an identifier.
pub trait Object {
    /// The class that records of refusals name.
    const CLASS: &'static str;
    /// Returns the present owner, creator and mode.
    fn permission(&self) -> Permission;
    /// Returns the label of mandatory access control: that of its maker's subject.
    fn label(&self) -> &'static Label;
}

/// The objects of one kind.
pub struct Registry<T> {
    table: RwLock<ObjectTable<Arc<T>>>,
}

impl<T: Object> Registry<T> {
    /// Makes a registry without objects.
    pub const fn new() -> Registry<T> {
        Registry { table: RwLock::new(&REGISTRY, ObjectTable::new()) }
    }
    /// Locks the table for reading.
    pub fn read(&self) -> ReadGuard<'_, ObjectTable<Arc<T>>> {
        self.table.read()
    }
    /// Locks the table for changes.
    pub fn write(&self) -> WriteGuard<'_, ObjectTable<Arc<T>>> {
        self.table.write()
    }
    /// Returns the object `id`.
    ///
    /// # Errors
    /// `EINVAL` if there is none, for `task`.
    #[inline]
    pub fn get(&self, id: i32, task: &Task) -> Result<Arc<T>, Errno> {
        let found = self.read().get(id).cloned().ok_or(Errno::EINVAL)?;
        let is_hidden = security::is_enforced() && !Who::of(task).sees(found.label());
        if is_hidden {
            return Err(Errno::EINVAL);
        }
        flows::reads(|| Some(found.label()));
        Ok(found)
    }
    /// Returns the identifier of the object with `key`, or of a new one, as the `get` call with `flags` says. `suits` checks
    /// an existing object, `make` makes a new one, both under the registry's lock.
    ///
    /// # Errors
    /// `ENOENT`, `EEXIST`, `EACCES`, and errors of `suits` and `make`.
    pub fn obtain(
        &self,
        (key, flags): (i32, i32),
        who: &Who,
        suits: impl FnOnce(&T) -> Result<(), Errno>,
        make: impl FnOnce(&mut ObjectTable<Arc<T>>) -> Result<i32, Errno>,
    ) -> Result<i32, Errno> {
        let mut table = self.write();
        if key == PRIVATE {
            return make(&mut table);
        }
        let found = table.with_key(key, |object| who.finds(object.label()));
        let Some((id, found)) = found.map(|(id, object)| (id, object.clone())) else {
            return if flags & CREATE != 0 { make(&mut table) } else { Err(Errno::ENOENT) };
        };
        if flags & CREATE != 0 && flags & EXCLUSIVE != 0 {
            return Err(Errno::EEXIST);
        }
        suits(&found)?;
        if !found.permission().allows(who, flags as u16) {
            return Err(Errno::EACCES);
        }
        Ok(id)
    }
    /// Returns the object that a STAT command names, and the number for the call to return.
    ///
    /// # Errors
    /// `EINVAL`, `EACCES`.
    pub fn stat(&self, id: i32, stat: Stat, who: &Who) -> Result<(Arc<T>, u64), Errno> {
        let table = self.read();
        let (object, answer) = match stat {
            Stat::Identifier => (table.get(id).ok_or(Errno::EINVAL)?, 0),
            Stat::Index | Stat::AnyIndex => {
                let (id, object) = table.at(id).ok_or(Errno::EINVAL)?;
                (object, id as u64)
            }
        };
        if !who.sees(object.label()) {
            return Err(Errno::EINVAL);
        }
        if stat != Stat::AnyIndex && !object.permission().allows(who, READ) {
            return Err(Errno::EACCES);
        }
        flows::reads(|| Some(object.label()));
        Ok((object.clone(), answer))
    }
    /// Returns the object `id`, if `who` may change and remove it.
    ///
    /// # Errors
    /// `EINVAL`, `EPERM`, `EACCES`.
    pub fn controlled(&self, id: i32, who: &Who) -> Result<Arc<T>, Errno> {
        let found = self.read().get(id).cloned().filter(|object| who.sees(object.label()));
        let object = found.ok_or(Errno::EINVAL)?;
        if !object.permission().is_controlled_by(who) {
            return Err(Errno::EPERM);
        }
        who.check_label(&*object, ObjectAccess::Write)?;
        flows::writes(|| Some(object.label()));
        Ok(object)
    }
    /// Returns the highest index for `who`, which is the result of the INFO commands.
    pub fn highest(&self, who: &Who) -> u64 {
        self.read().highest(|object| who.sees(object.label())).map_or(0, u64::from)
    }
    /// Returns the objects that exist for `viewer`, in the order of their indices.
    pub fn shown_to(&self, viewer: &dyn Principal) -> Vec<Arc<T>> {
        let who = Task::of(viewer).map(Who::of);
        let is_shown = |object: &&Arc<T>| who.as_ref().is_none_or(|who| who.sees(object.label()));
        self.read().iter().filter(is_shown).cloned().collect()
    }
}

impl<T: Object> Default for Registry<T> {
    fn default() -> Self {
        Registry::new()
    }
}

/// Adds a new object of a caller to `table`, which may have at most `most` of the caller's level.
///
/// # Errors
/// `ENOSPC`.
pub fn enter<T>(
    table: &mut ObjectTable<Arc<T>>,
    who: &Who,
    (key, most): (i32, usize),
    make: impl FnOnce(i32) -> T,
) -> Result<i32, Errno> {
    table.insert(key, (who.indices(), most), |id| Arc::new(make(id))).map_err(errno)
}

/// The way in which a STAT command names its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stat {
    /// IPC_STAT: the object is named by its identifier.
    Identifier,
    /// SHM_STAT and similar: the object is named by its index.
    Index,
    /// SHM_STAT_ANY and similar: the object is named by its index, and its permissions are ignored.
    AnyIndex,
}
