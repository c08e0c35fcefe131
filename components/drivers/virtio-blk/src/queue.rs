//! One virtqueue of a disk: slots with header and status, device requests in flight.
//!
//! ```text
//! slot    0 type 4 | 4 reserved 4 | 8 sector 8 | 16 range 16 | 32 status 1 (in a word of its own)
//! range   0 sector 8 | 8 sectors 4 | 12 flags 4
//! ```
use crate::merge::Work;
use alloc::{boxed::Box, vec::Vec};
use interfaces::block::{BlockError, Operation};
use rt::device::{DmaBuffer, frame_address};
use virtio::{Buffer, BufferAccess, Error, Queue, Used};

const SLOT_BYTES: usize = 64;
const RANGE: usize = 16;
const STATUS: usize = 32;
const HEADER_BYTES: u32 = 16;

const TYPE_IN: u64 = 0;
const TYPE_OUT: u64 = 1;
const TYPE_FLUSH: u64 = 4;
const TYPE_DISCARD: u64 = 11;
const TYPE_WRITE_ZEROES: u64 = 13;

const STATUS_OK: u8 = 0;
const STATUS_UNSUPPORTED: u8 = 2;

/// A device request in flight.
pub(crate) struct InFlight {
    slot: u16,
    /// Keeps the frames until the device is done.
    work: Work,
    /// First sector and number of sectors of the rest of a range that the device takes in parts.
    rest: Option<(u64, u64)>,
}

/// The greatest number of sectors of one request without data, by type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RangeMax {
    pub(crate) discard: u32,
    pub(crate) zeroes: u32,
}

/// A virtqueue and its slots.
pub(crate) struct RequestRing {
    queue: Queue<Box<InFlight>>,
    slots: DmaBuffer,
    free_slots: Vec<u16>,
    range_max: RangeMax,
    /// Scratch list, reused from request to request.
    buffers: Vec<Buffer>,
}

/// A request that the device is done with.
pub(crate) struct Done {
    pub(crate) work: Work,
    pub(crate) result: Result<(), BlockError>,
}

impl RequestRing {
    /// Makes a ring with slots for every entry of `queue`. Requests without data are cut into parts
    /// of at most `range_max`.
    pub(crate) fn new(
        queue: Queue<Box<InFlight>>,
        range_max: RangeMax,
    ) -> Result<RequestRing, Error> {
        let count = queue.size();
        let slots = DmaBuffer::allocate(usize::from(count) * SLOT_BYTES)?;
        let free_slots = (0..count).rev().collect();
        Ok(RequestRing { queue, slots, free_slots, range_max, buffers: Vec::new() })
    }

    /// Returns the number of requests that it holds at once.
    pub(crate) fn depth(&self) -> u16 {
        self.queue.size()
    }

    /// Returns the most buffers of one request.
    pub(crate) fn chain_max(&self) -> u16 {
        self.queue.chain_max()
    }

    /// Puts a request into the ring. The device is not told yet.
    ///
    /// # Errors
    /// Returns the work if there is no room now.
    pub(crate) fn add(&mut self, work: Work) -> Result<(), Work> {
        let has_room = self.queue.has_room(work.segments.len() + 3);
        let Some(slot) = (if has_room { self.free_slots.pop() } else { None }) else {
            return Err(work);
        };
        let rest = match work.operation {
            Operation::Discard { sectors } | Operation::WriteZeroes { sectors } => {
                Some((work.sector, sectors))
            }
            _ => None,
        };
        match self.issue(Box::new(InFlight { slot, work, rest })) {
            Ok(()) => Ok(()),
            Err(refused) => {
                self.free_slots.push(refused.slot);
                Err(refused.work)
            }
        }
    }

