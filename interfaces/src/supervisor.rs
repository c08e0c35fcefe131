//! The supervisor of isolated components: for who shows and steers them, and for who uses what they serve.
//!
//! Both sides live in the kernel world, so these are plain traits and no messages.
use crate::overdue::Check;
use alloc::{string::String, sync::Arc, vec::Vec};
use rt::{time::Instant, trace::TraceRecord};

/// Told what becomes of a component, by whoever uses it. On a thread of the supervisor: must not block for
/// long.
pub trait Listener: Send + Sync {
    /// A successor answers at the component's endpoint. It knows nothing of its predecessor: who had
    /// attached memory attaches it again and asks again what was not answered.
    ///
    /// # Errors
    /// In words, where it does not do what it must; it is ended as a failure.
    fn started(&self) -> Result<(), String>;
    /// Looks for what the component was given and has not done for too long; called at each check of one that runs, which is
    /// ended as a failure for what is said in words.
    fn overdue(&self, check: &Check) -> Option<String> {
        let _ = check;
        None
    }
    /// It will not come back by itself: calls end with `Gone` until somebody starts it.
    fn given_up(&self);
}

/// The state of an isolated component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Started, and has not answered yet.
    Starting,
    /// It answers.
    Running,
    /// It failed and is started again after a pause.
    Waiting,
    /// Stopped on request. Its callers wait.
    Stopped,
    /// It failed more often than it may: not started again but on request. Its callers are refused.
    Degraded,
}

impl State {
    /// In a word.
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
#[derive(Clone, Debug)]
pub struct Ending {
    /// Time of the end.
    pub at: Instant,
    /// Cause, in words.
    pub cause: String,
    /// Its registers, by name; empty where it was not its own doing.
    pub registers: Vec<(&'static str, u64)>,
    /// Its calls: functions from the innermost outwards.
    pub backtrace: Vec<String>,
    /// The system's last trace records then, oldest first.
    pub trace: Vec<TraceRecord>,
}

/// An isolated component now.
#[derive(Clone, Debug)]
pub struct Status {
    /// Its name.
    pub name: &'static str,
    /// Its state.
    pub state: State,
    /// When it was started last.
    pub started: Instant,
    /// Times it was started again.
    pub restarts: u64,
    /// From its last end to its successor's first answer.
    pub outage_ns: u64,
    /// Memory it has.
    pub memory_bytes: usize,
    /// Memory it may have.
    pub memory_bytes_max: usize,
    /// Share of all processors' time that it may have while other threads want it, in percent.
    pub share_percent: u8,
    /// Threads it has.
    pub threads: usize,
    /// Processor time of its threads.
    pub cpu_ns: u64,
    /// Kernel calls it made, since it was started last.
    pub calls: u64,
    /// The calls that it was refused since boot, by the name of the kernel call.
    pub refused: Vec<(&'static str, u64)>,
    /// Its last ends, the latest first.
    pub endings: Vec<Ending>,
}

/// An order about a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Start it; also one that was given up.
    Start,
    /// End it until it is started.
    Stop,
    /// End it and start it again at once.
    Restart,
    /// End it as if it had failed at that moment, at once and without a word to it, and start it again. Not
    /// counted as a failure.
    Kill,
}

/// Why an order was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderError {
    /// No isolated component has that name.
    Unknown,
    /// It is in no state for that: not running, or running already.
    State,
}

/// Shows and steers isolated components.
pub trait Supervisor: Send + Sync {
    /// Every isolated component, in the order of starting.
    fn status(&self) -> Vec<Status>;
    /// Carries out `order`; it has ended (not: started again) when this returns.
    ///
    /// # Errors
    /// [`OrderError`].
    fn order(&self, name: &str, order: Order) -> Result<(), OrderError>;
    /// The component `name` does what it must not: ends it as a failure because of `cause`.
    fn blame(&self, name: &str, cause: String);
    /// Tells `listener` of the component `name` from now on; `false` where there is none.
    fn listen(&self, name: &str, listener: Arc<dyn Listener>) -> bool;
    /// Counts what happens to components: changes with every change of state.
    fn changes(&self) -> u64;
}
