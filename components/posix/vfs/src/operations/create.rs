//! Making names: mkdir, mknod, symlink, link, and the creating half of open.
use crate::{
    base::{
        acls::AclKind,
        credentials::{Capabilities, Credentials},
        errno::Errno,
        observers::Events,
        rights::HAS_DEFAULT_ACL,
        security::{self, Label},
        time,
    },
    pages::memory,
    tree::{
        dentry::{Dentry, Promised},
        mount::Path,
        name_cache::Key,
        name_lock,
        node::Node,
        notify,
        vnode::{FLAG_APPEND, FLAG_IMMUTABLE, Vnode},
    },
    walk::{
        caller::{Base, Caller, lookup_locked},
        multilevel,
        permission::{self, CLASSES, GROUP_EXECUTE, SET_GROUP},
        protection,
        uses::{self, ChangeKind, NameChange},
        walker::{Last, PATH_MAX},
    },
};
use acl::Acl;
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use interfaces::{
    file_system::{FileTime, FileType, FsError, NewAcls, NewInode},
    monitor::{ObjectAccess, Privileges},
};

/// Permission bits that mkdir accepts.
const DIRECTORY_MODE: u16 = 0o1777;
/// The permissions of every symbolic link.
const LINK_MODE: u16 = 0o777;
/// Permission bits a file may have.
const FILE_MODE: u16 = 0o7777;

/// Greatest length of the name of a file without one: `#` and its inode's number.
const UNNAMED_BYTES: usize = 21;

/// The properties of a file to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewFile<'a> {
    file_type: FileType,
    mode: u16,
    device: (u32, u32),
    target: &'a [u8],
}

impl NewFile<'_> {
    /// Makes the properties of a file that is neither a device nor a link.
    pub(crate) fn plain(file_type: FileType, mode: u16) -> NewFile<'static> {
        NewFile { file_type, mode: mode & FILE_MODE, device: (0, 0), target: b"" }
    }
    /// Checks the right to make a device. A caller without it still may make the mark of a removed name in overlays: the
    /// character device 0, 0.
    fn check_device(&self, caller: &Caller<'_>) -> Result<(), Errno> {
        let is_allowed = match self.file_type {
            FileType::Character => self.device == (0, 0),
            FileType::Block => false,
            _ => true,
        };
        if is_allowed {
            return Ok(());
        }
        let who = caller.credentials;
        let may_make =
            who.has(Capabilities::MKNOD) && security::has(&who.subject, Privileges::RAW_DEVICES);
        if may_make { Ok(()) } else { Err(Errno::EPERM) }
    }
    /// Returns the inode to be made in `directory`, which passes on `inherited` and, if it is setgid, its group.
    fn inode<'n>(
        &'n self,
        caller: &Caller<'_>,
        directory: &Vnode,
        inherited: &'n Inherited,
    ) -> NewInode<'n> {
        let who = caller.credentials;
        let mut mode = self.mode;
        let mut group = who.group.fs;
        if directory.permissions() & SET_GROUP != 0 {
            group = directory.owner().1;
            if self.file_type == FileType::Directory {
                mode |= SET_GROUP;
            } else {
                mode = without_foreign_group(mode, group, who);
            }
        }
        let is_link = self.file_type == FileType::Symlink;
        NewInode {
            file_type: self.file_type,
            permissions: if is_link { LINK_MODE } else { mode & !inherited.umask },
            user: who.user.fs,
            group,
            device: self.device,
            target: self.target,
            now: time::now(),
            label: match inherited.label {
                Some(label) if directory.instance().stores_labels() => label.text(),
                _ => &[],
            },
            level: who.subject.level().of_inodes(),
            acls: match &inherited.lists {
                None => NewAcls::default(),
                Some(lists) => NewAcls { access: &lists.access, default: &lists.default },
            },
        }
    }
}

/// The permissions, lists and label that a new file gets from its directory.
struct Inherited {
    /// Permissions that it does not get: the caller's umask, or those that the list does not allow.
    umask: u16,
    lists: Option<Box<Lists>>,
    /// Its label; `None` if no policy is enforced.
    label: Option<&'static Label>,
}

/// The access control lists, in the form for a file system.
struct Lists {
    access: Vec<u8>,
    default: Vec<u8>,
}

