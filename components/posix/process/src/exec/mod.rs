//! Loading programs: from a file, arguments and environment to a new address space (execve(2)).
//!
//! [`load`] and [`build`], which it calls, make the new program beside the old one and do not change the caller's: if they
//! fail, the old program continues. The pages of a program are those of the page cache, mapped, not copied.
//!
//! | file | what |
//! | --- | --- |
//! | `request` | the arguments of execve, for a task |
//! | `file` | a file as pages |
//! | `elf` | reading and checking ELF headers |
//! | `image` | mapping segments: program and interpreter |
//! | `script` | `#!` |
//! | `arguments` | argument and environment strings, their limits |
//! | `stack` | the first stack and the auxiliary vector |
//! | `credentials` | setuid, setgid, capabilities over exec |
//! | `vdso` | the vDSO and the time page behind it |
//!
//! Everything read from a file is untrusted input: every number is checked before it is used. Source: System V ABI (gABI,
//! x86-64 psABI), execve(2), vdso(7), getauxval(3).
pub mod arguments;
mod credentials;
pub mod elf;
pub mod file;
mod flush;
mod image;
mod place;
pub mod replace;
mod request;
mod script;
mod stack;
pub mod vdso;

#[cfg(test)]
mod tests;

pub use arguments::{Arguments, Strings};
pub use file::Executable;
pub use request::{Image, Program, RANDOMISES, limits_of, load, read_strings};

use crate::{
    files::{sharing::Sharing, slots::OnExec},
    host::HOST,
};
use alloc::sync::Arc;
use credentials::{Rights, Secure};
use memory::{AddressSpace, Dumpable, LimitValues};
use vfs::{Credentials, Errno};

/// The greatest number of levels of scripts whose interpreters are scripts, as on Linux.
const SCRIPTS_MAX: usize = 5;
/// Greatest soft limit of the stack of a program with more rights than its caller, as on Linux: the caller must not choose
/// the positions of the rest of its memory.
const SECURE_STACK_BYTES: u64 = 8 << 20;

/// Function that opens interpreters by their paths.
pub type Opener<'a> = dyn Fn(&[u8]) -> Result<Executable, Errno> + 'a;

/// A request to load a program.
pub struct ExecRequest<'a> {
    /// Path of the program as the caller gave it: `AT_EXECFN`, and an argument of a script.
    pub path: &'a [u8],
    /// Whether exec closes the descriptor in the path, if there is one in it.
    pub on_exec: OnExec,
    /// The file of the program.
    pub program: Executable,
    /// Arguments and environment.
    pub arguments: Arguments,
    /// Credentials of the caller.
    pub credentials: &'a Credentials,
    /// setuid and setgid bits have no effect (`PR_SET_NO_NEW_PRIVS`).
    pub has_no_new_privileges: bool,
    /// Whether another process shares the caller's directories: then the program gains no rights.
    pub sharing: Sharing,
    /// Places are chosen at random (not so with `ADDR_NO_RANDOMIZE`).
    pub is_randomised: bool,
    /// Limits of the process.
    pub limits: LimitValues,
    /// Opens interpreters, on the caller's behalf.
    pub open: &'a Opener<'a>,
}

/// A program ready to run.
pub struct Loaded {
    /// Its address space.
    pub memory: Arc<AddressSpace>,
    /// Address of the first instruction.
    pub entry: u64,
    /// The stack pointer.
    pub stack: u64,
    /// Its name for `comm`: the last component of the path, cut to 15 bytes.
    pub command: [u8; 16],
    /// The credentials of the loaded program.
    pub credentials: Credentials,
    /// The program has more rights than its caller (`AT_SECURE`).
    pub is_secure: bool,
    /// The program's file sets ids.
    pub is_set_id: bool,
    /// The soft limit of its stack, `RLIMIT_STACK`.
    pub stack_limit: u64,
}

/// Loads a program into a new address space.
///
/// # Errors
/// `ENOEXEC` if it is not a valid program; `E2BIG` for too long arguments; `ELOOP` for too many nested scripts; `ENOENT`
/// for a script that its interpreter could not open; `ELIBBAD` for a bad interpreter; `ETXTBSY` while the file is written;
/// `ENOMEM`, `EINVAL`, `EPERM` as for mmap; and errors of opening and reading.
pub fn build(request: ExecRequest<'_>) -> Result<Loaded, Errno> {
    let ExecRequest { path, mut limits, .. } = request;
    let (mut program, arguments) = script::resolve(&request)?;
    arguments.check_limits(path, limits.stack)?;
    let headers = elf::read(&program)?;
    let mut interpreter = match &headers.interpreter {
        Some(name) => Some(image::open_interpreter(name, request.open)?),
        None => None,
    };
    let rights = credentials::after_exec(&request, &program)?;
    if rights.credentials.subject != request.credentials.subject {
        program = program.received_by(&rights.credentials)?;
        interpreter = interpreter.map(|it| it.received_by(&rights.credentials)).transpose()?;
    }
    let is_secure = rights.secure == Secure::Yes;
    if is_secure {
        limits.stack = limits.stack.min(SECURE_STACK_BYTES);
    }
    let is_randomised = (request.is_randomised || rights.is_set_id) && RANDOMISES.get() != 0;
    let place = match is_randomised {
        true => place::ImagePlace::random(limits.stack),
        false => place::ImagePlace::usual(limits.stack),
    };
    let memory = AddressSpace::with_top(HOST, place.search_top)?;
    if let Some(task) = program.reader() {
        memory.set_owner(task.process.as_owner());
    }
    memory.set_limits(limits);
    memory.set_dumpable(dumpable(
        &request,
        &rights,
        [Some(&program), interpreter.as_ref().map(|it| it.file())],
    ));
    if let Some(file) = program.file() {
        memory.set_executable(file)?;
    }
    let image = image::map(&memory, &place, &program, &headers, interpreter.as_ref())?;
    let vdso = vdso::map(&memory, place.vdso)?;
    let contents = stack::Contents {
        path,
        arguments: &arguments,
        image: &image,
        vdso,
        credentials: &rights.credentials,
        is_secure,
    };
    let stack = stack::build(&memory, &place, &headers, &contents)?;
    Ok(Loaded {
        memory,
        entry: image.start,
        stack,
        command: command_of(path),
        is_secure,
        is_set_id: rights.is_set_id,
        stack_limit: limits.stack,
        credentials: rights.credentials,
    })
}

/// Returns whether the caller's user may inspect the program: not if it has other rights, and not if the caller may not
/// read the `files` of which it consists.
fn dumpable(
    request: &ExecRequest<'_>,
    rights: &Rights,
    files: [Option<&Executable>; 2],
) -> Dumpable {
    let caller = request.credentials;
    match files.iter().flatten().all(|file| file.is_readable_by(caller)) {
        true => credentials::dumpable(caller, &rights.credentials),
        false => Dumpable::No,
    }
}

/// Returns the last component of `path`, in the format of `comm`.
fn command_of(path: &[u8]) -> [u8; 16] {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let mut command = [0; 16];
    for (to, from) in command.iter_mut().take(15).zip(name) {
        *to = *from;
    }
    command
}
