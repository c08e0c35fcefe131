//! [`SharedSegment`]: shared memory of System V IPC, and the registry of segments (Linux `ipc/shm.c`).
//!
//! The pages are an [`Anonymous`] object. A region of an address space that maps it names the segment as its origin; the map of
//! regions tells the segment of each region that is added or removed ([`SharedSegment::attached`], [`SharedSegment::detached`]), so
//! that the number of attaches is that of regions, as on Linux. `ipc.segment` guards the state of a segment that changes.
//!
//! A segment that is to be removed (IPC_RMID, `shm_rmid_forced`) leaves the registry with its last attach. Its pages are freed
//! with the last reference, which a region that was removed from a map drops without the map's lock.
use super::{
    Who,
    layout::{RawPermission, RawSegment, RawSegmentUsage},
    limits, now_seconds,
    registry::{OBJECT_BYTES, Object, Registry, enter},
};
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::{AtomicU64, Ordering};
use interfaces::monitor::ObjectAccess;
use memory::{
    self, Anonymous, PAGE,
    commit::Claimant,
    segments::{segment_memory, unreserved_segment_memory},
};
use process::{Process, Task, limits::Resource, user_memory::User};
use rt::{lock_class, memory::Charge, sync::Mutex};
use sysv::{
    permission::{Permission, Subject},
    table::{ObjectTable, PRIVATE},
};
use vfs::{
    Capabilities, Errno, Principal,
    security::{Label, flows},
};

lock_class! {
    static STATE = "ipc.segment";
}

/// Bit of a mode, SHM_DEST: the segment is removed with its last attach.
const TO_GO: u16 = 0o1000;
/// Bit of a mode: SHM_LOCKED.
const LOCKED: u16 = 0o2000;

static SEGMENTS: Registry<SharedSegment> = Registry::new();
/// Number of pages of all segments; changed under the registry's lock.
static PAGES: AtomicU64 = AtomicU64::new(0);

/// A segment of shared memory.
pub struct SharedSegment {
    id: i32,
    name: i32,
    bytes: u64,
    memory: Arc<Anonymous>,
    creator: u32,
    label: &'static Label,
    state: Mutex<SegmentState>,
    _charge: Charge,
}

struct SegmentState {
    permission: Permission,
    /// The key for IPC_STAT: none once the segment is to be removed.
    key: i32,
    attaches: u64,
    attached_s: i64,
    detached_s: i64,
    changed_s: i64,
    last_process: u32,
    /// The creating task, until it has ended.
    creator: Weak<Task>,
    lock: Option<LockedPages>,
    is_removed: bool,
}

/// Pages that SHM_LOCK charged to a user, until this is dropped.
struct LockedPages {
    user: Arc<User>,
    pages: u64,
}

impl Drop for LockedPages {
    fn drop(&mut self) {
        self.user.remove_locked_pages(self.pages);
    }
}

impl SegmentState {
    fn is_to_go(&self) -> bool {
        let is_marked = self.permission.mode & TO_GO != 0;
        self.attaches == 0 && (is_marked || limits::FORCES_REMOVAL.get() != 0)
    }
}

impl Object for SharedSegment {
    const CLASS: &'static str = "shm";

    fn permission(&self) -> Permission {
        self.state.lock().permission
    }
    fn label(&self) -> &'static Label {
        self.label
    }
}

/// The arguments of shmget.
#[derive(Clone, Copy, Debug)]
pub struct SegmentArguments {
    /// The key, and flags.
    pub named: (i32, i32),
    /// The length in bytes.
    pub bytes: u64,
    /// Not all of its pages need be reserved (SHM_NORESERVE).
    pub may_lack: bool,
    /// The error with which a new segment is refused (SHM_HUGETLB).
    pub refusal: Option<Errno>,
}

/// Does shmget: returns the identifier of the segment with a key, or of a new one.
///
/// # Errors
/// Those of shmget(2).
pub fn obtain(task: &Arc<Task>, wanted: &SegmentArguments) -> Result<i32, Errno> {
    let who = Who::of(task);
    // This is read before the registry's lock is taken, which is below that of memory.
    let claimant = task.memory().claimant();
    let suits = |found: &SharedSegment| {
        if found.bytes < wanted.bytes { Err(Errno::EINVAL) } else { Ok(()) }
    };
    SEGMENTS.obtain(wanted.named, &who, suits, |table| make(table, task, wanted, claimant))
}

