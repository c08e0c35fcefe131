//! Tests of the driver against a model disk.
use crate::Disk;
use interfaces::block::{Block, BlockError, BlockSink, Operation, Request, Segment};
use rt::memory::Frame;
use std::sync::{
    Arc, Condvar, Mutex,
    atomic::{AtomicU64, Ordering::Relaxed},
};
use virtio::{
    Candidate,
    model::{Behaviour, Chain, Model},
};

const SECTORS: usize = 1024;
const F_FLUSH: u64 = 1 << 9;
const F_DISCARD: u64 = 1 << 13;
const F_WRITE_ZEROES: u64 = 1 << 14;
const F_QUEUES: u64 = 1 << 12;
const F_SEG_MAX: u64 = 1 << 2;
const USUAL: u64 =
    F_FLUSH | F_DISCARD | F_SEG_MAX | virtio::feature::INDIRECT | virtio::feature::EVENT_INDEX;

#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Prompt,
    /// The disk keeps requests until the test has it serve them.
    Lazy,
    Failing,
}

struct Medium {
    bytes: Vec<u8>,
    mood: Mood,
    kept: Vec<(u16, Chain)>,
    /// Type, sector and data bytes of each request that came.
    seen: Vec<(u32, u64, usize)>,
}

/// A disk in memory.
#[derive(Clone)]
struct ModelDisk(Arc<Mutex<Medium>>);

impl ModelDisk {
    fn new(mood: Mood) -> ModelDisk {
        let bytes = (0..SECTORS * 512).map(|index| (index / 512) as u8).collect();
        ModelDisk(Arc::new(Mutex::new(Medium { bytes, mood, kept: Vec::new(), seen: Vec::new() })))
    }

    fn serve(&self, model: &Model, queue: u16, chain: &Chain) {
        let mut medium = self.0.lock().unwrap();
        let sent = chain.read();
        let (header, data) = sent.split_at(16);
        let kind = u32::from_le_bytes(header[..4].try_into().unwrap());
        let sector = u64::from_le_bytes(header[8..].try_into().unwrap());
        let start = sector as usize * 512;
        let room = chain.writable_bytes() - 1;
        medium.seen.push((kind, sector, data.len().max(room)));
        let status = match kind {
            _ if medium.mood == Mood::Failing => 1,
            0 => {
                chain.write(0, &medium.bytes[start..start + room]);
                0
            }
            1 => {
                medium.bytes[start..start + data.len()].copy_from_slice(data);
                0
            }
            4 => 0,
            11 | 13 => {
                let first = u64::from_le_bytes(data[..8].try_into().unwrap()) as usize;
                let count = u32::from_le_bytes(data[8..12].try_into().unwrap()) as usize;
                medium.bytes[first * 512..(first + count) * 512].fill(0);
                0
            }
            _ => 2,
        };
        chain.write(room, &[status]);
        drop(medium);
        model.push(queue, chain, room as u32 + 1);
    }

    /// Serves the kept requests, the last one first.
    fn serve_kept(&self, model: &Model) {
        loop {
            let kept = self.0.lock().unwrap().kept.pop();
            let Some((queue, chain)) = kept else { return };
            self.serve(model, queue, &chain);
        }
    }

    fn kept(&self) -> usize {
        self.0.lock().unwrap().kept.len()
    }
}

impl Behaviour for ModelDisk {
    fn notified(&self, model: &Model, queue: u16) {
        while let Some(chain) = model.pop(queue) {
            let mood = self.0.lock().unwrap().mood;
            match mood {
                Mood::Lazy => self.0.lock().unwrap().kept.push((queue, chain)),
                _ => self.serve(model, queue, &chain),
            }
        }
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
    fn wait(&self, count: usize) -> Vec<(u64, Result<(), BlockError>)> {
        let ended = self.ended.lock().unwrap();
        self.changed.wait_while(ended, |ended| ended.len() < count).unwrap().clone()
    }
}

struct Rig {
    medium: ModelDisk,
    model: Arc<Model>,
    disk: Arc<Disk>,
    sink: Arc<Sink>,
    _plugged: rt::host::Plugged,
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.disk.stop();
    }
}

static NEXT_BASE: AtomicU64 = AtomicU64::new(0x10_0000);

