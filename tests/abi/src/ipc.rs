//! System V IPC for the ABI tests, each call answering its error number.
use crate::{check, jobs::limited, zeroed};

/// Mode in which the owner may read and write.
pub const OWN: i32 = 0o600;

/// Runs a test's body in a process of its own, which ends by SIGALRM if it hangs. On Linux as root, the process has an IPC
/// namespace of its own and sees no other objects.
///
/// # Panics
/// Panics if the body panicked or died.
#[track_caller]
pub fn alone(body: impl FnOnce()) {
    limited(|| {
        // SAFETY: a plain number.
        unsafe { libc::unshare(libc::CLONE_NEWIPC) };
        body();
    });
}

/// Returns a key that no other process of the tests uses.
pub fn key(number: i32) -> i32 {
    // SAFETY: no conditions.
    (unsafe { libc::getpid() }) << 8 | number
}

/// Returns the key in a structure, whose field the C libraries name differently.
pub fn key_of(permission: &libc::ipc_perm) -> i32 {
    #[cfg(target_env = "musl")]
    #[expect(deprecated, reason = "its new name is not in every release")]
    return permission.__ipc_perm_key;
    #[cfg(not(target_env = "musl"))]
    return permission.__key;
}

/// Returns whether the caller has CAP_SYS_RESOURCE.
///
/// # Panics
/// Panics if `/proc/self/status` does not show the capabilities.
pub fn may_pass_limits() -> bool {
    const SYS_RESOURCE: u64 = 1 << 24;
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc/self/status");
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:")).expect("CapEff");
    u64::from_str_radix(set.trim(), 16).expect("a set") & SYS_RESOURCE != 0
}

/// A file of `/proc/sys`, whose old text is restored when this is dropped.
pub struct Setting {
    path: String,
    before: String,
}

impl Setting {
    /// Sets the setting `name`; `None` if the system does not allow that.
    pub fn set(name: &str, value: &str) -> Option<Setting> {
        let path = format!("/proc/sys/{name}");
        let before = std::fs::read_to_string(&path).ok()?;
        std::fs::write(&path, value).ok()?;
        Some(Setting { path, before })
    }
    /// Changes the setting again.
    ///
    /// # Errors
    /// The error number.
    pub fn change(&self, value: &str) -> Result<(), i32> {
        std::fs::write(&self.path, value).map_err(|error| error.raw_os_error().unwrap_or(0))
    }
    /// Reads the text of the file.
    ///
    /// # Panics
    /// Panics if the file cannot be read.
    pub fn text(&self) -> String {
        std::fs::read_to_string(&self.path).expect("a setting")
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = std::fs::write(&self.path, &self.before);
    }
}

/// Makes or finds a segment.
///
/// # Errors
/// The error number.
pub fn shmget(key: i32, bytes: usize, flags: i32) -> Result<i32, i32> {
    // SAFETY: plain numbers.
    check(unsafe { libc::shmget(key, bytes, flags) }).map(|id| id as i32)
}

/// Attaches a segment at `address`, 0 for anywhere.
///
/// # Errors
/// The error number.
pub fn shmat(id: i32, address: usize, flags: i32) -> Result<*mut u8, i32> {
    // SAFETY: what is mapped at the address is the test's own.
    let at = unsafe { libc::shmat(id, address as *const _, flags) };
    check(at as i64).map(|_| at.cast())
}

/// Detaches the segment attached at `at`.
///
/// # Errors
/// The error number.
pub fn shmdt(at: *mut u8) -> Result<i64, i32> {
    // SAFETY: the segment is the test's own.
    check(unsafe { libc::shmdt(at.cast()) })
}

/// Does a command that needs no structure.
///
/// # Errors
/// The error number.
pub fn shm_command(id: i32, command: i32) -> Result<i64, i32> {
    // SAFETY: commands with a structure refuse the null pointer.
    check(unsafe { libc::shmctl(id, command, std::ptr::null_mut()) })
}

/// Does a command with the usual structure. Returns the call's answer.
///
/// # Errors
/// The error number.
pub fn shm_with(id: i32, command: i32, status: &mut libc::shmid_ds) -> Result<i64, i32> {
    // SAFETY: room for the structure.
    check(unsafe { libc::shmctl(id, command, status) })
}

