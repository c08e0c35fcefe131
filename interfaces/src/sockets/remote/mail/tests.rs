//! Requests and answers of any length, over servers that die and hostile ones.
use super::*;
use crate::{
    call::{Again, Caller, Failure, Refusal},
    service::{respond, run},
    sockets::remote::{ControlChannel, ControlHandler},
};
use alloc::{boxed::Box, sync::Arc, vec, vec::Vec};
use proptest::prelude::*;
use rt::{
    host,
    message::{Endpoint, Error, Message},
};
use std::{
    collections::VecDeque,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
};

/// Answers a request with its bytes, over and over up to the length that its first four tell. Counts the requests.
#[derive(Default)]
struct Repeater(AtomicUsize);

fn repeated(request: &[u8]) -> Vec<u8> {
    let Some(length) = request.first_chunk() else { return Vec::new() };
    request.iter().copied().cycle().take(u32::from_le_bytes(*length) as usize).collect()
}

impl ControlHandler for Repeater {
    fn handle(&self, request: &[u8], answer: &mut Vec<u8>) {
        self.0.fetch_add(1, SeqCst);
        assert!(answer.is_empty());
        answer.extend(repeated(request));
    }
}

/// Returns a request of `length` bytes for an answer of `wanted` bytes.
fn request(length: usize, wanted: usize) -> Vec<u8> {
    let head = (wanted as u32).to_le_bytes().into_iter();
    head.chain((0..).map(|number: usize| (number * 7) as u8)).take(length).collect()
}

/// The fate of a message and its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answered,
    DiesBefore,
    DiesAfter,
    /// The call is cancelled, as by a signal, before or after it was handled.
    LeftBefore,
    LeftAfter,
}

/// Servers, one after another, of one endpoint.
struct Servers {
    endpoint: Endpoint,
    repeater: Arc<Repeater>,
    thread: Option<JoinHandle<()>>,
}

