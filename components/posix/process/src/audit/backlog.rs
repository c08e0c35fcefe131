//! The records that wait for the audit daemon, or for the audit writer's medium.
use super::{
    AuditFeatures, AuditSettings, Enabling,
    alarm::{self, BacklogAlarm},
    medium,
};
use crate::{
    object::Process,
    task::{Task, attention},
};
use alloc::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    vec::Vec,
};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use interfaces::monitor::Privileges;
use rt::{
    lock_class,
    sync::{Event, Mutex, Once},
    time::{Instant, now},
};
use vfs::{poll::WaitQueue, security};

lock_class! {
    static LOCK = "audit.state";
}

/// Records beyond the limit that have room, because their tasks wait only after they have written them.
const BEYOND: usize = 256;
/// The limit of the backlog holds for each subject. This many subjects fill the whole.
const SUBJECTS: usize = 4;
const SECOND_NS: u64 = 1_000_000_000;
/// Nanoseconds of a unit of [`AuditSettings::wait_time`].
const WAIT_UNIT_NS: u64 = SECOND_NS / 100;

/// A record.
#[derive(Clone, Debug)]
pub struct AuditRecord {
    /// Type ([`audit::kind`]).
    pub kind: u16,
    /// Text.
    pub text: Arc<str>,
    /// The subject that caused it.
    owner: RecordOwner,
}

/// The subject to which a record is charged: the slot of its level, and its real user.
type RecordOwner = (usize, u32);

impl AuditRecord {
    /// Makes a record that a task causes.
    pub fn new(task: &Task, kind: u16, text: &str) -> AuditRecord {
        AuditRecord { kind, text: text.into(), owner: owner_of(task) }
    }
    /// Makes a record that no task causes.
    pub(super) fn of_kernel(kind: u16, text: &str) -> AuditRecord {
        AuditRecord { kind, text: text.into(), owner: KERNEL }
    }
}

/// The subject to which the kernel's own records are charged.
const KERNEL: RecordOwner = (0, 0);

fn owner_of(task: &Task) -> RecordOwner {
    (task.process.level().slot(), task.real_user())
}

/// The audit daemon: its process, and the port of its socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditDaemon {
    /// Process id; 0 without one.
    pub process: u32,
    /// Port of its netlink socket.
    pub port: u32,
}

/// Those that are told of records.
pub trait RecordReader: Send + Sync {
    /// A record waits for the daemon's socket.
    fn waits(&self, port: u32);
    /// A record was written, for the group of readers.
    fn written(&self, record: &AuditRecord);
}

pub(super) struct AuditState {
    pub(super) settings: AuditSettings,
    pub(super) features: AuditFeatures,
    daemon: AuditDaemon,
    waiting: VecDeque<AuditRecord>,
    /// The record that the daemon took last. It may not be written yet, so the next daemon gets it if this one is killed.
    taken: Option<AuditRecord>,
    /// Numbers of the records that wait, by their owners.
    owned: BTreeMap<RecordOwner, usize>,
    lost: u32,
    /// Time for which tasks have waited for room.
    waited_ns: u64,
    alarm: BacklogAlarm,
    /// The present second, and the number of its records.
    rate: (u64, u32),
}

impl AuditState {
    const fn new() -> AuditState {
        AuditState {
            settings: AuditSettings::AT_BOOT,
            features: AuditFeatures { on: 0, locked: 0 },
            daemon: AuditDaemon { process: 0, port: 0 },
            waiting: VecDeque::new(),
            taken: None,
            owned: BTreeMap::new(),
            lost: 0,
            waited_ns: 0,
            alarm: BacklogAlarm::new(80),
            rate: (0, 0),
        }
    }
}

pub(super) static STATE: Mutex<AuditState> = Mutex::new(&LOCK, AuditState::new());

/// Tells of changes of the state.
pub(super) static CHANGED: Event = Event::new();
/// Tells of room for records.
pub(super) static ROOM: WaitQueue = WaitQueue::new();
static READER: Once<&'static dyn RecordReader> = Once::new();
/// Process id of the daemon, for those that ask without the lock.
static DAEMON: AtomicU32 = AtomicU32::new(0);
/// Whether there is no room, for those that ask without the lock.
static IS_FULL: AtomicBool = AtomicBool::new(false);

