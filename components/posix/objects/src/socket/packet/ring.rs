//! [`ReceiveRing`]: memory that the socket and its program share (PACKET_RX_RING), in the formats TPACKET_V1 and TPACKET_V2.
//!
//! ```text
//! frame     0 header of the version | 32 (48 of V3) struct sockaddr_ll | network offset - link header: the bytes
//! V1        0 status 8 | 8 length 4, kept 4 | 16 link offset 2, network offset 2 | 20 seconds 4, microseconds 4
//! V2        0 status 4, length 4, kept 4 | 12 link offset 2, network offset 2 | 16 seconds 4, nanoseconds 4 | 24 VLAN 2 + 2
//! ```
//! The status tells who may use a frame: 0 the socket, else the program. The program writes to the memory whenever it likes, so
//! nothing but the status is ever read of it.
use super::{
    blocks::BlockRing,
    receive::{FrameInfo, FrameRoom, status},
};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use bpf::PacketBytes;
use memory::Anonymous;
use rt::{PAGE_BYTES, memory::Frame};
use vfs::Errno;

/// Alignment of frames and of what is in them (`TPACKET_ALIGNMENT`).
pub(super) const ALIGNMENT: usize = 16;
/// Bytes kept before the network's header for that of the link, at least.
const LINK_LEAST: usize = 16;
const NS_A_SECOND: u64 = 1_000_000_000;

/// The format of a ring (PACKET_VERSION).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum RingVersion {
    /// TPACKET_V1.
    #[default]
    One = 0,
    /// TPACKET_V2.
    Two = 1,
    /// TPACKET_V3: frames of any length in blocks.
    Three = 2,
}

impl RingVersion {
    /// Returns the version of a number.
    pub(super) fn of(number: u32) -> Option<RingVersion> {
        [RingVersion::One, RingVersion::Two, RingVersion::Three]
            .into_iter()
            .find(|version| *version as u32 == number)
    }
    /// Returns the bytes of a frame's header (PACKET_HDRLEN).
    pub(super) fn header(self) -> usize {
        match self {
            RingVersion::One | RingVersion::Two => 32,
            RingVersion::Three => 48,
        }
    }
    /// Returns the bytes of the header with the address behind it (`tp_hdrlen`).
    pub(super) fn header_with_address(self) -> usize {
        self.header() + super::address::ADDRESS_BYTES
    }
}

/// The numbers of a ring that a program asks for (`struct tpacket_req`, `struct tpacket_req3`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RingRequest {
    pub(super) block_bytes: u32,
    pub(super) blocks: u32,
    pub(super) frame_bytes: u32,
    pub(super) frames: u32,
    /// Bytes of the program's own in each block.
    pub(super) private_bytes: u32,
}

impl RingRequest {
    /// Checks the numbers, in Linux's order (`packet_set_ring`).
    ///
    /// # Errors
    /// `EINVAL`.
    pub(super) fn check(&self, version: RingVersion, reserved: u32) -> Result<(), Errno> {
        let block = usize::try_from(self.block_bytes).map_err(|_| Errno::EINVAL)?;
        let is_positive = i32::try_from(self.block_bytes).is_ok_and(|bytes| bytes > 0);
        if !is_positive || !block.is_multiple_of(PAGE_BYTES) {
            return Err(Errno::EINVAL);
        }
        let least = version.header_with_address().saturating_add(reserved as usize);
        let in_block = BlockRing::first_frame(self.private_bytes).saturating_add(least);
        if version == RingVersion::Three && block < in_block {
            return Err(Errno::EINVAL);
        }
        let frame = self.frame_bytes as usize;
        if frame < least || !frame.is_multiple_of(ALIGNMENT) {
            return Err(Errno::EINVAL);
        }
        let in_each = self.block_bytes.checked_div(self.frame_bytes).unwrap_or(0);
        let all = in_each.checked_mul(self.blocks).filter(|_| in_each > 0);
        if all == Some(self.frames) { Ok(()) } else { Err(Errno::EINVAL) }
    }
    /// Returns the offset of a frame of a ring whose frames have the same size.
    pub(super) fn slot(&self, number: u32) -> usize {
        let in_block = self.block_bytes.checked_div(self.frame_bytes).unwrap_or(1).max(1);
        let (block, place) = ((number / in_block) as usize, (number % in_block) as usize);
        block * self.block_bytes as usize + place * self.frame_bytes as usize
    }
    /// Returns the numbers of `struct packet_diag_ring`.
    pub(super) fn described(&self) -> [u32; 7] {
        let (blocks, frames) = ((self.block_bytes, self.blocks), (self.frame_bytes, self.frames));
        [blocks.0, blocks.1, frames.0, frames.1, 0, self.private_bytes, 0]
    }
    /// Returns the bytes of all blocks.
    fn bytes(&self) -> usize {
        (self.block_bytes as usize).saturating_mul(self.blocks as usize)
    }
}

