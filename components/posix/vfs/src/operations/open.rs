//! open(2), openat2(2): from a path to an open file description.
use crate::{
    base::{
        credentials::Capabilities, errno::Errno, file::File, mount_flags::MountFlags,
        observers::Events, seals::Seals, security::flows,
    },
    files::{
        directory::DirectoryFile,
        generated::GeneratedFile,
        open_file::{OpenFile, PlaceOnly, Traces, WriteCount},
        regular::{AccessTime, Privilege, RegularFile},
    },
    operations::create::{NewFile, create_named, create_unnamed},
    pages::memory,
    tree::{
        mount::{Mount, Path},
        notify,
        vnode::{FLAG_APPEND, Vnode},
    },
    walk::{
        caller::{Base, Caller},
        permission::{self, Want},
        protection,
        uses::{self, NameUse},
        walker::{Links, Walk, Walker},
    },
};
use alloc::sync::Arc;
use interfaces::{file_system::FileType, monitor::ObjectAccess};
use linux_raw_sys::general as raw;

/// The arguments of open(2) besides the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenHow {
    /// O_ flags.
    pub flags: u32,
    /// Permission bits of a new file, before the umask.
    pub mode: u16,
    /// The `RESOLVE_` part of a [`Walk`].
    pub resolve: Walk,
}

impl OpenHow {
    /// Makes the arguments of open(2) without O_CREAT.
    pub fn new(flags: u32) -> OpenHow {
        OpenHow { flags, mode: 0, resolve: Walk::empty() }
    }
    /// Makes the arguments of open(2) with `mode`.
    pub fn with_mode(flags: u32, mode: u16) -> OpenHow {
        OpenHow { flags, mode, resolve: Walk::empty() }
    }
    fn has(&self, flag: u32) -> bool {
        self.flags & flag == flag
    }
    /// Returns the permissions that the flags ask for.
    fn want(&self) -> Want {
        let mut want = match self.flags & raw::O_ACCMODE {
            raw::O_RDONLY => Want::READ,
            raw::O_WRONLY => Want::WRITE,
            _ => Want::READ | Want::WRITE,
        };
        if self.has(raw::O_TRUNC) {
            want |= Want::WRITE;
        }
        want
    }
    fn walk(&self) -> Walk {
        let mut walk = self.resolve;
        walk.set(Walk::FOLLOW, !self.has(raw::O_NOFOLLOW));
        walk.set(Walk::DIRECTORY, self.has(raw::O_DIRECTORY));
        walk
    }
    /// Refuses invalid flags.
    fn checked(mut self) -> Result<OpenHow, Errno> {
        if self.has(raw::O_PATH) {
            self.flags &= raw::O_PATH | raw::O_DIRECTORY | raw::O_NOFOLLOW | raw::O_CLOEXEC;
        }
        let is_unnamed = self.has(raw::O_TMPFILE);
        let is_writing = self.flags & raw::O_ACCMODE != raw::O_RDONLY;
        let is_odd = self.has(raw::O_CREAT | raw::O_DIRECTORY);
        if is_unnamed && (!is_writing || self.has(raw::O_CREAT)) || !is_unnamed && is_odd {
            return Err(Errno::EINVAL);
        }
        if !is_unnamed && self.has(TMPFILE_BIT) {
            return Err(Errno::EINVAL);
        }
        Ok(self)
    }
}

/// `__O_TMPFILE`, which is valid only with O_DIRECTORY.
const TMPFILE_BIT: u32 = raw::O_TMPFILE & !raw::O_DIRECTORY;

/// Tells whether the file existed before: a new one may be opened regardless of its mode.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Found,
    Created,
}

