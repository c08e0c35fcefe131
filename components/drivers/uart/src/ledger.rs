//! State that outlives the driver of a port: the number of bytes that its chip was given, and the last bytes that
//! the chip delivered.
//!
//! ```text
//! word  0  receipt of the last byte of output; its number counts bytes
//!       1  READY, once the chip was set up
//!      64  receipts of the last 448 bytes of input: that of byte N at 64 + N % 448
//! receipt  number of the byte, from 1, cut to 32 bits << 32 | the byte
//! ```
//! The nucleus writes a receipt in one step with the access of the chip, so the two always agree when the driver
//! dies. Numbers are the client's ([`Position`]).
use interfaces::terminal::Position;
use rt::device::{DmaBuffer, Receipt};

/// Length of a port's ledger.
pub(crate) const BYTES: usize = 4096;
/// The greatest number of bytes of input that the driver may have taken and not handed over.
pub(crate) const INPUT_MAX: usize = 448;
const SENT: usize = 0;
const STATE: usize = 8;
const INPUT: usize = 64 * 8;
const _: () = assert!(INPUT + INPUT_MAX * 8 == BYTES);

const READY: u64 = 0x5541_5254;
/// The greatest number of bytes by which the chip can be ahead of its client's position. A number beyond that is invalid.
const AHEAD_MAX: u32 = 1 << 20;

/// The ledger of a port.
#[derive(Debug)]
pub(crate) struct Ledger(DmaBuffer);

impl Ledger {
    /// Makes a ledger of that memory, which has [`BYTES`] bytes.
    pub(crate) fn new(memory: DmaBuffer) -> Ledger {
        Ledger(memory)
    }

    /// Returns whether an earlier driver set the chip up.
    pub(crate) fn is_ready(&self) -> bool {
        self.0.load64(STATE) == READY
    }

    pub(crate) fn set_ready(&self) {
        self.0.store64(STATE, READY);
    }

    /// Returns the place of the receipt of byte `number` of output.
    pub(crate) fn output(&self, number: u64) -> Receipt<'_> {
        Receipt { buffer: &self.0, offset: SENT, number: number as u32 }
    }

    /// Returns the place of the receipt of byte `number` of input.
    pub(crate) fn input(&self, number: u64) -> Receipt<'_> {
        Receipt { buffer: &self.0, offset: place(number), number: number as u32 }
    }

    /// Returns the number of bytes that the chip was given. The client knows of the first `position.sent`.
    pub(crate) fn sent(&self, position: Position) -> u64 {
        let number = (self.0.load64(SENT) >> 32) as u32;
        let ahead = number.wrapping_sub(position.sent as u32);
        position.sent + if ahead <= AHEAD_MAX { u64::from(ahead) } else { 0 }
    }

    /// Returns the number of bytes that the chip was given, cut to 32 bits.
    pub(crate) fn output_end(&self) -> u64 {
        self.0.load64(SENT) >> 32
    }

    /// Returns the number of the last byte of input, cut to 32 bits.
    pub(crate) fn input_end(&self) -> u64 {
        let receipts = (0..INPUT_MAX).map(|at| self.0.load64(INPUT + at * 8));
        receipts.map(|receipt| receipt >> 32).max().unwrap_or(0)
    }

    /// Returns the input behind `position.received`.
    pub(crate) fn received(&self, position: Position) -> impl Iterator<Item = u8> {
        let numbers = (1..=INPUT_MAX as u64).map(move |behind| position.received + behind);
        numbers.map_while(|number| {
            let receipt = self.0.load64(place(number));
            ((receipt >> 32) as u32 == number as u32).then_some(receipt as u8)
        })
    }
}

fn place(number: u64) -> usize {
    INPUT + (number % INPUT_MAX as u64) as usize * 8
}
