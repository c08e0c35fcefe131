//! The caller, on whose behalf files are used ([`Caller`]), and its lookup of one name in a directory.
//!
//! A lookup of a name that is in the name cache takes no exclusive lock and allocates nothing. Locks of a lookup: directory and
//! name shared (on a miss only), a shard of the name cache shared, the mount table shared (only where something is mounted).
use crate::{
    base::{
        credentials::Credentials,
        errno::Errno,
        principal::Principal,
        security::{self, flows},
    },
    tree::{
        child_cache::ChildCache,
        dentry::Dentry,
        hidden_names::is_hidden_name,
        mount::Path,
        name_cache::{Cached, Key},
        name_lock,
        node::Viewer,
        vnode::Vnode,
    },
    walk::namespace::Namespace,
};
use alloc::sync::Arc;
use interfaces::file_system::FsError;

/// Greatest length of a name in bytes.
pub const NAME_MAX: usize = 255;

/// The directory at which a relative path starts.
#[derive(Clone, Copy)]
pub enum Base<'a> {
    /// The working directory (AT_FDCWD).
    Cwd,
    /// The place that a descriptor names.
    At(&'a Path),
}

/// The process for which files are used: its namespace, credentials and directories. Making one is cheap: all fields
/// are borrowed.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    /// Its task, to which the work of files is charged.
    pub task: &'a dyn Principal,
    /// The mounts seen.
    pub namespace: &'a Arc<Namespace>,
    /// Its credentials.
    pub credentials: &'a Credentials,
    /// Its root directory.
    pub root: &'a Path,
    /// The working directory.
    pub cwd: &'a Path,
    /// Permission bits that new files do not get.
    pub umask: u16,
    /// The process id, for generated files (`/proc/self`).
    pub process: u32,
    /// The thread id, for generated files (`/proc/thread-self`).
    pub thread: u32,
}

impl<'a> Caller<'a> {
    /// As generated files see it.
    pub fn viewer(&self) -> Viewer<'a> {
        Viewer { task: self.task, root: self.root, process: self.process, thread: self.thread }
    }
    pub(crate) fn base<'b>(&self, base: Base<'b>) -> &'b Path
    where
        'a: 'b,
    {
        match base {
            Base::Cwd => self.cwd,
            Base::At(path) => path,
        }
    }
    /// Returns the file `name` in the directory `parent`, with mounts crossed; `None` if there is none.
    pub(crate) fn child(&self, parent: &Path, name: &[u8]) -> Result<Option<Path>, Errno> {
        let Some(dentry) = self.lookup(&parent.dentry, name)? else { return Ok(None) };
        let path = Path { mount: parent.mount.clone(), dentry };
        match path.dentry.is_marked() {
            false => Ok(Some(path)),
            true if self.misses(&path.dentry) => Ok(None),
            true => Ok(Some(self.namespace.cross(path))),
        }
    }
    /// Returns the dentry of `name`, from the name cache or else from the file system.
    pub(crate) fn lookup(
        &self,
        parent: &Arc<Dentry>,
        name: &[u8],
    ) -> Result<Option<Arc<Dentry>>, Errno> {
        if name.len() > NAME_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let directory = parent.vnode();
        flows::reads(|| directory.known_label());
        if let Some(node) = directory.node() {
            let names = directory.instance().names();
            let is_kept = node.keeps(name);
            if is_kept && let Cached::Positive(dentry) = names.get(parent.id(), name) {
                return Ok(Some(dentry));
            }
            let mut known = None;
            if !is_kept {
                let mut find = |cache: &ChildCache, place| known = cache.get(parent.id(), place);
                node.with_cache(name, self.task, &mut find);
            }
            if known.is_some() {
                return Ok(known);
            }
            let child = match node.lookup(name, &self.viewer()) {
                Err(Errno::ENOENT) if node.can_change() => return Ok(None),
                found => found?,
            };
            let vnode = Vnode::generated(directory.instance(), child);
            let dentry = Dentry::child(parent, name, vnode)?;
            return Ok(Some(match is_kept {
                true => names.insert_if_absent(&parent.key(name), dentry.name(), dentry),
                false => {
                    let mut put =
                        |cache: &ChildCache, place| cache.put(parent.id(), place, &dentry);
                    node.with_cache(name, self.task, &mut put);
                    dentry
                }
            }));
        }
        match directory.instance().names().get(parent.id(), name) {
            Cached::Positive(dentry) => return Ok(Some(dentry)),
            Cached::Negative => return Ok(None),
            Cached::Unknown => {}
        }
        let key = parent.key(name);
        let _name = name_lock::share(parent, &key);
        lookup_locked(parent, &key)
    }
}

/// Does the same as [`Caller::lookup`] in a stored directory, for a name that the caller has locked, alone or with
/// all names.
pub(crate) fn lookup_locked(
    parent: &Arc<Dentry>,
    key: &Key<'_>,
) -> Result<Option<Arc<Dentry>>, Errno> {
    let name = key.name();
    if name.len() > NAME_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    let directory = parent.vnode();
    if directory.is_dead() {
        return Err(Errno::ENOENT);
    }
    let instance = directory.instance();
    let names = instance.names();
    match names.find(key) {
        Cached::Positive(dentry) => return Ok(Some(dentry)),
        Cached::Negative => return Ok(None),
        Cached::Unknown => {}
    }
    match instance.file_system()?.lookup(directory.inode(), name) {
        Ok(attributes) => {
            let dentry = Dentry::child(parent, name, instance.vnode(attributes))?;
            if is_hidden_name(name) && dentry.vnode().is_directory() && security::is_enforced() {
                dentry.set_hidden();
            }
            if instance.info().has_stable_names {
                return Ok(Some(names.insert_if_absent(key, dentry.name(), dentry)));
            }
            Ok(Some(dentry))
        }
        Err(FsError::NotFound) => {
            if instance.info().has_stable_names {
                names.insert(key, Arc::from(name), None);
            }
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
