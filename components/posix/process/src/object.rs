//! [`Process`]: a thread group.
use crate::{
    exec_guard::ExecGuard,
    io_counts::Io,
    limits::Limits,
    session::{ControllingTerminal, Session},
    signal::{
        action::{Action, Dispositions},
        state::ProcessSignals,
    },
    status::ExitStatus,
    task::Task,
    time::data::ProcessTimers,
    upcalls::Upcalls,
};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, Ordering};
use memory::{AddressSpace, Faults};
use rt::{
    lock_class,
    sync::{Event, Mutex, StaticRef},
    thread::CpuTime,
    time::Instant,
};
use vfs::{
    ChildCache,
    poll::WaitQueue,
    security::{Label, Level, SecuritySubject},
};

lock_class! {
    static MEMORY = "process.memory";
    static SIGNALS = "process.signals";
    static TIMERS = "process.timers";
    static SESSION = "process.session";
    static TERMINAL = "process.terminal";
    static USAGE = "process.usage";
}

/// The usage of a process and its waited-for children.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessUsage {
    /// Time and switches of threads that have ended.
    pub own: CpuTime,
    /// Time and switches of children waited for, theirs included.
    pub children: CpuTime,
    /// Largest resident size seen, in pages.
    pub peak_pages: u64,
    /// Largest resident size of a child that was waited for, in pages.
    pub children_peak_pages: u64,
    /// Faults in address spaces it no longer has.
    pub faults: Faults,
    /// Faults of the children waited for.
    pub children_faults: Faults,
    /// The I/O of tasks that have ended.
    pub io: Io,
    /// The I/O of the children waited for, theirs included.
    pub children_io: Io,
}

/// A thread group.
pub struct Process {
    id: u32,
    /// The layers above.
    pub upcalls: &'static dyn Upcalls,
    pub(super) parent: AtomicU32,
    pub(super) group: AtomicU32,
    session: Mutex<Arc<Session>>,
    terminal: Mutex<Option<Arc<dyn ControllingTerminal>>>,
    /// For a leader whose terminal was hung up: the group that was in its foreground; 0 means none.
    pub lost_foreground: AtomicU32,
    memory: Mutex<Option<Arc<AddressSpace>>>,
    /// Confinement that makes an exec of the process one step for other threads.
    pub exec_guard: ExecGuard,
    /// Signals pending for the process, its stop, its end and its tasks.
    pub signals: Mutex<ProcessSignals>,
    /// Interval and POSIX timers.
    pub timers: Mutex<ProcessTimers>,
    /// Resources used by tasks that have ended and by children waited for.
    pub usage: Mutex<ProcessUsage>,
    /// The resource limits.
    pub limits: Limits,
    /// The time at which it was started.
    pub started: Instant,
    /// Event: a child changed state, or a wait must check again.
    pub child_event: Event,
    /// Event: a stopped process continues, or is to end.
    pub stop_event: Event,
    /// Wait queue: a signal became pending for the process or a task of it (signalfd waits here).
    pub signal_arrived: WaitQueue,
    /// Event: a task of the group ended.
    pub task_event: Event,
    /// Event: the whole group has ended.
    pub end: WaitQueue,
    /// Event: exec or exit has released the address space.
    pub released: Event,
    /// The address space is the parent's, including its counts of faults (CLONE_VM).
    pub is_borrowing: AtomicBool,
    /// When the user of the process changed, the new user's limit of processes was exceeded: it may run no other
    /// program while that is so.
    pub exceeds_limit: AtomicBool,
    /// It has executed a program since it was made.
    pub has_executed: AtomicBool,
    /// Orphans among its descendants become its children (PR_SET_CHILD_SUBREAPER).
    pub is_subreaper: AtomicBool,
    /// The signal that it gets when its parent ends (PR_SET_PDEATHSIG); 0: none.
    pub parent_death_signal: AtomicU8,
    /// The thread of its parent that made it: a wait for the thread's own children (`__WNOTHREAD`) uses it.
    pub parent_thread: AtomicU32,
    /// The signal that its parent gets at its end (0 means none).
    pub exit_signal: AtomicU8,
    /// As personality(2) gave it.
    pub personality: AtomicU32,
    /// Value of `oom_score_adj`, from -1000 to 1000.
    pub oom_adjustment: AtomicI32,
    /// The cache of its files in `/proc`; closed when it can be found by its number no more.
    pub files_about_it: ChildCache,
    owner: AtomicU32,
    label: StaticRef<Label>,
    level: StaticRef<Level>,
    last_command: Mutex<[u8; 16]>,
}

