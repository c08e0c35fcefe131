//! Paths of objects that have no name: pipes, event files (`pipe:[7]`, `anon_inode:[eventfd]`).
use alloc::{format, sync::Arc};
use core::{
    any::Any,
    sync::atomic::{AtomicU64, Ordering},
};
use interfaces::file_system::{Attributes, FileType, InodeNumber};
use rt::{
    lock_class,
    sync::{Mutex, Once},
};
use vfs::{
    Active, Credentials, Errno, Path, Vnode,
    file::File,
    generated::{self, Node},
};

lock_class! {
    static ATTRIBUTES = "files.anonymous.attributes";
}

/// Name of the file system to which event files belong.
const EVENT_TYPE: &str = "anon_inodefs";

static PIPES: Once<Arc<Active>> = Once::new();
static SOCKETS: Once<Arc<Active>> = Once::new();
static OTHERS: Once<Arc<Active>> = Once::new();
static NEXT_INODE: AtomicU64 = AtomicU64::new(2);

/// The node of a file without a name; only `stat` uses it.
struct Anonymous {
    inode: InodeNumber,
    attributes: Mutex<Attributes>,
    /// The file that is returned when it is opened again (through `/proc/self/fd`).
    file: Option<Arc<dyn File>>,
}

impl Node for Anonymous {
    fn attributes(&self) -> Attributes {
        *self.attributes.lock()
    }
    /// Pipes and sockets have owners, modes and times; all event files share one inode, which does not
    /// change.
    fn set_attributes(&self, wanted: &Attributes) -> Result<(), Errno> {
        let mut attributes = self.attributes.lock();
        if attributes.file_type == FileType::Character {
            return Err(Errno::EOPNOTSUPP);
        }
        *attributes = *wanted;
        Ok(())
    }
    fn open(&self, _: u32) -> Result<Option<Arc<dyn File>>, Errno> {
        Ok(self.file.clone())
    }
}

impl Anonymous {
    fn new(attributes: Attributes, file: Option<Arc<dyn File>>) -> Arc<Anonymous> {
        let inode = attributes.inode;
        Arc::new(Anonymous { inode, attributes: Mutex::new(&ATTRIBUTES, attributes), file })
    }
}

fn node(file_type: FileType, owner: (u32, u32), file: Option<Arc<dyn File>>) -> Arc<Anonymous> {
    let inode = NEXT_INODE.fetch_add(1, Ordering::Relaxed);
    Anonymous::new(generated::attributes(inode, file_type, 0o600, owner), file)
}

fn pipes() -> Result<&'static Arc<Active>, Errno> {
    let root = || Active::generated("pipefs", node(FileType::Directory, (0, 0), None));
    PIPES.get_or_try_init(root)
}

fn place(active: &Arc<Active>, name: &str, node: Arc<Anonymous>) -> Result<Path, Errno> {
    let vnode = Vnode::generated(active.root().vnode().instance(), node);
    Path::anonymous(active, name.as_bytes(), vnode)
}

/// The place of the new pipe `pipe`, whose vnode keeps it: opened again, it is as a FIFO.
///
/// # Errors
/// `ENOMEM`.
pub fn pipe_place(who: &Credentials, pipe: Arc<dyn Any + Send + Sync>) -> Result<Path, Errno> {
    let node = node(FileType::Fifo, (who.user.fs, who.group.fs), None);
    let path = place(pipes()?, &format!("pipe:[{}]", node.inode), node)?;
    *path.vnode().pipe().lock() = Some(pipe);
    Ok(path)
}

/// Makes the path of a stream of the host: to programs it looks like a pipe.
///
/// # Errors
/// `ENOMEM`.
pub fn stream_place(stream: Arc<dyn File>) -> Result<Path, Errno> {
    let node = node(FileType::Fifo, (0, 0), Some(stream));
    place(pipes()?, &format!("pipe:[{}]", node.inode), node)
}

/// Makes the path of a new socket, whose number is its inode number.
///
/// # Errors
/// `ENOMEM`.
pub fn socket_place(who: &Credentials, number: u64) -> Result<Path, Errno> {
    let root = || Active::generated("sockfs", node(FileType::Directory, (0, 0), None));
    let active = SOCKETS.get_or_try_init(root)?;
    let owner = (who.user.fs, who.group.fs);
    let attributes = generated::attributes(number, FileType::Socket, 0o777, owner);
    let node = Anonymous::new(attributes, None);
    place(active, &format!("socket:[{number}]"), node)
}

/// Returns whether `place` is in a file system that is not mounted.
pub fn is_nameless(place: &Path) -> bool {
    matches!(place.mount.instance().info().type_name, "pipefs" | "sockfs" | EVENT_TYPE)
}

/// Returns whether `place` was made by [`event_place`].
pub fn is_event_file(place: &Path) -> bool {
    place.mount.instance().info().type_name == EVENT_TYPE
}

/// Makes the path of a new event file or similar file, shown as `anon_inode:KIND`.
///
/// # Errors
/// `ENOMEM`.
pub fn event_place(kind: &str) -> Result<Path, Errno> {
    let root = || Active::generated(EVENT_TYPE, node(FileType::Directory, (0, 0), None));
    let active = OTHERS.get_or_try_init(root)?;
    place(active, &format!("anon_inode:{kind}"), node(FileType::Character, (0, 0), None))
}
