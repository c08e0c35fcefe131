//! Tasks as files and address spaces see them: [`HOST`].
use crate::{current, oom};
use interfaces::file_system::ReservedFor;
use vfs::{Capabilities, Host, StorageIo};

/// The host of every file system, namespace and address space.
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
    fn is_administrator(&self) -> bool {
        current::current().is_some_and(|task| task.credentials().has(Capabilities::SYS_ADMIN))
    }
    fn relieve(&self) -> bool {
        oom::relieve()
    }
}
