//! Tests of [`DatagramQueue`]: a model of two lists and an error, limits by memory, threads that push and take.
use super::*;
use crate::nic::PacketSegment;
use alloc::{collections::VecDeque, sync::Arc, vec, vec::Vec};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::sync::atomic::{AtomicUsize, Ordering};
use proptest::prelude::*;
use rt::{PAGE_BYTES, memory::Frame};

const OVERHEAD: usize = 256;

#[derive(Default)]
struct Counts {
    readable: AtomicUsize,
    errors: AtomicUsize,
    writable: AtomicUsize,
}

impl Counts {
    fn all(&self) -> (usize, usize, usize) {
        let get = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        (get(&self.readable), get(&self.errors), get(&self.writable))
    }
}

impl SocketObserver for Counts {
    fn notify(&self, events: SocketEvents) {
        for (event, count) in [
            (SocketEvents::READABLE, &self.readable),
            (SocketEvents::ERROR, &self.errors),
            (SocketEvents::WRITABLE, &self.writable),
        ] {
            count.fetch_add(usize::from(events.contains(event)), Ordering::Relaxed);
        }
    }
}

fn queue(limit: usize) -> (DatagramQueue, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    (DatagramQueue::new(counts.clone(), limit), counts)
}

fn end(port: u16) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)
}

fn datagram(number: u16, payload: Payload) -> ReceivedDatagram {
    ReceivedDatagram {
        source: end(number),
        destination: end(53),
        interface: 1,
        hop_limit: 64,
        traffic_class: 0,
        received_ns: u64::from(number),
        segment: None,
        header_options: None,
        extensions: None,
        dropped: 0,
        payload,
    }
}

fn short(number: u16, length: usize) -> ReceivedDatagram {
    datagram(number, Payload::Bytes(vec![number as u8; length].into()))
}

fn report(error: SocketError, offender: Option<IpAddr>) -> ErrorReport {
    ErrorReport {
        error,
        carrier: offender.map(|offender| ErrorCarrier {
            offender,
            receiver: end(9).ip(),
            interface: 1,
            hop_limit: 64,
            traffic_class: 0,
            received_ns: 0,
        }),
        message: (3, 3),
        mtu: 0,
        destination: end(9),
        payload: Payload::Bytes(vec![1, 2, 3].into()),
    }
}

const ROUTER: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));

/// The model: what Linux keeps of a socket.
#[derive(Default)]
struct Model {
    datagrams: VecDeque<(u16, usize, u32)>,
    reports: VecDeque<(SocketError, bool)>,
    charged: usize,
    limit: usize,
    error: Option<SocketError>,
    dropped: u64,
}

const REPORT: usize = OVERHEAD + 3;
const ERRORS: [SocketError; 3] =
    [SocketError::Refused, SocketError::MessageSize, SocketError::HostUnreachable];

#[derive(Clone, Debug)]
enum Step {
    Push(usize),
    Take,
    TakeAndPutBack,
    Peek(usize),
    Fail(usize),
    Report(usize, bool),
    TakeReport,
    TakeError,
    ClearReports,
    SetLimit(usize),
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..600usize).prop_map(Step::Push),
        4 => Just(Step::Take),
        1 => Just(Step::TakeAndPutBack),
        1 => (0..4usize).prop_map(Step::Peek),
        1 => (0..3usize).prop_map(Step::Fail),
        3 => (0..3usize, any::<bool>()).prop_map(|(error, local)| Step::Report(error, local)),
        2 => Just(Step::TakeReport),
        1 => Just(Step::TakeError),
        1 => Just(Step::ClearReports),
        1 => (0..4000usize).prop_map(Step::SetLimit),
        1 => Just(Step::Clear),
    ];
    prop::collection::vec(step, 1..120)
}

