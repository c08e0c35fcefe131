//! The timer thread and its heap of deadlines.
use super::data::Token;
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use rt::{
    lock_class,
    sync::{Event, Mutex, Once},
    thread::Policy,
    time::Instant,
};
use runqueue::{Node, Store};

lock_class! {
    static QUEUE_LOCK = "time.queue";
}

/// The kinds of timer of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// `ITIMER_REAL`, `ITIMER_VIRTUAL`, `ITIMER_PROF`, by number.
    Interval(u32),
    /// A POSIX timer, by id.
    Posix(i32),
    /// The limit on processor time.
    CpuLimit,
}

/// An object outside processes that waits for a time (a timerfd).
pub trait Alarm: Send + Sync {
    /// Called by the timer thread at the deadline, with no lock held.
    fn due(&self);
}

/// A process, as the owner of timers.
pub trait Timed: Send + Sync {
    /// Its timer `which` could have expired. Called by the timer thread, with no lock held.
    fn due(self: Arc<Self>, which: Which);
}

/// The receiver of a deadline.
pub enum Target {
    /// A timer of a process.
    Process(Weak<dyn Timed>, Which),
    /// Another receiver.
    Alarm(Weak<dyn Alarm>),
}

impl Target {
    fn tell(self) {
        match self {
            Target::Process(process, which) => {
                if let Some(process) = process.upgrade() {
                    process.due(which);
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

#[derive(Default)]
struct DeadlineSlot {
    node: Node<u32>,
    serial: u64,
    /// The receiver, while the slot is in the heap.
    target: Option<Target>,
}

/// The slots in which the heap's entries are stored.
#[derive(Default)]
struct DeadlineSlots {
    all: Vec<DeadlineSlot>,
    /// Returned for a number without a slot; the heap has no such number.
    nothing: Node<u32>,
}

impl Store<u32> for DeadlineSlots {
    fn node(&mut self, of: u32) -> &mut Node<u32> {
        self.all.get_mut(of as usize).map_or(&mut self.nothing, |slot| &mut slot.node)
    }
}

/// The deadlines, first one first; equal ones are in no particular order.
#[derive(Default)]
struct DeadlineHeap {
    slots: DeadlineSlots,
    free: Vec<u32>,
    order: runqueue::Heap<u32>,
    serial: u64,
    /// Time of the next check by the timer thread, if there is one.
    next_look: Option<Instant>,
}

impl DeadlineHeap {
    fn insert(&mut self, deadline: Instant, target: Target) -> Token {
        self.serial += 1;
        let mut filled =
            DeadlineSlot { node: Node::new(), serial: self.serial, target: Some(target) };
        filled.node.key = deadline.0;
        let all = &mut self.slots.all;
        let slot = self.free.pop().unwrap_or(all.len() as u32);
        match all.get_mut(slot as usize) {
            Some(place) => *place = filled,
            None => all.push(filled),
        }
        self.order.insert(&mut self.slots, slot);
        Token { slot, serial: self.serial }
    }
    fn remove(&mut self, Token { slot, serial }: Token) -> Option<Target> {
        let place = self.slots.all.get_mut(slot as usize).filter(|place| place.serial == serial)?;
        let target = place.target.take()?;
        self.order.remove(&mut self.slots, slot);
        self.free.push(slot);
        Some(target)
    }
    /// Returns the first entry and its deadline.
    fn first(&self) -> Option<(Token, Instant)> {
        let slot = self.order.peek()?;
        let DeadlineSlot { node, serial, .. } = self.slots.all.get(slot as usize)?;
        Some((Token { slot, serial: *serial }, Instant(node.key)))
    }
}

static HEAP: Once<Mutex<DeadlineHeap>> = Once::new();
static CHANGED: Event = Event::new();

#[inline]
fn heap() -> &'static Mutex<DeadlineHeap> {
    HEAP.get_or_init(|| {
        if rt::thread::spawn("timers", Policy::Fair { nice: -20 }, run).is_err() {
            log::error!("no memory for the timer thread: timers will not expire");
        }
        Mutex::new(&QUEUE_LOCK, DeadlineHeap::default())
    })
}

/// Registers `target` to be told at `deadline`.
pub fn arm(deadline: Instant, target: Target) -> Token {
    let mut heap = heap().lock();
    let token = heap.insert(deadline, target);
    // `next_look` stays when its entry is removed: the timer thread then wakes once in vain, which is cheaper than a wake
    // each time that a timer is set again.
    let is_early = heap.next_look.is_none_or(|look| deadline < look);
    drop(heap);
    if is_early {
        CHANGED.signal();
    }
    token
}

/// Removes an entry; has no effect if its deadline has passed already.
pub fn disarm(token: Token) {
    let removed = heap().lock().remove(token);
    drop(removed);
}

/// The main function of the timer thread.
fn run() {
    loop {
        let ticket = CHANGED.ticket();
        let next = {
            let mut heap = heap().lock();
            match heap.first() {
                Some((token, deadline)) if deadline <= rt::time::now() => Err(heap.remove(token)),
                first => {
                    heap.next_look = first.map(|(_, deadline)| deadline);
                    Ok(heap.next_look)
                }
            }
        };
        match next {
            Err(Some(target)) => target.tell(),
            Err(None) => {}
            Ok(deadline) => {
                CHANGED.wait(ticket, deadline);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Process;

    fn heap_of(deadlines: &[u64]) -> (DeadlineHeap, Vec<Token>) {
        let mut heap = DeadlineHeap::default();
        let target = || Target::Process(Weak::<Process>::new(), Which::CpuLimit);
        let tokens = deadlines.iter().map(|at| heap.insert(Instant(*at), target())).collect();
        (heap, tokens)
    }

    #[test]
    fn the_earliest_deadline_comes_first() {
        let (mut heap, _) = heap_of(&[30, 10, 50, 20, 40, 10]);
        let mut seen = Vec::new();
        while let Some((token, deadline)) = heap.first() {
            seen.push(deadline.0);
            assert!(heap.remove(token).is_some());
        }
        assert_eq!(seen, [10, 10, 20, 30, 40, 50]);
    }

    #[test]
    fn a_token_names_one_entry_only() {
        let (mut heap, tokens) = heap_of(&[1, 2, 3]);
        assert!(heap.remove(tokens[1]).is_some());
        assert!(heap.remove(tokens[1]).is_none(), "it has gone");
        let next =
            heap.insert(Instant(4), Target::Process(Weak::<Process>::new(), Which::CpuLimit));
        assert_eq!(next.slot, tokens[1].slot);
        assert!(heap.remove(tokens[1]).is_none(), "its slot is another's now");
        assert_eq!(heap.first().map(|(_, deadline)| deadline), Some(Instant(1)));
        assert_eq!(heap.slots.all.len(), 3);
    }
}
