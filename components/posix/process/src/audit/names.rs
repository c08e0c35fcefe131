//! The files that a system call names.
use crate::{call::Call, files::Scope, task::Task};
use alloc::vec::Vec;
use audit::{InodeFacts, NameFacts, NameRole};
use linux_raw_sys::general as raw;
use vfs::{Base, Caller, Credentials, PATH_MAX, Path, Walk, security};

/// An argument that names a file.
#[derive(Clone, Copy)]
struct NameArgument {
    /// The argument that is the descriptor of the directory at which the path begins.
    directory: Option<usize>,
    /// The argument that is the path; `None` if the descriptor itself is meant.
    path: Option<usize>,
    role: NameRole,
    /// The argument of `AT_` flags.
    flags: Option<usize>,
    /// The last link of the path is followed.
    is_followed: bool,
}

const fn path(path: usize) -> NameArgument {
    NameArgument {
        directory: None,
        path: Some(path),
        role: NameRole::Normal,
        flags: None,
        is_followed: true,
    }
}

const fn at(directory: usize) -> NameArgument {
    NameArgument { directory: Some(directory), ..path(directory + 1) }
}

const fn descriptor() -> NameArgument {
    NameArgument { directory: Some(0), path: None, ..path(0) }
}

const fn with_flags(argument: NameArgument, flags: usize) -> NameArgument {
    NameArgument { flags: Some(flags), ..argument }
}

const fn unfollowed(argument: NameArgument, role: NameRole) -> NameArgument {
    NameArgument { is_followed: false, role, ..argument }
}

/// The names of calls: by number.
const NAMES: &[(u32, &[NameArgument])] = &[
    (raw::__NR_open, &[path(0)]),
    (raw::__NR_creat, &[path(0)]),
    (raw::__NR_openat, &[at(0)]),
    (raw::__NR_openat2, &[at(0)]),
    (raw::__NR_stat, &[path(0)]),
    (raw::__NR_lstat, &[unfollowed(path(0), NameRole::Normal)]),
    (raw::__NR_newfstatat, &[with_flags(at(0), 3)]),
    (raw::__NR_statx, &[with_flags(at(0), 2)]),
    (raw::__NR_access, &[path(0)]),
    (raw::__NR_faccessat, &[at(0)]),
    (raw::__NR_faccessat2, &[with_flags(at(0), 3)]),
    (raw::__NR_truncate, &[path(0)]),
    (raw::__NR_chdir, &[path(0)]),
    (raw::__NR_chroot, &[path(0)]),
    (raw::__NR_rename, &[REMOVED, MADE_SECOND]),
    (raw::__NR_renameat, &[REMOVED_AT, MADE_AT_SECOND]),
    (raw::__NR_renameat2, &[REMOVED_AT, MADE_AT_SECOND]),
    (raw::__NR_mkdir, &[unfollowed(path(0), NameRole::Create)]),
    (raw::__NR_mkdirat, &[unfollowed(at(0), NameRole::Create)]),
    (raw::__NR_mknod, &[unfollowed(path(0), NameRole::Create)]),
    (raw::__NR_mknodat, &[unfollowed(at(0), NameRole::Create)]),
    (raw::__NR_rmdir, &[REMOVED]),
    (raw::__NR_unlink, &[REMOVED]),
    (raw::__NR_unlinkat, &[REMOVED_AT]),
    (raw::__NR_link, &[unfollowed(path(0), NameRole::Normal), MADE_SECOND]),
    (raw::__NR_linkat, &[unfollowed(at(0), NameRole::Normal), MADE_AT_SECOND]),
    (raw::__NR_symlink, &[MADE_SECOND]),
    (raw::__NR_symlinkat, &[unfollowed(at(1), NameRole::Create)]),
    (raw::__NR_readlink, &[unfollowed(path(0), NameRole::Normal)]),
    (raw::__NR_readlinkat, &[unfollowed(at(0), NameRole::Normal)]),
    (raw::__NR_chmod, &[path(0)]),
    (raw::__NR_fchmodat, &[at(0)]),
    (raw::__NR_fchmodat2, &[with_flags(at(0), 3)]),
    (raw::__NR_chown, &[path(0)]),
    (raw::__NR_lchown, &[unfollowed(path(0), NameRole::Normal)]),
    (raw::__NR_fchownat, &[with_flags(at(0), 4)]),
    (raw::__NR_utime, &[path(0)]),
    (raw::__NR_utimes, &[path(0)]),
    (raw::__NR_futimesat, &[at(0)]),
    (raw::__NR_utimensat, &[with_flags(at(0), 3)]),
    (raw::__NR_setxattr, &[path(0)]),
    (raw::__NR_lsetxattr, &[unfollowed(path(0), NameRole::Normal)]),
    (raw::__NR_getxattr, &[path(0)]),
    (raw::__NR_lgetxattr, &[unfollowed(path(0), NameRole::Normal)]),
    (raw::__NR_listxattr, &[path(0)]),
    (raw::__NR_llistxattr, &[unfollowed(path(0), NameRole::Normal)]),
    (raw::__NR_removexattr, &[path(0)]),
    (raw::__NR_lremovexattr, &[unfollowed(path(0), NameRole::Normal)]),
    (raw::__NR_execve, &[path(0)]),
    (raw::__NR_execveat, &[with_flags(at(0), 4)]),
    (raw::__NR_mount, &[path(1)]),
    (raw::__NR_umount2, &[path(0)]),
    (raw::__NR_pivot_root, &[path(0), path(1)]),
    (raw::__NR_statfs, &[path(0)]),
    (raw::__NR_inotify_add_watch, &[path(1)]),
    (raw::__NR_name_to_handle_at, &[at(0)]),
    (raw::__NR_fchdir, &[descriptor()]),
    (raw::__NR_fchmod, &[descriptor()]),
    (raw::__NR_fchown, &[descriptor()]),
    (raw::__NR_ftruncate, &[descriptor()]),
    (raw::__NR_fallocate, &[descriptor()]),
    (raw::__NR_fsetxattr, &[descriptor()]),
    (raw::__NR_fgetxattr, &[descriptor()]),
    (raw::__NR_flistxattr, &[descriptor()]),
    (raw::__NR_fremovexattr, &[descriptor()]),
];
const REMOVED: NameArgument = unfollowed(path(0), NameRole::Delete);
const REMOVED_AT: NameArgument = unfollowed(at(0), NameRole::Delete);
const MADE_SECOND: NameArgument = unfollowed(path(1), NameRole::Create);
const MADE_AT_SECOND: NameArgument = unfollowed(at(2), NameRole::Create);

