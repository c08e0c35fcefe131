//! The path walk: it resolves a text to a place (path_resolution(7), B7).
//!
//! A step looks in the name cache without any exclusive lock and allocates nothing; a symbolic link replaces the text that is
//! left. Locks of a step, each let go before the next: those of [`Caller::lookup`].
use crate::{
    base::{errno::Errno, mount_flags::MountFlags, security::flows},
    pages::memory,
    tree::mount::Path,
    walk::{
        caller::{Base, Caller, NAME_MAX},
        path_text::name_end,
        permission::Want,
        protection,
        uses::{self, NameUse},
    },
};
use alloc::{borrow::Cow, sync::Arc, vec::Vec};
use bitflags::bitflags;
use core::ops::Range;
use interfaces::{file_system::FileType, monitor::ObjectAccess};

/// Bytes of the longest path, its NUL included.
pub const PATH_MAX: usize = 4096;
/// The greatest number of symbolic links followed in one walk.
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
        /// The walk does not leave the directory in which it starts.
        const SCOPED = Self::BENEATH.bits() | Self::IN_ROOT.bits();
    }
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
    /// There is no last name: the path is `/`.
    Root,
}

/// The treatment of a symbolic link at which a walk arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    /// The walk goes on at its target.
    Followed,
    /// The link itself is the place.
    Taken,
}

/// A path up to its last component.
pub(crate) struct Parent {
    /// The directory; the caller may search it.
    pub path: Path,
    /// The last component.
    pub last: Last,
    /// Slashes follow the name, so that only a directory is accepted.
    pub has_slash: bool,
}

impl<'a> Caller<'a> {
    /// Walks to the place `path` names.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `EACCES`, `ELOOP`, `ENAMETOOLONG`, `EXDEV` (the `BENEATH` family), `EIO`...
    pub fn walk(&self, base: Base<'_>, path: &[u8], flags: Walk) -> Result<Path, Errno> {
        let found = memory::retried(self.namespace.host(), || self.walk_once(base, path, flags));
        flows::reads(|| found.as_ref().ok()?.vnode().known_label());
        uses::tell(self.task, NameUse::Walked(path, found.as_ref().ok()));
        found
    }
    /// Walks without a retry. It is compiled once, with the steps inlined, and inlined nowhere.
    #[inline(never)]
    fn walk_once(&self, base: Base<'_>, path: &[u8], flags: Walk) -> Result<Path, Errno> {
        let mut walker = match Walker::new(self, base, path, flags) {
            Err(_) if path.is_empty() && flags.contains(Walk::EMPTY) => {
                return Ok(self.base(base).clone());
            }
            made => made?,
        };
        while let Some(last) = walker.go_to_last()? {
            let follows = flags.contains(Walk::FOLLOW) || last.has_slash;
            let links = if follows { Links::Followed } else { Links::Taken };
            if walker.step_last(&last, links)? {
                if last.has_slash {
                    walker.check_directory()?;
                }
                break;
            }
        }
        if flags.contains(Walk::DIRECTORY) {
            walker.check_directory()?;
        }
        // An object that the monitor does not let the caller read has no attributes for the caller either.
        walker.admit()?;
        Ok(walker.at)
    }
    /// Walks to the directory of the last component, which is not looked up.
    pub(crate) fn walk_parent(&self, base: Base<'_>, path: &[u8]) -> Result<Parent, Errno> {
        let walker = Walker::new(self, base, path, Walk::empty());
        let found = walker.and_then(|mut walker| walker.parent());
        flows::reads(|| found.as_ref().ok()?.path.vnode().known_label());
        uses::tell(
            self.task,
            match &found {
                Ok(parent) => NameUse::Parent(path, &parent.path),
                Err(_) => NameUse::Walked(path, None),
            },
        );
        found
    }
    /// Checks that the directory of `path` can be reached.
    ///
    /// # Errors
    /// Those of [`Caller::walk`], except for the last name.
    pub fn check_parent(&self, base: Base<'_>, path: &[u8]) -> Result<(), Errno> {
        self.walk_parent(base, path).map(drop)
    }
}

/// The last component, as a part of the text.
pub(crate) struct LastPart {
    pub(crate) range: Range<usize>,
    pub(crate) has_slash: bool,
}