impl Model {
    fn take(&mut self) -> Result<Option<(u16, usize, u32)>, SocketError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let first = self.datagrams.pop_front();
        self.charged -= first.map_or(0, |(_, length, _)| length + OVERHEAD);
        Ok(first)
    }
    fn apply(&mut self, step: &Step, number: u16, queue: &DatagramQueue) {
        let seen = |found: Option<ReceivedDatagram>| {
            found.map(|one| (one.source.port(), one.payload.length(), one.dropped))
        };
        match *step {
            Step::Push(length) => {
                let fits = self.charged <= self.limit;
                assert_eq!(queue.push(short(number, length)), fits);
                if fits {
                    self.charged += length + OVERHEAD;
                    self.datagrams.push_back((number, length, self.dropped as u32));
                } else {
                    self.dropped += 1;
                }
            }
            Step::Take => assert_eq!(queue.take().map(seen), self.take()),
            Step::TakeAndPutBack => {
                let (real, model) = (queue.take(), self.take());
                if let (Ok(Some(real)), Ok(Some(model))) = (&real, model) {
                    queue.put_back(real.clone());
                    self.datagrams.push_front(model);
                    self.charged += model.1 + OVERHEAD;
                }
                assert_eq!(real.map(seen), model);
            }
            Step::Peek(skip) => {
                let expected = match self.error.take() {
                    Some(error) => Err(error),
                    None => Ok(self.datagrams.get(skip).copied()),
                };
                assert_eq!(queue.peek(skip).map(seen), expected);
            }
            Step::SetLimit(limit) => {
                queue.set_limit(limit);
                self.limit = limit;
            }
            Step::Clear => {
                queue.clear();
                *self = Model { limit: self.limit, dropped: self.dropped, ..Model::default() };
            }
            _ => self.apply_error(step, queue),
        }
    }
    fn apply_error(&mut self, step: &Step, queue: &DatagramQueue) {
        match *step {
            Step::Fail(error) => {
                queue.fail(ERRORS[error]);
                self.error = Some(ERRORS[error]);
            }
            Step::Report(error, is_local) => {
                queue.report(report(ERRORS[error], ROUTER.filter(|_| !is_local)));
                if !is_local {
                    self.error = Some(ERRORS[error]);
                }
                if self.charged + REPORT < self.limit {
                    self.charged += REPORT;
                    self.reports.push_back((ERRORS[error], is_local));
                }
            }
            Step::TakeReport => {
                let first = self.reports.pop_front();
                let found = queue.take_report();
                assert_eq!(found.map(|one| (one.error, one.carrier.is_none())), first);
                let Some((_, was_local)) = first else { return };
                self.charged -= REPORT;
                match self.reports.front() {
                    Some((next, false)) => self.error = Some(*next),
                    _ if !was_local => self.error = None,
                    _ => {}
                }
            }
            Step::TakeError => assert_eq!(queue.take_error(), self.error.take()),
            Step::ClearReports => {
                queue.clear_reports();
                self.charged -= self.reports.len() * REPORT;
                self.reports.clear();
            }
            _ => panic!("no step of errors: {step:?}"),
        }
    }
}

proptest! {
    #[test]
    fn a_queue_does_what_its_model_does(steps in steps()) {
        let (queue, _) = queue(2000);
        let mut model = Model { limit: 2000, ..Model::default() };
        for (number, step) in steps.iter().enumerate() {
            model.apply(step, number as u16, &queue);
            prop_assert_eq!(queue.usage(), (model.charged, model.dropped), "after {:?}", step);
            let events = queue.events();
            let readable = !model.datagrams.is_empty();
            prop_assert_eq!(events.contains(SocketEvents::READABLE), readable);
            let has_error = model.error.is_some() || !model.reports.is_empty();
            prop_assert_eq!(events.contains(SocketEvents::ERROR), has_error);
            let first = model.datagrams.front().map(|(_, length, _)| *length);
            prop_assert_eq!(queue.first_length(), first);
        }
    }

    #[test]
    fn a_payload_reads_the_same_in_frames_as_in_bytes(
        lengths in prop::collection::vec(1..2000usize, 1..5), offset in 0..3000usize, room in 0..5000usize,
    ) {
        let (mut parts, mut all) = (Vec::new(), Vec::new());
        for (number, length) in lengths.into_iter().enumerate() {
            let bytes: Vec<u8> = (0..length).map(|at| (at + 7 * number) as u8).collect();
            let frame = Frame::zeroed().unwrap();
            frame.write(number * 11, &bytes);
            let (offset, length) = ((number * 11) as u32, length as u32);
            parts.push(PacketSegment { frame, offset, length });
            all.extend(bytes);
        }
        let read = |payload: &Payload| {
            let mut out = vec![0; room];
            let count = payload.read(offset, &mut out);
            out.truncate(count);
            out
        };
        let expected: Vec<u8> = all.iter().copied().skip(offset).take(room).collect();
        prop_assert_eq!(read(&Payload::Segments(parts)), expected.clone());
        prop_assert_eq!(read(&Payload::Bytes(all.into())), expected);
    }
}