impl Inherited {
    /// Returns the inheritance from `directory` for the file `new`.
    ///
    /// # Errors
    /// Errors of reading the list.
    #[inline]
    fn of(directory: &Vnode, new: &NewFile<'_>, caller: &Caller<'_>) -> Result<Inherited, Errno> {
        let label = caller.label_of_new(directory)?;
        let inherited = match directory.rights() & HAS_DEFAULT_ACL {
            0 => Inherited { umask: caller.umask, lists: None, label: None },
            _ => Inherited::read(directory, new, caller)?,
        };
        Ok(Inherited { label, ..inherited })
    }
    #[cold]
    fn read(directory: &Vnode, new: &NewFile<'_>, caller: &Caller<'_>) -> Result<Inherited, Errno> {
        let is_link = new.file_type == FileType::Symlink;
        let list = directory.acl(AclKind::Default)?;
        let Some(list) = list.filter(|_| !is_link) else {
            return Ok(Inherited { umask: caller.umask, lists: None, label: None });
        };
        let inherited = list.inherited(new.mode);
        let is_directory = new.file_type == FileType::Directory;
        let written = |list: &Acl, is_wanted: bool| match is_wanted {
            true => acl::to_portable(list.entries()),
            false => Vec::new(),
        };
        let lists = Lists {
            access: written(&inherited, !inherited.is_mode()),
            default: written(&list, is_directory),
        };
        let (umask, lists) = (CLASSES & !list.mode(), Some(Box::new(lists)));
        Ok(Inherited { umask, lists, label: None })
    }
}

/// Returns the mode without setgid for a program, if its maker is not a member of the group.
fn without_foreign_group(mode: u16, group: u32, who: &Credentials) -> u16 {
    let is_program = mode & (SET_GROUP | GROUP_EXECUTE) == SET_GROUP | GROUP_EXECUTE;
    let is_member = who.is_in_group(group) || who.has(Capabilities::FSETID);
    if is_program && !is_member { mode & !SET_GROUP } else { mode }
}

/// Makes `name` in `parent`. Locks: the directory to read, the name alone.
///
/// # Errors
/// `EEXIST`, `EROFS`, `EACCES`, `ENOSPC` ...
pub(crate) fn create_named(
    caller: &Caller<'_>,
    parent: &Path,
    name: &[u8],
    new: &NewFile<'_>,
) -> Result<Path, Errno> {
    let directory = parent.vnode();
    if let Some(node) = directory.node() {
        return create_generated(caller, parent, &**node, name, new);
    }
    multilevel::check_new_name(name)?;
    let key = parent.dentry.key(name);
    let _name = name_lock::lock(&parent.dentry, &key);
    if lookup_locked(&parent.dentry, &key)?.is_some() {
        return Err(Errno::EEXIST);
    }
    parent.mount.check_writable()?;
    permission::check_create(directory, caller.credentials)?;
    new.check_device(caller)?;
    let instance = directory.instance();
    let inherited = Inherited::of(directory, new, caller)?;
    let new = new.inode(caller, directory, &inherited);
    let promised = Promised::take(name)?;
    let dentry = if instance.is_kept() {
        let vnode = Vnode::kept(instance, &new, 1)?;
        vnode.note_label(inherited.label);
        keep_name(parent, &key, promised, vnode, new.now)?
    } else {
        let made = instance.file_system()?.create(directory.inode(), name, &new);
        if made == Err(FsError::Exists) {
            instance.names().remove(&key);
        }
        let vnode = instance.vnode(made?);
        vnode.note_label(inherited.label);
        directory.outdate();
        add_name(parent, &key, promised, vnode)
    };
    notify::about_name(directory, name, dentry.vnode(), Events::CREATE);
    tell_made(caller, (directory, name), dentry.vnode());
    Ok(Path { mount: parent.mount.clone(), dentry })
}

/// Does the same as [`create_named`] in a generated directory: regular files only.
fn create_generated(
    caller: &Caller<'_>,
    parent: &Path,
    node: &dyn Node,
    name: &[u8],
    new: &NewFile<'_>,
) -> Result<Path, Errno> {
    if caller.lookup(&parent.dentry, name)?.is_some() {
        return Err(Errno::EEXIST);
    }
    parent.mount.check_writable()?;
    permission::check_create(parent.vnode(), caller.credentials)?;
    if new.file_type != FileType::Regular {
        return Err(Errno::EPERM);
    }
    let made = node.create(name, new.mode & !caller.umask, caller.task)?;
    let place = parent.generated_child(name, made)?;
    notify::about_name(parent.vnode(), name, place.vnode(), Events::CREATE);
    tell_made(caller, (parent.vnode(), name), place.vnode());
    Ok(place)
}

/// Tells audit of a name that was made.
#[inline]
pub(super) fn tell_made(caller: &Caller<'_>, (directory, name): (&Vnode, &[u8]), vnode: &Vnode) {
    uses::tell_change(caller.task, NameChange { kind: ChangeKind::Made, directory, name, vnode });
}

