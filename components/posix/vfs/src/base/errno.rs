//! [`Errno`]: the one type in which the personality reports failure, and the one table from file-system errors.
use interfaces::file_system::FsError;
use linux_raw_sys::errno as raw;

/// An error number of Linux x86-64. It is a word, so that a `Result` of a word or a pointer is returned in two registers;
/// a narrower type would be written to memory and read again at each return.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Errno(pub u64);

macro_rules! errnos {
    ($($name:ident)+) => {
        #[allow(missing_docs, reason = "the names are Linux's")]
        impl Errno { $(pub const $name: Errno = Errno(raw::$name as u64);)+ }
    };
}
errnos! { EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK EBUSY
EEXIST EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE
EDOM ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP ENODATA ETIME ENOPKG EOVERFLOW EILSEQ ENOTSOCK
EOPNOTSUPP EAFNOSUPPORT ETIMEDOUT EUCLEAN ECANCELED EINPROGRESS EPROTONOSUPPORT EDESTADDRREQ EMSGSIZE ENOPROTOOPT ELIBBAD
EPROTOTYPE EBADR ESOCKTNOSUPPORT EIDRM ENOMSG EADDRINUSE EADDRNOTAVAIL ECONNREFUSED ECONNRESET ENOTCONN EISCONN ETOOMANYREFS ENOBUFS }

impl Errno {
    /// Internal: restart the call after the signal unless a handler without SA_RESTART ran (then EINTR).
    pub const RESTART: Errno = Errno(512);
    /// Internal: the call is restarted after the signal, even if a handler ran.
    pub const RESTART_ALWAYS: Errno = Errno(513);
    /// Internal: the call continues through restart_syscall if no handler ran, else fails with EINTR (made by
    /// `Task::restart_as`).
    pub const RESTART_BLOCK: Errno = Errno(516);
    /// Internal: restart only if no handler ran (sleep, poll: EINTR after any handler).
    pub const RESTART_NO_HANDLER: Errno = Errno(514);
}

impl From<rt::NoMemory> for Errno {
    fn from(_: rt::NoMemory) -> Self {
        Errno::ENOMEM
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
            FsError::NoMemory => Errno::ENOMEM,
        }
    }
}
