//! mount(2) and umount2(2), and a private place to mount at.
use crate::{Scratch, c, check, isolated};
use std::{path::Path, ptr::null};

/// Mounts without options.
///
/// # Errors
/// The error number.
pub fn mount(source: &str, at: &Path, kind: &str, flags: u64) -> Result<i64, i32> {
    let (source, at, kind) = (c(source), c(at), c(kind));
    // SAFETY: NUL-terminated texts.
    check(unsafe { libc::mount(source.as_ptr(), at.as_ptr(), kind.as_ptr(), flags, null()) })
}

/// Unmounts the mount at `at`.
///
/// # Errors
/// The error number.
pub fn umount(at: &Path, flags: i32) -> Result<i64, i32> {
    // SAFETY: a NUL-terminated path.
    check(unsafe { libc::umount2(c(at).as_ptr(), flags) })
}

/// Runs `body` with a scratch folder in which a tmpfs is mounted at `m`, invisible to other processes. If mounting is not
/// allowed (in an unprivileged container), it prints that and runs nothing.
///
/// # Panics
/// Panics if `body` panicked.
#[track_caller]
pub fn mounting(body: impl FnOnce(&Scratch)) {
    isolated(|| {
        // On Linux others would see the mounts, so the test takes a mount namespace of its own.
        // SAFETY: a plain number.
        if unsafe { libc::unshare(libc::CLONE_NEWNS) } == 0 {
            let _ = mount("none", Path::new("/"), "", libc::MS_REC | libc::MS_PRIVATE);
        }
        let scratch = Scratch::new();
        std::fs::create_dir(scratch.path("m")).expect("a folder to mount at");
        if mount("none", &scratch.path("m"), "tmpfs", 0) == Err(libc::EPERM) {
            return eprintln!("mounting is not allowed: nothing was tested");
        }
        body(&scratch);
        while umount(&scratch.path("m"), libc::MNT_DETACH).is_ok() {}
    });
}