fn make(
    table: &mut ObjectTable<Arc<SharedSegment>>,
    task: &Arc<Task>,
    wanted: &SegmentArguments,
    claimant: Claimant,
) -> Result<i32, Errno> {
    let &SegmentArguments { named: (key, flags), bytes, may_lack, refusal } = wanted;
    if bytes == 0 || bytes > limits::SEGMENT_BYTES.get() {
        return Err(Errno::EINVAL);
    }
    let pages = bytes.div_ceil(PAGE);
    let all = PAGES.load(Ordering::Relaxed).checked_add(pages);
    let all = all.filter(|all| *all <= limits::SEGMENT_PAGES.get()).ok_or(Errno::ENOSPC)?;
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    let charge = Charge::take(OBJECT_BYTES)?;
    let memory = match may_lack {
        true => unreserved_segment_memory(pages, claimant)?,
        false => segment_memory(pages, claimant)?,
    };
    let who = Who::of(task);
    let state = SegmentState {
        permission: Permission::new(&who, flags),
        key,
        attaches: 0,
        attached_s: 0,
        detached_s: 0,
        changed_s: now_seconds(),
        last_process: 0,
        creator: Arc::downgrade(task),
        lock: None,
        is_removed: false,
    };
    let id = enter(table, &who, (key, limits::SEGMENTS.get() as usize), |id| SharedSegment {
        id,
        name: key,
        bytes,
        memory,
        creator: task.process.id(),
        label: who.label(),
        state: Mutex::new(&STATE, state),
        _charge: charge,
    })?;
    PAGES.store(all, Ordering::Relaxed);
    task.has_made_segments.store(true, Ordering::Relaxed);
    Ok(id)
}

/// A hold on a segment during an attach.
pub struct Hold(Arc<SharedSegment>);

impl Hold {
    /// Holds the segment `id`, to be attached with `wanted` permissions.
    ///
    /// # Errors
    /// `EINVAL`, `EACCES`, `EIDRM`.
    pub fn take(id: i32, task: &Task, wanted: u16) -> Result<Hold, Errno> {
        let segment = SEGMENTS.get(id, task)?;
        let who = Who::of(task);
        let mut state = segment.state.lock();
        if !state.permission.allows(&who, wanted) {
            return Err(Errno::EACCES);
        }
        // The segment counts its attaches, so that even one that only reads changes it.
        who.check_label(&*segment, ObjectAccess::Write)?;
        if state.is_removed {
            return Err(Errno::EIDRM);
        }
        flows::reads(|| Some(segment.label()));
        flows::writes(|| Some(segment.label()));
        state.attaches += 1;
        drop(state);
        Ok(Hold(segment))
    }
    /// Returns the segment.
    pub fn segment(&self) -> &Arc<SharedSegment> {
        &self.0
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.let_go(|_| {});
    }
}

impl SharedSegment {
    /// Returns its pages.
    pub fn memory(&self) -> &Arc<Anonymous> {
        &self.memory
    }
    fn let_go(&self, note: impl FnOnce(&mut SegmentState)) {
        let mut state = self.state.lock();
        state.attaches -= 1;
        note(&mut state);
        let is_to_go = state.is_to_go();
        drop(state);
        if is_to_go {
            self.remove_unused();
        }
    }
    /// Removes the segment from the registry if it is to be removed and was not attached meanwhile.
    fn remove_unused(&self) {
        let mut table = SEGMENTS.write();
        let removed = self.remove_locked(&mut table, SegmentState::is_to_go);
        drop(table);
        drop(removed);
    }
    fn remove_locked(
        &self,
        table: &mut ObjectTable<Arc<SharedSegment>>,
        is_to_go: impl FnOnce(&SegmentState) -> bool,
    ) -> Option<Arc<SharedSegment>> {
        let mut state = self.state.lock();
        if state.is_removed || !is_to_go(&state) {
            return None;
        }
        state.is_removed = true;
        PAGES.fetch_sub(self.bytes.div_ceil(PAGE), Ordering::Relaxed);
        table.remove(self.id)
    }
    /// Returns the answer of IPC_STAT.
    pub fn report(&self) -> RawSegment {
        let state = self.state.lock();
        RawSegment {
            permission: RawPermission::new(self.id, state.key, &state.permission),
            bytes: self.bytes,
            times: [state.attached_s, state.detached_s, state.changed_s],
            processes: [self.creator, state.last_process],
            attaches: state.attaches,
            unused: [0; 2],
        }
    }
}

/// Returns the id of the process that attaches or detaches; 0 if there is none.
fn id_of(by: &dyn Principal) -> u32 {
    Process::of(by).map_or(0, Process::id)
}

impl memory::segments::Segment for SharedSegment {
    fn id(&self) -> i32 {
        self.id
    }
    fn name(&self) -> i32 {
        self.name
    }
    fn bytes(&self) -> u64 {
        self.bytes
    }
    fn attached(&self, by: &dyn Principal) {
        let mut state = self.state.lock();
        state.attaches += 1;
        state.attached_s = now_seconds();
        state.last_process = id_of(by);
    }
    fn detached(&self, by: &dyn Principal) {
        self.let_go(|state| {
            state.detached_s = now_seconds();
            state.last_process = id_of(by);
        });
    }
}

