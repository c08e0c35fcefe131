//! Descriptors that come to a subject from another one (K1): in messages (SCM_RIGHTS), by pidfd_getfd(2), from a supervisor
//! (SECCOMP_ADDFD), and by an exec that changes the subject.
//!
//! [`check`] is the one check. A description that fails it is not installed, or at exec makes place for `/dev/null`.
use interfaces::monitor::ObjectAccess;
use vfs::{
    Credentials, Errno, OpenFile,
    permission::{Want, check_label},
    security,
};

/// Checks that a subject may have a description that it did not open: it could have opened the file in the same way.
///
/// # Errors
/// `EACCES`; errors of reading the label.
pub fn check(file: &OpenFile, who: &Credentials) -> Result<(), Errno> {
    if !security::is_enforced() {
        return Ok(());
    }
    let vnode = file.vnode();
    // A descriptor that cannot be read shows the attributes.
    vnode.admit(who, ObjectAccess::Read)?;
    let mut want = Want::empty();
    want.set(Want::READ, file.is_readable());
    want.set(Want::WRITE, file.is_writable());
    check_label(vnode, who, want)
}
