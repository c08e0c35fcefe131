//! [`Task`]: one Linux thread.
use crate::{
    call::Handler,
    event::CallMark,
    files::{context::FsContext, sharing::FsHold, table::DescriptorTable},
    io_counts::IoCounts,
    login::Login,
    noted::NameNotes,
    object::Process,
    rseq::registration::Registration,
    seccomp::filter::Confinement,
    signal::state::TaskSignals,
    status::ExitStatus,
    undo::UndoList,
    user_memory::User,
};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering, fence};
use linux_raw_sys::general::{SCHED_FIFO, SCHED_IDLE, SCHED_RR};
use memory::{AddressSpace, FaultCounts};
use rt::{
    lock_class,
    sync::{Event, Mutex},
    thread::{Affinity, Policy, ThreadId},
};
use vfs::{Capabilities, Credentials, Errno, security::Label};

lock_class! {
    static FILES = "task.files";
    static FS = "task.fs";
    static CREDENTIALS = "task.credentials";
    static COMMAND = "task.command";
    static GUARD = "task.guard";
    static RESTART = "task.restart";
    static UNDO = "task.undo";
    static ACCOUNT = "task.account";
    pub(super) static SIGNALS = "task.signals";
}

/// Bits of [`Task::attention`]: the reasons for which the return to user mode takes the slow path.
pub mod attention {
    /// A signal that is not blocked is pending.
    pub const SIGNAL: u32 = 1;
    /// The process is stopped or stopping.
    pub const STOP: u32 = 2;
    /// The task is to end.
    pub const EXIT: u32 = 4;
    /// A temporary signal mask is to be replaced by the saved one.
    pub const MASK: u32 = 8;
    /// The address space, the descriptor table or the guard was replaced.
    pub const RELOAD: u32 = 16;
    /// An exec has replaced the program, and is to be finished.
    pub const REPLACED: u32 = 32;
    /// An exec has given the task another subject of mandatory access control.
    pub const ENTERED: u32 = 64;
    /// The backlog of audit is full, and the task waits for room.
    pub const AUDIT: u32 = 128;
}

/// Bits of `Task::ownership`.
mod ownership {
    /// Another task waits for a lock that it has, or has waited.
    pub const OWNS: u32 = 1;
    /// The task has passed its locks on.
    pub const LEFT: u32 = 2;
}

/// The continuation for `restart_syscall`: the interrupted call, with the rest of its time.
#[derive(Clone, Copy)]
pub struct Restart {
    /// The function that continues the call.
    pub handler: Handler,
    /// The arguments of the function.
    pub args: [u64; 6],
}

/// One Linux thread. Its processor state lives on the stack of its rt thread.
pub struct Task {
    id: AtomicU32,
    /// The thread group to which it belongs.
    pub process: Arc<Process>,
    thread: AtomicU64,
    attention: AtomicU32,
    in_call: AtomicBool,
    /// The task is stopped; changed under `process.signals`.
    pub is_stopped: AtomicBool,
    files: Mutex<Option<Arc<DescriptorTable>>>,
    fs: Mutex<FsHold>,
    credentials: Mutex<Arc<Credentials>>,
    command: Mutex<[u8; 16]>,
    restart: Mutex<Option<Restart>>,
    guard: Mutex<Option<Confinement>>,
    /// No exec gives the task more rights than it has.
    pub no_new_privileges: AtomicBool,
    /// Signals pending for the task, its mask and its alternate stack.
    pub signals: Mutex<TaskSignals>,
    exit_status: AtomicU32,
    /// Address of the word that is cleared, and whose waiter is woken, when the task leaves its memory (set_tid_address(2)).
    pub clear_child_tid: AtomicU64,
    /// Event: the task left the memory that it was made with, by exec or its end; a creator that waits for that
    /// (CLONE_VFORK) may continue.
    pub(super) left_memory: Event,
    has_left_memory: AtomicBool,
    /// Address of the head of its list of robust futexes (set_robust_list(2)).
    pub robust_list: AtomicU64,
    /// Its area of restartable sequences.
    pub rseq: Registration,
    /// Nice value.
    pub nice: AtomicI32,
    /// Scheduling policy, as sched_setscheduler(2) numbers them.
    pub policy: AtomicU32,
    /// Real-time priority of its own; 0: none.
    pub real_time_priority: AtomicU32,
    /// Its children are neither real-time nor of a nice value below 0.
    pub is_reset_on_fork: AtomicBool,
    /// The highest real-time priority of the tasks that wait for one of its locks ([`crate::futex::inherit`]); 0 if there
    /// is none.
    inherited_priority: AtomicU32,
    /// Whether a task has waited for one of its locks, and whether it passed them all on.
    ownership: AtomicU32,
    /// The processors that it may run on, a bit each.
    pub affinity: AtomicU64,
    /// Counts of the page faults of its program.
    pub faults: FaultCounts,
    /// Counts of its input and output.
    pub io: IoCounts,
    /// The user that logged in, and the session.
    pub login: Login,
    /// The audit of its present call.
    pub audit: CallMark,
    /// The names that its present call uses, for audit.
    pub names: NameNotes,
    /// The I/O priority set by ioprio_set(2).
    pub io_priority: AtomicU32,
    /// The task has made processes.
    pub has_children: AtomicBool,
    /// Processor time for which it got signals of a timer of its process, less the time for which other tasks got signals
    /// on its behalf.
    pub signalled_ns: AtomicI64,
    /// The task has made segments of shared memory (shmget(2)).
    pub has_made_segments: AtomicBool,
    /// The list of semaphore changes that are undone at its end, once it has asked for that.
    undo: Mutex<Option<Arc<UndoList>>>,
    /// The account of its real user at its level, kept from its first use on.
    account: Mutex<Option<Arc<User>>>,
}