/// Returns the status of a segment (IPC_STAT).
///
/// # Errors
/// The error number.
pub fn shm_status(id: i32) -> Result<libc::shmid_ds, i32> {
    // SAFETY: plain numbers.
    let mut status: libc::shmid_ds = unsafe { zeroed() };
    shm_with(id, libc::IPC_STAT, &mut status).map(|_| status)
}

/// Returns the number of attaches of a segment.
///
/// # Panics
/// Panics if there is no such segment.
#[track_caller]
pub fn attaches(id: i32) -> u64 {
    shm_status(id).expect("IPC_STAT").shm_nattch
}

/// Makes an operation on a semaphore: its number, the change, flags.
pub fn op(number: u16, change: i16, flags: i32) -> libc::sembuf {
    libc::sembuf { sem_num: number, sem_op: change, sem_flg: flags as i16 }
}

/// Makes or finds a set of semaphores.
///
/// # Errors
/// The error number.
pub fn semget(key: i32, count: i32, flags: i32) -> Result<i32, i32> {
    // SAFETY: plain numbers.
    check(unsafe { libc::semget(key, count, flags) }).map(|id| id as i32)
}

/// Does operations on semaphores.
///
/// # Errors
/// The error number.
pub fn semop(id: i32, operations: &[libc::sembuf]) -> Result<i64, i32> {
    let operations = operations.to_vec().leak();
    // SAFETY: the operations are there for their number.
    check(unsafe { libc::semop(id, operations.as_mut_ptr(), operations.len()) })
}

/// Does operations on semaphores as [`semop`] does, for at most this many milliseconds.
///
/// # Errors
/// The error number.
pub fn semtimedop(id: i32, operations: &[libc::sembuf], ms: i64) -> Result<i64, i32> {
    let time = libc::timespec { tv_sec: ms / 1000, tv_nsec: ms % 1000 * 1_000_000 };
    let call = libc::SYS_semtimedop;
    // SAFETY: the operations and the time are there.
    check(unsafe {
        libc::syscall(call, id, operations.as_ptr(), operations.len(), &raw const time)
    })
}

/// Does a command about one semaphore, with a number.
///
/// # Errors
/// The error number.
pub fn sem(id: i32, number: i32, command: i32, value: i32) -> Result<i64, i32> {
    // SAFETY: commands with a structure refuse low addresses.
    check(unsafe { libc::syscall(libc::SYS_semctl, id, number, command, i64::from(value)) })
}

/// Does a command with a structure or an array.
///
/// # Errors
/// The error number.
pub fn sem_with<T>(id: i32, command: i32, argument: *mut T) -> Result<i64, i32> {
    // SAFETY: the caller has room for what the command writes.
    check(unsafe { libc::syscall(libc::SYS_semctl, id, 0, command, argument.expose_provenance()) })
}

/// `struct semid_ds`.
#[allow(missing_docs, reason = "the names are Linux's")]
#[derive(Clone, Copy)]
#[repr(C)]
pub struct SemStatus {
    pub sem_perm: libc::ipc_perm,
    pub sem_otime: i64,
    unused_1: u64,
    pub sem_ctime: i64,
    unused_2: u64,
    pub sem_nsems: u64,
    unused_3: [u64; 2],
}

/// Returns the status of a set (IPC_STAT).
///
/// # Errors
/// The error number.
pub fn sem_status(id: i32) -> Result<SemStatus, i32> {
    // SAFETY: plain numbers.
    let mut status: SemStatus = unsafe { zeroed() };
    sem_with(id, libc::IPC_STAT, &raw mut status).map(|_| status)
}

/// Reads the values of a set of at most 8 semaphores.
///
/// # Panics
/// Panics if the values cannot be read.
#[track_caller]
pub fn sem_values(id: i32) -> Vec<u16> {
    let mut values = [u16::MAX; 8];
    sem_with(id, libc::GETALL, values.as_mut_ptr()).expect("GETALL");
    values.into_iter().take_while(|value| *value != u16::MAX).collect()
}

