//! Instances: an [`Instance`] is one mounted file system, however often its tree is mounted (bind mounts).
//!
//! It has a table of its vnodes (one for each inode) and a cache of its names. Vnodes hold their instance; [`Active`] is
//! the hold of the mounts, and when the last mount goes it breaks the cycles: cached names and pinned vnodes are released.
//!
//! A file system that lives in the caches only ([`Backing::Cache`]) is kept: its directories hold the dentries of their
//! names ([`crate::tree::vnode`]), and these their vnodes, which are in no table. Locks: `vnodes` is a leaf but for
//! `vfs.vnode.state`.
mod labels;
mod reclaim;
mod rough;
pub(crate) mod sync;
pub(crate) mod unmount;

pub use labels::MountLabels;

use self::rough::RoughUsage;
use crate::{
    base::{errno::Errno, file::POSITION_MAX, host::Host, security},
    pages::{
        flush::Flusher,
        stores::{self, Store},
        tally::Tally,
        throttle::Throttle,
    },
    tree::{
        dentry::Dentry,
        name_cache::NameCache,
        node::{GENERATED_END, Node},
        vnode::Vnode,
    },
};
use alloc::{
    collections::BTreeMap,
    string::String,
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use interfaces::file_system::{
    Attributes, Backing, FileSystem, FileSystemUsage, FsError, InodeNumber, LABEL_NAME, MountInfo,
};
use rt::{
    PAGE_BYTES, lock_class,
    sync::{Mutex, Once},
};

lock_class! {
    static VNODES = "vfs.instance.vnodes";
    static RENAME = "vfs.rename";
    static INSTANCES = "vfs.instances";
}

/// Number of parts of the vnode table.
pub(crate) const SHARDS: usize = 16;
/// Vnodes taken from the table at a time.
const BATCH: usize = 32;

/// A part of the vnode table. It is ordered, so that a walk in steps finds every vnode that stays; and it shrinks with the
/// files.
type Vnodes = BTreeMap<InodeNumber, Weak<Vnode>>;

static NEXT_DEVICE: AtomicU32 = AtomicU32::new(1);
static INSTANCES_ALL: Mutex<Vec<Weak<Instance>>> = Mutex::new(&INSTANCES, Vec::new());

/// A mounted file system.
pub struct Instance {
    fs: Option<Arc<dyn FileSystem>>,
    info: MountInfo,
    options: Once<String>,
    labels: MountLabels,
    device: (u32, u32),
    vnodes: [Mutex<Vnodes>; SHARDS],
    names: NameCache<Dentry>,
    rename: Mutex<()>,
    throttle: Arc<Throttle>,
    flusher: Arc<Flusher<Vnode>>,
    /// It lives in the caches only.
    is_kept: bool,
    /// Number of its vnodes that are in no table.
    kept: AtomicUsize,
    /// Files open for writing.
    written: AtomicUsize,
    is_read_only: AtomicBool,
    is_ended: AtomicBool,
    is_unmounted: AtomicBool,
    rough: RoughUsage,
}

/// The hold of mounts on an instance: when it is dropped, the instance's caches are emptied.
pub struct Active {
    instance: Arc<Instance>,
    root: Arc<Dentry>,
}

impl Active {
    /// Takes a file system into use, for the tasks of `host`. `device` is the number `stat` shows, `None` for one of its own.
    ///
    /// # Errors
    /// `ENOMEM`, and errors of the file system about its root.
    pub fn stored(
        host: &'static dyn Host,
        fs: Arc<dyn FileSystem>,
        device: Option<(u32, u32)>,
    ) -> Result<Arc<Active>, Errno> {
        let info = fs.mount_info();
        Active::of(host, fs, info, device)
    }
    /// Does the same as [`Active::stored`], with a new device number and shown as a file system of another type.
    ///
    /// # Errors
    /// Those of [`Active::stored`].
    pub fn stored_as(
        host: &'static dyn Host,
        type_name: &'static str,
        fs: Arc<dyn FileSystem>,
    ) -> Result<Arc<Active>, Errno> {
        let info = MountInfo { type_name, ..fs.mount_info() };
        Active::of(host, fs, info, None)
    }
    fn of(
        host: &'static dyn Host,
        fs: Arc<dyn FileSystem>,
        info: MountInfo,
        device: Option<(u32, u32)>,
    ) -> Result<Arc<Active>, Errno> {
        let root = info.root;
        fs.set_judge(host.judge());
        let instance = Instance::make(host, Some(fs.clone()), info, device);
        let attributes = fs.attributes(root)?;
        let vnode = if instance.is_kept() {
            Vnode::kept_root(&instance, attributes)?
        } else {
            let vnode = instance.vnode(attributes);
            vnode.set_uncounted();
            vnode
        };
        let root = Dentry::root(b"/", vnode)?;
        Ok(Arc::new(Active { instance, root }))
    }
    /// Puts a tree of generated files into use.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn generated(type_name: &'static str, root: Arc<dyn Node>) -> Result<Arc<Active>, Errno> {
        let instance = Instance::generated(type_name);
        let root = Dentry::root(b"/", Vnode::generated(&instance, root))?;
        Ok(Arc::new(Active { instance, root }))
    }
    /// Returns the file system in use.
    pub fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }
    /// Returns whether a policy is enforced and storage has no labels, neither its own nor by its mount: its root has none.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn lacks_labels(&self) -> Result<bool, Errno> {
        let instance = &self.instance;
        let is_stored = instance.fs.is_some() && instance.info.backing == Backing::Storage;
        if !is_stored || !security::is_enforced() || instance.labels.are_given() {
            return Ok(false);
        }
        match instance.file_system()?.get_xattr(self.root.vnode().inode(), LABEL_NAME) {
            Err(FsError::NoAttribute | FsError::Unsupported) => Ok(true),
            Ok(_) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
    /// Returns the root of its tree.
    pub fn root(&self) -> &Arc<Dentry> {
        &self.root
    }
}

