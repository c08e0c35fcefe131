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

/// Which timer of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// `ITIMER_REAL`, `ITIMER_VIRTUAL`, `ITIMER_PROF`, by number.
    Interval(u32),
    /// A POSIX timer, by id.
    Posix(i32),
    /// The limit on processor time.
    CpuLimit,
}

/// Names an entry of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token {
    deadline: Instant,
    serial: u64,
}

#[derive(Default)]
struct Heap {
    entries: BTreeMap<Token, (Weak<Process>, Which)>,
    serial: u64,
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

/// Has the timer looked at when `deadline` has come.
pub fn arm(deadline: Instant, process: Weak<Process>, which: Which) -> Token {
    let mut heap = heap().lock();
    heap.serial += 1;
    let token = Token { deadline, serial: heap.serial };
    heap.entries.insert(token, (process, which));
    let is_first = heap.entries.first_key_value().is_some_and(|(first, _)| *first == token);
    drop(heap);
    if is_first {
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
                first => Ok(first.map(|token| token.deadline)),
            }
        };
        match next {
            Err(Some((process, which))) => {
                if let Some(process) = process.upgrade() {
                    super::timers::due(&process, which);
                }
            }
            Err(None) => {}
            Ok(deadline) => {
                CHANGED.wait(ticket, deadline, false);
            }
        }
    }
}
