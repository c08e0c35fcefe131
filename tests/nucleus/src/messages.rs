//! Calls, replies, notifications between threads of the nucleus.
use crate::suite::in_threads;
use alloc::{boxed::Box, sync::Arc};
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};
use ipc::{Error, Header, Message};
use nucleus::{
    thread::{self, Endpoint, Policy, Sleep, Wait},
    time,
};

/// Word that ends the server.
const STOP: u64 = u64::MAX;

/// Returns a message of one word.
pub fn message(word: u64) -> Message {
    Message { header: Header::new(1, 1), badge: 0, words: [word, 0, 0, 0] }
}

/// Answers each word with the next, until told to stop.
pub fn serve(endpoint: &Endpoint) {
    let mut now = Message::default();
    endpoint.receive(&mut now, Wait::default()).expect("a message");
    while now.words[0] != STOP {
        now.words[0] += 1;
        if endpoint.reply_and_receive(&mut now, Wait::default()).is_err() {
            return;
        }
    }
    let _ = endpoint.reply(&mut now);
}

/// Starts a thread that serves `endpoint`.
pub fn start_server(endpoint: &Arc<Endpoint>, policy: Policy) -> u64 {
    let own = endpoint.clone();
    let body: thread::Body = Box::new(Box::new(move || serve(&own)));
    thread::spawn("server", policy, body).expect("no memory for a test's thread")
}

/// Calls and checks the answer.
pub fn call(endpoint: &Endpoint, word: u64) {
    let mut now = message(word);
    endpoint.call(&mut now, Wait::default()).expect("an answer");
    assert_eq!(now.words[0], word + 1);
}

/// Ends a server of `endpoint`.
pub fn stop_server(endpoint: &Endpoint) {
    endpoint.call(&mut message(STOP), Wait::default()).expect("an answer");
}

/// Tests several clients and servers: each client gets the answer to its own call.
pub fn calls_are_answered() {
    let endpoint = Arc::new(Endpoint::new());
    let servers = [(); 3].map(|()| start_server(&endpoint, Policy::Fair { nice: 0 }));
    let own = endpoint.clone();
    in_threads(6, move |index| {
        (0..500).for_each(|round| call(&own, u64::from(index) << 32 | round));
    });
    servers.iter().for_each(|_| stop_server(&endpoint));
    assert_eq!(endpoint.reply(&mut message(0)), Err(Error::NoCaller));
}

/// Tests deadlines without a server, with a server that does not answer, and beside one that does.
pub fn deadline_ends_a_call() {
    let endpoint = Arc::new(Endpoint::new());
    let soon = |ns| Wait { deadline_ns: Some(time::now_ns() + ns), sleep: Sleep::Uninterruptible };
    assert_eq!(endpoint.call(&mut message(1), soon(1_000_000)), Err(Error::TimedOut));
    assert_eq!(endpoint.receive(&mut message(0), soon(1_000_000)), Err(Error::TimedOut));
    start_server(&endpoint, Policy::Fair { nice: 0 });
    let own = endpoint.clone();
    in_threads(4, move |index| {
        for round in 0..200 {
            let word = u64::from(index) << 32 | round;
            let mut now = message(word);
            match own.call(&mut now, soon(round % 50 * 1000)) {
                Ok(()) => assert_eq!(now.words[0], word + 1),
                Err(error) => assert_eq!(error, Error::TimedOut),
            }
        }
    });
    stop_server(&endpoint);
}

