//! Tests of a block device over rings: a model disk, drivers that die and drivers that lie.
use super::{
    Block, BlockControl, BlockControlServer, BlockError, BlockInfo, BlockProxy, BlockService,
    BlockSink, Operation, Request, RunningDriver, SECTOR_BYTES, SEQUENCE_MAX, Segment, Sequence,
    Whereabouts,
    entries::{self, CompletionEntry, ENTRIES, RINGS},
    flights::Flights,
    slots::BATCH,
};
use crate::{
    AttachError,
    call::Caller,
    link::{Rings, Traffic},
    overdue::{self, Check},
    service,
};
use proptest::prelude::*;
use rt::{
    device::{DmaWindow, Loan},
    host,
    memory::{Frame, Region},
    message::Endpoint,
    ring::{Consumer, Memory, Producer},
    time::Instant,
};
use std::{
    boxed::Box,
    cell::Cell,
    collections::{HashMap, VecDeque},
    string::{String, ToString},
    sync::{
        Arc, Condvar, Mutex, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    vec,
    vec::Vec,
};

mod sequences;

fn info() -> BlockInfo {
    BlockInfo {
        name: "vda".to_string(),
        sectors: 1 << 20,
        block_bytes: 4096,
        is_read_only: false,
        has_flush: true,
        has_discard: true,
        has_write_zeroes: false,
        max_segments: 61,
        depth: 64,
    }
}

/// State that outlives drivers: contents of sectors, the order of operations, and the loans to each driver.
struct Platter {
    sectors: Mutex<HashMap<u64, [u8; SECTOR_BYTES]>>,
    log: Mutex<Vec<(Operation, u64)>>,
    window: DmaWindow,
    /// Number of drivers so far, and whether one runs.
    running: Mutex<(u64, bool)>,
}

impl Default for Platter {
    fn default() -> Platter {
        let window = host::recording_window();
        let running = Mutex::default();
        Platter { sectors: Mutex::default(), log: Mutex::default(), window, running }
    }
}

impl Platter {
    /// The driver that runs.
    fn running(&self) -> RunningDriver {
        let (drivers, is_running) = *self.running.lock().unwrap();
        RunningDriver { window: self.window.clone(), generation: is_running.then_some(drivers) }
    }
    fn set_running(&self, is_running: bool) {
        let mut running = self.running.lock().unwrap();
        *running = (running.0 + u64::from(is_running), is_running);
    }
}

impl Drop for Platter {
    fn drop(&mut self) {
        assert_eq!(host::lent_frames(&self.window), 0, "frames stayed lent");
    }
}

type Held = (Request, Arc<dyn BlockSink>);

/// The behaviour of a driver's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Well,
    /// The disk keeps requests and never does them.
    Holds,
    /// Requests end with an error.
    Fails,
    /// Requests are reported as done, and are not done.
    Lies,
    /// Writes of this sector fail; everything else succeeds.
    FailsAt(u64),
}

/// One driver's disk: a thread does the queued requests, every other one out of order.
struct Disk {
    mood: Mutex<Mood>,
    platter: Arc<Platter>,
    queue: Mutex<VecDeque<Held>>,
    changed: Condvar,
    is_dead: AtomicBool,
    /// Requests that were offered; every second one is refused.
    offered: AtomicUsize,
}

impl Disk {
    fn start(platter: &Arc<Platter>) -> (Arc<Disk>, JoinHandle<()>) {
        let disk = Arc::new(Disk {
            mood: Mutex::new(Mood::Well),
            platter: platter.clone(),
            queue: Mutex::default(),
            changed: Condvar::new(),
            is_dead: AtomicBool::new(false),
            offered: AtomicUsize::new(0),
        });
        let ours = disk.clone();
        (disk, thread::spawn(move || ours.work()))
    }

    fn work(&self) {
        for turn in 0.. {
            let (request, sink) = {
                let mut queue = self.queue.lock().unwrap();
                while queue.is_empty() && !self.is_dead.load(SeqCst) {
                    queue = self.changed.wait(queue).unwrap();
                }
                if self.is_dead.load(SeqCst) {
                    return;
                }
                // Flushes keep their place, so that the log shows which writes they cover.
                let has_flush =
                    queue.iter().any(|(request, _)| request.operation == Operation::Flush);
                let last = turn % 2 == 1 && !has_flush;
                if last { queue.pop_back() } else { queue.pop_front() }.unwrap()
            };
            self.transfer(&request);
            let tag = request.tag;
            drop(request);
            sink.completed(tag, Ok(()));
        }
    }

