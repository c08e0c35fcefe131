//! [`TypedQueue`]: a message queue of System V IPC (Linux `ipc/msg.c`).
//!
//! A message that a sleeping receiver takes never enters the queue. Receivers are asked in the order in which they came; a
//! receiver for whom a fitting message is too long is refused and does not keep the message from others.
use super::Refusal;
use alloc::{collections::VecDeque, vec::Vec};

/// A message: its type and its bytes.
#[derive(Debug)]
pub struct TypedMessage<B> {
    /// The type of the message, above 0.
    pub kind: i64,
    /// Its length in bytes.
    pub length: usize,
    /// Its bytes.
    pub body: B,
}

/// The messages that a receiver accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageChoice {
    /// The first message.
    Any,
    /// The first message of this type.
    Equal(i64),
    /// The first message of another type (MSG_EXCEPT).
    Except(i64),
    /// The first of the messages with the lowest type, if that is at most this.
    AtMost(i64),
}

impl MessageChoice {
    /// Decodes the type that msgrcv(2) is given.
    pub fn decode(kind: i64) -> MessageChoice {
        match kind {
            0 => MessageChoice::Any,
            i64::MIN => MessageChoice::AtMost(i64::MAX),
            kind if kind < 0 => MessageChoice::AtMost(-kind),
            kind => MessageChoice::Equal(kind),
        }
    }
    /// Decodes the type that msgrcv(2) is given with MSG_EXCEPT.
    pub fn decode_except(kind: i64) -> MessageChoice {
        match MessageChoice::decode(kind) {
            MessageChoice::Equal(kind) => MessageChoice::Except(kind),
            other => other,
        }
    }
    fn takes(self, kind: i64) -> bool {
        match self {
            MessageChoice::Any => true,
            MessageChoice::Equal(wanted) => kind == wanted,
            MessageChoice::Except(other) => kind != other,
            MessageChoice::AtMost(most) => kind <= most,
        }
    }
}

/// The arguments of a receiver.
#[derive(Clone, Copy, Debug)]
pub struct Receive {
    /// The messages that the receiver wants.
    pub wanted: MessageChoice,
    /// Greatest length of a message that is received; [`usize::MAX`] if longer ones are cut (MSG_NOERROR).
    pub room: usize,
}

/// The answer that wakes a sleeping receiver.
#[derive(Debug)]
pub enum Delivery<B> {
    /// The receiver gets a message.
    Message(TypedMessage<B>),
    /// The receiver must ask again, because permissions may have changed.
    Again,
    /// The receiver gets an error.
    Refused(Refusal),
}

#[derive(Debug)]
struct Receiver<W> {
    receive: Receive,
    waiter: W,
}

#[derive(Debug)]
struct Sender<W> {
    length: usize,
    waiter: W,
}

/// The sleepers that an operation wakes.
#[derive(Debug)]
pub struct Woken<B, W> {
    /// The receivers to be woken, and their deliveries.
    pub receivers: Vec<(W, Delivery<B>)>,
    /// The senders to be woken, which try again.
    pub senders: Vec<W>,
}

impl<B, W> Woken<B, W> {
    /// Makes an empty list.
    pub fn nobody() -> Woken<B, W> {
        Woken { receivers: Vec::new(), senders: Vec::new() }
    }
}

/// A message queue.
#[derive(Debug)]
pub struct TypedQueue<B, W> {
    messages: VecDeque<TypedMessage<B>>,
    bytes: usize,
    bytes_max: u64,
    receivers: VecDeque<Receiver<W>>,
    senders: VecDeque<Sender<W>>,
}

