//! A TCP segment as plain data (RFC 9293 section 3.1): the parsed header, without payload bytes and without addresses.
use bitflags::bitflags;
use core::num::NonZeroU16;

bitflags! {
    /// The control bits of a TCP header, in the order of the wire.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct TcpFlags: u8 {
        /// The sender has no more data.
        const FIN = 1;
        /// Synchronize sequence numbers.
        const SYN = 2;
        /// Reset the connection.
        const RST = 4;
        /// Push data to the program.
        const PSH = 8;
        /// The acknowledgement number is valid.
        const ACK = 16;
        /// The urgent pointer is valid.
        const URG = 32;
        /// Congestion was experienced (RFC 3168).
        const ECE = 64;
        /// The congestion window was reduced (RFC 3168).
        const CWR = 128;
    }
}

/// The header of a segment and the length of its payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpSegment {
    /// Sequence number of the first byte, or of the SYN.
    pub seq: u32,
    /// Acknowledgement number; valid with the flag `ACK`.
    pub ack: u32,
    /// Control bits.
    pub flags: TcpFlags,
    /// Congestion Experienced in the IP header (RFC 3168).
    pub is_marked: bool,
    /// Window field, as on the wire: not scaled.
    pub window: u16,
    /// Urgent pointer; valid with the flag `URG`.
    pub urgent: u16,
    /// Length of the payload in bytes.
    pub length: u32,
    /// Payload bytes of each segment but the last, if it was merged from several on its way.
    pub merged_of: Option<NonZeroU16>,
    /// Options.
    pub options: SegmentOptions,
}

/// The options of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentOptions {
    /// Timestamps (RFC 7323).
    pub timestamps: Option<Timestamps>,
    /// Maximum segment size in bytes.
    pub mss: Option<u16>,
    /// Window scale: a shift (RFC 7323). Values above 14 count as 14.
    pub wscale: Option<u8>,
    /// The sender can process selective acknowledgements (RFC 2018).
    pub sack_permitted: bool,
    /// Selective acknowledgements.
    pub sack: SackBlocks,
    /// Fast Open cookie (RFC 7413); an empty one is a request.
    pub fast_open: Option<FastOpenCookie>,
}

impl SegmentOptions {
    /// Returns the length of the encoded options in bytes: timestamps as 12, the others padded to words together.
    pub fn encoded_len(&self) -> u32 {
        let mut length = 0;
        if self.timestamps.is_some() {
            length += 12;
        }
        if self.mss.is_some() {
            length += 4;
        }
        if self.wscale.is_some() {
            length += 4;
        }
        if self.sack_permitted && self.timestamps.is_none() {
            length += 4;
        }
        let blocks = self.sack.len() as u32;
        if blocks > 0 {
            length += 4 + 8 * blocks;
        }
        if let Some(cookie) = self.fast_open {
            length += (2 + cookie.bytes().len() as u32).next_multiple_of(4);
        }
        length
    }
}

/// The two fields of the timestamps option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// TimestampClock of the sender.
    pub value: u32,
    /// Echo of the receiver's clock.
    pub echo: u32,
}

/// Up to four blocks of a SACK option: sequence numbers of the first byte and behind the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(u32, u32); 4],
    count: u8,
}

impl SackBlocks {
    /// Adds a block. Returns false if there are four.
    pub fn push(&mut self, start: u32, end: u32) -> bool {
        let Some(free) = self.blocks.get_mut(usize::from(self.count)) else { return false };
        *free = (start, end);
        self.count += 1;
        true
    }

    /// Returns the number of blocks.
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Returns whether there is no block.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the blocks in their order on the wire.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.blocks.iter().take(self.len()).copied()
    }
}

/// A Fast Open cookie of at most 16 bytes (RFC 7413 section 4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastOpenCookie {
    bytes: [u8; 16],
    length: u8,
}

impl FastOpenCookie {
    /// Makes a cookie. Returns `None` for more than 16 bytes.
    pub fn new(bytes: &[u8]) -> Option<FastOpenCookie> {
        let mut cookie = FastOpenCookie { bytes: [0; 16], length: bytes.len().try_into().ok()? };
        cookie.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(cookie)
    }

    /// Returns the bytes; none for a request.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or(&[])
    }

    /// Returns whether the cookie is a request for one.
    pub fn is_request(&self) -> bool {
        self.length == 0
    }
}

impl TcpSegment {
    /// Returns whether a control bit is set.
    #[inline]
    pub const fn has(&self, flag: TcpFlags) -> bool {
        self.flags.contains(flag)
    }

    /// Returns the length in sequence space: payload, SYN and FIN.
    #[inline]
    pub const fn sequence_len(&self) -> u32 {
        let flags = self.has(TcpFlags::SYN) as u32 + self.has(TcpFlags::FIN) as u32;
        self.length.saturating_add(flags)
    }

    /// Returns the sequence number behind the segment.
    #[inline]
    pub const fn end(&self) -> u32 {
        self.seq.wrapping_add(self.sequence_len())
    }

    /// Returns the payload bytes of the longest segment that it was merged from.
    #[inline]
    pub fn longest_part(&self) -> u32 {
        self.merged_of.map_or(self.length, |size| self.length.min(u32::from(size.get())))
    }

    /// Returns the number of segments beside the first that it was merged from.
    #[inline]
    pub fn more_parts(&self) -> u32 {
        self.merged_of.map_or(0, |size| self.length.saturating_sub(1) / u32::from(size.get()))
    }

    /// Returns the reset that answers this segment where no connection exists (RFC 9293 section 3.10.7.1). `None` if the
    /// segment is a reset itself.
    pub fn reset_reply(&self) -> Option<TcpSegment> {
        if self.has(TcpFlags::RST) {
            return None;
        }
        Some(if self.has(TcpFlags::ACK) {
            TcpSegment { seq: self.ack, flags: TcpFlags::RST, ..TcpSegment::default() }
        } else {
            let flags = TcpFlags::RST | TcpFlags::ACK;
            TcpSegment { ack: self.end(), flags, ..TcpSegment::default() }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_answers_by_the_acknowledgement_or_acknowledges() {
        let with = TcpSegment { seq: 5, ack: 9, flags: TcpFlags::ACK, ..TcpSegment::default() };
        assert_eq!(
            with.reset_reply().map(|reset| (reset.seq, reset.flags)),
            Some((9, TcpFlags::RST))
        );
        let syn = TcpSegment { seq: 5, length: 2, flags: TcpFlags::SYN, ..TcpSegment::default() };
        assert_eq!(syn.reset_reply().map(|reset| (reset.seq, reset.ack)), Some((0, 8)));
        let reset = TcpSegment { flags: TcpFlags::RST, ..TcpSegment::default() };
        assert_eq!(reset.reset_reply(), None);
    }

    #[test]
    fn cookies_hold_at_most_16_bytes_and_blocks_are_four() {
        assert_eq!(FastOpenCookie::new(&[1; 17]), None);
        assert_eq!(FastOpenCookie::new(&[1; 16]).map(|cookie| cookie.bytes().len()), Some(16));
        let mut blocks = SackBlocks::default();
        assert!((0..4).all(|at| blocks.push(at, at + 1)) && !blocks.push(9, 10));
        assert_eq!(blocks.iter().last(), Some((3, 4)));
    }
}
