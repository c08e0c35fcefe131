//! The virtio disks' driver, turned hostile. It works as the driver until a read of the second disk tells it how to behave:
//! a read that begins at block [`FIRST_BLOCK`] + [`BLOCKS`] * N selects number N of [`Behaviour::ALL`]. Its successor works
//! as the driver again. `tests/abi/src/bin/hostile_driver` has the required reaction to each behaviour. Some of its lives
//! end early, too ([`failing`]), and with `hostile.geometry` it gives an impossible description of its second disk.
#![cfg(all(target_os = "none", skerry_process))]
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
use alloc::{sync::Arc, vec, vec::Vec};
use core::{
    hint::spin_loop,
    sync::atomic::{AtomicUsize, Ordering::*},
};
use failing::may_fail;
use interfaces::{
    AttachError,
    block::{
        Block, BlockControl, BlockControlServer, BlockDescription, BlockError, BlockInfo,
        BlockService, BlockSink, Operation, Request, Segment, Whereabouts,
    },
    service,
};
use rt::{
    device::PciDevice,
    memory::{Frame, FrameId, Region},
    message,
    ring::{Memory, Part},
    sync::Mutex,
    system,
    thread::{self, Policy},
    time,
};
use virtio::Candidate;

rt::lock_class! {
    static STATE = "hostile.state";
}

/// Age of the system before which lives of the driver end early.
const SURELY_NS: u64 = 300_000_000;
const FIRST_BLOCK: u64 = 256;
const BLOCKS: u64 = 64;
const BLOCK_SECTORS: u64 = 8;
/// Number of requests that are held back to be given to the device in another order.
const REORDERED: usize = 4;
/// A slot of the client's that has no request, because the client takes the lowest free slot.
const UNUSED_SLOT: u64 = 500;
/// Frames that were not lent: low memory, and the address of interrupt messages.
const UNLENT_FRAME: u32 = 0x1000;
const INTERRUPT_FRAME: u32 = 0xfee00;
/// Word of the ring of completions in the client's region, which counts the entries written.
const COMPLETIONS_WORD: usize = 4112;
const COMPLETION_WORDS: usize = 1040;
const LORIS_NS: u64 = 20_000_000;
const HOUR_NS: u64 = 3_600_000_000_000;
const PIECE_BYTES: usize = 16 << 10;
/// Number of vectors and of mappings of registers that are requested.
const GRABBED: u8 = 250;
const BARS: u8 = 6;

/// A way in which the driver behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behaviour {
    /// Works normally.
    Well,
    /// Drops requests, and denies them when asked.
    DropAndDeny,
    /// Drops requests, and claims to have them.
    DropAndClaim,
    /// Does requests in another order.
    Reorder,
    /// Reports reads of the second disk as done, and does nothing.
    FalseRead,
    /// Reports writes as done that it has not done.
    FalseWrite,
    /// Reports an error and dies.
    ErrorAndDie,
    /// Reports an error for requests to the second disk, and lives.
    ErrorAndLive,
    /// Ends a request a second time, later.
    Stale,
    /// Ends a request twice at once.
    Twice,
    /// Ends a request that does not exist.
    ForNothing,
    /// Reports more written entries than a ring holds.
    RingCount,
    /// Makes the device read memory that was not lent.
    StrayRead,
    /// Makes the device write memory that was not lent.
    StrayWrite,
    /// Makes the device write to the address of interrupt messages.
    StrayInterrupt,
    /// Makes the device interrupt without pause.
    InterruptFlood,
    /// Takes all memory it can get.
    GrabMemory,
    /// Starts all threads that it can.
    GrabThreads,
    /// Writes log lines without pause.
    GrabLog,
    /// Does one request at long intervals.
    Loris,
    /// Answers pings, but does nothing else.
    PingsOnly,
    /// Answers no more messages.
    Silent,
    /// Computes on all processors.
    Loop,
    /// Panics at the next request.
    Crash,
    /// Ends its main thread, which answers messages.
    MainEnds,
    /// Answers everything with invalid words.
    BadAnswers,
    /// Takes all interrupt vectors it can get.
    GrabVectors,
    /// Maps all registers it can get, again and again.
    GrabRegisters,
}