/// Adds a name that was made to the name cache.
fn add_name(parent: &Path, key: &Key<'_>, promised: Promised, vnode: Arc<Vnode>) -> Arc<Dentry> {
    let dentry = Dentry::promised(&parent.dentry, promised, vnode);
    let names = parent.vnode().instance().names();
    names.insert(key, dentry.name(), Some(dentry.clone()));
    dentry
}

/// Gives a name to a vnode that exists in the caches only.
fn keep_name(
    parent: &Path,
    key: &Key<'_>,
    promised: Promised,
    vnode: Arc<Vnode>,
    now: FileTime,
) -> Result<Arc<Dentry>, Errno> {
    let dentry = Dentry::promised(&parent.dentry, promised, vnode);
    parent.vnode().keep_name(&dentry, now)?;
    let names = parent.vnode().instance().names();
    names.insert(key, dentry.name(), Some(dentry.clone()));
    Ok(dentry)
}

/// Makes a regular file without a name in the file system of `directory`; `label` is the text of its links, by default
/// its inode's number. A file with such a text is its maker's alone (memfd_create(2)): it has the maker's label, and the directory is
/// not checked.
pub(crate) fn create_unnamed(
    caller: &Caller<'_>,
    directory: &Path,
    mode: u16,
    label: Option<&[u8]>,
) -> Result<Path, Errno> {
    let vnode = directory.vnode();
    directory.mount.check_writable()?;
    if label.is_none() {
        permission::check_create(vnode, caller.credentials)?;
    }
    let instance = vnode.instance();
    let new = NewFile::plain(FileType::Regular, mode);
    let fs = instance.file_system().map_err(|_| Errno::EOPNOTSUPP)?;
    let longest = Promised::take(label.unwrap_or(&[b'#'; UNNAMED_BYTES]))?;
    let mut inherited = Inherited::of(vnode, &new, caller)?;
    if label.is_some() {
        inherited.label = inherited.label.map(|_| caller.credentials.subject.label());
    }
    let new = new.inode(caller, vnode, &inherited);
    let made = match instance.is_kept() {
        true => Vnode::kept(instance, &new, 0)?,
        false => instance.vnode(fs.create_unnamed(vnode.inode(), &new)?),
    };
    made.note_label(inherited.label);
    let promised = match label {
        Some(_) => longest,
        None => longest.renamed(alloc::format!("#{}", made.inode()).as_bytes()),
    };
    let dentry = Dentry::promised(&directory.dentry, promised, made);
    dentry.set_deleted();
    Ok(Path { mount: directory.mount.clone(), dentry })
}

