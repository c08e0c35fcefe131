//! Places of things no name leads to: pipes, event files (`pipe:[7]`, `anon_inode:[eventfd]`).
use alloc::{format, sync::Arc};
use core::sync::atomic::{AtomicU64, Ordering};
use interfaces::file_system::{Attributes, FileType};
use rt::sync::Once;
use vfs::{Active, Credentials, Errno, Path, Vnode, generated::{self, Node}};

static PIPES: Once<Arc<Active>> = Once::new();
static OTHERS: Once<Arc<Active>> = Once::new();
static NEXT_INODE: AtomicU64 = AtomicU64::new(2);

/// Something anonymous: only `stat` sees it.
struct Anonymous {
    attributes: Attributes,
}

impl Node for Anonymous {
    fn attributes(&self) -> Attributes {
        self.attributes
    }
}

fn node(file_type: FileType, owner: (u32, u32)) -> Arc<Anonymous> {
    let inode = NEXT_INODE.fetch_add(1, Ordering::Relaxed);
    Arc::new(Anonymous { attributes: generated::attributes(inode, file_type, 0o600, owner) })
}

fn place(
    home: &Once<Arc<Active>>,
    type_name: &'static str,
    file_type: FileType,
    owner: (u32, u32),
    name: impl FnOnce(u64) -> alloc::string::String,
) -> Result<Path, Errno> {
    let root = || Active::generated(type_name, node(FileType::Directory, (0, 0)));
    let active = home.get_or_try_init(root)?;
    let node = node(file_type, owner);
    let name = name(node.attributes.inode);
    let vnode = Vnode::generated(active.root().vnode().instance(), node);
    Path::anonymous(active, name.as_bytes(), vnode)
}

/// The place of a new pipe.
///
/// # Errors
/// `ENOMEM`.
pub fn pipe_place(who: &Credentials) -> Result<Path, Errno> {
    let owner = (who.user.fs, who.group.fs);
    place(&PIPES, "pipefs", FileType::Fifo, owner, |inode| format!("pipe:[{inode}]"))
}

/// The place of a new event file or the like, shown as `anon_inode:KIND`.
///
/// # Errors
/// `ENOMEM`.
pub fn event_place(kind: &str) -> Result<Path, Errno> {
    place(&OTHERS, "anon_inodefs", FileType::Character, (0, 0), |_| format!("anon_inode:{kind}"))
}