/// A file as it was named before a call.
pub(super) struct NotedName {
    name: Vec<u8>,
    /// The place at which the path begins; `None` for the working directory.
    directory: Option<Path>,
    role: NameRole,
    walk: Walk,
    /// The file, if it was there.
    found: Option<NameFacts>,
}

/// Notes the files that a call names, before it is made: it may remove them.
pub(super) fn note(call: &Call<'_>, number: u32) -> Vec<NotedName> {
    let arguments = NAMES.iter().find(|(known, _)| *known == number);
    let arguments = arguments.map_or(&[][..], |(_, arguments)| arguments);
    let mut all = Vec::new();
    for argument in arguments {
        let directory = argument.directory.and_then(|place| call.files.get(call.int(place)).ok());
        let name = match argument.path {
            Some(place) => call.memory.read_text(call.word(place), PATH_MAX),
            None => Ok(memory::Text::default()),
        };
        let Ok(name) = name else { continue };
        let flags = argument.flags.map_or(0, |place| call.uint(place));
        let mut walk = Walk::empty();
        walk.set(Walk::FOLLOW, argument.is_followed && flags & raw::AT_SYMLINK_NOFOLLOW == 0);
        let mut noted = NotedName {
            name: name.to_vec(),
            directory: directory.map(|file| file.path().clone()),
            role: argument.role,
            walk,
            found: None,
        };
        noted.found = noted.look(call.task);
        all.push(noted);
    }
    all
}

/// Returns the files after the call: those that it removed as they were, and others as they are.
pub(super) fn found(task: &Task, noted: Vec<NotedName>) -> Vec<NameFacts> {
    let after = |noted: NotedName| {
        let now = match noted.role {
            NameRole::Delete => None,
            _ => noted.look(task),
        };
        let is_new = noted.found.is_none() && now.is_some();
        let role = if is_new { NameRole::Create } else { noted.role };
        let (file, path) = match now.or(noted.found) {
            Some(known) => (known.file, known.path),
            None => (None, noted.name.as_slice().into()),
        };
        NameFacts { name: noted.name.into(), path, role, file }
    };
    noted.into_iter().map(after).collect()
}

impl NotedName {
    /// Looks the file up as the kernel: the record tells of a file that the task may not reach.
    fn look(&self, task: &Task) -> Option<NameFacts> {
        let (scope, kernel) = (Scope::of(task), Credentials::root());
        let place = match &self.directory {
            Some(directory) if self.name.is_empty() => directory.clone(),
            directory => {
                let base = directory.as_ref().map_or(Base::Cwd, Base::At);
                let caller = Caller { credentials: &kernel, ..scope.caller() };
                caller.walk(base, &self.name, self.walk).ok()?
            }
        };
        Some(NameFacts {
            name: self.name.as_slice().into(),
            path: place.describe(&task.fs().root()).text.into(),
            role: self.role,
            file: Some(facts_of(&place)),
        })
    }
}

fn facts_of(place: &Path) -> InodeFacts {
    let status = place.status();
    let attributes = &status.attributes;
    let label = place.vnode().label().ok().and_then(|label| label.context());
    let context = label.zip(security::monitor().filter(|_| security::is_enforced()));
    InodeFacts {
        inode: attributes.inode,
        device: status.device,
        mode: u32::from(attributes.file_type as u16 | attributes.permissions),
        user: attributes.user,
        group: attributes.group,
        special: attributes.device,
        context: context.map(|(context, monitor)| monitor.context(context)),
    }
}

/// Returns the flags of a call that opens a file.
pub(super) fn open_flags(call: &Call<'_>, number: u32, arguments: [u64; 6]) -> Option<u64> {
    let [_, second, third, ..] = arguments;
    match number {
        raw::__NR_open => Some(second),
        raw::__NR_openat => Some(third),
        raw::__NR_creat => Some(u64::from(raw::O_WRONLY | raw::O_CREAT | raw::O_TRUNC)),
        raw::__NR_openat2 => call.memory.read(third).ok(),
        _ => None,
    }
}
