//! [`AddressSpace`]: the map of a process's regions, its page tables, and the places of its program's parts.
use super::{commit, fault_counts::FaultCounts, map::Map, region};
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use rt::{
    NoMemory, lock_class,
    sync::{LockClass, Mutex, Once, RwLock},
    user::Space,
};
use vfs::{DenyWrite, Errno, Host, OpenFile, Principal};

lock_class! {
    static LAYOUT = "memory.layout";
}

/// Lock class of maps: fork holds the parent's and, inside, the new child's, which no other thread uses yet.
static MAP: LockClass = LockClass::nestable("memory.map");

/// The resource limits that concern memory, in bytes; read without a lock.
#[derive(Debug)]
pub struct MemoryLimits {
    /// `RLIMIT_AS`.
    pub address_space: AtomicU64,
    /// `RLIMIT_DATA`.
    pub data: AtomicU64,
    /// `RLIMIT_STACK`.
    pub stack: AtomicU64,
    /// `RLIMIT_MEMLOCK`.
    pub locked: AtomicU64,
}

/// Values for [`MemoryLimits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitValues {
    /// `RLIMIT_AS`.
    pub address_space: u64,
    /// `RLIMIT_DATA`.
    pub data: u64,
    /// `RLIMIT_STACK`.
    pub stack: u64,
    /// `RLIMIT_MEMLOCK`.
    pub locked: u64,
}

impl Default for LimitValues {
    fn default() -> Self {
        LimitValues { address_space: u64::MAX, data: u64::MAX, stack: 8 << 20, locked: 8 << 20 }
    }
}

/// Addresses of a program's parts, for `/proc/PID/{stat,cmdline,environ,auxv}` and brk.
#[derive(Clone, Debug, Default)]
pub struct ProgramLayout {
    /// First and last address of the code.
    pub code: (u64, u64),
    /// First and last address of the initialised data.
    pub data: (u64, u64),
    /// Start of the heap.
    pub heap_start: u64,
    /// The program break.
    pub heap_end: u64,
    /// The initial stack pointer.
    pub stack_start: u64,
    /// Addresses of the argument strings.
    pub arguments: (u64, u64),
    /// Addresses of the environment strings.
    pub environment: (u64, u64),
    /// Addresses of the auxiliary vector.
    pub auxiliary: (u64, u64),
}

/// The program that runs in an address space; meanwhile its file cannot be written.
struct Executable {
    file: Arc<OpenFile>,
    _deny_write: Option<DenyWrite>,
}

/// Tells whether programs of the same user may inspect an address space (`PR_SET_DUMPABLE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dumpable {
    /// They may inspect it.
    Yes,
    /// Only programs that may inspect any process may: the program has rights, or is from a file, that its user has not.
    No,
}

/// An address space of a process.
pub struct AddressSpace {
    pub(super) space: Space,
    pub(super) host: &'static dyn Host,
    pub(super) map: RwLock<Map>,
    pub(super) layout: Mutex<ProgramLayout>,
    executable: Mutex<Option<Executable>>,
    pub(super) limits: MemoryLimits,
    pub(super) peak_pages: AtomicU64,
    pub(super) faults: FaultCounts,
    pub(super) peak_total_pages: AtomicU64,
    pub(super) locks_future: AtomicBool,
    /// Changes when pages of a mapped object are removed or written to storage, with the map's lock held to write.
    pub(super) changes: AtomicU64,
    /// The memory barriers for which it is registered (membarrier(2)).
    pub(super) barriers: AtomicU32,
    /// End of the range that the last fault on anonymous memory made present: the next fault in sequence is there. The low
    /// bits hold the number of these pages.
    pub(super) ahead: AtomicU64,
    /// Large pages are disabled (`PR_SET_THP_DISABLE`).
    pub(super) lacks_large_pages: AtomicBool,
    pub(super) is_undumpable: AtomicBool,
}