/// Returns the registry of all segments.
pub fn registry() -> &'static Registry<SharedSegment> {
    &SEGMENTS
}

/// Returns the answer of SHM_INFO, about the segments that exist for `task`.
pub fn usage(task: &Task) -> RawSegmentUsage {
    let segments = SEGMENTS.shown_to(task);
    RawSegmentUsage {
        segments: segments.len() as u64,
        pages: segments.iter().map(|segment| segment.bytes.div_ceil(PAGE)).sum(),
        resident_pages: segments.iter().map(|segment| segment.memory.resident_pages()).sum(),
        swap: [0; 3],
    }
}

/// Does IPC_RMID: removes the segment, at once or with its last attach; its key finds it no more.
///
/// # Errors
/// `EINVAL`, `EPERM`.
pub fn remove(id: i32, who: &Who) -> Result<(), Errno> {
    let segment = SEGMENTS.controlled(id, who)?;
    let mut table = SEGMENTS.write();
    let removed = segment.remove_locked(&mut table, |state| state.attaches == 0);
    if removed.is_none() {
        let mut state = segment.state.lock();
        state.permission.mode |= TO_GO;
        state.key = PRIVATE;
        table.forget_key(id);
    }
    drop(table);
    drop(removed);
    Ok(())
}

/// Sets owner and permission bits (IPC_SET).
///
/// # Errors
/// `EINVAL`, `EPERM`, `EIDRM`.
pub fn set(id: i32, who: &Who, wanted: &RawPermission) -> Result<(), Errno> {
    let segment = SEGMENTS.controlled(id, who)?;
    let mut state = segment.state.lock();
    if state.is_removed {
        return Err(Errno::EIDRM);
    }
    wanted.apply(&mut state.permission)?;
    state.changed_s = now_seconds();
    Ok(())
}

/// The wanted state of a segment's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShmLock {
    /// They stay in memory.
    Lock,
    /// They may leave it.
    Unlock,
}

/// Does SHM_LOCK and SHM_UNLOCK. There is no swapping, so the lock is only charged and shown.
///
/// # Errors
/// `EINVAL`, `EPERM`, `EIDRM`; `ENOMEM` above the limit of locked memory.
pub fn set_lock(task: &Task, id: i32, wanted: ShmLock) -> Result<(), Errno> {
    let is_locked = wanted == ShmLock::Lock;
    let who = Who::of(task);
    let segment = SEGMENTS.get(id, task)?;
    let limit = task.process.limits.soft(Resource::LockedMemory);
    let is_privileged = who.has(Capabilities::IPC_LOCK);
    let mut state = segment.state.lock();
    if state.is_removed {
        return Err(Errno::EIDRM);
    }
    let owners = [state.permission.user, state.permission.creator];
    if !is_privileged && (!owners.contains(&who.user()) || is_locked && limit == 0) {
        return Err(Errno::EPERM);
    }
    who.check_label(&*segment, ObjectAccess::Write)?;
    let before = match is_locked {
        true if state.lock.is_some() => None,
        true => {
            let user = task.account();
            let pages = segment.bytes.div_ceil(PAGE);
            let most = if is_privileged { u64::MAX } else { limit / PAGE };
            user.add_locked_pages(pages, most)?;
            state.permission.mode |= LOCKED;
            state.lock.replace(LockedPages { user, pages })
        }
        false => {
            state.permission.mode &= !LOCKED;
            state.lock.take()
        }
    };
    drop(state);
    drop(before);
    Ok(())
}

/// Called when a task has ended. With `shm_rmid_forced`, segments that it made and that are attached nowhere are removed.
pub fn creator_ended(task: &Task) {
    if task.has_made_segments.load(Ordering::Relaxed) {
        remove_orphans(|creator| core::ptr::eq(creator.as_ptr(), task));
    }
}

/// Called when `shm_rmid_forced` was set: segments whose creators have ended and that are attached nowhere are removed.
pub fn removal_was_forced() {
    remove_orphans(|creator| creator.strong_count() == 0);
}

/// Clears the creator of the segments whose creator `is_gone`, and removes those of them that are to be removed.
fn remove_orphans(is_gone: impl Fn(&Weak<Task>) -> bool) {
    let mut table = SEGMENTS.write();
    let orphans: Vec<Arc<SharedSegment>> = table
        .iter()
        .filter(|segment| {
            let mut state = segment.state.lock();
            let is_orphan = is_gone(&state.creator);
            if is_orphan {
                state.creator = Weak::new();
            }
            is_orphan && state.is_to_go()
        })
        .cloned()
        .collect();
    for orphan in &orphans {
        orphan.remove_locked(&mut table, SegmentState::is_to_go);
    }
    drop(table);
    drop(orphans);
}
