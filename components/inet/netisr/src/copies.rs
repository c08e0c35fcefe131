//! [`Copies`]: frames for copies of short packets, so that their buffers can be lent again at once.
use inet::Buffer;
use interfaces::nic::PacketSegment;
use rt::{PAGE_BYTES, memory::Frame};

/// Packets shorter than this are copied.
pub const COPIED_BELOW: usize = 256;
/// Copies begin at multiples of this, a line of the cache.
const ALIGNMENT: usize = 64;

/// The frame that short packets are being copied to, one behind the other.
#[derive(Default)]
pub struct Copies {
    frame: Option<Frame>,
    used: usize,
}

impl Copies {
    /// Returns a copy of a packet that is shorter than [`COPIED_BELOW`]; `None` if memory is refused, or the packet is not here.
    pub fn copy(&mut self, pieces: &[PacketSegment]) -> Option<PacketSegment> {
        let mut bytes = [0; COPIED_BELOW];
        let mut length = 0usize;
        for piece in pieces {
            let part = bytes.get_mut(length..length.checked_add(piece.length())?)?;
            length += part.len();
            if piece.read(0, part) != part.len() {
                return None;
            }
        }
        self.copy_of(bytes.get(..length)?)
    }
    /// Returns a copy of `bytes`; `None` if memory is refused.
    pub fn copy_of(&mut self, bytes: &[u8]) -> Option<PacketSegment> {
        let frame = self.frame_for(bytes.len())?;
        let offset = self.used;
        let copied = frame.write(offset, bytes);
        self.used = (offset + copied).next_multiple_of(ALIGNMENT);
        (copied == bytes.len()).then_some(PacketSegment {
            frame,
            offset: offset as u32,
            length: copied as u32,
        })
    }
    /// Returns the frame with room for `length` more bytes: the present one, from its start if nobody else has it any more, or a
    /// new one.
    fn frame_for(&mut self, length: usize) -> Option<Frame> {
        if let Some(frame) = &self.frame {
            if self.used + length <= PAGE_BYTES {
                return Some(frame.clone());
            }
            if frame.references() == 1 {
                self.used = 0;
                return Some(frame.clone());
            }
        }
        let frame = Frame::zeroed().ok()?;
        self.used = 0;
        Some(self.frame.insert(frame).clone())
    }
}
