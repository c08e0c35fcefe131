//! Descriptors that come to a subject from another one (K1): in messages (SCM_RIGHTS), by pidfd_getfd(2), from a supervisor
//! (SECCOMP_ADDFD), and by an exec that changes the subject.
//!
//! [`admit`] has the one check. A description that fails it is not installed, or at exec makes place for `/dev/null`.
use alloc::sync::Arc;
use interfaces::monitor::ObjectAccess;
use vfs::{
    Credentials, Errno, OpenFile,
    permission::{Want, check_label},
    security,
};

/// Returns a description that a subject did not open as it may have it: the subject could have opened the file in the same way.
/// [`OpenFile::received_by`] tells whether the subject shares the description.
///
/// # Errors
/// `EACCES`; errors of reading the label; `ENOMEM`.
pub fn admit(file: &Arc<OpenFile>, who: &Credentials) -> Result<Arc<OpenFile>, Errno> {
    if security::is_enforced() {
        let vnode = file.vnode();
        // A descriptor that cannot be read shows the attributes.
        vnode.admit(who, ObjectAccess::Read)?;
        let mut want = Want::empty();
        want.set(Want::READ, file.is_readable());
        want.set(Want::WRITE, file.is_writable());
        check_label(vnode, who, want)?;
        if let Some(label) = file.file().label() {
            security::check(&who.subject, label, ObjectAccess::Read)?;
            security::check(&who.subject, label, ObjectAccess::Write)?;
        }
    }
    file.received_by(who)
}