impl Caller<'_> {
    /// Opens the file that `path` names, as open(2) and openat2(2) do.
    ///
    /// # Errors
    /// As open(2).
    pub fn open(&self, base: Base<'_>, path: &[u8], how: OpenHow) -> Result<Arc<OpenFile>, Errno> {
        let how = how.checked()?;
        memory::retried(self.namespace.host(), || {
            if how.has(raw::O_TMPFILE) {
                return self.open_unnamed(base, path, how);
            }
            if how.has(raw::O_CREAT) {
                return self.open_or_create(base, path, how);
            }
            let place = self.walk(base, path, how.walk())?;
            self.open_place(&place, how, Origin::Found)
        })
    }
    /// Opens a place already walked to (a magic link, `execveat` of a descriptor).
    ///
    /// # Errors
    /// As open(2).
    pub fn open_path(&self, place: &Path, how: OpenHow) -> Result<Arc<OpenFile>, Errno> {
        self.open_place(place, how.checked()?, Origin::Found)
    }
    /// Opens a new file in `mount` that never has a name and whose links read `label`, with exactly `mode`
    /// (memfd_create(2)). As on Linux it can be executed while it is open.
    ///
    /// # Errors
    /// `ENOMEM`, `ENOSPC`, `ENFILE`.
    pub fn open_nameless(
        &self,
        mount: &Arc<Mount>,
        label: &[u8],
        mode: u16,
        seals: Seals,
    ) -> Result<Arc<OpenFile>, Errno> {
        let directory = Path { mount: mount.clone(), dentry: mount.root().clone() };
        let maker = Caller { umask: 0, ..*self };
        memory::retried(self.namespace.host(), || {
            let place = create_unnamed(&maker, &directory, mode, Some(label))?;
            place.vnode().set_seals(seals);
            let how = OpenHow::new(raw::O_RDWR | raw::O_LARGEFILE);
            Ok(OpenFile::new(self.open_kind(&place, how, Traces::Left)?, place, how.flags))
        })
    }
    /// Opens a program to be executed: for reading, if it may be executed.
    ///
    /// # Errors
    /// `EACCES` if it may not be executed, and those of open(2).
    pub fn open_executable(
        &self,
        base: Base<'_>,
        path: &[u8],
        walk: Walk,
    ) -> Result<Arc<OpenFile>, Errno> {
        let place = self.walk(base, path, walk)?;
        if place.vnode().file_type() == FileType::Symlink {
            return Err(Errno::ELOOP);
        }
        permission::check_execute(&place, self.credentials)?;
        self.open_place(&place, OpenHow::new(raw::O_RDONLY), Origin::Created)
    }
    /// Opens a file without a name (O_TMPFILE); out of the way of opens of what is there.
    #[inline(never)]
    fn open_unnamed(
        &self,
        base: Base<'_>,
        path: &[u8],
        how: OpenHow,
    ) -> Result<Arc<OpenFile>, Errno> {
        let walk = how.resolve | Walk::FOLLOW | Walk::DIRECTORY;
        let directory = self.walk(base, path, walk)?;
        let place = create_unnamed(self, &directory, how.mode, None)?;
        if !how.has(raw::O_EXCL) {
            place.vnode().set_linkable();
        }
        self.open_place(&place, how, Origin::Created)
    }
    /// Opens what a name stands for, or makes it (O_CREAT); out of the way of opens of what is there.
    #[inline(never)]
    fn open_or_create(
        &self,
        base: Base<'_>,
        path: &[u8],
        how: OpenHow,
    ) -> Result<Arc<OpenFile>, Errno> {
        let mut walker = Walker::new(self, base, path, how.resolve)?;
        loop {
            let is_there = if how.has(raw::O_EXCL) { Errno::EEXIST } else { Errno::EISDIR };
            let Some(part) = walker.go_to_last()? else { return Err(is_there) };
            walker.check_search()?;
            let parent = walker.at.clone();
            if matches!(walker.name(&part), b"." | b"..") {
                return Err(is_there);
            }
            if part.has_slash {
                return Err(Errno::EISDIR);
            }
            let Some(found) = self.child(&parent, walker.name(&part))? else {
                uses::tell(self.task, NameUse::Parent(path, &parent));
                let made = self.create_at(&parent, walker.name(&part), how).inspect_err(|_| {
                    uses::tell_failed_open(self.task, NameUse::Parent(path, &parent));
                });
                match made? {
                    Some(file) => return Ok(file),
                    None => continue,
                }
            };
            if how.has(raw::O_EXCL) {
                return Err(Errno::EEXIST);
            }
            let links = if how.has(raw::O_NOFOLLOW) { Links::Taken } else { Links::Followed };
            if !walker.enter_last(&part, found, links)? {
                continue;
            }
            uses::tell(self.task, NameUse::Walked(path, Some(&walker.at)));
            if walker.at.vnode().is_directory() {
                return Err(Errno::EISDIR);
            }
            protection::check_open_existing(parent.vnode(), walker.at.vnode(), self.credentials)?;
            return self.open_place(&walker.at, how, Origin::Found);
        }
    }
    /// Creates and opens a file; returns `None` if another thread has created it meanwhile.
    fn create_at(
        &self,
        parent: &Path,
        name: &[u8],
        how: OpenHow,
    ) -> Result<Option<Arc<OpenFile>>, Errno> {
        let new = NewFile::plain(FileType::Regular, how.mode);
        match create_named(self, parent, name, &new) {
            // The file is there now: a refusal must not repeat the call, which O_EXCL would end with EEXIST.
            Ok(place) => {
                memory::committed(|| self.open_place(&place, how, Origin::Created)).map(Some)
            }
            Err(Errno::EEXIST) if !how.has(raw::O_EXCL) => Ok(None),
            Err(error) => Err(error),
        }
    }
    fn open_place(
        &self,
        place: &Path,
        how: OpenHow,
        origin: Origin,
    ) -> Result<Arc<OpenFile>, Errno> {
        let is_directory = place.vnode().is_directory();
        if origin == Origin::Found && how.has(raw::O_DIRECTORY) && !is_directory {
            return Err(Errno::ENOTDIR);
        }
        if how.has(raw::O_PATH) {
            let use_of = (WriteCount::None, self.traces(place.vnode()));
            return Ok(OpenFile::counted(Arc::new(PlaceOnly), place.clone(), how.flags, use_of));
        }
        self.check_open(place, how, origin)
            .inspect_err(|_| uses::tell_failed_open(self.task, NameUse::Opened(place)))?;
        let vnode = place.vnode();
        flows::reads(|| vnode.known_label());
        let is_writing = how.want().contains(Want::WRITE);
        let mut writes = WriteCount::None;
        if vnode.is_regular() && is_writing {
            vnode.begin_write()?;
            writes = WriteCount::Held;
        }
        let traces = if is_writing { Traces::Left } else { self.traces(vnode) };
        let opened = self.open_kind(place, how, traces).and_then(|file| {
            if how.has(raw::O_DIRECT) && !file.can_be_direct() {
                return Err(Errno::EINVAL);
            }
            if origin == Origin::Found && how.has(raw::O_TRUNC) && vnode.is_regular() {
                self.truncate_opened(place, file.as_ref())?;
            }
            Ok(file)
        });
        match opened {
            Ok(file) => {
                let flags = how.flags | raw::O_LARGEFILE;
                let opened = OpenFile::counted(file, place.clone(), flags, (writes, traces));
                opened.tell(Events::OPEN);
                Ok(opened)
            }
            Err(error) => {
                if writes == WriteCount::Held {
                    vnode.end_write();
                }
                Err(error)
            }
        }
    }
    /// Returns whether others see that the caller uses a vnode: the caller may write it.
    fn traces(&self, vnode: &Vnode) -> Traces {
        match vnode.is_admitted(self.credentials, ObjectAccess::Write) {
            true => Traces::Left,
            false => Traces::Avoided,
        }
    }
    fn check_open(&self, place: &Path, how: OpenHow, origin: Origin) -> Result<(), Errno> {
        let vnode = place.vnode();
        let want = how.want();
        let is_writing = want.contains(Want::WRITE);
        match vnode.file_type() {
            FileType::Symlink => return Err(Errno::ELOOP),
            FileType::Directory if is_writing || how.has(raw::O_CREAT) => {
                return Err(Errno::EISDIR);
            }
            FileType::Character | FileType::Block
                if place.mount.flags().contains(MountFlags::NO_DEVICES) =>
            {
                return Err(Errno::EACCES);
            }
            FileType::Socket => return Err(Errno::ENXIO),
            _ => {}
        }
        if origin == Origin::Found {
            self.check_path(place, want)?;
        }
        let is_appending = how.has(raw::O_APPEND) && !how.has(raw::O_TRUNC);
        if vnode.flags() & FLAG_APPEND != 0 && is_writing && !is_appending {
            return Err(Errno::EPERM);
        }
        if how.has(raw::O_NOATIME) && !permission::is_owner(vnode, self.credentials) {
            return Err(Errno::EPERM);
        }
        Ok(())
    }
    fn open_kind(
        &self,
        place: &Path,
        how: OpenHow,
        traces: Traces,
    ) -> Result<Arc<dyn File>, Errno> {
        let vnode = place.vnode();
        let is_silent = how.has(raw::O_NOATIME) || traces == Traces::Avoided;
        let access_time = if is_silent { AccessTime::Kept } else { AccessTime::Updated };
        if let Some(node) = vnode.node() {
            if let Some(file) = node.open(how.flags, self.task)? {
                return Ok(file);
            }
            if vnode.is_regular() {
                return Ok(Arc::new(GeneratedFile::new(node.clone())));
            }
        }
        match vnode.file_type() {
            FileType::Regular => {
                let is_privileged = self.credentials.has(Capabilities::FSETID);
                let privilege = if is_privileged { Privilege::Kept } else { Privilege::Stripped };
                Ok(Arc::new(RegularFile::new(place, privilege, access_time)?))
            }
            FileType::Directory => Ok(Arc::new(DirectoryFile::new(place, access_time))),
            FileType::Symlink => Err(Errno::ELOOP),
            kind => {
                let opener = self.namespace.devices().opener(kind, vnode.device())?;
                opener.open_at(place, how.flags, self)
            }
        }
    }
    fn truncate_opened(&self, place: &Path, file: &dyn File) -> Result<(), Errno> {
        if place.vnode().node().is_some() {
            return file.truncate(0, self.task);
        }
        place.mount.check_writable()?;
        self.truncate_privileged(place.vnode(), 0)?;
        notify::about_dentry(&place.dentry, Events::MODIFY);
        Ok(())
    }
}
