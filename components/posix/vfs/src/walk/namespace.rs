//! Namespaces: the mounts that a process sees, and their places (mount(2), umount(2)).
//!
//! [`Namespace`] keeps its table behind a reader/writer lock that a path walk takes (shared) only
//! at dentries where something is mounted. The table's lock is the outermost of this component:
//! mount table > rename lock > directory > name > shard of the name cache.
use crate::{
    base::{
        credentials::{Capabilities, Credentials},
        errno::Errno,
        host::Host,
        mount_flags::MountFlags,
        poll::Changes,
        security::{self, Witnessed, WitnessedEvent},
    },
    tree::{
        dentry::{Dentry, Mounted},
        instance::Active,
        mount::{Mount, Path},
    },
    walk::devices::Registry,
};
use alloc::{sync::Arc, vec::Vec};
use bitflags::bitflags;
use interfaces::{
    file_system::{FileType, MountAccess},
    monitor::Privileges,
};
use rt::{lock_class, sync::RwLock};

lock_class! {
    static TABLE = "vfs.mount_table";
}

bitflags! {
    /// Flags of umount2(2).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct UnmountFlags: u32 {
        /// MNT_FORCE; has no effect, as on Linux for local file systems.
        const FORCE = 1;
        /// MNT_DETACH: remove it from the namespace now, end it once it is no longer used.
        const DETACH = 2;
        /// MNT_EXPIRE
        const EXPIRE = 4;
        /// UMOUNT_NOFOLLOW
        const NO_FOLLOW = 8;
    }
}

/// The extent of a remount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Only the mount (MS_BIND).
    Mount,
    /// The file system as well: it becomes read-only or writable.
    FileSystem,
}

/// Number of references to a mount that is not used: the one of the table.
const REFERENCES_IDLE: usize = 1;

/// The mounts of a namespace.
struct MountTable {
    /// The mount at the top of the tree. It hangs nowhere and is never taken away, only replaced.
    root: Arc<Mount>,
    /// The others, in the order of mounting.
    others: Vec<Arc<Mount>>,
}

impl MountTable {
    fn position(&self, id: u64) -> Option<usize> {
        self.others.iter().position(|mount| mount.id() == id)
    }
    /// Takes out the mount with this number.
    ///
    /// # Errors
    /// `EINVAL` for the root and for a mount that is not here.
    fn take(&mut self, id: u64) -> Result<Arc<Mount>, Errno> {
        Ok(self.others.remove(self.position(id).ok_or(Errno::EINVAL)?))
    }
    /// Takes a mount and all below it out; they end when they are dropped.
    fn take_tree(&mut self, id: u64) -> Vec<Arc<Mount>> {
        let mut gone: Vec<Arc<Mount>> = Vec::new();
        let mut ids = alloc::vec![id];
        while let Some(id) = ids.pop() {
            let below = |mount: &&Arc<Mount>| mount.at().is_some_and(|at| at.mount.id() == id);
            ids.extend(self.others.iter().filter(below).map(|mount| mount.id()));
            gone.extend(self.take(id));
        }
        for mount in &gone {
            hang(mount, None);
        }
        gone
    }
}

/// The mounts that a process sees.
pub struct Namespace {
    table: RwLock<MountTable>,
    /// Changes of the table, and of flags of its mounts.
    changes: Arc<Changes>,
    devices: Arc<Registry>,
    host: &'static dyn Host,
}

