//! The load of a network card whose driver is killed. At the other end is the peer of a wire (`docs/wire.md`), 10.0.0.1.
//!
//! All of this goes on from the first kill to the last, each in a thread of its own. A worker fails with the first error that
//! a call returns and with the first byte that is wrong:
//!
//! - two connections bring an endless pattern, two carry one to the peer, which answers with the length and the CRC-32 at the end,
//! - a session of lines, which the peer sends back,
//! - datagrams, which the peer sends back; one that was lost is sent again,
//! - connections to the peer, by which it is asked to connect to a listener here, to send a pattern and to expect it back.
//!
//! The stall of a kill is the longest time after it in which no thread received a byte. Such a time is measured without a kill
//! before each, too: the calm, which this machine takes from every stall by itself.
mod pattern;

use crate::{CHECKED, IS_OVER, WRONG, work};
use abi::checked::Random;
use pattern::Pattern;
use std::{
    io::{self, BufRead, BufReader, ErrorKind, Read, Write},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream, UdpSocket},
    sync::{Condvar, Mutex, PoisonError, atomic::Ordering::Relaxed},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use workload::transfers::Sum;

const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// The machine's own address, and a port on which nobody listens.
const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const CLOSED: u16 = 1;
/// Connects to that port: enough to meet each of the 64 parts of the table of connections.
const FLOWS: usize = 1000;
/// Ports of the peer's services.
const ECHO: u16 = 7;
const SINK: u16 = 9;
const CALL: u16 = 11;
const SOURCE: u16 = 19;
/// Port of the listener.
const LISTENER: u16 = 5000;
/// Streams in each direction.
const STREAMS: u64 = 2;
const BLOCK_BYTES: usize = 16 << 10;
const LINE_BYTES_MAX: u64 = 900;
const DATAGRAM_BYTES_MAX: u64 = 1400;
const CALL_BYTES_MAX: u64 = 20_000;
/// Time after which a datagram counts as lost.
const ANSWER_TIME: Duration = Duration::from_millis(100);
/// Datagrams that are answered after the successor's first answer, before a stall is over: each was sent when the one before
/// was answered, so the last one went and came through the successor.
const ANSWERS: u64 = 2;

/// The receptions of all threads.
struct Receptions {
    state: Mutex<Progress>,
    /// Signalled when a datagram is answered.
    answered: Condvar,
}

struct Progress {
    /// Time of the last byte or of the last kill.
    last: Option<Instant>,
    /// The longest time without a byte since the last kill.
    longest: Duration,
    /// Number of answered datagrams.
    answers: u64,
}

static RECEPTIONS: Receptions = Receptions {
    state: Mutex::new(Progress { last: None, longest: Duration::ZERO, answers: 0 }),
    answered: Condvar::new(),
};

impl Receptions {
    /// Calls `change` with the state, after the time since the last byte was taken into account.
    fn with<T>(&self, change: impl FnOnce(&mut Progress) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if let Some(last) = state.last.replace(now) {
            state.longest = state.longest.max(now - last);
        }
        change(&mut state)
    }
    /// Notes that bytes came.
    fn note(&self) {
        self.with(|_| ());
    }
    /// Notes that a datagram is answered.
    fn note_answer(&self) {
        self.with(|state| state.answers += 1);
        self.answered.notify_all();
    }
    /// Begins to measure a stall.
    fn begin(&self) {
        self.with(|state| state.longest = Duration::ZERO);
    }
    /// Waits for [`ANSWERS`]. Returns the longest time without a byte.
    fn stall(&self, patience: Duration) -> Result<Duration, String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = state.answers + ANSWERS;
        let waited =
            self.answered.wait_timeout_while(state, patience, |state| state.answers < wanted);
        let (state, result) = waited.unwrap_or_else(PoisonError::into_inner);
        match result.timed_out() {
            true => Err("datagrams are not answered any more".to_owned()),
            false => Ok(state.longest),
        }
    }
}