impl AddressSpace {
    /// An empty address space in which room is searched below `search_top`, whose tasks are those of `host`.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn with_top(
        host: &'static dyn Host,
        search_top: u64,
    ) -> Result<Arc<AddressSpace>, NoMemory> {
        Ok(Arc::new(AddressSpace {
            space: Space::new()?,
            host,
            map: RwLock::new(&MAP, Map::new(search_top)),
            layout: Mutex::new(&LAYOUT, ProgramLayout::default()),
            executable: Mutex::new(&LAYOUT, None),
            limits: MemoryLimits::new(LimitValues::default()),
            peak_pages: AtomicU64::new(0),
            faults: FaultCounts::new(),
            peak_total_pages: AtomicU64::new(0),
            locks_future: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            barriers: AtomicU32::new(0),
            ahead: AtomicU64::new(0),
            lacks_large_pages: AtomicBool::new(false),
            is_undumpable: AtomicBool::new(false),
        }))
    }
    /// Sets the process to which it belongs. Faults of the personality's own access are charged to that process, and the
    /// process's rights count where memory is promised.
    ///
    /// # Locks
    /// `memory.map`, to write.
    pub fn set_owner(&self, owner: Weak<dyn Principal>) {
        self.map.write().owner = Some(owner);
    }
    /// Returns the process to which it belongs, unless that has ended.
    ///
    /// # Locks
    /// `memory.map`, to read.
    pub(super) fn owner(&self) -> Option<Arc<dyn Principal>> {
        self.map.read().owner()
    }
    /// Returns the memory barriers for which its programs registered, as used by `syscall/barrier.rs`.
    pub fn barriers(&self) -> &AtomicU32 {
        &self.barriers
    }
    /// Makes an empty address space.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn new(host: &'static dyn Host) -> Result<Arc<AddressSpace>, NoMemory> {
        AddressSpace::with_top(host, DEFAULT_TOP)
    }
    /// Returns the address space of processes without one: nothing is ever mapped, every access is `EFAULT`.
    ///
    /// # Panics
    ///
    /// Never after start: it is made by the first call, at start.
    pub fn absent() -> Arc<AddressSpace> {
        static ABSENT: Once<Arc<AddressSpace>> = Once::new();
        ABSENT
            .get_or_init(|| {
                loop {
                    match AddressSpace::with_top(&(), 0) {
                        Ok(space) => break space,
                        Err(NoMemory) => rt::thread::yield_now(),
                    }
                }
            })
            .clone()
    }
    /// Returns its space in rt, for running programs and for futex words.
    pub fn user(&self) -> &Space {
        &self.space
    }
    /// Sets the limits of resources; called by exec, fork and setrlimit.
    pub fn set_limits(&self, values: LimitValues) {
        self.limits.set(values);
    }
    /// Returns the addresses of the parts of the program.
    pub fn layout(&self) -> ProgramLayout {
        self.layout.lock().clone()
    }
    /// Sets the addresses of the parts of the program (exec, `PR_SET_MM`).
    pub fn set_layout(&self, layout: ProgramLayout) {
        *self.layout.lock() = layout;
    }
    /// Returns the program that runs in it (`/proc/PID/exe`).
    pub fn executable(&self) -> Option<Arc<OpenFile>> {
        self.executable.lock().as_ref().map(|executable| executable.file.clone())
    }
    /// Sets the program that runs in it.
    ///
    /// # Errors
    /// `ETXTBSY` while somebody has it open for writing.
    pub fn set_executable(&self, file: Arc<OpenFile>) -> Result<(), Errno> {
        // A writer below must not learn from ETXTBSY what is executed above (K1).
        let _deny_write = match file.leaves_traces() {
            true => Some(file.vnode().deny_write()?),
            false => None,
        };
        let before = self.executable.lock().replace(Executable { file, _deny_write });
        drop(before);
        Ok(())
    }
    /// Returns whether programs of the same user may inspect it.
    pub fn dumpable(&self) -> Dumpable {
        match self.is_undumpable.load(Ordering::Relaxed) {
            true => Dumpable::No,
            false => Dumpable::Yes,
        }
    }
    /// Sets that (prctl, exec, a change of ids).
    pub fn set_dumpable(&self, dumpable: Dumpable) {
        self.is_undumpable.store(dumpable == Dumpable::No, Ordering::Relaxed);
    }
    /// Returns the address of free room for `bytes`; it is free at this moment only.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn find_room(&self, bytes: u64) -> Result<u64, Errno> {
        self.map.read().find_room(region::round_up(bytes).ok_or(Errno::ENOMEM)?)
    }
    /// Records the sums after a change, for peaks and the system's committed memory.
    pub(super) fn note_sizes(&self, map: &mut Map, committed_before: u64) {
        self.peak_total_pages.fetch_max(map.total_pages, Ordering::Relaxed);
        let counted = committed_before + core::mem::take(&mut map.promised_pages);
        commit::count(map.committed_pages.wrapping_sub(counted));
    }
    /// Changes the map by `change`, which also removes the pages of removed regions from the space.
    pub(super) fn update<T>(
        &self,
        change: impl FnOnce(&mut Map) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let mut map = self.map.write();
        let committed = map.committed_pages;
        let result = change(&mut map);
        self.note_sizes(&mut map, committed);
        result
    }
}

/// The top below which room is searched in an address space without a layout.
const DEFAULT_TOP: u64 = 0x7fff_f7ff_f000;

impl MemoryLimits {
    fn new(values: LimitValues) -> MemoryLimits {
        let limits = MemoryLimits {
            address_space: AtomicU64::new(0),
            data: AtomicU64::new(0),
            stack: AtomicU64::new(0),
            locked: AtomicU64::new(0),
        };
        limits.set(values);
        limits
    }
    fn set(&self, values: LimitValues) {
        self.address_space.store(values.address_space, Ordering::Relaxed);
        self.data.store(values.data, Ordering::Relaxed);
        self.stack.store(values.stack, Ordering::Relaxed);
        self.locked.store(values.locked, Ordering::Relaxed);
    }
    pub(super) fn get(&self) -> LimitValues {
        LimitValues {
            address_space: self.address_space.load(Ordering::Relaxed),
            data: self.data.load(Ordering::Relaxed),
            stack: self.stack.load(Ordering::Relaxed),
            locked: self.locked.load(Ordering::Relaxed),
        }
    }
}

impl Drop for AddressSpace {
    fn drop(&mut self) {
        commit::count(self.map.read().committed_pages.wrapping_neg());
        self.map.get_mut().end();
        let mut last = 0;
        for region in self.map.get_mut().iter() {
            if let region::Backing::Object { object, .. } = &region.backing
                && object.identity() != last
            {
                last = object.identity();
                object.forget_ended_watchers();
            }
        }
    }
}
