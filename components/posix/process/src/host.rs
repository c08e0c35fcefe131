//! Tasks as vfs sees them: [`HOST`].
use crate::{current, oom};
use interfaces::file_system::ReservedFor;
use vfs::{Host, StorageIo};

/// The host of every file system and namespace.
pub const HOST: &dyn Host = &Tasks;

struct Tasks;

impl Host for Tasks {
    fn charge(&self, io: StorageIo, bytes: u64) {
        current::charge(io, bytes);
    }
    fn judge(&self) -> fn(ReservedFor) -> bool {
        current::may_use_reserved
    }
    fn is_ending(&self) -> bool {
        current::is_current_ending()
    }
    fn relieve(&self) -> bool {
        oom::relieve()
    }
}
