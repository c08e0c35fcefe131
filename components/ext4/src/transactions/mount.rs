//! [`Mount`]: a volume in use.
use crate::{
    layout::{inode_table::InodeTable, volume::Volume},
    transactions::requests::Requests,
};
use alloc::sync::Arc;
use rt::{lock_class, sync::Mutex};

lock_class! {
    static ORPHANS_FOUND = "ext4.orphans_found";
}

/// A volume in use: operations change it, commits make that durable.
pub(crate) struct Mount {
    /// The volume of the file.
    pub(crate) volume: Volume,
    /// Inodes that the personality holds.
    pub(crate) inodes: InodeTable,
    /// First inode of the list of orphans found when it was mounted.
    pub(crate) orphans_found: Mutex<u32>,
    /// The thread that commits independently of operations.
    pub(crate) requests: Arc<Requests>,
}

impl Mount {
    /// A mount that holds no inode, and has no thread.
    pub(crate) fn new(volume: Volume) -> Mount {
        Mount {
            inodes: InodeTable::new(),
            orphans_found: Mutex::new(&ORPHANS_FOUND, volume.geometry.last_orphan),
            requests: Requests::new(),
            volume,
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.requests.end();
    }
}
