//! The machine as a component of the process world asks for it: statistics of the nucleus, its log, the wall clock, power.
//!
//! The supervisor serves these at an endpoint ([`serve`]) to a component that administers the machine, which is given the right
//! to call there and [attaches](attach) it. Other components have none, and the operations of [`system`](crate::system),
//! [`power`](crate::power) and [`time`](crate::time) that need it end them with a reason.
//!
//! ```text
//! label     words                         answer
//! WALL      nanoseconds                   -
//! POWER     action                        -
//! ENTROPY   four words                    -
//! RUNNABLE  -                             numbers of threads and of interrupts
//! THREADS   -                             -                         the threads are logged
//! SNAPSHOT  subject                       bytes, then the first 504 of a copy that the server keeps until the next
//! READ      first byte                    up to 504 bytes of the copy
//! RING      - (a region goes along)       -
//! SAMPLE    period in nanoseconds         -                         into the rings that came since the last
//! ```
use crate::{
    message::{Endpoint, MESSAGE_WORDS, Message},
    power::Action,
    system::{ObjectCount, ProcessorTime},
};
use alloc::{string::String, vec::Vec};
use program::objects::KINDS;

const WALL: u64 = 1;
const POWER: u64 = 2;
const ENTROPY: u64 = 3;
const RUNNABLE: u64 = 4;
const THREADS: u64 = 5;
const SNAPSHOT: u64 = 6;
const READ: u64 = 7;
const RING: u64 = 8;
const SAMPLE: u64 = 9;

const OBJECTS: u64 = 0;
const INTERRUPTS: u64 = 1;
const PROCESSORS: u64 = 2;
const LOG: u64 = 3;

/// Bytes of the copy in one answer.
const PART_BYTES: usize = (MESSAGE_WORDS - 1) * 8;

fn action_of(number: u64) -> Action {
    match number {
        0 => Action::Off,
        1 => Action::Restart,
        _ => Action::Halt,
    }
}

/// A list of words and texts, as a sequence of bytes.
#[derive(Debug, Default)]
struct Packed(Vec<u8>);

impl Packed {
    fn word(&mut self, word: u64) -> &mut Packed {
        self.0.extend_from_slice(&word.to_le_bytes());
        self
    }
    fn bytes(&mut self, bytes: &[u8]) -> &mut Packed {
        self.word(bytes.len() as u64).0.extend_from_slice(bytes);
        self
    }
}

/// Takes a [`Packed`] apart.
struct Unpacked<'a>(&'a [u8]);

impl<'a> Unpacked<'a> {
    fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }
    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.word()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }
}

fn pack_objects(objects: &[ObjectCount]) -> Packed {
    let mut packed = Packed::default();
    for ObjectCount { name, live, made } in objects {
        let kind = KINDS.iter().position(|(_, known)| known == name).unwrap_or(KINDS.len());
        packed.word(kind as u64).word(*live).word(*made);
    }
    packed
}

fn unpack_objects(bytes: &[u8]) -> Vec<ObjectCount> {
    let mut from = Unpacked(bytes);
    let next = || {
        let [kind, live, made] = [from.word()?, from.word()?, from.word()?];
        let name = KINDS.get(kind as usize).map_or("other", |(_, name)| name);
        Some(ObjectCount { name, live, made })
    };
    core::iter::from_fn(next).collect()
}

fn pack_interrupts(interrupts: &[(String, Vec<u64>)]) -> Packed {
    let mut packed = Packed::default();
    for (name, counts) in interrupts {
        packed.bytes(name.as_bytes()).word(counts.len() as u64);
        counts.iter().for_each(|&count| _ = packed.word(count));
    }
    packed
}

fn unpack_interrupts(bytes: &[u8]) -> Vec<(String, Vec<u64>)> {
    let mut from = Unpacked(bytes);
    let next = || {
        let name = String::from_utf8_lossy(from.bytes()?).into_owned();
        let count = from.word()?;
        let counts = (0..count).map_while(|_| from.word()).collect();
        Some((name, counts))
    };
    core::iter::from_fn(next).collect()
}

fn pack_processors(times: &[ProcessorTime]) -> Packed {
    let mut packed = Packed::default();
    for time in times {
        packed.word(time.user_ns).word(time.system_ns).word(time.idle_ns).word(time.switches);
    }
    packed
}

fn unpack_processors(bytes: &[u8]) -> Vec<ProcessorTime> {
    let mut from = Unpacked(bytes);
    let next = || {
        let [user_ns, system_ns, idle_ns, switches] =
            [from.word()?, from.word()?, from.word()?, from.word()?];
        Some(ProcessorTime { user_ns, system_ns, idle_ns, switches })
    };
    core::iter::from_fn(next).collect()
}

/// Returns the bytes of `copy` from `first` on that fit into an answer, as words; the last one is padded.
fn part(copy: &[u8], first: u64) -> impl Iterator<Item = u64> {
    let rest = usize::try_from(first).ok().and_then(|first| copy.get(first..)).unwrap_or_default();
    rest.get(..PART_BYTES.min(rest.len())).unwrap_or_default().chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
        u64::from_le_bytes(word)
    })
}

