//! A disk: its configuration, its queues, its threads.
use crate::{
    merge::{self, Work},
    queue::{Done, RangeMax, RequestRing},
};
use alloc::{format, string::String, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, Ordering::*};
use interfaces::block::{Block, BlockError, BlockInfo, BlockSink, Operation, Request};
use rt::{
    lock_class,
    sync::{Event, Mutex},
    thread::{self, Policy},
};
use virtio::{Candidate, Device, Error, QueuePlan, Vector, candidates, kind};

lock_class! {
    static RING = "virtio-blk.ring";
}

const F_SEG_MAX: u64 = 1 << 2;
const F_READ_ONLY: u64 = 1 << 5;
const F_BLOCK_SIZE: u64 = 1 << 6;
const F_FLUSH: u64 = 1 << 9;
const F_QUEUES: u64 = 1 << 12;
const F_DISCARD: u64 = 1 << 13;
const F_WRITE_ZEROES: u64 = 1 << 14;
const WANTED: u64 =
    F_SEG_MAX | F_READ_ONLY | F_BLOCK_SIZE | F_FLUSH | F_QUEUES | F_DISCARD | F_WRITE_ZEROES;

/// Offsets in the configuration space.
mod config {
    pub(super) const CAPACITY: usize = 0;
    pub(super) const SEGMENTS_MAX: usize = 12;
    pub(super) const BLOCK_SIZE: usize = 20;
    pub(super) const QUEUES: usize = 34;
    pub(super) const DISCARD_SECTORS_MAX: usize = 36;
    pub(super) const ZEROES_SECTORS_MAX: usize = 48;
}

/// The greatest number of queues of a disk. Each costs a thread and some 100 KiB, and more do not make a disk faster.
const QUEUES_MAX: usize = 8;
/// The greatest number of queues of all disks, unless there are more disks. The system description grants memory and threads
/// for this number.
const ALL_QUEUES_MAX: usize = 32;
/// Entries of a queue, and so also most buffers of a request.
const QUEUE_SIZE: u16 = 64;
/// Buffers of a request that hold no data: header and status.
const OVERHEAD: u16 = 3;
/// Nice value of the completion threads, which go before ordinary programs.
const COMPLETION_NICE: i8 = -10;

struct DiskQueue {
    ring: Mutex<RequestRing>,
    /// Signalled when requests have left the ring.
    room: Event,
}

/// A disk.
pub struct Disk {
    info: BlockInfo,
    device: Device,
    queues: Vec<DiskQueue>,
    vectors: Vec<Vector>,
    /// Set once the device was reset for good.
    is_dead: AtomicBool,
    is_stopping: AtomicBool,
}

/// Opens every virtio disk and starts its threads: `vda`, `vdb` ... in the order of
/// [`virtio::candidates`]. A disk that cannot be used is named in the log and left out.
pub fn probe() -> Vec<Arc<Disk>> {
    let mut disks = Vec::new();
    let candidates = candidates(kind::BLOCK);
    let queues_max = (ALL_QUEUES_MAX / candidates.len().max(1)).clamp(1, QUEUES_MAX);
    for candidate in candidates {
        match Disk::open(candidate, disk_name(disks.len()), queues_max) {
            Ok(disk) => disks.push(disk),
            Err(error) => log::error!("virtio-blk: the disk at {candidate} is not used: {error}"),
        }
    }
    disks
}

/// Returns the name of disk `index`: `vda` to `vdz`, then `vdaa` and on.
fn disk_name(index: usize) -> String {
    let letter = |index: usize| char::from(b'a' + (index % 26) as u8);
    match index / 26 {
        0 => format!("vd{}", letter(index)),
        above => format!("vd{}{}", letter(above - 1), letter(index)),
    }
}

