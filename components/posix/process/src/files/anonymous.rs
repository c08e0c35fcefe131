//! Paths of objects that have no name: pipes, event files (`pipe:[7]`, `anon_inode:[eventfd]`).
use alloc::{collections::BTreeMap, sync::Arc};
use core::any::Any;
use interfaces::file_system::{Attributes, FileType};
use labels::ContextId;
use rt::{
    lock_class,
    sync::{Mutex, Once},
};
use vfs::{
    Active, Credentials, Errno, Mount, Path, Principal, Vnode,
    file::File,
    generated::{self, Node},
    security::{self, Label, Level, SecuritySubject, Sequence},
};

lock_class! {
    static LABELLED = "files.labelled";
}

/// The number of inodes of which each file system has one.
const SHARED_INODE: u64 = 1;

/// Name of the file system to which event files belong.
const EVENT_TYPE: &str = "anon_inodefs";

static PIPES: Once<Arc<Mount>> = Once::new();
static SOCKETS: Once<Arc<Mount>> = Once::new();
/// The node of all pipes and sockets: to open one again makes no file by it.
static SHARED: Once<Arc<Anonymous>> = Once::new();
/// The mount of the event files, and the vnode that all of them share.
static EVENTS: Once<(Arc<Mount>, Arc<Vnode>)> = Once::new();

/// The node of files without a name.
struct Anonymous {
    /// Those of the event files, which share one inode that does not change. Others have theirs in the vnode.
    attributes: Attributes,
    /// The file that is returned when it is opened again (through `/proc/self/fd`).
    file: Option<Arc<dyn File>>,
}

impl Node for Anonymous {
    fn attributes(&self) -> Attributes {
        self.attributes
    }
    fn set_attributes(&self, _: &Attributes) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }
    fn open(&self, _: u32, _: &dyn Principal) -> Result<Option<Arc<dyn File>>, Errno> {
        Ok(self.file.clone())
    }
}

impl Anonymous {
    fn new(attributes: Attributes, file: Option<Arc<dyn File>>) -> Arc<Anonymous> {
        Arc::new(Anonymous { attributes, file })
    }
    fn shared() -> Arc<Anonymous> {
        let make = || Anonymous::new(shared_attributes(FileType::Fifo), None);
        Arc::clone(SHARED.get_or_init(make))
    }
}

/// Returns the attributes of a new inode that a subject of `level` makes. The number 1 is no pipe's.
fn attributes(level: &Level, file_type: FileType, owner: (u32, u32)) -> Attributes {
    let inode = level.next(Sequence::Anonymous) + 1;
    generated::attributes(inode, file_type, 0o600, owner)
}

/// Returns the attributes of a root or of the inode that many files share. It takes no number of a sequence, so that no level sees
/// at which first use it was made.
fn shared_attributes(file_type: FileType) -> Attributes {
    generated::attributes(SHARED_INODE, file_type, 0o600, (0, 0))
}

fn mount(type_name: &'static str) -> Result<Arc<Mount>, Errno> {
    let active =
        Active::generated(type_name, Anonymous::new(shared_attributes(FileType::Directory), None))?;
    Ok(Mount::unseen("none", active))
}

fn pipes() -> Result<&'static Arc<Mount>, Errno> {
    PIPES.get_or_try_init(|| mount("pipefs"))
}

/// The place of `node` with those attributes, which is shown as `KIND:[NUMBER]` with its inode's number.
fn place(
    mount: &Arc<Mount>,
    kind: &'static str,
    (known, node): (Attributes, Arc<Anonymous>),
) -> Result<Path, Errno> {
    Path::numbered(mount, kind, Vnode::with_attributes(mount.instance(), known, node))
}

/// The place of the new pipe `pipe`, whose vnode keeps it: opened again, it is as a FIFO.
///
/// # Errors
/// `ENOMEM`.
pub fn pipe_place(who: &Credentials, pipe: Arc<dyn Any + Send + Sync>) -> Result<Path, Errno> {
    let known = attributes(who.subject.level(), FileType::Fifo, (who.user.fs, who.group.fs));
    let path = place(pipes()?, "pipe", (known, Anonymous::shared()))?;
    *path.vnode().pipe().lock() = Some(pipe);
    path.vnode().note_label(Some(who.subject.anonymous()));
    Ok(path)
}