/// The server's state between two messages.
#[cfg(not(all(target_os = "none", skerry_process)))]
struct Server<P> {
    power: P,
    copy: Packed,
    rings: Vec<crate::memory::Region>,
}

#[cfg(not(all(target_os = "none", skerry_process)))]
impl<P: Fn(Action)> Server<P> {
    /// Does what `message` asks for. Returns the answer's words.
    fn answer(&mut self, message: &mut Message) -> Vec<u64> {
        use crate::{entropy, message::Capability, system, time, world};
        let label = message.label();
        let (words, capability) = message.parts();
        let first = words.first().copied().unwrap_or(0);
        match label {
            WALL => time::set_wall_ns(first),
            POWER => (self.power)(action_of(first)),
            ENTROPY => {
                if let Some(seed) = words.first_chunk() {
                    entropy::add(*seed);
                }
            }
            RUNNABLE => {
                let (threads, interrupts) = system::runnable_and_interrupts();
                return [threads as u64, interrupts].into();
            }
            THREADS => system::log_threads("asked for"),
            SNAPSHOT => {
                self.copy = match first {
                    OBJECTS => pack_objects(&system::objects()),
                    INTERRUPTS => pack_interrupts(&system::interrupts()),
                    PROCESSORS => pack_processors(&system::processor_times()),
                    _ => {
                        let log = system::log();
                        let mut packed = Packed::default();
                        packed.word(log.start).bytes(&log.text);
                        packed
                    }
                };
                let length = self.copy.0.len() as u64;
                return core::iter::once(length).chain(part(&self.copy.0, 0)).collect();
            }
            READ => return part(&self.copy.0, first).collect(),
            RING => {
                if let Some(Capability::Region(region)) = capability.take() {
                    self.rings.push(region);
                }
            }
            SAMPLE => {
                let rings = core::mem::take(&mut self.rings);
                let rings = rings.into_iter().map(|ring| ring.0).collect();
                world::system::sample_every(first, rings);
            }
            _ => {}
        }
        Vec::new()
    }
}

/// Serves the machine at `endpoint` until that is closed. A request to power it down is given to `power`.
#[cfg(not(all(target_os = "none", skerry_process)))]
pub fn serve(endpoint: &Endpoint, power: impl Fn(Action)) -> crate::message::Error {
    let mut server = Server { power, copy: Packed::default(), rings: Vec::new() };
    let mut message = Message::new(0);
    let mut next = endpoint.receive(&mut message, None);
    loop {
        if let Err(error) = next {
            return error;
        }
        let words = server.answer(&mut message);
        message.reset(0);
        words.into_iter().for_each(|word| _ = message.push(word));
        next = endpoint.reply_and_receive(&mut message, None);
    }
}

/// Stops the sampling that a component asked for at `endpoint` and did not end. The rings are dropped.
#[cfg(not(all(target_os = "none", skerry_process)))]
pub fn stop_sampling(endpoint: &Endpoint) {
    // The first call drops the rings that are sampled, the second those that were sent and not used.
    for _ in 0..2 {
        let mut message = Message::new(SAMPLE);
        let _ = message.push(0);
        let _ = endpoint.call(&mut message, None);
    }
}

#[cfg(all(target_os = "none", skerry_process))]
pub use client::attach;
#[cfg(all(target_os = "none", skerry_process))]
pub(crate) use client::*;

/// The operations of the process world.
#[cfg(all(target_os = "none", skerry_process))]
mod client {
    use super::*;
    use crate::{
        message::Capability,
        sync::{LockClass, Mutex, Once},
        time::Instant,
        world::memory::RegionHandle,
    };

    static CLASS: LockClass = LockClass::new("rt.machine");
    /// The right to call the server, and the lock that keeps the parts of one copy together.
    static MACHINE: Once<Mutex<Endpoint>> = Once::new();

    /// Makes `endpoint`, at which the machine is served, known to the operations that need it. The first call counts.
    pub fn attach(endpoint: Endpoint) {
        MACHINE.get_or_init(|| Mutex::new(&CLASS, endpoint));
    }

