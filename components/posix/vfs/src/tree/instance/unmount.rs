//! The end of a mounted file system: everything is written, its names are let go, and its medium is marked.
use super::{Active, Instance, instances};
use crate::{
    base::observers::Events,
    tree::{dentry::Dentry, notify},
};
use alloc::{sync::Arc, vec};
use core::sync::atomic::Ordering;

impl Drop for Active {
    fn drop(&mut self) {
        self.instance.retire(&self.root);
    }
}

impl Instance {
    /// Called when the last mount is removed: empties the caches.
    fn retire(&self, root: &Arc<Dentry>) {
        notify::about_unmount(self);
        if self.sync().is_err() {
            log::error!("vfs: {}: unmounted with errors", self.info.type_name);
        }
        self.names.clear();
        if self.is_kept {
            drop_names(root);
        }
        self.end();
    }
    /// Ends writing and marks the medium as unmounted. Only the first call has an effect.
    fn end(&self) {
        self.flusher.end();
        if self.is_ended.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(Err(error)) = self.fs.as_ref().map(|fs| fs.unmount()) {
            log::error!("vfs: {}: unmounted with errors: {error:?}", self.info.type_name);
        }
        self.is_read_only.store(true, Ordering::Relaxed);
        self.is_unmounted.store(true, Ordering::Release);
    }
}

/// Tells observers of a tree in memory that it is no longer mounted, and drops all its names in a loop: recursion could be
/// deeper than a stack.
fn drop_names(root: &Arc<Dentry>) {
    let mut left = vec![root.clone()];
    while let Some(dentry) = left.pop() {
        let vnode = dentry.vnode();
        notify::about_vnode(vnode, Events::UNMOUNT);
        if vnode.is_directory() {
            let names = vnode.names().lock().take_all();
            left.extend(names);
        }
    }
}

/// Called when the machine goes down: writes everything and unmounts every file system, even if it is in use.
pub fn shut_down() {
    for instance in instances() {
        if let Err(errno) = instance.sync() {
            log::error!("vfs: {}: {errno:?}", instance.info.type_name);
        }
    }
    instances().iter().for_each(|instance| instance.end());
}

/// Returns whether a file system on this device has lost its last mount and is still being written.
pub fn is_being_written(device: (u32, u32)) -> bool {
    instances()
        .iter()
        .any(|instance| instance.device == device && !instance.is_unmounted.load(Ordering::Acquire))
}