impl Disk {
    /// Opens one disk with at most `queues_max` queues and starts its threads.
    ///
    /// # Errors
    /// [`Error`].
    pub fn open(candidate: Candidate, name: String, queues_max: usize) -> Result<Arc<Disk>, Error> {
        let device = Device::open(candidate, WANTED)?;
        let offered = if device.has(F_QUEUES) {
            u16::from_le_bytes(device.config(config::QUEUES)).max(1)
        } else {
            1
        };
        let wanted = offered.min(thread::processors().0.min(queues_max) as u16).max(1);
        let vectors = device.vectors(wanted)?;
        let range_max = RangeMax {
            discard: u32::from_le_bytes(device.config(config::DISCARD_SECTORS_MAX)),
            zeroes: u32::from_le_bytes(device.config(config::ZEROES_SECTORS_MAX)),
        };
        let queues = (0..wanted)
            .map(|index| {
                let vector = index % vectors.len() as u16;
                let plan = QueuePlan { index, size: QUEUE_SIZE, indirect: QUEUE_SIZE, vector };
                let ring = RequestRing::new(device.queue(plan)?, range_max)?;
                Ok(DiskQueue { ring: Mutex::new(&RING, ring), room: Event::new() })
            })
            .collect::<Result<Vec<DiskQueue>, Error>>()?;
        let depths = queues.iter().map(|queue| usize::from(queue.ring.lock().depth()));
        let depth = depths.sum();
        let chain_max = queues.iter().map(|queue| queue.ring.lock().chain_max()).min().unwrap_or(0);
        let info = read_info(&device, name, chain_max, depth)?;
        let disk = Arc::new(Disk {
            info,
            device,
            queues,
            vectors,
            is_dead: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
        });
        disk.start()?;
        Ok(disk)
    }

    fn start(self: &Arc<Disk>) -> Result<(), Error> {
        self.device.start();
        for vector in 0..self.vectors.len() {
            let disk = self.clone();
            let name = format!("{}/{vector}", self.info.name);
            let policy = Policy::Fair { nice: COMPLETION_NICE };
            let spawned = thread::spawn(&name, policy, move || disk.complete_for_ever(vector));
            if spawned.is_err() {
                self.stop();
                return Err(Error::Device(rt::device::DeviceError::NoMemory));
            }
        }
        let BlockInfo { name, sectors, .. } = &self.info;
        log::info!("virtio-blk: {name}: {sectors} sectors, {} queues", self.queues.len());
        Ok(())
    }

    /// Ends the threads and resets the device; requests in flight end as [`BlockError::Restarted`].
    pub fn stop(&self) {
        self.is_stopping.store(true, Release);
        self.fail_all(BlockError::Restarted);
        self.vectors.iter().for_each(Vector::wake);
    }

    fn complete_for_ever(&self, vector: usize) {
        let Some(source) = self.vectors.get(vector) else { return };
        let mut done = Vec::new();
        while !self.is_stopping.load(Acquire) {
            self.complete(vector, &mut done);
            source.wait(None);
        }
    }

    /// Takes the completed requests in the queues of `vector` and tells the clients; `done` is empty before and after.
    fn complete(&self, vector: usize, done: &mut Vec<Done>) {
        let ours = self.queues.iter().skip(vector).step_by(self.vectors.len().max(1));
        for queue in ours {
            let taken = {
                let mut ring = queue.ring.lock();
                if self.is_dead.load(Acquire) { Ok(()) } else { ring.take_all(done) }
            };
            if !done.is_empty() {
                queue.room.signal();
            }
            for Done { work, result } in done.drain(..) {
                work.complete(result);
            }
            if let Err(error) = taken {
                log::error!("virtio-blk: {}: {error:?}; the disk is given up", self.info.name);
                self.fail_all(BlockError::Device);
            }
        }
    }

    /// Resets the device permanently and ends every request.
    fn fail_all(&self, error: BlockError) {
        self.is_dead.store(true, Release);
        // Memory in flight is freed only when the device cannot access it any more.
        let is_quiet = self.device.reset();
        for queue in &self.queues {
            let works = queue.ring.lock().abandon();
            if !is_quiet {
                works.iter().for_each(|work| core::mem::forget(work.segments.clone()));
            }
            queue.room.signal();
            works.into_iter().for_each(|work| work.complete(Err(error)));
        }
    }