impl Namespace {
    /// A namespace for the tasks of `host` whose root is `active`.
    pub fn new(
        host: &'static dyn Host,
        source: &str,
        active: Arc<Active>,
        flags: MountFlags,
        devices: Arc<Registry>,
    ) -> Arc<Namespace> {
        let root = active.root().clone();
        let mount = Mount::new(source, active, root, flags);
        let table = RwLock::new(&TABLE, MountTable { root: mount, others: Vec::new() });
        Arc::new(Namespace { table, changes: Arc::new(Changes::new()), devices, host })
    }
    /// Returns the notifier of mounts that were made, changed or removed.
    pub fn changes(&self) -> &Arc<Changes> {
        &self.changes
    }
    /// The keeper of the tasks that see it.
    #[inline]
    pub(crate) fn host(&self) -> &'static dyn Host {
        self.host
    }
    /// Returns the openers of device nodes and FIFOs.
    pub fn devices(&self) -> &Arc<Registry> {
        &self.devices
    }
    /// Returns the root of the namespace.
    pub fn root(&self) -> Path {
        let mount = self.table.read().root.clone();
        let path = Path { dentry: mount.root().clone(), mount };
        self.cross(path)
    }
    /// Returns every mount, in the order of mounting.
    pub fn mounts(&self) -> Vec<Arc<Mount>> {
        let table = self.table.read();
        core::iter::once(&table.root).chain(&table.others).cloned().collect()
    }
    /// Follows mounts from `path` to the topmost root. Returns `path` if no mount covers it.
    pub(crate) fn cross(&self, mut path: Path) -> Path {
        while path.dentry.is_mount_point() {
            let Some(mount) = self.mounted_at(&path) else { break };
            let dentry = mount.root().clone();
            path = Path { mount, dentry };
        }
        path
    }
    fn mounted_at(&self, path: &Path) -> Option<Arc<Mount>> {
        let table = self.table.read();
        table.others.iter().rev().find(|mount| mount.covers(path)).cloned()
    }
    /// Mounts the root of `active` over `at`. `source` is the text that `/proc/mounts` shows.
    ///
    /// # Errors
    /// `EPERM` without CAP_SYS_ADMIN, `ENOTDIR`, `ENOENT` if `at` was removed, `EBUSY` if `at` is the root of a mount of
    /// the same file system.
    pub fn mount(
        &self,
        who: &Credentials,
        source: &str,
        active: Arc<Active>,
        at: &Path,
        flags: MountFlags,
    ) -> Result<Arc<Mount>, Errno> {
        check_administrator(who)?;
        let root = active.root().clone();
        if at.is_mount_root() && Arc::ptr_eq(at.mount.active(), &active) {
            return Err(Errno::EBUSY);
        }
        self.attach(Mount::new(source, active, root, flags), at)
    }
    /// Mounts the tree under `from` over `at` as well (MS_BIND), without the mounts in it.
    ///
    /// # Errors
    /// `EPERM`; `ENOTDIR` if one is a directory and the other is not.
    pub fn bind(&self, who: &Credentials, from: &Path, at: &Path) -> Result<Arc<Mount>, Errno> {
        check_administrator(who)?;
        self.attach(copy_of(from), at)
    }
    /// Does the same as [`Namespace::bind`], with all mounts below `from` (MS_REC).
    ///
    /// # Errors
    /// Those of [`Namespace::bind`].
    pub fn bind_recursively(
        &self,
        who: &Credentials,
        from: &Path,
        at: &Path,
    ) -> Result<Arc<Mount>, Errno> {
        let top = self.bind(who, from, at)?;
        let mut copies: Vec<(u64, Arc<Mount>)> = alloc::vec![(from.mount.id(), top.clone())];
        let before: Vec<Arc<Mount>> =
            self.mounts().into_iter().filter(|mount| mount.id() < top.id()).collect();
        for mount in before {
            let Some(place) = mount.at() else { continue };
            let is_inside =
                place.mount.id() != from.mount.id() || from.dentry.is_above_or_same(&place.dentry);
            let parent = copies.iter().find(|(original, _)| *original == place.mount.id());
            let Some((_, parent)) = parent.filter(|_| is_inside) else { continue };
            let below = Path { mount: parent.clone(), dentry: place.dentry.clone() };
            let root = Path { mount: mount.clone(), dentry: mount.root().clone() };
            let copy = self.attach(copy_of(&root), &below)?;
            copies.push((mount.id(), copy));
        }
        Ok(top)
    }
    /// Moves the mount whose root is `from` to `to` (MS_MOVE).
    ///
    /// # Errors
    /// `EPERM`; `EINVAL` if `from` is not the root of a mount or is the root of the namespace; `ELOOP` if `to` is inside
    /// it.
    pub fn move_mount(&self, who: &Credentials, from: &Path, to: &Path) -> Result<(), Errno> {
        check_administrator(who)?;
        let mut table = self.table.write();
        check_kinds(&from.mount, to)?;
        if !from.is_mount_root() || from.mount.at().is_none() {
            return Err(Errno::EINVAL);
        }
        let mut above = Some(to.clone());
        while let Some(place) = above {
            if place.mount.id() == from.mount.id() {
                return Err(Errno::ELOOP);
            }
            above = place.mount.at();
        }
        let mount = table.take(from.mount.id())?;
        hang(&mount, None);
        hang(&mount, Some(to.clone()));
        table.others.push(mount);
        self.changes.tell();
        Ok(())
    }
    /// Makes the mount whose root is `new` the root of the namespace and moves the old root mount, whose root is `old`,
    /// to `put` (pivot_root(2)). The caller moves tasks whose root or working directory is `old`.
    ///
    /// # Errors
    /// `EPERM`; `ENOTDIR`; `EBUSY` if `new` or `put` is on the present root; `EINVAL` if `new` or `old` is not the root
    /// of a mount, or `put` is not below `new`.
    pub fn pivot(
        &self,
        who: &Credentials,
        (old, new): (&Path, &Path),
        put: &Path,
    ) -> Result<(), Errno> {
        check_administrator(who)?;
        let mut table = self.table.write();
        check_kinds(&old.mount, new)?;
        check_kinds(&old.mount, put)?;
        if new.mount.id() == old.mount.id() || put.mount.id() == old.mount.id() {
            return Err(Errno::EBUSY);
        }
        let is_detached = new.mount.at().is_none();
        if !new.is_mount_root() || !old.is_mount_root() || is_detached || !is_below(put, new) {
            return Err(Errno::EINVAL);
        }
        let mount = table.take(new.mount.id())?;
        let above = old.mount.at();
        hang(&mount, None);
        hang(&old.mount, Some(put.clone()));
        if above.is_none() {
            let before = core::mem::replace(&mut table.root, mount);
            table.others.insert(0, before);
        } else {
            hang(&mount, above);
            table.others.push(mount);
        }
        self.changes.tell();
        Ok(())
    }
    fn attach(&self, mount: Arc<Mount>, at: &Path) -> Result<Arc<Mount>, Errno> {
        let mut table = self.table.write();
        check_kinds(&mount, at)?;
        if at.dentry.is_deleted() {
            return Err(Errno::ENOENT);
        }
        let is_place = at.dentry.vnode().node().is_some_and(|node| node.is_mount_point());
        let is_stable = at.mount.instance().info().has_stable_names || is_place;
        if !is_stable && !at.is_mount_root() {
            return Err(Errno::EINVAL);
        }
        hang(&mount, Some(at.clone()));
        table.others.push(mount.clone());
        self.changes.tell();
        Ok(mount)
    }
    /// Changes the flags of the mount whose root is `path` (MS_REMOUNT).
    ///
    /// # Errors
    /// `EPERM`; `EINVAL` if `path` is not the root of a mount; `EROFS` if the file system cannot be written; `EBUSY` if
    /// it would become read-only while files are open for writing.
    pub fn remount(
        &self,
        who: &Credentials,
        path: &Path,
        flags: MountFlags,
        reach: Reach,
    ) -> Result<(), Errno> {
        check_administrator(who)?;
        if !path.is_mount_root() {
            return Err(Errno::EINVAL);
        }
        let access = match flags.contains(MountFlags::READ_ONLY) {
            true => MountAccess::ReadOnly,
            false => MountAccess::Writable,
        };
        if reach == Reach::FileSystem {
            path.mount.instance().remount(access)?;
        }
        path.mount.set_flags(flags);
        self.changes.tell();
        Ok(())
    }
    /// Removes the mount whose root is `path`, or the mount over it.
    ///
    /// # Errors
    /// `EPERM`; `EINVAL` if `path` is not the root of a mount or is the root of the namespace; `EBUSY` while it is used
    /// or has mounts below it; `EAGAIN` (EXPIRE is not supported).
    pub fn unmount(&self, who: &Credentials, path: Path, flags: UnmountFlags) -> Result<(), Errno> {
        check_administrator(who)?;
        if flags.contains(UnmountFlags::EXPIRE) {
            let has_others = flags.intersects(UnmountFlags::FORCE | UnmountFlags::DETACH);
            return Err(if has_others { Errno::EINVAL } else { Errno::EAGAIN });
        }
        // A working directory or a root may have been mounted over since it was entered.
        let path = self.cross(path);
        if !path.is_mount_root() {
            return Err(Errno::EINVAL);
        }
        let id = path.mount.id();
        drop(path);
        let mut table = self.table.write();
        if table.root.id() == id {
            return Err(Errno::EBUSY);
        }
        let position = table.position(id).ok_or(Errno::EINVAL)?;
        let mount = table.others.get(position).ok_or(Errno::EINVAL)?;
        if mount.at().is_none() {
            return Err(Errno::EBUSY);
        }
        let is_used = Arc::strong_count(mount) > REFERENCES_IDLE;
        if is_used && !flags.contains(UnmountFlags::DETACH) {
            return Err(Errno::EBUSY);
        }
        let gone = table.take_tree(id);
        self.changes.tell();
        drop(table);
        drop(gone);
        Ok(())
    }
}