    fn transfer(&self, request: &Request) {
        self.platter.log.lock().unwrap().push((request.operation, request.sector));
        let mut sectors = self.platter.sectors.lock().unwrap();
        let mut sector = request.sector;
        for Segment { frame, offset, length } in &request.segments {
            let is_written = request.operation == Operation::Read;
            let loan = Loan { frame: frame.id(), is_written };
            assert!(host::is_lent(&self.platter.window, loan), "{loan:?}");
            for at in (*offset..offset + length).step_by(SECTOR_BYTES) {
                let bytes = sectors.entry(sector).or_insert([0; SECTOR_BYTES]);
                if request.operation == Operation::Write {
                    frame.read(at as usize, bytes);
                } else {
                    frame.write(at as usize, bytes);
                }
                sector += 1;
            }
        }
    }
}

impl Block for Disk {
    fn info(&self) -> BlockInfo {
        info()
    }
    fn submit(&self, batch: &mut Vec<Request>, sink: &Arc<dyn BlockSink>) {
        match *self.mood.lock().unwrap() {
            Mood::Well => {}
            Mood::FailsAt(sector) => {
                let failed = Err(BlockError::Device);
                for request in batch.extract_if(.., |request| request.sector == sector) {
                    sink.completed(request.tag, failed);
                }
            }
            // For a kept request the service says that it is under way. For a dropped one the test answers.
            Mood::Holds => {
                let came = batch.drain(..).map(|request| (request.operation, request.sector));
                return self.platter.log.lock().unwrap().extend(came);
            }
            Mood::Lies => {
                return batch.drain(..).for_each(|request| sink.completed(request.tag, Ok(())));
            }
            Mood::Fails => {
                let failed = Err(BlockError::Device);
                return batch.drain(..).for_each(|request| sink.completed(request.tag, failed));
            }
        }
        let mut queue = self.queue.lock().unwrap();
        queue.extend(batch.drain(..).map(|request| (request, sink.clone())));
        self.changed.notify_all();
    }
    fn offer(&self, request: Request, sink: &Arc<dyn BlockSink>) -> Result<(), Request> {
        if self.offered.fetch_add(1, SeqCst) % 2 == 1 {
            return Err(request);
        }
        self.submit(&mut vec![request], sink);
        Ok(())
    }
}

/// A driver that runs, until it is killed.
struct Driver {
    disk: Arc<Disk>,
    service: Arc<BlockService>,
    endpoint: Endpoint,
    threads: Vec<JoinHandle<()>>,
}

impl Driver {
    fn start(platter: &Arc<Platter>, endpoint: &Endpoint) -> Driver {
        let (disk, working) = Disk::start(platter);
        let service = Arc::new(BlockService::new(disk.clone()));
        let (served, at) = (BlockControlServer::new("vda", service.clone()), endpoint.clone());
        let serving = thread::spawn(move || {
            service::run(&at, &[served]).unwrap();
        });
        platter.set_running(true);
        Driver { disk, service, endpoint: endpoint.clone(), threads: vec![working, serving] }
    }

    /// Kills the driver: from some instant on none of its threads does anything, which in the system the nucleus
    /// ensures.
    fn kill(self) {
        self.disk.platter.set_running(false);
        self.disk.is_dead.store(true, SeqCst);
        self.service.die();
        self.disk.changed.notify_all();
        self.endpoint.signal(1);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        host::end_server(&self.endpoint);
    }
}

#[derive(Default)]
struct Sink {
    ended: Mutex<Vec<(u64, Result<(), BlockError>)>>,
    changed: Condvar,
}

impl BlockSink for Sink {
    fn completed(&self, tag: u64, result: Result<(), BlockError>) {
        self.ended.lock().unwrap().push((tag, result));
        self.changed.notify_all();
    }
}

impl Sink {
    fn wait_for(&self, count: usize) -> Vec<(u64, Result<(), BlockError>)> {
        let mut ended = self.ended.lock().unwrap();
        while ended.len() < count {
            ended = self.changed.wait(ended).unwrap();
        }
        let mut ended = ended.clone();
        ended.sort_by_key(|(tag, _)| *tag);
        ended
    }
}

fn connect(endpoint: &Endpoint, platter: &Arc<Platter>) -> Arc<BlockProxy> {
    let caller = Caller::new(endpoint.clone(), 0, None);
    let knows = platter.clone();
    let runs = Box::new(move || knows.running());
    BlockProxy::new(caller, Box::new(|| panic!("the driver lies")), runs).unwrap()
}

/// Returns a disk, a running driver and its proxy.
fn connected() -> (Arc<Platter>, Driver, Arc<BlockProxy>) {
    let endpoint = Endpoint::new().unwrap();
    let platter: Arc<Platter> = Arc::default();
    let driver = Driver::start(&platter, &endpoint);
    let proxy = connect(&endpoint, &platter);
    (platter, driver, proxy)
}

