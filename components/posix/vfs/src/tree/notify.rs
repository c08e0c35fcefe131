//! Telling observers what happens to files.
//!
//! An event about a file is told to the observers of the directory it was found in, with its name, and then to its own; one
//! about a name only to those of the directory. See [`Observer`] for what an observer may do.
pub use crate::base::observers::{Events, Happening, Observer};
use crate::{
    base::{
        observers::is_active,
        security::{self, flows},
    },
    tree::{
        dentry::{Dentry, EndOf},
        instance::Instance,
        vnode::Vnode,
    },
};
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU32, Ordering};

/// The last number that joined the two halves of a rename.
static COOKIE: AtomicU32 = AtomicU32::new(0);

impl Vnode {
    /// Registers `observer` until it is dropped and [`Vnode::sweep_observers`] is called.
    pub fn observe(&self, observer: Weak<dyn Observer>) {
        self.observers().change(|list| list.push(observer));
    }
    /// Removes the observers that were dropped.
    pub fn sweep_observers(&self) {
        self.observers().change(|list| list.retain(|known| known.strong_count() > 0));
    }
}

fn kind(vnode: &Vnode) -> Events {
    if vnode.is_directory() { Events::DIRECTORY } else { Events::empty() }
}

/// Judges the flow that an event tells of ([`flows`]), but for an unmount, which the privilege allows.
#[inline]
fn judge(vnode: &Vnode, events: Events) {
    let label = || vnode.known_label().filter(|_| events != Events::UNMOUNT);
    let looks = Events::ACCESS | Events::OPEN | Events::CLOSE_READ | Events::CLOSE_WRITE;
    if looks.contains(events) { flows::tells(label) } else { flows::writes(label) }
}

/// Reports `events` of `vnode`, regardless of its name.
pub(crate) fn about_vnode(vnode: &Vnode, events: Events) {
    judge(vnode, events);
    if is_active() {
        tell_vnode(vnode, events);
    }
}

fn tell_vnode(vnode: &Vnode, events: Events) {
    let events = events | kind(vnode);
    let happening = Happening { events, name: None, cookie: 0, is_unlinked: false };
    vnode.observers().tell(&happening);
}

/// Reports `events` of the file that `dentry` names.
#[inline]
pub(crate) fn about_dentry(dentry: &Dentry, events: Events) {
    judge(dentry.vnode(), events);
    if is_active() {
        tell_dentry(dentry, Happening { events, name: None, cookie: 0, is_unlinked: false });
    }
}

/// Does the same as [`about_dentry`] for events through a description: some observers do not want to be told once the
/// name is gone (IN_EXCL_UNLINK).
#[inline]
pub(crate) fn about_open(dentry: &Dentry, events: Events) {
    judge(dentry.vnode(), events);
    about_close(dentry, events);
}

/// Does the same as [`about_open`] for the end of a description, with its last use: that may be one by a thread that only looks at
/// it, so no flow is judged.
#[inline]
pub(crate) fn about_close(dentry: &Dentry, events: Events) {
    if is_active() {
        let is_unlinked = dentry.is_deleted();
        tell_dentry(dentry, Happening { events, name: None, cookie: 0, is_unlinked });
    }
}

fn tell_dentry(dentry: &Dentry, what: Happening<'_>) {
    let (parent, name) = dentry.place();
    let happening = Happening { events: what.events | kind(dentry.vnode()), ..what };
    // Subjects of other levels get no event of a hidden or an upgraded directory, nor of another file above its directory.
    let is_told =
        |parent: &Arc<Dentry>| !dentry.is_hidden() && parent.vnode().has_secrecy_of(dentry.vnode());
    if let Some(parent) = parent.filter(is_told) {
        parent.vnode().observers().tell(&Happening { name: Some(&name), ..happening });
    }
    dentry.vnode().observers().tell(&happening);
}

/// Reports `events` of `name` in `directory`, a name of the vnode `what`.
pub(crate) fn about_name(directory: &Vnode, name: &[u8], what: &Vnode, events: Events) {
    judge(directory, events);
    if is_active() {
        tell_name(directory, name, what, (events, 0));
    }
}

fn tell_name(directory: &Vnode, name: &[u8], what: &Vnode, (events, cookie): (Events, u32)) {
    let events = events | kind(what);
    let happening = Happening { events, name: Some(name), cookie, is_unlinked: false };
    directory.observers().tell(&happening);
}

/// Reports that `what` was moved from one directory and name to another, perhaps in place of `replaced`.
pub(crate) fn about_move(
    from: (&Vnode, &[u8]),
    to: (&Vnode, &[u8]),
    what: &Vnode,
    replaced: Option<&Vnode>,
) {
    [from.0, to.0, what]
        .into_iter()
        .chain(replaced)
        .for_each(|vnode| judge(vnode, Events::MOVE_SELF));
    if is_active() {
        let cookie = COOKIE.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
        tell_name(from.0, from.1, what, (Events::MOVED_FROM, cookie));
        tell_name(to.0, to.1, what, (Events::MOVED_TO, cookie));
        if let Some(replaced) = replaced {
            about_vnode(replaced, Events::ATTRIBUTES);
        }
        about_vnode(what, Events::MOVE_SELF);
    }
}

impl Dentry {
    /// Tells observers that its file has ended, once it has no name and nobody uses it. With a monitor, uses from above count as none:
    /// the file ends for its observers with its last name, or with the last description that leaves traces after that (K1).
    pub(crate) fn tell_end(&self, told: EndOf) {
        let vnode = self.vnode();
        let is_moment = match told {
            EndOf::Dentry => !security::is_enforced(),
            EndOf::SeenUse => security::is_enforced() && !vnode.is_seen_in_use(),
        };
        let is_gone = || vnode.is_dead() || vnode.node().is_none() && vnode.attributes().links == 0;
        if is_active() && self.is_deleted() && is_moment && is_gone() {
            tell_vnode(vnode, Events::DELETE_SELF);
        }
    }
}

/// Reports that `instance` is no longer mounted.
pub(crate) fn about_unmount(instance: &Instance) {
    if is_active() {
        for vnode in instance.batches().flatten() {
            about_vnode(&vnode, Events::UNMOUNT);
        }
    }
}
