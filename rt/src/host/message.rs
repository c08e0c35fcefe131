//! Messages of the host world: the state machine of `libs/ipc` under a std lock.
//!
//! The threads' parts are in a table inside the endpoint's lock, so a claim is a change of
//! [`State`] under it. Kicks do not end a wait here.
use super::thread::{current, lock, wait};
use crate::{
    NoMemory,
    message::{Capability, Endpoint, Message, Rights, Step},
};
use ipc::{Derivation, Error, Header, INLINE_WORDS, MESSAGE_WORDS, Next, Party, Serving, Threads};
use std::{
    collections::HashMap,
    sync::{Arc, Condvar, Mutex},
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Runs,
    Blocked,
    Claimed,
}

#[derive(Debug)]
struct Member {
    party: Party<u64>,
    serving: Serving<u64>,
    state: State,
    words: [u64; MESSAGE_WORDS],
    capability: Option<Capability>,
    /// The derivation by which the right came to this holder.
    derivation: Option<Arc<Derivation>>,
}

impl Default for Member {
    fn default() -> Member {
        Member {
            party: Party::new(),
            serving: None,
            state: State::Runs,
            words: [0; MESSAGE_WORDS],
            capability: None,
            derivation: None,
        }
    }
}

#[derive(Debug, Default)]
struct Members(HashMap<u64, Member>);

impl Members {
    fn of(&mut self, thread: u64) -> &mut Member {
        self.0.entry(thread).or_default()
    }
}

impl Threads<u64> for Members {
    fn party(&mut self, thread: u64) -> &mut Party<u64> {
        &mut self.of(thread).party
    }
    fn serving(&mut self, thread: u64) -> &mut Serving<u64> {
        &mut self.of(thread).serving
    }
    fn claim(&mut self, thread: u64) -> bool {
        let member = self.of(thread);
        let is_ours = member.state == State::Blocked;
        if is_ours {
            member.state = State::Claimed;
        }
        is_ours
    }
    fn block(&mut self, thread: u64) {
        self.of(thread).state = State::Blocked;
    }
    fn copy(&mut self, from: u64, to: u64) {
        let sender = self.of(from);
        let (message, words, capability) =
            (sender.party.message, sender.words, sender.capability.take());
        let receiver = self.of(to);
        receiver.party.message = message;
        (receiver.words, receiver.capability) = (words, capability);
    }
    fn lend(&mut self, _: u64, _: u64) {}
}

#[derive(Debug, Default)]
struct Locked {
    endpoint: ipc::Endpoint<u64>,
    members: Members,
}

#[derive(Debug, Default)]
struct Inbox {
    locked: Mutex<Locked>,
    changed: Condvar,
}

/// The right to an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct EndpointHandle {
    place: Arc<Inbox>,
    badge: u64,
    can_serve: bool,
    derivation: Option<Arc<Derivation>>,
}

impl EndpointHandle {
    fn is_over(&self) -> bool {
        self.derivation.as_ref().is_some_and(|derivation| derivation.is_over())
    }
}

/// The end of a derivation, and the place where its holders wait.
#[derive(Debug)]
pub(crate) struct DerivationHandle(Arc<Derivation>, Option<Arc<Inbox>>);

pub(crate) fn give(
    capability: &Capability,
    rights: Rights,
    badge: u64,
) -> Result<(Capability, DerivationHandle), NoMemory> {
    match capability {
        // Memory cannot be taken away from a thread of the host.
        Capability::Region(_) | Capability::Lender(_) => {
            let derivation = Derivation::new(None).ok_or(NoMemory)?;
            Ok((capability.clone(), DerivationHandle(derivation, None)))
        }
        Capability::Endpoint(Endpoint(of)) => {
            let derivation = Derivation::new(of.derivation.clone()).ok_or(NoMemory)?;
            let can_serve = of.can_serve && rights.can_serve;
            let badge = if of.can_serve && !can_serve { badge } else { of.badge };
            let place = of.place.clone();
            let handle = DerivationHandle(derivation.clone(), Some(place.clone()));
            let given = EndpointHandle { place, badge, can_serve, derivation: Some(derivation) };
            Ok((Capability::Endpoint(Endpoint(given)), handle))
        }
    }
}

