//! Messages of a component to itself.
use crate::{Test, on_thread};
use core::sync::atomic::Ordering::Relaxed;
use rt::{
    PAGE_BYTES,
    memory::Region,
    message::{Capability, Endpoint, Error, MESSAGE_WORDS, Message},
    time,
    timers::Timers,
};

pub(crate) const TESTS: &[Test] = &[
    ("a call brings its words, its badge and a region", call),
    ("timers come as bits beside messages and signals", timers),
];

fn soon() -> Option<time::Instant> {
    Some(time::now().after_ns(1_000_000))
}

fn call() {
    let endpoint = Endpoint::new().unwrap();
    let client = endpoint.badged(77).unwrap();
    let server = on_thread(move || {
        let mut message = Message::new(0);
        endpoint.receive(&mut message, None).unwrap();
        assert_eq!((message.label(), message.badge(), message.bits()), (5, 77, None));
        let Some(Capability::Region(region)) = message.capability.take() else {
            panic!("no region: {message:?}");
        };
        let words: u64 = message.words().iter().sum();
        region.words()[1].store(words, Relaxed);
        message.reset(6);
        assert!(message.push(region.words()[0].load(Relaxed)));
        endpoint.reply(&mut message).unwrap();
    });
    let region = Region::new(PAGE_BYTES).unwrap();
    region.words()[0].store(1234, Relaxed);
    let mut message = Message::new(5);
    (0..MESSAGE_WORDS as u64).for_each(|word| assert!(message.push(word)));
    assert!(!message.push(0));
    message.capability = Some(Capability::Region(region.clone()));
    client.call(&mut message, None).unwrap();
    assert_eq!((message.label(), message.words()), (6, &[1234][..]));
    let sum = (MESSAGE_WORDS * (MESSAGE_WORDS - 1) / 2) as u64;
    assert_eq!(region.words()[1].load(Relaxed), sum);
    server.join();
}

fn timers() {
    let endpoint = Endpoint::new().unwrap();
    let mut message = Message::new(0);
    let mut timers = Timers::new();
    timers.set(1, soon());
    timers.set(2, Some(time::now().after_ns(2_000_000)));
    timers.set(4, Some(time::now().after_ns(1)));
    timers.set(4, None);
    timers.receive(&endpoint, &mut message, None).unwrap();
    assert_eq!(message.bits().unwrap() & !2, 1);
    let rest = 2 & !message.bits().unwrap();
    if rest != 0 {
        timers.receive(&endpoint, &mut message, None).unwrap();
        assert_eq!(message.bits(), Some(2));
    }
    assert_eq!(timers.receive(&endpoint, &mut message, soon()), Err(Error::TimedOut));
    // A signal does not wait for a timer, and the bits of a timer that is due come along with it.
    timers.set(1, Some(time::now().after_ns(1_000_000_000_000)));
    endpoint.signal(8);
    timers.receive(&endpoint, &mut message, None).unwrap();
    assert_eq!(message.bits(), Some(8));
    timers.set(1, Some(time::now()));
    endpoint.signal(8);
    timers.receive(&endpoint, &mut message, None).unwrap();
    assert_eq!(message.bits(), Some(9));
    let client = endpoint.badged(3).unwrap();
    let called = on_thread(move || {
        let mut message = Message::new(5);
        client.call(&mut message, None).map(|()| message.label())
    });
    timers.receive(&endpoint, &mut message, None).unwrap();
    assert_eq!((message.label(), message.badge(), message.bits()), (5, 3, None));
    timers.set(1, soon());
    message.reset(6);
    timers.reply_and_receive(&endpoint, &mut message, None).unwrap();
    assert_eq!((message.bits(), called.join()), (Some(1), Ok(6)));
}
