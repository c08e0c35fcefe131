//! Mounts and places: a [`Mount`] is a tree of dentries seen at one place of a namespace, a
//! [`Path`] is a dentry seen through a mount.
//!
//! `at` (the place of a mount) changes only under the namespace's table lock and is a leaf lock.
use crate::{
    base::{
        errno::Errno,
        mount_flags::MountFlags,
        security::{self, SecuritySubject},
    },
    tree::{
        dentry::Dentry,
        instance::{Active, Instance},
        node::Node,
        vnode::Vnode,
    },
};
use alloc::{string::String, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use interfaces::{file_system::FileSystemUsage, monitor::Privileges};
use rt::{lock_class, sync::Mutex};

lock_class! {
    static AT = "vfs.mount.at";
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// A tree of files mounted at a place.
pub struct Mount {
    id: u64,
    source: String,
    active: Arc<Active>,
    root: Arc<Dentry>,
    flags: AtomicU32,
    at: Mutex<Option<Path>>,
}

impl Mount {
    /// Makes a mount of the tree under `root` (a dentry of `active`) that is not yet placed
    /// anywhere.
    pub(crate) fn new(
        source: &str,
        active: Arc<Active>,
        root: Arc<Dentry>,
        flags: MountFlags,
    ) -> Arc<Mount> {
        Arc::new(Mount {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            source: source.into(),
            active,
            root,
            flags: AtomicU32::new(flags.bits()),
            at: Mutex::new(&AT, None),
        })
    }
    /// Makes a mount of the tree of `active` for files that the system makes itself; it is not
    /// placed in any namespace.
    pub fn unseen(source: &str, active: Arc<Active>) -> Arc<Mount> {
        let root = active.root().clone();
        Mount::new(source, active, root, MountFlags::empty())
    }
    /// Returns the number of the mount, which is never used again.
    pub fn id(&self) -> u64 {
        self.id
    }
    /// Returns the source as given to mount(2): a device, or a name such as `tmpfs`.
    pub fn source(&self) -> &str {
        &self.source
    }
    /// Returns the path of its root in the file system's own tree: `/` except for bind mounts.
    pub fn root_name(&self) -> Vec<u8> {
        let mut names = Upwards::new();
        let guard = self.instance().rename_lock().lock();
        let mut at = self.root.clone();
        while let (Some(parent), name) = at.place() {
            if !at.is_hidden() {
                names.push(&name);
            }
            at = parent;
        }
        drop(guard);
        names.finish()
    }
    /// Returns the file system.
    pub fn instance(&self) -> &Arc<Instance> {
        self.active.instance()
    }
    /// Returns the file system in use, for mounting it again.
    pub fn active(&self) -> &Arc<Active> {
        &self.active
    }
    /// Returns the root of the mounted tree.
    pub fn root(&self) -> &Arc<Dentry> {
        &self.root
    }
    /// Returns the current flags.
    pub fn flags(&self) -> MountFlags {
        MountFlags::from_bits_truncate(self.flags.load(Ordering::Relaxed))
    }
    /// Returns the flags including the restrictions of the file system itself.
    pub fn seen_flags(&self) -> MountFlags {
        let mut flags = self.flags();
        flags.set(MountFlags::READ_ONLY, self.is_read_only());
        flags
    }
    pub(crate) fn set_flags(&self, flags: MountFlags) {
        self.flags.store(flags.bits(), Ordering::Relaxed);
    }
    /// Returns whether no changes may be made through it.
    pub fn is_read_only(&self) -> bool {
        self.flags().contains(MountFlags::READ_ONLY) || self.instance().refuses_changes()
    }
    /// Checks that changes may be made through it.
    ///
    /// # Errors
    /// `EROFS`.
    pub(crate) fn check_writable(&self) -> Result<(), Errno> {
        if self.is_read_only() { Err(Errno::EROFS) } else { Ok(()) }
    }
    /// Returns the place that it covers; `None` for a root and for a mount that was removed.
    pub fn at(&self) -> Option<Path> {
        self.at.lock().clone()
    }
    /// Returns whether it covers exactly this place.
    pub(crate) fn covers(&self, path: &Path) -> bool {
        self.at.lock().as_ref().is_some_and(|at| at.is_same(path))
    }
    pub(crate) fn set_at(&self, at: Option<Path>) {
        let before = core::mem::replace(&mut *self.at.lock(), at);
        drop(before);
    }
    /// Returns the answer to `statfs` for a subject, and the flags.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn usage(&self, by: &SecuritySubject) -> Result<(FileSystemUsage, MountFlags), Errno> {
        let usage = match security::has(by, Privileges::SEE_ALL) {
            true => self.instance().usage()?,
            false => self.instance().rough_usage()?,
        };
        Ok((usage, self.seen_flags()))
    }
}

/// A place in the tree of files.
#[derive(Clone)]
pub struct Path {
    /// The mount through which the place is reached.
    pub mount: Arc<Mount>,
    /// The dentry of the place.
    pub dentry: Arc<Dentry>,
}

/// A path as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathName {
    /// The text from the given root; from the root of the namespace if the given root cannot be
    /// reached.
    pub text: Vec<u8>,
    /// The last name was removed.
    pub is_deleted: bool,
    /// The given root was found on the way up.
    pub is_reachable: bool,
}

