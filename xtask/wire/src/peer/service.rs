//! [`Service`]s that a peer offers, and [`Conversation`]: one connection to one of them.
//!
//! | port | service |
//! | --- | --- |
//! | 7 | `Echo`: sends back what comes |
//! | 9 | `Sink`: takes all; at the end it answers `LENGTH CRC`, the number of bytes and their CRC-32 |
//! | 11 | `Call`: takes a line `PORT LENGTH SEED`; connects to this port of the caller, sends that pattern and expects it back; answers `right LENGTH` or `wrong: REASON` |
//! | 19 | `Source`: takes a line `LENGTH SEED`, and sends that pattern; after a line `SEED` it sends until the caller closes |
use super::{
    TalkId,
    talk::{Outcome, Sender},
};
use crate::pattern::{Stream, Sum};
use smoltcp::socket::tcp::{Socket, State};

/// A service over TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// It sends back what comes.
    Echo,
    /// It sums what comes.
    Sink,
    /// It calls back.
    Call,
    /// It sends a pattern.
    Source,
}

/// The port of echoes, by TCP and by UDP.
pub const ECHO: u16 = 7;

impl Service {
    /// All services.
    pub const ALL: [Service; 4] = [Service::Echo, Service::Sink, Service::Call, Service::Source];

    /// Returns its port.
    pub fn port(self) -> u16 {
        match self {
            Service::Echo => ECHO,
            Service::Sink => 9,
            Service::Call => 11,
            Service::Source => 19,
        }
    }
}

/// The work that the services have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Connections that were established.
    pub connections: u64,
    /// Bytes sent back.
    pub echoed: u64,
    /// Bytes that the sink took.
    pub sunk: u64,
    /// Bytes of answers and patterns.
    pub sent: u64,
    /// Datagrams sent back.
    pub datagrams: u64,
}

/// The state of a conversation.
enum Stage {
    /// Nobody has connected.
    Waiting,
    Echo,
    Sink(Sum),
    /// The line so far.
    Line(Vec<u8>),
    Calling(TalkId),
    /// Its last words.
    Answer(Sender),
    /// A pattern without an end.
    Endless(Sender),
}

/// One connection to a service, or a socket that waits for one.
pub struct Conversation {
    /// The service.
    pub service: Service,
    stage: Stage,
}

/// A request of a conversation to its peer.
pub enum Wish {
    /// Nothing.
    None,
    /// To connect to this port of its caller.
    Call {
        /// The port.
        port: u16,
        /// The bytes to send, and to expect back.
        stream: Stream,
    },
}

/// Greatest length of a line.
const LINE: usize = 80;

impl Conversation {
    /// Makes one that waits for its caller.
    pub fn new(service: Service) -> Conversation {
        Conversation { service, stage: Stage::Waiting }
    }

    /// Continues after the peer has done what was asked.
    pub fn called(&mut self, talk: TalkId) {
        self.stage = Stage::Calling(talk);
    }

    /// Returns the call that this conversation waits for.
    pub fn awaited(&self) -> Option<TalkId> {
        match self.stage {
            Stage::Calling(talk) => Some(talk),
            _ => None,
        }
    }

    /// Continues after the call that it waits for has ended.
    pub fn heard(&mut self, outcome: &Outcome) {
        self.answer(match outcome {
            Ok(length) => format!("right {length}\n"),
            Err(why) => format!("wrong: {why}\n"),
        });
    }

    fn answer(&mut self, text: String) {
        self.stage = Stage::Answer(Sender::new(Stream::Text(text)));
    }

