//! Tests of interfaces over messages: results equal those of a direct call, and malformed messages
//! are refused.
extern crate alloc;

use interfaces::{
    call::{Caller, Failure, Refusal},
    clock::{Clock, ClockClient, ClockServer},
    service::{Description, Serve, ServiceClient, respond, run},
    wire::{Bytes, Name, Text, Wire},
};
use interfaces_macro::interface;
use proptest::prelude::*;
use rt::{
    host,
    memory::Region,
    message::{Endpoint, Error, Message},
};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
enum Shape {
    Point,
    Circle(u32),
    Box { width: i32, height: i32, is_round: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
struct Sample {
    shape: Shape,
    label: Option<Text<5>>,
    numbers: [u16; 3],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
enum SampleError {
    Lost,
    Other(i8),
}

impl From<Failure> for SampleError {
    fn from(_: Failure) -> SampleError {
        SampleError::Lost
    }
}

/// An interface with every type of argument.
#[interface(number = 900)]
trait Samples: Send + Sync {
    /// Returns its arguments.
    #[idempotent]
    fn mirror(
        &self,
        sample: &Sample,
        bytes: Bytes<100>,
    ) -> Result<(Sample, Bytes<100>), SampleError>;
    /// Returns the number of calls so far.
    fn count(&self) -> Option<u64>;
    /// Returns the sum of the words of a region.
    #[deadline_ns(60_000_000_000)]
    fn sum(&self, region: Region, first: u64) -> Option<u64>;
    /// A direct method, which has no message.
    #[allow(dead_code, reason = "it is there to be passed over")]
    #[direct]
    fn watch(&self, watcher: Arc<dyn Fn() + Send + Sync>);
    /// A method whose arguments fill a message.
    fn limit(&self, room: [u64; 63]) -> Option<u8>;
}

#[derive(Default)]
struct Local {
    counted: AtomicU64,
    numbers: Mutex<Vec<u64>>,
}

impl Samples for Local {
    fn mirror(
        &self,
        sample: &Sample,
        bytes: Bytes<100>,
    ) -> Result<(Sample, Bytes<100>), SampleError> {
        match sample.shape {
            Shape::Circle(radius) if radius > 100 => Err(SampleError::Other(-3)),
            _ => Ok((*sample, bytes)),
        }
    }
    fn count(&self) -> Option<u64> {
        Some(self.counted.fetch_add(1, SeqCst))
    }
    fn sum(&self, region: Region, first: u64) -> Option<u64> {
        Some(region.words().iter().skip(first as usize).map(|word| word.load(SeqCst)).sum())
    }
    fn watch(&self, watcher: Arc<dyn Fn() + Send + Sync>) {
        watcher();
    }
    fn limit(&self, room: [u64; 63]) -> Option<u8> {
        self.numbers.lock().unwrap().extend(room);
        Some(1)
    }
}

struct Fixed(Option<u64>);

impl Clock for Fixed {
    fn read_ns(&self) -> Option<u64> {
        self.0
    }
}

fn instances() -> Vec<Box<dyn Serve + Send>> {
    vec![
        Box::new(ClockServer::new("first", Arc::new(Fixed(Some(77))))),
        Box::new(SamplesServer::new("samples", Arc::new(Local::default()))),
        Box::new(ClockServer::new("broken", Arc::new(Fixed(None)))),
    ]
}

/// Runs a server during `work`.
fn served(work: impl FnOnce(&Endpoint)) {
    let endpoint = Endpoint::new().unwrap();
    let server = endpoint.clone();
    let serving = thread::spawn(move || run(&server, &instances()));
    work(&endpoint);
    endpoint.signal(2);
    assert_eq!(serving.join().unwrap(), Ok(2));
}

fn caller(endpoint: &Endpoint, instance: u64) -> Caller {
    Caller::new(endpoint.clone(), instance, Some(60_000_000_000))
}

#[test]
fn a_clock_reads_the_same_over_messages() {
    served(|endpoint| {
        assert_eq!(ClockClient::new(caller(endpoint, 0)).read_ns(), Some(77));
        assert_eq!(ClockClient::new(caller(endpoint, 2)).call_read_ns(), Ok(None));
    });
}

#[test]
fn several_clients_are_served_at_once() {
    served(|endpoint| {
        let clients: Vec<_> = (0..4)
            .map(|_| {
                let client = SamplesClient::new(caller(endpoint, 1));
                thread::spawn(move || {
                    (0..500).map(|_| client.call_count().unwrap().unwrap()).sum::<u64>()
                })
            })
            .collect();
        let sum: u64 = clients.into_iter().map(|client| client.join().unwrap()).sum();
        assert_eq!(sum, (0..2000).sum());
    });
}

#[test]
fn a_component_says_what_it_serves() {
    served(|endpoint| {
        let client = ServiceClient::new(caller(endpoint, 99));
        assert_eq!(client.call_ping(), Ok(Some(())));
        let all: Vec<Description> =
            (0..).map_while(|index| client.call_describe(index).unwrap()).collect();
        let said = |interface, name| Description { interface, name: Name::cut(name) };
        assert_eq!(all, [said(1, "first"), said(900, "samples"), said(1, "broken")]);
    });
}

#[test]
fn a_region_and_a_full_message_go_along() {
    served(|endpoint| {
        let client = SamplesClient::new(caller(endpoint, 1));
        let region = Region::new(4096).unwrap();
        region.words()[1].store(5, SeqCst);
        region.words()[9].store(6, SeqCst);
        assert_eq!(client.call_sum(region, 2), Ok(Some(6)));
        assert_eq!(client.call_limit([3; 63]), Ok(Some(1)));
    });
}

#[test]
fn what_does_not_fit_the_instance_is_refused() {
    served(|endpoint| {
        let clock = |instance| ClockClient::new(caller(endpoint, instance)).call_read_ns();
        assert_eq!(clock(1), Err(Failure::Refused(Refusal::NoInterface)));
        assert_eq!(clock(3), Err(Failure::Refused(Refusal::NoInstance)));
        assert_eq!(clock(u64::MAX), Err(Failure::Refused(Refusal::NoInstance)));
        let refusal = |label, words: &[u64]| {
            let mut message = Message::new(label);
            words.iter().for_each(|word| assert!(message.push(*word)));
            endpoint.call(&mut message, None).unwrap();
            (Refusal::of(message.label()), message.words().len())
        };
        assert_eq!(refusal(1 << 16 | 9, &[0]), (Some(Refusal::NoMethod), 0));
        // A direct method has no number that messages know.
        assert_eq!(refusal(900 << 16 | 3, &[1]), (Some(Refusal::NoMethod), 0));
        assert_eq!(refusal(1 << 16, &[]), (Some(Refusal::Malformed), 0));
        assert_eq!(refusal(1 << 16, &[0, 0]), (Some(Refusal::Malformed), 0));
        assert_eq!(refusal(1 << 40, &[0]), (Some(Refusal::NoInterface), 0));
    });
}

#[test]
fn only_what_may_be_done_twice_is_issued_again_when_the_server_dies() {
    let endpoint = Endpoint::new().unwrap();
    let server = endpoint.clone();
    let serving = thread::spawn(move || {
        let mut message = Message::new(0);
        // Two servers die over the first two calls, and the third lives.
        for _ in 0..2 {
            server.receive(&mut message, None).unwrap();
            host::end_server(&server);
        }
        run(&server, &instances())
    });
    let client = SamplesClient::new(caller(&endpoint, 1));
    assert_eq!(client.call_count(), Err(Failure::Lost(Error::Restarted)));
    assert_eq!(ClockClient::new(caller(&endpoint, 0)).call_read_ns(), Ok(Some(77)));
    endpoint.signal(1);
    assert_eq!(serving.join().unwrap(), Ok(1));
}

#[test]
fn a_call_that_nobody_takes_ends_at_its_deadline() {
    let endpoint = Endpoint::new().unwrap();
    let clock = ClockClient::new(Caller::new(endpoint, 0, Some(1_000_000)));
    assert_eq!(clock.call_read_ns(), Err(Failure::Lost(Error::TimedOut)));
    assert_eq!(clock.read_ns(), None);
}

fn shapes() -> impl Strategy<Value = Shape> {
    prop_oneof![
        Just(Shape::Point),
        any::<u32>().prop_map(Shape::Circle),
        any::<(i32, i32, bool)>().prop_map(|(width, height, is_round)| Shape::Box {
            width,
            height,
            is_round
        }),
    ]
}

fn samples() -> impl Strategy<Value = Sample> {
    let label = proptest::option::of("[a-zß]{0,6}");
    (shapes(), label, any::<[u16; 3]>()).prop_map(|(shape, label, numbers)| Sample {
        shape,
        label: label.map(|label| Text::cut(&label)),
        numbers,
    })
}

proptest! {
    #[test]
    fn results_are_those_of_the_direct_call(
        calls in proptest::collection::vec(
            (samples(), proptest::collection::vec(any::<u8>(), 0..=100)), 1..20),
    ) {
        let direct = Local::default();
        served(|endpoint| {
            let client = SamplesClient::new(caller(endpoint, 1));
            for (sample, bytes) in &calls {
                let bytes = Bytes::new(bytes).unwrap();
                assert_eq!(client.call_mirror(sample, bytes), Ok(direct.mirror(sample, bytes)));
            }
        });
    }

    #[test]
    fn any_words_are_answered(
        interface in prop_oneof![Just(0_u64), Just(1), Just(900), any::<u32>().prop_map(u64::from)],
        method in 0_u64..6,
        instance in 0_u64..4,
        words in proptest::collection::vec(prop_oneof![0_u64..4, any::<u64>()], 0..64),
    ) {
        let mut message = Message::new(interface << 16 | method);
        assert!(message.push(instance));
        words.iter().for_each(|word| { let _ = message.push(*word); });
        respond(&instances(), &mut message);
        prop_assert!(message.label() == 0 || Refusal::of(message.label()).is_some());
    }
}