/// Returns a sink twice: as itself and as the trait object that is told.
fn listening() -> (Arc<Sink>, Arc<dyn BlockSink>) {
    let sink = Arc::new(Sink::default());
    (sink.clone(), sink)
}

fn request(tag: u64, operation: Operation, sector: u64, frames: &[Frame]) -> Request {
    let whole = |frame: &Frame| Segment { frame: frame.clone(), offset: 0, length: 4096 };
    Request { tag, operation, sector, segments: frames.iter().map(whole).collect() }
}

fn filled(byte: u8) -> Frame {
    let frame = Frame::zeroed().unwrap();
    frame.write(0, &[byte; 4096]);
    frame
}

fn byte_of(frame: &Frame) -> u8 {
    let mut bytes = [0; 4096];
    frame.read(0, &mut bytes);
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a torn frame");
    bytes[0]
}

#[test]
fn frames_of_any_number_of_segments_are_written_and_read_back() {
    let (platter, driver, proxy) = connected();
    assert_eq!(proxy.info(), info());
    for count in [1, 4, 5, 61, 256] {
        let (sink, dyn_sink) = listening();
        let frames: Vec<Frame> = (0..count).map(|index| filled(index as u8)).collect();
        let empty: Vec<Frame> = (0..count).map(|_| filled(0xee)).collect();
        proxy.submit(&mut vec![request(1, Operation::Write, 8, &frames)], &dyn_sink);
        sink.wait_for(1);
        proxy.submit(&mut vec![request(2, Operation::Read, 8, &empty)], &dyn_sink);
        assert_eq!(sink.wait_for(2), [(1, Ok(())), (2, Ok(()))]);
        assert!(empty.iter().enumerate().all(|(index, frame)| byte_of(frame) == index as u8));
        assert!(frames.iter().chain(&empty).all(|frame| frame.references() == 1));
        assert_eq!(host::lent_frames(&platter.window), 0);
    }
    proxy.close();
    driver.kill();
}

#[test]
fn more_requests_than_the_rings_hold_wait_for_room() {
    let (_, driver, proxy) = connected();
    let (sink, dyn_sink) = listening();
    let frames: Vec<Frame> = (0..9).map(filled).collect();
    let count = 3 * ENTRIES as u64;
    let batch = |range: std::ops::Range<u64>| {
        range.map(|tag| request(tag, Operation::Write, tag * 80, &frames)).collect()
    };
    proxy.submit(&mut batch(0..count / 2), &dyn_sink);
    proxy.submit(&mut batch(count / 2..count), &dyn_sink);
    let ended = sink.wait_for(count as usize);
    assert!(ended.iter().zip(0..).all(|(ended, tag)| *ended == (tag, Ok(()))));
    proxy.close();
    driver.kill();
}

#[test]
fn the_driver_is_woken_for_what_was_sent_before_what_was_handed_over_waits_for_room() {
    let (_, driver, proxy) = connected();
    let frame = [filled(3)];
    let count = ENTRIES as u64;
    let batch = |range: std::ops::Range<u64>| {
        range.map(|tag| request(tag, Operation::Write, tag * 8, &frame)).collect()
    };
    // The driver waits for its bell, or soon will.
    for _ in 0..20 {
        let (sink, dyn_sink) = listening();
        proxy.submit_beside(batch(count..2 * count), batch(0..count), &dyn_sink);
        assert_eq!(sink.wait_for(2 * count as usize).len(), 2 * count as usize);
    }
    proxy.close();
    driver.kill();
}

#[test]
fn requests_whose_frame_is_lent_too_often_wait_for_others() {
    let (platter, driver, proxy) = connected();
    let (sink, dyn_sink) = listening();
    let frames = vec![filled(7); 256];
    let mut batch = (0..8).map(|tag| request(tag, Operation::Write, tag * 2048, &frames)).collect();
    proxy.submit(&mut batch, &dyn_sink);
    assert!(sink.wait_for(8).iter().all(|(_, result)| result.is_ok()));
    // The frame is lent by another thread, so no completion of ours will release it.
    let loans = [Loan { frame: frames[0].id(), is_written: false }; 1023];
    platter.window.lend(&loans).unwrap();
    proxy.submit(&mut vec![request(8, Operation::Write, 0, &frames)], &dyn_sink);
    assert_eq!(platter.log.lock().unwrap().len(), 8);
    platter.window.take_back(&loans);
    assert_eq!(sink.wait_for(9).len(), 9);
    proxy.close();
    driver.kill();
}