impl<B, W: PartialEq + Clone> TypedQueue<B, W> {
    /// Makes an empty queue that holds at most `bytes_max` bytes, and as many messages.
    pub fn new(bytes_max: u64) -> TypedQueue<B, W> {
        TypedQueue {
            messages: VecDeque::new(),
            bytes: 0,
            bytes_max,
            receivers: VecDeque::new(),
            senders: VecDeque::new(),
        }
    }
    /// Returns the number of messages in it.
    pub fn count(&self) -> usize {
        self.messages.len()
    }
    /// Returns the number of their bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// Returns the number of bytes that it may hold.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }
    /// Returns whether a message of `length` bytes fits.
    pub fn has_room(&self, length: usize) -> bool {
        (self.bytes + length) as u64 <= self.bytes_max && (self.count() as u64) < self.bytes_max
    }
    /// Gives a message to a sleeping receiver that wants it, which is added to `woken`, or puts it into the queue. Returns
    /// whether it was received.
    pub fn send(&mut self, message: TypedMessage<B>, woken: &mut Woken<B, W>) -> bool {
        let takes = |receiver: &Receiver<W>| receiver.receive.wanted.takes(message.kind);
        while let Some(at) = self.receivers.iter().position(takes) {
            let Some(receiver) = self.receivers.remove(at) else { break };
            if receiver.receive.room >= message.length {
                woken.receivers.push((receiver.waiter, Delivery::Message(message)));
                return true;
            }
            let refused = Delivery::Refused(Refusal::TooLong);
            woken.receivers.push((receiver.waiter, refused));
        }
        self.bytes += message.length;
        self.messages.push_back(message);
        false
    }
    /// Removes the first wanted message, if there is one, and wakes senders that have room now.
    ///
    /// # Errors
    /// [`Refusal::TooLong`].
    pub fn receive(
        &mut self,
        receive: &Receive,
        woken: &mut Woken<B, W>,
    ) -> Result<Option<TypedMessage<B>>, Refusal> {
        let Some(at) = self.find(receive.wanted) else { return Ok(None) };
        if self.messages.get(at).is_some_and(|message| message.length > receive.room) {
            return Err(Refusal::TooLong);
        }
        let message = self.messages.remove(at);
        if let Some(message) = &message {
            self.bytes -= message.length;
            self.wake_senders(woken);
        }
        Ok(message)
    }
    /// Returns the message at a position in the queue (MSG_COPY).
    pub fn at(&self, place: i64) -> Option<&TypedMessage<B>> {
        self.messages.get(usize::try_from(place).ok()?)
    }
    fn find(&self, wanted: MessageChoice) -> Option<usize> {
        let mut fitting =
            self.messages.iter().enumerate().filter(|(_, message)| wanted.takes(message.kind));
        match wanted {
            MessageChoice::AtMost(_) => fitting.min_by_key(|(_, message)| message.kind),
            _ => fitting.next(),
        }
        .map(|(at, _)| at)
    }
    /// Makes a receiver sleep until [`TypedQueue::send`] finds it.
    pub fn sleep_receiving(&mut self, receive: Receive, waiter: W) {
        self.receivers.push_back(Receiver { receive, waiter });
    }
    /// Makes the sender of a message of `length` bytes sleep until there may be room.
    pub fn sleep_sending(&mut self, length: usize, waiter: W) {
        self.senders.push_back(Sender { length, waiter });
    }
    /// Removes a sleeping call; returns `false` if it was woken before.
    pub fn leave(&mut self, waiter: &W) -> bool {
        let before = self.receivers.len() + self.senders.len();
        self.receivers.retain(|receiver| receiver.waiter != *waiter);
        self.senders.retain(|sender| sender.waiter != *waiter);
        before != self.receivers.len() + self.senders.len()
    }
    /// Sets another size (IPC_SET). Sleeping receivers check again, and senders that may have room try again.
    pub fn set_bytes_max(&mut self, bytes_max: u64, woken: &mut Woken<B, W>) {
        self.bytes_max = bytes_max;
        let receivers = self.receivers.drain(..).map(|one| (one.waiter, Delivery::Again));
        woken.receivers.extend(receivers);
        self.wake_senders(woken);
    }
    /// Called when the queue is removed: wakes every sleeping call. Returns the messages, which are to be dropped without
    /// a lock.
    pub fn remove(&mut self, woken: &mut Woken<B, W>) -> VecDeque<TypedMessage<B>> {
        let refused = || Delivery::Refused(Refusal::Removed);
        woken.receivers.extend(self.receivers.drain(..).map(|one| (one.waiter, refused())));
        woken.senders.extend(self.senders.drain(..).map(|one| one.waiter));
        self.bytes = 0;
        core::mem::take(&mut self.messages)
    }
    /// Wakes the senders that have room now. The others are moved behind those that come later (`ss_wakeup`).
    fn wake_senders(&mut self, woken: &mut Woken<B, W>) {
        let waiting = core::mem::take(&mut self.senders);
        for sender in waiting {
            if self.has_room(sender.length) {
                woken.senders.push(sender.waiter);
            } else {
                self.senders.push_back(sender);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    type Numbers = TypedQueue<u32, u32>;

    fn send(queue: &mut Numbers, kind: i64, length: usize, body: u32) -> Woken<u32, u32> {
        let mut woken = Woken::nobody();
        queue.send(TypedMessage { kind, length, body }, &mut woken);
        woken
    }

    fn take(queue: &mut Numbers, wanted: MessageChoice) -> Option<u32> {
        let receive = Receive { wanted, room: usize::MAX };
        let message = queue.receive(&receive, &mut Woken::nobody()).unwrap();
        message.map(|message| message.body)
    }

    #[test]
    fn types_choose_the_message() {
        let mut queue = TypedQueue::new(100);
        for (body, kind) in [5, 3, 3, 9].into_iter().enumerate() {
            send(&mut queue, kind, 1, body as u32);
        }
        assert_eq!(take(&mut queue, MessageChoice::decode(-2)), None);
        assert_eq!(
            take(&mut queue, MessageChoice::decode(i64::MIN)),
            Some(1),
            "the lowest type, the oldest"
        );
        assert_eq!(take(&mut queue, MessageChoice::decode_except(5)), Some(2), "another type");
        assert_eq!(take(&mut queue, MessageChoice::decode(9)), Some(3));
        assert_eq!(take(&mut queue, MessageChoice::decode(9)), None);
        assert_eq!(take(&mut queue, MessageChoice::decode(0)), Some(0));
        assert_eq!((queue.count(), queue.bytes()), (0, 0));
    }

    #[test]
    fn a_message_goes_to_the_first_receiver_that_wants_it_and_has_room() {
        let mut queue = TypedQueue::new(100);
        let receive = |kind, room| Receive { wanted: MessageChoice::decode(kind), room };
        queue.sleep_receiving(receive(2, 9), 1);
        queue.sleep_receiving(receive(0, 3), 2);
        queue.sleep_receiving(receive(1, 9), 3);
        let woken = send(&mut queue, 1, 5, 77);
        assert!(matches!(
            woken.receivers.as_slice(),
            [
                (2, Delivery::Refused(Refusal::TooLong)),
                (3, Delivery::Message(TypedMessage { body: 77, .. }))
            ]
        ));
        assert!(queue.leave(&1) && !queue.leave(&1));
    }

    #[test]
    fn senders_wake_where_their_message_fits() {
        let mut queue = TypedQueue::new(10);
        send(&mut queue, 1, 4, 0);
        send(&mut queue, 1, 6, 1);
        for (length, waiter) in [(7, 1), (3, 2), (4, 3)] {
            assert!(!queue.has_room(length));
            queue.sleep_sending(length, waiter);
        }
        let mut woken = Woken::nobody();
        let receive = Receive { wanted: MessageChoice::Any, room: 3 };
        assert_eq!(queue.receive(&receive, &mut woken).err(), Some(Refusal::TooLong));
        let receive = Receive { room: 4, ..receive };
        assert_eq!(
            queue.receive(&receive, &mut woken).unwrap().map(|message| message.body),
            Some(0)
        );
        assert_eq!(woken.senders, [2, 3], "each of them has room");
        queue.set_bytes_max(100, &mut woken);
        assert_eq!(woken.senders, [2, 3, 1]);
        assert_eq!(queue.at(0).map(|message| message.body), Some(1));
        assert!(queue.at(1).is_none() && queue.at(-1).is_none());
        assert_eq!(queue.remove(&mut woken).len(), 1);
    }

    /// Compares the queue with a list of messages, which is searched by the rules of msgrcv(2).
    #[test]
    fn random_messages_agree_with_a_list() {
        let mut random = Random::new(3);
        let mut queue: Numbers = TypedQueue::new(40);
        let mut list: Vec<(i64, usize, u32)> = Vec::new();
        for body in 0..100_000 {
            if random.below(2) == 0 {
                let (kind, length) = (1 + random.below(5) as i64, random.below(9) as usize);
                let has_room = list.iter().map(|message| message.1).sum::<usize>() + length <= 40
                    && list.len() < 40;
                assert_eq!(queue.has_room(length), has_room);
                if has_room {
                    send(&mut queue, kind, length, body);
                    list.push((kind, length, body));
                }
                continue;
            }
            let kind = random.below(13) as i64 - 6;
            let is_except = random.below(2) == 0;
            let fits = |message: &&(i64, usize, u32)| match kind {
                0 => true,
                kind if kind > 0 => (message.0 == kind) != is_except,
                kind => message.0 <= -kind,
            };
            let fitting: Vec<_> = list.iter().filter(fits).copied().collect();
            let lowest = fitting.iter().map(|message| message.0).min();
            let found = fitting.iter().find(|one| kind >= 0 || Some(one.0) == lowest).copied();
            let wanted = match is_except {
                true => MessageChoice::decode_except(kind),
                false => MessageChoice::decode(kind),
            };
            assert_eq!(take(&mut queue, wanted), found.map(|message| message.2));
            list.retain(|message| Some(message.2) != found.map(|found| found.2));
            assert_eq!(queue.count(), list.len());
        }
    }
}