impl Path {
    /// Makes a path that no name leads to (a pipe, a socket), shown as `name`, in a mount without a place.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn anonymous(mount: &Arc<Mount>, name: &[u8], vnode: Arc<Vnode>) -> Result<Path, Errno> {
        Ok(Path { mount: mount.clone(), dentry: Dentry::root(name, vnode)? })
    }
    /// Makes one that is shown as `KIND:[NUMBER]` with the number of the vnode's inode.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn numbered(
        mount: &Arc<Mount>,
        kind: &'static str,
        vnode: Arc<Vnode>,
    ) -> Result<Path, Errno> {
        Ok(Path { mount: mount.clone(), dentry: Dentry::numbered(kind, vnode)? })
    }
    /// Returns whether it was made by [`Path::anonymous`] or [`Path::numbered`].
    pub fn is_anonymous(&self) -> bool {
        !self.is_mount_root() && self.mount.at().is_none() && self.dentry.place().0.is_none()
    }
    /// Makes the path of the file that `node` generates, called `name` in this directory of
    /// generated files.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn generated_child(&self, name: &[u8], node: Arc<dyn Node>) -> Result<Path, Errno> {
        let vnode = Vnode::generated(self.vnode().instance(), node);
        let dentry = Dentry::child(&self.dentry, name, vnode)?;
        Ok(Path { mount: self.mount.clone(), dentry })
    }
    /// Returns the vnode of the place.
    pub fn vnode(&self) -> &Arc<Vnode> {
        self.dentry.vnode()
    }
    /// Returns the directory of the place; `None` for the root of its mount.
    pub fn parent(&self) -> Option<Path> {
        if self.is_mount_root() {
            return None;
        }
        let guard = self.mount.instance().rename_lock().lock();
        let (parent, _) = self.dentry.place();
        drop(guard);
        Some(Path { mount: self.mount.clone(), dentry: parent? })
    }
    /// Returns whether both are the same place through the same mount.
    pub fn is_same(&self, other: &Path) -> bool {
        self.mount.id == other.mount.id && Arc::ptr_eq(&self.dentry, &other.dentry)
    }
    /// Returns whether it is the root of its mount.
    pub fn is_mount_root(&self) -> bool {
        Arc::ptr_eq(&self.mount.root, &self.dentry)
    }
    /// Returns whether its path may end with a name. The roots of mounts have names elsewhere, and hidden directories have none.
    pub fn may_be_called(&self, name: &[u8]) -> bool {
        self.is_mount_root() || self.dentry.is_hidden() || self.dentry.is_called(name)
    }
    /// Returns its path name from `root` downwards (getcwd, /proc/PID/exe).
    pub fn describe(&self, root: &Path) -> PathName {
        let mut names = Upwards::new();
        let mut at = self.clone();
        let is_reachable = loop {
            // The rename lock is held for all names of one file system, so that no rename comes
            // between.
            let mount = at.mount.clone();
            let guard = mount.instance().rename_lock().lock();
            while !at.is_same(root) && !at.is_mount_root() {
                let (Some(parent), name) = at.dentry.place() else { break };
                if !at.dentry.is_hidden() {
                    names.push(&name);
                }
                at.dentry = parent;
            }
            drop(guard);
            if at.is_same(root) {
                break true;
            }
            match at.mount.at().filter(|_| at.is_mount_root()) {
                Some(below) => at = below,
                None => break false,
            }
        };
        PathName { text: names.finish(), is_deleted: self.dentry.is_deleted(), is_reachable }
    }
}

/// A path that is being built, from its last name to its first.
struct Upwards {
    /// The text, built backwards.
    text: Vec<u8>,
}

impl Upwards {
    /// Number of bytes allocated at first, enough for most paths.
    const COMMON_BYTES: usize = 128;

    fn new() -> Upwards {
        Upwards { text: Vec::with_capacity(Self::COMMON_BYTES) }
    }
    fn push(&mut self, name: &[u8]) {
        self.text.extend(name.iter().rev());
        self.text.push(b'/');
    }
    fn finish(mut self) -> Vec<u8> {
        if self.text.is_empty() {
            self.text.push(b'/');
        }
        self.text.reverse();
        self.text
    }
}