impl Caller<'_> {
    /// Returns the label of what the caller makes in `directory`: the mount's (`context=`), the one that it asked for
    /// (setfscreatecon(3)), or the policy's.
    /// `None` if no policy is enforced.
    ///
    /// # Errors
    /// `EACCES` if it may not make objects with the label that it asked for; errors of reading the directory's label.
    fn label_of_new(&self, directory: &Vnode) -> Result<Option<&'static Label>, Errno> {
        if !security::is_enforced() {
            return Ok(None);
        }
        if let Some(label) = directory.instance().labels().whole() {
            return Ok(Some(label));
        }
        let subject = &self.credentials.subject;
        let asked = self.credentials.asked.as_ref().and_then(|asked| asked.file);
        let label = match asked {
            Some(label) => {
                security::check(subject, label, ObjectAccess::Write)?;
                Some(label)
            }
            None => security::made(subject, directory.label()?)?,
        };
        Ok(label)
    }
    /// Makes a directory (mkdir(2)).
    ///
    /// # Errors
    /// Those of mkdir(2).
    pub fn make_directory(&self, base: Base<'_>, path: &[u8], mode: u16) -> Result<(), Errno> {
        self.make(base, path, &NewFile::plain(FileType::Directory, mode & DIRECTORY_MODE))?;
        Ok(())
    }
    /// Makes a regular file, FIFO, socket or device node (mknod(2)) and returns its place.
    ///
    /// # Errors
    /// Those of mknod(2); `EPERM` for devices without CAP_MKNOD and for directories.
    pub fn make_node(
        &self,
        base: Base<'_>,
        path: &[u8],
        (file_type, mode): (FileType, u16),
        device: (u32, u32),
    ) -> Result<Path, Errno> {
        match file_type {
            FileType::Directory => return Err(Errno::EPERM),
            FileType::Symlink => return Err(Errno::EINVAL),
            _ => {}
        }
        let new = NewFile { device, ..NewFile::plain(file_type, mode) };
        self.make(base, path, &new)
    }
    /// Makes `path` a symbolic link with the text `target` (symlink(2)).
    ///
    /// # Errors
    /// Those of symlink(2).
    pub fn make_link(&self, target: &[u8], base: Base<'_>, path: &[u8]) -> Result<(), Errno> {
        match target.len() {
            0 => return Err(Errno::ENOENT),
            PATH_MAX.. => return Err(Errno::ENAMETOOLONG),
            _ => {}
        }
        let new = NewFile { target, ..NewFile::plain(FileType::Symlink, 0o777) };
        self.make(base, path, &new)?;
        Ok(())
    }
    fn make(&self, base: Base<'_>, path: &[u8], new: &NewFile<'_>) -> Result<Path, Errno> {
        memory::retried(self.namespace.host(), || self.make_once(base, path, new))
    }
    fn make_once(&self, base: Base<'_>, path: &[u8], new: &NewFile<'_>) -> Result<Path, Errno> {
        let parent = self.walk_parent(base, path)?;
        let Last::Name(name) = &parent.last else { return Err(Errno::EEXIST) };
        multilevel::check_new_name(name)?;
        if parent.has_slash && new.file_type != FileType::Directory {
            let is_there = self.lookup(&parent.path.dentry, name)?.is_some();
            return Err(if is_there { Errno::EEXIST } else { Errno::ENOENT });
        }
        if parent.path.vnode().node().is_some_and(|node| !node.can_change()) {
            let is_there = self.is_generated_there(&parent.path, name)?;
            return Err(match new.file_type {
                _ if is_there => Errno::EEXIST,
                FileType::Regular => Errno::EACCES,
                _ => Errno::EPERM,
            });
        }
        create_named(self, &parent.path, name, new)
    }
    /// Returns whether a generated directory has the name, before another one is made.
    ///
    /// # Errors
    /// `ENOENT` for procfs: Linux fails every lookup there of a name that does not exist, even to create it.
    pub(super) fn is_generated_there(&self, directory: &Path, name: &[u8]) -> Result<bool, Errno> {
        let is_proc = directory.mount.instance().info().type_name == "proc";
        match self.lookup(&directory.dentry, name) {
            Err(Errno::ENOENT) if !is_proc => Ok(false),
            found => Ok(found?.is_some()),
        }
    }
    /// Gives `place` (walked to already) another name (link(2)).
    ///
    /// # Errors
    /// Those of link(2): `EXDEV`, `EPERM` for directories, `EEXIST`, `EMLINK` ...
    pub fn link(&self, place: &Path, base: Base<'_>, path: &[u8]) -> Result<(), Errno> {
        let parent = self.walk_parent(base, path)?;
        let Last::Name(name) = &parent.last else { return Err(Errno::EEXIST) };
        multilevel::check_new_name(name)?;
        let vnode = place.vnode();
        let directory = parent.path.vnode();
        let is_elsewhere = parent.path.mount.id() != place.mount.id();
        let is_generated = directory.node().is_some();
        if is_elsewhere || is_generated {
            let is_there = match is_generated {
                true => self.is_generated_there(&parent.path, name)?,
                false => self.lookup(&parent.path.dentry, name)?.is_some(),
            };
            return Err(match is_elsewhere {
                _ if is_there => Errno::EEXIST,
                true => Errno::EXDEV,
                false => Errno::EPERM,
            });
        }
        let instance = directory.instance();
        let fs = instance.file_system()?;
        let key = parent.path.dentry.key(name);
        let _name = name_lock::lock(&parent.path.dentry, &key);
        if lookup_locked(&parent.path.dentry, &key)?.is_some() {
            return Err(Errno::EEXIST);
        }
        if parent.has_slash {
            return Err(Errno::ENOENT);
        }
        protection::check_hard_link(vnode, self.credentials)?;
        parent.path.mount.check_writable()?;
        permission::check_create(directory, self.credentials)?;
        vnode.admit(self.credentials, ObjectAccess::Write)?;
        if vnode.is_directory() || vnode.flags() & (FLAG_APPEND | FLAG_IMMUTABLE) != 0 {
            return Err(Errno::EPERM);
        }
        if !vnode.can_be_linked() {
            return Err(Errno::ENOENT);
        }
        let (promised, now) = (Promised::take(name)?, time::now());
        if instance.is_kept() {
            vnode.gain_name(now)?;
            if let Err(error) = keep_name(&parent.path, &key, promised, vnode.clone(), now) {
                vnode.lose_name(now);
                return Err(error);
            }
        } else {
            fs.link(vnode.inode(), directory.inode(), name, now)?;
            vnode.count_up();
            vnode.refresh();
            directory.outdate();
            add_name(&parent.path, &key, promised, vnode.clone());
        }
        notify::about_vnode(vnode, Events::ATTRIBUTES);
        notify::about_name(directory, name, vnode, Events::CREATE);
        tell_made(self, (directory, name), vnode);
        Ok(())
    }
}