/// Returns whether `path` is `top`, the root of a mount, or below it.
fn is_below(path: &Path, top: &Path) -> bool {
    let mut at = Some(path.clone());
    while let Some(place) = at {
        if place.mount.id() == top.mount.id() {
            return true;
        }
        at = place.mount.at();
    }
    false
}

/// Places a mount over `at`, or removes it from its place. The table is locked to write.
fn hang(mount: &Mount, at: Option<Path>) {
    let dentry: Option<Arc<Dentry>> = mount.at().map(|before| before.dentry);
    if let Some(before) = dentry {
        before.count_mounts(Mounted::Fewer);
    }
    if let Some(at) = &at {
        at.dentry.count_mounts(Mounted::More);
    }
    mount.set_at(at);
}

fn copy_of(from: &Path) -> Arc<Mount> {
    let mount = &from.mount;
    Mount::new(mount.source(), mount.active().clone(), from.dentry.clone(), mount.flags())
}

fn check_kinds(mount: &Mount, at: &Path) -> Result<(), Errno> {
    match mount.root().vnode().is_directory() == at.vnode().is_directory() {
        true => Ok(()),
        false => Err(Errno::ENOTDIR),
    }
}

fn check_administrator(who: &Credentials) -> Result<(), Errno> {
    if !who.has(Capabilities::SYS_ADMIN) {
        return Err(Errno::EPERM);
    }
    let subject = &who.subject;
    if security::has(subject, Privileges::MOUNT) {
        return Ok(());
    }
    security::tell(&Witnessed {
        event: WitnessedEvent::RefusedMount,
        subject,
        label: subject.label(),
        file_type: FileType::Directory,
        inode: 0,
    });
    Err(Errno::EPERM)
}
