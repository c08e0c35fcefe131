//! Tests of derivations that components make and take back. The component `actor` does as ordered (`bench/src/bin/actor.rs`).
use crate::{costs::components, domains};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use calls::{Call, Status};
use core::{
    ptr,
    sync::atomic::{AtomicPtr, AtomicU32, Ordering::SeqCst},
};
use ipc::{Error, Header, Message};
use nucleus::{
    capability::{Capability, Region},
    dma::DmaBuffer,
    domain::{self, Domain},
    memory::{PAGE, frames, statistics},
    thread::{self, Endpoint, Sleep, Wait},
    time,
};

#[path = "../../../bench/src/actor.rs"]
mod orders;
use orders::*;

/// A component that does as ordered.
struct Actor {
    domain: Arc<Domain>,
    service: Arc<Endpoint>,
}

/// Words of an order.
struct Words([u64; 4]);

impl From<u64> for Words {
    fn from(word: u64) -> Words {
        Words([word, 0, 0, 0])
    }
}

impl From<[u64; 2]> for Words {
    fn from([first, second]: [u64; 2]) -> Words {
        Words([first, second, 0, 0])
    }
}

impl Actor {
    fn new() -> Actor {
        let service = Arc::new(Endpoint::new());
        let actor = components::load("actor").expect("built without its components");
        actor.start([domains::serve(&service)].into());
        Actor { domain: actor.domain, service }
    }

    /// Sends `order` with words and a capability. Returns the answer, or the error of the call.
    fn try_tell(
        &self,
        order: u64,
        words: impl Into<Words>,
        along: Option<Capability>,
    ) -> Result<(Option<u64>, Option<Capability>), Error> {
        let header = Header::new(order, 2).as_sent(along.is_some());
        thread::lay_along(along);
        let mut now = Message { header, badge: 0, words: words.into().0 };
        let called = self.service.call(&mut now, soon(10_000_000_000));
        let came = thread::take_along();
        called.map(|()| ((now.header.label() == 0).then_some(now.words[0]), came))
    }

    fn tell(&self, order: u64, words: impl Into<Words>) -> u64 {
        let (answer, came) = self.try_tell(order, words, None).expect("an answer");
        assert!(came.is_none());
        answer.expect("done")
    }

    /// Orders the component to answer with a capability.
    fn get(&self, order: u64, word: u64) -> Capability {
        let (answer, came) = self.try_tell(order, word, None).expect("an answer");
        assert_eq!(answer, Some(1));
        came.expect("a capability")
    }

    fn take(&self, capability: Capability) {
        self.try_tell(TAKE, 0, Some(capability)).expect("an answer").0.expect("taken");
    }

    /// Passes its right to `other` as a derivation.
    fn give(&self, other: &Actor, rights: u64) {
        other.take(self.get(GIVE, rights));
    }

    /// Sends `order`, which the component does not survive. Returns the cause.
    fn dies_of(&self, order: u64, words: impl Into<Words>) -> alloc::string::String {
        assert_eq!(self.try_tell(order, words, None).err(), Some(Error::Restarted));
        self.domain.wait_end(None).expect("an end").cause
    }

    /// Waits until `count` of its threads have ended their waits. Returns the sum of their errors.
    fn results(&self, count: u64) -> u64 {
        let until_ns = time::now_ns() + 10_000_000_000;
        loop {
            let results = self.tell(RESULTS, 0);
            if results / RESULT_UNIT == count {
                return results % RESULT_UNIT;
            }
            assert!(time::now_ns() < until_ns, "{} of {count} go on", results / RESULT_UNIT);
            thread::park(Some(time::now_ns() + 100_000), Sleep::Uninterruptible);
        }
    }

    fn refused(&self) -> usize {
        self.domain.usage().refused.iter().map(|&(_, count)| count as usize).sum()
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.domain.kill("the test is over");
    }
}

fn soon(ns: u64) -> Wait {
    Wait { deadline_ns: Some(time::now_ns() + ns), sleep: Sleep::Uninterruptible }
}