#[test]
fn a_driver_that_lives_has_done_what_it_was_sent_before_it_is_sent_it_again() {
    let (platter, driver, proxy) = connected();
    let (sink, dyn_sink) = listening();
    let frames = vec![filled(7); 64];
    for round in 1..=100 {
        let one = |tag| request(tag, Operation::Write, tag % 16 * 512, &frames);
        let done = platter.log.lock().unwrap().len();
        proxy.submit(&mut (0..16).map(one).collect(), &dyn_sink);
        while platter.log.lock().unwrap().len() == done {
            thread::yield_now();
        }
        assert_eq!(proxy.restarted(), Ok(()));
        assert_eq!(sink.wait_for(16 * round).len(), 16 * round);
    }
    assert!(sink.wait_for(1).iter().all(|(_, result)| result.is_ok()));
    proxy.close();
    driver.kill();
}

#[test]
fn what_cannot_be_said_is_refused_and_a_closed_device_ends_everything_until_another_driver_comes() {
    let (platter, driver, proxy) = connected();
    let endpoint = driver.endpoint.clone();
    let (sink, dyn_sink) = listening();
    let frames: Vec<Frame> = (0..257).map(|_| filled(1)).collect();
    proxy.submit(&mut vec![request(1, Operation::Write, 0, &frames)], &dyn_sink);
    assert_eq!(sink.wait_for(1), [(1, Err(BlockError::Invalid))]);
    driver.kill();
    proxy.submit(&mut vec![request(2, Operation::Flush, 0, &[])], &dyn_sink);
    proxy.close();
    proxy.submit(&mut vec![request(3, Operation::Flush, 0, &[])], &dyn_sink);
    let lost = Err(BlockError::Restarted);
    assert_eq!(sink.wait_for(3), [(1, Err(BlockError::Invalid)), (2, lost), (3, lost)]);
    let driver = Driver::start(&platter, &endpoint);
    assert_eq!(proxy.restarted(), Ok(()));
    for tag in 4..40 {
        proxy.submit(&mut vec![request(tag, Operation::Write, 8, &frames[..256])], &dyn_sink);
        assert_eq!(sink.wait_for(tag as usize).last(), Some(&(tag, Ok(()))));
    }
    assert!(proxy.has_all_slots());
    proxy.close();
    driver.kill();
}

/// A sink that offers the next request when one has ended.
struct Chain {
    proxy: Arc<BlockProxy>,
    following: Mutex<VecDeque<Request>>,
    refused: Mutex<Option<Request>>,
    ended: Arc<Sink>,
    this: Weak<Chain>,
}

impl Chain {
    fn of(proxy: &Arc<BlockProxy>, following: VecDeque<Request>) -> Arc<Chain> {
        Arc::new_cyclic(|this| Chain {
            proxy: proxy.clone(),
            following: Mutex::new(following),
            refused: Mutex::default(),
            ended: Arc::default(),
            this: this.clone(),
        })
    }
}

impl BlockSink for Chain {
    fn completed(&self, tag: u64, result: Result<(), BlockError>) {
        let next = self.following.lock().unwrap().pop_front();
        if let (Some(next), Some(this)) = (next, self.this.upgrade()) {
            let this: Arc<dyn BlockSink> = this;
            *self.refused.lock().unwrap() = self.proxy.offer(next, &this).err();
        }
        self.ended.completed(tag, result);
    }
}

#[test]
fn a_sink_offers_what_follows() {
    const STEPS: u64 = 300;
    let (platter, driver, proxy) = connected();
    let frame = [filled(3)];
    let step = |tag| match tag % 3 {
        2 => request(tag, Operation::Flush, 0, &[]),
        _ => request(tag, Operation::Write, tag * 8, &frame),
    };
    let chain = Chain::of(&proxy, (1..STEPS).map(step).collect());
    let sink: Arc<dyn BlockSink> = chain.clone();
    proxy.submit(&mut vec![step(0)], &sink);
    let ended = chain.ended.wait_for(STEPS as usize);
    assert!(ended.iter().zip(0..).all(|(ended, tag)| *ended == (tag, Ok(()))));
    let done: Vec<_> = (0..STEPS).map(step).map(|step| (step.operation, step.sector)).collect();
    assert_eq!(*platter.log.lock().unwrap(), done);
    proxy.close();
    driver.kill();
}

