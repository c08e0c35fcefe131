//! The timer thread and its heap of deadlines.
use crate::process::Process;
use alloc::{collections::BTreeMap, sync::Weak};
use rt::{
    lock_class,
    sync::{Event, Mutex, Once},
    thread::Policy,
    time::Instant,
};

lock_class! {
    static QUEUE_LOCK = "time.queue";
}

/// The timer of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// `ITIMER_REAL`, `ITIMER_VIRTUAL`, `ITIMER_PROF`, by number.
    Interval(u32),
    /// A POSIX timer, by id.
    Posix(i32),
    /// The limit on processor time.
    CpuLimit,
}

/// A thing outside processes that waits for a moment (a timerfd).
pub trait Alarm: Send + Sync {
    /// The moment has come. Called by the timer thread, with no lock held.
    fn due(&self);
}

/// The receiver of a deadline.
pub enum Target {
    /// A timer of a process.
    Process(Weak<Process>, Which),
    /// Something else.
    Alarm(Weak<dyn Alarm>),
}

impl Target {
    fn tell(self) {
        match self {
            Target::Process(process, which) => {
                if let Some(process) = process.upgrade() {
                    super::timers::due(&process, which);
                }
            }
            Target::Alarm(alarm) => {
                if let Some(alarm) = alarm.upgrade() {
                    alarm.due();
                }
            }
        }
    }
}

/// Names an entry of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token {
    deadline: Instant,
    serial: u64,
}

#[derive(Default)]
struct Heap {
    entries: BTreeMap<Token, Target>,
    serial: u64,
    /// When the timer thread looks again by itself, if it has looked and found anything.
    next_look: Option<Instant>,
}

static HEAP: Once<Mutex<Heap>> = Once::new();
static CHANGED: Event = Event::new();

fn heap() -> &'static Mutex<Heap> {
    HEAP.get_or_init(|| {
        if rt::thread::spawn("timers", Policy::Fair { nice: -20 }, run).is_err() {
            log::error!("no memory for the timer thread: timers will not expire");
        }
        Mutex::new(&QUEUE_LOCK, Heap::default())
    })
}

/// Has `target` told when `deadline` has come.
pub fn arm(deadline: Instant, target: Target) -> Token {
    let mut heap = heap().lock();
    heap.serial += 1;
    let token = Token { deadline, serial: heap.serial };
    heap.entries.insert(token, target);
    // Where what it waits for was taken back, it looks once too often, and not each time that a timer is set anew.
    let is_early = heap.next_look.is_none_or(|look| deadline < look);
    drop(heap);
    if is_early {
        CHANGED.signal();
    }
    token
}

/// Takes an entry back; nothing if it has come already.
pub fn disarm(token: Token) {
    heap().lock().entries.remove(&token);
}

/// The timer thread.
fn run() {
    loop {
        let ticket = CHANGED.ticket();
        let next = {
            let mut heap = heap().lock();
            match heap.entries.first_key_value().map(|(token, _)| *token) {
                Some(first) if first.deadline <= rt::time::now() => {
                    Err(heap.entries.remove(&first))
                }
                first => {
                    heap.next_look = first.map(|token| token.deadline);
                    Ok(heap.next_look)
                }
            }
        };
        match next {
            Err(Some(target)) => target.tell(),
            Err(None) => {}
            Ok(deadline) => {
                CHANGED.wait(ticket, deadline, false);
            }
        }
    }
}