fn configuration(discard_max: u32) -> Vec<u8> {
    let mut config = vec![0; 60];
    config[..8].copy_from_slice(&(SECTORS as u64).to_le_bytes());
    config[12..16].copy_from_slice(&100_u32.to_le_bytes());
    config[34..36].copy_from_slice(&2_u16.to_le_bytes());
    config[36..40].copy_from_slice(&discard_max.to_le_bytes());
    config[48..52].copy_from_slice(&7_u32.to_le_bytes());
    config
}

fn rig(features: u64, mood: Mood) -> Rig {
    let medium = ModelDisk::new(mood);
    let model = Model::new(2, features, configuration(10), (2, 256), Box::new(medium.clone()));
    let base = NEXT_BASE.fetch_add(0x1000, Relaxed);
    let (device, plugged) = model.plug_mmio(base, base as u32);
    let disk = Disk::open(Candidate::Mmio(device), "vda".into(), 8).unwrap();
    Rig { medium, model, disk, sink: Arc::default(), _plugged: plugged }
}

fn segment(frame: &Frame, offset: u32, length: u32) -> Segment {
    Segment { frame: frame.clone(), offset, length }
}

fn request(tag: u64, operation: Operation, sector: u64, frames: &[Frame]) -> Request {
    let segments = frames.iter().map(|frame| segment(frame, 0, 4096)).collect();
    Request { tag, operation, sector, segments }
}

fn frames(count: usize) -> Vec<Frame> {
    (0..count).map(|_| Frame::zeroed().unwrap()).collect()
}

impl Rig {
    fn submit(&self, mut batch: Vec<Request>) {
        let sink: Arc<dyn BlockSink> = self.sink.clone();
        self.disk.submit(&mut batch, &sink);
    }
    fn run(&self, batch: Vec<Request>) -> Vec<(u64, Result<(), BlockError>)> {
        let count = self.sink.ended.lock().unwrap().len() + batch.len();
        self.submit(batch);
        self.sink.wait(count)
    }
    fn seen(&self) -> Vec<(u32, u64, usize)> {
        self.medium.0.lock().unwrap().seen.clone()
    }
}

#[test]
fn what_is_written_is_read_back() {
    for features in [USUAL, USUAL | F_QUEUES, USUAL & !virtio::feature::INDIRECT, F_FLUSH] {
        let rig = rig(features, Mood::Prompt);
        let out = frames(1);
        out[0].write(0, b"written here");
        assert_eq!(rig.run(vec![request(1, Operation::Write, 8, &out)]), [(1, Ok(()))]);
        let back = frames(1);
        rig.run(vec![request(2, Operation::Read, 8, &back)]);
        let mut bytes = [0; 12];
        back[0].read(0, &mut bytes);
        assert_eq!(&bytes, b"written here");
        assert_eq!(rig.run(vec![request(3, Operation::Flush, 0, &[])])[2], (3, Ok(())));
        assert_eq!(back[0].references(), 1, "the frame is given back");
    }
}

#[test]
fn what_is_offered_is_taken_or_given_back() {
    let rig = rig(USUAL, Mood::Lazy);
    let sink: Arc<dyn BlockSink> = rig.sink.clone();
    let frame = frames(1);
    let offer = |tag, operation, sector| {
        let frames = if operation == Operation::Flush { &[] } else { frame.as_slice() };
        rig.disk.offer(request(tag, operation, sector, frames), &sink)
    };
    // No thread waits: a request without room comes back unchanged.
    let refused = (0..).map(|tag| offer(tag, Operation::Write, 8)).find_map(Result::err).unwrap();
    let taken = refused.tag;
    assert!((1..=64).contains(&taken), "{taken}");
    assert_eq!(
        (refused.operation, refused.sector, refused.segments.len()),
        (Operation::Write, 8, 1)
    );
    rig.medium.0.lock().unwrap().mood = Mood::Prompt;
    rig.medium.serve_kept(&rig.model);
    assert_eq!(rig.sink.wait(taken as usize).len(), taken as usize);
    assert_eq!(rig.run(vec![refused]).last(), Some(&(taken, Ok(()))));
    // An invalid request comes back, too; `submit` reports the error.
    assert!(offer(1, Operation::Write, SECTORS as u64).is_err());
    assert!(offer(2, Operation::Flush, 0).is_ok());
    assert_eq!(rig.sink.wait(taken as usize + 2).last(), Some(&(2, Ok(()))));
    rig.disk.stop();
    assert!(offer(3, Operation::Flush, 0).is_err());
    assert_eq!(rig.sink.ended.lock().unwrap().len(), taken as usize + 2);
    assert_eq!(frame[0].references(), 1);
}