#[test]
fn an_offer_is_refused_where_it_would_wait_or_cannot_be_said() {
    let (platter, driver, proxy) = connected();
    let endpoint = driver.endpoint.clone();
    let (sink, dyn_sink) = listening();
    let frames: Vec<Frame> = (0..257).map(|_| filled(1)).collect();
    assert!(proxy.offer(request(0, Operation::Write, 0, &frames), &dyn_sink).is_err());
    driver.kill();
    let offer = |tag| proxy.offer(request(tag, Operation::Write, tag * 8, &frames[..1]), &dyn_sink);
    let refused = (0..).find_map(|tag| offer(tag).err()).unwrap();
    assert_eq!((refused.tag, refused.segments.len()), (ENTRIES as u64, 1));
    let driver = Driver::start(&platter, &endpoint);
    assert_eq!(proxy.restarted(), Ok(()));
    assert!(sink.wait_for(ENTRIES).iter().all(|(_, result)| result.is_ok()));
    assert!(offer(ENTRIES as u64).is_ok());
    sink.wait_for(ENTRIES + 1);
    proxy.close();
    assert!(offer(0).is_err());
    assert!(proxy.has_all_slots());
    driver.kill();
}

/// Writes, flushes and reads back its own sectors until told to end. Every request must end once and well.
fn client(proxy: &dyn Block, number: u64, is_over: &AtomicBool) {
    let (sink, dyn_sink) = listening();
    let mut tag = 0;
    let mut round = 0;
    while !is_over.load(SeqCst) {
        let place = |index: u64| (number * 64 + index) * 8;
        let byte = |index: u64| (round * 7 + index) as u8;
        let mut batch: Vec<Request> = (0..16)
            .map(|index| {
                request(tag + index, Operation::Write, place(index), &[filled(byte(index))])
            })
            .collect();
        batch.push(request(tag + 16, Operation::Flush, 0, &[]));
        proxy.submit(&mut batch, &dyn_sink);
        sink.wait_for(tag as usize + 17);
        let back: Vec<Frame> = (0..16).map(|_| filled(0xee)).collect();
        let reads = (0..16).zip(&back).map(|(index, frame)| {
            request(tag + 17 + index, Operation::Read, place(index), core::slice::from_ref(frame))
        });
        proxy.submit(&mut reads.collect(), &dyn_sink);
        sink.wait_for(tag as usize + 33);
        assert!((0..16).zip(&back).all(|(index, frame)| byte_of(frame) == byte(index)));
        tag += 33;
        round += 1;
    }
    let ended = sink.wait_for(tag as usize);
    assert!(ended.iter().zip(0..).all(|(ended, tag)| *ended == (tag, Ok(()))));
}

#[test]
fn drivers_that_die_at_any_instant_are_a_pause() {
    const KILLS: usize = 200;
    let (platter, mut driver, proxy) = connected();
    let endpoint = driver.endpoint.clone();
    let is_over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..3)
        .map(|number| {
            let (proxy, is_over) = (proxy.clone(), is_over.clone());
            thread::spawn(move || client(&*proxy, number, &is_over))
        })
        .collect();
    for kill in 0..KILLS {
        // Some drivers die before anything has ended, some later.
        let done = || platter.log.lock().unwrap().len();
        let before = done();
        while done() < before + kill % 41 {
            thread::yield_now();
        }
        (0..kill % 7).for_each(|_| thread::yield_now());
        driver.kill();
        driver = Driver::start(&platter, &endpoint);
        proxy.restarted().unwrap();
    }
    is_over.store(true, SeqCst);
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert!(proxy.has_all_slots());
    proxy.close();
    driver.kill();
}

#[test]
fn a_flush_is_a_barrier_among_requests_issued_again() {
    let rings = Rings::new(RINGS).unwrap();
    let sink: Arc<dyn BlockSink> = Arc::new(Sink::default());
    let order = [Operation::Write, Operation::Read, Operation::Flush, Operation::Write];
    let (mut ring, received) = rings.client().unwrap();
    let mut flights = Flights::new(received);
    for (operation, tag) in order.into_iter().zip(0..) {
        flights.admit(request(tag, operation, tag * 8, &[]), &sink);
    }
    let _ = flights.send(&mut ring).unwrap();
    let mut ring = flights.renew(&ring, &rings).unwrap();
    let (mut completions, mut driver) =
        rings.driver::<CompletionEntry, super::entries::RequestEntry>().unwrap();
    let mut assembler = super::assembler::Assembler::default();
    let mut received = |flights: &mut Flights| {
        let _ = flights.send(&mut ring).unwrap();
        let mut all = super::assembler::Gathered::default();
        while let Some((entry, _)) = driver.pop().unwrap() {
            assembler.add(&entry, &mut all).unwrap();
        }
        all.batch.iter().map(|request| (request.sector / 8, request.tag)).collect::<Vec<_>>()
    };
    let mut end = |flights: &mut Flights, tag| {
        let _ = completions.push(&CompletionEntry::new(tag, 0, Ok(()))).unwrap();
        let (slots, mut places, mut count) = (flights.slots(), [const { None }; BATCH], 0);
        let mut completing = slots.completing();
        slots.take_completions(&mut completing, &mut places, &mut count).unwrap();
        assert!(count == 1 && places[0].is_some());
    };
    let first = received(&mut flights);
    assert_eq!(first.iter().map(|(place, _)| *place).collect::<Vec<_>>(), [0, 1]);
    end(&mut flights, first[1].1);
    // A new request also waits, behind the old ones.
    flights.admit(request(4, Operation::Read, 32, &[]), &sink);
    assert_eq!(received(&mut flights), []);
    end(&mut flights, first[0].1);
    let flush = received(&mut flights);
    assert_eq!((flush.len(), flush[0].0), (1, 2));
    end(&mut flights, flush[0].1);
    let rest = received(&mut flights);
    assert_eq!(rest.iter().map(|(place, _)| *place).collect::<Vec<_>>(), [3, 4]);
}