/// The load of a network card.
pub struct Network {
    workers: Vec<(&'static str, JoinHandle<()>)>,
    stalls: Vec<Duration>,
    calms: Vec<Duration>,
}

impl Network {
    /// Starts the load.
    ///
    /// # Errors
    /// The error of a call that makes the listener.
    pub fn start(seed: u64) -> io::Result<Network> {
        for _ in 0..FLOWS {
            // Tables keep the memory of their first use: each part of them is used before objects are counted.
            let _ = TcpStream::connect((OWN, CLOSED));
        }
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, LISTENER))?;
        // It ends with the program.
        thread::spawn(move || work("listener", || answer_one(&listener)));
        let mut network = Network { workers: Vec::new(), stalls: Vec::new(), calms: Vec::new() };
        for number in 0..STREAMS {
            let seed = seed.wrapping_mul(100).wrapping_add(number);
            network.spawn("stream in", move || bring(seed));
            network.spawn("stream out", move || carry(seed));
        }
        network.spawn("session", move || session(seed));
        network.spawn("datagrams", move || datagrams(seed));
        network.spawn("calls", move || {
            let mut random = Random::new(seed);
            work("calls", || call(&mut random));
            Ok(())
        });
        Ok(network)
    }
    /// Starts a worker that goes on until the test is over.
    fn spawn(
        &mut self,
        name: &'static str,
        worker: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) {
        let body = move || {
            if let Err(error) = worker() {
                eprintln!("{name}: {error}");
                WRONG.fetch_add(1, Relaxed);
            }
        };
        self.workers.push((name, thread::spawn(body)));
    }
    /// Calls `kill` and measures the stall, after a calm. Returns its result.
    ///
    /// # Errors
    /// The reason why the kill or what follows failed.
    pub fn during<T>(
        &mut self,
        patience: Duration,
        kill: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, String> {
        RECEPTIONS.begin();
        self.calms.push(RECEPTIONS.stall(patience)?);
        RECEPTIONS.begin();
        let result = kill()?;
        self.stalls.push(RECEPTIONS.stall(patience)?);
        Ok(result)
    }
    /// Prints the stalls of all kills, and the calms before them.
    pub fn print(&self) {
        self.stalls.iter().for_each(|stall| println!("stall {}", stall.as_nanos()));
        self.calms.iter().for_each(|calm| println!("calm {}", calm.as_nanos()));
    }
    /// Waits for the threads, which end because the test is over. Returns whether they all ended by themselves. After `patience` it
    /// tells which did not, and the state of all connections.
    pub fn finish(&mut self, patience: Duration) -> bool {
        let start = Instant::now();
        let has_ended = |network: &Network| network.workers.iter().all(|(_, it)| it.is_finished());
        while !has_ended(self) && start.elapsed() < patience {
            thread::sleep(Duration::from_millis(10));
        }
        if !has_ended(self) {
            let left = self.workers.iter().filter(|(_, worker)| !worker.is_finished());
            left.for_each(|(name, _)| eprintln!("{name}: does not end"));
            let connections = std::fs::read_to_string("/proc/skerry/net");
            eprintln!("{}", connections.unwrap_or_else(|error| error.to_string()));
            return false;
        }
        self.workers.drain(..).map(|(_, worker)| worker.join().is_ok()).fold(true, |a, b| a & b)
    }
}

fn wrong(text: impl Into<String>) -> io::Error {
    io::Error::other(text.into())
}

/// Receives a pattern until the test is over, and then the bytes that are under way.
fn bring(seed: u64) -> io::Result<()> {
    let mut connection = TcpStream::connect((PEER, SOURCE))?;
    connection.write_all(format!("{seed}\n").as_bytes())?;
    let (mut pattern, mut bytes, mut is_open) = (Pattern::new(seed), vec![0; BLOCK_BYTES], true);
    loop {
        let count = connection.read(&mut bytes)?;
        RECEPTIONS.note();
        if count == 0 {
            return if is_open { Err(wrong("the peer has closed")) } else { Ok(()) };
        }
        if !pattern.is_next(&bytes[..count]) {
            return Err(wrong(format!("a byte before {} is wrong", pattern.at())));
        }
        CHECKED.fetch_add(1, Relaxed);
        if is_open && IS_OVER.load(Relaxed) {
            connection.shutdown(Shutdown::Write)?;
            is_open = false;
        }
    }
}

