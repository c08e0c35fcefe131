//! The request of execve for a task: it makes an [`Image`] of a [`Program`].
use super::{Arguments, ExecRequest, Executable, Strings, build};
use crate::{
    files::{scope::Scope, sharing::Sharing, slots::OnExec},
    limits::Resource,
    object::Process,
    task::Task,
};
use alloc::{format, sync::Arc, vec::Vec};
use core::sync::atomic::Ordering;
use linux_raw_sys::general as raw;
use memory::{AddressSpace, LimitValues, setting::Setting};
use vfs::{Base, Credentials, Errno, OpenFile, Walk};

/// `ADDR_NO_RANDOMIZE` of personality(2).
const ADDR_NO_RANDOMIZE: u32 = 0x004_0000;
/// Addresses are chosen at random (`/proc/sys/kernel/randomize_va_space`); the heap is always
/// included.
pub static RANDOMISES: Setting = Setting::int(2);

/// A program to be run, as execveat(2) names it.
#[derive(Clone, Debug)]
pub struct Program {
    /// `AT_FDCWD`, or the descriptor of the directory at which a relative name starts.
    pub directory: i32,
    /// Path of the program.
    pub name: Vec<u8>,
    /// `AT_EMPTY_PATH`, `AT_SYMLINK_NOFOLLOW`.
    pub flags: u32,
    /// The arguments.
    pub arguments: Strings,
    /// The environment.
    pub environment: Strings,
}

/// A program ready to run.
pub struct Image {
    /// Its address space.
    pub memory: Arc<AddressSpace>,
    /// Address of the first instruction.
    pub entry: u64,
    /// The stack pointer.
    pub stack: u64,
    /// Its name for `comm`, NUL-padded.
    pub command: [u8; 16],
    /// Its credentials.
    pub credentials: Arc<Credentials>,
    /// The program has more rights than its caller.
    pub is_secure: bool,
    /// The program's file sets ids.
    pub is_set_id: bool,
    /// The soft limit of its stack, `RLIMIT_STACK`.
    pub stack_limit: u64,
}

/// Reads argument or environment strings from a program's memory.
///
/// # Errors
/// `EFAULT`, `E2BIG`.
pub fn read_strings(memory: &AddressSpace, address: u64) -> Result<Strings, Errno> {
    Strings::read(memory, address)
}

/// Loads `program` for `task`, which is not changed. The caller holds the decision of the exec guard.
///
/// # Errors
/// Those of execve(2).
pub fn load(task: &Arc<Task>, program: Program, sharing: Sharing) -> Result<Image, Errno> {
    let scope = Scope::of(task);
    let Opened { file, path, on_exec } = open(task, &scope, &program)?;
    let open_named = |name: &[u8]| {
        Executable::new(scope.caller().open_executable(Base::Cwd, name, Walk::FOLLOW)?, task)
    };
    let process = &task.process;
    let loaded = build(ExecRequest {
        path: &path,
        on_exec,
        program: Executable::new(file, task)?,
        arguments: Arguments { arguments: program.arguments, environment: program.environment },
        credentials: scope.credentials(),
        has_no_new_privileges: task.no_new_privileges.load(Ordering::Relaxed),
        sharing,
        is_randomised: process.personality.load(Ordering::Relaxed) & ADDR_NO_RANDOMIZE == 0,
        limits: limits_of(process),
        open: &open_named,
    })?;
    Ok(Image {
        memory: loaded.memory,
        entry: loaded.entry,
        stack: loaded.stack,
        command: loaded.command,
        credentials: Arc::new(loaded.credentials),
        is_secure: loaded.is_secure,
        is_set_id: loaded.is_set_id,
        stack_limit: loaded.stack_limit,
    })
}

/// Returns the limits of a process that concern memory.
pub fn limits_of(process: &Process) -> LimitValues {
    LimitValues {
        address_space: process.limits.soft(Resource::AddressSpace),
        data: process.limits.soft(Resource::Data),
        stack: process.limits.soft(Resource::Stack),
        locked: process.limits.soft(Resource::LockedMemory),
    }
}

/// A program whose file is open.
struct Opened {
    file: Arc<OpenFile>,
    /// The path that `AT_EXECFN` and a script show.
    path: Vec<u8>,
    /// Whether exec closes that descriptor.
    on_exec: OnExec,
}

fn open(task: &Task, scope: &Scope<'_>, program: &Program) -> Result<Opened, Errno> {
    if program.flags & !(raw::AT_EMPTY_PATH | raw::AT_SYMLINK_NOFOLLOW) != 0 {
        return Err(Errno::EINVAL);
    }
    let mut walk = Walk::empty();
    walk.set(Walk::FOLLOW, program.flags & raw::AT_SYMLINK_NOFOLLOW == 0);
    walk.set(Walk::EMPTY, program.flags & raw::AT_EMPTY_PATH != 0);
    let caller = scope.caller();
    let name = &program.name;
    if name.starts_with(b"/") || program.directory == raw::AT_FDCWD {
        let file = caller.open_executable(Base::Cwd, name, walk)?;
        return Ok(Opened { file, path: name.clone(), on_exec: OnExec::Keep });
    }
    let files = task.files();
    let directory = files.get(program.directory)?;
    let on_exec = files.on_exec(program.directory)?;
    let file = caller.open_executable(Base::At(directory.path()), name, walk)?;
    let mut path = format!("/dev/fd/{}", program.directory).into_bytes();
    if !name.is_empty() {
        path.push(b'/');
        path.extend(name);
    }
    Ok(Opened { file, path, on_exec })
}