std::thread_local! {
    /// Time at the next check of the test that runs on this thread.
    static NOW_MS: Cell<u64> = const { Cell::new(0) };
}

/// Checks `proxy` every 100 ms with a limit of a second. Returns the reason to end its driver, and after how many
/// checks.
fn check_until(proxy: &BlockProxy, checks: u64) -> Option<(String, u64)> {
    (0..checks).find_map(|count| {
        let now_ms = NOW_MS.replace(NOW_MS.get() + 100);
        let (now, limit_ns) = (Instant(now_ms * 1_000_000), 1_000_000_000);
        let check = Check { now, limit_ns, step_max_ns: 200_000_000 };
        proxy.overdue(&check).map(|cause| (cause, count))
    })
}

#[test]
fn a_driver_that_keeps_a_request_is_ended_and_its_successor_does_it() {
    let (platter, driver, proxy) = connected();
    let endpoint = driver.endpoint.clone();
    let (sink, dyn_sink) = listening();
    *driver.disk.mood.lock().unwrap() = Mood::Holds;
    assert_eq!(check_until(&proxy, 100), None);
    proxy.submit(&mut vec![request(1, Operation::Write, 8, &[filled(5)])], &dyn_sink);
    while platter.log.lock().unwrap().is_empty() {
        thread::yield_now();
    }
    let (cause, checks) = check_until(&proxy, 100).unwrap();
    assert!(cause.contains("vda: a request is not done after 3"), "{cause}");
    assert!((28..40).contains(&checks), "{checks}");
    driver.kill();
    let driver = Driver::start(&platter, &endpoint);
    proxy.restarted().unwrap();
    assert_eq!(sink.wait_for(1), [(1, Ok(()))]);
    assert_eq!(check_until(&proxy, 100), None);
    proxy.close();
    driver.kill();
}

#[test]
fn a_driver_that_lost_its_rings_is_ended() {
    let (_, driver, proxy) = connected();
    let (sink, dyn_sink) = listening();
    driver.service.die();
    proxy.submit(&mut vec![request(1, Operation::Write, 8, &[filled(5)])], &dyn_sink);
    let (cause, _) = check_until(&proxy, 100).unwrap();
    assert!(cause.contains("it does not know of a request"), "{cause}");
    proxy.restarted().unwrap();
    assert_eq!(sink.wait_for(1), [(1, Ok(()))]);
    proxy.close();
    driver.kill();
}

/// A driver that takes requests from its rings and knows nothing of them.
struct Forgetful(Mutex<Option<thread::JoinHandle<()>>>, Arc<AtomicBool>);

impl BlockControl for Forgetful {
    fn describe(&self) -> Option<super::BlockDescription> {
        Some(super::BlockDescription::of(&info()))
    }
    fn detach(&self) -> Option<()> {
        Some(())
    }
    fn attach(&self, rings: Region) -> Result<(), AttachError> {
        let rings = Rings::of(rings, RINGS)?;
        let (_, mut requests) = rings.driver::<CompletionEntry, entries::RequestEntry>()?;
        let is_over = self.1.clone();
        let take = move || {
            while !is_over.load(SeqCst) {
                let _ = requests.pop();
                thread::yield_now();
            }
        };
        *self.0.lock().unwrap() = Some(thread::spawn(take));
        Ok(())
    }
    fn find(&self, _: u64) -> Option<Whereabouts> {
        Some(Whereabouts::Unknown)
    }
}