impl Behaviour {
    const ALL: [Behaviour; 28] = {
        use Behaviour::*;
        [
            Well,
            DropAndDeny,
            DropAndClaim,
            Reorder,
            FalseRead,
            FalseWrite,
            ErrorAndDie,
            ErrorAndLive,
            Stale,
            Twice,
            ForNothing,
            RingCount,
            StrayRead,
            StrayWrite,
            StrayInterrupt,
            InterruptFlood,
            GrabMemory,
            GrabThreads,
            GrabLog,
            Loris,
            PingsOnly,
            Silent,
            Loop,
            Crash,
            MainEnds,
            BadAnswers,
            GrabVectors,
            GrabRegisters,
        ]
    };

    fn now() -> Behaviour {
        Behaviour::ALL.get(CHOSEN.load(Acquire)).copied().unwrap_or(Behaviour::Well)
    }
}

/// Number of the chosen behaviour.
static CHOSEN: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of the behaviour that `request` orders, if it is a read that orders one.
fn chosen_by(request: &Request) -> Option<usize> {
    let block = (request.sector / BLOCK_SECTORS).checked_sub(FIRST_BLOCK)?;
    let number = usize::try_from(block / BLOCKS).ok()?;
    let is_order = request.operation == Operation::Read
        && request.sector.is_multiple_of(BLOCK_SECTORS)
        && block.is_multiple_of(BLOCKS)
        && number < Behaviour::ALL.len();
    is_order.then_some(number)
}

/// A disk of the hostile driver.
struct Hostile {
    disk: Arc<virtio_blk::Disk>,
    is_second: bool,
    rings: Mutex<Option<Region>>,
    kept: Mutex<Vec<(Request, Arc<dyn BlockSink>)>>,
}

/// A sink for requests without a client.
struct Nobody;

impl BlockSink for Nobody {
    fn completed(&self, _: u64, _: Result<(), BlockError>) {}
}

/// A sink that reports each request twice.
struct Doubled(Arc<dyn BlockSink>, u64);

impl BlockSink for Doubled {
    fn completed(&self, tag: u64, result: Result<(), BlockError>) {
        self.0.completed(tag, result);
        time::sleep_until(time::now().after_ns(self.1));
        self.0.completed(tag, result);
    }
}

impl Hostile {
    /// Makes the device access `frame`, which was not lent.
    fn stray(&self, operation: Operation, frame: u32) {
        let Some(frame) = Frame::lent(FrameId(frame)) else { return };
        let segments = vec![Segment { frame, offset: 0, length: 4096 }];
        let request = Request { tag: 0, operation, sector: 0, segments };
        let sink: Arc<dyn BlockSink> = Arc::new(Nobody);
        self.disk.submit(&mut vec![request], &sink);
    }

    /// Does the part of the order that is done at once.
    fn begin(self: &Arc<Hostile>, behaviour: Behaviour) {
        log::info!("hostile: {behaviour:?}");
        match behaviour {
            Behaviour::StrayRead => self.stray(Operation::Write, UNLENT_FRAME),
            Behaviour::StrayWrite => self.stray(Operation::Read, UNLENT_FRAME),
            Behaviour::StrayInterrupt => self.stray(Operation::Read, INTERRUPT_FRAME),
            Behaviour::InterruptFlood => {
                let disk = self.clone();
                start(move || disk.flood());
            }
            Behaviour::GrabMemory => {
                start(grab_memory);
            }
            Behaviour::GrabThreads => while start(|| sleep_for_ever()) {},
            Behaviour::GrabLog => {
                start(|| {
                    loop {
                        log::info!("hostile: a line of a flood, which nobody wants to read");
                    }
                });
            }
            Behaviour::GrabVectors => {
                start(|| {
                    grab(|spare| (0..GRABBED).map_while(|_| spare.msix(0).ok()).collect::<Vec<_>>())
                });
            }
            Behaviour::GrabRegisters => {
                start(|| {
                    grab(|spare| {
                        (0..GRABBED)
                            .filter_map(|turn| spare.bar(turn % BARS).ok())
                            .collect::<Vec<_>>()
                    })
                });
            }
            Behaviour::Loop => {
                for _ in 0..8 {
                    start(|| {
                        loop {
                            spin_loop();
                        }
                    });
                }
            }
            Behaviour::RingCount => self.corrupt_ring(),
            _ => {}
        }
    }