/// Tests that memory that was revoked is gone from all holders, whatever they do meanwhile and whomever they gave it to.
pub fn memory_is_taken_back() {
    for rounds in 0..8 {
        let [owner, first, second] = [(); 3].map(|()| Actor::new());
        owner.tell(NEW_REGION, 0);
        owner.give(&first, 2);
        assert_eq!(first.tell(WRITE, 5), 0);
        // The memory was given on by the first, and copied by the second.
        first.give(&second, 2);
        second.take(second.get(COPY, 0));
        assert_eq!((second.tell(READ, 0), owner.tell(READ, 0)), (5, 5));
        [&first, &second].map(|watching| watching.tell(WATCH, 0));
        let used = first.domain.usage().memory_bytes;
        (0..rounds).for_each(|_| thread::yield_now());
        owner.tell(TAKE_BACK, 0);
        assert_eq!(owner.tell(WRITE, SEEN_TOO_LATE), 5);
        for lost in [&first, &second] {
            let end = lost.domain.wait_end(soon(10_000_000_000).deadline_ns).expect("an end");
            assert!(end.cause.starts_with("page fault: Read"), "{}", end.cause);
        }
        assert!(first.domain.usage().memory_bytes < used, "charged for what was revoked");
        // The owner still has it, and can give it again.
        let third = Actor::new();
        owner.give(&third, 0);
        assert_eq!(third.tell(READ, 0), SEEN_TOO_LATE);
    }
}

/// Tests that a holder of memory that was revoked cannot wait at a word of it or read it, though it did before.
pub fn words_are_taken_back() {
    let [owner, other] = [(); 2].map(|()| Actor::new());
    owner.tell(NEW_REGION, 0);
    owner.tell(WRITE, 5);
    owner.give(&other, 2);
    for _ in 0..2 {
        assert_eq!((other.tell(WAIT, [0, 5]), other.tell(WAIT, [0, 6])), (0, 1));
    }
    owner.tell(TAKE_BACK, 0);
    assert!(other.dies_of(WAIT, [0, 5]).contains("Fault"));
}

/// Tests that threads that wake each other all the time end with their domain, at whatever step they are.
pub fn those_who_wait_are_ended() {
    for rounds in 0..100 {
        let actor = Actor::new();
        actor.tell(NEW_REGION, 0);
        assert_eq!((actor.tell(PASS, 0), actor.tell(PASS, 1)), (2, 2));
        let until_ns = time::now_ns() + 100_000 + rounds * 7_000;
        while time::now_ns() < until_ns {
            core::hint::spin_loop();
        }
        actor.domain.condemn("test");
        assert!(actor.domain.wait_end(soon(10_000_000_000).deadline_ns).is_some(), "one stays");
    }
}

/// Returns the word of a bell that is attended.
fn word_of(bell: &Region) -> &AtomicU32 {
    // SAFETY: the first half of a word of the region, which is there for ever.
    unsafe { AtomicU32::from_ptr(bell.words()[1].as_ptr().cast()) }
}

/// Returns the bell at `place`, which exists for ever: a thread that wakes the word at 8 runs `handler`.
pub fn bell(place: &AtomicPtr<Region>, handler: fn()) -> &'static Region {
    if place.load(SeqCst).is_null() {
        let memory = Arc::new(DmaBuffer::allocate(4096).expect("memory"));
        let bell: &'static Region = Box::leak(Box::new(memory.into()));
        place.store(ptr::from_ref(bell).cast_mut(), SeqCst);
        thread::set_handler(word_of(bell), Box::new(handler));
    }
    // SAFETY: made above, for ever.
    unsafe { &*place.load(SeqCst) }
}

/// Tests that a thread that wakes a word calls its handler, in a component or not; other words have none.
pub fn woken_words_are_handled() {
    static RUNG: AtomicU32 = AtomicU32::new(0);
    static BELL: AtomicPtr<Region> = AtomicPtr::new(ptr::null_mut());
    let bell = bell(&BELL, || drop(RUNG.fetch_add(1, SeqCst)));
    RUNG.store(0, SeqCst);
    let actor = Actor::new();
    actor.take(Capability::Region(bell.clone()));
    for rung in 1..5 {
        actor.tell(WAKE, 1);
        assert_eq!(RUNG.load(SeqCst), rung);
        actor.tell(WAKE, 2);
        assert_eq!(RUNG.load(SeqCst), rung);
    }
    thread::wake(word_of(bell), 1);
    assert_eq!(RUNG.load(SeqCst), 5);
}

/// Tests that a derivation ends with its giver; the receiver's own objects stay.
pub fn gifts_end_with_their_giver() {
    let [owner, other] = [(); 2].map(|()| Actor::new());
    owner.tell(NEW_REGION, 0);
    owner.give(&other, 2);
    owner.domain.kill("test");
    assert!(other.dies_of(READ, 0).starts_with("page fault: Read"));
    let [owner, other] = [(); 2].map(|()| Actor::new());
    owner.tell(NEW_REGION, 0);
    other.take(owner.get(COPY, 0));
    owner.domain.kill("test");
    assert_eq!(other.tell(WRITE, 1), 0);
}

