//! A system call: its caller and arguments ([`Call`]), the function that answers it ([`Handler`]), and the handlers of all
//! calls ([`CallTable`]). The handlers are above this module; a process is given their table when it is made.
use crate::{files::table::DescriptorTable as Descriptors, task::Task};
use alloc::sync::Arc;
use memory::AddressSpace;
use rt::user::Context;
use vfs::{
    Errno, ErrorNumber, OpenFile, Principal,
    uses::{self, NameUse},
};

/// One system call under way.
pub struct Call<'a> {
    /// The calling task.
    pub task: &'a Arc<Task>,
    /// Its memory at the beginning of the call: a new one from exec is used by the next call.
    pub memory: &'a Arc<AddressSpace>,
    /// Its descriptors at the beginning of the call: new ones from unshare and exec are used by the next
    /// call.
    pub files: &'a Arc<Descriptors>,
    /// Registers of the caller, which hold its arguments; rip is past the `syscall` instruction.
    pub context: &'a mut Context,
}

/// A function that does a call. Its result is an [`CallOutcome`] in two registers.
///
/// A handler that consumes something (a child's end, a signal, a message) or makes something (a child, a file, a descriptor)
/// has two parts. The first checks and allocates; it changes nothing and may be refused. The second changes and is never
/// refused. So a handler that returns [`Errno::Refused`] has done nothing, and is called again once memory is free.
pub type Handler = fn(&mut Call<'_>) -> Result<u64, Errno>;

/// The four ways in which a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// The call did what was asked, and returns this value.
    Done(u64),
    /// The call failed.
    Failed(ErrorNumber),
    /// Memory was refused, and nothing has been done. No other outcome is repeated under memory pressure.
    Refused,
    /// A signal interrupted the call.
    Interrupted(Restart),
}

/// The way in which an interrupted call goes on after the signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// It is made again, unless a handler without SA_RESTART runs.
    ByFlag,
    /// It is made again in any case.
    Always,
    /// It is made again if no handler runs.
    Unhandled,
    /// It continues through restart_syscall(2) if no handler runs.
    Continued,
}

impl From<Result<u64, Errno>> for CallOutcome {
    fn from(result: Result<u64, Errno>) -> CallOutcome {
        match result {
            Ok(value) => CallOutcome::Done(value),
            Err(Errno::Failed(number)) => CallOutcome::Failed(number),
            Err(Errno::Refused) => CallOutcome::Refused,
            Err(Errno::Restart) => CallOutcome::Interrupted(Restart::ByFlag),
            Err(Errno::RestartAlways) => CallOutcome::Interrupted(Restart::Always),
            Err(Errno::RestartUnhandled) => CallOutcome::Interrupted(Restart::Unhandled),
            Err(Errno::RestartBlock) => CallOutcome::Interrupted(Restart::Continued),
        }
    }
}

/// Numbers below this are in the table.
pub const NUMBERS: usize = bpf::NUMBERS;

/// Handlers by number, and the one of all numbers that are not in the table.
pub struct CallTable {
    handlers: [Handler; NUMBERS],
    absent: Handler,
}

impl CallTable {
    /// The table of `handlers`, with `absent` for numbers beyond it.
    pub const fn new(handlers: [Handler; NUMBERS], absent: Handler) -> CallTable {
        CallTable { handlers, absent }
    }
    /// Answers the call `number`.
    ///
    /// # Errors
    /// The error of the call; `ENOSYS` if there is no such call.
    #[inline]
    pub fn dispatch(&self, call: &mut Call<'_>, number: u64) -> Result<u64, Errno> {
        // As on Linux, the low half of the register is the number.
        match self.handlers.get(number as u32 as usize) {
            Some(handler) => handler(call),
            None => self.dispatch_absent(call),
        }
    }
    /// A function of its own, so that the others' path does not select a handler.
    #[cold]
    #[inline(never)]
    fn dispatch_absent(&self, call: &mut Call<'_>) -> Result<u64, Errno> {
        (self.absent)(call)
    }
}

/// Returns the value of rax after a call failed.
pub fn failure(number: ErrorNumber) -> u64 {
    (number as u64).wrapping_neg()
}

impl<'a> Call<'a> {
    /// Returns the calling task, as files see it.
    #[inline(always)]
    pub fn caller(&self) -> &'a dyn Principal {
        &**self.task
    }
    /// Returns its six arguments.
    #[inline(always)]
    pub fn args(&self) -> [u64; 6] {
        let r = &self.context.registers;
        [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9]
    }
    /// Calls `handler` with `args` in place of the arguments; the caller's registers do not change.
    pub fn with(&mut self, args: [u64; 6], handler: Handler) -> Result<u64, Errno> {
        let own = self.args();
        self.set_args(args);
        let result = handler(self);
        self.set_args(own);
        result
    }
    fn set_args(&mut self, args: [u64; 6]) {
        let r = &mut self.context.registers;
        [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9] = args;
    }
    /// Returns argument `index` as the `int` it is in C.
    #[inline(always)]
    pub fn int(&self, index: usize) -> i32 {
        self.args().get(index).copied().unwrap_or(0) as i32
    }
    /// Returns argument `index` as the `unsigned int` it is in C.
    #[inline(always)]
    pub fn uint(&self, index: usize) -> u32 {
        self.args().get(index).copied().unwrap_or(0) as u32
    }
    /// Returns argument `index`, an address, a length or another whole word.
    #[inline(always)]
    pub fn word(&self, index: usize) -> u64 {
        self.args().get(index).copied().unwrap_or(0)
    }
    /// Returns the open file whose descriptor is argument `index`.
    ///
    /// # Errors
    /// `EBADF`.
    #[inline(always)]
    pub fn file(&self, index: usize) -> Result<Arc<OpenFile>, Errno> {
        self.files.get(self.int(index))
    }
    /// Tells audit of an open file that the call uses as others use a name.
    pub fn note_opened(&self, file: &OpenFile) {
        uses::tell(self.caller(), NameUse::Opened(file.path()));
    }
    /// Does the same as [`Call::file`], and refuses a file opened with O_PATH.
    ///
    /// # Errors
    /// `EBADF`.
    #[inline(always)]
    pub fn working_file(&self, index: usize) -> Result<Arc<OpenFile>, Errno> {
        working_file(self.files, self.int(index))
    }
}

fn working_file(files: &Descriptors, fd: i32) -> Result<Arc<OpenFile>, Errno> {
    let files = files.look_up();
    let file = files.get(fd)?;
    if file.is_path_only() { Err(Errno::EBADF) } else { Ok(file.clone()) }
}
