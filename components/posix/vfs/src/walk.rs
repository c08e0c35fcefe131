//! The path walk: from a text to a place (path_resolution(7), B7).
//!
//! A [`Caller`] is on whose behalf. A step looks in the name cache without any exclusive lock and
//! allocates nothing; a symbolic link replaces the text that is left. Locks of a step, each let
//! go before the next: directory and name shared (on a miss only), a shard of the name cache shared, the
//! mount table shared (only where something is mounted).
use crate::{
    credentials::Credentials,
    dentry::Dentry,
    errno::Errno,
    mount::{MountFlags, Path},
    name_cache::{Cached, Key},
    name_lock,
    namespace::Namespace,
    permission::{self, Want},
    protection, shrink,
    vnode::Vnode,
};
use alloc::{borrow::Cow, sync::Arc, vec::Vec};
use bitflags::bitflags;
use core::ops::Range;
use interfaces::file_system::{FileType, FsError};

/// Bytes of the longest path, its NUL included.
pub const PATH_MAX: usize = 4096;
/// Bytes of the longest name.
pub const NAME_MAX: usize = 255;
/// Symbolic links followed in one walk.
const LINKS_MAX: u32 = 40;

bitflags! {
    /// Flags of a walk. The `RESOLVE_` ones are openat2(2)'s.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Walk: u32 {
        /// Follow a symbolic link at the end.
        const FOLLOW = 1;
        /// The end must be a directory.
        const DIRECTORY = 2;
        /// An empty path means the base itself (AT_EMPTY_PATH).
        const EMPTY = 4;
        /// RESOLVE_NO_XDEV
        const NO_MOUNTS = 0x10;
        /// RESOLVE_NO_MAGICLINKS
        const NO_MAGIC_LINKS = 0x20;
        /// RESOLVE_NO_SYMLINKS
        const NO_SYMLINKS = 0x40;
        /// RESOLVE_BENEATH
        const BENEATH = 0x80;
        /// RESOLVE_IN_ROOT
        const IN_ROOT = 0x100;
        /// The walk does not leave the directory that it starts from.
        const SCOPED = Self::BENEATH.bits() | Self::IN_ROOT.bits();
    }
}

/// From where a relative path starts.
#[derive(Clone, Copy)]
pub enum Base<'a> {
    /// The working directory (AT_FDCWD).
    Cwd,
    /// The place that a descriptor names.
    At(&'a Path),
}

/// On whose behalf files are used. Cheap to make: everything is borrowed.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    /// The mounts seen.
    pub namespace: &'a Arc<Namespace>,
    /// Rights.
    pub credentials: &'a Credentials,
    /// The root directory.
    pub root: &'a Path,
    /// The working directory.
    pub cwd: &'a Path,
    /// Permission bits that new files do not get.
    pub umask: u16,
    /// Process id, for generated files (`/proc/self`).
    pub process: u32,
    /// Thread id, for generated files (`/proc/thread-self`).
    pub thread: u32,
}

/// The last component of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    /// A name.
    Name(Arc<[u8]>),
    /// `.`
    Dot,
    /// `..`
    DotDot,
    /// There was none: the path is `/`.
    Root,
}

/// A path up to its last component.
pub(crate) struct Parent {
    /// The directory; it was searched for with permission.
    pub path: Path,
    /// The wanted thing there.
    pub last: Last,
    /// Slashes followed: only a directory will do.
    pub has_slash: bool,
}

