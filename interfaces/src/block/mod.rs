//! Block devices: requests of many frames, several in flight, completed on the driver's thread (K4, M2).
//!
//! If driver and client live in different worlds, the client has a `BlockProxy` and the driver a `BlockService`. They
//! exchange messages ([`BlockControl`]) and share two rings of plain data. The client lends its frames to the driver's devices
//! and names them to the driver by number. So there is no `BlockService` in the kernel world, which cannot be lent any.
#[cfg(any(not(target_os = "none"), skerry_process))]
mod assembler;
mod combiner;
mod control;
mod course;
mod doubts;
mod entries;
mod flights;
mod remote;
mod sequence;
#[cfg(any(not(target_os = "none"), skerry_process))]
mod server;
mod slots;
#[cfg(test)]
mod tests;

pub use control::*;
pub use course::{Course, SequenceOwner};
pub use remote::{BlockProxy, RunningDriver};
pub use sequence::{SEQUENCE_MAX, Sequence, SequenceStep};
#[cfg(any(not(target_os = "none"), skerry_process))]
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
    /// The device refuses writes.
    pub is_read_only: bool,
    /// Flushes have an effect: the device has a volatile write cache.
    pub has_flush: bool,
    /// The device takes discards.
    pub has_discard: bool,
    /// The device can write zeroes without being sent them.
    pub has_write_zeroes: bool,
    /// The greatest number of segments in a request.
    pub max_segments: usize,
    /// Requests that the device holds at once, over all queues.
    pub depth: usize,
}

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Moves data from the device to frames.
    Read,
    /// Moves data from frames to the device.
    Write,
    /// Makes everything that completed before this request durable: it is on stable storage when this one completes.
    Flush,
    /// Says that the contents of `sectors` sectors are no longer needed. Has no segments.
    Discard {
        /// Number of sectors.
        sectors: u64,
    },
    /// Makes `sectors` sectors read as zeroes. Has no segments.
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

/// The reason why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockError {
    /// The request passes the end, is misaligned, or has too many segments.
    Invalid,
    /// The request would change a read-only device.
    ReadOnly,
    /// The device reported an error.
    Device,
    /// The device does not support the operation.
    Unsupported,
    /// The driver died; the request may or may not have been done.
    Restarted,
    /// Memory was refused.
    NoMemory,
}

/// The receiver of completions, on the client's side. It is called on the driver's thread and must not block for I/O.
#[interface(direct)]
pub trait BlockSink: Send + Sync {
    /// Request `tag` has ended with `result`.
    fn completed(&self, tag: u64, result: Result<(), BlockError>);
}

/// A block device.
#[interface(direct)]
pub trait Block: Send + Sync {
    /// The description of the device.
    fn info(&self) -> BlockInfo;
    /// Starts every request of `batch` and empties it, with one notification of the device for all. Adjacent requests are
    /// merged if the device allows it. Blocks while the device is full. Each request gets exactly one completion, also when it
    /// is refused.
    fn submit(&self, batch: &mut Vec<Request>, sink: &Arc<dyn BlockSink>);
    /// Starts one request as [`Block::submit`] does, if that is possible without waiting. So a sink may call it to issue a
    /// following request. If it is refused, a thread that may wait must submit the request.
    ///
    /// # Errors
    /// The request, of which nothing was done.
    fn offer(&self, request: Request, sink: &Arc<dyn BlockSink>) -> Result<(), Request> {
        let _ = sink;
        Err(request)
    }
    /// Starts a sequence, if the device orders requests itself and has room. `sink` is told once: with the first request's tag
    /// if all ended well, else with the tag of the first that failed.
    ///
    /// # Errors
    /// The sequence, of which nothing was done: its client sees to the order ([`Course`]).
    fn start(&self, sequence: Sequence, sink: &Arc<dyn BlockSink>) -> Result<(), Sequence> {
        let _ = sink;
        Err(sequence)
    }
    /// Checks for completions whose interrupt may have been lost.
    fn look_again(&self) {}
}
