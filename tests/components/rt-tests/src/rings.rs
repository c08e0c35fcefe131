//! Rings in a region, and their bells.
use crate::{Test, on_thread};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering::*};
use rt::{
    lock_class,
    memory::Region,
    ring::{Consumer, Part, Producer, PushError, words_for},
    sync::{Event, Mutex},
    thread::Policy,
};

pub(crate) const TESTS: &[Test] = &[
    ("entries come in order whoever waits for the other", order),
    ("a handler sees what was pushed before it came and after", || handled_beside(0)),
    ("a handler misses no ring that other threads hear, too", || handled_beside(2)),
    ("a handler that announces no wait does not loop", handled_without_announcement),
];

const COUNT: u64 = 5_000;

lock_class! {
    static CONSUMER = "test.consumer";
}

fn order() {
    let region = Region::new(4096).unwrap();
    let part = Part::of(&region, 16, words_for::<[u64; 3]>(4)).unwrap();
    assert!(Part::of(&region, 500, 13).is_none());
    let theirs = part.clone();
    let sender = on_thread(move || {
        let mut producer = Producer::<_, [u64; 3]>::new(theirs.clone()).unwrap();
        for number in 0..COUNT {
            loop {
                match producer.push(&[number, !number, 7]) {
                    Ok(doorbell) => break theirs.consumer_bell().answer(doorbell),
                    Err(PushError::Full) => {
                        if producer.wait_begins().unwrap() {
                            theirs.producer_bell().wait(None);
                        }
                    }
                    Err(PushError::Corrupt) => panic!("corrupt"),
                }
            }
        }
    });
    let mut consumer = Consumer::<_, [u64; 3]>::new(part.clone()).unwrap();
    let mut next = 0;
    while next < COUNT {
        match consumer.pop().unwrap() {
            Some((entry, doorbell)) => {
                assert_eq!(entry, [next, !next, 7]);
                part.producer_bell().answer(doorbell);
                next += 1;
            }
            None if consumer.wait_begins().unwrap() => {
                part.consumer_bell().wait(None);
            }
            None => {}
        }
    }
    sender.join();
}

/// A handler that announces no wait, because nothing waits for room, is called when the bell is rung, and does not loop.
fn handled_without_announcement() {
    const RINGS: u64 = 500;
    let region = Region::new(4096).unwrap();
    let bell = Part::of(&region, 0, words_for::<u64>(4)).unwrap().producer_bell();
    let heard = Arc::new((AtomicU64::new(0), Event::new()));
    let hears = heard.clone();
    let handler = move || {
        hears.0.fetch_add(1, AcqRel);
        hears.1.signal();
    };
    bell.set_handler("handler", Policy::Fair { nice: 0 }, handler).unwrap();
    for _ in 0..RINGS {
        let before = heard.0.load(Acquire);
        bell.ring();
        loop {
            let ticket = heard.1.ticket();
            if heard.0.load(Acquire) != before {
                break;
            }
            heard.1.wait(ticket, None);
        }
    }
    // A wait may end early, but most do not.
    let calls = heard.0.load(Acquire);
    assert!(calls <= 2 * RINGS, "{calls} calls for {RINGS} rings");
}

/// Entries are taken by a handler when the bell is rung, while `others` attend the same bell and do nothing.
fn handled_beside(others: usize) {
    let region = Region::new(4096).unwrap();
    let part = Part::of(&region, 0, words_for::<u64>(4)).unwrap();
    let consumer = Mutex::new(&CONSUMER, Consumer::<_, u64>::new(part.clone()).unwrap());
    let mut producer = Producer::<_, u64>::new(part.clone()).unwrap();
    let bell = part.consumer_bell();
    bell.answer(producer.push(&0).unwrap());
    let heard = Arc::new((AtomicU64::new(0), Event::new()));
    let hears = heard.clone();
    let handler = move || {
        let mut consumer = consumer.lock();
        loop {
            while let Some((number, _)) = consumer.pop().unwrap() {
                assert_eq!(hears.0.fetch_add(1, AcqRel), number);
                hears.1.signal();
            }
            if consumer.wait_begins().unwrap() {
                return;
            }
        }
    };
    bell.set_handler("handler", Policy::Fair { nice: 0 }, handler).unwrap();
    for _ in 0..others {
        bell.set_handler("other", Policy::Fair { nice: 0 }, || ()).unwrap();
    }
    for number in 1..1_000 {
        loop {
            let ticket = heard.1.ticket();
            if heard.0.load(Acquire) == number {
                break;
            }
            heard.1.wait(ticket, None);
        }
        bell.answer(producer.push(&number).unwrap());
    }
}
