//! Block devices: requests of many frames, several in flight, completed on the driver's thread (K4, M2).
//!
//! If driver and client live in different worlds, the client has a [`BlockProxy`] and the driver a [`BlockService`]. They
//! exchange messages ([`BlockControl`]) and share two rings of plain data.
mod control;
mod course;
mod doubts;
mod entries;
mod flights;
mod remote;
mod sequence;
mod server;
mod slots;
#[cfg(test)]
mod tests;
mod turn;

pub use control::*;
pub use course::{Course, Owner};
pub use remote::{BlockProxy, Running};
pub use sequence::{SEQUENCE_MAX, Sequence, Step};
pub use server::BlockService;

use alloc::{sync::Arc, vec::Vec};
use interfaces_macro::interface;
use rt::memory::Frame;

/// Bytes of the unit in which requests are addressed.
pub const SECTOR_BYTES: usize = 512;

/// The description of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// Name without `/dev/`: `vda`.
    pub name: alloc::string::String,
    /// Length in sectors of 512 bytes.
    pub sectors: u64,
    /// Preferred unit of the device, in bytes.
    pub block_bytes: u32,
    /// Writes are refused.
    pub is_read_only: bool,
    /// Flushes mean something (a volatile write cache).
    pub has_flush: bool,
    /// Discards are taken.
    pub has_discard: bool,
    /// Zeroes can be written without sending them.
    pub has_write_zeroes: bool,
    /// Most segments in a request.
    pub max_segments: usize,
    /// Requests the device holds at once, over all queues.
    pub depth: usize,
}

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Device to frames.
    Read,
    /// Frames to device.
    Write,
    /// Everything completed before is on stable storage when this completes.
    Flush,
    /// The sectors' contents are no longer needed; `sectors` long, no segments.
    Discard {
        /// Number of sectors.
        sectors: u64,
    },
    /// The sectors read as zeroes from now on; `sectors` long, no segments.
    WriteZeroes {
        /// Number of sectors.
        sectors: u64,
    },
}

/// A part of a frame.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The frame, lent to the device until completion.
    pub frame: Frame,
    /// First byte, a multiple of 512.
    pub offset: u32,
    /// Bytes, a multiple of 512, not passing the frame's end.
    pub length: u32,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Request {
    /// The client's own number, handed back at completion.
    pub tag: u64,
    /// The operation to do.
    pub operation: Operation,
    /// First sector.
    pub sector: u64,
    /// The parts of frames that hold the data, in order.
    pub segments: Vec<Segment>,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockError {
    /// Beyond the end, misaligned, or too many segments.
    Invalid,
    /// A write to a read-only device.
    ReadOnly,
    /// The device reported an error.
    Device,
    /// The device does not do this.
    Unsupported,
    /// The driver died; the request may or may not have been done.
    Restarted,
    /// Memory was refused.
    NoMemory,
}

/// The client's side: told of each completion, on the driver's thread; must not block for I/O.
#[interface(direct)]
pub trait BlockSink: Send + Sync {
    /// Request `tag` ended.
    fn completed(&self, tag: u64, result: Result<(), BlockError>);
}

/// A block device.
#[interface(direct)]
pub trait Block: Send + Sync {
    /// The description of the device.
    fn info(&self) -> BlockInfo;
    /// Starts every request of the batch, which is empty then, with one notification of the device for all. Adjacent
    /// requests are merged where the device allows. Blocks while the device is full. Each request
    /// gets exactly one completion, also when it is refused.
    fn submit(&self, batch: &mut Vec<Request>, sink: &Arc<dyn BlockSink>);
    /// Starts one request, as [`Block::submit`] would, where that can be done without waiting: a sink may do so with what is
    /// to follow. Who is refused submits it on a thread that may wait.
    ///
    /// # Errors
    /// The request, of which nothing was done.
    fn offer(&self, request: Request, sink: &Arc<dyn BlockSink>) -> Result<(), Request> {
        let _ = sink;
        Err(request)
    }
    /// Starts a sequence, where the device sees to its order by itself and that can be done without waiting for room. `sink` is
    /// told once: of the first request's tag where all ended well, else of the tag of the first that did not.
    ///
    /// # Errors
    /// The sequence, of which nothing was done: its client sees to the order ([`Course`]).
    fn start(&self, sequence: Sequence, sink: &Arc<dyn BlockSink>) -> Result<(), Sequence> {
        let _ = sink;
        Err(sequence)
    }
    /// Looks whether the device has done something of which nobody heard: an interrupt may have been lost.
    fn look_again(&self) {}
}
