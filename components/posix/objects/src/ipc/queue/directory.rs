//! [`Directory`]: the names of message queues, which the file system `mqueue` shows wherever it is mounted.
//!
//! There is one such directory. Queues of different secrecies may have the same name there (K1): a task finds and sees those of its
//! own.
//! A file made in it is a queue of the default shape. `ipc.queues` guards the names and is above
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
    security::{self, Label},
};

lock_class! {
    static NAMES = "ipc.queues";
}

/// Name of the file system type.
pub const TYPE_NAME: &str = "mqueue";
pub(super) const ROOT_INODE: u64 = 1;
/// The name by which the policy gives the directory a label.
const DIRECTORY: &str = "/dev/mqueue";
const ROOT_MODE: u16 = 0o1777;
/// Bytes that stat(2) reports of a directory for each name.
const NAME_BYTES: u64 = 20;

#[derive(Default)]
struct QueueNames {
    /// The queues by name and position.
    named: BTreeMap<(Arc<[u8]>, u64), Arc<PosixQueue>>,
    by_place: BTreeMap<u64, Arc<[u8]>>,
    last_place: u64,
}

impl QueueNames {
    /// Returns the position and the queue called `name` that exist for `viewer`.
    fn find(&self, name: &[u8], viewer: &dyn Principal) -> Option<(u64, &Arc<PosixQueue>)> {
        let name: Arc<[u8]> = Arc::from(name);
        let mut all = self.named.range((name.clone(), 0)..=(name, u64::MAX));
        let ((_, place), queue) = all.find(|(_, queue)| exists(queue, viewer))?;
        Some((*place, queue))
    }
}

/// Returns whether a queue exists for `viewer`.
fn exists(queue: &PosixQueue, viewer: &dyn Principal) -> bool {
    let Some(task) = Task::of(viewer).filter(|_| security::is_enforced()) else { return true };
    security::is_of_own_secrecy(&task.credentials().subject, queue.label)
}

/// Returns the label of the directory, in which tasks of each secrecy make names, if the policy has one.
fn own_label() -> Option<&'static Label> {
    security::of_device(DIRECTORY)
}

/// Returns the label of a queue that a task makes.
///
/// # Errors
/// `ENOSPC`.
fn label_of_new(task: &Task) -> Result<&'static Label, Errno> {
    if !security::is_enforced() {
        return Ok(Label::of_new_object());
    }
    let subject = &task.credentials().subject;
    let made = own_label().map(|place| security::made(subject, place)).transpose()?;
    Ok(made.flatten().unwrap_or(subject.label()))
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
    /// Returns the queue called `name` that exists for `viewer`.
    pub fn find(&self, name: &[u8], viewer: &dyn Principal) -> Option<Arc<PosixQueue>> {
        self.names.lock().find(name, viewer).map(|(_, queue)| queue.clone())
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
        if names.find(name, task).is_some() {
            return Err(Errno::EEXIST);
        }
        let queue = PosixQueue::new(task, permissions, shape, label_of_new(task)?)?;
        let name: Arc<[u8]> = Arc::from(name);
        names.last_place += 1;
        let place = names.last_place;
        names.by_place.insert(place, name.clone());
        names.named.insert((name, place), queue.clone());
        drop(names);
        self.touch();
        Ok(queue)
    }
    /// Notes a change of the names, but for the sight of other levels.
    fn touch(&self) {
        if security::is_enforced() {
            return;
        }
        let now = vfs::now();
        let mut attributes = self.attributes.lock();
        (attributes.accessed, attributes.modified, attributes.changed) = (now, now, now);
    }
}

impl Node for Directory {
    fn attributes(&self) -> Attributes {
        let names = match security::is_enforced() {
            true => 0,
            false => self.names.lock().named.len() as u64,
        };
        Attributes { size: (2 + names) * NAME_BYTES, ..*self.attributes.lock() }
    }
    fn label(&self) -> Option<&'static Label> {
        own_label()
    }
    fn lookup(&self, name: &[u8], viewer: &Viewer<'_>) -> Result<Child, Errno> {
        let queue = self.find(name, viewer.task).ok_or(Errno::ENOENT)?;
        Ok(Arc::new(QueueNode(queue)))
    }
    fn entries(
        &self,
        position: u64,
        caller: &dyn Principal,
        take: &mut TakeEntry<'_>,
    ) -> Result<(), Errno> {
        let names = self.names.lock();
        let later = names.by_place.range(position.saturating_add(1)..);
        let queue = |place: &u64, name: &Arc<[u8]>| names.named.get(&(name.clone(), *place));
        let found = later.filter_map(|(place, name)| Some((place, name, queue(place, name)?)));
        let mut shown = found.filter(|(.., queue)| exists(queue, caller));
        let _ = shown.try_for_each(|(place, name, queue)| {
            take(&DirectoryEntry {
                inode: queue.inode(),
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
    fn remove(&self, name: &[u8], remover: &dyn Principal) -> Result<(), Errno> {
        let mut names = self.names.lock();
        let (place, _) = names.find(name, remover).ok_or(Errno::ENOENT)?;
        names.by_place.remove(&place);
        let removed = names.named.remove(&(Arc::from(name), place)).ok_or(Errno::ENOENT)?;
        drop(names);
        removed.unnamed();
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
    fn label(&self) -> Option<&'static Label> {
        Some(self.0.label)
    }
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