    fn issue(&mut self, mut flight: Box<InFlight>) -> Result<(), Box<InFlight>> {
        let at = usize::from(flight.slot) * SLOT_BYTES;
        let base = self.slots.device_address() + at as u64;
        let (kind, sector) = match flight.work.operation {
            Operation::Read => (TYPE_IN, flight.work.sector),
            Operation::Write => (TYPE_OUT, flight.work.sector),
            Operation::Flush => (TYPE_FLUSH, 0),
            Operation::Discard { .. } => (TYPE_DISCARD, 0),
            Operation::WriteZeroes { .. } => (TYPE_WRITE_ZEROES, 0),
        };
        let part_max = match flight.work.operation {
            Operation::WriteZeroes { .. } => self.range_max.zeroes,
            _ => self.range_max.discard,
        };
        self.slots.store_all(at, [kind, sector]);
        self.slots.store_all(at + STATUS, [u64::MAX]);
        let mut buffers = core::mem::take(&mut self.buffers);
        buffers.clear();
        buffers.push(Buffer { address: base, bytes: HEADER_BYTES, access: BufferAccess::Read });
        if let Some((first, sectors)) = flight.rest {
            let part = sectors.min(u64::from(part_max.max(1)));
            self.slots.store_all(at + RANGE, [first, part]);
            flight.rest = (part < sectors).then(|| (first + part, sectors - part));
            let address = base + RANGE as u64;
            buffers.push(Buffer { address, bytes: RANGE as u32, access: BufferAccess::Read });
        }
        push_data(&mut buffers, &flight);
        let address = base + STATUS as u64;
        buffers.push(Buffer { address, bytes: 1, access: BufferAccess::Write });
        let added = self.queue.add(&buffers, flight);
        self.buffers = buffers;
        added
    }

    /// Tells the device of all added requests.
    pub(crate) fn publish(&mut self) {
        self.queue.publish();
    }

    /// Takes every request that the device is done with, and asks for an interrupt at the next one.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; requests taken before that are in `done`.
    pub(crate) fn take_all(&mut self, done: &mut Vec<Done>) -> Result<(), Error> {
        loop {
            while let Some(Used { payload, .. }) = self.queue.take()? {
                if let Some(finished) = self.finish(payload) {
                    done.push(finished);
                }
            }
            self.queue.publish();
            if !self.queue.arm() {
                return Ok(());
            }
        }
    }

    /// Returns the outcome of a chain that came back; `None` if the rest of its range was sent to
    /// the device.
    fn finish(&mut self, flight: Box<InFlight>) -> Option<Done> {
        let status = self.slots.load64(usize::from(flight.slot) * SLOT_BYTES + STATUS);
        let result = match status as u8 {
            STATUS_OK => Ok(()),
            STATUS_UNSUPPORTED => Err(BlockError::Unsupported),
            _ => Err(BlockError::Device),
        };
        let (flight, result) = if result.is_ok() && flight.rest.is_some() {
            // The chain's own descriptors are free again, so there is room.
            (self.issue(flight).err()?, Err(BlockError::Device))
        } else {
            (flight, result)
        };
        self.free_slots.push(flight.slot);
        Some(Done { work: flight.work, result })
    }

    /// Ends all requests in flight; the device was reset.
    pub(crate) fn abandon(&mut self) -> Vec<Work> {
        self.free_slots.clear();
        self.queue.abandon().into_iter().map(|flight| flight.work).collect()
    }
}

/// Appends the data buffers. Frames that are adjacent for the device become one buffer.
fn push_data(buffers: &mut Vec<Buffer>, flight: &InFlight) {
    let access = match flight.work.operation {
        Operation::Read => BufferAccess::Write,
        _ => BufferAccess::Read,
    };
    for segment in &flight.work.segments {
        // A request was refused if no device reaches one of its frames.
        let Some(frame) = frame_address(&segment.frame) else { continue };
        let address = frame + u64::from(segment.offset);
        match buffers.last_mut() {
            Some(last)
                if buffers_are_data(last, access)
                    && last.address + u64::from(last.bytes) == address =>
            {
                last.bytes += segment.length;
            }
            _ => buffers.push(Buffer { address, bytes: segment.length, access }),
        }
    }
}

/// Returns whether data may be appended to `last`; not to the header, which is shorter than a
/// sector.
fn buffers_are_data(last: &Buffer, access: BufferAccess) -> bool {
    last.access == access && last.bytes > HEADER_BYTES
}
