//! Tests of the endpoint with threads: every interleaving with loom (`RUSTFLAGS="--cfg loom" cargo
//! test -p ipc --release`), one run of each without.
//!
//! The threads of a model are in an array. A blocked thread is claimed by the thread that changes its
//! state from `BLOCKED`; exactly one succeeds. A lost wake-up is a deadlock, which loom reports; a
//! second reply, or a message read while it is written, fails an assertion or loom's cells.
use ipc::{Derivation, Endpoint, Error, Header, Message, Next, Party, Serving, Table, Threads};
#[cfg(loom)]
use loom::{
    sync::{Mutex, atomic::AtomicU32},
    thread,
};
use std::sync::{Arc, atomic::Ordering::SeqCst};
#[cfg(not(loom))]
use std::{
    sync::{Mutex, atomic::AtomicU32},
    thread,
};

const RUNNING: u32 = 0;
const BLOCKED: u32 = 1;
const CLAIMED: u32 = 2;
const PARTNER: u32 = 0;
const DEADLINE: u32 = 1;

/// The greatest number of threads of a model.
const MOST: usize = 3;

struct Locked {
    endpoint: Endpoint<usize>,
    parties: [Party<usize>; MOST],
    serving: [Serving<usize>; MOST],
}

struct World {
    locked: Mutex<Locked>,
    states: [AtomicU32; MOST],
    outcomes: [AtomicU32; MOST],
    /// Raised to let a blocked thread continue.
    gates: [Gate; MOST],
}

#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    changed: Condition,
}

#[cfg(loom)]
type Condition = loom::sync::Condvar;
#[cfg(not(loom))]
type Condition = std::sync::Condvar;

struct Access<'a> {
    world: &'a World,
    parties: &'a mut [Party<usize>; MOST],
    serving: &'a mut [Serving<usize>; MOST],
}

impl Threads<usize> for Access<'_> {
    fn party(&mut self, thread: usize) -> &mut Party<usize> {
        &mut self.parties[thread]
    }
    fn serving(&mut self, thread: usize) -> &mut Serving<usize> {
        &mut self.serving[thread]
    }
    fn claim(&mut self, thread: usize) -> bool {
        self.world.claim(thread, PARTNER)
    }
    fn block(&mut self, thread: usize) {
        self.world.states[thread].store(BLOCKED, SeqCst);
    }
    fn copy(&mut self, from: usize, to: usize) {
        let message = self.parties[from].message;
        self.parties[to].message = message;
    }
    fn lend(&mut self, _: usize, _: usize) {}
}

impl Access<'_> {
    /// Does the work that a thread that passes does itself: copies the message.
    fn bring(&mut self, from: usize, to: usize) -> Next<usize> {
        self.copy(from, to);
        self.party(to).result = Ok(());
        Next::HandOver(to)
    }
}

impl World {
    fn new() -> Arc<World> {
        Arc::new(World {
            locked: Mutex::new(Locked {
                endpoint: Endpoint::new(),
                parties: std::array::from_fn(|_| Party::new()),
                serving: [None; MOST],
            }),
            states: std::array::from_fn(|_| AtomicU32::new(RUNNING)),
            outcomes: std::array::from_fn(|_| AtomicU32::new(PARTNER)),
            gates: std::array::from_fn(|_| Gate::default()),
        })
    }

    fn claim(&self, thread: usize, outcome: u32) -> bool {
        let is_ours =
            self.states[thread].compare_exchange(BLOCKED, CLAIMED, SeqCst, SeqCst).is_ok();
        if is_ours {
            self.outcomes[thread].store(outcome, SeqCst);
        }
        is_ours
    }

    fn wake(&self, thread: usize) {
        self.states[thread].store(RUNNING, SeqCst);
        *self.gates[thread].is_open.lock().unwrap() = true;
        self.gates[thread].changed.notify_one();
    }

    /// Lets a deadline of `thread` pass now.
    fn expire(&self, thread: usize) {
        if self.claim(thread, DEADLINE) {
            self.wake(thread);
        }
    }