impl<'a> Caller<'a> {
    /// Walks to the place `path` names.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `EACCES`, `ELOOP`, `ENAMETOOLONG`, `EXDEV` (the `BENEATH` family), `EIO`...
    pub fn walk(&self, base: Base<'_>, path: &[u8], flags: Walk) -> Result<Path, Errno> {
        shrink::retried(self.namespace.host(), || self.walk_once(base, path, flags))
    }
    fn walk_once(&self, base: Base<'_>, path: &[u8], flags: Walk) -> Result<Path, Errno> {
        if path.is_empty() && flags.contains(Walk::EMPTY) {
            return Ok(self.base(base).clone());
        }
        let mut walker = Walker::new(self, base, path, flags)?;
        while let Some(last) = walker.go_to_last()? {
            let follow = flags.contains(Walk::FOLLOW) || last.has_slash;
            if walker.step_last(&last, follow)? {
                if last.has_slash {
                    walker.check_directory()?;
                }
                break;
            }
        }
        if flags.contains(Walk::DIRECTORY) {
            walker.check_directory()?;
        }
        Ok(walker.at)
    }
    /// Walks to the directory of the last component, which is not looked up.
    pub(crate) fn walk_parent(&self, base: Base<'_>, path: &[u8]) -> Result<Parent, Errno> {
        let mut walker = Walker::new(self, base, path, Walk::empty())?;
        walker.parent()
    }
    /// The directory of `path` can be reached.
    ///
    /// # Errors
    /// As [`Caller::walk`], but of the last name.
    pub fn check_parent(&self, base: Base<'_>, path: &[u8]) -> Result<(), Errno> {
        self.walk_parent(base, path).map(drop)
    }
    pub(crate) fn base<'b>(&self, base: Base<'b>) -> &'b Path
    where
        'a: 'b,
    {
        match base {
            Base::Cwd => self.cwd,
            Base::At(path) => path,
        }
    }
    /// The file `name` in the directory `parent`, mounts crossed; `None` if there is none.
    pub(crate) fn child(&self, parent: &Path, name: &[u8]) -> Result<Option<Path>, Errno> {
        let Some(dentry) = self.lookup(&parent.dentry, name)? else { return Ok(None) };
        let path = Path { mount: parent.mount.clone(), dentry };
        Ok(Some(self.namespace.cross(path)))
    }
    /// The dentry of `name`, from the name cache or else from the file system.
    pub(crate) fn lookup(
        &self,
        parent: &Arc<Dentry>,
        name: &[u8],
    ) -> Result<Option<Arc<Dentry>>, Errno> {
        if name.len() > NAME_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let directory = parent.vnode();
        if let Some(node) = directory.node() {
            let names = directory.instance().names();
            let is_kept = node.keeps(name);
            if is_kept && let Cached::Positive(dentry) = names.get(parent.id(), name) {
                return Ok(Some(dentry));
            }
            let mut known = None;
            if !is_kept {
                node.with_cache(name, &mut |cache, place| known = cache.get(parent.id(), place));
            }
            if known.is_some() {
                return Ok(known);
            }
            let child = match node.lookup(name, self) {
                Err(Errno::ENOENT) if node.can_change() => return Ok(None),
                found => found?,
            };
            let vnode = Vnode::generated(directory.instance(), child);
            let dentry = Dentry::child(parent, name, vnode)?;
            return Ok(Some(match is_kept {
                true => names.insert_if_absent(&parent.key(name), dentry.name(), dentry),
                false => {
                    node.with_cache(name, &mut |cache, place| {
                        cache.put(parent.id(), place, &dentry)
                    });
                    dentry
                }
            }));
        }
        match directory.instance().names().get(parent.id(), name) {
            Cached::Positive(dentry) => return Ok(Some(dentry)),
            Cached::Negative => return Ok(None),
            Cached::Unknown => {}
        }
        let key = parent.key(name);
        let _name = name_lock::share(parent, &key);
        lookup_locked(parent, &key)
    }
}

