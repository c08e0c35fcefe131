//! Tests of a ring whose two parties are one thread, and of lies of the other party.
#![cfg(not(loom))]
use shared_ring::{Consumer, Corrupt, Doorbell, Producer, PushError, words_for};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

fn words(count: usize) -> Vec<AtomicU64> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

#[test]
fn a_ring_refuses_when_full_and_yields_in_order() {
    let memory = words(words_for::<[u8; 20]>(3));
    let mut producer = Producer::<_, [u8; 20]>::new(&memory[..]).unwrap();
    let mut consumer = Consumer::<_, [u8; 20]>::new(&memory[..]).unwrap();
    assert_eq!(consumer.pop(), Ok(None));
    for round in 0..10_u8 {
        for number in 0..3 {
            assert_eq!(producer.push(&[round * 3 + number; 20]), Ok(Doorbell::Silent));
        }
        assert_eq!(producer.push(&[0; 20]), Err(PushError::Full));
        for number in 0..3 {
            let expected = [round * 3 + number; 20];
            assert_eq!(consumer.pop(), Ok(Some((expected, Doorbell::Silent))));
        }
    }
}

#[test]
fn a_party_that_waits_is_rung_once() {
    let memory = words(words_for::<u64>(1));
    let mut producer = Producer::<_, u64>::new(&memory[..]).unwrap();
    let mut consumer = Consumer::<_, u64>::new(&memory[..]).unwrap();
    assert_eq!(consumer.wait_begins(), Ok(true));
    assert_eq!(producer.push(&1), Ok(Doorbell::Ring));
    assert_eq!(consumer.wait_begins(), Ok(false));
    assert_eq!(producer.wait_begins(), Ok(true));
    assert_eq!(consumer.pop(), Ok(Some((1, Doorbell::Ring))));
    assert_eq!(producer.wait_begins(), Ok(false));
}

#[test]
fn counts_that_cannot_be_are_corrupt_whatever_they_are() {
    for lie in [2, 3, 1 << 32, u64::MAX, u64::MAX / 2] {
        let memory = words(words_for::<u64>(1));
        let mut producer = Producer::<_, u64>::new(&memory[..]).unwrap();
        let mut consumer = Consumer::<_, u64>::new(&memory[..]).unwrap();
        memory[0].store(lie, SeqCst);
        assert_eq!(consumer.pop(), Err(Corrupt));
        assert_eq!(consumer.wait_begins(), Err(Corrupt));
        memory[8].store(lie, SeqCst);
        assert_eq!(producer.push(&1), Err(PushError::Corrupt));
    }
    assert!(Producer::<_, u64>::new(&words(16)[..]).is_none());
    assert!(Consumer::<_, u64>::new(&words(3)[..]).is_none());
}