    fn with<R>(&self, step: impl FnOnce(&mut Endpoint<usize>, &mut Access<'_>) -> R) -> R {
        let mut locked = self.locked.lock().unwrap();
        let Locked { endpoint, parties, serving } = &mut *locked;
        step(endpoint, &mut Access { world: self, parties, serving })
    }

    /// Does a step of `me` and the action that it returns.
    fn step(
        &self,
        me: usize,
        step: impl FnOnce(&mut Endpoint<usize>, &mut Access<'_>) -> Next<usize>,
    ) -> Result<Message, Error> {
        let blocks = match self.with(step) {
            Next::GoOn => false,
            Next::Wake(one) => {
                self.wake(one);
                false
            }
            Next::WakeBoth(one, other) => {
                self.wake(one);
                self.wake(other);
                false
            }
            Next::Block => true,
            Next::HandOver(to) => {
                self.wake(to);
                true
            }
        };
        if blocks {
            let gate = &self.gates[me];
            let mut is_open = gate.is_open.lock().unwrap();
            while !*is_open {
                is_open = gate.changed.wait(is_open).unwrap();
            }
            *is_open = false;
            drop(is_open);
            if self.outcomes[me].swap(PARTNER, SeqCst) == DEADLINE {
                self.with(|endpoint, access| endpoint.cancel(access, me));
                return Err(Error::TimedOut);
            }
        }
        self.with(|_, access| {
            let party = access.party(me);
            party.result.map(|()| party.message)
        })
    }

    fn call(&self, me: usize, word: u64) -> Result<u64, Error> {
        let answer = self.step(me, |endpoint, access| {
            access.party(me).message = message(word);
            endpoint.call(access, me)
        })?;
        Ok(answer.words[0])
    }

    fn send(&self, me: usize, word: u64) -> Result<(), Error> {
        let sent = self.step(me, |endpoint, access| {
            access.party(me).message = message(word);
            endpoint.send(access, me)
        });
        sent.map(|_| ())
    }

    fn receive(&self, me: usize) -> Result<Message, Error> {
        self.step(me, |endpoint, access| endpoint.receive(access, me))
    }

    fn reply(&self, me: usize, word: u64) -> Result<(), Error> {
        let step = self.step(me, |endpoint, access| {
            access.party(me).message = message(word);
            endpoint.reply(access, me)
        });
        step.map(|_| ())
    }

    fn reply_and_receive(&self, me: usize, word: u64) -> Result<Message, Error> {
        self.step(me, |endpoint, access| {
            access.party(me).message = message(word);
            endpoint.reply_and_receive(access, me)
        })
    }

    /// Calls directly a receiver that waits, or else as usual.
    fn pass_call(&self, me: usize, word: u64) -> Result<u64, Error> {
        let answer = self.step(me, |endpoint, access| {
            access.party(me).message = message(word);
            match endpoint.first_receiver() {
                Some(receiver) if endpoint.call_to(access, me, receiver) => {
                    access.bring(me, receiver)
                }
                _ => endpoint.call(access, me),
            }
        })?;
        Ok(answer.words[0])
    }

    /// Replies directly to the client if no other thread waits, or else as usual.
    fn pass_reply(&self, me: usize, word: u64) -> Result<Message, Error> {
        self.step(me, |endpoint, access| {
            access.party(me).message = message(word);
            let serving = *access.serving(me);
            match serving {
                Some(client) if endpoint.is_quiet() && endpoint.reply_to(access, me, client) => {
                    access.bring(me, client)
                }
                _ => endpoint.reply_and_receive(access, me),
            }
        })
    }

    fn signal(&self, bits: u64) {
        if let Next::Wake(one) = self.with(|endpoint, access| endpoint.signal(access, bits)) {
            self.wake(one);
        }
    }

    fn close(&self, error: Error) {
        while let Some(one) = self.with(|endpoint, access| endpoint.close(access, error)) {
            self.wake(one);
        }
    }

    fn turn_away(&self, whom: usize) {
        let turn = |endpoint: &mut Endpoint<usize>, access: &mut Access<'_>| {
            endpoint.turn_away(access, Error::Gone, |thread| thread == whom)
        };
        while let Some(one) = self.with(turn) {
            assert_eq!(one, whom);
            self.wake(one);
        }
    }

    fn abandon(&self, me: usize, error: Error) {
        if let Some(one) = self.with(|endpoint, access| endpoint.abandon(access, me, error)) {
            self.wake(one);
        }
    }
}

fn message(word: u64) -> Message {
    Message { header: Header::new(word, 1), badge: 0, words: [word, 0, 0, 0] }
}

fn explore(body: impl Fn() + Send + Sync + 'static) {
    #[cfg(loom)]
    {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(body);
    }
    #[cfg(not(loom))]
    body();
}

const CLIENT: usize = 0;
const OTHER: usize = 1;
const SERVER: usize = 2;

#[test]
fn a_call_gets_its_reply() {
    explore(|| {
        let world = World::new();
        let client = thread::spawn({
            let world = world.clone();
            move || assert_eq!(world.call(CLIENT, 7), Ok(8))
        });
        let received = world.receive(SERVER).unwrap();
        world.reply(SERVER, received.words[0] + 1).unwrap();
        assert_eq!(world.reply(SERVER, 99), Err(Error::NoCaller), "the right is single use");
        client.join().unwrap();
    });
}

#[test]
fn two_clients_get_their_own_replies() {
    explore(|| {
        let world = World::new();
        let clients = [CLIENT, OTHER].map(|me| {
            let world = world.clone();
            thread::spawn(move || assert_eq!(world.call(me, me as u64), Ok(me as u64 + 10)))
        });
        let first = world.receive(SERVER).unwrap();
        let second = world.reply_and_receive(SERVER, first.words[0] + 10).unwrap();
        world.reply(SERVER, second.words[0] + 10).unwrap();
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
}

#[test]
fn a_send_is_received_once_beside_a_call() {
    explore(|| {
        let world = World::new();
        let sender = thread::spawn({
            let world = world.clone();
            move || world.send(CLIENT, 1).unwrap()
        });
        let caller = thread::spawn({
            let world = world.clone();
            move || assert_eq!(world.call(OTHER, 2), Ok(20))
        });
        let mut seen = 0;
        for _ in 0..2 {
            let word = world.receive(SERVER).unwrap().words[0];
            seen += word;
            if word == 2 {
                world.reply(SERVER, 20).unwrap();
            }
        }
        assert_eq!(seen, 3);
        sender.join().unwrap();
        caller.join().unwrap();
    });
}

#[test]
fn a_deadline_ends_a_call_at_any_moment() {
    explore(|| {
        let world = World::new();
        let client = thread::spawn({
            let world = world.clone();
            move || world.call(CLIENT, 7)
        });
        let timer = thread::spawn({
            let world = world.clone();
            move || {
                world.expire(CLIENT);
                world.close(Error::Gone);
            }
        });
        let replied = world.receive(SERVER).and_then(|_| world.reply(SERVER, 8));
        let answer = client.join().unwrap();
        timer.join().unwrap();
        assert_eq!(answer == Ok(8), replied == Ok(()), "{answer:?} {replied:?}");
        world.with(|_, access| assert!(access.serving(SERVER).is_none()));
    });
}

#[test]
fn who_passes_gets_a_reply_or_the_deadline() {
    explore(|| {
        let world = World::new();
        let server = thread::spawn({
            let world = world.clone();
            move || {
                let mut received = world.receive(SERVER);
                while let Ok(message) = received {
                    received = world.pass_reply(SERVER, message.words[0] + 1);
                }
            }
        });
        let timer = thread::spawn({
            let world = world.clone();
            move || world.expire(CLIENT)
        });
        let answer = world.pass_call(CLIENT, 7);
        timer.join().unwrap();
        world.close(Error::Gone);
        server.join().unwrap();
        assert!(matches!(answer, Ok(8) | Err(Error::TimedOut)), "{answer:?}");
        world.with(|_, access| assert!(access.serving(SERVER).is_none()));
    });
}

#[test]
fn closing_wakes_everybody() {
    explore(|| {
        let world = World::new();
        let client = thread::spawn({
            let world = world.clone();
            move || world.call(CLIENT, 7)
        });
        let server = thread::spawn({
            let world = world.clone();
            move || {
                let _ = world.receive(SERVER)?;
                // The call was received before the end, so it is answered all the same.
                world.reply_and_receive(SERVER, 8).map(|_| ())
            }
        });
        world.close(Error::Gone);
        let answer = client.join().unwrap();
        assert!(matches!(answer, Ok(8) | Err(Error::Gone)), "{answer:?}");
        assert!(server.join().unwrap().is_err());
    });
}

#[test]
fn who_is_turned_away_goes_on_and_others_stay() {
    explore(|| {
        let world = World::new();
        let clients = [CLIENT, OTHER].map(|me| {
            let world = world.clone();
            thread::spawn(move || world.call(me, me as u64))
        });
        world.turn_away(CLIENT);
        let mut received = world.receive(SERVER).unwrap();
        while received.words[0] != OTHER as u64 {
            // The call came after that.
            received = world.reply_and_receive(SERVER, received.words[0] + 10).unwrap();
        }
        world.reply(SERVER, received.words[0] + 10).unwrap();
        world.close(Error::Gone);
        let [client, other] = clients.map(|client| client.join().unwrap());
        assert_eq!(other, Ok(OTHER as u64 + 10));
        assert!(matches!(client, Ok(10) | Err(Error::Gone)), "{client:?}");
    });
}

#[test]
fn who_is_turned_away_at_its_deadline_is_told_one_of_them() {
    explore(|| {
        let world = World::new();
        let client = thread::spawn({
            let world = world.clone();
            move || world.call(CLIENT, 7)
        });
        let timer = thread::spawn({
            let world = world.clone();
            move || world.expire(CLIENT)
        });
        world.turn_away(CLIENT);
        timer.join().unwrap();
        world.close(Error::Gone);
        let answer = client.join().unwrap();
        assert!(matches!(answer, Err(Error::Gone | Error::TimedOut)), "{answer:?}");
    });
}

#[test]
fn a_receiver_that_is_turned_away_takes_no_message_along() {
    explore(|| {
        let world = World::new();
        let receiver = thread::spawn({
            let world = world.clone();
            move || world.receive(SERVER).and_then(|_| world.reply(SERVER, 8))
        });
        let client = thread::spawn({
            let world = world.clone();
            move || world.call(CLIENT, 7)
        });
        world.turn_away(SERVER);
        world.close(Error::Gone);
        let (receiver, client) = (receiver.join().unwrap(), client.join().unwrap());
        assert_eq!(receiver == Ok(()), client == Ok(8), "{receiver:?} {client:?}");
        assert!(matches!(client, Ok(8) | Err(Error::Gone)), "{client:?}");
    });
}

/// Tests that a capability that is put into a table while its derivation is revoked  is not there
/// afterwards.
#[test]
fn nothing_of_a_gift_is_left_in_a_table() {
    explore(|| {
        let derivation = Derivation::new(None).unwrap();
        let table = Arc::new(Mutex::new(Table::<Arc<Derivation>>::new(8)));
        let receivers = [(); 2].map(|()| {
            let (derivation, table) = (derivation.clone(), table.clone());
            thread::spawn(move || {
                let mut table = table.lock().unwrap();
                if !derivation.is_over() {
                    table.insert(derivation).unwrap();
                }
            })
        });
        derivation.end();
        let mut from = 0;
        loop {
            let mut table = table.lock().unwrap();
            let Some((handle, held, after)) = table.next(from) else { break };
            assert!(held.is_over());
            table.remove(handle);
            from = after;
        }
        receivers.into_iter().for_each(|one| one.join().unwrap());
        assert!(table.lock().unwrap().next(0).is_none());
    });
}

#[test]
fn the_death_of_a_server_tells_its_caller_and_leaves_the_others() {
    explore(|| {
        let world = World::new();
        let client = thread::spawn({
            let world = world.clone();
            move || match world.call(CLIENT, 7) {
                // The successor takes the call again.
                Err(Error::Restarted) => world.call(CLIENT, 7),
                other => other,
            }
        });
        let _ = world.receive(SERVER).unwrap();
        // The server dies here, and OTHER succeeds it.
        world.abandon(SERVER, Error::Restarted);
        let received = world.receive(OTHER).unwrap();
        world.reply(OTHER, received.words[0] + 1).unwrap();
        assert_eq!(client.join().unwrap(), Ok(8));
    });
}

#[test]
fn no_bit_is_lost_and_none_comes_twice() {
    explore(|| {
        let world = World::new();
        let signallers = [1, 2].map(|bit| {
            let world = world.clone();
            thread::spawn(move || world.signal(bit))
        });
        let mut seen = 0;
        while seen != 3 {
            let message = world.receive(SERVER).unwrap();
            assert!(message.header.is_notification());
            assert_eq!(seen & message.badge, 0);
            seen |= message.badge;
        }
        signallers.into_iter().for_each(|one| one.join().unwrap());
        assert_eq!(world.with(|endpoint, _| endpoint.take_bits()), 0);
    });
}

#[test]
fn a_thread_waits_for_bits_and_messages_at_once() {
    explore(|| {
        let world = World::new();
        let client = thread::spawn({
            let world = world.clone();
            move || assert_eq!(world.call(CLIENT, 7), Ok(8))
        });
        let signaller = thread::spawn({
            let world = world.clone();
            move || world.signal(4)
        });
        let (mut bits, mut calls) = (0, 0);
        while bits == 0 || calls == 0 {
            let message = world.receive(SERVER).unwrap();
            if message.header.is_notification() {
                bits |= message.badge;
            } else {
                world.reply(SERVER, message.words[0] + 1).unwrap();
                calls += 1;
            }
        }
        client.join().unwrap();
        signaller.join().unwrap();
        assert_eq!((bits, calls), (4, 1));
    });
}

#[test]
fn what_was_closed_can_be_opened_again() {
    explore(|| {
        let world = World::new();
        world.close(Error::Gone);
        assert_eq!(world.call(CLIENT, 7), Err(Error::Gone));
        world.with(|endpoint, _| endpoint.reopen());
        let client = thread::spawn({
            let world = world.clone();
            move || world.call(CLIENT, 7)
        });
        assert!(world.receive(SERVER).is_ok());
        assert_eq!(world.reply(SERVER, 8), Ok(()));
        assert_eq!(client.join().unwrap(), Ok(8));
    });
}