#[test]
fn parts_of_frames_are_transferred_to_the_byte() {
    let rig = rig(USUAL, Mood::Prompt);
    let frame = frames(2);
    let segments = vec![segment(&frame[0], 512, 1024), segment(&frame[1], 3584, 512)];
    let read = Request { tag: 0, operation: Operation::Read, sector: 5, segments };
    assert_eq!(rig.run(vec![read]), [(0, Ok(()))]);
    let first_byte = |frame: &Frame, offset| {
        let mut byte = [0];
        frame.read(offset, &mut byte);
        byte[0]
    };
    let found: Vec<u8> = [0, 512, 1024, 1536].map(|at| first_byte(&frame[0], at)).to_vec();
    assert_eq!(found, [0, 5, 6, 0]);
    assert_eq!(first_byte(&frame[1], 3584), 7);
}

#[test]
fn neighbours_are_merged_and_strangers_are_not() {
    let rig = rig(USUAL, Mood::Prompt);
    let frame = frames(5);
    let one = |tag, sector, at: usize| request(tag, Operation::Read, sector, &frame[at..=at]);
    let ended = rig.run(vec![one(1, 16, 0), one(2, 0, 1), one(3, 8, 2), one(4, 40, 3)]);
    assert!(ended.iter().all(|(_, result)| result.is_ok()));
    assert_eq!(rig.seen(), [(0, 0, 3 * 4096), (0, 40, 4096)]);
    for (index, sector) in [(0, 16_u8), (1, 0), (2, 8), (3, 40)] {
        let mut byte = [0];
        frame[index].read(0, &mut byte);
        assert_eq!(byte, [sector]);
    }
}

#[test]
fn requests_that_make_no_sense_end_once_with_the_reason() {
    let rig = rig(USUAL & !F_DISCARD, Mood::Prompt);
    let frame = frames(101);
    let odd = |offset, length| Request {
        tag: 9,
        operation: Operation::Read,
        sector: 0,
        segments: vec![segment(&frame[0], offset, length)],
    };
    let bad = vec![
        odd(1, 512),
        odd(0, 100),
        odd(4096, 512),
        odd(512, 4096),
        odd(0, 0),
        odd(u32::MAX - 511, 512),
        request(9, Operation::Read, SECTORS as u64 - 7, &frame[..1]),
        request(9, Operation::Read, u64::MAX, &frame[..1]),
        request(9, Operation::Read, 0, &[]),
        request(9, Operation::Read, 0, &frame),
    ];
    let count = bad.len();
    assert_eq!(rig.run(bad), vec![(9, Err(BlockError::Invalid)); count]);
    let discard = Operation::Discard { sectors: 1 };
    assert_eq!(
        rig.run(vec![request(1, discard, 0, &[])])[count],
        (1, Err(BlockError::Unsupported))
    );
    assert!(rig.seen().is_empty());
}

#[test]
fn a_read_only_disk_refuses_writes() {
    let rig = rig(USUAL | 1 << 5, Mood::Prompt);
    assert!(rig.disk.info().is_read_only);
    let ended = rig.run(vec![request(1, Operation::Write, 0, &frames(1))]);
    assert_eq!(ended, [(1, Err(BlockError::ReadOnly))]);
}

#[test]
fn a_discard_goes_out_in_parts_the_device_takes() {
    let rig = rig(USUAL, Mood::Prompt);
    let discard = Operation::Discard { sectors: 25 };
    assert_eq!(rig.run(vec![request(1, discard, 100, &[])]), [(1, Ok(()))]);
    assert_eq!(rig.seen().len(), 3);
    let medium = rig.medium.0.lock().unwrap();
    assert!(medium.bytes[100 * 512..125 * 512].iter().all(|byte| *byte == 0));
    assert_eq!((medium.bytes[99 * 512], medium.bytes[125 * 512]), (99, 125));
}

#[test]
fn zeroes_are_written_without_sending_them() {
    let rig = rig(USUAL | F_WRITE_ZEROES, Mood::Prompt);
    let zeroes = Operation::WriteZeroes { sectors: 20 };
    assert_eq!(rig.run(vec![request(1, zeroes, 100, &[])]), [(1, Ok(()))]);
    let kinds: Vec<u32> = rig.seen().iter().map(|(kind, ..)| *kind).collect();
    assert_eq!(kinds, [13, 13, 13]);
    let medium = rig.medium.0.lock().unwrap();
    assert!(medium.bytes[100 * 512..120 * 512].iter().all(|byte| *byte == 0));
    assert_eq!((medium.bytes[99 * 512], medium.bytes[120 * 512]), (99, 120));
    drop(medium);
    let plain = self::rig(USUAL, Mood::Prompt);
    let refused = plain.run(vec![request(1, zeroes, 100, &[])]);
    assert_eq!(refused, [(1, Err(BlockError::Unsupported))]);
}

