//! The signal state of each process and each task.
use super::{action::Dispositions, number::SignalSet, queue::SignalQueue};
use crate::{status::ExitStatus, task::Task};
use alloc::{sync::Arc, vec::Vec};
use rt::sync::Mutex;

/// Job-control state of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopState {
    /// The process runs.
    #[default]
    Running,
    /// This signal is stopping the process; its tasks stop when they next check their attention.
    Stopping(u8),
    /// All its tasks have stopped, and the parent was told.
    Stopped(u8),
}

/// Signal state of a process, under `process.signals`.
pub struct ProcessSignals {
    /// Signals pending for any of its tasks.
    pub queue: SignalQueue,
    /// The action for each signal; shared between processes by CLONE_SIGHAND.
    pub actions: Arc<Mutex<Dispositions>>,
    /// Its tasks, oldest first.
    pub tasks: Vec<Arc<Task>>,
    /// State of job control.
    pub stop: StopState,
    /// Number of SIGCONTs sent. One that comes after a task took a stop signal, and before it begins the stop, cancels the
    /// stop.
    pub continues: u64,
    /// A wait may still report the stop (the signal) or the continuation.
    pub stop_report: Option<u8>,
    /// A continuation that a wait has not reported yet; see `stop_report`.
    pub continue_report: bool,
    /// The whole group is to end with this status.
    pub exit: Option<ExitStatus>,
    /// Id of the task that executes another program: all others are to end.
    pub exec: Option<u32>,
    /// Exit status once the process has ended (it is a zombie until waited for).
    pub ended: Option<ExitStatus>,
    /// The process gets a signal whose action is the default one only if the kernel forces it (Linux `SIGNAL_UNKILLABLE`): it
    /// is process 1.
    pub is_unkillable: bool,
}

impl ProcessSignals {
    /// Makes a state without tasks and pending signals.
    pub fn new(actions: Arc<Mutex<Dispositions>>) -> ProcessSignals {
        ProcessSignals {
            queue: SignalQueue::new(),
            actions,
            tasks: Vec::new(),
            stop: StopState::Running,
            continues: 0,
            stop_report: None,
            continue_report: false,
            exit: None,
            exec: None,
            ended: None,
            is_unkillable: false,
        }
    }
}

/// An alternate signal stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlternateStack {
    /// Lowest address.
    pub base: u64,
    /// Length in bytes; 0 means that there is no stack.
    pub bytes: u64,
    /// The flag `SS_AUTODISARM`.
    pub is_disarmed_by_use: bool,
}

/// The state that a processor fault left, as `sigcontext` shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultState {
    /// The exception vector.
    pub vector: u64,
    /// The error code.
    pub error_code: u64,
    /// The address of a page fault.
    pub address: u64,
}

/// Signal state of a task, under `task.signals`.
#[derive(Debug, Default)]
pub struct TaskSignals {
    /// The signals pending for this task.
    pub queue: SignalQueue,
    /// The signals that are blocked now.
    pub mask: SignalSet,
    /// Signals for which a sigtimedwait(2) waits: they are not blocked now, but not to be discarded either.
    pub waited: SignalSet,
    /// The mask to be restored after a call that set a temporary one.
    pub saved_mask: Option<SignalSet>,
    /// The alternate stack (sigaltstack(2)).
    pub stack: AlternateStack,
    /// The last processor fault, for the frame of its handler.
    pub fault: FaultState,
}

impl TaskSignals {
    /// Makes the state that a new task inherits: the mask only.
    pub fn inherited(mask: SignalSet) -> TaskSignals {
        TaskSignals { mask, ..TaskSignals::default() }
    }
}