    /// Reports that more was written than a ring holds, and has the client look.
    fn corrupt_ring(&self) {
        let rings = self.rings.lock().clone();
        let ring = rings.and_then(|rings| Part::of(&rings, COMPLETIONS_WORD, COMPLETION_WORDS));
        let Some(ring) = ring else { return };
        ring.words().iter().take(1).for_each(|count| {
            count.fetch_add(100_000, SeqCst);
        });
        ring.consumer_bell().ring();
    }

    fn flood(&self) {
        let sink: Arc<dyn BlockSink> = Arc::new(Nobody);
        loop {
            let flush =
                |tag| Request { tag, operation: Operation::Flush, sector: 0, segments: Vec::new() };
            self.disk.submit(&mut (0..32).map(flush).collect(), &sink);
        }
    }

    /// Holds a few requests back, and gives them to the device last first.
    fn reorder(&self, batch: &mut Vec<Request>, sink: &Arc<dyn BlockSink>) {
        let mut kept = self.kept.lock();
        kept.extend(batch.drain(..).map(|request| (request, sink.clone())));
        let all = core::mem::take(&mut *kept);
        drop(kept);
        for few in all.chunks(REORDERED) {
            for (request, sink) in few.iter().rev() {
                self.disk.submit(&mut vec![request.clone()], sink);
            }
        }
    }

    /// Ends requests for which `is_meant` returns `true` with `result`, and does the others.
    fn end(
        &self,
        batch: &mut Vec<Request>,
        sink: &Arc<dyn BlockSink>,
        result: Result<(), BlockError>,
        is_meant: impl Fn(&Request) -> bool,
    ) {
        for request in batch.extract_if(.., |request| is_meant(request)) {
            sink.completed(request.tag, result);
        }
        self.disk.submit(batch, sink);
    }

    fn misbehave(&self, batch: &mut Vec<Request>, sink: &Arc<dyn BlockSink>) {
        let is_second = self.is_second;
        match Behaviour::now() {
            Behaviour::DropAndDeny | Behaviour::DropAndClaim | Behaviour::PingsOnly => {
                batch.clear()
            }
            Behaviour::Reorder => self.reorder(batch, sink),
            Behaviour::FalseRead => {
                self.end(batch, sink, Ok(()), |one| is_second && one.operation == Operation::Read);
            }
            Behaviour::FalseWrite => {
                self.end(batch, sink, Ok(()), |one| is_second && one.operation == Operation::Write);
            }
            Behaviour::ErrorAndDie if !is_second => {
                self.end(batch, sink, Err(BlockError::Device), |_| true);
                panic!("as was asked for");
            }
            Behaviour::ErrorAndLive => {
                self.end(batch, sink, Err(BlockError::Device), |_| is_second);
            }
            Behaviour::Stale => {
                self.disk.submit(
                    batch,
                    &(Arc::new(Doubled(sink.clone(), LORIS_NS)) as Arc<dyn BlockSink>),
                );
            }
            Behaviour::Twice => {
                self.disk
                    .submit(batch, &(Arc::new(Doubled(sink.clone(), 0)) as Arc<dyn BlockSink>));
            }
            Behaviour::ForNothing => {
                sink.completed(UNUSED_SLOT, Ok(()));
                self.disk.submit(batch, sink);
            }
            Behaviour::Loris => {
                for request in batch.drain(..) {
                    time::sleep_until(time::now().after_ns(LORIS_NS));
                    self.disk.submit(&mut vec![request], sink);
                }
            }
            Behaviour::Crash => panic!("as was asked for"),
            _ => self.disk.submit(batch, sink),
        }
    }
}

/// Starts a thread, if it may.
fn start(work: impl FnOnce() + Send + 'static) -> bool {
    thread::spawn("hostile", Policy::Fair { nice: -10 }, work).is_ok()
}

