//! The rings between a port's client and its driver, in one region.
//!
//! ```text
//! word    0  ring of output: 48 entries of 64 words   (client to driver)
//!      3088  ring of input:  48 entries of 64 words   (driver to client)
//!      6176  end
//!
//! entry     0 kind (byte 0), bytes here (bytes 2 and 3) | 1 to 63 bytes, or as the kind says
//! kinds     0 bytes | 1 drain (output), connected: 1 where open (input) | 2 window: rows, columns (16 bits each) | 3 break
//! ```
//! An entry of output is taken when the device has its bytes. Both sides count bytes ([`super::Position`]), so they
//! know of each byte whether the device has it, also of bytes in entries that a dead driver had not taken.
use rt::ring::{Corrupt, words_for};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Number of entries of each ring.
pub(crate) const ENTRIES: usize = 48;
/// Bytes that one entry holds.
pub(crate) const ENTRY_BYTES: usize = 504;
const RING_WORDS: usize = words_for::<EncodedEntry>(ENTRIES);
/// Sizes of the two rings, in words.
pub(crate) const RINGS: [usize; 2] = [RING_WORDS; 2];
const _: () = assert!(RING_WORDS == 3088 && size_of::<EncodedEntry>() == 512);

const BYTES: u8 = 0;
const DRAIN: u8 = 1;
const CONNECTED: u8 = 1;
const WINDOW: u8 = 2;
const BREAK: u8 = 3;

/// An entry in its encoded form.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct EncodedEntry {
    kind: u8,
    unused: u8,
    length: u16,
    unused_more: [u8; 4],
    bytes: [u8; ENTRY_BYTES],
}

/// An entry from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "nearly all are bytes, kept in place")]
pub(crate) enum Output {
    Bytes(Chunk),
    /// A request to drain: the entry is taken when everything before it has left the device.
    Drain,
}

/// An entry from the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "nearly all are bytes, kept in place")]
pub(crate) enum InputEntry {
    Bytes(Chunk),
    Connected { is_open: bool },
    Window { rows: u16, columns: u16 },
    Break,
}

/// The bytes of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    length: u16,
    bytes: [u8; ENTRY_BYTES],
}

impl Chunk {
    /// Takes as many of `bytes` as fit.
    pub(crate) fn first_of(bytes: &[u8]) -> Chunk {
        let mut chunk =
            Chunk { length: bytes.len().min(ENTRY_BYTES) as u16, bytes: [0; ENTRY_BYTES] };
        chunk.bytes.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        chunk
    }
    pub(crate) fn as_slice(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

impl EncodedEntry {
    fn new(kind: u8, chunk: Chunk) -> EncodedEntry {
        let (unused, unused_more) = (0, [0; 4]);
        EncodedEntry { kind, unused, length: chunk.length, unused_more, bytes: chunk.bytes }
    }

    fn chunk(&self) -> Result<Chunk, Corrupt> {
        let fits = usize::from(self.length) <= ENTRY_BYTES;
        fits.then_some(Chunk { length: self.length, bytes: self.bytes }).ok_or(Corrupt)
    }
}

impl Output {
    pub(crate) fn encode(&self) -> EncodedEntry {
        match self {
            Output::Bytes(chunk) => EncodedEntry::new(BYTES, *chunk),
            Output::Drain => EncodedEntry::new(DRAIN, Chunk::first_of(&[])),
        }
    }
    /// Decodes an entry of output.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub(crate) fn decode(entry: &EncodedEntry) -> Result<Output, Corrupt> {
        match entry.kind {
            BYTES => entry.chunk().map(Output::Bytes),
            DRAIN => Ok(Output::Drain),
            _ => Err(Corrupt),
        }
    }
}

impl InputEntry {
    pub(crate) fn encode(&self) -> EncodedEntry {
        match self {
            InputEntry::Bytes(chunk) => EncodedEntry::new(BYTES, *chunk),
            InputEntry::Connected { is_open } => {
                EncodedEntry::new(CONNECTED, Chunk::first_of(&[u8::from(*is_open)]))
            }
            InputEntry::Window { rows, columns } => {
                let [low, high] = rows.to_le_bytes();
                let [columns_low, columns_high] = columns.to_le_bytes();
                EncodedEntry::new(WINDOW, Chunk::first_of(&[low, high, columns_low, columns_high]))
            }
            InputEntry::Break => EncodedEntry::new(BREAK, Chunk::first_of(&[])),
        }
    }
    /// Decodes an entry of input.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub(crate) fn decode(entry: &EncodedEntry) -> Result<InputEntry, Corrupt> {
        let [first, second, third, fourth, ..] = entry.bytes;
        match entry.kind {
            BYTES => entry.chunk().map(InputEntry::Bytes),
            CONNECTED => Ok(InputEntry::Connected { is_open: first != 0 }),
            WINDOW => {
                let rows = u16::from_le_bytes([first, second]);
                Ok(InputEntry::Window { rows, columns: u16::from_le_bytes([third, fourth]) })
            }
            BREAK => Ok(InputEntry::Break),
            _ => Err(Corrupt),
        }
    }
}