#[test]
fn parts_of_one_frame_are_charged_once() {
    let (queue, _) = queue(1 << 20);
    let frame = Frame::zeroed().unwrap();
    let part = |offset| PacketSegment { frame: frame.clone(), offset, length: 100 };
    let other = PacketSegment { frame: Frame::zeroed().unwrap(), offset: 0, length: 100 };
    queue.push(datagram(1, Payload::Segments(vec![part(0), part(200), other])));
    assert_eq!(queue.usage(), (OVERHEAD + 2 * PAGE_BYTES, 0));
    assert_eq!(queue.first_length(), Some(300));
    assert_eq!(frame.references(), 3);
    queue.take().unwrap().unwrap();
    assert_eq!((queue.usage(), frame.references()), ((0, 0), 1), "no frame is held");
}

#[test]
fn a_flood_is_bounded_and_its_losses_are_told() {
    let (queue, counts) = queue(10_000);
    let accepted = (0..100_000u32).filter(|number| queue.push(short(*number as u16, 10))).count();
    let each = OVERHEAD + 10;
    assert_eq!(accepted, 10_000 / each + 1);
    assert_eq!(queue.usage(), (accepted * each, 100_000 - accepted as u64));
    assert_eq!(counts.all(), (accepted, 0, 0), "a lost datagram wakes nobody");
    while let Some(one) = queue.take().unwrap() {
        assert_eq!(one.dropped, 0);
    }
    queue.push(short(1, 1));
    assert_eq!(queue.take().unwrap().unwrap().dropped, 100_000 - accepted as u32);
    (0..1000).for_each(|_| queue.report(report(SocketError::Refused, ROUTER)));
    assert!(queue.usage().0 < 10_000, "reports are charged, too");
    queue.clear();
    assert_eq!(queue.usage().0, 0);
    assert_eq!(queue.events(), SocketEvents::empty());
}

#[test]
fn the_error_queue_and_the_next_error_are_those_of_linux() {
    let (queue, counts) = queue(10_000);
    queue.report(report(SocketError::MessageSize, None));
    assert_eq!(queue.events(), SocketEvents::ERROR);
    assert_eq!(queue.take_error(), None, "the call that failed told of it");
    queue.report(report(SocketError::Refused, ROUTER));
    assert_eq!(queue.take_error(), Some(SocketError::Refused));
    assert_eq!(queue.take_report().unwrap().error, SocketError::MessageSize);
    assert_eq!(queue.take_error(), Some(SocketError::Refused), "the report behind sets it again");
    queue.report(report(SocketError::HostUnreachable, ROUTER));
    assert_eq!(queue.take_report().unwrap().error, SocketError::Refused);
    assert_eq!(queue.take().unwrap_err(), SocketError::HostUnreachable);
    queue.fail(SocketError::Refused);
    assert_eq!(queue.take_report().unwrap().error, SocketError::HostUnreachable);
    assert_eq!(queue.take_error(), None, "the last report of ICMP clears it");
    queue.fail(SocketError::Refused);
    assert!(queue.take_report().is_none());
    assert_eq!(queue.take_error(), Some(SocketError::Refused), "nothing was taken");
    assert_eq!(counts.all(), (0, 5, 0));
}

/// Two threads push and two take. Nothing is lost, doubled or reordered within a sender, and the charge is balanced.
#[test]
fn datagrams_of_threads_come_out_once_and_in_order() {
    const EACH: u16 = 5000;
    let (queue, _) = queue(usize::MAX);
    let left = AtomicUsize::new(2 * usize::from(EACH));
    let found: Vec<Vec<(u8, u64)>> = std::thread::scope(|scope| {
        for sender in 0..2u8 {
            let queue = &queue;
            scope.spawn(move || {
                for number in 0..EACH {
                    let one = ReceivedDatagram { hop_limit: sender, ..short(number, 5) };
                    assert!(queue.push(one));
                }
            });
        }
        let takers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut found = Vec::new();
                    while left.load(Ordering::Relaxed) > 0 {
                        match queue.take().unwrap() {
                            Some(one) => {
                                left.fetch_sub(1, Ordering::Relaxed);
                                found.push((one.hop_limit, one.received_ns));
                            }
                            None => std::thread::yield_now(),
                        }
                    }
                    found
                })
            })
            .collect();
        takers.into_iter().map(|taker| taker.join().unwrap()).collect()
    });
    for sender in 0..2 {
        let of = |list: &[(u8, u64)]| {
            let own = list.iter().filter(|(from, _)| *from == sender);
            own.map(|(_, number)| *number).collect::<Vec<_>>()
        };
        let lists: Vec<_> = found.iter().map(|list| of(list)).collect();
        assert!(lists.iter().all(|list| list.is_sorted()));
        let mut all = lists.concat();
        all.sort_unstable();
        assert_eq!(all, (0..u64::from(EACH)).collect::<Vec<_>>());
    }
    assert_eq!(queue.usage(), (0, 0));
}