fn sleep_for_ever() -> ! {
    loop {
        time::sleep_until(time::now().after_ns(HOUR_NS));
    }
}

/// Opens the entropy device, which has no other driver, and keeps the things that `take` takes of it.
fn grab<T: Send + 'static>(take: impl FnOnce(&PciDevice) -> Vec<T>) {
    let spare = virtio::candidates(virtio::kind::ENTROPY).into_iter().find_map(|one| match one {
        Candidate::Pci(function) => PciDevice::open(function).ok(),
        Candidate::Mmio(_) => None,
    });
    let Some(spare) = spare else {
        return log::error!("hostile: there is no spare device");
    };
    let taken = take(&spare);
    log::info!("hostile: took {}", taken.len());
    sleep_for_ever();
}

fn grab_memory() {
    let mut all: Vec<Vec<u8>> = Vec::new();
    loop {
        let mut piece = Vec::new();
        if piece.try_reserve_exact(PIECE_BYTES).is_err() || all.try_reserve(1).is_err() {
            sleep_for_ever();
        }
        all.push(piece);
    }
}

/// The disk as its clients see it; the disk's own threads use the disk itself.
struct Face(Arc<Hostile>);

impl Block for Face {
    fn info(&self) -> BlockInfo {
        self.0.disk.info()
    }
    fn submit(&self, batch: &mut Vec<Request>, sink: &Arc<dyn BlockSink>) {
        let order = batch.iter().filter(|_| self.0.is_second).find_map(chosen_by);
        if let Some(number) = order {
            self.0.disk.submit(batch, sink);
            CHOSEN.store(number, Release);
            return self.0.begin(Behaviour::now());
        }
        self.0.misbehave(batch, sink);
    }
    fn look_again(&self) {
        self.0.disk.look_again();
    }
}

/// The service that answers messages.
struct Control {
    service: BlockService,
    hostile: Arc<Hostile>,
}

impl BlockControl for Control {
    fn describe(&self) -> Option<BlockDescription> {
        if self.hostile.is_second && system::parameter("hostile.geometry").is_some() {
            return Some(BlockDescription::of(&BlockInfo {
                sectors: u64::MAX,
                block_bytes: 3,
                max_segments: 0,
                ..self.hostile.disk.info()
            }));
        }
        self.service.describe()
    }
    fn detach(&self) -> Option<()> {
        self.service.detach()
    }
    fn attach(&self, rings: Region) -> Result<(), AttachError> {
        *self.hostile.rings.lock() = Some(rings.clone());
        self.service.attach(rings)
    }
    fn find(&self, tag: u64) -> Option<Whereabouts> {
        match Behaviour::now() {
            Behaviour::DropAndDeny => Some(Whereabouts::Unknown),
            Behaviour::DropAndClaim | Behaviour::PingsOnly => Some(Whereabouts::UnderWay),
            _ => self.service.find(tag),
        }
    }
}

fn serve(disk: Arc<virtio_blk::Disk>) -> BlockControlServer<Control> {
    let name = disk.info().name;
    let hostile = Arc::new(Hostile {
        is_second: name == "vdb",
        disk,
        rings: Mutex::new(&STATE, None),
        kept: Mutex::new(&STATE, Vec::new()),
    });
    let service = BlockService::new(Arc::new(Face(hostile.clone())));
    BlockControlServer::new(&name, Arc::new(Control { service, hostile }))
}

/// The component's main function.
pub fn main() {
    may_fail("it finds its disks", SURELY_NS);
    let instances: Vec<_> = virtio_blk::probe().into_iter().map(serve).collect();
    let endpoint = message::service();
    let mut message = message::Message::new(0);
    let mut received = endpoint.receive(&mut message, None);
    loop {
        if received.is_err() {
            received = endpoint.receive(&mut message, None);
            continue;
        }
        match Behaviour::now() {
            Behaviour::MainEnds => return,
            Behaviour::Silent => sleep_for_ever(),
            Behaviour::BadAnswers => message.reset(0xdead),
            _ => {
                may_fail("an answer", SURELY_NS);
                service::respond(&instances, &mut message);
            }
        }
        received = endpoint.reply_and_receive(&mut message, None);
    }
}