#[test]
fn a_driver_that_drops_a_request_is_ended_at_the_limit_and_less_and_less_often() {
    let (endpoint, is_over) = (Endpoint::new().unwrap(), Arc::new(AtomicBool::new(false)));
    let driver = Arc::new(Forgetful(Mutex::default(), is_over.clone()));
    let (at, served) = (endpoint.clone(), BlockControlServer::new("vda", driver.clone()));
    let serving = thread::spawn(move || service::run(&at, &[served]).unwrap());
    let runs = Box::new(RunningDriver::default);
    let caller = Caller::new(endpoint.clone(), 0, None);
    let proxy = BlockProxy::new(caller, Box::new(|| panic!("the driver lies")), runs).unwrap();
    let (sink, dyn_sink) = listening();
    proxy.submit(&mut vec![request(1, Operation::Write, 8, &[filled(5)])], &dyn_sink);
    for end in 0..overdue::ENDS_MAX {
        let (cause, checks) = check_until(&proxy, 1000).unwrap();
        assert!(cause.contains("it does not know of a request"), "{cause}");
        assert!((9 << end..(13 << end) + 3).contains(&checks), "{end}: {checks}");
        proxy.restarted().unwrap();
    }
    assert_eq!(check_until(&proxy, 5000), None, "more were ended than are");
    proxy.close();
    assert_eq!(sink.wait_for(1), [(1, Err(BlockError::Restarted))]);
    is_over.store(true, SeqCst);
    endpoint.signal(1);
    serving.join().unwrap();
    driver.0.lock().unwrap().take().unwrap().join().unwrap();
}

#[test]
fn a_read_that_was_not_done_discloses_nothing_of_the_frames_and_clears_nothing_else() {
    let (_, driver, proxy) = connected();
    let (sink, dyn_sink) = listening();
    *driver.disk.mood.lock().unwrap() = Mood::Lies;
    let whole = filled(7);
    proxy.submit(
        &mut vec![request(0, Operation::Read, 8, core::slice::from_ref(&whole))],
        &dyn_sink,
    );
    let part = filled(7);
    let segments = vec![Segment { frame: part.clone(), offset: 512, length: 1024 }];
    let partial = Request { tag: 1, operation: Operation::Read, sector: 8, segments };
    assert!(proxy.offer(partial, &dyn_sink).is_ok());
    let written = filled(7);
    proxy.submit(
        &mut vec![request(2, Operation::Write, 8, core::slice::from_ref(&written))],
        &dyn_sink,
    );
    assert!(sink.wait_for(3).iter().all(|(_, result)| result.is_ok()));
    assert_eq!((byte_of(&whole), byte_of(&written)), (0, 7));
    let mut bytes = [0; 4096];
    part.read(0, &mut bytes);
    assert!(bytes[512..1536].iter().all(|byte| *byte == 0));
    assert!(bytes[..512].iter().chain(&bytes[1536..]).all(|byte| *byte == 7));
    proxy.close();
    driver.kill();
}

#[test]
fn an_error_of_a_driver_that_lives_comes_through() {
    let (_, driver, proxy) = connected();
    let (sink, dyn_sink) = listening();
    *driver.disk.mood.lock().unwrap() = Mood::Fails;
    for tag in 0..5 {
        proxy.submit(&mut vec![request(tag, Operation::Write, 8, &[filled(5)])], &dyn_sink);
        let ended = sink.wait_for(tag as usize + 1);
        assert_eq!(ended[tag as usize], (tag, Err(BlockError::Device)));
    }
    assert!(proxy.has_all_slots());
    proxy.close();
    driver.kill();
}

#[test]
fn an_error_of_drivers_that_do_not_live_on_is_tried_again_three_times() {
    let endpoint = Endpoint::new().unwrap();
    let platter: Arc<Platter> = Arc::default();
    let (sink, dyn_sink) = listening();
    let mut driver = Driver::start(&platter, &endpoint);
    let proxy = connect(&endpoint, &platter);
    let err = |driver: &Driver| {
        // The driver must be ended although it still answers.
        platter.set_running(false);
        *driver.disk.mood.lock().unwrap() = Mood::Fails;
    };
    for (tag, deaths, result) in [(0, 1, Ok(())), (1, 3, Ok(())), (2, 4, Err(BlockError::Device))] {
        err(&driver);
        proxy.submit(&mut vec![request(tag, Operation::Write, 8, &[filled(5)])], &dyn_sink);
        for death in 1..=deaths {
            proxy.wait_for_doubts();
            assert_eq!(sink.wait_for(0).len(), tag as usize, "it was told");
            driver.kill();
            driver = Driver::start(&platter, &endpoint);
            if death < deaths {
                err(&driver);
            }
            proxy.restarted().unwrap();
        }
        assert_eq!(sink.wait_for(tag as usize + 1)[tag as usize], (tag, result));
    }
    assert!(proxy.has_all_slots());
    proxy.close();
    driver.kill();
}

