//! Options of TCP: maximum segment size (RFC 9293), window scale and timestamps (RFC 7323), SACK (RFC 2018), Fast Open (RFC 7413).
//!
//! A malformed option is treated as Linux does (`net/ipv4/tcp_input.c`): one of a wrong length for its kind is passed over, and one
//! with no possible length ends the list; what came before it stays.
use crate::{Full, HeaderWriter};

const END: u8 = 0;
const NOTHING: u8 = 1;
const SEGMENT_SIZE: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
const FAST_OPEN: u8 = 34;
const EXPERIMENT: u8 = 254;
/// The number by which the experimental option is known as Fast Open.
const FAST_OPEN_MAGIC: [u8; 2] = [0xf9, 0x89];

/// The greatest window scale (RFC 7323, section 2.3).
pub const WINDOW_SCALE_MAX: u8 = 14;
/// SACK blocks of a segment, at most.
pub const SACK_BLOCKS_MAX: usize = 4;
/// Bytes of a Fast Open cookie, at most.
pub const COOKIE_MAX: usize = 16;
const COOKIE_MIN: usize = 4;

/// A range of received bytes: the number of the first, and of the one behind the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlock {
    /// The first byte.
    pub start: u32,
    /// The byte behind the last.
    pub end: u32,
}

/// The SACK blocks of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [SackBlock; SACK_BLOCKS_MAX],
    count: u8,
}

impl SackBlocks {
    /// Returns the blocks.
    pub fn as_slice(&self) -> &[SackBlock] {
        self.blocks.get(..usize::from(self.count)).unwrap_or_default()
    }
}

impl FromIterator<SackBlock> for SackBlocks {
    /// Takes the first four.
    fn from_iter<I: IntoIterator<Item = SackBlock>>(blocks: I) -> SackBlocks {
        let mut all = SackBlocks::default();
        for (place, block) in all.blocks.iter_mut().zip(blocks) {
            *place = block;
            all.count += 1;
        }
        all
    }
}

/// The timestamps of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpTimestamps {
    /// The sender's clock.
    pub value: u32,
    /// The receiver's clock, as the sender last saw it.
    pub echo: u32,
}

/// A Fast Open cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastOpenCookie {
    length: u8,
    bytes: [u8; COOKIE_MAX],
}

impl FastOpenCookie {
    /// The request for a cookie.
    pub const REQUEST: FastOpenCookie = FastOpenCookie { length: 0, bytes: [0; COOKIE_MAX] };

    /// Returns `bytes` as a cookie, if there are zero or an even number from 4 to 16.
    pub fn new(bytes: &[u8]) -> Option<FastOpenCookie> {
        let length = bytes.len();
        let is_sound = length == 0 || length >= COOKIE_MIN && length.is_multiple_of(2);
        let mut cookie = FastOpenCookie { length: length as u8, bytes: [0; COOKIE_MAX] };
        cookie.bytes.get_mut(..length)?.copy_from_slice(bytes);
        is_sound.then_some(cookie)
    }
    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

/// The kind of the segment that has options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentStage {
    /// SYN is set.
    Opening,
    /// SYN is not set: options that only open a connection are ignored.
    Open,
}

/// The options of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// The greatest segment that the sender takes.
    pub segment_size: Option<u16>,
    /// The shift of windows, at most [`WINDOW_SCALE_MAX`].
    pub window_scale: Option<u8>,
    /// The sender understands SACK.
    pub is_sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<TcpTimestamps>,
    /// The Fast Open cookie, or the request for one.
    pub fast_open: Option<FastOpenCookie>,
    /// The received ranges.
    pub sack: SackBlocks,
}

impl TcpOptions {
    /// Parses the bytes of options.
    pub fn parse(mut bytes: &[u8], stage: SegmentStage) -> TcpOptions {
        let mut options = TcpOptions::default();
        loop {
            match bytes {
                [] | [END, ..] => return options,
                [NOTHING, rest @ ..] => bytes = rest,
                [kind, length, ..] if *length >= 2 => {
                    let Some((option, rest)) = bytes.split_at_checked((*length).into()) else {
                        return options;
                    };
                    options.take(*kind, option.get(2..).unwrap_or_default(), stage);
                    bytes = rest;
                }
                _ => return options,
            }
        }
    }

