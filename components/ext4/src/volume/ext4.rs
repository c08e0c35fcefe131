//! [`Ext4`]: a mounted volume, as the personality has it.
use crate::transactions::mount::Mount;
use alloc::sync::Arc;

/// A mounted volume.
pub struct Ext4 {
    /// The volume in use.
    pub(crate) mount: Arc<Mount>,
    pub(crate) has_acls: bool,
    pub(crate) writes_replacements: bool,
    pub(crate) commit_ns: u64,
}
