//! [`Peer`]: a machine of smoltcp as an end, and [`Handle`], by which a test asks it.
//!
//! It answers ARP, neighbour solicitations and pings, and offers the services of [`service`].
mod device;
mod questions;
mod service;
mod stack;
mod syns;
mod talk;

use crate::{
    end::{End, Receipt},
    pattern::Stream,
};
use anyhow::{Context, Result, anyhow, bail};
pub use questions::{Answers, Asking, Kinds};
pub use service::{Served, Service};
pub use stack::Addresses;
use stack::Stack;
use std::{
    net::SocketAddr,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixDatagram,
    },
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
pub use talk::Outcome;

/// The number of a connection outward.
pub type TalkId = usize;

/// The state that a peer and its handles share.
struct Shared {
    stack: Mutex<Stack>,
    /// The stack has moved.
    moved: Condvar,
}

impl Shared {
    fn stack(&self) -> MutexGuard<'_, Stack> {
        self.stack.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A machine of smoltcp.
pub struct Peer {
    shared: Arc<Shared>,
    bell: UnixDatagram,
}

/// The way of a test to a peer.
pub struct Handle {
    shared: Arc<Shared>,
    bell: UnixDatagram,
}

impl Peer {
    /// Makes a peer with these addresses, and its handle.
    ///
    /// # Errors
    /// Fails if the process may open no more files.
    pub fn new(addresses: &Addresses, seed: u64) -> Result<(Peer, Handle)> {
        let (bell, rope) = UnixDatagram::pair().context("making a peer")?;
        bell.set_nonblocking(true)?;
        rope.set_nonblocking(true)?;
        let stack = Mutex::new(Stack::new(addresses, seed));
        let shared = Arc::new(Shared { stack, moved: Condvar::new() });
        Ok((Peer { shared: shared.clone(), bell }, Handle { shared, bell: rope }))
    }
}

impl End for Peer {
    fn hear(&mut self, frame: &[u8], _now: Duration) -> Receipt {
        self.shared.stack().queues.heard.push_back(frame.to_vec());
        Receipt::Taken
    }

    fn say(&mut self, now: Duration) -> Result<Option<Vec<u8>>> {
        let mut stack = self.shared.stack();
        if stack.queues.said.is_empty() {
            while self.bell.recv(&mut [0]).is_ok() {}
            if stack.turn(now) {
                self.shared.moved.notify_all();
            }
        }
        Ok(stack.queues.said.pop_front())
    }

    fn wakes_at(&mut self, now: Duration) -> Option<Duration> {
        self.shared.stack().next_turn(now)
    }

    fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Handle {
    /// Lets the wire's thread turn to the peer. A bell that has rung often enough does not need this ring.
    fn ring(&self) {
        let _ = self.bell.send(&[0]);
    }

    /// Connects to a machine, to send one stream and expect the other.
    pub fn connect(&self, to: SocketAddr, sent: Stream, expected: Stream) -> TalkId {
        let id = self.shared.stack().connect(to, sent, expected);
        self.ring();
        id
    }

    /// Connects to the echo of a peer, or a program like it.
    pub fn connect_to_echo(&self, to: SocketAddr, stream: Stream) -> TalkId {
        self.connect(to, stream.clone(), stream)
    }

    /// Connects to the sink of a peer, or a program like it.
    pub fn connect_to_sink(&self, to: SocketAddr, stream: Stream) -> TalkId {
        let answer = Stream::Text(format!("{}\n", stream.sum()));
        self.connect(to, stream, answer)
    }

    /// Connects to the source of a peer, or a program like it.
    pub fn connect_to_source(&self, to: SocketAddr, seed: u64, length: u64) -> TalkId {
        let request = Stream::Text(format!("{length} {seed}\n"));
        self.connect(to, request, Stream::Pattern { seed, length })
    }

    /// Returns how a connection outward ended, once it has.
    pub fn outcome(&self, talk: TalkId) -> Option<Outcome> {
        self.shared.stack().talks.get(talk).and_then(|talk| talk.outcome().cloned())
    }

    /// Waits for the end of a connection outward. Returns the number of bytes that came.
    ///
    /// # Errors
    /// The reason why it failed; if it is not over in time.
    pub fn wait(&self, talk: TalkId, limit: Duration) -> Result<u64> {
        let end = Instant::now() + limit;
        let mut stack = self.shared.stack();
        loop {
            let known = stack.talks.get(talk).context("no such connection")?;
            if let Some(outcome) = known.outcome() {
                return outcome.clone().map_err(|why| anyhow!(why));
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!("it is not over after {limit:?}");
            }
            let waited = self.shared.moved.wait_timeout(stack, left);
            stack = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Asks a machine questions, instead of those before.
    pub fn ask(&self, asking: Asking) {
        self.shared.stack().ask(asking);
        self.ring();
    }

    /// Returns what became of the questions so far; `None` if none were asked.
    pub fn answers(&self) -> Option<Answers> {
        self.shared.stack().answers().cloned()
    }

    /// Waits until this many questions are answered, or one is answered wrongly. Returns what became of all.
    ///
    /// # Errors
    /// If it is not so in time; if nothing was asked.
    pub fn wait_for_answers(&self, count: u64, limit: Duration) -> Result<Answers> {
        let end = Instant::now() + limit;
        let mut stack = self.shared.stack();
        loop {
            let answers = stack.answers().context("no questions were asked")?;
            if answers.answered >= count || answers.wrong.is_some() {
                return Ok(answers.clone());
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!("{} questions are answered after {limit:?}", answers.answered);
            }
            let waited = self.shared.moved.wait_timeout(stack, left);
            stack = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Sends a frame as it is.
    pub fn send_frame(&self, frame: Vec<u8>) {
        self.shared.stack().queues.said.push_back(frame);
        self.ring();
    }

    /// Returns what the services have done.
    pub fn served(&self) -> Served {
        self.shared.stack().served
    }

    /// Sends a datagram.
    ///
    /// # Errors
    /// Says why it cannot be sent.
    pub fn send_datagram(&self, to: SocketAddr, bytes: &[u8]) -> Result<()> {
        let sent = self.shared.stack().send_datagram(to, bytes);
        self.ring();
        sent.map_err(|why| anyhow!(why))
    }

    /// Returns the datagrams that came back, in order.
    pub fn datagrams(&self) -> Vec<(SocketAddr, Vec<u8>)> {
        self.shared.stack().datagrams.clone()
    }
}