/// Counts of the backlog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BacklogCounts {
    /// Records that wait.
    pub waiting: u32,
    /// Records that were lost.
    pub lost: u32,
    /// Time for which tasks have waited for room, in hundredths of a second.
    pub waited: u32,
}

/// Sets the reader; only the first call has an effect.
pub fn announce(reader: &'static dyn RecordReader) {
    READER.get_or_init(|| reader);
}

/// Changes the state, and wakes those that wait for room.
pub(super) fn change_state(step: impl FnOnce(&mut AuditState)) {
    let mut state = STATE.lock();
    step(&mut state);
    state.note_room();
    drop(state);
    ROOM.wake();
    CHANGED.signal();
}

/// Returns the daemon.
pub fn daemon() -> AuditDaemon {
    STATE.lock().daemon
}

/// Makes a process the daemon; [`AuditDaemon::default`] for none. It gets the records that wait.
pub fn set_daemon(daemon: AuditDaemon) {
    change_state(|state| {
        state.daemon = daemon;
        // One that ends by itself has written all that it took.
        state.taken = None;
    });
    DAEMON.store(daemon.process, Ordering::Relaxed);
    tell(daemon.port);
    medium::tell();
}

/// Hears that a socket is gone: if it was the daemon's, there is no daemon any more.
pub fn socket_ended(port: u32) {
    if daemon().port == port {
        STATE.lock().repeat_taken();
        set_daemon(AuditDaemon::default());
    }
}

/// Returns the counts.
pub fn counts() -> BacklogCounts {
    let state = STATE.lock();
    let waited = (state.waited_ns / WAIT_UNIT_NS).min(u32::MAX.into()) as u32;
    BacklogCounts { waiting: state.waiting.len() as u32, lost: state.lost, waited }
}

/// Returns the number of lost records, and begins to count anew.
pub fn take_lost() -> u32 {
    core::mem::take(&mut STATE.lock().lost)
}

/// Returns the time that tasks have waited, in hundredths of a second, and begins to count anew.
pub fn take_waited() -> u32 {
    let waited = counts().waited;
    STATE.lock().waited_ns = 0;
    waited
}

/// Returns the threshold of the alarm of a full backlog, in percent.
pub fn alarm_threshold() -> u8 {
    STATE.lock().alarm.threshold()
}

/// Sets that threshold.
pub fn set_alarm_threshold(threshold: u8) {
    STATE.lock().alarm = BacklogAlarm::new(threshold);
}

/// Raises the alarm of a full backlog. No lock is held.
fn raise(percent: Option<u8>) {
    if let Some(percent) = percent {
        alarm::raise(format_args!("{percent} % of the backlog is used"));
    }
}

fn tell(port: u32) {
    if port != 0
        && let Some(reader) = READER.get()
    {
        reader.waits(port);
    }
}

/// Takes the first record, for the socket of the daemon; `None` for another socket.
pub fn take(port: u32) -> Option<AuditRecord> {
    let mut state = STATE.lock();
    let is_daemon = port != 0 && state.daemon.port == port;
    let record = if is_daemon { state.take_next() } else { None };
    if record.is_some() {
        medium::received();
    }
    state.note_room();
    drop(state);
    if record.is_some() {
        ROOM.wake();
    }
    record
}

/// Returns the first record, which stays, for the socket of the daemon; `None` for another socket.
pub fn first(port: u32) -> Option<AuditRecord> {
    let state = STATE.lock();
    let is_daemon = port != 0 && state.daemon.port == port;
    state.waiting.front().filter(|_| is_daemon).cloned()
}