/// The parts that the creator of a task gives it.
pub struct TaskParts {
    /// The descriptor table.
    pub files: Arc<DescriptorTable>,
    /// Root, working directory and umask.
    pub fs: FsHold,
    /// The credentials of the task.
    pub credentials: Arc<Credentials>,
    /// The name, NUL-padded.
    pub command: [u8; 16],
    /// The signal mask and alternate stack.
    pub signals: TaskSignals,
}

impl Task {
    /// Makes a task that is not yet running.
    pub fn new(id: u32, process: Arc<Process>, parts: TaskParts) -> Task {
        Task {
            id: AtomicU32::new(id),
            process,
            thread: AtomicU64::new(0),
            attention: AtomicU32::new(0),
            in_call: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            files: Mutex::new(&FILES, Some(parts.files)),
            fs: Mutex::new(&FS, parts.fs),
            credentials: Mutex::new(&CREDENTIALS, parts.credentials),
            command: Mutex::new(&COMMAND, parts.command),
            restart: Mutex::new(&RESTART, None),
            guard: Mutex::new(&GUARD, None),
            no_new_privileges: AtomicBool::new(false),
            signals: Mutex::new(&SIGNALS, parts.signals),
            exit_status: AtomicU32::new(0),
            clear_child_tid: AtomicU64::new(0),
            left_memory: Event::new(),
            has_left_memory: AtomicBool::new(false),
            robust_list: AtomicU64::new(0),
            rseq: Registration::default(),
            nice: AtomicI32::new(0),
            policy: AtomicU32::new(0),
            real_time_priority: AtomicU32::new(0),
            is_reset_on_fork: AtomicBool::new(false),
            inherited_priority: AtomicU32::new(0),
            ownership: AtomicU32::new(0),
            affinity: AtomicU64::new(u64::MAX),
            faults: FaultCounts::new(),
            io: IoCounts::new(),
            login: Login::none(),
            audit: CallMark::new(),
            names: NameNotes::new(),
            io_priority: AtomicU32::new(0),
            has_children: AtomicBool::new(false),
            signalled_ns: AtomicI64::new(0),
            has_made_segments: AtomicBool::new(false),
            undo: Mutex::new(&UNDO, None),
            account: Mutex::new(&ACCOUNT, None),
        }
    }
    /// Returns the thread id as reported by gettid(2).
    pub fn id(&self) -> u32 {
        self.id.load(Ordering::Relaxed)
    }
    /// Gives it another id: the thread that executes a program gets that of its process.
    pub fn set_id(&self, id: u32) {
        self.id.store(id, Ordering::Relaxed);
    }
    /// Returns the rt thread that runs it.
    pub fn thread(&self) -> ThreadId {
        ThreadId(self.thread.load(Ordering::Acquire))
    }
    /// Notes the rt thread that runs it.
    pub fn set_thread(&self, thread: ThreadId) {
        self.thread.store(thread.0, Ordering::Release);
    }
    /// Returns the descriptor table. A task that has ended has an empty one.
    pub fn files(&self) -> Arc<DescriptorTable> {
        self.files.lock().clone().unwrap_or_else(|| Arc::new(DescriptorTable::new()))
    }
    /// [`DescriptorTable::held_pages`] of its descriptors, none of which is closed by this. 0 of a table whose number is among
    /// `seen`; others are put there.
    pub fn held_pages(&self, seen: &mut Vec<u64>) -> u64 {
        match &*self.files.lock() {
            Some(files) if !seen.contains(&files.id()) => {
                seen.push(files.id());
                files.held_pages()
            }
            _ => 0,
        }
    }
    /// Replaces the descriptor table (unshare, exec).
    pub fn set_files(&self, files: Arc<DescriptorTable>) {
        let old = self.files.lock().replace(files);
        drop(old);
        self.raise_attention(attention::RELOAD);
    }
    /// Drops the descriptor table at the end of the task. The last task of a table closes its descriptors.
    pub(super) fn close_files(&self) {
        let old = self.files.lock().take();
        if let Some(last) = old.and_then(Arc::into_inner) {
            last.close_range(0, usize::MAX, self);
        }
        self.raise_attention(attention::RELOAD);
    }
    /// Root, working directory and umask.
    pub fn fs(&self) -> Arc<FsContext> {
        self.fs.lock().context().clone()
    }
    /// Replaces root, working directory and umask (unshare, the end).
    pub fn set_fs(&self, fs: FsHold) {
        let old = core::mem::replace(&mut *self.fs.lock(), fs);
        drop(old);
    }
    /// The credentials of the task.
    pub fn credentials(&self) -> Arc<Credentials> {
        self.credentials.lock().clone()
    }
    /// Returns its real user id.
    pub fn real_user(&self) -> u32 {
        self.credentials.lock().user.real
    }
    /// Returns the label of event files that it makes.
    pub fn label_of_event_files(&self) -> &'static Label {
        let own = self.process.label();
        match own.context() {
            None => own,
            Some(_) => self.credentials.lock().subject.anonymous(),
        }
    }
    /// Returns the account of its real user at its level.
    pub fn account(&self) -> Arc<User> {
        let (user, level) = (self.real_user(), self.process.level());
        let mut account = self.account.lock();
        match &*account {
            Some(kept) if kept.is_of(user, level) => kept.clone(),
            _ => account.insert(User::of(user, level)).clone(),
        }
    }
    /// Whether the limits of users hold for it (`pipe_is_unprivileged_user` of Linux).
    #[cold]
    pub fn is_unprivileged(&self) -> bool {
        let who = self.credentials();
        !who.has(Capabilities::SYS_RESOURCE) && !who.has(Capabilities::SYS_ADMIN)
    }
    /// Changes the credentials of the task.
    pub fn set_credentials(&self, credentials: Arc<Credentials>) {
        *self.credentials.lock() = credentials;
        if self.audit.is_audited() {
            // Rules ask for them.
            self.raise_attention(attention::RELOAD);
        }
    }
    /// Returns the address space.
    pub fn memory(&self) -> Arc<AddressSpace> {
        self.process.memory()
    }
    /// Returns its name, NUL-padded (`comm`).
    pub fn command(&self) -> [u8; 16] {
        *self.command.lock()
    }
    /// Sets its name, cut to 15 bytes.
    pub fn set_command(&self, name: &[u8]) {
        let mut command = [0; 16];
        for (to, from) in command.iter_mut().take(15).zip(name) {
            *to = *from;
        }
        *self.command.lock() = command;
    }
    /// Returns whether a signal waits to be handled, or the task is to stop or end: an interruptible wait must return then.
    pub fn has_signal(&self) -> bool {
        self.attention() & (attention::SIGNAL | attention::STOP | attention::EXIT) != 0
    }
    /// Returns whether it seems to run its program, as seen by another thread.
    pub fn is_in_user_mode(&self) -> bool {
        !self.in_call.load(Ordering::Relaxed)
    }
    #[inline]
    pub(super) fn set_in_call(&self, is_in_call: bool) {
        self.in_call.store(is_in_call, Ordering::Relaxed);
    }
    /// Runs `step` as part of a call.
    pub fn in_call<T>(&self, step: impl FnOnce() -> T) -> T {
        self.set_in_call(true);
        let done = step();
        self.set_in_call(false);
        done
    }
    /// Returns whether the task is to end: a killable wait must return then.
    pub fn is_ending(&self) -> bool {
        self.attention() & attention::EXIT != 0
    }
    /// Returns the exit status of the task, unless its group ends with a status of its own.
    pub(super) fn exit_status(&self) -> ExitStatus {
        ExitStatus::from_wait_word(self.exit_status.load(Ordering::Relaxed))
    }
    pub(super) fn set_exit_status(&self, status: ExitStatus) {
        self.exit_status.store(status.wait_word(), Ordering::Relaxed);
    }
    /// Returns the guard that decides which calls it may make; `None` if it may make all.
    pub fn guard(&self) -> Option<Confinement> {
        self.guard.lock().clone()
    }
    /// Sets the guard that decides which calls it may make, from its next check of its attention on. The caller holds
    /// `process.signals`.
    pub fn set_guard(&self, guard: Confinement) {
        let old = self.guard.lock().replace(guard);
        drop(old);
        self.raise_attention(attention::RELOAD);
    }
    /// Drops the guard at its end: it makes no more calls.
    pub(super) fn drop_guard(&self) {
        let old = self.guard.lock().take();
        drop(old);
    }
    /// Returns its list of semaphore changes to be undone; makes one if there is none.
    pub fn undo_list(&self) -> Arc<UndoList> {
        self.undo.lock().get_or_insert_with(|| Arc::new(UndoList::new())).clone()
    }
    /// Removes and returns that list.
    pub fn take_undo_list(&self) -> Option<Arc<UndoList>> {
        self.undo.lock().take()
    }
    /// Shares the list of `creator` (CLONE_SYSVSEM).
    pub(super) fn share_undo_list(&self, creator: &Task) {
        *self.undo.lock() = Some(creator.undo_list());
    }
    /// Copies the confinement of the creator to a new task. The guard comes first: a task to which another thread gives one
    /// was refused new privileges before.
    pub(super) fn inherit_confinement(&self, from: &Task) {
        *self.guard.lock() = from.guard();
        let is_confined = from.no_new_privileges.load(Ordering::Relaxed);
        self.no_new_privileges.store(is_confined, Ordering::Relaxed);
    }
    pub(super) fn inherit_scheduling(&self, from: &Task) {
        let is_reset = from.is_reset_on_fork.load(Ordering::Relaxed);
        let (nice, policy) =
            (from.nice.load(Ordering::Relaxed), from.policy.load(Ordering::Relaxed));
        if is_reset && matches!(policy, SCHED_FIFO | SCHED_RR) {
            self.nice.store(0, Ordering::Relaxed);
        } else {
            let priority = from.real_time_priority.load(Ordering::Relaxed);
            self.nice.store(if is_reset { nice.max(0) } else { nice }, Ordering::Relaxed);
            self.policy.store(policy, Ordering::Relaxed);
            self.real_time_priority.store(priority, Ordering::Relaxed);
        }
        self.io_priority.store(from.io_priority.load(Ordering::Relaxed), Ordering::Relaxed);
        self.affinity.store(from.affinity.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    /// Returns its real-time priority, its own or that of a waiting task; 0 if there is none.
    pub fn effective_priority(&self) -> u32 {
        let own = self.real_time_priority.load(Ordering::Relaxed);
        own.max(self.inherited_priority.load(Ordering::Relaxed))
    }
    /// Makes it run at least at this real-time priority.
    pub fn inherit_priority(&self, priority: u32) {
        if self.inherited_priority.swap(priority, Ordering::Relaxed) != priority {
            self.follow_policy();
        }
    }
    /// Applies the stored scheduling policy to its thread. If the thread is not registered yet, [`Task::follow_scheduling`]
    /// does so.
    pub fn follow_policy(&self) {
        apply_newest(|| self.rt_policy(), |policy| rt::thread::set_policy(self.thread(), policy));
    }
    /// Applies the stored affinity to its thread in the same way.
    pub fn follow_affinity(&self) {
        let stored = || self.affinity.load(Ordering::Relaxed);
        apply_newest(stored, |affinity| {
            rt::thread::set_affinity(self.thread(), Affinity(affinity));
        });
    }
    /// Applies to the calling thread, its own, which started with `policy`, the changes made before the thread was registered.
    /// Its creator must not: the task may meanwhile have changed its scheduling itself.
    pub(crate) fn follow_scheduling(&self, policy: Policy) {
        fence(Ordering::SeqCst);
        if self.rt_policy() != policy {
            self.follow_policy();
        }
        if self.affinity.load(Ordering::Relaxed) != u64::MAX {
            self.follow_affinity();
        }
    }
    /// Records that a task waits for one of its locks. Returns `false` if it has passed its locks on and gets no more.
    pub fn begin_owning(&self) -> bool {
        self.ownership.fetch_or(ownership::OWNS, Ordering::AcqRel) & ownership::LEFT == 0
    }
    /// Records that it passes its locks on and gets no more. Returns `false` if no task has waited for any.
    pub fn leave_locks(&self) -> bool {
        self.ownership.fetch_or(ownership::LEFT, Ordering::AcqRel) & ownership::OWNS != 0
    }
    /// Allows it to own locks again, after an exec.
    pub fn forget_locks(&self) {
        self.ownership.store(0, Ordering::Release);
    }
    /// Returns the policy by which rt schedules the task now: its own, with a priority that it may have inherited.
    pub fn rt_policy(&self) -> Policy {
        let priority = self.effective_priority();
        match self.own_policy() {
            own if priority == self.real_time_priority.load(Ordering::Relaxed) => own,
            Policy::RoundRobin(_) => Policy::RoundRobin(priority as u8),
            _ => Policy::Fifo(priority as u8),
        }
    }
    /// Returns the policy by which rt is to schedule the task and its children, without inherited priorities.
    pub fn own_policy(&self) -> Policy {
        let priority = self.real_time_priority.load(Ordering::Relaxed) as u8;
        match self.policy.load(Ordering::Relaxed) {
            SCHED_FIFO => Policy::Fifo(priority),
            SCHED_RR => Policy::RoundRobin(priority),
            SCHED_IDLE => Policy::Fair { nice: 19 },
            _ => Policy::Fair { nice: self.nice.load(Ordering::Relaxed) as i8 },
        }
    }
    #[inline]
    /// The bits of [`attention`] that are raised.
    pub fn attention(&self) -> u32 {
        self.attention.load(Ordering::Acquire)
    }
    /// Raises `bits`; the task looks at them before it returns to user mode.
    pub fn raise_attention(&self, bits: u32) {
        self.attention.fetch_or(bits, Ordering::AcqRel);
    }
    /// Takes `bits` back.
    pub fn lower_attention(&self, bits: u32) {
        self.attention.fetch_and(!bits, Ordering::AcqRel);
    }
    /// Raises `bits` and makes the thread check its attention.
    pub fn summon(&self, bits: u32) {
        self.raise_attention(bits);
        rt::thread::kick(self.thread());
    }
    /// Does the same as [`Task::summon`], except for the calling task, which must check its attention itself before it
    /// waits.
    pub fn summon_others(&self, bits: u32) {
        self.raise_attention(bits);
        if self.thread() != rt::thread::current() {
            rt::thread::kick(self.thread());
        }
    }
    /// Makes the interrupted call continue as `handler(args)` if no signal handler runs. The call returns the result of
    /// this function.
    pub fn restart_as(&self, handler: Handler, args: [u64; 6]) -> Errno {
        *self.restart.lock() = Some(Restart { handler, args });
        Errno::RestartBlock
    }
    /// Lets a creator that waits for this task's exec or end continue.
    pub(super) fn note_left_memory(&self) {
        self.has_left_memory.store(true, Ordering::Release);
        self.left_memory.signal();
    }
    /// Returns whether it has executed another program, or ended.
    pub(super) fn has_left_memory(&self) -> bool {
        self.has_left_memory.load(Ordering::Acquire)
    }
    /// Takes the call that restart_syscall(2) goes on with.
    pub fn take_restart(&self) -> Option<Restart> {
        self.restart.lock().take()
    }
}

/// Applies the stored value by `apply`, again if another thread stored and applied a newer one meanwhile, which the older one
/// may have replaced.
fn apply_newest<T: Copy + PartialEq>(stored: impl Fn() -> T, apply: impl Fn(T)) {
    loop {
        fence(Ordering::SeqCst);
        let value = stored();
        apply(value);
        fence(Ordering::SeqCst);
        if stored() == value {
            return;
        }
    }
}