/// The parts that the creator of a process gives it.
pub struct ProcessParts<'a> {
    /// The layers above.
    pub upcalls: &'static dyn Upcalls,
    /// The parent's id.
    pub parent: u32,
    /// Process group.
    pub group: u32,
    /// Session.
    pub session: Arc<Session>,
    /// The address space; `None` for a process that lives in the kernel only.
    pub memory: Option<Arc<AddressSpace>>,
    /// The signal dispositions.
    pub actions: Arc<Mutex<Dispositions>>,
    /// The resource limits.
    pub limits: Limits,
    /// Signal for the parent at the end.
    pub exit_signal: u8,
    /// The real user id.
    pub owner: u32,
    /// The subject of its tasks.
    pub subject: &'a SecuritySubject,
}

impl Process {
    /// Makes a process without tasks.
    pub fn new(id: u32, parts: ProcessParts<'_>) -> Process {
        Process {
            id,
            upcalls: parts.upcalls,
            parent: AtomicU32::new(parts.parent),
            group: AtomicU32::new(parts.group),
            session: Mutex::new(&SESSION, parts.session),
            terminal: Mutex::new(&TERMINAL, None),
            lost_foreground: AtomicU32::new(0),
            memory: Mutex::new(&MEMORY, parts.memory),
            exec_guard: ExecGuard::new(),
            signals: Mutex::new(&SIGNALS, ProcessSignals::new(parts.actions)),
            timers: Mutex::new(&TIMERS, ProcessTimers::new()),
            usage: Mutex::new(&USAGE, ProcessUsage::default()),
            limits: parts.limits,
            started: rt::time::now(),
            child_event: Event::new(),
            stop_event: Event::new(),
            signal_arrived: WaitQueue::new(),
            task_event: Event::new(),
            end: WaitQueue::new(),
            released: Event::new(),
            is_borrowing: AtomicBool::new(false),
            exceeds_limit: AtomicBool::new(false),
            has_executed: AtomicBool::new(false),
            is_subreaper: AtomicBool::new(false),
            parent_death_signal: AtomicU8::new(0),
            parent_thread: AtomicU32::new(0),
            exit_signal: AtomicU8::new(parts.exit_signal),
            personality: AtomicU32::new(0),
            oom_adjustment: AtomicI32::new(0),
            files_about_it: ChildCache::new(),
            owner: AtomicU32::new(parts.owner),
            label: StaticRef::new(parts.subject.label()),
            level: StaticRef::new(parts.subject.level()),
            last_command: Mutex::new(&USAGE, [0; 16]),
        }
    }
    /// Returns the process id (thread group id).
    pub fn id(&self) -> u32 {
        self.id
    }
    /// Returns the parent's id, 0 for the first process.
    pub fn parent_id(&self) -> u32 {
        self.parent.load(Ordering::Relaxed)
    }
    /// Process group.
    pub fn group(&self) -> u32 {
        self.group.load(Ordering::Relaxed)
    }
    /// Session.
    pub fn session(&self) -> Arc<Session> {
        self.session.lock().clone()
    }
    pub(super) fn set_session(&self, session: Arc<Session>) {
        *self.session.lock() = session;
    }
    /// Returns the controlling terminal.
    pub fn terminal(&self) -> Option<Arc<dyn ControllingTerminal>> {
        self.terminal.lock().clone()
    }
    /// Sets or removes the controlling terminal.
    pub fn set_terminal(&self, terminal: Option<Arc<dyn ControllingTerminal>>) {
        let before = core::mem::replace(&mut *self.terminal.lock(), terminal);
        drop(before);
    }
    /// Returns the address space; `None` after its end and for kernel-side processes.
    pub fn try_memory(&self) -> Option<Arc<AddressSpace>> {
        self.memory.lock().clone()
    }
    /// Returns the address space; an empty one if there is none (every access is `EFAULT`).
    pub fn memory(&self) -> Arc<AddressSpace> {
        self.try_memory().unwrap_or_else(AddressSpace::absent)
    }
    /// Replaces the address space; returns the previous one.
    pub fn set_memory(&self, memory: Option<Arc<AddressSpace>>) -> Option<Arc<AddressSpace>> {
        core::mem::replace(&mut *self.memory.lock(), memory)
    }
    /// Returns the action for `signal`.
    ///
    /// Locks: takes `process.signals`, then `process.dispositions`.
    pub fn action(&self, signal: u8) -> Action {
        self.signals.lock().actions.lock().get(signal)
    }
    pub(super) fn inherit_attributes(&self, from: &Process) {
        self.set_terminal(from.terminal());
        let adjustment = from.oom_adjustment.load(Ordering::Relaxed);
        self.oom_adjustment.store(adjustment, Ordering::Relaxed);
        self.personality.store(from.personality.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    /// Returns the real user id of its oldest task, or of the one that ended last.
    pub fn real_user(&self) -> u32 {
        self.owner.load(Ordering::Relaxed)
    }
    /// Changes the owner, by whom processes are counted.
    pub fn set_real_user(&self, user: u32) {
        self.owner.store(user, Ordering::Relaxed);
    }
    /// Returns the label that it has as an object: that of the subject of its tasks.
    #[inline]
    pub fn label(&self) -> &'static Label {
        self.label.get()
    }
    /// Returns the level of the subject of its tasks.
    #[inline]
    pub fn level(&self) -> &'static Level {
        self.level.get()
    }
    /// Sets label and level, with the subject of its only task. The caller holds the commit of its exec guard.
    pub(super) fn set_subject(&self, subject: &SecuritySubject) {
        self.label.set(subject.label());
        self.level.set(subject.level());
    }
    /// Returns the name of the task that ended last (a zombie's `comm`).
    pub fn last_command(&self) -> [u8; 16] {
        *self.last_command.lock()
    }
    pub(super) fn set_last_command(&self, command: [u8; 16]) {
        *self.last_command.lock() = command;
    }
    /// Returns the tasks that are alive.
    pub fn tasks(&self) -> Vec<Arc<Task>> {
        self.signals.lock().tasks.clone()
    }
    /// Returns the ids of the tasks that are alive.
    #[inline]
    pub fn task_ids(&self) -> Vec<u32> {
        self.signals.lock().tasks.iter().map(|task| task.id()).collect()
    }
    /// Returns the number of tasks that are alive.
    pub fn task_count(&self) -> usize {
        self.signals.lock().tasks.len()
    }
    /// Returns whether `task` is one of its tasks that are alive.
    pub fn has_task(&self, task: &Arc<Task>) -> bool {
        self.signals.lock().tasks.iter().any(|it| Arc::ptr_eq(it, task))
    }
    /// Returns the oldest of the tasks that are alive.
    pub fn oldest_task(&self) -> Option<Arc<Task>> {
        self.signals.lock().tasks.first().cloned()
    }
    /// Returns the exit status of the process, once it has ended.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.signals.lock().ended
    }
    /// Returns the faults of all its threads, including ended ones. Faults in borrowed memory count for the
    /// lender.
    pub fn faults(&self) -> Faults {
        let mut sum = self.usage.lock().faults;
        if let Some(memory) =
            self.try_memory().filter(|_| !self.is_borrowing.load(Ordering::Relaxed))
        {
            sum += memory.faults();
        }
        sum
    }
    /// Records the resource usage of `memory`, which it no longer has.
    pub(super) fn note_usage(&self, memory: &AddressSpace) {
        let mut usage = self.usage.lock();
        usage.peak_pages = usage.peak_pages.max(memory.peak_resident());
        if !self.is_borrowing.swap(false, Ordering::Relaxed) {
            usage.faults += memory.faults();
        }
    }
    /// Returns the I/O counts of all its tasks, including ended ones.
    pub fn io(&self) -> Io {
        let mut sum = self.usage.lock().io;
        self.signals.lock().tasks.iter().for_each(|task| sum += task.io.get());
        sum
    }
    /// Returns the processor time of all its threads, including ended ones.
    pub fn cpu_time(&self) -> CpuTime {
        let mut sum = self.usage.lock().own;
        for task in &self.signals.lock().tasks {
            add_time(&mut sum, &rt::thread::cpu_time(task.thread()).unwrap_or_default());
        }
        sum
    }
}

/// Adds `more` to `sum`.
pub fn add_time(sum: &mut CpuTime, more: &CpuTime) {
    sum.user_ns += more.user_ns;
    sum.system_ns += more.system_ns;
    sum.voluntary_switches += more.voluntary_switches;
    sum.forced_switches += more.forced_switches;
}

/// The clock ticks of a second, in which Linux reports process times (`USER_HZ`, `AT_CLKTCK`).
pub const CLOCK_TICKS: u64 = 100;

/// Converts nanoseconds to clock ticks.
pub fn ticks(ns: u64) -> u64 {
    ns / (1_000_000_000 / CLOCK_TICKS)
}