/// Answers `attach` with a driver that writes `lies` into the rings.
struct Liar {
    lies: Vec<(CompletionEntry, bool)>,
    attached: AtomicUsize,
}

impl BlockControl for Liar {
    fn describe(&self) -> Option<super::BlockDescription> {
        Some(super::BlockDescription::of(&info()))
    }
    fn detach(&self) -> Option<()> {
        Some(())
    }
    fn attach(&self, rings: Region) -> Result<(), AttachError> {
        if self.attached.fetch_add(1, SeqCst) > 0 {
            return Err(AttachError::NoMemory);
        }
        let rings = Rings::of(rings, RINGS).unwrap();
        let mut completions = Producer::new(rings.back.clone()).unwrap();
        for (lie, corrupts) in &self.lies {
            let _ = completions.push(lie);
            if *corrupts {
                rings.back.words()[0].store(lie.tag, SeqCst);
            }
        }
        rings.back.consumer_bell().ring();
        Ok(())
    }
    fn find(&self, _: u64) -> Option<Whereabouts> {
        Some(Whereabouts::Unknown)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_driver_that_lies_is_ended_and_nothing_completes_twice(
        lies in proptest::collection::vec(
            ((prop_oneof![0_u64..4, any::<u64>()], 0_u64..9), prop::bool::weighted(0.1)), 1..40),
    ) {
        let endpoint = Endpoint::new().unwrap();
        let at = endpoint.clone();
        let lies = lies
            .into_iter()
            .map(|((tag, result), corrupts)| {
                let result = if result == 0 { Err(BlockError::Device) } else { Ok(()) };
                (CompletionEntry::new(tag, (tag % 3) as u32, result), corrupts)
            })
            .collect();
        let liar = Arc::new(Liar { lies, attached: AtomicUsize::new(0) });
        let served = BlockControlServer::new("vda", liar);
        let serving = thread::spawn(move || service::run(&at, &[served]).unwrap());
        let ended = Arc::new(AtomicUsize::new(0));
        let told = ended.clone();
        let caller = Caller::new(endpoint.clone(), 0, None);
        let on_corrupt = Box::new(move || {
            told.fetch_add(1, SeqCst);
        });
        let window = host::recording_window();
        let known = window.clone();
        let proxy = BlockProxy::new(caller, on_corrupt, Box::new(move || RunningDriver {
            window: known.clone(),
            generation: Some(1),
        }))
        .unwrap();
        let (sink, dyn_sink) = listening();
        let mut batch = (0..8).map(|tag| request(tag, Operation::Read, 0, &[])).collect();
        proxy.submit(&mut batch, &dyn_sink);
        // Most lies come before the requests, so the first request ends the driver.
        proxy.close();
        let all = sink.wait_for(8);
        prop_assert!(all.iter().zip(0..).all(|((tag, _), expected)| *tag == expected));
        prop_assert!(ended.load(SeqCst) <= 1);
        prop_assert_eq!(host::lent_frames(&window), 0);
        endpoint.signal(1);
        serving.join().unwrap();
    }

    #[test]
    fn any_entries_are_requests_or_refused(
        words in proptest::collection::vec(
            (any::<[u64; 3]>(), 0_u64..6, 0_u64..6, 0_u64..9, any::<[u64; 4]>()), 0..50),
    ) {
        let rings = Rings::new(RINGS).unwrap();
        let mut raw = Producer::<_, [u64; 8]>::new(rings.forth.clone()).unwrap();
        for (head, operation, count, more, rest) in words {
            let packed = operation | count << 8 | more << 16;
            let entry = [head[0] % 2, head[1], head[2], packed, rest[0] % 40, rest[1], rest[2], rest[3]];
            let _ = raw.push(&entry).unwrap();
        }
        let mut driver =
            Consumer::<_, super::entries::RequestEntry>::new(rings.forth.clone()).unwrap();
        let mut assembler = super::assembler::Assembler::default();
        let mut all = super::assembler::Gathered::default();
        while let Some((entry, _)) = driver.pop().unwrap() {
            let before = (all.batch.len(), all.sequences.len());
            if assembler.add(&entry, &mut all).is_err() {
                prop_assert_eq!((all.batch.len(), all.sequences.len()), before);
            }
        }
        prop_assert!(all.sequences.iter().all(|sequence| sequence.more.len() < SEQUENCE_MAX));
        for request in all.batch.iter().chain(all.sequences.iter().flat_map(Sequence::requests)) {
            prop_assert!(request.segments.len() <= entries::SEGMENTS_MAX + 4);
        }
    }
}
