//! The rings between a network stack and its client in another world: records in cells of 128 bytes.
//!
//! ```text
//! cell      0 kind 1 | 1 flags 1 | 2 bytes of the body here 1 | 3 more 1 | 4 number 4 | 8 value 8 | 16 body 112
//! part      0 frame 4 | 4 offset 2 | 6 length 2
//! ```
//! A record whose body is longer than one cell goes on in the next ones (`more` is 1 in all but the last). The *parts* of a record
//! name parts of frames that both sides reach by number. Bytes in a frame of the stack's own, which the client does not reach, stand
//! in the body behind all parts, and the part has the number [`INLINE`].
use crate::nic::PacketSegment;
use alloc::{collections::VecDeque, vec::Vec};
use rt::{
    PAGE_BYTES,
    memory::{Frame, FrameId},
    ring::{Corrupt, Doorbell, Part, Producer, PushError, words_for},
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Bytes of the body in a cell.
pub(crate) const BODY: usize = 112;
/// The longest body: a packet of 64 KiB with what is told of it.
const BODY_MAX: usize = 80 << 10;
/// Cells of each ring.
const FORTH: usize = 1024;
const BACK: usize = 2048;
/// Sizes of the two rings, in words.
pub(crate) const RINGS: [usize; 2] = [words_for::<Cell>(FORTH), words_for::<Cell>(BACK)];
/// The number of a part whose bytes stand in the body.
const INLINE: u32 = u32::MAX;

/// An entry of a ring.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct Cell {
    kind: u8,
    flags: u8,
    count: u8,
    more: u8,
    number: u32,
    value: u64,
    body: [u8; BODY],
}
const _: () = assert!(size_of::<Cell>() == 128);

/// A part of a frame in a body.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct PartEntry {
    frame: u32,
    offset: u16,
    length: u16,
}

/// A record, as it is written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Record<'b> {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    /// The stream, queue, card or listener that it is about.
    pub(crate) number: u32,
    pub(crate) value: u64,
    pub(crate) body: &'b [u8],
}

/// Cells for which an empty [`Outbox`] keeps the memory.
const CELLS_KEPT: usize = 128;

/// Cells that wait for room in a ring.
#[derive(Default)]
pub(crate) struct Outbox {
    waiting: VecDeque<Cell>,
}

impl Outbox {
    /// Appends a record. One that is too long for any reader is dropped; returns whether it was taken.
    pub(crate) fn put(&mut self, record: &Record<'_>) -> bool {
        let Record { kind, flags, number, value, body } = *record;
        if body.len() > BODY_MAX {
            return false;
        }
        let mut rest = body;
        loop {
            let (here, behind) = rest.split_at(rest.len().min(BODY));
            let mut cell = Cell {
                kind,
                flags,
                count: here.len() as u8,
                more: u8::from(!behind.is_empty()),
                number,
                value,
                body: [0; BODY],
            };
            if let Some(to) = cell.body.get_mut(..here.len()) {
                to.copy_from_slice(here);
            }
            self.waiting.push_back(cell);
            if behind.is_empty() {
                return true;
            }
            rest = behind;
        }
    }
    /// Moves cells to the ring. If there is no room for all, the wait for room is announced.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub(crate) fn flush(&mut self, ring: &mut Producer<Part, Cell>) -> Result<Doorbell, Corrupt> {
        let mut doorbell = Doorbell::Silent;
        while let Some(cell) = self.waiting.front() {
            match ring.push(cell) {
                Ok(rings) => {
                    self.waiting.pop_front();
                    if rings == Doorbell::Ring {
                        doorbell = Doorbell::Ring;
                    }
                }
                Err(PushError::Full) => {
                    if ring.wait_begins()? {
                        break;
                    }
                }
                Err(PushError::Corrupt) => return Err(Corrupt),
            }
        }
        if self.waiting.is_empty() && self.waiting.capacity() > CELLS_KEPT {
            self.waiting.shrink_to(CELLS_KEPT);
        }
        Ok(doorbell)
    }
    /// Returns whether no cell waits.
    #[cfg(any(not(target_os = "none"), skerry_process))]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }
}