pub(crate) fn revoke(DerivationHandle(derivation, place): &DerivationHandle) {
    derivation.end();
    let Some(place) = place else { return };
    let mut locked = lock(&place.locked);
    let Locked { endpoint, members } = &mut *locked;
    let is_over =
        |member: &Member| member.derivation.as_ref().is_some_and(|derivation| derivation.is_over());
    let all = members.0.iter();
    let meant: Vec<u64> =
        all.filter(|(_, member)| is_over(member)).map(|(&thread, _)| thread).collect();
    while endpoint.turn_away(members, Error::Gone, |thread| meant.contains(&thread)).is_some() {}
    place.changed.notify_all();
}

pub(crate) fn endpoint_new() -> Result<EndpointHandle, NoMemory> {
    Ok(EndpointHandle { place: Arc::default(), badge: 0, can_serve: true, derivation: None })
}

pub(crate) fn endpoint_badged(
    handle: &EndpointHandle,
    badge: u64,
) -> Result<EndpointHandle, NoMemory> {
    Ok(EndpointHandle { badge, can_serve: false, ..handle.clone() })
}

/// Does a step with `message`, which is replaced by the message that came back.
pub(crate) fn step(
    handle: &EndpointHandle,
    step: Step,
    message: &mut Message,
    deadline_ns: Option<u64>,
) -> Result<(), Error> {
    let me = current();
    let mut locked = lock(&handle.place.locked);
    // A thread that revokes the derivation ends it before it looks for waiting threads.
    let serves = matches!(step, Step::Receive | Step::Reply | Step::ReplyAndReceive);
    if handle.is_over() || serves && !handle.can_serve {
        return Err(Error::Gone);
    }
    let Locked { endpoint, members } = &mut *locked;
    let member = members.of(me);
    member.derivation = handle.derivation.clone();
    let length = message.words().len();
    let header = Header::new(message.label, length);
    member.capability = message.capability.take();
    member.words[..length].copy_from_slice(message.words());
    member.party.message = ipc::Message {
        header: header.as_sent(member.capability.is_some()),
        badge: handle.badge,
        words: [0; INLINE_WORDS],
    };
    let next = match step {
        Step::Call => endpoint.call(members, me),
        Step::Send => endpoint.send(members, me),
        Step::Receive => endpoint.receive(members, me),
        Step::Reply => endpoint.reply(members, me),
        Step::ReplyAndReceive => endpoint.reply_and_receive(members, me),
    };
    handle.place.changed.notify_all();
    if matches!(next, Next::Block | Next::HandOver(_)) {
        let mut is_early = true;
        while locked.members.of(me).state == State::Blocked && is_early {
            (locked, is_early) = wait(&handle.place.changed, locked, deadline_ns);
        }
        let Locked { endpoint, members } = &mut *locked;
        let was_claimed = members.of(me).state == State::Claimed;
        members.of(me).state = State::Runs;
        if !was_claimed {
            endpoint.cancel(members, me);
            return Err(Error::TimedOut);
        }
    }
    let member = locked.members.of(me);
    let came = member.party.message;
    message.capability = member.capability.take();
    message.label = came.header.label();
    let (first, rest) = member.words.split_at(INLINE_WORDS);
    let first = core::array::from_fn(|index| first[index]);
    message.set_words(first, came.header.words());
    let long = came.header.words().saturating_sub(INLINE_WORDS);
    for word in rest.iter().take(long) {
        assert!(message.push(*word), "a message has at most 64 words");
    }
    (message.badge, message.is_notification) = (came.badge, came.header.is_notification());
    member.party.result
}

pub(crate) fn signal(handle: &EndpointHandle, bits: u64) {
    let mut locked = lock(&handle.place.locked);
    if handle.is_over() {
        return;
    }
    let Locked { endpoint, members } = &mut *locked;
    let _ = endpoint.signal(members, bits);
    handle.place.changed.notify_all();
}