/// Waits until `count` calls sleep for semaphore `number` to grow (GETNCNT), or to be zero (GETZCNT).
///
/// # Panics
/// Panics if there is no such set.
#[track_caller]
pub fn until_waiting(id: i32, number: i32, command: i32, count: i64) {
    while sem(id, number, command, 0).expect("GETNCNT, GETZCNT") != count {
        std::thread::yield_now();
    }
}

/// Makes or finds a message queue.
///
/// # Errors
/// The error number.
pub fn msgget(key: i32, flags: i32) -> Result<i32, i32> {
    // SAFETY: plain numbers.
    check(unsafe { libc::msgget(key, flags) }).map(|id| id as i32)
}

/// Sends a message.
///
/// # Errors
/// The error number.
pub fn msgsnd(id: i32, kind: i64, bytes: &[u8], flags: i32) -> Result<i64, i32> {
    let message = [&kind.to_ne_bytes(), bytes].concat();
    // SAFETY: a type and as many bytes as are told.
    check(unsafe { libc::msgsnd(id, message.as_ptr().cast(), bytes.len(), flags) })
}

/// Receives a message of at most `room` bytes. Returns its type and its bytes.
///
/// # Errors
/// The error number.
pub fn msgrcv(id: i32, room: usize, kind: i64, flags: i32) -> Result<(i64, Vec<u8>), i32> {
    let mut message = vec![0u8; room + 8];
    let at = message.as_mut_ptr().cast();
    // SAFETY: room for a type and as many bytes as are told.
    let length = check(unsafe { libc::msgrcv(id, at, room, kind, flags) } as i64)? as usize;
    let kind = i64::from_ne_bytes(message[..8].try_into().expect("eight bytes"));
    Ok((kind, message[8..8 + length].to_vec()))
}

/// `struct msqid_ds`.
#[allow(missing_docs, reason = "the names are Linux's")]
#[derive(Clone, Copy)]
#[repr(C)]
pub struct QueueStatus {
    pub msg_perm: libc::ipc_perm,
    pub msg_stime: i64,
    pub msg_rtime: i64,
    pub msg_ctime: i64,
    pub msg_cbytes: u64,
    pub msg_qnum: u64,
    pub msg_qbytes: u64,
    pub msg_lspid: i32,
    pub msg_lrpid: i32,
    unused: [u64; 2],
}

/// Does a command with a structure, or any address.
///
/// # Errors
/// The error number.
pub fn msg_with<T>(id: i32, command: i32, argument: *mut T) -> Result<i64, i32> {
    // SAFETY: the caller has room for what the command writes.
    check(unsafe { libc::syscall(libc::SYS_msgctl, id, command, argument.expose_provenance()) })
}

/// Returns the status of a queue (IPC_STAT).
///
/// # Errors
/// The error number.
pub fn msg_status(id: i32) -> Result<QueueStatus, i32> {
    // SAFETY: plain numbers.
    let mut status: QueueStatus = unsafe { zeroed() };
    msg_with(id, libc::IPC_STAT, &raw mut status).map(|_| status)
}

/// Removes a queue (IPC_RMID).
///
/// # Errors
/// The error number.
pub fn msg_remove(id: i32) -> Result<i64, i32> {
    msg_with(id, libc::IPC_RMID, std::ptr::null_mut::<u8>())
}

/// Waits until process `id` sleeps in a call. A process may also sleep for a moment on its way there, so it must be found
/// asleep many times in a row.
///
/// # Panics
/// Panics if there is no such process.
pub fn until_asleep(id: i32) {
    const LOOKS: u32 = 100;
    let is_asleep = || {
        let text = std::fs::read_to_string(format!("/proc/{id}/stat")).expect("a process");
        text.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'))
    };
    let mut looks = 0;
    while looks < LOOKS {
        looks = if is_asleep() { looks + 1 } else { 0 };
        std::thread::yield_now();
    }
}

/// `struct mq_attr`.
#[allow(missing_docs, reason = "the names are Linux's")]
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Shape {
    pub flags: i64,
    pub maxmsg: i64,
    pub msgsize: i64,
    pub curmsgs: i64,
    reserved: [i64; 4],
}

impl Shape {
    /// Makes the shape of a queue of this many messages of this many bytes.
    pub fn new(maxmsg: i64, msgsize: i64) -> Shape {
        Shape { maxmsg, msgsize, ..Shape::default() }
    }
}

