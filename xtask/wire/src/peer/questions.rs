//! [`Questions`]: echo requests that a peer asks a machine, many at a time, until each has its answer: pings and datagrams to the
//! echo port, over both protocols of IP, of every size that needs no fragments.
//!
//! Question N is a ping over IPv4, a ping over IPv6, a datagram over IPv4 or one over IPv6, as N modulo 4 says. A ping's number
//! is its sequence number, a datagram's is in its first bytes. A question without an answer is asked again after a second. An answer
//! must be equal to its question, byte by byte; one that comes again, because the question was asked twice or the wire doubled it,
//! is counted and passed over.
use super::{service::ECHO, stack::Addresses};
use smoltcp::{
    iface::{SocketHandle, SocketSet},
    socket::{icmp, udp},
    wire::{IpAddress, IpEndpoint},
};
use std::{collections::BTreeMap, time::Duration};

/// A number of questions to be asked.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    /// The machine.
    pub to: Addresses,
    /// Number of questions.
    pub count: u64,
    /// Questions that wait for an answer at once.
    pub at_once: usize,
    /// The kinds of questions.
    pub kinds: Kinds,
}

/// The kinds of questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kinds {
    /// Pings alone, which any machine answers.
    Pings,
    /// Pings and datagrams.
    #[default]
    All,
}

/// The counts of a machine's questions by their outcome, so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Questions that were answered.
    pub answered: u64,
    /// Questions that were asked again.
    pub repeated: u64,
    /// Answers that came again.
    pub doubled: u64,
    /// The first wrong answer.
    pub wrong: Option<String>,
}

/// Time after which a question is asked again.
const PATIENCE: Duration = Duration::from_secs(1);
/// The identifier of our pings.
const IDENTIFIER: u16 = 0x5e44;
/// The port that our datagrams come from.
const PORT: u16 = 40007;
/// Bytes of the header of an echo request.
const PING_HEADER: usize = 8;
/// The greatest number of data bytes of a question over IPv4 and over IPv6, in a packet of 1500 bytes.
const DATA_MAX: [usize; 2] = [1472, 1452];
/// Bytes of the number in a datagram.
const NUMBER_BYTES: usize = 8;
/// Answered pings and datagrams that are remembered: 16 bits number a ping.
const REMEMBERED: u64 = 1 << 15;
/// Questions that a socket holds.
const HELD: usize = 1024;

/// A question that waits for its answer.
struct Question {
    data: Vec<u8>,
    asked_at: Duration,
}

/// The questions to one machine.
pub struct Questions {
    asking: Asking,
    pings: SocketHandle,
    datagrams: SocketHandle,
    open: BTreeMap<u64, Question>,
    next: u64,
    answers: Answers,
}

/// Returns the data of question `number`. Sizes go through all that there are.
fn data(number: u64) -> Vec<u8> {
    let round = number / 4;
    let max = DATA_MAX[(number % 2) as usize];
    // 613 is prime to both numbers of sizes.
    let length = 1 + (round * 613 % max as u64) as usize;
    let bytes = (0..length as u64).map(|at| (number * 31 + at * 7 + at / 256) as u8);
    let mut data: Vec<u8> = bytes.collect();
    if !is_ping(number) {
        data.resize(length.max(NUMBER_BYTES), 0);
        data[..NUMBER_BYTES].copy_from_slice(&number.to_be_bytes());
    }
    data
}

fn is_ping(number: u64) -> bool {
    number % 4 < 2
}