/// Ends the calls received at `handle` as if the server had died.
pub(crate) fn end_server(handle: &EndpointHandle) {
    let mut locked = lock(&handle.place.locked);
    let Locked { endpoint, members } = &mut *locked;
    let is_serving = |(&thread, member): (&u64, &Member)| member.serving.map(|_| thread);
    let servers: Vec<u64> = members.0.iter().filter_map(is_serving).collect();
    for server in servers {
        let _ = endpoint.abandon(members, server, Error::Restarted);
    }
    handle.place.changed.notify_all();
}

#[cfg(test)]
mod tests {
    use crate::message::{Capability, Derivation, Endpoint, Error, Message, Rights};
    use crate::{memory::Region, time};
    use std::{sync::atomic::Ordering::Relaxed, thread};

    #[test]
    fn long_messages_and_regions_travel_both_ways() {
        let server = Endpoint::new().unwrap();
        let client = server.badged(7).unwrap();
        let serving = thread::spawn(move || {
            let mut message = Message::new(0);
            server.receive(&mut message, None).unwrap();
            assert_eq!((message.label(), message.badge(), message.words().len()), (3, 7, 40));
            let Some(Capability::Region(region)) = message.capability.take() else { panic!() };
            region.words()[5].store(9, Relaxed);
            let sum = message.words().iter().sum();
            message.reset(4);
            assert!(message.push(sum));
            server.reply(&mut message).unwrap();
        });
        let region = Region::new(100).unwrap();
        let mut message = Message::new(3);
        assert!((0..40).all(|word| message.push(word)));
        message.capability = Some(Capability::Region(region.clone()));
        client.call(&mut message, None).unwrap();
        serving.join().unwrap();
        assert_eq!((message.label(), message.words()), (4, &[780][..]));
        assert!(message.capability.is_none());
        assert_eq!(region.words()[5].load(Relaxed), 9);
    }

    #[test]
    fn what_was_given_is_taken_back_from_those_who_wait_by_it() {
        let server = Endpoint::new().unwrap();
        let derivation =
            Derivation::new(&Capability::Endpoint(server.clone()), Rights::default(), 7).unwrap();
        let Capability::Endpoint(given) = derivation.capability() else { panic!() };
        let on =
            Derivation::new(&Capability::Endpoint(given.clone()), Rights::default(), 8).unwrap();
        let Capability::Endpoint(given_on) = on.capability() else { panic!() };
        let calls = [given.clone(), given_on]
            .map(|endpoint| thread::spawn(move || endpoint.call(&mut Message::new(1), None)));
        let mut message = Message::new(0);
        server.receive(&mut message, None).unwrap();
        assert_eq!(message.badge(), 7);
        assert_eq!(given.receive(&mut Message::new(0), None), Err(Error::Gone));
        drop(derivation);
        server.reply(&mut message).unwrap();
        let mut ends = calls.map(|call| call.join().unwrap());
        ends.sort_by_key(Result::is_err);
        assert_eq!(ends, [Ok(()), Err(Error::Gone)]);
        assert_eq!(given.call(&mut message, None), Err(Error::Gone));
        let soon = Some(time::now().after_ns(1_000_000));
        assert_eq!(server.receive(&mut message, soon), Err(Error::TimedOut));
        let late = Derivation::new(&Capability::Endpoint(given), Rights::default(), 7).unwrap();
        let Capability::Endpoint(late) = late.capability() else { panic!() };
        assert_eq!(late.call(&mut message, None), Err(Error::Gone));
    }

    #[test]
    fn a_deadline_ends_a_wait_and_bits_are_kept() {
        let endpoint = Endpoint::new().unwrap();
        let soon = || Some(time::now().after_ns(1_000_000));
        let mut message = Message::new(0);
        assert_eq!(endpoint.call(&mut message, soon()), Err(Error::TimedOut));
        endpoint.signal(5);
        endpoint.signal(2);
        endpoint.receive(&mut message, None).unwrap();
        assert_eq!(message.bits(), Some(7));
        assert_eq!(endpoint.receive(&mut message, soon()), Err(Error::TimedOut));
    }
}