/// Tests that closing wakes callers that were not received, and receivers; a call that was received is
/// answered.
pub fn end_wakes_everybody() {
    let endpoint = Arc::new(Endpoint::new());
    let ended = Arc::new(AtomicU32::new(0));
    for _ in 0..3 {
        let (own, ended) = (endpoint.clone(), ended.clone());
        let body: thread::Body = Box::new(Box::new(move || {
            let mut now = message(1);
            match own.call(&mut now, Wait::default()) {
                Ok(()) => assert_eq!(now.words[0], 2),
                Err(error) => assert_eq!(error, Error::Gone),
            }
            ended.fetch_add(1, SeqCst);
            thread::wake(&ended, 1);
        }));
        thread::spawn("client", Policy::Fair { nice: 0 }, body)
            .expect("no memory for a test's thread");
    }
    endpoint.receive(&mut message(0), Wait::default()).expect("a call");
    endpoint.close(Error::Gone);
    assert_eq!(endpoint.reply(&mut message(2)), Ok(()));
    loop {
        let now = ended.load(SeqCst);
        if now == 3 {
            break;
        }
        thread::wait_on(&ended, now, None, Sleep::Uninterruptible);
    }
    assert_eq!(endpoint.reply(&mut message(3)), Err(Error::NoCaller));
    assert_eq!(endpoint.receive(&mut message(0), Wait::default()), Err(Error::Gone));
}

/// Tests that a server that receives again cannot answer the earlier call any more, and that its client is
/// told.
pub fn receiving_again_cancels() {
    let endpoint = Arc::new(Endpoint::new());
    let own = endpoint.clone();
    in_threads(2, move |index| {
        if index == 0 {
            assert_eq!(own.call(&mut message(1), Wait::default()), Err(Error::Cancelled));
            return own.signal(1);
        }
        own.receive(&mut message(0), Wait::default()).expect("a call");
        own.receive(&mut message(0), Wait::default()).expect("the bits of who was cancelled");
        assert_eq!(own.reply(&mut message(2)), Err(Error::NoCaller));
    });
}

/// Tests that each signaller's bits come, each once.
pub fn no_bit_is_lost() {
    let endpoint = Arc::new(Endpoint::new());
    let taken: Arc<[AtomicU32; 5]> = Arc::new([const { AtomicU32::new(0) }; 5]);
    in_threads(5, move |index| match index {
        0 => {
            while taken.iter().map(|one| one.load(SeqCst)).sum::<u32>() != 400 {
                let mut now = Message::default();
                endpoint.receive(&mut now, Wait::default()).expect("bits");
                assert!(now.header.is_notification());
                for (bit, one) in
                    taken.iter().enumerate().filter(|(bit, _)| now.badge & 1 << bit != 0)
                {
                    assert!(bit > 0, "bit 0 is nobody's");
                    one.fetch_add(1, SeqCst);
                    thread::wake(one, 1);
                }
            }
        }
        _ => {
            // A bit must be taken before it is signalled again, or the two signals are one.
            let mine = &taken[index as usize];
            for round in 0..100 {
                endpoint.signal(1 << index);
                while mine.load(SeqCst) == round {
                    thread::wait_on(mine, round, None, Sleep::Uninterruptible);
                }
            }
        }
    });
}

/// Tests that a server that works for a real-time client is not held up by another real-time thread of
/// less priority.
pub fn caller_lends_its_priority() {
    let endpoint = Arc::new(Endpoint::new());
    let server = start_server(&endpoint, Policy::Fair { nice: 19 });
    let me = thread::current_number();
    thread::set_affinity(me, 1);
    thread::set_affinity(server, 1);
    thread::set_policy(me, Policy::Fifo(20));
    call(&endpoint, 1);
    let is_over = Arc::new(AtomicU32::new(0));
    let own = is_over.clone();
    let body: thread::Body = Box::new(Box::new(move || {
        while own.load(SeqCst) == 0 {
            core::hint::spin_loop();
        }
    }));
    let other =
        thread::spawn("other", Policy::Fifo(10), body).expect("no memory for a test's thread");
    thread::set_affinity(other, 1);
    (0..100).for_each(|round| call(&endpoint, round));
    is_over.store(1, SeqCst);
    stop_server(&endpoint);
    thread::set_policy(me, Policy::Fair { nice: 0 });
    thread::set_affinity(me, u64::MAX);
}
