//! [`Directory`]: the names of message queues, which the file system `mqueue` shows wherever it is mounted.
//!
//! There is one such directory. A file made in it is a queue of the default shape. `ipc.queues` guards the names and is above
//! the locks of a queue; the directory's own attributes are a leaf.
use super::{ATTRIBUTES, PosixQueue, QueueFile, Shape};
use alloc::{collections::BTreeMap, sync::Arc};
use interfaces::file_system::{Attributes, DirectoryEntry, FileType, TakeEntry};
use process::{self, Task};
use rt::{
    lock_class,
    sync::{Mutex, Once},
};
use vfs::{
    Active, Errno, Mount, Path, Principal,
    file::File,
    generated::{Child, Node, Viewer, attributes},
};

lock_class! {
    static NAMES = "ipc.queues";
}

/// Name of the file system type.
pub const TYPE_NAME: &str = "mqueue";
pub(super) const ROOT_INODE: u64 = 1;
const ROOT_MODE: u16 = 0o1777;
/// Bytes that stat(2) reports of a directory for each name.
const NAME_BYTES: u64 = 20;

/// A name's position, and its queue.
struct Named {
    place: u64,
    queue: Arc<PosixQueue>,
}

#[derive(Default)]
struct QueueNames {
    named: BTreeMap<Arc<[u8]>, Named>,
    by_place: BTreeMap<u64, Arc<[u8]>>,
    last_place: u64,
}

/// The directory of all queues.
pub struct Directory {
    names: Mutex<QueueNames>,
    attributes: Mutex<Attributes>,
}

/// The directory, and its place for the calls.
struct KnownDirectory {
    directory: Arc<Directory>,
    active: Arc<Active>,
    mount: Arc<Mount>,
}

fn known() -> Result<&'static KnownDirectory, Errno> {
    static KNOWN: Once<KnownDirectory> = Once::new();
    KNOWN.get_or_try_init(|| {
        let attributes = attributes(ROOT_INODE, FileType::Directory, ROOT_MODE, (0, 0));
        let directory = Arc::new(Directory {
            names: Mutex::new(&NAMES, QueueNames::default()),
            attributes: Mutex::new(&ATTRIBUTES, attributes),
        });
        let active = Active::generated(TYPE_NAME, directory.clone())?;
        let mount = Mount::unseen(TYPE_NAME, active.clone());
        Ok(KnownDirectory { directory, active, mount })
    })
}

/// Returns the file system for mounting it. There are no options.
///
/// # Errors
/// `EINVAL`, `ENOMEM`.
pub fn activate(options: &[u8]) -> Result<Arc<Active>, Errno> {
    if !options.is_empty() {
        return Err(Errno::EINVAL);
    }
    Ok(known()?.active.clone())
}

/// Returns the directory.
///
/// # Errors
/// `ENOMEM`.
pub fn directory() -> Result<&'static Arc<Directory>, Errno> {
    Ok(&known()?.directory)
}

/// Returns the place at which the calls find it.
///
/// # Errors
/// `ENOMEM`.
pub fn place() -> Result<Path, Errno> {
    let mount = known()?.mount.clone();
    Ok(Path { dentry: mount.root().clone(), mount })
}

impl Directory {
    /// Returns the queue called `name`.
    pub fn find(&self, name: &[u8]) -> Option<Arc<PosixQueue>> {
        self.names.lock().named.get(name).map(|named| named.queue.clone())
    }
    /// Makes a queue. `task` may make names here.
    ///
    /// # Errors
    /// `EEXIST`, and those of [`PosixQueue::new`].
    pub fn make(
        &self,
        task: &Task,
        name: &[u8],
        permissions: u16,
        shape: Shape,
    ) -> Result<Arc<PosixQueue>, Errno> {
        let mut names = self.names.lock();
        if names.named.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        let queue = PosixQueue::new(task, permissions, shape)?;
        let name: Arc<[u8]> = Arc::from(name);
        names.last_place += 1;
        let place = names.last_place;
        names.by_place.insert(place, name.clone());
        names.named.insert(name, Named { place, queue: queue.clone() });
        drop(names);
        self.touch();
        Ok(queue)
    }
    fn touch(&self) {
        let now = vfs::now();
        let mut attributes = self.attributes.lock();
        (attributes.accessed, attributes.modified, attributes.changed) = (now, now, now);
    }
}

impl Node for Directory {
    fn attributes(&self) -> Attributes {
        let names = self.names.lock().named.len() as u64;
        Attributes { size: (2 + names) * NAME_BYTES, ..*self.attributes.lock() }
    }
    fn lookup(&self, name: &[u8], _: &Viewer<'_>) -> Result<Child, Errno> {
        let queue = self.find(name).ok_or(Errno::ENOENT)?;
        Ok(Arc::new(QueueNode(queue)))
    }
    fn entries(
        &self,
        position: u64,
        _: &dyn Principal,
        take: &mut TakeEntry<'_>,
    ) -> Result<(), Errno> {
        let names = self.names.lock();
        let mut later = names.by_place.range(position.saturating_add(1)..);
        let _ = later.try_for_each(|(place, name)| {
            take(&DirectoryEntry {
                inode: names.named.get(name).map_or(0, |named| named.queue.inode()),
                file_type: Some(FileType::Regular),
                name,
                next: *place,
            })
        });
        Ok(())
    }
    fn can_change(&self) -> bool {
        true
    }
    fn create(&self, name: &[u8], permissions: u16, maker: &dyn Principal) -> Result<Child, Errno> {
        let task = Task::of(maker).ok_or(Errno::EPERM)?;
        let queue = self.make(task, name, permissions, Shape::usual())?;
        Ok(Arc::new(QueueNode(queue)))
    }
    fn remove(&self, name: &[u8]) -> Result<(), Errno> {
        let mut names = self.names.lock();
        let removed = names.named.remove(name).ok_or(Errno::ENOENT)?;
        names.by_place.remove(&removed.place);
        drop(names);
        removed.queue.unnamed();
        drop(removed);
        self.touch();
        Ok(())
    }
    fn set_attributes(&self, wanted: &Attributes) -> Result<(), Errno> {
        *self.attributes.lock() = *wanted;
        Ok(())
    }
}

/// A queue as a file with a name.
pub struct QueueNode(Arc<PosixQueue>);

impl QueueNode {
    /// Makes the node of `queue`.
    pub fn new(queue: Arc<PosixQueue>) -> QueueNode {
        QueueNode(queue)
    }
}

impl Node for QueueNode {
    fn attributes(&self) -> Attributes {
        *self.0.attributes.lock()
    }
    fn open(&self, _: u32, _: &dyn Principal) -> Result<Option<Arc<dyn File>>, Errno> {
        Ok(Some(Arc::new(QueueFile::new(self.0.clone()))))
    }
    fn set_attributes(&self, wanted: &Attributes) -> Result<(), Errno> {
        *self.0.attributes.lock() = *wanted;
        Ok(())
    }
}

impl PosixQueue {
    fn inode(&self) -> u64 {
        self.attributes.lock().inode
    }
    /// Called when its name was removed.
    fn unnamed(&self) {
        let mut attributes = self.attributes.lock();
        (attributes.links, attributes.changed) = (0, vfs::now());
    }
}