    fn take(&mut self, kind: u8, body: &[u8], stage: SegmentStage) {
        let is_opening = stage == SegmentStage::Opening;
        match (kind, body) {
            (SEGMENT_SIZE, [high, low]) if is_opening => {
                let size = u16::from_be_bytes([*high, *low]);
                if size > 0 {
                    self.segment_size = Some(size);
                }
            }
            (WINDOW_SCALE, [shift]) if is_opening => {
                self.window_scale = Some((*shift).min(WINDOW_SCALE_MAX));
            }
            (SACK_PERMITTED, []) if is_opening => self.is_sack_permitted = true,
            (TIMESTAMPS, [a, b, c, d, e, f, g, h]) => {
                let value = u32::from_be_bytes([*a, *b, *c, *d]);
                let echo = u32::from_be_bytes([*e, *f, *g, *h]);
                self.timestamps = Some(TcpTimestamps { value, echo });
            }
            (SACK, body) => {
                if let (blocks @ [_, ..], []) = body.as_chunks::<8>() {
                    let blocks = blocks.iter().map(|[a, b, c, d, e, f, g, h]| SackBlock {
                        start: u32::from_be_bytes([*a, *b, *c, *d]),
                        end: u32::from_be_bytes([*e, *f, *g, *h]),
                    });
                    self.sack = blocks.collect();
                }
            }
            (FAST_OPEN, cookie) if is_opening => self.take_cookie(cookie),
            (EXPERIMENT, body) if is_opening => {
                if let Some(cookie) = body.strip_prefix(&FAST_OPEN_MAGIC) {
                    self.take_cookie(cookie);
                }
            }
            _ => {}
        }
    }
    fn take_cookie(&mut self, bytes: &[u8]) {
        if let Some(cookie) = FastOpenCookie::new(bytes) {
            self.fast_open = Some(cookie);
        }
    }
    /// Writes the options, padded to words, in the order in which Linux writes them. SACK blocks that do not fit are left out.
    ///
    /// # Errors
    /// [`Full`] if they do not fit into `writer`.
    pub fn write(&self, writer: &mut HeaderWriter<'_>) -> Result<(), Full> {
        if let Some(size) = self.segment_size {
            let [high, low] = size.to_be_bytes();
            writer.put(&[SEGMENT_SIZE, 4, high, low])?;
        }
        match (self.is_sack_permitted, self.timestamps.is_some()) {
            (true, true) => writer.put(&[SACK_PERMITTED, 2])?,
            (true, false) => writer.put(&[NOTHING, NOTHING, SACK_PERMITTED, 2])?,
            (false, true) => writer.put(&[NOTHING, NOTHING])?,
            (false, false) => {}
        }
        if let Some(timestamps) = self.timestamps {
            writer.put(&[TIMESTAMPS, 10])?;
            writer.put(&timestamps.value.to_be_bytes())?;
            writer.put(&timestamps.echo.to_be_bytes())?;
        }
        if let Some(shift) = self.window_scale {
            writer.put(&[NOTHING, WINDOW_SCALE, 3, shift])?;
        }
        self.write_cookie(writer)?;
        self.write_sack(writer)
    }
    fn write_cookie(&self, writer: &mut HeaderWriter<'_>) -> Result<(), Full> {
        let Some(cookie) = self.fast_open else { return Ok(()) };
        writer.put(&[FAST_OPEN, cookie.length + 2])?;
        writer.put(cookie.as_slice())?;
        // The length is even, so the padding is two bytes or none.
        if cookie.length.is_multiple_of(4) { writer.put(&[NOTHING; 2]) } else { Ok(()) }
    }
    fn write_sack(&self, writer: &mut HeaderWriter<'_>) -> Result<(), Full> {
        let room = crate::tcp::OPTIONS_MAX.saturating_sub(writer.length() + 4) / 8;
        let all = self.sack.as_slice();
        let blocks = all.get(..all.len().min(room)).unwrap_or_default();
        if blocks.is_empty() {
            return Ok(());
        }
        writer.put(&[NOTHING, NOTHING, SACK, 2 + 8 * blocks.len() as u8])?;
        for block in blocks {
            writer.put(&block.start.to_be_bytes())?;
            writer.put(&block.end.to_be_bytes())?;
        }
        Ok(())
    }
}