/// Makes the path of a stream of the host: to programs it looks like a pipe, with the label of the console.
///
/// # Errors
/// `ENOMEM`.
pub fn stream_place(stream: Arc<dyn File>) -> Result<Path, Errno> {
    let known = attributes(SecuritySubject::kernel().level(), FileType::Fifo, (0, 0));
    let path = place(pipes()?, "pipe", (known, Anonymous::new(known, Some(stream))))?;
    path.vnode().note_label(security::of_device("/dev/console"));
    Ok(path)
}

/// Makes the path of a new socket, whose number is its inode number.
///
/// # Errors
/// `ENOMEM`.
pub fn socket_place(who: &Credentials, number: u64) -> Result<Path, Errno> {
    let mount = SOCKETS.get_or_try_init(|| mount("sockfs"))?;
    let owner = (who.user.fs, who.group.fs);
    let known = generated::attributes(number, FileType::Socket, 0o777, owner);
    let path = place(mount, "socket", (known, Anonymous::shared()))?;
    path.vnode().note_label(Some(who.label_of_socket()));
    Ok(path)
}

/// Returns whether `place` is in a file system that is not mounted.
pub fn is_nameless(place: &Path) -> bool {
    matches!(place.mount.instance().info().type_name, "pipefs" | "sockfs" | EVENT_TYPE)
}

/// Returns whether `place` is that of an event file.
pub fn is_event_file(place: &Path) -> bool {
    place.mount.instance().info().type_name == EVENT_TYPE
}

/// A kind of event files. All files of a kind share a place, and those of all kinds share a vnode, as on Linux. With mandatory
/// access control that holds for the files of the same label.
pub struct EventKind {
    name: &'static str,
    place: Once<Path>,
    /// The places of files with labels.
    labelled: Mutex<BTreeMap<ContextId, Path>>,
}

/// The files of eventfd(2).
pub static EVENTFD: EventKind = EventKind::new("anon_inode:[eventfd]");
/// The files of epoll_create(2).
pub static EVENTPOLL: EventKind = EventKind::new("anon_inode:[eventpoll]");
/// The files of inotify_init(2).
pub static INOTIFY: EventKind = EventKind::new("anon_inode:inotify");
/// The files of pidfd_open(2).
pub static PIDFD: EventKind = EventKind::new("anon_inode:[pidfd]");
/// The files by which a supervisor answers the calls of a filtered process (seccomp_unotify(2)).
pub static SECCOMP_NOTIFY: EventKind = EventKind::new("anon_inode:seccomp notify");
/// The files of signalfd(2).
pub static SIGNALFD: EventKind = EventKind::new("anon_inode:[signalfd]");
/// The files of timerfd_create(2).
pub static TIMERFD: EventKind = EventKind::new("anon_inode:[timerfd]");

impl EventKind {
    const fn new(name: &'static str) -> EventKind {
        let labelled = Mutex::new(&LABELLED, BTreeMap::new());
        EventKind { name, place: Once::new(), labelled }
    }
    /// Returns the path of the files with a label ([`Task::label_of_event_files`]).
    ///
    /// # Errors
    /// `ENOMEM`, at the first use.
    pub fn place(&self, label: &'static Label) -> Result<Path, Errno> {
        match label.context() {
            None => self.shared_place().cloned(),
            Some(context) => self.labelled_place(context, label),
        }
    }
    #[cold]
    fn labelled_place(&self, context: ContextId, label: &'static Label) -> Result<Path, Errno> {
        if let Some(known) = self.labelled.lock().get(&context) {
            return Ok(known.clone());
        }
        let shared = self.shared_place()?;
        let instance = shared.mount.instance();
        let node = Anonymous::new(shared.vnode().attributes(), None);
        let vnode = Vnode::generated(instance, node);
        vnode.note_label(Some(label));
        let path = Path::anonymous(&shared.mount, self.name.as_bytes(), vnode)?;
        Ok(self.labelled.lock().entry(context).or_insert(path).clone())
    }
    fn shared_place(&self) -> Result<&Path, Errno> {
        self.place.get_or_try_init(|| {
            let (mount, vnode) = EVENTS.get_or_try_init(|| {
                let mount = mount(EVENT_TYPE)?;
                let node = Anonymous::new(shared_attributes(FileType::Character), None);
                let vnode = Vnode::generated(mount.instance(), node);
                Ok::<_, Errno>((mount, vnode))
            })?;
            Path::anonymous(mount, self.name.as_bytes(), vnode.clone())
        })
    }
}