    fn dead_error(&self) -> BlockError {
        if self.is_stopping.load(Acquire) { BlockError::Restarted } else { BlockError::Device }
    }

    /// Returns the queue for requests from this processor.
    fn queue_here(&self) -> Option<&DiskQueue> {
        self.queues.get(thread::processors().1 % self.queues.len().max(1))
    }

    /// Returns whether the work is a flush without effect: without a volatile cache all completed writes are stable
    /// already.
    fn has_no_effect(&self, work: &Work) -> bool {
        work.operation == Operation::Flush && !self.info.has_flush
    }

    /// Puts one piece of work into the queue, waiting for room.
    fn enqueue(&self, queue: &DiskQueue, mut work: Work) {
        loop {
            let ticket = queue.room.ticket();
            {
                let mut ring = queue.ring.lock();
                if self.is_dead.load(Acquire) {
                    drop(ring);
                    return work.complete(Err(self.dead_error()));
                }
                match ring.add(work) {
                    Ok(()) => return,
                    Err(refused) => work = refused,
                }
                // The ring is full: the device must be told of its entries, or there will never be room.
                ring.publish();
            }
            queue.room.wait(ticket, None);
        }
    }
}

fn read_info(
    device: &Device,
    name: String,
    chain_max: u16,
    depth: usize,
) -> Result<BlockInfo, Error> {
    let offered = if device.has(F_SEG_MAX) {
        u32::from_le_bytes(device.config(config::SEGMENTS_MAX)).max(1)
    } else {
        1
    };
    let max_segments = offered.min(u32::from(chain_max.saturating_sub(OVERHEAD)));
    if max_segments == 0 {
        return Err(Error::NoQueue);
    }
    let block_bytes = if device.has(F_BLOCK_SIZE) {
        u32::from_le_bytes(device.config(config::BLOCK_SIZE))
    } else {
        512
    };
    Ok(BlockInfo {
        name,
        sectors: u64::from_le_bytes(device.config(config::CAPACITY)),
        block_bytes: if block_bytes.is_power_of_two() { block_bytes.max(512) } else { 512 },
        is_read_only: device.has(F_READ_ONLY),
        has_flush: device.has(F_FLUSH),
        has_discard: device.has(F_DISCARD),
        has_write_zeroes: device.has(F_WRITE_ZEROES),
        max_segments: max_segments as usize,
        depth,
    })
}

impl Block for Disk {
    fn info(&self) -> BlockInfo {
        self.info.clone()
    }

    fn submit(&self, batch: &mut Vec<Request>, sink: &Arc<dyn BlockSink>) {
        let works = merge::plan(batch, sink, &self.info);
        let Some(queue) = self.queue_here() else { return };
        for work in works {
            if self.has_no_effect(&work) {
                work.complete(Ok(()));
            } else {
                self.enqueue(queue, work);
            }
        }
        let mut ring = queue.ring.lock();
        if !self.is_dead.load(Acquire) {
            ring.publish();
        }
    }

    fn offer(&self, request: Request, sink: &Arc<dyn BlockSink>) -> Result<(), Request> {
        let work = Work::of(request, sink, &self.info).map_err(|(request, _)| request)?;
        let queue = self.queue_here().filter(|_| !self.has_no_effect(&work));
        let Some(queue) = queue else { return Err(work.into_request()) };
        let mut ring = queue.ring.lock();
        if self.is_dead.load(Acquire) {
            return Err(work.into_request());
        }
        ring.add(work).map_err(Work::into_request)?;
        ring.publish();
        Ok(())
    }

    fn look_again(&self) {
        self.vectors.iter().for_each(Vector::wake);
    }
}

impl core::fmt::Debug for Disk {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Disk").field("info", &self.info).finish_non_exhaustive()
    }
}