impl AuditState {
    /// Returns the number of a subject's records that wait.
    fn own(&self, owner: RecordOwner) -> usize {
        self.owned.get(&owner).copied().unwrap_or(0)
    }
    /// Looks how much the subject with most records has of its limit. Returns the percentage if there is to be an alarm.
    fn note_use(&mut self) -> Option<u8> {
        let fullest = self.owned.values().copied().max().unwrap_or(0);
        let limit = self.settings.backlog_limit as usize;
        let percent = (fullest * 100).checked_div(limit).unwrap_or(0).min(100) as u8;
        self.alarm.note(percent).then_some(percent)
    }
    /// Returns whether all subjects together may cause `beyond` more records than their limit.
    fn has_room(&self, beyond: usize) -> bool {
        let limit = self.settings.backlog_limit as usize;
        limit == 0 || self.waiting.len() < (limit * SUBJECTS).saturating_add(beyond)
    }
    /// Returns whether a subject may cause `beyond` more records than its limit. One that causes many waits alone.
    fn has_room_for(&self, owner: RecordOwner, beyond: usize) -> bool {
        let limit = self.settings.backlog_limit as usize;
        self.has_room(beyond) && (limit == 0 || self.own(owner) < limit.saturating_add(beyond))
    }
    fn charge(&mut self, owner: RecordOwner) {
        *self.owned.entry(owner).or_default() += 1;
    }
    fn add(&mut self, record: AuditRecord) {
        self.charge(record.owner);
        self.waiting.push_back(record);
    }
    /// Takes the next record for the daemon, which has written the one before.
    fn take_next(&mut self) -> Option<AuditRecord> {
        let record = self.remove_first();
        if record.is_some() {
            self.taken.clone_from(&record);
        }
        record
    }
    /// Puts the record back that a daemon may not have written.
    fn repeat_taken(&mut self) {
        if let Some(record) = self.taken.take() {
            self.charge(record.owner);
            self.waiting.push_front(record);
            medium::returned();
        }
    }
    fn remove_first(&mut self) -> Option<AuditRecord> {
        let record = self.waiting.pop_front()?;
        if let Some(count) = self.owned.get_mut(&record.owner) {
            *count -= 1;
            if *count == 0 {
                self.owned.remove(&record.owner);
            }
        }
        Some(record)
    }
    /// Notes whether there is room, for those that ask without the lock.
    fn note_room(&self) {
        IS_FULL.store(!self.has_room(0), Ordering::Relaxed);
    }
    /// Returns whether tasks wait without a time limit, so that nothing is lost.
    fn keeps_all(&self) -> bool {
        self.settings.failure == 2 && self.settings.enabled != Enabling::Off
    }
    /// Returns whether somebody takes records.
    fn has_taker(&self) -> bool {
        self.daemon.process != 0 || medium::is_open()
    }
    /// Returns whether a record is kept, and counts it if it is not.
    fn admits(&mut self, owner: RecordOwner) -> bool {
        let second = now().0 / SECOND_NS;
        if self.rate.0 != second {
            self.rate = (second, 0);
        }
        self.rate.1 = self.rate.1.saturating_add(1);
        let is_slow = self.settings.rate_limit == 0 || self.rate.1 <= self.settings.rate_limit;
        let beyond = if self.has_taker() { BEYOND } else { 0 };
        let is_kept = is_slow && (self.has_room_for(owner, beyond) || self.keeps_all());
        if !is_kept {
            self.lost = self.lost.saturating_add(1);
        }
        is_kept
    }
}

/// Adds a record that a task caused, which the calling thread runs.
pub(super) fn push(task: &Task, record: AuditRecord) {
    if keep(record) == HasToWait::Yes {
        task.raise_attention(attention::AUDIT);
    }
}

/// Adds a record that no task caused.
pub(super) fn push_of_kernel(record: AuditRecord) {
    keep(record);
}

/// Returns whether there is room for records that no task causes.
pub(super) fn has_room_for_kernel() -> bool {
    STATE.lock().has_room_for(KERNEL, 0)
}

/// Whether the task that caused a record has to wait before it returns to its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HasToWait {
    No,
    Yes,
}