/// Tests that a component reads frames of a pool by their numbers and says which it has dropped; that its mapping of the pool
/// does not count as a use of the frames; and that the pool is revoked like any memory.
pub fn frames_of_a_pool_are_read() {
    const PAGES: usize = 512;
    let memory = Arc::new(DmaBuffer::allocate(PAGES * PAGE).expect("a run of frames"));
    let first = memory.frames().next().expect("a frame");
    let [one, last] = [1, PAGES as u32 - 1].map(|page| u64::from(first + page));
    let word = |number: u64| &memory.words()[(number as usize - first as usize) * PAGE / 8 + 3];
    word(one).store(17, SeqCst);
    word(last).store(18, SeqCst);
    let actor = Actor::new();
    let region = Capability::Region(memory.clone().into());
    let (shown, derivation) = region.give(0, 0).expect("a derivation");
    actor.take(shown.clone());
    assert_eq!(actor.tell(ATTACH, u64::from(first)), 1);
    let references = |number: u64| frames::references(number as u32).load(SeqCst);
    assert_eq!((references(one), references(last)), (1, 1), "a mapping is no use of a frame");
    assert_eq!((actor.tell(HAND, [one, 24]), actor.tell(HAND, [last, 24])), (17, 18));
    word(one).store(19, SeqCst);
    assert_eq!((actor.tell(HAND, [one, 24]), actor.tell(RELEASED, 0)), (19, 0));
    let refused = |order, number| actor.try_tell(order, number, None).expect("an answer").0;
    assert_eq!(refused(HAND, u64::from(first) - 1), None, "a frame of no pool");
    assert_eq!((actor.tell(DROP, 0), actor.tell(RELEASED, 0)), (3, 0), "it has it twice");
    assert_eq!((actor.tell(DROP, 0), actor.tell(DROP, 0)), (2, 2));
    assert_eq!(actor.tell(RELEASED, 0), (one + last) * RESULT_UNIT + 3);
    assert_eq!(actor.tell(RELEASED, 0), 0);
    actor.take(shown);
    assert_eq!(refused(ATTACH, u64::from(first)), None, "the pool is attached already");
    domain::revoke([derivation]);
    assert_eq!((references(one), references(last)), (1, 1));
    assert!(actor.dies_of(HAND, [one, 24]).starts_with("page fault: Read"));
}

/// Tests that a receiver of read-only memory can neither write it nor give more rights than it has.
pub fn memory_is_read_only() {
    let [owner, reader, other] = [(); 3].map(|()| Actor::new());
    owner.tell(NEW_REGION, 0);
    owner.tell(WRITE, 6);
    owner.give(&reader, 1);
    reader.give(&other, 3);
    // The other one is tried first, because its derivation ends with the reader.
    for denied in [other, reader] {
        assert_eq!(denied.tell(READ, 0), 6);
        assert!(denied.dies_of(WRITE, 7).starts_with("page fault: Write"));
    }
    assert_eq!(owner.tell(READ, 0), 6);
}

/// Tests that a moved capability belongs to the receiver alone, and that one that did not go stays with the sender.
pub fn capabilities_move() {
    let [owner, other] = [(); 2].map(|()| Actor::new());
    owner.tell(NEW_REGION, 0);
    owner.tell(WRITE, 8);
    assert_eq!(owner.tell(FAIL_TO_SEND, 0), Error::TimedOut as u64);
    assert_eq!(owner.tell(READ, 0), 8);
    let used = owner.domain.usage().memory_bytes;
    let moved = owner.get(MOVE, 0);
    // It stays charged to its maker as long as anyone has it.
    assert_eq!(owner.domain.usage().memory_bytes, used);
    assert!(owner.try_tell(READ, 0, None).expect("an answer").0.is_none());
    other.take(moved);
    assert_eq!(other.tell(READ, 0), 8);
    assert_eq!(owner.refused() + other.refused(), 0);
}

