//! The files that are executed, and root's changes of them.
use crate::{OTHER, USER, program};
use abi::{
    c, fork, must,
    rights::{SECRET_BYTES, install_program, small_program},
    stat,
};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// The secret in the memory of the programs that other processes may not look into.
pub const SECRET: [u8; SECRET_BYTES] = *b"hidden in memory";

/// The behaviour of a target program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The target is the campaign's program, which reports.
    Reports,
    /// The target waits with the secret in its memory.
    Waits,
}

/// A file to execute.
pub struct Target {
    pub name: &'static str,
    pub kind: Kind,
    owner: (u32, u32),
    mode: u32,
    /// Users that its file may give.
    pub users: &'static [u32],
    /// Groups that its file may give.
    pub groups: &'static [u32],
    /// The user may not read the file.
    pub is_hidden: bool,
}

const fn reports(
    name: &'static str,
    owner: (u32, u32),
    mode: u32,
    users: &'static [u32],
    groups: &'static [u32],
) -> Target {
    Target { name, kind: Kind::Reports, owner, mode, users, groups, is_hidden: mode & 4 == 0 }
}

const fn waits(name: &'static str, mode: u32) -> Target {
    Target {
        name,
        kind: Kind::Waits,
        owner: (0, 0),
        mode,
        users: &[0],
        groups: &[],
        is_hidden: true,
    }
}

/// Path of a file in a mount with nosuid.
const QUIET: &str = "quiet/setuid";
/// Path of a file that alternates between root's without setuid and the other user's with it.
const CHANGED: &str = "changed";

const TARGETS: &[Target] = &[
    reports("setuid", (0, 0), 0o4755, &[0], &[]),
    reports("locked-setuid", (0, 0), 0o4711, &[0], &[]),
    reports("setgid", (0, OTHER), 0o2755, &[], &[OTHER]),
    reports("other", (OTHER, OTHER), 0o6755, &[OTHER], &[OTHER]),
    reports("plain", (0, 0), 0o755, &[], &[]),
    reports("locked-plain", (0, 0), 0o711, &[], &[]),
    reports(QUIET, (0, 0), 0o6755, &[], &[]),
    reports(CHANGED, (0, 0), 0o755, &[OTHER], &[]),
    waits("locked-secret", 0o4711),
    waits("locked-hidden", 0o711),
];

/// The folder with all of them.
pub struct Files(PathBuf);

impl Files {
    pub fn new() -> Files {
        let files = Files(PathBuf::from("/tmp/rights-files"));
        files.clear();
        std::fs::create_dir_all(files.0.join("quiet")).expect("making the folder");
        let at = c(files.0.join("quiet"));
        let (kind, options) = (c"tmpfs".as_ptr(), c"mode=755".as_ptr());
        // SAFETY: NUL-terminated strings.
        must(unsafe { libc::mount(kind, at.as_ptr(), kind, libc::MS_NOSUID, options.cast()) });
        let own = std::fs::read("/proc/self/exe").expect("reading this program");
        let secret = small_program(&SECRET);
        for target in TARGETS {
            let contents = if target.kind == Kind::Waits { &secret } else { &own };
            install_program(&files.path(target), contents, target.owner, target.mode);
        }
        install_program(&files.changed(), b"a user's own", (USER, USER), 0o644);
        install_program(Path::new(program::KEY), program::KEY_TEXT, (0, 0), 0o600);
        files
    }
    fn clear(&self) {
        // SAFETY: a NUL-terminated path.
        while unsafe { libc::umount2(c(self.0.join("quiet")).as_ptr(), libc::MNT_DETACH) } == 0 {}
        let _ = std::fs::remove_dir_all(&self.0);
        let _ = std::fs::remove_file(program::KEY);
    }
    pub fn target(&self, number: usize) -> &'static Target {
        &TARGETS[number % TARGETS.len()]
    }
    pub fn path(&self, target: &Target) -> PathBuf {
        self.0.join(target.name)
    }
    /// Returns the path of a file whose owner root changes, and whose mode its user changes.
    pub fn changed(&self) -> PathBuf {
        self.0.join("taken")
    }
    /// Starts the process that changes owners and modes as root. No program may run with an owner and mode that the file
    /// never had together.
    pub fn start_changes(&self) -> i32 {
        let (taken, changed) = (self.changed(), self.0.join(CHANGED));
        fork(move || {
            loop {
                take(&taken);
                // The file is never root's and set-user-id at the same moment.
                set(&changed, Some(OTHER), 0o4755);
                std::thread::sleep(Duration::from_micros(300));
                mode(&changed, 0o755);
                owner(&changed, 0);
                std::thread::sleep(Duration::from_micros(300));
            }
        })
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.clear();
    }
}

fn owner(path: &Path, user: u32) {
    // SAFETY: a NUL-terminated path.
    must(unsafe { libc::chown(c(path).as_ptr(), user, user) });
}

fn mode(path: &Path, mode: u32) {
    // SAFETY: a NUL-terminated path.
    must(unsafe { libc::chmod(c(path).as_ptr(), mode) });
}

fn set(path: &Path, user: Option<u32>, bits: u32) {
    user.into_iter().for_each(|user| owner(path, user));
    mode(path, bits);
}

/// Takes a user's file: it must not be a set-user-id program of root's.
fn take(path: &Path) {
    owner(path, 0);
    std::thread::yield_now();
    let found = stat(path).expect("the file is there");
    assert_eq!((found.st_uid, found.st_mode & 0o6000), (0, 0), "a user made a program of root's");
    owner(path, USER);
}

/// Ends the changes, and counts it as wrong if the changer found a fault.
pub fn stop_changes(changer: i32, wrong: &mut u64) {
    // SAFETY: plain numbers.
    unsafe { libc::kill(changer, libc::SIGKILL) };
    if abi::wait(changer) != abi::Ended::Signalled(libc::SIGKILL) {
        *wrong += 1;
    }
}
