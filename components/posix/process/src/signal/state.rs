//! The signal state of each process and each task.
use super::{action::Dispositions, number::SignalSet, queue::Queue};
use crate::{status::ExitStatus, task::Task};
use alloc::{sync::Arc, vec::Vec};
use rt::sync::Mutex;

/// Job-control state of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopState {
    /// It runs.
    #[default]
    Running,
    /// It was told to stop by this signal; tasks stop as they come by.
    Stopping(u8),
    /// All its tasks have stopped, and the parent was told.
    Stopped(u8),
}

/// Signal state of a process, under `process.signals`.
pub struct ProcessSignals {
    /// Pending for any of its tasks.
    pub queue: Queue,
    /// The action for each signal; shared between processes by CLONE_SIGHAND.
    pub actions: Arc<Mutex<Dispositions>>,
    /// Its tasks, oldest first.
    pub tasks: Vec<Arc<Task>>,
    /// Job control.
    pub stop: StopState,
    /// SIGCONTs that were sent. One that comes after a task took a stop signal, and before it begins the stop, undoes the stop.
    pub continues: u64,
    /// A wait may still report the stop (the signal) or the continuation.
    pub stop_report: Option<u8>,
    /// See `stop_report`.
    pub continue_report: bool,
    /// The whole group is to end with this status.
    pub exit: Option<ExitStatus>,
    /// This task executes another program: all others are to end.
    pub exec: Option<u32>,
    /// It has ended (it is a zombie until waited for).
    pub ended: Option<ExitStatus>,
    /// It gets no signal whose action is the default one but those that the kernel forces on it (Linux `SIGNAL_UNKILLABLE`): it is
    /// process 1.
    pub is_unkillable: bool,
}

impl ProcessSignals {
    /// Nothing pending, no tasks.
    pub fn new(actions: Arc<Mutex<Dispositions>>) -> ProcessSignals {
        ProcessSignals {
            queue: Queue::new(),
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
    /// Length in bytes; 0 is none.
    pub bytes: u64,
    /// `SS_AUTODISARM`.
    pub is_disarmed_by_use: bool,
}

/// The state that a processor fault left, as `sigcontext` shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultState {
    /// Vector.
    pub vector: u64,
    /// Error code.
    pub error_code: u64,
    /// Address of a page fault.
    pub address: u64,
}

/// Signal state of a task, under `task.signals`.
#[derive(Debug, Default)]
pub struct TaskSignals {
    /// Pending for this task.
    pub queue: Queue,
    /// Blocked now.
    pub mask: SignalSet,
    /// Wanted by a sigtimedwait(2) under way: not blocked now, but not to be discarded either.
    pub waited: SignalSet,
    /// To be put back after a call that set a temporary mask.
    pub saved_mask: Option<SignalSet>,
    /// sigaltstack(2).
    pub stack: AlternateStack,
    /// The last processor fault, for the frame of its handler.
    pub fault: FaultState,
}

impl TaskSignals {
    /// The state that a new task inherits: the mask only.
    pub fn inherited(mask: SignalSet) -> TaskSignals {
        TaskSignals { mask, ..TaskSignals::default() }
    }
}