#[test]
fn device_errors_reach_every_client_of_a_merged_request() {
    let rig = rig(USUAL, Mood::Failing);
    let frame = frames(2);
    let batch = vec![
        request(1, Operation::Read, 0, &frame[..1]),
        request(2, Operation::Read, 8, &frame[1..]),
    ];
    let failed = Err(BlockError::Device);
    assert_eq!(rig.run(batch), [(1, failed), (2, failed)]);
    assert_eq!(rig.seen().len(), 1);
}

#[test]
fn completions_come_in_the_device_s_order() {
    let rig = rig(USUAL, Mood::Lazy);
    let frame = frames(3);
    let at = |tag: u64| request(tag, Operation::Read, tag * 20, &frame[tag as usize..][..1]);
    rig.submit(vec![at(0), at(1), at(2)]);
    rig.medium.serve_kept(&rig.model);
    let order: Vec<u64> = rig.sink.wait(3).iter().map(|(tag, _)| *tag).collect();
    assert_eq!(order, [2, 1, 0]);
}

#[test]
fn a_full_device_makes_submitters_wait_and_loses_nothing() {
    const REQUESTS: usize = 1000;
    for features in [USUAL, USUAL & !virtio::feature::INDIRECT, 0] {
        let rig = rig(features, Mood::Lazy);
        let frame = frames(1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while rig.sink.ended.lock().unwrap().len() < REQUESTS {
                    rig.medium.serve_kept(&rig.model);
                    std::thread::yield_now();
                }
            });
            for part in 0..4 {
                let rig = &rig;
                let frame = &frame;
                scope.spawn(move || {
                    let tags = (0..REQUESTS as u64).skip(part).step_by(4);
                    let batch: Vec<_> = tags
                        .map(|tag| request(tag, Operation::Read, tag * 16 % 1000, frame))
                        .collect();
                    rig.submit(batch);
                });
            }
        });
        let mut tags: Vec<u64> = rig.sink.wait(REQUESTS).iter().map(|(tag, _)| *tag).collect();
        tags.sort_unstable();
        assert_eq!(tags, (0..REQUESTS as u64).collect::<Vec<_>>());
    }
}

#[test]
fn a_device_that_breaks_the_protocol_is_reset_and_fails_everything() {
    let rig = rig(USUAL, Mood::Lazy);
    let frame = frames(1);
    rig.submit(vec![request(1, Operation::Read, 0, &frame)]);
    assert_eq!(rig.medium.kept(), 1);
    rig.model.tamper(0, 63, 4097);
    assert_eq!(rig.sink.wait(1), [(1, Err(BlockError::Device))]);
    assert!(!rig.model.is_running());
    let ended = rig.run(vec![request(2, Operation::Write, 0, &frame)]);
    assert_eq!(ended[1], (2, Err(BlockError::Device)));
    assert_eq!(frame[0].references(), 1);
}

#[test]
fn stopping_ends_requests_as_restarted() {
    let rig = rig(USUAL, Mood::Lazy);
    rig.submit(vec![request(1, Operation::Read, 0, &frames(1))]);
    rig.disk.stop();
    assert_eq!(rig.sink.wait(1), [(1, Err(BlockError::Restarted))]);
}

#[test]
fn several_queues_have_their_own_vectors_on_pci() {
    let medium = ModelDisk::new(Mood::Prompt);
    let features = USUAL | F_QUEUES;
    let model = Model::new(2, features, configuration(10), (2, 16), Box::new(medium));
    let (function, _plugged) = model.plug_pci(0x28, 2);
    let disk = Disk::open(Candidate::Pci(function), "vdb".into(), 8).unwrap();
    assert_eq!(disk.info().depth, 16 * 2.min(rt::thread::processors().0));
    assert_eq!(disk.info().max_segments, 13);
    let sink = Arc::new(Sink::default());
    let dynamic: Arc<dyn BlockSink> = sink.clone();
    disk.submit(&mut vec![request(5, Operation::Read, 0, &frames(2))], &dynamic);
    assert_eq!(sink.wait(1), [(5, Ok(()))]);
    disk.stop();
}
