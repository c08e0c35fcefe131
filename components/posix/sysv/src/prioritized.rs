//! [`PriorityQueue`]: a POSIX message queue (Linux `ipc/mqueue.c`).
//!
//! Messages come out by priority, and within one in their order. Sleepers are served by the rank of their tasks, and within one
//! in their order. A message that a sleeping receiver takes never enters the queue; a sleeping sender's message enters it as
//! soon as another one is received.
use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

/// Number of priorities; each is below this (MQ_PRIO_MAX).
pub const PRIORITIES: u32 = 32_768;

/// A message.
#[derive(Debug)]
pub struct PrioritizedMessage<B> {
    /// Its priority.
    pub priority: u32,
    /// Its length in bytes.
    pub length: usize,
    /// Its bytes.
    pub body: B,
}

#[derive(Debug)]
struct Sleeper<W, T> {
    rank: i32,
    waiter: W,
    what: T,
}

/// The result of sending a message.
#[derive(Debug)]
pub enum Sent<B, W> {
    /// The message is in the queue and is the only one there.
    First,
    /// The message is in the queue.
    Queued,
    /// This sleeping receiver gets the message.
    Received(W, PrioritizedMessage<B>),
}

/// A message queue.
#[derive(Debug)]
pub struct PriorityQueue<B, W> {
    most: usize,
    messages: BTreeMap<u32, VecDeque<PrioritizedMessage<B>>>,
    count: usize,
    bytes: usize,
    receivers: Vec<Sleeper<W, ()>>,
    senders: Vec<Sleeper<W, PrioritizedMessage<B>>>,
}

/// Adds a sleeping call after those of its rank and above.
fn enter<W, T>(sleepers: &mut Vec<Sleeper<W, T>>, sleeper: Sleeper<W, T>) {
    let at = sleepers.partition_point(|other| other.rank >= sleeper.rank);
    sleepers.insert(at, sleeper);
}

/// Removes the first sleeping call.
fn first<W, T>(sleepers: &mut Vec<Sleeper<W, T>>) -> Option<Sleeper<W, T>> {
    (!sleepers.is_empty()).then(|| sleepers.remove(0))
}

impl<B, W: PartialEq> PriorityQueue<B, W> {
    /// Makes an empty queue of at most `most` messages.
    pub fn new(most: usize) -> PriorityQueue<B, W> {
        PriorityQueue {
            most,
            messages: BTreeMap::new(),
            count: 0,
            bytes: 0,
            receivers: Vec::new(),
            senders: Vec::new(),
        }
    }
    /// Returns the number of messages in it.
    pub fn count(&self) -> usize {
        self.count
    }
    /// Returns the number of bytes of all messages.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// Returns whether a sender has to wait.
    pub fn is_full(&self) -> bool {
        self.count >= self.most
    }
    /// Puts a message into a queue that is not full, or gives it to a sleeping receiver.
    pub fn send(&mut self, message: PrioritizedMessage<B>) -> Sent<B, W> {
        match first(&mut self.receivers) {
            Some(receiver) => Sent::Received(receiver.waiter, message),
            None => {
                self.insert(message);
                if self.count == 1 { Sent::First } else { Sent::Queued }
            }
        }
    }
    fn insert(&mut self, message: PrioritizedMessage<B>) {
        self.count += 1;
        self.bytes += message.length;
        self.messages.entry(message.priority).or_default().push_back(message);
    }
    /// Removes the first message. Also returns the sender whose message has taken its place in the queue.
    pub fn receive(&mut self) -> Option<(PrioritizedMessage<B>, Option<W>)> {
        let mut highest = self.messages.last_entry()?;
        let message = highest.get_mut().pop_front()?;
        if highest.get().is_empty() {
            highest.remove();
        }
        self.count -= 1;
        self.bytes -= message.length;
        let sender = first(&mut self.senders).map(|sender| {
            self.insert(sender.what);
            sender.waiter
        });
        Some((message, sender))
    }
    /// Makes a receiver of this rank sleep.
    pub fn sleep_receiving(&mut self, rank: i32, waiter: W) {
        enter(&mut self.receivers, Sleeper { rank, waiter, what: () });
    }
    /// Makes a sender of this rank sleep.
    pub fn sleep_sending(&mut self, rank: i32, message: PrioritizedMessage<B>, waiter: W) {
        enter(&mut self.senders, Sleeper { rank, waiter, what: message });
    }
    /// Removes a sleeping call, with the message of a sender; returns `false` if it was served before.
    pub fn leave(&mut self, waiter: &W) -> bool {
        let before = self.receivers.len() + self.senders.len();
        self.receivers.retain(|sleeper| sleeper.waiter != *waiter);
        self.senders.retain(|sleeper| sleeper.waiter != *waiter);
        before != self.receivers.len() + self.senders.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    fn message(priority: u32, body: u32) -> PrioritizedMessage<u32> {
        PrioritizedMessage { priority, length: body as usize % 7, body }
    }

    #[test]
    fn sleepers_are_served_by_rank_and_then_in_their_order() {
        let mut queue = PriorityQueue::new(1);
        for (rank, waiter) in [(0, 'a'), (5, 'b'), (0, 'c'), (5, 'd')] {
            queue.sleep_receiving(rank, waiter);
        }
        assert!(queue.leave(&'a') && !queue.leave(&'a'));
        for wanted in ['b', 'd', 'c'] {
            assert!(
                matches!(queue.send(message(0, 1)), Sent::Received(waiter, _) if waiter == wanted)
            );
        }
        assert!(matches!(queue.send(message(0, 1)), Sent::First));
        assert!(queue.is_full());
        queue.sleep_sending(1, message(0, 8), 's');
        queue.sleep_sending(2, message(3, 9), 't');
        let (taken, sender) = queue.receive().unwrap();
        assert_eq!((taken.body, sender), (1, Some('t')));
        assert!(queue.leave(&'s'));
        assert_eq!(queue.receive().map(|(taken, sender)| (taken.body, sender)), Some((9, None)));
        assert!(queue.receive().is_none());
    }

    #[test]
    fn random_messages_come_out_as_from_a_sorted_list() {
        let mut random = Random::new(5);
        let mut queue: PriorityQueue<u32, u32> = PriorityQueue::new(20);
        let mut list: Vec<(u32, u32)> = Vec::new();
        for body in 0..100_000 {
            if random.below(2) == 0 && !queue.is_full() {
                let priority = random.below(6) as u32;
                let sent = queue.send(message(priority, body));
                assert_eq!(matches!(sent, Sent::First), list.is_empty());
                list.push((priority, body));
            } else {
                let highest = list.iter().map(|one| one.0).max();
                let at = list.iter().position(|one| Some(one.0) == highest);
                let wanted = at.map(|at| list.remove(at).1);
                assert_eq!(queue.receive().map(|(message, _)| message.body), wanted);
            }
            assert_eq!((queue.count(), queue.is_full()), (list.len(), list.len() == 20));
            let bytes: usize = list.iter().map(|one| one.1 as usize % 7).sum();
            assert_eq!(queue.bytes(), bytes);
        }
    }
}
