//! Limits of IPC that `/proc/sys/kernel` shows and sets. They are read and written without a lock.
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use vfs::Errno;

/// A limit that can be set.
#[derive(Debug)]
pub struct IpcLimit {
    value: AtomicU64,
    default: u64,
    least: u64,
    most: u64,
}

impl IpcLimit {
    const fn new(value: u64, least: u64, most: u64) -> IpcLimit {
        IpcLimit { value: AtomicU64::new(value), default: value, least, most }
    }
    /// The limit now.
    pub fn get(&self) -> u64 {
        self.value.load(Relaxed)
    }
    /// Returns the limit at start.
    pub fn default(&self) -> u64 {
        self.default
    }
    /// Sets the limit.
    ///
    /// # Errors
    /// `EINVAL` for a value outside its range.
    pub fn set(&self, value: u64) -> Result<(), Errno> {
        if !(self.least..=self.most).contains(&value) {
            return Err(Errno::EINVAL);
        }
        self.value.store(value, Relaxed);
        Ok(())
    }
}

/// Greatest value of a limit of objects.
const OBJECTS_MOST: u64 = sysv::table::INDICES as u64;
/// Linux's default for limits of shared memory: no limit.
const UNLIMITED: u64 = u64::MAX - (1 << 24);

/// `shmmax`: most bytes of a segment.
pub static SEGMENT_BYTES: IpcLimit = IpcLimit::new(UNLIMITED, 0, u64::MAX);
/// `shmall`: most pages of all segments.
pub static SEGMENT_PAGES: IpcLimit = IpcLimit::new(UNLIMITED, 0, u64::MAX);
/// `shmmni`: most segments.
pub static SEGMENTS: IpcLimit = IpcLimit::new(4096, 0, OBJECTS_MOST);
/// `shm_rmid_forced`: a segment that is attached nowhere is removed if its creator has ended or it was attached
/// before.
pub static FORCES_REMOVAL: IpcLimit = IpcLimit::new(0, 0, 1);

/// Greatest value of a setting that is an `int`.
const INT_MAX: u64 = i32::MAX as u64;

/// The first value of `sem`: most semaphores of a set.
pub static SEMAPHORES_A_SET: IpcLimit = IpcLimit::new(32_000, 0, INT_MAX);
/// The second value of `sem`: most semaphores of all sets.
pub static SEMAPHORES: IpcLimit = IpcLimit::new(32_000 * 32_000, 0, INT_MAX);
/// The third value of `sem`: most operations of a call.
pub static OPERATIONS: IpcLimit = IpcLimit::new(500, 0, INT_MAX);
/// The fourth value of `sem`: most sets.
pub static SEMAPHORE_SETS: IpcLimit = IpcLimit::new(32_000, 0, OBJECTS_MOST);

/// `msgmax`: most bytes of a message.
pub static MESSAGE_BYTES: IpcLimit = IpcLimit::new(8192, 0, INT_MAX);
/// `msgmnb`: most bytes of a new queue.
pub static QUEUE_BYTES: IpcLimit = IpcLimit::new(16_384, 0, INT_MAX);
/// `msgmni`: most queues.
pub static QUEUES: IpcLimit = IpcLimit::new(32_000, 0, OBJECTS_MOST);

/// Limits of POSIX queues for processes with CAP_SYS_RESOURCE, and the greatest values of the limits for other
/// processes.
const POSIX_MESSAGES_MOST: u64 = 65_536;
const POSIX_BYTES_MOST: u64 = 16 << 20;

/// `queues_max`: most POSIX queues.
pub static POSIX_QUEUES: IpcLimit = IpcLimit::new(256, 0, INT_MAX);
/// `msg_max`: most messages of a POSIX queue.
pub static POSIX_MESSAGES: IpcLimit = IpcLimit::new(10, 1, POSIX_MESSAGES_MOST);
/// `msgsize_max`: most bytes of a message of a POSIX queue.
pub static POSIX_BYTES: IpcLimit = IpcLimit::new(8192, 128, POSIX_BYTES_MOST);
/// `msg_default`: most messages of a queue that is made without attributes.
pub static POSIX_MESSAGES_USUAL: IpcLimit = IpcLimit::new(10, 1, POSIX_MESSAGES_MOST);
/// `msgsize_default`: most bytes of a message of a queue that is made without attributes.
pub static POSIX_BYTES_USUAL: IpcLimit = IpcLimit::new(8192, 128, POSIX_BYTES_MOST);
