//! The states of components as a sequence of bytes: numbers of eight bytes, and texts and lists behind their length.
use super::{Ending, State, Status};
use alloc::{string::String, vec::Vec};
use rt::time::Instant;

/// The states by their numbers.
const STATES: [State; 5] =
    [State::Starting, State::Running, State::Waiting, State::Stopped, State::Degraded];

#[derive(Default)]
struct Packed(Vec<u8>);

impl Packed {
    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }
    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }
    fn list<T>(&mut self, list: &[T], put: impl Fn(&mut Packed, &T)) {
        self.number(list.len() as u64);
        list.iter().for_each(|one| put(self, one));
    }
    fn texts(&mut self, texts: &[String]) {
        self.list(texts, |packed, text| packed.text(text));
    }

    fn ending(&mut self, ending: &Ending) {
        self.number(ending.at.0);
        self.text(&ending.cause);
        self.texts(&ending.registers);
        self.texts(&ending.backtrace);
        self.texts(&ending.trace);
    }

    fn status(&mut self, status: &Status) {
        self.text(&status.name);
        let state = STATES.iter().position(|&state| state == status.state);
        for number in [
            state.unwrap_or(STATES.len()) as u64,
            status.started.0,
            status.restarts,
            status.outage_ns,
            status.memory_bytes as u64,
            status.memory_bytes_max as u64,
            status.share_percent.into(),
            status.threads as u64,
            status.cpu_ns,
            status.calls,
        ] {
            self.number(number);
        }
        self.list(&status.refused, |packed, (name, count)| {
            packed.text(name);
            packed.number(*count);
        });
        self.list(&status.endings, Packed::ending);
    }
}

/// Packs `states`.
pub fn pack(states: &[Status]) -> Vec<u8> {
    let mut packed = Packed::default();
    packed.list(states, Packed::status);
    packed.0
}

struct Unpacked<'a>(&'a [u8]);

impl Unpacked<'_> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }
    fn length(&mut self) -> Option<usize> {
        self.number()?.try_into().ok()
    }
    fn text(&mut self) -> Option<String> {
        let length = self.length()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(String::from(core::str::from_utf8(text).ok()?))
    }
    fn list<T>(&mut self, take: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        (0..self.number()?).map(|_| take(self)).collect()
    }
    fn texts(&mut self) -> Option<Vec<String>> {
        self.list(Self::text)
    }

    fn ending(&mut self) -> Option<Ending> {
        Some(Ending {
            at: Instant(self.number()?),
            cause: self.text()?,
            registers: self.texts()?,
            backtrace: self.texts()?,
            trace: self.texts()?,
        })
    }

    fn status(&mut self) -> Option<Status> {
        Some(Status {
            name: self.text()?,
            state: *STATES.get(self.length()?)?,
            started: Instant(self.number()?),
            restarts: self.number()?,
            outage_ns: self.number()?,
            memory_bytes: self.length()?,
            memory_bytes_max: self.length()?,
            share_percent: self.number()?.try_into().ok()?,
            threads: self.length()?,
            cpu_ns: self.number()?,
            calls: self.number()?,
            refused: self.list(|from| Some((from.text()?, from.number()?)))?,
            endings: self.list(Self::ending)?,
        })
    }
}

/// Unpacks states. Returns `None` if the bytes are no states.
pub(super) fn unpack(bytes: &[u8]) -> Option<Vec<Status>> {
    let mut from = Unpacked(bytes);
    let states = from.list(Unpacked::status)?;
    from.0.is_empty().then_some(states)
}
