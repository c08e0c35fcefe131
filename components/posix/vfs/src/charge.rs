//! I/O is charged to the thread that causes it: a read of pages from storage, or a write, is told of on the
//! thread that did (getrusage(2), proc(5) on `/proc/PID/io`). No lock of a page's is held then.
use interfaces::file_system::ReservedFor;
use rt::{PAGE_BYTES, sync::Once};

/// Work to do, or done with, between storage and pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageIo {
    /// Pages are being read.
    Read,
    /// Pages became dirty, and will be written.
    Write,
    /// Dirty pages went, and need not be written.
    Cancelled,
}

static CHARGE: Once<fn(StorageIo, u64)> = Once::new();

/// Says who keeps the accounts: told what there was and of how many bytes. Only the first word counts.
pub fn set_charge(charge: fn(StorageIo, u64)) {
    CHARGE.get_or_init(|| charge);
}

/// The calling thread caused `io` of so many pages.
pub(crate) fn charge(io: StorageIo, pages: u64) {
    if pages > 0
        && let Some(charge) = CHARGE.get()
    {
        charge(io, pages * PAGE_BYTES as u64);
    }
}

static PRIVILEGE: Once<fn(ReservedFor) -> bool> = Once::new();

/// Says how to ask whether the calling thread may use blocks reserved for privileged users. Only the
/// first call counts.
pub fn set_privilege(may_use: fn(ReservedFor) -> bool) {
    PRIVILEGE.get_or_init(|| may_use);
}

/// Whether the calling thread may use blocks reserved for privileged users.
pub(crate) fn may_use_reserved(reserved: ReservedFor) -> bool {
    PRIVILEGE.get().is_some_and(|may_use| may_use(reserved))
}
