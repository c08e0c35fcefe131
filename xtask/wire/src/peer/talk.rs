//! [`Sender`], which sends a stream and closes, and [`Talk`], a connection outward: it sends a stream and checks the one that
//! comes.
use crate::pattern::Stream;
use smoltcp::socket::tcp::{Socket, State};

/// A stream on its way out.
#[derive(Clone, Debug)]
pub struct Sender {
    stream: Stream,
    sent: u64,
    is_closed: bool,
}

impl Sender {
    /// Makes the sender of `stream`.
    pub fn new(stream: Stream) -> Sender {
        Sender { stream, sent: 0, is_closed: false }
    }

    /// Sends as much as there is room for, and closes this side after the last byte. Returns the number of bytes.
    pub fn step(&mut self, socket: &mut Socket<'_>) -> u64 {
        let before = self.sent;
        while socket.can_send() && self.sent < self.stream.length() {
            let fill = |buffer: &mut [u8]| {
                let count = self.stream.fill(self.sent, buffer);
                (count, count)
            };
            let Ok(count) = socket.send(fill) else { break };
            self.sent += count as u64;
        }
        if self.sent == self.stream.length() && socket.may_send() && !self.is_closed {
            socket.close();
            self.is_closed = true;
        }
        self.sent - before
    }
}

/// The end of a connection outward: the number of bytes that came, all right, or the reason why it failed.
pub type Outcome = Result<u64, String>;

/// A connection outward.
#[derive(Clone, Debug)]
pub struct Talk {
    sender: Sender,
    expected: Stream,
    received: u64,
    outcome: Option<Outcome>,
}

/// States in which the other side has closed.
const CLOSED_THERE: [State; 4] =
    [State::CloseWait, State::LastAck, State::Closing, State::TimeWait];

impl Talk {
    /// Makes a connection that sends one stream and expects the other.
    pub fn new(sent: Stream, expected: Stream) -> Talk {
        Talk { sender: Sender::new(sent), expected, received: 0, outcome: None }
    }

    /// Returns how it ended, once it has.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// Ends it without a connection.
    pub fn fail(&mut self, why: String) {
        self.outcome = Some(Err(why));
    }

    /// Sends and receives as much as it can. Returns whether it did anything.
    pub fn step(&mut self, socket: &mut Socket<'_>) -> bool {
        if self.outcome.is_some() {
            return false;
        }
        let received = self.receive(socket);
        let sent = self.sender.step(socket);
        let has_ended = CLOSED_THERE.contains(&socket.state()) && !socket.can_recv();
        let is_complete =
            self.sender.is_closed && self.received == self.expected.length() && has_ended;
        match () {
            () if self.outcome.is_some() => socket.abort(),
            () if is_complete => self.outcome = Some(Ok(self.received)),
            () if has_ended && self.received < self.expected.length() => {
                let (came, all) = (self.received, self.expected.length());
                self.fail(format!("{came} of {all} bytes came"));
                socket.abort();
            }
            () if socket.state() == State::Closed => {
                self.fail(format!("it was reset after {} bytes had come", self.received));
            }
            () => {}
        }
        received + sent > 0 || self.outcome.is_some()
    }

    fn receive(&mut self, socket: &mut Socket<'_>) -> u64 {
        let before = self.received;
        while socket.can_recv() {
            let Ok((count, wrong)) = socket.recv(|bytes| {
                (bytes.len(), (bytes.len(), self.expected.difference(self.received, bytes)))
            }) else {
                break;
            };
            self.received += count as u64;
            if let Some(wrong) = wrong {
                self.fail(format!("byte {wrong} is wrong"));
                break;
            }
        }
        self.received - before
    }
}