/// Adds a record.
fn keep(record: AuditRecord) -> HasToWait {
    let mut state = STATE.lock();
    let (is_kept, port) = (state.admits(record.owner), state.daemon.port);
    if is_kept {
        state.add(record.clone());
    }
    state.note_room();
    let is_full = !state.has_room_for(record.owner, 0) && (state.has_taker() || state.keeps_all());
    let alarm = state.note_use();
    drop(state);
    match (port, medium::is_open()) {
        (0, true) => medium::tell(),
        (0, false) => log_record(&record),
        _ => {}
    }
    raise(alarm);
    tell(port);
    if let Some(reader) = READER.get() {
        reader.written(&record);
    }
    match is_full || port == 0 && medium::is_synchronous() {
        true => HasToWait::Yes,
        false => HasToWait::No,
    }
}

/// Returns whether another line may be logged: ten lines are allowed in five seconds.
fn has_turn() -> bool {
    const SPAN_NS: u64 = 5_000_000_000;
    const LINES: u32 = 10;
    static SPAN: AtomicU64 = AtomicU64::new(u64::MAX);
    static SAID: AtomicU32 = AtomicU32::new(0);
    let span = now().0 / SPAN_NS;
    if SPAN.swap(span, Ordering::Relaxed) != span {
        SAID.store(0, Ordering::Relaxed);
    }
    SAID.fetch_add(1, Ordering::Relaxed) < LINES
}

/// Puts a record into the kernel's log, as there is no daemon. Programs cause records, so their number is limited.
fn log_record(record: &AuditRecord) {
    if has_turn() {
        log::info!("audit: type={} {}", record.kind, record.text);
    }
}

/// Returns whether a process is the daemon.
#[inline]
pub(super) fn is_daemon(process: &Process) -> bool {
    DAEMON.load(Ordering::Relaxed) == process.id()
}

/// Returns whether a task never waits for room: the daemon, and under a policy the auditor, who makes the room.
fn is_auditor(task: &Task) -> bool {
    let subject = &task.credentials().subject;
    let has = |privilege| security::has(subject, privilege);
    is_daemon(&task.process)
        || security::is_enforced() && has(Privileges::AUDIT_READ) && has(Privileges::AUDIT_CONTROL)
}

/// Waits for room as [`wait_for_room`], before a call that may have records.
#[inline]
pub(super) fn before_call(task: &Task) {
    if IS_FULL.load(Ordering::Relaxed) {
        wait_for_room(task);
    }
}

/// Waits until there is room for records, the longest time has passed, or the task is to end. No lock is held.
pub fn wait_for_room(task: &Task) {
    task.lower_attention(attention::AUDIT);
    if is_auditor(task) {
        return;
    }
    let (begin, owner) = (now(), owner_of(task));
    loop {
        let ticket = ROOM.ticket();
        let mut state = STATE.lock();
        let is_useless = !state.has_taker() && !state.keeps_all();
        let limit_ns = u64::from(state.settings.wait_time).saturating_mul(WAIT_UNIT_NS);
        let deadline = (!state.keeps_all()).then(|| Instant(begin.0.saturating_add(limit_ns)));
        let has_room = state.has_room_for(owner, 0);
        let alarm = state.note_use();
        drop(state);
        raise(alarm);
        let is_late = deadline.is_some_and(|deadline| now() >= deadline);
        if has_room || is_useless || is_late || task.is_ending() {
            break;
        }
        // It looks again even if nothing happens, for the alarm.
        let again = now().after_ns(alarm::FULL_NS);
        let deadline = deadline.map_or(again, |deadline| deadline.min(again));
        ROOM.wait(ticket, Some(deadline));
    }
    let mut state = STATE.lock();
    state.waited_ns = state.waited_ns.saturating_add(now().0.saturating_sub(begin.0));
    let target = medium::target(state.waiting.len());
    drop(state);
    if medium::is_synchronous() {
        let is_given_up = || !medium::is_synchronous() || task.is_ending();
        medium::wait_for(target, is_given_up, None);
    }
}

/// Takes records for the medium, about so many bytes; none if there is a daemon.
pub fn take_for_medium(bytes: usize) -> Vec<AuditRecord> {
    let mut taken = Vec::new();
    let mut left = bytes;
    let mut state = STATE.lock();
    while state.daemon.port == 0
        && let Some(size) = state.waiting.front().map(|record| record.text.len() + 64)
        && (size <= left || taken.is_empty())
        && let Some(record) = state.remove_first()
    {
        left = left.saturating_sub(size);
        taken.push(record);
    }
    medium::taken(taken.len());
    state.note_room();
    let alarm = if taken.is_empty() { None } else { state.note_use() };
    drop(state);
    if !taken.is_empty() {
        ROOM.wake();
        raise(alarm);
    }
    taken
}