/// Sends a pattern until the test is over, and checks what the peer says of it.
fn carry(seed: u64) -> io::Result<()> {
    let mut connection = TcpStream::connect((PEER, SINK))?;
    let (mut pattern, mut sum, mut bytes) =
        (Pattern::new(seed), Sum::default(), vec![0; BLOCK_BYTES]);
    while !IS_OVER.load(Relaxed) {
        pattern.fill(&mut bytes);
        connection.write_all(&bytes)?;
        sum.add(&bytes);
        CHECKED.fetch_add(1, Relaxed);
    }
    connection.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    if answer.trim_end() == sum.to_string() {
        return Ok(());
    }
    Err(wrong(format!("{sum} was sent, {answer:?} came")))
}

/// Sends lines of which each must come back before the next.
fn session(seed: u64) -> io::Result<()> {
    let mut connection = TcpStream::connect((PEER, ECHO))?;
    let mut answers = BufReader::new(connection.try_clone()?);
    let (mut random, mut answer) = (Random::new(seed), String::new());
    while !IS_OVER.load(Relaxed) {
        let length = random.below(LINE_BYTES_MAX) as usize;
        let line: String = (0..length).map(|_| char::from(b'a' + random.below(26) as u8)).collect();
        let line = line + "\n";
        connection.write_all(line.as_bytes())?;
        answer.clear();
        answers.read_line(&mut answer)?;
        RECEPTIONS.note();
        if answer != line {
            return Err(wrong(format!("{line:?} came back as {answer:?}")));
        }
        CHECKED.fetch_add(1, Relaxed);
    }
    connection.shutdown(Shutdown::Write)?;
    match answers.read_line(&mut answer)? {
        0 => Ok(()),
        _ => Err(wrong("more came back than was sent")),
    }
}

/// Sends numbered datagrams of which each must come back before the next.
fn datagrams(seed: u64) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect((PEER, ECHO))?;
    socket.set_read_timeout(Some(ANSWER_TIME))?;
    let mut random = Random::new(seed);
    let mut number = 0u64;
    let contents = |number: u64, length: usize| {
        let mut bytes = vec![0; length];
        Pattern::new(number).fill(&mut bytes);
        [&number.to_le_bytes(), &bytes[..]].concat()
    };
    while !IS_OVER.load(Relaxed) {
        let sent = contents(number, random.below(DATAGRAM_BYTES_MAX) as usize);
        let mut answer = [0; 2048];
        loop {
            socket.send(&sent)?;
            match socket.recv(&mut answer) {
                Ok(count) if answer[..count] == sent => break,
                // An earlier one that was sent twice.
                Ok(count) => {
                    let head = answer.first_chunk().filter(|_| count >= size_of::<u64>());
                    let old = head.map(|head| u64::from_le_bytes(*head));
                    let is_right = old.is_some_and(|old| {
                        old < number && answer[..count] == contents(old, count - size_of::<u64>())
                    });
                    if !is_right {
                        return Err(wrong(format!("datagram {number} came back as another")));
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        RECEPTIONS.note_answer();
        CHECKED.fetch_add(1, Relaxed);
        number += 1;
    }
    Ok(())
}

/// Asks the peer to connect to the listener, to send a pattern there, and to expect it back.
fn call(random: &mut Random) -> io::Result<()> {
    let (length, seed) = (1 + random.below(CALL_BYTES_MAX), random.below(u64::MAX));
    let mut connection = TcpStream::connect((PEER, CALL))?;
    connection.write_all(format!("{LISTENER} {length} {seed}\n").as_bytes())?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    RECEPTIONS.note();
    if answer == format!("right {length}\n") {
        return Ok(());
    }
    Err(wrong(format!("the peer answered {answer:?}")))
}

/// Accepts one connection and sends its bytes back.
fn answer_one(listener: &TcpListener) -> io::Result<()> {
    let (mut connection, _) = listener.accept()?;
    let mut bytes = vec![0; BLOCK_BYTES];
    loop {
        let count = connection.read(&mut bytes)?;
        RECEPTIONS.note();
        if count == 0 {
            return Ok(());
        }
        connection.write_all(&bytes[..count])?;
    }
}