/// A walk under way: the current place, and the rest of the text.
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
        // One comparison for both bounds.
        if path.len().wrapping_sub(1) >= PATH_MAX - 1 {
            return Err(if path.is_empty() { Errno::ENOENT } else { Errno::ENAMETOOLONG });
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
    /// Checks that a link's text that begins with a slash may lead from `from` to the root.
    fn check_absolute(&self, from: &Path) -> Result<(), Errno> {
        let changes_mount = from.mount.id() != self.root.mount.id();
        let is_refused = self.flags.contains(Walk::BENEATH)
            || self.flags.contains(Walk::NO_MOUNTS) && changes_mount;
        if is_refused { Err(Errno::EXDEV) } else { Ok(()) }
    }
    /// Walks until one component is left; returns `None` if there is none (`/`).
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
            self.step(start..end, Links::Followed)?;
        }
    }
    /// Returns the name of a part of the text.
    pub(crate) fn name(&self, part: &LastPart) -> &[u8] {
        self.text.get(part.range.clone()).unwrap_or_default()
    }
    /// Takes the last component. Returns `false` if it was a symbolic link, whose text is to be walked now.
    pub(crate) fn step_last(&mut self, last: &LastPart, links: Links) -> Result<bool, Errno> {
        self.position = last.range.end;
        self.step(last.range.clone(), links)
    }
    /// Does the same as [`Walker::step_last`] for a component that the caller has looked up.
    pub(crate) fn enter_last(
        &mut self,
        last: &LastPart,
        found: Path,
        links: Links,
    ) -> Result<bool, Errno> {
        self.position = last.range.end;
        self.enter(found, links)
    }
    /// Returns the directory walked to and the last component.
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
    /// Checks at the end of a walk that the current place is a directory.
    pub(crate) fn check_directory(&self) -> Result<(), Errno> {
        if self.at.vnode().is_directory() { Ok(()) } else { Err(Errno::ENOTDIR) }
    }
    /// Checks that the current place is a directory that may be searched.
    pub(crate) fn check_search(&mut self) -> Result<(), Errno> {
        self.check_directory()?;
        self.caller.check_mode(self.at.vnode(), Want::EXECUTE)?;
        self.admit()
    }
    /// Checks that the monitor lets the caller read the current place, and moves on from a multilevel directory.
    #[inline]
    fn admit(&mut self) -> Result<(), Errno> {
        match self.at.vnode().is_known_to_admit(self.caller.credentials, ObjectAccess::Read) {
            true => Ok(()),
            false => self.ask(),
        }
    }
    #[cold]
    fn ask(&mut self) -> Result<(), Errno> {
        self.at.vnode().admit(self.caller.credentials, ObjectAccess::Read)?;
        let Some(hidden) = self.caller.hidden_directory(&self.at)? else { return Ok(()) };
        self.at = hidden;
        self.caller.check(self.at.vnode(), Want::EXECUTE)
    }
    /// Moves by one component; returns `false` if a link's text has replaced the rest of the text.
    fn step(&mut self, part: Range<usize>, links: Links) -> Result<bool, Errno> {
        self.check_search()?;
        let name = self.text.get(part).unwrap_or_default();
        match name {
            b"." => return Ok(true),
            b".." => return self.up().map(|()| true),
            _ => {}
        }
        let dentry = self.caller.lookup(&self.at.dentry, name)?.ok_or(Errno::ENOENT)?;
        let is_link = dentry.vnode().file_type() == FileType::Symlink;
        let is_plain = !is_link || links == Links::Taken;
        if is_plain && !dentry.is_marked() {
            self.at.dentry = dentry;
            return Ok(true);
        }
        if self.caller.misses(&dentry) {
            return Err(Errno::ENOENT);
        }
        let mount = self.at.mount.clone();
        let found = self.caller.namespace.cross(Path { mount, dentry });
        if found.mount.id() != self.at.mount.id() && self.flags.contains(Walk::NO_MOUNTS) {
            return Err(Errno::EXDEV);
        }
        self.enter(found, links)
    }
    /// Moves to `found`, or follows it if it is a link.
    fn enter(&mut self, found: Path, links: Links) -> Result<bool, Errno> {
        if links == Links::Taken || found.vnode().file_type() != FileType::Symlink {
            self.at = found;
            return Ok(true);
        }
        self.links += 1;
        if self.links > LINKS_MAX || self.flags.contains(Walk::NO_SYMLINKS) {
            return Err(Errno::ELOOP);
        }
        let vnode = found.vnode();
        vnode.admit(self.caller.credentials, ObjectAccess::Read)?;
        if self.is_at_end() {
            protection::check_follow(self.at.vnode(), vnode, self.caller.credentials)?;
        }
        if found.mount.flags().contains(MountFlags::NO_LINKS) {
            return Err(Errno::ELOOP);
        }
        let rest = self.text.get(self.position..).unwrap_or_default();
        let mut text = match vnode.node() {
            Some(node) => {
                let viewer = self.caller.viewer();
                match node.follow(&viewer)? {
                    Some(jump) => return self.jump(jump).map(|()| true),
                    None => node.read_link(&viewer)?,
                }
            }
            None => {
                let target = vnode.link_target()?;
                let mut text = Vec::with_capacity(target.len() + rest.len());
                text.extend_from_slice(&target);
                text
            }
        };
        if vnode.is_admitted(self.caller.credentials, ObjectAccess::Write) {
            vnode.touch_accessed(found.mount.flags());
        }
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
    /// Returns whether nothing but slashes is left.
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
    /// Takes `..`: leaves mounts whose root is reached, and stops at the root.
    fn up(&mut self) -> Result<(), Errno> {
        let mut at = self.at.clone();
        loop {
            if at.is_same(self.root) {
                let is_escape = self.flags.contains(Walk::BENEATH);
                return if is_escape { Err(Errno::EXDEV) } else { Ok(()) };
            }
            if at.is_mount_root() {
                match at.mount.at() {
                    Some(below) => at = below,
                    None => return Ok(()),
                }
            } else if at.dentry.is_hidden()
                && let Some(multilevel) = at.dentry.parent()
            {
                at.dentry = multilevel;
            } else {
                break;
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