/// Opens a message queue, whose name has no slash.
///
/// # Errors
/// The error number.
pub fn mq_open(name: &str, flags: i32, mode: u32, shape: Option<Shape>) -> Result<i32, i32> {
    let (name, at) = (crate::c(name), shape.as_ref().map_or(std::ptr::null(), |one| one));
    // SAFETY: a name, and a shape or none.
    check(unsafe { libc::syscall(libc::SYS_mq_open, name.as_ptr(), flags, mode, at) })
        .map(|fd| fd as i32)
}

/// Makes a message queue for `maxmsg` messages of `msgsize` bytes, opened to read and write.
///
/// # Panics
/// Panics if the queue exists or cannot be made.
#[track_caller]
pub fn mq_make(name: &str, maxmsg: i64, msgsize: i64) -> i32 {
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
    mq_open(name, flags, 0o600, Some(Shape::new(maxmsg, msgsize))).expect("mq_open")
}

/// Removes a queue's name.
///
/// # Errors
/// The error number.
pub fn mq_unlink(name: &str) -> Result<i64, i32> {
    // SAFETY: a name.
    check(unsafe { libc::syscall(libc::SYS_mq_unlink, crate::c(name).as_ptr()) })
}

/// Sends a message, until a time of the wall clock.
///
/// # Errors
/// The error number.
pub fn mq_send_until(
    fd: i32,
    bytes: &[u8],
    priority: u32,
    until: Option<libc::timespec>,
) -> Result<i64, i32> {
    let until = until.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let call = libc::SYS_mq_timedsend;
    // SAFETY: the bytes and the time are there.
    check(unsafe { libc::syscall(call, fd, bytes.as_ptr(), bytes.len(), priority, until) })
}

/// Sends a message.
///
/// # Errors
/// The error number.
pub fn mq_send(fd: i32, bytes: &[u8], priority: u32) -> Result<i64, i32> {
    mq_send_until(fd, bytes, priority, None)
}

/// Receives a message of at most `room` bytes, until a time of the wall clock. Returns its priority and its bytes.
///
/// # Errors
/// The error number.
pub fn mq_receive_until(
    fd: i32,
    room: usize,
    until: Option<libc::timespec>,
) -> Result<(u32, Vec<u8>), i32> {
    let (mut bytes, mut priority) = (vec![0u8; room], u32::MAX);
    let until = until.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let (call, at) = (libc::SYS_mq_timedreceive, &raw mut priority);
    // SAFETY: room for the bytes and the priority.
    let length = check(unsafe { libc::syscall(call, fd, bytes.as_mut_ptr(), room, at, until) })?;
    bytes.truncate(length as usize);
    Ok((priority, bytes))
}

/// Receives a message.
///
/// # Errors
/// The error number.
pub fn mq_receive(fd: i32, room: usize) -> Result<(u32, Vec<u8>), i32> {
    mq_receive_until(fd, room, None)
}

/// Sets the flags of an open queue if they are given. Returns its earlier shape.
///
/// # Errors
/// The error number.
pub fn mq_attributes(fd: i32, flags: Option<i64>) -> Result<Shape, i32> {
    let new = flags.map(|flags| Shape { flags, ..Shape::default() });
    let at = new.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let mut old = Shape::default();
    // SAFETY: a shape or none, and room for one.
    check(unsafe { libc::syscall(libc::SYS_mq_getsetattr, fd, at, &raw mut old) })?;
    Ok(old)
}

/// Asks to be notified by `how` (SIGEV_), with `signal` and `value`.
///
/// # Errors
/// The error number.
pub fn mq_notify(fd: i32, how: i32, signal: i32, value: usize) -> Result<i64, i32> {
    let event = [value as u64, (how as u32 as u64) << 32 | signal as u32 as u64, 0, 0, 0, 0, 0, 0];
    // SAFETY: as large as a sigevent.
    check(unsafe { libc::syscall(libc::SYS_mq_notify, fd, event.as_ptr()) })
}

/// Asks not to be notified any more.
///
/// # Errors
/// The error number.
pub fn mq_forget(fd: i32) -> Result<i64, i32> {
    // SAFETY: null is no event.
    check(unsafe { libc::syscall(libc::SYS_mq_notify, fd, 0usize) })
}