    /// Does as much as it can. Returns its wish, and whether it did anything.
    pub fn step(&mut self, socket: &mut Socket<'_>, served: &mut Served) -> (Wish, bool) {
        match &mut self.stage {
            Stage::Waiting => (Wish::None, self.begin(socket, served)),
            Stage::Echo => (Wish::None, echo(socket, served)),
            Stage::Sink(sum) => {
                let count = take(socket, |bytes| sum.add(bytes));
                served.sunk += count;
                let is_over = is_silent(socket);
                if is_over {
                    let text = format!("{sum}\n");
                    self.answer(text);
                }
                (Wish::None, count > 0 || is_over)
            }
            Stage::Line(line) => match read_line(socket, line) {
                Some(line) => (self.obey(&line), true),
                None => (Wish::None, false),
            },
            Stage::Calling(_) => (Wish::None, false),
            Stage::Answer(sender) => {
                let count = sender.step(socket);
                served.sent += count;
                (Wish::None, count > 0)
            }
            Stage::Endless(sender) => {
                let count = sender.step(socket);
                served.sent += count;
                if is_silent(socket) && socket.may_send() {
                    socket.close();
                }
                (Wish::None, count > 0)
            }
        }
    }

    /// Begins once a caller is there.
    fn begin(&mut self, socket: &Socket<'_>, served: &mut Served) -> bool {
        let is_there = matches!(socket.state(), State::Established | State::CloseWait);
        if is_there {
            served.connections += 1;
            self.stage = match self.service {
                Service::Echo => Stage::Echo,
                Service::Sink => Stage::Sink(Sum::default()),
                Service::Call | Service::Source => Stage::Line(Vec::new()),
            };
        }
        is_there
    }

    /// Does what a line says.
    fn obey(&mut self, line: &str) -> Wish {
        let numbers: Option<Vec<u64>> =
            line.split_whitespace().map(|word| word.parse().ok()).collect();
        match (self.service, numbers.as_deref()) {
            (Service::Source, Some(&[length, seed])) => {
                self.stage = Stage::Answer(Sender::new(Stream::Pattern { seed, length }));
                Wish::None
            }
            (Service::Source, Some(&[seed])) => {
                let length = u64::MAX;
                self.stage = Stage::Endless(Sender::new(Stream::Pattern { seed, length }));
                Wish::None
            }
            (Service::Call, Some(&[port, length, seed])) if u16::try_from(port).is_ok() => {
                Wish::Call { port: port as u16, stream: Stream::Pattern { seed, length } }
            }
            _ => {
                self.answer(format!("wrong: {line:?} is not understood\n"));
                Wish::None
            }
        }
    }
}

/// Whether the caller has closed its side and all that it sent is read.
fn is_silent(socket: &Socket<'_>) -> bool {
    !socket.may_recv() && socket.is_active()
}

/// Reads all that has come. Returns the number of bytes.
fn take(socket: &mut Socket<'_>, mut each: impl FnMut(&[u8])) -> u64 {
    let mut count = 0;
    while socket.can_recv() {
        let read = |bytes: &mut [u8]| {
            each(bytes);
            (bytes.len(), bytes.len())
        };
        let Ok(length) = socket.recv(read) else { break };
        count += length as u64;
    }
    count
}

fn echo(socket: &mut Socket<'_>, served: &mut Served) -> bool {
    let mut count = 0;
    while socket.can_recv() && socket.can_send() {
        let room = socket.send_capacity() - socket.send_queue();
        let Ok(bytes) = socket.recv(|bytes| {
            let length = bytes.len().min(room);
            (length, bytes[..length].to_vec())
        }) else {
            break;
        };
        let Ok(sent) = socket.send_slice(&bytes) else { break };
        debug_assert_eq!(sent, bytes.len());
        count += sent as u64;
    }
    served.echoed += count;
    if is_silent(socket) && socket.may_send() {
        socket.close();
    }
    count > 0
}

/// Reads on until the end of a line, of the input, or of patience. Returns the line then.
fn read_line(socket: &mut Socket<'_>, line: &mut Vec<u8>) -> Option<String> {
    while socket.can_recv() && line.len() < LINE && !line.ends_with(b"\n") {
        let mut byte = [0];
        socket.recv_slice(&mut byte).ok()?;
        line.extend(byte);
    }
    let is_over = line.ends_with(b"\n") || line.len() >= LINE || is_silent(socket);
    is_over.then(|| String::from_utf8_lossy(line).trim().to_owned())
}