/// As [`Caller::lookup`] in a stored directory, of a name the caller has locked, or all names.
pub(crate) fn lookup_locked(
    parent: &Arc<Dentry>,
    key: &Key<'_>,
) -> Result<Option<Arc<Dentry>>, Errno> {
    let name = key.name();
    if name.len() > NAME_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    let directory = parent.vnode();
    if directory.is_dead() {
        return Err(Errno::ENOENT);
    }
    let instance = directory.instance();
    let names = instance.names();
    match names.find(key) {
        Cached::Positive(dentry) => return Ok(Some(dentry)),
        Cached::Negative => return Ok(None),
        Cached::Unknown => {}
    }
    match instance.file_system()?.lookup(directory.inode(), name) {
        Ok(attributes) => {
            let dentry = Dentry::child(parent, name, instance.vnode(attributes))?;
            if instance.info().has_stable_names {
                return Ok(Some(names.insert_if_absent(key, dentry.name(), dentry)));
            }
            Ok(Some(dentry))
        }
        Err(FsError::NotFound) => {
            if instance.info().has_stable_names {
                names.insert(key, Arc::from(name), None);
            }
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// The end of the name that begins at `start`: at a slash or at the end of the text. Words are looked at, not bytes.
fn name_end(text: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(word) = text.get(at..).and_then(|rest| rest.first_chunk()) {
        if let Some(slash) = first_slash(u64::from_le_bytes(*word)) {
            return at + slash;
        }
        at += WORD_BYTES;
    }
    let rest = text.get(at..).unwrap_or_default();
    let slash = match text.last_chunk() {
        // The rest of the last word, which was not looked at; no byte of its replacement is a slash.
        Some(word) if !rest.is_empty() => {
            first_slash(u64::from_le_bytes(*word) >> (8 * (WORD_BYTES - rest.len())))
        }
        _ => rest.iter().position(|byte| *byte == b'/'),
    };
    slash.map_or(text.len(), |slash| at + slash)
}

const WORD_BYTES: usize = size_of::<u64>();

/// The lowest byte of a word that is a slash.
fn first_slash(word: u64) -> Option<usize> {
    const ONES: u64 = u64::MAX / 0xff;
    let word = word ^ (ONES * b'/' as u64);
    // The lowest bit set here is of the first byte that is zero now.
    let found = word.wrapping_sub(ONES) & !word & (ONES << 7);
    (found != 0).then(|| found.trailing_zeros() as usize / 8)
}

/// The last component, as a part of the text.
pub(crate) struct LastPart {
    pub(crate) range: Range<usize>,
    pub(crate) has_slash: bool,
}

/// A walk under way: where it is, and the text that is left.
pub(crate) struct Walker<'a> {
    caller: &'a Caller<'a>,
    root: &'a Path,
    flags: Walk,
    pub(crate) at: Path,
    text: Cow<'a, [u8]>,
    position: usize,
    links: u32,
}

impl<'a> Walker<'a> {
    pub(crate) fn new(
        caller: &'a Caller<'a>,
        base: Base<'a>,
        path: &'a [u8],
        flags: Walk,
    ) -> Result<Walker<'a>, Errno> {
        if path.is_empty() {
            return Err(Errno::ENOENT);
        }
        if path.len() >= PATH_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let base = caller.base(base);
        let root = if flags.intersects(Walk::SCOPED) { base } else { caller.root };
        let is_absolute = path.first() == Some(&b'/');
        // `NO_MOUNTS` does not concern the start: the root may be in another mount than the working directory.
        if is_absolute && flags.contains(Walk::BENEATH) {
            return Err(Errno::EXDEV);
        }
        let at = if is_absolute { root.clone() } else { base.clone() };
        let text = Cow::Borrowed(path);
        Ok(Walker { caller, root, flags, at, text, position: 0, links: 0 })
    }
    /// A link's text that begins with a slash leads from `from` to the root.
    fn check_absolute(&self, from: &Path) -> Result<(), Errno> {
        let changes_mount = from.mount.id() != self.root.mount.id();
        let is_refused = self.flags.contains(Walk::BENEATH)
            || self.flags.contains(Walk::NO_MOUNTS) && changes_mount;
        if is_refused { Err(Errno::EXDEV) } else { Ok(()) }
    }
    /// Walks until one component is left; `None` where there is none (`/`).
    pub(crate) fn go_to_last(&mut self) -> Result<Option<LastPart>, Errno> {
        loop {
            let rest = self.text.get(self.position..).unwrap_or_default();
            let start = self.position + rest.iter().take_while(|byte| **byte == b'/').count();
            let end = name_end(&self.text, start);
            if start == end {
                return Ok(None);
            }
            let after = self.text.get(end..).unwrap_or_default();
            if after.iter().all(|byte| *byte == b'/') {
                return Ok(Some(LastPart { range: start..end, has_slash: !after.is_empty() }));
            }
            self.position = end;
            self.step(start..end, true)?;
        }
    }
    /// The name of a part of the text.
    pub(crate) fn name(&self, part: &LastPart) -> &[u8] {
        self.text.get(part.range.clone()).unwrap_or_default()
    }
    /// Takes the last component. `false`: it was a symbolic link, whose text is to be walked now.
    pub(crate) fn step_last(&mut self, last: &LastPart, follow: bool) -> Result<bool, Errno> {
        self.position = last.range.end;
        self.step(last.range.clone(), follow)
    }
    /// As [`Walker::step_last`], where the caller has looked up what is there.
    pub(crate) fn enter_last(
        &mut self,
        last: &LastPart,
        found: Path,
        follow: bool,
    ) -> Result<bool, Errno> {
        self.position = last.range.end;
        self.enter(found, follow)
    }
    /// The directory walked to and the last component.
    pub(crate) fn parent(&mut self) -> Result<Parent, Errno> {
        let last = self.go_to_last()?;
        self.check_search()?;
        let path = self.at.clone();
        let Some(part) = last else {
            return Ok(Parent { path, last: Last::Root, has_slash: false });
        };
        let last = match self.name(&part) {
            b"." => Last::Dot,
            b".." => Last::DotDot,
            name if name.len() > NAME_MAX => return Err(Errno::ENAMETOOLONG),
            name => Last::Name(Arc::from(name)),
        };
        Ok(Parent { path, last, has_slash: part.has_slash })
    }
    /// Walking is over: what is here must be a directory.
    pub(crate) fn check_directory(&self) -> Result<(), Errno> {
        if self.at.vnode().is_directory() { Ok(()) } else { Err(Errno::ENOTDIR) }
    }
    /// The current place must be a directory that may be searched.
    pub(crate) fn check_search(&self) -> Result<(), Errno> {
        self.check_directory()?;
        permission::check(self.at.vnode(), self.caller.credentials, Want::EXECUTE)
    }
    /// Moves by one component; `false` where a link's text has replaced what was left.
    fn step(&mut self, part: Range<usize>, follow: bool) -> Result<bool, Errno> {
        self.check_search()?;
        let name = self.text.get(part).unwrap_or_default();
        match name {
            b"." => return Ok(true),
            b".." => return self.up().map(|()| true),
            _ => {}
        }
        let dentry = self.caller.lookup(&self.at.dentry, name)?.ok_or(Errno::ENOENT)?;
        let is_link = dentry.vnode().file_type() == FileType::Symlink;
        let is_plain = !is_link || !follow;
        if is_plain && !dentry.is_mount_point() {
            self.at.dentry = dentry;
            return Ok(true);
        }
        let mount = self.at.mount.clone();
        let found = self.caller.namespace.cross(Path { mount, dentry });
        if found.mount.id() != self.at.mount.id() && self.flags.contains(Walk::NO_MOUNTS) {
            return Err(Errno::EXDEV);
        }
        self.enter(found, follow)
    }
    /// Goes to `found`, or follows it.
    fn enter(&mut self, found: Path, follow: bool) -> Result<bool, Errno> {
        if !follow || found.vnode().file_type() != FileType::Symlink {
            self.at = found;
            return Ok(true);
        }
        self.links += 1;
        if self.links > LINKS_MAX || self.flags.contains(Walk::NO_SYMLINKS) {
            return Err(Errno::ELOOP);
        }
        let vnode = found.vnode();
        if self.is_at_end() {
            protection::check_follow(self.at.vnode(), vnode, self.caller.credentials)?;
        }
        if found.mount.flags().contains(MountFlags::NO_LINKS) {
            return Err(Errno::ELOOP);
        }
        let rest = self.text.get(self.position..).unwrap_or_default();
        let mut text = match vnode.node() {
            Some(node) => match node.follow(self.caller)? {
                Some(jump) => return self.jump(jump).map(|()| true),
                None => node.read_link(self.caller)?,
            },
            None => {
                let target = vnode.link_target()?;
                let mut text = Vec::with_capacity(target.len() + rest.len());
                text.extend_from_slice(&target);
                text
            }
        };
        vnode.touch_accessed(found.mount.flags());
        if text.is_empty() {
            return Err(Errno::ENOENT);
        }
        text.extend_from_slice(rest);
        self.text = Cow::Owned(text);
        self.position = 0;
        if self.text.first() == Some(&b'/') {
            self.check_absolute(&self.at)?;
            self.at = self.root.clone();
        }
        Ok(false)
    }
    /// Nothing but slashes is left.
    fn is_at_end(&self) -> bool {
        self.text.get(self.position..).unwrap_or_default().iter().all(|byte| *byte == b'/')
    }
    /// Follows a magic link.
    fn jump(&mut self, to: Path) -> Result<(), Errno> {
        if self.flags.contains(Walk::NO_MAGIC_LINKS) {
            return Err(Errno::ELOOP);
        }
        if self.flags.intersects(Walk::SCOPED) {
            return Err(Errno::EXDEV);
        }
        if self.flags.contains(Walk::NO_MOUNTS) && to.mount.id() != self.at.mount.id() {
            return Err(Errno::EXDEV);
        }
        self.at = to;
        Ok(())
    }
    /// `..`: out of mounts, stopping at the root.
    fn up(&mut self) -> Result<(), Errno> {
        let mut at = self.at.clone();
        loop {
            if at.is_same(self.root) {
                let is_escape = self.flags.contains(Walk::BENEATH);
                return if is_escape { Err(Errno::EXDEV) } else { Ok(()) };
            }
            if !at.is_mount_root() {
                break;
            }
            match at.mount.at() {
                Some(below) => at = below,
                None => return Ok(()),
            }
        }
        if let Some(parent) = at.dentry.parent() {
            at.dentry = parent;
        }
        let at = self.caller.namespace.cross(at);
        if self.flags.contains(Walk::NO_MOUNTS) && at.mount.id() != self.at.mount.id() {
            return Err(Errno::EXDEV);
        }
        self.at = at;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::name_end;
    use alloc::vec;

    #[test]
    fn names_end_where_a_look_at_every_byte_finds_the_next_slash() {
        for length in 0..28 {
            for slash in 0..=length {
                // Bytes beside a slash in value, and ones with the highest bit set, are none.
                for other in [b'.', b'0', 0x80 | b'/', 0, 0xff] {
                    let mut text = vec![other; length];
                    text.iter_mut().skip(slash).step_by(3).for_each(|byte| *byte = b'/');
                    for start in 0..=length {
                        let next = text[start..].iter().position(|byte| *byte == b'/');
                        let expected = start + next.unwrap_or(length - start);
                        assert_eq!(name_end(&text, start), expected, "{text:?} from {start}");
                    }
                }
            }
        }
    }
}