impl Questions {
    /// Makes the sockets in `sockets`, and asks nothing yet.
    pub fn new(asking: Asking, sockets: &mut SocketSet<'static>) -> Questions {
        let icmp = || {
            icmp::PacketBuffer::new(vec![icmp::PacketMetadata::EMPTY; HELD], vec![0; HELD * 1500])
        };
        let mut pings = icmp::Socket::new(icmp(), icmp());
        let udp =
            || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; HELD], vec![0; HELD * 1500]);
        let mut datagrams = udp::Socket::new(udp(), udp());
        // The numbers are not zero, and the sockets are new.
        let _ = pings.bind(icmp::Endpoint::Ident(IDENTIFIER));
        let _ = datagrams.bind(PORT);
        let (pings, datagrams) = (sockets.add(pings), sockets.add(datagrams));
        let open = BTreeMap::new();
        Questions { asking, pings, datagrams, open, next: 0, answers: Answers::default() }
    }

    /// Returns what became of the questions so far.
    pub fn answers(&self) -> &Answers {
        &self.answers
    }

    /// Returns whether nothing more is asked.
    pub fn is_over(&self) -> bool {
        self.answers.answered >= self.asking.count || self.answers.wrong.is_some()
    }

    /// Frees the sockets.
    pub fn end(&self, sockets: &mut SocketSet<'static>) {
        sockets.remove(self.pings);
        sockets.remove(self.datagrams);
    }

    /// Takes answers and asks what is due. Returns whether it did anything.
    pub fn turn(&mut self, now: Duration, sockets: &mut SocketSet<'static>) -> bool {
        let mut has_moved = false;
        let socket = sockets.get_mut::<icmp::Socket<'_>>(self.pings);
        while let Ok((bytes, _)) = socket.recv() {
            has_moved = true;
            let (header, data) = bytes.split_at(PING_HEADER.min(bytes.len()));
            if let [0 | 129, 0, _, _, _, _, high, low] = header {
                let low = u64::from(u16::from_be_bytes([*high, *low]));
                self.hear(self.ping_number(low), data);
            }
        }
        let socket = sockets.get_mut::<udp::Socket<'_>>(self.datagrams);
        while let Ok((bytes, _)) = socket.recv() {
            has_moved = true;
            let number = bytes.first_chunk().map(|number| u64::from_be_bytes(*number));
            self.hear(number, bytes);
        }
        if !self.is_over() {
            has_moved |= self.ask_all(now, sockets);
        }
        has_moved
    }

    /// Returns the number of the ping whose last 16 bits are `low`: of the last ones before the next question.
    fn ping_number(&self, low: u64) -> Option<u64> {
        let before = self.next.wrapping_sub(1).wrapping_sub(low) & 0xffff;
        self.next.checked_sub(1)?.checked_sub(before)
    }

    fn hear(&mut self, number: Option<u64>, bytes: &[u8]) {
        let is_known = |number: &u64| *number < self.next && *number + REMEMBERED >= self.next;
        let Some(number) = number.filter(is_known) else {
            return self.note_wrong("an answer to no question".to_owned());
        };
        if data(number) != bytes {
            return self.note_wrong(format!("the answer to question {number} is another"));
        }
        match self.open.remove(&number) {
            Some(_) => self.answers.answered += 1,
            None => self.answers.doubled += 1,
        }
    }

    fn note_wrong(&mut self, what: String) {
        self.answers.wrong.get_or_insert(what);
    }

    fn ask_all(&mut self, now: Duration, sockets: &mut SocketSet<'static>) -> bool {
        let mut has_asked = false;
        let due = |question: &Question| question.asked_at + PATIENCE <= now;
        let late: Vec<u64> =
            self.open.iter().filter(|(_, one)| due(one)).map(|(number, _)| *number).collect();
        for number in late {
            if let Some(question) = self.open.get_mut(&number)
                && self.asking.ask(number, &question.data, [self.pings, self.datagrams], sockets)
            {
                question.asked_at = now;
                self.answers.repeated += 1;
                has_asked = true;
            }
        }
        while self.has_more() {
            if self.asking.kinds == Kinds::Pings && !is_ping(self.next) {
                self.next += 2;
            }
            let data = data(self.next);
            if !self.asking.ask(self.next, &data, [self.pings, self.datagrams], sockets) {
                break;
            }
            self.open.insert(self.next, Question { data, asked_at: now });
            self.next += 1;
            has_asked = true;
        }
        has_asked
    }

    /// Returns whether another question may be asked now.
    fn has_more(&self) -> bool {
        let begun = self.answers.answered + self.open.len() as u64;
        self.open.len() < self.asking.at_once && begun < self.asking.count
    }

    /// Returns the time at which a question is asked again.
    pub fn next_turn(&self) -> Option<Duration> {
        if self.is_over() {
            return None;
        }
        self.open.values().map(|question| question.asked_at + PATIENCE).min()
    }
}

impl Asking {
    /// Asks a question. Returns whether there was room.
    fn ask(
        &self,
        number: u64,
        data: &[u8],
        [pings, datagrams]: [SocketHandle; 2],
        sockets: &mut SocketSet<'static>,
    ) -> bool {
        let to = match number % 2 {
            0 => IpAddress::Ipv4(self.to.v4),
            _ => IpAddress::Ipv6(self.to.v6),
        };
        if !is_ping(number) {
            let socket = sockets.get_mut::<udp::Socket<'_>>(datagrams);
            return socket.send_slice(data, IpEndpoint::new(to, ECHO)).is_ok();
        }
        let kind = if matches!(to, IpAddress::Ipv4(_)) { 8 } else { 128 };
        let [a, b] = IDENTIFIER.to_be_bytes();
        let [c, d] = (number as u16).to_be_bytes();
        // smoltcp makes the sum.
        let bytes = [&[kind, 0, 0, 0, a, b, c, d], data].concat();
        sockets.get_mut::<icmp::Socket<'_>>(pings).send_slice(&bytes, to).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_differs_or_answers_nothing_is_wrong_and_a_second_one_is_not() {
        let asking = Asking { to: Addresses::of(2), count: 8, at_once: 8, kinds: Kinds::All };
        let begun = || {
            let mut sockets = SocketSet::new(Vec::new());
            let mut questions = Questions::new(asking, &mut sockets);
            assert!(questions.turn(Duration::ZERO, &mut sockets));
            questions
        };
        let mut right = begun();
        for _ in 0..2 {
            (0..8).for_each(|number| right.hear(Some(number), &data(number)));
        }
        let expected = Answers { answered: 8, doubled: 8, ..Answers::default() };
        assert_eq!((right.answers(), right.is_over()), (&expected, true));
        let mut other = data(5);
        other[8..].iter_mut().take(1).for_each(|byte| *byte ^= 1);
        other.push(0);
        for (number, bytes) in [(Some(5), other), (Some(8), data(8)), (None, data(1))] {
            let mut wrong = begun();
            wrong.hear(number, &bytes);
            assert!(wrong.answers().wrong.is_some() && wrong.is_over(), "{number:?}");
        }
        assert_eq!(right.ping_number(7), Some(7));
        right.next = (1 << 16) + 3;
        assert_eq!((right.ping_number(2), right.ping_number(3)), (Some((1 << 16) + 2), Some(3)));
    }

    #[test]
    fn sizes_go_through_all_that_need_no_fragments() {
        for (kind, max) in DATA_MAX.into_iter().cycle().take(4).enumerate() {
            let sizes: std::collections::BTreeSet<usize> =
                (0..max as u64).map(|round| data(round * 4 + kind as u64).len()).collect();
            let least = if is_ping(kind as u64) { 1 } else { NUMBER_BYTES };
            assert!(sizes.into_iter().eq(least..=max), "kind {kind}");
        }
    }
}