/// A record that was read.
#[derive(Debug, Default)]
pub(crate) struct RecordRead {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) number: u32,
    pub(crate) value: u64,
    pub(crate) body: Vec<u8>,
    /// Cells of the record came, and not its last one.
    is_open: bool,
}

impl RecordRead {
    /// Adds a cell. Returns whether the record is whole; then the next cell begins another one.
    ///
    /// # Errors
    /// [`Corrupt`]: no writer makes such cells.
    pub(crate) fn add(&mut self, cell: &Cell) -> Result<bool, Corrupt> {
        if self.is_open {
            let is_same = (self.kind, self.number) == (cell.kind, cell.number);
            if !is_same || self.body.len() > BODY_MAX {
                return Err(Corrupt);
            }
        } else {
            self.body.clear();
            (self.kind, self.flags) = (cell.kind, cell.flags);
            (self.number, self.value) = (cell.number, cell.value);
        }
        self.body.extend_from_slice(cell.body.get(..cell.count.into()).ok_or(Corrupt)?);
        self.is_open = match cell.more {
            0 => false,
            1 => true,
            _ => return Err(Corrupt),
        };
        Ok(!self.is_open)
    }
    /// Forgets the cells of a record that is not whole.
    pub(crate) fn clear(&mut self) {
        self.is_open = false;
        self.body.clear();
    }
}

/// Appends `segments` to a body that ends with them. The bytes of frames that `is_reached` denies go along.
pub(crate) fn put_parts(
    body: &mut Vec<u8>,
    segments: &[PacketSegment],
    is_reached: impl Fn(&Frame) -> bool,
) {
    let count = u16::try_from(segments.len()).unwrap_or(u16::MAX);
    body.extend_from_slice(&count.to_le_bytes());
    for PacketSegment { frame, offset, length } in segments {
        let frame = if is_reached(frame) { frame.partner_id().0 } else { INLINE };
        let part = PartEntry { frame, offset: *offset as u16, length: *length as u16 };
        body.extend_from_slice(part.as_bytes());
    }
    for PacketSegment { frame, offset, length } in segments {
        if !is_reached(frame) {
            let start = body.len();
            body.resize(start + *length as usize, 0);
            frame.read(*offset as usize, body.get_mut(start..).unwrap_or_default());
        }
    }
}

/// The bytes of a part.
pub(crate) enum PartBytes<'b> {
    /// A part of a frame.
    Frame(FrameId, u32, u32),
    /// The bytes themselves.
    Inline(&'b [u8]),
}

/// Takes the parts with which a body ends, and calls `take` for each, in order.
///
/// # Errors
/// [`Corrupt`]: they pass their frames or the body; or `take` says so.
pub(crate) fn take_parts(
    body: &[u8],
    mut take: impl FnMut(PartBytes<'_>) -> Result<(), Corrupt>,
) -> Result<(), Corrupt> {
    let (count, rest) = body.split_first_chunk::<2>().ok_or(Corrupt)?;
    let length = usize::from(u16::from_le_bytes(*count)) * size_of::<PartEntry>();
    let (parts, mut bytes) = rest.split_at_checked(length).ok_or(Corrupt)?;
    for part in parts.as_chunks::<{ size_of::<PartEntry>() }>().0 {
        let PartEntry { frame, offset, length } =
            PartEntry::read_from_bytes(part).map_err(|_| Corrupt)?;
        if frame == INLINE {
            let (here, behind) = bytes.split_at_checked(length.into()).ok_or(Corrupt)?;
            take(PartBytes::Inline(here))?;
            bytes = behind;
        } else {
            let (offset, length) = (u32::from(offset), u32::from(length));
            if (offset + length) as usize > PAGE_BYTES {
                return Err(Corrupt);
            }
            take(PartBytes::Frame(FrameId(frame), offset, length))?;
        }
    }
    if bytes.is_empty() { Ok(()) } else { Err(Corrupt) }
}
