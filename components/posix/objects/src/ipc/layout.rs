//! Structures of IPC in the format of programs (Linux's x86-64 `ipcbuf.h`, `shmbuf.h`).
use sysv::permission::Permission;
use vfs::Errno;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `struct ipc64_perm`.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RawPermission {
    key: i32,
    user: u32,
    group: u32,
    creator: u32,
    creator_group: u32,
    mode: u32,
    sequence: u16,
    padding: [u16; 3],
    unused: [u64; 2],
}

/// `struct shmid64_ds`.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RawSegment {
    /// `shm_perm`
    pub permission: RawPermission,
    /// `shm_segsz`
    pub bytes: u64,
    /// `shm_atime`, `shm_dtime`, `shm_ctime`
    pub times: [i64; 3],
    /// `shm_cpid`, `shm_lpid`
    pub processes: [u32; 2],
    /// `shm_nattch`
    pub attaches: u64,
    /// Unused.
    pub unused: [u64; 2],
}

/// `struct shminfo64`.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RawSegmentLimits {
    /// `shmmax`
    pub bytes_max: u64,
    /// `shmmin`
    pub bytes_min: u64,
    /// `shmmni`
    pub segments_max: u64,
    /// `shmseg`
    pub attaches_max: u64,
    /// `shmall`
    pub pages_max: u64,
    /// Unused.
    pub unused: [u64; 4],
}

/// `struct shm_info`.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RawSegmentUsage {
    /// `used_ids`
    pub segments: u64,
    /// `shm_tot`
    pub pages: u64,
    /// `shm_rss`
    pub resident_pages: u64,
    /// `shm_swp`, `swap_attempts`, `swap_successes`
    pub swap: [u64; 3],
}

const _: () = assert!(size_of::<RawPermission>() == 48);
const _: () = assert!(size_of::<RawSegment>() == 112);
const _: () = assert!(size_of::<RawSegmentLimits>() == 72);
const _: () = assert!(size_of::<RawSegmentUsage>() == 48);

impl RawPermission {
    /// Makes the structure of an object with this identifier and key.
    pub fn new(id: i32, key: i32, permission: &Permission) -> RawPermission {
        RawPermission {
            key,
            user: permission.user,
            group: permission.group,
            creator: permission.creator,
            creator_group: permission.creator_group,
            mode: u32::from(permission.mode),
            sequence: (id as u32 / sysv::table::INDICES) as u16,
            ..RawPermission::default()
        }
    }
    /// Sets owner and permission bits (IPC_SET).
    ///
    /// # Errors
    /// `EINVAL` for invalid ids.
    pub fn apply(&self, permission: &mut Permission) -> Result<(), Errno> {
        const NOBODY: u32 = u32::MAX;
        if self.user == NOBODY || self.group == NOBODY {
            return Err(Errno::EINVAL);
        }
        permission.set(self.user, self.group, self.mode as u16);
        Ok(())
    }
}

impl RawPermission {
    /// Returns the key.
    pub fn key(&self) -> i32 {
        self.key
    }
    /// Returns the mode, with flags.
    pub fn mode(&self) -> u32 {
        self.mode
    }
    /// Returns owner, its group, creator and its group, in the columns of `/proc/sysvipc`.
    pub fn owners(&self) -> alloc::string::String {
        let RawPermission { user, group, creator, creator_group, .. } = self;
        alloc::format!("{user:>5} {group:>5} {creator:>5} {creator_group:>5}")
    }
}

/// `struct semid64_ds`.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RawSet {
    /// `sem_perm`
    pub permission: RawPermission,
    /// `sem_otime`
    pub operated_s: i64,
    /// Unused.
    pub unused_1: u64,
    /// `sem_ctime`
    pub changed_s: i64,
    /// Unused.
    pub unused_2: u64,
    /// `sem_nsems`
    pub count: u64,
    /// Unused.
    pub unused_3: [u64; 2],
}

/// `struct seminfo`.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RawSemaphoreLimits {
    /// `semmap`
    pub map_entries: i32,
    /// `semmni`
    pub sets: i32,
    /// `semmns`
    pub semaphores: i32,
    /// `semmnu`
    pub undo_structures: i32,
    /// `semmsl`
    pub semaphores_a_set: i32,
    /// `semopm`
    pub operations: i32,
    /// `semume`
    pub undo_entries: i32,
    /// `semusz`, or the number of sets
    pub undo_bytes: i32,
    /// `semvmx`
    pub value_max: i32,
    /// `semaem`, or the number of semaphores
    pub undo_max: i32,
}

const _: () = assert!(size_of::<RawSet>() == 104);
const _: () = assert!(size_of::<RawSemaphoreLimits>() == 40);

/// `struct msqid64_ds`.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RawQueue {
    /// `msg_perm`
    pub permission: RawPermission,
    /// `msg_stime`, `msg_rtime`, `msg_ctime`
    pub times: [i64; 3],
    /// `msg_cbytes`
    pub bytes: u64,
    /// `msg_qnum`
    pub messages: u64,
    /// `msg_qbytes`
    pub bytes_max: u64,
    /// `msg_lspid`, `msg_lrpid`
    pub processes: [u32; 2],
    /// Unused.
    pub unused: [u64; 2],
}

/// `struct msginfo`.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RawQueueLimits {
    /// `msgpool`, or the number of queues
    pub pool: i32,
    /// `msgmap`, or the number of messages
    pub map: i32,
    /// `msgmax`
    pub message_bytes: i32,
    /// `msgmnb`
    pub queue_bytes: i32,
    /// `msgmni`
    pub queues: i32,
    /// `msgssz`
    pub segment_bytes: i32,
    /// `msgtql`, or the bytes of all messages
    pub headers: i32,
    /// `msgseg`
    pub segments: u16,
    /// Padding.
    pub padding: u16,
}

const _: () = assert!(size_of::<RawQueue>() == 120);
const _: () = assert!(size_of::<RawQueueLimits>() == 32);
