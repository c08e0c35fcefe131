//! [`Errno`]: the one type in which the personality reports that an operation did not do what was asked, and the one table
//! from file-system errors.
//!
//! With the value of a success these are the four outcomes of a system call: done, failed, refused, interrupted. `Errno` is
//! a word, so that a `Result` of a word or a pointer is returned in two registers; a type with more than one field would be
//! written to memory and read again at each return. Therefore each kind of interruption is a variant of its own.
use interfaces::file_system::FsError;
use linux_raw_sys::errno as raw;

/// The reason why an operation did not do what was asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Errno {
    /// The operation failed. A call that fails so is not repeated.
    Failed(ErrorNumber),
    /// Memory was refused, and nothing has been done: the operation can be repeated once memory is free. A limit that a
    /// program reached is no refusal, but `Failed` with `ENOMEM`.
    Refused,
    /// Interrupted by a signal. The call is made again, unless a handler without SA_RESTART runs: then it fails with `EINTR`.
    Restart,
    /// Interrupted by a signal. The call is made again, even if a handler runs.
    RestartAlways,
    /// Interrupted by a signal. The call is made again only if no handler runs (sleep, poll: `EINTR` after any handler).
    RestartUnhandled,
    /// Interrupted by a signal. The call continues through restart_syscall if no handler runs, else it fails with `EINTR`
    /// (made by `Task::restart_as`).
    RestartBlock,
}

const _: () = assert!(size_of::<Result<(), Errno>>() == size_of::<u64>());

macro_rules! errnos {
    ($($name:ident)+) => {
        /// An error number of Linux x86-64.
        #[allow(missing_docs, clippy::upper_case_acronyms, reason = "the names are Linux's")]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u64)]
        pub enum ErrorNumber { $($name = raw::$name as u64,)+ }

        impl ErrorNumber {
            /// Returns the error number `number`, if the personality has it.
            pub fn from_word(number: u64) -> Option<ErrorNumber> {
                [$(ErrorNumber::$name),+].into_iter().find(|known| *known as u64 == number)
            }
        }

        #[allow(missing_docs, reason = "the names are Linux's")]
        impl Errno { $(pub const $name: Errno = Errno::Failed(ErrorNumber::$name);)+ }
    };
}
errnos! { EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF EBADFD ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK EBUSY
EEXIST EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE
EDOM ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP ENODATA ETIME ENOPKG EOVERFLOW EILSEQ ENOTSOCK
EOPNOTSUPP EAFNOSUPPORT ETIMEDOUT EUCLEAN ECANCELED EINPROGRESS EPROTONOSUPPORT EDESTADDRREQ EMSGSIZE ENOPROTOOPT ELIBBAD
EPROTOTYPE EBADR ESOCKTNOSUPPORT EIDRM ENOMSG EADDRINUSE EADDRNOTAVAIL ECONNREFUSED ECONNRESET ENOTCONN EISCONN ETOOMANYREFS
ENOBUFS EHOSTUNREACH ENETUNREACH EHOSTDOWN ENONET ENETDOWN EPROTO ECONNABORTED EALREADY EPFNOSUPPORT ESTALE }

impl Errno {
    /// Returns the number that a program is given: that of a failure, `ENOMEM` for a refusal, `EINTR` for an interruption.
    pub fn number(self) -> ErrorNumber {
        match self {
            Errno::Failed(number) => number,
            Errno::Refused => ErrorNumber::ENOMEM,
            Errno::Restart
            | Errno::RestartAlways
            | Errno::RestartUnhandled
            | Errno::RestartBlock => ErrorNumber::EINTR,
        }
    }
    /// Converts a refusal into the failure `ENOMEM`, after the operation had an effect: it must not be repeated.
    pub fn final_refusal(self) -> Errno {
        if self == Errno::Refused { Errno::ENOMEM } else { self }
    }
}

impl From<rt::NoMemory> for Errno {
    fn from(_: rt::NoMemory) -> Self {
        Errno::Refused
    }
}

impl From<FsError> for Errno {
    fn from(error: FsError) -> Self {
        match error {
            FsError::NotFound => Errno::ENOENT,
            FsError::Exists => Errno::EEXIST,
            FsError::NotDirectory => Errno::ENOTDIR,
            FsError::IsDirectory => Errno::EISDIR,
            FsError::NotEmpty => Errno::ENOTEMPTY,
            FsError::NoSpace => Errno::ENOSPC,
            FsError::ReadOnly => Errno::EROFS,
            FsError::NameTooLong => Errno::ENAMETOOLONG,
            FsError::TooManyLinks => Errno::EMLINK,
            FsError::FileTooBig => Errno::EFBIG,
            FsError::Invalid => Errno::EINVAL,
            FsError::NoAttribute => Errno::ENODATA,
            FsError::Unsupported => Errno::EOPNOTSUPP,
            FsError::Io | FsError::Restarted => Errno::EIO,
            FsError::Corrupt => Errno::EUCLEAN,
            FsError::NoMemory => Errno::Refused,
        }
    }
}
