//! The supervisor of isolated components: its interface to those that show and control components, and to users of their
//! services. A process that shows and controls components has a [`SupervisorProxy`].
mod control;

pub use control::{
    STATUS_PART_BYTES, SUPERVISOR_CONTROL_LAYOUT, SupervisorControl, SupervisorControlClient,
    SupervisorControlServer, SupervisorProxy,
};

use crate::{block::RunningDriver, marshal::Marshal, overdue::Check, wire::Wire};
use alloc::{string::String, sync::Arc, vec::Vec};
use rt::{message::Endpoint, time::Instant};

/// A user of a component that is told of its restarts. It is called on a thread of the supervisor and must not block for
/// long.
pub trait Listener: Send + Sync {
    /// A successor answers at the component's endpoint. It knows nothing of its predecessor, so the listener attaches its
    /// memory again and repeats unanswered requests.
    ///
    /// # Errors
    /// A description of the fault, if the successor does not take part; it is ended as a failure.
    fn started(&self) -> Result<(), String>;
    /// Checks for requests that the component has had for too long. Called at each check of a running component. If it
    /// returns a reason, the component is ended as a failure.
    fn overdue(&self, check: &Check) -> Option<String> {
        let _ = check;
        None
    }
    /// The component has ended. Its successor is started when all listeners were told.
    fn ended(&self) {}
    /// The component is not restarted by itself any more: calls end with `Gone` until it is started on request.
    fn given_up(&self);
}

/// The state of an isolated component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Marshal)]
pub enum State {
    /// It was started and has not answered yet.
    Starting,
    /// It answers.
    Running,
    /// It failed and will be started again after a pause.
    Waiting,
    /// It was stopped on request. Its callers wait.
    Stopped,
    /// It failed more often than allowed and is started only on request. Its callers are refused.
    Degraded,
}

impl State {
    /// Returns the state's name, one word.
    pub fn name(self) -> &'static str {
        match self {
            State::Starting => "starting",
            State::Running => "running",
            State::Waiting => "waiting",
            State::Stopped => "stopped",
            State::Degraded => "degraded",
        }
    }
}

/// The record of a component's end.
#[derive(Clone, Debug, PartialEq, Eq, Marshal)]
pub struct Ending {
    /// Time of the end.
    pub at: Instant,
    /// Cause, in words.
    pub cause: String,
    /// Registers of the thread that caused the end, each as `name=value`; empty if no thread of the component did.
    pub registers: Vec<String>,
    /// Its call stack: functions from the innermost outwards.
    pub backtrace: Vec<String>,
    /// The system's last trace records at that time, oldest first, each as a line.
    pub trace: Vec<String>,
}

/// The present status of an isolated component.
#[derive(Clone, Debug, PartialEq, Eq, Marshal)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: State,
    /// Time of its last start.
    pub started: Instant,
    /// Times it was started again.
    pub restarts: u64,
    /// Time from its last end to its successor's first answer.
    pub outage_ns: u64,
    /// Memory that it has.
    pub memory_bytes: usize,
    /// Memory that it may have.
    pub memory_bytes_max: usize,
    /// Share of all processors' time that it may have while other threads want it, in percent.
    pub share_percent: u8,
    /// Number of its threads.
    pub threads: usize,
    /// Processor time of its threads.
    pub cpu_ns: u64,
    /// Kernel calls that it has made since its last start.
    pub calls: u64,
    /// Kernel calls refused to it since boot, by name.
    pub refused: Vec<(String, u64)>,
    /// Its last ends, the latest first.
    pub endings: Vec<Ending>,
}

/// An order about a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub enum Order {
    /// Starts it, also if it was given up.
    Start,
    /// Ends it. It stays stopped until it is started.
    Stop,
    /// Ends it and starts it again at once.
    Restart,
    /// Ends it at once, as if it had failed at that moment and without a word to it, and starts it again. Not counted as a
    /// failure.
    Kill,
}

/// The reason why an order was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub enum OrderError {
    /// No isolated component has that name.
    Unknown,
    /// The component's state does not allow the order: it is not running, or running already.
    State,
    /// The supervisor did not answer.
    Lost,
}

/// Shows and controls isolated components.
pub trait Supervisor: Send + Sync {
    /// Returns the status of every isolated component, in the order of starting.
    fn status(&self) -> Vec<Status>;
    /// Carries out `order`. When this returns the component has ended, but may not have been started again.
    ///
    /// # Errors
    /// [`OrderError`].
    fn order(&self, name: &str, order: Order) -> Result<(), OrderError>;
    /// Returns a count that changes with every change of a component's state.
    fn changes(&self) -> u64;
}

/// The isolated components that clients of a world may call, by name. In the kernel world the supervisor implements it, in the
/// process world what the supervisor tells the process ([`Introduction`](crate::introduction::Introduction)).
pub trait Services: Send + Sync {
    /// Returns the endpoint at which the component `name` is called, or `None` if there is no such component.
    fn endpoint(&self, name: &str) -> Option<Endpoint>;
    /// Returns whether the component `name` answers calls. Blocks while it is known that it will answer later.
    fn wait_for_service(&self, name: &str) -> bool;
    /// Returns the number of the running component's start, or `None` if it does not run.
    fn generation(&self, name: &str) -> Option<u64>;
    /// Returns the running driver of the component `name`, with the window by which frames are lent to its devices; if none runs,
    /// no generation and the default window. A process cannot lend frames.
    fn running(&self, name: &str) -> RunningDriver;
    /// Reports a fault of the component `name`, which is ended as a failure because of `cause`.
    fn blame(&self, name: &str, cause: &str);
    /// Calls `listener` for the component `name` from now on. Returns `false` if there is no such component.
    fn listen(&self, name: &str, listener: Arc<dyn Listener>) -> bool;
}