/// Returns the magic number of a file system of generated files (statfs(2)).
fn generated_magic(type_name: &str) -> u32 {
    match type_name {
        "sysfs" => 0x6265_6572,
        "selinuxfs" => 0xf97c_ff8c,
        "devpts" => 0x1cd1,
        "mqueue" => 0x1980_0202,
        "pipefs" => 0x5049_5045,
        "sockfs" => 0x534f_434b,
        "anon_inodefs" => 0x0904_1934,
        _ => 0x9fa0,
    }
}

/// Returns the last position of generated files that have an end. Objects without a name have no such bound.
fn generated_size_max(type_name: &str) -> u64 {
    match type_name {
        "pipefs" | "sockfs" | "anon_inodefs" => POSITION_MAX,
        _ => GENERATED_END,
    }
}

impl Drop for Instance {
    /// One that was never mounted, or not as a whole, has a flusher that nothing else ends.
    fn drop(&mut self) {
        self.flusher.end();
    }
}

impl Instance {
    /// Makes an instance without storage, for generated nodes: a procfs, or all pipes.
    pub fn generated(type_name: &'static str) -> Arc<Instance> {
        let info = MountInfo {
            type_name,
            root: 1,
            is_read_only: false,
            backing: Backing::Cache,
            has_stable_names: false,
            block_bytes: if matches!(type_name, "proc" | "devpts") {
                1024
            } else {
                PAGE_BYTES as u32
            },
            has_acls: false,
            size_max: generated_size_max(type_name),
            writes_replacements: false,
        };
        Instance::make(&(), None, info, None)
    }
    fn make(
        host: &'static dyn Host,
        fs: Option<Arc<dyn FileSystem>>,
        info: MountInfo,
        device: Option<(u32, u32)>,
    ) -> Arc<Instance> {
        let tally = match (info.backing, fs.is_some()) {
            (Backing::Storage, true) => Tally::of_storage(),
            _ => Tally::of_cache(),
        };
        let is_kept = fs.is_some() && info.backing == Backing::Cache;
        let device = device.unwrap_or_else(|| (0, NEXT_DEVICE.fetch_add(1, Ordering::Relaxed)));
        let throttle = Throttle::new(tally, host);
        let instance = Arc::new(Instance {
            fs,
            device,
            is_read_only: AtomicBool::new(info.is_read_only),
            labels: MountLabels::of(&info),
            info,
            options: Once::new(),
            vnodes: [const { Mutex::new(&VNODES, BTreeMap::new()) }; SHARDS],
            names: NameCache::new(if is_kept { Backing::Cache } else { Backing::Storage }),
            rename: Mutex::new(&RENAME, ()),
            flusher: Flusher::new(device, throttle.clone()),
            throttle,
            is_kept,
            kept: AtomicUsize::new(0),
            written: AtomicUsize::new(0),
            is_ended: AtomicBool::new(false),
            is_unmounted: AtomicBool::new(false),
            rough: RoughUsage::new(),
        });
        let mut all = INSTANCES_ALL.lock();
        all.retain(|known| known.strong_count() > 0);
        all.push(Arc::downgrade(&instance));
        drop(all);
        let store: Arc<dyn Store> = instance.clone();
        stores::register(Arc::downgrade(&store));
        instance
    }
    /// Returns the file system behind it.
    ///
    /// # Errors
    /// `EPERM` if its files are generated.
    pub fn file_system(&self) -> Result<&Arc<dyn FileSystem>, Errno> {
        self.fs.as_ref().ok_or(Errno::EPERM)
    }
    /// Returns properties of the file system.
    pub fn info(&self) -> &MountInfo {
        &self.info
    }
    /// Sets its options, which `/proc/mounts` shows after the mount's flags, with a comma at the beginning; only the first
    /// call has an effect.
    pub fn set_options(&self, options: String) {
        self.options.get_or_init(|| options);
    }
    /// Returns the text given to [`Instance::set_options`], or an empty text.
    pub fn options(&self) -> &str {
        self.options.get().map(String::as_str).unwrap_or_default()
    }
    /// Returns the labels that its mount gives to its objects.
    pub fn labels(&self) -> &MountLabels {
        &self.labels
    }
    /// Returns whether the file system stores the labels of its objects: not if the mount gives one to all, and not in memory, where
    /// a vnode lives as long as its inode.
    pub(crate) fn stores_labels(&self) -> bool {
        !self.is_kept && self.labels.whole().is_none()
    }
    /// Returns the device number that `stat` shows for its files.
    pub fn device(&self) -> (u32, u32) {
        self.device
    }
    /// Returns whether it is mounted read-only.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only.load(Ordering::Relaxed)
    }
    /// Returns whether no changes are accepted: it is mounted read-only, or errors of the medium ended writing. Changes
    /// made before are still passed to the file system, which refuses them.
    pub fn refuses_changes(&self) -> bool {
        self.is_read_only() || self.fs.as_ref().is_some_and(|fs| fs.mount_info().is_read_only)
    }
    /// Returns the writer of its dirty pages.
    pub(crate) fn flusher(&self) -> &Arc<Flusher<Vnode>> {
        &self.flusher
    }
    /// The state that its page caches share with that.
    pub(crate) fn throttle(&self) -> &Arc<Throttle> {
        &self.throttle
    }
    pub(crate) fn names(&self) -> &NameCache<Dentry> {
        &self.names
    }
    /// Returns the lock that is held while a directory changes its parent, and while a path is read upwards.
    pub(crate) fn rename_lock(&self) -> &Mutex<()> {
        &self.rename
    }

    /// Returns the vnode of an inode whose use count the file system has just increased for the caller.
    pub(crate) fn vnode(self: &Arc<Self>, attributes: Attributes) -> Arc<Vnode> {
        let inode = attributes.inode;
        let mut vnodes = self.shard(inode).lock();
        if let Some(vnode) = vnodes.get(&inode).and_then(Weak::upgrade) {
            vnode.count_up();
            return vnode;
        }
        let vnode = Arc::new(Vnode::stored(self, attributes));
        vnodes.insert(inode, Arc::downgrade(&vnode));
        drop(vnodes);
        if attributes.links == 0 {
            self.flusher.loosen(&vnode);
        }
        vnode
    }
    /// Returns the vnode of an inode, if it is in use.
    pub(crate) fn find(&self, inode: InodeNumber) -> Option<Arc<Vnode>> {
        self.shard(inode).lock().get(&inode)?.upgrade()
    }
    fn shard(&self, inode: InodeNumber) -> &Mutex<Vnodes> {
        self.part(inode as usize)
    }
    fn part(&self, number: usize) -> &Mutex<Vnodes> {
        let [first, ..] = &self.vnodes;
        self.vnodes.get(number % SHARDS).unwrap_or(first)
    }
    /// It lives in the caches only.
    #[inline]
    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept
    }
    /// Files open for writing.
    pub(crate) fn written(&self) -> &AtomicUsize {
        &self.written
    }
    /// Counts a new vnode that is in no table.
    pub(crate) fn count_kept(&self) {
        self.kept.fetch_add(1, Ordering::Relaxed);
    }
    /// Called when a vnode that is in no table ended.
    pub(crate) fn release_kept(&self, inode: InodeNumber) {
        self.kept.fetch_sub(1, Ordering::Relaxed);
        if let Some(fs) = &self.fs {
            fs.forget(inode, 1);
        }
    }
    /// Called when a vnode ended: removes it from the table, and gives its counts back to the file system.
    pub(crate) fn release(&self, inode: InodeNumber, counts: u64) {
        let mut vnodes = self.shard(inode).lock();
        if vnodes.get(&inode).is_some_and(|known| known.strong_count() == 0) {
            vnodes.remove(&inode);
            if vnodes.is_empty() {
                // A new map is made because an emptied one keeps a node allocated.
                *vnodes = Vnodes::new();
            }
        }
        drop(vnodes);
        if let Some(fs) = self.fs.as_ref().filter(|_| counts > 0) {
            fs.forget(inode, counts);
        }
    }
    /// Returns the vnodes of one of [`SHARDS`] parts, a bounded number at a time. Every vnode that exists from the first
    /// step to the last is included.
    pub(crate) fn batches_of(&self, part: usize) -> impl Iterator<Item = Vec<Arc<Vnode>>> {
        let mut next = Some(InodeNumber::MIN);
        core::iter::from_fn(move || {
            let mut batch = Vec::with_capacity(BATCH);
            let vnodes = self.part(part).lock();
            let mut rest = vnodes.range(next?..);
            batch.extend(rest.by_ref().take(BATCH).filter_map(|(_, known)| known.upgrade()));
            next = rest.next().map(|(inode, _)| *inode);
            Some(batch)
        })
    }
    /// Returns every vnode, a bounded number at a time, part by part as [`Instance::batches_of`] does.
    pub(crate) fn batches(&self) -> impl Iterator<Item = Vec<Arc<Vnode>>> {
        (0..SHARDS).flat_map(|part| self.batches_of(part))
    }
    /// Returns the number of vnodes in use.
    pub(crate) fn vnode_count(&self) -> usize {
        let tables: usize = self.vnodes.iter().map(|vnodes| vnodes.lock().len()).sum();
        tables + self.kept.load(Ordering::Relaxed)
    }
    /// Returns space and inodes of the file system.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn usage(&self) -> Result<FileSystemUsage, Errno> {
        let Some(fs) = &self.fs else {
            return Ok(FileSystemUsage {
                magic: generated_magic(self.info.type_name),
                block_bytes: PAGE_BYTES as u32,
                name_max: 255,
                ..FileSystemUsage::default()
            });
        };
        Ok(fs.usage()?)
    }
    /// Returns the same as a subject is told that does not see what other levels use.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn rough_usage(&self) -> Result<FileSystemUsage, Errno> {
        self.rough.at(rt::time::now(), || self.usage())
    }
}

/// Called before a program reads media past the file systems on them: those write changes to their final places that they
/// hold elsewhere. An error is reported by the file systems.
pub fn put_in_place() {
    for fs in instances().iter().filter_map(|instance| instance.fs.clone()) {
        let _ = fs.put_in_place();
    }
}

/// Returns the number of files and directories of storage in use, of all file systems (`/proc/skerry/objects`).
pub fn vnode_count() -> u64 {
    instances().iter().map(|instance| instance.vnode_count() as u64).sum()
}

/// Returns the number of names in the name caches of all file systems (`/proc/skerry/objects`).
pub fn name_count() -> u64 {
    instances().iter().map(|instance| instance.names().len() as u64).sum()
}

/// Returns every instance in use.
pub(crate) fn instances() -> Vec<Arc<Instance>> {
    INSTANCES_ALL.lock().iter().filter_map(Weak::upgrade).collect()
}