/// Tests that a thread that calls or waits to serve by a right that is revoked goes on, parked or not, before and after it
/// blocks. A call that was received is answered.
pub fn endpoints_are_taken_back() {
    let gone = Error::Gone as u64;
    for order in [CALL, CALL_WITH_DEADLINE, RECEIVE] {
        for rounds in 0..8 {
            let [owner, other] = [(); 2].map(|()| Actor::new());
            owner.tell(NEW_ENDPOINT, 0);
            owner.give(&other, 1);
            [(); 2].map(|()| other.tell(order, 0));
            (0..rounds).for_each(|_| thread::yield_now());
            owner.tell(TAKE_BACK, 0);
            assert_eq!(other.results(2), 2 * gone);
            other.tell(order, 0);
            assert_eq!(other.results(3), 3 * gone);
            assert_eq!(other.refused(), 0);
            // No thread is left at the endpoint, which the owner still has.
            let Capability::Endpoint(own) = owner.get(COPY, 0) else { panic!("no endpoint") };
            let mut now = Message::default();
            let received = own.endpoint.receive(&mut now, soon(1_000_000));
            assert_eq!(received, Err(Error::TimedOut));
        }
    }
    let [owner, other] = [(); 2].map(|()| Actor::new());
    owner.tell(NEW_ENDPOINT, 0);
    let Capability::Endpoint(own) = owner.get(COPY, 0) else { panic!("no endpoint") };
    owner.give(&other, 0);
    other.tell(CALL, 0);
    let mut now = Message::default();
    own.endpoint.receive(&mut now, soon(10_000_000_000)).expect("a call");
    assert_eq!(now.badge, BADGE);
    owner.tell(TAKE_BACK, 0);
    own.endpoint.reply(&mut now).expect("a caller");
    assert_eq!(other.results(1), 0);
}

/// Tests the limits of derivations: a right to call gives no right to serve, only the giver takes back, and interrupts cannot be
/// given. A message area cannot be in memory that can be revoked.
pub fn gifts_have_limits() {
    let [owner, other] = [(); 2].map(|()| Actor::new());
    owner.tell(NEW_ENDPOINT, 0);
    owner.give(&other, 0);
    other.tell(RECEIVE, 0);
    assert_eq!(other.results(1), Error::Gone as u64);
    assert!(other.refused() > 0);
    let region = || Capability::Region(Arc::new(DmaBuffer::allocate(4096).expect("memory")).into());
    let endpoint = || domains::call(&Arc::new(Endpoint::new()));
    let handle = calls::SERVICE;
    let give = [&domains::first(handle)[..], &domains::does(Call::Give)].concat();
    let revoke = |handle| [&domains::first(handle)[..], &domains::does(Call::Revoke)].concat();
    let given = [&give[..], &revoke(handle + 1)].concat();
    assert_eq!(status_of(&given, region()), Status::Ok);
    assert_eq!(status_of(&[&given[..], &revoke(handle + 1)].concat(), region()), Status::Refused);
    assert_eq!(status_of(&revoke(handle), region()), Status::Refused);
    let closed = [&domains::first(handle + 1)[..], &domains::does(Call::Close)].concat();
    let late = [&give[..], &closed, &revoke(handle + 1)].concat();
    assert_eq!(status_of(&late, endpoint()), Status::Refused);
    let map = [&domains::first(handle + 1)[..], &domains::does(Call::MapRegion)].concat();
    assert_eq!(status_of(&[&given[..], &map].concat(), region()), Status::Gone);
    // mov r8, rdi: the region as message area.
    let spawn = [&[0x49, 0x89, 0xf8][..], &domains::does(Call::Spawn)].concat();
    let mapped = [&domains::first(handle)[..], &domains::does(Call::MapRegion)].concat();
    assert_eq!(status_of(&[&mapped[..], &spawn].concat(), region()), Status::Invalid);
    // The capability is given on from hand to hand: mov edi, handle; 1: does; test eax, eax; jz 1b
    let does = domains::does(Call::Give);
    let again = [&domains::first(handle)[..], &does, &[0x85, 0xc0, 0x74, 0xf5]].concat();
    assert_eq!(status_of(&again, region()), Status::Refused);
}

/// Returns the status of the last call of `code` in a component that holds `held`.
fn status_of(code: &[u8], held: Capability) -> Status {
    // xor r8d, r8d before; mov edi, eax; int3 after.
    let code = [&[0x45, 0x31, 0xc0][..], code, &[0x89, 0xc7, 0xcc]].concat();
    let domain = domains::start(&code, 0, [held].into());
    let end = domain.wait_end(None).expect("an end");
    assert!(end.cause.starts_with("exception 3"), "{}", end.cause);
    Status::of(end.registers.rdi)
}

/// Tests that the frames of a region that all holders lost are free.
pub fn taken_back_memory_is_free() {
    let before = statistics().free_frames;
    let all: Vec<Actor> = (0..4).map(|_| Actor::new()).collect();
    for _ in 0..20 {
        all[0].tell(NEW_REGION, 0);
        let others = all[1..].iter();
        others.for_each(|other| all[0].give(other, 2));
        all[0].tell(TAKE_BACK, 0);
    }
    drop(all);
    let lost = before.saturating_sub(statistics().free_frames);
    assert!(lost < 256, "{lost} frames gone");
}

