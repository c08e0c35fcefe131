//! Tests of every interleaving (up to three preemptions) of a sender and a receiver.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p shared-ring --release --test model`. A doorbell that is lost is a deadlock.
#![cfg(loom)]
use loom::{
    sync::{Condvar, Mutex, atomic::AtomicU64},
    thread,
};
use shared_ring::{Consumer, Doorbell, Producer, PushError, words_for};
use std::sync::Arc;

/// Explores `body`.
fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

/// A count of rings.
struct Bell {
    rings: Mutex<u32>,
    change: Condvar,
}

impl Bell {
    fn new() -> Bell {
        Bell { rings: Mutex::new(0), change: Condvar::new() }
    }
    fn ticket(&self) -> u32 {
        *self.rings.lock().unwrap()
    }
    /// Waits for a ring since `ticket` was taken.
    fn wait(&self, ticket: u32) {
        let mut rings = self.rings.lock().unwrap();
        while *rings == ticket {
            rings = self.change.wait(rings).unwrap();
        }
    }
    fn ring(&self) {
        *self.rings.lock().unwrap() += 1;
        self.change.notify_one();
    }
}

/// Memory of a ring, and a bell for each party.
struct Rig {
    words: Vec<AtomicU64>,
    entries: Bell,
    room: Bell,
}

fn send(rig: &Rig, count: u32) {
    let mut producer = Producer::<_, [u32; 3]>::new(&rig.words[..]).unwrap();
    for number in 0..count {
        loop {
            let ticket = rig.room.ticket();
            match producer.push(&[number; 3]) {
                Ok(Doorbell::Ring) => {
                    rig.entries.ring();
                }
                Ok(Doorbell::Silent) => {}
                Err(PushError::Corrupt) => unreachable!(),
                Err(PushError::Full) => {
                    if producer.wait_begins().unwrap() {
                        rig.room.wait(ticket);
                    }
                    continue;
                }
            }
            break;
        }
    }
}

fn receive(rig: &Rig, count: u32) {
    let mut consumer = Consumer::<_, [u32; 3]>::new(&rig.words[..]).unwrap();
    for number in 0..count {
        loop {
            let ticket = rig.entries.ticket();
            match consumer.pop().unwrap() {
                Some((entry, doorbell)) => {
                    assert_eq!(entry, [number; 3]);
                    if doorbell == Doorbell::Ring {
                        rig.room.ring();
                    }
                    break;
                }
                None => {
                    if consumer.wait_begins().unwrap() {
                        rig.entries.wait(ticket);
                    }
                }
            }
        }
    }
}

#[test]
fn a_ring_delivers_in_order_and_no_doorbell_is_lost() {
    model(|| {
        let words = (0..words_for::<[u32; 3]>(1)).map(|_| AtomicU64::new(0)).collect();
        let rig = Arc::new(Rig { words, entries: Bell::new(), room: Bell::new() });
        let other = rig.clone();
        let sender = thread::spawn(move || send(&other, 2));
        receive(&rig, 2);
        sender.join().unwrap();
    });
}