    fn machine() -> &'static Mutex<Endpoint> {
        MACHINE.get().unwrap_or_else(|| panic!("the component does not administer the machine"))
    }

    /// Asks for `label`. Returns the answer.
    fn ask(at: &Endpoint, label: u64, words: &[u64], along: Option<Capability>) -> Message {
        let mut message = Message::new(label);
        words.iter().for_each(|&word| _ = message.push(word));
        message.capability = along;
        let deadline: Option<Instant> = None;
        // The supervisor outlives its components.
        if let Err(error) = at.call(&mut message, deadline) {
            panic!("the machine does not answer: {error:?}");
        }
        message
    }

    fn tell(label: u64, words: &[u64]) {
        ask(&machine().lock(), label, words, None);
    }

    /// Returns a copy of a subject's bytes.
    fn copy(subject: u64) -> Vec<u8> {
        let at = machine().lock();
        let answer = ask(&at, SNAPSHOT, &[subject], None);
        let Some((&length, head)) = answer.words().split_first() else { return Vec::new() };
        let mut bytes = Vec::new();
        let take = |words: &[u64], bytes: &mut Vec<u8>| {
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        };
        take(head, &mut bytes);
        while (bytes.len() as u64) < length {
            let answer = ask(&at, READ, &[bytes.len() as u64], None);
            if answer.words().is_empty() {
                break;
            }
            take(answer.words(), &mut bytes);
        }
        bytes.truncate(length as usize);
        bytes
    }

    pub(crate) fn set_wall_ns(ns: u64) {
        tell(WALL, &[ns]);
    }
    pub(crate) fn power_down(action: Action) -> ! {
        let number = match action {
            Action::Off => 0,
            Action::Restart => 1,
            Action::Halt => 2,
        };
        tell(POWER, &[number]);
        panic!("the machine is still there");
    }
    pub(crate) fn entropy_add(seed: [u64; 4]) {
        tell(ENTROPY, &seed);
    }
    pub(crate) fn runnable_and_interrupts() -> (usize, u64) {
        let answer = ask(&machine().lock(), RUNNABLE, &[], None);
        match answer.words() {
            [threads, interrupts, ..] => (*threads as usize, *interrupts),
            _ => (0, 0),
        }
    }
    pub(crate) fn runnable_threads() -> usize {
        runnable_and_interrupts().0
    }
    pub(crate) fn log_threads(why: core::fmt::Arguments<'_>) {
        log::info!("threads: {why}");
        tell(THREADS, &[]);
    }
    pub(crate) fn objects() -> Vec<ObjectCount> {
        unpack_objects(&copy(OBJECTS))
    }
    pub(crate) fn interrupts() -> Vec<(String, Vec<u64>)> {
        unpack_interrupts(&copy(INTERRUPTS))
    }
    pub(crate) fn processor_times() -> Vec<ProcessorTime> {
        unpack_processors(&copy(PROCESSORS))
    }
    pub(crate) fn log() -> (u64, Vec<u8>) {
        let copy = copy(LOG);
        let mut from = Unpacked(&copy);
        let start = from.word().unwrap_or(0);
        (start, from.bytes().unwrap_or_default().to_vec())
    }
    pub(crate) fn sample_every(period_ns: u64, rings: Vec<RegionHandle>) {
        let at = machine().lock();
        for ring in rings {
            ask(&at, RING, &[], Some(Capability::Region(crate::memory::Region(ring))));
        }
        ask(&at, SAMPLE, &[period_ns], None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_survive_their_bytes() {
        let objects: Vec<ObjectCount> = KINDS
            .iter()
            .zip(1..)
            .map(|((_, name), live)| ObjectCount { name, live, made: live * 3 })
            .collect();
        assert_eq!(unpack_objects(&pack_objects(&objects).0), objects);
        let interrupts = [(String::from("timer"), vec![1, 2]), (String::new(), Vec::new())];
        assert_eq!(unpack_interrupts(&pack_interrupts(&interrupts).0), interrupts);
        let times = [ProcessorTime { user_ns: 1, system_ns: 2, idle_ns: 3, switches: 4 }; 3];
        assert_eq!(unpack_processors(&pack_processors(&times).0), times);
    }

    #[test]
    fn bytes_that_are_cut_or_false_give_no_more_than_is_there() {
        let whole = pack_interrupts(&[(String::from("timer"), vec![1, 2])]).0;
        for length in 0..whole.len() {
            let cut = unpack_interrupts(&whole[..length]);
            assert!(cut.len() <= 1, "{cut:?}");
        }
        assert!(unpack_interrupts(&[0xff; 64]).is_empty());
        assert_eq!(unpack_objects(&[0xff; 25])[0].name, "other");
    }

    #[test]
    fn parts_make_up_the_copy() {
        let copy: Vec<u8> = (0..=255).cycle().take(3 * PART_BYTES + 5).collect();
        let mut joined: Vec<u8> = Vec::new();
        while joined.len() < copy.len() {
            let words: Vec<u64> = part(&copy, joined.len() as u64).collect();
            assert!(!words.is_empty() && words.len() < MESSAGE_WORDS);
            joined.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        }
        assert_eq!(joined[..copy.len()], copy);
        assert_eq!(part(&copy, u64::MAX).count() + part(&[], 0).count(), 0);
    }

    #[test]
    fn a_server_answers_and_ends_with_its_endpoint() {
        let endpoint = Endpoint::new().unwrap();
        let client = endpoint.badged(1).unwrap();
        std::thread::spawn(move || serve(&endpoint, |_| panic!("the power is asked for")));
        let mut message = Message::new(RUNNABLE);
        client.call(&mut message, None).unwrap();
        assert_eq!(message.words(), [1, 0]);
        let mut message = Message::new(SNAPSHOT);
        assert!(message.push(OBJECTS));
        client.call(&mut message, None).unwrap();
        let (length, head) = message.words().split_first().unwrap();
        assert_eq!(head.len() as u64 * 8, *length);
        let mut read = Message::new(READ);
        assert!(read.push(0));
        client.call(&mut read, None).unwrap();
        assert_eq!(read.words(), head);
    }
}