/// Tests that bytes in a window are copied in the allowed directions, and none beyond it; nor after it was revoked, nor
/// after its owner's end.
pub fn windows_show_what_they_show() {
    const READ_WRITE: u64 = 6;
    let [owner, other] = [(); 2].map(|()| Actor::new());
    owner.tell(NEW_REGION, 0);
    other.take(owner.get(OPEN, READ_WRITE));
    assert_eq!(other.tell(COPY_TO, [0, 11]), 0);
    assert_eq!(other.tell(COPY_TO, [8, 22]), 0);
    assert_eq!(other.tell(COPY_TO, [16, 33]), 0);
    assert_eq!([0, 8, 16].map(|at| other.tell(COPY_FROM, at)), [11, 22, 33]);
    assert_eq!(other.tell(COPY_LISTS, 1), 10 + 23 + 32);
    assert_eq!([24, 32, 40].map(|at| other.tell(COPY_FROM, at)), [10, 23, 32]);
    // The bytes before the window are not copied, nor the second half of the last word.
    assert_eq!(owner.tell(READ, 0), 0);
    for beyond in [52, 56, 4096, u64::MAX, u64::MAX - 7, 1 << 63] {
        assert_eq!(other.tell(COPY_FROM, beyond), COPY_FAULT);
        assert_eq!(other.tell(COPY_TO, [beyond, 1]), COPY_FAULT);
    }
    owner.tell(SHUT, 0);
    assert_eq!(other.tell(COPY_FROM, 0), COPY_GONE);
    assert_eq!(other.tell(COPY_TO, [0, 1]), COPY_GONE);
    for (rights, from, to) in [(4, 11, COPY_FAULT), (2, COPY_FAULT, 0), (0, COPY_FAULT, COPY_FAULT)]
    {
        other.take(owner.get(OPEN, rights));
        assert_eq!(other.tell(COPY_FROM, 0), from);
        assert_eq!(other.tell(COPY_TO, [0, 12]), to);
    }
    // No more bytes come through it, even if a copy is under way.
    for rounds in 0..8 {
        let busy = [(); 2].map(|()| Actor::new());
        let window = owner.get(OPEN, READ_WRITE);
        for copying in &busy {
            copying.take(window.clone());
            copying.tell(COPY_ON, 0);
        }
        (0..rounds).for_each(|_| thread::yield_now());
        owner.tell(SHUT, 0);
        let last = owner.tell(READ, 1);
        busy.iter().for_each(|copying| assert_eq!(copying.results(1), 1));
        assert_eq!(owner.tell(READ, 1), last);
    }
    other.take(owner.get(OPEN, READ_WRITE));
    owner.domain.kill("test");
    assert_eq!(other.tell(COPY_FROM, 0), COPY_GONE);
    assert_eq!(owner.refused() + other.refused(), 0);
}

/// Tests that messages of every length arrive whole, in both directions.
pub fn long_messages_arrive_whole() {
    let [server, client] = [(); 2].map(|()| Actor::new());
    client.take(domains::call(&server.service));
    (0..4).for_each(|_| assert_eq!(client.tell(CALL_LONG, 0), 65));
}

/// Tests that a capability that is moved with a reply without a caller stays.
pub fn what_does_not_go_stays() {
    let endpoint = Arc::new(Endpoint::new());
    let handle = calls::SERVICE + 1;
    // mov r12, handle, to be moved; mov edi, eax and int3 after.
    let moved = [&[0x49, 0xbc][..], &(handle | calls::MOVED).to_le_bytes()].concat();
    let reply = domains::does(Call::ReplyAndReceive);
    let map = [&domains::first(handle)[..], &domains::does(Call::MapRegion)].concat();
    let code = [&domains::first(calls::SERVICE)[..], &domains::FOREVER, &moved, &reply, &map];
    let code = [&code.concat()[..], &[0x89, 0xc7, 0xcc]].concat();
    let region = Arc::new(DmaBuffer::allocate(4096).expect("memory"));
    let held = [domains::serve(&endpoint), Capability::Region(region.into())].into();
    let domain = domains::start(&code, 0, held);
    endpoint.signal(1);
    let end = domain.wait_end(soon(10_000_000_000).deadline_ns).expect("an end");
    assert!(end.cause.starts_with("exception 3"), "{}", end.cause);
    assert_eq!(Status::of(end.registers.rdi), Status::Ok);
}