/// Hears that so many records that were taken are on the medium.
pub fn written(count: usize) {
    let _state = STATE.lock();
    medium::written(count);
}

/// Waits until all records are on the medium, or until a deadline.
pub fn drain(deadline: Instant) {
    let state = STATE.lock();
    let target = medium::target(state.waiting.len());
    let is_daemons = state.daemon.port != 0;
    drop(state);
    if !is_daemons {
        medium::wait_for(target, || now() >= deadline, Some(deadline));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record_of(user: u32) -> AuditRecord {
        AuditRecord { kind: 1, text: "".into(), owner: (0, user) }
    }

    /// Returns the number of records that are kept, of many.
    fn kept(state: &mut AuditState) -> usize {
        for _ in 0..2 * BEYOND + 100 {
            if state.admits((0, 1)) {
                state.add(record_of(1));
            }
        }
        state.waiting.len()
    }

    #[test]
    fn the_limit_holds_without_a_daemon_and_is_exceeded_a_little_with_one() {
        let mut state = AuditState::new();
        state.settings.backlog_limit = 10;
        assert_eq!(kept(&mut state), 10);
        assert_eq!(state.lost as usize, 2 * BEYOND + 90);
        assert!(!state.has_room_for((0, 1), 0));
        let mut state = AuditState::new();
        (state.settings.backlog_limit, state.daemon.process) = (10, 7);
        assert_eq!(kept(&mut state), 10 + BEYOND);
    }

    #[test]
    fn nothing_is_lost_if_tasks_wait_without_limit() {
        let mut state = AuditState::new();
        (state.settings.backlog_limit, state.settings.failure) = (10, 2);
        state.settings.enabled = Enabling::On;
        assert_eq!((kept(&mut state), state.lost), (2 * BEYOND + 100, 0));
        assert!(!state.has_room_for((0, 1), 0));
    }

    #[test]
    fn a_subject_that_causes_many_records_waits_alone() {
        let mut state = AuditState::new();
        state.settings.backlog_limit = 10;
        (0..10).for_each(|_| state.add(record_of(1)));
        assert!(!state.has_room_for((0, 1), 0) && state.has_room_for((0, 1), 1));
        assert!(state.has_room_for((0, 2), 0) && state.has_room_for((1, 1), 0));
        assert!(state.remove_first().is_some() && state.has_room_for((0, 1), 0));
        (0..31).for_each(|_| state.add(record_of(3)));
        assert!(!state.has_room_for((0, 2), 0), "all subjects have a limit, too");
        (0..40).for_each(|_| drop(state.remove_first()));
        assert!(state.owned.is_empty() && state.remove_first().is_none());
        state.settings.backlog_limit = 0;
        (0..100).for_each(|_| state.add(record_of(1)));
        assert!(state.has_room_for((0, 1), 0), "there is no limit");
    }

    #[test]
    fn the_record_that_a_killed_daemon_took_last_is_repeated() {
        let mut state = AuditState::new();
        (1..=3).for_each(|user| state.add(record_of(user)));
        let taken = |state: &mut AuditState| state.take_next().map(|record| record.owner.1);
        assert_eq!([taken(&mut state), taken(&mut state)], [Some(1), Some(2)]);
        state.repeat_taken();
        state.repeat_taken();
        assert_eq!([taken(&mut state), taken(&mut state)], [Some(2), Some(3)]);
        assert_eq!(taken(&mut state), None);
        state.repeat_taken();
        assert_eq!(taken(&mut state), Some(3));
    }

    #[test]
    fn a_rate_limit_loses_records() {
        let mut state = AuditState::new();
        (state.settings.backlog_limit, state.settings.rate_limit) = (0, 3);
        assert!(kept(&mut state) < BEYOND && state.lost > 0);
    }
}
