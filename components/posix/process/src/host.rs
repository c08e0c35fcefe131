//! The hooks of vfs and memory that no caller is passed to: [`HOST`].
use crate::{oom, tree::running};
use interfaces::file_system::ReservedFor;
use vfs::{Capabilities, Host};

/// The host of every file system, namespace and address space.
pub const HOST: &dyn Host = &Tasks;

struct Tasks;

impl Host for Tasks {
    fn judge(&self) -> fn(ReservedFor) -> bool {
        may_use_reserved
    }
    fn relieve(&self) -> bool {
        !running().is_some_and(|task| task.is_ending()) && oom::relieve()
    }
}

/// Returns whether the calling task may use blocks that a volume reserves: as the user or in the group for which they are
/// reserved, or with `CAP_SYS_RESOURCE` (mke2fs(8), tune2fs(8)). The personality's own threads may not.
fn may_use_reserved(reserved: ReservedFor) -> bool {
    running().is_some_and(|task| {
        let credentials = task.credentials();
        credentials.user.fs == reserved.user
            || (reserved.group != 0 && credentials.is_in_group(reserved.group))
            || credentials.has(Capabilities::SYS_RESOURCE)
    })
}