/// Pages that a socket and its program share.
pub(super) struct RingPages {
    pages: Vec<Frame>,
}

impl RingPages {
    /// Makes pages of zeroes for a request.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn new(request: &RingRequest) -> Result<RingPages, Errno> {
        let mut pages = Vec::new();
        Frame::allocate_zeroed(request.bytes() / PAGE_BYTES, &mut pages)?;
        Ok(RingPages { pages })
    }
    /// Returns the pages.
    pub(super) fn pages(&self) -> &[Frame] {
        &self.pages
    }
    /// Writes bytes at an offset, as far as there are pages.
    pub(super) fn write(&self, at: usize, bytes: &[u8]) {
        let (mut at, mut rest) = (at, bytes);
        while !rest.is_empty()
            && let Some(page) = self.pages.get(at / PAGE_BYTES)
        {
            let count = page.write(at % PAGE_BYTES, rest);
            rest = rest.get(count..).unwrap_or_default();
            at += count;
        }
    }
    /// Reads bytes at an offset. Returns whether all are there.
    pub(super) fn read(&self, at: usize, out: &mut [u8]) -> bool {
        let mut done = 0;
        while done < out.len() {
            let Some(page) = self.pages.get((at + done) / PAGE_BYTES) else { return false };
            let rest = out.get_mut(done..).unwrap_or_default();
            done += page.read((at + done) % PAGE_BYTES, rest);
        }
        true
    }
    /// Reads a number of 32 bits; zero beyond the end.
    pub(super) fn word(&self, at: usize) -> u32 {
        let mut bytes = [0; 4];
        self.read(at, &mut bytes);
        // A read after this one sees all that was written before the status.
        core::sync::atomic::fence(core::sync::atomic::Ordering::Acquire);
        u32::from_le_bytes(bytes)
    }
    /// Writes a status, behind everything that was written before.
    pub(super) fn publish(&self, at: usize, word: u32) {
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
        self.write(at, &word.to_le_bytes());
    }
    /// Copies `kept` bytes of a frame from `skip` on to an offset.
    pub(super) fn copy(&self, at: usize, bytes: &dyn PacketBytes, (skip, kept): (usize, usize)) {
        let mut part = [0; 512];
        let mut done = 0;
        while done < kept {
            let count = (kept - done).min(part.len());
            let Some(part) = part.get_mut(..count) else { return };
            if !bytes.read((skip + done) as i64, part) {
                return;
            }
            self.write(at + done, part);
            done += count;
        }
    }
}

/// The places of a frame's bytes in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotPlan {
    /// Offset of the first byte.
    pub(super) link: usize,
    /// Offset of the network's header.
    pub(super) network: usize,
}

impl SlotPlan {
    /// Plans a slot (`tpacket_rcv`). `None` if its offsets are too large.
    pub(super) fn of(version: RingVersion, reserved: u32, link_length: usize) -> Option<SlotPlan> {
        let header = version.header_with_address();
        // Without the link's header, as SOCK_DGRAM has it, its least room stays.
        let network = match link_length {
            0 => header.next_multiple_of(ALIGNMENT) + LINK_LEAST,
            _ => (header + link_length.max(LINK_LEAST)).next_multiple_of(ALIGNMENT),
        };
        let network = network.checked_add(reserved as usize)?;
        u16::try_from(network).ok()?;
        Some(SlotPlan { link: network - link_length, network })
    }
}

/// The treatment of frames that are cut because their slot is too small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CutFrames {
    /// The rest is lost.
    Lost,
    /// The whole frame goes to the queue as well (PACKET_COPY_THRESH).
    Queued,
}

/// The result of putting a frame into a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placed {
    /// All bytes that were to be kept.
    Whole,
    /// The first ones.
    Cut,
    /// The program has not read enough.
    Full {
        /// It is the first frame that found no room.
        is_first: bool,
    },
}

/// A ring of slots of the same size, or of blocks.
enum RingLayout {
    /// Slots as the program asked for them, and the number of the next one.
    Slots(RingRequest, u32),
    Blocks(BlockRing),
}

/// The ring in which a socket puts received frames.
pub(super) struct ReceiveRing {
    version: RingVersion,
    reserved: u32,
    pages: RingPages,
    request: RingRequest,
    layout: RingLayout,
}