impl Servers {
    fn start(fates: Vec<Fate>) -> Servers {
        let (endpoint, repeater) = (Endpoint::new().unwrap(), Arc::new(Repeater::default()));
        let (at, handler) = (endpoint.clone(), repeater.clone());
        let thread = Some(thread::spawn(move || serve(&at, &handler, fates.into())));
        Servers { endpoint, repeater, thread }
    }
    fn channel(&self) -> MailChannel {
        let caller = Caller::new(self.endpoint.badged(1).unwrap(), 0, None);
        MailChannel::new(caller, Box::new(|| panic!("the server is corrupt"))).unwrap()
    }
    fn handled(&self) -> usize {
        self.repeater.0.swap(0, SeqCst)
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.endpoint.signal(1);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Serves until bits come. The fates are those of messages after the first, which attaches.
fn serve(endpoint: &Endpoint, repeater: &Arc<Repeater>, mut fates: VecDeque<Fate>) {
    let fresh = || {
        let service = Arc::new(MailService::new(repeater.clone()));
        [MailControlServer::new("mail", service)]
    };
    let (mut server, mut message) = (fresh(), Message::new(0));
    fates.push_front(Fate::Answered);
    let mut received = endpoint.receive(&mut message, None);
    loop {
        received.unwrap();
        if message.bits().is_some() {
            return;
        }
        let fate = fates.pop_front().unwrap_or(Fate::Answered);
        if matches!(fate, Fate::Answered | Fate::DiesAfter | Fate::LeftAfter) {
            respond(&server, &mut message);
        }
        received = match fate {
            Fate::Answered => endpoint.reply_and_receive(&mut message, None),
            Fate::LeftBefore | Fate::LeftAfter => endpoint.receive(&mut message, None),
            Fate::DiesBefore | Fate::DiesAfter => {
                host::end_server(endpoint);
                server = fresh();
                endpoint.receive(&mut message, None)
            }
        };
    }
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        8 => Just(Fate::Answered),
        1 => Just(Fate::DiesBefore),
        1 => Just(Fate::DiesAfter),
        1 => Just(Fate::LeftBefore),
        1 => Just(Fate::LeftAfter),
    ]
}

fn length() -> impl Strategy<Value = usize> {
    let edges = prop::sample::select(vec![4, 7, 8, PLACE_BYTES - 1, PLACE_BYTES, PLACE_BYTES + 1]);
    prop_oneof![edges, 4..200_usize, 4..4 * PLACE_BYTES]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_answer_is_wrong_whenever_servers_die(
        fates in prop::collection::vec(fate(), 0..14),
        exchanges in prop::collection::vec((length(), length(), any::<bool>()), 1..5),
    ) {
        let servers = Servers::start(fates);
        let channel = servers.channel();
        for (length, wanted, may_repeat) in exchanges {
            let (bytes, mut answer) = (request(length, wanted), vec![1, 2, 3]);
            let again = if may_repeat { Again::OnRestart } else { Again::Never };
            let result = channel.exchange(&bytes, again, &mut answer);
            let handled = servers.handled();
            if result.is_ok() {
                prop_assert!(answer == repeated(&bytes));
                prop_assert!(handled > 0);
            } else {
                prop_assert_eq!(result, Err(Failure::Lost(Error::Restarted)));
                prop_assert!(!may_repeat);
            }
            prop_assert!(handled <= 1 || may_repeat, "{} times", handled);
        }
    }

    #[test]
    fn a_server_refuses_impossible_numbers(
        epoch in 0..3_u64,
        steps in prop::collection::vec(
            (0..3, 0..PLACES + 2, 0..4_u64, prop_oneof![length(), any::<usize>()]), 1..20
        ),
    ) {
        let service = MailService::new(Arc::new(Repeater::default()));
        prop_assert_eq!(service.attach(Region::new(4096).unwrap(), 1), Err(AttachError::TooSmall));
        service.attach(Region::new(REGION_BYTES).unwrap(), 1).unwrap();
        for (kind, place, ticket, number) in steps {
            let exchange = Exchange { epoch, place, ticket };
            let result = match kind {
                0 => service.post(exchange, number).map(|()| 0),
                1 => service.call(exchange, number),
                _ => service.fetch(exchange, number),
            };
            match result {
                Err(MailError::Detached) => prop_assert!(epoch != 1),
                Err(error) => prop_assert!(error != MailError::Lost),
                Ok(_) => prop_assert!(epoch == 1 && place < PLACES),
            }
        }
    }

    #[test]
    fn a_hostile_server_gets_no_more_than_an_error(
        answers in prop::collection::vec(
            prop_oneof![(0..3_u64, 0..200_000_u64), any::<(u64, u64)>()], 1..12
        ),
    ) {
        let endpoint = Endpoint::new().unwrap();
        let at = endpoint.clone();
        let serving = thread::spawn(move || {
            let (mut message, mut answers) = (Message::new(0), answers.into_iter().cycle());
            let mut received = at.receive(&mut message, None);
            let mut is_attached = false;
            while received.is_ok() && message.bits().is_none() {
                message.reset(0);
                let (first, second) = answers.next().unwrap();
                let words = if is_attached { [first, second] } else { [0, 0] };
                is_attached = true;
                words.into_iter().for_each(|word| assert!(message.push(word)));
                received = at.reply_and_receive(&mut message, None);
            }
        });
        let corrupt = Arc::new(AtomicUsize::new(0));
        let counted = corrupt.clone();
        let on_corrupt = Box::new(move || { counted.fetch_add(1, SeqCst); });
        let channel =
            MailChannel::new(Caller::new(endpoint.badged(1).unwrap(), 0, None), on_corrupt).unwrap();
        for length in [4, PLACE_BYTES * 2] {
            let mut answer = Vec::new();
            let _ = channel.exchange(&request(length, 4), Again::OnRestart, &mut answer);
            prop_assert!(answer.len() <= ANSWER_MAX);
        }
        endpoint.signal(1);
        serving.join().unwrap();
    }
}

#[test]
fn many_threads_exchange_at_once() {
    let servers = Servers::start(vec![Fate::DiesBefore, Fate::LeftAfter, Fate::DiesAfter]);
    let channel = servers.channel();
    thread::scope(|scope| {
        for thread in 0..2 * PLACES {
            let channel = &channel;
            scope.spawn(move || {
                for round in 0..50 {
                    let bytes = request(40 + thread * 9, round * 1777);
                    let mut answer = Vec::new();
                    channel.exchange(&bytes, Again::OnRestart, &mut answer).unwrap();
                    assert!(answer == repeated(&bytes), "thread {thread}, round {round}");
                }
            });
        }
    });
}

#[test]
fn a_kicked_thread_stays_kicked() {
    let servers = Servers::start(vec![Fate::LeftBefore]);
    let channel = servers.channel();
    let bytes = request(40, 100);
    let mut answer = Vec::new();
    channel.exchange(&bytes, Again::Never, &mut answer).unwrap();
    assert_eq!((answer, servers.handled()), (repeated(&bytes), 1));
    assert!(rt::thread::take_kick());
    channel.exchange(&bytes, Again::Never, &mut Vec::new()).unwrap();
    assert!(!rt::thread::take_kick());
}

#[test]
fn requests_that_are_too_long_and_servers_that_are_gone_are_errors() {
    let servers = Servers::start(Vec::new());
    let channel = servers.channel();
    let too_long = vec![0; REQUEST_MAX + 1];
    let result = channel.exchange(&too_long, Again::OnRestart, &mut Vec::new());
    assert_eq!(result, Err(Failure::Refused(Refusal::Malformed)));
    let longest = request(REQUEST_MAX, 10);
    channel.exchange(&longest, Again::Never, &mut Vec::new()).unwrap();
    drop(servers);

    // Nobody takes the call: it ends at its deadline. The place is not used before the server is done with it.
    let endpoint = Endpoint::new().unwrap();
    let caller = Caller::new(endpoint.badged(1).unwrap(), 0, Some(200_000_000));
    let repeater = Arc::new(Repeater::default());
    let (at, handler) = (endpoint.clone(), repeater.clone());
    let serves = move || {
        run(&at, &[MailControlServer::new("mail", Arc::new(MailService::new(handler.clone())))])
    };
    let serving = thread::spawn(serves.clone());
    let channel = MailChannel::new(caller, Box::new(|| panic!("the server is corrupt"))).unwrap();
    endpoint.signal(1);
    serving.join().unwrap().unwrap();
    let bytes = request(40, 100);
    for _ in 0..PLACES {
        let result = channel.exchange(&bytes, Again::OnRestart, &mut Vec::new());
        assert_eq!(result, Err(Failure::Lost(Error::TimedOut)));
    }
    let serving = thread::spawn(serves);
    let mut answer = Vec::new();
    channel.exchange(&bytes, Again::Never, &mut answer).unwrap();
    assert_eq!((answer, repeater.0.load(SeqCst)), (repeated(&bytes), 1));
    endpoint.signal(1);
    serving.join().unwrap().unwrap();
}

#[test]
fn answers_that_break_the_protocol_are_reported() {
    // The lengths that the server tells for the call and for the rest of the answer.
    for (first, second) in [(ANSWER_MAX + 1, 0), (PLACE_BYTES + 1, 0), (PLACE_BYTES + 1, 4)] {
        let endpoint = Endpoint::new().unwrap();
        let at = endpoint.clone();
        let serving = thread::spawn(move || {
            let mut message = Message::new(0);
            let mut received = at.receive(&mut message, None);
            let mut lengths = [0, first, second].into_iter();
            while received.is_ok() && message.bits().is_none() {
                message.reset(0);
                let length = lengths.next().unwrap_or(0) as u64;
                assert!(message.push(0) && message.push(length));
                received = at.reply_and_receive(&mut message, None);
            }
        });
        let reports = Arc::new(Mutex::new(0));
        let counted = reports.clone();
        let caller = Caller::new(endpoint.badged(1).unwrap(), 0, None);
        let channel =
            MailChannel::new(caller, Box::new(move || *counted.lock().unwrap() += 1)).unwrap();
        let result = channel.exchange(&[1], Again::OnRestart, &mut Vec::new());
        assert_eq!(result, Err(Failure::Malformed));
        assert_eq!(*reports.lock().unwrap(), 1);
        endpoint.signal(1);
        serving.join().unwrap();
    }
}
