//! System V IPC and POSIX message queues: the objects, and the calls that wait for them. The models are in the crate
//! `sysv`.
//!
//! | file | what |
//! | --- | --- |
//! | `registry` | the objects of one kind, by identifier and key |
//! | `layout` | the structures of the programs' interface |
//! | `segment` | shared memory |
//! | `semaphore` | semaphores |
//! | `message` | messages |
//! | `queue` | POSIX message queues |
//! | `waiter` | sleeping calls |
//! | `limits` | the limits in `/proc/sys/kernel` |
//! | `text` | `/proc/sysvipc` |
//!
//! There is one name space of keys for all processes of a secrecy.
//!
//! `docs/ipc.md` gives the order of the locks. Source: Linux's `ipc/`, sysvipc(7), mq_overview(7).
pub mod layout;
pub mod limits;
pub mod message;
pub mod queue;
pub mod registry;
pub mod segment;
pub mod semaphore;
pub mod text;
pub mod waiter;

use alloc::sync::Arc;
use core::ops::Range;
use interfaces::monitor::ObjectAccess;
use process::{self, Task, audit, user_memory::User};
use registry::Object;
use rt::memory::Charge;
use sysv::{Refusal, permission::Subject, table::INDICES};
use vfs::{
    Capabilities, Credentials, Errno,
    security::{self, Label},
};

/// IPC_CREAT.
pub const CREATE: i32 = 0o1000;
/// IPC_EXCL.
pub const EXCLUSIVE: i32 = 0o2000;
/// IPC_NOWAIT.
pub const NO_WAIT: i32 = 0o4000;

/// The credentials with which permissions of objects are checked.
pub struct Who(Arc<Credentials>);

impl Who {
    /// Returns the caller with the task's present credentials.
    pub fn of(task: &Task) -> Who {
        Who(task.credentials())
    }
    /// Returns the range of the indices of objects that it makes.
    pub fn indices(&self) -> Range<u32> {
        self.0.subject.level().part(0..INDICES)
    }
    /// Returns whether an object with this label exists for it: it may read the object.
    pub fn sees(&self, label: &'static Label) -> bool {
        security::check(&self.0.subject, label, ObjectAccess::Read).is_ok()
    }
    /// Returns whether a key finds an object with this label for it: one of its own secrecy.
    pub fn finds(&self, label: &'static Label) -> bool {
        security::is_of_own_secrecy(&self.0.subject, label)
    }
    /// Checks that it may access an object by its label. Each use but a look changes an object: it counts who uses it, and when.
    ///
    /// # Errors
    /// `EACCES`.
    pub fn check_label<T: Object>(&self, object: &T, access: ObjectAccess) -> Result<(), Errno> {
        let (subject, label) = (&self.0.subject, object.label());
        let checked = security::check(subject, label, access);
        Ok(checked.inspect_err(|_| audit::refused_object(T::CLASS, access, label, subject))?)
    }
    /// Returns the label of an object that it makes.
    pub fn label(&self) -> &'static Label {
        self.0.subject.label()
    }
    /// Returns whether it has all of `wanted`.
    pub fn has(&self, wanted: Capabilities) -> bool {
        self.0.has(wanted)
    }
}

impl Subject for Who {
    fn user(&self) -> u32 {
        self.0.user.effective
    }
    fn group(&self) -> u32 {
        self.0.group.effective
    }
    fn is_in_group(&self, group: u32) -> bool {
        self.0.is_in_group(group)
    }
    fn ignores_permissions(&self) -> bool {
        self.has(Capabilities::IPC_OWNER)
    }
    fn is_administrator(&self) -> bool {
        self.has(Capabilities::SYS_ADMIN)
    }
}

/// Returns the error of a call that a model refuses.
pub fn errno(refusal: Refusal) -> Errno {
    match refusal {
        Refusal::WouldBlock => Errno::EAGAIN,
        Refusal::OutOfRange => Errno::ERANGE,
        Refusal::Removed => Errno::EIDRM,
        Refusal::TooLong => Errno::E2BIG,
        Refusal::TooMany => Errno::ENOSPC,
    }
}

/// Kernel memory of an object: charged to the machine and to the user who made it. A user may have a quarter of memory for
/// messages of all kinds and sets of semaphores, or half of it if privileged.
struct ObjectCharge {
    user: Arc<User>,
    bytes: usize,
    _charge: Charge,
}

impl ObjectCharge {
    /// Charges `bytes` to the user of `task`.
    ///
    /// # Errors
    /// `ENOMEM`.
    fn take(task: &Task, bytes: usize) -> Result<ObjectCharge, Errno> {
        let _charge = Charge::take(bytes)?;
        let user = task.account();
        user.add_message(bytes, || task.is_unprivileged()).map_err(|_| Errno::ENOMEM)?;
        Ok(ObjectCharge { user, bytes, _charge })
    }
}

impl Drop for ObjectCharge {
    fn drop(&mut self) {
        self.user.remove_message(self.bytes);
    }
}

/// Returns the seconds of the wall clock, the unit of the objects' times.
pub fn now_seconds() -> i64 {
    const NS_A_SECOND: u64 = 1_000_000_000;
    (rt::time::wall_ns() / NS_A_SECOND) as i64
}