impl ReceiveRing {
    /// Makes a ring for a request that was checked.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn new(
        request: &RingRequest,
        version: RingVersion,
        reserved: u32,
    ) -> Result<Box<ReceiveRing>, Errno> {
        let pages = RingPages::new(request)?;
        let layout = match version {
            RingVersion::Three => RingLayout::Blocks(BlockRing::new(request, &pages)),
            _ => RingLayout::Slots(*request, 0),
        };
        Ok(Box::new(ReceiveRing { version, reserved, pages, request: *request, layout }))
    }
    /// Returns its pages.
    pub(super) fn pages(&self) -> &[Frame] {
        self.pages.pages()
    }
    /// Returns the numbers that its program asked for.
    pub(super) fn described(&self) -> [u32; 7] {
        self.request.described()
    }
    /// Returns whether the program has something to read that it was given last. A block that is not full is given to it now.
    pub(super) fn is_ready(&mut self) -> bool {
        match &mut self.layout {
            RingLayout::Slots(request, head) => {
                let last = head.checked_sub(1).unwrap_or(request.frames.saturating_sub(1));
                self.pages.word(request.slot(last)) != 0
            }
            RingLayout::Blocks(blocks) => {
                blocks.hand_over(&self.pages);
                blocks.is_ready(&self.pages)
            }
        }
    }
    /// Returns the room for more frames: whether the next slot or block is free, and the one a quarter of the ring further.
    pub(super) fn room(&self) -> FrameRoom {
        let is_free = |quarters: u32| match &self.layout {
            RingLayout::Slots(request, head) => {
                let ahead = request.frames / 4 * quarters;
                let number = head.wrapping_add(ahead) % request.frames.max(1);
                self.pages.word(request.slot(number)) == 0
            }
            RingLayout::Blocks(blocks) => blocks.is_free(&self.pages, quarters as usize),
        };
        match (is_free(1), is_free(0)) {
            (true, _) => FrameRoom::Normal,
            (false, true) => FrameRoom::Low,
            (false, false) => FrameRoom::Full,
        }
    }
    /// Puts `kept` bytes of a frame from `skip` on into the ring. `cut` tells of frames that are cut here.
    pub(super) fn put(
        &mut self,
        bytes: &dyn PacketBytes,
        info: &FrameInfo,
        (skip, kept): (usize, usize),
        cut: CutFrames,
    ) -> Placed {
        let plan = SlotPlan::of(self.version, self.reserved, info.link_length);
        let Some(plan) = plan else { return Placed::Full { is_first: false } };
        let (request, head) = match &mut self.layout {
            RingLayout::Slots(request, head) => (request, head),
            RingLayout::Blocks(blocks) => {
                return blocks.put(&self.pages, bytes, info, (skip, kept), plan);
            }
        };
        let room = (request.frame_bytes as usize).saturating_sub(plan.link);
        let at = request.slot(*head);
        if self.pages.word(at) != 0 {
            return Placed::Full { is_first: false };
        }
        *head = (*head + 1) % request.frames.max(1);
        let copied = kept.min(room);
        self.pages.copy(at + plan.link, bytes, (skip, copied));
        let is_cut = copied < kept;
        let state = info.status | if is_cut && cut == CutFrames::Queued { status::COPY } else { 0 };
        self.describe(at, info, copied, plan);
        self.pages.publish(at, state);
        if is_cut { Placed::Cut } else { Placed::Whole }
    }
    /// Writes the header of a slot but its status, and the address.
    fn describe(&self, at: usize, info: &FrameInfo, kept: usize, plan: SlotPlan) {
        let numbers = [info.length as u32, kept as u32];
        let offsets = [plan.link as u16, plan.network as u16];
        let seconds = (info.at_ns / NS_A_SECOND) as u32;
        let rest = (info.at_ns % NS_A_SECOND) as u32;
        let (first, rest) = match self.version {
            RingVersion::One => (8, rest / 1000),
            _ => (4, rest),
        };
        let mut header = Vec::with_capacity(28);
        numbers.iter().for_each(|number| header.extend(number.to_le_bytes()));
        offsets.iter().for_each(|offset| header.extend(offset.to_le_bytes()));
        header.extend(seconds.to_le_bytes());
        header.extend(rest.to_le_bytes());
        self.pages.write(at + first, &header);
        if self.version == RingVersion::Two {
            // No tag of a VLAN.
            self.pages.write(at + 24, &[0; 8]);
        }
        self.pages.write(at + self.version.header(), &info.from.to_bytes());
    }
}

/// Makes the object that mmap(2) maps: the pages of both rings, one after the other.
///
/// # Errors
/// `ENOMEM`.
pub(super) fn mapped_pages(rings: [&[Frame]; 2]) -> Result<Arc<Anonymous>, Errno> {
    let all: Vec<Frame> = rings.into_iter().flatten().cloned().collect();
    Ok(Anonymous::of_frames(&all)?)
}
